"""One call of a tool, as the executor makes it and a tool receives it; and the port behind which
calls are made.

The port lies below retries, deadlines, budgets and the journal, and above the functions. A fleet of
workers, stubs of a test, the recording of a replay and classes of users are *runtimes*; without
one, the process of the run makes calls.

The tool `ask_person` is here, too: the run asks before the call is made, and waits for the answer
without a slot.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from wavewright.planner import Json, JsonObject, RunId, StepId, StepKey, ToolSignature
from wavewright.planner.language.plan import SUB_PLAN, Budget
from wavewright.planner.language.signatures import AGENT, ASK_PERSON, FEEDBACK_PARAM
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.injected import LogEvent, MemoryRunData, TextChunk

if TYPE_CHECKING:
    from wavewright.planner import Goal
    from wavewright.planner.ports.fallback_ladder import RungRecord
    from wavewright.planner.ports.model_port import ModelUse


MODEL_HINT = (
    "set WAVEWRIGHT_MODEL, or 'model' in wavewright.yaml, to a model such as openai:gpt-5-mini"
)


@dataclass(frozen=True, slots=True)
class AgentToolCall:
    """A call of a tool that an agent made inside its step."""

    tool: str
    params: JsonObject
    status: Literal["ok", "failed", "refused"]
    seconds: float = 0.0
    message: str = ""
    """Why it failed or was refused."""


@dataclass(frozen=True, slots=True)
class EmissionsTaken:
    """A mark after emissions that came from another process, so that they are not taken again after
    a crash.
    """

    call: str
    """How the other process names the call."""
    no: int
    """Of the last emission that was taken."""


OutputStream: TypeAlias = Literal["stdout", "stderr", "log"]
"""Where a call has written a text."""


@dataclass(frozen=True, slots=True)
class PrintedLines:
    """Whole lines that a call at work in another process has printed or logged."""

    stream: OutputStream
    text: str


Emission: TypeAlias = (
    "ModelUse | RungRecord | TextChunk | PrintedLines | AgentToolCall | LogEvent | EmissionsTaken"
)
"""What a tool lets be known while it works; each becomes an event of the run."""


def ignore_emission(emission: Emission) -> None:
    """Let nothing be known: for calls outside a run.

    >>> from wavewright.tools import TextChunk, ignore_emission
    >>> ignore_emission(TextChunk("nobody hears this"))
    """


@dataclass(slots=True)
class CallDescription:
    """A call as any process can make it: which tool, for which step of which run, with which
    resolved parameters.

    Made for every attempt, so it is not frozen.
    """

    run: RunId
    step: StepId
    tool: str
    params: JsonObject
    key: StepKey
    """Idempotency key: equal for equal work, so that a tool that writes can tell a repeat."""
    now: dt.datetime
    """The instant the run takes for now."""
    index: int | None = None
    """Position of the item for a `for_each` step."""
    attempt: int = 1
    worker_type: str | None = None
    config: JsonObject | None = None
    """What the goal says of this tool."""
    job: str | None = None
    """Name of the job that the run answers."""
    timeout: float | None = None
    """Seconds that the call may take; the executor ends it then."""
    budget: Budget | None = None
    """What the step may spend on models."""

    def description(self) -> dict[str, Any]:
        """Return the fields that describe the call, for the same call in another form."""
        return {field.name: getattr(self, field.name) for field in fields(CallDescription)}


CallGuard: TypeAlias = Callable[[ToolSignature, Mapping[str, Json]], None]
"""Raises `ToolError` where a call with these parameters may not be made."""


@dataclass(slots=True)
class ToolCall(CallDescription):
    """A child job: a call, and what the process that makes it adds.

    >>> from wavewright.tools import make_tool
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> import datetime as dt
    >>> import anyio
    >>> from wavewright.tools import ToolCall
    >>> now = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    >>> call = ToolCall("r1", "four", "double", {"number": 2}, "k1", now)
    >>> anyio.run(make_tool(double).call, call)
    4
    """

    emit: Callable[[Emission], None] = ignore_emission
    """Lets something be known while the tool works; never waits."""
    answer: str | None = None
    """What a person has answered, for a tool with `asks_person`."""
    data: MemoryRunData | None = None
    """The run data that the call sees; None outside a run."""
    agents: Agents | None = None
    """The agents that the tool calls; None where no model is configured."""
    guard: CallGuard | None = None
    """Judges the calls that are made within it; None where a run has no permits."""
    step_feedback: Sequence[Json] = ()
    """Why the last package was rejected, as the step was told, of a call that an agent makes within
    it.
    """

    @property
    def feedback(self) -> Sequence[Json]:
        """Why the last package was rejected: what the call itself is told, or else what its step
        was.
        """
        own = self.params.get(FEEDBACK_PARAM)
        return own if isinstance(own, list) and own else self.step_feedback


ToolFunction: TypeAlias = Callable[[ToolCall], Awaitable[Json]]
"""Makes a call and returns its output, or raises why there is none: here, on a worker, or from a
recording.
"""
FindCall: TypeAlias = Callable[[RunId, StepId, int | None, StepKey], Awaitable[bool]]
"""Tells whether a call of a run, by its step, item and key, was handed on and its answer is, or
will be, there.
"""


class ServerCaller(Protocol):
    """Calls tools of MCP servers."""

    async def call(self, server: str, tool: str, request: ToolCall) -> Json:
        """Return what a tool of a server gives.

        Raises:
            ToolError: the server or the tool failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Tool:
    """A signature and the code behind it.

    >>> from wavewright.planner import ToolSignature
    >>> from wavewright.tools import Tool, ToolCall
    >>> async def call(call: ToolCall) -> str:
    ...     return f"Hello {call.params['name']}"
    >>> signature = ToolSignature(name="greet", description="Greet.", input_schema={})
    >>> Tool(signature, call).signature.name
    'greet'
    """

    signature: ToolSignature
    call: ToolFunction
    code: str = ""
    """Hash of the code, with what the function reads of its module; empty where it is no Python
    function. See "The code of a tool" in `docs/explanation/semantics.md`.
    """
    function: object = field(default=None, compare=False, repr=False)
    """What is called, where that is a function of Python."""
    own_code: str = ""
    """Hash of the function's instructions alone, by which machines know each other's tools."""
    asks_person: bool = False
    """Whether a person answers each call: it is made once there is an answer."""
    is_under_way: FindCall | None = None
    """For a tool whose calls outlive this process; where a run is continued, such a call is taken
    up again.
    """
    takes_stored: bool = True
    """Whether results of other runs may be reused, where the signature allows it."""
    room: Callable[[], int] | None = None
    """For a tool whose calls others make: how many of them a run may have under way now, as others
    come and go.
    """
    parts: Tools = field(default_factory=dict[str, "Tool"], compare=False)
    """The tools that each call is one of, for a tool that stands for several."""
    with_parts: Callable[[Tools], Tool] | None = field(default=None, compare=False)
    """Returns a tool that stands for several with other tools in their places."""


