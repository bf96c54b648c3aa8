"""What a person who is asked for approval is shown: each call with its arguments as they are known now.

An argument is *known* as far as it reads inputs, `now()`, the outputs of finished steps, or the items of a `for_each`
that reads nothing else. What depends on a step that has not finished is shown as written, with the step's name.
Secrets are redacted, and no argument is shown at more than 4,000 characters.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from wavewright.config.redaction import Redactor
from wavewright.executor.state import RunState
from wavewright.planner.expressions import ExpressionError, evaluate
from wavewright.planner.models import Plan, Step
from wavewright.planner.references import reads, render
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.evidence import superseded_steps
from wavewright.reviewer.scope import plan_scope

_MAX_CHARS = 4_000
"""Characters of one argument."""
_MAX_ITEMS = 20
"""Calls of one step that are shown."""


@dataclass(slots=True)
class CallDescriptions:
    """Describes the calls of a plan's steps, as far as a run has come."""

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
        """Yield what a step calls, with its arguments, one line each."""
        if step.for_each is None:
            yield f"{step.id} calls {step.tool} with"
            yield from self._arguments(step, self._scope)
            return
        items, awaited = self._resolved(step.for_each, self._scope)
        if awaited or not isinstance(items, list):
            yield f"{step.id} calls {step.tool} for each of {self._shown(step.for_each, self._scope)} with"
            yield from self._arguments(step, self._scope)
            return
        yield f"{step.id} calls {step.tool} {len(items):,} times"
        for index, item in enumerate(items[:_MAX_ITEMS]):
            yield f"  {index + 1}. with"
            yield from self._arguments(step, {**self._scope, "item": item, "index": index})
        if len(items) > _MAX_ITEMS:
            yield f"  and {len(items) - _MAX_ITEMS:,} more times"

    def _arguments(self, step: Step, scope: JsonObject) -> Iterator[str]:
        for name, value in step.params.items():
            yield f"    {name}: {self._shown(value, scope)}"

    def _shown(self, value: Json, scope: JsonObject) -> str:
        """Return a value with what is known of it put in, and what it waits for behind it."""
        found, awaited = self._resolved(value, scope)
        text = self.redactor.redact(json.dumps(found, ensure_ascii=False))
        if len(text) > _MAX_CHARS:
            text = f"{text[:_MAX_CHARS]}… ({len(text):,} characters in all)"
        return f"{text}  (known when {' and '.join(awaited)})" if awaited else text

    def _resolved(self, value: Json, scope: JsonObject) -> tuple[Json, list[str]]:
        """Return a value with each expression that is known replaced, and what must happen before the rest is."""
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
        """Return what must happen before an expression is known; nothing where it is known."""
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
