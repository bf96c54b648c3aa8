"""What differs between two JSON values, at the innermost places that both have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from wavewright.planner.types import Json

JsonPath: TypeAlias = tuple[str | int, ...]


class JsonChange(NamedTuple):
    """One place that differs; the value is null on a side where the place is absent."""

    path: JsonPath
    kind: Literal["added", "removed", "changed"]
    old: Json
    new: Json

    @property
    def dotted_path(self) -> str:
        """The path as people write it: `params.limits[2]`."""
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        return text.removeprefix(".")


def json_changes(
    old: Json, new: Json, path: JsonPath = (), *, within_lists: bool = False
) -> Iterator[JsonChange]:
    """Yield the smallest parts that differ.

    Lists differ as wholes, because their items have no names; with `within_lists`, those of equal length differ item
    by item. To Python also true and 1 are equal; here they are not.
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
