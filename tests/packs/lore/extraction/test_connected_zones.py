"""Where zones lead to on a small site of islands, whose pages tell it in sentences, lists and rows."""

from __future__ import annotations

from typing import Final

import pytest

from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.extraction.records import ZonePages, connected_zones

pytest.importorskip("spacy")

BODIES: Final = {
    "brackwater": (
        "<h1>Brackwater</h1><p>Brackwater is a harbour town. The Salt Road runs north from Brackwater to "
        '<a href="cinder-hill.html">Cinder Hill</a>. A ferry crosses the sound to <a href="gull-isle.html">Gull '
        'Isle</a>.</p><p>Merchants from <a href="farhaven.html">Farhaven</a> are no longer seen here.</p>'
        '<h2>See also</h2><ul><li><a href="farhaven.html">Farhaven</a></li></ul>'
    ),
    "cinder-hill": (
        "<h1>Cinder Hill</h1><p>Cinder Hill is a mining village.</p><h2>Exits</h2><ul><li>South: "
        '<a href="brackwater.html">Brackwater</a></li><li>Down: <a href="ember-deep.html">Ember Deep</a></li></ul>'
    ),
    "ember-deep": "<h1>Ember Deep</h1><p>Ember Deep is a dungeon. Its gate was never opened again.</p>",
    "gull-isle": (
        '<h1>Gull Isle</h1><table><tr><th>Connects to</th><td><a href="brackwater.html">Brackwater</a>, '
        '<a href="wreck.html">The Wreck</a></td></tr></table><p>Gull Isle is an island of birds.</p>'
    ),
    "wreck": "<h1>The Wreck</h1><p>The Wreck is an area off Gull Isle.</p>",
    "farhaven": "<h1>Farhaven</h1><p>Farhaven is a city beyond the sea.</p>",
}
PAGES: Final = [
    SourcePage(url=f"http://isle.test/{name}.html", html=f"<main>{body}</main>")
    for name, body in BODIES.items()
]


@pytest.mark.parametrize(
    ("zone", "connected"),
    [
        pytest.param("Brackwater", {"cinder_hill", "gull_isle"}, id="sentences, and no see also"),
        pytest.param("Cinder Hill", {"brackwater", "ember_deep"}, id="a list of exits"),
        pytest.param("Gull Isle", {"brackwater", "wreck"}, id="a row"),
        pytest.param("Farhaven", set[str](), id="nothing leads there"),
    ],
)
def test_zones_are_connected_where_a_page_says_so(zone: str, connected: set[str]) -> None:
    found = connected_zones(ZonePages(PAGES, zone))

    assert {*found.zone_slugs} == connected
