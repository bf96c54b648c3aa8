"""Records about a game world: their identities, what they refuse, and how far sources are trusted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pydantic import ValidationError

from wavewright.packs.lore.models import (
    RECORD_TYPES,
    ConnectedZone,
    ConnectedZonesResult,
    LevelRange,
    LoreData,
    NPCData,
    Tier,
    ZoneData,
    ZoneExtraction,
    slug,
)
from wavewright.packs.lore.settings import SourceTiers, read_tiers
from wavewright.tools.packs import PackError


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("Elwynn Forest", "elwynn_forest"),
        ("elwynn_forest", "elwynn_forest"),
        ("The Barrens", "barrens"),
        ("The A Team", "team"),
        ("a_team", "team"),
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
        zone=ZoneData(name="Westfall", level_range=LevelRange(min=10, max=20)),
        npcs=[NPCData(name="Gryan")],
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
    zones = [
        ConnectedZone(name="The Barrens"),
        ConnectedZone(name="barrens"),
        ConnectedZone(name="Duskwood"),
    ]

    assert ConnectedZonesResult(zones=zones).zone_slugs == ["barrens", "duskwood"]


TIERS = SourceTiers.model_validate(
    {
        "tiers": {
            "official": ["tidefall.example", "127.0.0.1:8080", "fansite.example/official"],
            "primary": ["*.wiki.example", "wiki.*"],
            "tertiary": ["fansite.example"],
        }
    }
)


@pytest.mark.parametrize(
    ("url", "tier"),
    [
        ("https://tidefall.example/lore/ash-vale", "official"),
        ("https://forum.TIDEFALL.example:8443/x", "official"),
        ("https://nottidefall.example/", "unlisted"),
        ("https://tidefall.example.evil.test/", "unlisted"),
        ("https://evil.test/tidefall.example/", "unlisted"),
        ("https://tidefall.example@evil.test/", "unlisted"),
        ("http://127.0.0.1:8080/page", "official"),
        ("http://127.0.0.1:8081/page", "unlisted"),
        ("https://fansite.example/official/arc", "official"),
        ("https://fansite.example/officially", "tertiary"),
        ("https://tides.wiki.example/", "primary"),
        ("https://wiki.tides.test/", "primary"),
        ("file.html", "unlisted"),
        ("", "unlisted"),
    ],
)
def test_a_page_has_the_first_tier_that_lists_its_place(url: str, tier: Tier) -> None:
    assert TIERS.tier(url) == tier


def test_results_are_ordered_by_trust_and_keep_their_order_within_a_tier() -> None:
    found = [
        "https://fansite.example/b",
        "https://x.test/",
        "https://wiki.b.test/",
        "https://fansite.example/a",
    ]

    assert sorted(found, key=TIERS.rank) == [found[2], found[0], found[3], found[1]]


def test_a_reference_names_domain_tier_and_time() -> None:
    now = dt.datetime(2026, 4, 14, 9, tzinfo=dt.UTC)

    reference = TIERS.reference("https://www.tidefall.example/ash-vale", now)

    assert (reference.domain, reference.tier, reference.accessed_at) == (
        "tidefall.example",
        "official",
        now,
    )


def test_the_list_of_the_pack_can_be_read_and_another_one_replaces_it(tmp_path: Path) -> None:
    own = tmp_path / "sources.yml"
    own.write_text("version: 1\ntiers: {official: [example.org]}\n", encoding="utf-8")

    assert read_tiers().tier("https://tidefall.fandom.com/wiki/Ash_Vale") == "secondary"
    assert read_tiers(own).tier("https://tidefall.fandom.com/wiki/Ash_Vale") == "unlisted"


def test_a_misspelt_tier_is_named_beside_those_that_there_are(tmp_path: Path) -> None:
    own = tmp_path / "sources.yml"
    own.write_text("tiers: {offical: [a.example]}", encoding="utf-8")

    with pytest.raises(PackError, match=r"should be 'official', 'primary', .*'offical'") as error:
        read_tiers(own)
    assert (
        error.value.hint
        == "fix the file that the setting 'lore.sources' names; did you mean 'official'?"
    )


@pytest.mark.parametrize(
    "text", ["tiers: {best: [a.example]}", "tiers: {official: a.example}", "tiers: [", None]
)
def test_a_list_that_cannot_be_used_is_named_with_its_fault(
    tmp_path: Path, text: str | None
) -> None:
    own = tmp_path / "sources.yml"
    if text is not None:
        own.write_text(text, encoding="utf-8")

    with pytest.raises(PackError, match=r"sources\.yml"):
        read_tiers(own)
