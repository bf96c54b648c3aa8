"""Commands on runs of the journal: `runs`, `show`, `logs`, `retry`, `resume`, `cancel`, `replay`,
`verify` and `receipt`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.config import exit_codes
from wavewright.engine.interfaces import cli
from wavewright.engine.interfaces.cli.commands.options import (
    AnswerOption,
    ApproveOption,
    ByOption,
    ConcurrencyOption,
    FormatOption,
    JsonLines,
    LevelChoice,
    OutputOption,
    QuietOption,
    RunArgument,
    SetOption,
    ShowFormat,
    StatusChoice,
    run_ids,
)

group = typer.Typer()
runs_group = typer.Typer()
group.add_typer(runs_group, name="runs")


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
    return cli.runs.runs_command.list_runs(
        limit=limit,
        output_format=format,
        statuses=[choice.value for choice in status or ()],
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
    return cli.runs.runs_command.prune(keep, is_dry=dry_run)


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
        return cli.runs.runs_command.show_answers(run, output_format=format)
    if why is not None:
        if step is not None:
            raise typer.BadParameter("--why is asked of a run's result, not of a step")
        if format not in {"text", "json"}:
            raise typer.BadParameter("--why prints text or JSON")
        return cli.runs.runs_command.show_reasons(run, why, output_format=format)
    if step is not None:
        return cli.runs.step_command.show_step(run, step, output_format=format)
    return cli.runs.runs_command.show_run(run, output_format=format)


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
    # `--help` loads nothing of the engine; so below.
    from wavewright.reviewer.package.log_lines import LogFilter

    lines = LogFilter(step or "", item, level, search or "")
    request = cli.runs.step_command.LogRequest(lines, is_followed=follow)
    return cli.runs.step_command.show_logs(run, request, output_format=format)


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
    answer: AnswerOption = None,
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
    request = cli.runs.earlier_runs.retry_request(
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
    cli.runs.earlier_runs.show_retry(request, as_outcome=dry_run, is_silent=quiet or json)
    if dry_run:
        return exit_codes.OK
    return cli.runs.run_command.execute_request(
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
    request = cli.runs.earlier_runs.resume_request(
        run, concurrency=concurrency, output=output, by=by
    )
    return cli.runs.run_command.execute_request(
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
    return cli.runs.decisions_command.cancel(run, by=by)


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
    return cli.runs.comparison_commands.replay(run, request, output_format=format)


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
    return cli.runs.verify_command.verify(about, key=key, output_format=format)


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
    return cli.runs.verify_command.write_receipt(run, out=out, key=key)
