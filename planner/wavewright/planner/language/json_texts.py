"""Change the texts of a JSON value, wherever they stand."""

from __future__ import annotations

from collections.abc import Callable

from wavewright.planner.types import Json


def map_texts(value: Json, change: Callable[[str], Json], rename: Callable[[str], str] | None = None) -> Json:
    """Return a copy of a value in which each text is changed, and each name of a member where `rename` is given."""
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
