"""Run plans for tests: the real pipeline, in a folder of its own, with stubs where the test gives
some.

The runner is called like a plain function, from plain and from async tests alike. No model is asked
unless the test is marked as live or brings a cassette.

A *recorded run* is run with its real tools and models where pytest is given `--wavewright-record`,
and what they answered is kept beside the test. Without the option it happens again from that file,
offline: nothing is called, no model is asked, nothing is written.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from wavewright.config import Settings, load_settings
from wavewright.config.value_types import Place
from wavewright.engine.interfaces.api.loaded_plan import LoadedPlan
from wavewright.engine.interfaces.testing.doubles import Call, CallRecorder, Stub
from wavewright.engine.interfaces.testing.model_requests import LIVE_MARKER, model_requests
from wavewright.engine.interfaces.testing.project import (
    Loadable,
    ProjectUnderTest,
    assertion_failure,
    read_tested_plan,
    unknown_name,
)
from wavewright.engine.interfaces.testing.run_view import RunView
from wavewright.engine.rehearsal.answers import ScriptedUser
from wavewright.engine.rehearsal.recordings.job_recording import (
    JobRecording,
    Recording,
    RecordingError,
    missing_calls_error,
    read_recording,
    record_job,
    replay_job,
    write_recording,
)
from wavewright.engine.rehearsal.recordings.recorded_calls import recorded_calls
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import Attempt, Means, People, Ports
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.engine.run.session import run_to_end
from wavewright.executor import Event, JournalReplayCache, SqliteJournal
from wavewright.planner.ports.model_port import ModelError
from wavewright.tools.models.cassette.errors import CassetteError, how_to_record

_RECORD_HINT = (
    f"record it: mark a test that makes this run with @pytest.mark.{LIVE_MARKER}, and run it once with "
    "WAVEWRIGHT_CASSETTE_MODE=record and a model that answers"
)
_RECORD_OPTION = "--wavewright-record"
"""Runs for real, and records anew."""
_NOT_RECORDED_HINT = (
    "nothing was kept, for it would not replay; a model that cannot be reached leaves no answer to be recorded: "
    "see that it answers, and record once more"
)
_RECORDINGS_FOLDER = "recordings"
"""Of recordings, beside the test's file."""
_RECOVERY_SUFFIX = re.compile(r"_\d+$")


