"""What the result of a function becomes as JSON: the rules that pydantic leaves open.

- A set is a list in the order of its members' JSON, the same in every process.
- Two keys of a mapping that are one text in JSON are refused: one of them would be lost.
- A model of a subclass keeps its fields.
- Scalars and arrays of numpy become numbers and lists, tables of pandas lists of rows, a range a
  list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any, cast

from pydantic import BaseModel

from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.types import Json
from wavewright.tools.functions.errors import ToolError


def as_plain_value(value: object) -> object:
    """Return a value that pydantic does not know as one that it does.

    Raises:
        TypeError: there is none.
    """
    if isinstance(value, range):
        return list(value)
    library = type(value).__module__.partition(".")[0]
    # Neither library is imported here, so their values have no types.
    foreign = cast("Any", value)
    if library == "numpy" and hasattr(foreign, "tolist"):
        return cast("object", foreign.tolist())
    if library == "pandas":
        if hasattr(foreign, "columns") and hasattr(foreign, "to_dict"):
            return cast("object", foreign.to_dict("records"))
        if hasattr(foreign, "tolist"):
            return cast("object", foreign.tolist())
        if hasattr(foreign, "isoformat"):
            return cast("object", foreign.isoformat())
    msg = f"{type(value).__name__} has no JSON form"
    raise TypeError(msg)


def completed(value: object, written: Json, place: str) -> Json:
    """Return what pydantic wrote of a value, by the rules of this module.

    Args:
        value: The result as the function returned it.
        written: Its JSON, as pydantic wrote it.
        place: The function, for messages.

    Raises:
        ToolError: two keys are one text.
    """
    if isinstance(value, str | int | float | None):
        return written
    if isinstance(written, dict):
        if isinstance(value, Mapping):
            return _mapping(cast("Mapping[object, object]", value), written, place)
        if isinstance(value, BaseModel):
            return _model(value, written, place)
        if is_dataclass(value):
            parts = {field.name: getattr(value, field.name) for field in fields(value)}
            return _members(parts, written, place)
        return written
    if isinstance(written, list):
        return _list(value, written, place)
    return written


def _mapping(value: Mapping[object, object], written: dict[str, Json], place: str) -> Json:
    if len(value) != len(written):
        texts = [str(key) for key in value]
        lost = next((text for text in texts if texts.count(text) > 1), "")
        raise ToolError(
            f"the result of {place} has two keys that are {lost!r} in JSON: one would be lost",
            hint="make the keys texts that differ",
        )
    return {
        name: completed(item, entry, place)
        for item, (name, entry) in zip(value.values(), written.items(), strict=True)
    }


def _model(value: BaseModel, written: dict[str, Json], place: str) -> Json:
    kind = type(value)
    if len(written) < len(kind.model_fields):
        # Where a base class is declared, pydantic writes the fields of the base class alone.
        own = cast("dict[str, Json]", value.model_dump(mode="json", by_alias=True))
        if own.keys() > written.keys():
            written = own
    parts = {
        field.serialization_alias or field.alias or name: getattr(value, name)
        for name, field in kind.model_fields.items()
    }
    return _members(parts, written, place)


def _members(parts: dict[str, object], written: dict[str, Json], place: str) -> Json:
    return {
        name: completed(parts[name], entry, place) if name in parts else entry
        for name, entry in written.items()
    }


def _list(value: object, written: list[Json], place: str) -> Json:
    if isinstance(value, AbstractSet):
        members = list(cast("AbstractSet[object]", value))
        if len(members) != len(written):
            return written
        made = [completed(*pair, place) for pair in zip(members, written, strict=True)]
        return sorted(made, key=canonical_json)
    if isinstance(value, list | tuple):
        items = list(cast("Iterable[object]", value))
        if len(items) == len(written):
            return [completed(*pair, place) for pair in zip(items, written, strict=True)]
    return written
