"""The graph's file: what follows from its records, whatever was written in which order, and writers
that are killed.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, strategies as st

from tests.crash.run_size import volume
from tests.packs.knowledge.graph_records import chunk, entity, observation, records, relation
from tests.tools.calling import MARCH_2010
from wavewright.packs.knowledge.graph.merging import find_merges
from wavewright.packs.knowledge.graph.store import GraphStore, open_store
from wavewright.packs.knowledge.graph.tables import PartOfGraph, derive
from wavewright.packs.knowledge.models import Chunk, ChunkRecords, Origin

LATER = MARCH_2010 + dt.timedelta(hours=1)
NAMES = ("Baron Aldo", "Aldo", "aldo", "The Baron", "Wardens", "Warden", "Fenmoor")
ORIGIN: st.SearchStrategy[Origin] = st.sampled_from(("agent", "generated"))
NAME = st.sampled_from(NAMES)


@st.composite
def chunk_records(draw: st.DrawFn) -> ChunkRecords:
    """Draw the records of one of three chunks; of some the quote is in no document."""
    of = document(draw(st.integers(0, 2)))
    quotes = st.sampled_from((of.text, of.text, "Nobody says that."))
    entities = [
        entity(
            name,
            draw(st.sampled_from(("person", "thing"))),
            draw(quotes),
            *draw(st.lists(NAME, max_size=1)),
        )
        for name in draw(st.lists(NAME, max_size=3, unique=True))
    ]
    said = [
        {**observation(name, f"{name} speaks."), "evidence": of.text}
        for name in draw(st.lists(NAME, max_size=2))
    ]
    pairs = draw(st.lists(st.tuples(NAME, NAME), max_size=2))
    related = [relation(source, "knows", target, draw(quotes)) for source, target in pairs]
    return records(of, draw(ORIGIN), entities=entities, observations=said, relations=related)


def document(number: int) -> Chunk:
    return chunk(f"{number}.md", "All of them speak.")


def all_of(store: GraphStore) -> PartOfGraph:
    return store.read.part([one.id for one in store.read.graph().entities])


def check(store: GraphStore, before: PartOfGraph) -> None:
    """Counts and changes are those of the whole graph, and computing all of it again changes
    nothing.
    """
    now = all_of(store)
    changed = store.difference()
    assert store.counts() == now.counts == store.read.graph().counts
    assert {*changed.added} == {*now.facts} - {*before.facts}
    assert {*changed.removed} == {*before.facts} - {*now.facts}
    assert {(one.fact, one.before, one.after) for one in changed.changed} == {
        (fact, before.facts[fact], origin)
        for fact, origin in now.facts.items()
        if fact in before.facts and before.facts[fact] != origin
    }
    assert changed.unchanged_count == len(now.facts) - changed.added_count - changed.changed_count


def dump(path: Path) -> list[object]:
    """Return all that follows from the records of a graph's file."""
    with sqlite3.connect(path) as database:
        found: list[object] = [
            *database.execute("SELECT id, canonical, name, type, origin FROM entity ORDER BY id"),
            *database.execute("SELECT chunk, entity_name, entity FROM observation ORDER BY 1, 2"),
            *database.execute(
                "SELECT chunk, source_name, source, target_name, target FROM relation ORDER BY 1, 2, 4"
            ),
            *(
                (entity, *map(sorted, (names.split("\n"), texts.split("\n"))))
                for entity, names, texts in database.execute(
                    "SELECT entity, name, text FROM entity_text ORDER BY 1"
                )
            ),
        ]
    database.close()
    return found


Operation = Callable[[GraphStore], object]


def merge(store: GraphStore) -> None:
    store.merge(find_merges(store.read.graph().entities, store.read.undone_merges()))


def undo_first(store: GraphStore) -> None:
    for one in store.read.merges()[:1]:
        store.undo_merge(one.id)


def write(said: ChunkRecords) -> Operation:
    return lambda store: store.write([said], lambda _: None)


def link(kept: set[int]) -> Operation:
    return lambda store: store.link_evidence(map(document, kept), lambda _: True)


OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    chunk_records().map(write),
    st.sets(st.integers(0, 2)).map(link),
    st.sampled_from((GraphStore.retry_ends, merge, undo_first)),
)


@given(st.lists(st.lists(OPERATIONS, min_size=1, max_size=5), min_size=1, max_size=3))
def test_what_follows_from_the_records_is_right_after_each_change(
    runs: list[list[Operation]],
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.db"
        for hour, changes in enumerate(runs):
            with open_store(path, MARCH_2010 + dt.timedelta(hours=hour)) as store:
                before = all_of(store)
                for change in changes:
                    change(store)
                    check(store, before)
        kept = dump(path)
        with sqlite3.connect(path, isolation_level=None) as database:
            derive(
                database,
                [one for (one,) in database.execute("SELECT DISTINCT entity FROM mention")],
            )
        database.close()
        assert dump(path) == kept


def write_and_die(path: Path, statement: int, said: list[ChunkRecords]) -> None:
    """Write records, and be killed before a statement of the write."""
    counted = 0

    def count(_: str) -> None:
        nonlocal counted
        counted += 1
        if counted == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA foreign_keys = ON")
    database.set_trace_callback(count)
    GraphStore(database, LATER).write(said, lambda _: None)
    database.close()


EACH = volume(3, 1)
"""Of so many statements one is killed at."""


def test_a_write_that_is_killed_at_any_statement_is_made_again(tmp_path: Path) -> None:
    first, second = (
        records(document(0), "agent", entities=[entity(name, "person", "All of them speak.")])
        for name in ("Baron Aldo", "Warden")
    )

    def new_graph(name: str) -> Path:
        with open_store(tmp_path / name, MARCH_2010) as store:
            store.write([first], lambda _: None)
        return tmp_path / name

    def write_second(path: Path) -> tuple[PartOfGraph, object]:
        with open_store(path, LATER) as store:
            store.write([second], lambda _: None)
            return all_of(store), store.difference()

    whole = write_second(new_graph("whole"))
    before = dump(new_graph("before"))
    context = multiprocessing.get_context("fork")
    ends = list[int | None]()
    while not ends or ends[-1] == -signal.SIGKILL:
        path = new_graph(f"{len(ends)}")
        child = context.Process(target=write_and_die, args=(path, 1 + len(ends) * EACH, [second]))
        child.start()
        child.join()
        ends.append(child.exitcode)
        if child.exitcode:
            assert dump(path) == before
        assert write_second(path) == whole

    assert ends[-1] == 0
    assert len(ends) > 20 // EACH
