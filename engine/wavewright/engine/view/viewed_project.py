"""The project that viewers see and steer: its settings, its journal, and what all its pages and the API ask of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Final

import anyio
from pydantic import BaseModel, ConfigDict, Field

from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.engine.decisions.answering import answer_question
from wavewright.engine.decisions.questions import OpenQuestion, find_question, list_questions
from wavewright.engine.view.stored_runs import RunSnapshot, read_run
from wavewright.executor.store.errors import RunNotFound
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner.types import RunId

_SECONDS_TO_BEGIN: Final = 10.0
"""Within which a run that is resumed begins, or says why it does not."""

PersonName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""Who changes something; the name is journaled with the change."""


class DecisionAnswer(BaseModel):
    """An answer to a decision, and who gives it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choice: Annotated[str, Field(min_length=1)]
    by: PersonName


class CommandRefused(WavewrightError):
    """A command of the project refused what was asked; the message is what it printed."""


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
        snapshot = await read_run(self.journal, run)
        if snapshot is None:
            raise RunNotFound(f"there is no run {run!r}", hint="the list of runs shows those of this journal")
        return snapshot

    async def list_questions(self) -> list[OpenQuestion]:
        """Return what waits for a person."""
        return await list_questions(self.journal, self.jobs, time.time())

    async def answer(self, decision: str, given: DecisionAnswer) -> None:
        """Answer a question.

        Raises:
            AnsweredAlready: somebody was faster.
            AnswerRejected, JournalError: the answer does not count.
        """
        now = time.time()
        question = await find_question(self.journal, self.jobs, decision, now)
        await answer_question(self.journal, self.jobs, question, given.choice, by=given.by, now=now)

    async def resume(self, run: RunId) -> None:
        """Continue a run in a process of its own, as `wavewright resume` does, and wait until it has begun.

        Raises:
            RunNotFound: there is no such run.
            CommandRefused: it cannot be resumed.
        """
        snapshot = await self.find_run(run)
        with TemporaryFile() as output:
            process = start_command(self.settings.root, output, "resume", run)
            has_changed = await self._has_changed(snapshot, lambda: process.poll() is not None)
            if not has_changed and process.poll():
                output.seek(0)
                raise CommandRefused(output.read().decode(errors="replace"))

    async def _has_changed(self, snapshot: RunSnapshot, is_over: Callable[[], bool]) -> bool:
        """Wait until a run is no longer as it was, or something is over, and return whether the run has changed."""
        run, version = snapshot.row.run, snapshot.version
        with anyio.move_on_after(_SECONDS_TO_BEGIN):
            while not is_over():
                await anyio.sleep(0.05)
                if await read_run(self.journal, run, unless=version) is not None:
                    return True
        return await read_run(self.journal, run, unless=version) is not None


def start_command(root: Path, output: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
    """Start a command of the project in a process that outlives this one and writes what it says to a file."""
    program = "from wavewright.engine.main import run_process; run_process()"
    return subprocess.Popen(  # noqa: S603 - this program, with arguments that were checked
        [sys.executable, "-c", program, *arguments],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
