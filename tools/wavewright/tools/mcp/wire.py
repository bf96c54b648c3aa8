"""What MCP servers send, from bytes to messages.

Bytes are measured before they are parsed: what parsing costs grows with the values in a message,
whatever its size. What other languages write and JSON readers refuse is corrected: a byte order mark,
half a surrogate pair (`"…😀".slice(0, -1)` in JavaScript), text that is no UTF-8, a batch, several
messages in a row, a number that is written as `4.0`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

import mcp_types
from mcp_types import INTERNAL_ERROR, JSONRPCMessage, JSONRPCNotification, RequestId
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from wavewright.config.errors import WavewrightError


def messages_in(
    raw: bytes, note: Callable[[str], object], tail: bytes = b""
) -> list[JSONRPCMessage | NotAMessage]:
    """Return what a line, an event or a body holds, in its order: messages, and the faults of parts
    that are none.

    That is one message, a batch, or several messages in a row with any text around them. What is
    nested too deeply costs only itself, such as one tool of a list, and of a list of tools that is
    too long its beginning is read; only what a call has returned is read as a whole or not at all.

    Args:
        raw: What the server sent.
        note: Is told of what was changed in it.
        tail: Its last bytes where `raw` is only its beginning.
    """
    text = raw.strip(_OUTER)
    fault = _oversize(text, tail)
    if fault is not None:
        return [_beginning_of_list(text, tail) or fault]
    text = corrected(text, note)
    try:
        return _read(text)
    except ValueError as error:
        shallow = _without_depths(text)
        messages = [] if shallow is None else _read_shallow(shallow)
        if messages:
            return messages
        parts = _bracketed_parts(text)
        messages = [item for part in parts if part != text for item in messages_in(part, note)]
        if all(isinstance(message, NotAMessage) for message in messages):
            return [_not_json(text, error)]
        note("it sent more than one message on a line, or text beside one")
        return messages


def _read(text: bytes) -> list[JSONRPCMessage | NotAMessage]:
    """Return the messages of a JSON text.

    Raises:
        ValueError: it is none.
    """
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError:
        message = None
    # A request whose id is `4.0` passes for a notification.
    if message is not None and not (isinstance(message, JSONRPCNotification) and b'"id"' in text):
        return [message]
    value: object = from_json(text)
    if not isinstance(value, list):
        return [_message_of(value)]
    batch = cast("list[object]", value)
    if not batch or len(batch) > MAX_BATCH:
        return [NotAMessage("it sent a line that is no message")]
    return [_message_of(item) for item in batch]


def _read_shallow(text: bytes) -> list[JSONRPCMessage | NotAMessage]:
    """Return the messages of a text whose depths were taken out; none where one has lost what a call
    returned, or where it still cannot be read.
    """
    try:
        messages = _read(text)
    except ValueError:
        return []
    return [] if any(map(_holds_returned_values, messages)) else messages


def _message_of(value: object) -> JSONRPCMessage | NotAMessage:
    """Return a message, whose form is corrected where what it says is clear."""
    try:
        return mcp_types.jsonrpc_message_adapter.validate_python(_in_form(value), by_name=False)
    except ValidationError:
        answers, is_answer = _answered_request(value)
        return NotAMessage(_NO_JSON_RPC, answers, is_answer=is_answer)


_NO_JSON_RPC: Final = "it broke the protocol: it sent a message that is not JSON-RPC 2.0"


def _in_form(value: object) -> object:
    """Return a message with a whole number as its id, a record as its result and an error that has a
    number and words, as far as it says what these are.
    """
    if not isinstance(value, dict):
        return value
    message = {**cast("dict[str, object]", value)}
    if message.get("jsonrpc") == 2:
        message["jsonrpc"] = "2.0"
    match message.get("id"):
        case float() as number if number.is_integer():
            message["id"] = int(number)
        case _:
            pass
    if "method" in message:
        return message
    if message.get("error") is not None:
        message.pop("result", None)
        message["error"] = _error_in_form(message["error"])
    elif "result" in message and not isinstance(message["result"], dict):
        bare = message["result"]
        message["result"] = {} if bare is None else {BARE_RESULT: bare}
    return message


def _error_in_form(error: object) -> dict[str, object]:
    members = cast("dict[str, object]", error) if isinstance(error, dict) else {"message": error}
    code, words = members.get("code"), members.get("message")
    return {
        **members,
        "code": code if isinstance(code, int) else INTERNAL_ERROR,
        "message": words if isinstance(words, str) else to_json(error).decode(),
    }


BARE_RESULT: Final = "wavewright:bare"
"""Member that holds a result which is no record."""
UNREAD_TOOLS: Final = "wavewright:unread"
"""Member of a list of tools that was read in part: why the others were not."""


def _not_json(text: bytes, error: ValueError) -> NotAMessage:
    head, tail = text[:END_BYTES], text[-END_BYTES:]
    looks_like_answer = _looks_like_answer(head, tail)
    answers = _id_at_the_ends(head, tail) if looks_like_answer else None
    # Whose answer half a message is can only be told by its id.
    is_whole = looks_like_answer and is_whole_message(text)
    reason = f"{_NO_JSON_RPC} ({error})"
    return NotAMessage(reason, answers, is_answer=is_whole or answers is not None)


def _bracketed_parts(text: bytes) -> list[bytes]:
    """Return the values in brackets that a text holds one after another; none where looking for them
    takes long.
    """
    if _scanned_size(text) > _MAX_SCANNED:
        return []
    parts = list[bytes]()
    unended = 0
    unescaped = _without_escapes(text)
    opening = _OPENING.search(text)
    while opening is not None and len(parts) < MAX_BATCH:
        end = _end_of_value(unescaped, opening.start())
        if end is not None:
            parts.append(text[opening.start() : end])
        elif opening[0] == b"{" or unended == _MAX_UNENDED:
            # What half a message holds may be a page's words, and is no message.
            break
        else:
            unended += 1
        opening = _OPENING.search(text, end or opening.end())
    return parts


_OPENING: Final = re.compile(rb"[\[{]")
_MAX_UNENDED: Final = 10
"""Brackets without an end, as in `[1/3 done`, each of which costs a look at all that follows."""


def _end_of_value(unescaped: bytes, start: int) -> int | None:
    depth = 0
    for token in _BRACKETS.finditer(unescaped, start):
        if token[0] in _OPENERS:
            depth += 1
        elif token[0] in _CLOSERS:
            depth -= 1
            if not depth:
                return token.end()
    return None


_OPENERS: Final = (b"{", b"[")
_CLOSERS: Final = (b"}", b"]")


def _beginning_of_list(text: bytes, tail: bytes) -> JSONRPCMessage | None:
    """Return the answer that begins a list of tools which is too long, with those that are whole in
    what is read of it; None where it begins no such list.
    """
    if b'"tools"' not in text:
        return None
    why = f"its list is longer than {MAX_MESSAGE_BYTES // 2**20} MiB"
    end = MAX_MESSAGE_BYTES
    if (too_many := _end_of_readable(text[:MAX_MESSAGE_BYTES])) is not None:
        end, limit = too_many
        why = f"its list has more than {limit:,} items"
    try:
        value: object = from_json(text[:end], allow_partial=True)
    except ValueError:
        return None
    answer = _members(value)
    tools = _members(answer.get("result")).get("tools")
    whole = cast("list[object]", tools)[:-1] if isinstance(tools, list) else []
    if not whole:
        return None
    id_ = answer.get("id")
    if id_ is None:
        id_ = _id_at_the_ends(text[:END_BYTES], tail or text[-END_BYTES:])
    message = _message_of(
        {"jsonrpc": "2.0", "id": id_, "result": {"tools": whole, UNREAD_TOOLS: why}}
    )
    return None if isinstance(message, NotAMessage) else message


def _members(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


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


def is_whole_message(text: bytes) -> bool:
    """Return whether a text names the protocol and ends all that it begins."""
    return b'"jsonrpc"' in text and OpenParts(text).are_none


class OpenParts:
    """What a beginning of JSON opens and does not close, and what can come next."""

    def __init__(self, begun: bytes = b"") -> None:
        self._brackets = bytearray()
        """Those within texts do not count."""
        self._is_in_text = False
        self._last = b""
        """The last byte that is no space."""
        self.add(begun)

    @property
    def are_none(self) -> bool:
        """Whether the text is a whole value."""
        return not (self._brackets or self._is_in_text)

    def add(self, more: bytes) -> None:
        """Read on."""
        is_in_text = False
        unescaped = _without_escapes(more)
        for token in _BRACKETS.finditer(b'"' + unescaped if self._is_in_text else unescaped):
            is_in_text = token["open"] is not None
            if token[0] in _OPENERS:
                self._brackets += token[0]
            elif token[0] in _CLOSERS:
                del self._brackets[-1:]
        self._is_in_text = is_in_text
        self._last = more.rstrip()[-1:] or self._last

    def are_none_after(self, more: bytes) -> bool:
        """Return whether the text is a whole value once more has come."""
        longer = OpenParts()
        longer._brackets[:] = self._brackets
        longer._is_in_text = self._is_in_text
        longer.add(more)
        return longer.are_none

    def can_go_on_with(self, line: bytes) -> bool:
        """Return whether a line that is not blank can come next, judged by its beginning."""
        if self._is_in_text:
            return True
        head = line.lstrip()[:END_BYTES]
        read = _JSON_TOKENS.match(head)
        assert read is not None, "it matches nothing at all, too"
        # A cut may go through a word.
        is_json = read.end() == len(head) or read.end() > END_BYTES - len("false")
        return is_json and head[:1] in self._next_bytes()

    def _next_bytes(self) -> bytes:
        """Return the bytes of which one comes next."""
        is_in_object = self._brackets.endswith(b"{")
        match self._last:
            case b"{":
                return b'"}'
            case b"[":
                return _VALUE_BYTES + b"]"
            case b",":
                return b'"' if is_in_object else _VALUE_BYTES
            case b":":
                return _VALUE_BYTES
            case _:
                return b",:}" if is_in_object else b",]"


_VALUE_BYTES: Final = b'{["-0123456789tfn'
_JSON_TOKENS: Final = re.compile(
    rb'(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|true|false|null|[\s{}\[\],:\d.eE+-])*'
)


def names_request(begun: bytes) -> bool:
    """Return whether the beginning of an answer names the request that it answers."""
    return _ID_FIRST.match(begun.lstrip(_OUTER)) is not None


MAX_NESTING: Final = 150
"""Levels of brackets that are read; the parser takes 200."""


def _without_depths(text: bytes) -> bytes | None:
    """Return JSON with an empty object for each part below `MAX_NESTING` levels; None where there
    is none, or where looking for it takes long.
    """
    if _scanned_size(text) > _MAX_SCANNED:
        return None
    kept = list[bytes]()
    depth = start = 0
    for token in _BRACKETS.finditer(_without_escapes(text)):
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


def _without_escapes(text: bytes) -> bytes:
    """Return a text of the same length in which a text of JSON ends at its next quote."""
    return text.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _scanned_size(text: bytes) -> int:
    return sum(map(text.count, (b"{", b"[", b",", b'"')))


_MAX_SCANNED: Final = 500_000
"""Brackets, commas and quotes, of which a tenth of a second sees about this many."""


def _holds_returned_values(message: JSONRPCMessage | NotAMessage) -> bool:
    return isinstance(message, mcp_types.JSONRPCResponse) and not RETURNED.isdisjoint(
        message.result
    )


RETURNED: Final = frozenset({"content", "structuredContent", "isError"})
"""Members of the result of a call."""

END_BYTES: Final = 400
"""Of each end of a message: enough to find the request that it answers."""

_OUTER: Final = b"\xef\xbb\xbf \t\r\n\0"
_STRUCTURE: Final = re.compile(rb'"[^"]*+"?|[{\[,]')
_BRACKETS: Final = re.compile(rb'"[^"]*+(?:"|(?P<open>$))|[{\[}\]]')
"""Both are of JSON `_without_escapes`: a pattern that knows them takes 30 bytes for each."""
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_ID_FIRST: Final = re.compile(
    rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")'
)
_ANSWER_FIRST: Final = re.compile(_ID_FIRST.pattern + rb'\s*,\s*"(?:result|error)"')
_ID_LAST: Final = re.compile(
    rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'
)


def _oversize(text: bytes, tail: bytes = b"") -> NotAMessage | None:
    """Return the fault of a message that has more bytes or values than are read."""
    is_beginning = bool(tail)
    head, tail = text[:END_BYTES], tail or text[-END_BYTES:]
    if is_beginning or len(text) > MAX_MESSAGE_BYTES:
        return oversized_message(head, tail)
    end = _end_of_readable(text)
    if end is None:
        return None
    return NotAMessage(
        f"it sent a message of more than {end[1]:,} items",
        _id_at_the_ends(head, tail),
        is_answer=_looks_like_answer(head, tail),
    )


def _end_of_readable(text: bytes) -> tuple[int, int] | None:
    """Return where a text has as many values as are read of one message, and how many these are; None
    where it has fewer.
    """
    objects = text.count(b"{")
    if objects <= MAX_OBJECTS and objects + text.count(b"[") + text.count(b",") <= MAX_VALUES:
        return None
    # Those within texts do not count.
    objects = values = 0
    for token in _STRUCTURE.finditer(_without_escapes(text)):
        first = text[token.start()]
        objects += first == _BRACE
        values += first != _QUOTE
        if objects > MAX_OBJECTS:
            return token.start(), MAX_OBJECTS
        if values > MAX_VALUES:
            return token.start(), MAX_VALUES
    return None


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


def _answered_request(value: object) -> tuple[RequestId | None, bool]:
    """Return the request that a faulty message was to answer, and whether it was to answer any."""
    members = _members(value)
    says_so = {"jsonrpc", "id"} <= members.keys() or not members.keys().isdisjoint(_OUTCOMES)
    if "method" in members or not says_so:
        return None, False
    answered = members.get("id")
    if isinstance(answered, bool) or not isinstance(answered, int | str):
        return None, True
    return answered, True


_OUTCOMES: Final = frozenset({"result", "error"})


def _id_at_the_ends(head: bytes, tail: bytes) -> RequestId | None:
    """Return the id that a message begins or ends with; within it, `id` may be anyone's."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if found is None:
        return None
    written = found[1].decode(errors="replace")
    return written[1:-1] if written.startswith('"') else int(written)


def _looks_like_answer(head: bytes, tail: bytes) -> bool:
    if _ANSWER_FIRST.match(head) is not None:
        return True
    ends = head + tail
    return (b'"result"' in ends or b'"error"' in ends) and b'"method"' not in ends
