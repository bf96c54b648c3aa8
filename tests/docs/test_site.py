"""The documentation as a site: complete, without dead links, and fetching nothing from anywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.blocks import page_name, pages
from tests.repository.tree import ROOT, shipped_modules

_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|icon))[^>]*\bhref=[\"']?(?:https?:)?//"
)

_REPLACED = re.compile(
    r"\b(?:laid aside|put aside|purse|mend(?:s|ed|ing)?|parked|sealed plan|sound|a person's word|buried)\b",
    re.IGNORECASE,
)
"""Phrases of the former vocabulary; the glossary has the terms in their place."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetching = [
        page.relative_to(site).as_posix()
        for page in site.rglob("*.html")
        if _FETCHED.search(page.read_text(encoding="utf-8"))
    ]

    assert fetching == []


def test_every_page_becomes_one_of_the_site(site: Path) -> None:
    sources = {
        page.relative_to(ROOT / "docs").with_suffix("")
        for page in pages()
        if page.is_relative_to(ROOT / "docs")
    }

    assert sources <= {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_a_page_has_one_sentence_a_line(page: Path) -> None:
    prose = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    crowded = [
        line
        for line in prose.splitlines()
        if not line.startswith(("|", "    ")) and re.search(r"[a-z)`]\. [A-Z][a-z]+ [a-z]", line)
    ]

    assert crowded == []


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_a_blank_line_stands_around_tables_and_before_headings(page: Path) -> None:
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    lines = re.sub(r"^<!-- .* -->$", "", text, flags=re.MULTILINE).splitlines()
    joined = [
        after
        for before, after in pairwise(lines)
        if before.strip()
        and after.strip()
        and (after.startswith("#") or before.startswith("|") != after.startswith("|"))
    ]

    assert joined == []


def test_the_glossary_has_few_terms() -> None:
    glossary = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")

    assert 0 < glossary.count("\n:   ") <= 48


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_a_page_uses_the_words_of_the_glossary(page: Path) -> None:
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )

    assert _REPLACED.findall(text) == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=page_name)
def test_a_page_at_the_root_leads_to_what_there_is(page: Path, site: Path) -> None:
    def is_there(name: str, anchor: str) -> bool:
        if not anchor or not name.startswith("docs/"):
            return (ROOT / name).exists()
        html = site / Path(name).relative_to("docs").with_suffix(".html")
        return f'id="{anchor}"' in html.read_text(encoding="utf-8")

    links = re.findall(r"\]\(([\w./-]*)#?([\w-]*)\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not is_there(*link)] == []


def test_code_names_pages_that_there_are() -> None:
    named = {
        name
        for module in shipped_modules()
        for name in re.findall(r"docs/[\w/-]+\.md", module.read_text(encoding="utf-8"))
    }

    assert [name for name in named if not (ROOT / name).exists()] == []
