"""What a value of Python becomes as JSON: the rules that pydantic leaves open.

They are the same for the result of a function and for what a program gives a plan: inputs,
parameters, lists of items. See docs/explanation/values.md.

- A set is a list in the order of its members' JSON, the same in every process.
- Two keys of a mapping that are one text in JSON are refused: one of them would be lost.
- A model of a subclass keeps its fields.
- Scalars and arrays of numpy become numbers, times and lists, tables of pandas lists of rows, a
  range a list. Labels of rows are kept where they say something: they have a name, or are no
  numbers. Two columns of one name, and two labels of a series that are one, are refused.
- NaN and infinities, complex numbers, what pandas and numpy say of a missing value, a text with
  half a character, nanoseconds, flags of a pattern, digits beyond those of a float and a secret, of
  which pydantic writes asterisks, are refused: each would be another value.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, cast

from pydantic import BaseModel, RootModel, SecretBytes, SecretStr, TypeAdapter
from pydantic_core import PydanticSerializationError

from wavewright.planner import Json, canonical_json
from wavewright.tools.functions.errors import ToolError


def written_as_json(value: object, owner: str, adapter: TypeAdapter[object] | None = None) -> Json:
    """Return a value as JSON: models, dataclasses and dates become what JSON has for them.

    Args:
        value: Any value of Python.
        owner: Whose value it is, for messages: `the input 'since'`.
        adapter: The type that is declared for it.

    Raises:
        ToolError: it holds something that JSON has no form for, or that would be changed.
    """
    adapter = adapter or _ANYTHING
    if isinstance(value, Iterator):
        # It gives its items once, and they are looked at more than once.
        value = list(cast("Iterator[object]", value))
    try:
        written = cast(
            "Json",
            adapter.dump_python(
                value, mode="json", by_alias=True, warnings="none", fallback=as_plain_value
            ),
        )
    except UnicodeEncodeError as error:
        # pydantic meets half a character in a key before it is looked for below.
        raise _half_character(owner) from error
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        if _has_missing(value):
            raise ToolError(
                f"{owner} holds a missing value of pandas, which JSON has no form for",
                hint=_FILL_WITH_NONE,
            ) from error
        raise ToolError(
            f"{owner} cannot be written as JSON: {error}",
            hint="give dicts, lists, text, numbers, dates, dataclasses or pydantic models",
        ) from error
    if _require_unchanged(written, owner, value):
        # pydantic writes NaN and infinities in values of no known type as null.
        dumped = adapter.dump_python(value, warnings="none", fallback=as_plain_value)
        _require_unchanged(dumped, owner, value)
    return completed(value, written, owner)


_ANYTHING: Final[TypeAdapter[object]] = TypeAdapter(object)
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_MISSING: Final = frozenset({"NaTType", "NAType"})
"""Types of what pandas says in place of a value."""


_FILL_WITH_NONE: Final = "give None in its place: `frame.astype(object).where(frame.notna(), None)`"


def _require_unchanged(value: object, owner: str, given: object) -> bool:
    """Raise where a number is NaN or infinite, as JSON has neither, and where a text holds half a
    character, which no file and no database can; return whether a value holds null.

    Args:
        value: What is written of the value that was `given`.
        owner: Whose value it is, for messages.
        given: The value of Python.
    """
    todo: list[object] = [value]
    holds_null = False
    while todo:
        node = todo.pop()
        if isinstance(node, float):
            if not math.isfinite(node):
                # In a column of pandas NaN also stands for a text that is missing.
                is_missing = math.isnan(node) and _has_missing(given)
                raise ToolError(
                    f"{owner} holds {node}, which JSON has no form for",
                    hint=_FILL_WITH_NONE if is_missing else "give None where there is no number",
                )
        elif isinstance(node, str):
            if _has_half_character(node):
                raise _half_character(owner)
        elif isinstance(node, list | tuple | set | frozenset):
            todo.extend(cast("Iterable[object]", node))
        elif isinstance(node, dict):
            members = cast("dict[object, object]", node)
            todo.extend(key for key in members if isinstance(key, str))
            todo.extend(members.values())
        else:
            holds_null = holds_null or node is None
    return holds_null


def _has_half_character(text: str) -> bool:
    return not text.isascii() and _HALF_CHARACTER.search(text) is not None


def _half_character(owner: str) -> ToolError:
    return ToolError(
        f"{owner} holds half a character (a lone surrogate), which no text in a file can",
        hint="read the text with the encoding that it is in, or give its bytes as base64",
    )


def _has_missing(value: object) -> bool:
    """Whether a value holds what pandas says in place of one."""
    todo = [value]
    seen = set[int]()
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if type(node).__name__ in _MISSING:
            return True
        if isinstance(node, Mapping):
            todo.extend(cast("Mapping[object, object]", node).values())
        elif isinstance(node, list | tuple | AbstractSet):
            todo.extend(cast("Iterable[object]", node))
        elif hasattr(node, "isna"):
            missing = cast("Any", node).isna()
            flags = missing.to_numpy() if hasattr(missing, "to_numpy") else missing
            if bool(flags.any()):
                return True
    return False


def as_plain_value(value: object) -> object:
    """Return a value that pydantic does not know as one that it does.

    Raises:
        TypeError: there is none.
    """
    if isinstance(value, range):
        return list(value)
    if isinstance(value, PurePath):
        return str(value)
    library = type(value).__module__.partition(".")[0]
    # Neither library is imported here, so their values have no types.
    foreign = cast("Any", value)
    if library == "numpy" and hasattr(foreign, "tolist"):
        return _plain_array(foreign)
    if library == "pandas":
        if hasattr(foreign, "columns") and hasattr(foreign, "to_dict"):
            rows = foreign.reset_index() if _has_labels(foreign) else foreign
            _require_distinct(rows.columns, "columns")
            return cast("object", rows.to_dict("records"))
        if hasattr(foreign, "to_dict") and _has_labels(foreign):
            _require_distinct(foreign.index, "labels")
            return cast("object", dict(zip(foreign.index.tolist(), foreign.tolist(), strict=True)))
        if hasattr(foreign, "tolist"):
            return cast("object", foreign.tolist())
        if hasattr(foreign, "isoformat"):
            return cast("object", foreign.isoformat())
    msg = f"{type(value).__name__} has no JSON form"
    raise TypeError(msg)


def _plain_array(array: Any) -> object:
    """Return a scalar or an array of numpy as plain values.

    Raises:
        TypeError: it holds what is missing, or a time or a number that Python has none for.
    """
    if array.dtype.names is not None:
        return _plain_records(array)
    if getattr(array, "mask", None) is not None and bool(array.mask.any()):
        msg = "an entry that numpy masks has no JSON form"
        raise TypeError(msg)
    kind = array.dtype.kind
    if kind in "mM":
        # What is finer than microseconds numpy gives as counted numbers.
        micros = array.astype(f"{kind}8[us]")
        if not bool((micros == array).all()):
            msg = "a time of numpy that is missing, or finer than a microsecond, has no JSON form"
            raise TypeError(msg)
        is_date = kind == "M" and array.dtype.str.endswith("[D]")
        return cast("object", (array if is_date else micros).tolist())
    if kind in "fc" and array.dtype.itemsize > _ITEM_SIZES[kind]:
        narrow = array.astype(f"{kind}{_ITEM_SIZES[kind]}")
        if not bool((narrow == array).all()):
            msg = f"a number of numpy's {array.dtype} has more digits than a float"
            raise TypeError(msg)
        array = narrow
    return cast("object", array.tolist())


_ITEM_SIZES: Final = {"f": 8, "c": 16}
"""Bytes of the numbers of numpy that Python has as well."""


def _plain_records(array: Any) -> object:
    """Return records of numpy as objects, in as many lists as the array has dimensions."""
    if array.ndim:
        return [_plain_records(part) for part in array]
    return {name: as_plain_value(array[name]) for name in array.dtype.names}


def _require_distinct(names: Any, what: str) -> None:
    """Raise TypeError where one of the labels of pandas would take the place of another."""
    if not names.is_unique:
        msg = (
            f"a table of pandas has two {what} {names[names.duplicated()][0]!r}: one would be lost"
        )
        raise TypeError(msg)


def _has_labels(rows: Any) -> bool:
    """Whether rows of pandas have labels that say something, and no numbers that count them."""
    index = getattr(rows, "index", None)
    if index is None:
        return False
    is_counted = getattr(index.dtype, "kind", "") == "i"
    return not is_counted or any(name is not None for name in index.names)


def completed(value: object, written: Json, owner: str) -> Json:
    """Return what pydantic wrote of a value, by the rules of this module.

    Args:
        value: The value as it was given.
        written: Its JSON, as pydantic wrote it.
        owner: Whose value it is, for messages.

    Raises:
        ToolError: two keys are one text, or a decimal number is none.
    """
    if isinstance(value, str | int | float | None):
        return written
    _require_whole(value, owner)
    if isinstance(written, dict):
        if isinstance(value, Mapping):
            return _mapping(cast("Mapping[object, object]", value), written, owner)
        if isinstance(value, BaseModel):
            return _model(value, written, owner)
        if is_dataclass(value):
            return _dataclass(value, written, owner)
    elif isinstance(written, list):
        if isinstance(value, list | tuple | deque | AbstractSet):
            return _list(cast("Iterable[object]", value), written, owner)
    elif not (isinstance(written, str) and _YEARS.match(written)):
        return written
    elif isinstance(value, dt.timedelta):
        return _YEARS.sub(_in_days, written, count=1)
    try:
        # A path, or a member of an enumeration, may be called `P1Y`: it stays as it is.
        plain = _held_value(value)
    except TypeError:
        # pydantic knows it, and what it is made of is not looked at.
        return written
    return completed(plain, written, owner)


def _held_value(value: object) -> object:
    """Return what is written in place of a value, such as what a member of an enumeration stands for.

    Raises:
        TypeError: it is not known.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, RootModel):
        return cast("RootModel[object]", value).root
    return as_plain_value(value)


