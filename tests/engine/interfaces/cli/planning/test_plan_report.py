"""A plan as text that its author could have written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from wavewright.config.documents import read_document
from wavewright.engine.interfaces.cli.planning.plan_report import (
    plan_as_json,
    plan_as_yaml,
    plan_json,
)
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.reading.reader import read_plan
from wavewright.planner.types import Json, StepId

# What a reader accepts: no half characters and no NUL.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
values: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    params = draw(st.dictionaries(texts, values, max_size=3))
    step = Step(id=StepId("a"), tool="look", why=draw(st.none() | texts), params=params)
    return Plan(goal=draw(st.none() | texts), steps=(step,), result=draw(values))


@given(plans())
def test_the_yaml_of_any_plan_is_read_back_as_the_same_plan(plan: Plan) -> None:
    written = plan_as_yaml(plan)

    assert read_document(written, "plan.yaml").value == plan_json(plan)


@given(plans())
def test_the_json_of_any_plan_is_read_back_as_the_same_plan(plan: Plan) -> None:
    assert json.loads(plan_as_json(plan)) == plan_json(plan)


@given(plans())
def test_no_character_of_a_plan_can_steer_a_terminal(plan: Plan) -> None:
    assert all(line.isprintable() for line in plan_as_yaml(plan).split("\n"))


@pytest.mark.parametrize(
    "text",
    [
        "on",
        "No",
        "null",
        "~",
        "1e3",
        "0x1f",
        "2010-03-01",
        "1:30",
        "- a",
        "a: b",
        "#x",
        " a",
        "a ",
        "",
    ],
)
def test_a_text_that_looks_like_something_else_stays_a_text(text: str) -> None:
    plan = Plan(steps=(Step(id=StepId("a"), tool="look", params={"text": text}),))

    found = read_plan(plan_as_yaml(plan), "plan.yaml")

    assert found.plan == plan


def test_a_plan_is_written_as_people_write_one() -> None:
    step = Step(
        id=StepId("files"),
        why="every note counts",
        tool="list_notes",
        params={"folder": "${inputs.folder}"},
    )

    assert plan_as_yaml(Plan(goal="Find the words", steps=(step,))) == (
        "version: 1\n"
        "goal: Find the words\n"
        "steps:\n"
        "- why: every note counts\n"
        "  id: files\n"
        "  tool: list_notes\n"
        "  params:\n"
        '    folder: "${inputs.folder}"\n'
    )
