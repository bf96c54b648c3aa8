from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.support.served_models import models_over, question, settings_for
from wavewright.engine.rehearsal.fake_model.replies import (
    ApiError,
    RawBody,
    calling_tool,
    cut_stream,
    denied,
    failing,
    filtered,
    no_choices,
    slow_drip,
    structured,
)
from wavewright.engine.rehearsal.fake_model.request import WIRES, Wire
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.ports.model_port import ModelError, ModelUse, NamedCall, Turn
from wavewright.planner.types import Json, JsonSchema
from wavewright.tools.models import open_models

pytestmark = pytest.mark.anyio

OPEN: JsonSchema = {
    "type": "object",
    "properties": {"params": {"type": "object"}},
    "required": ["params"],
}
CLOSED: JsonSchema = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}

every_wire = pytest.mark.parametrize("wire", WIRES)


@every_wire
async def test_a_conversation_is_sent_in_its_order(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("well")
    turns = (Turn("first answer", "first reply"), Turn("second answer", "second reply"))
    async with models_over(model_server, tmp_path, wire) as asking:
        await asking.models.ask(question("the question", turns=turns, max_tokens=123))

    [request] = model_server.requests
    assert request.instructions == "Be short."
    assert [(one.role, one.text) for one in request.messages] == [
        ("user", "the question"),
        ("assistant", "first answer"),
        ("user", "first reply"),
        ("assistant", "second answer"),
        ("user", "second reply"),
    ]
    assert request.max_tokens == 123
    assert request.tools == ()


@every_wire
async def test_an_answer_of_a_form_is_forced_and_comes_back_unparsed(
    wire: Wire, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(structured({"params": {"a": [1, None]}}))
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(question(schema=OPEN, schema_name="emit_plan"))

    [request] = model_server.requests
    assert request.schema_name == "emit_plan"
    assert answer.text.replace(" ", "") == '{"params":{"a":[1,null]}}'
    assert answer.calls == ()


async def test_a_compatible_endpoint_is_asked_by_response_format(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(structured({"verdict": "yes"}))
    async with models_over(model_server, tmp_path) as asking:
        await asking.models.ask(question(schema=CLOSED, schema_name="verdict"))

    [request] = model_server.requests
    assert request.body is not None
    assert "verdict" in str(request.body["response_format"])
    assert request.tools == ()


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai-chat:qwen3", "max_tokens"),
        ("openai-chat:openai/gpt-6-luna", "max_completion_tokens"),
        ("ollama:gpt-oss", "max_tokens"),
        ("vllm:qwen3", "max_tokens"),
    ],
)
async def test_the_ceiling_is_sent_under_the_name_that_is_read(
    model: str, name: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("well")
    settings = replace(settings_for(model_server, tmp_path), model=model)
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(settings, budget_store, environment={}) as models,
    ):
        await models.ask(question(max_tokens=77))

    body = model_server.requests[0].body
    assert body is not None
    assert {key: value for key, value in body.items() if "max" in key} == {name: 77}


async def test_a_ceiling_that_is_refused_under_its_newer_name_is_not_sent_again(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(ApiError(400, "max_completion_tokens is too large"))
    settings = replace(settings_for(model_server, tmp_path), model="openai-chat:openai/gpt-6-luna")
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(settings, budget_store, environment={}) as models,
    ):
        with pytest.raises(ModelError, match="too large"):
            await models.ask(question(max_tokens=77))

    assert len(model_server.requests) == 1


async def test_arguments_that_are_no_json_come_back_as_they_came(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    broken = '{"verdict": "yes", '
    model_server.answer(
        replace(
            calling_tool("verdict"),
            calls=(replace(calling_tool("verdict").calls[0], arguments=broken),),
        )
    )
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(schema=CLOSED, schema_name="verdict"))

    assert answer.text == broken


async def test_tools_that_are_called_instead_of_answering_are_told(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(calling_tool("rm_rf", path="/"))
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(schema=CLOSED, schema_name="verdict"))

    assert answer.text == ""
    assert answer.calls == (NamedCall("rm_rf", '{"path": "/"}'),)


async def test_words_instead_of_the_form_come_back_as_words(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    said = 'Sure! ```json\n{"verdict": "no"}\n```'
    model_server.answer(said)
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(schema=CLOSED, schema_name="verdict"))

    assert answer.text == said


@pytest.mark.parametrize(("level", "is_forced"), [("medium", True), ("high", False)])
async def test_a_model_that_cannot_think_and_be_forced_thinks_only_when_much_is_asked(
    level: str, *, is_forced: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(structured({"params": {}}))
    async with models_over(model_server, tmp_path, "messages") as asking:
        await asking.models.ask(question(schema=OPEN, schema_name="emit", thinking=level))

    body = model_server.requests[0].body
    assert body is not None
    assert (
        body["tool_choice"] == {"type": "tool", "name": "emit"} or "any" in str(body["tool_choice"])
    ) == is_forced
    assert (
        "'type': 'enabled'" in str(body.get("thinking")) or "adaptive" in str(body.get("thinking"))
    ) != is_forced


@every_wire
@pytest.mark.parametrize("is_structured", [False, True])
async def test_an_answer_is_shown_while_it_is_written(
    wire: Wire, *, is_structured: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    lines: list[Json] = ["first " * 10 + "\n", "second " * 10 + "\n", "third"]
    model_server.answer(
        structured({"params": {"text": lines}}) if is_structured else "".join(map(str, lines))
    )
    pieces: list[str] = []
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(
            question(schema=OPEN if is_structured else None, schema_name="emit"),
            on_text=pieces.append,
        )

    assert model_server.requests[0].is_stream
    assert "".join(pieces) == answer.text
    assert is_structured or pieces == lines


async def test_the_models_that_stand_in_are_asked_in_turn_and_named(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(500), when=lambda request: request.model == "scripted")
    model_server.answer(denied(), when=lambda request: request.model == "second")
    model_server.answer("from the third", when=lambda request: request.model == "third")
    uses: list[ModelUse] = []
    settings = settings_for(
        model_server, tmp_path, attempts=2, fallbacks=["openai-chat:second", "openai-chat:third"]
    )
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(
            replace(settings, model_is_forced=False), budget_store, environment={}
        ) as models,
    ):
        answer = await models.ask(question(), on_use=uses.append)

    assert [request.model for request in model_server.requests] == [
        "scripted",
        "scripted",
        "second",
        "third",
    ]
    assert answer.text == "from the third"
    assert [(use.model, use.attempts, use.outcome) for use in uses] == [
        ("openai-chat:third", 4, "answered")
    ]


async def test_a_refusal_is_taken_to_the_next_model(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(filtered())
    settings = settings_for(model_server, tmp_path, fallbacks=["openai-chat:second"])
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(
            replace(settings, model_is_forced=False), budget_store, environment={}
        ) as models,
    ):
        with pytest.raises(ModelError) as caught:
            await models.ask(question())

    assert caught.value.kind == "refused"
    assert len(model_server.requests) == 2


async def test_where_no_model_answers_every_reason_is_told(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(denied(), when=lambda request: request.model == "scripted")
    model_server.answer(failing(503))
    settings = settings_for(model_server, tmp_path, attempts=1, fallbacks=["openai-chat:second"])
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(
            replace(settings, model_is_forced=False), budget_store, environment={}
        ) as models,
    ):
        with pytest.raises(ModelError) as caught:
            await models.ask(question())

    assert "openai-chat:scripted denied the request (HTTP 403)" in str(caught.value)
    assert "openai-chat:second is overloaded or out of order (HTTP 503)" in str(caught.value)
    assert caught.value.kind == "overloaded"
    assert caught.value.is_transient


async def test_what_an_error_repeats_of_the_question_is_left_out(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    prompt = "The patient's name is Ada Lovelace, and she lives in Ockham Park."
    model_server.answer(replace(failing(400), message=f"cannot parse: {prompt}"))
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(prompt), on_use=asking.uses.append)

    assert "Lovelace" not in f"{caught.value} {caught.value.hint} {asking.uses}"
    assert "repeats what was asked" in str(caught.value)


async def test_an_error_says_what_the_provider_said(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(replace(failing(400), message="max_tokens is too large"))
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question())

    assert (
        str(caught.value)
        == "openai-chat:scripted rejected the request (HTTP 400): max_tokens is too large"
    )


@every_wire
@pytest.mark.parametrize("streams", [False, True])
async def test_a_key_that_a_model_repeats_is_taken_out_everywhere(
    wire: Wire, *, streams: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(f"my key is {API_KEY}, keep it")
    pieces: list[str] = []
    async with models_over(model_server, tmp_path, wire) as asking:
        answer = await asking.models.ask(
            question(),
            on_use=asking.uses.append,
            on_text=pieces.append if streams else None,
        )

    assert API_KEY not in f"{answer} {pieces} {asking.uses}"
    assert "my key is" in answer.text
    assert not streams or "".join(pieces) == answer.text


async def test_a_key_in_a_providers_error_is_taken_out(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(replace(denied(401), message=f"Incorrect API key provided: {API_KEY}"))
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(), on_use=asking.uses.append)

    assert "Incorrect API key provided" in str(caught.value)
    assert API_KEY not in f"{caught.value} {caught.value.use} {asking.uses}"
    assert caught.value.__cause__ is None


async def test_an_answer_that_ignores_its_ceiling_is_cut_by_us(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("long " * 1000)
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(max_tokens=10), on_use=asking.uses.append)

    assert len(answer.text) == 160
    assert answer.is_truncated
    assert [use.outcome for use in asking.uses] == [answer.use.outcome] == ["truncated"]


async def test_a_known_secret_is_told_to_no_model_and_what_only_looks_like_one_is(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("noted")
    asked = question(
        f"the page says {API_KEY} and password=hunter2hunter2",
        instructions=f"never {API_KEY}",
        turns=(Turn(f"said {API_KEY}", f"no {API_KEY}"),),
    )
    async with models_over(model_server, tmp_path) as asking:
        await asking.models.ask(asked)
    [request] = model_server.requests

    assert API_KEY not in request.text
    assert "the page says [redacted] and password=hunter2hunter2" in request.text


async def test_a_key_that_lies_where_an_answer_is_cut_is_taken_out_before(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("x" * 150 + " " + API_KEY + " long" * 1000)
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(max_tokens=10))

    assert API_KEY[:9] not in answer.text


async def test_a_key_that_lies_where_an_error_is_cut_is_taken_out(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(replace(denied(401), message="No. " * 73 + API_KEY + " is no key" * 10))
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question())

    assert API_KEY[:6] not in str(caught.value)
    assert str(caught.value).endswith("No. …")


async def test_a_stream_that_turns_strange_after_a_word_is_not_shown_from_the_start_again(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    chunk = {"index": 0, "delta": {"content": "first words\n"}, "finish_reason": None}
    begun = {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": [chunk],
    }
    body = b"data: " + json.dumps(begun).encode() + b"\n\ndata: [1, 2]\n\n"
    model_server.answer(
        RawBody(body, headers=(("content-type", "text/event-stream"),)), "all of it"
    )
    pieces: list[str] = []
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question(), on_text=pieces.append)

    assert (answer.text, answer.is_truncated, pieces) == ("first words\n", True, ["first words\n"])


async def test_a_slow_stream_is_not_a_late_one(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(slow_drip("x" * 60, interval=0.02, piece=2))
    pieces: list[str] = []
    async with models_over(
        model_server, tmp_path, "responses", attempt_seconds=0.3, attempts=1
    ) as asking:
        answer = await asking.models.ask(question(), on_text=pieces.append)
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question())

    assert answer.text == "x" * 60
    assert (caught.value.kind, str(caught.value)) == (
        "timeout",
        "openai:scripted did not answer in 0.3 s",
    )
    assert "models.attempt_seconds" in (caught.value.hint or "")


@pytest.mark.usefixtures("waits_between_requests")
async def test_a_wait_longer_than_the_calls_time_is_told_and_not_waited_for(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(failing(429, retry_after=3600))
    async with models_over(model_server, tmp_path) as asking:
        with pytest.raises(ModelError) as caught, anyio.fail_after(5):
            await asking.models.ask(question(timeout=60))

    assert (caught.value.kind, caught.value.retry_after) == ("overloaded", 3600)
    assert "models.fallbacks" in (caught.value.hint or "")
    assert len(model_server.requests) == 1


async def test_a_stream_that_breaks_before_a_word_is_asked_for_again(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(cut_stream("", connection=True), "whole")
    pieces: list[str] = []
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(
            question(), on_use=asking.uses.append, on_text=pieces.append
        )

    assert (answer.text, answer.is_truncated, pieces) == ("whole", False, ["whole"])
    assert [use.attempts for use in asking.uses] == [2]


async def test_half_a_character_in_an_answer_is_replaced_and_said(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer("cut \ud83d off", "whole \U0001f600")
    async with models_over(model_server, tmp_path) as asking:
        texts = [
            (await asking.models.ask(question(), on_use=asking.uses.append)).text for _ in range(2)
        ]

    assert texts == ["cut \ufffd off", "whole \U0001f600"]
    assert [use.message for use in asking.uses] == [
        "it holds half a character, in whose place U+FFFD stands",
        "",
    ]


async def test_who_gives_up_leaves_no_request_behind(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(slow_drip("never comes", interval=5))
    uses: list[ModelUse] = []
    async with models_over(model_server, tmp_path) as asking:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: asking.models.ask(question(), on_use=uses.append))
            await anyio.to_thread.run_sync(model_server.wait_for_requests, 1)
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(model_server.wait_until_idle)

    assert [(use.outcome, use.message) for use in uses] == [
        ("failed", "given up before an answer came")
    ]


async def test_after_all_attempts_an_empty_answer_is_a_bad_one(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(no_choices())
    async with models_over(model_server, tmp_path, attempts=2) as asking:
        with pytest.raises(ModelError) as caught:
            await asking.models.ask(question(), on_use=asking.uses.append)

    assert caught.value.kind == "bad_answer"
    assert [(use.attempts, use.outcome) for use in asking.uses] == [(2, "failed")]
    assert caught.value.use == asking.uses[0]


async def test_a_question_names_its_rung_its_step_and_its_size(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(lambda request: f"{len(request.messages)}")
    async with models_over(model_server, tmp_path) as asking:
        answer = await asking.models.ask(question("12345", rung="agent", step="s1", index=3))

    assert (answer.use.rung, answer.use.step, answer.use.index) == ("agent", "s1", 3)
    assert answer.use.input_chars == len("Be short.\n12345")
