"""Tools that answer from a recording, and are never called.

A tool keeps its signature and gives what it gave when the run was recorded, failures included. Equal calls are told
apart by the step that makes them, then by their order. A call that was never recorded is a *miss*: it fails its step,
and is told with the nearest call that was. Only where that is asked for is a miss made for real, and then only by a
tool that does nothing but read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from wavewright.config.redaction import Redactor
from wavewright.engine.recordings.call_misses import CallMiss, describe_call_miss, short_json
from wavewright.engine.recordings.recorded_calls import EmittedEvent, RecordedCall
from wavewright.executor.events import (
    LoopToolCalled,
    ModelCalled,
    OutputStreamed,
    RungTaken,
    StepError,
)
from wavewright.executor.journal import MemoryJournal, StoredOutput
from wavewright.executor.retry import RecordedFailure
from wavewright.planner.hashing import canonical_json
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools.calls import Emission, TextChunk, Tool, ToolCall

_MAX_DETAILED_MISSES = 20
"""Misses whose nearest call is looked for everywhere."""
_STATUSES_WITHOUT_ANSWER = frozenset({"cancelled"})


@dataclass(frozen=True, slots=True)
class UnrecordedCall:
    """A call that was never recorded and was made for real."""

    step: StepId
    tool: str
    params: JsonObject
    index: int | None = None

    def __str__(self) -> str:
        """Return the call in one line."""
        place = self.step if self.index is None else f"{self.step}[{self.index}]"
        return f"{place} called {self.tool!r} with {short_json(self.params)}"


@dataclass(slots=True)
class RecordedTools:
    """Puts recorded answers in the place of tools; `through` is what a run takes its tools through."""

    calls: Sequence[RecordedCall]
    calls_live: bool = False
    """Whether a call that was never recorded is made for real, where its tool only reads."""
    redactor: Redactor | None = None
    """What the recording was written through: a secret in a parameter is looked for as it stands there."""
    misses: list[CallMiss] = field(default_factory=list[CallMiss])
    unrecorded_calls: list[UnrecordedCall] = field(default_factory=list[UnrecordedCall])
    _by_question: dict[bytes, list[RecordedCall]] = field(default_factory=dict[bytes, list[RecordedCall]])
    _given: set[int] = field(default_factory=set[int])
    """Identities of recorded calls that were given already."""

    def __post_init__(self) -> None:
        for call in self.calls:
            if call.status not in _STATUSES_WITHOUT_ANSWER:
                self._by_question.setdefault(_call_key(call.tool, call.params, call.config), []).append(call)

    def wrap(self, tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
        """Return the tools with recorded answers behind their signatures."""
        return {name: Tool(tool.signature, partial(self._answer, tool)) for name, tool in tools.items()}

    async def _answer(self, tool: Tool, request: ToolCall) -> Json:
        wanted = self._requested_call(request)
        recorded = self._next_answer(wanted)
        if recorded is None:
            return await self._unrecorded(tool, request, wanted)
        for told in recorded.emitted:
            request.emit(_replayed_emission(told))
        if recorded.error is not None:
            raise RecordedFailure(recorded.error)
        return recorded.output

    def _requested_call(self, request: ToolCall) -> RecordedCall:
        wanted = RecordedCall(
            request.step, request.tool, request.params, "ok", request.index, dict(request.config or {})
        )
        return wanted if self.redactor is None else wanted.without_secrets(self.redactor)

    def _next_answer(self, wanted: RecordedCall) -> RecordedCall | None:
        """Return the answer to a call: its own step's, or else the next that was not given, or the last."""
        known = self._by_question.get(_call_key(wanted.tool, wanted.params, wanted.config), [])
        if not known:
            return None
        own = [call for call in known if (call.step, call.index) == (wanted.step, wanted.index)]
        candidates = own or known
        found = next((call for call in candidates if id(call) not in self._given), candidates[-1])
        self._given.add(id(found))
        return found

    async def _unrecorded(self, tool: Tool, request: ToolCall, wanted: RecordedCall) -> Json:
        because = _why_not_live(tool.signature) if self.calls_live else ""
        if self.calls_live and not because:
            if request.attempt == 1:
                self.unrecorded_calls.append(
                    UnrecordedCall(request.step, request.tool, wanted.params, request.index)
                )
            return await tool.call(request)
        is_thorough = len(self.misses) < _MAX_DETAILED_MISSES
        miss = describe_call_miss(
            request.step, request.index, wanted, self.calls, because=because, is_thorough=is_thorough
        )
        self.misses.append(miss)
        raise RecordedFailure(StepError("tool", miss.step_message(), hint=_MISSING_CALL_HINT))


_MISSING_CALL_HINT = "record the run anew, or replay with --live where the tool only reads"


class ReusingJournal(MemoryJournal):
    """A journal in memory that knows what other runs gave to the recorded one."""

    def __init__(self, calls: Sequence[RecordedCall], run: RunId) -> None:
        super().__init__()
        self._run = run
        self._served = {call.key: call for call in calls if call.status == "reused" and call.key is not None}

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the output of an equal call that the recorded run took from another, or of this run's own."""
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


def _replayed_emission(told: EmittedEvent) -> Emission:
    """Return what a tool told, to be told again of whatever step calls it now."""
    match told:
        case ModelCalled(use=use):
            return replace(use, step=None, index=None)
        case RungTaken(rung=rung):
            return rung
        case OutputStreamed(text=text):
            return TextChunk(text)
        case LoopToolCalled(call=call):
            return call
