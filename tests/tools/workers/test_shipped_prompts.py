"""The shipped prompts of workers, whole: whoever changes one sees what the model will read."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.tools.calling import request
from tests.tools.scripted_models import Script, ScriptedModels, Step, project, serving
from wavewright.engine.run.project.tools import all_tools
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.ports.model_port import ModelCall
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import Registry, make_tool
from wavewright.tools.workers import agent_tool, make_services

TEXT = "Arthas, son of Terenas, took Frostmourne.\nHe was born in the year 5."
RECORD: JsonObject = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "born": {"type": "integer"}},
}
SOURCES: list[Json] = [
    {
        "source": "annals",
        "records": [{"name": "Arthas", "born": 5, "title": "Prince of Lordaeron"}],
    },
    {"source": "songs", "records": [{"name": "The Lich King", "weapon": "Frostmourne"}]},
]


UNPROVED: list[Script] = [
    {"records": [{"record": {"name": "Arthas"}, "quotes": ["He fell."]}]},
    {"records": list[Json]()},
]
NOTHING_SAME: list[Script] = [{"same": list[Json]()}]


def find_owner() -> dict[str, str]:
    """Find an owner."""
    return {"owner": "Arthas <Menethil>"}


def told(call: ModelCall) -> str:
    turns = "".join(
        f"\n===== turn =====\n{turn.answer}\n-----\n{turn.reply}" for turn in call.turns
    )
    return (
        f"===== instructions =====\n{call.instructions}\n===== prompt =====\n{call.prompt}{turns}"
    )


@pytest.mark.parametrize(
    ("tool", "params", "answers"),
    [
        pytest.param("summarize_content", {"content": TEXT}, ["A summary."], id="summary"),
        pytest.param(
            "summarize_content",
            {"content": TEXT, "focus": "weapons", "max_words": 20},
            ["A summary."],
            id="summary with a focus",
        ),
        pytest.param(
            "extract_records",
            {"text": TEXT, "record_schema": RECORD, "instructions": "Persons only."},
            UNPROVED,
            id="records, repaired once",
        ),
        pytest.param(
            "cross_reference", {"sources": SOURCES, "subject": "persons"}, NOTHING_SAME, id="names"
        ),
        pytest.param(
            "agent", {"task": "Who took it?", "context": {"it": "Frostmourne"}}, ["He."], id="agent"
        ),
    ],
)
def test_what_a_model_reads(
    tmp_path: Path,
    tool: str,
    params: JsonObject,
    answers: list[Script],
    snapshot: SnapshotAssertion,
) -> None:
    services, models = serving(tmp_path, *answers)

    anyio.run(all_tools(project(tmp_path), services)[tool].call, request(params))

    assert told(models.asked[-1]) == snapshot


def test_what_an_agent_reads_when_it_is_asked_again(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    script: list[Script] = ["He did, I believe.", {"who": "Arthas"}]
    models = ScriptedModels(script, [Step((("find_owner", {}),))])
    services = make_services(project(tmp_path), models)
    goal = Goal(name="g", job="j", text="t", inputs={}, tools=(AvailableTool(name="find_owner"),))
    tool = agent_tool(services, Registry([make_tool(find_owner)]), goal)
    schema: JsonObject = {
        "type": "object",
        "required": ["who"],
        "properties": {"who": {"type": "string"}},
    }

    anyio.run(tool.call, request({"task": "Who took it?", "output_schema": schema}))

    assert told(models.asked[-1]) == snapshot
