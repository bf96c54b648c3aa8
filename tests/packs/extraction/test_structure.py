"""Pages as blocks: rows of info boxes in every form, lists, quotes, and what is left out."""

from __future__ import annotations

import pytest

from wavewright.packs.extraction.blocks import PageStructure, split_sentences
from wavewright.packs.extraction.structure import SourcePage, read_structure

URL = "http://world.test/people/bok.html"


def read(html: str) -> PageStructure:
    return read_structure(SourcePage(url=URL, html=html))


@pytest.mark.parametrize(
    "html",
    [
        "<dl><dt>Home</dt><dd><a href='../places/ash.html'>Ash</a></dd></dl>",
        "<table><tr><th>Home</th><td><a href='../places/ash.html'>Ash</a></td></tr></table>",
        "<table><tr><td>Home:</td><td><a href='../places/ash.html'>Ash</a></td></tr></table>",
        "<ul><li><b>Home:</b> <a href='../places/ash.html'>Ash</a></li></ul>",
        "<p><strong>Home</strong>: <a href='../places/ash.html'>Ash</a></p>",
        "<aside class=infobox><h3 class=pi-data-label>Home</h3><div><a href='../places/ash.html'>Ash</a></div></aside>",
    ],
)
def test_a_row_is_a_row_in_whatever_form_it_stands(html: str) -> None:
    [row] = read(f"<h1>Bok</h1>{html}").rows()

    [link] = row.links
    assert (row.label, row.value, row.text) == ("Home", "Ash", "Home: Ash")
    assert (link.url, row.text[link.start : link.end]) == (
        "http://world.test/places/ash.html",
        "Ash",
    )


def test_markdown_is_read_as_html_is() -> None:
    text = (
        "# Bok\n\n**Home:** [Ash](../places/ash.html)\n**Trade:** Bells\n\n"
        "## Story\n\nBok mends bells.\n\n- one\n\n> Go away!\n"
    )

    page = read_structure(SourcePage(url=URL, text=text))

    assert page.title == "Bok"
    assert [(block.kind, block.heading, block.text) for block in page.blocks] == [
        ("heading", "", "Bok"),
        ("row", "", "Home: Ash"),
        ("row", "", "Trade: Bells"),
        ("heading", "Story", "Story"),
        ("paragraph", "Story", "Bok mends bells."),
        ("item", "Story", "one"),
        ("quote", "Story", "Go away!"),
    ]


def test_links_keep_their_place_in_a_text_whose_white_space_is_squeezed() -> None:
    html = "<p>  He  lives\n in <i>old <a href='/a'> Ash  Hollow</a></i>,<b> near</b> <a href='/b'>Bel</a>.</p>"

    [block] = read(html).prose()

    assert block.text == "He lives in old Ash Hollow, near Bel."
    assert [block.text[link.start : link.end] for link in block.links] == ["Ash Hollow", "Bel"]


def test_who_speaks_is_told_apart_from_what_is_said() -> None:
    [quote] = read(
        "<blockquote><b><a href='/x'>Bok</a>:</b> I own this town. All of it!</blockquote>"
    ).blocks

    assert (quote.kind, quote.label, quote.sentences()) == (
        "quote",
        "Bok",
        ["I own this town.", "All of it!"],
    )


def test_what_is_hidden_or_belongs_to_the_site_is_left_out_and_the_trail_is_kept() -> None:
    page = read(
        "<title>Bok - World</title><nav class='breadcrumbs'><a href='/'>Home</a> <a href='/p'>Characters</a></nav>"
        "<main><h1>Bok</h1><p>Seen.</p><p style='display:none'>Hidden.</p><p hidden>Hidden.</p>"
        "<aside>Buy our map!</aside><script>x</script></main><footer>Legal</footer>"
    )

    assert [block.text for block in page.blocks] == ["Bok", "Seen."]
    assert page.trail == ("Home", "Characters")


def test_a_page_of_deeply_nested_elements_ends() -> None:
    page = read("<h1>Deep</h1>" + "<div>" * 5_000 + "bottom")

    assert page.title == "Deep"


def test_sentences_end_where_a_reader_ends_them() -> None:
    text = "He met St. Ann and P. Lehmann. “Go!” he said. It is 3.5 miles. • First • Second"

    assert split_sentences(text) == [
        "He met St. Ann and P. Lehmann.",
        "“Go!” he said.",
        "It is 3.5 miles.",
        "First",
        "Second",
    ]


def test_a_cell_that_reaches_down_is_a_cell_of_each_row() -> None:
    page = read(
        "<table><tr><th>Role</th><th>Name</th></tr><tr><td rowspan=2>Cook</td><td>Ann</td></tr>"
        "<tr><td>Bob</td></tr><tr><td>Mate</td><td>Cy</td></tr></table>"
        "<table><tr><th rowspan=2>Exits</th><td>North</td></tr><tr><td>South</td></tr></table>"
    )

    items = [block for block in page.blocks if block.kind == "item"]
    assert [[cell.text for cell in block.cells] for block in items] == [
        ["Role: Cook", "Name: Ann"],
        ["Role: Cook", "Name: Bob"],
        ["Role: Mate", "Name: Cy"],
    ]
    assert [row.text for row in page.rows()] == ["Exits: North", "Exits: South"]
