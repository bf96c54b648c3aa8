from __future__ import annotations

import json

import jsonschema_rs
import pytest

from tests.reviewer.example_package import (
    example_model_events,
    example_package,
    example_package_with_models,
    example_run,
)
from tests.reviewer.scripted_runs import ScriptedRun, plan_of, play, run_plan
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, ModelCalled, Noted, PlanAccepted, RungTaken
from wavewright.planner.language.plan import Plan
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer import (
    build_package,
    package_bytes,
    package_schema,
    read_package,
    review_by_code,
)
from wavewright.reviewer.package.call_reports import money_text, sum_costs
from wavewright.reviewer.records import EVERY_FIELD

MODEL_FIELDS = ("model_uses", "orchestrator_tokens", "worker_tokens", "rungs", "loop_calls")


def test_every_call_is_in_the_sum_of_its_model_role_rung_and_step() -> None:
    uses = example_package_with_models().model_uses

    total = uses.total
    assert (total.calls, total.unanswered, total.attempts) == (5, 1, 6)
    assert (total.input_tokens, total.output_tokens) == (32_600, 3_140)
    assert total.usd == pytest.approx(0.0541)
    assert total.seconds == pytest.approx(19.3)
    assert (total.unpriced, total.estimated) == (1, 1)
    for groups in (uses.models, uses.roles):
        assert sum(named.cost.calls for named in groups) == 5
        assert sum(named.cost.tokens for named in groups) == uses.total.tokens
    assert [named.name for named in uses.rungs] == [
        "planner llm",
        "planner repaired",
        "worker suggested",
        "reviewer model",
    ]
    assert [(named.name, named.cost.tokens) for named in uses.steps] == [
        ("summary", 9_700),
        ("news", 340),
    ]


def test_workers_tokens_are_counted_apart_from_all_others() -> None:
    package = example_package_with_models()

    assert (package.orchestrator_tokens, package.worker_tokens) == (26_040, 9_700)


def test_a_missing_price_is_said_and_passes_for_no_nought() -> None:
    priced = ModelUse("worker", "w", "m", "answered", 10, 5, 0.5)
    unpriced = ModelUse("worker", "w", "m", "answered", 10, 5, None)
    never_asked = ModelUse("worker", "w", "m", "over_budget")

    assert money_text(sum_costs([priced, never_asked])) == "0.5000 USD"
    assert money_text(sum_costs([priced, unpriced])) == "at least 0.5000 USD"
    assert money_text(sum_costs([unpriced])) == "price unknown"
    assert sum_costs([unpriced]).usd is None
    assert money_text(sum_costs([])) == "0.0000 USD"


def test_rungs_and_agents_calls_are_listed_with_their_step() -> None:
    package = example_package_with_models()

    assert [(rung.ladder, rung.rung, rung.outcome, rung.step) for rung in package.rungs] == [
        ("planner", "llm", "fallen", None),
        ("planner", "repaired", "reached", None),
        ("worker summarise", "agent", "fallen", "summary"),
        ("worker summarise", "suggested", "reached", "summary"),
        ("reviewer", "model", "reached", None),
    ]
    (call,) = package.loop_calls
    assert (call.step, call.index, call.tool, call.status) == (
        "news",
        1,
        "fetch_announcements",
        "refused",
    )
    assert len(json.dumps(call.params)) < 300


def test_a_package_with_models_fits_the_schema_and_is_equal_when_read_back() -> None:
    package = example_package_with_models()
    content = package_bytes(package)

    assert read_package(content) == package
    assert (
        list(jsonschema_rs.validator_for(package_schema()).iter_errors(json.loads(content))) == []
    )


def test_a_package_of_before_there_were_models_is_still_read() -> None:
    package = example_package()
    old: JsonObject = json.loads(package_bytes(package))
    for name in MODEL_FIELDS:
        del old[name]
    review = old["review"]
    assert isinstance(review, dict)
    for name in ("opinion", "refused_actions", "unread_because"):
        del review[name]
    actions = review["recovery_actions"]
    assert isinstance(actions, list)
    for action in actions:
        assert isinstance(action, dict)
        del action["tool"], action["origin"]

    assert read_package(json.dumps(old).encode()) == package


def test_a_rung_of_planner_or_reviewer_that_gave_nothing_is_among_the_warnings() -> None:
    warnings = example_package_with_models().warnings

    assert "planner: the rung 'llm' gave nothing: the answer was cut off" in warnings
    assert not any("worker" in warning for warning in warnings)


def test_a_count_of_tokens_beyond_belief_is_among_the_warnings() -> None:
    run = example_run()
    use = ModelUse("worker", "w", "m", "answered", 10, 10**12, is_implausible=True)
    state = fold((*run.events, ModelCalled(run.events[-1].at, use)))
    package = build_package(run.plan, run.goal, state, None, run.tools)

    assert any(
        "'m' claims 1,000,000,000,010 tokens for a call" in warning for warning in package.warnings
    )


