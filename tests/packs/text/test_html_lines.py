"""Lines of HTML: rows, terms and blocks, each with the place where the source has it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from wavewright.packs.text.extract_records import plain_records
from wavewright.packs.text.html_lines import html_lines
from wavewright.planner.types import JsonObject

GOODS: JsonObject = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
}
LAMP, TABLE = {"name": "Lamp", "price": 3.5}, {"name": "Desk & Co", "price": 4.0}
HEAD = "<tr><th>Name</th><th>Price</th></tr>"
FORMS = {
    "a table": f"<table>{HEAD}<tr><td>Lamp</td><td>3.5</td></tr><tr><td>Desk &amp; Co</td><td>4</td></tr></table>",
    "tags left open": "<TABLE><TR><TH>Name<TH>Price<TR><TD>Lamp<TD>3.5<TR><TD>Desk & Co<TD>4</TABLE>",
    "tags within cells": (
        f"<table>{HEAD}<tr><td><a href='x|y'>Lamp</a></td><td><b>3.5</b></td></tr>"
        "<tr><td>Desk<br>&amp; Co</td><td><p>4</p></td></tr></table>"
    ),
    "a table within a cell": (
        f"<table><tr><td><table>{HEAD}<tr><td>Lamp</td><td>3.5</td></tr>"
        "<tr><td>Desk &amp; Co</td><td>4</td></tr></table></td><td>beside</td></tr></table>"
    ),
    "terms": (
        "<dl><dt>Name<dd>Lamp<dt>Price<dd>3.5</dl>"
        "<dl><dt>Name:</dt><dd>Desk &amp; Co</dd><dt>Price</dt><dd>4</dd></dl>"
    ),
    "rows of two": (
        "<table><tr><th>Name<td>Lamp<tr><th>Price<td>3.5</table>"
        "<table><tr><th>Name<td>Desk &amp; Co<tr><th>Price<td>4</table>"
    ),
    "items": "<ul><li>Name: Lamp<li>Price: 3.5</ul><ul><li>Name: Desk &amp; Co<li>Price: 4</ul>",
    "lines that end": "Name: Lamp<br>Price: 3.5<p></p><ol></ol><p>Name: Desk &amp; Co<br>Price: 4</p>",
    "within Markdown": (
        f"# Goods\n\n<table>\n{HEAD}\n<tr><td>Lamp</td><td>3.5</td></tr></table>\n\n"
        "- Name: Desk & Co\n- Price: 4\n"
    ),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_records_are_read_from_what_a_page_shows(text: str) -> None:
    found = plain_records(text, GOODS)

    assert sorted((one.record for one in found), key=str, reverse=True) == [LAMP, TABLE]


def test_a_cell_that_reaches_down_is_of_each_row_below() -> None:
    text = f"<table>{HEAD}<tr><td rowspan=2>Lamp<td>1<tr><td>2<tr><td>Desk<td rowspan=2>3<tr><td>Chair</table>"

    assert [one.record for one in plain_records(text, GOODS)] == [
        {"name": "Lamp", "price": 1.0},
        {"name": "Lamp", "price": 2.0},
        {"name": "Desk", "price": 3.0},
        {"name": "Chair", "price": 3.0},
    ]


def test_a_line_has_the_place_of_its_row() -> None:
    text = "<table>\n <tr><td>Äpfel</td>\n <td>2</td></tr>\n</table>"

    (line, span), *_ = (one for one in html_lines(text) if one[0])

    assert line == "| Äpfel | 2 |"
    assert text[span.start : span.end] == "<tr><td>Äpfel</td>\n <td>2</td></tr>"


@pytest.mark.parametrize(
    "text", ["a < b", "<lamp>", "| Name | Price |", "<script>Name: Lamp</script>"]
)
def test_a_text_without_blocks_has_no_lines_of_html(text: str) -> None:
    assert html_lines(text) == []


def test_scripts_and_styles_are_not_shown() -> None:
    text = "<p>Name: Lamp<script>Name: Trap</script><style>Price: 9</style></p>"

    assert [line for line, _ in html_lines(text)] == ["Name: Lamp"]


@given(st.text(alphabet="<>/=&;trdhlipx123 \n", max_size=60))
def test_whatever_the_tags_each_place_is_of_the_text(text: str) -> None:
    for _, span in html_lines(f"<table>{text}"):
        assert 0 <= span.start <= span.end <= len(text) + len("<table>")


@pytest.mark.parametrize("piece", ["<p ", "<!--", "<script>", "<table>", "<td>"])
@pytest.mark.timeout(20)
def test_a_hostile_page_is_read_in_one_pass(piece: str) -> None:
    pieces = piece * 30_000

    shown = {line for line, _ in html_lines(f"<p></p>{pieces}")}

    assert shown <= {"", pieces.strip()}
