"""The graph in one SQLite file: records by the chunk that they are from, and the entities that
follow from them.

A chunk's records are replaced whole, so writing them again changes nothing. Entities are computed
from the mentions of their names and from the merges; the ends of observations and relations point
at them, or at nothing.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from wavewright.packs.knowledge.graph.merging import ProposedMerge
from wavewright.packs.knowledge.graph.reading import GraphReader
from wavewright.packs.knowledge.graph.tables import (
    COLUMNS,
    ENDS,
    LISTED,
    TABLES,
    as_list,
    derive,
    entity_id,
    forms_of,
    graph_counts,
    note_changes,
    owners_of,
    run_difference,
    set_ends,
    united_with,
)
from wavewright.packs.knowledge.models import (
    ORIGINS,
    Chunk,
    ChunkRecords,
    EntityMerge,
    EntityRecord,
    GraphCounts,
    GraphDifference,
    GraphRecord,
    ObservationRecord,
    Origin,
    RecordKind,
    RefusedRecord,
    RelationRecord,
    UnlinkedRecord,
)
from wavewright.packs.text.cross_reference import normal_name
from wavewright.packs.text.extract_records import find_quote
from wavewright.tools import ToolError

Stage = Literal["observations", "entities", "relations"]

_STAGES: Final[tuple[tuple[Stage, RecordKind, str], ...]] = (
    ("observations", "observation", "observation"),
    ("entities", "entity", "mention"),
    ("relations", "relation", "relation"),
)
"""Stages of a write in their order, with the kind and the table of their records."""
_PATIENCE: Final = 30.0
"""Seconds to wait for another writer."""


@dataclass(frozen=True, slots=True)
class WrittenStage:
    """One stage of a write."""

    stage: Stage
    records: int
    seconds: float


class GraphStore:
    """An open file with a graph; changes are transactions, and one writer waits for the other."""

    def __init__(self, connection: sqlite3.Connection, run: dt.datetime | None) -> None:
        self._database = connection
        self._run = run
        self.read = GraphReader(connection)

    def counts(self) -> GraphCounts:
        """Return how much the graph holds."""
        return graph_counts(self._database)

    def difference(self) -> GraphDifference:
        """Return what the run has changed so far."""
        assert self._run is not None
        return run_difference(self._database, self._run)

    def write(
        self, chunks: Iterable[ChunkRecords], on_stage: Callable[[WrittenStage], None]
    ) -> tuple[int, list[str]]:
        """Replace the records of chunks: first all observations, then entities, then relations.

        A chunk whose stored records were made in a better way is left as it is. Returns how many
        chunks were written, and the ids of those that were left.
        """
        with self._transaction():
            given = {one.chunk: one for one in chunks}
            stored = self.read.chunk_origins(given)
            better = [
                name for name, one in given.items() if _rank(stored.get(name)) < _rank(one.origin)
            ]
            new = [one for name, one in given.items() if name not in better]
            with self._changing(
                [*self._named_in(one.chunk for one in new), *map(entity_id, _names(new))]
            ):
                self._delete_chunks([one.chunk for one in new])
                self._database.executemany(
                    "INSERT INTO chunk VALUES (?, ?, ?)",
                    ((one.chunk, _document(one), one.origin) for one in new),
                )
                for stage, kind, table in _STAGES:
                    started = time.monotonic()
                    count = self._write_stage(stage, kind, table, new)
                    on_stage(WrittenStage(stage, count, time.monotonic() - started))
        return len(new), better

    def _write_stage(
        self, stage: Stage, kind: RecordKind, table: str, chunks: Sequence[ChunkRecords]
    ) -> int:
        [(last,)] = self._database.execute(f"SELECT coalesce(max(id), 0) FROM {table}")  # noqa: S608 - our names
        records: Iterable[tuple[ChunkRecords, GraphRecord]] = (
            (chunk, record) for chunk in chunks for record in getattr(chunk, stage)
        )
        numbered = [
            (number, chunk, record) for number, (chunk, record) in enumerate(records, last + 1)
        ]
        rows = [
            (number, chunk.chunk, record.origin, *_fields(record))
            for number, chunk, record in numbered
        ]
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._database.executemany(
                f"INSERT INTO {table} ({COLUMNS[table]}) VALUES ({marks})",  # noqa: S608 - our names
                rows,
            )
        self._database.executemany(
            "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (kind, number, chunk.chunk, one.document, one.quote, one.start, one.end)
                for number, chunk, record in numbered
                for one in record.evidence
            ),
        )
        self._database.executemany(
            "INSERT INTO form VALUES (?, ?)",
            (
                (form, number)
                for number, _, record in numbered
                if isinstance(record, EntityRecord)
                for form in forms_of(record.name, record.aliases)
            ),
        )
        return len(rows)

    def retry_ends(self) -> tuple[int, int]:
        """Look again for the entities of observations and relations that have none: by normal form
        and alias.

        Returns how many different names were looked for, and how many were found.
        """
        with self._transaction():
            keys = self._database.execute(
                "SELECT entity_key FROM observation WHERE entity IS NULL UNION"
                " SELECT source_key FROM relation WHERE source IS NULL UNION"
                " SELECT target_key FROM relation WHERE target IS NULL"
            )
            wanted = {key: normal_name(key) for (key,) in keys}
            owners = owners_of(self._database, wanted.values())
            found = {key: owners[form] for key, form in wanted.items() if form in owners}
            with self._changing(found.values()):
                set_ends(self._database, found)
        return len({*wanted.values()}), len({*wanted.values()} & owners.keys())

    def unlinked(self, only: Iterable[str] | None = None) -> list[UnlinkedRecord]:
        """Return the observations and relations of all or some chunks that name an entity which is
        not there.
        """
        among, values = "", tuple[str, ...]()
        if only is not None:
            among, values = f" AND chunk IN {LISTED}", (as_list(only),)
        observations = self._database.execute(
            f"SELECT entity_name, text, chunk FROM observation WHERE entity IS NULL{among} ORDER BY id",  # noqa: S608 - our words
            values,
        )
        found = [
            UnlinkedRecord(kind="observation", record=text, missing=(name,), chunk=chunk)
            for name, text, chunk in observations
        ]
        seen = set[tuple[str, ...]]()
        for source, start, relation, target, end, chunk in self._database.execute(
            "SELECT source_name, source, relation, target_name, target, chunk FROM relation"  # noqa: S608 - our words
            f" WHERE (source IS NULL OR target IS NULL){among} ORDER BY id",
            values,
        ):
            key = (normal_name(source), normal_name(relation), normal_name(target))
            if key not in seen:
                seen.add(key)
                missing = [
                    name for name, place in ((source, start), (target, end)) if place is None
                ]
                record = f"{source} — {relation} — {target}"
                found.append(
                    UnlinkedRecord(
                        kind="relation", record=record, missing=tuple(missing), chunk=chunk
                    )
                )
        return found

    def link_evidence(
        self, chunks: Iterable[Chunk], is_read: Callable[[str], bool] = lambda _: False
    ) -> tuple[list[RefusedRecord], int]:
        """Look up every quote in its chunk, and delete records without one that is there.

        Chunks that their documents no longer have are deleted with their records, and so are those
        of a document that `is_read` holds for and that has no chunk. Returns the refused records,
        and how many chunks were deleted.
        """
        given = {chunk.id: chunk for chunk in chunks}
        with self._transaction():
            stored = self._database.execute("SELECT id, document FROM chunk").fetchall()
            documents = {chunk.document for chunk in given.values()}
            documents |= {document for _, document in stored if is_read(document)}
            gone = [
                name for name, document in stored if document in documents and name not in given
            ]
            known = [name for name, _ in stored if name in given]
            wrong = self._place_quotes([given[name] for name in known])
            unsaid = [*self._without_quote(known)]
            with self._changing(self._named_in([*gone, *(chunk for *_, chunk in unsaid)])):
                self._delete_chunks(gone)
                for _, table, number, _, _ in unsaid:
                    self._database.execute(f"DELETE FROM {table} WHERE id = ?", (number,))  # noqa: S608 - our names
        refused = [
            RefusedRecord(
                kind=kind, record=record, quote=wrong.get((kind, number), ""), chunk=chunk
            )
            for kind, _, number, record, chunk in unsaid
        ]
        return refused, len(gone)

    def _place_quotes(self, chunks: Iterable[Chunk]) -> dict[tuple[str, int], str]:
        """Correct the places of quotes and delete those that are not in their chunk; return one for
        each record.
        """
        wrong: dict[tuple[str, int], str] = {}
        for chunk in chunks:
            for row, kind, record, quote, start in self._database.execute(
                "SELECT rowid, kind, record, quote, start FROM evidence WHERE chunk = ?",
                (chunk.id,),
            ).fetchall():
                offset = start - chunk.start
                if offset >= 0 and chunk.text.startswith(quote, offset):
                    continue
                place = find_quote(quote, chunk.text)
                if place is None:
                    wrong[kind, record] = quote
                    self._database.execute("DELETE FROM evidence WHERE rowid = ?", (row,))
                    continue
                first, last = place
                self._database.execute(
                    'UPDATE evidence SET document = ?, quote = ?, start = ?, "end" = ? WHERE rowid = ?',
                    (
                        chunk.document,
                        chunk.text[first:last],
                        chunk.start + first,
                        chunk.start + last,
                        row,
                    ),
                )
        return wrong

    def _without_quote(
        self, chunks: Iterable[str]
    ) -> Iterator[tuple[RecordKind, str, int, str, str]]:
        """Yield the records of some chunks that no quote is left of: kind, table, number, what it
        says, chunk.
        """
        descriptions = {
            "observation": "text",
            "mention": "name",
            "relation": "source_name || ' — ' || relation || ' — ' || target_name",
        }
        for _, kind, table in _STAGES:
            for number, record, chunk in self._database.execute(
                f"SELECT id, {descriptions[table]}, chunk FROM {table} WHERE chunk IN {LISTED} AND NOT EXISTS"  # noqa: S608 - our names
                f" (SELECT 1 FROM evidence WHERE kind = ? AND record = {table}.id)",
                (as_list(chunks), kind),
            ):
                yield kind, table, number, record, chunk

    def merge(self, proposed: Iterable[ProposedMerge]) -> None:
        """Take entities for one; a merge that was undone is not made again."""
        proposed = [*proposed]
        ends = [end for one in proposed for end in (one.kept, one.dropped)]
        with self._transaction(), self._changing(ends):
            names = dict(self._database.execute("SELECT id, name FROM entity"))
            self._database.executemany(
                "INSERT OR IGNORE INTO merge VALUES (?, ?, ?, ?, ?, ?, 0)",
                (
                    (
                        _merge_id(one),
                        one.kept,
                        one.dropped,
                        names[one.kept],
                        names[one.dropped],
                        one.reason,
                    )
                    for one in proposed
                ),
            )

    def undo_merge(self, merge: str) -> EntityMerge:
        """Take the two entities of a merge apart again.

        Raises:
            ToolError: there is no such merge, or it is undone already.
        """
        with self._transaction():
            row = self._database.execute(
                "SELECT kept, dropped, kept_name, dropped_name, reason FROM merge WHERE id = ? AND is_undone = 0",
                (merge,),
            ).fetchone()
            if row is None:
                raise ToolError(
                    f"the graph has no merge {merge!r}",
                    hint="the output of knowledge.merge_entities lists them",
                )
            kept, dropped, kept_name, dropped_name, reason = row
            with self._changing([kept, dropped]):
                self._database.execute("UPDATE merge SET is_undone = 1 WHERE id = ?", (merge,))
        return EntityMerge(id=merge, kept=kept_name, merged=dropped_name, reason=reason)

    @contextmanager
    def _changing(self, entities: Iterable[str]) -> Generator[None]:
        """Compute again what follows for some entities once the body has changed records or merges
        of them.

        Reads and writes nothing of other entities, and notes what the run changes.
        """
        assert self._run is not None
        touched = united_with(self._database, entities)
        before = self.read.part(touched)
        yield
        touched = united_with(self._database, touched)
        derive(self._database, touched)
        note_changes(self._database, self._run, before, self.read.part(touched))

    def _named_in(self, chunks: Iterable[str]) -> set[str]:
        """Return the entities that the stored records of some chunks name."""
        names = " UNION ".join(
            f"SELECT {column} FROM {table} WHERE chunk IN (SELECT * FROM given) AND {column} IS NOT NULL"  # noqa: S608 - our names
            for table, column in (*ENDS, ("mention", "entity"))
        )
        rows = self._database.execute(f"WITH given AS {LISTED} {names}", (as_list(chunks),))
        return {entity for (entity,) in rows}

    def _delete_chunks(self, names: Iterable[str]) -> None:
        self._database.executemany("DELETE FROM chunk WHERE id = ?", ((name,) for name in names))

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


@contextmanager
def open_store(path: Path, run: dt.datetime | None = None) -> Generator[GraphStore]:
    """Open the graph in a file, which is created where there is none; changes need the instant of
    the run.

    Raises:
        ToolError: the file cannot be used; transient where another writer keeps it for too long.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
            connection.executescript(
                f"PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; {TABLES}"
            )
            yield GraphStore(connection, run)
    except (OSError, sqlite3.Error) as error:
        raise ToolError(
            f"the graph in {path} cannot be used: {error}",
            hint="name another file as 'packs.knowledge.graph.path'",
            transient="locked" in str(error),
        ) from error


def _fields(record: GraphRecord) -> tuple[str, ...]:
    match record:
        case ObservationRecord():
            return record.entity, entity_id(record.entity), record.text
        case EntityRecord():
            return entity_id(record.name), record.name, record.type, json.dumps(record.aliases)
        case RelationRecord():
            return (
                record.source,
                entity_id(record.source),
                record.relation,
                record.target,
                entity_id(record.target),
            )
        case _:
            raise AssertionError(type(record))


def _names(chunks: Iterable[ChunkRecords]) -> Iterator[str]:
    for chunk in chunks:
        yield from (one.name for one in chunk.entities)
        yield from (one.entity for one in chunk.observations)
        yield from (end for one in chunk.relations for end in (one.source, one.target))


def _rank(origin: Origin | None) -> int:
    return len(ORIGINS) if origin is None else ORIGINS.index(origin)


def _document(chunk: ChunkRecords) -> str:
    records = (*chunk.entities, *chunk.observations, *chunk.relations)
    return next((one.document for record in records for one in record.evidence), "")


def _merge_id(merge: ProposedMerge) -> str:
    return hashlib.sha256("\n".join(sorted((merge.kept, merge.dropped))).encode()).hexdigest()[:10]
