"""Commands with which a person decides: `decisions`, `answer` and `verdict`."""

from __future__ import annotations

from typing import Annotated

import typer

from wavewright.engine.interfaces import cli
from wavewright.engine.interfaces.cli.commands.options import FormatOption

group = typer.Typer()


@group.command()
def decisions(
    decision: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this one, with its whole context.")
    ] = None,
    format: FormatOption = "text",  # noqa: A002
) -> int:
    """List what waits for a person: questions and approvals, of the daemon's jobs and of runs, and
    packages.
    """
    return cli.runs.decisions_command.list_decisions(decision, output_format=format)


@group.command()
def answer(
    decision: Annotated[
        str, typer.Argument(metavar="ID", help="A decision or a run, or the beginning of its id.")
    ],
    choice: Annotated[
        str, typer.Argument(metavar="CHOICE", help="An option, its number, or a text.")
    ],
) -> int:
    """Answer a question, so that its job or run can continue.

    The first answer is final. A job of the daemon continues by itself, a run with `wavewright
    resume`.
    """
    return cli.runs.decisions_command.give_answer(decision, choice)


@group.command()
def verdict(
    package: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A package, its job or its run, or the beginning of its id."
        ),
    ],
    accept: Annotated[bool, typer.Option("--accept", help="Accept the package.")] = False,
    reject: Annotated[
        list[str] | None,
        typer.Option(
            "--reject", metavar="FIELD=REASON", help="Reject it with a remark; may be repeated."
        ),
    ] = None,
) -> int:
    """Accept or reject a package of the daemon that waits for its verdict, as a validator does.

    The first verdict is final. A rejected package is made again with the remarks.
    """
    return cli.runs.decisions_command.give_verdict(package, accept=accept, remarks=reject or [])
