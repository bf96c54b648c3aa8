"""Recognise answers of a planner that are no plan: refusals, questions and tool calls.

A planner may answer that it cannot plan, ask the user, or *refuse* in words. These are not
repaired: asking again costs money and gives the same answer.

A *suggested call* is a tool's name and arguments found in the text, or called by a model that
should have answered with a plan. Neither name nor arguments are trusted, and what may be part of a
truncated value is not taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wavewright.config.sources import DocumentError, Source, plain_value
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.planning.records import UserQuestion
from wavewright.planner.ports.model_port import NamedCall
from wavewright.planner.reading.json_extraction import ARGUMENT_FIELDS, find_json, parse_answer
from wavewright.planner.reading.normalization import refusal_field, unwrap
from wavewright.planner.reading.reader import MODEL_LIMITS
from wavewright.planner.types import Json, JsonObject, as_list, as_object

_MAX_REASON_LENGTH = 2000
_MAX_OPTIONS = 20
_MAX_OPTION_LENGTH = 200
_REFUSAL_PATTERN = re.compile(
    r"\b(?:I|we)(?: am|'m| are|'re)? (?:sorry|afraid)\b"
    r"|\bI (?:really |simply )?(?:can(?:no|')?t|can not|won't|will not|am unable|am not able)\b"
    r"|\bI'm (?:unable|not able|not going to)\b|\bunable to (?:help|assist|comply)\b"
    r"|\bas an? (?:AI|language model)\b|\bagainst (?:my|our) (?:policy|policies|guidelines)\b",
    re.IGNORECASE,
)
_MAX_PROSE_LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class CannotPlan:
    """The planner says that the goal cannot be reached, and why."""

    reason: str
    has_steps: bool = False
    """Whether there is a plan beside it."""


def read_refusal(source: Source) -> CannotPlan | UserQuestion | None:
    """Return what a planner says instead of a plan, where the tolerant reader found that it does
    (`E121`).

    An empty question does not count: None is returned, and the planner is asked again.
    """
    try:
        answer = parse_answer(source, MODEL_LIMITS.max_depth)
        values = [unwrap(find.node, source, MODEL_LIMITS.max_depth) for find in answer.matches]
    except DocumentError:
        return None
    for node in [value.node for value in values if value is not None]:
        key = refusal_field(node)
        if key is None:
            continue
        answer_fields = as_object(plain_value(node))
        said = answer_fields[key]
        if key == "ask":
            return _question(said)
        reason = _reason_in(said) or _reason_in(answer_fields) or "it gave no reason"
        return CannotPlan(reason, has_steps=bool(answer_fields.get("steps")))
    return None


def is_prose(text: str) -> bool:
    """Whether an answer is not empty and holds no JSON; a very long answer is not searched."""
    return len(text) <= _MAX_PROSE_LENGTH and find_json(text).is_prose


def is_refusal_prose(text: str) -> bool:
    """Whether the text of an answer declines; the caller checks that it holds no JSON."""
    return _REFUSAL_PATTERN.search(text.replace("\u2019", "'")) is not None


def _question(said: Json) -> UserQuestion | None:
    if not isinstance(said, dict):
        words = _as_text(said)
        return UserQuestion(words) if words else None
    words = _as_text(said.get("question"))
    listed = as_list(said.get("options"))
    shown = [_as_text(option)[:_MAX_OPTION_LENGTH] for option in listed[:_MAX_OPTIONS]]
    return UserQuestion(words, tuple(dict.fromkeys(filter(None, shown)))) if words else None


def _reason_in(said: Json) -> str:
    """Return why there is no plan: a text, those of a list, or what an object says of it."""
    match said:
        case list():
            return "; ".join(filter(None, map(_as_text, said)))[:_MAX_REASON_LENGTH]
        case dict():
            reasons = (_reason_in(said[name]) for name in _REASONS if name in said)
            return next(filter(None, reasons), "")
        case _:
            return _as_text(said)


_REASONS: Final = ("reason", "reasons", "message", "explanation", "details", "reasoning")


def _as_text(said: Json) -> str:
    if isinstance(said, bool) or not isinstance(said, str | int | float):
        return ""
    return str(said).strip()[:_MAX_REASON_LENGTH]


_NAME_FIELDS = ("tool", "tool_name", "name", "function")
_OTHER_CALL_FIELDS = frozenset(
    {"id", "call_id", "step_id", "tool_use_id", "type", "index", "why", "reason", "description"}
)
_LIST_FIELDS = ("tool_calls", "calls", "function_calls", "suggested_calls", "actions")
_MAX_DEPTH = 4
_CALL_NAME = re.compile(
    r"""["'](?:tool|tool_name|name|function)["']\s*:\s*["']([A-Za-z_][\w.-]{0,80})["']"""
)
"""The name of a call, also in the beginning of one that was cut."""


