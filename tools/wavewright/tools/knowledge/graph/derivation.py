"""What follows from the stored mentions and merges: entities, the names that find them, and the texts of the search.

Each is computed for some entities alone, so that a write costs what its names touch and not what the graph holds.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from wavewright.tools.knowledge.graph.tables import ENDS, LISTED, as_list
from wavewright.tools.knowledge.models import ORIGINS
from wavewright.tools.text.cross_reference import normal_name

OPEN_TYPES: Final = frozenset({"thing", "entity", "name", "term", ""})
"""Types that say nothing of what a thing is."""


def entity_id(name: str) -> str:
    """Return the id of the entity of a name: the name without case and white space."""
    return " ".join(name.casefold().split())


def united_with(database: sqlite3.Connection, entities: Iterable[str]) -> set[str]:
    """Return some entities with all that merges connect them with."""
    rows = database.execute(
        "WITH RECURSIVE found(entity) AS (SELECT value FROM json_each(?)"
        " UNION SELECT dropped FROM merge JOIN found ON kept = entity WHERE is_undone = 0"
        " UNION SELECT kept FROM merge JOIN found ON dropped = entity WHERE is_undone = 0)"
        " SELECT entity FROM found",
        (as_list(entities),),
    )
    return {one for (one,) in rows}


def derive(database: sqlite3.Connection, entities: Collection[str]) -> None:
    """Compute some entities, the ends that name them and their texts; `entities` has all that they are united with."""
    listed = as_list(entities)
    database.execute(
        f"DELETE FROM entity_text WHERE rowid IN (SELECT number FROM entity WHERE id IN {LISTED})",  # noqa: S608 - our words
        (listed,),
    )
    rows = _entity_rows(database, listed)
    gone = [(one,) for one in {*entities} - {row[0] for row in rows}]
    database.executemany("DELETE FROM entity WHERE id = ?", gone)
    database.executemany(
        "INSERT INTO entity (id, canonical, name, type, origin) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
        " SET canonical = excluded.canonical, name = excluded.name, type = excluded.type, origin = excluded.origin",
        rows,
    )
    for table, column in ENDS:
        database.executemany(f"UPDATE {table} SET {column} = NULL WHERE {column} = ?", gone)  # noqa: S608 - our names
    set_ends(database, {row[0]: row[0] for row in rows})
    _write_texts(database, listed)


def set_ends(database: sqlite3.Connection, found: dict[str, str]) -> None:
    """Point the ends that have no entity at those found by the ids that their names would have."""
    for table, column in ENDS:
        database.executemany(
            f"UPDATE {table} SET {column} = ? WHERE {column} IS NULL AND {column}_key = ?",  # noqa: S608 - our names
            ((entity, key) for key, entity in found.items()),
        )


def _entity_rows(database: sqlite3.Connection, listed: str) -> list[tuple[str, str, str, str, str]]:
    """Return id, canonical id, name, type and origin of each entity that mentions name."""
    names: dict[str, Counter[str]] = defaultdict(Counter)
    types: dict[str, Counter[str]] = defaultdict(Counter)
    origins: dict[str, set[str]] = defaultdict(set)
    for entity, name, kind, origin in database.execute(
        f"SELECT entity, name, type, origin FROM mention WHERE entity IN {LISTED} ORDER BY id",  # noqa: S608 - our words
        (listed,),
    ):
        names[entity][name] += 1
        types[entity][kind] += kind.casefold() not in OPEN_TYPES
        origins[entity].add(origin)
    merged = dict(
        database.execute(
            f"SELECT dropped, kept FROM merge WHERE is_undone = 0 AND dropped IN {LISTED} ORDER BY rowid",  # noqa: S608 - our words
            (listed,),
        )
    )
    return [
        (
            entity,
            _canonical(entity, merged, names),
            spellings.most_common(1)[0][0],
            types[entity].most_common(1)[0][0],
            next(one for one in ORIGINS if one in origins[entity]),
        )
        for entity, spellings in names.items()
    ]


def _canonical(entity: str, merged: dict[str, str], known: Collection[str]) -> str:
    """Return the entity that one is merged into, if it is still named somewhere."""
    found, place, seen = entity, entity, {entity}
    while (place := merged.get(place, "")) and place not in seen:
        seen.add(place)
        if place in known:
            found = place
    return found


def owners_of(database: sqlite3.Connection, forms: Iterable[str]) -> dict[str, str]:
    """Return the entity of each normal form of a name or an alias that only one entity has."""
    owners: dict[str, dict[str, str]] = defaultdict(dict)
    for form, canonical, entity in database.execute(
        "SELECT f.form, e.canonical, m.entity FROM form f JOIN mention m ON m.id = f.mention"  # noqa: S608 - our words
        f" JOIN entity e ON e.id = m.entity WHERE f.form IN {LISTED} ORDER BY m.id",
        (as_list(forms),),
    ):
        owners[form].setdefault(canonical, entity)
    return {form: next(iter(found.values())) for form, found in owners.items() if len(found) == 1}


def forms_of(name: str, aliases: Iterable[str]) -> set[str]:
    """Return the normal forms that a mention is found by."""
    return {*map(normal_name, (name, *aliases))}


def _write_texts(database: sqlite3.Connection, listed: str) -> None:
    """Write the names of each of some canonical entities and what is said of it."""
    names: dict[tuple[int, str], dict[str, None]] = defaultdict(dict)
    for number, canonical, name, aliases in database.execute(
        "SELECT c.number, c.id, m.name, m.aliases FROM entity c JOIN entity e ON e.canonical = c.id"  # noqa: S608 - our words
        f" JOIN mention m ON m.entity = e.id WHERE c.id IN {LISTED}",
        (listed,),
    ):
        names[number, canonical] |= dict.fromkeys((name, *json.loads(aliases)))
    texts: dict[str, dict[str, None]] = defaultdict(dict)
    for canonical, text in database.execute(
        "SELECT e.canonical, o.text FROM entity e JOIN observation o ON o.entity = e.id"  # noqa: S608 - our words
        f" WHERE e.canonical IN {LISTED}",
        (listed,),
    ):
        texts[canonical][text] = None
    database.executemany(
        "INSERT INTO entity_text (rowid, entity, name, text) VALUES (?, ?, ?, ?)",
        (
            (number, canonical, "\n".join(aliases), "\n".join(texts[canonical]))
            for (number, canonical), aliases in names.items()
        ),
    )
