"""The tools of an agent: what it may call and how often, what it is shown, and what is kept.

A *handle* names a collected output, `@call_1`. The model is shown an output once, shortened; it
passes the whole of it to the next tool by its handle, so large data does not go through the model
again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Literal

import anyio
from pydantic import Field

from wavewright.config import Seconds
from wavewright.config.value_types import AtLeastOne
from wavewright.planner import (
    NULL_REPLAY_CACHE,
    DocumentModel,
    Json,
    JsonObject,
    JsonSchema,
    Limits,
    ReplayCache,
    StepId,
    StepKey,
    ToolSignature,
    as_object,
    step_key,
    validator_of,
)
from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.planning.goal_schema import without_absent_members
from wavewright.planner.planning.typed_answers import misfit_texts
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import LoopTool, LoopToolError
from wavewright.planner.ports.truncation import prompt_size, truncate
from wavewright.planner.types import properties_of
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import AgentToolCall, Emission, Tool, ToolCall, Tools

_HANDLE = re.compile(r"@(call_[0-9]+)((?:/[^/]*)*)")
_HANDLE_PATTERN = r"^@call_[0-9]+(/.*)?$"
_SCALARS = {"string", "number", "integer", "boolean", "null"}
_MAX_MISFITS = 5
_MAX_FUNCTION_NAME = 64
"""Of the providers, in characters."""


@dataclass(slots=True)
class AgentCalls:
    """Makes the calls of one agent and keeps what came of them."""

    tools: Tools
    """Those that the agent may call, and no other."""
    limits: AgentLimits
    goal_tools: Mapping[str, AvailableTool]
    """What the goal says of its tools."""
    call: ToolCall
    """The agent's own."""
    concurrency: AgentConcurrency
    memory: ReplayCache = NULL_REPLAY_CACHE
    """What the run's agents were given before it was interrupted."""
    records: list[JsonObject] = field(default_factory=list[JsonObject])
    collected: JsonObject = field(default_factory=dict[str, Json])
    _count: int = 0
    """Calls that were made, those under way included."""
    _handles: dict[StepKey, str] = field(default_factory=dict[StepKey, str])
    _running: dict[StepKey, anyio.Event] = field(default_factory=dict[StepKey, anyio.Event])

    def loop_tools(self) -> list[LoopTool]:
        """Return the tools as the model is given them."""
        return [
            LoopTool(
                function,
                self._description(name, self.tools[name].signature),
                _open_to_handles(self.tools[name].signature.input_schema),
                partial(self.call_tool, name),
            )
            for function, name in function_names(self.tools).items()
        ]

    def tool_named(self, written: str) -> str | None:
        """Return the tool that a model means by a name, its own or that of its function; None if
        there is none.
        """
        return written if written in self.tools else function_names(self.tools).get(written)

    def _description(self, name: str, signature: ToolSignature) -> str:
        """Return what the goal says of a tool, or else what the tool says of itself."""
        said = self.goal_tools.get(name)
        own = said.description if said is not None else None
        return own or signature.description.partition("\n")[0] or name

    async def call_tool(self, name: str, params: JsonObject) -> Json:
        """Make a call and return what the model is shown of its output.

        Raises:
            LoopToolError: it is not allowed, its parameters do not fit, or it failed.
        """
        started = time.monotonic()
        tool = self.tools.get(name)
        if tool is None:
            raise self._refusal(
                name, params, f"there is no tool {name!r}; there are {', '.join(self.tools)}"
            )
        schema = tool.signature.input_schema
        # Null for an argument that the tool may go without means that there is none, as in a plan.
        whole = as_object(without_absent_members(self._resolve_handles(name, params), schema))
        misfits = misfit_texts(whole, schema)
        if misfits:
            faults = "; ".join(misfits[:_MAX_MISFITS])
            raise self._refusal(name, params, f"the parameters do not fit: {faults}")
        request, memory_key = self._request(name, tool.signature, whole)
        while request.key in self._running:
            await self._running[request.key].wait()
        if request.key in self._handles:
            handle = self._handles[request.key]
            self._record(name, params, "ok", 0.0, f"the same call as {handle}")
            return self._view(handle)
        if self._count >= self.limits.tool_calls:
            raise self._refusal(
                name, params, f"all {self.limits.tool_calls} calls are made: answer now"
            )
        self._require_permitted(tool.signature, params, whole)
        self._count += 1
        ended = self._running[request.key] = anyio.Event()
        try:
            output = await self._replayed_output(tool, request, memory_key)
        except LoopToolError as error:
            self._record(name, params, "failed", time.monotonic() - started, str(error))
            raise
        except anyio.get_cancelled_exc_class():
            self._record(
                name, params, "failed", time.monotonic() - started, "the agent's time was up"
            )
            raise
        finally:
            del self._running[request.key]
            ended.set()
        handle = self._record(name, params, "ok", time.monotonic() - started)
        self.collected[handle] = output
        self._handles[request.key] = handle
        return self._view(handle)

    def _require_permitted(
        self, signature: ToolSignature, params: JsonObject, whole: JsonObject
    ) -> None:
        """Return where the permits of the run allow a call.

        Raises:
            LoopToolError: they do not.
        """
        if self.call.guard is None:
            return
        try:
            self.call.guard(signature, whole)
        except ToolError as error:
            raise self._refusal(signature.name, params, str(error)) from error

    async def _replayed_output(self, tool: Tool, request: ToolCall, key: str) -> Json:
        """Return what the call gave before the run was interrupted, or make it and keep what it
        gives.

        Raises:
            LoopToolError: it failed, then or now.
        """
        kept = self.memory.get(request.run, key)
        if kept is None:
            if tool.signature.calls_agents:
                # The calls of those agents wait for a place, so this one must hold none.
                kept = await _outcome_with_rungs(tool, request)
            else:
                async with self.concurrency.tool_limiter(tool.signature), self.concurrency.total:
                    kept = await _call_outcome(tool, request)
            await self.memory.put(request.run, key, kept)
        if "error" in kept:
            raise LoopToolError(str(kept["error"]))
        written = kept.get("data")
        if isinstance(written, dict) and self.call.data is not None:
            self.call.data.keep(
                {part: values for part, values in written.items() if isinstance(values, dict)}
            )
        return kept["output"]

    def views(self) -> JsonObject:
        """Return what the model is shown of everything collected so far."""
        return {handle: self._view(handle) for handle in self.collected}

    def _view(self, handle: str) -> Json:
        output = self.collected[handle]
        size = prompt_size(output)
        if size <= self.limits.view_chars:
            return {"handle": f"@{handle}", "output": output}
        return {
            "handle": f"@{handle}",
            "shortened": f"from {size:,} characters; pass the handle on where a tool needs all of it",
            "output": truncate(output, self.limits.view_chars),
        }

    def _request(
        self, name: str, signature: ToolSignature, params: JsonObject
    ) -> tuple[ToolCall, str]:
        """Return a call, and the key under which its output is kept for a resumed run.

        A call that sees other run data is another call. The key of what is kept does not say so:
        where calls ran side by side, what each of them saw depends on which began first.
        """
        call = self.call
        said = self.goal_tools.get(name)
        config = None if said is None else said.config
        seen = (
            None
            if call.data is None
            else call.data.child(signature.reads_data, signature.writes_data)
        )
        place = f"{call.step}[{'' if call.index is None else call.index}]"
        key_of = partial(step_key, name, params, config=config, run=call.run, step=StepId(place))
        request = ToolCall(
            run=call.run,
            step=call.step,
            tool=name,
            params=params,
            key=key_of(data="" if seen is None else seen.digest(signature.reads_data)),
            now=call.now,
            index=call.index,
            worker_type=None if said is None else said.worker_type,
            config=config,
            job=call.job,
            budget=call.budget,
            emit=call.emit,
            guard=call.guard,
            data=seen,
            step_feedback=call.feedback,
        )
        return request, f"tool {place} {key_of()}"

    def _resolve_handles(self, name: str, params: JsonObject) -> JsonObject:
        """Return parameters with the outputs that their handles stand for."""
        try:
            return {key: self._resolve_value(value) for key, value in params.items()}
        except KeyError as error:
            known = ", ".join(f"@{handle}" for handle in self.collected) or "none yet"
            raise self._refusal(
                name, params, f"nothing is called {error.args[0]}; there are {known}"
            ) from error

    def _resolve_value(self, value: Json) -> Json:
        if isinstance(value, list):
            return [self._resolve_value(item) for item in value]
        if isinstance(value, dict):
            return {key: self._resolve_value(item) for key, item in value.items()}
        match = _HANDLE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return value
        found: Json = self.collected.get(match[1])
        if match[1] not in self.collected:
            raise KeyError(value)
        for part in match[2].split("/")[1:]:
            if isinstance(found, dict) and part in found:
                found = found[part]
            elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            else:
                raise KeyError(value)
        # A tool may change its parameters, and must not change what was collected.
        own: Json = json.loads(json.dumps(found))
        return own

    def _refusal(self, name: str, params: JsonObject, message: str) -> LoopToolError:
        self._record(name, params, "refused", 0.0, message)
        return LoopToolError(message)

    def _record(
        self,
        name: str,
        params: JsonObject,
        status: Literal["ok", "failed", "refused"],
        seconds: float,
        message: str = "",
    ) -> str:
        """Emit a call and put it on record; return its handle."""
        handle = f"call_{len(self.records) + 1}"
        self.call.emit(AgentToolCall(name, params, status, seconds, message))
        entry: JsonObject = {"id": handle, "tool": name, "params": params, "status": status}
        entry["seconds"] = round(seconds, 3)
        self.records.append({**entry, "message": message} if message else entry)
        return handle


