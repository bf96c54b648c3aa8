"""What goes to the queue of the fleet: which tools, under which names, and how many calls of each.

A call in the queue cannot be taken back cheaply, and each one is looked for again and again, so only what the workers
can make soon goes there, and the rest waits in the process of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Final

import anyio

from wavewright.tools.functions.tool import Tool, can_be_called_elsewhere

_EVERY_TOOL: Final = "*"


def runs_on_fleet(tool: Tool, wanted: Collection[str]) -> bool:
    """Return whether calls of a tool go to the fleet: those that `wanted` names or `*` means, and those with needs."""
    is_wanted = bool(tool.signature.needs) or _EVERY_TOOL in wanted or tool.signature.name in wanted
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


_PER_SLOT: Final = 2
"""Calls in the queue, for each slot of a live worker."""


class QueueRoom:
    """Admits calls to the queue: twice the slots of the live workers.

    Each tool has a room of its own, twice the slots of the workers that have it. So calls that few workers make, or
    none, hold up no others. One call of a tool that no live worker has is admitted, too: an autoscaler counts it, and
    one that was answered before a crash is found.
    """

    def __init__(self) -> None:
        self._whole = anyio.CapacityLimiter(1)
        """Of all tools."""
        self._slots = Counter[str]()
        """Slots of the live workers that have a tool."""
        self._of_tool: dict[str, anyio.CapacityLimiter] = {}

    def size(self, entrypoint: str) -> int:
        """Return how many calls of a tool may be in the queue."""
        return max(1, _PER_SLOT * self._slots[entrypoint])

    @asynccontextmanager
    async def place(self, entrypoint: str) -> AsyncGenerator[None]:
        """Hold a place in the queue for a call of a tool, in a block; wait for one."""
        of_tool = self._of_tool.get(entrypoint)
        if of_tool is None:
            of_tool = self._of_tool[entrypoint] = anyio.CapacityLimiter(self.size(entrypoint))
        await _enter(of_tool)
        try:
            await _enter(self._whole)
            try:
                yield
            finally:
                self._whole.release()
        finally:
            of_tool.release()

    def resize(self, workers: Iterable[tuple[int, Iterable[str]]]) -> None:
        """Take over which workers live: the slots of each, and what it takes from the queue."""
        self._slots.clear()
        total = stranded = 0
        for slots, entrypoints in workers:
            total += slots
            self._slots.update(dict.fromkeys(entrypoints, slots))
        for entrypoint, limiter in self._of_tool.items():
            limiter.total_tokens = self.size(entrypoint)
            if not self._slots[entrypoint]:
                stranded += limiter.borrowed_tokens
        # What no worker makes takes no room from what some make.
        self._whole.total_tokens = max(1, _PER_SLOT * total) + stranded


async def _enter(limiter: anyio.CapacityLimiter) -> None:
    """Enter a limiter; where it has room, without a turn of the event loop, which would cost more than the limiter."""
    try:
        limiter.acquire_nowait()
    except anyio.WouldBlock:
        await limiter.acquire()
