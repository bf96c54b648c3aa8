"""The review by code: whether a run reached its goal, why not, and what would fix it.

A goal is *achieved* when every block gate that counts passed, nothing that the result is made of is
missing, and the result fits the goal's output schema. Code decides that from gate records and
statuses; no model is asked, the summary says so, and the confidence is capped for it. An optional
step that failed or was stopped does not fail the run: it is listed as missing and lowers the
confidence.

An *assessment* holds all that code finds for and against a run. The review by code puts it into
words; the review by a model starts from the same one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wavewright.executor import ErrorKind, RunState
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import Goal, Plan, PlanGraph, StepId, ToolSignatures
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.plans.binding import recipes_for_gate
from wavewright.reviewer.gates.kinds import ACTION_AFTER_FAILURE
from wavewright.reviewer.records import (
    Action,
    CapRecord,
    Confidence,
    FieldProvenance,
    RecoveryAction,
    ReviewResult,
    StepConfidence,
)
from wavewright.reviewer.review.caps import (
    CODE_REVIEW_CEILING,
    OVERALL,
    Ceiling,
    compute_confidences,
    confidence_claims,
    data_confidence,
    evaluate_caps,
    stated_confidence,
    step_ceilings,
    verdict_caps,
    written_caps,
)
from wavewright.reviewer.review.findings import (
    DroppedItems,
    FailedGate,
    StepProblem,
    confidence_sources,
    data_writers,
    dropped_items,
    failed_gates,
    field_feeders,
    step_problems,
    unchecked_gates,
)
from wavewright.reviewer.review.result_provenance import result_provenance
from wavewright.reviewer.review.results import (
    ReviewedRun,
    RunResult,
    Standing,
    has_result,
    measure_evidence,
    raw_overall,
    read_result,
    result_faults,
)
from wavewright.reviewer.values import listing


@dataclass(frozen=True, slots=True)
class Assessment:
    """All that code finds for and against a run."""

    gates: tuple[FailedGate, ...]
    """Failed gates that count, and mandatory ones that were not evaluated."""
    problems: tuple[StepProblem, ...]
    result: RunResult
    faults: tuple[str, ...]
    """Violations of the goal's output schema by the result."""
    stopping_gates: tuple[FailedGate, ...]
    """The gates that keep the goal from being achieved."""
    failing_problems: tuple[StepProblem, ...]
    """The problems that do."""
    absent_steps: tuple[StepId, ...]
    """Optional steps without an output."""
    dropped: tuple[DroppedItems, ...]
    """Items that a recovery left out, and the goal does not let it."""
    standing: Standing
    provenance: tuple[FieldProvenance, ...]
    """Where each field of the result comes from."""

    @property
    def is_achieved(self) -> bool:
        """Whether every block gate that counts passed, nothing is missing or left out, and the
        result fits its schema.
        """
        return not (
            self.stopping_gates
            or self.failing_problems
            or self.result.missing
            or self.faults
            or self.dropped
        )

    @property
    def warnings(self) -> int:
        """The number of warn gates that failed."""
        return sum(1 for gate in self.gates if gate.severity == "warn")


@dataclass(frozen=True, slots=True)
class SettledConfidences:
    """The confidences of a run, and the caps that lowered them."""

    confidences: tuple[Confidence, ...]
    caps: tuple[CapRecord, ...]

    @property
    def overall(self) -> Confidence:
        """The confidence in the whole."""
        return next(confidence for confidence in self.confidences if confidence.field == OVERALL)


