"""What the shell offers after the tab key.

A completion answers while a person waits, so it reads file names and one column of the journal, and imports nothing
of the engine. It never raises: nothing to offer is an answer too.

Choices, arguments and options that several commands share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wavewright.config.installation import user_state_dir

_MAX_COMPLETIONS = 50
_SETTINGS_FILES = ("wavewright.yaml", "wavewright.yml")


def run_ids(incomplete: str) -> list[str]:
    """Return the newest runs whose id begins so."""
    journal = _journal()
    if not journal.is_file():
        return []
    import sqlite3  # every command imports this module, and hardly one asks the journal here

    try:
        connection = sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            found = connection.execute(
                "SELECT run FROM run WHERE substr(run, 1, ?) = ? ORDER BY run DESC LIMIT ?",
                (len(incomplete), incomplete, _MAX_COMPLETIONS),
            )
            return [str(row[0]) for row in found]
        finally:
            connection.close()
    except sqlite3.Error:
        return []


def template_names(incomplete: str) -> list[str]:
    """Return the goal templates, the project's and the shipped ones, whose name begins so."""
    names = {name for name in _template_names() if name.startswith(incomplete)}
    return sorted(names)


def _template_names() -> Iterator[str]:
    project = (_project() or Path.cwd()) / "config" / "goals"
    if project.is_dir():
        yield from (path.stem for path in project.glob("*.yaml"))
    from wavewright.tools.packs import pack_templates

    yield from pack_templates()


def _journal() -> Path:
    """Return the journal where the environment or the default puts it; the settings file is not read for this."""
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


class StatusChoice(StrEnum):
    """`runs --status`."""

    running = "running"
    waiting = "waiting"
    interrupted = "interrupted"
    achieved = "achieved"
    not_achieved = "not_achieved"
    failed = "failed"


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


JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="A job, a plan or a saved plan.")]
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
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress, only the outcome, questions and errors.")
]
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
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Set an input, by a path with dots; repeat it for others."
    ),
]
InputsOption = Annotated[
    Path | None, typer.Option("--inputs", metavar="FILE", help="Inputs that go before those of the job.")
]
RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="A run's id, or its beginning; the newest run if left out.",
        autocompletion=run_ids,
        show_default=False,
    ),
]
