"""Commands `decisions` and `answer`: questions and approvals that wait for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from wavewright.engine.cli.commands.options import FormatOption, TextFormat

group = typer.Typer()


@group.command()
def decisions(
    decision: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this one, with its whole context.")
    ] = None,
    format: FormatOption = TextFormat.text,  # noqa: A002
) -> None:
    """List the questions and approvals that wait for an answer, of the daemon's jobs and of runs."""
    from wavewright.engine.cli.runs import decisions_command

    raise typer.Exit(decisions_command.list_decisions(decision, output_format=format.value))


@group.command()
def answer(
    decision: Annotated[
        str, typer.Argument(metavar="ID", help="A decision or a run, or the beginning of its id.")
    ],
    choice: Annotated[str, typer.Argument(metavar="CHOICE", help="An option, its number, or a text.")],
) -> None:
    """Answer a question, so that its job or run can continue.

    The first answer is final. A job of the daemon continues by itself, a run with `wavewright resume`.
    """
    from wavewright.engine.cli.runs import decisions_command

    raise typer.Exit(decisions_command.give_answer(decision, choice))
