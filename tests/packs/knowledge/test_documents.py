"""The tool `read_documents`: every kind of file, addresses, and what is refused."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.packs.equities.price_service import Answer, serving
from tests.repository.tree import ROOT
from tests.tools.calling import call
from wavewright.packs.extraction.prose import ProseSettings, prose_reader
from wavewright.packs.knowledge.documents import DocumentChunks, unset_text
from wavewright.packs.knowledge.generation import generate_records, least_records
from wavewright.packs.text.cross_reference import normal_name
from wavewright.planner.types import Json
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.packs import load_pack

PROSE = prose_reader(ProseSettings().model)

pytest.importorskip("selectolax")

CORPUS = ROOT.parent / "shared" / "corpus" / "wesnoth"
NOTES = ROOT / "plans" / "knowledge" / "notes"


def read(root: Path, web: Json = None, **params: Json) -> DocumentChunks:
    settings: dict[str, Json] = (
        {"documents": "."} if web is None else {"documents": ".", "web": web}
    )
    tools = {tool.signature.name: tool for tool in load_pack("knowledge", settings, root).tools}
    return DocumentChunks.model_validate(call(tools["knowledge.read_documents"], params))


def pdf(text: str) -> bytes:
    """Return a PDF file of one page with one line."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    page = writer.add_blank_page(300, 200)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    content = DecodedStreamObject()
    content.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
    page[NameObject("/Contents")] = content
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def test_a_folder_is_read_with_all_that_is_in_it(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("# Ash Mill\n\nAsh Mill is a mill. Ash Mill grinds.\n")
    (tmp_path / "in" / "b.html").write_text(
        "<title>B</title><main><h1>Beck</h1><p>By Ash Mill.</p></main>"
    )
    (tmp_path / "in" / "c_notes.txt").write_text("The miller left Ash Mill.")
    (tmp_path / "in" / "d.pdf").write_bytes(pdf("Ash Mill burned down."))
    (tmp_path / "in" / "e.pdf").write_bytes(b"no PDF")
    (tmp_path / "in" / "f.png").write_bytes(b"\x89PNG")
    (tmp_path / "in" / ".hidden.md").write_text("Secret.")
    (tmp_path / "in" / "link.md").symlink_to("/etc/hostname")

    found = read(tmp_path, folder="in")

    assert [(one.name, one.title) for one in found.read] == [
        ("in/a.md", "Ash Mill"),
        ("in/b.html", "Beck"),
        ("in/c_notes.txt", "c notes"),
        ("in/d.pdf", "d"),
    ]
    assert [one.document for one in found.left_out] == ["in/e.pdf"]
    assert all(
        [(one.name, one.type) for one in chunk.names] == [("Ash Mill", "place")]
        for chunk in found.chunks[2:]
    )
    assert "Ash Mill burned down." in found.chunks[-1].text


def test_a_document_without_text_is_left_out_and_an_empty_file_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf(""))
    (tmp_path / "b.html").write_text("<title>B</title><nav>Menu</nav><main> </main>")
    (tmp_path / "c.md").write_text(" \n")

    with pytest.raises(ToolError, match=r"a\.pdf: its pages have no text.*; c\.md is empty\n"):
        read(tmp_path, folder=".")
    (tmp_path / "d.md").write_text("Ash Mill burned down.")
    found = read(tmp_path, folder=".")

    assert [one.name for one in found.read] == ["c.md", "d.md"]
    assert [(one.document, one.reason) for one in found.left_out] == [
        ("a.pdf", "its pages have no text, as those of a scan: make it searchable first"),
        ("b.html", "no text was found in it"),
    ]


