"""Run a job once for real and keep a recording; run it from that afterwards, offline.

A *recording* holds what one run got from outside: the calls of its tools, and what its models
answered. Its file is
JSON in a fixed order and without secrets, and is read back strictly: one that was damaged, or that
another version wrote, is refused with its place.

Both ways are the real pipeline: planning, checking, executing, reviewing, recovering, packaging. In
a replay only what
comes from outside is different: tools answer from the recording, models from its cassette, `now()`
is the recorded instant, and nothing is written. So the journal of a replay is that of the recorded
run, but for its times and names.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import (
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictFloat,
    TypeAdapter,
    ValidationError,
)

from wavewright.config import Settings, WavewrightError, exit_codes, known_secrets_redactor
from wavewright.config.atomic_files import write_atomically
from wavewright.config.redaction import Redactor
from wavewright.engine.rehearsal.recordings.recorded_calls import (
    RECORD_CONFIG,
    RecordedCall,
    recorded_calls,
)
from wavewright.engine.rehearsal.recordings.recorded_tools import (
    CallMiss,
    RecordedTools,
    ReusingJournal,
)
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.ports import (
    Attempt,
    Means,
    People,
    Ports,
    utc_now,
    withhold_package,
)
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.executor import Event, MemoryJournal, RunStarted
from wavewright.planner import Json, JsonObject, RunId
from wavewright.reviewer import Package
from wavewright.tools import Runtime
from wavewright.tools.models.cassette.errors import CassetteMiss

FORMAT = "wavewright/recording/1"
_NOT_KEPT = {"calls": {"__all__": {"error": {"attempts", "frames"}}}}


_TOOLS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


def _tools_of(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(_TOOLS.validate_python(value).items()))


class RecordingError(WavewrightError):
    """A recording cannot be used; the message names the file."""

    exit_code = exit_codes.MISUSE
    __str__ = WavewrightError.describe


@dataclass(frozen=True, slots=True)
class Recording:
    """What one run got from outside."""

    __pydantic_config__ = RECORD_CONFIG

    job: str
    now: StrictFloat
    """The instant that the run took for now, in seconds since the epoch."""
    calls: tuple[RecordedCall, ...]
    answers: JsonObject | None = None
    """The cassette of its models' answers; none where no model was asked."""
    tools: Annotated[
        tuple[tuple[str, str], ...], PlainValidator(_tools_of), PlainSerializer(dict)
    ] = ()
    """The tools by name, with their versions."""
    model: str | None = None
    """The model that was configured; none where no model was."""
    model_is_forced: StrictBool = False
    """Whether it was asked for every role."""


def recording_of_run(
    events: Iterable[Event],
    *,
    redactor: Redactor | None = None,
    answers: JsonObject | None = None,
    model: str | None = None,
    model_is_forced: bool = False,
) -> Recording:
    """Return the recording of a run; nothing is taken out of it where no redactor is given."""
    known = list(events)
    started = next((event for event in known if isinstance(event, RunStarted)), None)
    assert started is not None, "a run begins with its start"
    calls = recorded_calls(known)
    if redactor is not None:
        calls = tuple(call.without_secrets(redactor) for call in calls)
    versions = sorted(started.versions.items())
    tools = tuple(
        (name.removeprefix("tool "), version)
        for name, version in versions
        if name.startswith("tool ")
    )
    return Recording(started.job, started.now, calls, answers, tools, model, model_is_forced)


_FILE: TypeAdapter[Recording] = TypeAdapter(Recording)


def write_recording(file: Path, recording: Recording) -> None:
    """Write a recording, whole or not at all.

    Raises:
        FileNotWrittenError: the disk is full, or the folder cannot be written to.
    """
    write_atomically(file, recording_text(recording).encode("utf-8", "surrogatepass"))


def recording_text(recording: Recording) -> str:
    """Return a recording as its file holds it: calls by step and item, values as they came."""
    calls = sorted(
        recording.calls, key=lambda call: (call.step, -1 if call.index is None else call.index)
    )
    ordered = replace(recording, calls=tuple(calls))
    content: JsonObject = {
        "format": FORMAT,
        **_FILE.dump_python(ordered, exclude_none=True, exclude=_NOT_KEPT),
    }
    # The members of an output keep their order: prompts and expressions may show it.
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_recording(file: Path) -> Recording:
    """Read a recording.

    Raises:
        RecordingError: it is absent, damaged, or no recording.
    """
    try:
        content: Json = json.loads(file.read_bytes())
    except OSError as error:
        raise RecordingError(
            f"the recording {file} cannot be read: {error.strerror or error}",
            "name a file that can be read",
        ) from error
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"the recording {file} is damaged: {error}", _RERECORD_HINT) from error
    known_format = content.get("format") if isinstance(content, dict) else None
    if not isinstance(content, dict) or known_format != FORMAT:
        raise RecordingError(
            f"{file} is no recording that this program reads: its format is {known_format!r}, not {FORMAT!r}",
            "name another file, or record it anew",
        )
    try:
        return _FILE.validate_python(
            {name: part for name, part in content.items() if name != "format"}
        )
    except ValidationError as error:
        raise RecordingError(
            f"the recording {file} is damaged{_invalid_reason(error)}", _RERECORD_HINT
        ) from error


_RERECORD_HINT = "take an earlier version of the file, or record it anew"


def _invalid_reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    if (event_fault := first.get("ctx", {}).get("error")) is not None:
        return f": {event_fault}"
    return f" at {'.'.join(str(step) for step in first['loc'])}: {first['msg']}"


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
    request: RunRequest, settings: Settings, people: People
) -> tuple[JobRecording, Recording]:
    """Run a job with its real tools and models; return the run, and the recording of it without
    secrets.

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
        ran = await _run(request, taped, MemoryJournal(), people)
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
    people: People,
    *,
    file: Path,
) -> JobRecording:
    """Run a job from its recording, without asking a model or a person and without writing.

    Args:
        request: The job.
        settings: The project's.
        recording: What tools and models answered.
        people: Who is asked for approvals, and a planner's question.
        file: Where the recording stands, for messages.

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
            ran = await _run(request, taped, journal, people, now=recording.now, runtime=tools)
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
        f"the recording {file} lacks calls of this run\n{missing}",
        f"record the run anew into {file}",
    )


async def _run(
    request: RunRequest,
    settings: Settings,
    journal: MemoryJournal,
    people: People,
    *,
    now: float | None = None,
    runtime: Runtime | None = None,
) -> JobRecording:
    async with open_services(settings, uses_runtime=True) as services:
        ports = Ports(
            attempt=Attempt(
                journal=journal,
                clock=utc_now if now is None else partial(dt.datetime.fromtimestamp, now, dt.UTC),
            ),
            means=Means(settings=settings, services=services, runtime=runtime),
            people=people,
            publish=withhold_package,
        )
        ended = await run_job(request, ports)
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
