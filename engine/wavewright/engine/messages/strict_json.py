"""JSON off the wire, read strictly and in bounded time.

A document's author is shown the place of every fault; a sender is told the kind only, so a hostile body is never
read a second time by something slower. What is read is one object whose names are unique, whose numbers every reader
agrees on, and whose texts can be stored and shown.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from wavewright.config.readers.strict_json import (
    UNSTORABLE_ESCAPE,
    StrictJsonError,
    decode_strict_json,
    is_deeper,
)
from wavewright.engine.messages.refusals import MessageRejected

if TYPE_CHECKING:
    from wavewright.planner.types import Json, JsonObject

MAX_NODES: Final = 50_000
"""Lists and objects of one message, at most; brackets within texts count as well."""

_MAX_BRACKETS_SCANNED: Final = 1_000
_BRACKET: Final = re.compile(r"[\[\]{}]")
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


def read_strict_json(body: bytes, *, max_depth: int) -> JsonObject:
    """Return the one JSON object that a body consists of.

    Raises:
        MessageRejected: it is no such thing.
    """
    text = _text(body)
    nodes = text.count("[") + text.count("{")
    if nodes > MAX_NODES:
        if _begins_deep(text, max_depth):
            raise _too_deep(max_depth)
        raise MessageRejected("too_large", f"the body holds more than {MAX_NODES} lists and objects")
    try:
        value = decode_strict_json(text)
    except StrictJsonError as error:
        raise MessageRejected(error.kind, error.message) from None
    except json.JSONDecodeError as error:
        # How deep the decoder goes before it raises RecursionError depends on the version of Python.
        if _begins_deep(text[: error.pos], max_depth):
            raise _too_deep(max_depth) from None
        place = f"line {error.lineno}, column {error.colno}"
        raise MessageRejected(
            "not_json", f"the body is not one JSON document: reading stopped at {place}"
        ) from None
    except RecursionError:
        raise _too_deep(max_depth) from None
    if not isinstance(value, dict):
        raise MessageRejected("not_json", "the body is JSON, and no object; an envelope is an object")
    if nodes > max_depth and is_deeper(value, max_depth):
        raise _too_deep(max_depth)
    if UNSTORABLE_ESCAPE.search(text) and _holds_unstorable_text(value):
        raise MessageRejected(
            "bad_unicode", "a text holds NUL or half of a surrogate pair; leave the character out"
        )
    return value


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MessageRejected("bad_encoding", f"the body is not UTF-8 at byte {error.start}") from None


def _too_deep(limit: int) -> MessageRejected:
    return MessageRejected("too_deep", f"lists and objects are nested more than {limit} deep")


def _begins_deep(text: str, limit: int) -> bool:
    """Whether a body that is refused anyway is so because of its depth; brackets within texts are counted with it."""
    depth = 0
    for bracket in islice(_BRACKET.finditer(text), _MAX_BRACKETS_SCANNED):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > limit:
            return True
    return False


def _holds_unstorable_text(value: Json) -> bool:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str) and _UNSTORABLE.search(node):
            return True
        if isinstance(node, dict):
            waiting.extend(node.keys())
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return False
