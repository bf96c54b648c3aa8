"""Where the names of a document stand, however its expressions are written."""

from __future__ import annotations

import pytest

from wavewright.config.documents import read_document
from wavewright.config.text_edits import NotEditable
from wavewright.planner.checks.names import NameAt, places_of


def lines_of(text: str, name: NameAt) -> list[int]:
    """Return the lines where a document whose plan is not read has a name, its definition first."""
    document = read_document(text, "template.yaml")
    spans = places_of(document, "", None, name)
    return [document.source.position(span.start)[0] for span in spans]


def test_a_name_in_brackets_is_found_where_the_plan_is_not_read() -> None:
    text = """\
inputs: {region: EU}
gates:
  - {id: where, on_tool: look, check: 'inputs["region"] == "EU"'}
"""
    assert lines_of(text, NameAt("input", "region")) == [1, 3]


def test_a_name_is_found_beside_a_faulty_expression() -> None:
    text = """\
inputs: {region: EU}
result: "${inputs.} of ${inputs.region}"
"""
    assert lines_of(text, NameAt("input", "region")) == [1, 2]


def test_a_name_that_is_written_with_escapes_is_refused() -> None:
    text = r"""
steps:
  - {id: prices, tool: look}
result: '${steps["pri\u0063es"]}'
"""
    with pytest.raises(NotEditable, match="'prices' is written with escapes"):
        lines_of(text, NameAt("step", "prices"))
