"""The commands, their options and their words of help.

Only Typer is imported here; each command imports its own module when it is called, so that `--help` stays quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from wavewright.engine.cli import completion
from wavewright.engine.version import __version__

app = typer.Typer(
    name="wavewright",
    help=(
        "Typed plans: checked before anything runs, executed in parallel waves, reviewed, repaired, packaged.\n\n"
        "Exit codes: 0 yes, 1 no (faults found, goal not achieved), 2 misuse, 3 journal or disk failed, "
        "130 interrupted."
    ),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


class ScheduleChoice(StrEnum):
    """`--schedule`."""

    waves = "waves"
    dataflow = "dataflow"


class CheckFormat(StrEnum):
    """`check --format`."""

    text = "text"
    json = "json"
    sarif = "sarif"


class GraphFormat(StrEnum):
    """`dry-run --format`."""

    text = "text"
    json = "json"
    mermaid = "mermaid"
    dot = "dot"
    html = "html"


class TextFormat(StrEnum):
    """`--format` of commands that print a record."""

    text = "text"
    json = "json"


class ShowFormat(StrEnum):
    """`show --format`."""

    text = "text"
    json = "json"
    html = "html"
    events = "events"


class ApproveChoice(StrEnum):
    """`--approve`."""

    ask = "ask"
    always = "always"
    never = "never"
    wait = "wait"


class LogLevelChoice(StrEnum):
    """What is worth a line in the daemon's log."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class SchemaName(StrEnum):
    """`schema NAME`."""

    plan = "plan"
    patch = "patch"
    job = "job"
    goal = "goal"
    tools = "tools"
    settings = "settings"
    worker = "worker"
    package = "package"
    message = "message"


JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="A job, a plan or a sealed plan.")]
ScheduleOption = Annotated[
    ScheduleChoice | None,
    typer.Option(help="Start steps wave by wave, or as soon as their dependencies are done."),
]
ConcurrencyOption = Annotated[int | None, typer.Option(min=1, help="How many calls run at once.")]
AsOfOption = Annotated[
    str | None, typer.Option(metavar="DATE", help="The instant to take for now (ISO 8601).")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the package and the report.")
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")]
ApproveOption = Annotated[
    ApproveChoice,
    typer.Option(
        help="What to answer where a plan or a patch needs approval; 'ask' asks on a terminal, 'wait' waits for "
        "`wavewright answer`."
    ),
]
AnswerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--answer", metavar="TEXT", help="Answer to a planner's question; repeat it for further questions."
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, or its beginning.", autocompletion=completion.run_ids),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wavewright {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command()
def run(
    job: JobArgument,
    plan: Annotated[
        Path | None, typer.Option(metavar="PLAN", help="A plan to use instead of the job's.")
    ] = None,
    schedule: ScheduleOption = None,
    concurrency: ConcurrencyOption = None,
    as_of: AsOfOption = None,
    output: OutputOption = None,
    approve: ApproveOption = ApproveChoice.ask,
    answer: AnswerOption = None,
    json: JsonLines = False,
) -> None:
    """Plan, check, execute, review, repair and package a job."""
    from wavewright.engine.cli import run_command

    request = run_command.read_request(
        job=job,
        plan=plan,
        schedule=schedule.value if schedule else None,
        concurrency=concurrency,
        as_of=as_of,
        output=output,
    )
    raise typer.Exit(run_command.run(request, approve=approve.value, answers=answer or (), as_json=json))


@app.command()
def plan(
    job: JobArgument,
    as_of: AsOfOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the plan there, as YAML or JSON by its suffix.")
    ] = None,
    answer: AnswerOption = None,
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
) -> None:
    """Make a plan for a job; calls none of its tools.

    Prints the plan, which rung of the ladder made it, what the checker found and what models cost.
    """
    from wavewright.engine.cli import plan_command

    options = plan_command.PlanOptions(job=job, as_of=as_of, out=out, answers=answer or ())
    raise typer.Exit(plan_command.plan(options, output_format=format.value))


