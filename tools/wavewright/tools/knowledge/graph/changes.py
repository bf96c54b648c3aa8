"""What a run changes in the graph, noted with each change, so that no two graphs are read to compare them.

A fact is an entity, an observation or a relation in words. The first change of a fact in a run notes how the fact was
made before, every change how it is made afterwards; noting the same again changes nothing.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wavewright.tools.knowledge.graph.models import MAX_LISTED, ChangedFact, GraphCounts, GraphDifference
from wavewright.tools.knowledge.models import Origin

KEPT_FOR: Final = dt.timedelta(days=7)
"""How long the changes of a run are kept."""


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
    database.execute("DELETE FROM change WHERE run < ?", ((run - KEPT_FOR).isoformat(),))
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
    changed = [ChangedFact(fact=fact, before=old, after=new) for fact, old, new in rows if old and new]
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
