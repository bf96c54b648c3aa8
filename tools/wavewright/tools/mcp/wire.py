"""What MCP servers send, from bytes to messages.

Bytes are measured before they are parsed: what parsing costs grows with the values in a message,
whatever its size. What other languages write and JSON readers refuse is corrected: a byte order mark,
half a surrogate pair (`"…😀".slice(0, -1)` in JavaScript), text that is no UTF-8, a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

import mcp_types
from mcp_types import JSONRPCMessage, RequestId
from pydantic import ValidationError
from pydantic_core import from_json

from wavewright.config.errors import WavewrightError


def read_messages(raw: bytes, note: Callable[[str], object]) -> list[JSONRPCMessage]:
    """Return the messages of a line, an event or a body: one, or those of a batch.

    What is nested too deeply costs only itself, such as one tool of a list; only what a call has
    returned is read as a whole or not at all.

    Args:
        raw: What the server sent.
        note: Is told of what was changed in it.

    Raises:
        NotAMessage: it holds none, or more than is read.
    """
    text = raw.strip(_OUTER)
    try:
        return _read(text, note)
    except NotAMessage:
        shallow = _without_depths(text)
        if shallow is None:
            raise
        messages = _read(shallow, note)
        if any(map(_holds_returned_values, messages)):
            raise
        return messages


def _read(text: bytes, note: Callable[[str], object]) -> list[JSONRPCMessage]:
    refuse_oversized(text)
    text = corrected(text, note)
    if text.startswith(b"["):
        return _batch(text)
    try:
        return [mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False)]
    except ValidationError as error:
        answers, is_answer = _answered_request(text)
        first = error.errors(include_url=False, include_input=False)[0]
        why = (
            f" ({first['ctx']['error']})"
            if "ctx" in first and first["type"] == "json_invalid"
            else ""
        )
        raise NotAMessage(
            f"it broke the protocol: it sent a message that is not JSON-RPC 2.0{why}",
            answers,
            is_answer=is_answer,
        ) from None


MAX_MESSAGE_BYTES: Final = 8 * 2**20
"""Of one message from a program, or of one response over HTTP."""
MAX_OBJECTS: Final = 10_000
"""JSON objects in one message: parsing and validating each takes several microseconds of the event
loop.
"""
MAX_VALUES: Final = 100_000
"""Values in one message."""
MAX_BATCH: Final = 1_000


class NotAMessage(WavewrightError):
    """Bytes that are no message of the protocol, or more than is read of one."""

    def __init__(
        self, reason: str, answers: RequestId | None = None, *, is_answer: bool = False
    ) -> None:
        super().__init__(reason)
        self.answers = answers
        """The request that it was to answer, as far as that can be read."""
        self.is_answer = is_answer
        """Whether it was to answer a request."""


def oversized_message(head: bytes, tail: bytes) -> NotAMessage:
    """Return the fault of a message of more than `MAX_MESSAGE_BYTES`, of which only both ends are
    known.
    """
    return NotAMessage(
        f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MiB",
        _id_at_the_ends(head, tail),
        is_answer=_looks_like_answer(head, tail),
    )


def nesting(text: bytes) -> int:
    """Return how many brackets a text opens and does not close; those within texts do not count."""
    depth = 0
    for token in _BRACKETS.finditer(text):
        match token[0]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
            case _:
                pass
    return depth


MAX_NESTING: Final = 150
"""Levels of brackets that are read; the parser takes 200."""


def _without_depths(text: bytes) -> bytes | None:
    """Return JSON with an empty object for each part below `MAX_NESTING` levels; None where there
    is none, or where looking for it takes long.
    """
    if sum(map(text.count, (b"{", b"[", b",", b'"'))) > _MAX_SCANNED:
        return None
    kept = list[bytes]()
    depth = start = 0
    for token in _BRACKETS.finditer(text):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth == MAX_NESTING + 1:
                    kept += (text[start : token.start()], b"{}")
            case b"}" | b"]":
                if depth == MAX_NESTING + 1:
                    start = token.end()
                depth -= 1
            case _:
                pass
    return b"".join((*kept, text[start:])) if kept else None


_MAX_SCANNED: Final = 500_000
"""Brackets, commas and quotes, of which a tenth of a second sees about this many."""


def _holds_returned_values(message: JSONRPCMessage) -> bool:
    return isinstance(message, mcp_types.JSONRPCResponse) and not RETURNED.isdisjoint(
        message.result
    )


RETURNED: Final = frozenset({"content", "structuredContent", "isError"})
"""Members of the result of a call."""

END_BYTES: Final = 400
"""Of each end of a message: enough to find the request that it answers."""

_OUTER: Final = b"\xef\xbb\xbf \t\r\n\0"
_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{\[,]', re.DOTALL)
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{\[}\]]', re.DOTALL)
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_ID_FIRST: Final = re.compile(
    rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")'
)
_ID_LAST: Final = re.compile(
    rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'
)


def refuse_oversized(text: bytes) -> None:
    """Refuse a message whose values take long to parse.

    Raises:
        NotAMessage: it has too many.
    """
    if len(text) > MAX_MESSAGE_BYTES:
        raise oversized_message(text[:END_BYTES], text[-END_BYTES:])
    objects = text.count(b"{")
    values = objects + text.count(b"[") + text.count(b",")
    if objects <= MAX_OBJECTS and values <= MAX_VALUES:
        return
    # Those within texts do not count.
    objects = values = 0
    for token in _STRUCTURE.finditer(text):
        first = text[token.start()]
        objects += first == _BRACE
        values += first != _QUOTE
        if objects > MAX_OBJECTS or values > MAX_VALUES:
            limit = MAX_OBJECTS if objects > MAX_OBJECTS else MAX_VALUES
            head, tail = text[:END_BYTES], text[-END_BYTES:]
            raise NotAMessage(
                f"it sent a message of more than {limit:,} items",
                _id_at_the_ends(head, tail),
                is_answer=_looks_like_answer(head, tail),
            )


_BRACE: Final = ord("{")
_QUOTE: Final = ord('"')


def corrected(text: bytes, note: Callable[[str], object]) -> bytes:
    """Return JSON in UTF-8 without half surrogate pairs; U+FFFD stands for what is no character,
    and it is noted where there was any.
    """
    valid = text if text.isascii() else text.decode(errors="replace").encode()
    if b"\\ud" in valid or b"\\uD" in valid:
        valid = _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], valid)
    if valid != text:
        note("it sent half a character, or bytes that are no UTF-8; U+FFFD stands in their place")
    return valid


def _batch(text: bytes) -> list[JSONRPCMessage]:
    try:
        items: object = from_json(text)
    except ValueError:
        raise NotAMessage("it sent a line that is no message") from None
    if not isinstance(items, list) or not items or len(cast("list[object]", items)) > MAX_BATCH:
        raise NotAMessage("it sent a line that is no message")
    try:
        return [
            mcp_types.jsonrpc_message_adapter.validate_python(item, by_name=False)
            for item in cast("list[object]", items)
        ]
    except ValidationError:
        raise NotAMessage("it sent a batch with what is no message") from None


def _answered_request(text: bytes) -> tuple[RequestId | None, bool]:
    """Return the request that a faulty message was to answer, and whether it was to answer any."""
    try:
        value: object = from_json(text)
    except ValueError:
        # Whose answer half a message is can only be told by its id.
        head, tail = text[:END_BYTES], text[-END_BYTES:]
        answers = _id_at_the_ends(head, tail) if _looks_like_answer(head, tail) else None
        return answers, answers is not None
    if not isinstance(value, dict):
        return None, False
    members = cast("dict[str, object]", value)
    if "method" in members or not members.keys() & {"result", "error"}:
        return None, False
    answered = members.get("id")
    return answered if isinstance(answered, int | str) else None, True


def _id_at_the_ends(head: bytes, tail: bytes) -> RequestId | None:
    """Return the id that a message begins or ends with; within it, `id` may be anyone's."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if found is None:
        return None
    written = found[1].decode(errors="replace")
    return written[1:-1] if written.startswith('"') else int(written)


def _looks_like_answer(head: bytes, tail: bytes) -> bool:
    ends = head + tail
    return (b'"result"' in ends or b'"error"' in ends) and b'"method"' not in ends
