"""Confidence: raw figures from evidence, and the caps that lower them.

A *cap* is a ceiling on one field while its condition holds. The plan carries its own caps and the
goal template's; the engine adds the ceilings of the ladder rungs that made the plan, the outputs,
the patches and the review. Each cap leaves a record, one whose condition cannot be evaluated
applies, and nothing raises a figure. Outputs that a patch replaced no longer count.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from wavewright.executor import RunState
from wavewright.executor.events.types import RungTaken
from wavewright.planner import (
    Cap,
    ExpressionError,
    Goal,
    Json,
    JsonObject,
    StepId,
    as_list,
    as_object,
    evaluate,
)
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.plans.provenance import is_allowed_field
from wavewright.planner.plans.uses import condition_use
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.reviewer.records import (
    EVERY_FIELD,
    CapRecord,
    Confidence,
    FieldProvenance,
    ReviewResult,
)
from wavewright.reviewer.review.findings import Feeders, dropped_items, way_of
from wavewright.reviewer.review.results import (
    WARNED_SHARE,
    ReviewedRun,
    Standing,
    StepEvidence,
    raw_overall,
    warned_shares,
)
from wavewright.reviewer.values import brief, listing, shorten

PLANNER = "planner"
REVIEWER = "reviewer"
_RECOVERY = "recovery"
OVERALL = "overall"
_NOT_EVALUATED_MAX = 0.5
"""The ceiling of every confidence where a gate had no items to evaluate."""
_WRITTEN_MAX = 0.3
"""The ceiling of a field that the planner wrote itself or shaped."""
_MAX_SHOWN = 3
_NO_RESULT_MAX = 0.2
_NOT_ACHIEVED_MAX = 0.6
"""The ceiling of `overall` where the goal does not count as achieved."""
_DROPPED_MAX = 0.8
"""The ceiling where a recovery left out items, however few."""

_MadeOf: TypeAlias = Mapping[StepId, Mapping[str, frozenset[str]]]
"""By step and field of its output: the run data that the field is made of."""

_DEFAULT_CEILINGS: Mapping[str, tuple[float, str]] = {
    "template": (0.9, "the plan is the goal template's own; no planner fitted it to this job"),
}
"""Ceilings of plans whose rung was not recorded."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that a confidence may be, and why."""

    max: float
    because: str
    step: StepId | None = None
    """The step that it is about; only what that step feeds is under it."""
    data: frozenset[str] = frozenset()
    """The run data that it is about, where that is known."""


CODE_REVIEW_CEILING = Ceiling(0.8, "reviewed by code alone; no model read the result")


def ceiling_of(record: RungRecord) -> Ceiling | None:
    """Return the ceiling that a rung puts on its result; None where it puts none."""
    # A rung that was tried in vain says nothing of the result that another one gave.
    if record.outcome != "reached" or record.ceiling >= 1:
        return None
    because = record.because or f"{record.ladder} came from its rung {record.rung!r}"
    return Ceiling(record.ceiling, because)


def patch_rungs(state: RunState) -> tuple[RungRecord | None, ...]:
    """Return, for each patch that was applied, the record of the rung that made it; None where
    there is none.
    """
    rungs: list[RungRecord | None] = []
    since = state.plans[0].at if state.plans else 0.0
    for accepted in state.plans[1:]:
        # A patch is of the last rung that was taken since the plan before it was accepted.
        reached = _rungs_of(state, _RECOVERY)
        records = [taken.rung for taken in reached if since <= taken.at <= accepted.at]
        rungs.append(records[-1] if records else None)
        since = accepted.at
    return tuple(rungs)


def steps_of_models(run: ReviewedRun) -> frozenset[StepId]:
    """Return the steps that a model has written: those of its plan, or of its patches."""
    steps = frozenset(step.id for step in run.plan.steps)
    if run.is_planned_by_model:
        return steps
    if not run.state.plans:
        return frozenset()
    if not any(rung is not None and rung.rung == "model" for rung in patch_rungs(run.state)):
        return frozenset()
    # A person wrote the first plan; what came in with patches is a model's.
    first = as_object(run.state.plans[0].plan)
    of_person = {str(as_object(step).get("id")) for step in as_list(first.get("steps"))}
    return frozenset(step for step in steps if step not in of_person)


def _plan_ceilings(state: RunState) -> Iterator[Ceiling]:
    # A patch does not change the rung that its plan came from.
    reached = _rungs_of(state, PLANNER)
    if reached:
        yield from _ceilings([reached[-1].rung])
    elif state.rung is not None and state.rung in _DEFAULT_CEILINGS:
        yield Ceiling(*_DEFAULT_CEILINGS[state.rung])