@app.command()
def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Plans, jobs, goal templates; '-' reads standard input."),
    ],
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="GOAL",
            help="Goal template (file or name) or job whose rules the plan must keep.",
            autocompletion=completion.template_names,
        ),
    ] = None,
    tools: Annotated[
        Path | None, typer.Option(metavar="TOOLS", help="JSON list of tool signatures to check against.")
    ] = None,
    format: Annotated[CheckFormat, typer.Option("--format", "-f")] = CheckFormat.text,  # noqa: A002
    from_model: Annotated[
        bool, typer.Option("--from-model", help="Read the file as a model's raw answer.")
    ] = False,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Greatest number of steps.")] = None,
    max_waves: Annotated[int | None, typer.Option(min=1, help="Greatest number of waves.")] = None,
    max_bytes: Annotated[int | None, typer.Option(min=1, help="Greatest size of the file.")] = None,
    max_depth: Annotated[int | None, typer.Option(min=1, help="Greatest nesting of the file.")] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is safe to mend in the file.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Only show what --fix would change.")] = False,
) -> None:
    """Prove a plan sound, or say what is wrong and where."""
    from wavewright.engine.cli import check_command
    from wavewright.engine.cli.checking import CheckOptions

    options = [
        CheckOptions(
            file=file,
            goal=goal,
            tools=tools,
            from_model=from_model,
            max_steps=max_steps,
            max_waves=max_waves,
            max_bytes=max_bytes,
            max_depth=max_depth,
        )
        for file in files
    ]
    fixing: check_command.Fixing = "show" if diff else "write" if fix else "nothing"
    raise typer.Exit(check_command.check_files(options, output_format=format.value, fixing=fixing))


@app.command("dry-run")
def dry_run(
    job: Annotated[
        Path | None, typer.Argument(metavar="JOB", help="A job, a plan or a sealed plan; none with --run.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="PLAN", help="A plan to use instead of the job's.")
    ] = None,
    schedule: ScheduleOption = None,
    format: Annotated[GraphFormat, typer.Option("--format", "-f")] = GraphFormat.text,  # noqa: A002
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of printing.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seal plan, tools and estimate there, for `run FILE`.")
    ] = None,
    of_run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="A run that has begun: what is left of it.",
            autocompletion=completion.run_ids,
        ),
    ] = None,
    patch: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --run: what would run after this patch.")
    ] = None,
    stubs: Annotated[
        bool, typer.Option("--stubs", help="Rehearse: run the plan over generated outputs, every branch.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of the generated outputs; 0 if none.")
    ] = None,
    fixtures: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Outputs by step or tool, for --stubs.")
    ] = None,
) -> None:
    """Show what a run would do; calls no tool.

    Waves, critical path, width, calls, side effects, approvals, gates and caps, as a tree or in another format.
    With --stubs the run itself, over outputs that are made up.
    """
    from wavewright.engine.cli import dry_run_command, rehearse_command

    if stubs:
        rehearse_command.refuse_with_stubs(out=out, run=of_run, patch=patch)
        options = rehearse_command.RehearsalOptions(
            dry_run_command.named_job(job), plan, schedule.value if schedule else None, seed or 0, fixtures
        )
        raise typer.Exit(rehearse_command.rehearse(options, output_format=format.value, output=output))
    rehearse_command.refuse_without_stubs(seed=seed, fixtures=fixtures)
    looked_at = dry_run_command.DryRunOptions(
        job=job, plan=plan, schedule=schedule.value if schedule else None, out=out, run=of_run, patch=patch
    )
    raise typer.Exit(dry_run_command.dry_run(looked_at, output_format=format.value, output=output))


@app.command()
def runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 20,
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
) -> None:
    """List the runs in the journal."""
    from wavewright.engine.cli import journal_commands

    raise typer.Exit(journal_commands.list_runs(limit=limit, output_format=format.value))


