"""The user at a terminal: signals, answers to questions of planner and steps, and approvals.

Ctrl-C and SIGTERM: while steps run, a model is asked or a question waits for its answer, the first
signal stops the run so that it can be resumed. At any other time, and at the second signal, the
command ends at once.

Questions: answers given with `--answer` are used first, each for the step that it names, then the
user is asked.
Without a terminal the question is printed and stays open.
"""

from __future__ import annotations

import asyncio
import getpass
import re
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

import anyio.to_thread

from wavewright.engine.run.cancellation import CancellationToken, signals_wake_loop
from wavewright.engine.run.decisions.shown_calls import folded_line
from wavewright.engine.run.ports import Approval, ApprovalRequest, Approver, Asker
from wavewright.executor import Event, Noted, PlanAccepted, RunStarted
from wavewright.planner import ID_PATTERN, RunId, UserQuestion
from wavewright.planner.diagnostics.rendering import printable

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.common.progress import Progress


class InterruptHandler:
    """Handles SIGINT and SIGTERM of one run."""

    def __init__(self, show_line: Callable[[str], None]) -> None:
        self.cancellation = CancellationToken()
        self.run: RunId | None = None
        """The run, once it is in the journal."""
        self._show_line = show_line
        self._is_resumable = False
        self._was_announced = False

    def observe(self, event: Event) -> None:
        """Take an event, to know whether the run can be resumed."""
        if isinstance(event, RunStarted):
            self.run = event.run
        elif isinstance(event, PlanAccepted) or (
            isinstance(event, Noted) and event.topic == "resumed"
        ):
            self._is_resumable = True

    @contextmanager
    def handle_signals(self) -> Generator[None]:
        """Return a context in which the signals are handled; enter it on the event loop."""
        # Not anyio's receiver: its task group would wrap every error of the run. Not the loop's own
        # handlers: they run on the loop, so an import that hangs could not be interrupted.
        loop = asyncio.get_running_loop()

        def stop(_number: int, _frame: FrameType | None) -> None:
            if self._was_announced or not (self._is_resumable or self.cancellation.has_open_scopes):
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
        self._show_line("stopping; finished steps are journaled (press again to end at once)")
        self.cancellation.cancel()


ANSWER_HINT = "give the answer with --answer TEXT, or --answer STEP=TEXT for each of several"


class QuestionDisplay(Protocol):
    """A progress display that can be paused for a question."""

    def print_line(self, text: str) -> None:
        """Print a line above the display."""
        ...

    def paused(self) -> AbstractContextManager[object]:
        """Return a context in which the display does not write to the terminal."""
        ...


@dataclass(slots=True)
class CommandLineAsker:
    """Answers with the `--answer` options, then by asking at the terminal."""

    given_answers: Sequence[str]
    show_line: Callable[[str], None]
    suspend_progress: Callable[[], AbstractContextManager[object]]
    """Returns a context in which the progress display is paused."""
    is_attended: bool
    """Whether standard input and standard error are a terminal."""
    _left: list[str] = field(init=False)
    """Those of the given answers that nothing has asked for yet."""

    def __post_init__(self) -> None:
        self._left = [*self.given_answers]

    async def ask(self, question: UserQuestion) -> str | None:
        """Return the answer, or None where there is none."""
        text = self._given_answer(question)
        if text is not None:
            answer = chosen_option(question, text)
            self.show_line(
                f"{question.asked_by} asks: {printable(question.question)} (--answer {printable(answer)!r})"
            )
            return answer
        if not self.is_attended:
            for line in question_lines(question):
                self.show_line(line)
            return None
        with self.suspend_progress():
            return await anyio.to_thread.run_sync(_ask_question, question, abandon_on_cancel=True)

    def _given_answer(self, question: UserQuestion) -> str | None:
        """Return the answer that was given to a question: the one that names its step, or else the
        next without a name.

        Steps ask in the order in which they become ready, which nobody knows before. So where
        several answers are given, one without a name answers the planner alone.
        """
        is_certain = question.step is None or len(self.given_answers) == 1
        named = [text for text in self._left if _step_named(text) == question.step]
        unnamed = [text for text in self._left if is_certain and _step_named(text) is None]
        if question.step is not None and named:
            self._left.remove(named[0])
            return named[0].partition("=")[2]
        if unnamed:
            self._left.remove(unnamed[0])
            return unnamed[0]
        return None

    def unused_lines(self) -> Iterator[str]:
        """Yield a line for each answer that was given and that nothing has asked for."""
        for text in self._left:
            mend = "" if _step_named(text) else "; an answer to a step is STEP=TEXT"
            yield f"--answer {printable(text)!r} was not used{mend}"


def _step_named(answer: str) -> str | None:
    """Return what an answer of the form `STEP=TEXT` names.

    An item, as in `STEP[0]=TEXT`, is named too, so that a run refuses it: items have no names of
    their own, and its text is no answer to whatever else is asked.
    """
    name, equals, _ = answer.partition("=")
    step = re.sub(r"\[\d+\]\Z", "", name)
    is_step = all(re.fullmatch(ID_PATTERN, part) for part in step.split("."))
    return name if equals and is_step else None


