"""Calls, answers and emissions as JSON bytes, in both directions.

No code and no pickled object crosses: a worker has the tools installed, and a request names one of
them with its version. What a tool raised comes back as the failure that the worker made of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias

from opentelemetry import propagate
from pydantic import ConfigDict, TypeAdapter

from wavewright.executor.events.json_values import clean_json
from wavewright.executor.run.emissions import CURRENT_CAPTURE
from wavewright.executor.run.failures import UNCLEAR, AttemptFailure, ReportedFailure
from wavewright.planner import Goal, Json, JsonObject
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.tools import LogEvent, MemoryRunData, TextChunk, Tool, ToolCall
from wavewright.tools.functions.tool import (
    AgentToolCall,
    CallDescription,
    Emission,
    OutputStream,
    PrintedLines,
)


@dataclass(slots=True, kw_only=True)
class CallRequest(CallDescription):
    """A call as it is sent to a worker."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    version: str
    """Of the tool, as the coordinator has it."""
    data: dict[str, JsonObject] | None = None
    """The run data that the tool reads."""
    goal: Goal | None = None
    """Of the run, where the worker cannot read it elsewhere."""
    trace: dict[str, str] | None = None
    """W3C trace context."""

    @classmethod
    def of(cls, tool: Tool, call: ToolCall, goal: Goal | None = None) -> CallRequest:
        """Return the request of a call."""
        trace: dict[str, str] = {}
        propagate.inject(trace)
        reads = tool.signature.reads_data
        data = (
            None
            if call.data is None
            else {name: dict(call.data.visible(name)) for name in sorted(reads)}
        )
        return cls(
            **call.description(),
            version=tool.signature.version,
            data=data,
            goal=goal,
            trace=trace or None,
        )

    def to_bytes(self) -> bytes:
        """Return the request as JSON."""
        return _REQUESTS.dump_json(self, by_alias=True, exclude_defaults=True)

    @classmethod
    def from_bytes(cls, body: bytes) -> CallRequest:
        """Return the request of these bytes, which the process of a run has written."""
        return _REQUESTS.validate_json(body)

    def to_call(
        self, tool: Tool, emit: Callable[[Emission], None]
    ) -> tuple[ToolCall, MemoryRunData]:
        """Return the call for the worker's tool, and its run data, which has what the call writes."""
        signature = tool.signature
        data = MemoryRunData(
            values=self.data or {}, reads=signature.reads_data, writes=signature.writes_data
        )
        call = ToolCall(**self.description(), emit=emit, data=data)
        return call, data


