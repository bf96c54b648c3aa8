"""Validated lore: packages are written whole or not at all, and read back as records, ways and
search results.

A relation is written as soon as both of its ends are stored, whichever comes first: a zone that is
only named by another one is no record.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

import anyio
import networkx as nx
from pydantic import Field

from wavewright.packs.lore.messages import ResearchPackage
from wavewright.packs.lore.models import (
    CATEGORIES,
    LoreModel,
    ZoneExtraction,
    slug,
)
from wavewright.packs.lore.store.tables import (
    RELATIONS,
    TABLES,
    Relation,
    merged,
    package_rows,
    record_fields,
)
from wavewright.packs.surreal import Row, SurrealConnection, SurrealStoreError, record_id
from wavewright.planner import Json

Place: TypeAlias = tuple[str, str]
"""Table and key of a record."""
ZoneNameOrId: TypeAlias = Annotated[str, Field(min_length=1, description="Its name or identity.")]
TableName: TypeAlias = Literal["zone", "npc", "faction", "lore", "narrative_item"]

_MAX_TERMS: Final = 8
_EXCERPT: Final = 160
_TERM: Final = re.compile(r"\w+")


class WrittenPackage(LoreModel):
    """What was written of a package; writing it again changes nothing but the times."""

    zone_id: str
    records: int
    relations: int = Field(
        description="With those of earlier packages that waited for these records."
    )
    waiting: int = Field(
        description="Relations whose other end is not stored yet; written as soon as it is."
    )


class ZoneName(LoreModel):
    """A zone by its identity and name."""

    id: str
    name: str


class ZoneNeighbours(LoreModel):
    """The zones that a zone is connected with, in either direction."""

    zone: ZoneName
    neighbours: list[ZoneName]
    not_stored: list[str] = Field(
        description="Identities of connected zones that no package has described."
    )


class ZoneWay(LoreModel):
    """A shortest way from one zone to another."""

    zones: list[ZoneName] = Field(description="With both ends; empty where no way is known.")


class FoundRecord(LoreModel):
    """One record that a search has found."""

    table: TableName
    id: str
    name: str
    zones: list[str] = Field(description="Identities of the zones whose packages hold it.")
    excerpt: str
    confidence: Annotated[float, Field(ge=0, le=1)]


class FoundRecords(LoreModel):
    """Records that a search has found, best first."""

    records: list[FoundRecord]


class LoreStore:
    """What a validator calls: the tables of validated lore, over an open connection.

    Every method raises `SurrealStoreError` where the store cannot be used, or has no zone of a
    name.
    """

    def __init__(self, connection: SurrealConnection) -> None:
        self._connection = connection
        # A package is merged with what is stored: nothing may be written between reading and
        # writing.
        self._writing = anyio.Lock()

    async def world_lore_put_package(self, package: ResearchPackage) -> WrittenPackage:
        """Write an accepted package, whole or not at all; writing it again changes nothing."""
        # Records, and the relations between stored records, are one transaction.
        async with self._writing:
            rows: dict[Place, Row] = {}
            for table, key, row in package_rows(package, dt.datetime.now(dt.UTC)):
                rows[table, key] = merged(rows.get((table, key)), row)
            stored = await self._by_id([*rows])
            rows = {place: merged(stored.get(place), row) for place, row in rows.items()}
            edges, waiting = await self._edges(rows, rows.keys() - stored.keys())
            await self._write(rows, edges)
        return WrittenPackage(
            zone_id=package.zone_data.id, records=len(rows), relations=len(edges), waiting=waiting
        )

    async def world_lore_zone(self, name: ZoneNameOrId) -> ZoneExtraction:
        """Return a zone with the people, factions, lore and items that belong to it."""
        key, row = await self._zone_row(name)
        found = await self._connection.run(
            "SELECT * FROM npc WHERE zones CONTAINS $zone OR zone_id = $zone ORDER BY name;"
            "SELECT * FROM faction WHERE zones CONTAINS $zone ORDER BY name;"
            "SELECT * FROM lore WHERE zones CONTAINS $zone OR zone_id = $zone ORDER BY title;"
            "SELECT * FROM narrative_item WHERE zones CONTAINS $zone OR zone_id = $zone ORDER BY name;",
            zone=key,
        )
        listed = {
            name: [*map(record_fields, rows)]
            for name, rows in zip(CATEGORIES[1:], found, strict=True)
        }
        return ZoneExtraction.model_validate({"zone": record_fields(row), **listed})

    async def world_lore_neighbours(self, name: ZoneNameOrId) -> ZoneNeighbours:
        """Return the zones that a zone is connected with, and those that are named but not stored."""
        key, row = await self._zone_row(name)
        [found] = await self._connection.run(
            "SELECT id, name FROM array::distinct("
            "array::concat($zone->CONNECTS_TO->zone, $zone<-CONNECTS_TO<-zone)) ORDER BY name;",
            zone=record_id("zone", key),
        )
        neighbours = [ZoneName(id=one["id"].id, name=one["name"]) for one in found]
        stored = {one.id for one in neighbours}
        return ZoneNeighbours(
            zone=ZoneName(id=key, name=row["name"]),
            neighbours=neighbours,
            not_stored=[one for one in row["connected_zones"] if one not in stored and one != key],
        )

    async def world_lore_way(self, start: ZoneNameOrId, end: ZoneNameOrId) -> ZoneWay:
        """Return a shortest way between two zones."""
        first, _ = await self._zone_row(start)
        last, _ = await self._zone_row(end)
        # The engine's own search for a shortest way does not end where there is none and zones lie
        # in a circle.
        connections, names = await self._connection.run(
            "SELECT in, out FROM CONNECTS_TO; SELECT id, name FROM zone;"
        )
        graph = nx.Graph((one["in"].id, one["out"].id) for one in connections)
        graph.add_nodes_from((first, last))
        if not nx.has_path(graph, first, last):
            return ZoneWay(zones=[])
        name_of = {one["id"].id: one["name"] for one in names}
        way: list[str] = nx.shortest_path(graph, first, last)  # pyright: ignore[reportUnknownMemberType]
        return ZoneWay(zones=[ZoneName(id=key, name=name_of[key]) for key in way])

    async def world_lore_search(
        self,
        query: Annotated[
            str, Field(min_length=1, description="Words in any form; the first eight count.")
        ],
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
    ) -> FoundRecords:
        """Return the records that hold most words of the query, best first."""
        terms = [*dict.fromkeys(_TERM.findall(query.casefold()))][:_MAX_TERMS]
        if not terms:
            return FoundRecords(records=[])
        scores = ", ".join(f"search::score({place})" for place in range(len(terms)))
        condition = " OR ".join(f"text @{place}@ $term_{place}" for place in range(len(terms)))
        found = await self._connection.run(
            "".join(
                f"SELECT *, [{scores}] AS scores FROM {table} WHERE {condition};"  # noqa: S608 - our names
                for table in TABLES
            ),
            **{f"term_{place}": term for place, term in enumerate(terms)},
        )
        rows = [(table, row) for table, rows in zip(TABLES, found, strict=True) for row in rows]
        rows.sort(key=lambda one: _rank(one[1]["scores"]), reverse=True)
        return FoundRecords(records=[_found(table, row, terms) for table, row in rows[:limit]])

    async def _zone_row(self, name: str) -> tuple[str, Row]:
        key = slug(name)
        row = (await self._by_id([("zone", key)])).get(("zone", key))
        if row is None:
            raise SurrealStoreError(
                f"the store has no zone {name!r}", hint="find its name with world_lore_search"
            )
        return key, row

    async def _by_id(self, places: Sequence[Place]) -> dict[Place, Row]:
        if not places:
            return {}
        [rows] = await self._connection.run(
            "SELECT * FROM $ids;", ids=[record_id(*place) for place in places]
        )
        return {(row["id"].table_name, row["id"].id): row for row in rows}

    async def _edges(
        self, rows: Mapping[Place, Row], new: AbstractSet[Place]
    ) -> tuple[list[_Edge], int]:
        """Return the relations of these rows, and those of stored rows that wait for the new ones
        among them.

        The number is that of relations of these rows whose other end is not stored.
        """
        named = [
            _Edge(relation, key, target, content)
            for relation in RELATIONS
            for (table, key), row in rows.items()
            if table == relation.source
            for target, content in relation.ends(row)
        ]
        for relation in RELATIONS:
            ids = {key for table, key in new if table == relation.target}
            statement = f"SELECT * FROM {relation.source} WHERE {relation.names_targets};"  # noqa: S608 - our names
            found: list[list[Row]] = (
                await self._connection.run(statement, ids=[*ids]) if ids else [[]]
            )
            named += [
                _Edge(relation, row["id"].id, target, content)
                for row in found[0]
                if (relation.source, row["id"].id) not in rows
                for target, content in relation.ends(row)
                if target in ids
            ]
        others = {edge.target_place for edge in named} - rows.keys()
        stored = {*rows, *await self._by_id([*others])}
        waiting = sum(
            edge.target_place not in stored
            for edge in named
            if (edge.relation.source, edge.source) in rows
        )
        return [edge for edge in named if edge.target_place in stored], waiting

    async def _write(self, rows: Mapping[Place, Row], edges: Sequence[_Edge]) -> None:
        statements, values = ["BEGIN;"], dict[str, Any]()
        for number, ((table, key), row) in enumerate(rows.items()):
            statements.append(f"UPSERT $record_{number} CONTENT $row_{number} RETURN NONE;")
            values |= {f"record_{number}": record_id(table, key), f"row_{number}": row}
        for number, edge in enumerate(edges):
            statements.append(edge.statement(number))
            values |= {
                f"source_{number}": record_id(edge.relation.source, edge.source),
                f"edge_{number}": record_id(edge.relation.name, edge.key),
                f"target_{number}": record_id(*edge.target_place),
                f"content_{number}": edge.content,
            }
        await self._connection.run("".join((*statements, "COMMIT;")), **values)


@dataclass(frozen=True, slots=True)
class _Edge:
    relation: Relation
    source: str
    target: str
    content: dict[str, Json]

    @property
    def target_place(self) -> Place:
        return self.relation.target, self.target

    @property
    def key(self) -> list[Json]:
        """The key of the relation's record holds both ends, so that the same relation is written
        once.
        """
        return [self.source, self.target, *(self.content[part] for part in self.relation.identity)]

    def statement(self, number: int) -> str:
        """Return the statement that writes it, with values of this number."""
        relation = self.relation
        fields = ", ".join(f"{field} = $content_{number}.{field}" for field in relation.content)
        written = f"RELATE $source_{number}->$edge_{number}->$target_{number}"
        written += f" SET {fields} RETURN NONE;" if fields else " RETURN NONE;"
        if relation.is_single:
            return (
                f"DELETE $source_{number}->{relation.name} WHERE out != $target_{number};{written}"
            )
        return written


def _rank(scores: Sequence[float]) -> tuple[int, float]:
    """Return the words that a record holds, and their weight: words of most records weigh less than
    nothing.
    """
    return sum(score != 0 for score in scores), sum(scores)


def _found(table: str, row: Row, terms: Sequence[str]) -> FoundRecord:
    text = str(row["text"])
    places = [found for term in terms if (found := text.casefold().find(term)) >= 0]
    start = max(0, min(places, default=0) - _EXCERPT // 4)
    return FoundRecord.model_validate(
        {
            "table": table,
            "id": row["id"].id,
            "name": row.get("name") or row["title"],
            "zones": row["zones"],
            "excerpt": text[start : start + _EXCERPT],
            "confidence": row["confidence"],
        }
    )
