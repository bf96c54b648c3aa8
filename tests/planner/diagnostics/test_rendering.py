from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st
from syrupy.assertion import SnapshotAssertion

from wavewright.config.documents import read_document
from wavewright.config.sources import Source, Span
from wavewright.planner.diagnostics.diagnostic import Diagnostic, locate_diagnostics
from wavewright.planner.diagnostics.rendering import (
    printable,
    printable_json,
    printable_lines,
    render_json,
    render_text,
    sarif_log,
)

PLAN = """\
steps:
  - id: review
    tool: read
  - id: publish
    tool: write
    depends_on: [reveiw]
"""
SOURCE = Source("plans/release.yaml", PLAN)
TYPO = Diagnostic(
    code="E403",
    message="step 'publish' depends on 'reveiw', which no step defines",
    pointer="/steps/1/depends_on/0",
    hint="did you mean 'review'?",
)


def placed(*diagnostics: Diagnostic) -> list[Diagnostic]:
    return locate_diagnostics(diagnostics, read_document(PLAN, SOURCE.name))


def shown(text: str, part: str, name: str = "plan.yaml") -> list[str]:
    """Render a diagnostic about a part of a text; return the line and the caret below it."""
    start = text.index(part)
    found = Diagnostic("E101", "look here", span=Span(start, start + len(part)))
    return render_text([found], Source(name, text)).splitlines()[3:5]


def test_a_diagnostic_shows_code_message_place_and_mend(snapshot: SnapshotAssertion) -> None:
    assert render_text(placed(TYPO), SOURCE) == snapshot


def test_diagnostics_come_in_the_order_of_the_text(snapshot: SnapshotAssertion) -> None:
    missing = Diagnostic("E105", "step 'review' has no 'params'", "/steps/0/params/query")
    whole = Diagnostic("E120", "the plan has no goal", "/goal")
    lint = Diagnostic("W801", "nobody reads 'publish'", "/steps/1/id", severity="warning")

    assert render_text(placed(lint, TYPO, missing, whole), SOURCE) == snapshot


def test_a_diagnostic_without_a_place_names_the_source_and_the_pointer() -> None:
    assert render_text([TYPO], SOURCE).splitlines() == [
        "error[E403]: step 'publish' depends on 'reveiw', which no step defines",
        "  --> plans/release.yaml (at /steps/1/depends_on/0)",
        "   = help: did you mean 'review'?",
    ]


def test_an_unknown_field_is_marked_at_its_key() -> None:
    (found,) = placed(Diagnostic("E203", "no such argument", "/steps/1/tool"))

    assert found.span == Span(PLAN.rindex("tool"), PLAN.rindex("tool") + 4)


def test_a_part_of_an_expression_is_marked_where_it_stands() -> None:
    text = 'steps: [{when: "steps.a.clse > 3"}]'
    found = Diagnostic("E303", "no field 'clse'", "/steps/0/when", within=Span(8, 12))
    (one,) = locate_diagnostics([found], read_document(text, "plan.yaml"))

    assert one.span is not None
    assert text[one.span.start : one.span.end] == "clse"


def test_a_part_of_an_escaped_text_marks_the_whole() -> None:
    text = r'{"when": "steps.a.\u0063lse"}'
    found = Diagnostic("E303", "no field 'clse'", "/when", within=Span(8, 12))
    (one,) = locate_diagnostics([found], read_document(text, "plan.json"))

    assert one.span is not None
    assert text[one.span.start : one.span.end] == r'"steps.a.\u0063lse"'


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        pytest.param("a: \tbad", "bad", ["1 | a:     bad", "  |        ^^^"], id="tab"),
        pytest.param("東瑛: bad", "bad", ["1 | 東瑛: bad", "  |       ^^^"], id="wide characters"),
        pytest.param(
            "a: 東瑛", "東瑛", ["1 | a: 東瑛", "  |    ^^^^"], id="wide characters marked"
        ),
        pytest.param(
            "e\u0301: bad", "bad", ["1 | e\u0301: bad", "  |    ^^^"], id="combining characters"
        ),
        pytest.param(
            "a: bad\r\nb: 1", "bad", ["1 | a: bad", "  |    ^^^"], id="line break of Windows"
        ),
        pytest.param(
            "a: [bad,\n  b]", "[bad,\n  b]", ["1 | a: [bad,", "  |    ^^^^^"], id="several lines"
        ),
        pytest.param(
            "\u202ea: bad", "bad", ["1 | \\u202ea: bad", "  |          ^^^"], id="direction mark"
        ),
        pytest.param(
            "\x1b[2Ja: bad",
            "bad",
            ["1 | \\x1b[2Ja: bad", "  |           ^^^"],
            id="terminal escape",
        ),
    ],
)
def test_the_caret_stands_below_what_is_meant(text: str, part: str, expected: list[str]) -> None:
    assert shown(text, part) == expected