def asker_for(given: Sequence[str], progress: QuestionDisplay) -> CommandLineAsker:
    """Return an asker; it asks at the terminal if standard input and standard error are one."""
    return CommandLineAsker(given, progress.print_line, progress.paused, is_attended=is_attended())


def question_lines(question: UserQuestion) -> list[str]:
    """Return a question as lines, with numbered options."""
    options = [
        f"  {number}. {printable(option)}"
        for number, option in enumerate(question.options, start=1)
    ]
    default = [] if question.default is None else [f"  default: {printable(question.default)}"]
    return [f"{question.asked_by} asks: {printable(question.question)}", *options, *default]


def chosen_option(question: UserQuestion, answer: str) -> str:
    """Return the option that an answer names by its number, or the answer as it was given."""
    if answer in question.options or not answer.isdecimal():
        return answer
    number = int(answer)
    return question.options[number - 1] if 1 <= number <= len(question.options) else answer


def _ask_question(question: UserQuestion) -> str | None:
    """Show a question and return what is typed; for an empty line the default, None where there is
    none.
    """
    sys.stderr.write("\n".join(["", *question_lines(question), "> "]))
    sys.stderr.flush()
    typed = sys.stdin.readline().strip()
    return chosen_option(question, typed) if typed else question.default


@dataclass(frozen=True, slots=True)
class FixedApprover:
    """Gives every request the same answer, and prints it; without an answer, the run waits until it
    is answered.
    """

    progress: Progress
    answer: bool | None = None
    because: str = ""

    async def approve(self, request: ApprovalRequest) -> Approval | None:
        """Return the fixed answer; the reason of a refusal is that nobody was asked."""
        word = "approved" if self.answer else "not approved"
        how = "waits for approval" if self.answer is None else f"{word} ({self.because})"
        self.progress.print_line(f"{request.subject} {how}: {'; '.join(request.needs)}")
        if self.answer is None:
            return None
        if self.answer:
            return Approval(approved=True, by=local_user())
        return Approval(approved=False, reason=f"nobody was asked for approval: {self.because}")


@dataclass(frozen=True, slots=True)
class TerminalApprover:
    """Asks at the terminal."""

    progress: Progress

    async def approve(self, request: ApprovalRequest) -> Approval:
        """Show the request and return the answer."""
        with self.progress.paused():
            is_approved = await anyio.to_thread.run_sync(
                _ask_approval, request, abandon_on_cancel=True
            )
        return Approval(is_approved, by=local_user())


def can_approve(approver: Approver) -> bool:
    """Whether an approver may approve anything."""
    return not isinstance(approver, FixedApprover) or approver.answer is not False


def can_answer(approver: Approver, asker: Asker | None) -> bool:
    """Whether a person may answer the questions of steps, now or while the run waits."""
    has_answers = isinstance(asker, CommandLineAsker) and (
        asker.is_attended or bool(asker.given_answers)
    )
    return has_answers or can_approve(approver)


def named_steps(asker: Asker) -> list[str]:
    """Return the steps that answers given on the command line name."""
    given = asker.given_answers if isinstance(asker, CommandLineAsker) else ()
    return [name for name in map(_step_named, given) if name is not None]


def may_ask(choice: str | None) -> bool:
    """Whether a run with `--approve CHOICE` here could go past a step that needs a person; True
    without a choice.
    """
    return choice != "never" and (choice != "ask" or is_attended())


def is_attended() -> bool:
    """Whether standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def approver_for(choice: str, progress: Progress, *, is_resumed: bool = False) -> Approver:
    """Return the approver for `--approve CHOICE`.

    Without a terminal, `ask` approves nothing; a resumed run, which has waited before, waits again.
    """
    attended = is_attended()
    if choice == "wait" or (choice == "ask" and is_resumed and not attended):
        return FixedApprover(progress)
    if choice != "ask":
        return FixedApprover(progress, choice == "always", f"--approve {choice}")
    if attended:
        return TerminalApprover(progress)
    because = "there is no terminal to ask at; `--approve always` approves"
    return FixedApprover(progress, answer=False, because=because)


def _ask_approval(request: ApprovalRequest) -> bool:
    needs = "".join(f"  - {need}\n" for need in request.needs)
    prompt = f"Approve this {request.subject}?\n{needs}"
    lines = request.text.split("\n")
    folded = [folded_line(line) for line in lines]
    if folded == lines:
        return confirm(f"{request.text}\n{prompt}")
    sys.stderr.write("\n" + "\n".join(folded) + f"\n{prompt}[y/N, or a to see all of it] ")
    sys.stderr.flush()
    typed = sys.stdin.readline().strip().lower()
    if typed in ("a", "all"):
        return confirm(f"{request.text}\n{prompt}")
    return typed in _YES


_YES: Final = ("y", "yes")


def confirm(question: str) -> bool:
    """Ask a question at the terminal and return whether the answer is yes."""
    sys.stderr.write(f"\n{question}[y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in _YES


def local_user() -> str:
    """Return who gives a command here: the user and the machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
