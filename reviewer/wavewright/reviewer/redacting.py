"""What may leave a run of what its steps brought: everything but secrets.

The run itself, its gates and its review work with the outputs as they are. What is shown of them, in package, page
and summary, is made from a state whose outputs, errors and gates hold `[redacted]` in place of whatever looks like a
secret, so that a package is the same from the live run and from its journal.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from immutables import Map

from wavewright.executor.journaled import OutputRedactor
from wavewright.executor.state import RunState
from wavewright.planner.types import Json
from wavewright.reviewer.records import ReviewResult


class RedactedRun:
    """One run as it may be shown."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._redactor = OutputRedactor()
        for record in state.steps.values():
            self._redactor.learn_secrets(record.output)

    @cached_property
    def state(self) -> RunState:
        """The state without secrets."""
        told, state = self._redactor.redact_event, self._state
        steps = {name: told(record) for name, record in state.steps.items()}
        items = {
            name: Map({index: told(item) for index, item in records.items()})
            for name, records in state.items.items()
        }
        faults = {call: told(fault) for call, fault in state.faults.items()}
        return replace(state, steps=Map(steps), items=Map(items), faults=Map(faults))

    def value(self, value: Json) -> Json:
        """Return a value that was put together from outputs, without secrets."""
        return self._redactor.redact_output(value)

    def review(self, review: ReviewResult) -> ReviewResult:
        """Return a review without secrets in what it says."""
        return ReviewResult.model_validate(self._redactor.redact_texts(review.model_dump(mode="json")))