@app.command()
def show(
    run: RunArgument,
    format: Annotated[ShowFormat, typer.Option("--format", "-f")] = ShowFormat.text,  # noqa: A002
) -> None:
    """Show a run: steps, gates, confidence, verdict."""
    from wavewright.engine.cli import journal_commands

    raise typer.Exit(journal_commands.show_run(run, output_format=format.value))


@app.command()
def resume(
    run: RunArgument,
    concurrency: ConcurrencyOption = None,
    output: OutputOption = None,
    approve: ApproveOption = ApproveChoice.ask,
    answer: AnswerOption = None,
    json: JsonLines = False,
) -> None:
    """Go on with a run that was interrupted.

    Nothing that is journaled is called again.
    """
    from wavewright.engine.cli import run_command

    request = run_command.resume_request(run, concurrency=concurrency, output=output)
    raise typer.Exit(run_command.run(request, approve=approve.value, answers=answer or (), as_json=json))


@app.command()
def replay(
    run: RunArgument,
    planner: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Have this model plan, and recover, anew.")
    ] = None,
    prompt_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Prompts that go before the project's.")
    ] = None,
    reviewer: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Have this model review anew.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Make calls that were never recorded; tools that only read.")
    ] = False,
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
) -> None:
    """Replay a run under another planner, prompts or reviewer.

    Tools answer as recorded, and none is called; shows what is different. Exits 1 where the verdict is another one,
    or where a call was never recorded.
    """
    from wavewright.engine.cli import replay_command
    from wavewright.engine.recordings.replay_settings import ReplayWish

    wish = ReplayWish(planner=planner, reviewer=reviewer, prompt_dir=prompt_dir, live=live)
    raise typer.Exit(replay_command.replay(run, wish, output_format=format.value))


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A plan, a job or a run.")],
    after: Annotated[
        str | None,
        typer.Argument(metavar="B", help="A plan, a job, a run, or a patch of A; none for a run alone."),
    ] = None,
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
) -> None:
    """Show what differs between two plans.

    Steps, edges, waves and gates; exits 1 where they differ. Of a run alone: what each round of its recovery changed in
    its plan, and why.
    """
    from wavewright.engine.cli import diff_command

    raise typer.Exit(diff_command.diff(before, after, output_format=format.value))


@app.command()
def schema(
    name: Annotated[
        SchemaName | None,
        typer.Argument(
            metavar="NAME", help="plan, patch, job, goal, tools, settings, worker, package or message."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write it there; without a name all that people write.")
    ] = None,
) -> None:
    """Print the JSON Schema of a document, for editors."""
    from wavewright.engine.cli import schema_command

    raise typer.Exit(schema_command.give_schema(name.value if name else None, out))


@app.command()
def tools(
    job: Annotated[
        Path | None, typer.Option(metavar="JOB", help="Only the tools that this job allows.")
    ] = None,
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
) -> None:
    """List the tools that plans can call here.

    With parameters and results; as JSON they are what `check --tools` reads.
    """
    from wavewright.engine.cli import tools_command

    raise typer.Exit(tools_command.list_tools(job, output_format=format.value))


@app.command()
def doctor(
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
    offline: Annotated[bool, typer.Option("--offline", help="Ask no language model and no broker.")] = False,
) -> None:
    """Say what works here and what would mend the rest.

    Where a language model is configured it is asked one short question, and a broker whether it lets the daemon in.
    """
    from wavewright.engine.cli import doctor_command

    raise typer.Exit(doctor_command.examine(output_format=format.value, is_offline=offline))


@app.command()
def topology(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there; printed where absent.")
    ] = None,
    vhost: Annotated[str, typer.Option(metavar="NAME", help="The broker's virtual host.")] = "/",
) -> None:
    """Print users, rights and queues of the broker, for it to load.

    Passwords come from WAVEWRIGHT_BROKER_PASSWORD_USER variables and are written as salted hashes.
    """
    from wavewright.engine.cli import topology_command

    raise typer.Exit(topology_command.give_topology(out, vhost))


