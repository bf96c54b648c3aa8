"""A change of a normal form line by line: what a reviewer reads before the text."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given, strategies as st
from syrupy.assertion import SnapshotAssertion

from tests.engine.interfaces.testing.project_suite import Suite
from wavewright.engine.interfaces.testing import PlanRunner
from wavewright.engine.interfaces.testing.normal_form import FormKind, describe_changes, normal_form
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import Json, JsonObject

JOB = "plans/words.job.yaml"
BEFORE: JsonObject = {
    "goal": "Write a report",
    "inputs": {"day": "today"},
    "steps": [
        {"id": "prices", "tool": "fetch", "params": {"day": "${inputs.day}"}},
        {"id": "news", "tool": "read", "optional": True},
        {
            "id": "report",
            "why": "what was asked for",
            "tool": "write",
            "params": {"about": "${steps.prices}"},
        },
    ],
    "gates": [
        {"id": "fresh", "on": "prices", "fresh_within": 3600.0, "severity": "warn"},
        {"id": "whole", "on": "prices", "required": ["close"]},
    ],
    "caps": [
        {"field": "npcs", "max": 0.4, "because": "few were named"},
        {
            "field": "overall",
            "when": "inputs.day == 'today'",
            "max": 0.9,
            "because": "the day is not over",
        },
    ],
    "result": "${steps.report}",
}
AFTER: JsonObject = {
    "goal": "Write a report",
    "inputs": {"day": "monday", "month": "may"},
    "steps": [
        {"id": "prices", "tool": "fetch_all", "params": {"day": "${inputs.day}", "tries": 2}},
        {"id": "rates", "tool": "fetch"},
        {
            "id": "report",
            "why": "somebody asked for it",
            "tool": "write",
            "params": {"about": "${steps.prices}", "rates": "${steps.rates}"},
        },
        {"id": "letter", "tool": "send", "depends_on": ["report"]},
    ],
    "gates": [
        {"id": "fresh", "on": "prices", "fresh_within": 60.0},
        {"id": "kind", "on": "report", "judge": {"rubric": "is it kind?"}, "severity": "warn"},
    ],
    "caps": [
        {"field": "npcs", "max": 0.2, "because": "few were named"},
        {"field": "overall", "max": 0.5, "because": "nobody read it"},
    ],
    "result": {"report": "${steps.report}"},
}


def form_of(plan: JsonObject, form: FormKind = "plan") -> JsonObject:
    return normal_form(form, Plan.model_validate_json(json.dumps(plan)))


@pytest.mark.parametrize("form", ["plan", "dag"])
def test_a_change_of_a_plan_is_told_by_its_paths(
    form: FormKind, snapshot: SnapshotAssertion
) -> None:
    assert describe_changes(form_of(BEFORE, form), form_of(AFTER, form)) == snapshot


@pytest.mark.parametrize("form", ["plan", "dag"])
def test_a_change_back_is_told_the_other_way_round(
    form: FormKind, snapshot: SnapshotAssertion
) -> None:
    assert describe_changes(form_of(AFTER, form), form_of(BEFORE, form)) == snapshot


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        pytest.param(
            ("gates", 1, "severity"), "warn", "plan.gates.whole.severity added: warn", id="gate"
        ),
        pytest.param(("caps", 0, "max"), 0.2, "plan.caps.npcs.max 0.4 → 0.2", id="cap"),
        pytest.param(
            ("steps", 2, "optional"), True, "plan.steps.report.optional added: true", id="optional"
        ),
        pytest.param(
            ("steps", 1, "optional"),
            False,
            "plan.steps.news.optional gone: true",
            id="not-optional",
        ),
        pytest.param(
            ("steps", 2, "why"),
            "it is nice",
            "plan.steps.report.why what was asked for → it is nice",
            id="why",
        ),
        pytest.param(("goal",), "Write two", "plan.goal Write a report → Write two", id="goal"),
        pytest.param(("inputs", "day"), "monday", "plan.inputs.day today → monday", id="input"),
        pytest.param(
            ("steps", 0, "tool"), "guess", "plan.steps.prices.tool fetch → guess", id="tool"
        ),
    ],
)
def test_one_change_is_one_line(place: tuple[str | int, ...], value: object, told: str) -> None:
    assert describe_changes(form_of(BEFORE), form_of(changed(BEFORE, place, value))) == [told]


def changed(plan: JsonObject, place: tuple[str | int, ...], value: object) -> JsonObject:
    copy: JsonObject = json.loads(json.dumps(plan))
    inner = cast("dict[str | int, object]", copy)
    for name in place[:-1]:
        inner = cast("dict[str | int, object]", inner[name])
    inner[place[-1]] = value
    return copy


@pytest.mark.parametrize("form", ["events", "review", "package"])
def test_a_change_of_a_run_is_told_by_its_paths(
    run_plan: PlanRunner, suite: Suite, form: FormKind, snapshot: SnapshotAssertion
) -> None:
    before = normal_form(form, run_plan(JOB))
    suite.replace("config/goals/word_ranking.yaml", "max: 0.5", "max: 0.3")
    suite.replace("config/goals/word_ranking.yaml", "inputs.top < 3", "inputs.top < 9")
    longer = normal_form(form, run_plan(JOB, stubs={"files": ["notes/planning.md"]}))
    empty = normal_form(form, run_plan(JOB, stubs={"read_note": {"name": "a.md", "text": ""}}))

    assert {
        "another list": describe_changes(before, longer),
        "empty": describe_changes(longer, empty),
    } == snapshot


def test_a_step_more_is_one_line_and_one_in_another_place_is_told_too() -> None:
    steps: list[Json] = [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}]
    more: JsonObject = {"steps": [{"id": "new", "tool": "t"}, *steps]}

    assert len(describe_changes({"steps": steps}, more)) == 1
    assert describe_changes({"steps": steps}, {"steps": steps[::-1]})


values = st.sampled_from([None, True, 1, 0.5, "a", "b", ["a"], {"a": 1}])
objects = st.dictionaries(
    st.sampled_from(["steps", "plan", "review", "caps", "gates", "verdict", "x"]), values
)


@given(st.sampled_from(["plan", "dag", "events", "review", "package"]), objects, objects)
def test_any_two_forms_are_compared_and_silence_means_that_they_are_equal(
    form: FormKind, old: JsonObject, new: JsonObject
) -> None:
    told = describe_changes({"form": form, **old}, {"form": form, **new})

    assert (told == []) == (json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True))
