"""Views of a run that a test made: statuses, outputs, gates, calls, review and package.

The views of the review and the package are of the latest run: a test may get them before it runs
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wavewright.engine.interfaces.api.plan_run import PlanRun
from wavewright.engine.interfaces.testing.doubles import Call
from wavewright.engine.interfaces.testing.project import (
    Claim,
    ExplainedNumber,
    ExplainedText,
    PlanView,
    assertion_failure,
    unknown_name,
)
from wavewright.engine.run.context import RunContext
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.executor import Event, GateRecord, StepFinished
from wavewright.executor.events.state import blocking_gate
from wavewright.planner import Json, StepId
from wavewright.reviewer import Package, ReviewResult
from wavewright.reviewer.records import CapRecord, OutputDocument, RecoveryAction


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReviewView:
    """What the reviewer says of a run."""

    read: Callable[[], ReviewResult]

    @property
    def record(self) -> ReviewResult:
        """The whole review."""
        return self.read()

    @property
    def verdict(self) -> ExplainedText:
        """`achieved` or `not_achieved`."""
        review = self.read()
        return ExplainedText("achieved" if review.goal_achieved else "not_achieved", review.summary)

    @property
    def summary(self) -> str:
        """Why, in words."""
        return self.read().summary

    @property
    def missing(self) -> tuple[str, ...]:
        """What is missing from the result."""
        return self.read().missing_data

    @property
    def recovery_actions(self) -> tuple[RecoveryAction, ...]:
        """What would fix it."""
        return self.read().recovery_actions

    @property
    def caps(self) -> tuple[CapRecord, ...]:
        """The caps that lowered a confidence."""
        return tuple(self.read().applied_caps)

    def confidence(self, field: str = "overall") -> ExplainedNumber:
        """Return the capped confidence in a field of the result; in the whole where none is named."""
        __tracebackhide__ = True
        review = self.read()
        known = {confidence.field: confidence for confidence in review.confidences}
        if field in known:
            confidence = known[field]
            return ExplainedNumber(
                confidence.capped,
                f"confidence in {field!r}: " + "; ".join((*confidence.why, *confidence.lowered_by)),
            )
        if field == "overall":
            return ExplainedNumber(review.confidence, review.summary)
        raise unknown_name(field, known, what="confidence", of="the review")

    def __repr__(self) -> str:
        review = self.read()
        return f"<review: {self.verdict}, confidence {review.confidence:g}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackageView:
    """What leaves a run."""

    read: Callable[[], Package]

    @property
    def record(self) -> Package:
        """The whole package."""
        return self.read()

    @property
    def status(self) -> ExplainedText:
        """How the run ended."""
        package = self.read()
        return ExplainedText(package.status, package.ending)

    @property
    def result(self) -> Json:
        """What the run was for."""
        return self.read().result

    @property
    def documents(self) -> tuple[OutputDocument, ...]:
        """The documents, with their tags."""
        return self.read().documents

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources."""
        return tuple(source.name for source in self.read().sources)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the package warns of."""
        return self.read().warnings

    def __repr__(self) -> str:
        package = self.read()
        return f"<package of job {package.job!r}: {package.status}>"


def gate_claim(gate: str, records: tuple[GateRecord, ...]) -> Claim:
    """Return whether a gate passed on every output that it was evaluated on."""
    failed = [record for record in records if record.has_failed]
    shown = failed or records
    lines = [_line(record) for record in shown[:3]]
    if len(shown) > 3:
        lines.append(f"and {len(shown) - 3} more")
    return Claim(not failed, f"gate {gate!r} " + "; ".join(lines))


def _line(record: GateRecord) -> str:
    verdict = {
        "pass": "passed",
        "fail": "failed",
        "error": "could not be evaluated",
        "not_evaluated": "was not evaluated",
    }[record.verdict]
    item = "" if record.index is None else f"[{record.index}]"
    inspected = "" if record.inspected in record.message else record.inspected
    said = ": ".join(part for part in (record.message, inspected) if part)
    return f"{verdict} on {record.step}{item} ({record.severity}s)" + (f": {said}" if said else "")


@dataclass(frozen=True, eq=False, repr=False)
class RunView:
    """A run that has ended."""

    context: RunContext
    """The engine's own record of the run."""
    events: tuple[Event, ...]
    recorded_calls: tuple[Call, ...]
    approvals: tuple[ApprovalRequest, ...]
    """What a person was asked to approve."""
    folder: Path
    """Temporary folder with the run's journal and package."""
    halted: str | None = None
    """Why it ended before a package could be built."""

    @property
    def run(self) -> PlanRun[Json]:
        """The run as `Wavewright.run` returns it."""
        return PlanRun(self.context.state, self.halted, self.context.package)

    @property
    def plan(self) -> PlanView:
        """The plan in force at the end, patches included."""
        __tracebackhide__ = True
        if self.context.plan is None:
            raise assertion_failure(f"{self!r} follows no plan: {self.halted}")
        return PlanView(
            self.context.plan, self.context.goal, self.context.signatures, self.context.diagnostics
        )

    @property
    def verdict(self) -> ExplainedText:
        """`achieved`, `not_achieved`, `failed` or `interrupted`."""
        if self.context.package is not None:
            return self.package.status
        finished = self.context.state.finished
        return ExplainedText(finished.status if finished else "failed", self.halted or "")

    @property
    def review(self) -> ReviewView:
        """What the reviewer says."""
        return ReviewView(self._review)

    @property
    def package(self) -> PackageView:
        """What leaves the run."""
        return PackageView(self._package)

    @property
    def result(self) -> Json:
        """What the run was for."""
        __tracebackhide__ = True
        return self._package().result

    @property
    def statuses(self) -> Mapping[str, str]:
        """How each step ended, in the plan's order."""
        return {step: str(self.status(step)) for step in self._steps()}

    @property
    def outputs(self) -> Mapping[str, Json]:
        """Outputs of the steps that are present to others."""
        present = self.context.state.outputs()
        return {step: present[StepId(step)] for step in self._steps() if step in present}

    def status(self, step_id: str) -> ExplainedText:
        """Return how a step ended; `not_run` where it never ran."""
        __tracebackhide__ = True
        ended = self._ended(step_id)
        if ended is None:
            return ExplainedText("not_run", f"step {step_id!r} never ran")
        return ExplainedText(ended.status, f"step {step_id!r} ended {ended.status}{_reason(ended)}")

    def output(self, step_id: str) -> Json:
        """Return a step's output; a step that readers see none of fails the test."""
        __tracebackhide__ = True
        status = self.status(step_id)
        present = self.context.state.outputs()
        if step_id not in present:
            ended = self._ended(step_id)
            gate = None if ended is None else blocking_gate(ended.gates)
            because = (
                status.why if gate is None else f"gate {gate.gate!r} blocks it: {gate.message}"
            )
            raise assertion_failure(f"step {step_id!r} has no output: {because}")
        return present[StepId(step_id)]

    def gate(self, gate_id: str) -> Claim:
        """Return whether a gate passed; a goal template's gate on a tool stands for all that it
        became.
        """
        __tracebackhide__ = True
        records = self.context.state.gates
        found = tuple(
            record for record in records if gate_id in (record.gate, record.template_gate)
        )
        if found:
            return gate_claim(gate_id, found)
        planned = {gate.id for gate in self.context.plan.gates} if self.context.plan else set[str]()
        if gate_id in planned:
            return Claim(
                False, f"gate {gate_id!r} was never evaluated: its step did not come that far"
            )
        known = {record.template_gate or record.gate for record in records} | planned
        raise unknown_name(gate_id, known, what="gate", of=repr(self))

    def confidence(self, field: str = "overall") -> ExplainedNumber:
        """Return the capped confidence in a field of the result; in the whole where none is named."""
        __tracebackhide__ = True
        return self.review.confidence(field)

    def calls(self, name: str | None = None) -> tuple[Call, ...]:
        """Return the calls of a step or a tool, in the order of items; all calls where none is
        named.
        """
        __tracebackhide__ = True
        if name is None:
            return self.recorded_calls
        plan = self.plan
        known = {*plan.steps, *plan.tools, *self.context.tools}
        if name not in known:
            raise unknown_name(name, known, what="step or tool", of=repr(self))
        place = {step: number for number, step in enumerate(plan.steps)}
        calls = [call for call in self.recorded_calls if name in (call.step, call.tool)]
        calls.sort(
            key=lambda call: (place.get(call.step, len(place)), call.index or 0, call.attempt)
        )
        return tuple(calls)

    def __repr__(self) -> str:
        return f"<run of job {self.context.goal.job!r}: {self.verdict}>"

    def _steps(self) -> tuple[str, ...]:
        return (
            () if self.context.plan is None else tuple(step.id for step in self.context.plan.steps)
        )

    def _ended(self, step_id: str) -> StepFinished | None:
        __tracebackhide__ = True
        if step_id not in self._steps():
            raise unknown_name(step_id, self._steps(), what="step", of=repr(self))
        return self.context.state.steps.get(StepId(step_id))

    def _review(self) -> ReviewResult:
        __tracebackhide__ = True
        if self.context.review is None:
            raise assertion_failure(f"{self!r} was not reviewed: {self.halted}")
        return self.context.review

    def _package(self) -> Package:
        __tracebackhide__ = True
        if self.context.package is None:
            raise assertion_failure(f"{self!r} has no package: {self.halted}")
        return self.context.package


def _reason(ended: StepFinished) -> str:
    if ended.error is not None:
        tries = f" ({ended.error.attempts} attempts)" if ended.error.attempts > 1 else ""
        return f": {ended.error.kind} error: {ended.error.message}{tries}"
    return f": {ended.reason}" if ended.reason else ""
