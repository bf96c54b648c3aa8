"""Commands that serve others, send jobs to such, or stand in for a model: `serve`, `schedules`, `view`,
`daemon`, `worker`, `mcp`, `play`, `submit` and `fake-model`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.config import exit_codes
from wavewright.engine.interfaces import cli
from wavewright.engine.interfaces.cli.commands.options import (
    FormatOption,
    InputsOption,
    JsonLines,
    LevelChoice,
    PublicUrlOption,
    RoleChoice,
    SetOption,
)
from wavewright.engine.interfaces.cli.common.output import require_extra

group = typer.Typer()
schedules_group = typer.Typer()
group.add_typer(schedules_group, name="schedules")

_ListenOption = Annotated[
    str,
    typer.Option(
        "--listen", metavar="HOST:PORT", help="Address to serve; port 0 takes a free one."
    ),
]
_OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
_JobSlotsOption = Annotated[
    int | None, typer.Option("--slots", min=1, max=1000, help="Maximum number of concurrent jobs.")
]
_HealthOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Address of the health checks and metrics.")
]
_LogLevelOption = Annotated[LevelChoice | None, typer.Option(help="Lowest level that is logged.")]


@group.command()
def serve(
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Address of the page; port 0 takes a free one."
        ),
    ] = "127.0.0.1:0",
    slots: _JobSlotsOption = None,
    log_level: _LogLevelOption = None,
) -> int:
    """Run the project's schedules and serve its live page, in one process without a broker.

    Jobs, runs and questions are in the journal of the project. SIGTERM or Ctrl-C stops it once
    running jobs are journaled; the next one resumes them.
    """
    return cli.service.daemon_command.serve(slots=slots, log_level=log_level, page=listen)


@schedules_group.callback(invoke_without_command=True)
def schedules(context: typer.Context, format: FormatOption = "text") -> int:  # noqa: A002
    """List the project's schedules with their next instants, or begin, pause or resume one."""
    if context.invoked_subcommand is not None:
        return exit_codes.OK  # that of the subcommand counts
    return cli.service.schedules_command.list_schedules(output_format=format)


_ScheduleArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A schedule, as the list names it.")
]


@schedules_group.command(name="run")
def run_schedule(name: _ScheduleArgument) -> int:
    """Have the job of a schedule begun now, beside its instants."""
    return cli.service.schedules_command.steer("begin", name)


@schedules_group.command(name="pause")
def pause_schedule(name: _ScheduleArgument) -> int:
    """Begin nothing by a schedule until it is resumed, also after a restart."""
    return cli.service.schedules_command.steer("pause", name)


@schedules_group.command(name="resume")
def resume_schedule(name: _ScheduleArgument) -> int:
    """Begin jobs by a schedule again; what was due in between is not made up for."""
    return cli.service.schedules_command.steer("resume", name)


@group.command()
def view(
    listen: _ListenOption = "127.0.0.1:0",
    open_: _OpenOption = False,
    public_url: PublicUrlOption = None,
    add: Annotated[
        str | None,
        typer.Option(
            "--add",
            metavar="NAME",
            help="Make a token for a person, print it, and write its hash into the settings.",
        ),
    ] = None,
    role: Annotated[
        RoleChoice, typer.Option("--role", help="What the person of --add may do.")
    ] = "decide",
    revoke: Annotated[
        str | None,
        typer.Option("--revoke", metavar="NAME", help="End the sessions of a person, or of 'all'."),
    ] = None,
) -> int:
    """Serve a live page of the project's runs, jobs and decisions.

    The printed address has a token, which is WAVEWRIGHT_VIEW_TOKEN or a new one. Anyone with it may
    answer decisions and resume runs. People with tokens of their own sign in with them.
    """
    require_extra("view")
    if add is not None:
        return cli.service.view_command.add_person(add, role)
    if revoke is not None:
        return cli.service.view_command.revoke_sessions(revoke)
    return cli.service.view_command.serve(listen, public_url=public_url, opens=open_)


@group.command()
def daemon(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="With --tail: only this job's messages, by its id."),
    ] = None,
    slots: _JobSlotsOption = None,
    health: _HealthOption = None,
    log_level: _LogLevelOption = None,
    tail: Annotated[
        bool,
        typer.Option(
            "--tail", help="Only print the messages of a daemon as they are published, to Ctrl-C."
        ),
    ] = False,
    packages: Annotated[
        bool, typer.Option("--packages", help="With --tail: also print packages.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --tail: print JSON lines.")] = False,
    topology: Annotated[
        bool,
        typer.Option(
            "--topology",
            help="Only print the broker's users, permissions and queues, for the broker to load.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --topology: write it there instead of printing."),
    ] = None,
    vhost: Annotated[
        str, typer.Option(metavar="NAME", help="With --topology: the broker's virtual host.")
    ] = "/",
) -> int:
    """Execute jobs received from RabbitMQ.

    SIGTERM or Ctrl-C stops it once running jobs are journaled; the next daemon resumes them. A
    second signal stops it immediately.

    With --tail other consumers still receive every message. Passwords in --topology come from
    WAVEWRIGHT_BROKER_PASSWORD_USER variables and are written as salted hashes.
    """
    if topology and tail:
        raise typer.BadParameter("print the messages or the topology, not both")
    if not tail and (job is not None or packages or as_json):
        raise typer.BadParameter("JOB, --packages and --json belong to --tail")
    if not topology and (out is not None or vhost != "/"):
        raise typer.BadParameter("--out and --vhost belong to --topology")
    if tail:
        return cli.service.submit_command.tail(job, packages=packages, as_json=as_json)
    if topology:
        return cli.service.daemon_command.write_topology(out=out, vhost=vhost)
    return cli.service.daemon_command.serve(slots=slots, health=health, log_level=log_level)


