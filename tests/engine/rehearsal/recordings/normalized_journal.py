"""What of a journal does not depend on when and where a run was.

The *lasting* part of an event leaves out times, durations, attempts, prices, paths and versions of
programs; step keys are numbered in the order in which they appear. What steps did side by side
stands in the order of the steps, for which of two parallel calls ended first is a matter of time.
So two runs that did the same have the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from wavewright.executor.events.codec import to_json
from wavewright.executor.events.types import (
    AnswerKept,
    AttemptLogged,
    Event,
    ItemFinished,
    LoopToolCalled,
    ModelCalled,
    Noted,
    OutputLogged,
    OutputStreamed,
    RungTaken,
    StepFinished,
    StepStarted,
    WaveFinished,
    WaveStarted,
)
from wavewright.planner.types import Json, JsonObject

_TIME_FIELDS = frozenset(
    {
        "at",
        "started",
        "seconds",
        "attempts",
        "versions",
        "tool_code",
        "retry",
        "usd",
        "frames",
        "withheld",
    }
)
"""Members of events, of errors, of uses and of rungs that are left out; prices and code change with
time, and a secret that was withheld from the journal is none any more when the run is replayed.
"""
_PLACE_FIELDS: Mapping[str, str] = {"root": "<path>", "file": "<path>"}
_VOLATILE_FIELDS = frozenset({"package", "resumed"})
"""Topics of notes that say where the run's files went, or that it was stopped in between."""
_RUN = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b")
_WORK = (
    *(ItemFinished, LoopToolCalled, ModelCalled, OutputStreamed),
    *(RungTaken, StepFinished, StepStarted, WaveFinished, WaveStarted),
)


def normalized_journal(events: Iterable[Event]) -> str:
    """Return a journal as lines of JSON that are the same for runs that did the same."""
    names = _StableNames()
    lines = (
        json.dumps(body, ensure_ascii=False, sort_keys=True) for body in _normalized(events, names)
    )
    return "".join(f"{line}\n" for line in lines)


@dataclass(slots=True)
class _StableNames:
    """Numbers for what has another name in each run."""

    keys: dict[str, str] = field(default_factory=dict[str, str])

    def of_key(self, key: str) -> str:
        return self.keys.setdefault(key, f"<key {len(self.keys) + 1}>")


def _normalized(events: Iterable[Event], names: _StableNames) -> Iterator[Json]:
    kept = (event for event in events if not _is_attempt_specific(event))
    for is_work, stretch in groupby(kept, _is_work):
        together = list(stretch)
        for event in _in_order(together) if is_work else together:
            yield _without_volatile_fields(event, names)


def _is_attempt_specific(event: Event) -> bool:
    """Whether an event is there for whoever resumes the run, and says nothing of what it did."""
    if isinstance(event, StepStarted) and event.key is None:
        # It is kept of steps that take a moment.
        return True
    return isinstance(event, AnswerKept | AttemptLogged | OutputLogged) or (
        isinstance(event, Noted) and event.topic in _VOLATILE_FIELDS
    )


def _is_work(event: Event) -> bool:
    """Whether an event belongs to the execution, where several things happen at once."""
    if isinstance(event, ModelCalled):
        return event.use.step is not None
    if isinstance(event, RungTaken):
        return event.step is not None
    return isinstance(event, _WORK)


def _in_order(events: Iterable[Event]) -> list[Event]:
    """Return the events of an execution by wave, then step, then item; of one call in their order."""
    return sorted(_join_streamed_text(events), key=_sort_key)


def _sort_key(event: Event) -> tuple[int, str, int, str]:
    match event:
        case WaveStarted() | WaveFinished():
            return event.round, "", event.wave, type(event).__name__
        case StepFinished():
            # After its items.
            return 1 << 30, event.step, 1 << 30, ""
        case ModelCalled(use=use):
            # Of two gates on one step, either judge may answer first.
            judge = use.name if use.role == "judge" else ""
            return 1 << 30, str(use.step), -1 if use.index is None else use.index, judge
        case StepStarted():
            return 1 << 30, event.step, -1, ""
        case ItemFinished() | LoopToolCalled() | OutputStreamed() | RungTaken():
            return 1 << 30, str(event.step), -1 if event.index is None else event.index, ""
        case _:
            raise AssertionError(f"{type(event).__name__} is no event of an execution")


def _join_streamed_text(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events; of the pieces of one text that is streamed, the first holds all of it."""
    pieces = dict[tuple[str, int | None], list[str]]()
    known = list(events)
    for event in known:
        if isinstance(event, OutputStreamed):
            pieces.setdefault((event.step, event.index), []).append(event.text)
    for event in known:
        if not isinstance(event, OutputStreamed):
            yield event
        elif texts := pieces.pop((event.step, event.index), None):
            yield OutputStreamed(event.at, event.step, "".join(texts), event.index)


def _without_volatile_fields(event: Event, names: _StableNames) -> JsonObject:
    body = {name: value for name, value in to_json(event).items() if name not in _TIME_FIELDS}
    for name in ("error", "use", "rung", "call"):
        if isinstance(part := body.get(name), dict):
            body[name] = {key: value for key, value in part.items() if key not in _TIME_FIELDS}
    if isinstance(key := body.get("key"), str):
        body["key"] = names.of_key(key)
    # It is made of a tool's code and settings too, and so of the folder that these name.
    body.pop("cache_key", None)
    if isinstance(goal := body.get("goal"), dict):
        body["goal"] = {**goal, "packs": _packs(goal.get("packs"))}
    cleaned = _without_runs(body)
    assert isinstance(cleaned, dict)
    return cleaned


def _packs(packs: Json) -> Json:
    """Return what a goal says of its packs, without the folders that their settings stand in."""
    if not isinstance(packs, dict):
        return packs
    return {
        name: {key: _PLACE_FIELDS.get(key, value) for key, value in entry.items()}
        if isinstance(entry, dict)
        else entry
        for name, entry in packs.items()
    }


def _without_runs(value: Json) -> Json:
    match value:
        case str():
            return _RUN.sub("<run>", value)
        case list():
            return [_without_runs(item) for item in value]
        case dict():
            return {name: _without_runs(item) for name, item in value.items()}
        case _:
            return value
