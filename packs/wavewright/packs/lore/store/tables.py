"""Tables and relations of the store, made from the models of the records, and the records as rows
of the tables.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, cast, get_args, get_origin

from pydantic import BaseModel

from wavewright.packs.lore.messages import ResearchPackage
from wavewright.packs.lore.models import (
    CATEGORIES,
    RECORD_TYPES,
    Category,
    LoreData,
    LoreRecord,
    ResearchCheckpoint,
)
from wavewright.packs.surreal import Row
from wavewright.planner import Json

CHECKPOINTS: Final = "research_state"
"""Table of research checkpoints."""
_TABLE_OF_CATEGORY: Final[Mapping[Category, str]] = {
    "zone": "zone",
    "npcs": "npc",
    "factions": "faction",
    "lore": "lore",
    "narrative_items": "narrative_item",
}
TABLES: Final[Mapping[str, type[LoreRecord]]] = {
    table: RECORD_TYPES[category] for category, table in _TABLE_OF_CATEGORY.items()
}
_STORED_ONLY: Final = frozenset({"id", "zones", "text"})
"""Columns that are no fields of the record: its key, slugs of the zones whose packages hold it,
what is searched.
"""
_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "sources": ("url",),
    "inter_faction": ("faction_id",),
    "relationships": ("npc_id", "type"),
    "phase_states": ("name",),
}
"""What tells the entries of a list apart; the whole entry where a field is not named."""


@dataclass(frozen=True, slots=True)
class Relation:
    """An edge between two tables: which field of the source names the targets, and what the edge
    holds.
    """

    name: str
    source: str
    target: str
    field: str
    """A slug, a list of slugs, or a list of objects."""
    key: str = ""
    """The field of those objects that holds the slug."""
    content: tuple[str, ...] = ()
    """Fields of those objects that the edge holds."""
    identity: tuple[str, ...] = ()
    """Those that tell edges between the same two records apart."""
    is_single: bool = False
    """Whether a record has at most one such edge."""

    def ends(self, row: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Json]]]:
        """Yield the target of each edge that a record names, with what the edge holds."""
        value: Any = row.get(self.field)
        several: list[Any] = [value] if isinstance(value, str) else value
        for one in several or []:
            if not one:
                continue
            if self.key:
                yield one[self.key], {name: one[name] for name in self.content}
            else:
                yield one, {}

    @property
    def target_field(self) -> str:
        """Where a record of the source table holds the slugs; it is indexed."""
        return f"{self.field}.*.{self.key}" if self.key else self.field

    @property
    def names_targets(self) -> str:
        """A condition over the source table: a record names one of `$ids`."""
        return f"{self.target_field} {'IN' if self.field.endswith('_id') else 'CONTAINSANY'} $ids"


RELATIONS: Final = (
    Relation("CONNECTS_TO", "zone", "zone", "connected_zones"),
    Relation("BELONGS_TO", "npc", "faction", "faction_ids"),
    Relation("LOCATED_IN", "npc", "zone", "zone_id"),
    Relation(
        "RELATES_TO",
        "npc",
        "npc",
        "relationships",
        "npc_id",
        ("type", "description"),
        identity=("type",),
    ),
    Relation("CHILD_OF", "faction", "faction", "parent_faction_id", is_single=True),
    Relation("STANCE_TOWARD", "faction", "faction", "inter_faction", "faction_id", ("stance",)),
    Relation("FOUND_IN", "narrative_item", "zone", "zone_id"),
    Relation("ABOUT", "lore", "zone", "zone_id"),
)


def definitions() -> str:
    """Return the statements that define all tables; running them again changes nothing."""
    return "\n".join(
        (
            "DEFINE ANALYZER IF NOT EXISTS lore_words TOKENIZERS class FILTERS lowercase, ascii, snowball(english);",
            *(line for table, model in TABLES.items() for line in _record_table(table, model)),
            *(line for relation in RELATIONS for line in _relation_table(relation)),
            *_table(CHECKPOINTS, ResearchCheckpoint),
            f"DEFINE FIELD IF NOT EXISTS updated_at ON {CHECKPOINTS} TYPE datetime;",
        )
    )


def _record_table(table: str, model: type[LoreRecord]) -> Iterator[str]:
    yield from _table(table, model)
    yield f"DEFINE FIELD IF NOT EXISTS zones ON {table} TYPE array<string>;"
    yield f"DEFINE FIELD IF NOT EXISTS text ON {table} TYPE string;"
    yield f"DEFINE INDEX IF NOT EXISTS {table}_text ON {table} FIELDS text SEARCH ANALYZER lore_words BM25;"


def _relation_table(relation: Relation) -> Iterator[str]:
    yield (
        f"DEFINE TABLE IF NOT EXISTS {relation.name} TYPE RELATION IN {relation.source} OUT {relation.target} "
        "ENFORCED SCHEMAFULL;"
    )
    yield (
        f"DEFINE INDEX IF NOT EXISTS {relation.name}_targets ON {relation.source} FIELDS {relation.target_field};"
    )
    for name in relation.content:
        yield f"DEFINE FIELD IF NOT EXISTS {name} ON {relation.name} TYPE string;"


def _table(table: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"DEFINE TABLE IF NOT EXISTS {table} SCHEMAFULL;"
    for name, field in model.model_fields.items():
        if name != "id":
            yield from _field(table, name, field.annotation)


def _field(table: str, name: str, kind: Any) -> Iterator[str]:
    start = f"DEFINE FIELD IF NOT EXISTS {name} ON {table}"
    if name == "confidence":
        yield f"{start} TYPE number ASSERT $value >= 0 AND $value <= 1;"
    elif get_origin(kind) is list and _type(get_args(kind)[0]) != "TYPE string":
        # Of an array with a type its items are defined along with it, and cannot be flexible any
        # more.
        yield f"{start} TYPE array;"
        yield f"DEFINE FIELD IF NOT EXISTS {name}.* ON {table} FLEXIBLE TYPE object;"
    else:
        yield f"{start} {_type(kind)};"


def _type(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(parts[0])
    if origin is list:
        return "TYPE array<string>"
    if type(None) in parts:
        of = _type(next(part for part in parts if part is not type(None)))
        flexible, _, name = of.rpartition("TYPE ")
        return f"{flexible}TYPE option<{name}>"
    if origin is Literal or kind in {str, dt.date}:
        return "TYPE string"
    if origin is dict:
        return "TYPE string"  # as JSON: the engine leaves members of objects out that are null
    simple = {int: "TYPE int", float: "TYPE number", dt.datetime: "TYPE datetime"}
    return simple.get(kind, "FLEXIBLE TYPE object")


def package_rows(package: ResearchPackage, now: dt.datetime) -> Iterator[tuple[str, str, Row]]:
    """Yield table, key and row of each record of a package."""
    zone = package.zone_data.id
    for category in CATEGORIES:
        found = [package.zone_data] if category == "zone" else getattr(package, category)
        for record in cast("list[LoreRecord]", found):
            yield _TABLE_OF_CATEGORY[category], _record_key(record), _row(record, zone, now)


def _record_key(record: LoreRecord) -> str:
    """Return the key of a record in its table: its slug; of a piece of lore about a zone, after the
    zone's.
    """
    about = record.zone_id if isinstance(record, LoreData) else ""
    return f"{about}:{record.id}" if about else record.id


def _row(record: LoreRecord, zone: str, now: dt.datetime) -> Row:
    row = cast("Row", _storable(record.model_dump(exclude={"id", "updated_at"}, exclude_none=True)))
    return {**row, "zones": [zone], "updated_at": now}


def _storable(value: Any) -> Any:
    """Return a value without the character that the engine cannot hold in a text."""
    match value:
        case str():
            return value.replace("\0", "")
        case dict():
            return {key: _storable(item) for key, item in cast("dict[str, Any]", value).items()}
        case list():
            return [_storable(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def merged(stored: Row | None, new: Row) -> Row:
    """Return a row after a later package: what it fills replaces what was stored, lists are united,
    the rest stays.
    """
    row = dict(new)
    for name, old in (stored or {}).items():
        if name in {"id", "text"}:
            continue
        value = row.get(name)
        if isinstance(old, list):
            row[name] = _united(name, old, value or [])  # pyright: ignore[reportUnknownArgumentType]
        elif value is None or value == "":
            row[name] = old
    row["text"] = " ".join(_words(row))
    return row


def _united(name: str, old: list[Any], new: list[Any]) -> list[Any]:
    identity = _IDENTITY.get(name)
    found: dict[object, Any] = {}
    for entry in (*old, *new):
        fields = cast("Row", entry) if isinstance(entry, dict) else {}
        parts = identity or sorted(fields)
        found[tuple(str(fields[part]) for part in parts) if fields else entry] = entry
    return list(found.values())


def _words(row: Row) -> Iterator[str]:
    """Yield what is searched: the texts of a record, but not its sources and quotes."""
    for name, value in row.items():
        if name in {"sources", "evidence", "zones", "text", "id"}:
            continue
        several = cast("Any", value if isinstance(value, list) else [value])
        for one in several:
            if isinstance(one, str):
                yield one.replace("_", " ")
            elif isinstance(one, dict):
                yield from (str(part).replace("_", " ") for part in cast("Row", one).values())


def record_fields(row: Row) -> Row:
    """Return the fields of the record that a row holds."""
    return {name: value for name, value in row.items() if name not in _STORED_ONLY}
