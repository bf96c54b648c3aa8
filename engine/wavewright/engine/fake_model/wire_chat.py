"""OpenAI's Chat Completions as a server writes them: the body, the pieces of a stream, an error."""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.engine.fake_model.answers import ApiError, ClaimedUsage, Reply
from wavewright.engine.fake_model.frames import ServerSentEvent, pieces
from wavewright.engine.fake_model.request import FakeModelRequest, FakeToolCall
from wavewright.planner.types import Json, JsonObject

_KINDS = {
    401: "invalid_api_key",
    403: "permission_denied",
    429: "rate_limit_exceeded",
    400: "invalid_request",
}


def chat_body(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> JsonObject:
    """Return a whole completion."""
    message: JsonObject = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [_tool_call(call, number, place) for place, call in enumerate(reply.calls)]
    if reply.refusal:
        message["refusal"] = reply.refusal
    choice: JsonObject = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": None if reply.cut != "no" else _chat_finish_reason(reply),
    }
    choices: list[Json] = [] if reply.is_empty else [choice]
    body: JsonObject = {**_chat_start("chat.completion", request, number), "choices": choices}
    return body if tokens is None else {**body, "usage": _chat_usage(tokens)}


def chat_frames(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> Iterator[ServerSentEvent]:
    """Yield the chunks of a streamed completion; the last one says why it ends, unless the stream is cut."""
    start = _chat_start("chat.completion.chunk", request, number)

    def chunk(delta: JsonObject, finish: str | None = None) -> ServerSentEvent:
        return ServerSentEvent({**start, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    if not reply.is_empty:
        yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(reply.text, reply.piece):
        yield chunk({"content": piece})
    if reply.refusal:
        yield chunk({"refusal": reply.refusal})
    for place, call in enumerate(reply.calls):
        head = _tool_call(FakeToolCall(call.name, ""), number, place)
        yield chunk({"tool_calls": [{"index": place, **head}]})
        for piece in pieces(call.arguments, reply.piece):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    if reply.cut != "no":
        return
    if not reply.is_empty:
        yield chunk({}, _chat_finish_reason(reply))
    if tokens is not None:
        yield ServerSentEvent({**start, "choices": [], "usage": _chat_usage(tokens)})
    yield ServerSentEvent("[DONE]")


def openai_error(failure: ApiError) -> JsonObject:
    """Return the body of an error, as both of OpenAI's APIs have it."""
    kind = failure.kind or _KINDS.get(failure.status, "server_error")
    error: JsonObject = {"message": failure.message, "type": kind, "param": None, "code": kind}
    return {"error": error}


def _chat_start(kind: str, request: FakeModelRequest, number: int) -> JsonObject:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_700_000_000, "model": request.model}


def _tool_call(call: FakeToolCall, number: int, place: int) -> JsonObject:
    return {
        "id": f"call_{number}_{place}",
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _chat_finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls and reply.finish == "stop" else reply.finish


def _chat_usage(tokens: ClaimedUsage) -> JsonObject:
    return {
        "prompt_tokens": tokens.read,
        "completion_tokens": tokens.written,
        "total_tokens": tokens.both,
    }
