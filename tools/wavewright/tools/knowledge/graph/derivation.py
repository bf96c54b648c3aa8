"""What follows from the stored mentions and merges: entities, the names that find them, and the texts of the search."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from wavewright.tools.knowledge.models import ORIGINS
from wavewright.tools.text.cross_reference import normal_name

OPEN_TYPES: Final = frozenset({"thing", "entity", "name", "term", ""})
"""Types that say nothing of what a thing is."""


def entity_id(name: str) -> str:
    """Return the id of the entity of a name: the name without case and white space."""
    return " ".join(name.casefold().split())


def entity_rows(database: sqlite3.Connection) -> list[tuple[str, str, str, str, str]]:
    """Return id, canonical id, name, type and origin of each entity that mentions name."""
    names: dict[str, Counter[str]] = defaultdict(Counter)
    types: dict[str, Counter[str]] = defaultdict(Counter)
    origins: dict[str, set[str]] = defaultdict(set)
    for entity, name, kind, origin in database.execute(
        "SELECT entity, name, type, origin FROM mention ORDER BY id"
    ):
        names[entity][name] += 1
        types[entity][kind] += kind.casefold() not in OPEN_TYPES
        origins[entity].add(origin)
    merged = _merged_into(database)
    return [
        (
            entity,
            _canonical(entity, merged, names),
            told.most_common(1)[0][0],
            types[entity].most_common(1)[0][0],
            next(one for one in ORIGINS if one in origins[entity]),
        )
        for entity, told in names.items()
    ]


def _merged_into(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT dropped, kept FROM merge WHERE is_undone = 0 ORDER BY rowid"))


def _canonical(entity: str, merged: dict[str, str], known: dict[str, Counter[str]]) -> str:
    """Return the entity that one is merged into, if it is still named somewhere."""
    found, place, seen = entity, entity, {entity}
    while (place := merged.get(place, "")) and place not in seen:
        seen.add(place)
        if place in known:
            found = place
    return found


def name_index(database: sqlite3.Connection) -> dict[str, str]:
    """Return the entity of each normal form of a name or an alias that only one entity has."""
    owners: dict[str, dict[str, str]] = defaultdict(dict)
    for entity, canonical, name, aliases in database.execute(
        "SELECT m.entity, e.canonical, m.name, m.aliases FROM mention m JOIN entity e ON e.id = m.entity"
    ):
        for form in (name, *json.loads(aliases)):
            owners[normal_name(form)].setdefault(canonical, entity)
    return {form: next(iter(found.values())) for form, found in owners.items() if len(found) == 1}


def text_rows(database: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    """Yield each canonical entity with its names and what is said of it."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for canonical, name, aliases in database.execute(
        "SELECT e.canonical, m.name, m.aliases FROM mention m JOIN entity e ON e.id = m.entity"
    ):
        names[canonical] |= dict.fromkeys((name, *json.loads(aliases)))
    texts: dict[str, dict[str, None]] = defaultdict(dict)
    for canonical, text in database.execute(
        "SELECT e.canonical, o.text FROM observation o JOIN entity e ON e.id = o.entity"
    ):
        texts[canonical][text] = None
    for canonical, told in names.items():
        yield canonical, "\n".join(told), "\n".join(texts[canonical])