def _worker_ceilings(run: ReviewedRun) -> Iterator[Ceiling]:
    """Yield the ceilings of the workers' rungs for each step that counts, with the share of its
    items.
    """
    latest: dict[StepId, dict[tuple[str, int | None], RungRecord]] = {}
    for taken in run.state.rungs:
        if taken.step is not None and taken.rung.outcome == "reached":
            # Of a call that was made more than once, by a retry or after a crash, the last record
            # counts.
            latest.setdefault(taken.step, {})[taken.rung.ladder, taken.index] = taken.rung
    for step in run.plan.steps:
        if step.id in run.replaced or not run.state.is_present(step.id):
            continue
        records = latest.get(step.id, {}).values()
        # Without what differs from call to call.
        counts = Counter(replace(record, reason="", seconds=0.0) for record in records)
        for record, count in counts.items():
            ceiling = ceiling_of(record)
            if ceiling is not None:
                of = f", in {count} of {len(records)} calls" if len(records) > 1 else ""
                why = f"step {step.id!r}{of}: {ceiling.because}"
                yield Ceiling(ceiling.max, why, step.id, frozenset(record.data))


def _rungs_of(state: RunState, ladder: str) -> list[RungTaken]:
    reached = [taken for taken in state.rungs if taken.rung.outcome == "reached"]
    return [taken for taken in reached if taken.rung.ladder == ladder]


def _ceilings(records: Iterable[RungRecord | None]) -> Iterator[Ceiling]:
    for record in records:
        ceiling = None if record is None else ceiling_of(record)
        if ceiling is not None:
            yield ceiling


def evaluate_caps(
    run: ReviewedRun, *, review: Ceiling | None, feeders: Mapping[str, Feeders]
) -> tuple[CapRecord, ...]:
    """Return one record for each cap of the bound plan and of the engine, evaluated over inputs and
    present outputs.

    Of the fields that a tool declares to be made of run data, a ceiling that is about run data
    lowers only those that are made of it.

    Args:
        run: The run.
        review: The ceiling of the review's own rung, where it has one.
        feeders: The steps that feed each field, as `field_feeders` returns them; a ceiling that is
            about one step lowers `overall`, the fields that it feeds and those that are not here.
    """
    plan, goal, tools = run.plan, run.goal, run.tools
    asked = [_evaluate_cap(cap, run, "goal" if cap in goal.caps else "plan") for cap in plan.caps]
    of_plan = dict.fromkeys((*_plan_ceilings(run.state), *_ceilings(patch_rungs(run.state))))
    of_review = (review,) if review is not None else ()
    ceilings = (*of_plan, *step_ceilings(run), *of_review)
    made_of = {step.id: tools[step.tool].output_data for step in plan.steps if step.tool in tools}
    return (*asked, *(_engine_cap(ceiling, feeders, made_of) for ceiling in ceilings))


def verdict_caps(standing: Standing, *, is_achieved: bool) -> Iterator[CapRecord]:
    """Yield the caps on `overall` that follow from the verdict: it is the confidence that the goal is
    achieved with this result.
    """
    # The three are of the goal, not of the data: they lower `overall` and no field.
    if not standing.has_result:
        yield _cap_by_engine(OVERALL, _NO_RESULT_MAX, "there is no result")
    if standing.passed < standing.mandatory:
        because = f"{standing.passed} of {standing.mandatory} mandatory gates passed"
        yield _cap_by_engine(OVERALL, round(standing.gate_share, 4), because)
    if not is_achieved:
        yield _cap_by_engine(OVERALL, _NOT_ACHIEVED_MAX, "the goal does not count as achieved")


def written_caps(provenance: Sequence[FieldProvenance], goal: Goal) -> Iterator[CapRecord]:
    """Yield the caps on the fields that a planner wrote itself or shaped, and on all where nothing else
    is in the result or the goal does not allow it.

    What only chooses data or stands around it is there to be read, so it lowers nothing else.
    """
    by_planner = [origins for origins in provenance if origins.is_by_planner]
    written = [origins for origins in by_planner if is_written(origins)]
    is_all = len(written) == len(provenance)
    for written_field in written:
        is_allowed = is_allowed_field(written_field.field, goal.allow_literals)
        name = "the result" if written_field.field == "result" else repr(written_field.field)
        because = f"{name} was {_writing(written_field)} by the planner"
        if is_all or (written_field.literals and not is_allowed):
            # Nothing of the result is data, or what is no data was not allowed.
            fields = [EVERY_FIELD]
        elif is_allowed or not (written_field.literals or written_field.factors):
            # The goal lets the planner write it, or it shows what was chosen or put around it.
            fields = [written_field.field]
        else:
            # Another value than was read: whoever reads the result would take it for the data.
            fields = [written_field.field, OVERALL]
        for field in fields:
            yield _cap_by_engine(field, _WRITTEN_MAX, because)