Ending: TypeAlias = Literal["ok", "failed", "lost", "stopped", "cancelled"]
"""How a call ended: `lost` and `stopped` with its worker, `cancelled` where its coordinator wanted
that.
"""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """How a call ended on its worker."""

    ending: Ending
    output: Json = None
    data: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Run data that the call has written."""
    failure: AttemptFailure | None = None
    printed: dict[OutputStream, str] = field(default_factory=dict[OutputStream, str])
    """What it printed and logged."""
    has_emitted: bool = False
    """Whether there are emissions to be taken before the answer."""

    def to_bytes(self) -> bytes:
        """Return the answer as JSON.

        Raises:
            NotJsonError: the output, or run data, is not JSON.
        """
        fields: JsonObject = {"ending": self.ending}
        if self.ending == "ok":
            fields["output"] = clean_json(self.output)
        if self.data:
            fields["data"] = clean_json(self.data)
        if self.printed:
            fields["printed"] = {str(stream): text for stream, text in self.printed.items()}
        if self.has_emitted:
            fields["has_emitted"] = True
        if self.failure is not None:
            fields["failure"] = _FAILURES.dump_python(self.failure, mode="json")
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> CallAnswer:
        """Return the answer of these bytes, which a worker has written.

        Raises:
            ValueError: they are none.
        """
        return _ANSWERS.validate_json(body)


def is_answer(body: bytes) -> bool:
    """Tell an answer from an emission."""
    return body.startswith(b'{"ending":')


def output_of(answer: CallAnswer, call: ToolCall) -> Json:
    """Return the output of an answer; what the call printed and wrote becomes this process's.

    Raises:
        ReportedFailure: as the answer describes it.
    """
    capture = CURRENT_CAPTURE.get()
    if capture is not None:
        for stream, text in answer.printed.items():
            capture.add_known(stream, text)
    if answer.failure is not None:
        raise ReportedFailure(answer.failure)
    if call.data is not None:
        call.data.keep(answer.data)
    return answer.output


UNCLEAR_ON_WORKER: Final = AttemptFailure(
    "interrupted",
    "its fleet worker died or was stopped, and the call may have taken effect",
    UNCLEAR.hint,
    is_final=True,
)
UNREADABLE: Final = CallAnswer(
    "failed",
    failure=AttemptFailure(
        "output",
        "its fleet worker wrote an answer that cannot be read",
        hint="see that all workers have this release of wavewright, and which user wrote it: `db_user`"
        " in wavewright_fleet.call",
        is_unclear=True,
    ),
)
LOST: Final = CallAnswer("lost", has_emitted=True)
STOPPED: Final = CallAnswer("stopped", has_emitted=True)
CANCELLED: Final = CallAnswer("cancelled", has_emitted=True)


class ForwardedLogEvent(LogEvent):
    """A log event that a tool made on a worker."""

    def __init__(self, name: str, values: JsonObject) -> None:
        # The fields of a log event are frozen, and its name belongs to its class.
        object.__setattr__(self, "event_name", name)
        object.__setattr__(self, "values", values)

    def to_json(self) -> JsonObject:
        """Return the fields."""
        values: JsonObject = vars(self)["values"]
        return values


def emission_bytes(emission: Emission) -> bytes:
    """Return an emission as JSON.

    Raises:
        ToolError: a log event has a field that cannot be written.
        TypeError: the type of the emission is unknown.
    """
    match emission:
        case TextChunk():
            body: JsonObject = {"text": emission.text}
        case PrintedLines():
            body = {"lines": emission.text, "stream": emission.stream}
        case LogEvent():
            body = {"event": emission.event_name, "fields": emission.to_json()}
        case ModelUse():
            body = {"use": _USES.dump_python(emission, mode="json")}
        case RungRecord():
            body = {"rung": _RUNGS.dump_python(emission, mode="json")}
        case AgentToolCall():
            body = {"call": _AGENT_CALLS.dump_python(emission, mode="json")}
        case _:  # a user's tool
            raise TypeError(f"a tool cannot emit a {type(emission).__name__}")
    # In ASCII, which keeps a text that is no Unicode, such as half of a character.
    return json.dumps(body, separators=(",", ":")).encode()


def emission_of(body: bytes) -> Emission:
    """Return the emission of these bytes, which a worker has written.

    Raises:
        ValueError: they are none.
    """
    try:
        fields: Json = json.loads(body)
    except RecursionError as error:
        raise ValueError("an emission that is nested too deeply") from error
    match fields:
        case {"text": str() as text}:
            return TextChunk(text)
        case {"lines": str() as lines, "stream": ("stdout" | "stderr" | "log") as stream}:
            return PrintedLines(stream, lines)
        case {"event": str() as name, "fields": dict() as values}:
            return ForwardedLogEvent(name, values)
        case {"use": use}:
            return _USES.validate_python(use)
        case {"rung": rung}:
            return _RUNGS.validate_python(rung)
        case {"call": call}:
            return _AGENT_CALLS.validate_python(call)
        case _:
            raise ValueError("an emission of no kind that is known")


_REQUESTS: Final = TypeAdapter(CallRequest)
_FAILURES: Final = TypeAdapter(AttemptFailure)
_ANSWERS: Final = TypeAdapter(CallAnswer)
_USES: Final = TypeAdapter(ModelUse)
_RUNGS: Final = TypeAdapter(RungRecord)
_AGENT_CALLS: Final = TypeAdapter(AgentToolCall)
