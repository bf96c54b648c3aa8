"""The package of a run, as one JSON document.

A *package* holds the results (result, documents, sources, charts), their confidence (review, gates,
caps, conflicts, warnings) and how they were made (plan, patches, execution log, timings). It is
built from the run's state alone, written atomically, and equal when read back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from wavewright.config import WavewrightError, exit_codes
from wavewright.config.atomic_files import (
    FileNotWrittenError as FileNotWrittenError,  # noqa: PLC0414 - a public name of the reviewer
    write_atomically,
)
from wavewright.config.secret_patterns import REDACTED
from wavewright.executor import Noted, PlanAccepted, RunState, StepFinished, StepStarted
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import (
    Goal,
    Json,
    JsonObject,
    Plan,
    PlanGraph,
    Step,
    StepId,
    ToolSignatures,
    as_list,
    canonical_json,
    plan_hash,
)
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.plans.graph import last_steps
from wavewright.reviewer.package.artifacts import RedactedRun, collect_artifacts
from wavewright.reviewer.package.call_reports import (
    list_calls,
    list_failed_attempts,
    list_loop_calls,
    list_rungs,
    params_renderer,
    sum_uses,
    token_shares,
)
from wavewright.reviewer.records import (
    GoingStatus,
    KeptPlanUse,
    Package,
    PatchReport,
    ReviewResult,
    RunStatus,
    StepReport,
    StepStanding,
    Timings,
)
from wavewright.reviewer.review.caps import PLANNER, REVIEWER, cap_stated_confidence, patch_rungs
from wavewright.reviewer.review.items import item_labels
from wavewright.reviewer.review.results import ReviewedRun, RunResult, read_result
from wavewright.reviewer.review.rounds import (
    best_round,
    reviews_by_round,
    run_of_round,
    summarize_rounds,
)
from wavewright.reviewer.values import iso_of_epoch, shape, shorten

PACKAGE_NAME = "package.json"

_MAX_LABELS = 1000


@dataclass(frozen=True, slots=True)
class RunNow:
    """What is known of a run that may go on, besides its events."""

    status: GoingStatus | Literal["interrupted"]
    at: float
    """Seconds since the epoch."""
    asking: frozenset[StepId] = frozenset()
    """Steps that wait for a person."""
    given_up: str = ""
    """Why nobody goes on with it, where that is known."""

    @property
    def is_executed(self) -> bool:
        """Whether a process executes it."""
        return self.status == "running"


class PackageError(WavewrightError):
    """A file is no package of this version; the message names the place and the fix."""

    exit_code = exit_codes.MISUSE


def build_package(
    plan: Plan,
    goal: Goal,
    state: RunState,
    review: ReviewResult | None,
    tools: ToolSignatures,
    now: RunNow | None = None,
) -> Package:
    """Return the package of a run, with secrets in the outputs redacted.

    Its result, documents and verdict are those of the best round; how it was made is told of all.

    Args:
        plan: The current bound plan, including patches.
        goal: The goal of the run.
        state: The state of the run; its notes of the topic `review` are the earlier reviews.
        review: The last review; None if the run was not reviewed.
        tools: Signatures by name.
        now: How the run goes on; None of one that has ended, or is being packaged.

    The example goes on from that of `review_by_code`.

    >>> from wavewright.reviewer import build_package, review_by_code
    >>> review = review_by_code(plan, goal, run.state, tools)
    >>> build_package(plan, goal, run.state, review, tools).result
    4
    """
    shown = RedactedRun(state)
    state, review = shown.state, None if review is None else shown.review(review)
    assert state.started is not None
    run = ReviewedRun(plan, goal, state, tools)
    reviews = reviews_by_round(state, review)
    number = state.round
    if review is not None:
        # A later round may have lost what an earlier one had: the best one is packaged.
        number = best_round(state, reviews)
        review = reviews[number]
    best = run_of_round(run, number)
    outputs = best.state.outputs()
    counted_steps = [step.id for step in best.plan.steps if step.id not in best.replaced]
    counted_outputs = [(name, outputs[name]) for name in counted_steps if name in outputs]
    artifacts = collect_artifacts(counted_outputs, last_steps(best.plan))
    caps = () if review is None else review.caps
    kept_plans = [note.body for note in state.notes if note.topic == "kept_plan"]
    orchestrator_tokens, worker_tokens = token_shares(state)
    return Package(
        run=state.started.run,
        retry_of=state.started.retry.run if state.started.retry is not None else None,
        job=state.started.job,
        goal_name=goal.name,
        goal=goal.text,
        status=_package_status(state, review) if now is None else now.status,
        reason=_end_reason(state, review, now),
        result=shown.value(_capped_result(best.plan, read_result(best), review)),
        documents=tuple(
            document.model_copy(update={"content": cap_stated_confidence(document.content, caps)})
            for document in artifacts.documents
        ),
        sources=artifacts.sources,
        charts=artifacts.charts,
        conflicts=artifacts.conflicts,
        warnings=tuple(dict.fromkeys((*_warnings(run, now), *artifacts.warnings))),
        review=review,
        earlier_reviews=tuple(earlier for earlier in reviews.values() if earlier is not review),
        round=number,
        rounds=summarize_rounds(run, reviews, number),
        gates=state.gates,
        plan=plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        | {"version": plan.version},
        plan_hash=state.plan_hash or plan_hash(plan),
        rung=state.rung or "given",
        kept_plan=KeptPlanUse.model_validate(kept_plans[0]) if kept_plans else None,
        patches=tuple(_patches(state, tools)),
        recovery_ended=_recovery_ended(state),
        execution_log=_execution_log(run, now),
        calls=list_calls(run),
        failed_attempts=list_failed_attempts(state),
        timings=_timings(plan, state, now),
        model_uses=sum_uses(state),
        orchestrator_tokens=orchestrator_tokens,
        worker_tokens=worker_tokens,
        rungs=list_rungs(state),
        loop_calls=list_loop_calls(state),
        versions=state.started.versions,
        now=iso_of_epoch(run.now.timestamp()),
    )


def stored_package(state: RunState, now: RunNow | None = None) -> Package | None:
    """Return the package of a run as far as it has come; None where the run has no plan yet.

    Of a run that may go on, `now` says how; without it nobody executes such a run.
    """
    if state.started is None or state.accepted is None:
        return None
    if now is None and (state.finished is None or state.is_interrupted):
        now = RunNow("interrupted", _last_instant(state))
    goal, plan = Goal.model_validate(state.started.goal), Plan.model_validate(state.accepted.plan)
    return build_package(plan, goal, state, last_review(state), {}, now)


def last_review(state: RunState) -> ReviewResult | None:
    """Return the last review that was noted; None where there is none."""
    body = next((note.body for note in reversed(state.notes) if note.topic == "review"), None)
    return None if body is None else ReviewResult.model_validate(body)


def package_bytes(package: Package) -> bytes:
    """Return a package as canonical JSON: equal packages have equal bytes.

    The example goes on from that of `Package`.

    >>> from wavewright.reviewer import package_bytes, read_package
    >>> read_package(package_bytes(run.package)) == run.package
    True
    """
    return canonical_json(package.model_dump(mode="json")) + b"\n"


def write_package(package: Package, folder: Path) -> Path:
    """Write a package into a folder and return its path.

    Raises:
        FileNotWrittenError: the disk is full or read-only, or the folder may not be written to.

    The example goes on from that of `Package`.

    >>> from pathlib import Path
    >>> from wavewright.reviewer import write_package
    >>> write_package(run.package, Path()).name
    'package.json'
    """
    return write_atomically(folder / PACKAGE_NAME, package_bytes(package))


def read_package(content: bytes, name: str = PACKAGE_NAME) -> Package:
    """Return the package that a file holds.

    Raises:
        PackageError: it is no package, or one of another version.

    The example goes on from that of `Package`.

    >>> from wavewright.reviewer import package_bytes, read_package
    >>> read_package(package_bytes(run.package)).result
    4
    """
    try:
        return Package.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        msg = (
            f"{name!r} is no package of this version ({place}: {shorten(first['msg'], 120)}); "
            "make it again from the run"
        )
        raise PackageError(msg) from error


def package_schema() -> JsonObject:
    """Return the JSON Schema of a package.

    >>> from wavewright.reviewer import package_schema
    >>> "result" in package_schema()["properties"]
    True
    """
    # No run asks for it.
    from wavewright.config.published_schemas import remove_examples

    schema: JsonObject = Package.model_json_schema(mode="serialization")
    remove_examples(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:wavewright:schema:package:1",
        **schema,
    }


def result_as_given(state: RunState, package: Package) -> Json:
    """Return the result of a run as its steps have given it, without redaction.

    What a run has read back from its journal may be redacted there.
    """
    if REDACTED not in json.dumps(package.result, ensure_ascii=False):
        return package.result
    assert state.started is not None
    plan, goal = Plan.model_validate(state.plan), Goal.model_validate(state.started.goal)
    run = ReviewedRun(plan, goal, state, {})
    return _capped_result(plan, read_result(run), package.review)


def _capped_result(plan: Plan, result: RunResult, review: ReviewResult | None) -> Json:
    """Return the result with the confidence that it states lowered to the caps of the review."""
    value = result.value
    if review is None:
        return value
    if plan.result is None and len(result.terminal) > 1 and isinstance(value, dict):
        # Each of these outputs speaks of the whole, as the only one would.
        return {step: cap_stated_confidence(output, review.caps) for step, output in value.items()}
    return cap_stated_confidence(value, review.caps, review.confidences)


_NO_END_REASON = (
    "The run has no end yet: it still runs, or its process was ended before it could stop."
)


def _end_reason(state: RunState, review: ReviewResult | None, now: RunNow | None) -> str:
    if state.finished is not None:
        return state.finished.reason
    if now is not None and now.given_up:
        return f"The run has no end of its own, and its job was given up: {now.given_up}"
    # A run that is packaged has a verdict before its end is written.
    return "" if review is not None else _NO_END_REASON


def _package_status(state: RunState, review: ReviewResult | None) -> RunStatus:
    # The end that the run has written stands, unless it was reviewed once more since.
    if state.finished is not None and (review is None or _noted_before(state, state.finished.at)):
        return state.finished.status
    if review is None:
        return "interrupted"
    return "achieved" if review.goal_achieved else "not_achieved"


def _noted_before(state: RunState, at: float) -> bool:
    """Whether no review was noted after that time: a run that was resumed at its very end is
    reviewed once more.
    """
    return all(note.at <= at for note in state.notes if note.topic == "review")


def _warnings(run: ReviewedRun, now: RunNow | None) -> list[str]:
    texts: list[str] = []
    state, replaced = run.state, run.replaced
    for accepted in state.plans:
        texts += [_note_message(warning) for warning in accepted.warnings]
    texts += [text for note in state.notes for text in _note_messages(note)]
    texts += [
        f"{taken.rung.ladder}: the rung {taken.rung.rung!r} gave nothing: {taken.rung.reason}"
        for taken in state.rungs
        if taken.rung.outcome == "fallen" and taken.rung.ladder in {PLANNER, REVIEWER}
    ]
    texts += [
        f"the provider of {use.model!r} claims {use.tokens:,} tokens for a call, far more than were asked and "
        "answered; they count against the budgets"
        for use in state.uses.values()
        if use.is_implausible
    ]
    texts += [
        f"gate {gate.gate!r} on step {gate.step!r}: {gate.message}"
        for gate in state.gates
        if gate.has_failed and gate.severity == "warn" and gate.step not in replaced
    ]
    texts += [
        f"gate {gate.id!r} was not asked: step {gate.on!r} was skipped"
        for gate in run.plan.gates
        if gate.on is not None and state.status(gate.on) == "skipped"
    ]
    for step in run.plan.steps:
        if step.id in replaced:
            continue
        end = state.steps.get(step.id)
        if end is None:
            if state.finished is not None and now is None:
                texts.append(f"step {step.id!r} {_reason_not_run(state, step.id)}")
        elif step.optional and end.status not in {*SUCCESSES, "skipped"}:
            texts.append(f"optional step {step.id!r} is absent: {end.status}")
        elif end.status in SUCCESSES and end.items and end.items[0] < end.items[1]:
            texts.append(
                f"step {step.id!r} went on with {end.items[0]:,} of {counted(end.items[1], 'item')}"
            )
    return texts


def _note_messages(note: Noted) -> list[str]:
    """Return the warnings that a note has for readers of the package."""
    match note.topic, note.body:
        case "warning", body:
            return [_note_message(body)]
        case "patch_refused", {"diagnostics": list(found)}:
            return [
                f"the recovery patch was refused: {_note_message(action)}"
                for action in found
                if isinstance(action, dict)
            ]
        case "approval", {"subject": "patch", "approved": False, "needs": list(needs)}:
            return [f"the recovery patch was not approved: {'; '.join(map(str, needs))}"]
        case "no_recovery", {"reason": str(reason)}:
            return [f"no further recovery: {reason}"]
        case "recovery", {"allowed": list(steps)}:
            named = ", ".join(repr(step) for step in steps)
            return [f"the goal let a recovery patch act without approval (recovery.allow): {named}"]
        case "review", {"refused_actions": list(refused)}:
            return [_refused_action_text(action) for action in refused if isinstance(action, dict)]
        case _:
            return []


def _refused_action_text(action: JsonObject) -> str:
    named = [
        f"{word} {shorten(str(action[word]), 80)!r}"
        for word in ("step", "tool")
        if action.get(word)
    ]
    on = f" on {', '.join(named)}" if named else ""
    return f"the reviewing model asked for {str(action.get('action'))!r}{on}: refused, {action.get('why')}"


def _note_message(body: JsonObject) -> str:
    code, message = body.get("code"), body.get("message")
    text = message if isinstance(message, str) else shorten(json.dumps(body), 300)
    return f"{code}: {text}" if isinstance(code, str) else text


def _patches(state: RunState, tools: ToolSignatures) -> list[PatchReport]:
    reports: list[PatchReport] = []
    how_read = {
        note.body.get("round"): as_list(note.body.get("read"))
        for note in state.notes
        if note.topic == "recovery"
    }
    for (before, accepted), record in zip(pairwise(state.plans), patch_rungs(state), strict=True):
        if accepted.patch is None:
            continue
        reason = accepted.patch.get("reason")
        reports.append(
            PatchReport(
                round=accepted.round,
                reason=reason if isinstance(reason, str) else "",
                patch=accepted.patch,
                diff=_diff(before, accepted, tools),
                plan_hash=accepted.plan_hash,
                rung=record.rung if record is not None else None,
                notes=tuple(map(str, how_read.get(accepted.round, ()))),
            )
        )
    return reports


def _recovery_ended(state: RunState) -> str:
    notes = [note for note in state.notes if note.topic == "no_recovery"]
    return str(notes[-1].body.get("reason", "")) if notes else ""


def _diff(before: PlanAccepted, after: PlanAccepted, tools: ToolSignatures) -> str:
    try:
        old, new = Plan.model_validate(before.plan), Plan.model_validate(after.plan)
    except ValidationError:
        # Journaled by another version of the plan language: the patch itself still says what it
        # did.
        return ""
    from wavewright.planner.plans.diff import diff_plans  # only a run that was patched needs it

    return str(diff_plans(old, new, tools))


def _execution_log(run: ReviewedRun, now: RunNow | None) -> tuple[StepReport, ...]:
    plan, state, graph = run.plan, run.state, PlanGraph.of(run.plan)
    wave_of = graph.wave_of()
    place = {step.id: number for number, step in enumerate(plan.steps)}
    log: list[StepReport] = []
    for step in plan.steps:
        end = _ending(state, step.id, now)
        standing = end.status if end else _standing(run, graph, step.id, now)
        began = state.under_way.get(step.id) if standing == "running" else None
        started, seconds = _times(end, began, now)
        has_items = end is not None and end.items is not None
        log.append(
            StepReport(
                id=step.id,
                tool=step.tool,
                why=step.why,
                status=standing,
                wave=wave_of.get(step.id, 0) + 1,
                round=_round_of(end, state),
                depends_on=tuple(sorted(graph.dependencies[step.id], key=place.__getitem__)),
                optional=step.optional,
                supersedes=step.supersedes,
                started=started,
                seconds=seconds,
                attempts=end.attempts if end else 0,
                items=end.items if end else _items_so_far(run, step),
                labels=item_labels(run, step.id)[:_MAX_LABELS] if has_items else (),
                output=shape(end.output) if end and end.status in SUCCESSES else None,
                error=end.error if end else None,
                reason=_reason(end, standing, state, step.id),
            )
        )
    return tuple(log)


def _times(
    end: StepFinished | None, began: StepStarted | None, now: RunNow | None
) -> tuple[float | None, float]:
    """Return when a step began, and how many seconds it took or has taken so far."""
    if end is not None:
        return end.started, end.seconds
    if began is None:
        return None, 0.0
    return began.at, now.at - began.at if now is not None else 0.0


def _reason(
    end: StepFinished | None, standing: StepStanding, state: RunState, step: StepId
) -> str | None:
    if end is not None:
        return end.reason
    return _reason_not_run(state, step) if standing == "not_run" else None


def _reason_not_run(state: RunState, step: StepId) -> str:
    """Return why a step has no ending in a run that has ended."""
    for note in state.notes:
        binding = note.body.get("binding")
        # A question or a request for an approval is bound to its step.
        if isinstance(binding, dict) and binding.get("step") == step:
            return "had asked a person when the run ended"
    return "never ran"


def _ending(state: RunState, step: StepId, now: RunNow | None) -> StepFinished | None:
    """Return how a step has ended; None of one that was cancelled with an earlier attempt of a run
    that is executed again.
    """
    end = state.steps.get(step)
    is_executed = now is not None and now.is_executed
    if end is not None and end.status == "cancelled" and is_executed:
        return None
    return end


def _standing(run: ReviewedRun, graph: PlanGraph, step: StepId, now: RunNow | None) -> StepStanding:
    """Return where a step stands that has not ended."""
    state = run.state
    if now is None:
        return "not_run"
    if step in now.asking:
        return "asking"
    if not now.is_executed:
        return "waiting"
    if step in state.under_way:
        return "running"
    if state.waves:
        is_free = step in state.waves[-1].steps
    else:
        is_free = all(name in state.steps for name in graph.dependencies[step])
    return "ready" if is_free else "waiting"


def _items_so_far(run: ReviewedRun, step: Step) -> tuple[int, int] | None:
    """Return how many items have succeeded and how many there are, of a step that has not ended;
    None where no item has.
    """
    items = run.state.items.get(step.id)
    if not items:
        return None
    renderer = params_renderer(run.plan, run.state, step, run.now)
    succeeded = sum(item.status in SUCCESSES for item in items.values())
    return succeeded, len(items if renderer is None else renderer.items)


def _round_of(end: StepFinished | None, state: RunState) -> int:
    """Return the round in which a step ended: that of the last plan accepted before."""
    if end is None:
        return state.round
    return max((accepted.round for accepted in state.plans if accepted.at <= end.at), default=0)


def _last_instant(state: RunState) -> float:
    """Return when the last step or review ended.

    Not the end of the run in the journal: the package says the same before it is written, and
    afterwards.
    """
    assert state.started is not None
    ends = [end.at for end in state.steps.values()]
    noted = [note.at for note in state.notes if note.topic != "package"]
    return max((*ends, *noted), default=state.started.at)


def _timings(plan: Plan, state: RunState, now: RunNow | None) -> Timings:
    assert state.started is not None
    last = now.at if now is not None and now.is_executed else _last_instant(state)
    return Timings(
        started=iso_of_epoch(state.started.at),
        finished=iso_of_epoch(last) if now is None else None,
        seconds=max(0.0, last - state.started.at - _seconds_between_attempts(state)),
        step_seconds=sum(end.seconds for end in state.steps.values()),
        waves=len(PlanGraph.of(plan).waves),
        rounds=state.round,
    )


def _seconds_between_attempts(state: RunState) -> float:
    """Return how long a run had stopped before it was resumed, each time."""
    resumed = [note for note in state.notes if note.topic == "resumed"]
    gaps = [
        note.at - until
        for note in resumed
        if isinstance(until := note.body.get("worked_until"), (int, float))
    ]
    return sum(max(0.0, gap) for gap in gaps)
