"""What the tests of extraction from whole wikis share."""

from __future__ import annotations

import pytest

from wavewright.packs.extraction.blocks import PageStructure
from wavewright.packs.extraction.structure import SourcePage, read_structure
from wavewright.packs.lore.extraction import records
from wavewright.packs.lore.extraction.records import ZonePages
from wavewright.packs.lore.extraction.view import ZoneView

_VIEWS = dict[tuple[str, ...], ZoneView]()
_STRUCTURES = dict[tuple[str, ...], PageStructure]()
_view_of = records._view  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def pages_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read each page once, and what a zone's pages name once for all categories: both are the same
    each time.
    """
    monkeypatch.setattr(records, "_view", _view)
    monkeypatch.setattr(records, "read_structure", _structure)


def _view(source: ZonePages) -> ZoneView:
    key = (source.zone, *(part for page in source.pages for part in _parts(page)))
    if key not in _VIEWS:
        _VIEWS[key] = _view_of(source)
    return _VIEWS[key]


def _structure(page: SourcePage) -> PageStructure:
    if _parts(page) not in _STRUCTURES:
        _STRUCTURES[_parts(page)] = read_structure(page)
    return _STRUCTURES[_parts(page)]


def _parts(page: SourcePage) -> tuple[str, ...]:
    return page.url, page.title, page.text, page.html