def is_written(provenance: FieldProvenance) -> bool:
    """Whether the author of the plan has written a field, or something that shapes it."""
    return bool(provenance.literals or provenance.factors or provenance.choices)


def _writing(provenance: FieldProvenance) -> str:
    """Return what the planner did to a field, with what it wrote where the field is made of data."""
    if provenance.literals:
        return "written"
    if provenance.factors:
        return f"made another value ({listing(provenance.factors, _MAX_SHOWN)})"
    what = listing(provenance.choices, _MAX_SHOWN)
    return f"chosen or worded ({what}, which neither the goal nor an input asks for)"


def _cap_by_engine(field: str, most: float, because: str) -> CapRecord:
    return CapRecord(field=field, max=most, because=because, applied=True, origin="engine")


def compute_confidences(
    evidence: tuple[StepEvidence, ...],
    claims: Mapping[str, Mapping[str, float]],
    caps: tuple[CapRecord, ...],
) -> tuple[Confidence, ...]:
    """Return the confidence of `overall`, of every field for which an output states a figure, and
    of every capped one.

    Args:
        evidence: What the steps produced; gives the raw `overall`.
        claims: Field → source of the claim → figure. The lowest counts.
        caps: The evaluated caps; those whose condition holds lower figures.
    """
    overall = _overall_confidence(evidence, claims.get(OVERALL, {}))
    named = [field for field in claims if field != OVERALL]
    capped = [cap.field for cap in caps if cap.field not in {EVERY_FIELD, OVERALL}]
    fields = dict.fromkeys((*named, *capped))
    raws = [
        overall,
        *(_field_confidence(field, claims.get(field), overall.raw) for field in fields),
    ]
    return tuple(_capped(raw, caps) for raw in raws)


def confidence_in(field: str, review: ReviewResult) -> Confidence:
    """Return the confidence in a field; where a review holds no figure of it, `overall` stands for
    it.
    """
    known = {confidence.field: confidence for confidence in review.confidences}
    if field in known:
        return known[field]
    return _capped(_field_confidence(field, None, known[OVERALL].raw), review.caps)


def stated_confidence(outputs: Iterable[tuple[str, Json]]) -> dict[str, dict[str, float]]:
    """Return the figures that outputs state under `confidence`, as field → place → figure within 0
    and 1.

    `{"confidence": {"trend": 0.8}}` speaks of `trend`, `{"confidence": 0.8}` of `overall`; a list
    is read entry by entry. What is not a number is ignored.
    """
    claims: dict[str, dict[str, float]] = {}
    for name, output in outputs:
        entries = enumerate(output) if isinstance(output, list) else [(None, output)]
        for position, entry in entries:
            place = name if position is None else f"{name}[{position}]"
            for field, figure in _figures(entry):
                claims.setdefault(field, {})[place] = min(1.0, max(0.0, figure))
    return claims


def cap_stated_confidence(
    value: Json, caps: Iterable[CapRecord], settled: Iterable[Confidence] = ()
) -> Json:
    """Return a value in which no `confidence`, however deep, exceeds the caps on its field.

    `{"confidence": {"trend": 0.8}}` is bounded by the caps on `trend`. A plain number speaks of the
    key that holds its object, through lists, and at the top of `overall`. A figure at the top of
    the value also never exceeds the settled figure of its field.
    """
    holding = [cap for cap in caps if cap.applied]
    figures = {confidence.field: confidence.capped for confidence in settled}

    def of_value(node: Json, fields: tuple[str, ...]) -> Json:
        if isinstance(node, list):
            return [of_value(entry, (f"[{place}]", *fields)) for place, entry in enumerate(node)]
        if not isinstance(node, dict):
            return node
        capped_members: JsonObject = {}
        for name, member in node.items():
            if name == "confidence":
                capped_members[name] = of_claim(member, fields)
            else:
                capped_members[name] = of_value(member, (name, *fields))
        return capped_members

    def of_claim(claim: Json, fields: tuple[str, ...], *, is_top: bool = False) -> Json:
        if isinstance(claim, dict):
            return {
                name: of_claim(figure, (name, *fields), is_top=is_top)
                for name, figure in claim.items()
            }
        if isinstance(claim, (int, float)) and not isinstance(claim, bool):
            bounds = [cap.max for cap in holding if is_cap_on(cap, *fields)]
            if is_top:
                bounds.append(figures.get(_names(fields)[0], math.inf))
            return min([claim, *bounds])
        return of_value(claim, fields)

    capped = of_value(value, (OVERALL,))
    if isinstance(capped, dict) and "confidence" in capped:
        capped["confidence"] = of_claim(capped["confidence"], (OVERALL,), is_top=True)
    return capped