def test_a_text_of_windows_keeps_its_letters(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Jürgen Müller’s Café\n".encode("cp1252"))

    assert read(tmp_path, folder=".").chunks[0].text.strip() == "Jürgen Müller’s Café"


def test_what_setting_has_done_to_words_of_a_pdf_is_undone() -> None:
    assert unset_text(
        "the of\ufb01cial inter-\nnational \ufb02eet of Joliot-\nCurie in 1914-\n1918, a well-\nknown "
        "by-\nlaw, and a by-law"
    ) == (
        "the official international fleet of Joliot-Curie in 1914-1918, a well-known by-law, and a by-law"
    )


def test_a_chunk_knows_the_terms_that_another_one_defines(tmp_path: Path) -> None:
    filler = "\n\nNothing of note is said in this paragraph of the agreement." * 80
    end = "\n\nThe goods are kept by the Covered\nHarbour at its own cost."
    (tmp_path / "a.txt").write_text(f'"Covered Harbour" means the port.{filler}{end}')

    first, *_, last = read(tmp_path, folder=".").chunks

    assert first.terms == last.terms == ("Covered Harbour",)


def test_the_first_line_of_a_plain_text_that_stands_alone_is_its_title(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Henri Becquerel\n\nHe was a physicist.\n")
    (tmp_path / "b.txt").write_text("He was a physicist.\n\nHe lived in Paris.\n")

    found = read(tmp_path, files=["a.txt", "b.txt"])

    assert [one.title for one in found.read] == ["Henri Becquerel", "b"]


@pytest.mark.parametrize("folder", ["..", "/etc", "notes/../..", "link"])
def test_no_folder_elsewhere_is_read(tmp_path: Path, folder: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "link").symlink_to("/etc")

    with pytest.raises(ToolError, match="is refused"):
        read(tmp_path, folder=folder)


def test_a_file_elsewhere_is_left_out_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Something.")

    found = read(tmp_path, files=["a.txt", "../b.txt", "missing.md"])

    assert [one.name for one in found.read] == ["a.txt"]
    assert [one.document for one in found.left_out] == ["../b.txt", "missing.md"]


def test_addresses_are_read_by_the_guarded_client(tmp_path: Path) -> None:
    page = "<title>Gate</title><main><h1>Gate</h1><p>A gate of oak.</p></main>"
    paths = {"/robots.txt": Answer("", 404)}
    with serving(Answer(page, headers={"Content-Type": "text/html"}), paths=paths) as service:
        web: Json = {
            "allow_private": [urlsplit(service.url).netloc],
            "requests_per_host_per_minute": 10_000,
        }
        url = f"{service.url}/gate"
        found = read(tmp_path, web, urls=[url, "http://127.0.0.1:1/private"])

    assert [(one.document, one.title) for one in found.chunks] == [(url, "Gate")]
    assert [one.document for one in found.left_out] == ["http://127.0.0.1:1/private"]


def test_a_folder_without_documents_is_an_error_that_says_what_is_read(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no document") as refused:
        read(tmp_path, folder=".")

    assert ".md" in (refused.value.hint or "")


def test_the_notes_that_come_with_the_project_give_a_graph() -> None:
    found = read(NOTES.parent, folder="notes")

    said = {
        (one.source, one.relation, one.target)
        for chunk in found.chunks
        for one in (generate_records(chunk, PROSE) or least_records(chunk)).relations
    }
    assert said >= {
        ("Captain Aldous Merrin", "owner of", "Skerry Line"),
        ("Ines Varga", "commands", "Kittiwake"),
        ("Ines Varga", "member of", "Skerry Line"),
        ("Tarn Quay", "leads to", "Grey Landing"),
        ("Tobias Renn", "repairs", "Fulmar"),
    }
    assert not any("Dunlin" in one and "Skerry Line" in one for one in said)
    assert not any(one[:2] == ("Skerry Line", "member of") for one in said)


@pytest.mark.long
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not there")
def test_entities_and_relations_of_a_real_wiki_are_those_of_its_data_files(tmp_path: Path) -> None:
    gold = json.loads((CORPUS / "gold" / "gold.json").read_text())
    for name in ("zones", "npcs", "factions", "lore", "items"):
        shutil.copytree(CORPUS / name, tmp_path / name)
    found = read(tmp_path, folder=".")
    records = [generate_records(chunk, PROSE) or least_records(chunk) for chunk in found.chunks]

    kinds = {
        normal_name(name): kind
        for kind in ("zones", "npcs", "factions", "items")
        for name in gold[kind]
    }
    named = {normal_name(entity.name) for one in records for entity in one.entities}
    for kind in ("zones", "npcs", "factions", "items"):
        wanted = {name for name, of in kinds.items() if of == kind}
        assert len(wanted & named) / len(wanted) >= 0.85, kind
    related = {
        (normal_name(said.source), normal_name(said.target))
        for one in records
        for said in one.relations
    }
    for pair, pairs in (
        (
            ("npcs", "zones"),
            {(name, zone) for name, npc in gold["npcs"].items() for zone in npc["zones"]},
        ),
        (
            ("npcs", "factions"),
            {(name, team) for name, npc in gold["npcs"].items() for team in npc["teams"]},
        ),
        (("zones", "zones"), {(one["from"], one["to"]) for one in gold["connects_to"]}),
    ):
        right = {(normal_name(source), normal_name(target)) for source, target in pairs}
        told = {one for one in related if (kinds.get(one[0]), kinds.get(one[1])) == pair}
        assert len(told & right) / len(told) >= 0.8, pair
        assert len(told & right) / len(right) >= 0.6, pair


@pytest.mark.parametrize("folder", ["docs/how-to", "wesnoth"])
def test_no_chunk_is_without_a_record_and_every_quote_stands_at_its_place(folder: str) -> None:
    root, params = ROOT, {"folder": "docs/how-to"}
    if folder == "wesnoth":
        root, params = CORPUS, {"folder": "factions"}
        if not root.is_dir():
            pytest.skip("the corpus is not there")

    found = read(root, **params)

    assert not found.left_out
    forced = 0
    for chunk in found.chunks:
        made = generate_records(chunk, PROSE)
        forced += made is None
        records = made or least_records(chunk)
        everything = [*records.entities, *records.observations, *records.relations]
        assert everything
        for one in everything:
            assert one.evidence
            for said in one.evidence:
                local = chunk.text[said.start - chunk.start : said.end - chunk.start]
                assert local == said.quote
    # A how-to names hardly anything; pages of a wiki do.
    assert folder != "wesnoth" or forced <= len(found.chunks) // 5
