"""What goes wrong between us and a model, as the asker sees it: each ends as it must, and is paid
for once.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import pytest

from tests.support.provider_fault_cases import LIST, ROWS, row
from tests.support.served_models import models_over, question
from wavewright.engine.rehearsal.fake_model.replies import (
    Answer,
    ClaimedUsage,
    Reply,
    broken_arguments,
    calling_tool,
    cut_at_length,
    cut_stream,
    denied,
    failing,
    filtered,
    gzip_bomb,
    many_calls,
    no_choices,
    no_json,
    over_context,
    overloaded,
    silence,
    slow_drip,
    with_usage,
)
from wavewright.engine.rehearsal.fake_model.request import WIRES, Wire
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.planner.ports.model_port import LoopLimits, LoopTool, ModelError, Turn
from wavewright.planner.types import Json, JsonObject, JsonSchema, RunId

pytestmark = pytest.mark.anyio

every_wire = pytest.mark.parametrize("wire", WIRES)


@pytest.mark.skipif(not LIST.is_file(), reason="the list does not lie beside this checkout")
def test_every_fault_of_the_list_has_a_name_here() -> None:
    assert [json.loads(line)["id"] for line in LIST.read_text().splitlines()] == list(ROWS)


@row("ls01")
@pytest.mark.usefixtures("waits_between_requests")
async def test_a_server_that_asks_to_wait_is_asked_again_when_it_said(
    row_id: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(overloaded(retry_after=2), "forty-two")
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)
        spent = await asking.spent()

    first, second = model_server.ledger
    assert answer.text == "forty-two"
    assert second.at - first.at >= 2
    assert [use.attempts for use in asking.uses] == [2]
    assert (
        spent.tokens
        == answer.use.tokens
        == second.request.character_count // 4 + len("forty-two") // 4
    )


@row("ls02")
@pytest.mark.usefixtures("waits_between_requests")
async def test_a_server_that_always_fails_is_given_up_before_the_calls_time_is(
    row_id: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(500))
    async with models_over(model_server, tmp_path, attempts=3) as asking:
        with pytest.raises(ModelError) as caught, anyio.fail_after(20):
            await asking.models.ask(question(timeout=20), on_use=asking.uses.append)

    assert len(model_server.requests) == 3
    assert caught.value.is_transient
    [use] = asking.uses
    assert (use.outcome, use.attempts) == ("failed", 3)
    assert use.seconds < 20


@row("ls03")
@pytest.mark.parametrize(
    "fault", [silence(), slow_drip("x" * 10_000, 0.01)], ids=["silence", "drip"]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_call_ends_with_its_time_whatever_comes_or_does_not(
    row_id: str, fault: Answer, *, stream: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(fault)
    pieces: list[str] = []
    async with models_over(model_server, tmp_path, "responses") as asking:
        with pytest.raises(ModelError) as caught, anyio.fail_after(10):
            await asking.models.ask(
                question(timeout=0.4),
                on_use=asking.uses.append,
                on_text=pieces.append if stream else None,
            )
        spent = await asking.spent()

    assert caught.value.kind == "timeout"
    assert [use.outcome for use in asking.uses] == ["timeout"]
    assert spent.calls == 1


@pytest.mark.parametrize(("clock", "most"), [(None, 0.4), (20.0, 0.4), (0.4, 20.0)])
async def test_a_call_takes_no_longer_than_its_ladder_or_the_settings_give_it(
    clock: float | None, most: float, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(silence())
    async with models_over(model_server, tmp_path, request_seconds=most) as asking:
        with pytest.raises(ModelError) as caught, anyio.fail_after(10):
            await asking.models.ask(question(timeout=clock))

    assert caught.value.kind == "timeout"
    assert "0.4 s" in str(caught.value)


@row("ls04")
@every_wire
async def test_a_stream_that_ends_without_a_reason_is_a_cut_answer(
    row_id: str, wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(cut_stream("so far, so good"))
    pieces: list[str] = []
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(
            question(), on_use=asking.uses.append, on_text=pieces.append
        )

    assert answer.is_truncated
    assert answer.text == "so far, so good"
    assert [use.outcome for use in asking.uses] == ["truncated"]


@every_wire
async def test_an_answer_that_met_its_ceiling_is_asked_for_once_more_with_twice_the_room(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(cut_at_length("so far"), "so far, so good")
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(question(max_tokens=50), on_use=asking.uses.append)

    assert (answer.text, answer.is_truncated) == ("so far, so good", False)
    assert [use.outcome for use in asking.uses] == ["truncated", "answered"]
    assert [request.max_tokens for request in model_server.requests] == [50, 100]


@every_wire
async def test_an_answer_that_meets_every_ceiling_says_that_it_is_cut(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(cut_at_length("so far"))
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)

    assert answer.is_truncated
    assert answer.text == "so far"
    assert len(model_server.requests) == 2


async def test_a_cut_answer_stands_where_more_room_is_refused(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(cut_at_length("so far"), denied())
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)

    assert (answer.text, answer.is_truncated) == ("so far", True)


@row("ls05")
async def test_an_answer_without_a_choice_is_asked_for_again_and_counted(
    row_id: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(no_choices(), "here it is")
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)

    assert answer.text == "here it is"
    assert [use.attempts for use in asking.uses] == [2]
    assert len(model_server.requests) == 2


@row("ls06")
@every_wire
async def test_what_a_filter_stops_is_a_refusal_and_not_asked_again(
    row_id: str, wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(filtered())
    async with models_over(model_server, tmp_path, wire) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(), on_use=asking.uses.append)

    assert caught.value.kind == "refused"
    assert not caught.value.is_transient
    assert [use.outcome for use in asking.uses] == ["refused"]
    assert len(model_server.requests) == 1


def noting(name: str, calls: list[JsonObject]) -> LoopTool:
    """Return a tool of an agent that notes how it is called."""

    async def call(arguments: JsonObject) -> Json:
        calls.append(arguments)
        return "noted"

    schema: JsonObject = {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "additionalProperties": False,
    }
    return LoopTool(name, "Note a number.", schema, call)


@row("ls08")
@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_a_call_whose_arguments_are_no_json_is_not_made(
    row_id: str, wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    calls: list[JsonObject] = []
    model_server.answer(
        broken_arguments("note", '{"number": 1'), calling_tool("note", number=2), "done"
    )
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.work(
            question(), [noting("note", calls)], LoopLimits(), on_use=asking.uses.append
        )

    assert calls == [{"number": 2}]
    assert answer.text == "done"


async def test_a_tool_that_nobody_offered_is_not_called(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    calls: list[JsonObject] = []
    model_server.answer(
        calling_tool("erase_everything", number=1), calling_tool("note", number=2), "done"
    )
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(
            question(), [noting("note", calls)], LoopLimits(), on_use=asking.uses.append
        )

    assert calls == [{"number": 2}]
    assert answer.text == "done"
    assert any("erase_everything" in request.last for request in model_server.requests)


@row("ls09")
@every_wire
async def test_no_call_is_made_beyond_the_limit_of_an_answer_that_asks_for_too_many(
    row_id: str, wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    calls: list[JsonObject] = []
    model_server.answer(many_calls("note", 200), "done")
    async with models_over(model_server, tmp_path, wire) as asking:
        await asking.models.work(
            question(),
            [noting("note", calls)],
            LoopLimits(tool_calls=30),
            on_use=asking.uses.append,
        )

    assert len(calls) <= 30
    assert all(isinstance(call["number"], int) and call["number"] < 30 for call in calls)


@row("ls10")
@pytest.mark.parametrize(
    ("wire", "claimed"),
    [
        *(pytest.param(wire, ClaimedUsage(0, 0), id=f"{wire}-zero") for wire in WIRES),
        # Anthropic's library takes no message without a count; OpenAI-compatible servers often send
        # none.
        *(
            pytest.param(wire, "missing", id=f"{wire}-missing")
            for wire in WIRES
            if wire != "messages"
        ),
    ],
)
async def test_tokens_that_nobody_counted_are_estimated_and_charged(
    row_id: str,
    wire: Wire,
    claimed: ClaimedUsage | Literal["missing"],
    model_server: FakeModelServer,
    tmp_path: Path,
) -> None:
    model_server.answer(with_usage("word " * 100, claimed))
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(question("why? " * 100), on_use=asking.uses.append)
        spent = await asking.spent()

    assert answer.use.is_estimated
    assert answer.use.input_tokens >= 125
    assert answer.use.output_tokens >= 125
    assert spent.tokens == answer.use.tokens


@row("ls11")
@pytest.mark.parametrize(
    "claimed",
    [ClaimedUsage(-500, -500), ClaimedUsage(3, -8), ClaimedUsage(3, 2, total=-5)],
    ids=["both", "one", "sum"],
)
@every_wire
async def test_a_negative_count_gives_nothing_back(
    row_id: str, wire: Wire, claimed: ClaimedUsage, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("an answer before", with_usage("an answer", claimed))
    async with models_over(model_server, tmp_path, wire) as asking:
        await asking.models.ask(question())
        before = await asking.spent()
        answer = await asking.models.ask(question())
        after = await asking.spent()

    assert answer.use.input_tokens > 0
    assert answer.use.output_tokens > 0
    assert after.tokens == before.tokens + answer.use.tokens


@row("ls12")
async def test_a_body_that_unpacks_to_ten_gigabytes_is_left_at_its_ceiling(
    row_id: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(gzip_bomb())
    async with models_over(model_server, tmp_path, attempts=1) as asking:
        with pytest.raises(ModelError) as caught, anyio.fail_after(20):
            await asking.models.ask(question(), on_use=asking.uses.append)

    assert caught.value.kind == "bad_answer"
    assert [use.outcome for use in asking.uses] == ["failed"]


@row("ls14")
@pytest.mark.parametrize("status", [401, 403])
@every_wire
async def test_a_denied_question_is_not_asked_again(
    row_id: str, wire: Wire, status: int, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(denied(status), "too late")
    async with models_over(model_server, tmp_path, wire) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(), on_use=asking.uses.append)

    assert caught.value.kind == "denied"
    assert caught.value.hint
    assert len(model_server.requests) == 1


@every_wire
async def test_a_question_too_large_for_the_model_says_so(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(over_context(), "too late")
    async with models_over(model_server, tmp_path, wire) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(), on_use=asking.uses.append)

    assert caught.value.kind == "over_context"
    assert len(model_server.requests) == 1


@every_wire
async def test_a_body_that_is_no_json_is_a_bad_answer(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(no_json())
    async with models_over(model_server, tmp_path, wire, attempts=2) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(), on_use=asking.uses.append)

    assert caught.value.kind == "bad_answer"
    assert [use.attempts for use in asking.uses] == [2]
    assert len(model_server.requests) == 2


async def test_a_connection_that_breaks_in_a_stream_never_looks_like_a_whole_answer(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(cut_stream("so far", connection=True))
    pieces: list[str] = []
    async with models_over(model_server, tmp_path, attempts=2) as asking:
        answer = await asking.models.ask(
            question(), on_use=asking.uses.append, on_text=pieces.append
        )

    assert answer.is_truncated
    assert "".join(pieces) == answer.text == "so far"
    assert [use.outcome for use in asking.uses] == ["truncated"]


async def test_nobody_at_the_address_is_unreachable(tmp_path: Path) -> None:
    with FakeModelServer() as gone:
        pass
    async with models_over(gone, tmp_path, attempts=2) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question())

    assert caught.value.kind == "unreachable"


async def test_half_a_character_in_a_question_keeps_nobody_from_asking(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("forty-two")
    turns = (Turn("half \udfff", "whole, please \ud800"),)
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question("why \ud83d", turns=turns))

    assert answer.text == "forty-two"
    assert model_server.requests[0].last == "whole, please ?"


@every_wire
async def test_half_a_character_from_a_tool_keeps_no_agent_from_going_on(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    async def call(arguments: JsonObject) -> Json:
        return {"said": ["half \ud83d"]}

    tool = LoopTool("look", "Look.", {"type": "object", "properties": {}}, call)
    model_server.answer(calling_tool("look"), "done")
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.work(question(), [tool], LoopLimits())

    assert answer.text == "done"
    assert "half ?" in model_server.requests[1].last


@every_wire
async def test_a_body_that_breaks_off_is_asked_for_again(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(cut_stream("so far", connection=True), "all of it")
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)
        spent = await asking.spent()

    assert (answer.text, answer.is_truncated) == ("all of it", False)
    assert [use.attempts for use in asking.uses] == [2]
    assert spent.calls == 2


async def test_a_model_that_is_down_is_replaced_by_the_next_of_the_chain(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(503), when=lambda request: request.model == "scripted")
    model_server.answer("from the other", when=lambda request: request.model == "other")
    async with models_over(
        model_server, tmp_path, attempts=2, fallbacks=["openai-chat:other"], is_forced=False
    ) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)

    assert answer.text == "from the other"
    assert answer.use.model == "openai-chat:other"
    assert [request.model for request in model_server.requests] == ["scripted", "scripted", "other"]
    assert [use.attempts for use in asking.uses] == [3]


async def test_a_rate_limit_that_lasts_four_answers_is_waited_for(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(*[overloaded(retry_after=0)] * 4, "forty-two")
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(), on_use=asking.uses.append)

    assert answer.text == "forty-two"
    assert [use.attempts for use in asking.uses] == [5]


async def test_a_run_in_which_a_provider_claims_what_cannot_be_asks_no_model_any_more(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(with_usage("first", ClaimedUsage(read=10**12, written=1)), "second")
    async with models_over(model_server, tmp_path) as asking:
        await asking.models.ask(replace(question(), run=RunId("one")))
        with pytest.raises(ModelError, match=r"claims 1,000,000,000,00\d tokens") as caught:
            await asking.models.ask(replace(question("again"), run=RunId("one")))
        other = await asking.models.ask(replace(question(), run=RunId("two")))

    assert caught.value.kind == "over_budget"
    assert other.text == "second"


async def test_a_loop_that_outgrows_the_model_goes_on_with_less_of_what_tools_returned(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    async def look(params: JsonObject) -> Json:
        return "x" * 40_000

    tool = LoopTool("look", "Look.", {"type": "object", "properties": {}}, look)
    model_server.answer(calling_tool("look"), over_context(), "done")
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.work(question(), [tool], LoopLimits())

    sizes = [one.request.character_count for one in model_server.ledger]
    assert answer.text == "done"
    assert sizes[2] < sizes[1] - 15_000


@every_wire
async def test_a_form_that_a_provider_refuses_is_asked_for_in_words(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    form: JsonSchema = {
        "type": "object",
        "properties": {"size of it": {"type": "string"}},
        "required": ["size of it"],
    }
    model_server.answer(
        failing(400),
        when=lambda request: bool(request.tools) or "json_schema" in json.dumps(request.body),
    )
    model_server.answer(Reply(text='{"size of it": "XL"}'))

    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(question(schema=form, schema_name="size"))

    assert answer.text == '{"size of it": "XL"}'
    assert "size of it" in model_server.requests[-1].instructions