def _figures(output: Json) -> Iterator[tuple[str, float]]:
    if not isinstance(output, dict):
        return
    stated = output.get("confidence")
    fields = stated if isinstance(stated, dict) else {OVERALL: stated}
    for field, figure in fields.items():
        if not isinstance(figure, (int, float)) or isinstance(figure, bool):
            continue
        if math.isfinite(figure):
            yield field, float(figure)


def _evaluate_cap(cap: Cap, run: ReviewedRun, origin: Literal["plan", "goal"]) -> CapRecord:
    in_words = in_authors_words(run.plan)
    fault: str | None = None
    applied = True
    # A cap whose condition cannot be evaluated holds: in doubt the lower figure counts.
    try:
        answer = evaluate(condition_use(cap.when, "", "cap").expression, run.scope, run.now)
        if isinstance(answer, bool):
            applied = answer
        else:
            fault = f"gave {brief(answer)} instead of true or false"
    except ExpressionError as error:
        fault = shorten(error.message, 200)
    return CapRecord(
        field=cap.field,
        max=cap.max,
        because=cap.because,
        applied=applied,
        origin=origin,
        when=in_words(cap.when),
        fault=None if fault is None else in_words(fault),
    )


def step_ceilings(run: ReviewedRun) -> tuple[Ceiling, ...]:
    """Return the ceilings that are about one step: of its worker's rung and of its gates."""
    return (*dict.fromkeys(_worker_ceilings(run)), *_gate_ceilings(run))


def _gate_ceilings(run: ReviewedRun) -> Iterator[Ceiling]:
    """Yield a ceiling for each gate on a step that counts which was not evaluated, or which failed
    and only warns, and for each step with fewer items than were asked for, or with the same twice.
    """
    state = run.state
    for dropped in dropped_items(run):
        # However few are left out, the goal was asked for all of them.
        share = round(dropped.kept / dropped.total, 4)
        yield Ceiling(min(_DROPPED_MAX, share), dropped.text, dropped.step)
    of_models = steps_of_models(run)
    if of_models:
        # What people join in their own plans is theirs, so a run of one needs none of this.
        from wavewright.reviewer.review.repeated_entries import repeated_entries

        for repeated in repeated_entries(run, of_models, with_result=run.is_planned_by_model):
            yield Ceiling(_WRITTEN_MAX, repeated.text, repeated.step)
    for gate in state.gates:
        if gate.verdict == "not_evaluated" and gate.step not in run.replaced:
            yield Ceiling(_NOT_EVALUATED_MAX, f"gate {gate.gate!r} was {gate.message}", gate.step)
    for step in run.plan.steps:
        if step.id not in run.replaced and state.is_present(step.id):
            for name, share in warned_shares(state.steps[step.id]).items():
                # WARNED_SHARE where all items failed, nearer to 1 the fewer did.
                most = round(1 - (1 - WARNED_SHARE) * share, 4)
                yield Ceiling(most, f"gate {name!r} left a warning on step {step.id!r}", step.id)


def _engine_cap(ceiling: Ceiling, feeders: Mapping[str, Feeders], made_of: _MadeOf) -> CapRecord:
    step = ceiling.step
    ways: dict[str, tuple[StepId, ...]] = {}
    for field, feeders_of_field in feeders.items():
        if step is None or step not in feeders_of_field:
            continue
        reader = feeders_of_field[step]
        if not _is_of_other_data(ceiling, field, reader, made_of):
            ways[field] = way_of(feeders_of_field, step)
    # A ceiling that is about one step spares the fields that it does not feed.
    spares = () if step is None else tuple(field for field in feeders if field not in ways)
    cap = _cap_by_engine(EVERY_FIELD, ceiling.max, ceiling.because)
    return cap.model_copy(update={"ways": ways, "spares": spares})


