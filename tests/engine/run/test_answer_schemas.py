"""What a provider is told of the form of an answer, as it goes over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.unplanned_project import PLAN, write_job
from wavewright.engine.rehearsal.fake_model.request import Wire
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import JsonObject


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_a_models_steps_may_have_parameters_of_any_name(
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
    step = _inner(model_server.requests[0].schema, "properties", "steps", "items")
    params = _inner(step, "properties", "params")

    assert answer.code == 0
    assert params.get("additionalProperties") is not False


def _inner(schema: JsonObject | None, *path: str) -> JsonObject:
    assert schema is not None
    for key in path:
        schema = cast("JsonObject", schema[key])
    return schema