@dataclass(slots=True, repr=False)
class PlanRunner:
    """Runs jobs and plans of the project under test."""

    project: ProjectUnderTest
    new_folder: Callable[[], Path]
    """Makes a temporary folder for a run."""
    last: RunView | None = None
    """The latest run of the test."""

    def __repr__(self) -> str:
        return f"<runs plans of {self.project.root}>"

    def __call__(
        self,
        file: Loadable,
        *,
        plan: Place | None = None,
        stubs: Mapping[str, Stub] | None = None,
        real: Collection[str] = (),
        cassette: Place | None = None,
        without_model: bool = False,
        approve: bool = True,
        answers: Sequence[str] = (),
        as_of: dt.date | str | None = None,
    ) -> RunView:
        """Run a job, a plan or a goal template and return the run.

        Args:
            file: The job, the plan or the goal template, by its file or as `ww` has it.
            plan: A plan in place of the job's own.
            stubs: Answers in the place of tools, by step or by tool; a step's goes first.
            real: Tools that write or send and are called nevertheless.
            cassette: File of recorded answers of models, to be replayed; a live test records it
                anew under `WAVEWRIGHT_CASSETTE_MODE=record`.
            without_model: Runs as if no model were configured.
            approve: What is said where a person must approve.
            answers: For the planner's questions, in their order.
            as_of: What `now()` gives, in UTC where it has no offset.
        """
        __tracebackhide__ = True
        with self.project.as_working_folder():
            given = file.settings if isinstance(file, LoadedPlan) else self.project.settings()
            settings = self._settings(given, cassette, without_model=without_model)
            self._refuse_unknown_stubs(file, plan, stubs or {})
            request = self.project.run_request(file, plan, as_of)
            calls = CallRecorder(stubs or {}, tuple(real))
            people = ScriptedUser(approves=approve, answers=answers, stubbed=stubs or {})
            try:
                self.last = run_to_end(lambda: _run(request, settings, calls, people))
            except (CassetteError, ModelError) as error:
                # Only a live test records, whatever the mode in the environment says.
                if self.project.is_live or not _is_answer_unrecorded(error, settings):
                    raise
                raise CassetteError(str(getattr(error, "message", error)), _RECORD_HINT) from None
        if faults := [*calls.faults, *_unasked_stubs(self.last, stubs or {})]:
            raise assertion_failure("\n".join(faults))
        return self.last

    def latest(self) -> RunView:
        """Return the latest run of the test."""
        __tracebackhide__ = True
        if self.last is None:
            raise assertion_failure("nothing has run in this test yet: call run_plan first")
        return self.last

    def _settings(
        self, given: Settings, cassette: Place | None, *, without_model: bool
    ) -> Settings:
        __tracebackhide__ = True
        settings = settings_in(self.new_folder(), given)
        if without_model:
            return replace(settings, model=None)
        if cassette is not None:
            if given.model is None:
                raise _unused_cassette_failure(cassette, is_live=self.project.is_live)
            mode = given.cassette_mode if self.project.is_live else "replay"
            return replace(settings, cassette=self.project.root / cassette, cassette_mode=mode)
        is_replayed = settings.cassette is not None and settings.cassette_mode == "replay"
        if settings.model is not None and not (self.project.is_live or is_replayed):
            raise assertion_failure(
                f"error: the project asks the model {settings.model!r}, and this test may ask none\n"
                f"  = help: mark it with @pytest.mark.{LIVE_MARKER} to ask it,\n"
                "          replay recorded answers with run_plan(…, cassette=FILE),\n"
                "          or run without a model with run_plan(…, without_model=True)"
            )
        return settings

    def _refuse_unknown_stubs(
        self, file: Loadable, plan: Place | None, stubs: Mapping[str, Stub]
    ) -> None:
        """Fail where a stub answers for nothing: most often a step or a tool that is called
        otherwise by now.
        """
        __tracebackhide__ = True
        if not stubs:
            return
        order, tools = read_tested_plan(self.project, file, plan)
        draft = order.draft
        if draft is None or (draft.rung != "given" and self.project.settings().model is not None):
            return  # a model plans: how the steps are called is not known yet
        known = set(tools).union(*((step.id, step.tool) for step in draft.plan.steps))
        for name in stubs:
            # A step that recovery adds is called after the one that it replaces: `prices_2`.
            if name not in known and _RECOVERY_SUFFIX.sub("", name) not in known:
                raise unknown_name(name, known, what="step or tool", of=f"job {order.goal.job!r}")


def _unasked_stubs(run: RunView, stubs: Mapping[str, Stub]) -> Iterator[str]:
    """Yield what is wrong with the stubs of steps that took the output of an equal call instead."""
    called = {call.step for call in run.recorded_calls}
    for step, ended in run.context.state.steps.items():
        if step in stubs and step not in called and ended.status == "reused":
            yield (
                f"the stub of {step!r} was not asked, since {ended.reason}: "
                "equal calls of its tool are made once; give that one the stub"
            )


def settings_in(folder: Path, given: Settings) -> Settings:
    """Return settings with which a run writes into a folder only."""
    return replace(
        given,
        state_dir=folder,
        journal=folder / "journal.sqlite",
        journal_url=None,
        output_dir=folder / "packages",
    )


def _is_answer_unrecorded(error: CassetteError | ModelError, settings: Settings) -> bool:
    """Whether an answer is missing that a cassette is to be asked for."""
    return settings.cassette is not None and getattr(error, "hint", None) == how_to_record(
        settings.cassette
    )


