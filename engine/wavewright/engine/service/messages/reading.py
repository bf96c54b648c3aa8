"""JSON off the wire, read strictly and in bounded time, and rejections of invalid messages.

A document's author is shown the place of every fault; a sender is told the kind only, so a hostile
body is never read a second time by something slower. What is read is one object whose names are
unique, whose numbers every reader agrees on, and whose texts can be stored and shown.

A rejection has a kind from a fixed list, for metrics, and a reason for people that says where the
fault is and what fixes it. Neither repeats text of the message, not even the name of an unknown
field, so no secret is passed on.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wavewright.config import WavewrightError
from wavewright.config.documents import (
    UNSTORABLE_ESCAPE,
    StrictJsonError,
    decode_strict_json,
    is_deeper,
)

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

    from wavewright.planner import Json, JsonObject


RejectionKind: TypeAlias = Literal[
    "bad_content_type",
    "bad_encoding",
    "bad_payload",
    "bad_signature",
    "bad_timestamp",
    "bad_unicode",
    "duplicate_key",
    "missing_field",
    "nonfinite_number",
    "not_json",
    "number_out_of_range",
    "stale",
    "too_deep",
    "too_large",
    "unknown_field",
    "unknown_type",
    "wrong_identity",
    "wrong_target",
    "wrong_type",
]
"""What is wrong with a message; docs/reference/message-rules.md says what each means."""


class MessageRejected(WavewrightError):
    """A message that is not taken in, whatever the store knows."""

    def __init__(self, kind: RejectionKind, reason: str) -> None:
        self.kind: RejectionKind = kind
        self.reason = reason
        super().__init__(f"{kind}: {reason}")


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
        raise MessageRejected(
            "too_large", f"the body holds more than {MAX_NODES} lists and objects"
        )
    try:
        value = decode_strict_json(text)
    except StrictJsonError as error:
        raise MessageRejected(error.kind, error.message) from None
    except json.JSONDecodeError as error:
        # How deep the decoder goes before it raises RecursionError depends on the version of
        # Python.
        if _begins_deep(text[: error.pos], max_depth):
            raise _too_deep(max_depth) from None
        place = f"line {error.lineno}, column {error.colno}"
        raise MessageRejected(
            "not_json", f"the body is not one JSON document: reading stopped at {place}"
        ) from None
    except RecursionError:
        raise _too_deep(max_depth) from None
    if not isinstance(value, dict):
        raise MessageRejected(
            "not_json", "the body is JSON, and no object; an envelope is an object"
        )
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
        raise MessageRejected(
            "bad_encoding", f"the body is not UTF-8 at byte {error.start}"
        ) from None


def _too_deep(limit: int) -> MessageRejected:
    return MessageRejected("too_deep", f"lists and objects are nested more than {limit} deep")


def _begins_deep(text: str, limit: int) -> bool:
    """Whether a body that is refused anyway is so because of its depth; brackets within texts are
    counted with it.
    """
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


_MAX_FAULTS: Final = 4
_SUBJECT: Final = re.compile(r"^[A-Z]\w+ should")
"""How the models' own messages begin: `String should have at most 128 characters`."""
_WRONG_TYPES: Final[dict[str, str]] = {
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "float_type": "must be a number",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "string_type": "must be a text",
}


def rejection_for(error: ValidationError, model: type[BaseModel], where: str) -> MessageRejected:
    """Return the refusal of a value that its model does not take.

    Where all faults are of one kind, so is the refusal; a value that is wrong in several ways is
    meant as something else.
    """
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    kinds: set[RejectionKind] = {_kind_of(fault) for fault in faults}
    kind = kinds.pop() if len(kinds) == 1 else "bad_payload"
    texts = dict.fromkeys(_text_of(fault, model, where) for fault in faults)
    shown = "; ".join(list(texts)[:_MAX_FAULTS])
    return MessageRejected(kind, shown if len(texts) <= _MAX_FAULTS else f"{shown}; and more")


def rejection_of_unknown_fields(model: type[BaseModel], where: str) -> MessageRejected:
    """Return the refusal of a value that has fields which its model does not know."""
    return MessageRejected("unknown_field", _unknown_fields_text(model, where))


def _unknown_fields_text(model: type[BaseModel], where: str) -> str:
    return f"{where} has a field that is none of {', '.join(model.model_fields)}"


def _kind_of(fault: ErrorDetails) -> RejectionKind:
    if fault["type"] == "missing":
        return "missing_field"
    if fault["type"] == "extra_forbidden":
        return "unknown_field"
    if fault["loc"][:1] == ("timestamp",):
        return "bad_timestamp"
    return "wrong_type" if fault["type"] in _WRONG_TYPES else "bad_payload"


def _text_of(fault: ErrorDetails, model: type[BaseModel], where: str) -> str:
    if fault["type"] == "extra_forbidden":
        return _unknown_fields_text(model, where)
    # The model's own names and indexes of lists: an object's names are the sender's.
    place = ".".join(
        str(part)
        for part in fault["loc"][:2]
        if isinstance(part, int) or part in model.model_fields
    )
    if fault["type"] == "missing":
        return f"{where} lacks {place}"
    what = _WRONG_TYPES.get(fault["type"]) or fault["msg"].removeprefix("Value error, ")
    return f"{where}.{place} {_SUBJECT.sub('must', what)}"