Tools: TypeAlias = Mapping[str, Tool]
"""Tools by name."""


class Agents(Protocol):
    """Type of the injected parameter `agents`."""

    @property
    def is_available(self) -> bool:
        """Whether a model is configured."""
        ...

    async def run(self, name: str, values: JsonObject, scope: str = "") -> Json:
        """Return an agent's answer: what its output schema says, or words.

        Args:
            name: The agent, which the tool declares.
            values: What its prompt is rendered with, as `inputs`.
            scope: What the tools of the agent see as the scope of their run data.

        Raises:
            ToolError: there is no such agent, or it gives no answer.
        """
        ...


class NoAgents:
    """Agents of a call that has no model."""

    is_available = False

    async def run(self, name: str, values: JsonObject, scope: str = "") -> Json:
        """Refuse.

        Raises:
            ToolError: always.
        """
        del values, scope
        raise ToolError(
            f"the agent {name!r} needs a model, and none is configured",
            hint=MODEL_HINT,
        )


class Runtime(ABC):
    """Makes calls of tools; `call` is all that one needs.

    >>> from wavewright.planner import Goal, Json
    >>> from wavewright.tools import Runtime, Tool, ToolCall
    >>> class Counted(Runtime):
    ...     calls = 0
    ...     async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
    ...         self.calls += 1
    ...         return await tool.call(call)
    >>> Counted().calls
    0
    """

    __slots__ = ()

    @abstractmethod
    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        """Return the output of a call; `await tool.call(call)` makes it in the process of the run.

        The time limit of the step, or the end of the run, cancels this: whatever it began is to be
            cancelled then.

        Args:
            tool: The tool as the process of the run has it.
            goal: What the run is for; a tool made elsewhere is made with what it says.
            call: The parameters and their context; `emit` takes what is to be known before the end.

        Raises:
            ToolError: the call failed; `transient` says whether another attempt may succeed.
            Exception: likewise, as if the tool itself had raised it.
        """

    def routed(self, tool: Tool, goal: Goal) -> Tool:
        """Return a tool whose calls this makes; the same tool where its calls stay where they are.

        Of one that stands for several it makes the calls of these.
        """
        if tool.with_parts is not None:
            parts = {name: self.routed(part, goal) for name, part in tool.parts.items()}
            return tool.with_parts(parts)
        if can_be_called_elsewhere(tool):
            return replace(tool, call=partial(self.call, tool, goal))
        return tool

    def resume(self, run: RunId, taken: Mapping[str, int]) -> None:
        """Take over which emissions a run has journaled that goes on: the last `no` of
        `EmissionsTaken`, by call.
        """
        del run, taken

    async def forget(self, run: RunId) -> None:
        """Remove what is kept of a run's calls: everything that followed from them is journaled."""
        del run


OpenRuntime: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Runtime]]
"""Opens a runtime with the `Settings` of a project; what `module:name` in the settings names."""


def can_be_called_elsewhere(tool: Tool) -> bool:
    """Return whether another process can make calls of a tool.

    One that asks a person or runs agents needs the process of the run; the result of a sub-plan is
    there already.
    """
    signature = tool.signature
    return not (tool.asks_person or signature.calls_agents or signature.name in {AGENT, SUB_PLAN})


_QUESTION_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "description": "What the person is asked."},
        "options": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "description": "The answers to choose from; any text where there are none.",
        },
        "default": {
            "type": "string",
            "description": "The answer of an empty line at the terminal, and where nobody may be asked.",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}


async def _answer(call: ToolCall) -> Json:
    """Return the answer, if it is one of the options."""
    if call.answer is None:
        raise ToolError("nobody can be asked here", hint="call ask_person as a step of a run")
    options = call.params.get("options")
    if isinstance(options, list) and options and call.answer not in options:
        listed = ", ".join(map(repr, options))
        raise ToolError(
            f"{call.answer!r} is not one of the options", hint=f"answer with one of {listed}"
        )
    return call.answer


def ask_person_tool() -> Tool:
    """Return the tool `ask_person`."""
    signature = ToolSignature(
        name=ASK_PERSON,
        description=(
            "Ask a person a question and give the answer as text; the run waits for it. Use it only for what no tool "
            "can find out."
        ),
        input_schema=_QUESTION_SCHEMA,
        output_schema={"type": "string"},
    )
    return Tool(signature, _answer, asks_person=True)
