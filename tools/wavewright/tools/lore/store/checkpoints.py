"""Checkpoints of research in the store, one for each name."""

from __future__ import annotations

import datetime as dt
import json

from pydantic import Field

from wavewright.tools.lore.models import ResearchCheckpoint
from wavewright.tools.lore.store.lore_store import StoreAnswer
from wavewright.tools.lore.store.schema import CHECKPOINTS
from wavewright.tools.surreal.connection import Row, SurrealConnection, record_id


class StoredCheckpoint(StoreAnswer):
    """A checkpoint of a name, if there is one."""

    name: str
    checkpoint: ResearchCheckpoint | None = None
    updated_at: dt.datetime | None = None


class ListedCheckpoint(StoreAnswer):
    """Where the research of one name stands."""

    name: str
    zone_name: str
    current_step: int
    updated_at: dt.datetime


class ListedCheckpoints(StoreAnswer):
    """All checkpoints, the newest first."""

    checkpoints: list[ListedCheckpoint]


class DeletedCheckpoint(StoreAnswer):
    """Whether there was a checkpoint to delete."""

    name: str
    deleted: bool = Field(description="False where there was none.")


class CheckpointStore:
    """The table of checkpoints of research, over an open connection."""

    def __init__(self, connection: SurrealConnection) -> None:
        self._connection = connection

    async def save(self, name: str, checkpoint: ResearchCheckpoint) -> StoredCheckpoint:
        """Write a checkpoint in place of the former one of its name.

        Raises:
            SurrealStoreError: the store cannot be used.
        """
        now = dt.datetime.now(dt.UTC)
        row = checkpoint.model_dump(mode="json", exclude_none=True)
        row |= {"step_data": json.dumps(checkpoint.step_data), "updated_at": now}
        await self._connection.run(
            "UPSERT $id CONTENT $row RETURN NONE;", id=record_id(CHECKPOINTS, name), row=row
        )
        return StoredCheckpoint(name=name, checkpoint=checkpoint, updated_at=now)

    async def load(self, name: str) -> StoredCheckpoint:
        """Return the checkpoint of a name; without one where there is none.

        Raises:
            SurrealStoreError: the store cannot be used.
        """
        [row] = await self._connection.run("SELECT * FROM ONLY $id;", id=record_id(CHECKPOINTS, name))
        if row is None:
            return StoredCheckpoint(name=name)
        fields: Row = {field: value for field, value in row.items() if field not in {"id", "updated_at"}}
        fields["step_data"] = json.loads(fields["step_data"])
        return StoredCheckpoint(
            name=name, checkpoint=ResearchCheckpoint.model_validate(fields), updated_at=row["updated_at"]
        )

    async def list(self) -> ListedCheckpoints:
        """Return all checkpoints, the newest first.

        Raises:
            SurrealStoreError: the store cannot be used.
        """
        [rows] = await self._connection.run(
            f"SELECT id, zone_name, current_step, updated_at FROM {CHECKPOINTS} ORDER BY updated_at DESC;"  # noqa: S608 - our name
        )
        return ListedCheckpoints(checkpoints=[ListedCheckpoint(name=row.pop("id").id, **row) for row in rows])

    async def delete(self, name: str) -> DeletedCheckpoint:
        """Delete the checkpoint of a name.

        Raises:
            SurrealStoreError: the store cannot be used.
        """
        [found] = await self._connection.run("DELETE $id RETURN BEFORE;", id=record_id(CHECKPOINTS, name))
        return DeletedCheckpoint(name=name, deleted=bool(found))
