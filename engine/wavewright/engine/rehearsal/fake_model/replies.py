"""Answers of the fake model, the rules that choose them, and the ledger of requests.

An *answer* is a value that states what the client receives, independent of the wire format, so that
one answer serves all three formats. Each fault on the wire is a function that returns an answer;
answers may be queued, repeated or chosen by a callable.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest, FakeToolCall
from wavewright.planner import Json, JsonObject


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event."""

    content: JsonObject | str
    event: str | None = None

    @property
    def encoded(self) -> bytes:
        """The event as it goes over the wire."""
        name = f"event: {self.event}\n" if self.event else ""
        content = self.content if isinstance(self.content, str) else json.dumps(self.content)
        return f"{name}data: {content}\n\n".encode()


def pieces(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces of at most this many characters."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


Finish: TypeAlias = Literal["stop", "length", "content_filter"]
"""Why a reply ends; that it ends with a tool call is added where there is one."""


@dataclass(frozen=True, slots=True)
class ClaimedUsage:
    """A count of tokens as a server claims it."""

    read: int
    written: int
    total: int | None = None
    """What it claims for both together, where that is not their sum."""

    @property
    def both(self) -> int:
        """The total that is claimed."""
        return self.read + self.written if self.total is None else self.total


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model says, and how it comes over the wire."""

    text: str = ""
    calls: tuple[FakeToolCall, ...] = ()
    value: Json = None
    """A structured answer: arguments of the output tool where one is forced, else JSON as text."""
    has_value: bool = False
    finish: Finish = "stop"
    tokens: ClaimedUsage | Literal["counted", "missing"] = "counted"
    is_empty: bool = False
    """Whether there is no choice at all."""
    delay: float = 0.0
    """Seconds before the first byte."""
    interval: float = 0.0
    """Seconds between two pieces."""
    piece: int = 40
    """Characters of a streamed piece."""
    cut: Literal["no", "without_finish", "connection"] = "no"
    """Whether a stream ends early: with a last chunk, or by closing the connection."""


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error of the API."""

    status: int
    message: str = "the fake model fails here"
    kind: str = ""
    """The provider's word for it; the usual one of the status where absent."""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class RawBody:
    """Bytes that no API would send."""

    body: bytes
    """Sent once, before the repeated part."""
    repeated: bytes = b""
    times: int = 0
    """How often `repeated` follows; sending stops when the client goes away."""
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)


@dataclass(frozen=True, slots=True)
class NoReply:
    """The request is taken, and nothing ever comes."""


Answer: TypeAlias = Reply | ApiError | RawBody | NoReply
AnswerLike: TypeAlias = str | JsonObject | Answer
"""A text is said; an object is the structured answer."""
AnswerMaker: TypeAlias = Callable[[FakeModelRequest], AnswerLike]


def answer_of(answer: AnswerLike) -> Answer:
    """Return what a test wrote down as an answer."""
    if isinstance(answer, str):
        return Reply(text=answer)
    if isinstance(answer, dict):
        return structured(answer)
    return answer


def structured(value: Json) -> Reply:
    """Answer with a value, by whatever way the request asks for one."""
    return Reply(value=value, has_value=True)


def calling_tool(name: str, **arguments: Json) -> Reply:
    """Call one tool."""
    return Reply(calls=(FakeToolCall(name, json.dumps(arguments)),))


def resolve_reply(reply: Reply, request: FakeModelRequest) -> Reply:
    """Return a reply with its value spelled as the request wants it: the output tool's call, or
    JSON as text.
    """
    if not reply.has_value:
        return reply
    text = json.dumps(reply.value)
    if request.output_tool:
        return replace(
            reply, calls=(*reply.calls, FakeToolCall(request.output_tool, text)), has_value=False
        )
    return replace(reply, text=reply.text + text, has_value=False)


def _as_reply(given: AnswerLike) -> Reply:
    answer = answer_of(given)
    assert isinstance(answer, Reply), f"{answer!r} is no reply of a model"
    return answer


def delayed(given: AnswerLike, seconds: float) -> Reply:
    """Answer, but later."""
    return replace(_as_reply(given), delay=seconds)


def overloaded(retry_after: float | None = 2) -> ApiError:
    """429: too many requests."""
    return ApiError(429, "Rate limit reached", "rate_limit_exceeded", retry_after)