def test_what_was_refused_to_a_reviewing_model_is_among_the_warnings() -> None:
    run = example_run()
    refused: JsonObject = {
        "action": "refetch",
        "step": "prices",
        "tool": "run_shell",
        "why": "not allowed",
    }
    noted = Noted(run.events[-1].at, "review", {"refused_actions": [refused]})
    package = build_package(run.plan, run.goal, fold((*run.events, noted)), None, run.tools)

    assert (
        "the reviewing model asked for 'refetch' on step 'prices', tool 'run_shell': refused, not allowed"
        in package.warnings
    )


# --- ceilings
# -----------------------------------------------------------------------------------------------


def ceilings(run: ScriptedRun, *more: Event) -> list[tuple[float, str]]:
    """Return the caps of the engine on all fields, but that of the review by code."""
    state = fold((*run.events, *more))
    review = review_by_code(run.plan, run.goal, state, run.tools)
    engine = [cap for cap in review.caps if cap.origin == "engine" and cap.field == EVERY_FIELD]
    return [(cap.max, cap.because) for cap in engine][:-1]


def taken(
    ladder: str, rung: str, ceiling: float, step: str | None = None, index: int | None = None
) -> RungTaken:
    record = RungRecord(ladder, rung, "reached", "", 1.0, ceiling, f"came from {rung}")
    return RungTaken(1_000_000.0, record, StepId(step) if step else None, index)


TWO = plan_of({"id": "a"}, {"id": "b", "for_each": [1, 2, 3], "depends_on": ["a"]})
BROUGHT: dict[str, object] = {"a": 1, "b": [1, 2, 3]}


def test_a_plan_is_capped_by_the_record_of_the_rung_that_made_it() -> None:
    run = run_plan(TWO, BROUGHT, rung="template")

    assert ceilings(run) == [
        (0.9, "the plan is the goal template's own; no planner fitted it to this job")
    ]
    assert ceilings(run, taken("planner", "template", 0.85)) == [(0.85, "came from template")]
    assert ceilings(run_plan(TWO, BROUGHT, rung="llm"), taken("planner", "llm", 1.0)) == []
    assert ceilings(run_plan(TWO, BROUGHT, rung="given")) == []


def test_a_workers_rung_caps_what_its_step_brought() -> None:
    run = run_plan(TWO, BROUGHT)
    forced = taken("worker x", "forced", 0.2, "b", 1)
    whole = [taken("worker x", "agent", 1.0, "b", index) for index in (0, 2)]

    assert ceilings(run, forced, *whole) == [(0.2, "step 'b', in 1 of 3 calls: came from forced")]


def test_a_call_that_was_made_again_is_what_it_came_to_at_last() -> None:
    run = run_plan(TWO, BROUGHT)

    assert (
        ceilings(run, taken("worker x", "forced", 0.2, "a"), taken("worker x", "agent", 1.0, "a"))
        == []
    )


def test_what_a_patch_replaced_caps_nothing_any_more() -> None:
    run = run_plan(plan_of({"id": "a"}), {"a": 1})
    patched = Plan.model_validate(
        {"steps": [{"id": "a", "tool": "look"}, {"id": "a_2", "tool": "look", "supersedes": "a"}]}
    )
    events = [*run.events, taken("worker x", "forced", 0.2, "a"), taken("recovery", "model", 0.9)]
    at = events[-1].at
    events.append(
        PlanAccepted(
            at, patched.model_dump(mode="json"), run.state.plans[0].plan_hash, "patch", 1, (), {}
        )
    )
    play(events, patched, run.goal, run.tools, {"a_2": 2})
    fixed = ScriptedRun(patched, run.goal, run.tools, tuple(events))

    assert ceilings(fixed) == [(0.9, "came from model")]
    package = build_package(patched, run.goal, fixed.state, None, run.tools)
    assert [patch.rung for patch in package.patches] == ["model"]


def test_a_step_that_brought_nothing_is_not_capped_a_second_time() -> None:
    plan = plan_of({"id": "a"}, gates=[{"id": "g", "on": "a", "check": "false"}])
    run = run_plan(plan, {"a": 1})

    assert ceilings(run, taken("worker x", "forced", 0.2, "a")) == []


def test_the_example_is_capped_by_what_planned_and_what_worked() -> None:
    assert ceilings(example_run(), *example_model_events()) == [
        (0.95, "the plan was repaired"),
        (0.8, "step 'summary': put together"),
        (0.9333, "gate 'long' left a warning on step 'prices'"),
    ]
