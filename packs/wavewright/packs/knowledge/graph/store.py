"""The graph's file: the records of each chunk, which entities are one, and what each run found.

A chunk's records are replaced whole, so writing them again changes nothing. The graph is no part of
the file: it follows from the records (`reading`) whenever it is asked for.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from wavewright.packs.knowledge.graph.merging import ProposedMerge
from wavewright.packs.knowledge.graph.reading import (
    GraphReading,
    StoredGraph,
    StoredRecord,
)
from wavewright.packs.knowledge.models import (
    MAX_LISTED,
    ORIGINS,
    ChangedFact,
    Chunk,
    ChunkRecords,
    EntityMerge,
    EntityRecord,
    GraphDifference,
    GraphRecord,
    ObservationRecord,
    Origin,
    QuotedEvidence,
    RefusedRecord,
    RelationRecord,
)
from wavewright.packs.text.cross_reference import normal_name
from wavewright.packs.text.extract_records import find_quote
from wavewright.tools import ToolError

Stage: TypeAlias = Literal["observations", "entities", "relations"]

_STAGES: Final[Mapping[Stage, type[GraphRecord]]] = {
    "observations": ObservationRecord,
    "entities": EntityRecord,
    "relations": RelationRecord,
}
"""Stages of a write in their order, with their records."""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS chunk (id TEXT PRIMARY KEY, document TEXT NOT NULL, origin TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE, stage TEXT NOT NULL,
    body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS meant (
    chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE, name TEXT NOT NULL, entity TEXT NOT NULL,
    PRIMARY KEY (chunk, name));
CREATE TABLE IF NOT EXISTS merge (
    id TEXT PRIMARY KEY, kept TEXT NOT NULL, dropped TEXT NOT NULL, kept_name TEXT NOT NULL,
    dropped_name TEXT NOT NULL, reason TEXT NOT NULL, is_undone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS found (run TEXT PRIMARY KEY, facts TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS record_chunk ON record (chunk);
"""
"""`meant` is what names of chunks were found to mean, and `found` what the graph said when a run
changed it first.
"""
_IS_EARLIER: Final = "SELECT 1 FROM sqlite_master WHERE name = 'mention'"
"""Whether a file has a table of versions that kept entities in the file."""
_PATIENCE: Final = 30.0
"""Seconds to wait for another writer."""
_KEPT_FOR: Final = dt.timedelta(days=7)
"""How long it is kept what a run found."""


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

    def read(self) -> GraphReading:
        """Return the graph of now."""
        records = [
            StoredRecord(chunk, _STAGES[stage].model_validate_json(body))
            for chunk, stage, body in self._database.execute(
                "SELECT chunk, stage, body FROM record ORDER BY id"
            )
        ]
        merged = self._database.execute(
            "SELECT dropped, kept FROM merge WHERE is_undone = 0 ORDER BY rowid"
        )
        meant = self._database.execute("SELECT chunk, name, entity FROM meant")
        return GraphReading(
            StoredGraph(
                records, dict(merged), {(chunk, name): entity for chunk, name, entity in meant}
            )
        )

    def chunk_origins(self) -> dict[str, Origin]:
        """Return how the records of all chunks were made, by the chunk's id."""
        return dict(self._database.execute("SELECT id, origin FROM chunk ORDER BY rowid"))

    def difference(self, reading: GraphReading) -> GraphDifference:
        """Return what the run has added, removed and made in another way, each list up to
        `MAX_LISTED`.
        """
        before, after = self._found_before(reading), reading.facts()
        added = [fact for fact in after if fact not in before]
        removed = [fact for fact in before if fact not in after]
        changed = [
            ChangedFact(fact=fact, before=before[fact], after=origin)
            for fact, origin in after.items()
            if before.get(fact, origin) != origin
        ]
        return GraphDifference(
            added=tuple(added[:MAX_LISTED]),
            removed=tuple(removed[:MAX_LISTED]),
            changed=tuple(changed[:MAX_LISTED]),
            added_count=len(added),
            removed_count=len(removed),
            changed_count=len(changed),
            unchanged_count=len(after) - len(added) - len(changed),
        )

    def write(
        self, chunks: Iterable[ChunkRecords], on_stage: Callable[[WrittenStage], None]
    ) -> tuple[int, list[str]]:
        """Replace the records of chunks: first all observations, then entities, then relations.

        A chunk whose stored records were made in a better way is left as it is. Returns how many
        chunks were written, and the ids of those that were left.
        """
        given = {one.chunk: one for one in chunks}
        with self._changing():
            stored = self.chunk_origins()
            better = [
                name for name, one in given.items() if _rank(stored.get(name)) < _rank(one.origin)
            ]
            new = [one for name, one in given.items() if name not in better]
            self._delete_chunks(one.chunk for one in new)
            self._database.executemany(
                "INSERT INTO chunk VALUES (?, ?, ?)",
                ((one.chunk, _document(one), one.origin) for one in new),
            )
            for stage in _STAGES:
                started = time.monotonic()
                rows = [
                    (one.chunk, stage, record.model_dump_json())
                    for one in new
                    for record in _records(one, stage)
                ]
                self._database.executemany(
                    "INSERT INTO record (chunk, stage, body) VALUES (?, ?, ?)", rows
                )
                on_stage(WrittenStage(stage, len(rows), time.monotonic() - started))
        return len(new), better

    def retry_ends(self) -> tuple[int, int]:
        """Look again for the entities of observations and relations that have none: by normal form
        and alias.

        Returns how many different names were looked for, and how many were found.
        """
        with self._changing():
            owners = self.read().meant()
            self._database.executemany(
                "INSERT OR REPLACE INTO meant VALUES (?, ?, ?)",
                ((*place, owner) for place, owner in owners.items() if owner is not None),
            )
        forms = {normal_name(name): owner for (_, name), owner in owners.items()}
        return len(forms), sum(owner is not None for owner in forms.values())

    def link_evidence(
        self, chunks: Iterable[Chunk], is_read: Callable[[str], bool] = lambda _: False
    ) -> tuple[list[RefusedRecord], int]:
        """Look up every quote in its chunk, and delete records without one that is there.

        Chunks that their documents no longer have are deleted with their records, and so are those
        of a document that `is_read` holds for and that has no chunk. Returns the refused records,
        and how many chunks were deleted.
        """
        given = {chunk.id: chunk for chunk in chunks}
        with self._changing():
            stored = self._database.execute("SELECT id, document FROM chunk").fetchall()
            documents = {chunk.document for chunk in given.values()}
            documents |= {document for _, document in stored if is_read(document)}
            gone = [
                name for name, document in stored if document in documents and name not in given
            ]
            self._delete_chunks(gone)
            refused = [one for stage in _STAGES for one in self._refused(stage, given)]
        return refused, len(gone)

    def _refused(self, stage: Stage, chunks: Mapping[str, Chunk]) -> Iterator[RefusedRecord]:
        """Correct the places of a stage's quotes; delete and yield records without one that is in
        their chunk.
        """
        for number, name, body in self._database.execute(
            "SELECT id, chunk, body FROM record WHERE stage = ? ORDER BY id", (stage,)
        ).fetchall():
            chunk = chunks.get(name)
            if chunk is None:
                continue
            record = _STAGES[stage].model_validate_json(body)
            placed = [_placed(one, chunk) for one in record.evidence]
            evidence = tuple(one for one in placed if one is not None)
            if not evidence:
                self._database.execute("DELETE FROM record WHERE id = ?", (number,))
                quote = record.evidence[-1].quote if record.evidence else ""
                yield RefusedRecord(
                    kind=record.kind, record=record.in_words, quote=quote, chunk=name
                )
            elif evidence != record.evidence:
                corrected = record.model_copy(update={"evidence": evidence})
                self._database.execute(
                    "UPDATE record SET body = ? WHERE id = ?", (corrected.model_dump_json(), number)
                )

    def merges(self, reading: GraphReading) -> list[EntityMerge]:
        """Return the merges that hold, in the order in which they were made."""
        rows = self._database.execute(
            "SELECT id, kept, dropped, kept_name, dropped_name, reason FROM merge WHERE is_undone = 0 ORDER BY rowid"
        )
        return [
            EntityMerge(id=merge, kept=kept_name, merged=dropped_name, reason=reason)
            for merge, kept, dropped, kept_name, dropped_name, reason in rows
            if reading.has(kept) and reading.has(dropped)
        ]

    def undone_merges(self) -> set[tuple[str, str]]:
        """Return the pairs of entities that a person has separated."""
        return {*self._database.execute("SELECT kept, dropped FROM merge WHERE is_undone = 1")}

    def merge(self, proposed: Iterable[ProposedMerge]) -> None:
        """Take entities for one; a merge that was undone is not made again."""
        with self._changing():
            names = {one.id: one.name for one in self.read().graph.entities}
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
        with self._changing():
            row = self._database.execute(
                "UPDATE merge SET is_undone = 1 WHERE id = ? AND is_undone = 0"
                " RETURNING kept_name, dropped_name, reason",
                (merge,),
            ).fetchone()
            if row is None:
                raise ToolError(
                    f"the graph has no merge {merge!r}",
                    hint="the output of knowledge.merge_entities lists them",
                )
        kept, dropped, reason = row
        return EntityMerge(id=merge, kept=kept, merged=dropped, reason=reason)

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Change the file in one transaction; before the first change of a run it is noted what the
        graph says.
        """
        assert self._run is not None
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._note_found(self._run)
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _note_found(self, run: dt.datetime) -> None:
        self._database.execute("DELETE FROM found WHERE run < ?", ((run - _KEPT_FOR).isoformat(),))
        is_noted = self._database.execute("SELECT 1 FROM found WHERE run = ?", (run.isoformat(),))
        if is_noted.fetchone() is None:
            facts = json.dumps(self.read().facts(), ensure_ascii=False)
            self._database.execute("INSERT INTO found VALUES (?, ?)", (run.isoformat(), facts))

    def _found_before(self, reading: GraphReading) -> Mapping[str, Origin]:
        """Return what the graph said before the run; as it is read, where the run changed nothing."""
        assert self._run is not None
        row = self._database.execute(
            "SELECT facts FROM found WHERE run = ?", (self._run.isoformat(),)
        ).fetchone()
        facts: Mapping[str, Origin] = reading.facts() if row is None else json.loads(row[0])
        return facts

    def _delete_chunks(self, names: Iterable[str]) -> None:
        self._database.executemany("DELETE FROM chunk WHERE id = ?", ((name,) for name in names))


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
            if connection.execute(_IS_EARLIER).fetchone() is not None:
                raise ToolError(
                    f"the graph in {path} was written by an earlier version",
                    hint="remove the file, and run the job again",
                )
            connection.executescript(
                f"PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; {_TABLES}"
            )
            yield GraphStore(connection, run)
    except (OSError, sqlite3.Error) as error:
        raise ToolError(
            f"the graph in {path} cannot be used: {error}",
            hint="name another file as 'packs.knowledge.graph.path'",
            transient="locked" in str(error),
        ) from error


def _placed(passage: QuotedEvidence, chunk: Chunk) -> QuotedEvidence | None:
    """Return a passage with its place in the document; none where it is not in its chunk."""
    offset = passage.start - chunk.start
    if offset >= 0 and chunk.text.startswith(passage.quote, offset):
        return passage
    place = find_quote(passage.quote, chunk.text)
    if place is None:
        return None
    start, end = place
    return QuotedEvidence(
        quote=chunk.text[start:end],
        document=chunk.document,
        chunk=chunk.id,
        start=chunk.start + start,
        end=chunk.start + end,
    )


def _records(chunk: ChunkRecords, stage: Stage) -> tuple[GraphRecord, ...]:
    records: tuple[GraphRecord, ...] = getattr(chunk, stage)
    return records


def _rank(origin: Origin | None) -> int:
    return len(ORIGINS) if origin is None else ORIGINS.index(origin)


def _document(chunk: ChunkRecords) -> str:
    records = (record for stage in _STAGES for record in _records(chunk, stage))
    return next((one.document for record in records for one in record.evidence), "")


def _merge_id(merge: ProposedMerge) -> str:
    return hashlib.sha256("\n".join(sorted((merge.kept, merge.dropped))).encode()).hexdigest()[:10]
