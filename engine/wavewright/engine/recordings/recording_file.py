"""The file of a recording: JSON to read and compare.

A *recording* holds what one run got from outside: the calls of its tools, and what its models answered. It is written
in a fixed order and without secrets, outputs unchanged, and read back strictly: a file that was
damaged, or that another version wrote, is refused with its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, StrictBool, StrictFloat, TypeAdapter, ValidationError

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.redaction import Redactor
from wavewright.engine.recordings.recorded_calls import RECORD_CONFIG, RecordedCall, recorded_calls
from wavewright.executor.events.types import Event, RunStarted
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.atomic_files import write_atomically

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
    tools: Annotated[tuple[tuple[str, str], ...], PlainValidator(_tools_of), PlainSerializer(dict)] = ()
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
        (name.removeprefix("tool "), version) for name, version in versions if name.startswith("tool ")
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
    calls = sorted(recording.calls, key=lambda call: (call.step, -1 if call.index is None else call.index))
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
            f"the recording {file} cannot be read: {error.strerror or error}", "name a file that can be read"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"the recording {file} is damaged: {error}", _RERECORD_HINT) from error
    found = content.get("format") if isinstance(content, dict) else None
    if not isinstance(content, dict) or found != FORMAT:
        raise RecordingError(
            f"{file} is no recording that this program reads: its format is {found!r}, not {FORMAT!r}",
            "name another file, or record it anew",
        )
    try:
        return _FILE.validate_python({name: part for name, part in content.items() if name != "format"})
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
