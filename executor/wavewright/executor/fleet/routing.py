"""Which tools go to the fleet, and which worker takes a call of one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from wavewright.tools.functions.runtime import can_be_called_elsewhere
from wavewright.tools.functions.tool import Tool

EVERY_TOOL = "*"


def runs_on_fleet(tool: Tool, wanted: Collection[str]) -> bool:
    """Return whether calls of a tool go to the fleet: those that `wanted` names or `*` means, and those with needs."""
    is_wanted = bool(tool.signature.needs) or EVERY_TOOL in wanted or tool.signature.name in wanted
    return is_wanted and can_be_called_elsewhere(tool)


def entrypoint_of(tool: Tool) -> str:
    """Return the name under which calls of a tool are queued: only a worker with the same code takes them."""
    return f"{tool.signature.name}@{tool.code or tool.signature.version}"


def served_entrypoints(tools: Iterable[Tool], labels: Collection[str]) -> dict[str, Tool]:
    """Return what a worker with these labels takes from the queue: the tools whose needs it meets."""
    return {
        entrypoint_of(tool): tool
        for tool in tools
        if can_be_called_elsewhere(tool) and tool.signature.needs <= frozenset(labels)
    }
