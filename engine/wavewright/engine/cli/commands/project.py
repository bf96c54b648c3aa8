"""Commands `tools`, `schema`, `doctor`, `init` and `fake-model`: the project itself."""

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
    from wavewright.engine.cli.project import tools_command

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
    from wavewright.engine.cli.project import init_command as schema_command

    raise typer.Exit(schema_command.print_schema(name.value if name else None, out))


@group.command()
def doctor(
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
    offline: Annotated[bool, typer.Option("--offline", help="Ask no language model and no broker.")] = False,
) -> None:
    """Say what works here and what would mend the rest.

    Where a language model is configured it is asked one short question, and a broker whether it lets the daemon in
    and lets it write.
    """
    from wavewright.engine.cli.project import doctor_command

    raise typer.Exit(doctor_command.examine(output_format=format.value, is_offline=offline))


@group.command()
def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A new or empty folder; none with --here.")
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="Write into the working directory, and replace nothing there.")
    ] = False,
) -> None:
    """Write a project that runs at once.

    Typed functions as tools, a plan, a job, a goal template and a test of them all.
    """
    from wavewright.engine.cli.project import init_command

    raise typer.Exit(init_command.write_here(folder) if here else init_command.write_project(folder))


@group.command("fake-model")
def fake_model(
    script: Annotated[Path, typer.Option(metavar="FILE", help="Rules in YAML: which request, which answer.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of 127.0.0.1; 0 takes any that is free.")
    ] = 8765,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no line for each request.")] = False,
) -> None:
    """Serve scripted answers in place of a language model.

    Speaks the APIs of OpenAI and Anthropic on loopback, to try a project out and to test it without a provider.
    """
    from wavewright.engine.cli.project import fake_model_command

    raise typer.Exit(fake_model_command.serve_script(script, port=port, quiet=quiet))
