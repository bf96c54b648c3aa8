"""Tools that answer from a recording, and are never called.

A tool keeps its signature and returns what it returned when the run was recorded, failures
included. Equal calls are matched by the step that makes them, then by their order. A call that was
never recorded is a *miss*: it fails its step and is reported with the nearest recorded call of the
same tool and what differs. With `calls_live`, a miss is called for real where its tool only reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from wavewright.config.redaction import Redactor
from wavewright.engine.rehearsal.answers import AnswerSource
from wavewright.engine.rehearsal.recordings.recorded_calls import EmittedEvent, RecordedCall
from wavewright.executor import MemoryJournal, StepError
from wavewright.executor.events.types import LoopToolCalled, ModelCalled, OutputStreamed, RungTaken
from wavewright.executor.run.failures import RecordedFailure
from wavewright.executor.store.journal import StoredOutput
from wavewright.planner import (
    Goal,
    Json,
    JsonObject,
    RunId,
    StepId,
    StepKey,
    ToolSignature,
    canonical_json,
)
from wavewright.planner.language.json_values import json_changes, short_json
from wavewright.tools import TextChunk, Tool, ToolCall
from wavewright.tools.functions.tool import Emission

_MAX_COMPARED = 50
"""Calls that are compared, those of the same step and item first."""
_MAX_DIFFERENCES = 6


@dataclass(frozen=True, slots=True)
class UnrecordedCall:
    """A call that was never recorded; alone, it was made for real."""

    step: StepId
    tool: str
    params: JsonObject
    index: int | None = None

    @property
    def place(self) -> str:
        """The step, and the item where there is one."""
        return self.step if self.index is None else f"{self.step}[{self.index}]"

    def __str__(self) -> str:
        """Return the call in one line."""
        return f"{self.place} called {self.tool!r} with {short_json(self.params)}"


@dataclass(frozen=True, slots=True)
class CallMiss(UnrecordedCall):
    """A call that was never recorded and was not made."""

    nearest: str | None = None
    """Where the nearest recorded call was made: its step, and the item where there is one."""
    differences: tuple[str, ...] = ()
    """What of it differs, a sentence each."""
    not_live_reason: str = ""
    """Why it was not made for real, where that was wanted."""

    def step_message(self) -> str:
        """Return the miss in one line, for a reader who knows the step and its tool."""
        nearest = (
            "nothing of this tool was"
            if self.nearest is None
            else f"nearest is the call of {self.nearest}"
        )
        return "; ".join((f"this call was never recorded: {nearest}", *self.differences))

    def __str__(self) -> str:
        """Return the miss in a few lines."""
        lines = [
            f"{self.place} calls {self.tool!r} with {short_json(self.params)}, which was never recorded"
        ]
        if self.nearest is None:
            lines.append(f"no call of {self.tool!r} was recorded")
        else:
            lines.append(f"nearest: the call of {self.nearest}; {'; '.join(self.differences)}")
        if self.not_live_reason:
            lines.append(self.not_live_reason)
        return "\n  ".join(lines)

    def to_json(self) -> JsonObject:
        """Return the miss for programs."""
        return {
            "step": self.step,
            "index": self.index,
            "tool": self.tool,
            "params": self.params,
            "nearest": self.nearest,
            "differences": [*self.differences],
            "because": self.not_live_reason,
        }


def describe_call_miss(
    step: StepId,
    index: int | None,
    request: RecordedCall,
    recorded: Sequence[RecordedCall],
    *,
    because: str = "",
) -> CallMiss:
    """Return the miss of a call, with the recorded call of that tool that differs least from it; of
    equally near ones that of the same step and item.
    """
    of_tool = [call for call in recorded if call.tool == request.tool]
    of_tool.sort(key=lambda call: (call.step != request.step, call.index != request.index))
    if not of_tool:
        return CallMiss(step, request.tool, request.params, index, not_live_reason=because)
    compared = [(call, list(_all_differences(call, request))) for call in of_tool[:_MAX_COMPARED]]
    nearest, differences = min(compared, key=lambda pair: len(pair[1]))
    shown = differences[:_MAX_DIFFERENCES]
    if len(differences) > len(shown):
        shown.append(f"and {len(differences) - len(shown)} differences more")
    return CallMiss(step, request.tool, request.params, index, nearest.place, tuple(shown), because)


def _all_differences(recorded: RecordedCall, request: RecordedCall) -> Iterator[str]:
    if recorded.status == "cancelled":
        yield "the recorded run was cut off before it ended"
    changes = (
        *json_changes(recorded.params, request.params, within_lists=True),
        *json_changes(recorded.config, request.config, ("config",), within_lists=True),
    )
    yield from (change.describe() for change in changes)


@dataclass(slots=True)
class RecordedTools(AnswerSource):
    """Answers calls with what was recorded."""

    calls: Sequence[RecordedCall]
    calls_live: bool = False
    """Whether a call that was never recorded is made for real, where its tool only reads."""
    redactor: Redactor | None = None
    """The redactor of the recording: parameters are compared without their secrets."""
    misses: list[CallMiss] = field(default_factory=list[CallMiss])
    unrecorded_calls: list[UnrecordedCall] = field(default_factory=list[UnrecordedCall])
    _by_question: dict[bytes, list[RecordedCall]] = field(
        default_factory=dict[bytes, list[RecordedCall]]
    )
    _given: set[int] = field(default_factory=set[int])
    """Identities of recorded calls that were given already."""

    def __post_init__(self) -> None:
        for call in self.calls:
            # One that was cut off has no answer.
            if call.status != "cancelled":
                self._by_question.setdefault(
                    _call_key(call.tool, call.params, call.config), []
                ).append(call)

    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        """Return the recorded output of a call.

        Raises:
            RecordedFailure: it failed when it was recorded, or was never made.
        """
        del goal
        requested = self._requested_call(call)
        recorded = self._next_answer(requested)
        if recorded is None:
            return await self._unrecorded(tool, call, requested)
        for event in recorded.emitted:
            call.emit(_replayed_emission(event))
        if recorded.error is not None:
            raise RecordedFailure(recorded.error)
        if recorded.data is not None and call.data is not None:
            call.data.keep(recorded.data)
        return recorded.output

    def _requested_call(self, request: ToolCall) -> RecordedCall:
        requested = RecordedCall(
            request.step,
            request.tool,
            request.params,
            "ok",
            request.index,
            dict(request.config or {}),
        )
        return requested if self.redactor is None else requested.without_secrets(self.redactor)

    def _next_answer(self, requested: RecordedCall) -> RecordedCall | None:
        """Return the answer to a call: its own step's, or else the next that was not given, or the
        last.
        """
        known = self._by_question.get(
            _call_key(requested.tool, requested.params, requested.config), []
        )
        if not known:
            return None
        own = [
            call for call in known if (call.step, call.index) == (requested.step, requested.index)
        ]
        candidates = own or known
        recorded = next(
            (call for call in candidates if id(call) not in self._given), candidates[-1]
        )
        self._given.add(id(recorded))
        return recorded

    async def _unrecorded(self, tool: Tool, request: ToolCall, requested: RecordedCall) -> Json:
        because = _why_not_live(tool.signature) if self.calls_live else ""
        if self.calls_live and not because:
            if request.attempt == 1:
                self.unrecorded_calls.append(
                    UnrecordedCall(request.step, request.tool, requested.params, request.index)
                )
            return await tool.call(request)
        miss = describe_call_miss(
            request.step, request.index, requested, self.calls, because=because
        )
        self.misses.append(miss)
        raise RecordedFailure(StepError("tool", miss.step_message(), hint=_MISSING_CALL_HINT))


_MISSING_CALL_HINT = "record the run anew, or replay with --live where the tool only reads"


class ReusingJournal(MemoryJournal):
    """A journal in memory with the outputs that the recorded run reused from other runs."""

    def __init__(self, calls: Sequence[RecordedCall], run: RunId) -> None:
        super().__init__()
        self._run = run
        self._served = {
            call.cache_key: call
            for call in calls
            if call.status == "reused" and call.cache_key is not None
        }

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the output of an equal call that the recorded run took from another, or of this
        run's own.
        """
        call = self._served.get(key)
        if call is None:
            return await super().find_output(key)
        return StoredOutput(self._run, call.step, key, time.time(), "ok", call.output)


def _why_not_live(signature: ToolSignature) -> str:
    """Return why a tool is not called for real in a replay; nothing where it may be."""
    if signature.writes:
        return f"{signature.name!r} writes: it is never called in a replay"
    if not signature.only_reads:
        return f"{signature.name!r} sends something out and reads nothing: it is never called in a replay"
    if signature.needs_approval:
        return f"{signature.name!r} needs a person's approval: it is never called in a replay"
    return ""


def _call_key(tool: str, params: JsonObject, config: JsonObject) -> bytes:
    return canonical_json([tool, params, config])


def _replayed_emission(event: EmittedEvent) -> Emission:
    """Return what a tool emitted, to be emitted by the step that calls it now."""
    match event:
        case ModelCalled(use=use):
            return replace(use, step=None, index=None)
        case RungTaken(rung=rung):
            return rung
        case OutputStreamed(text=text):
            return TextChunk(text)
        case LoopToolCalled(call=call):
            return call
