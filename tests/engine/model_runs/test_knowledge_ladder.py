"""Whole runs over notes that a model answers well, badly or not at all: each chunk takes the rung
that it should.
"""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.knowledge_project import (
    CREWS,
    FLEET,
    READING,
    REVIEW,
    Notes,
    boat_of,
    records_of,
)
from wavewright.engine.rehearsal.fake_model.replies import AnswerLike, denied, silence
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.service.operations.metrics import Metrics
from wavewright.executor.events.types import Event, ItemFinished, RungTaken
from wavewright.planner.types import Json, JsonObject

pytest.importorskip("selectolax")

NOTES: Final = {**FLEET, "weather.txt": "it rained all day and nobody came by.\n"}
LADDER: Final = "worker extract_chunk"


def calls(boat: str) -> list[Json]:
    """Return the calls of a graph's tools that say what the records say."""
    keeper = CREWS[boat]
    relation: JsonObject = {"from": keeper, "to": boat, "relationType": "commands"}
    entities: list[Json] = [
        {"name": boat, "entityType": "boat", "observations": [f"{boat} sails in winter."]},
        {"name": keeper, "entityType": "person", "observations": []},
    ]
    return [
        {"name": "create_relations", "arguments": {"relations": [relation]}},
        {"name": "create_entities", "arguments": {"entities": entities}},
    ]


