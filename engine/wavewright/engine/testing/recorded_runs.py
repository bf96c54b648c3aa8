"""Whole runs for tests: for real once, from a recording afterwards.

A *recorded run* is run with its real tools and models where pytest is given `--wavewright-record`, and what they
answered is kept beside the test. Without the option it happens again from that file, offline: nothing is called, no
model is asked, nothing is written.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from wavewright.config.settings import load_settings
from wavewright.engine.pipeline.context import RunRequest
from wavewright.engine.recordings.job_recording import (
    JobRecording,
    Recording,
    RecordingError,
    missing_calls_error,
    read_recording,
    record_job,
    replay_job,
    write_recording,
)
from wavewright.engine.recordings.recorded_calls import recorded_calls
from wavewright.engine.session import run_to_end
from wavewright.engine.testing.claims import assertion_failure
from wavewright.engine.testing.doubles import Call, ScriptedUser
from wavewright.engine.testing.plugin import model_requests
from wavewright.engine.testing.project import ProjectUnderTest
from wavewright.engine.testing.run_view import RunView

RECORD_OPTION = "--wavewright-record"
"""Runs for real, and records anew."""
_NOT_RECORDED_HINT = (
    "nothing was kept, for it would not replay; a model that cannot be reached leaves no answer to be recorded: "
    "see that it answers, and record once more"
)
FOLDER = "recordings"
"""Of recordings, beside the test's file."""


def recording_fixture(request: pytest.FixtureRequest) -> RecordedRuns:
    """Return what a test runs jobs with: the fixture `recorded_run`."""
    project: ProjectUnderTest = request.getfixturevalue("wavewright_project")
    # Tests of two classes may have one name.
    within = "".join(f"{each.name}." for each in request.node.listchain() if isinstance(each, pytest.Class))
    name = re.sub(r"[^\w.-]+", "-", f"{within}{request.node.name}").strip("-")
    folder = request.path.parent / FOLDER / request.path.stem
    return RecordedRuns(
        project, folder, name, is_recording=bool(request.config.getoption(RECORD_OPTION, default=False))
    )


@dataclass(slots=True, repr=False)
class RecordedRuns:
    """Runs jobs of the project under test from recordings."""

    project: ProjectUnderTest
    folder: Path
    """Where the recordings of the test's file are."""
    test: str
    is_recording: bool = False
    runs: int = 0
    """How many the test has made."""

    def __repr__(self) -> str:
        return f"<recorded runs of {self.project.root}>"

    def __call__(
        self,
        file: str | os.PathLike[str],
        *,
        plan: str | os.PathLike[str] | None = None,
        name: str | None = None,
        approve: bool = True,
        answers: Sequence[str] = (),
        as_of: dt.datetime | str | None = None,
    ) -> RunView:
        """Run a job, a plan or a goal template and return the run.

        Args:
            file: The job, the plan or the goal template.
            plan: A plan in place of the job's own.
            name: Of the recording; the test's name where absent.
            approve: What is said where a person must approve.
            answers: For the planner's questions, in their order.
            as_of: What `now()` gives; the instant of the recording where absent.
        """
        __tracebackhide__ = True
        self.runs += 1
        number = f"-{self.runs}" if self.runs > 1 else ""
        kept = self.folder / f"{name or self.test + number}.json"
        with self.project.as_working_folder():
            request = self.project.run_request(file, plan, as_of)
            recording = (
                self._record(request, ScriptedUser(approves=approve, answers=answers))
                if self.is_recording
                else self._read(kept)
            )
            # The replay is asserted on while it is recorded, too, so that assertions and snapshots hold from now on.
            people = ScriptedUser(approves=approve, answers=answers)
            ran = self._replay(request, recording, kept, people)
            if self.is_recording:
                write_recording(kept, recording)
        made = _calls_made(ran)
        return RunView(ran.context, ran.events, made, tuple(people.approvals), self.folder, ran.halted)

    def _record(self, request: RunRequest, people: ScriptedUser) -> Recording:

        # Who records has a model, a key and folders of their own; who replays needs none of them.
        settings = load_settings(self.project.root)

        async def record() -> tuple[JobRecording, Recording]:
            return await record_job(request, settings, approver=people, asker=people)

        # Who records says so on the command line.
        with model_requests(allowed=True):
            _, recording = run_to_end(record)
        return recording

    def _read(self, kept: Path) -> Recording:

        __tracebackhide__ = True
        if not kept.exists():
            raise assertion_failure(
                f"there is no recording {kept}: run this test once with `pytest {RECORD_OPTION}`"
            )
        try:
            return read_recording(kept)
        except RecordingError as error:
            raise self._unusable_failure(error) from None

    def _replay(
        self, request: RunRequest, recording: Recording, kept: Path, people: ScriptedUser
    ) -> JobRecording:

        __tracebackhide__ = True
        settings = self.project.settings()

        async def replay() -> JobRecording:
            return await replay_job(request, settings, recording, file=kept, approver=people, asker=people)

        try:
            ran = run_to_end(replay)
            if ran.misses:
                raise missing_calls_error(kept, ran.misses)
        except RecordingError as error:
            # From nothing: pytest would show what was caught, traceback and all, above the message.
            raise self._unusable_failure(error) from None
        return ran

    def _unusable_failure(self, error: RecordingError) -> BaseException:
        hint = _NOT_RECORDED_HINT if self.is_recording else f"{error.hint}: `pytest {RECORD_OPTION}`"
        return assertion_failure(f"error: {error.message}\n  = help: {hint}")


def _calls_made(ran: JobRecording) -> tuple[Call, ...]:
    """Return the calls of a run as a test looks at them: by step and item, whichever ended first."""
    calls = recorded_calls(ran.events)
    return tuple(
        Call(
            call.step,
            call.tool,
            call.params,
            call.index,
            output=call.output,
            error=None if call.error is None else call.error.message,
        )
        for call in sorted(calls, key=lambda call: (call.step, call.index or 0))
    )
