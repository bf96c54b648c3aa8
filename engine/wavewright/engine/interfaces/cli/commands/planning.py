"""Commands `plan`, `check`, `dry-run` and `keep`: plans before a run, and those that are kept after
it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.engine.interfaces.cli import common, planning as plan_commands
from wavewright.engine.interfaces.cli.commands.options import (
    AnswerOption,
    AsOfOption,
    CheckedApproveOption,
    CheckFormat,
    FormatOption,
    GraphFormat,
    InputsOption,
    JobArgument,
    RunArgument,
    ScheduleOption,
    SetOption,
    run_ids,
    template_names,
)

group = typer.Typer()


@group.command()
def plan(
    job: JobArgument,
    as_of: AsOfOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the plan there, as YAML or JSON by its suffix."),
    ] = None,
    answer: AnswerOption = None,
    set_: SetOption = None,
    inputs: InputsOption = None,
    format: FormatOption = "text",  # noqa: A002
) -> int:
    """Make a plan for a job; calls none of its tools.

    Prints the plan, the rung of the ladder that made it, the checker's diagnostics and the cost of
    models.
    """
    return plan_commands.plan_command.plan(
        job,
        as_of=as_of,
        out=out,
        answers=answer or (),
        inputs=common.arguments.input_overrides(set_, inputs),
        output_format=format,
    )


@group.command()
def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Plans, jobs, goal templates; '-' reads standard input."
        ),
    ],
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="GOAL",
            help="Goal template (file or name) or job whose rules the plan must obey.",
            autocompletion=template_names,
        ),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(metavar="TOOLS", help="JSON list of tool signatures to check against."),
    ] = None,
    format: Annotated[CheckFormat, typer.Option("--format", "-f")] = "text",  # noqa: A002
    from_model: Annotated[
        bool, typer.Option("--from-model", help="Read the file as a model's raw answer.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Tell where only a call shows whether a value fits.")
    ] = False,
    set_: SetOption = None,
    inputs: InputsOption = None,
    approve: CheckedApproveOption = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Maximum number of steps.")] = None,
    max_waves: Annotated[int | None, typer.Option(min=1, help="Maximum number of waves.")] = None,
    max_bytes: Annotated[int | None, typer.Option(min=1, help="Maximum size of the file.")] = None,
    max_depth: Annotated[
        int | None, typer.Option(min=1, help="Maximum nesting of the file.")
    ] = None,
    permits: Annotated[
        bool,
        typer.Option(
            "--permits", help="Write the least that each plan needs into a file beside it."
        ),
    ] = False,
) -> int:
    """Check plans, and show every fault with its place and fix.

    A permits file beside a plan is compared with what the plan needs.
    """
    changes = common.arguments.input_overrides(set_, inputs)
    options = [
        plan_commands.plan_check.CheckOptions(
            file=file,
            goal=goal,
            tools=tools,
            from_model=from_model,
            is_strict=strict,
            max_steps=max_steps,
            max_waves=max_waves,
            max_bytes=max_bytes,
            max_depth=max_depth,
            inputs=changes,
            approve=approve,
        )
        for file in files
    ]
    return plan_commands.check_command.check_files(
        options, output_format=format, writes_permits=permits
    )


@group.command("dry-run")
def dry_run(
    job: Annotated[
        Path | None,
        typer.Argument(metavar="JOB", help="A job, a plan or a saved plan; none with --run."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="PLAN", help="A plan to use instead of the job's.")
    ] = None,
    schedule: ScheduleOption = None,
    approve: CheckedApproveOption = None,
    set_: SetOption = None,
    inputs: InputsOption = None,
    format: Annotated[GraphFormat, typer.Option("--format", "-f")] = "text",  # noqa: A002
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there instead of printing."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save plan, tools and estimate there, for `run FILE`."),
    ] = None,
    of_run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="A run that has begun: show what is left of it.",
            autocompletion=run_ids,
        ),
    ] = None,
    patch: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --run: what would run after this patch."),
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Run the plan over generated outputs, every branch.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seed of the generated outputs; default 0."),
    ] = None,
    fixtures: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Outputs by step or tool, for --simulate.")
    ] = None,
) -> int:
    """Show what a run would do; calls no tool.

    Waves, critical path, max parallelism, calls, side effects, approvals, gates and caps.
    With --simulate the plan runs over generated outputs.
    """
    options = plan_commands.dry_run_command.DryRunOptions(
        job=job,
        plan=plan,
        schedule=schedule,
        out=out,
        run=of_run,
        patch=patch,
        inputs=common.arguments.input_overrides(set_, inputs),
        seed=seed,
        fixtures=fixtures,
        approve=approve,
    )
    execute = (
        plan_commands.dry_run_command.simulate
        if simulate
        else plan_commands.dry_run_command.dry_run
    )
    return execute(options, output_format=format, output=output)


@group.command()
def keep(
    name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Name of the goal template that is written.")
    ],
    run: RunArgument = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write it without a question.")] = False,
) -> int:
    """Keep the plan of an achieved run as a goal template.

    Literals that equal inputs of the run become references to them. Shows them as a diff and asks.
    """
    return plan_commands.keep_command.keep(run, name, is_confirmed=yes)
