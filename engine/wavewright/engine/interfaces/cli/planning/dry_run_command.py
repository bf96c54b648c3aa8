"""`wavewright dry-run`: what a run would do; with `--simulate`, the plan run with generated
outputs.

Of a job with several targets the run of one is shown, as an example of all. With `--run` a run that
has begun is shown: how it goes on, as it is or with a patch.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from wavewright.config import Document, Settings, Source, exit_codes, read_document_file
from wavewright.engine.interfaces.cli.common.arguments import project_settings, warn_of_foreign_job
from wavewright.engine.interfaces.cli.common.named_runs import load_run, not_begun
from wavewright.engine.interfaces.cli.common.output import CommandError, write_file
from wavewright.engine.interfaces.cli.common.terminal import may_ask
from wavewright.engine.interfaces.cli.planning.plan_report import refuse_to_replace
from wavewright.engine.rehearsal.dry_run.exports import (
    as_mermaid,
    dry_run_json,
    estimate_json,
)
from wavewright.engine.rehearsal.dry_run.forecast import DryRun, forecast
from wavewright.engine.rehearsal.dry_run.kept_results import BegunRunForecast, rerun_statuses
from wavewright.engine.rehearsal.dry_run.outlook import forecast_job, gather_forecast_inputs
from wavewright.engine.rehearsal.dry_run.text import dry_run_text
from wavewright.engine.run.approve import approval_reasons, steps_needing_approval
from wavewright.engine.run.context import CandidatePlan, RunRequest, goal_with_feedback
from wavewright.engine.run.decisions.approvals import asking_step, open_question, recorded_answer
from wavewright.engine.run.jobs.documents import is_saved_plan
from wavewright.engine.run.jobs.goal_in_words import with_kept_plan
from wavewright.engine.run.jobs.inputs import TARGET, InputOverrides
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.jobs.saved_plan import save_plan
from wavewright.engine.run.permits import needs_beyond, permits_of_run
from wavewright.engine.run.project.tools import signatures_to_check
from wavewright.engine.run.read_job import as_requested, requested_job
from wavewright.engine.run.recover import tried_patches
from wavewright.engine.run.target_waves import no_plan_reason
from wavewright.executor import RunState, fold
from wavewright.planner import (
    Goal,
    PatchCheck,
    Plan,
    PlanError,
    PlanPatch,
    StepId,
    ToolSignatures,
    check_patch,
)
from wavewright.planner.diagnostics.diagnostic import counted, locate_diagnostics
from wavewright.planner.diagnostics.rendering import printable_json
from wavewright.planner.language.goals import JobTargets
from wavewright.planner.reading.reader import read_model
from wavewright.planner.types import Schedule
from wavewright.reviewer.review.results import run_instant
from wavewright.reviewer.values import duration_text


@dataclass(frozen=True, slots=True)
class DryRunOptions:
    """Options of `wavewright dry-run`."""

    job: Path | None
    plan: Path | None = None
    schedule: Schedule | None = None
    out: Path | None = None
    """Where the saved plan goes."""
    run: str | None = None
    """A run that has begun, in place of a job."""
    patch: Path | None = None
    """A patch of that run's plan."""
    inputs: InputOverrides = field(default_factory=InputOverrides)
    seed: int | None = None
    """Of a simulation's generated outputs."""
    fixtures: Path | None = None
    """Outputs of a simulation, by step or tool."""
    approve: str | None = None
    """What the run would be given with `--approve`."""

    @property
    def request(self) -> RunRequest:
        """What is asked of the run."""
        return RunRequest(
            job_file=self.job, plan_file=self.plan, schedule=self.schedule, inputs=self.inputs
        )

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked in the run."""
        return may_ask(self.approve)


@dataclass(frozen=True, slots=True)
class _DryRunResult:
    """A dry run, with the job and the tools that it is of."""

    resolved_job: ResolvedJob
    tools: ToolSignatures
    record: DryRun
    settings: Settings


def dry_run(options: DryRunOptions, *, output_format: str, output: Path | None) -> int:
    """Print what running the job would do, or write it to a file; the exit code is 1 if a budget
    would refuse it.

    Raises:
        CommandError: an option needs `--simulate`, or a file cannot be written or may not be
            replaced.
    """
    for name, value in (("--seed", options.seed), ("--fixtures", options.fixtures)):
        if value is not None:
            raise CommandError(
                f"{name} needs --simulate", hint=f"add --simulate, or leave out {name}"
            )
    if options.out is not None:
        # It may be the plan itself.
        refuse_to_replace(options.out, is_saved_plan, "saved plan")
    result = _dry_run_job(options)
    _print_or_write(_render_dry_run(result, output_format), output)
    if options.out is not None:
        _save_plan(result, options.out, is_quiet=output is None and output_format != "text")
    return exit_codes.NEGATIVE if result.record.budget.refusals else exit_codes.OK


def _print_or_write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text)
        sys.stdout.write(f"wrote {output}\n")


def _named_job(options: DryRunOptions, settings: Settings) -> ResolvedJob:
    """Return the job with the schedule and the limits that it would run with.

    Raises:
        CommandError: the command line names no job.
    """
    if options.job is None:
        hint = "name a job, a plan or a saved plan; or a run that has begun with --run RUN"
        raise CommandError("no job is named", hint=hint)
    return with_kept_plan(requested_job(options.request, settings), settings)


def _dry_run_job(options: DryRunOptions) -> _DryRunResult:
    if options.job is not None:
        warn_of_foreign_job(options.job)
    settings = project_settings(options.job)
    if options.run is not None:
        return _dry_run_of_begun_run(options, options.run, settings)
    if options.patch is not None:
        raise CommandError("--patch is a patch of a run's plan", hint="name the run with --run RUN")
    order = _named_job(options, settings)
    tools, record = forecast_job(order, settings, options.request, can_ask=options.can_ask)
    if order.targets is not None:
        record = _with_target_notes(order, order.targets, record, options)
    return _DryRunResult(order, tools, record, settings)


def _with_target_notes(
    order: ResolvedJob,
    targets: JobTargets,
    record: DryRun,
    options: DryRunOptions,
) -> DryRun:
    if options.out is not None:
        message = "a job with targets cannot be saved: further ones are found while it runs"
        raise CommandError(message, hint="leave --out away; `wavewright run` runs the job")
    return replace(record, notes=(*_target_notes(order, targets, record), *record.notes))


def _dry_run_of_begun_run(options: DryRunOptions, run: str, settings: Settings) -> _DryRunResult:
    if (
        options.job is not None
        or options.plan is not None
        or options.out is not None
        or options.inputs
    ):
        message = "--run is for a run that has begun, not for a job, another plan or a saved plan"
        raise CommandError(
            message, hint="leave JOB, --plan, --set, --inputs and --out away, or --run"
        )
    begun = read_begun_run(run, options.patch, settings)
    goal = as_requested(begun.resolved_job.goal, options.request, settings)
    order = replace(begun.resolved_job, goal=goal)
    outlook = gather_forecast_inputs(
        order.require_draft().plan, goal, begun.tools, settings, now=begun.now, rerun=begun.rerun
    )
    record = forecast(order, begun.tools, now=begun.now, outlook=outlook, can_ask=options.can_ask)
    return _DryRunResult(order, begun.tools, record, settings)


def _save_plan(result: _DryRunResult, file: Path, *, is_quiet: bool) -> None:
    """Write the saved plan, and print where it is unless standard output is for a program."""
    record, own = result.record, result.resolved_job.require_draft().plan
    called = dict.fromkeys(step.tool for step in record.steps)
    saved = save_plan(
        # A saved plan reads the run that is the last one when it is run.
        record.plan.model_copy(update={"previous": own.previous}),
        result.resolved_job.goal,
        [result.tools[name] for name in called],
        rung=record.rung,
        estimate=estimate_json(record.estimate),
        root=result.settings.root,
    )
    write_file(file, json.dumps(saved, indent=2, ensure_ascii=False) + "\n")
    if not is_quiet:
        sys.stdout.write(f"\nsaved in {file}: run it with `wavewright run {file}`\n")


def _render_dry_run(result: _DryRunResult, output_format: str) -> str:
    record = result.record
    if output_format == "json":
        return printable_json(dry_run_json(record), indent=2) + "\n"
    if output_format == "html":
        # The other formats need no templates.
        from wavewright.engine.rehearsal.dry_run.page import dry_run_page

        return dry_run_page(record)
    if output_format == "text":
        return dry_run_text(record)
    return as_mermaid(record)


def _target_notes(order: ResolvedJob, targets: JobTargets, dry_run: DryRun) -> tuple[str, ...]:
    """Return notes on the runs of all targets."""
    first = min(len(dict.fromkeys(map(_target_name, targets.first))), targets.most)
    seconds = dry_run.estimate.seconds
    rounds = math.ceil(first / targets.at_once)
    took = (
        f"{duration_text(rounds * seconds.expected)}, at p90 {duration_text(rounds * seconds.p90)}"
    )
    shown = dry_run.plan.inputs.get(TARGET)
    notes = [
        f"this is the run for one target, {shown!r}; there is one for each, with a package of its own",
        *_own_inputs_texts(order.goal),
        f"the first wave has {counted(first, 'target')}, {targets.at_once} at the same time: {took}",
        _further_text(targets),
    ]
    if dry_run.approvals:
        notes.append("each target asks for its own approval")
    return tuple(notes)


def _own_inputs_texts(goal: Goal) -> Iterator[str]:
    """Yield the values of inputs that differ from wave to wave, as the first wave has them."""
    shown = [
        f"{name} = {json.dumps(goal.inputs[name])}" for name in goal.targets.set_by_engine.values()
    ]
    if shown:
        yield f"inputs that the engine sets anew for each wave; in the first one: {', '.join(shown)}"


def _further_text(targets: JobTargets) -> str:
    if targets.depth == 0:
        return "there are no further waves: `targets.depth` is 0"
    if targets.expand is None:
        return "no further targets are found: neither job nor template has `targets.expand`"
    waves = counted(targets.depth, "further wave")
    return (
        f"at most {waves}, of what {targets.expand} gives; {targets.most:,} targets in all at most"
    )


def _target_name(target: object) -> str:
    return str(getattr(target, "name", target))


def simulate(options: DryRunOptions, *, output_format: str, output: Path | None) -> int:
    """Print the report of a simulation, or write it to a file; the exit code is 1 if it found a
    fault.

    Raises:
        CommandError: an option does not go with `--simulate`, or the file cannot be written.
        PlanError: the job has no plan, or it is not valid.
    """
    parsed = {
        "--out": options.out,
        "--run": options.run,
        "--patch": options.patch,
        "--approve": options.approve,
    }
    for name, value in parsed.items():
        if value is not None:
            raise CommandError(
                f"{name} does not go with --simulate", hint=f"leave out --simulate or {name}"
            )
    # A dry run by itself executes nothing.
    from wavewright.engine.rehearsal.simulation import as_json, as_text, simulate as simulate_job

    if output_format not in ("text", "json"):
        msg = f"a simulation has no format {output_format!r}"
        raise CommandError(msg, hint="use --format text or --format json with --simulate")
    if options.job is not None:
        warn_of_foreign_job(options.job)
    settings = project_settings(options.job)
    order = _named_job(options, settings)
    report = simulate_job(order, settings, seed=options.seed or 0, fixtures=options.fixtures)
    text = (
        printable_json(as_json(report), indent=2) + "\n"
        if output_format == "json"
        else as_text(report)
    )
    _print_or_write(text, output)
    return exit_codes.NEGATIVE if report.faults else exit_codes.OK


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A begun run, with the plan that it would follow from here."""

    resolved_job: ResolvedJob
    tools: ToolSignatures
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
    assert state.run is not None
    if state.plan is None:
        message = no_plan_reason(state, f"run {state.run!r} ended before it had a plan")
        raise CommandError(message, hint="forecast its job: `wavewright dry-run JOB`")
    goal = goal_with_feedback(state)
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
        patched = CandidatePlan(checked.plan, wanted, checked.needs_approval)
        asked = steps_needing_approval(patched, plan, goal, tools)
        beyond = needs_beyond(permits_of_run(state), checked.plan, goal, tools, settings)
        approvals, reason = approval_reasons(asked, beyond, goal), wanted.reason
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
        BegunRunForecast(state.run, reason, standings, outputs, approvals, _answered_step(state)),
        run_instant(state),
    )


def _answered_step(state: RunState) -> StepId | None:
    """Return the step whose approval was answered, where the run has not taken the answer yet."""
    asked = open_question(state)
    if asked is None or recorded_answer(state, asked) is None:
        return None
    return StepId(asking_step(asked))


def _load_state(prefix: str, settings: Settings) -> RunState:
    run, events = anyio.run(load_run, settings, prefix)
    state = fold(events)
    if state.started is None:
        raise not_begun(run)
    return state


def _patched(
    plan: Plan,
    patch: PlanPatch,
    goal: Goal,
    tools: ToolSignatures,
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
        tried=tried_patches(state),
    )
    if checked.plan is None:
        raise PlanError(tuple(locate_diagnostics(checked.diagnostics, document)), document.source)
    return checked
