"""Commands `tools`, `schema`, `doctor` and `init`: the project itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.engine.cli.commands.options import (
    SchemaName,
    TextFormat,
)

group = typer.Typer()


@group.command()
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


@group.command()
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


@group.command()
def doctor(
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
    offline: Annotated[bool, typer.Option("--offline", help="Ask no language model and no broker.")] = False,
) -> None:
    """Say what works here and what would mend the rest.

    Where a language model is configured it is asked one short question, and a broker whether it lets the daemon in.
    """
    from wavewright.engine.cli import doctor_command

    raise typer.Exit(doctor_command.examine(output_format=format.value, is_offline=offline))


@group.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
) -> None:
    """Write a project that runs at once.

    Typed functions as tools, a plan, a job, a goal template and a test of them all.
    """
    from wavewright.engine.cli import init_command

    raise typer.Exit(init_command.write_project(folder))