def assess(run: ReviewedRun) -> Assessment:
    """Return the assessment of a run."""
    # A gate that was not evaluated on a step with an output counts as failed: nothing speaks for it.
    gates = (*failed_gates(run), *unchecked_gates(run))
    ends = step_problems(run)
    result = read_result(run)
    # A gate on an optional step stops that step's output, which is then missing, and not the goal.
    optional = {step.id for step in run.plan.steps if step.optional}
    stopping = tuple(
        gate for gate in gates if gate.severity == "block" and gate.step not in optional
    )
    provenance = result_provenance(run, result)
    return Assessment(
        gates=gates,
        problems=ends,
        result=result,
        # A figure that the planner wrote into a step is as wrong a result as one of another type.
        faults=(*result_faults(run, result), *provenance.faults),
        stopping_gates=stopping,
        failing_problems=tuple(end for end in ends if _fails_the_run(end)),
        absent_steps=_absent_steps(gates, ends, optional),
        dropped=tuple(dropped for dropped in dropped_items(run) if not dropped.is_allowed),
        standing=_standing(run, result, stopping, optional),
        provenance=provenance.fields,
    )


def _standing(
    run: ReviewedRun,
    result: RunResult,
    stopping: Sequence[FailedGate],
    optional: Collection[StepId],
) -> Standing:
    """Return how far a run has come; a mandatory gate whose step has no output has not passed."""
    failed = {(gate.gate, gate.step) for gate in stopping}
    # Code counts block gates on steps that count: a judge's verdict is a model's, a superseded step
    # has handed its gates on, and what was skipped by a condition had nothing to be asked.
    asked = {
        (gate.id, gate.on)
        for gate in run.plan.gates
        if gate.on is not None
        and gate.severity == "block"
        and gate.judge is None
        and gate.on not in optional
        and gate.on not in run.replaced
        and run.state.status(gate.on) != "skipped"
    }
    without_output = {(gate, step) for gate, step in asked if not run.state.is_present(step)}
    # A judge that has failed counts as well, beside those that code has asked.
    mandatory = asked | failed
    passed = len(mandatory - failed - without_output)
    coverage = raw_overall(measure_evidence(run))
    return Standing(passed, len(mandatory), coverage, has_result(run, result))


def settle_confidences(
    run: ReviewedRun,
    assessment: Assessment,
    *,
    ceiling: Ceiling | None,
    is_achieved: bool,
    claims: Mapping[str, float] | None = None,
) -> SettledConfidences:
    """Return the confidences of a run under every cap.

    Args:
        run: The run.
        assessment: What code finds for and against it.
        ceiling: The ceiling of the review's own rung.
        is_achieved: Whether the goal counts as achieved, by code and by the model where one was
            asked.
        claims: Further claims of the overall confidence, by source; the lowest counts, and none
            raises a figure.
    """
    state, result = run.state, assessment.result
    stated = stated_confidence(confidence_claims(result.terminal, state, result.value))
    claimants: dict[str, list[StepId]] = {field: [] for field in stated if field != OVERALL}
    for step in result.terminal:
        output = state.steps[step].output if state.is_present(step) else None
        for field in stated_confidence([(step, output)]).keys() & claimants.keys():
            claimants[field].append(step)
    feeders = field_feeders(run.plan, claimants, data_writers(run), run.tools)
    caps = (
        *evaluate_caps(run, review=ceiling, feeders=feeders),
        *written_caps(assessment.provenance, run.goal),
        *verdict_caps(assessment.standing, is_achieved=is_achieved),
    )
    if claims:
        stated[OVERALL] = {**stated.get(OVERALL, {}), **claims}
    return SettledConfidences(compute_confidences(measure_evidence(run), stated, caps), caps)


def _fails_the_run(end: StepProblem) -> bool:
    """Whether a step's end fails the goal: not if it is optional or `min_ok` items were enough."""
    return not end.optional and end.status not in SUCCESSES


def _absent_steps(
    gates: Sequence[FailedGate], ends: Sequence[StepProblem], optional: set[StepId]
) -> tuple[StepId, ...]:
    stopped = [gate.step for gate in gates if gate.severity == "block" and gate.step in optional]
    lost = [end.step for end in ends if end.optional and end.status not in SUCCESSES]
    return tuple(dict.fromkeys((*stopped, *lost)))


_MAX_LABELS = 8


