"""Workers and agents over each provider's wire format, with a server that says what a script tells
it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.support.served_models import models_over, settings_for
from tests.tools.calling import request
from wavewright.engine.rehearsal.fake_model.replies import (
    calling_tool,
    cut_at_length,
    failing,
    over_context,
    structured,
)
from wavewright.engine.rehearsal.fake_model.request import WIRES, Wire
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for, offering
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import Registry, Tool, ToolError, load_pack, make_tool
from wavewright.tools.functions.injected import TextChunk
from wavewright.tools.functions.tool import AgentToolCall, Emission
from wavewright.tools.workers import Services, agent_tool, make_services, make_worker

PERSON: JsonObject = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}},
}
RECORDS: JsonObject = {"records": [{"record": {"name": "Arthas"}, "quotes": ["Arthas took it"]}]}
QUESTION: JsonObject = {"text": "Arthas took it.", "record_schema": PERSON}


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as running:
        yield running


def made(
    server: FakeModelServer,
    folder: Path,
    wire: Wire,
    make: Callable[[Services], Tool],
    params: JsonObject,
    *,
    attempts: int = 2,
) -> tuple[Json, list[Emission]]:
    """Call a tool over a model behind this wire."""
    emitted: list[Emission] = []

    async def call() -> Json:
        async with models_over(server, folder, wire, attempts=attempts) as asking:
            services = make_services(
                settings_for(server, folder, wire), asking.models, asking.budget_store
            )
            tool = make(services)
            asked: Callable[..., Awaitable[Json]] = tool.call
            return await asked(replace(request(params), emit=emitted.append))

    return anyio.run(call), emitted


def worker(name: str, services: Services) -> Tool:
    found = next(one for one in load_pack("text").workers if one.spec.name == name)
    return make_worker(found, services)


def list_letters(year: int) -> list[str]:
    """List letters."""
    return [f"letter {number} of {year}" for number in range(400)]


def count(letters: list[str]) -> int:
    """Count letters."""
    return len(letters)


def agent(services: Services) -> Tool:
    tools = Registry([make_tool(list_letters), make_tool(count)])
    goal = Goal(
        name="g",
        job="j",
        text="t",
        inputs={},
        tools=tuple(AvailableTool(name=name) for name in tools),
    )
    return agent_tool(services, tools, goal)


@pytest.mark.parametrize("wire", WIRES)
def test_a_worker_gets_its_answer_in_the_providers_own_way(
    server: FakeModelServer, tmp_path: Path, wire: Wire
) -> None:
    server.answer(RECORDS, when=asked_for("extract_records"))

    output, emitted = made(server, tmp_path, wire, partial(worker, "extract_records"), QUESTION)

    assert isinstance(output, dict)
    assert output["method"] == "agent"
    assert "'record': {'name': 'Arthas'}" in str(output["records"])
    assert [type(one) for one in emitted] == [ModelUse, RungRecord]


@pytest.mark.parametrize("wire", WIRES)
def test_a_text_is_shown_while_it_is_written(
    server: FakeModelServer, tmp_path: Path, wire: Wire
) -> None:
    words = "A long story made short, in more than a few words. " * 40
    server.answer(words.strip())

    output, emitted = made(
        server, tmp_path, wire, partial(worker, "summarize_content"), {"content": "A long story."}
    )
    pieces = [one.text for one in emitted if isinstance(one, TextChunk)]

    assert isinstance(output, dict)
    assert output["summary"] == "".join(pieces) == words.strip()
    assert len(pieces) > 1


@pytest.mark.parametrize("wire", WIRES)
def test_an_agent_passes_a_large_output_on_by_its_handle(
    server: FakeModelServer, tmp_path: Path, wire: Wire
) -> None:
    server.answer(
        calling_tool("list_letters", year=1999),
        calling_tool("count", letters="@call_1"),
        calling_tool("no_such_tool", letters="@call_1"),
        "There are 400.",
        when=offering("count"),
    )

    output, emitted = made(server, tmp_path, wire, agent, {"task": "How many letters?"})
    calls = [one for one in emitted if isinstance(one, AgentToolCall)]

    assert isinstance(output, dict)
    assert output["answer"] == "There are 400."
    assert [(call.tool, call.status) for call in calls] == [("list_letters", "ok"), ("count", "ok")]
    collected = output["collected"]
    assert isinstance(collected, dict)
    assert collected["call_2"] == 400
    # The model never read the letters that its view left out.
    assert "letter 200 of 1999" not in str([exchange.request for exchange in server.ledger])


@pytest.mark.parametrize("wire", WIRES)
def test_an_agents_answer_has_the_form_that_was_asked_for(
    server: FakeModelServer, tmp_path: Path, wire: Wire
) -> None:
    schema: JsonObject = {
        "type": "object",
        "required": ["letters"],
        "additionalProperties": False,
        "properties": {"letters": {"type": "integer"}},
    }
    # Where nothing forces it to answer by the output tool, a model chooses that tool among the
    # others.
    last = (
        calling_tool("answer", letters=400) if wire == "messages" else structured({"letters": 400})
    )
    server.answer(calling_tool("list_letters", year=1999), last)

    output, _ = made(server, tmp_path, wire, agent, {"task": "How many?", "output_schema": schema})

    assert isinstance(output, dict)
    assert output["answer"] == {"letters": 400}


def test_an_answer_cut_at_its_length_is_asked_for_again(
    server: FakeModelServer, tmp_path: Path
) -> None:
    server.answer(cut_at_length('{"records": [{"record": {"name": "Art'), RECORDS)

    output, emitted = made(server, tmp_path, "chat", partial(worker, "extract_records"), QUESTION)

    assert isinstance(output, dict)
    assert output["method"] == "agent"
    assert [one.outcome for one in emitted if isinstance(one, ModelUse)] == [
        "truncated",
        "answered",
    ]


def test_a_text_that_is_too_large_for_the_model_is_read_in_parts_of_half_its_size(
    server: FakeModelServer, tmp_path: Path
) -> None:
    server.answer(over_context(), {"records": []}, RECORDS)
    text = "Nobody was there. " * 300 + "Arthas took it."

    output, _ = made(
        server, tmp_path, "chat", partial(worker, "extract_records"), {**QUESTION, "text": text}
    )

    whole, *parts = server.requests
    assert isinstance(output, dict)
    assert output["method"] == "agent"
    assert [len(part.text) < len(whole.text) - len(text) // 3 for part in parts] == [True, True]


def test_an_input_that_is_too_large_for_the_model_is_shortened_once(
    server: FakeModelServer, tmp_path: Path
) -> None:
    server.answer(over_context(), "Nobody was there.")
    text = "Nobody was there. " * 300

    found = next(one for one in load_pack("text").workers if one.spec.name == "summarize_content")
    cutting = replace(
        found, spec=found.spec.model_copy(update={"longer_inputs": "shorten", "parts_of": None})
    )

    output, _ = made(server, tmp_path, "chat", partial(make_worker, cutting), {"content": text})

    first, second = server.requests
    assert isinstance(output, dict)
    assert len(second.text) < len(first.text) - len(text) // 3
    assert "was shortened from" in second.text


def test_a_provider_that_is_down_fails_the_step_as_one_to_be_tried_again(
    server: FakeModelServer, tmp_path: Path
) -> None:
    server.answer(failing(503))

    with pytest.raises(ToolError) as failed:
        made(
            server,
            tmp_path,
            "chat",
            partial(worker, "extract_records"),
            {**QUESTION, "text": "prose"},
            attempts=1,
        )

    assert failed.value.transient