_YEARS: Final = re.compile(r"(-?P)([0-9]+)Y(?:([0-9]+)D)?")
"""Years of a duration, as pydantic writes them of 365 days."""


def _in_days(found: re.Match[str]) -> str:
    """Return the years and days of a duration as days: years differ, and `duration()` has none."""
    return f"{found[1]}{365 * int(found[2]) + int(found[3] or 0)}D"


def _require_whole(value: object, owner: str) -> None:
    """Raise where pydantic writes a value as one text, and leaves out what it is or a part of it, or
    that it is a number.
    """
    if isinstance(value, SecretStr | SecretBytes):
        raise ToolError(
            f"{owner} holds a secret, of which only asterisks would be left",
            hint="give what it is with `get_secret_value()`, or leave it out",
        )
    if isinstance(value, Decimal) and not value.is_finite():
        raise ToolError(
            f"{owner} holds {value}, which is no number",
            hint="give None where there is no number",
        )
    if isinstance(value, complex) or _is_complex_of_numpy(value):
        raise ToolError(
            f"{owner} holds {value!r}, a complex number, which JSON has no form for",
            hint="give its parts as two numbers: `[value.real, value.imag]`",
        )
    # Times of pandas are those of Python to pydantic, and count nanoseconds.
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        lost = "a time of pandas with nanoseconds"
    elif isinstance(value, re.Pattern) and value.flags & ~re.UNICODE:
        lost = f"a pattern with {re.RegexFlag(value.flags) & ~re.UNICODE!r}"
    else:
        return
    raise ToolError(
        f"{owner} holds {lost}, which would be lost in JSON",
        hint="give a text or a number that says it",
    )


