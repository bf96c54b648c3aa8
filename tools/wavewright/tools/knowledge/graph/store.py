"""The graph in one SQLite file: records by the chunk that they are from, and the entities that follow from them.

A chunk's records are replaced whole, so writing them again changes nothing. Entities are computed from the mentions of
their names and from the merges; the ends of observations and relations point at them, or at nothing.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from wavewright.tools.functions.tool import ToolError
from wavewright.tools.knowledge.graph.derivation import entity_id, entity_rows, name_index, text_rows
from wavewright.tools.knowledge.graph.merging import ProposedMerge
from wavewright.tools.knowledge.graph.models import EntityMerge, RecordKind, RefusedRecord, UnlinkedRecord
from wavewright.tools.knowledge.graph.reading import GraphReader
from wavewright.tools.knowledge.models import (
    ORIGINS,
    Chunk,
    ChunkRecords,
    EntityRecord,
    GraphRecord,
    ObservationRecord,
    Origin,
    RelationRecord,
)
from wavewright.tools.text.cross_reference import normal_name
from wavewright.tools.text.extract_records import find_quote

Stage = Literal["observations", "entities", "relations"]

_PATIENCE: Final = 30.0
"""Seconds to wait for another writer."""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS chunk (id TEXT PRIMARY KEY, document TEXT NOT NULL, origin TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS observation (
    id INTEGER PRIMARY KEY, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE, origin TEXT NOT NULL,
    entity_name TEXT NOT NULL, entity TEXT, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mention (
    id INTEGER PRIMARY KEY, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE, origin TEXT NOT NULL,
    entity TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, aliases TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS relation (
    id INTEGER PRIMARY KEY, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE, origin TEXT NOT NULL,
    source_name TEXT NOT NULL, source TEXT, relation TEXT NOT NULL, target_name TEXT NOT NULL, target TEXT);
CREATE TABLE IF NOT EXISTS evidence (
    kind TEXT NOT NULL, record INTEGER NOT NULL, chunk TEXT NOT NULL REFERENCES chunk ON DELETE CASCADE,
    document TEXT NOT NULL, quote TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS entity (
    id TEXT PRIMARY KEY, canonical TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, origin TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS merge (
    id TEXT PRIMARY KEY, kept TEXT NOT NULL, dropped TEXT NOT NULL, kept_name TEXT NOT NULL,
    dropped_name TEXT NOT NULL, reason TEXT NOT NULL, is_undone INTEGER NOT NULL DEFAULT 0);
CREATE VIRTUAL TABLE IF NOT EXISTS entity_text USING fts5(
    entity UNINDEXED, name, text, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE INDEX IF NOT EXISTS evidence_record ON evidence (kind, record);
CREATE INDEX IF NOT EXISTS evidence_chunk ON evidence (chunk);
CREATE INDEX IF NOT EXISTS observation_chunk ON observation (chunk);
CREATE INDEX IF NOT EXISTS observation_entity ON observation (entity);
CREATE INDEX IF NOT EXISTS mention_chunk ON mention (chunk);
CREATE INDEX IF NOT EXISTS mention_entity ON mention (entity);
CREATE INDEX IF NOT EXISTS relation_chunk ON relation (chunk);
CREATE INDEX IF NOT EXISTS relation_source ON relation (source);
CREATE INDEX IF NOT EXISTS relation_target ON relation (target);
CREATE INDEX IF NOT EXISTS entity_canonical ON entity (canonical);
CREATE INDEX IF NOT EXISTS observation_missing ON observation (entity_name) WHERE entity IS NULL;
CREATE INDEX IF NOT EXISTS source_missing ON relation (source_name) WHERE source IS NULL;
CREATE INDEX IF NOT EXISTS target_missing ON relation (target_name) WHERE target IS NULL;
"""
_KINDS: Final[tuple[tuple[RecordKind, str], ...]] = (
    ("observation", "observation"),
    ("entity", "mention"),
    ("relation", "relation"),
)
"""Kinds of records with their tables."""
_ENDS: Final = (("observation", "entity"), ("relation", "source"), ("relation", "target"))
"""Tables and columns that hold an entity, or nothing; the name that was told is beside it."""
_COLUMNS: Final[Mapping[str, str]] = {
    "observation": "id, chunk, origin, entity_name, text",
    "mention": "id, chunk, origin, entity, name, type, aliases",
    "relation": "id, chunk, origin, source_name, relation, target_name",
}


@dataclass(frozen=True, slots=True)
class WrittenStage:
    """One stage of a write."""

    stage: Stage
    records: int
    seconds: float


