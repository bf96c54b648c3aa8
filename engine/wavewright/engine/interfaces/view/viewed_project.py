"""The project that viewers see and steer: its settings, its journal, and what all its pages and the
API ask of it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

import anyio
from pydantic import BaseModel, ConfigDict

from wavewright.config import Settings, WavewrightError, exit_codes
from wavewright.config.value_types import NonEmpty
from wavewright.engine.interfaces.view.stored_runs import RunSnapshot, read_run
from wavewright.engine.run.decisions.questions import OpenQuestion
from wavewright.engine.service.answering import answer_question
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.questions import find_question_to_answer, list_questions
from wavewright.engine.service.schedules.project_schedules import named_schedule
from wavewright.engine.service.schedules.schedule_store import ScheduleStore
from wavewright.engine.service.schedules.scheduler import ScheduleAct, steer_schedule
from wavewright.engine.service.schedules.shown_schedules import ShownSchedule, shown_schedules
from wavewright.executor import RunNotFound
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner import RunId
from wavewright.planner.types import RunIdRefused, read_run_id

_SECONDS_TO_BEGIN: Final = 10.0
"""Within which a run that is resumed or repeated begins, or says why it does not."""
_SECONDS_TO_END: Final = 40.0
_SECONDS_TO_REPLAY: Final = 60.0
_ERROR: Final = re.compile(r"^error(?:\[\w+\])?: (.+)$", re.MULTILINE)
_HELP: Final = re.compile(r"^ +(?:\| +)?= help: (.+)$", re.MULTILINE)
_MOST_PRINTED: Final = 500
"""Characters of what a command printed that are shown, where it named no error."""
_STARTED: Final = re.compile(r'^{"kind": "run_started", "run": "([^"]+)"', re.MULTILINE)
"""The first event of a run, as a line of `--json`."""


class DecisionAnswer(BaseModel):
    """An answer to a decision."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choice: NonEmpty


class CommandRefused(WavewrightError):
    """A command of the project refused what was asked, for the reason that it printed."""

    @classmethod
    def of_output(cls, printed: str) -> CommandRefused:
        r"""Return the refusal whose error stands in what a command has printed.

        >>> CommandRefused.of_output("run r\nerror: it has ended\n  = help: retry it").hint
        'retry it'
        """
        errors = _ERROR.findall(printed)
        if errors:
            return cls("; ".join(errors), "; ".join(_HELP.findall(printed)) or None)
        return cls(printed.strip()[-_MOST_PRINTED:] or "the command failed and printed nothing")


