"""The calls of a step as a person is shown them who is to approve them.

A step that is ready is shown with the resolved parameters of each call, as they will be sent, and
all of them: what looks like a secret may be the address of somebody else, and what is cut off may
be the worst of it. Only the project's own keys are redacted. What has changed since the last
question about the step is marked. A patch is shown with parameters as far as they are known: what
depends on a step that has not finished is shown as written, with the step's name.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from wavewright.config.redaction import Redactor
from wavewright.engine.run.decisions.approvals import APPROVAL_USED, APPROVAL_WANTED
from wavewright.engine.run.ports import RequestedCall
from wavewright.executor import RunState
from wavewright.executor.run.ports import ReadyCalls
from wavewright.planner import (
    ExpressionError,
    Json,
    JsonObject,
    Plan,
    Step,
    StepId,
    as_object,
    evaluate,
    render,
)
from wavewright.planner.cel.embedded import reads
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.plans.graph import superseded_steps
from wavewright.reviewer.review.results import plan_scope

FOLDED_CHARS: Final = 400
"""Characters of a line that a terminal shows before the line is folded."""


def folded_line(line: str) -> str:
    """Return a line as a terminal shows it at first: the middle of a long one with a count in its
    place.
    """
    if len(line) <= FOLDED_CHARS:
        return line
    half = FOLDED_CHARS // 2
    return f"{line[:half]} […{len(line) - FOLDED_CHARS:,} characters more…] {line[-half:]}"


def describe_ready_calls(
    ready: ReadyCalls, redactor: Redactor, earlier: Sequence[JsonObject] | None = None
) -> Iterator[str]:
    """Yield the lines that describe the calls of a ready step with their resolved parameters.

    Args:
        ready: The step and its calls.
        redactor: Knows the project's own keys.
        earlier: The calls that the last question about the step has shown.
    """
    step = ready.step
    times = "with" if step.for_each is None else counted(len(ready.calls), "time")
    yield f"{step.id} calls {step.tool} {times}{_changed_count(ready, earlier)}"
    for number, params in enumerate(ready.calls, start=1):
        before = None
        if earlier is not None:
            before = earlier[number - 1] if number <= len(earlier) else {}
        if step.for_each is not None:
            yield f"  {number}. with"
        for name, value in params.items():
            mark, was = _difference(name, value, before, redactor)
            yield f"  {mark} {name}: {_shown_value(value, redactor)}{was}"
        for name in before or ():
            if name not in params:
                yield f"  - {name}: no longer given"


def _changed_count(ready: ReadyCalls, earlier: Sequence[JsonObject] | None) -> str:
    if earlier is None or len(earlier) == len(ready.calls):
        return ""
    return f" ({len(earlier):,} when it was asked before)"


def _difference(
    name: str, value: Json, before: JsonObject | None, redactor: Redactor
) -> tuple[str, str]:
    """Return the mark of a parameter that has changed, and what it was before."""
    if before is None or (name in before and before[name] == value):
        return " ", ""
    if name not in before:
        return "+", ""
    return "~", f"  (was {_shown_value(before[name], redactor)})"


def _shown_value(value: Json, redactor: Redactor) -> str:
    return redactor.redact_known(json.dumps(value, ensure_ascii=False))


def calls_shown_before(state: RunState, step: Step) -> tuple[JsonObject, ...] | None:
    """Return the calls that the last question about a step has shown, or about one that it
    supersedes; None where there was none.
    """
    same = {step.id, step.supersedes}
    for noted in reversed(state.notes):
        binding = noted.body.get("binding")
        if noted.topic not in {APPROVAL_WANTED, APPROVAL_USED} or not isinstance(binding, dict):
            continue
        calls = noted.body.get("calls")
        if binding.get("step") in same and isinstance(calls, list):
            return tuple(map(as_object, calls))
    return None


@dataclass(slots=True)
class CallDescriptions:
    """Describes the calls of a plan's steps with the outputs of a run so far."""

    plan: Plan
    state: RunState
    now: dt.datetime
    redactor: Redactor
    _replaced: Mapping[StepId, StepId] = field(init=False)
    _scope: JsonObject = field(init=False)

    def __post_init__(self) -> None:
        self._replaced = superseded_steps(self.plan)
        self._scope = plan_scope(self.plan, self.state)

    def lines(self, step: Step) -> Iterator[str]:
        """Yield the lines that describe a step's calls and their arguments."""
        if step.for_each is None:
            yield f"{step.id} calls {step.tool} with"
            yield from self._arguments(step, self._scope)
            return
        items, awaited = self._resolved(step.for_each, self._scope)
        if awaited or not isinstance(items, list):
            yield f"{step.id} calls {step.tool} for each of {self._shown(step.for_each, self._scope)} with"
            yield from self._arguments(step, self._scope)
            return
        yield f"{step.id} calls {step.tool} {counted(len(items), 'time')}"
        for index, item in enumerate(items):
            yield f"  {index + 1}. with"
            yield from self._arguments(step, {**self._scope, "item": item, "index": index})

    def requested(self, step: Step) -> Iterator[RequestedCall]:
        """Yield a step's calls with their arguments, as far as these are known."""
        items: Json = None
        if step.for_each is not None:
            items, awaited = self._resolved(step.for_each, self._scope)
            items = None if awaited else items
        if not isinstance(items, list):
            yield self._requested(step, self._scope)
            return
        for index, item in enumerate(items):
            yield self._requested(step, {**self._scope, "item": item, "index": index})

    def _requested(self, step: Step, scope: JsonObject) -> RequestedCall:
        params, awaited = self._resolved(dict(step.params), scope)
        return RequestedCall(step.id, step.tool, as_object(params), tuple(awaited))

    def _arguments(self, step: Step, scope: JsonObject) -> Iterator[str]:
        for name, value in step.params.items():
            yield f"    {name}: {self._shown(value, scope)}"

    def _shown(self, value: Json, scope: JsonObject) -> str:
        """Return a value with known expressions evaluated, followed by what must happen before the
        rest is known.
        """
        resolved, awaited = self._resolved(value, scope)
        text = _shown_value(resolved, self.redactor)
        return f"{text}  (known when {' and '.join(awaited)})" if awaited else text

    def _resolved(self, value: Json, scope: JsonObject) -> tuple[Json, list[str]]:
        """Return a value with known expressions evaluated, and what must happen before the others
        are known.
        """
        awaited: list[str] = []

        def known_or_written(expression: str) -> Json:
            try:
                if not (waits := self._unresolved(expression, scope)):
                    return evaluate(expression, scope, self.now)
            except ExpressionError:
                waits = ["it is called"]
            awaited.extend(waits)
            return f"${{{expression}}}"

        try:
            return render(value, known_or_written), list(dict.fromkeys(awaited))
        except ExpressionError:
            return value, ["it is called"]

    def _unresolved(self, expression: str, scope: JsonObject) -> list[str]:
        """Return what must happen before an expression is known; empty where it is known."""
        awaited: list[str] = []
        for read in reads(expression):
            if read.root in {"item", "index"} and read.root not in scope:
                awaited.append("the items are")
            elif read.root == "steps":
                awaited += self._unfinished(read.name)
        return awaited

    def _unfinished(self, name: str | None) -> Iterator[str]:
        if name is None:
            yield "the steps before it have run"
            return
        step = self._replaced.get(StepId(name), StepId(name))
        if step not in self.state.steps:
            yield f"step {step!r} has run"