class AgentLimits(DocumentModel):
    """What a goal may say of its agent, in the tool's `config`.

    >>> from wavewright.tools import AgentLimits
    >>> AgentLimits(seconds="2m").seconds
    120.0
    """

    requests: Annotated[int, Field(ge=1, le=200)] = 10
    """Questions to the model."""
    tool_calls: Annotated[int, Field(ge=0, le=1000)] = 30
    """Calls of tools in all."""
    seconds: Seconds = 300.0
    """For the whole step, its tools included."""
    view_chars: Annotated[int, Field(ge=200, le=200_000)] = 4000
    """Characters of a tool's output that the model is shown."""
    max_tokens: AtLeastOne | None = None
    """Ceiling of one answer's tokens; the configured one where absent."""
    keep_partial: bool = False
    """Whether a loop that ends without an answer gives what it collected, as a forced result."""


class AgentConcurrency:
    """Lets no more calls run at once than the goal's limits and the tools' own allow: over all
    items of the run.

    >>> from wavewright.planner import Limits
    >>> from wavewright.tools import AgentConcurrency
    >>> AgentConcurrency(Limits(concurrency=2)) is not None
    True
    """

    def __init__(self, limits: Limits) -> None:
        self._ceilings = limits.tool_concurrency
        self.total = anyio.CapacityLimiter(limits.concurrency)
        """What every call waits for, whatever its tool."""
        self._by_tool: dict[str, anyio.CapacityLimiter] = {}

    def tool_limiter(self, signature: ToolSignature) -> anyio.CapacityLimiter:
        """Return what the calls of one tool wait for."""
        most = min(signature.concurrency or math.inf, self._ceilings.get(signature.name, math.inf))
        return self._by_tool.setdefault(signature.name, anyio.CapacityLimiter(most))


