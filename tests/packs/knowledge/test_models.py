"""Records of the pack `knowledge`."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from wavewright.packs.knowledge.models import ORIGINS, ChunkRecords, EntityRecord, origin_ceilings


def test_each_origin_has_a_lower_ceiling_than_the_one_before() -> None:
    ceilings = origin_ceilings()

    assert [ceilings[origin] for origin in ORIGINS] == [1, 0.8, 0.6, 0.2]


def test_records_come_back_from_json_and_know_their_fields() -> None:
    records = ChunkRecords(
        chunk="a-1", origin="forced", entities=(EntityRecord(name="A", origin="forced"),)
    )

    assert ChunkRecords.model_validate(records.model_dump(mode="json")) == records
    with pytest.raises(ValidationError, match="colour"):
        ChunkRecords.model_validate({"chunk": "a-1", "origin": "forced", "colour": "red"})
