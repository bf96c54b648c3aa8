"""Normal forms: equal where plans and runs mean the same, and readable as text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.engine.testing.project_suite import Suite
from wavewright.engine.testing import PlanLoader, PlanRunner, Redaction
from wavewright.engine.testing.normal_form import FormKind, normal_form
from wavewright.engine.testing.redactions import RedactionPass, folder_redactions
from wavewright.engine.testing.snapshots import normal_form_yaml, read_normal_form
from wavewright.executor.events.types import Event, WaveFinished, WaveStarted
from wavewright.planner.types import Json, JsonObject

JOB = "plans/words.job.yaml"
WIDE = """
    version: 1
    steps:
      - {id: one, tool: list_notes, params: {folder: notes}}
      - {id: two, tool: list_notes, params: {folder: .}}
      - {id: three, tool: list_notes, params: {folder: plans}}
      - {id: notes, tool: read_note, for_each: "${steps.one}", params: {path: "${item}"}}
    """

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(texts, values, max_size=4))
def test_the_text_of_a_form_reads_back_as_the_form(form: JsonObject) -> None:
    assert read_normal_form(normal_form_yaml(form)) == form


@pytest.mark.parametrize("text", ["<<<<<<< ours\nform: plan\n=======\n", "- a list\n", "plain", ""])
def test_a_text_that_is_no_form_reads_as_none(text: str) -> None:
    assert read_normal_form(text) is None


@pytest.mark.parametrize("form", ["plan", "dag", "events", "review", "package"])
def test_two_runs_of_one_plan_have_one_form(run_plan: PlanRunner, form: FormKind) -> None:
    first, second = run_plan(JOB), run_plan(JOB)

    assert normal_form(form, first) == normal_form(form, second)


def test_a_view_has_the_form_of_what_it_shows(run_plan: PlanRunner, plan: PlanLoader) -> None:
    run = run_plan(JOB)

    assert normal_form("review", run.review) == normal_form("review", run)
    assert normal_form("package", run.package) == normal_form("package", run)
    assert normal_form("plan", plan(JOB)) == normal_form("plan", run)


@pytest.mark.parametrize("form", ["plan", "dag", "events", "review", "package"])
def test_what_has_no_such_form_is_refused_by_name(form: FormKind) -> None:
    with pytest.raises(TypeError, match=f"{form}_snapshot pins .*, and 42 is none"):
        normal_form(form, 42)


def test_the_order_of_parallel_steps_is_no_part_of_the_form(run_plan: PlanRunner, suite: Suite) -> None:
    suite.write("plans/wide.plan.yaml", WIDE)
    run = run_plan("plans/wide.plan.yaml")
    wanted = normal_form("events", list(run.events))

    for seed in range(20):
        assert normal_form("events", shuffled(run.events, seed)) == wanted


def shuffled(events: tuple[Event, ...], seed: int) -> list[Event]:
    """Return the events as they might have come: within a wave its steps and items in any order."""
    order = random.Random(seed)  # noqa: S311 - an order, not a secret
    found: list[Event] = []
    wave: list[Event] | None = None
    for event in events:
        if isinstance(event, WaveFinished) and wave is not None:
            order.shuffle(wave)
            found += wave
            wave = None
        if wave is None:
            found.append(event)
        else:
            wave.append(event)
        if isinstance(event, WaveStarted):
            wave = []
    return found


def test_times_and_costs_of_a_run_are_left_out_and_those_of_its_data_stay() -> None:
    form: JsonObject = {
        "at": 12.5,
        "usd": 0.01,
        "output": {"at": 12.5, "run": "the marathon"},
        "versions": {},
    }
    from wavewright.engine.testing.redactions import DEFAULT_REDACTIONS

    assert RedactionPass(DEFAULT_REDACTIONS).redact(form) == {
        "at": "<time>",
        "usd": "<cost>",
        "output": {"at": 12.5, "run": "the marathon"},
    }


def test_what_tells_things_apart_is_numbered_anew() -> None:
    rules = (Redaction("<key {n}>", frozenset({"key"})),)
    form: list[Json] = [{"key": "5f"}, {"key": "0a"}, {"key": "5f"}, {"key": None}]

    assert RedactionPass(rules).redact(form) == [
        {"key": "<key 1>"},
        {"key": "<key 2>"},
        {"key": "<key 1>"},
        {"key": None},
    ]


def test_a_projects_own_rule_reaches_into_its_data_and_goes_first(run_plan: PlanRunner) -> None:
    own = (
        Redaction("<count>", frozenset({"count"}), in_data=True),
        Redaction("<note {n}>", pattern=r"notes/\w+\.md"),
    )

    form: Any = normal_form("package", run_plan(JOB), own)

    assert form["result"]["words"][0] == {"word": "plan", "count": "<count>"}
    assert [call["params"]["path"] for call in form["calls"][1:3]] == ["<note 1>", "<note 2>"]


def test_folders_of_this_machine_are_left_out_and_what_stands_below_stays() -> None:
    rules = folder_redactions([Path("/srv/desk"), Path("/srv/desk/drawer"), Path("/")])

    assert RedactionPass(rules).redact(
        ["/srv/desk/drawer/a.md", "/srv/desk/b", "/srv/desks/c", "in /srv/desk."]
    ) == [
        "<path>/a.md",
        "<path>/b",
        "/srv/desks/c",
        "in /srv/desk.",
    ]
