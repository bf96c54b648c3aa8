"""JSON values: what differs between two of them, and changes of the texts in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from wavewright.config.errors import cut_end
from wavewright.config.sources import path_text
from wavewright.config.value_types import JsonPath
from wavewright.planner.types import Json


class JsonChange(NamedTuple):
    """One place that differs; the value is null on a side where the place is absent."""

    path: JsonPath
    kind: Literal["added", "removed", "changed"]
    old: Json
    new: Json

    @property
    def dotted_path(self) -> str:
        """The path as people write it: `params.limits[2]`."""
        return path_text(self.path)

    def describe(self, shown: Callable[[Json], str] | None = None) -> str:
        """Return the change in a few words, such as `params.top 5 → 6`, `params.force added: true`
        or `params.days gone: 3`; `shown` writes the values, as short JSON where it is absent.
        """
        shown = shown or short_json
        match self.kind:
            case "added":
                return f"{self.dotted_path} added: {shown(self.new)}"
            case "removed":
                return f"{self.dotted_path} gone: {shown(self.old)}"
            case "changed":
                return f"{self.dotted_path} {shown(self.old)} → {shown(self.new)}"


def short_json(value: Json) -> str:
    """Return a value as JSON, cut to fit in a sentence."""
    return cut_end(json.dumps(value, ensure_ascii=False), _SHORT_LENGTH)


_SHORT_LENGTH: Final = 80


def json_changes(
    old: Json, new: Json, path: JsonPath = (), *, within_lists: bool = False
) -> Iterator[JsonChange]:
    """Yield the smallest parts that differ.

    Lists differ as wholes, because their items have no names; with `within_lists`, those of equal
    length differ item by item. To Python also true and 1 are equal; here they are not.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            below = (*path, name)
            if name not in old:
                yield JsonChange(below, "added", None, new[name])
            elif name not in new:
                yield JsonChange(below, "removed", old[name], None)
            else:
                yield from json_changes(old[name], new[name], below, within_lists=within_lists)
    elif within_lists and isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from json_changes(before, after, (*path, index), within_lists=within_lists)
    elif json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True):
        yield JsonChange(path, "changed", old, new)


def map_texts(
    value: Json, change: Callable[[str], Json], rename: Callable[[str], str] | None = None
) -> Json:
    """Return a copy of a value in which each text is changed, and each name of a member where
    `rename` is given.
    """
    match value:
        case str():
            return change(value)
        case list():
            return [map_texts(item, change, rename) for item in value]
        case dict():
            return {
                name if rename is None else rename(name): map_texts(member, change, rename)
                for name, member in value.items()
            }
        case _:
            return value
