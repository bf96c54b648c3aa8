"""What the engine is compared with: asyncio, in-degree counters and nothing else."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from benchmarks.shapes import Shape

Output = Mapping[str, int]


def reverse(shape: Shape) -> list[list[int]]:
    """Return for each step those that wait for it."""
    dependants: list[list[int]] = [[] for _ in shape]
    for number, before in enumerate(shape):
        for other in before:
            dependants[other].append(number)
    return dependants


async def add(x: int) -> Output:
    """Do what the measured tool does."""
    return {"v": x + 1}


async def run_bare(shape: Shape) -> list[Output]:
    """Run a shape with one asyncio task a ready step."""
    dependants = reverse(shape)
    missing = [len(before) for before in shape]
    outputs: list[Output] = [{}] * len(shape)
    left = len(shape)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tasks: set[asyncio.Task[None]] = set()

    async def step(number: int) -> None:
        nonlocal left
        before = shape[number]
        outputs[number] = await add(outputs[before[0]]["v"] if before else number)
        for waiting in dependants[number]:
            missing[waiting] -= 1
            if not missing[waiting]:
                start(waiting)
        left -= 1
        if not left:
            done.set_result(None)

    def start(number: int) -> None:
        task = asyncio.ensure_future(step(number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number, before in enumerate(shape):
        if not before:
            start(number)
    await done
    return outputs


async def run_fifo(shape: Shape, call: Callable[[int], Awaitable[None]], cap: int) -> None:
    """Run a shape, the step that became ready first first, at most `cap` at once."""
    dependants = reverse(shape)
    missing = [len(before) for before in shape]
    ready = deque(number for number, before in enumerate(shape) if not before)
    under_way: set[asyncio.Task[int]] = set()

    async def step(number: int) -> int:
        await call(number)
        return number

    while ready or under_way:
        while ready and len(under_way) < cap:
            under_way.add(asyncio.ensure_future(step(ready.popleft())))
        ended, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        for number in sorted(task.result() for task in ended):
            for waiting in dependants[number]:
                missing[waiting] -= 1
                if not missing[waiting]:
                    ready.append(waiting)
