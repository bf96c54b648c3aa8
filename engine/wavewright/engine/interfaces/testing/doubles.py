"""Test doubles: a recorder of tool calls, which the test's stubs or the tools answer.

A *stub* is a value or a function that answers in the place of a tool; its signature stays, so that
a stub's answer is checked as the tool's would be. A tool that writes or sends is never called from
a test that does not say so.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from pydantic_core import PydanticSerializationError, to_jsonable_python

from wavewright.planner import Json, JsonObject, ToolSignature, validator_of
from wavewright.tools import Runtime, Tool, ToolCall, ToolError

if TYPE_CHECKING:
    from wavewright.planner import Goal


Stub: TypeAlias = object
"""A JSON value, an exception to raise, or a function of the tool's parameters that gives or raises
one of these.
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a run made."""

    step: str
    tool: str
    params: JsonObject
    index: int | None = None
    """Position of the item, for a `for_each` step."""
    attempt: int = 1
    output: Json = None
    error: str | None = None
    """What the tool raised."""


@dataclass(slots=True)
class CallRecorder(Runtime):
    """Answers calls with stubs, or has the tools answer, and writes down each call."""

    stubs: Mapping[str, Stub]
    real: Collection[str] = ()
    """Tools with effects that are called nevertheless."""
    calls: list[Call] = field(default_factory=list[Call])
    faults: list[str] = field(default_factory=list[str])
    """What is wrong with the test itself: each fails it once the run has ended."""

    def routed(self, tool: Tool, goal: Goal) -> Tool:
        """Return a tool as the run is to call it; one with a stub asks no person."""
        if tool.parts:
            # Of `dispatch` each call is one of a tool of its own, which is stubbed and recorded.
            return Runtime.routed(self, tool, goal)
        asks = tool.asks_person and tool.signature.name not in self.stubs
        return replace(tool, call=partial(self.call, tool, goal), asks_person=asks)

    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        """Return what a stub or the tool answers.

        Raises:
            BaseException: what it raises.
        """
        del goal
        copy = Call(call.step, call.tool, dict(call.params), call.index, call.attempt)
        try:
            output = await self._answer(tool, call)
        except BaseException as error:
            self.calls.append(replace(copy, error=f"{type(error).__name__}: {error}"))
            raise
        self.calls.append(replace(copy, output=output))
        return output

    async def _answer(self, tool: Tool, request: ToolCall) -> Json:
        for name in (request.step, request.tool):
            if name in self.stubs:
                return await self._from_stub(name, tool.signature, request)
        if refused := self._refusal(tool.signature):
            raise self._fault(refused)
        return await tool.call(request)

    def _refusal(self, signature: ToolSignature) -> str | None:
        """Return why a tool may not be called from a test."""
        effects = sorted(signature.effects - {"read"})
        if not effects or signature.name in self.real:
            return None
        does = " and ".join(
            {"write": "writes", "egress": "sends out of the run"}[effect] for effect in effects
        )
        return (
            f"tool {signature.name!r} {does}, and this test has no stub for it: "
            f"stubs={{{signature.name!r}: …}}, or real=[{signature.name!r}] to call it"
        )

    async def _from_stub(self, name: str, signature: ToolSignature, request: ToolCall) -> Json:
        answer = self.stubs[name]
        if callable(answer) and not isinstance(answer, type):
            answer = await self._call_stub(name, answer, request)
        if isinstance(answer, BaseException) or (
            isinstance(answer, type) and issubclass(answer, BaseException)
        ):
            raise answer
        try:
            written: Json = to_jsonable_python(answer)
        except PydanticSerializationError as error:
            raise self._fault(f"the stub of {name!r} gives no JSON: {error}") from error
        for misfit in validator_of(signature.output_schema).violations(written):
            # The tool would not give it: what the run made of it would be no news of the plan.
            where = misfit.pointer or "the output"
            raise self._fault(
                f"the stub of {name!r} gives no output of {signature.name!r}: {where} {misfit.message}"
            )
        return written

    async def _call_stub(
        self, name: str, function: Callable[..., object], request: ToolCall
    ) -> object:
        try:
            inspect.signature(function).bind(**request.params)
        except TypeError as error:
            params = ", ".join(request.params) or "none"
            raise self._fault(
                f"the stub of {name!r} does not take the parameters of the call ({params}): {error}"
            ) from error
        try:
            answer = function(**request.params)
            return (
                await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer
            )
        except AssertionError as error:
            # What a test asserts inside its stub is no failure of the tool: the test itself should
            # fail.
            raise self._fault(f"the stub of {name!r} asserts otherwise: {error}") from error

    def _fault(self, message: str) -> ToolError:
        if message not in self.faults:
            self.faults.append(message)
        return ToolError(message)