@group.command()
def worker(
    slots: Annotated[
        int, typer.Option(min=1, max=10_000, help="Maximum number of concurrent calls.")
    ] = 10,
    labels: Annotated[
        str,
        typer.Option(
            metavar="LABEL,…", help="What this machine has of the needs of tools, such as gpu."
        ),
    ] = "",
    tools: Annotated[
        str,
        typer.Option(
            metavar="TOOL,…", help="Make calls of these tools only; default: all that it can make."
        ),
    ] = "",
    health: _HealthOption = None,
    log_level: Annotated[LevelChoice, typer.Option(help="Lowest level that is logged.")] = "info",
) -> int:
    """Make calls of tools for runs on other machines.

    The calls wait in the database of the journal. SIGTERM or Ctrl-C lets calls go on for six
    seconds; other workers make those that have not ended.
    """
    require_extra("fleet")
    options = cli.service.worker_command.WorkerOptions(
        slots=slots,
        labels=_names(labels),
        tools=_names(tools),
        health=health,
        log_level=log_level,
    )
    return cli.service.worker_command.serve(options)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@group.command()
def mcp(
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="[SERVER]", help="An MCP server that a pack brings, in place of the project."
        ),
    ] = None,
    role: Annotated[
        str | None, typer.Option("--role", metavar="ROLE", help="Serve this role of SERVER only.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve HTTP there, with a bearer token, instead of standard input and output.",
        ),
    ] = None,
    allow_runs: Annotated[
        bool, typer.Option("--allow-runs", help="Begin runs without asking a person at the client.")
    ] = False,
    public_url: PublicUrlOption = None,
) -> int:
    """Serve this project to MCP clients: check, forecast and run plans.

    The token of --http is WAVEWRIGHT_MCP_TOKEN, that of a role of SERVER WAVEWRIGHT_MCP_TOKEN_ROLE;
    without it a new one is printed.
    """
    require_extra("mcp")
    from wavewright.engine.interfaces.cli.mcp_server.server import ServedServer, serve

    return serve(ServedServer(server, role, allow_runs, public_url), http)


@group.command()
def play(
    name: Annotated[
        str, typer.Argument(metavar="GAME", help="Name of the game; a new one is begun.")
    ] = "game",
    pack: Annotated[
        str | None,
        typer.Option("--pack", help="Pack whose page is served, where several have one."),
    ] = None,
    listen: _ListenOption = "127.0.0.1:0",
    open_: _OpenOption = False,
    public_url: PublicUrlOption = None,
) -> int:
    """Serve the page that a pack brings, such as a game.

    The printed address has a token, which is WAVEWRIGHT_VIEW_TOKEN or a new one. Anyone with it
    plays.
    """
    require_extra("view")
    return cli.service.play_command.serve(name, pack, listen, public_url=public_url, opens=open_)


@group.command()
def submit(
    job: Annotated[
        Path, typer.Argument(metavar="JOB", help="A job, a plan or a goal template with a plan.")
    ],
    wait: Annotated[
        bool, typer.Option("--wait", help="Show its progress until it ends, and its result.")
    ] = False,
    id: Annotated[  # noqa: A002
        str | None,
        typer.Option(
            "--id", metavar="UUID", help="The job's id; a job sent twice with one id runs once."
        ),
    ] = None,
    sender: Annotated[
        str,
        typer.Option("--as", metavar="AGENT", help="Sender, by its name in the daemon's settings."),
    ] = "wavewright_cli",
    priority: Annotated[
        int | None,
        typer.Option(
            "--priority",
            min=0,
            max=9,
            help="How urgent it is; 9 is the most. Default: as the daemon's settings say.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0, help="How long --wait waits; default: no limit."
        ),
    ] = None,
    set_: SetOption = None,
    inputs: InputsOption = None,
    as_json: JsonLines = False,
) -> int:
    """Check a job, send it to the daemon and print its id.

    Paths in the job are sent relative to the project, which must be the daemon's too.
    """
    return cli.service.submit_command.submit(
        job,
        job_id=id,
        sender=sender,
        priority=priority,
        waits=wait,
        most=timeout,
        as_json=as_json,
        inputs=cli.common.arguments.input_overrides(set_, inputs),
    )


@group.command("fake-model")
def fake_model(
    script: Annotated[
        Path, typer.Option(metavar="FILE", help="Rules in YAML: the answer to each request.")
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")
    ] = 8765,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no line for each request.")
    ] = False,
    run: Annotated[
        Path | None,
        typer.Option(metavar="JOB", help="Run this job with it as the model, and end."),
    ] = None,
) -> int:
    """Serve scripted answers in place of a language model.

    Implements the APIs of OpenAI and Anthropic on loopback, to try and test a project without a
    provider.
    """
    if run is not None:
        return cli.project.fake_model_command.run_with_script(script, run)
    return cli.project.fake_model_command.serve_script(script, port=port, quiet=quiet)