@app.command()
def daemon(
    slots: Annotated[int | None, typer.Option(min=1, max=1000, help="How many jobs run at once.")] = None,
    health: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where it says how it is, with its metrics.")
    ] = None,
    log_level: Annotated[LogLevelChoice | None, typer.Option(help="What is worth a line in the log.")] = None,
) -> None:
    """Work on jobs that come in by RabbitMQ.

    TERM or Ctrl-C ends it once what runs is written down; the next daemon goes on there. Twice ends it at once.
    """
    from wavewright.engine.cli import daemon_command

    level = None if log_level is None else log_level.value
    raise typer.Exit(daemon_command.serve(slots=slots, health=health, log_level=level))


@app.command()
def submit(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job, a plan or a goal template with a plan.")],
    wait: Annotated[bool, typer.Option("--wait", help="Show how it goes, until it ends.")] = False,
    id: Annotated[  # noqa: A002
        str | None, typer.Option("--id", metavar="UUID", help="The job's id; sent twice it is done once.")
    ] = None,
    sender: Annotated[
        str, typer.Option("--as", metavar="AGENT", help="Who sends it, as the daemon's settings know them.")
    ] = "wavewright_cli",
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0, help="How long --wait waits; for ever if left out."
        ),
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Send a job to the daemon and print its id.

    Paths in the job are taken along as paths in the project, which must be the daemon's too.
    """
    from wavewright.engine.cli import submit_command

    raise typer.Exit(
        submit_command.submit(job, job_id=id, sender=sender, waits=wait, most=timeout, as_json=as_json)
    )


@app.command()
def tail(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Only this job's, by its id.")] = None,
    packages: Annotated[bool, typer.Option("--packages", help="Packages, too.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Print what the daemon tells, as it is told.

    Nobody misses a message because it is looked at here.
    """
    from wavewright.engine.cli import tail_command

    raise typer.Exit(tail_command.tail(job, packages=packages, as_json=as_json))


@app.command()
def decisions(
    decision: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this one, with all that would be done.")
    ] = None,
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
) -> None:
    """List what waits for a person's answer.

    Questions of planners and approvals, of the daemon's jobs and of runs.
    """
    from wavewright.engine.cli import decisions_command

    raise typer.Exit(decisions_command.list_decisions(decision, output_format=format.value))


@app.command()
def answer(
    decision: Annotated[
        str, typer.Argument(metavar="ID", help="A decision or a run, or the beginning of its id.")
    ],
    choice: Annotated[str, typer.Argument(metavar="CHOICE", help="An option, its number, or a text.")],
) -> None:
    """Answer a question, so that its job or run can go on.

    The first answer stands. A job of the daemon goes on by itself; a run goes on with `wavewright resume`.
    """
    from wavewright.engine.cli import decisions_command

    raise typer.Exit(decisions_command.give_answer(decision, choice))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
) -> None:
    """Write a project that runs at once.

    Typed functions as tools, a plan, a job, a goal template and a test of them all.
    """
    from wavewright.engine.cli import init_command

    raise typer.Exit(init_command.write_project(folder))


def _only(name: str) -> typer.Typer:
    """Return the application with one command, or whole where that is none: making all of them takes 8 ms."""
    asked = [info for info in app.registered_commands if (info.name or _name_of(info.callback)) == name]
    if not asked:
        return app
    alone = copy(app)
    alone.registered_commands = asked
    return alone


def _name_of(callback: Callable[..., object] | None) -> str | None:
    return callback.__name__.replace("_", "-") if callback is not None else None


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; every failure ends in a message, never in a traceback."""
    from wavewright.engine.cli.failures import report_failures

    with report_failures() as outcome:
        if "_WAVEWRIGHT_COMPLETE" in os.environ:
            get_command(app)(prog_name="wavewright")  # answers the shell, and raises SystemExit
        command = get_command(_only(arguments[0]) if arguments else app)
        # Not `command()`: it makes exit codes of its own of Ctrl-C and of a reader that went away.
        with command.make_context("wavewright", list(arguments)) as context:
            command.invoke(context)
    return outcome.code
