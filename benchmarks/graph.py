"""What the graph of documents costs at 10,000 entities: writes, corrections, and questions."""

from __future__ import annotations

import datetime as dt
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio

from benchmarks.measure import show_table
from wavewright.packs.knowledge.graph.tools import graph_tools
from wavewright.packs.knowledge.settings import GraphSettings
from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools.functions.tool import ToolCall

ENTITIES = 10_000
PER_CHUNK = 10
QUESTIONS = 10


def measure_graph() -> None:
    """Print the seconds of each tool over a graph of 10,000 entities, a statement and a relation
    for each.
    """
    chunks, records = _world()
    with tempfile.TemporaryDirectory() as folder:
        tools = {tool.signature.name: tool for tool in graph_tools(GraphSettings(), Path(folder))}

        def seconds(name: str, params: Mapping[str, Json]) -> float:
            started = time.perf_counter()
            anyio.run(tools[f"knowledge.{name}"].call, _request(name, params))
            return time.perf_counter() - started

        rows: list[list[object]] = [
            ["write_graph", f"{seconds('write_graph', {'records': records}):.2f} s"],
            [
                "write_graph, the same again",
                f"{seconds('write_graph', {'records': records}):.2f} s",
            ],
            ["write_graph, one chunk", f"{seconds('write_graph', {'records': records[:1]}):.2f} s"],
            ["retry_relations", f"{seconds('retry_relations', {}):.2f} s"],
            ["link_evidence", f"{seconds('link_evidence', {'chunks': chunks}):.2f} s"],
            ["merge_entities", f"{seconds('merge_entities', {}):.2f} s"],
            ["present_graph", f"{seconds('present_graph', {}):.2f} s"],
        ]
        questions: dict[str, Callable[[int], Mapping[str, Json]]] = {
            "search_graph": lambda number: {"query": f"keeper {number * 97}"},
            "neighbours": lambda number: {"entity": f"Keeper {number * 97}"},
        }
        for name, params in questions.items():
            taken = [seconds(name, params(number)) for number in range(QUESTIONS)]
            rows.append(
                [f"{name}, median of {QUESTIONS}", f"{1000 * statistics.median(taken):.1f} ms"]
            )
    show_table(f"A graph of {ENTITIES:,} entities", ["tool", "time"], rows)


def _world() -> tuple[list[Json], list[Json]]:
    chunks: list[Json] = []
    records: list[Json] = []
    for place in range(0, ENTITIES, PER_CHUNK):
        texts = {
            number: f"Keeper {number} relieves Keeper {number + 1}."
            for number in range(place, place + PER_CHUNK)
        }
        text, document = " ".join(texts.values()), f"{place}.md"

        def won(quote: str, *, of: str = text, name: str = document) -> JsonObject:
            start = of.index(quote)
            place: JsonObject = {
                "quote": quote,
                "document": name,
                "chunk": name,
                "start": start,
                "end": start + len(quote),
            }
            return {"origin": "agent", "evidence": [place]}

        chunks.append(
            {
                "id": document,
                "document": document,
                "title": document,
                "text": text,
                "start": 0,
                "end": len(text),
            }
        )
        records.append(
            {
                "chunk": document,
                "origin": "agent",
                "entities": [
                    {"name": f"Keeper {number}", "type": "person", **won(passage)}
                    for number, passage in texts.items()
                ],
                "observations": [
                    {"entity": f"Keeper {number}", "text": passage, **won(passage)}
                    for number, passage in texts.items()
                ],
                "relations": [
                    {
                        "source": f"Keeper {number}",
                        "relation": "relieves",
                        "target": f"Keeper {number + 1}",
                        **won(passage),
                    }
                    for number, passage in texts.items()
                ],
            }
        )
    return chunks, records


def _request(tool: str, params: Mapping[str, Json]) -> ToolCall:
    return ToolCall(
        RunId("run"), StepId("step"), tool, {**params}, StepKey("key"), dt.datetime.now(dt.UTC)
    )
