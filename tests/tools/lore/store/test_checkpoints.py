"""Checkpoints in the store."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.tools.lore.store.stores import opened
from wavewright.tools.lore.models import FailedZone, ResearchCheckpoint
from wavewright.tools.lore.settings import StoreSettings
from wavewright.tools.lore.store.server import CheckpointStore

CHECKPOINT = ResearchCheckpoint(
    zone_name="Ash Vale",
    current_step=4,
    step_data={"found": [None, 1, 2.5, True, {"empty": None}], "text": "nul \0 byte"},
    progression_queue=["port_merrow"],
    priority_queue=["gull_isle"],
    completed_zones=["lantern_fen"],
    failed_zones=[FailedZone(zone_name="deep", error="rejected", iterations=3)],
    daily_tokens_used=12_345,
    last_reset_date=dt.date(2026, 4, 14),
)


@pytest.mark.anyio
async def test_a_checkpoint_is_loaded_as_it_was_saved(place: StoreSettings, tmp_path: Path) -> None:
    async with opened(place, tmp_path) as (_, connection):
        checkpoints = CheckpointStore(connection)
        await checkpoints.save("researcher", ResearchCheckpoint(zone_name="Lantern Fen"))
        await checkpoints.save("another", ResearchCheckpoint(zone_name="Gull Isle"))
        saved = await checkpoints.save("researcher", CHECKPOINT)

        assert await checkpoints.load("researcher") == saved
        assert saved.checkpoint == CHECKPOINT
        listed = (await checkpoints.list()).checkpoints
        assert [(one.name, one.zone_name, one.current_step) for one in listed] == [
            ("researcher", "Ash Vale", 4),
            ("another", "Gull Isle", 0),
        ]
        assert (await checkpoints.delete("researcher")).deleted
        assert not (await checkpoints.delete("researcher")).deleted
        assert (await checkpoints.load("researcher")).checkpoint is None
