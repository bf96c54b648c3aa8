"""How far sources are trusted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from wavewright.tools.lore.models import SourceTiers, Tier, read_tiers
from wavewright.tools.packs import PackError

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

    assert (reference.domain, reference.tier, reference.accessed_at) == ("tidefall.example", "official", now)


def test_the_list_of_the_pack_can_be_read_and_another_one_replaces_it(tmp_path: Path) -> None:
    own = tmp_path / "sources.yml"
    own.write_text("version: 1\ntiers: {official: [example.org]}\n", encoding="utf-8")

    assert read_tiers().tier("https://tidefall.fandom.com/wiki/Ash_Vale") == "secondary"
    assert read_tiers(own).tier("https://tidefall.fandom.com/wiki/Ash_Vale") == "unlisted"


@pytest.mark.parametrize(
    "text", ["tiers: {best: [a.example]}", "tiers: {official: a.example}", "tiers: [", None]
)
def test_a_list_that_cannot_be_used_is_named_with_its_fault(tmp_path: Path, text: str | None) -> None:
    own = tmp_path / "sources.yml"
    if text is not None:
        own.write_text(text, encoding="utf-8")

    with pytest.raises(PackError, match=r"sources\.yml"):
        read_tiers(own)
