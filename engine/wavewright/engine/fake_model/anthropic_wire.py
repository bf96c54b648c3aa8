"""Anthropic's Messages API as a server writes it: the body, the events of a stream, an error."""

from __future__ import annotations

import json
from collections.abc import Iterator

from wavewright.engine.fake_model.replies import ApiError, ClaimedUsage, Reply, ServerSentEvent, pieces
from wavewright.engine.fake_model.request import FakeModelRequest, FakeToolCall
from wavewright.planner.types import Json, JsonObject

_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def messages_body(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> JsonObject:
    """Return a whole message."""
    content: list[Json] = []
    if (reply.text or reply.refusal) and not reply.is_empty:
        content.append({"type": "text", "text": reply.text or reply.refusal})
    for place, call in enumerate(reply.calls):
        content.append({**_block(call, number, place), "input": _input(call)})
    body = _start(request, number)
    body["content"] = content
    body["stop_reason"] = None if reply.cut != "no" else _stop(reply)
    if tokens is not None:
        body["usage"] = {"input_tokens": tokens.read, "output_tokens": tokens.written}
    return body


def messages_frames(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> Iterator[ServerSentEvent]:
    """Yield the events of a streamed message; the last ones say why it ends, unless the stream is cut."""
    for content in _events(reply, request, tokens, number):
        yield ServerSentEvent(content, str(content["type"]))


def _events(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> Iterator[JsonObject]:
    # The client's library wants a usage at the start of a stream; nothing counted is nothing claimed.
    read = tokens.read if tokens else 0
    usage: JsonObject = {"input_tokens": read, "output_tokens": 0}
    started: JsonObject = {**_start(request, number), "usage": usage}
    yield {"type": "message_start", "message": started}
    index = 0
    text = "" if reply.is_empty else reply.text or reply.refusal
    if text:
        yield _opened(index, {"type": "text", "text": ""})
        for piece in pieces(text, reply.piece):
            yield _delta(index, {"type": "text_delta", "text": piece})
        if reply.cut == "no":
            yield {"type": "content_block_stop", "index": index}
        index += 1
    for place, call in enumerate(reply.calls):
        yield _opened(index, {**_block(call, number, place), "input": {}})
        for piece in pieces(call.arguments, reply.piece):
            yield _delta(index, {"type": "input_json_delta", "partial_json": piece})
        yield {"type": "content_block_stop", "index": index}
        index += 1
    if reply.cut != "no":
        return
    ending: JsonObject = {"stop_reason": _stop(reply), "stop_sequence": None}
    written = tokens.written if tokens else 0
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": written}}
    yield {"type": "message_stop"}


def anthropic_error(failure: ApiError) -> JsonObject:
    """Return the body of an error."""
    kind = _KINDS.get(failure.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": failure.message}}


def _start(request: FakeModelRequest, number: int) -> JsonObject:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _opened(index: int, block: JsonObject) -> JsonObject:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, delta: JsonObject) -> JsonObject:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _block(call: FakeToolCall, number: int, place: int) -> JsonObject:
    return {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": call.name}


def _input(call: FakeToolCall) -> Json:
    """Return the arguments as a value: this API has no place for a text that is no JSON."""
    try:
        value: Json = json.loads(call.arguments)
    except ValueError:
        return {"_unread": call.arguments}
    return value


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.calls and reply.finish == "stop" else _STOPS[reply.finish]
