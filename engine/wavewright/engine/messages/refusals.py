"""Rejections of invalid messages.

A rejection has a kind from a fixed list, for metrics, and a reason for people that says where the fault is and what
fixes it. Neither repeats text of the message, not even the name of an unknown field, so no secret is passed on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wavewright.config.errors import WavewrightError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails


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
"""What is wrong with a message; docs/reference/messages.md says what each means."""


class MessageRejected(WavewrightError):
    """A message that is not taken in, whatever the store knows."""

    def __init__(self, kind: RejectionKind, reason: str) -> None:
        self.kind: RejectionKind = kind
        self.reason = reason
        super().__init__(f"{kind}: {reason}")


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

    Where all faults are of one kind, so is the refusal; a value that is wrong in several ways is meant as something
    else.
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
        str(part) for part in fault["loc"][:2] if isinstance(part, int) or part in model.model_fields
    )
    if fault["type"] == "missing":
        return f"{where} lacks {place}"
    what = _WRONG_TYPES.get(fault["type"]) or fault["msg"].removeprefix("Value error, ")
    return f"{where}.{place} {_SUBJECT.sub('must', what)}"
