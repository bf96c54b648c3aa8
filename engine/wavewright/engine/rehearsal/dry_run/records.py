"""What a dry run says of a plan: the forecast of each step, and of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wavewright.config import Source
from wavewright.engine.rehearsal.dry_run.estimates import (
    BudgetVerdict,
    CallEstimate,
    EstimateRange,
)
from wavewright.engine.rehearsal.dry_run.kept_results import (
    CALLING,
    BegunRunForecast,
    RerunStatus,
    StepReuse,
)
from wavewright.engine.rehearsal.dry_run.trust import Trust
from wavewright.planner import Diagnostic, Json, Plan, StepId
from wavewright.planner.types import Schedule


@dataclass(frozen=True, slots=True)
class StepForecast:
    """The forecast of one step."""

    id: StepId
    tool: str
    why: str | None
    wave: int
    """Counted from 0."""
    depends_on: tuple[StepId, ...]
    for_each: bool
    calls: int | None
    """Number of calls; None if it depends on an output, 0 if the step is skipped."""
    is_skipped: bool
    """Its condition is false for these inputs, whatever the outputs are."""
    when: str | None
    optional: bool
    effects: tuple[str, ...]
    """Without `read`."""
    seconds: float
    """Expected time of all its calls, with the concurrency that the limits allow."""
    gates: tuple[str, ...]
    params: Mapping[str, Json]
    p90_seconds: float
    call: CallEstimate
    """The estimate of one call, with its source."""
    tokens: EstimateRange
    """Of all its calls."""
    usd: EstimateRange | None
    """Of all its calls; None if the price is unknown."""
    needs_approval: bool
    reuse: StepReuse | None
    """Calls whose results are reused from other runs."""
    shared_calls: int
    """Calls that an equal call of the run serves."""
    rerun_status: RerunStatus | None
    """What happens to it, if the run has begun already."""

    @property
    def makes_no_call(self) -> bool:
        """Whether it calls nothing: skipped or without items for these inputs, done already, or
        blocked.
        """
        if self.rerun_status is not None and self.rerun_status.kind not in CALLING:
            return True
        return self.calls == 0

    @property
    def calls_made(self) -> int:
        """Number of calls that are made; one if the number depends on an output."""
        if self.makes_no_call:
            return 0
        done = len(self.rerun_status.items_kept) if self.rerun_status is not None else 0
        saved = self.shared_calls + (self.reuse.calls if self.reuse is not None else 0)
        return 1 if self.calls is None else max(0, self.calls - done - saved)


@dataclass(frozen=True, slots=True)
class PlanForecast:
    """The forecast of the whole plan."""

    seconds: EstimateRange
    """From the first call to the last, with the schedule and the limits."""
    calls: int
    """Calls that are made, without reused results."""
    tokens: EstimateRange
    usd: EstimateRange | None
    """None if a step's price is unknown."""
    is_lower_bound: bool
    """Whether a step's number of calls depends on an output and is counted as one."""
    from_history: int
    """Steps whose seconds are computed from past calls."""
    from_defaults: int
    """Steps whose seconds or tokens are the tool's own defaults."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """A checked plan and what follows from it."""

    job: str
    goal: str
    rung: str
    plan_hash: str
    schedule: Schedule
    concurrency: int
    steps: tuple[StepForecast, ...]
    waves: tuple[tuple[StepId, ...], ...]
    max_parallelism: int
    critical_path: tuple[StepId, ...]
    critical_seconds: float
    total_seconds: float
    """Sequential time of all calls."""
    names: tuple[str, ...]
    """The names of `let`, each with its type and what it stands for."""
    stop: str | None
    """When the run ends early."""
    gates: tuple[str, ...]
    caps: tuple[str, ...]
    approvals: tuple[str, ...]
    warnings: tuple[Diagnostic, ...]
    source: Source
    estimate: PlanForecast
    budget: BudgetVerdict
    trust: Trust
    plan: Plan
    """Bound to its goal, as it would run."""
    rerun: BegunRunForecast | None
    """The run that it continues, if it has begun."""
    notes: tuple[str, ...]
    """Remarks, such as that a run would ask the planner."""
