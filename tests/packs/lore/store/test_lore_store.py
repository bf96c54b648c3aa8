"""What packages leave in the store, on the embedded engine and on a server."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import anyio
import pytest

from tests.packs.lore.store.stores import ash_vale, opened, package_of, port_merrow
from tests.repository.tree import ROOT
from tests.support.prepared_command import PipedCommand, run_python
from wavewright.packs.lore.settings import StoreSettings
from wavewright.packs.lore.store.tables import RELATIONS
from wavewright.packs.surreal import SurrealConnection, SurrealStoreError

pytestmark = pytest.mark.anyio


async def relations_in(connection: SurrealConnection) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for relation in RELATIONS:
        [rows] = await connection.run("SELECT * FROM type::table($name);", name=relation.name)
        found += [(row["in"].id, relation.name, row["out"].id) for row in rows]
    return sorted(found)


ALL_RELATIONS = [
    ("ash_vale", "CONNECTS_TO", "port_merrow"),
    ("ash_vale:history", "ABOUT", "ash_vale"),
    ("ember_lantern", "FOUND_IN", "ash_vale"),
    ("mira_fenn", "BELONGS_TO", "orchard_wardens"),
    ("mira_fenn", "LOCATED_IN", "ash_vale"),
    ("mira_fenn", "RELATES_TO", "old_tam"),
    ("old_tam", "LOCATED_IN", "port_merrow"),
    ("orchard_wardens", "CHILD_OF", "crown"),
    ("orchard_wardens", "STANCE_TOWARD", "corsairs"),
    ("port_merrow:history", "ABOUT", "port_merrow"),
]


@pytest.mark.parametrize("is_reversed", [False, True])
async def test_all_relations_are_written_whichever_package_comes_first(
    place: StoreSettings, tmp_path: Path, *, is_reversed: bool
) -> None:
    first, second = (port_merrow(), ash_vale()) if is_reversed else (ash_vale(), port_merrow())

    async with opened(place, tmp_path) as (store, connection):
        await store.world_lore_put_package(first)
        written = await store.world_lore_put_package(second)
        relations = await relations_in(connection)

    assert relations == ALL_RELATIONS
    assert written.waiting == 0


async def test_a_zone_that_is_only_named_is_no_record(place: StoreSettings, tmp_path: Path) -> None:
    async with opened(place, tmp_path) as (store, _):
        written = await store.world_lore_put_package(ash_vale())
        neighbours = await store.world_lore_neighbours("Ash Vale")
        with pytest.raises(SurrealStoreError, match="no zone 'Port Merrow'"):
            await store.world_lore_zone("Port Merrow")

    assert (written.records, written.relations, written.waiting) == (5, 4, 4)
    assert (neighbours.neighbours, neighbours.not_stored) == ([], ["port_merrow"])


async def test_a_package_that_is_written_again_changes_nothing(
    place: StoreSettings, tmp_path: Path
) -> None:
    async with opened(place, tmp_path) as (store, connection):
        await store.world_lore_put_package(ash_vale())
        await store.world_lore_put_package(port_merrow())
        before = (await store.world_lore_zone("ash vale"), await relations_in(connection))
        await store.world_lore_put_package(ash_vale())
        await store.world_lore_put_package(port_merrow())
        after = (await store.world_lore_zone("ash vale"), await relations_in(connection))

    times = re.compile(r'"updated_at":"[^"]+"')
    assert after[1] == before[1]
    assert times.sub("", after[0].model_dump_json()) == times.sub("", before[0].model_dump_json())


async def test_a_zone_is_read_with_all_that_belongs_to_it(
    place: StoreSettings, tmp_path: Path
) -> None:
    async with opened(place, tmp_path) as (store, _):
        await store.world_lore_put_package(ash_vale())
        await store.world_lore_put_package(port_merrow())
        found = await store.world_lore_zone("The Ash Vale")

    assert found.zone.level_range is not None
    assert found.zone.level_range.max == 5
    assert found.zone.connected_zones == ["port_merrow"]
    assert [npc.name for npc in found.npcs] == ["Mira Fenn"]
    assert [faction.id for faction in found.factions] == ["orchard_wardens"]
    assert [piece.content for piece in found.lore] == ["It once was a lake."]
    assert [item.name for item in found.narrative_items] == ["Ember Lantern"]
    assert found.zone.updated_at is not None


async def test_what_a_later_package_leaves_empty_stays(
    place: StoreSettings, tmp_path: Path
) -> None:
    source: dict[str, str] = {
        "url": "http://wiki.example/vale",
        "domain": "wiki.example",
        "accessed_at": "2026-03-01T10:00:00Z",
    }
    zone = {"name": "Ash Vale", "era": "first", "sources": [source]}
    later = {
        "name": "Ash Vale",
        "era": "second",
        "sources": [{**source, "accessed_at": "2026-04-01T10:00:00Z"}],
    }

    async with opened(place, tmp_path) as (store, _):
        await store.world_lore_put_package(ash_vale())
        await store.world_lore_put_package(package_of("Ash Vale", zone_data=zone))
        await store.world_lore_put_package(package_of("Ash Vale", zone_data=later))
        await store.world_lore_put_package(port_merrow())
        found = await store.world_lore_zone("Ash Vale")

    assert found.zone.narrative_arc == "Corsairs burn the orchards."
    assert found.zone.era == "second"
    assert [one.accessed_at.month for one in found.zone.sources] == [4]
    assert found.npcs[0].role == "pilot"
    assert found.npcs[0].relationships[0].npc_id == "old_tam"


async def test_a_faction_has_one_parent(place: StoreSettings, tmp_path: Path) -> None:
    async with opened(place, tmp_path) as (store, connection):
        await store.world_lore_put_package(ash_vale())
        await store.world_lore_put_package(port_merrow())
        moved = [{"name": "Orchard Wardens", "parent_faction_id": "corsairs"}]
        await store.world_lore_put_package(package_of("Gull Isle", factions=moved))
        relations = await relations_in(connection)

    assert [one for one in relations if one[1] == "CHILD_OF"] == [
        ("orchard_wardens", "CHILD_OF", "corsairs")
    ]


async def test_ways_lead_over_connections_in_both_directions(
    place: StoreSettings, tmp_path: Path
) -> None:
    connections = {"A": ["B"], "B": ["C"], "C": ["D"], "D": [], "E": ["B", "D"], "Island": []}
    async with opened(place, tmp_path) as (store, _):
        for name, towards in connections.items():
            await store.world_lore_put_package(
                package_of(name, zone_data={"name": name, "connected_zones": [*towards]})
            )

        assert [zone.name for zone in (await store.world_lore_way("D", "A")).zones] in (
            list("DCBA"),
            list("DEBA"),
        )
        assert [zone.name for zone in (await store.world_lore_way("A", "A")).zones] == ["A"]
        assert (await store.world_lore_way("A", "Island")).zones == []
        assert [zone.name for zone in (await store.world_lore_neighbours("B")).neighbours] == [
            "A",
            "C",
            "E",
        ]
        with pytest.raises(SurrealStoreError, match="no zone 'Nowhere'"):
            await store.world_lore_way("A", "Nowhere")


async def test_a_search_finds_words_in_any_form_and_most_words_first(
    place: StoreSettings, tmp_path: Path
) -> None:
    async with opened(place, tmp_path) as (store, _):
        await store.world_lore_put_package(ash_vale())
        await store.world_lore_put_package(port_merrow())
        for number in range(20):
            await store.world_lore_put_package(package_of(f"Plain {number}"))
        found = (await store.world_lore_search("a corsair's orchard")).records
        captain = (await store.world_lore_search("CAPTAIN", limit=1)).records
        nothing = (await store.world_lore_search("'; DELETE zone; --")).records

        assert {one.id for one in found[:2]} == {"ash_vale", "orchard_wardens"}
        assert "orchards" in next(one.excerpt for one in found if one.id == "ash_vale")
        assert {one.id for one in found} >= {"corsairs", "ember_lantern"}
        assert [(one.name, one.zones) for one in captain] == [("Old Tam", ["port_merrow"])]
        assert nothing == (await store.world_lore_search("")).records == []
        assert (await store.world_lore_zone("Ash Vale")).zone.name == "Ash Vale"


async def test_a_package_is_written_whole_or_not_at_all(
    place: StoreSettings, tmp_path: Path
) -> None:
    async with opened(place, tmp_path) as (store, connection):
        await connection.run(
            "DEFINE FIELD OVERWRITE role ON npc TYPE string ASSERT $value != 'traitor';"
        )
        with pytest.raises(SurrealStoreError, match="refused a statement: Found 'traitor'"):
            await store.world_lore_put_package(
                package_of("Ash Vale", npcs=[{"name": "Loyal"}, {"name": "Sly", "role": "traitor"}])
            )
        with pytest.raises(SurrealStoreError, match="no zone"):
            await store.world_lore_zone("Ash Vale")
        [people] = await connection.run("SELECT * FROM npc;")

    assert people == []


@pytest.mark.parametrize(
    "name",
    [
        "Thûl-Gar",
        "Eagle's Rest; REMOVE TABLE zone",
        "zone:⟨x⟩ `y`",
        "…",
        "nul\0byte",
        "七つの海",
        "x" * 300,
    ],
)
async def test_any_name_is_stored_and_found_again(
    place: StoreSettings, tmp_path: Path, name: str
) -> None:
    async with opened(place, tmp_path) as (store, _):
        await store.world_lore_put_package(package_of(name, npcs=[{"name": name, "zone_id": name}]))
        found = await store.world_lore_zone(name)

    assert found.zone.name == name.replace("\0", "")
    assert [npc.name for npc in found.npcs] == [found.zone.name]


async def test_no_package_is_lost_that_others_are_written_beside(
    place: StoreSettings, tmp_path: Path
) -> None:
    async with opened(place, tmp_path) as (store, _):
        async with anyio.create_task_group() as group:
            for number in range(30):
                mira = {"name": "Mira Fenn", "motivations": [f"reach {number}"]}
                group.start_soon(
                    store.world_lore_put_package, package_of(f"Zone {number}", npcs=[mira])
                )
        found = await store.world_lore_zone("Zone 7")

    assert set(found.npcs[0].motivations) == {f"reach {number}" for number in range(30)}


WRITER = """
import sys
from pathlib import Path
import anyio
from tests.packs.lore.store.stores import opened, package_of
from wavewright.packs.lore.settings import StoreSettings

