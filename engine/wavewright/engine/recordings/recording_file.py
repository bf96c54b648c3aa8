"""The file of a recording: JSON to read and compare.

A *recording* holds what one run got from outside: the calls of its tools, and what its models answered. It is written
in a fixed order and without secrets, outputs unchanged, and read back strictly: a file that was
damaged, or that another version wrote, is refused with its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.redaction import Redactor
from wavewright.engine.recordings.recorded_calls import CallStatus, EmittedEvent, RecordedCall, recorded_calls
from wavewright.executor.events.codec import CodecError, from_json, to_json
from wavewright.executor.events.types import (
    ErrorKind,
    Event,
    LoopToolCalled,
    ModelCalled,
    OutputStreamed,
    RungTaken,
    RunStarted,
    StepError,
)
from wavewright.planner.types import Json, JsonObject, StepId, StepKey
from wavewright.reviewer.atomic_files import write_atomically

FORMAT = "wavewright/recording/1"
_EMITTED_EVENTS = (ModelCalled, RungTaken, OutputStreamed, LoopToolCalled)


class RecordingError(WavewrightError):
    """A recording cannot be used; the message names the file."""

    exit_code = exit_codes.MISUSE
    __str__ = WavewrightError.describe


@dataclass(frozen=True, slots=True)
class Recording:
    """What one run got from outside."""

    job: str
    now: float
    """The instant that the run took for now, in seconds since the epoch."""
    calls: tuple[RecordedCall, ...] = ()
    answers: JsonObject | None = None
    """The cassette of its models' answers; none where no model was asked."""
    tools: tuple[tuple[str, str], ...] = ()
    """The tools by name, with their versions."""
    model: str | None = None
    """The model that was configured; none where no model was."""
    model_is_forced: bool = False
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
        (name.removeprefix("tool "), version) for name, version in versions if name.startswith("tool ")
    )
    return Recording(started.job, started.now, calls, answers, tools, model, model_is_forced)


class _RecordingModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class _ErrorModel(_RecordingModel):
    kind: ErrorKind
    message: str
    hint: str | None = None


class _CallModel(_RecordingModel):
    step: str
    index: int | None = None
    tool: str
    params: dict[str, JsonValue]
    config: dict[str, JsonValue] = {}
    key: str | None = None
    status: CallStatus
    output: JsonValue = None
    error: _ErrorModel | None = None
    emitted: Annotated[tuple[dict[str, JsonValue], ...], Field(strict=False)] = ()
    data: dict[str, dict[str, JsonValue]] | None = None


class _RecordingFileModel(_RecordingModel):
    format: Literal["wavewright/recording/1"]
    job: str
    now: float
    tools: dict[str, str] = {}
    model: str | None = None
    model_is_forced: bool = False
    calls: Annotated[tuple[_CallModel, ...], Field(strict=False)]
    answers: dict[str, JsonValue] | None = None


def write_recording(file: Path, recording: Recording) -> None:
    """Write a recording, whole or not at all.

    Raises:
        FileNotWrittenError: the disk is full, or the folder cannot be written to.
    """
    write_atomically(file, recording_text(recording).encode("utf-8", "surrogatepass"))


def recording_text(recording: Recording) -> str:
    """Return a recording as its file holds it: calls by step and item, values as they came."""
    calls = sorted(recording.calls, key=lambda call: (call.step, -1 if call.index is None else call.index))
    content: JsonObject = {
        "format": FORMAT,
        "job": recording.job,
        "now": recording.now,
        "tools": dict(recording.tools),
        "model": recording.model,
        "model_is_forced": recording.model_is_forced,
        "calls": [_call_json(call) for call in calls],
        "answers": recording.answers,
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
            f"the recording {file} cannot be read: {error.strerror or error}", "name a file that can be read"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"the recording {file} is damaged: {error}", _RERECORD_HINT) from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise RecordingError(
            f"{file} is no recording that this program reads: its format is {found!r}, not {FORMAT!r}",
            "name another file, or record it anew",
        )
    try:
        read = _RecordingFileModel.model_validate(content)
        calls = tuple(_call_of(call) for call in read.calls)
    except (ValidationError, CodecError) as error:
        raise RecordingError(
            f"the recording {file} is damaged{_invalid_reason(error)}", _RERECORD_HINT
        ) from error
    return Recording(
        read.job,
        read.now,
        calls,
        read.answers,
        tuple(sorted(read.tools.items())),
        read.model,
        read.model_is_forced,
    )


_RERECORD_HINT = "take an earlier version of the file, or record it anew"


def _invalid_reason(error: ValidationError | CodecError) -> str:
    if isinstance(error, CodecError):
        return f": {error}"
    first = error.errors(include_url=False, include_input=False)[0]
    return f" at {'.'.join(str(step) for step in first['loc'])}: {first['msg']}"


def _call_json(call: RecordedCall) -> JsonObject:
    content: JsonObject = {
        "step": call.step,
        "index": call.index,
        "tool": call.tool,
        "params": call.params,
        "config": call.config or None,
        "status": call.status,
        "output": call.output,
        "error": None if call.error is None else _error_json(call.error),
        "emitted": [to_json(event) for event in call.emitted] or None,
        "key": call.key,
        "data": None if call.data is None else {**call.data},
    }
    return {name: value for name, value in content.items() if value is not None}


def _error_json(error: StepError) -> JsonObject:
    content: JsonObject = {"kind": error.kind, "message": error.message}
    return content if error.hint is None else {**content, "hint": error.hint}


def _call_of(read: _CallModel) -> RecordedCall:
    error = (
        None if read.error is None else StepError(read.error.kind, read.error.message, hint=read.error.hint)
    )
    return RecordedCall(
        step=StepId(read.step),
        tool=read.tool,
        params=read.params,
        status=read.status,
        index=read.index,
        config=read.config,
        key=None if read.key is None else StepKey(read.key),
        output=read.output,
        error=error,
        emitted=tuple(_emitted_of(event) for event in read.emitted),
        data=read.data,
    )


def _emitted_of(value: JsonObject) -> EmittedEvent:
    event = from_json(value)
    if not isinstance(event, _EMITTED_EVENTS):
        raise CodecError(f"a tool emits no event of the kind {value.get('kind')!r}")
    return event
