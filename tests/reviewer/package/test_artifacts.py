from __future__ import annotations

import math

import pytest

from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.package.artifacts import Artifacts, collect_artifacts

A, B = StepId("a"), StepId("b")


def gather(*outputs: Json) -> Artifacts:
    return collect_artifacts(list(zip((A, B), outputs, strict=False)))


def test_a_document_may_be_carried_by_an_output_by_its_entries_or_be_the_output() -> None:
    carried: JsonObject = {
        "document": {"id": "one", "title": "One", "tags": ["x"], "markdown": "# One"}
    }
    several: JsonObject = {
        "documents": [{"id": "two", "content": {"rows": 3}}, {"id": "three", "content": "Text"}]
    }
    itself: JsonObject = {
        "id": "four",
        "title": "Four",
        "tags": [],
        "content": "# Four",
        "rows": [1, 2],
    }
    found = gather([carried, several], itself).documents

    assert [(each.id, each.step, each.title) for each in found] == [
        ("one", "a", "One"),
        ("two", "a", "two"),
        ("three", "a", "three"),
        ("four", "b", "Four"),
    ]
    assert [each.markdown for each in found] == ["# One", None, "Text", "# Four"]
    assert found[1].content == {"rows": 3}


def test_documents_of_terminal_steps_come_first() -> None:
    outputs: list[tuple[StepId, Json]] = [
        (A, {"document": {"id": "x", "content": 1}}),
        (B, {"document": {"id": "y", "content": 2}}),
    ]

    assert [(each.id, each.is_result) for each in collect_artifacts(outputs, [B]).documents] == [
        ("y", True),
        ("x", False),
    ]


def test_a_document_named_by_its_id_alone_is_a_reference_to_another() -> None:
    assert gather({"document": "doc-17"}) == Artifacts()


def test_a_document_without_an_id_is_named_after_its_step() -> None:
    found = gather([{"document": {"content": 1}}, {"document": {"content": 2}}]).documents

    assert [each.id for each in found] == ["a_1", "a_2"]


def test_sources_are_words_or_objects_and_count_once() -> None:
    source: JsonObject = {
        "title": "Prices",
        "url": "file.csv",
        "as_of": "2010-03-01",
        "retrieved_at": "now",
        "tier": 1,
    }
    found = gather(
        {"source": source, "sources": ["A book"]}, {"sources": [source, "A book"]}
    ).sources

    assert [(each.name, each.location, each.as_of, each.accessed, each.tier) for each in found] == [
        ("Prices", "file.csv", "2010-03-01", "now", "1"),
        ("A book", None, None, None, None),
    ]


def test_conflicts_that_tools_report_are_kept() -> None:
    found = gather(
        {"conflicts": ["It says two things", {"field": "level", "values": [1, 2]}]}
    ).conflicts

    assert [(each.subject, each.message, each.values, each.origin) for each in found] == [
        ("a", "It says two things", (), "tool"),
        ("level", "there are different values of level", (1, 2), "tool"),
    ]


def test_one_source_with_two_values_is_a_conflict_that_code_finds() -> None:
    found = gather(
        {"source": {"id": "s1", "value": 10, "as_of": "2010-01-01"}},
        {"source": {"id": "s1", "value": 11, "as_of": "2010-02-01"}},
    ).conflicts

    assert [(each.subject, each.values, each.steps, each.origin) for each in found] == [
        ("s1", (10, 11), ("a", "b"), "code")
    ]
    assert (
        gather(
            {"source": {"id": "s1", "value": 10}}, {"source": {"id": "s2", "value": 11}}
        ).conflicts
        == ()
    )


def test_one_document_id_with_two_contents_is_a_conflict_that_code_finds() -> None:
    one: JsonObject = {"document": {"id": "d", "content": "one"}}

    assert gather(one, one).conflicts == ()
    assert gather(one, {"document": {"id": "d", "content": "two"}}).conflicts[0].origin == "code"


def test_a_chart_is_put_in_order_and_freed_of_what_is_no_figure() -> None:
    points: list[Json] = [
        ["2010-02-01", 2],
        ["2010-01-01", 1],
        ["soon", 3],
        ["2010-03-01", None],
        ["2010-04-01", True],
        7,
    ]
    found = gather(
        {"chart": {"title": "T", "normalise": True, "series": [{"name": "x", "points": points}]}}
    ).charts

    assert found[0].series[0].points == (("2010-01-01", 1.0), ("2010-02-01", 2.0))
    assert found[0].normalise


def test_warnings_of_an_output_are_told_with_its_step() -> None:
    assert gather({"warnings": ["two prices on one day", 3]}).warnings == (
        "a: two prices on one day",
    )


@pytest.mark.parametrize(
    "output",
    [
        {"document": {"title": "nothing in it"}},
        {"sources": [{"tier": "primary"}]},
        {"source": 17},
        {"chart": "a picture"},
        {"chart": {"series": [{"name": "x", "points": [["2010-01-01", math.inf]]}]}},
        {"conflict": {"values": [1, 2]}},
    ],
)
def test_what_has_another_shape_is_left_out_with_a_warning(output: JsonObject) -> None:
    found = gather(output)

    assert len(found.warnings) == 1
    assert "step 'a'" in found.warnings[0]
    assert (found.documents, found.sources, found.charts, found.conflicts) == ((), (), (), ())


@pytest.mark.parametrize(
    "output",
    [
        None,
        "text",
        3,
        [],
        [1, "x", None],
        {},
        {"document": None, "sources": "", "chart": []},
        {"source": {"timezone": "UTC", "is_dst": False}, "target": {"timezone": "Europe/Berlin"}},
    ],
)
def test_an_output_that_carries_nothing_gives_nothing(output: Json) -> None:
    assert gather(output) == Artifacts()
