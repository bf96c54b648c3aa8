"""Choices, arguments, options and shell completions that several commands share.

Completions must be fast: they read file names and one column of the journal, and import nothing of
the engine. They never raise an error; without candidates they return an empty list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from wavewright.config import user_state_dir

_MAX_COMPLETIONS = 50
_SETTINGS_FILES = ("wavewright.yaml", "wavewright.yml")


def _checked_name(name: str | None) -> str | None:
    # Every command imports this module, and few name a person.
    from wavewright.config.identities import valid_identity

    # The live page hands on who is proven in this way.
    return _checked(name, valid_identity)


def _checked_public_url(url: str | None) -> str | None:
    # Few commands serve a page.
    from wavewright.config.value_types import valid_public_url

    return _checked(url, valid_public_url)


def _checked(text: str | None, validate: Callable[[str], str]) -> str | None:
    try:
        return None if text is None else validate(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def run_ids(incomplete: str) -> list[str]:
    """Return the newest runs whose id starts with the text."""
    journal = _journal()
    if not journal.is_file():
        return []
    import sqlite3  # every command imports this module, and few complete a run

    try:
        connection = sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            rows = connection.execute(
                "SELECT run FROM run WHERE substr(run, 1, ?) = ? ORDER BY run DESC LIMIT ?",
                (len(incomplete), incomplete, _MAX_COMPLETIONS),
            )
            return [str(row[0]) for row in rows]
        finally:
            connection.close()
    except sqlite3.Error:
        return []


def template_names(incomplete: str) -> list[str]:
    """Return the goal templates, the project's and those of packs, whose name starts with the text."""
    names = {name for name in _template_names() if name.startswith(incomplete)}
    return sorted(names)


def _template_names() -> Iterator[str]:
    project = (_project() or Path.cwd()) / "config" / "goals"
    if project.is_dir():
        yield from (path.stem for path in project.glob("*.yaml"))
    # Only a completion of goals looks into packs.
    from wavewright.tools import pack_templates

    yield from pack_templates()


def _journal() -> Path:
    """Return the journal's path by the environment or the default; the settings file is not read."""
    if journal := os.environ.get("WAVEWRIGHT_JOURNAL"):
        return Path(journal).absolute()
    if state := os.environ.get("WAVEWRIGHT_STATE"):
        return Path(state).absolute() / "journal.sqlite"
    project = _project()
    return (user_state_dir() if project is None else project / ".wavewright") / "journal.sqlite"


def _project() -> Path | None:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if any((folder / name).is_file() for name in _SETTINGS_FILES):
            return folder
    return None


ScheduleChoice: TypeAlias = Literal["waves", "dataflow"]
"""`--schedule`."""

CheckFormat: TypeAlias = Literal["text", "json", "sarif"]
"""`check --format`."""

GraphFormat: TypeAlias = Literal["text", "json", "mermaid", "html"]
"""`dry-run --format`."""

TextFormat: TypeAlias = Literal["text", "json"]
"""`--format` of commands that print a record."""


class StatusChoice(StrEnum):
    """`runs --status`; of a list of such, typer takes an enumeration alone."""

    running = "running"
    waiting = "waiting"
    interrupted = "interrupted"
    achieved = "achieved"
    not_achieved = "not_achieved"
    failed = "failed"
    cancelled = "cancelled"


ShowFormat: TypeAlias = Literal["text", "json", "html", "events"]
"""`show --format`."""

LevelChoice: TypeAlias = Literal["debug", "info", "warning", "error"]
"""`logs --level` and `daemon --log-level`."""

ApproveChoice: TypeAlias = Literal["ask", "always", "never", "wait"]
"""`--approve`."""

RoleChoice: TypeAlias = Literal["look", "decide", "operate"]
"""`view --role`."""

SchemaName: TypeAlias = Literal[
    "plan", "patch", "job", "goal", "tools", "settings", "worker", "agent", "package", "message"
]
"""`schema NAME`."""


FormatOption = Annotated[TextFormat, typer.Option("--format", "-f")]
JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="A job, a plan or a saved plan.")]
PlanOption = Annotated[
    Path | None, typer.Option(metavar="PLAN", help="A plan to use instead of the job's.")
]
ScheduleOption = Annotated[
    ScheduleChoice | None,
    typer.Option(help="Start steps wave by wave, or as soon as their dependencies are done."),
]
ConcurrencyOption = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of concurrent calls.")
]
AsOfOption = Annotated[
    str | None, typer.Option(metavar="DATE", help="The instant that `now()` returns (ISO 8601).")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Folder for the package and the report."),
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")]
ByOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Who does it; default: the user of this machine.",
        callback=_checked_name,
    ),
]
PublicUrlOption = Annotated[
    str | None,
    typer.Option(
        "--public-url",
        metavar="URL",
        help="Address at which a proxy offers it; default: `public_url` of the settings.",
        callback=_checked_public_url,
    ),
]
QuietOption = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show no progress, only the outcome, questions and errors."),
]
ApproveOption = Annotated[
    ApproveChoice,
    typer.Option(
        help="The answer if a step or a patch needs approval; 'ask' asks on a terminal, 'wait' waits for "
        "`wavewright answer`."
    ),
]
CheckedApproveOption = Annotated[
    ApproveChoice | None,
    typer.Option(
        "--approve",
        help="What the run would be given; with 'never', or 'ask' without a terminal, a step that needs a person is "
        "refused.",
        show_default=False,
    ),
]
AnswerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="TEXT",
        help="Answer to a question of the planner or a step, as STEP=TEXT for the step that it names; repeat for "
        "further questions, of steps with names.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Set an input, by a dotted path; repeat for others."
    ),
]
InputsOption = Annotated[
    Path | None,
    typer.Option("--inputs", metavar="FILE", help="Inputs that replace those of the job."),
]
RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="The id of a run or of its job, or its beginning; default: the newest run.",
        autocompletion=run_ids,
        show_default=False,
    ),
]