def failing(status: int = 500, retry_after: float | None = None) -> ApiError:
    """A fault of the server's own; for ever, unless the rule has `times`."""
    return ApiError(
        status, "The server had an error while processing your request", retry_after=retry_after
    )


def denied(status: int = 403) -> ApiError:
    """401 or 403: a wrong key, or no right."""
    return ApiError(status, "You have insufficient permissions for this operation")


def over_context(limit: int = 8192) -> ApiError:
    """400: the question is larger than the model's context, in the words of either provider."""
    message = (
        f"This model's maximum context length is {limit} tokens: the prompt is too long for it."
    )
    return ApiError(400, message, "context_length_exceeded")


def silence() -> NoReply:
    """Take the request and send nothing."""
    return NoReply()


def slow_drip(given: AnswerLike = "a slow answer", interval: float = 0.05, piece: int = 1) -> Reply:
    """Send a few characters at a time, so that no read ever times out."""
    return replace(_as_reply(given), interval=interval, piece=piece)


def cut_stream(given: AnswerLike = "this answer is cut", *, connection: bool = False) -> Reply:
    """End a stream without a reason: by its last chunk, or by closing the connection."""
    return replace(_as_reply(given), cut="connection" if connection else "without_finish")


def cut_at_length(given: AnswerLike = "this answer is cut") -> Reply:
    """End at the ceiling of tokens."""
    return replace(_as_reply(given), finish="length")


def no_choices() -> Reply:
    """Answer with no choice at all."""
    return Reply(is_empty=True)


def filtered(text: str = "") -> Reply:
    """End because of a content filter."""
    return Reply(text=text, finish="content_filter")


def refusing() -> Reply:
    """Refuse in plain words."""
    return Reply(text="I'm sorry, but I can't help with that.")


def broken_arguments(tool: str, arguments: str = '{"q": "unfinished') -> Reply:
    """Call a tool with arguments that are no JSON."""
    return Reply(calls=(FakeToolCall(tool, arguments),))


def many_calls(
    tool: str, count: int = 200, arguments: Callable[[int], JsonObject] | None = None
) -> Reply:
    """Call a tool many times in one reply."""
    calls = ((arguments(number) if arguments else {"number": number}) for number in range(count))
    return Reply(calls=tuple(FakeToolCall(tool, json.dumps(call)) for call in calls))


def with_usage(given: AnswerLike, tokens: ClaimedUsage | Literal["missing"]) -> Reply:
    """Answer with a count of tokens that is missing, zero or a lie."""
    return replace(_as_reply(given), tokens=tokens)


def gzip_bomb(megabytes: int = 10_000) -> RawBody:
    """A small compressed body that grows to that size when it is unpacked."""
    start = b'{"id": "bomb", "object": "chat.completion", "choices": [{"message": {"content": "'
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b"A" * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    headers = (("content-type", "application/json"), ("content-encoding", "gzip"))
    return RawBody(head, block, megabytes, headers)


def no_json(text: str = "<html><body>502 Bad Gateway</body></html>") -> RawBody:
    """200 with a body that is no JSON."""
    return RawBody(text.encode(), headers=(("content-type", "text/html"),))


def echo(request: FakeModelRequest) -> Reply:
    """Answer with the whole text of the request."""
    return Reply(text=request.text)


RuleTest: TypeAlias = Callable[[FakeModelRequest], bool]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    number: int
    request: FakeModelRequest
    rule: str
    """Name of the rule that answered; empty where none did."""
    answer: Answer
    at: float
    """Monotonic seconds when it came."""


@dataclass(slots=True)
class Rule:
    """A condition on requests, and the answers to those that meet it."""

    name: str
    test: RuleTest
    answers: deque[AnswerLike | AnswerMaker]
    left: int | None
    """How often it may still answer; for ever where absent."""

    def take(self) -> AnswerLike | AnswerMaker:
        """Return the next answer and count it."""
        if self.left is not None:
            self.left -= 1
        return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]


@dataclass(slots=True)
class RequestLog:
    """The requests so far; `changed` is notified of each."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    changed: threading.Condition = field(default_factory=threading.Condition)
    in_flight: int = 0
    max_in_flight: int = 0