async def write(root):
    async with opened(StoreSettings(), root) as (store, _):
        for number in range(10_000):
            people = [{"name": f"Person {number} {each}", "zone_id": f"zone_{number}"} for each in range(10)]
            await store.world_lore_put_package(package_of(f"Zone {number}", npcs=people))
            print(number, flush=True)

anyio.run(write, Path(sys.argv[1]))
"""


def written_until_killed(root: Path, packages: int) -> int:
    """Kill a process while it writes packages, after so many; return the last one that was
    acknowledged.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    given = ["-c", WRITER, str(root)]
    with PipedCommand(*given, environment=environment, target=run_python) as writer:
        for line in writer.stdout:
            if int(line) == packages:
                writer.send_signal(signal.SIGKILL)
                break
        return max([packages, *(int(line) for line in writer.stdout)])


async def test_nothing_that_was_acknowledged_is_lost_when_the_writer_is_killed(
    tmp_path: Path,
) -> None:
    acknowledged = written_until_killed(tmp_path, 25)

    async with opened(StoreSettings(), tmp_path) as (store, connection):
        for number in range(acknowledged + 1):
            assert len((await store.world_lore_zone(f"Zone {number}")).npcs) == 10
        [zones, people] = await connection.run(
            "SELECT VALUE id FROM zone; SELECT VALUE id FROM npc;"
        )

    assert len(people) == 10 * len(
        zones
    )  # the package that was being written is there whole, or not at all
    assert len(zones) <= acknowledged + 2


async def test_a_second_owner_of_a_folder_is_refused(tmp_path: Path) -> None:
    async with opened(StoreSettings(), tmp_path):
        with pytest.raises(
            SurrealStoreError, match="another process has the lore store"
        ) as refused:
            async with SurrealConnection(StoreSettings(), tmp_path):
                pass
    assert refused.value.hint is not None
    assert "--http" in refused.value.hint

    async with opened(StoreSettings(), tmp_path) as (store, _):
        assert (await store.world_lore_search("anything")).records == []