@dataclass(frozen=True, slots=True)
class ViewedProject:
    """A project whose journal is open."""

    settings: Settings
    journal: StoredJournal
    jobs: JobStore

    async def find_run(self, run: RunId) -> RunSnapshot:
        """Return a run as it is now.

        Raises:
            RunNotFound: there is no such run.
        """
        try:
            snapshot = await read_run(self.journal, read_run_id(run))
        except RunIdRefused as error:
            # What stands in an address can be anything.
            raise RunNotFound(error.message, hint=error.hint) from error
        if snapshot is None:
            raise RunNotFound(
                f"there is no run {run!r}", hint="the list of runs shows those of this journal"
            )
        return snapshot

    async def schedules(self) -> list[ShownSchedule]:
        """Return the schedules of the project, as people see them."""
        return await shown_schedules(self.settings, ScheduleStore(self.journal), time.time())

    async def steer_schedule(self, name: str, act: ScheduleAct, by: str) -> None:
        """Begin the job of a schedule now, pause the schedule or resume it.

        Raises:
            ScheduleUnknown: the project has no such schedule, it is faulty, or it is to be resumed
                and its `paused` says otherwise.
        """
        schedule, store = named_schedule(self.settings, name), ScheduleStore(self.journal)
        reporter = Reporter.of(self.settings)
        await steer_schedule(store, schedule, act, by, reporter.state_reports)

    async def list_questions(self) -> list[OpenQuestion]:
        """Return what waits for a person."""
        return await list_questions(self.journal, self.jobs, time.time())

    async def answer(self, decision: str, choice: str, by: str) -> OpenQuestion:
        """Answer a question, and return it as it was asked.

        Raises:
            AnsweredAlready: another answer was faster.
            AnswerRejected, JournalError: the answer does not count.
        """
        now = time.time()
        question = await find_question_to_answer(self.journal, self.jobs, decision, now)
        await answer_question(self.journal, self.jobs, question, choice, by=by, now=now)
        return question

    async def resume(self, run: RunId, by: str) -> RunId:
        """Continue a run in a process of its own, and return it once it has begun.

        Raises:
            RunNotFound: there is no such run.
            CommandRefused: it cannot be resumed.
        """
        snapshot = await self.find_run(run)

        async def has_begun(_printed: str) -> bool:
            return await read_run(self.journal, run, unless=snapshot.version) is not None

        code, printed = await self._command(
            _SECONDS_TO_BEGIN, "resume", run, f"--by={by}", until=has_begun
        )
        if code and not await has_begun(printed):
            raise CommandRefused.of_output(printed)
        return run

    async def cancel(self, run: RunId, by: str) -> RunId:
        """End a run for good, and return it; also the run of a job that waits in the queue.

        Raises:
            RunNotFound: there is no such run.
            CommandRefused: it has ended, or its owner does not end it.
        """
        if run not in {job.run for job in await self.jobs.list_jobs(("queued",))}:
            await self.find_run(run)
        code, printed = await self._command(_SECONDS_TO_END, "cancel", run, f"--by={by}")
        if code:
            raise CommandRefused.of_output(printed)
        return run

    async def retry_outlook(self, run: RunId, options: Sequence[str]) -> str:
        """Return what a retry would call, reuse and leave, as text.

        Raises:
            RunNotFound: there is no such run.
            CommandRefused: it cannot be repeated.
        """
        await self.find_run(run)
        code, printed = await self._command(_SECONDS_TO_END, "retry", run, "--dry-run", *options)
        if code:
            raise CommandRefused.of_output(printed)
        return printed

    async def retry(self, run: RunId, by: str, options: Sequence[str] = ()) -> RunId:
        """Repeat a run as a new one in a process of its own, and return that once it has begun.

        Args:
            run: The run.
            by: Who repeats it.
            options: Of the command, as of `retry_options`.

        Raises:
            RunNotFound: there is no such run.
            CommandRefused: it cannot be repeated.
        """
        await self.find_run(run)

        async def has_begun(printed: str) -> bool:
            return _STARTED.search(printed) is not None

        arguments = ("retry", run, "--json", "--approve=wait", f"--by={by}", *options)
        _, printed = await self._command(_SECONDS_TO_BEGIN, *arguments, until=has_begun)
        started = _STARTED.search(printed)
        if started is None and printed:
            raise CommandRefused.of_output(printed)
        if started is None:
            raise CommandRefused("it has not begun yet", "the list of runs shows it once it has")
        return RunId(started[1])

    async def replay(self, run: RunId) -> str:
        """Replay a run and return the differences as text.

        Raises:
            RunNotFound: there is no such run.
            CommandRefused: it cannot be replayed, or takes longer than a page is waited for.
        """
        await self.find_run(run)
        code, printed = await self._command(_SECONDS_TO_REPLAY, "replay", run)
        if code not in {exit_codes.OK, exit_codes.NEGATIVE}:
            if code is None:
                raise CommandRefused(
                    "it goes on for more than a minute", f"see it with: wavewright replay {run}"
                )
            raise CommandRefused.of_output(printed)
        return printed

    async def _command(
        self, seconds: float, *arguments: str, until: Callable[[str], Awaitable[bool]] | None = None
    ) -> tuple[int | None, str]:
        """Run a command of the project in a process that outlives this one, and wait for its end or
        its effect.

        Args:
            seconds: For which it is waited for at most.
            arguments: The command with its arguments.
            until: Whether the effect is there, after what was printed so far; only the end is
                waited for where absent.

        Returns:
            The exit code, None where the command has not ended, and what it has printed.
        """
        with TemporaryFile() as output:
            process = _start_command(self.settings.root, output, arguments)

            def printed() -> str:
                # Without moving the place at which the process writes, which it shares with this
                # one.
                size = os.fstat(output.fileno()).st_size
                return os.pread(output.fileno(), size, 0).decode(errors="replace")

            with anyio.move_on_after(seconds):
                while process.poll() is None:
                    if until is not None and await until(printed()):
                        break
                    await anyio.sleep(0.05)
            return process.poll(), printed()


def retry_options(start: str, inputs: Mapping[str, str], *, only_failed: bool) -> list[str]:
    """Return the options of `wavewright retry`: the step from which a run is repeated, inputs as
    they are typed, and whether only what failed is called.
    """
    options = [f"--set={name}={text}" for name, text in inputs.items()]
    if start:
        options.append(f"--from={start}")
    if only_failed:
        options.append("--failed")
    return options


def _start_command(
    root: Path, output: IO[bytes], arguments: Sequence[str]
) -> subprocess.Popen[bytes]:
    program = "from wavewright.engine.main import run_process; run_process()"
    return subprocess.Popen(  # noqa: S603 - this program, with arguments that were checked
        [sys.executable, "-c", program, *arguments],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
