"""The forecast of a run, computed without calling a tool.

A *dry run* is a record of the checked plan: its waves, max parallelism and critical path, the
calls, dependencies, estimates and side effects of each step, and its egress. Every format is a
rendering of this record, which follows from the job, the tools and the forecast's inputs alone.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wavewright.config import Source
from wavewright.engine.rehearsal.dry_run.estimates import (
    ZERO_RANGE,
    BudgetVerdict,
    EstimateRange,
    ForecastInputs,
    ModelDemand,
    estimate_call,
    judge_budget,
)
from wavewright.engine.rehearsal.dry_run.kept_results import known_values
from wavewright.engine.rehearsal.dry_run.records import PlanFacts, PlanForecast, StepForecast
from wavewright.engine.rehearsal.dry_run.text import dry_run_text
from wavewright.engine.rehearsal.dry_run.trust import judge_trust
from wavewright.engine.run.jobs.plan_drafts import PlanDraft
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.planner import (
    Cap,
    Diagnostic,
    Goal,
    Plan,
    PlanError,
    PlanGraph,
    Step,
    StepId,
    ToolSignatures,
    check,
    plan_hash,
)
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.feasibility import check_readiness
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.language.plan import SUB_PLAN
from wavewright.planner.language.signatures import asks_approval
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.estimates import max_parallel_calls
from wavewright.planner.plans.gate_questions import gate_consequence
from wavewright.planner.plans.let_and_stop import in_authors_words, let_values
from wavewright.planner.schemas.operator_types import describe_kind
from wavewright.planner.schemas.views import view_of

_OVER_BUDGET_CODES = frozenset({"E701", "E702", "E703", "E704"})
"""Errors of the checker on budgets; in a dry run they are part of the budget verdict."""


class DryRun(PlanFacts):
    """A checked plan and what follows from it, which prints as `wavewright dry-run` does."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the text that `wavewright dry-run` prints."""
        return dry_run_text(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the dry run for a notebook: a drawing and a table of its steps, and its text."""
        return notebook_bundle(self)


def notebook_bundle(dry_run: DryRun) -> dict[str, str]:
    """Return a dry run as text, and as HTML with a drawing and a table of its steps."""
    # Drawn where a notebook shows it: templates and layout are loaded for that alone.
    from wavewright.engine.rehearsal.dry_run.page import dry_run_figure

    return {"text/plain": str(dry_run), "text/html": dry_run_figure(dry_run)}


def forecast(
    order: ResolvedJob,
    tools: ToolSignatures,
    *,
    now: dt.datetime,
    outlook: ForecastInputs | None = None,
    can_ask: bool = True,
    can_answer: bool | None = None,
) -> DryRun:
    """Return the forecast of a job; a plan that is over a budget has that verdict.

    Where no person can be asked, a plan that needs one is not valid; `can_answer` is whether a
    person answers questions, by default as `can_ask`.

    Raises:
        PlanError: there is no plan, or it is not valid.
    """
    outlook = outlook or ForecastInputs()
    goal, draft = order.goal, order.require_draft()
    plan = bind_plan(draft.plan, goal)
    rerun = outlook.rerun
    checked = check(
        plan,
        goal,
        tools,
        # A budget of models refuses nothing where there is no model to ask.
        allowance=outlook.allowance if outlook.has_models else None,
        finished=rerun.finished if rerun is not None else (),
        items_done=rerun.items_done if rerun is not None else None,
        can_ask=can_ask,
        can_answer=can_ask if can_answer is None else can_answer,
    )
    diagnostics = draft.origin.place([*checked, *check_readiness(plan, outlook.obstacles)])
    source = draft.origin.document.source
    if any(
        diagnostic.severity == "error" and diagnostic.code not in _OVER_BUDGET_CODES
        for diagnostic in diagnostics
    ):
        raise PlanError(diagnostics, source)
    if outlook.has_models and draft.rung == "template" and rerun is None:
        outlook = replace(outlook, notes=(_note_on_template(draft), *outlook.notes))
    return _Forecaster(plan, goal, tools, outlook, now).record(draft.rung, diagnostics, source)


def _note_on_template(draft: PlanDraft) -> str:
    """Return whether a run of a job that has not begun follows this plan of a goal template."""
    if draft.kept_as is not None:
        return (
            f"this is the plan that was kept as {draft.kept_as!r} for this goal, which a run follows "
            "without asking the planner; where its file is removed, the planner makes one"
        )
    if draft.is_saved:
        return (
            "this is the goal template's plan, which a run follows without asking the planner; a job "
            "with `plan: auto` has one made"
        )
    return (
        "this is the goal template's fallback plan; a run would have the planner make one first: "
        "`--out FILE` saves this one, `wavewright plan JOB --out FILE` makes another"
    )


class _Forecaster:
    """Computes one dry run."""

    def __init__(
        self,
        plan: Plan,
        goal: Goal,
        tools: ToolSignatures,
        outlook: ForecastInputs,
        now: dt.datetime,
    ) -> None:
        self._plan = plan
        self._goal = goal
        self._tools = tools
        self._inputs = outlook
        self._known = known_values(plan, now, outlook.rerun)
        self._in_words = in_authors_words(plan)
        self._graph = PlanGraph.of(plan)
        self._waves = self._graph.wave_of()
        self._place = {step.id: number for number, step in enumerate(plan.steps)}
        self._gates: dict[StepId, list[str]] = {}
        for gate in plan.gates:
            if gate.on is not None:
                self._gates.setdefault(gate.on, []).append(gate.id)
        self._calls = {
            name: estimate_call(tools[name], outlook)
            for name in dict.fromkeys(s.tool for s in plan.steps)
        }

    def record(self, rung: str, diagnostics: Sequence[Diagnostic], source: Source) -> DryRun:
        plan, goal, tools = self._plan, self._goal, self._tools
        steps = tuple(self._step(step) for step in plan.steps)
        path = self._graph.critical_path({step.id: step.seconds for step in steps})
        estimate = self._estimate(steps)
        return DryRun(
            job=goal.job,
            goal=goal.text,
            rung=rung,
            plan_hash=plan_hash(plan),
            schedule=goal.schedule,
            concurrency=goal.limits.concurrency,
            steps=steps,
            waves=self._graph.waves,
            max_parallelism=self._graph.width,
            critical_path=path.steps,
            critical_seconds=path.seconds,
            total_seconds=math.fsum(_sequential_seconds(step).expected for step in steps),
            names=tuple(_name_texts(CheckContext(plan, goal, tools, goal.limits))),
            stop=None if plan.stop is None else self._in_words(f"when {plan.stop.when}"),
            gates=tuple(
                f"{gate.id} on {gate.on}: {gate.kind}, {gate_consequence(gate)}"
                for gate in plan.gates
            ),
            caps=tuple(self._in_words(_cap_text(cap)) for cap in plan.caps),
            approvals=self._approvals(steps),
            warnings=tuple(
                diagnostic for diagnostic in diagnostics if diagnostic.severity != "error"
            ),
            source=source,
            estimate=estimate,
            budget=self._budget(steps, estimate, error_diagnostics(diagnostics)),
            trust=judge_trust(
                CheckContext(plan, goal, tools, goal.limits),
                skipped=frozenset(step.id for step in steps if step.is_skipped),
                silent=frozenset(step.id for step in steps if step.makes_no_call),
                prices=self._inputs.prices,
            ),
            plan=plan,
            rerun=self._inputs.rerun,
            notes=self._inputs.notes,
        )

    def _approvals(self, steps: Sequence[StepForecast]) -> tuple[str, ...]:
        """Return what a person will be asked to approve: of a patch, and of each step that calls."""
        rerun = self._inputs.rerun
        answered = None if rerun is None else rerun.answered
        of_steps = [
            f"step {step.id!r} calls {step.tool!r}, which needs approval"
            for step in steps
            if step.needs_approval and not step.makes_no_call and step.id != answered
        ]
        of_patch = () if rerun is None else rerun.approvals
        # Of a step that the patch brings both may speak.
        return tuple(dict.fromkeys([*of_patch, *of_steps]))

    def _step(self, step: Step) -> StepForecast:
        tool, call, rerun = self._tools[step.tool], self._calls[step.tool], self._inputs.rerun
        is_skipped = self._known.is_skipped(step)
        bare = StepForecast(
            id=step.id,
            tool=step.tool,
            why=step.why,
            wave=self._waves[step.id],
            depends_on=tuple(
                sorted(self._graph.dependencies[step.id], key=self._place.__getitem__)
            ),
            for_each=step.for_each is not None,
            calls=0 if is_skipped else self._known.count_calls(step),
            is_skipped=is_skipped,
            when=None if step.when is None else self._in_words(step.when),
            optional=step.optional,
            effects=tuple(sorted(tool.effects - {"read"})),
            seconds=0.0,
            gates=tuple(self._gates.get(step.id, ())),
            params=step.params,
            p90_seconds=0.0,
            call=call,
            tokens=ZERO_RANGE,
            usd=ZERO_RANGE,
            needs_approval=asks_approval(step, tool),
            reuse=self._inputs.saved.reused.get(step.id),
            shared_calls=self._inputs.saved.shared.get(step.id, 0),
            rerun_status=rerun.statuses.get(step.id) if rerun is not None else None,
        )
        calls = bare.calls_made
        seconds = call.seconds.times(
            math.ceil(calls / max_parallel_calls(step, tool, self._goal.limits))
        )
        return replace(
            bare,
            seconds=seconds.expected,
            p90_seconds=seconds.p90,
            tokens=call.tokens.times(calls),
            usd=call.usd.times(calls) if call.usd is not None else None if calls else ZERO_RANGE,
        )

    def _estimate(self, steps: Sequence[StepForecast]) -> PlanForecast:
        # The step that holds the result of a sub-plan calls nothing.
        running = [step for step in steps if step.calls_made and step.tool != SUB_PLAN]
        priced = [step.usd for step in running]
        return PlanForecast(
            seconds=EstimateRange(
                self._run_seconds(steps, is_p90=False), self._run_seconds(steps, is_p90=True)
            ),
            calls=sum(step.calls_made for step in running),
            tokens=sum((step.tokens for step in running), ZERO_RANGE),
            usd=None
            if None in priced
            else sum((usd for usd in priced if usd is not None), ZERO_RANGE),
            is_lower_bound=any(step.calls is None for step in running),
            from_history=sum(not _is_default_estimate(step) for step in running),
            from_defaults=sum(_is_default_estimate(step) for step in running),
        )

    def _run_seconds(self, steps: Sequence[StepForecast], *, is_p90: bool) -> float:
        """Return the least time of the run: that of its longest chain, or of its work at full
        concurrency.
        """
        seconds = {step.id: step.p90_seconds if is_p90 else step.seconds for step in steps}
        work = {
            step.id: _sequential_seconds(step).p90 if is_p90 else _sequential_seconds(step).expected
            for step in steps
        }
        concurrency = self._goal.limits.concurrency
        if self._goal.schedule == "dataflow":
            return max(
                self._graph.critical_path(seconds).seconds, math.fsum(work.values()) / concurrency
            )
        return math.fsum(
            max(
                *(seconds[name] for name in wave),
                math.fsum(work[name] for name in wave) / concurrency,
            )
            for wave in self._graph.waves
        )

    def _budget(
        self, steps: Sequence[StepForecast], estimate: PlanForecast, errors: Sequence[Diagnostic]
    ) -> BudgetVerdict:
        demands = {step.id: _step_demand(step) for step in steps if step.call.model is not None}
        return judge_budget(
            sum(demands.values(), ModelDemand()),
            time=estimate.seconds,
            time_limit=self._goal.limits.run_timeout,
            allowance=self._inputs.allowance,
            steps=[
                (
                    step.id,
                    step.budget,
                    demands.get(step.id, ModelDemand()),
                    _sequential_seconds(one),
                )
                for step, one in zip(self._plan.steps, steps, strict=True)
                if step.budget is not None and one.calls_made
            ],
            refusals=tuple(f"{error.code} {error.message}" for error in errors),
        )


def _sequential_seconds(step: StepForecast) -> EstimateRange:
    """Return the sequential time of all calls of a step."""
    return step.call.seconds.times(step.calls_made)


def _name_texts(subject: CheckContext) -> Iterator[str]:
    """Yield each name of `let` with its type and what it stands for."""
    for name, value in let_values(subject.plan).items():
        kind = describe_kind(view_of(subject.types.value(value)))
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{name} ({kind}): {shown}"


def _cap_text(cap: Cap) -> str:
    when = "" if cap.when == "true" else f" when {cap.when}"
    return f"{cap.field} at most {cap.max:g}{when}: {cap.because}"


def _step_demand(step: StepForecast) -> ModelDemand:
    calls = float(step.calls_made)
    return ModelDemand(
        EstimateRange(calls, calls), step.tokens, step.usd, _sequential_seconds(step)
    )


def _is_default_estimate(step: StepForecast) -> bool:
    return step.call.seconds_from == "default" or (
        step.call.model is not None and step.call.tokens_from == "default"
    )
