"""The MCP server `lore-store`: checkpoints for the researcher, validated lore for the validator alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from wavewright.tools.lore.messages import ResearchPackage
from wavewright.tools.lore.models import ResearchCheckpoint
from wavewright.tools.lore.store.checkpoints import (
    CheckpointStore,
    DeletedCheckpoint,
    ListedCheckpoints,
    StoredCheckpoint,
)
from wavewright.tools.lore.store.lore_store import (
    FoundRecords,
    LoreStore,
    StoredZone,
    WrittenPackage,
    ZoneNeighbours,
    ZoneWay,
)
from wavewright.tools.lore.store.schema import definitions
from wavewright.tools.lore.store.settings import StoreSettings
from wavewright.tools.packs import PackServer, ServerTool
from wavewright.tools.surreal.connection import SurrealConnection

RESEARCHER: Final = "researcher"
VALIDATOR: Final = "validator"

_INSTRUCTIONS: Final = """\
The store of the pack lore. A researcher keeps checkpoints here; a validator writes the packages that it accepts, and
reads what is known of a world."""

_CheckpointName: TypeAlias = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$", description="Whose checkpoint it is.")
]
_ZoneName: TypeAlias = Annotated[str, Field(min_length=1, description="Its name or identity.")]


def store_server(settings: StoreSettings, root: Path) -> PackServer:
    """Return the server; it opens the store when it is served."""
    return PackServer(
        instructions=_INSTRUCTIONS, roles=(RESEARCHER, VALIDATOR), open=partial(_opened, settings, root)
    )


@asynccontextmanager
async def _opened(settings: StoreSettings, root: Path) -> AsyncGenerator[Mapping[str, Sequence[ServerTool]]]:
    async with SurrealConnection(settings, root) as connection:
        await connection.run(definitions())
        checkpoints = ResearcherTools(CheckpointStore(connection))
        lore = ValidatorTools(LoreStore(connection))
        yield {
            RESEARCHER: (
                ServerTool(checkpoints.checkpoint_save),
                ServerTool(checkpoints.checkpoint_load, only_reads=True),
                ServerTool(checkpoints.checkpoint_list, only_reads=True),
                ServerTool(checkpoints.checkpoint_delete, destroys=True),
            ),
            VALIDATOR: (
                ServerTool(lore.world_lore_put_package),
                ServerTool(lore.world_lore_zone, only_reads=True),
                ServerTool(lore.world_lore_neighbours, only_reads=True),
                ServerTool(lore.world_lore_way, only_reads=True),
                ServerTool(lore.world_lore_search, only_reads=True),
            ),
        }


class ResearcherTools:
    """What a researcher calls."""

    def __init__(self, checkpoints: CheckpointStore) -> None:
        self._checkpoints = checkpoints

    async def checkpoint_save(
        self, checkpoint: ResearchCheckpoint, name: _CheckpointName = "world_lore_researcher"
    ) -> StoredCheckpoint:
        """Write where the research stands, in place of what was written under the name before."""
        return await self._checkpoints.save(name, checkpoint)

    async def checkpoint_load(self, name: _CheckpointName = "world_lore_researcher") -> StoredCheckpoint:
        """Return where the research of a name stands; `checkpoint` is null where nothing was written."""
        return await self._checkpoints.load(name)

    async def checkpoint_list(self) -> ListedCheckpoints:
        """Return all checkpoints without their data, the newest first."""
        return await self._checkpoints.list()

    async def checkpoint_delete(self, name: _CheckpointName) -> DeletedCheckpoint:
        """Delete the checkpoint of a name."""
        return await self._checkpoints.delete(name)


class ValidatorTools:
    """What a validator calls."""

    def __init__(self, lore: LoreStore) -> None:
        self._lore = lore

    async def world_lore_put_package(self, package: ResearchPackage) -> WrittenPackage:
        """Write an accepted package, whole or not at all; writing it again changes nothing."""
        return await self._lore.put(package)

    async def world_lore_zone(self, name: _ZoneName) -> StoredZone:
        """Return a zone with the people, factions, lore and items that belong to it."""
        return await self._lore.zone(name)

    async def world_lore_neighbours(self, name: _ZoneName) -> ZoneNeighbours:
        """Return the zones that a zone is connected with, and those that are named but not stored."""
        return await self._lore.neighbours(name)

    async def world_lore_way(self, start: _ZoneName, end: _ZoneName) -> ZoneWay:
        """Return a shortest way between two zones."""
        return await self._lore.way(start, end)

    async def world_lore_search(
        self,
        query: Annotated[str, Field(min_length=1, description="Words in any form; the first eight count.")],
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
    ) -> FoundRecords:
        """Return the records that hold most words of the query, best first."""
        return await self._lore.search(query, limit)
