"""The wire formats as a server writes them: bodies, streams and errors of OpenAI's two APIs and of
Anthropic's.

OpenAI's are Chat Completions and Responses, Anthropic's is Messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from wavewright.engine.rehearsal.fake_model.replies import (
    ApiError,
    ClaimedUsage,
    Reply,
    ServerSentEvent,
    pieces,
)
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest, FakeToolCall
from wavewright.planner import Json, JsonObject

_OPENAI_KINDS = {
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
        message["tool_calls"] = [
            _tool_call(call, number, place) for place, call in enumerate(reply.calls)
        ]
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
    """Yield the chunks of a streamed completion; the last one says why it ends, unless the stream
    is cut.
    """
    start = _chat_start("chat.completion.chunk", request, number)

    def chunk(delta: JsonObject, finish: str | None = None) -> ServerSentEvent:
        return ServerSentEvent(
            {**start, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        )

    if not reply.is_empty:
        yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(reply.text, reply.piece):
        yield chunk({"content": piece})
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
    kind = failure.kind or _OPENAI_KINDS.get(failure.status, "server_error")
    error: JsonObject = {"message": failure.message, "type": kind, "param": None, "code": kind}
    return {"error": error}


def _chat_start(kind: str, request: FakeModelRequest, number: int) -> JsonObject:
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": 1_700_000_000,
        "model": request.model,
    }


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


_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


def responses_body(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> JsonObject:
    """Return a whole response."""
    output: list[Json] = [] if reply.is_empty else [*_items(reply, number)]
    return _response(reply, request, tokens, number, output)


def responses_frames(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> Iterator[ServerSentEvent]:
    """Yield the events of a streamed response; the last holds the whole of it, unless the stream is
    cut.
    """
    for place, content in enumerate(_response_events(reply, request, tokens, number)):
        yield ServerSentEvent({**content, "sequence_number": place}, str(content["type"]))


def _response_events(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> Iterator[JsonObject]:
    begun = {
        **_response(reply, request, None, number, []),
        "status": "in_progress",
        "incomplete_details": None,
    }
    yield {"type": "response.created", "response": begun}
    items = [] if reply.is_empty else list(_items(reply, number))
    for place, item in enumerate(items):
        where: JsonObject = {"output_index": place}
        if item["type"] == "function_call":
            yield from _call_events(item, where, reply.piece)
        else:
            yield from _message_events(item, where, reply)
    if reply.cut != "no":
        return
    whole = _response(reply, request, tokens, number, [*items])
    yield {"type": f"response.{whole['status']}", "response": whole}


def _message_events(item: JsonObject, where: JsonObject, reply: Reply) -> Iterator[JsonObject]:
    yield {
        "type": "response.output_item.added",
        **where,
        "item": {**item, "content": [], "status": "in_progress"},
    }
    inside: JsonObject = {**where, "item_id": item["id"], "content_index": 0}
    yield {"type": "response.content_part.added", **inside, "part": _text_part("")}
    for piece in pieces(reply.text, reply.piece):
        yield {"type": "response.output_text.delta", **inside, "logprobs": [], "delta": piece}
    if reply.cut != "no":
        return
    yield {"type": "response.output_text.done", **inside, "logprobs": [], "text": reply.text}
    yield {"type": "response.content_part.done", **inside, "part": _text_part(reply.text)}
    yield {"type": "response.output_item.done", **where, "item": item}


def _call_events(item: JsonObject, where: JsonObject, size: int) -> Iterator[JsonObject]:
    yield {
        "type": "response.output_item.added",
        **where,
        "item": {**item, "arguments": "", "status": "in_progress"},
    }
    inside: JsonObject = {**where, "item_id": item["id"]}
    for piece in pieces(str(item["arguments"]), size):
        yield {"type": "response.function_call_arguments.delta", **inside, "delta": piece}
    yield {
        "type": "response.function_call_arguments.done",
        **inside,
        "name": item["name"],
        "arguments": item["arguments"],
    }
    yield {"type": "response.output_item.done", **where, "item": item}


def _items(reply: Reply, number: int) -> Iterator[JsonObject]:
    if reply.text or not reply.calls:
        yield {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed" if reply.finish == "stop" else "incomplete",
            "content": [_text_part(reply.text)],
        }
    for place, call in enumerate(reply.calls):
        yield _function_call_item(call, number, place)


def _function_call_item(call: FakeToolCall, number: int, place: int) -> JsonObject:
    return {
        "id": f"fc_{number}_{place}",
        "type": "function_call",
        "call_id": f"call_{number}_{place}",
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }


def _text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _response(
    reply: Reply,
    request: FakeModelRequest,
    tokens: ClaimedUsage | None,
    number: int,
    output: list[Json],
) -> JsonObject:
    reason = _REASONS.get(reply.finish)
    status = "incomplete" if reason else "completed"
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": request.model,
        "status": "in_progress" if reply.cut != "no" else status,
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None if tokens is None else _response_usage(tokens),
    }


def _response_usage(tokens: ClaimedUsage) -> JsonObject:
    return {
        "input_tokens": tokens.read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens.written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.both,
    }


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_ANTHROPIC_KINDS = {
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
    if reply.text and not reply.is_empty:
        content.append({"type": "text", "text": reply.text})
    for place, call in enumerate(reply.calls):
        content.append({**_tool_use_block(call, number, place), "input": _tool_input(call)})
    body = _anthropic_start(request, number)
    body["content"] = content
    body["stop_reason"] = None if reply.cut != "no" else _stop_reason(reply)
    if tokens is not None:
        body["usage"] = {"input_tokens": tokens.read, "output_tokens": tokens.written}
    return body


def messages_frames(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> Iterator[ServerSentEvent]:
    """Yield the events of a streamed message; the last ones say why it ends, unless the stream is
    cut.
    """
    for content in _anthropic_events(reply, request, tokens, number):
        yield ServerSentEvent(content, str(content["type"]))


def _anthropic_events(
    reply: Reply, request: FakeModelRequest, tokens: ClaimedUsage | None, number: int
) -> Iterator[JsonObject]:
    # The client's library wants a usage at the start of a stream; nothing counted is nothing
    # claimed.
    read = tokens.read if tokens else 0
    usage: JsonObject = {"input_tokens": read, "output_tokens": 0}
    started: JsonObject = {**_anthropic_start(request, number), "usage": usage}
    yield {"type": "message_start", "message": started}
    index = 0
    text = "" if reply.is_empty else reply.text
    if text:
        yield _block_start(index, {"type": "text", "text": ""})
        for piece in pieces(text, reply.piece):
            yield _block_delta(index, {"type": "text_delta", "text": piece})
        if reply.cut == "no":
            yield {"type": "content_block_stop", "index": index}
        index += 1
    for place, call in enumerate(reply.calls):
        yield _block_start(index, {**_tool_use_block(call, number, place), "input": {}})
        for piece in pieces(call.arguments, reply.piece):
            yield _block_delta(index, {"type": "input_json_delta", "partial_json": piece})
        yield {"type": "content_block_stop", "index": index}
        index += 1
    if reply.cut != "no":
        return
    ending: JsonObject = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    written = tokens.written if tokens else 0
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": written}}
    yield {"type": "message_stop"}


def anthropic_error(failure: ApiError) -> JsonObject:
    """Return the body of an error."""
    kind = _ANTHROPIC_KINDS.get(failure.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": failure.message}}


def _anthropic_start(request: FakeModelRequest, number: int) -> JsonObject:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _block_start(index: int, block: JsonObject) -> JsonObject:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _block_delta(index: int, delta: JsonObject) -> JsonObject:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _tool_use_block(call: FakeToolCall, number: int, place: int) -> JsonObject:
    return {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": call.name}


def _tool_input(call: FakeToolCall) -> Json:
    """Return the arguments as a value: this API has no place for a text that is no JSON."""
    try:
        value: Json = json.loads(call.arguments)
    except ValueError:
        return {"_unread": call.arguments}
    return value


def _stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.calls and reply.finish == "stop" else _STOP_REASONS[reply.finish]