def _is_of_other_data(
    ceiling: Ceiling, field: str, reader: StepId | None, made_of: _MadeOf
) -> bool:
    """Whether the data that a ceiling is about makes other fields of the reader's output, and not
    this one.

    Data that makes no field may have gone into any.
    """
    if reader is None:
        return False
    declared = made_of.get(reader, {})
    own = declared.get(field, declared.get(field.partition(".")[0]))
    if own is None:
        return False
    used = ceiling.data & frozenset[str]().union(*declared.values())
    return bool(used) and not used & (own | declared.get("confidence", frozenset()))


def is_cap_on(cap: CapRecord, *fields: str) -> bool:
    """Whether a cap is on a figure, by the fields that hold it from the innermost to the outermost;
    positions in lists stand among them as `[0]`.
    """
    if cap.field != EVERY_FIELD:
        parts = _PATH_PART.findall(cap.field)
        if len(parts) < 2:
            return cap.field in (fields[0], _names(fields)[0])
        return cap.field == fields[0] or _matches(parts[::-1], fields)
    # Of a path such as `counts.all` the field of the result that it is in is known.
    whole = _PATH_PART.findall(fields[-1])[:1]
    known = [field for field in fields if field in cap.spares or field in cap.ways] or whole
    return not known or known[-1] not in cap.spares


_PATH_PART = re.compile(r"\[[^\]]*\]|[^.\[\]]+")


def _names(fields: Sequence[str]) -> list[str]:
    """Return fields without the positions among them."""
    return [field for field in fields if not field.startswith("[")]


def _matches(parts: Sequence[str], fields: Sequence[str]) -> bool:
    """Whether a path, from its end, leads to a figure; `[*]` stands for every position."""
    return len(parts) <= len(fields) and all(
        part == field or (part == "[*]" and field.startswith("["))
        for part, field in zip(parts, fields, strict=False)
    )


def _overall_confidence(
    evidence: tuple[StepEvidence, ...], stated: Mapping[str, float], field: str = OVERALL
) -> Confidence:
    raw = raw_overall(evidence)
    whole = sum(1 for part in evidence if part.share == 1.0)
    why = [f"{whole} of {len(evidence)} steps complete, weighted share {raw:.2f}"]
    why += [f"{part.step}: {part.why}, counts {part.share:.2f}" for part in evidence if part.why]
    # A stated figure is an upper bound: it may lower the raw one, and never raises it.
    lowest = min(stated.items(), key=lambda claim: claim[1], default=None)
    if lowest is not None and lowest[1] < raw:
        why.append(f"{lowest[0]} states {lowest[1]:.2f}")
        raw = lowest[1]
    return Confidence(field=field, raw=raw, capped=raw, why=tuple(why))


def data_confidence(evidence: tuple[StepEvidence, ...]) -> Confidence:
    """Return the confidence in the data alone: how much of what the plan set out to produce is
    there.
    """
    return _overall_confidence(evidence, {}, field="data")


def _field_confidence(field: str, stated: Mapping[str, float] | None, overall: float) -> Confidence:
    if not stated:
        why = "no output states a figure, so overall stands for it"
        return Confidence(field=field, raw=overall, capped=overall, why=(why,))
    place, figure = min(stated.items(), key=lambda claim: claim[1])
    of = f", the lowest of {len(stated)}" if len(stated) > 1 else ""
    return Confidence(field=field, raw=figure, capped=figure, why=(f"stated by {place}{of}",))


def _capped(confidence: Confidence, caps: tuple[CapRecord, ...]) -> Confidence:
    """Return the figure under every cap that holds on it; the reasons go from the highest ceiling
    down.
    """
    holding = [cap for cap in caps if cap.applied and is_cap_on(cap, confidence.field)]
    lowered_by: list[str] = []
    for cap in sorted(holding, key=lambda cap: -cap.max):
        doubt = f" (its condition could not be evaluated: {cap.fault})" if cap.fault else ""
        if cap.max < confidence.raw or doubt:
            way = cap.ways.get(confidence.field, ())
            by = f", by way of {' → '.join(way)}" if len(way) > 1 else ""
            lowered_by.append(f"at most {cap.max:g}: {cap.because}{by}{doubt}")
    capped = min([confidence.raw, *(cap.max for cap in holding)])
    return confidence.model_copy(update={"capped": capped, "lowered_by": tuple(lowered_by)})


def confidence_claims(
    terminal: Iterable[StepId], state: RunState, result: Json
) -> Iterator[tuple[str, Json]]:
    """Yield the values that may state a confidence, with their names: present terminal outputs and
    the result.
    """
    outputs = {
        step_id: state.steps[step_id].output for step_id in terminal if state.is_present(step_id)
    }
    for step_id, output in outputs.items():
        yield f"step {step_id!r}", output
    if result not in outputs.values():
        yield "the result", result
