"""How well code reads the pages of a real game's wiki, against what its data files say.

The pages are every eighth of the shared corpus' zones and characters, and all others; the gold file
is opened by the test alone. Recall counts the names of each kind among the entities of the page
that is about them; precision at 20 is the share of a page's first 20 entities that the gold file
knows, of any kind.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

import pytest

from tests.repository.tree import ROOT
from tests.tools.calling import call_for_document
from wavewright.packs.extraction.prose import ProseSettings, prose_reader
from wavewright.packs.knowledge.documents import read_documents_tool
from wavewright.packs.knowledge.generation import generate_records, least_records
from wavewright.packs.knowledge.models import Chunk
from wavewright.packs.knowledge.settings import KnowledgeSettings
from wavewright.packs.text.cross_reference import normal_name

PROSE = prose_reader(ProseSettings().model)

CORPUS: Final = ROOT.parent / "shared" / "corpus" / "wesnoth"
STEPS: Final = {"zones": 8, "npcs": 8, "factions": 1, "lore": 1, "items": 1}

pytestmark = [
    pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here"),
]


def test_pages_name_what_they_are_about_and_little_that_is_nothing() -> None:
    pytest.importorskip("selectolax")
    gold: dict[str, Any] = json.loads((CORPUS / "gold" / "gold.json").read_text())
    known = {normal_name(name) for kind in STEPS for name in gold[kind]}
    files = {
        str(path.relative_to(CORPUS)): kind
        for kind, step in STEPS.items()
        for path in sorted((CORPUS / kind).iterdir())[::step]
    }
    tool = read_documents_tool(KnowledgeSettings(documents="wesnoth"), CORPUS.parent)
    found = cast("Any", call_for_document(tool, {"files": [*files]}))
    entities: dict[str, dict[str, None]] = {name: {} for name in files}
    for chunk in map(Chunk.model_validate, found["chunks"]):
        records = generate_records(chunk, PROSE) or least_records(chunk)
        entities[chunk.document] |= dict.fromkeys(normal_name(one.name) for one in records.entities)
    titles = {one["name"]: normal_name(one["title"]) for one in found["read"]}

    assert {*titles} == {*files}
    for kind in STEPS:
        pages = [name for name in files if files[name] == kind and titles[name] in known]
        named = [name for name in pages if titles[name] in entities[name]]
        print(kind, len(pages), len(named) / len(pages))
        assert len(named) / len(pages) >= 0.85, kind
    shown = [name for page in entities.values() for name in [*page][:20]]
    print("precision at 20", sum(name in known for name in shown) / len(shown))
    assert sum(name in known for name in shown) / len(shown) >= 0.7
