"""What changes between two normal forms: what a failing snapshot shows before its text.

Each change is a line with its path. Entries of a list go by their names (of a step its id, of a cap
its field), so that one step more is one line and not a change of all that follow.
"""

from __future__ import annotations

import json
from collections import Counter

from wavewright.planner import Json, JsonObject
from wavewright.planner.language.json_values import json_changes
from wavewright.reviewer.values import shorten

_MAX_CHANGES = 12
_VALUE_WIDTH = 60
_NAMING_FIELDS = (
    "kind", "topic", "id", "field", "gate", "action", "name", "step", "index",
)  # fmt: skip
"""Fields that tell the entries of a list apart, in the order in which a name has them."""


def describe_changes(old: JsonObject, new: JsonObject) -> list[str]:
    """Return what changes from one normal form to another, a line each; none where they are equal."""
    changes = list(json_changes(_named(old), _named(new), within_lists=True))
    # By names alone, entries in another order are the same.
    changes = changes or list(json_changes(old, new, within_lists=True))
    lines = [change.describe(_bare) for change in changes[:_MAX_CHANGES]]
    if len(changes) > _MAX_CHANGES:
        lines.append(f"and {len(changes) - _MAX_CHANGES} more")
    return lines


def _named(value: Json) -> Json:
    """Return a value in which lists of entries with names are objects by these names."""
    if isinstance(value, dict):
        return {name: _named(part) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    names = [_name_of(entry) for entry in value]
    if not names or "" in names:
        return [_named(entry) for entry in value]
    seen: Counter[str] = Counter()
    by_name: JsonObject = {}
    for name, entry in zip(names, value, strict=True):
        seen[name] += 1
        by_name[name if seen[name] == 1 else f"{name} ({seen[name]})"] = _named(entry)
    return by_name


def _name_of(entry: Json) -> str:
    """Return what an entry of a list is called; empty where nothing names it."""
    if not isinstance(entry, dict):
        return ""
    return " ".join(str(entry[name]) for name in _NAMING_FIELDS if entry.get(name) is not None)


def _bare(value: Json) -> str:
    """Return a value in a few characters, texts as they are."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, _VALUE_WIDTH)
