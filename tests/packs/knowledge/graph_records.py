"""Documents of a small world, and the records of their chunks."""

from __future__ import annotations

from pathlib import Path

from wavewright.packs.knowledge.graph.tools import graph_tools
from wavewright.packs.knowledge.models import Chunk, ChunkRecords, Origin
from wavewright.packs.knowledge.settings import GraphSettings
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.tool import Tool

TEXTS = {
    "keep.md": "Baron Aldo rules Fenmoor. The Baron was born in 1201. Fenmoor lies north of Tidegate.",
    "port.md": "Aldo was born in 1207. A Warden of Tidegate guards the Lamp. The Wardens keep watch.",
}


def chunk(document: str, text: str | None = None) -> Chunk:
    """Return a document as one chunk."""
    told = TEXTS[document] if text is None else text
    return Chunk(
        id=f"{document}-1", document=document, title=document, text=told, start=0, end=len(told)
    )


def entity(name: str, kind: str, quote: str, *aliases: str) -> JsonObject:
    return {"name": name, "type": kind, "aliases": [*aliases], "evidence": quote}


def observation(name: str, text: str) -> JsonObject:
    return {"entity": name, "text": text, "evidence": text}


def relation(source: str, told: str, target: str, quote: str) -> JsonObject:
    return {"source": source, "relation": told, "target": target, "evidence": quote}


def records(of: Chunk, origin: Origin = "agent", **kinds: list[JsonObject]) -> ChunkRecords:
    """Return the records of a chunk; their evidence is given as a quote."""
    made: dict[str, Json] = {}
    for kind, entries in kinds.items():
        made[kind] = [
            {**one, "origin": origin, "evidence": [_evidence(of, str(one["evidence"]))]}
            for one in entries
        ]
    return ChunkRecords.model_validate({"chunk": of.id, "origin": origin, **made})


def _evidence(of: Chunk, quote: str) -> JsonObject:
    start = max(of.text.find(quote), 0)
    return {
        "quote": quote,
        "document": of.document,
        "chunk": of.id,
        "start": start,
        "end": start + len(quote),
    }


def keep(origin: Origin = "agent") -> ChunkRecords:
    return records(
        chunk("keep.md"),
        origin,
        entities=[
            entity("Baron Aldo", "person", "Baron Aldo rules Fenmoor."),
            entity("The Baron", "person", "The Baron was born in 1201."),
            entity("Fenmoor", "place", "Baron Aldo rules Fenmoor."),
        ],
        observations=[observation("The Baron", "The Baron was born in 1201.")],
        relations=[
            relation("Baron Aldo", "rules", "Fenmoor", "Baron Aldo rules Fenmoor."),
            relation("Fenmoor", "lies north of", "tidegate!", "Fenmoor lies north of Tidegate."),
            relation("Fenmoor", "trades with", "Saltmarsh", "Fenmoor lies north of Tidegate."),
        ],
    )


def port(origin: Origin = "agent") -> ChunkRecords:
    return records(
        chunk("port.md"),
        origin,
        entities=[
            entity("Aldo", "person", "Aldo was born in 1207."),
            entity("Warden", "group", "A Warden of Tidegate guards the Lamp."),
            entity("Wardens", "group", "The Wardens keep watch."),
            entity("Tidegate", "place", "A Warden of Tidegate guards the Lamp."),
            entity("Lamp", "thing", "A Warden of Tidegate guards the Lamp."),
        ],
        observations=[
            observation("Aldo", "Aldo was born in 1207."),
            observation("Wardens", "The Wardens keep watch."),
        ],
        relations=[
            relation("Warden", "guards", "Lamp", "A Warden of Tidegate guards the Lamp."),
            relation("Wardens", "Guards", "Lamp", "A Warden of Tidegate guards the Lamp."),
        ],
    )


def tools_of(root: Path, settings: GraphSettings | None = None) -> dict[str, Tool]:
    """Return the tools over a graph in a folder, by the last part of their names."""
    made = graph_tools(settings or GraphSettings(), root)
    return {tool.signature.name.removeprefix("knowledge."): tool for tool in made}


def as_params(*given: ChunkRecords | Chunk) -> list[Json]:
    return [one.model_dump(mode="json") for one in given]