def said_of(boat: str) -> str:
    """Return what the model answers about a boat."""
    whole = json.dumps(records_of(boat))
    written = calls(boat)
    return {
        "Petrel": whole,
        "Fulmar": f"```json\n{whole}\n```",
        "Gannet": f"First I call {json.dumps(written[0])}, then {json.dumps(written[1])}.",
        "Razorbill": f"```json\n{json.dumps({'tool_calls': written})}\n```",
        "Kittiwake": whole[: len(whole) // 3],
        "Shearwater": "I cannot help with that.",
    }[boat]


def reached(events: list[Event]) -> list[str]:
    """Return the rung that each chunk ended on, in the order of the chunks."""
    ends = {
        event.index: event.rung.rung
        for event in events
        if isinstance(event, RungTaken)
        and event.rung.ladder == LADDER
        and event.rung.outcome == "reached"
    }
    return [ends[index] for index in range(len(ends))]


def use(server: FakeModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a server the model, with a review that is content."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    server.answer(REVIEW, when=asked_for("review"))


def questions(server: FakeModelServer) -> list[str | None]:
    """Return the boat of each question about a chunk."""
    return [boat_of(one) for one in server.requests if READING in one.text]


def test_each_chunk_takes_the_rung_that_its_answers_leave(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(model_server, monkeypatch)
    for boat in CREWS:
        model_server.answer(said_of(boat), when=f"{boat} is a boat")
    model_server.answer("There is nothing.", when=READING)
    notes = Notes(tmp_path, wavewright, NOTES)

    package = notes.run("knowledge_graph")
    report, asked = notes.report, questions(model_server)

    events = notes.events(package)
    assert reached(events) == [
        "agent",
        "suggested",
        "generated",
        "agent",
        "suggested",
        "generated",
        "forced",
    ]
    [document] = package["documents"]
    won = {node["label"]: node["origin"] for node in document["content"]["graph"]["nodes"]}
    assert [won[boat] for boat in CREWS] == reached(events)[:-1]
    assert won["weather"] == "forced"
    assert package["review"]["confidence"] == 0.2
    assert "the output was put together from what the model suggested in its last message" in report
    assert "the output was made by code alone; no model wrote it" in report
    # What cannot be used is asked for once more; who says that it will not is not.
    assert {boat: asked.count(boat) for boat in CREWS} == {
        "Fulmar": 1,
        "Gannet": 2,
        "Kittiwake": 2,
        "Petrel": 1,
        "Razorbill": 2,
        "Shearwater": 1,
    }
    metrics = Metrics()
    for event in events:
        metrics.count_event(event, {})

    def value(series: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"wavewright_{series}", labels)

    for rung, times in {"agent": 2, "suggested": 2, "generated": 2, "forced": 1}.items():
        assert value("rungs_taken_total", ladder=LADDER, rung=rung, outcome="reached") == times
    assert value("rungs_taken_total", ladder=LADDER, rung="agent", outcome="fallen") == 5
    assert value("rung_seconds_count", ladder=LADDER, rung="agent") == 7
    assert value("model_requests_total", role="worker", name="extract_chunk", rung="agent") == len(
        asked
    )


def test_a_later_run_asks_again_for_the_chunks_that_no_answer_served(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(model_server, monkeypatch)
    for boat in CREWS:
        model_server.answer(said_of(boat), when=f"{boat} is a boat")
    notes = Notes(tmp_path, wavewright, FLEET)

    first = notes.run("knowledge_graph")
    asked = questions(model_server)
    again = notes.run("knowledge_graph")

    assert {*questions(model_server)[len(asked) :]} == {"Kittiwake", "Shearwater"}
    statuses = [event.status for event in notes.events(again) if isinstance(event, ItemFinished)]
    assert statuses.count("reused") == len(FLEET) - 2
    assert again["result"]["counts"] == first["result"]["counts"]


def test_a_model_that_dies_in_the_middle_leaves_no_chunk_without_a_record(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = threading.Event()

    def dying(request: FakeModelRequest) -> AnswerLike:
        boat = boat_of(request)
        assert boat is not None
        if boat != "Petrel":
            return records_of(boat)
        dead.set()
        return silence()

    def stop_when_dead(stack: ExitStack) -> None:
        assert dead.wait(30)
        stack.close()

    notes = Notes(tmp_path, wavewright, FLEET)
    with ExitStack() as stack:
        server = stack.enter_context(FakeModelServer())
        use(server, monkeypatch)
        server.answer(dying, when=READING)
        killer = threading.Thread(target=stop_when_dead, args=[stack])
        killer.start()
        package = notes.run("knowledge_graph")
        killer.join()

    assert reached(notes.events(package)) == ["agent"] * 3 + ["generated"] * 3
    assert package["review"]["confidence"] <= 0.6
    [document] = package["documents"]
    evidence = [node["evidence"] for node in document["content"]["graph"]["nodes"]]
    assert {*FLEET} == {quote["source"].split(",")[0] for quotes in evidence for quote in quotes}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(denied(), id="denied"),
        pytest.param("I can't assist with reading this.", id="refusal"),
        pytest.param("", id="nothing"),
        pytest.param('{"entities": []', id="cut"),
        pytest.param({"entities": [], "observations": [], "relations": []}, id="no record"),
    ],
)
def test_a_run_asks_again_what_code_made_in_the_place_of_a_model_that_failed(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    said: AnswerLike,
) -> None:
    use(model_server, monkeypatch)
    model_server.answer(said, when=READING)
    notes = Notes(tmp_path, wavewright, {"petrel.md": FLEET["petrel.md"]})

    failed = notes.run("knowledge_graph")
    model_server.reset()
    use(model_server, monkeypatch)
    model_server.answer(records_of("Petrel"), when=READING)
    healthy = notes.run("knowledge_graph")

    assert reached(notes.events(failed)) == ["generated"]
    assert reached(notes.events(healthy)) == ["agent"]
    assert any("knowledge_revisit" in one["because"] for one in failed["review"]["caps"])


def test_a_graph_of_first_sentences_is_not_achieved(
    tmp_path: Path, wavewright: CommandLine
) -> None:
    notes = Notes(tmp_path, wavewright, {"a.txt": "it rained.\n", "b.txt": "nobody came by.\n"})

    package = notes.run("knowledge_graph", code=1)

    assert package["review"]["goal_achieved"] is False
    assert package["review"]["confidence"] <= 0.1
    assert package["result"]["counts"]["entities"] == 2
    assert "fewer than a fifth of the chunks" in notes.report
