"""Whatever a server sends, a question ends in an answer or in a `ModelError`, and is told once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TypeAlias

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from tests.support.served_models import models_over, question
from wavewright.engine.rehearsal.fake_model.replies import RawBody
from wavewright.engine.rehearsal.fake_model.request import WIRES, Wire
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.planner.ports.model_port import ModelAnswer, ModelError
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.models.errors import fault_of

pytestmark = pytest.mark.anyio

FORM: JsonSchema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
USAGE: Json = {
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "total_tokens": 7,
    "input_tokens": 5,
    "output_tokens": 2,
}
CALL: Json = {"id": "c1", "type": "function", "function": {"name": "form", "arguments": '{"a": 1}'}}
CHAT: Json = {
    "id": "chat-1",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "scripted",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "words", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": USAGE,
}
RESPONSES: Json = {
    "id": "resp-1",
    "object": "response",
    "created_at": 1_700_000_000,
    "model": "scripted",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "words", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "f1",
            "call_id": "c1",
            "name": "form",
            "arguments": '{"a": 1}',
        },
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": USAGE,
}
MESSAGES: Json = {
    "id": "msg-1",
    "type": "message",
    "role": "assistant",
    "model": "scripted",
    "content": [
        {"type": "text", "text": "words"},
        {"type": "tool_use", "id": "c1", "name": "form", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": USAGE,
}
WHOLE: dict[Wire, Json] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}

STRANGE: list[Json] = [
    None,
    True,
    -1,
    0,
    1e308,
    "",
    "x",
    "\x00",
    [],
    {},
    [None],
    [[]],
    {"type": "alien"},
    ["x"],
    10**30,
]
Path_: TypeAlias = tuple[str | int, ...]


def places(value: Json, at: Path_ = ()) -> list[Path_]:
    """Return where a value holds others, itself included."""
    found = [at]
    match value:
        case dict():
            for key, inner in value.items():
                found += places(inner, (*at, key))
        case list():
            for number, inner in enumerate(value):
                found += places(inner, (*at, number))
        case _:
            pass
    return found


def replaced(value: Json, at: Path_, by: Json) -> Json:
    if not at:
        return by
    match value:
        case dict():
            return {
                key: replaced(one, at[1:], by) if key == at[0] else one
                for key, one in value.items()
            }
        case list():
            return [
                replaced(one, at[1:], by) if key == at[0] else one for key, one in enumerate(value)
            ]
        case _:
            return value


def strange_bodies(wire: Wire) -> list[Json]:
    """Return the wire's body with a strange value in each of its places, the same in every run."""
    draw = random.Random(wire)  # noqa: S311  nothing is kept secret by it
    body = WHOLE[wire]
    return [
        replaced(body, at, strange) for at in places(body) for strange in draw.sample(STRANGE, 4)
    ]


def streamed(body: Json) -> bytes:
    text = json.dumps(body)
    kind = body.get("type") if isinstance(body, dict) else ""
    return f"event: {kind}\ndata: {text}\n\ndata: [DONE]\n\n".encode()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_a_strange_body_is_an_answer_or_a_model_error(
    wire: Wire, *, is_streamed: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    bodies = strange_bodies(wire)
    kind = "text/event-stream" if is_streamed else "application/json"
    raw = [
        RawBody(
            streamed(one) if is_streamed else json.dumps(one).encode(),
            headers=(("content-type", kind),),
        )
        for one in bodies
    ]
    model_server.answer(*raw)
    ended: list[ModelAnswer | ModelError] = []
    async with models_over(model_server, tmp_path, wire, attempts=1) as asking:
        for _ in bodies:
            pieces: list[str] = []
            try:
                answer = await asking.models.ask(
                    question(schema=FORM, schema_name="form"),
                    on_use=asking.uses.append,
                    on_text=pieces.append if is_streamed else None,
                )
            except ModelError as error:
                ended.append(error)
            else:
                ended.append(answer)

    assert len(ended) == len(asking.uses) == len(bodies) > 80
    assert all(use.tokens >= 0 for use in asking.uses)


def chunk(text: str, finish: str | None = None, index: int = 0) -> Json:
    """Return a part of a streamed answer, or of a second one beside it."""
    delta: Json = {"content": text}
    part: Json = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "choices": [part]}


def events(*parts: Json, is_ended: bool = True) -> bytes:
    """Return a stream of events; without its last one it was cut."""
    ending = ["[DONE]"] if is_ended else []
    lines = [f"data: {text}\n\n" for text in (*map(json.dumps, parts), *ending)]
    return "".join(lines).encode()


def completion(finish: str = "stop", **members: Json) -> bytes:
    """Return a whole answer."""
    message: Json = {"role": "assistant", "content": '{"a": 1}'}
    choice: Json = {"index": 0, "message": message, "finish_reason": finish}
    body: JsonObject = {"id": "1", "object": "chat.completion", "model": "small"}
    return json.dumps({**body, "choices": [choice], **members}).encode()


STREAM, WHOLE_ANSWER = "text/event-stream", "application/json"


