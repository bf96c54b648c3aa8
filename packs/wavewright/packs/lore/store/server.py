"""The MCP server `lore-store`: checkpoints for the researcher, validated lore for the validator
alone.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from wavewright.packs.lore.models import LoreModel, ResearchCheckpoint
from wavewright.packs.lore.settings import StoreSettings
from wavewright.packs.lore.store.lore_store import LoreStore
from wavewright.packs.lore.store.tables import CHECKPOINTS, definitions
from wavewright.packs.surreal import Row, SurrealConnection, record_id
from wavewright.tools import PackServer, ServerTool


class StoredCheckpoint(LoreModel):
    """A checkpoint of a name, if there is one."""

    name: str
    checkpoint: ResearchCheckpoint | None = None
    updated_at: dt.datetime | None = None


class ListedCheckpoint(LoreModel):
    """Where the research of one name stands."""

    name: str
    zone_name: str
    current_step: int
    updated_at: dt.datetime


class ListedCheckpoints(LoreModel):
    """All checkpoints, the newest first."""

    checkpoints: list[ListedCheckpoint]


class DeletedCheckpoint(LoreModel):
    """Whether there was a checkpoint to delete."""

    name: str
    deleted: bool = Field(description="False where there was none.")


RESEARCHER: Final = "researcher"
VALIDATOR: Final = "validator"

_INSTRUCTIONS: Final = """\
The store of the pack lore. A researcher keeps checkpoints here; a validator writes the packages that it accepts, and
reads what is known of a world."""

_CheckpointName: TypeAlias = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$", description="Whose checkpoint it is.")
]


def store_server(settings: StoreSettings, root: Path) -> PackServer:
    """Return the server; it opens the store when it is served."""
    return PackServer(
        instructions=_INSTRUCTIONS,
        roles=(RESEARCHER, VALIDATOR),
        open=partial(_opened, settings, root),
    )


@asynccontextmanager
async def _opened(
    settings: StoreSettings, root: Path
) -> AsyncGenerator[Mapping[str, Sequence[ServerTool]]]:
    async with SurrealConnection(settings, root) as connection:
        await connection.run(definitions())
        checkpoints, lore = ResearcherTools(connection), LoreStore(connection)
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
    """What a researcher calls: the table of checkpoints of research, over an open connection.

    Every method raises `SurrealStoreError` where the store cannot be used.
    """

    def __init__(self, connection: SurrealConnection) -> None:
        self._connection = connection

    async def checkpoint_save(
        self, checkpoint: ResearchCheckpoint, name: _CheckpointName = "world_lore_researcher"
    ) -> StoredCheckpoint:
        """Write where the research stands, in place of what was written under the name before."""
        now = dt.datetime.now(dt.UTC)
        row = checkpoint.model_dump(mode="json", exclude_none=True)
        row |= {"step_data": json.dumps(checkpoint.step_data), "updated_at": now}
        await self._connection.run(
            "UPSERT $id CONTENT $row RETURN NONE;", id=record_id(CHECKPOINTS, name), row=row
        )
        return StoredCheckpoint(name=name, checkpoint=checkpoint, updated_at=now)

    async def checkpoint_load(
        self, name: _CheckpointName = "world_lore_researcher"
    ) -> StoredCheckpoint:
        """Return where the research of a name stands; `checkpoint` is null where there is none."""
        [row] = await self._connection.run(
            "SELECT * FROM ONLY $id;", id=record_id(CHECKPOINTS, name)
        )
        if row is None:
            return StoredCheckpoint(name=name)
        fields: Row = {
            field: value for field, value in row.items() if field not in {"id", "updated_at"}
        }
        fields["step_data"] = json.loads(fields["step_data"])
        return StoredCheckpoint(
            name=name,
            checkpoint=ResearchCheckpoint.model_validate(fields),
            updated_at=row["updated_at"],
        )

    async def checkpoint_list(self) -> ListedCheckpoints:
        """Return all checkpoints without their data, the newest first."""
        [rows] = await self._connection.run(
            f"SELECT id, zone_name, current_step, updated_at FROM {CHECKPOINTS} ORDER BY updated_at DESC;"  # noqa: S608 - our name
        )
        return ListedCheckpoints(
            checkpoints=[ListedCheckpoint(name=row.pop("id").id, **row) for row in rows]
        )

    async def checkpoint_delete(self, name: _CheckpointName) -> DeletedCheckpoint:
        """Delete the checkpoint of a name."""
        [found] = await self._connection.run(
            "DELETE $id RETURN BEFORE;", id=record_id(CHECKPOINTS, name)
        )
        return DeletedCheckpoint(name=name, deleted=bool(found))
