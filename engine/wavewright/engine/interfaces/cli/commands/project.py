"""Commands `tools`, `schema`, `doctor`, `init` and `fake-model`: a project and its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavewright.engine.interfaces.cli import project as project_commands
from wavewright.engine.interfaces.cli.commands.options import FormatOption, SchemaName

group = typer.Typer()


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
        return project_commands.undeclared_tools.list_undeclared()
    if lock:
        return project_commands.tools_command.write_lock()
    return project_commands.tools_command.list_tools(job, output_format=format, lists_all=all)


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
    return project_commands.init_command.print_schema(name, out)


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
    return project_commands.doctor_command.examine(
        output_format=format, is_offline=offline, examines_model=model and not offline
    )


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
        project_commands.init_command.write_here(folder)
        if here
        else project_commands.init_command.write_project(folder)
    )


@group.command()
def lsp() -> int:
    """Serve the checker to an editor, over standard input and output.

    Diagnostics as you type, completion, hover, definitions, renaming, code actions and a dry run;
    calls no tool, model or server.
    """
    from wavewright.engine.interfaces.cli.lsp.server import serve

    return serve()


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
        return project_commands.fake_model_command.run_with_script(script, run)
    return project_commands.fake_model_command.serve_script(script, port=port, quiet=quiet)
