"""Records as rows of the store's tables, and rows as records."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar, cast

from wavewright.planner.types import Json
from wavewright.tools.lore.messages import ResearchPackage
from wavewright.tools.lore.models import CATEGORIES, LoreData, LoreRecord, slug
from wavewright.tools.lore.store.schema import TABLE_OF_CATEGORY
from wavewright.tools.surreal import Row

_Record = TypeVar("_Record", bound=LoreRecord)

_STORED_ONLY: Final = frozenset({"id", "zones", "text"})
"""Columns that are no fields of the record: its key, slugs of the zones whose packages hold it, what is searched."""
_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "sources": ("url",),
    "inter_faction": ("faction_id",),
    "relationships": ("npc_id", "type"),
    "phase_states": ("name",),
}
"""What tells the entries of a list apart; the whole entry where a field is not named."""
_REFERENCES: Final = ("connected_zones", "zone_id", "faction_ids", "parent_faction_id", "exclusive_with")


def package_rows(package: ResearchPackage, now: dt.datetime) -> Iterator[tuple[str, str, Row]]:
    """Yield table, key and row of each record of a package."""
    zone = package.zone_data.id
    for category in CATEGORIES:
        found = [package.zone_data] if category == "zone" else getattr(package, category)
        for record in cast("list[LoreRecord]", found):
            yield TABLE_OF_CATEGORY[category], record_key(record), _row(record, zone, now)


def record_key(record: LoreRecord) -> str:
    """Return the key of a record in its table: its slug; of a piece of lore about a zone, after the zone's."""
    about = slug(record.zone_id) if isinstance(record, LoreData) and record.zone_id else ""
    return f"{about}:{record.id}" if about else record.id


def _row(record: LoreRecord, zone: str, now: dt.datetime) -> Row:
    row = cast("Row", _storable(record.model_dump(exclude={"id", "updated_at"}, exclude_none=True)))
    for name in _REFERENCES:
        if name in row:
            row[name] = [slug(one) for one in row[name]] if isinstance(row[name], list) else _slug(row[name])
    for entry in row.get("relationships", []):
        entry["npc_id"] = slug(entry["npc_id"])
    for entry in row.get("inter_faction", []):
        entry["faction_id"] = slug(entry["faction_id"])
    return {**row, "zones": [zone], "updated_at": now}


def _slug(name: str) -> str:
    return slug(name) if name else ""


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
    """Return a row after a later package: what it fills replaces what was stored, lists are united, the rest stays."""
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


def record_of(row: Row, model: type[_Record]) -> _Record:
    """Return the record that a row holds."""
    return model.model_validate({name: value for name, value in row.items() if name not in _STORED_ONLY})


def shown_text(row: Row) -> str:
    """Return the text that is searched."""
    return str(cast("Json", row["text"]))