@pytest.mark.parametrize(
    ("kind", "body", "is_cut"),
    [
        pytest.param(
            STREAM,
            events(chunk('{"a": '), chunk('{"a": 2}', "stop", 1), chunk("1}", "stop")),
            False,
            id="two answers",
        ),
        pytest.param(STREAM, events(chunk('{"a": 1}')), False, id="an end without a reason"),
        pytest.param(
            STREAM,
            events(chunk('{"a": 1}', "eos_token")),
            False,
            id="a reason of its own",
        ),
        pytest.param(
            STREAM,
            events(chunk('{"a": 1}', "MAX_TOKENS")),
            True,
            id="a ceiling by another name",
        ),
        pytest.param(
            STREAM,
            events(chunk('{"a": 1}', "model_context_window_exceeded")),
            True,
            id="a ceiling of the context",
        ),
        pytest.param(
            STREAM,
            events(chunk('{"a": 1}', "stop"), {"choices": [], "usage": [1]}),
            False,
            id="a cost that is none",
        ),
        pytest.param(WHOLE_ANSWER, completion(), False, id="whole in place of a stream"),
        pytest.param(WHOLE_ANSWER, completion(""), False, id="whole, an empty reason"),
        pytest.param(
            "application/json; charset=utf-8",
            completion("eos_token", usage=None, created=None),
            False,
            id="whole, with a reason of its own",
        ),
        pytest.param(WHOLE_ANSWER, events(chunk('{"a": 1}', "stop")), False, id="mislabelled"),
    ],
)
async def test_an_answer_is_read_as_a_server_of_the_chat_language_sends_it(
    kind: str, body: bytes, *, is_cut: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(RawBody(body, headers=(("content-type", kind),)))
    async with models_over(model_server, tmp_path, attempts=1) as asking:
        answer = await asking.models.ask(question(max_tokens=9))

    assert (answer.text, answer.is_truncated) == ('{"a": 1}', is_cut)


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        pytest.param(
            WHOLE_ANSWER,
            b'{"error": {"message": "the model is loading"}}',
            "openai-chat:scripted sent an answer that cannot be used: the model is loading",
            id="an error as an answer",
        ),
        pytest.param(
            STREAM,
            events(chunk('{"a": 1}', "abort")),
            "openai-chat:scripted ended its answer in an error",
            id="an end in the middle",
        ),
        pytest.param(
            STREAM,
            events(chunk('{"a": 1}', "insufficient_system_resource")),
            "openai-chat:scripted ended its answer in an error",
            id="an end for want of a machine",
        ),
        pytest.param(
            WHOLE_ANSWER,
            completion("SAFETY"),
            "openai-chat:scripted refused to answer",
            id="a filter by another name",
        ),
        pytest.param(
            WHOLE_ANSWER,
            completion("guardrail_intervened"),
            "openai-chat:scripted refused to answer",
            id="a guardrail",
        ),
        pytest.param(
            STREAM,
            events(chunk('{"a": 1}'), is_ended=False),
            "openai-chat:scripted sent an answer that cannot be used",
            id="a cut",
        ),
    ],
)
async def test_what_a_server_says_in_place_of_an_answer_is_told(
    kind: str, body: bytes, message: str, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(RawBody(body, headers=(("content-type", kind),)))
    async with models_over(model_server, tmp_path, attempts=1) as asking:
        with pytest.raises(ModelError) as refused:
            await asking.models.ask(question())

    assert str(refused.value) == message


@pytest.mark.parametrize("body", [b"<html>Welcome</html>", b""], ids=["a page", "nothing"])
async def test_what_is_no_answer_of_a_model_is_told_with_the_address_that_gave_it(
    body: bytes, model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(RawBody(body, headers=(("content-type", "text/html"),)))
    async with models_over(model_server, tmp_path, attempts=1) as asking:
        with pytest.raises(ModelError) as refused:
            await asking.models.ask(question())

    assert refused.value.kind == "bad_answer"
    assert "127.0.0.1" in str(refused.value.hint)
    assert "/v1" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param("no json_schema here", ": no json_schema here", id="unwrapped by the library"),
        pytest.param({"detail": "no such form"}, ": no such form", id="of a web framework"),
        pytest.param(
            {"detail": [{"loc": ["body", "tools", 0], "msg": "Field required", "type": "missing"}]},
            ": body.tools.0: Field required",
            id="a list of a validator",
        ),
        pytest.param(
            {"detail": [{"msg": "too long"}, {"loc": "query", "msg": "odd"}]},
            ": too long; query: odd",
            id="two of a validator",
        ),
        pytest.param({"detail": ["too long"]}, ": too long", id="a list of texts"),
        pytest.param({"detail": {"error": {"message": "no"}}}, ": no", id="objects in each other"),
        pytest.param([{"error": {"message": "no"}}], ": no", id="a list of errors"),
        pytest.param({"errors": [{"detail": "too many"}]}, ": too many", id="JSON:API"),
        pytest.param({"title": "Bad", "detail": "no seed"}, ": no seed", id="a problem's detail"),
        pytest.param({"error": "Bad Request", "message": ["no n"]}, ": no n", id="beside its kind"),
        pytest.param({"message": '{"error": "no k"}'}, ": no k", id="JSON inside a text"),
        pytest.param({"message": "{odd"}, ": {odd", id="a text like JSON"),
        pytest.param({"Message": "not allowed"}, ": not allowed", id="in capitals"),
        pytest.param({"fault": {"faultstring": "too often"}}, ": too often", id="a gateway's"),
        pytest.param({"status": "no", "reason": "busy"}, ": busy", id="a reason"),
        pytest.param({"error": {"message": {"text": "no"}}}, ": no", id="a text in a message"),
        pytest.param({"error": {"type": "bad_form"}}, ": bad_form", id="its kind alone"),
        pytest.param({"detail": []}, "(HTTP 400)", id="an empty list"),
        pytest.param({"detail": None, "loc": ["body"]}, "(HTTP 400)", id="a place alone"),
        pytest.param("", "(HTTP 400)", id="nothing"),
        pytest.param({"error": {"message": "no tools"}}, ": no tools", id="OpenAI's own"),
        pytest.param("<html>Bad</html>", "(HTTP 400)", id="a page"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_server(body: object, told: str) -> None:
    fault = fault_of(ModelHTTPError(400, "small", body), "openai-chat:small", "")

    assert fault.message.endswith(told)