def missing_data(assessment: Assessment) -> tuple[str, ...]:
    """Return what is missing or wrong, one line each, by the plan's names."""
    lines: list[str] = []
    for gate in assessment.gates:
        where = _step_label(gate.step, gate.labels)
        lines.append(f"{where}: {gate.message} (gate {gate.gate!r})")
    # The cause of a blocked step has a line of its own.
    listed = [end for end in assessment.problems if end.status != "blocked"]
    lines += [f"{_step_label(end.step, end.labels)}: {_problem_text(end)}" for end in listed]
    named = {end.step for end in listed} | {gate.step for gate in assessment.gates}
    lines += [f"{dropped.step}: {dropped.text}" for dropped in assessment.dropped]
    lacking = (*assessment.result.missing, *assessment.result.absent)
    lines += [str(part) for part in lacking if part.place not in named]
    lines += assessment.faults
    return tuple(dict.fromkeys(lines))


def invalid_because(assessment: Assessment) -> tuple[str, ...]:
    """Return why a run has no valid result, one line each, without text from tools.

    A failed gate alone leaves a result valid. Of what is missing because a step failed, only that
    step is listed.
    """
    failing = [end for end in assessment.failing_problems if end.status != "blocked"]
    lines = [f"step {end.step!r}: {_status_text(end)}" for end in failing]
    if assessment.failing_problems and not failing:
        # All that failed was blocked, so a gate is the cause.
        lines = [
            f"gate {gate.gate!r} stopped step {gate.step!r}" for gate in assessment.stopping_gates
        ]
    if lines:
        return tuple(lines)
    return (*map(str, assessment.result.missing), *assessment.faults)


def success_clause(assessment: Assessment) -> str:
    """Return what code finds of a run that has reached its goal, without a full stop."""
    is_partial = any(gate.is_unevaluated for gate in assessment.gates)
    evaluated = " that was evaluated" if is_partial else ""
    return f"every mandatory gate{evaluated} passed and everything that the result needs is there"


def failure_sentences(assessment: Assessment) -> Iterator[str]:
    """Yield sentences on why the goal is not achieved."""
    for gate in assessment.stopping_gates[:5]:
        yield with_full_stop(
            f"Gate {gate.gate!r} stopped {_step_label(gate.step, gate.labels)}: {gate.message}"
        )
    for end in [end for end in assessment.failing_problems if end.status != "blocked"][:5]:
        yield with_full_stop(f"Step {_step_label(end.step, end.labels)!r} {_problem_text(end)}")
    for dropped in assessment.dropped[:5]:
        yield with_full_stop(f"By step {dropped.step!r} {dropped.text}")
    blocked = [end for end in assessment.problems if end.status == "blocked"]
    lacking = (*map(str, assessment.result.missing), *assessment.faults)
    if blocked:
        names = listing([end.step for end in blocked], _MAX_LABELS)
        yield f"Steps that depend on it did not run: {names}."
    elif lacking:
        yield with_full_stop(f"Lacking: {'; '.join(lacking[:4])}")


def remark_sentences(assessment: Assessment) -> Iterator[str]:
    """Yield sentences on problems that do not fail the run."""
    if assessment.absent_steps:
        yield f"Absent, but optional: {', '.join(assessment.absent_steps)}."
    if assessment.warnings:
        yield f"{counted(assessment.warnings, 'gate')} left a warning."


def fix_sentences(assessment: Assessment, goal: Goal) -> Iterator[str]:
    """Yield a sentence with the fixes of what keeps the goal from being achieved, if any is known."""
    actions = recovery_actions(assessment.stopping_gates, assessment.failing_problems, goal)
    hints = list(dict.fromkeys(action.hint for action in actions))
    if hints:
        yield with_full_stop(f"What would fix it: {'; '.join(hints[:4])}")


def confidence_sentence(confidence: Confidence) -> str:
    """Return the sentence on the overall confidence."""
    if confidence.capped < confidence.raw:
        return f"Confidence {confidence.capped:.2f}, lowered by caps from {confidence.raw:.2f}."
    return f"Confidence {confidence.capped:.2f}."


