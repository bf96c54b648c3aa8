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
from wavewright.planner.types import Json, JsonSchema
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