@dataclass(frozen=True, slots=True)
class SuggestedCall:
    """One call, as a model wrote it."""

    name: str
    arguments: JsonObject
    id: str | None = None
    """The id that the model gave the call, if any."""


def read_suggested_calls(text: str, calls: Sequence[NamedCall] = ()) -> tuple[SuggestedCall, ...]:
    """Return the calls that a model made or wrote down, in their order, each once.

    Calls that it made come first. Nothing is taken from a text of which a part cannot be read, nor
    is a call whose arguments are no JSON object.
    """
    suggested = [named for call in calls if (named := _from_tool_call(call)) is not None]
    said = find_json(text)
    if not said.unreadable and all(value.is_certain for value in said.values):
        written = [_calls_in_value(value.value, _MAX_DEPTH) for value in said.values]
        if None not in written:
            suggested += [call for part in written for call in part or ()]
    distinct: dict[tuple[str, bytes], SuggestedCall] = {}
    for call in suggested:
        distinct.setdefault((call.name, canonical_json(call.arguments)), call)
    return tuple(distinct.values())


@dataclass(frozen=True, slots=True)
class WholeCalls:
    """The calls of an answer that can be read to their ends, and the names of the others."""

    calls: tuple[SuggestedCall, ...]
    lost: tuple[str, ...]


def read_whole_calls(text: str, calls: Sequence[NamedCall] = ()) -> WholeCalls:
    """Return the calls of an answer that stand each for itself, though others are cut or broken.

    For calls that only add: what is missing of a plan may change what the rest of it means, what is
    missing of a list of records does not.

    >>> from wavewright.planner import read_whole_calls
    >>> read_whole_calls('[{"name": "add", "arguments": {"n": 1}}, {"name": "add", "argum').calls
    (SuggestedCall(name='add', arguments={'n': 1}, id=None),)
    """
    said = find_json(text)
    whole = [value for value in said.values if value.is_certain]
    read_calls = [(call, _from_tool_call(call)) for call in calls]
    whole_calls = [call for _, call in read_calls if call is not None]
    whole_calls += [
        call for value in whole for call in _calls_in_value(value.value, _MAX_DEPTH) or ()
    ]
    distinct = {(call.name, canonical_json(call.arguments)): call for call in whole_calls}
    lost = [call.name for call, read in read_calls if read is None and call.name]
    place = 0
    for value in sorted(whole, key=lambda one: one.span.start):
        lost += _CALL_NAME.findall(text[place : value.span.start])
        place = max(place, value.span.end)
    lost += _CALL_NAME.findall(text[place:])
    return WholeCalls(tuple(distinct.values()), tuple(dict.fromkeys(lost)))


def _from_tool_call(call: NamedCall) -> SuggestedCall | None:
    arguments = _object(call.arguments) if call.arguments.strip() else {}
    return None if arguments is None or not call.name else SuggestedCall(call.name, arguments)


def _calls_in_value(value: Json, depth: int) -> list[SuggestedCall] | None:
    """Return the calls that a value holds; `None` where it holds some that cannot be told apart
    from something else.

    Part of a list is never taken: the part between the calls may matter.
    """
    if isinstance(value, list):
        parts = [_calls_in_value(item, depth - 1) for item in value] if depth > 0 else [None]
        return None if None in parts else [call for part in parts for call in part or ()]
    if not isinstance(value, dict):
        return []
    call = _from_object(value)
    if call is not None:
        return [call]
    if "tool" in value or "tool_name" in value:
        return None
    return _calls_in_value(
        [value[key] for key in _LIST_FIELDS if isinstance(value.get(key), list)], depth
    )


def _from_object(written: JsonObject) -> SuggestedCall | None:
    """Return the call that an object represents, if it can be nothing else."""
    inner = written.get("function")
    if isinstance(inner, dict) and written.keys() <= _OTHER_CALL_FIELDS | {"function"}:
        return _from_object(
            {**{key: part for key, part in written.items() if key == "id"}, **inner}
        )
    names = [key for key in _NAME_FIELDS if key in written]
    given = [key for key in ARGUMENT_FIELDS if key in written]
    if (
        len(names) != 1
        or len(given) > 1
        or not written.keys() <= _OTHER_CALL_FIELDS | {*names, *given}
    ):
        return None
    name = written[names[0]]
    # `name` alone is ambiguous; `tool` alone is a call without arguments.
    if not isinstance(name, str) or not name or (not given and names[0] in {"name", "function"}):
        return None
    arguments: Json = written[given[0]] if given else None
    if isinstance(arguments, str):
        arguments = _object(arguments)
    elif arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return None
    own = written.get("id", written.get("step_id"))
    return SuggestedCall(name, arguments, own if isinstance(own, str) else None)


def _object(text: str) -> JsonObject | None:
    """Return the object if the whole text is one."""
    values = find_json(text)
    if values.unreadable or len(values.values) != 1 or not values.values[0].is_certain:
        return None
    value = values.values[0].value
    return value if isinstance(value, dict) else None