def with_full_stop(text: str) -> str:
    """Return a text that ends with a full stop, unless it ends with a punctuation mark already."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _step_label(step: StepId, labels: Sequence[str]) -> str:
    return f"{step}[{listing(labels, _MAX_LABELS)}]" if labels else step


def _problem_text(end: StepProblem) -> str:
    if end.status in SUCCESSES:
        return f"these items failed ({end.error or 'no reason on record'}): {end.message}"
    return _status_text(end) + (f": {end.message}" if end.message != end.status else "")


def _status_text(end: StepProblem) -> str:
    return (end.status or "never ran") + (f" ({end.error})" if end.error else "")


def review_by_code(
    plan: Plan,
    goal: Goal,
    state: RunState,
    tools: ToolSignatures,
) -> ReviewResult:
    """Return the verdict on a run of a (bound) plan.

    Args:
        plan: The bound plan in force, patches included.
        goal: What was asked for.
        state: What happened.
        tools: Signatures by name.

    >>> from wavewright.engine import Wavewright
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> ww = Wavewright(tools=[double], journal="runs.db")
    >>> run = ww.run_sync(ww.new_plan().step("four", double, {"number": 2}).returns("${steps.four}"))
    >>> from wavewright.planner import Goal, Plan
    >>> from wavewright.tools import make_tool
    >>> plan, goal = Plan.model_validate(run.state.plan), Goal.model_validate(run.state.started.goal)
    >>> tools = {"double": make_tool(double).signature}
    >>> from wavewright.reviewer import review_by_code
    >>> review_by_code(plan, goal, run.state, tools).goal_achieved
    True
    """
    run = ReviewedRun(plan, goal, state, tools)
    assessment = assess(run)
    settled = settle_confidences(
        run, assessment, ceiling=CODE_REVIEW_CEILING, is_achieved=assessment.is_achieved
    )
    return ReviewResult(
        goal_achieved=assessment.is_achieved,
        confidence=settled.overall.capped,
        summary=" ".join(_summary_sentences(assessment, settled, goal)),
        missing_data=missing_data(assessment),
        invalid_because=invalid_because(assessment),
        recovery_actions=recovery_actions(assessment.gates, assessment.problems, goal),
        reviewer="code",
        confidences=settled.confidences,
        caps=settled.caps,
        steps=_step_confidences(run),
        round=state.round,
        mandatory_gates=(assessment.standing.passed, assessment.standing.mandatory),
        coverage=assessment.standing.coverage,
        has_result=assessment.standing.has_result,
        data=data_confidence(measure_evidence(run)),
        provenance=assessment.provenance,
    )


def _summary_sentences(
    assessment: Assessment, settled: SettledConfidences, goal: Goal
) -> Iterator[str]:
    if not assessment.is_achieved:
        yield "Goal not achieved."
    yield from sentences_of_code(assessment, settled, goal, "Goal achieved")


def sentences_of_code(
    assessment: Assessment, settled: SettledConfidences, goal: Goal, success: str
) -> Iterator[str]:
    """Yield what code alone finds; `success` begins the sentence on a goal that it finds achieved."""
    if assessment.is_achieved:
        yield f"{success}: {success_clause(assessment)}."
        yield from remark_sentences(assessment)
    else:
        yield from failure_sentences(assessment)
        yield from remark_sentences(assessment)
        yield from fix_sentences(assessment, goal)
    yield confidence_sentence(settled.overall)
    yield "Reviewed by code from the gates and the steps' ends; no model read the result."


def _step_confidences(run: ReviewedRun) -> tuple[StepConfidence, ...]:
    """Return the confidences of the present outputs that are below 1, each with the way by which it
    came.
    """
    plan, waves = run.plan, PlanGraph.of(run.plan).wave_of()
    sources, ceilings = confidence_sources(plan, run.tools), step_ceilings(run)
    confidences: dict[StepId, StepConfidence] = {}
    present = (step.id for step in plan.steps if run.state.is_present(step.id))
    for step in sorted(present, key=waves.__getitem__):
        own = (
            StepConfidence(step=step, confidence=ceiling.max, because=ceiling.because, way=(step,))
            for ceiling in ceilings
            if ceiling.step == step
        )
        handed_on = (
            StepConfidence(
                step=step,
                confidence=confidences[source].confidence,
                because=confidences[source].because,
                way=(*confidences[source].way, step),
            )
            for source in sorted(sources[step] & confidences.keys())
        )
        # A step is as certain as its own ceilings and the least certain step before it let it be.
        bounds = (*own, *handed_on)
        least = min(bounds, key=lambda bound: bound.confidence, default=None)
        if least is not None and least.confidence < 1:
            confidences[step] = least
    return tuple(confidences[step.id] for step in plan.steps if step.id in confidences)


_NO_JUDGE_HINT = "configure a model, so that the rubric can be judged"
_LIMIT_HINT = (
    "raise the limit that was reached, under 'limits' in the goal template or the job's overrides"
)
"""Hint for a cancelled step: a run that was interrupted is resumed before its review, so a limit
was reached.
"""


def recovery_actions(
    gates: Iterable[FailedGate], ends: Iterable[StepProblem], goal: Goal
) -> tuple[RecoveryAction, ...]:
    """Return one action for each failed gate, and for each step that failed by itself."""
    actions = [_gate_action(gate, goal) for gate in gates]
    actions += [action for end in ends for action in _problem_actions(end)]
    return tuple(dict.fromkeys(actions))


def _gate_action(gate: FailedGate, goal: Goal) -> RecoveryAction:
    if gate.kind == "judge" and gate.is_undecided:
        hint = gate.hint or _NO_JUDGE_HINT
        return RecoveryAction(action="configure", step=gate.step, gate=gate.gate, hint=hint)
    # What the goal's author has written for this gate goes before what its kind suggests.
    recipe = next(recipes_for_gate(goal, gate.gate, gate.template_gate), None)
    if recipe is not None:
        action: Action = "add_step" if recipe.add and not recipe.set_params else "refetch"
        hint = gate.hint or recipe.reason
        return RecoveryAction(
            action=action, step=gate.step, gate=gate.gate, hint=hint, recipe=recipe.gate
        )
    action, hint = ACTION_AFTER_FAILURE[gate.kind]
    return RecoveryAction(action=action, step=gate.step, gate=gate.gate, hint=gate.hint or hint)


def _problem_actions(end: StepProblem) -> Iterator[RecoveryAction]:
    """Yield the fix of a step's own failure; a blocked step needs only what blocked it, and of what a
    person has refused there is none.
    """
    if end.error is None and end.status in {"cancelled", None}:
        # Nothing of the step is wrong: a limit has ended the run before it, or in it.
        yield RecoveryAction(action="configure", step=end.step, hint=_LIMIT_HINT)
    elif end.error is not None and end.error in _FIXES:
        action, hint = _FIXES[end.error]
        yield RecoveryAction(action=action, step=end.step, hint=end.hint or hint)


_AGAIN: Final = "call it again later, or allow more attempts or a longer timeout"
_OTHER_PARAMS: Final = "correct the step's parameters, or the inputs that they are made from"
_FIXES: Final[Mapping[ErrorKind, tuple[Action, str]]] = {
    "transient": ("refetch", _AGAIN),
    "timeout": ("refetch", _AGAIN),
    "cancelled": ("refetch", _LIMIT_HINT),
    "interrupted": ("refetch", _LIMIT_HINT),
    "params": ("replace_step", _OTHER_PARAMS),
    "expression": ("replace_step", _OTHER_PARAMS),
    "items": ("replace_step", _OTHER_PARAMS),
    "output": (
        "replace_step",
        "the tool's output breaks its own schema: correct the source or use another tool",
    ),
    "tool": (
        "provide_input",
        "correct the tool or what it was given; `wavewright logs` shows what it raised",
    ),
}
"""What fixes a step that has failed, by the kind of its error."""
