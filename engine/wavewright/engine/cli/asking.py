"""Who answers where a planner has a question.

Answers that were given with `--answer` come first, in their order; after them the person at the terminal is asked.
Where nobody can be asked the question is printed and stays open; the command says how to answer it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio.to_thread

from wavewright.planner.rendering import printable

if TYPE_CHECKING:
    from wavewright.engine.cli.interrupting import InterruptHandler
    from wavewright.engine.cli.progress import Progress
    from wavewright.planner.planning import UserQuestion

HOW_TO_ANSWER = "give the answer with --answer TEXT, once for each question"


@dataclass(slots=True)
class CommandLineAsker:
    """Answers with what the command line gave, then with what somebody types."""

    given_answers: Sequence[str]
    show_line: Callable[[str], None]
    suspend_progress: Callable[[], AbstractContextManager[object]]
    """Makes room for a question on the terminal."""
    is_attended: bool
    """Whether somebody sits at the terminal."""
    _answered: int = field(default=0, init=False)

    async def ask(self, question: UserQuestion) -> str | None:
        """Return the answer, or nothing where there is none."""
        if self._answered < len(self.given_answers):
            answer = chosen_option(question, self.given_answers[self._answered])
            self._answered += 1
            self.show_line(
                f"the planner asks: {printable(question.question)} (--answer {printable(answer)!r})"
            )
            return answer
        if not self.is_attended:
            for line in question_lines(question):
                self.show_line(line)
            return None
        with self.suspend_progress():
            return await anyio.to_thread.run_sync(_ask_question, question, abandon_on_cancel=True)


def asker_for(given: Sequence[str], progress: Progress, interruption: InterruptHandler) -> CommandLineAsker:
    """Return who answers the questions of a run's planner."""

    @contextmanager
    def free_terminal() -> Generator[None]:
        with progress.paused(), interruption.first_signal_exits():
            yield

    return CommandLineAsker(given, progress.print_line, free_terminal, is_attended=can_ask())


def can_ask() -> bool:
    """Whether somebody can be asked here: both what is typed and what is shown go through a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def question_lines(question: UserQuestion) -> list[str]:
    """Return a planner's question as lines, with its options numbered."""
    options = [f"  {number}. {printable(option)}" for number, option in enumerate(question.options, start=1)]
    return [f"the planner asks: {printable(question.question)}", *options]


def chosen_option(question: UserQuestion, answer: str) -> str:
    """Return the option that an answer names by its number, or the answer as it was given."""
    if answer in question.options or not answer.isdecimal():
        return answer
    number = int(answer)
    return question.options[number - 1] if 1 <= number <= len(question.options) else answer


def _ask_question(question: UserQuestion) -> str | None:
    """Show a question and return what is typed; an empty line, or the end of the input, is no answer."""
    sys.stderr.write("\n".join(["", *question_lines(question), "> "]))
    sys.stderr.flush()
    typed = sys.stdin.readline().strip()
    return chosen_option(question, typed) if typed else None
