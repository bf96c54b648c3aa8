"""Commands `daemon`, `submit`, `tail` and `topology`: jobs that are sent through a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.engine.cli.commands.options import (
    InputsOption,
    JsonLines,
    LogLevelChoice,
    SetOption,
)

group = typer.Typer()


@group.command()
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
    from wavewright.engine.cli.service import daemon_command

    level = None if log_level is None else log_level.value
    raise typer.Exit(daemon_command.serve(slots=slots, health=health, log_level=level))


@group.command()
def submit(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job, a plan or a goal template with a plan.")],
    wait: Annotated[
        bool, typer.Option("--wait", help="Show how it goes, until it ends, and what came out.")
    ] = False,
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
    set_: SetOption = None,
    inputs: InputsOption = None,
    as_json: JsonLines = False,
) -> None:
    """Check a job, send it to the daemon and print its id.

    Paths in the job are taken along as paths in the project, which must be the daemon's too.
    """
    from wavewright.engine.cli.common.arguments import input_overrides
    from wavewright.engine.cli.service import submit_command

    code = submit_command.submit(
        job,
        job_id=id,
        sender=sender,
        waits=wait,
        most=timeout,
        as_json=as_json,
        inputs=input_overrides(set_, inputs),
    )
    raise typer.Exit(code)


@group.command()
def tail(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Only this job's, by its id.")] = None,
    packages: Annotated[bool, typer.Option("--packages", help="Packages, too.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Print what the daemon tells, as it is told.

    Nobody misses a message because it is looked at here.
    """
    from wavewright.engine.cli.service import tail_command

    raise typer.Exit(tail_command.tail(job, packages=packages, as_json=as_json))


@group.command()
def topology(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there; printed where absent.")
    ] = None,
    vhost: Annotated[str, typer.Option(metavar="NAME", help="The broker's virtual host.")] = "/",
) -> None:
    """Print users, rights and queues of the broker, for it to load.

    Passwords come from WAVEWRIGHT_BROKER_PASSWORD_USER variables and are written as salted hashes.
    """
    from wavewright.engine.cli.service import topology_command

    raise typer.Exit(topology_command.print_topology(out, vhost))