def _is_complex_of_numpy(value: object) -> bool:
    """Whether a value is one complex number of numpy, which is not always one of Python."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind == "c" and getattr(value, "ndim", None) == 0


def _mapping(value: Mapping[object, object], written: dict[str, Json], owner: str) -> Json:
    if len(value) != len(written):
        texts = [_text_of_key(key) for key in value]
        if len(set(texts)) != len(texts):
            lost = next(text for text in texts if texts.count(text) > 1)
            raise ToolError(
                f"{owner} has two keys that are {lost!r} in JSON: one would be lost",
                hint="make the keys texts that differ",
            )
        # Where a `TypedDict` is declared, pydantic leaves out what it does not name.
        written = cast("dict[str, Json]", _dumped(value))
    for key in value:
        # Where the type of keys is declared, pydantic writes another character in its place.
        if isinstance(key, str) and _has_half_character(key):
            raise _half_character(owner)
    return {
        str(completed(key, name, owner)): completed(item, entry, owner)
        for (key, item), (name, entry) in zip(value.items(), written.items(), strict=True)
    }


def _text_of_key(key: object) -> str:
    written = cast("dict[str, Json]", _dumped({key: None}))
    return next(iter(written))


def _dumped(value: object) -> Json:
    """Return a value as JSON, whatever is declared of it."""
    return cast(
        "Json",
        _ANYTHING.dump_python(
            value, mode="json", by_alias=True, warnings="none", fallback=as_plain_value
        ),
    )


def _model(value: BaseModel, written: dict[str, Json], owner: str) -> Json:
    kind = type(value)
    names = len(kind.model_fields) + len(kind.model_computed_fields) + len(value.model_extra or ())
    parts = {
        field.serialization_alias or field.alias or name: getattr(value, name)
        for name, field in kind.model_fields.items()
    }
    return _members(parts, _all_fields(value, written, names), owner)


def _dataclass(value: Any, written: dict[str, Json], owner: str) -> Json:
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    return _members(parts, _all_fields(value, written, len(parts)), owner)


def _all_fields(value: object, written: dict[str, Json], count: int) -> dict[str, Json]:
    """Return the fields that were written of a value, with those that were left out.

    Where a base class is declared, pydantic writes the fields of the base class alone.
    """
    own = written if len(written) >= count else cast("dict[str, Json]", _dumped(value))
    return own if own.keys() > written.keys() else written


def _members(parts: dict[str, object], written: dict[str, Json], owner: str) -> Json:
    return {
        name: completed(parts[name], entry, owner) if name in parts else entry
        for name, entry in written.items()
    }


def _list(value: Iterable[object], written: list[Json], owner: str) -> Json:
    items = list(value)
    if len(items) != len(written):
        return written
    members = [completed(*pair, owner) for pair in zip(items, written, strict=True)]
    return sorted(members, key=canonical_json) if isinstance(value, AbstractSet) else members
