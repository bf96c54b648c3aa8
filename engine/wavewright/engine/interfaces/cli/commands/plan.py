"""Commands on plans before a run, and on what plans are made of: `plan`, `check`, `dry-run`, `keep`,
`diff`, `tools`, `schema` and `lsp`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.engine.interfaces import cli
from wavewright.engine.interfaces.cli.commands.options import (
    AnswerOption,
    AsOfOption,
    CheckedApproveOption,
    CheckFormat,
    FormatOption,
    GraphFormat,
    InputsOption,
    JobArgument,
    PlanOption,
    RunArgument,
    ScheduleOption,
    SchemaName,
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
    return cli.planning.plan_command.plan(
        job,
        as_of=as_of,
        out=out,
        answers=answer or (),
        inputs=cli.common.arguments.input_overrides(set_, inputs),
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
    changes = cli.common.arguments.input_overrides(set_, inputs)
    options = [
        cli.planning.plan_check.CheckOptions(
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
    return cli.planning.check_command.check_files(
        options, output_format=format, writes_permits=permits
    )


@group.command("dry-run")
def dry_run(
    job: Annotated[
        Path | None,
        typer.Argument(metavar="JOB", help="A job, a plan or a saved plan; none with --run."),
    ] = None,
    plan: PlanOption = None,
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
    options = cli.planning.dry_run_command.DryRunOptions(
        job=job,
        plan=plan,
        schedule=schedule,
        out=out,
        run=of_run,
        patch=patch,
        inputs=cli.common.arguments.input_overrides(set_, inputs),
        seed=seed,
        fixtures=fixtures,
        approve=approve,
    )
    execute = (
        cli.planning.dry_run_command.simulate if simulate else cli.planning.dry_run_command.dry_run
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
    return cli.planning.keep_command.keep(run, name, is_confirmed=yes)


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
    return cli.runs.comparison_commands.diff(before, after, output_format=format)


@group.command()
def tools(
    job: Annotated[
        Path | None, typer.Option(metavar="JOB", help="Only the tools that this job allows.")
    ] = None,
    format: FormatOption = "text",  # noqa: A002
    all: Annotated[  # noqa: A002
        bool,
        typer.Option("--all", help="List tools of packs, too, that this project does not use."),
    ] = False,
    lock: Annotated[
        bool, typer.Option("--lock", help="Ask the MCP servers for their tools and accept them.")
    ] = False,
    untrusted: Annotated[
        bool,
        typer.Option("--untrusted", help="List what the project's tools should say of such text."),
    ] = False,
) -> int:
    """List the tools that plans can call here.

    With parameters and results; `check --tools` reads the list as JSON. `--lock` writes the tools
    of MCP servers into `tools.lock.json` and prints what has changed. `--untrusted` lists the text
    parameters that take no untrusted text, with a patch of the settings to apply.
    """
    if untrusted:
        return cli.project.undeclared_tools.list_undeclared()
    if lock:
        return cli.project.tools_command.write_lock()
    return cli.project.tools_command.list_tools(job, output_format=format, lists_all=all)


@group.command()
def schema(
    name: Annotated[
        SchemaName | None,
        typer.Argument(
            metavar="NAME",
            help="plan, patch, job, goal, tools, settings, worker, agent, package or message.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write it there; without a name those of all authored documents."
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of a document, for editors."""
    return cli.project.init_command.print_schema(name, out)


@group.command()
def lsp() -> int:
    """Serve the checker to an editor, over standard input and output.

    Diagnostics as you type, completion, hover, definitions, renaming, code actions and a dry run;
    calls no tool, model or server.
    """
    # Its library is an extra.
    from wavewright.engine.interfaces.cli.lsp.server import serve

    return serve()
