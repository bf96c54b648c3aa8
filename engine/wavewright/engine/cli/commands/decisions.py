"""Commands `decisions` and `answer`: what waits for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from wavewright.engine.cli.commands.options import (
    TextFormat,
)

group = typer.Typer()


@group.command()
def decisions(
    decision: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this one, with all that would be done.")
    ] = None,
    format: Annotated[TextFormat, typer.Option("--format", "-f")] = TextFormat.text,  # noqa: A002
) -> None:
    """List what waits for a person's answer.

    Questions of planners and approvals, of the daemon's jobs and of runs.
    """
    from wavewright.engine.cli.runs import decisions_command

    raise typer.Exit(decisions_command.list_decisions(decision, output_format=format.value))


@group.command()
def answer(
    decision: Annotated[
        str, typer.Argument(metavar="ID", help="A decision or a run, or the beginning of its id.")
    ],
    choice: Annotated[str, typer.Argument(metavar="CHOICE", help="An option, its number, or a text.")],
) -> None:
    """Answer a question, so that its job or run can go on.

    The first answer stands. A job of the daemon goes on by itself; a run goes on with `wavewright resume`.
    """
    from wavewright.engine.cli.runs import decisions_command

    raise typer.Exit(decisions_command.give_answer(decision, choice))
