"""The reference model finds each rule that is broken on purpose; without that it would prove
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest

from tests.model.driver import DrawnCase, DrawnPart, hold_against_model
from tests.model.interpreter import NotAllowedError, Outcome
from tests.model.plans import ModelPlan, ModelStep
from wavewright.executor.run import calls, rules
from wavewright.executor.run.failures import AttemptFailure, may_retry
from wavewright.executor.run.program import CompiledStep, CompiledTool
from wavewright.executor.run.scheduled_calls import ScheduledCall
from wavewright.planner.language.plan import Step
from wavewright.planner.language.signatures import ToolSignature

Patch = pytest.MonkeyPatch


def _always(*_: object, **__: object) -> bool:
    return True


def _never(*_: object, **__: object) -> None:
    return None


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

    def newest(source: rules.ReuseSource, call: ScheduledCall) -> rules.PastCall | None:
        return last(rules.ReuseSource(source.chain[:1], source.anew, source.again), call)

    patch.setattr(rules.ReuseSource, "last", newest)


def _items_are_matched_by_place(patch: Patch) -> None:
    past_call = rules._past_call  # pyright: ignore[reportPrivateUsage]

    def by_place(retried: rules.RetriedRun, call: ScheduledCall, keys: list[str]) -> object:
        items = retried.state.items.get(call.step.id)
        if call.item is None or items is None:
            return past_call(retried, call, keys)  # type: ignore[arg-type]
        ending = items.get(call.item)
        is_same = ending is not None and ending.key in keys
        return rules.PastCall(retried.run, ending) if is_same else None

    patch.setattr(rules, "_past_call", by_place)


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


def _nobody_is_asked(patch: Patch) -> None:
    patch.setattr(rules.CallRules, "_needs_person", _never)


def _a_retry_calls_with_old_code_too(patch: Patch) -> None:
    last = rules.ReuseSource.last

    def by_any_code(source: rules.ReuseSource, call: ScheduledCall) -> rules.PastCall | None:
        chain = tuple(replace(retried, changed=frozenset[str]()) for retried in source.chain)
        return last(rules.ReuseSource(chain, source.anew, source.again), call)

    patch.setattr(rules.ReuseSource, "last", by_any_code)


def _case(
    steps: tuple[ModelStep, ...],
    outcomes: tuple[Outcome, ...],
    parts: tuple[DrawnPart, ...],
) -> DrawnCase:
    return DrawnCase(ModelPlan(steps), outcomes, parts)


_WRITE_THEN_FAIL = (ModelStep("a", "post", 1), ModelStep("b", "look", "a"))

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
            (ModelStep("a", "post", 1, attempts=3, retries_late=True),), ("late",), (DrawnPart(),)
        ),
    ),
    "nobody is asked": (
        _nobody_is_asked,
        _case(
            (ModelStep("a", "post", 1, approval=True),), (), (DrawnPart(answers={"a": "refuse"}),)
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
}


@pytest.mark.parametrize("name", CASES)
def test_a_broken_rule_is_found(name: str, monkeypatch: Patch) -> None:
    break_rule, case = CASES[name]
    anyio.run(hold_against_model, case)

    break_rule(monkeypatch)

    with pytest.raises(NotAllowedError):
        anyio.run(hold_against_model, case)
