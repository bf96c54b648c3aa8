"""The tables of a graph's file.

Entities, the texts of the search and the ends of records follow from mentions and merges; `total` counts what is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from wavewright.tools.knowledge.graph.models import RecordKind

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
KINDS: Final[tuple[tuple[RecordKind, str], ...]] = (
    ("observation", "observation"),
    ("entity", "mention"),
    ("relation", "relation"),
)
"""Kinds of records with their tables."""
COLUMNS: Final[Mapping[str, str]] = {
    "observation": "id, chunk, origin, entity_name, entity_key, text",
    "mention": "id, chunk, origin, entity, name, type, aliases",
    "relation": "id, chunk, origin, source_name, source_key, relation, target_name, target_key",
}
ENDS: Final = (("observation", "entity"), ("relation", "source"), ("relation", "target"))
"""Tables and columns that hold the id of an entity, or nothing; `…_key` beside one is the id that its name has."""
LISTED: Final = "(SELECT value FROM json_each(?))"
"""The values of a parameter that `as_list` made."""


def as_list(values: Iterable[str | int]) -> str:
    """Return values as one parameter of SQL."""
    return json.dumps([*values])
