"""Write events as JSON text and read them back.

A *kind* is the name of an event type in the journal; it does not change with the class's name. The
codec of each field is derived from the type hints in `types.py` when the module is loaded, so a new
field needs no change here. `decode(*encode(event)) == event` holds for every event of JSON values;
anything else raises `CodecError`.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from operator import attrgetter
from typing import Any, Final, Literal, NewType, NoReturn, TypeAlias, get_args, get_origin

from pydantic import JsonValue

from wavewright.config import WavewrightError
from wavewright.executor.events import types as events
from wavewright.executor.events.json_values import make_encoder
from wavewright.executor.events.types import Event
from wavewright.planner import Json, JsonObject

KINDS: Final[Mapping[str, type[Event]]] = {
    "run_started": events.RunStarted,
    "plan_accepted": events.PlanAccepted,
    "wave_started": events.WaveStarted,
    "step_started": events.StepStarted,
    "item_finished": events.ItemFinished,
    "step_finished": events.StepFinished,
    "wave_finished": events.WaveFinished,
    "model_called": events.ModelCalled,
    "rung_taken": events.RungTaken,
    "output_streamed": events.OutputStreamed,
    "loop_tool_called": events.LoopToolCalled,
    "attempt_logged": events.AttemptLogged,
    "output_logged": events.OutputLogged,
    "answer_kept": events.AnswerKept,
    "noted": events.Noted,
    "run_finished": events.RunFinished,
}
"""Every event type by its name in the journal."""


class CodecError(WavewrightError, ValueError):
    """An event cannot be written as JSON, or a text is not an event of its kind."""


_Write: TypeAlias = Callable[[Any], Any]
"""From a field's value to JSON."""
_Read: TypeAlias = Callable[[Any], Any]
"""From JSON to a field's value; raises CodecError."""


def kind_of(event: Event) -> str:
    """Return the name of the event's type in the journal."""
    return _CODECS_BY_TYPE[type(event)].kind


def encode(event: Event) -> tuple[str, str]:
    """Return the kind and the JSON text of an event; fields at their default are left out.

    Raises:
        CodecError: a value is not JSON: another type, NaN, an infinity, or nested too deeply.
    """
    codec = _CODECS_BY_TYPE[type(event)]
    try:
        return codec.kind, _TO_TEXT(codec.write(event))
    except (TypeError, ValueError, RecursionError) as error:
        step = getattr(event, "step", None)
        where = f" of step {step!r}" if step else ""
        raise CodecError(f"{codec.kind}{where} cannot be written as JSON: {error}") from error


def decode(kind: str, body: str) -> Event:
    """Return the event that `encode` wrote.

    Raises:
        CodecError: the kind is unknown, the text is not an object, or a field is missing, unknown
            or of a wrong type.
    """
    codec = _CODECS_BY_KIND.get(kind)
    if codec is None:
        raise CodecError(f"unknown kind of event {kind!r}")
    try:
        value = _FROM_TEXT(body)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"{kind} is not valid JSON: {error}") from error
    return typing.cast("Event", codec.read(value))


def to_json(event: Event) -> JsonObject:
    """Return an event as one JSON object, its `kind` first: for streams and exports.

    Raises:
        CodecError: as `encode`.

    >>> from wavewright.executor import RunFinished, to_json
    >>> to_json(RunFinished(2.0, "achieved"))["kind"]
    'run_finished'
    """
    kind, body = encode(event)
    return {"kind": kind, **_FROM_TEXT(body)}


