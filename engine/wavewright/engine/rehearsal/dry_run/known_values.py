"""What is known of a run before its steps are called: values, items, and steps that are left out.

A value is *known* where all that it reads is known: the inputs, the previous run, the outputs that
a begun run keeps, and which steps are *absent*, since their conditions are known to be false. A
condition that is not known counts as true.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wavewright.planner import (
    ExpressionError,
    Json,
    JsonObject,
    Plan,
    PlanGraph,
    Step,
    StepId,
    evaluate,
    render,
)
from wavewright.planner.cel.embedded import bare_expression, reads
from wavewright.planner.cel.plain_paths import Read
from wavewright.planner.plans.uses import asks_each_item


@dataclass(frozen=True, slots=True)
class KnownValues:
    """What is known of a run of one plan."""

    plan: Plan
    """Bound to its goal."""
    now: dt.datetime
    outputs: Mapping[StepId, Json] = field(default_factory=dict[StepId, Json])
    """Of the steps that a begun run keeps."""
    absent: frozenset[StepId] = frozenset()
    """Steps that their readers find absent: skipped in these inputs, or at an end without output."""

    def with_skipped_steps(self) -> KnownValues:
        """Return the same with the steps whose conditions are known to be false as absent ones."""
        known = self
        graph = PlanGraph.of(self.plan)
        # In the order of the graph: a condition may ask whether a step before it is there.
        for step_id in graph.order():
            if known.is_skipped(graph.steps[step_id]):
                known = replace(known, absent=known.absent | {step_id})
        return known

    def is_skipped(self, step: Step) -> bool:
        """Whether the condition of a step is known to be false."""
        if step.when is None or asks_each_item(step):
            return False
        return self._holds(step.when) is False

    def count_calls(self, step: Step) -> int | None:
        """Return the number of calls of a step that is not skipped; None where it depends on an
        output.
        """
        chosen = self.chosen_items(step)
        if chosen is not None:
            return len(chosen)
        # The items of a list that stands in the plan can be counted before they are known.
        return len(step.for_each) if isinstance(step.for_each, list) else None

    def chosen_items(self, step: Step) -> dict[int, Json] | None:
        """Return the items that a step is called for, by their positions in its list; None where
        the list is not known. A step without `for_each` is called once, for no item.
        """
        if step.for_each is None:
            return {0: None}
        items = self._value(step.for_each)
        if not isinstance(items, list):
            return None
        if step.when is None or not asks_each_item(step):
            return dict(enumerate(items))
        condition = step.when
        return {
            index: item
            for index, item in enumerate(items)
            if self._holds(condition, {"item": item, "index": index}) is not False
        }

    def _holds(self, condition: str, variables: JsonObject | None = None) -> Json:
        """Return what a condition gives; None where that is not known."""
        try:
            return self._evaluate(bare_expression(condition).expression, variables or {})
        except (ExpressionError, _NotKnownError):
            return None

    def _value(self, value: Json) -> Json:
        """Return a value with its references filled in; None where one of them is not known."""
        try:
            return render(value, lambda expression: self._evaluate(expression, {}))
        except (ExpressionError, _NotKnownError):
            return None

    def _evaluate(self, expression: str, variables: JsonObject) -> Json:
        """Return the value of an expression.

        Raises:
            _NotKnownError: it reads what only the run knows.
            ExpressionError: it has no value.
        """
        if not all(self._is_known(read, variables) for read in reads(expression)):
            raise _NotKnownError
        steps: JsonObject = {str(step): output for step, output in self.outputs.items()}
        return evaluate(expression, {**self.plan.scope(steps), **variables}, self.now)

    def _is_known(self, read: Read, variables: JsonObject) -> bool:
        if read.root == "steps":
            return read.name in self.outputs or read.name in self.absent
        return read.root in {"inputs", "previous"} or read.root in variables


class _NotKnownError(Exception):
    """A value is known only in the run."""
