"""The index of a folder of pages."""

from __future__ import annotations

import gc
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from tests.repository.tree import ROOT
from wavewright.packs.web import index
from wavewright.packs.web.index import FolderIndex, PageMatch, read_page
from wavewright.tools import ToolError

pytest.importorskip("selectolax")

CORPUS = ROOT.parent / "shared" / "corpus" / "wesnoth"
TOPICS = {
    "factions": ("units and history of this people", "which units belong to it"),
    "items": ("what does this item do", "effect and owner"),
    "lore": ("background and history", "what is told about it"),
    "npcs": ("who is this character", "biography and allegiance"),
    "zones": ("where is it and what happens there", "location objectives and sides"),
}

WriteFile = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    def write_file(path: str, text: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return write_file


def paths(found: list[PageMatch]) -> list[str]:
    return [match.path for match in found]


def test_a_file_of_windows_is_found_by_its_letters(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes("<main>Where Zoë lives</main>".encode("cp1252"))

    assert paths(FolderIndex(tmp_path).search("Zoë", 5)) == ["a.html"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.html", '<meta charset="iso-8859-2"><main>Jedź do Łodzi</main>'.encode("iso-8859-2")),
        ("a.txt", "Jedź do Łodzi".encode("utf-16")),
        ("a.md", 'Jedź do Łodzi; write `<meta charset="iso-8859-2">`'.encode()),
    ],
)
def test_a_file_is_decoded_by_what_it_says_of_itself(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)

    assert paths(FolderIndex(tmp_path).search("Łodzi", 5)) == [name]


def test_pages_of_each_kind_are_found_by_stems_of_their_words(
    tmp_path: Path, write: WriteFile
) -> None:
    write(
        "a.html",
        "<title>T</title><nav>drinks</nav><main><h1>Aerie</h1><p>Where drakes nest.</p></main>",
    )
    write("sub/b.md", "# The *Lake*\n\nA wolf drinks here.")
    write("c.txt", "Nothing of the kind.")
    pages = FolderIndex(tmp_path)

    (nest,) = pages.search("nesting", 5)
    (wolf,) = pages.search("of drinking", 5)

    assert (nest.path, nest.title, nest.snippet) == ("a.html", "Aerie", "Aerie Where drakes nest.")
    assert (wolf.path, wolf.title) == ("sub/b.md", "The *Lake*")
    assert nest.score > 0


def test_a_page_that_the_query_names_precedes_those_that_mention_it_often(
    tmp_path: Path, write: WriteFile
) -> None:
    write("bandit.md", "# Bandit\n\nbandit river bandit river bandit history of the bandit river")
    write("river.md", "# Bandit River\n\nWater.")

    found = FolderIndex(tmp_path).search("What is the history of the Bandit River?", 5)

    assert paths(found) == ["river.md", "bandit.md"]


def test_a_search_sees_new_changed_and_removed_files(tmp_path: Path, write: WriteFile) -> None:
    gone, changed = write("gone.txt", "elves"), write("changed.txt", "orcs")
    pages = FolderIndex(tmp_path)
    assert sorted(paths(pages.search("elves orcs", 5))) == ["changed.txt", "gone.txt"]

    gone.unlink()
    changed.write_text("trolls")
    os.utime(changed, ns=(1, 1))
    write("new.txt", "elves")

    assert paths(pages.search("orcs", 5)) == []
    assert paths(pages.search("elves", 5)) == ["new.txt"]
    assert paths(pages.search("trolls", 5)) == ["changed.txt"]


def test_what_is_hidden_excluded_or_no_page_is_left_out(tmp_path: Path, write: WriteFile) -> None:
    for path in (".git/a.txt", "drafts/b/c.md", "d.json", "e.md"):
        write(path, "word")

    assert paths(FolderIndex(tmp_path, exclude=["drafts/*"]).search("word", 5)) == ["e.md"]


@pytest.mark.parametrize("query", ['"', "a OR b) NEAR(", "title:x*", "-", "the of", "NOT"])
def test_a_query_is_words_and_never_syntax(tmp_path: Path, write: WriteFile, query: str) -> None:
    write("a.txt", "something else")

    assert FolderIndex(tmp_path).search(query, 5) == []


def test_html_pages_without_the_extra_are_an_error_that_names_it(
    tmp_path: Path, write: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.html", "<main>word</main>")
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)

    with pytest.raises(ToolError, match="the extra 'web' is not installed") as failure:
        FolderIndex(tmp_path).search("word", 1)
    assert failure.value.hint == "pip install 'wavewright[web]'"


def test_too_many_pages_are_refused(
    tmp_path: Path, write: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_PAGES", 2)
    for name in ("a.txt", "b.txt"):
        write(name, "word")
    pages = FolderIndex(tmp_path)
    assert paths(pages.search("word", 5)) == ["a.txt", "b.txt"]
    write("c.txt", "word")

    with pytest.raises(ToolError, match="has more than 2 pages"):
        pages.search("word", 5)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"there is no folder '.*none'"):
        FolderIndex(tmp_path / "none").search("word", 5)


def test_an_index_that_is_forgotten_closes_its_database(
    tmp_path: Path, write: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    class Database(sqlite3.Connection):
        def close(self) -> None:
            super().close()
            closed.append("database")

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Database))
    write("a.txt", "word")
    pages = FolderIndex(tmp_path)
    assert paths(pages.search("word", 5)) == ["a.txt"]
    gc.collect()
    assert closed == []

    del pages
    gc.collect()

    assert closed == ["database"]


@cache
def name_queries() -> list[tuple[str, str]]:
    """Return every third page of the corpus with queries of its name and a topic."""
    pages = [
        read_page(CORPUS, path.relative_to(CORPUS).as_posix())
        for path in sorted(CORPUS.glob("*/*.html"))
    ]
    titles = Counter(page.title for page in pages)
    return [
        (page.path, f"{page.title} {topic}")
        for page in pages[::3]
        if titles[page.title] == 1  # of two pages with one title a query can mean either
        for topic in TOPICS[page.path.partition("/")[0]]
    ]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_pages_of_a_wiki_are_found_by_name_and_topic() -> None:
    indexed = FolderIndex(CORPUS, exclude=["gold/*", "tools/*"])

    queries = name_queries()
    hits = sum(paths(indexed.search(query, 1)) == [path] for path, query in queries)

    assert len(queries) > 300
    assert hits / len(queries) >= 0.95
