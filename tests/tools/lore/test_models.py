"""Records about a game world: their identities, and what they refuse."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from wavewright.tools.lore.models import (
    RECORD_TYPES,
    ConnectedZone,
    ConnectedZonesResult,
    LevelRange,
    LoreData,
    NPCData,
    ZoneData,
    ZoneExtraction,
    slug,
)


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("Elwynn Forest", "elwynn_forest"),
        ("elwynn_forest", "elwynn_forest"),
        ("The Barrens", "barrens"),
        ("Eagle's Rest", "eagles_rest"),
        ("Eagle’s Rest", "eagles_rest"),
        ("Thûl-Gar  Deep", "thul_gar_deep"),
        ("…", "…"),
    ],
)
def test_spellings_of_one_name_have_one_identity(name: str, identity: str) -> None:
    assert slug(name) == identity


def test_a_record_is_identified_by_its_name_alone() -> None:
    named = NPCData(name="Gryan Stoutmantle", id="another")
    titled = LoreData(title="The Fall of the Wall")

    assert (named.id, titled.id) == ("gryan_stoutmantle", "fall_of_the_wall")


def test_records_come_back_from_json_as_they_were() -> None:
    found = ZoneExtraction(
        zone=ZoneData(name="Westfall", level_range=LevelRange(min=10, max=20)), npcs=[NPCData(name="Gryan")]
    )

    assert ZoneExtraction.model_validate(found.model_dump(mode="json")) == found


@pytest.mark.parametrize("category", RECORD_TYPES)
def test_a_record_needs_its_name_and_nothing_else(category: str) -> None:
    model = {str(name): model for name, model in RECORD_TYPES.items()}[category]

    with pytest.raises(ValidationError, match=model.name_field):
        model.model_validate({})
    assert model.model_validate({model.name_field: "Westfall"}).id == "westfall"


def test_levels_are_in_order() -> None:
    with pytest.raises(ValidationError, match="least level 20 is above the highest level 10"):
        LevelRange(min=20, max=10)


def test_a_zone_that_is_found_twice_is_one() -> None:
    zones = [ConnectedZone(name="The Barrens"), ConnectedZone(name="barrens"), ConnectedZone(name="Duskwood")]

    assert ConnectedZonesResult(zones=zones).zone_slugs == ["barrens", "duskwood"]
