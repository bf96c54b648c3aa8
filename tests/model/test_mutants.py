"""The reference model finds each rule that is broken on purpose; without that it would prove
nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.engine.interfaces.api import test_answers_meanwhile
from tests.executor.run import test_resume, test_rules
from tests.model import driver
from tests.model.driver import DrawnCase, DrawnPart, hold_against_model
from tests.model.facts import NotAllowedError, Outcome
from tests.model.plans import (
    TOOLS,
    Chosen,
    Condition,
    ModelGate,
    ModelPlan,
    ModelStep,
    SubPlan,
)
from wavewright.engine.interfaces.api import wavewright
from wavewright.engine.run.decisions import approvals, step_questions
from wavewright.engine.run.read_job import steps_to_repeat
from wavewright.executor.events import state
from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import GateRecord, ItemFinished, Noted, StepFinished
from wavewright.executor.run import calls, rules, scheduler
from wavewright.executor.run.deadlines import Deadlines
from wavewright.executor.run.failures import UNCLEAR, AttemptFailure, may_retry
from wavewright.executor.run.ports import ReadyCalls
from wavewright.executor.run.program import CompiledStep, CompiledTool
from wavewright.executor.run.scheduled_calls import FanOut, ScheduledCall
from wavewright.executor.store.journal import StoredOutput
from wavewright.planner.language.hashing import cache_key, plan_hash
from wavewright.planner.language.plan import Plan, Repeat, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans import dispatch, let_and_stop, sub_plans
from wavewright.planner.plans.dispatch import dispatch_signature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import CallContent, Json, JsonObject, StepId, StepKey
from wavewright.reviewer.gates import verifier
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.tools.functions.dispatch import dispatch_tool
from wavewright.tools.functions.tool import Tool

Patch = pytest.MonkeyPatch


def _always(*_: object, **__: object) -> bool:
    return True


def _never(*_: object, **__: object) -> None:
    return None


def _nothing(*_: object) -> tuple[()]:
    return ()


def _equal_calls_of_every_reading_tool_are_made_once(patch: Patch) -> None:
    patch.setattr(ToolSignature, "is_made_once", property(lambda tool: tool.only_reads))


def _equal_calls_are_never_made_once(patch: Patch) -> None:
    patch.setattr(ToolSignature, "is_made_once", property(lambda _: False))


def _what_asks_a_person_is_shared(patch: Patch) -> None:
    def whoever_asks(tool: CompiledTool, _step: Step, *, asks: object) -> bool:
        del asks
        return tool.signature.is_made_once

    patch.setattr(CompiledTool, "may_share", whoever_asks)


def _what_has_ended_is_called_again(patch: Patch) -> None:
    patch.setattr(rules.CallRules, "_ended_before", _never)


def _what_cannot_be_read_is_kept(patch: Patch) -> None:
    patch.setattr(CompiledTool, "fits", _always)


def _a_retry_takes_nothing_over(patch: Patch) -> None:
    patch.setattr(rules.CallRules, "_succeeded_in_retried_run", _never)


def _a_retry_looks_at_the_last_run_only(patch: Patch) -> None:
    last = rules.ReuseSource.last

    def newest(
        source: rules.ReuseSource, call: ScheduledCall, step: StepId
    ) -> rules.PastCall | None:
        return last(rules.ReuseSource(source.chain[:1], source.anew, source.again), call, step)

    patch.setattr(rules.ReuseSource, "last", newest)


def _items_are_matched_by_place(patch: Patch) -> None:
    find = rules.PastEndings.find

    def by_place(
        endings: rules.PastEndings, call: ScheduledCall, key: StepKey, step: StepId
    ) -> rules.FinishedCall | None:
        ending = find(endings, call, key, step)
        return None if isinstance(ending, ItemFinished) and ending.index != call.item else ending

    patch.setattr(rules.PastEndings, "find", by_place)


def _an_unclear_write_is_repeated(patch: Patch) -> None:
    patch.setattr(rules.CallRules, "_may_have_taken_effect", _never)


def _a_retry_repeats_an_unclear_write(patch: Patch) -> None:
    patch.setattr(rules.CallRules, "_is_unclear_in_retried_run", _never)


def _a_late_write_is_tried_again(patch: Patch) -> None:
    def by_policy(
        _: object,
        call: ScheduledCall,
        compiled: CompiledStep,
        failure: AttemptFailure,
    ) -> bool:
        return may_retry(failure, compiled.retry, call.attempt)

    patch.setattr(calls.CallRunner, "_may_retry", by_policy)


def _a_write_that_broke_off_counts_as_not_made(patch: Patch) -> None:
    def as_it_is(failure: AttemptFailure) -> AttemptFailure:
        return failure

    patch.setattr(AttemptFailure, "of_write", as_it_is)


def _nobody_is_asked(patch: Patch) -> None:
    patch.setattr(rules.CallRules, "_needs_person", _never)


def _the_id_of_a_run_is_enough(patch: Patch) -> None:
    patch.setattr(driver, "require_same_job", _never)


def _a_patched_run_is_of_another_plan(patch: Patch) -> None:
    def hash_now(state: RunState) -> str:
        return plan_hash(Plan.model_validate(state.plan))

    patch.setattr(wavewright, "_first_hash", hash_now)


def _a_retry_calls_with_old_code_too(patch: Patch) -> None:
    last = rules.ReuseSource.last

    def by_any_code(
        source: rules.ReuseSource, call: ScheduledCall, step: StepId
    ) -> rules.PastCall | None:
        chain = tuple(replace(retried, changed=frozenset[str]()) for retried in source.chain)
        return last(rules.ReuseSource(chain, source.anew, source.again), call, step)

    patch.setattr(rules.ReuseSource, "last", by_any_code)


def _failures_are_tried_again(patch: Patch) -> None:
    def stands(_: object, ending: StepFinished, _tool: object = None) -> bool:
        return ending.status in SUCCESSES

    patch.setattr(rules.CallRules, "stands", stands)


def _a_retry_repeats_the_named_step_alone(patch: Patch) -> None:
    def start_alone(_: Plan, start: StepId) -> tuple[StepId, ...]:
        return (start,)

    patch.setattr(driver, "steps_to_repeat", start_alone)


def _a_retry_repeats_no_steps_of_sub_plans(patch: Patch) -> None:
    def without_parts(donor: RunState, start: StepId | None) -> tuple[StepId, ...]:
        return tuple(step for step in steps_to_repeat(donor, start) if "." not in step)

    patch.setattr(driver, "steps_to_repeat", without_parts)


def _nobody_can_have_an_unclear_write_repeated(patch: Patch) -> None:
    def is_unclear(call_rules: rules.CallRules, call: ScheduledCall) -> bool:
        retried = call_rules._retried  # pyright: ignore[reportPrivateUsage]
        past = None if retried is None else retried.last(call, call.step.id)
        return past is not None and past.ending is not None and rules.is_unclear(past.ending)

    patch.setattr(rules.CallRules, "_is_unclear_in_retried_run", is_unclear)


def _what_returned_something_else_counts_as_not_made(patch: Patch) -> None:
    is_unclear = rules.is_unclear

    def is_cut_off(ending: StepFinished | ItemFinished) -> bool:
        return is_unclear(ending) and ending.error is not None and ending.error.kind != "output"

    patch.setattr(rules, "is_unclear", is_cut_off)


def _writes_are_not_announced(patch: Patch) -> None:
    async def announce(*_: object) -> None:
        pass

    patch.setattr(calls.CallRunner, "_announce", announce)


def _no_timeout_ends_a_call(patch: Patch) -> None:
    limit = Deadlines.limit

    def hardly(deadlines: Deadlines, seconds: float, of: str = "") -> object:
        return limit(deadlines, 1000 * seconds, of=of)

    patch.setattr(Deadlines, "limit", hardly)


def _transient_failures_are_tried_again_without_end(patch: Patch) -> None:
    def tried_again(failure: AttemptFailure, *_: object) -> bool:
        return failure.kind == "transient"

    patch.setattr(calls, "may_retry", tried_again)


def _unclear_writes_are_refused_before_a_person_is_asked(patch: Patch) -> None:
    needs_person = rules.CallRules._needs_person  # pyright: ignore[reportPrivateUsage]

    def refused_first(call_rules: rules.CallRules, call: ScheduledCall) -> object:
        is_unclear = call_rules._is_unclear_in_retried_run(call)  # pyright: ignore[reportPrivateUsage]
        return rules.RefuseCall(UNCLEAR) if is_unclear else needs_person(call_rules, call)

    patch.setattr(rules.CallRules, "_needs_person", refused_first)


def _answers_are_forgotten(patch: Patch) -> None:
    patch.setattr(step_questions, "answer_to_binding", _never)


def _an_answer_to_another_question_counts(patch: Patch) -> None:
    def any_answer(state: RunState, _: Noted) -> approvals.GivenAnswer | None:
        topics = [noted.topic for noted in state.notes]
        is_there = approvals.APPROVAL_GIVEN in topics
        return approvals.GivenAnswer(approvals.APPROVE) if is_there else None

    patch.setattr(step_questions, "recorded_answer", any_answer)


def _an_answer_counts_for_ever(patch: Patch) -> None:
    def has_expired(_: Noted, __: float) -> bool:
        return False

    patch.setattr(step_questions, "has_expired", has_expired)


def _an_answer_is_bound_to_the_step_alone(patch: Patch) -> None:
    def binding(state: RunState, ready: ReadyCalls) -> JsonObject:
        return {"run": state.run, "plan_hash": state.plan_hash, "step": ready.step.id}

    patch.setattr(step_questions, "step_binding", binding)


def _a_result_of_other_code_is_reused(patch: Patch) -> None:
    def key(_: object, content: CallContent, *, now: float, cache_for: float) -> StepKey:
        return StepKey(f"{content} {now // cache_for}")

    patch.setattr(calls, "cache_key", key)


def _a_result_is_reused_in_another_stretch_of_the_clock(patch: Patch) -> None:
    def key(
        signature: ToolSignature, content: CallContent, *, now: float, cache_for: float
    ) -> StepKey:
        return cache_key(signature, content, now=0 * now, cache_for=cache_for)

    patch.setattr(calls, "cache_key", key)


async def _any_stored(runner: calls.CallRunner, call: ScheduledCall) -> StoredOutput | None:
    journal = runner._facts.journal  # pyright: ignore[reportPrivateUsage]
    if journal is None or call.cache_key is None:
        return None
    return await journal.find_output(call.cache_key)


def _a_result_is_reused_for_ever(patch: Patch) -> None:
    patch.setattr(calls.CallRunner, "_stored_output", _any_stored)


def _a_named_step_takes_a_stored_result(patch: Patch) -> None:
    def may_be_stored(_: object, call: ScheduledCall) -> bool:
        return call.cache_key is not None

    patch.setattr(rules.CallRules, "_may_be_stored", may_be_stored)


def _names_are_not_put_in(patch: Patch) -> None:
    def as_it_is(plan: Plan) -> tuple[Plan, tuple[()]]:
        return plan, ()

    patch.setattr(sub_plans, "with_let", as_it_is)


def _nothing_is_stopped(patch: Patch) -> None:
    def as_it_is(plan: Plan) -> Plan:
        return plan

    patch.setattr(sub_plans, "with_stop", as_it_is)


def _only_what_reads_the_step_directly_is_stopped(patch: Patch) -> None:
    def direct(plan: Plan, read: Collection[StepId]) -> frozenset[StepId]:
        dependants = PlanGraph.of(plan).dependants
        return frozenset(name for step in read for name in dependants[step])

    patch.setattr(let_and_stop, "_stopped_steps", direct)


def _a_stopped_run_has_its_own_result(patch: Patch) -> None:
    patch.setattr(ReviewedRun, "has_stopped", property(lambda _: False))


def _a_sub_plan_runs_without_its_condition(patch: Patch) -> None:
    add_run = sub_plans._Expansion._add_run  # pyright: ignore[reportPrivateUsage]

    def unasked(
        expansion: object, call: object, run: str, params: JsonObject, _when: str | None
    ) -> None:
        add_run(expansion, call, run, params, None)  # type: ignore[arg-type]

    patch.setattr(sub_plans._Expansion, "_add_run", unasked)  # pyright: ignore[reportPrivateUsage]


def _an_optional_sub_plan_fails(patch: Patch) -> None:
    def none(*_: object) -> list[object]:
        return []

    patch.setattr(sub_plans, "_present", none)


def _a_loop_goes_on_where_its_condition_holds(patch: Patch) -> None:
    whens = sub_plans._whens_of_run  # pyright: ignore[reportPrivateUsage]

    def without_until(step: StepId, number: int, repeat: Repeat, when: str | None) -> list[str]:
        return whens(step, number, repeat, when)[:-1]

    patch.setattr(sub_plans, "_whens_of_run", without_until)


def _a_loop_gives_the_result_of_its_first_run(patch: Patch) -> None:
    last_result = sub_plans._last_result  # pyright: ignore[reportPrivateUsage]

    def first(step: Step, repeat: Repeat) -> Step:
        params = {"result": f"${{steps.`{step.id}.1`}}"}
        return last_result(step, repeat).model_copy(update={"params": params})

    patch.setattr(sub_plans, "_last_result", first)


def _data_chooses_among_all_tools(patch: Patch) -> None:
    def known(names: Collection[str], tools: Mapping[str, Tool]) -> dict[str, Tool]:
        parts = {name: tool for name, tool in tools.items() if name in TOOLS}
        union = dispatch_signature("any", [tool.signature for tool in parts.values()])
        return {
            name: dispatch_tool(union.model_copy(update={"name": name}), parts) for name in names
        }

    patch.setattr(driver, "dispatch_tools", known)


def _a_chosen_write_is_taken_for_a_read(patch: Patch) -> None:
    made = dispatch.dispatch_signature

    def reading(name: str, tools: Sequence[ToolSignature]) -> ToolSignature:
        return made(name, tools).model_copy(update={"effects": frozenset({"read"})})

    patch.setattr(dispatch, "dispatch_signature", reading)


def _a_patch_keeps_no_items(patch: Patch) -> None:
    patch.setattr(driver, "kept_items", _nothing)


def _a_patch_repeats_writes(patch: Patch) -> None:
    patch.setattr(rules.CallRules, "_write_of_superseded", _never)


def _a_retry_does_not_see_what_a_patch_did(patch: Patch) -> None:
    def alone(_: rules.RunSoFar, step: StepId) -> list[StepId]:
        return [step]

    patch.setattr(rules.RunSoFar, "line_of", alone)


def _people_are_asked_about_what_a_patch_keeps(patch: Patch) -> None:
    def is_taken_over(call_rules: rules.CallRules, call: ScheduledCall) -> bool:
        past = call_rules._taken_over(call)  # pyright: ignore[reportPrivateUsage]
        return past is not None and past.ending is not None

    patch.setattr(rules.CallRules, "is_taken_over", is_taken_over)


def _gates_block_nothing(patch: Patch) -> None:
    patch.setattr(GateRecord, "has_failed", property(lambda _: False))


def _a_gate_that_warns_blocks(patch: Patch) -> None:
    def any_failed(gates: tuple[GateRecord, ...]) -> GateRecord | None:
        return next((gate for gate in gates if gate.has_failed), None)

    patch.setattr(scheduler, "blocking_gate", any_failed)


def _a_gate_without_items_warns(patch: Patch) -> None:
    no_items = verifier._no_items_record  # pyright: ignore[reportPrivateUsage]

    def warned(*gate: Any) -> GateRecord:
        return replace(no_items(*gate), severity="warn")

    patch.setattr(verifier, "_no_items_record", warned)


def _nothing_is_blocked(patch: Patch) -> None:
    patch.setattr(scheduler.StepReadiness, "_blocked", _never)


def _a_list_is_done_whatever_fails(patch: Patch) -> None:
    def is_done(fan: FanOut) -> tuple[str, Json, None]:
        succeeded = [ending for ending in fan.ended if ending.status != "failed"]
        return "ok", [ending.output for ending in succeeded], None

    patch.setattr(calls, "fan_out_result", is_done)


def _what_other_calls_did_is_forgotten(patch: Patch) -> None:
    def none_more(undone: object, *_: object) -> object:
        return undone

    patch.setattr(state, "_with_undone", none_more)


def _case(
    steps: tuple[ModelStep, ...],
    outcomes: tuple[Outcome, ...],
    parts: tuple[DrawnPart, ...],
) -> DrawnCase:
    return DrawnCase(ModelPlan(steps), outcomes, parts)


_WRITE_THEN_FAIL = (ModelStep("a", "post", 1), ModelStep("b", "look", "a"))

_LOOKING = ModelStep("a", "look", 1)
_COMPUTING = ModelStep("a", "compute", 1)
_FETCHING = ModelStep("a", "fetch", 1)
_ASKING = ModelStep("a", "post", 1, approval=True)
_UNANSWERED = DrawnPart(answers={"a": "wait"})
_RETRY_OF_A = (DrawnPart(), DrawnPart(kind="retry", named="a"))
_IS_EVEN = Condition("even", "a")
_IS_ODD = Condition("even", "a", is_negated=True)


def _planned(plan: ModelPlan, *outcomes: Outcome) -> DrawnCase:
    return DrawnCase(plan, outcomes, (DrawnPart(),))


def _called(*steps: ModelStep, most: int = 1) -> ModelStep:
    """Return the step `a` that calls these as a sub-plan."""
    return ModelStep("a", "", 1, sub_plan=SubPlan(steps, most))


def _gated(gate: ModelGate) -> ModelStep:
    """Return a step whose number is odd."""
    return replace(_LOOKING, gate=gate)


_CHOSEN = ModelStep(
    "a",
    "dispatch.look.post",
    items=(Chosen("look", 1), Chosen("post", 2), Chosen("fetch", 3)),
    min_ok=1,
    tools=("look", "post"),
)
_CHARGES = ModelStep("a", "post", items=(1, 2))
_LATE_LOOK = ModelStep("b", "look", "a")
_PATCH_OF_FAILED = DrawnPart(kind="recover", named="a", only_failed=True)

CASES: dict[str, tuple[Callable[[Patch], None], DrawnCase]] = {
    "equal calls of every reading tool are made once": (
        _equal_calls_of_every_reading_tool_are_made_once,
        _case((ModelStep("a", "look", items=(1, 1, 1)),), (), (DrawnPart(),)),
    ),
    "equal calls are never made once": (
        _equal_calls_are_never_made_once,
        _case((ModelStep("a", "compute", items=(1, 1)),), (), (DrawnPart(),)),
    ),
    "what asks a person is shared": (
        _what_asks_a_person_is_shared,
        _case(
            (
                ModelStep("a", "compute", 1, approval=True),
                ModelStep("b", "compute", 1, approval=True),
            ),
            (),
            (DrawnPart(),),
        ),
    ),
    "what has ended is called again": (
        _what_has_ended_is_called_again,
        _case(
            _WRITE_THEN_FAIL, (), (DrawnPart(stop_after=6, is_killed=True), DrawnPart(version=2))
        ),
    ),
    "what cannot be read is kept": (
        _what_cannot_be_read_is_kept,
        _case(
            (ModelStep("a", "look", 1), ModelStep("b", "put", "a")),
            (),
            (
                DrawnPart(stop_after=5, is_killed=True),
                DrawnPart(unreadable=frozenset({"look"})),
            ),
        ),
    ),
    "a retry takes nothing over": (
        _a_retry_takes_nothing_over,
        _case(_WRITE_THEN_FAIL, ("ok", "fail"), (DrawnPart(), DrawnPart(kind="retry"))),
    ),
    "a retry looks at the last run only": (
        _a_retry_looks_at_the_last_run_only,
        _case(
            _WRITE_THEN_FAIL,
            ("ok", "fail"),
            (
                DrawnPart(),
                DrawnPart(kind="retry", stop_after=1, is_killed=True),
                DrawnPart(kind="retry"),
            ),
        ),
    ),
    "items are matched by place": (
        _items_are_matched_by_place,
        _case(
            (ModelStep("a", "post", items=(1, 2, 3)), ModelStep("b", "look", 1)),
            (),
            (DrawnPart(), DrawnPart(kind="retry", items={"a": (3, 1, 2)})),
        ),
    ),
    "what other calls did is forgotten": (
        _what_other_calls_did_is_forgotten,
        _case(
            (
                ModelStep("a", "post", items=(1,), optional=True, min_ok=0),
                ModelStep("b", "post", "a"),
            ),
            (),
            (
                DrawnPart(version=2),
                DrawnPart(version=1, unreadable=frozenset({"post"})),
                DrawnPart(kind="retry", version=2),
            ),
        ),
    ),
    "a retry keeps what it cannot read": (
        _what_cannot_be_read_is_kept,
        _case(
            (_LOOKING,),
            (),
            (DrawnPart(), DrawnPart(kind="retry", unreadable=frozenset({"look"}))),
        ),
    ),
    "nothing is blocked": (
        _nothing_is_blocked,
        _case((_LOOKING, ModelStep("b", "post", "a")), ("fail",), (DrawnPart(),)),
    ),
    "a list is done whatever fails": (
        _a_list_is_done_whatever_fails,
        _case(
            (ModelStep("a", "look", items=(1, 2)), ModelStep("b", "post", "a")),
            ("ok", "fail"),
            (DrawnPart(),),
        ),
    ),
    "an unclear write is repeated": (
        _an_unclear_write_is_repeated,
        _case(
            (ModelStep("a", "post", 1),), (), (DrawnPart(stop_after=2, is_killed=True), DrawnPart())
        ),
    ),
    "a retry repeats an unclear write": (
        _a_retry_repeats_an_unclear_write,
        _case((ModelStep("a", "post", 1),), ("late",), (DrawnPart(), DrawnPart(kind="retry"))),
    ),
    "a late write is tried again": (
        _a_late_write_is_tried_again,
        _case(
            (ModelStep("a", "post", 1, attempts=3, retries_unclear=True),),
            ("late",),
            (DrawnPart(),),
        ),
    ),
    "a write that broke off is tried again": (
        _a_write_that_broke_off_counts_as_not_made,
        _case((ModelStep("a", "post", 1, attempts=3),), ("broken",), (DrawnPart(),)),
    ),
    "a retry repeats a write that broke off": (
        _a_write_that_broke_off_counts_as_not_made,
        _case((ModelStep("a", "post", 1),), ("broken",), (DrawnPart(), DrawnPart(kind="retry"))),
    ),
    "nobody is asked": (
        _nobody_is_asked,
        _case(
            (ModelStep("a", "post", 1, approval=True),), (), (DrawnPart(answers={"a": "refuse"}),)
        ),
    ),
    "the id of a run is enough": (
        _the_id_of_a_run_is_enough,
        _case((ModelStep("a", "put", items=(1,)),), (), (DrawnPart(items={"a": (2,)}),)),
    ),
    "a patched run is of another plan": (
        _a_patched_run_is_of_another_plan,
        _case(
            (ModelStep("a", "look", 1),),
            (),
            (DrawnPart(), DrawnPart(kind="recover", named="a")),
        ),
    ),
    "a retry calls with old code too": (
        _a_retry_calls_with_old_code_too,
        _case(
            (ModelStep("a", "look", 1), ModelStep("b", "post", 2)),
            (),
            (DrawnPart(), DrawnPart(kind="retry", version=2)),
        ),
    ),
    "failures are tried again": (
        _failures_are_tried_again,
        _case((ModelStep("a", "look", 1),), ("fail",), (DrawnPart(), DrawnPart())),
    ),
    "a list that cannot be read is kept": (
        _what_cannot_be_read_is_kept,
        _case(
            (ModelStep("a", "look", items=(1, 2)),),
            (),
            (DrawnPart(), DrawnPart(unreadable=frozenset({"look"}))),
        ),
    ),
    "a retry repeats the named step alone": (
        _a_retry_repeats_the_named_step_alone,
        _case(
            (ModelStep("a", "compute", 1), ModelStep("b", "post", 1, (_IS_EVEN,))), (), _RETRY_OF_A
        ),
    ),
    "a retry repeats no steps of sub-plans": (
        _a_retry_repeats_no_steps_of_sub_plans,
        _case((_called(ModelStep("x", "post", 1)),), (), _RETRY_OF_A),
    ),
    "nobody can have an unclear write repeated": (
        _nobody_can_have_an_unclear_write_repeated,
        _case(
            (ModelStep("a", "post", 1),),
            ("late",),
            (DrawnPart(), DrawnPart(kind="retry", again=frozenset({"a"}))),
        ),
    ),
    "what returned something else counts as not made": (
        _what_returned_something_else_counts_as_not_made,
        _case((ModelStep("a", "post", 1),), ("misfit",), (DrawnPart(), DrawnPart(kind="retry"))),
    ),
    "writes are not announced": (
        _writes_are_not_announced,
        _case(
            (ModelStep("a", "post", 1),), (), (DrawnPart(stop_after=1, is_killed=True), DrawnPart())
        ),
    ),
    "no timeout ends a call": (
        _no_timeout_ends_a_call,
        _case((ModelStep("a", "post", 1),), ("late",), (DrawnPart(),)),
    ),
    "transient failures are tried again without end": (
        _transient_failures_are_tried_again_without_end,
        _case((ModelStep("a", "look", 1),), ("transient",), (DrawnPart(),)),
    ),
    "unclear writes are refused before a person is asked": (
        _unclear_writes_are_refused_before_a_person_is_asked,
        _case(
            (_ASKING,), ("late",), (DrawnPart(), DrawnPart(kind="retry", answers={"a": "refuse"}))
        ),
    ),
    "answers are forgotten": (
        _answers_are_forgotten,
        _case((_ASKING,), (), (DrawnPart(stop_after=2, is_killed=True), DrawnPart())),
    ),
    "an answer to another question counts": (
        _an_answer_to_another_question_counts,
        _case(
            (_ASKING,),
            (),
            (_UNANSWERED, replace(_UNANSWERED, kind="new"), replace(_UNANSWERED, left="stale")),
        ),
    ),
    "an answer counts for ever": (
        _an_answer_counts_for_ever,
        _case((_ASKING,), (), (_UNANSWERED, replace(_UNANSWERED, left="open", pause=100_000))),
    ),
    "an answer is bound to the step alone": (
        _an_answer_is_bound_to_the_step_alone,
        _case(
            (ModelStep("a", "look", items=(1, 2), approval=True),),
            ("ok", "fail"),
            (
                DrawnPart(),
                replace(_UNANSWERED, kind="retry"),
                replace(_UNANSWERED, left="open", version=2),
            ),
        ),
    ),
    "a result of other code is reused": (
        _a_result_of_other_code_is_reused,
        _case((_FETCHING,), (), (DrawnPart(), DrawnPart(kind="new", version=2))),
    ),
    "a result is reused in another stretch of the clock": (
        _a_result_is_reused_in_another_stretch_of_the_clock,
        _case((_FETCHING,), (), (DrawnPart(), DrawnPart(kind="new", pause=1_000))),
    ),
    "a result is reused for ever": (
        _a_result_is_reused_for_ever,
        _case(
            (_FETCHING,),
            (),
            (
                DrawnPart(),
                DrawnPart(kind="new", stop_after=1, is_killed=True),
                DrawnPart(pause=5_000),
            ),
        ),
    ),
    "a run without a cache reuses a result": (
        _a_result_is_reused_for_ever,
        _case((_FETCHING,), (), (DrawnPart(), DrawnPart(kind="new", takes_stored=False))),
    ),
    "a run reuses a result of its own": (
        _a_result_is_reused_for_ever,
        _case((_FETCHING, ModelStep("b", "fetch", 1, (_IS_ODD,))), (), (DrawnPart(),)),
    ),
    "a named step takes a stored result": (
        _a_named_step_takes_a_stored_result,
        _case((_FETCHING,), (), _RETRY_OF_A),
    ),
    "names are not put in": (
        _names_are_not_put_in,
        _planned(ModelPlan((_LOOKING, ModelStep("b", "look", "of_a")), {"of_a": "a"})),
    ),
    "nothing is stopped": (
        _nothing_is_stopped,
        _planned(ModelPlan((_COMPUTING, ModelStep("b", "look", "a")), stop="a")),
    ),
    "only what reads the step directly is stopped": (
        _only_what_reads_the_step_directly_is_stopped,
        _planned(
            ModelPlan(
                (_COMPUTING, ModelStep("b", "look", "a"), ModelStep("c", "look", "b")), stop="a"
            )
        ),
    ),
    "a stopped run has its own result": (
        _a_stopped_run_has_its_own_result,
        _planned(ModelPlan((_COMPUTING, ModelStep("b", "look", "a")), stop="a", result="b")),
    ),
    "a sub-plan runs without its condition": (
        _a_sub_plan_runs_without_its_condition,
        _planned(ModelPlan((_LOOKING, replace(_called(_LOOKING), id="b", conditions=(_IS_EVEN,))))),
    ),
    "an optional sub-plan fails": (
        _an_optional_sub_plan_fails,
        _planned(
            ModelPlan((replace(_called(_LOOKING, ModelStep("y", "look", "a")), optional=True),)),
            "fail",
        ),
    ),
    "a loop goes on where its condition holds": (
        _a_loop_goes_on_where_its_condition_holds,
        _planned(ModelPlan((_called(_COMPUTING, most=2),))),
    ),
    "a loop gives the result of its first run": (
        _a_loop_gives_the_result_of_its_first_run,
        _planned(ModelPlan((_called(_LOOKING, most=2),), result="a")),
    ),
    "gates block nothing": (
        _gates_block_nothing,
        _planned(ModelPlan((_gated(ModelGate()), ModelStep("b", "look", "a")))),
    ),
    "a gate that warns blocks": (
        _a_gate_that_warns_blocks,
        _planned(ModelPlan((_gated(ModelGate("warn")), ModelStep("b", "look", "a")))),
    ),
    "a gate without items warns": (
        _a_gate_without_items_warns,
        _planned(
            ModelPlan(
                (
                    ModelStep("a", "look", items=(), gate=ModelGate(on_empty="block")),
                    ModelStep("b", "look", 1, (_IS_EVEN,)),
                )
            )
        ),
    ),
    "data chooses among all tools": (
        _data_chooses_among_all_tools,
        _case((_CHOSEN,), (), (DrawnPart(),)),
    ),
    "a chosen write is taken for a read": (
        _a_chosen_write_is_taken_for_a_read,
        _case(
            (replace(_CHOSEN, attempts=3, retries_unclear=True),), ("ok", "late"), (DrawnPart(),)
        ),
    ),
    "a patch keeps no items": (
        _a_patch_keeps_no_items,
        _case((replace(_CHARGES, tool="look"),), ("ok", "fail"), (DrawnPart(), _PATCH_OF_FAILED)),
    ),
    "a patch repeats writes": (
        _a_patch_repeats_writes,
        _case(
            (_CHARGES,), ("ok", "fail"), (DrawnPart(), replace(_PATCH_OF_FAILED, only_failed=False))
        ),
    ),
    "a retry does not see what a patch did": (
        _a_retry_does_not_see_what_a_patch_did,
        _case(
            (_CHARGES, _LATE_LOOK),
            ("ok", "fail", "ok", "fail"),
            (DrawnPart(), _PATCH_OF_FAILED, DrawnPart(kind="retry")),
        ),
    ),
    "people are asked about what a patch keeps": (
        _people_are_asked_about_what_a_patch_keeps,
        _case(
            (replace(_CHARGES, tool="look", approval=True),),
            ("ok", "fail"),
            (DrawnPart(), _PATCH_OF_FAILED),
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_broken_rule_is_found(name: str, monkeypatch: Patch) -> None:
    break_rule, case = CASES[name]
    anyio.run(hold_against_model, case)

    break_rule(monkeypatch)

    with pytest.raises(NotAllowedError):
        anyio.run(hold_against_model, case)


def _what_is_taken_over_last_serves(patch: Patch) -> None:
    def newness(_: rules.FinishedCall) -> int:
        return 0

    patch.setattr(rules, "_newness", newness)


def _no_call_outlives_its_process(patch: Patch) -> None:
    async def is_running(*_: object) -> bool:
        return False

    patch.setattr(calls.CallRunner, "_is_running", is_running)


def _no_answer_is_looked_for(patch: Patch) -> None:
    async def look(*_: object) -> None:
        pass

    patch.setattr(scheduler.Scheduler, "_look_for_reply", look)
    patch.setattr(test_answers_meanwhile, "_PATIENCE_SECONDS", 0.5)


@pytest.mark.parametrize(
    ("break_rule", "check"),
    [
        pytest.param(
            _what_is_taken_over_last_serves,
            partial(
                test_rules.test_of_equal_calls_one_of_this_run_serves_before_one_of_a_run_before,
                is_resumed=False,
            ),
            id="the latest serves",
        ),
        pytest.param(
            _no_call_outlives_its_process,
            partial(
                test_resume.test_a_write_of_a_killed_process_is_waited_for_where_it_outlived_it,
                outlives=True,
                called=["w", "after"],
                ended={"w": "ok", "after": "ok"},
            ),
            id="outlived",
        ),
    ],
)
def test_a_rule_that_no_drawn_case_breaks_has_a_test_that_finds_it(
    break_rule: Callable[[Patch], None],
    check: Callable[[], Awaitable[None]],
    monkeypatch: Patch,
) -> None:
    anyio.run(check)

    break_rule(monkeypatch)

    with pytest.raises(AssertionError):
        anyio.run(check)


def test_a_run_that_looks_for_no_answer_meanwhile_is_found(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    check = (
        test_answers_meanwhile.test_one_question_after_the_other_is_answered_while_another_step_runs
    )
    _no_answer_is_looked_for(monkeypatch)

    with pytest.raises(ExceptionGroup) as caught:
        anyio.run(check, "approve", tmp_path, monkeypatch)

    assert caught.group_contains(TimeoutError)
