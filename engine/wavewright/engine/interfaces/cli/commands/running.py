"""Commands `do`, `run`, `resume`, `cancel`, `retry` and `replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.config import exit_codes
from wavewright.engine.interfaces.cli import common, planning as plan_commands, runs as run_commands
from wavewright.engine.interfaces.cli.commands.options import (
    AnswerOption,
    ApproveOption,
    AsOfOption,
    ByOption,
    ConcurrencyOption,
    FormatOption,
    InputsOption,
    JobArgument,
    JsonLines,
    OutputOption,
    QuietOption,
    RunArgument,
    ScheduleOption,
    SetOption,
)

group = typer.Typer()


@group.command()
def run(
    job: JobArgument,
    plan: Annotated[
        Path | None, typer.Option(metavar="PLAN", help="A plan to use instead of the job's.")
    ] = None,
    schedule: ScheduleOption = None,
    concurrency: ConcurrencyOption = None,
    as_of: AsOfOption = None,
    output: OutputOption = None,
    approve: ApproveOption = "ask",
    answer: AnswerOption = None,
    set_: SetOption = None,
    inputs: InputsOption = None,
    quiet: QuietOption = False,
    json: JsonLines = False,
    view: Annotated[
        bool, typer.Option("--view", help="Serve the live page on this machine while it runs.")
    ] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Call every tool, whatever other runs have kept.")
    ] = False,
    permits: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="What the run may do; default: the permits beside the job."
        ),
    ] = None,
) -> int:
    """Plan, check, execute, review, repair and package a job."""
    from wavewright.engine.run.context import RunRequest
    from wavewright.engine.run.permits import read_permits

    request = RunRequest(
        job_file=job,
        plan_file=plan,
        schedule=schedule,
        concurrency=concurrency,
        as_of=common.arguments.parse_instant(as_of),
        output_dir=output,
        inputs=common.arguments.input_overrides(set_, inputs),
        permits=None if permits is None else read_permits(permits),
    )
    return run_commands.run_command.execute_request(
        request,
        approve=approve,
        answers=answer or (),
        as_json=json,
        is_quiet=quiet,
        is_viewed=view,
        reuses_results=not no_cache,
    )


@group.command()
def do(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be achieved, in words.")],
    tools: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Tools and packs that the plan may use, with commas; default: all.",
        ),
    ] = None,
    set_: SetOption = None,
    inputs: InputsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan and show the dry run; run nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Run without the dry run and its question.")
    ] = False,
    answer: AnswerOption = None,
    approve: ApproveOption = "ask",
    output: OutputOption = None,
    quiet: QuietOption = False,
    json: JsonLines = False,
) -> int:
    """Plan a goal in words, show the dry run, ask once, and run it.

    Needs a model; without one, goal templates for a similar goal are named.
    """
    names = [name.strip() for name in (tools or "").split(",") if name.strip()]
    options = plan_commands.plan_command.DoOptions(
        goal=goal,
        tools=names,
        inputs=common.arguments.input_overrides(set_, inputs),
        is_dry_run=dry_run,
        is_confirmed=yes,
        answers=answer or (),
        approve=approve,
        output=output,
    )
    request = plan_commands.plan_command.request_to_run(options)
    if isinstance(request, int):
        return request
    return run_commands.run_command.execute_request(
        request, approve=approve, answers=answer or (), as_json=json, is_quiet=quiet
    )


@group.command()
def resume(
    run: RunArgument = None,
    concurrency: ConcurrencyOption = None,
    output: OutputOption = None,
    approve: ApproveOption = "ask",
    answer: AnswerOption = None,
    by: ByOption = None,
    quiet: QuietOption = False,
    json: JsonLines = False,
) -> int:
    """Continue a run that was interrupted.

    Calls that are journaled are not repeated.
    """
    request = run_commands.earlier_runs.resume_request(
        run, concurrency=concurrency, output=output, by=by
    )
    return run_commands.run_command.execute_request(
        request, approve=approve, answers=answer or (), as_json=json, is_quiet=quiet
    )


@group.command()
def cancel(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run or a job of a daemon, or the beginning of its id."
        ),
    ],
    by: ByOption = None,
) -> int:
    """End a run, or a job of a daemon, for good.

    Another process may execute it: its calls are cancelled. What has finished
    stays in the journal.
    """
    return run_commands.decisions_command.cancel(run, by=by)


@group.command()
def retry(
    run: RunArgument = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="STEP", help="Repeat this step and all that depend on it."),
    ] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed",
            help="Call only what failed; keep what succeeded although its tool's code has changed.",
        ),
    ] = False,
    again: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP",
            help="Repeat this step also where it is not known whether its write took effect.",
        ),
    ] = None,
    set_: SetOption = None,
    concurrency: ConcurrencyOption = None,
    output: OutputOption = None,
    approve: ApproveOption = "ask",
    by: ByOption = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be called, reused and left; run nothing."),
    ] = False,
    quiet: QuietOption = False,
    json: JsonLines = False,
    permits: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What the run may do; default: the permits of that run."),
    ] = None,
) -> int:
    """Repeat a run that has ended, as a new run.

    Calls that succeeded and are unchanged are not repeated; tools run with their present code.
    """
    request = run_commands.earlier_runs.retry_request(
        run,
        start=start,
        again=again or (),
        inputs=set_ or (),
        concurrency=concurrency,
        output=output,
        by=by,
        only_failed=failed,
        permits=permits,
    )
    run_commands.earlier_runs.show_retry(request, as_outcome=dry_run, is_silent=quiet or json)
    if dry_run:
        return exit_codes.OK
    return run_commands.run_command.execute_request(
        request, approve=approve, answers=(), as_json=json, is_quiet=quiet
    )


@group.command()
def replay(
    run: RunArgument = None,
    planner: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Plan and recover again with this model.")
    ] = None,
    prompt_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Prompts that replace the project's.")
    ] = None,
    reviewer: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Review again with this model.")
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Make calls that were not recorded, of tools that only read."),
    ] = False,
    format: FormatOption = "text",  # noqa: A002
) -> int:
    """Replay a run with another planner, other prompts or another reviewer.

    Recorded outputs stand in for tools. Shows the differences; the exit code is 1 if the verdict
    differs or a call was not recorded.
    """
    from wavewright.engine.rehearsal.recordings.replay_models import ReplayOptions

    request = ReplayOptions(planner=planner, reviewer=reviewer, prompt_dir=prompt_dir, live=live)
    return run_commands.comparison_commands.replay(run, request, output_format=format)