def function_names(tools: Iterable[str]) -> dict[str, str]:
    """Return tools by the names of functions that models call: up to 64 letters, digits, `_` and
    `-`, as providers ask.

    A name that is taken or too long ends with a hash of the tool's name.
    """
    found: dict[str, str] = {}
    for name in sorted(tools, key=lambda name: "." in name):  # a name without a dot stays as it is
        function = name.replace(".", "__")
        if len(function) > _MAX_FUNCTION_NAME or function in found:
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            function = f"{function[: _MAX_FUNCTION_NAME - 9]}_{digest}"
        found[function] = name
    return found


async def _outcome_with_rungs(tool: Tool, request: ToolCall) -> JsonObject:
    """Make a call; the rungs that its agents have taken are on record with the run data that it has
    written.
    """
    taken = list[RungRecord]()

    def emit(emission: Emission) -> None:
        if isinstance(emission, RungRecord):
            taken.append(emission)
        else:
            request.emit(emission)

    try:
        return await _call_outcome(tool, replace(request, emit=emit))
    finally:
        names = () if request.data is None else tuple(sorted(request.data.written))
        for rung in taken:
            request.emit(replace(rung, data=names))


async def _call_outcome(tool: Tool, request: ToolCall) -> JsonObject:
    try:
        outcome: JsonObject = {"output": await _checked_output(tool, request)}
        if request.data is not None and request.data.written:
            outcome["data"] = _plain_json(
                dict(request.data.written), f"the run data of {tool.signature.name}"
            )
        return outcome
    except LoopToolError as error:
        return {"error": str(error)}


async def _checked_output(tool: Tool, request: ToolCall) -> Json:
    """Call a tool under its own clock and return its output as JSON that fits its schema.

    Raises:
        LoopToolError: it failed, in words for the model.
    """
    signature = tool.signature
    try:
        with anyio.fail_after(signature.timeout):
            output = await tool.call(request)
    except TimeoutError as error:
        raise LoopToolError(
            f"{signature.name} gave no answer within {signature.timeout:g} s"
        ) from error
    except ToolError as error:
        raise LoopToolError(f"{error}; {error.hint}" if error.hint else str(error)) from error
    except Exception as error:  # the call of a tool: a failure is told to the model
        raise LoopToolError(f"{type(error).__name__}: {error}") from error
    clean = _plain_json(output, f"the output of {signature.name}")
    misfits = validator_of(signature.output_schema).violations(clean)
    if misfits:
        raise LoopToolError(
            f"{signature.name} gave an output that does not fit: {misfits[0].message}"
        )
    return clean


def _plain_json(value: Json, what: str) -> Json:
    try:
        plain: Json = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise LoopToolError(f"{what} is no JSON: {error}") from error
    return plain


def _open_to_handles(schema: JsonSchema) -> JsonSchema:
    """Let lists and objects among the parameters be given by a handle too."""
    return {
        **schema,
        "properties": {
            name: member
            if not isinstance(member, dict) or _is_scalar(member)
            else _or_handle(member)
            for name, member in properties_of(schema).items()
        },
    }


def _is_scalar(schema: JsonSchema) -> bool:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return "enum" in schema or all(one in _SCALARS for one in kinds)


def _or_handle(schema: JsonSchema) -> JsonSchema:
    handle: JsonSchema = {
        "type": "string",
        "pattern": _HANDLE_PATTERN,
        "description": "The handle of an output.",
    }
    described = schema.get("description")
    either: JsonSchema = {"anyOf": [schema, handle]}
    return {**either, "description": described} if described is not None else either
