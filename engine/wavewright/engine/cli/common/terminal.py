"""What Ctrl-C and SIGTERM do to a run.

While steps run, a model is asked or a question waits for its answer, the first signal is *gentle*: the run stops, all
that is finished stays journaled, and the run can be resumed. At any other time (a file that is read, a module that is
imported) there is nothing to wind down, and the command ends at once, as it does at the second signal.

Who answers where a planner has a question.

Answers that were given with `--answer` come first, in their order; after them the person at the terminal is asked.
Where nobody can be asked the question is printed and stays open; the command says how to answer it.

Who answers where a plan or a patch needs approval.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import anyio.to_thread

from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.engine.pipeline.context import ApprovalRequest, Approver
from wavewright.engine.pipeline.signals import signals_wake_loop
from wavewright.executor.events.types import Event, Noted, PlanAccepted, RunStarted
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.types import RunId

if TYPE_CHECKING:
    from wavewright.engine.cli.common.progress import Progress
    from wavewright.planner.planning.planner import UserQuestion


class InterruptHandler:
    """Takes the signals of one run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.cancellation = CancellationToken()
        self.run: RunId | None = None
        """The run, as soon as it is in the journal."""
        self._show_line = say
        self._is_gentle = False
        self._was_announced = False

    def observe(self, event: Event) -> None:
        """Learn from an event how far the run is."""
        if isinstance(event, RunStarted):
            self.run = event.run
        elif isinstance(event, PlanAccepted) or (isinstance(event, Noted) and event.topic == "resumed"):
            self._is_gentle = True

    @contextmanager
    def handle_signals(self) -> Generator[None]:
        """Open a context in which the signals come here; it is entered on the event loop."""
        # Neither anyio's receiver, whose task group would wrap every error of the run, nor the loop's own handlers,
        # which wait for the loop: a module of the user's that hangs in its import would never be interrupted.
        loop = asyncio.get_running_loop()

        def stop(_number: int, _frame: FrameType | None) -> None:
            if self._was_announced or not (self._is_gentle or self.cancellation.has_open_scopes):
                raise KeyboardInterrupt
            self._was_announced = True
            loop.call_soon_threadsafe(self._cancel)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with signals_wake_loop():
                yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)

    def _cancel(self) -> None:
        self._show_line("stopping; what is finished is journaled (once more to end at once)")
        self.cancellation.cancel()


HOW_TO_ANSWER = "give the answer with --answer TEXT, once for each question"


class QuestionDisplay(Protocol):
    """A progress display that can make room for a question."""

    def print_line(self, text: str) -> None:
        """Print a line above the display."""
        ...

    def paused(self) -> AbstractContextManager[object]:
        """Open a context in which the display leaves the terminal alone."""
        ...


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


def asker_for(given: Sequence[str], progress: QuestionDisplay) -> CommandLineAsker:
    """Return who answers a planner's questions; somebody is asked where input and error output are a terminal."""
    is_attended = sys.stdin.isatty() and sys.stderr.isatty()
    return CommandLineAsker(given, progress.print_line, progress.paused, is_attended=is_attended)


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


@dataclass(frozen=True, slots=True)
class FixedApprover:
    """Answers every request alike, and says so."""

    answer: bool
    because: str
    progress: Progress

    async def approve(self, request: ApprovalRequest) -> bool:
        """Return the fixed answer."""
        word = "approved" if self.answer else "not approved"
        self.progress.print_line(f"{request.subject} {word} ({self.because}): {'; '.join(request.needs)}")
        return self.answer


@dataclass(frozen=True, slots=True)
class TerminalApprover:
    """Asks the person at the terminal."""

    progress: Progress

    async def approve(self, request: ApprovalRequest) -> bool:
        """Show what is asked and return the answer."""
        with self.progress.paused():
            return await anyio.to_thread.run_sync(_ask_approval, request, abandon_on_cancel=True)


@dataclass(frozen=True, slots=True)
class DeferringApprover:
    """Answers nothing: the run waits until somebody does."""

    progress: Progress

    async def approve(self, request: ApprovalRequest) -> bool | None:
        """Say what a person is asked, and that nobody has answered."""
        self.progress.print_line(f"{request.subject} waits for a person's word: {'; '.join(request.needs)}")
        return None


def approver_for(choice: str, progress: Progress) -> Approver:
    """Return who answers for `--approve`; where nobody can be asked, nothing is approved."""
    if choice == "wait":
        return DeferringApprover(progress)
    if choice != "ask":
        return FixedApprover(choice == "always", f"--approve {choice}", progress)
    if sys.stdin.isatty() and sys.stderr.isatty():
        return TerminalApprover(progress)
    return FixedApprover(
        answer=False, because="nobody can be asked here; --approve always says yes", progress=progress
    )


def _ask_approval(request: ApprovalRequest) -> bool:
    needs = "".join(f"  - {need}\n" for need in request.needs)
    sys.stderr.write(f"\n{request.text}\nApprove this {request.subject}?\n{needs}[y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
