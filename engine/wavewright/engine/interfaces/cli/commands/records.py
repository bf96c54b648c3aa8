"""Commands `runs`, `show`, `verify`, `receipt`, `logs` and `diff`: read the journal and
compare plans.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.config import exit_codes
from wavewright.engine.interfaces.cli import runs as run_commands
from wavewright.engine.interfaces.cli.commands.options import (
    FormatOption,
    LevelChoice,
    RunArgument,
    ShowFormat,
    StatusChoice,
    run_ids,
)

group = typer.Typer()
runs_group = typer.Typer()


@runs_group.callback(invoke_without_command=True)
def runs(
    context: typer.Context,
    status: Annotated[
        list[StatusChoice] | None,
        typer.Option(help="Only runs with this status; repeat for others."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only runs begun since a date, or within a duration such as 12h or 7d.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of runs, newest first.")
    ] = 20,
    format: FormatOption = "text",  # noqa: A002
) -> int:
    """List the runs in the journal, or remove old ones."""
    if context.invoked_subcommand is not None:
        return exit_codes.OK  # that of the subcommand counts
    return run_commands.runs_command.list_runs(
        limit=limit,
        output_format=format,
        statuses=[one.value for one in status or ()],
        since=since,
    )


@runs_group.command()
def prune(
    keep: Annotated[
        str,
        typer.Option(
            metavar="AGE|N",
            help="Keep runs that ended within this time (12h, 30d), or this number of the newest.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be removed.")
    ] = False,
) -> int:
    """Remove runs that have ended, with their events and files.

    Runs that have not ended, wait for a person or are being executed are kept. A job and its
    targets, and a run and its retries, are removed together.
    """
    return run_commands.runs_command.prune(keep, is_dry=dry_run)


@group.command()
def show(
    run: RunArgument = None,
    step: Annotated[
        str | None,
        typer.Argument(
            metavar="STEP",
            help="Only this step: parameters, output, attempts, model calls.",
            show_default=False,
        ),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(
            "--why",
            metavar="FIELD",
            help="Why the confidence in a field of the result is what it is: the raw figure, and"
            " each cap with the steps by which it reaches the field; `overall` is the whole.",
        ),
    ] = None,
    answers: Annotated[
        bool,
        typer.Option(
            "--answers",
            help="Answers of models to the planner, the reviewer and the recovery that could not be"
            " used, each with all its faults.",
        ),
    ] = False,
    format: Annotated[ShowFormat, typer.Option("--format", "-f")] = "text",  # noqa: A002
) -> int:
    """Show a run, or one of its steps."""
    if answers:
        if step is not None or why is not None or format not in {"text", "json"}:
            raise typer.BadParameter("--answers is asked of a run, and prints text or JSON")
        return run_commands.runs_command.show_answers(run, output_format=format)
    if why is not None:
        if step is not None:
            raise typer.BadParameter("--why is asked of a run's result, not of a step")
        if format not in {"text", "json"}:
            raise typer.BadParameter("--why prints text or JSON")
        return run_commands.runs_command.show_reasons(run, why, output_format=format)
    if step is not None:
        return run_commands.step_command.show_step(run, step, output_format=format)
    return run_commands.runs_command.show_run(run, output_format=format)


@group.command()
def verify(
    about: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|FILE",
            help="A run's id or its beginning, a receipt or a package; default: the newest run.",
            autocompletion=run_ids,
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Public key of receipts; default: that of the settings."),
    ] = None,
    format: FormatOption = "text",  # noqa: A002
) -> int:
    """Check that a run's journal is what was written, or that a receipt is.

    Prints whether the events are intact, changed at one of them, or cut; the exit code is 1 unless
    they are intact. A receipt's signature is checked without the journal.
    """
    return run_commands.verify_command.verify(about, key=key, output_format=format)


@group.command()
def receipt(
    run: RunArgument = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it to a file.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Private key to sign with; default: that of the settings."
        ),
    ] = None,
) -> int:
    """Print the receipt of a run: plans, tools, permits, approvals and the journal's head.

    It is signed where there is a key, and `wavewright verify` checks it.
    """
    return run_commands.verify_command.write_receipt(run, out=out, key=key)


@group.command()
def logs(
    run: RunArgument = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="STEP", help="Only this step's.")
    ] = None,
    item: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only those of this item, from 0.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print what comes, until the run stops.")
    ] = False,
    level: Annotated[
        LevelChoice, typer.Option(help="Only lines of this level and graver ones.")
    ] = "debug",
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only lines with this text, in any case.")
    ] = None,
    format: FormatOption = "text",  # noqa: A002
) -> int:
    """Print what a run's tools printed, logged and raised.

    With one of --follow, --item, --level and --search: line by line, with time, step and level.
    What is printed is 'info', on standard error 'warning', and a traceback 'error'.
    """
    from wavewright.reviewer.package.log_lines import LogFilter

    lines = LogFilter(step or "", item, level, search or "")
    request = run_commands.step_command.LogRequest(lines, is_followed=follow)
    return run_commands.step_command.show_logs(run, request, output_format=format)


@group.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A plan, a job or a run.")],
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="B", help="A plan, a job, a run or a patch of A; left out for a run alone."
        ),
    ] = None,
    format: FormatOption = "text",  # noqa: A002
) -> int:
    """Show the differences between two plans.

    Compares steps, edges, waves and gates; the exit code is 1 if they differ. For a run alone: what
    each recovery round changed in its plan, and why.
    """
    return run_commands.comparison_commands.diff(before, after, output_format=format)
