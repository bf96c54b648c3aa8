"""Tools that stand for several, of which data chooses one a call.

`dispatch.a.b` takes `{tool, params}` and makes that call with `a` or `b`: with the key, the deadline
and the run data of its own call, and with what the goal says of the tool. What the checker knows of
it is in `wavewright.planner.plans.dispatch`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from wavewright.planner import Json, RunId, StepId, StepKey, ToolSignature, as_object, validator_of
from wavewright.planner.language.plan import DISPATCHED_CALL, dispatched_tools
from wavewright.planner.plans.dispatch import with_dispatched
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import FindCall, Tool, ToolCall, Tools


def dispatch_tools(names: Collection[str], tools: Tools) -> dict[str, Tool]:
    """Return those of the named unions whose tools are all there."""
    if not names:
        return {}
    signatures = with_dispatched(names, {name: tool.signature for name, tool in tools.items()})
    return {
        name: dispatch_tool(
            signatures[name], {part: tools[part] for part in dispatched_tools(name)}
        )
        for name in sorted(names)
        if name in signatures and name not in tools
    }


def dispatch_tool(signature: ToolSignature, parts: Tools) -> Tool:
    """Return the tool that makes each call with one of its parts."""
    lookups = [part.is_under_way for part in parts.values() if part.is_under_way is not None]
    return Tool(
        signature,
        partial(_call_part, parts),
        signature.code,
        is_under_way=partial(_is_any_under_way, lookups) if lookups else None,
        takes_stored=all(part.takes_stored for part in parts.values()),
        parts=parts,
        with_parts=partial(dispatch_tool, signature),
    )


def part_call(call: ToolCall) -> ToolCall:
    """Return the call that a call of a union asks for."""
    chosen = as_object(call.params[DISPATCHED_CALL])
    name = str(chosen["tool"])
    config = None if call.config is None else call.config.get(name)
    return replace(
        call,
        tool=name,
        params=as_object(chosen.get("params")),
        config=None if config is None else as_object(config),
    )


async def _call_part(parts: Tools, call: ToolCall) -> Json:
    chosen = part_call(call)
    tool = parts[chosen.tool]
    # The schema of the union leaves open what refers to itself; the tool's own does not.
    misfits = validator_of(tool.signature.input_schema).violations(chosen.params)
    if misfits:
        first = misfits[0]
        place = f" at {first.pointer}" if first.pointer else ""
        raise ToolError(f"the parameters of {chosen.tool!r} do not fit:{place} {first.message}")
    return {"tool": chosen.tool, "output": await tool.call(chosen)}


async def _is_any_under_way(
    lookups: Sequence[FindCall], run: RunId, step: StepId, index: int | None, key: StepKey
) -> bool:
    for is_under_way in lookups:
        if await is_under_way(run, step, index, key):
            return True
    return False
