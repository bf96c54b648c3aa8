"""Commands `init`, `do`, `run` and `doctor`: what a new user needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.engine.interfaces import cli
from wavewright.engine.interfaces.cli.commands.options import (
    AnswerOption,
    ApproveOption,
    AsOfOption,
    ConcurrencyOption,
    FormatOption,
    InputsOption,
    JobArgument,
    JsonLines,
    OutputOption,
    PlanOption,
    QuietOption,
    ScheduleOption,
    SetOption,
)

group = typer.Typer()


@group.command()
def init(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="A new or empty folder; left out with --here."),
    ] = None,
    here: Annotated[
        bool,
        typer.Option("--here", help="Write into the working directory without replacing files."),
    ] = False,
) -> int:
    """Write a project that can be run immediately.

    It has typed functions as tools, a plan, a job, a goal template and tests.
    """
    return (
        cli.project.init_command.write_here(folder)
        if here
        else cli.project.init_command.write_project(folder)
    )


@group.command()
def do(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be achieved, in words.")],
    tools: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Tools and packs that the plan may use, with commas; default: the project's.",
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
    options = cli.planning.plan_command.DoOptions(
        goal=goal,
        tools=names,
        inputs=cli.common.arguments.input_overrides(set_, inputs),
        is_dry_run=dry_run,
        is_confirmed=yes,
        answers=answer or (),
        approve=approve,
        output=output,
    )
    request = cli.planning.plan_command.request_to_run(options)
    if isinstance(request, int):
        return request
    return cli.runs.run_command.execute_request(
        request, approve=approve, answers=answer or (), as_json=json, is_quiet=quiet
    )


@group.command()
def run(
    job: JobArgument,
    plan: PlanOption = None,
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
    # `--help` loads nothing of the engine.
    from wavewright.engine.run.context import RunRequest
    from wavewright.engine.run.permits import read_permits

    request = RunRequest(
        job_file=job,
        plan_file=plan,
        schedule=schedule,
        concurrency=concurrency,
        as_of=cli.common.arguments.parse_instant(as_of),
        output_dir=output,
        inputs=cli.common.arguments.input_overrides(set_, inputs),
        permits=None if permits is None else read_permits(permits),
    )
    return cli.runs.run_command.execute_request(
        request,
        approve=approve,
        answers=answer or (),
        as_json=json,
        is_quiet=quiet,
        is_viewed=view,
        reuses_results=not no_cache,
    )


@group.command()
def doctor(
    format: FormatOption = "text",  # noqa: A002
    offline: Annotated[
        bool, typer.Option("--offline", help="Contact no language model and no broker.")
    ] = False,
    model: Annotated[
        bool,
        typer.Option(
            "--model",
            help="Ask the planner's model three small questions instead, and say what it is good for.",
        ),
    ] = False,
) -> int:
    """Check the installation and the project, and show how to fix what fails.

    A configured language model is asked one short question; a configured broker is checked for the
    daemon's access. With `--model`, the planner's model is asked for a word, for a typed object and
    for a plan of two steps, as a whole and one step at a time.
    """
    return cli.project.doctor_command.examine(
        output_format=format, is_offline=offline, examines_model=model and not offline
    )
