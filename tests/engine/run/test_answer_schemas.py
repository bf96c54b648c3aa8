"""What a provider is told of the form of an answer, as it goes over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.unplanned_project import PLAN, write_job
from wavewright.engine.rehearsal.fake_model.request import Wire
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import Json, as_list, as_object


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_a_models_steps_have_the_parameters_of_the_tool_that_they_call(
    wavewright: CommandLine,
    project: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    wire: Wire,
) -> None:
    for name, value in model_server.environment(wire).items():
        monkeypatch.setenv(name, value)
    model_server.answer(PLAN, when=asked_for("plan"))

    answer = wavewright("plan", write_job(project))
    asked = model_server.requests[0].schema
    parameters = dict(_tool_parameters(asked))

    assert answer.code == 0
    assert parameters == {
        "list_notes": ["folder"],
        "read_note": ["path"],
        "rank_words": ["notes", "top"],
    }


def _tool_parameters(schema: Json) -> Iterator[tuple[str, list[str]]]:
    """Yield the tool that each form of a step calls, with its parameters, wherever it stands."""
    for part in as_list(schema):
        yield from _tool_parameters(part)
    members = as_object(as_object(schema).get("properties"))
    tool = as_object(members.get("tool")).get("const")
    if isinstance(tool, str):
        yield tool, [*as_object(as_object(members["params"])["properties"])]
        return
    for part in as_object(schema).values():
        yield from _tool_parameters(part)