def _unused_cassette_failure(cassette: Place, *, is_live: bool) -> BaseException:
    """Return the failure of a test whose cassette would not be read: the run would be one without a
    model.
    """
    where = "'model:' in wavewright.yaml" + (" or WAVEWRIGHT_MODEL" if is_live else "")
    of_environment = (
        "" if is_live else ";\n          what the environment names counts for live tests only"
    )
    return assertion_failure(
        f"error: no model is configured, so nothing is asked of the cassette {str(cassette)!r}\n"
        f"  = help: name the model whose answers it holds with {where}{of_environment}"
    )


async def _run(
    request: RunRequest, settings: Settings, calls: CallRecorder, people: ScriptedUser
) -> RunView:
    events: list[Event] = []
    async with (
        SqliteJournal(settings.journal) as journal,
        open_services(settings, memory=JournalReplayCache(journal)) as services,
    ):
        ports = Ports(
            attempt=Attempt(journal=journal, on_event=events.append),
            means=Means(settings=settings, services=services, runtime=calls),
            people=People(approver=people, asker=people),
        )
        ended = await run_job(request, ports)
    return RunView(
        ended.context,
        tuple(events),
        tuple(calls.calls),
        tuple(people.approvals),
        settings.state_dir,
        ended.halted,
    )


def recording_fixture(request: pytest.FixtureRequest) -> RecordedRuns:
    """Return what a test runs jobs with: the fixture `recorded_run`."""
    project: ProjectUnderTest = request.getfixturevalue("wavewright_project")
    # Tests of two classes may have one name.
    within = "".join(
        f"{node.name}." for node in request.node.listchain() if isinstance(node, pytest.Class)
    )
    name = re.sub(r"[^\w.-]+", "-", f"{within}{request.node.name}").strip("-")
    folder = request.path.parent / _RECORDINGS_FOLDER / request.path.stem
    return RecordedRuns(
        project,
        folder,
        name,
        is_recording=bool(request.config.getoption(_RECORD_OPTION, default=False)),
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
        file: Place,
        *,
        plan: Place | None = None,
        name: str | None = None,
        approve: bool = True,
        answers: Sequence[str] = (),
        as_of: dt.date | str | None = None,
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
            # The replay is asserted on while it is recorded, too, so that assertions and snapshots
            # hold from now on.
            people = ScriptedUser(approves=approve, answers=answers)
            ran = self._replay(request, recording, kept, people)
            if self.is_recording:
                write_recording(kept, recording)
        calls = _calls_made(ran)
        return RunView(
            ran.context, ran.events, calls, tuple(people.approvals), self.folder, ran.halted
        )

    def _record(self, request: RunRequest, people: ScriptedUser) -> Recording:
        # Who records has a model, a key and folders of their own; who replays needs none of them.
        settings = load_settings(self.project.root)

        async def record() -> tuple[JobRecording, Recording]:
            return await record_job(request, settings, People(approver=people, asker=people))

        # Who records says so on the command line.
        with model_requests(allowed=True):
            _, recording = run_to_end(record)
        return recording

    def _read(self, kept: Path) -> Recording:
        __tracebackhide__ = True
        if not kept.exists():
            raise assertion_failure(
                f"there is no recording {kept}: run this test once with `pytest {_RECORD_OPTION}`"
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
            return await replay_job(
                request, settings, recording, People(approver=people, asker=people), file=kept
            )

        try:
            ran = run_to_end(replay)
            if ran.misses:
                raise missing_calls_error(kept, ran.misses)
        except RecordingError as error:
            # From nothing: pytest would show what was caught, traceback and all, above the message.
            raise self._unusable_failure(error) from None
        return ran

    def _unusable_failure(self, error: RecordingError) -> BaseException:
        hint = (
            _NOT_RECORDED_HINT if self.is_recording else f"{error.hint}: `pytest {_RECORD_OPTION}`"
        )
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
