"""Choices, arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wavewright.engine.cli import completion


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
        autocompletion=completion.run_ids,
        show_default=False,
    ),
]
