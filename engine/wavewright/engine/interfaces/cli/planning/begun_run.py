"""Begun runs for `wavewright dry-run --run`: how a run goes on, as it is or with a patch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from wavewright.config import exit_codes
from wavewright.config.documents import Document, read_document_file
from wavewright.config.settings import Settings
from wavewright.config.sources import Source
from wavewright.engine.interfaces.cli.common.arguments import open_journal, require_journal
from wavewright.engine.interfaces.cli.common.output import CommandError
from wavewright.engine.rehearsal.dry_run.kept_results import BegunRunForecast, rerun_statuses
from wavewright.engine.run.context import goal_with_feedback
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.project.tools import signatures_to_check
from wavewright.engine.run.target_waves import no_plan_reason
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event
from wavewright.planner.diagnostics.diagnostic import PlanError, locate_diagnostics
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, PlanPatch
from wavewright.planner.language.signatures import ToolSignature, asks_approval
from wavewright.planner.plans.patches import PatchCheck, check_patch
from wavewright.planner.reading.reader import read_model
from wavewright.planner.types import RunId


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A begun run, with the plan that it would follow from here."""

    resolved_job: ResolvedJob
    tools: Mapping[str, ToolSignature]
    rerun: BegunRunForecast
    now: dt.datetime
    """The time that the run uses as now."""


def read_begun_run(prefix: str, patch: Path | None, settings: Settings) -> BegunRun:
    """Return a run of the journal, with the patch applied if there is one.

    Raises:
        CommandError: there is no journal, or the run has nothing left to do.
        RunNotFound: no run, or more than one, has this prefix.
        PlanError: the patch cannot be applied.
    """
    state = _load_state(prefix, settings)
    assert state.started is not None
    assert state.run is not None
    if state.plan is None:
        message = no_plan_reason(state, f"run {state.run!r} ended before it had a plan")
        raise CommandError(message, hint="forecast its job: `wavewright dry-run JOB`")
    goal = goal_with_feedback(Goal.model_validate(state.started.goal), state)
    plan = Plan.model_validate(state.plan)
    source = Source(f"the plan of run {state.run}", "")
    approvals: tuple[str, ...] = ()
    reason: str | None = None
    if patch is not None:
        document = read_document_file(patch)
        wanted = read_model(document, PlanPatch)
        tools = signatures_to_check(plan, goal, settings)
        checked = _patched(plan, wanted, goal, tools, state, document)
        assert checked.plan is not None
        approvals, reason = _approvals(checked, plan, goal, tools), wanted.reason
        plan = checked.plan
    elif state.finished is not None and not state.is_interrupted:
        ended = state.finished.status.replace("_", " ")
        message = f"run {state.run!r} has ended ({ended}); no step of it would run again"
        raise CommandError(message, hint="--patch FILE shows what would run after a patch")
    tools = signatures_to_check(plan, goal, settings)
    standings = rerun_statuses(plan, state)
    outputs = {
        step: state.steps[step].output
        for step, standing in standings.items()
        if standing.kind == "kept" and state.is_present(step)
    }
    draft = PlanDraft(
        plan, PlanOrigin.with_plan_value(plan, None), "patch" if patch else state.rung or "given"
    )
    return BegunRun(
        ResolvedJob(goal, draft, source),
        tools,
        BegunRunForecast(state.run, reason, standings, outputs, approvals),
        dt.datetime.fromtimestamp(state.started.now, dt.UTC),
    )


def _load_state(prefix: str, settings: Settings) -> RunState:
    run, events = _load_events(prefix, require_journal(settings))
    state = fold(events)
    if state.started is None:
        message = f"run {run!r} has not begun"
        raise CommandError(message, exit_code=exit_codes.MISUSE)
    return state


def _load_events(prefix: str, settings: Settings) -> tuple[RunId, list[Event]]:
    """Return a run and its events, without writing to the journal."""
    if settings.journal_url is not None:
        return anyio.run(_load_from_database, prefix, settings)
    from wavewright.executor.sqlite.transaction import JournalReader

    with JournalReader.open(settings.journal) as reader:
        run = reader.find_run(prefix)
        return run, reader.load(run)


async def _load_from_database(prefix: str, settings: Settings) -> tuple[RunId, list[Event]]:
    async with open_journal(settings) as journal:
        run = await journal.find_run(prefix)
        return run, await journal.load(run)


def _patched(
    plan: Plan,
    patch: PlanPatch,
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    state: RunState,
    document: Document,
) -> PatchCheck:
    failed = [gate.gate for gate in state.gates if gate.has_failed]
    checked = check_patch(
        plan,
        patch,
        finished=state.finished_steps(),
        goal=goal,
        tools=tools,
        round_number=state.round + 1,
        failed_gates=failed,
    )
    if checked.plan is None:
        raise PlanError(tuple(locate_diagnostics(checked.diagnostics, document)), document.source)
    return checked


def _approvals(
    checked: PatchCheck, before: Plan, goal: Goal, tools: Mapping[str, ToolSignature]
) -> tuple[str, ...]:
    """Return the approvals that the patch needs: for new effects, and for tools that need one."""
    assert checked.plan is not None
    known = {step.id for step in before.steps}
    asked: list[str] = []
    for step in checked.plan.steps:
        tool = tools.get(step.tool)
        if tool is None:
            continue
        if step.id not in known and asks_approval(step, tool):
            asked.append(f"step {step.id!r} calls {step.tool!r}, which needs approval")
        elif step.id in checked.needs_approval:
            effects = ", ".join(sorted(tool.effects - {"read"}))
            asked.append(
                f"the patch brings step {step.id!r}, which calls {step.tool!r} ({effects})"
            )
    if not asked and not goal.auto_approve:
        return ("the goal requires an approval for every patch",)
    return tuple(asked)