def from_json(value: Json) -> Event:
    """Return the event that `to_json` wrote.

    Raises:
        CodecError: as `decode`.

    >>> from wavewright.executor import WaveStarted, from_json, to_json
    >>> from_json(to_json(WaveStarted(1.0, 0, ("a", "b")))).steps
    ('a', 'b')
    """
    if not isinstance(value, dict) or not isinstance(kind := value.get("kind"), str):
        raise CodecError("an event is a JSON object with a 'kind'")
    codec = _CODECS_BY_KIND.get(kind)
    if codec is None:
        raise CodecError(f"unknown kind of event {kind!r}")
    return typing.cast(
        "Event", codec.read({name: part for name, part in value.items() if name != "kind"})
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


# Escaped to ASCII, so that a lone surrogate in a tool's output can be encoded as UTF-8.
_TO_TEXT: Final = make_encoder(sort_keys=False)
_FROM_TEXT: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _unchanged(value: object) -> object:
    return value


class _TypeCodec(typing.NamedTuple):
    """How values of one type are written and read."""

    write: _Write | None
    """None: the value is written as it is."""
    read: _Read


class _FieldCodec(typing.NamedTuple):
    name: str
    default: object
    write: _Write | None
    read: _Read


_REQUIRED: Final = object()
"""The default of a required field."""


class _RecordCodec:
    """Writes and reads one dataclass."""

    def __init__(self, kind: str, record: type[Any]) -> None:
        self.kind = kind
        self._record = record
        hints = typing.get_type_hints(record)
        self._fields = tuple(
            _FieldCodec(
                field.name,
                _default_of(field),
                *_type_codec(hints[field.name], f"{kind}.{field.name}"),
            )
            for field in fields(record)
        )
        self._defaults = tuple((field.name, field.default) for field in self._fields)
        self._writers = tuple(
            (field.name, field.write) for field in self._fields if field.write is not None
        )
        self._values = attrgetter(*(field.name for field in self._fields))
        self._by_name = {field.name: field for field in self._fields}
        self._required = frozenset(
            field.name for field in self._fields if field.default is _REQUIRED
        )

    def write(self, record: object) -> dict[str, Any]:
        body = {
            name: value
            for (name, default), value in zip(self._defaults, self._values(record), strict=True)
            # The identity check covers nearly all fields that are left out and is cheaper than the
            # comparison.
            if value is not default and (default is None or value != default)
        }
        for name, write in self._writers:
            if name in body:
                body[name] = write(body[name])
        return body

    def read(self, value: object) -> object:
        if not isinstance(value, dict):
            raise CodecError(f"{self.kind} is {_value_text(value)}, not an object")
        body = typing.cast("dict[str, object]", value)
        by_name = self._by_name
        arguments: dict[str, object] = {}
        for name, part in body.items():
            field = by_name.get(name)
            if field is None:
                raise CodecError(f"{self.kind} has an unknown field {name!r}")
            arguments[name] = field.read(part)
        if missing := self._required - arguments.keys():
            raise CodecError(
                f"{self.kind} lacks {', '.join(repr(name) for name in sorted(missing))}"
            )
        return self._record(**arguments)


def _default_of(field: Field[Any]) -> object:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    return _REQUIRED


def _value_text(value: object) -> str:
    return "null" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


def _type_codec(hint: Any, place: str) -> _TypeCodec:
    """Return the codec of a type hint; `place` names the field in messages."""
    if isinstance(hint, NewType):
        return _type_codec(hint.__supertype__, place)
    if hint is JsonValue:
        return _TypeCodec(None, _unchanged)
    if hint in _SCALARS:
        return _scalar(hint, place)
    if is_dataclass(hint):
        record = _RecordCodec(place, typing.cast("type[Any]", hint))
        return _TypeCodec(record.write, record.read)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal(frozenset(args), place)
    if origin in (typing.Union, types.UnionType) and len(args) == 2 and types.NoneType in args:
        inner = _type_codec(next(arg for arg in args if arg is not types.NoneType), place)
        return _optional(inner)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _sequence(_type_codec(args[0], place), place)
    if origin is tuple:
        return _fixed_tuple(tuple(_type_codec(arg, place) for arg in args), place)
    if origin is dict and args[0] is str:
        return _mapping(_type_codec(args[1], place), place)
    raise AssertionError(f"types.py: the codec does not support {hint} ({place})")


_SCALARS: Final[Mapping[type, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "text"),
    int: ((int,), "a whole number"),
    float: ((float, int), "a number"),
    bool: ((bool,), "true or false"),
}


def _scalar(kind: type, place: str) -> _TypeCodec:
    accepted, words = _SCALARS[kind]

    def read(value: object) -> object:
        # type(), since bool is an int to isinstance.
        if type(value) not in accepted:
            raise CodecError(f"{place} is {_value_text(value)}, not {words}")
        return value

    return _TypeCodec(None, read)


def _literal(allowed: frozenset[object], place: str) -> _TypeCodec:
    def read(value: object) -> object:
        if not isinstance(value, str) or value not in allowed:
            raise CodecError(
                f"{place} is {_value_text(value)}, none of {', '.join(sorted(map(str, allowed)))}"
            )
        return value

    return _TypeCodec(None, read)


def _optional(inner: _TypeCodec) -> _TypeCodec:
    write_inner = inner.write

    def write(value: Any) -> Any:
        return None if value is None or write_inner is None else write_inner(value)

    def read(value: object) -> object:
        return None if value is None else inner.read(value)

    return _TypeCodec(None if write_inner is None else write, read)


def _sequence(inner: _TypeCodec, place: str) -> _TypeCodec:
    write_inner = inner.write

    def write(value: tuple[Any, ...]) -> list[Any]:
        return [part if write_inner is None else write_inner(part) for part in value]

    def read(value: object) -> tuple[object, ...]:
        return tuple(inner.read(part) for part in _list(value, place))

    return _TypeCodec(None if write_inner is None else write, read)


def _fixed_tuple(parts: tuple[_TypeCodec, ...], place: str) -> _TypeCodec:
    assert all(part.write is None for part in parts), place

    def read(value: object) -> tuple[object, ...]:
        elements = _list(value, place)
        if len(elements) != len(parts):
            raise CodecError(f"{place} has {len(elements)} elements, not {len(parts)}")
        return tuple(part.read(element) for part, element in zip(parts, elements, strict=True))

    return _TypeCodec(None, read)


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise CodecError(f"{place} is {_value_text(value)}, not a list")
    return typing.cast("list[object]", value)


def _mapping(inner: _TypeCodec, place: str) -> _TypeCodec:
    assert inner.write is None, place

    def read(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise CodecError(f"{place} is {_value_text(value)}, not an object")
        return {
            name: inner.read(part) for name, part in typing.cast("dict[str, object]", value).items()
        }

    return _TypeCodec(None, read)


_CODECS_BY_KIND: Final = {kind: _RecordCodec(kind, record) for kind, record in KINDS.items()}
_CODECS_BY_TYPE: Final = {record: _CODECS_BY_KIND[kind] for kind, record in KINDS.items()}
