"""Where the names of a document stand, however its expressions are written."""

from __future__ import annotations

import pytest

from wavewright.config.documents import read_document
from wavewright.config.text_edits import NotEditable
from wavewright.planner.checks.names import NameAt, places_of


def lines_of(text: str, name: NameAt) -> list[int]:
    """Return the lines where a document whose plan is not read has a name, its definition first."""
    document = read_document(text, "template.yaml")
    spans = places_of(document, "", name)
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


WRITTEN = """\
inputs: {region: EU}
let:
  few: "${steps.calls.filter(call, call.n < 3 && inputs.region == 'EU')}"
  fewer: "${few.filter(few, few.n < 2)}"
steps:
  - {id: calls, tool: look}
  - {id: asked, ask: {of: "${steps.calls}", for: {n: integer}}}
  - {id: made, dispatch: "${steps.calls}", tools: [look]}
  - id: again
    plan: other.plan.yaml
    params: {from: "${few}"}
    repeat: {until: steps.again.n == steps.calls.size(), max: 3, params: {from: "${steps.calls}"}}
stop: {when: few.size() == 0, result: "${steps.calls} of steps.calls"}
result: "${few}"
"""


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (NameAt("step", "calls"), [6, 3, 7, 8, 12, 12, 13]),
        (NameAt("step", "again"), [9, 12]),
        (NameAt("input", "region"), [1, 3]),
        (NameAt("let", "few"), [3, 4, 11, 13, 14]),
    ],
)
def test_a_name_is_found_in_everything_that_an_author_writes(
    name: NameAt, lines: list[int]
) -> None:
    """The variable `few` of the filter in line 4 hides the name of `let`."""
    assert lines_of(WRITTEN, name) == lines


def test_a_name_that_is_written_with_escapes_is_refused() -> None:
    text = r"""
steps:
  - {id: prices, tool: look}
result: '${steps["pri\u0063es"]}'
"""
    with pytest.raises(NotEditable, match="'prices' is written with escapes"):
        lines_of(text, NameAt("step", "prices"))
