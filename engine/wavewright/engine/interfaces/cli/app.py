"""The command-line application.

Only Typer is imported here, and the declarations of the section that a command is in; each command
imports its own code when it is called, so `--help` is fast.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import chdir
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from wavewright.engine.interfaces.cli import commands
from wavewright.engine.interfaces.cli.common.output import CommandError, report_failures
from wavewright.engine.run.version import __version__


class _SectionedGroup(TyperGroup):
    """Lists the commands of `--help` by what people come for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - its name is click's
        """Write one list of commands for each section; those that are in none are not listed."""
        longest = max((len(name) for name in self.commands), default=0)
        room = formatter.width - longest - _ROOM_AROUND_NAME
        for title, names in COMMAND_SECTIONS.items():
            commands = {name: self.commands[name] for name in names if name in self.commands}
            if not commands:
                continue
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(longest), command.get_short_help_str(room))
                        for name, command in commands.items()
                    ]
                )


COMMAND_SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Start": ("init", "do", "run", "doctor"),
    "Plan": ("plan", "check", "dry-run", "keep", "diff", "tools", "schema", "lsp"),
    "Runs": (
        *("runs", "show", "logs", "retry", "resume", "cancel", "replay"),
        *("verify", "receipt"),
    ),
    "People": ("decisions", "answer", "verdict"),
    "Serve": ("serve", "schedules", "view", "daemon", "worker", "mcp", "play", "submit"),
}
"""The commands that `--help` lists, by section, which is declared in the module of its name;
`fake-model`, a tool for tests, is in none.
"""
_ROOM_AROUND_NAME: Final = 6
"""Columns before and after the name of a command."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wavewright {__version__}")
        raise typer.Exit


def global_options(
    context: typer.Context,
    directory: Annotated[
        list[Path] | None,
        typer.Option(
            "-C",
            metavar="DIR",
            help="Work as if started in DIR; each further one is relative to it.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Apply the options before a command.

    Raises:
        CommandError: a folder of `-C` cannot be entered.
    """
    del version  # handled by its callback
    for folder in directory or ():
        try:
            context.with_resource(chdir(folder))
        except OSError as error:
            raise CommandError(
                f"-C: {str(folder)!r} cannot be entered: {error.strerror}"
            ) from error


def application(command: str | None = None) -> typer.Typer:
    """Return the command line with the section that a command is in; with all where there is none
    of that name: to load and build them takes a while.
    """
    named = [section for section, names in COMMAND_SECTIONS.items() if command in names]
    app = typer.Typer(
        name="wavewright",
        cls=_SectionedGroup,
        help=(
            "Typed plans: checked before anything runs, executed in parallel waves, reviewed, repaired, "
            "packaged.\n\n"
            "Exit codes: 0 success, 1 negative result (faults found, goal not achieved), 2 misuse, 3 "
            "environment failed, 130 interrupted."
        ),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(global_options)
    for section in named or COMMAND_SECTIONS:
        group = import_module(f"{commands.__name__}.{section.lower()}").group
        app.registered_commands += group.registered_commands
        app.registered_groups += group.registered_groups
    return app


@lru_cache(maxsize=64)
def _built(command: str | None) -> TyperGroup:
    """Return the command line; made once for a program that calls it again."""
    return cast("TyperGroup", get_command(application(command)))


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether the outcome is wanted as JSON; read here, since arguments may be at fault."""
    spaced = [" ".join(pair) for pair in pairwise(arguments)]
    return not {"--format json", "--format=json", "-f json", "-fjson"}.isdisjoint(
        [*arguments, *spaced]
    )


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; failures are printed as messages, without a
    traceback.
    """
    with report_failures(as_json=_asks_for_json(arguments)) as outcome:
        if "_WAVEWRIGHT_COMPLETE" in os.environ:
            _built(None)(prog_name="wavewright")  # prints completions and raises SystemExit
        command = _built(arguments[0] if arguments else None)
        # Not `command()`: it has its own exit codes for Ctrl-C and a closed pipe.
        with command.make_context("wavewright", list(arguments)) as context:
            outcome.code = command.invoke(context)
    return outcome.code
