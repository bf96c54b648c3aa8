"""The tables of a graph's file, what in them follows from the stored mentions and merges, and what
a run changes.

Entities, the names that find them, the ends of records and the texts of the search follow. Each is
computed for some entities alone, so that a write costs what its names touch and not what the graph
holds. `total` counts what is there.

Changes are noted as they are made, so that no two graphs are read to compare them. A fact is an
entity, an observation or a relation in words. The first change of a fact in a run notes how the
fact was made before, every change how it is made afterwards; noting the same again changes nothing.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from wavewright.packs.knowledge.models import (
    MAX_LISTED,
    ORIGINS,
    ChangedFact,
    GraphCounts,
    GraphDifference,
    Origin,
)
from wavewright.packs.text.cross_reference import normal_name

TABLES: Final = """
CREATE TABLE IF NOT EXISTS chunk (id TEXT PRIMARY KEY, document TEXT NOT NULL, origin TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS observation (
    id INTEGER PRIMARY KEY, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE, origin TEXT NOT NULL,
    entity_name TEXT NOT NULL, entity_key TEXT NOT NULL, entity TEXT, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mention (
    id INTEGER PRIMARY KEY, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE, origin TEXT NOT NULL,
    entity TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, aliases TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS relation (
    id INTEGER PRIMARY KEY, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE, origin TEXT NOT NULL,
    source_name TEXT NOT NULL, source_key TEXT NOT NULL, source TEXT, relation TEXT NOT NULL,
    target_name TEXT NOT NULL, target_key TEXT NOT NULL, target TEXT);
CREATE TABLE IF NOT EXISTS form (
    form TEXT NOT NULL, mention INTEGER NOT NULL REFERENCES mention ON DELETE CASCADE, PRIMARY KEY (form, mention))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS evidence (
    kind TEXT NOT NULL, record INTEGER NOT NULL, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE,
    document TEXT NOT NULL, quote TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS entity (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, canonical TEXT NOT NULL, name TEXT NOT NULL,
    type TEXT NOT NULL, origin TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS merge (
    id TEXT PRIMARY KEY, kept TEXT NOT NULL, dropped TEXT NOT NULL, kept_name TEXT NOT NULL,
    dropped_name TEXT NOT NULL, reason TEXT NOT NULL, is_undone INTEGER NOT NULL DEFAULT 0);
CREATE VIRTUAL TABLE IF NOT EXISTS entity_text USING fts5(
    entity UNINDEXED, name, text, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TABLE IF NOT EXISTS change (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL, fact TEXT NOT NULL, before TEXT, after TEXT, UNIQUE (run, fact));
CREATE TABLE IF NOT EXISTS total (
    id INTEGER PRIMARY KEY CHECK (id = 1), entities INTEGER NOT NULL, observations INTEGER NOT NULL,
    relations INTEGER NOT NULL);
INSERT OR IGNORE INTO total VALUES (1, 0, 0, 0);
CREATE INDEX IF NOT EXISTS evidence_record ON evidence (kind, record);
CREATE INDEX IF NOT EXISTS evidence_chunk ON evidence (chunk);
CREATE INDEX IF NOT EXISTS observation_chunk ON observation (chunk);
CREATE INDEX IF NOT EXISTS observation_entity ON observation (entity);
CREATE INDEX IF NOT EXISTS mention_chunk ON mention (chunk);
CREATE INDEX IF NOT EXISTS mention_entity ON mention (entity);
CREATE INDEX IF NOT EXISTS relation_chunk ON relation (chunk);
CREATE INDEX IF NOT EXISTS relation_source ON relation (source);
CREATE INDEX IF NOT EXISTS relation_target ON relation (target);
CREATE INDEX IF NOT EXISTS form_mention ON form (mention);
CREATE INDEX IF NOT EXISTS entity_canonical ON entity (canonical);
CREATE INDEX IF NOT EXISTS merge_kept ON merge (kept);
CREATE INDEX IF NOT EXISTS merge_dropped ON merge (dropped);
CREATE INDEX IF NOT EXISTS observation_missing ON observation (entity_key) WHERE entity IS NULL;
CREATE INDEX IF NOT EXISTS source_missing ON relation (source_key) WHERE source IS NULL;
CREATE INDEX IF NOT EXISTS target_missing ON relation (target_key) WHERE target IS NULL;
"""
COLUMNS: Final[Mapping[str, str]] = {
    "observation": "id, chunk, origin, entity_name, entity_key, text",
    "mention": "id, chunk, origin, entity, name, type, aliases",
    "relation": "id, chunk, origin, source_name, source_key, relation, target_name, target_key",
}
ENDS: Final = (("observation", "entity"), ("relation", "source"), ("relation", "target"))
"""Tables and columns that hold the id of an entity, or nothing; `…_key` beside one is the id that
its name has.
"""
LISTED: Final = "(SELECT value FROM json_each(?))"
"""The values of a parameter that `as_list` made."""
OPEN_TYPES: Final = frozenset({"thing", "entity", "name", "term", ""})
"""Types that say nothing of what a thing is."""
_KEPT_FOR: Final = dt.timedelta(days=7)
"""How long the changes of a run are kept."""


def as_list(values: Iterable[str | int]) -> str:
    """Return values as one parameter of SQL."""
    return json.dumps([*values])


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
    """Compute some entities, the ends that name them and their texts; `entities` has all that they
    are united with.
    """
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


@dataclass(frozen=True, slots=True)
class PartOfGraph:
    """Some entities with their observations and relations."""

    counts: GraphCounts
    facts: Mapping[str, Origin]
    """Each in words, with its origin."""


def note_changes(
    database: sqlite3.Connection, run: dt.datetime, before: PartOfGraph, after: PartOfGraph
) -> None:
    """Note how a run changed a part of the graph; `run` is its instant."""
    database.execute("DELETE FROM change WHERE run < ?", ((run - _KEPT_FOR).isoformat(),))
    facts = dict.fromkeys((*after.facts, *before.facts))
    changed = ((fact, before.facts.get(fact), after.facts.get(fact)) for fact in facts)
    database.executemany(
        "INSERT INTO change (run, fact, before, after) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (run, fact) DO UPDATE SET after = excluded.after",
        ((run.isoformat(), fact, old, new) for fact, old, new in changed if old != new),
    )
    old, new = before.counts, after.counts
    database.execute(
        "UPDATE total SET entities = entities + ?, observations = observations + ?, relations = relations + ?",
        (
            new.entities - old.entities,
            new.observations - old.observations,
            new.relations - old.relations,
        ),
    )


def graph_counts(database: sqlite3.Connection) -> GraphCounts:
    """Return how much the graph holds."""
    [(entities, observations, relations)] = database.execute(
        "SELECT entities, observations, relations FROM total"
    )
    return GraphCounts(entities=entities, observations=observations, relations=relations)


def run_difference(database: sqlite3.Connection, run: dt.datetime) -> GraphDifference:
    """Return what a run has added, removed and made in another way, each list up to `MAX_LISTED`."""
    rows: list[tuple[str, Origin | None, Origin | None]] = database.execute(
        "SELECT fact, before, after FROM change WHERE run = ? AND before IS NOT after ORDER BY number",
        (run.isoformat(),),
    ).fetchall()
    added = [fact for fact, before, _ in rows if before is None]
    removed = [fact for fact, _, after in rows if after is None]
    changed = [
        ChangedFact(fact=fact, before=old, after=new) for fact, old, new in rows if old and new
    ]
    counts = graph_counts(database)
    total = counts.entities + counts.observations + counts.relations
    return GraphDifference(
        added=tuple(added[:MAX_LISTED]),
        removed=tuple(removed[:MAX_LISTED]),
        changed=tuple(changed[:MAX_LISTED]),
        added_count=len(added),
        removed_count=len(removed),
        changed_count=len(changed),
        unchanged_count=total - len(added) - len(changed),
    )
