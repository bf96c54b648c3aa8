"""A world whose zones are found one from another and researched in one job over HTTP: what is
fetched for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.lore import research_world, world_pages


@pytest.mark.long
@pytest.mark.timeout(240)
def test_every_zone_is_researched_and_every_page_of_them_is_fetched_once(tmp_path: Path) -> None:
    done = research_world(tmp_path, 4, ())

    assert done.zones == 4
    assert {*world_pages(4)} <= {*done.fetches}
    assert {*done.fetches.values()} == {1}
