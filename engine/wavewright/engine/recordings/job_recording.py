"""Run a job once for real and keep a recording; run it from that afterwards, offline.

Both ways are the real pipeline: planning, checking, executing, reviewing, recovering, packaging. In a replay only what
comes from outside is different: tools answer from the recording, models from its cassette, `now()` is the recorded
instant, and nothing is written. So the journal of a replay is that of the recorded run, but for its times and names.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from wavewright.config.redaction import known_secrets_redactor
from wavewright.config.settings import Settings
from wavewright.engine.pipeline.context import (
    Approver,
    Asker,
    Ports,
    RunContext,
    RunRequest,
    utc_now,
    withhold_package,
)
from wavewright.engine.pipeline.services import open_services
from wavewright.engine.recordings.recorded_tools import CallMiss, RecordedTools, ReusingJournal
from wavewright.engine.recordings.recording_file import Recording, RecordingError, recording_of_run
from wavewright.engine.session import run_request
from wavewright.executor.events.types import Event
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import JsonObject, RunId
from wavewright.reviewer.records import Package
from wavewright.tools.functions.runtime import Runtime
from wavewright.tools.models.cassette.errors import CassetteMiss

_RECORDED_RUN = RunId("19700101-000000-000000")
"""Stands for the run whose output served the recorded one: which it was is of no matter."""

_NO_ANSWERS: JsonObject = {"cassette": 1, "entries": []}


@dataclass(frozen=True, slots=True)
class JobRecording:
    """A run that was recorded, or replayed."""

    context: RunContext
    events: tuple[Event, ...]
    halted: str | None = None
    """Why it ended before its package, where it did."""
    misses: tuple[CallMiss, ...] = ()
    """Calls that it made and that were never recorded."""

    @property
    def package(self) -> Package:
        """What the run came to."""
        assert self.context.package is not None, self.halted
        return self.context.package


async def record_job(
    request: RunRequest, settings: Settings, *, approver: Approver, asker: Asker | None = None
) -> tuple[JobRecording, Recording]:
    """Run a job with its real tools and models; return the run, and the recording of it without secrets.

    Nothing is written but what its tools write.

    Raises:
        DocumentError, PlanError, ModelConfigError, PromptError: as in a run.
    """
    redactor = known_secrets_redactor(settings)
    with tempfile.TemporaryDirectory() as folder:
        cassette = Path(folder, "answers.json")
        taped = replace(
            settings,
            cassette=cassette,
            cassette_mode="record",
            journal=Path(folder, "budgets.sqlite"),
            journal_url=None,
        )
        ran = await _run(request, taped, MemoryJournal(), approver=approver, asker=asker)
        answers = _read_cassette_answers(cassette)
    return ran, recording_of_run(
        ran.events,
        redactor=redactor,
        answers=answers,
        model=settings.model,
        model_is_forced=settings.model_is_forced,
    )


async def replay_job(
    request: RunRequest,
    settings: Settings,
    recording: Recording,
    *,
    file: Path,
    approver: Approver,
    asker: Asker | None = None,
) -> JobRecording:
    """Run a job from its recording, without asking a model or a person and without writing.

    Args:
        request: The job.
        settings: The project's.
        recording: What tools and models answered.
        file: Where the recording stands, for messages.
        approver: Who is asked for approvals.
        asker: Who is asked a planner's question.

    Raises:
        RecordingError: a model is asked what it was not asked when the run was recorded.
        DocumentError, PlanError: the job, its template or its plan is faulty.
    """
    redactor = known_secrets_redactor(settings)
    tools = RecordedTools(recording.calls, redactor=redactor)
    journal = ReusingJournal(recording.calls, _RECORDED_RUN)
    with tempfile.TemporaryDirectory() as folder:
        cassette = Path(folder, file.name)
        _write_cassette_answers(cassette, recording.answers)
        taped = replace(
            settings,
            # A replay needs neither the key nor the name of the model: the recording has it.
            model=recording.model,
            model_is_forced=recording.model_is_forced,
            cassette=cassette,
            cassette_mode="replay",
            journal=Path(folder, "budgets.sqlite"),
        )
        try:
            ran = await _run(
                request,
                taped,
                journal,
                approver=approver,
                asker=asker,
                now=recording.now,
                runtime=tools,
            )
        except CassetteMiss as miss:
            if tools.misses:  # What a model was asked then is another question because of them.
                raise missing_calls_error(file, tools.misses) from miss
            said = miss.message.replace(f"the cassette {cassette}", f"the recording {file}")
            raise RecordingError(said, f"record the run anew into {file}") from miss
    return replace(ran, misses=tuple(tools.misses))


def missing_calls_error(file: Path, misses: Sequence[CallMiss]) -> RecordingError:
    """Return the error of a recording that lacks calls, to be raised."""
    missing = "\n".join(f"  {line}" for miss in misses for line in str(miss).split("\n"))
    return RecordingError(
        f"the recording {file} lacks calls of this run\n{missing}", f"record the run anew into {file}"
    )


async def _run(
    request: RunRequest,
    settings: Settings,
    journal: MemoryJournal,
    *,
    approver: Approver,
    asker: Asker | None,
    now: float | None = None,
    runtime: Runtime | None = None,
) -> JobRecording:
    async with open_services(settings, uses_runtime=True) as services:
        ports = Ports(
            journal=journal,
            settings=settings,
            services=services,
            approver=approver,
            asker=asker,
            clock=utc_now if now is None else partial(dt.datetime.fromtimestamp, now, dt.UTC),
            runtime=runtime,
            publish=withhold_package,
        )
        ended = await run_request(request, ports)
    run = ended.context.state.run
    events: Sequence[Event] = await journal.load(run) if run is not None else ()
    return JobRecording(ended.context, tuple(events), ended.halted)


def _read_cassette_answers(cassette: Path) -> JsonObject | None:
    """Return what models answered; none where no model was called."""
    if not cassette.exists():
        return None
    answers: JsonObject = json.loads(cassette.read_bytes())
    return answers


def _write_cassette_answers(cassette: Path, answers: JsonObject | None) -> None:
    cassette.write_text(json.dumps(answers or _NO_ANSWERS), encoding="utf-8")
