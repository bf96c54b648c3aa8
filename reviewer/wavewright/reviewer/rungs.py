"""Rungs of the fallback ladders, as ceilings of the confidence.

A plan, an output or a patch that came from a low rung is worth less than one from the top, and the record of the
rung says how much: its *ceiling* bounds every confidence of the run. What a patch replaced counts no longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from wavewright.executor.events import RungTaken
from wavewright.executor.state import RunState
from wavewright.planner.ladder import RungRecord
from wavewright.planner.models import Plan
from wavewright.planner.types import StepId
from wavewright.reviewer.evidence import superseded_steps

PLANNER = "planner"
REVIEWER = "reviewer"
RECOVERY = "recovery"

_DEFAULT_CEILINGS: Mapping[str, tuple[float, str]] = {
    "template": (0.9, "the plan is the goal template's own; no planner fitted it to this job"),
}
"""Ceilings of plans whose rung nobody recorded: runs of a version before there were such records."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that a confidence may be, and why."""

    max: float
    because: str


def ceiling_of(record: RungRecord) -> Ceiling | None:
    """Return the ceiling that a rung puts on what came from it; none where it leaves all of it."""
    if record.outcome != "reached" or record.ceiling >= 1:
        return None
    because = record.because or f"{record.ladder} came from its rung {record.rung!r}"
    return Ceiling(record.ceiling, because)


def rung_ceilings(plan: Plan, state: RunState) -> Iterator[Ceiling]:
    """Yield the ceilings of the plan, of the patches, and of the outputs that count, each once."""
    seen = dict.fromkeys((*_plan_ceilings(state), *_patch_ceilings(state), *_step_ceilings(plan, state)))
    yield from seen


def planner_record(state: RunState) -> RungRecord | None:
    """Return the record of the rung that made the first plan."""
    reached = _rungs_of(state, PLANNER)
    return reached[-1].rung if reached else None


def patch_rungs(state: RunState) -> tuple[RungRecord | None, ...]:
    """Return, for each patch that was applied, the record of the rung that made it; none where nobody recorded it."""
    found: list[RungRecord | None] = []
    since = state.plans[0].at if state.plans else 0.0
    for accepted in state.plans[1:]:
        made = [taken.rung for taken in _rungs_of(state, RECOVERY) if since <= taken.at <= accepted.at]
        found.append(made[-1] if made else None)
        since = accepted.at
    return tuple(found)


def _plan_ceilings(state: RunState) -> Iterator[Ceiling]:
    # A patch improves on the plan that it patches; it does not change where that one came from.
    record = planner_record(state)
    if record is not None:
        yield from _ceilings([record])
    elif state.rung is not None and state.rung in _DEFAULT_CEILINGS:
        yield Ceiling(*_DEFAULT_CEILINGS[state.rung])


def _patch_ceilings(state: RunState) -> Iterator[Ceiling]:
    yield from _ceilings(record for record in patch_rungs(state) if record is not None)


def _step_ceilings(plan: Plan, state: RunState) -> Iterator[Ceiling]:
    """Yield what the workers' rungs leave of each step that counts, told with the share of its items."""
    replaced = superseded_steps(plan)
    latest: dict[StepId, dict[tuple[str, int | None], RungRecord]] = {}
    for taken in state.rungs:
        if taken.step is not None and taken.rung.outcome == "reached":
            # A call that was made again, in another attempt or after a crash, is what it came to at last.
            latest.setdefault(taken.step, {})[taken.rung.ladder, taken.index] = taken.rung
    for step in plan.steps:
        if step.id in replaced or not state.is_present(step.id):
            continue
        records = latest.get(step.id, {})
        for record in dict.fromkeys(_comparable_record(each) for each in records.values()):
            ceiling = ceiling_of(record)
            if ceiling is not None:
                count = sum(1 for each in records.values() if _comparable_record(each) == record)
                of = f", in {count} of {len(records)} calls" if len(records) > 1 else ""
                yield Ceiling(ceiling.max, f"step {step.id!r}{of}: {ceiling.because}")


def _comparable_record(record: RungRecord) -> RungRecord:
    """Return the record without what differs from call to call."""
    return RungRecord(
        record.ladder, record.rung, record.outcome, ceiling=record.ceiling, because=record.because
    )


def _rungs_of(state: RunState, ladder: str) -> list[RungTaken]:
    return [taken for taken in state.rungs if taken.rung.ladder == ladder and taken.rung.outcome == "reached"]


def _ceilings(records: Iterable[RungRecord]) -> Iterator[Ceiling]:
    for record in records:
        ceiling = ceiling_of(record)
        if ceiling is not None:
            yield ceiling