class GraphStore:
    """An open file with a graph; changes are transactions, and one writer waits for the other."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._database = connection
        self.read = GraphReader(connection)

    def write(
        self, chunks: Iterable[ChunkRecords], on_stage: Callable[[WrittenStage], None]
    ) -> tuple[int, list[str]]:
        """Replace the records of chunks: first all observations, then entities, then relations.

        A chunk whose stored records were won in a better way is left as it is. Returns how many chunks were
        written, and the ids of those that were left.
        """
        with self._transaction():
            stored = self.read.chunk_origins()
            given = {one.chunk: one for one in chunks}
            better = [name for name, one in given.items() if _rank(stored.get(name)) < _rank(one.origin)]
            new = [one for name, one in given.items() if name not in better]
            self._delete_chunks([one.chunk for one in new])
            self._database.executemany(
                "INSERT INTO chunk VALUES (?, ?, ?)", ((one.chunk, _document(one), one.origin) for one in new)
            )
            for stage in ("observations", "entities", "relations"):
                started = time.monotonic()
                count = self._write_stage(stage, new)
                on_stage(WrittenStage(stage, count, time.monotonic() - started))
            self._derive()
        return len(new), better

    def _write_stage(self, stage: Stage, chunks: Sequence[ChunkRecords]) -> int:
        kind, table = _KINDS[("observations", "entities", "relations").index(stage)]
        [(last,)] = self._database.execute(f"SELECT coalesce(max(id), 0) FROM {table}")  # noqa: S608 - our names
        records = ((chunk, record) for chunk in chunks for record in _records(chunk, stage))
        numbered = [(number, chunk, record) for number, (chunk, record) in enumerate(records, last + 1)]
        rows = [(number, chunk.chunk, record.origin, *_fields(record)) for number, chunk, record in numbered]
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._database.executemany(f"INSERT INTO {table} ({_COLUMNS[table]}) VALUES ({marks})", rows)  # noqa: S608 - our names
        self._database.executemany(
            "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (kind, number, chunk.chunk, one.document, one.quote, one.start, one.end)
                for number, chunk, record in numbered
                for one in record.evidence
            ),
        )
        return len(rows)

    def retry_ends(self) -> tuple[int, int]:
        """Look again for the entities of observations and relations that have none: by normal form and alias.

        Returns how many different names were looked for, and how many were found.
        """
        with self._transaction():
            wanted = {normal_name(name): None for name in self._missing_names()}
            index = name_index(self._database)
            found = {form: index[form] for form in wanted if form in index}
            self._set_ends(lambda name: found.get(normal_name(name)))
            self._write_texts()
        return len(wanted), len(found)

    def unlinked(self) -> list[UnlinkedRecord]:
        """Return the observations and relations that name an entity which the graph does not have."""
        observations = self._database.execute(
            "SELECT entity_name, text, chunk FROM observation WHERE entity IS NULL ORDER BY id"
        )
        found = [
            UnlinkedRecord(kind="observation", record=text, missing=(name,), chunk=chunk)
            for name, text, chunk in observations
        ]
        seen = set[tuple[str, ...]]()
        for source, start, relation, target, end, chunk in self._database.execute(
            "SELECT source_name, source, relation, target_name, target, chunk FROM relation"
            " WHERE source IS NULL OR target IS NULL ORDER BY id"
        ):
            key = (normal_name(source), normal_name(relation), normal_name(target))
            if key not in seen:
                seen.add(key)
                missing = [name for name, place in ((source, start), (target, end)) if place is None]
                told = f"{source} — {relation} — {target}"
                found.append(
                    UnlinkedRecord(kind="relation", record=told, missing=tuple(missing), chunk=chunk)
                )
        return found

    def link_evidence(
        self, chunks: Iterable[Chunk], is_read: Callable[[str], bool] = lambda _: False
    ) -> tuple[list[RefusedRecord], int]:
        """Look up every quote in its chunk, and delete records without one that is there.

        Chunks that their documents no longer have are deleted with their records, and so are those of a document that
        `is_read` holds for and that has no chunk. Returns the refused records, and how many chunks were deleted.
        """
        given = {chunk.id: chunk for chunk in chunks}
        with self._transaction():
            stored = self._database.execute("SELECT id, document FROM chunk").fetchall()
            documents = {chunk.document for chunk in given.values()}
            documents |= {document for _, document in stored if is_read(document)}
            gone = [name for name, document in stored if document in documents and name not in given]
            self._delete_chunks(gone)
            known = [name for name, _ in stored if name in given]
            wrong = self._place_quotes([given[name] for name in known])
            refused = [one for kind, table in _KINDS for one in self._refuse(kind, table, known, wrong)]
            self._derive()
        return refused, len(gone)

    def _place_quotes(self, chunks: Iterable[Chunk]) -> dict[tuple[str, int], str]:
        """Correct the places of quotes and delete those that are not in their chunk; return one for each record."""
        wrong: dict[tuple[str, int], str] = {}
        for chunk in chunks:
            for row, kind, record, quote, start in self._database.execute(
                "SELECT rowid, kind, record, quote, start FROM evidence WHERE chunk = ?", (chunk.id,)
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
                    (chunk.document, chunk.text[first:last], chunk.start + first, chunk.start + last, row),
                )
        return wrong

    def _refuse(
        self, kind: RecordKind, table: str, chunks: Collection[str], wrong: Mapping[tuple[str, int], str]
    ) -> list[RefusedRecord]:
        """Delete the records of some chunks that no quote is left of."""
        told = {
            "observation": "text",
            "mention": "name",
            "relation": "source_name || ' — ' || relation || ' — ' || target_name",
        }[table]
        rows = self._database.execute(
            f"DELETE FROM {table} WHERE chunk IN (SELECT value FROM json_each(?)) AND id NOT IN"  # noqa: S608 - our names
            f" (SELECT record FROM evidence WHERE kind = ?) RETURNING id, {told}, chunk",
            (json.dumps([*chunks]), kind),
        ).fetchall()
        return [
            RefusedRecord(kind=kind, record=record, quote=wrong.get((kind, number), ""), chunk=chunk)
            for number, record, chunk in rows
        ]

    def merge(self, proposed: Iterable[ProposedMerge]) -> None:
        """Take entities for one; a merge that was undone is not made again."""
        names = dict(self._database.execute("SELECT id, name FROM entity"))
        with self._transaction():
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
            self._derive()

    def undo_merge(self, merge: str) -> EntityMerge:
        """Take the two entities of a merge apart again.

        Raises:
            ToolError: there is no such merge, or it is undone already.
        """
        with self._transaction():
            row = self._database.execute(
                "UPDATE merge SET is_undone = 1 WHERE id = ? AND is_undone = 0"
                " RETURNING id, kept_name, dropped_name, reason",
                (merge,),
            ).fetchone()
            if row is None:
                raise ToolError(
                    f"the graph has no merge {merge!r}",
                    hint="the output of knowledge.merge_entities lists them",
                )
            self._derive()
        return EntityMerge(id=row[0], kept=row[1], merged=row[2], reason=row[3])

    def _derive(self) -> None:
        """Compute entities, ends and the texts that are searched from mentions and merges."""
        self._database.execute("DELETE FROM entity")
        self._database.executemany("INSERT INTO entity VALUES (?, ?, ?, ?, ?)", entity_rows(self._database))
        known = {one for (one,) in self._database.execute("SELECT id FROM entity")}
        for table, column in _ENDS:
            self._database.execute(
                f"UPDATE {table} SET {column} = NULL WHERE {column} NOT IN (SELECT id FROM entity)"  # noqa: S608 - our names
            )
        self._set_ends(lambda name: found if (found := entity_id(name)) in known else None)
        self._write_texts()

    def _write_texts(self) -> None:
        self._database.execute("DELETE FROM entity_text")
        self._database.executemany("INSERT INTO entity_text VALUES (?, ?, ?)", text_rows(self._database))

    def _missing_names(self) -> list[str]:
        return [
            name
            for (name,) in self._database.execute(
                "SELECT entity_name FROM observation WHERE entity IS NULL UNION"
                " SELECT source_name FROM relation WHERE source IS NULL UNION"
                " SELECT target_name FROM relation WHERE target IS NULL"
            )
        ]

    def _set_ends(self, find: Callable[[str], str | None]) -> None:
        found = [(place, name) for name in self._missing_names() if (place := find(name)) is not None]
        for table, column in _ENDS:
            self._database.executemany(
                f"UPDATE {table} SET {column} = ? WHERE {column} IS NULL AND {column}_name = ?",  # noqa: S608 - our names
                found,
            )

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
def open_store(path: Path) -> Generator[GraphStore]:
    """Open the graph in a file, which is created where there is none.

    Raises:
        ToolError: the file cannot be used; transient where another writer keeps it for too long.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
            connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; {_TABLES}")
            yield GraphStore(connection)
    except (OSError, sqlite3.Error) as error:
        raise ToolError(
            f"the graph in {path} cannot be used: {error}",
            hint="name another file as 'packs.knowledge.graph.path'",
            transient="locked" in str(error),
        ) from error


def _records(chunk: ChunkRecords, stage: Stage) -> Sequence[GraphRecord]:
    match stage:
        case "observations":
            return chunk.observations
        case "entities":
            return chunk.entities
        case "relations":
            return chunk.relations


def _fields(record: GraphRecord) -> tuple[str, ...]:
    match record:
        case ObservationRecord():
            return record.entity, record.text
        case EntityRecord():
            return entity_id(record.name), record.name, record.type, json.dumps(record.aliases)
        case RelationRecord():
            return record.source, record.relation, record.target
        case _:
            raise AssertionError(type(record))


def _rank(origin: Origin | None) -> int:
    return len(ORIGINS) if origin is None else ORIGINS.index(origin)


def _document(chunk: ChunkRecords) -> str:
    records = (*chunk.entities, *chunk.observations, *chunk.relations)
    return next((one.document for record in records for one in record.evidence), "")


def _merge_id(merge: ProposedMerge) -> str:
    return hashlib.sha256("\n".join(sorted((merge.kept, merge.dropped))).encode()).hexdigest()[:10]