@pytest.mark.parametrize("before", [0, 10, 400, 5000])
def test_a_long_line_is_cut_to_what_stands_around_the_caret(before: int) -> None:
    line, caret = shown("x" * before + " bad " + "y" * 5000, "bad")
    column = caret.index("^")

    assert line[column : column + 3] == "bad"
    assert len(line) < 120


def test_a_long_part_is_marked_as_far_as_it_is_shown() -> None:
    line, caret = shown("a: " + "b" * 5000, "b" * 5000)

    assert len(caret) <= len(line) < 120


def test_the_end_of_the_text_can_be_marked() -> None:
    found = Diagnostic("E102", "cut", span=Span(8, 8))

    assert render_text([found], Source("p.json", '{"a": [1')).splitlines()[-1] == "  |         ^"


@given(st.text(), st.text(), st.text(), st.text(), st.integers(-3, 60), st.integers(-3, 60))
def test_no_text_can_forge_lines_or_reach_the_terminal(
    message: str, hint: str, name: str, text: str, start: int, end: int
) -> None:
    found = Diagnostic("E107", message, span=Span(start, end), hint=hint)
    rendered = render_text([found], Source(name, text))
    lines = rendered.split("\n")

    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith("error[E107]: ")
    assert len(lines) <= 6


def test_json_names_places_by_line_and_column() -> None:
    (found,) = render_json(placed(TYPO), SOURCE)

    assert found == {
        "code": "E403",
        "kind": "unknown_dependency",
        "severity": "error",
        "message": "step 'publish' depends on 'reveiw', which no step defines",
        "file": "plans/release.yaml",
        "pointer": "/steps/1/depends_on/0",
        "line": 6,
        "column": 18,
        "end_line": 6,
        "end_column": 24,
        "hint": "did you mean 'review'?",
    }


def test_json_without_a_place_has_nulls() -> None:
    (found,) = render_json([TYPO], SOURCE)

    assert [found[key] for key in ("line", "column", "end_line", "end_column")] == [None] * 4


def test_sarif_names_the_rule_the_region_and_the_node(snapshot: SnapshotAssertion) -> None:
    assert json.dumps(sarif_log([(placed(TYPO), SOURCE)]), indent=2, ensure_ascii=False) == snapshot


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("plans/a b.yaml", "plans/a%20b.yaml"),
        ("/srv/plan.yaml", "file:///srv/plan.yaml"),
        ("<model>", "%3Cmodel%3E"),
    ],
)
def test_sarif_names_the_file_by_its_uri(name: str, uri: str) -> None:
    log: Any = sarif_log([([TYPO], Source(name, PLAN))])
    (location,) = log["runs"][0]["results"][0]["locations"]

    assert location["physicalLocation"] == {"artifactLocation": {"uri": uri}}


def test_sarif_refers_to_each_rule_once() -> None:
    log: Any = sarif_log([(placed(TYPO, TYPO, Diagnostic("E101", "x")), SOURCE)])
    (run,) = log["runs"]

    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E101", "E403"]
    assert [(one["ruleId"], one["ruleIndex"]) for one in run["results"]] == [
        ("E101", 0),
        ("E403", 1),
        ("E403", 1),
    ]


def test_nothing_to_report_is_a_valid_log_without_results() -> None:
    log: Any = sarif_log([([], SOURCE)])
    required = {"type": "object", "required": ["version", "runs", "$schema"]}

    assert jsonschema_rs.is_valid(required, log)
    assert log["runs"][0]["results"] == []


ODD = "a\x1b[2Jb\u202ec\u200bd\x7fe\x9bf\U000e0041g\ud800\u00e9\n\t"


def test_a_text_is_printed_without_a_character_that_steers_a_terminal() -> None:
    assert printable(ODD) == "a\\x1b[2Jb\\u202ec\\u200bd\\x7fe\\x9bf\\U000e0041g\\ud800\u00e9\\n\\t"
    assert printable_lines(ODD) == printable(ODD[:-2]) + "\n\t"


@pytest.mark.parametrize(
    "unseen", ["\u3164", "\uffa0", "\u115f", "\u2800", "\u034f", "\ufe00", "\U000e0150", "\u180b"]
)
def test_a_character_that_shows_nothing_is_shown(unseen: str) -> None:
    escaped = unseen.encode("unicode_escape").decode()

    assert printable(f"pay{unseen}pal") == printable_lines(f"pay{unseen}pal") == f"pay{escaped}pal"
    assert unseen not in printable_json([unseen])
    assert printable("a heart \u2764\ufe0f") == "a heart \u2764\ufe0f"


@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_printed_without_such_characters_and_stays_the_same(indent: int | None) -> None:
    text = printable_json({ODD: [ODD, 1]}, indent)

    assert json.loads(text) == {ODD: [ODD, 1]}
    assert [char for char in text if not char.isprintable() and char != "\n"] == []
    assert "\u00e9" in text
