"""How long uneven steps take all in all, beside the least that they can take.

About two hundred steps of 5 to 200 ms; nothing can end sooner than the critical path, nor, with a
cap, sooner than the work divided by the cap. The steps really wait, so the figures hold the
engine's own time as well. Two families: ten layers, where any order will do, and eight chains
beside a bag of loose steps, where the order decides.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass

import anyio

from benchmarks.bare import run_fifo
from benchmarks.engine import NO_END, NOW, ask_gates
from benchmarks.measure import show_table
from benchmarks.shapes import Shape, plan_of
from wavewright.executor.run.execution import Execution, execute
from wavewright.planner.language.plan import Limits, Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import Json, RunId, Schedule
from wavewright.tools.functions.tool import Tool, ToolCall

LAYERS, WIDTH, READS, CAP = 10, 20, 3, 16
SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Uneven:
    """A layered shape with a duration for each step."""

    shape: Shape
    seconds: list[float]
    plan: Plan

    @property
    def critical_path(self) -> float:
        """The least that it can take without a cap."""
        by_id = {
            step.id: seconds for step, seconds in zip(self.plan.steps, self.seconds, strict=True)
        }
        return PlanGraph.of(self.plan).critical_path(by_id).seconds

    @property
    def capped_bound(self) -> float:
        """The least that it can take with the cap."""
        return max(self.critical_path, sum(self.seconds) / CAP)


def make_layers(seed: int) -> Uneven:
    """Return ten layers of twenty; each step reads three of the layer above."""
    chance = random.Random(seed)  # noqa: S311 - the same instances every time
    shape: Shape = []
    for number in range(LAYERS * WIDTH):
        above = (number // WIDTH - 1) * WIDTH
        shape.append(
            sorted(chance.sample(range(above, above + WIDTH), READS)) if above >= 0 else []
        )
    return _with_seconds(shape, chance)


def make_chains_and_bag(seed: int) -> Uneven:
    """Return a bag of a hundred loose steps, and eight chains of twelve after them in the plan."""
    chance = random.Random(seed)  # noqa: S311 - the same instances every time
    shape: Shape = [[] for _ in range(100)]
    for _ in range(8):
        for link in range(12):
            shape.append([len(shape) - 1] if link else [])
    return _with_seconds(shape, chance)


def _with_seconds(shape: Shape, chance: random.Random) -> Uneven:
    seconds = [min(0.2, max(0.005, chance.lognormvariate(-3.3, 0.9))) for _ in shape]
    return Uneven(shape, seconds, plan_of(shape, lambda number: f"t{number}"))


def tools_of(uneven: Uneven) -> dict[str, Tool]:
    """Return a tool for each step, which says how long it takes."""

    def tool(number: int) -> Tool:
        async def call(request: ToolCall) -> Json:
            del request
            await anyio.sleep(uneven.seconds[number])
            return {"v": number}

        signature = ToolSignature(name=f"t{number}", expected_seconds=uneven.seconds[number])
        return Tool(signature, call)

    return {f"t{number}": tool(number) for number in range(len(uneven.shape))}


async def run_engine(
    uneven: Uneven, tools: dict[str, Tool], schedule: Schedule, concurrency: int, graph: PlanGraph
) -> None:
    """Run it on the engine."""
    await execute(
        Execution(
            uneven.plan,
            tools,
            run=RunId("bench"),
            now=NOW,
            verify=ask_gates,
            schedule=schedule,
            limits=Limits(max_steps=NO_END, max_waves=NO_END, concurrency=concurrency),
            graph=graph,
        )
    )


def measure_makespan() -> None:
    """Print makespans over their bounds: median and range of the seeds."""
    for title, make in (("ten layers", make_layers), ("chains and a bag", make_chains_and_bag)):
        ratios: dict[str, list[float]] = {}
        for seed in SEEDS:
            for name, ratio in ratios_of(make(seed)):
                ratios.setdefault(name, []).append(ratio)
        show_table(
            f"Makespan over its bound, uneven steps: {title}",
            ["executor", "median", "least", "most"],
            [
                [
                    name,
                    *(
                        f"{figure:.3f}"
                        for figure in (statistics.median(found), min(found), max(found))
                    ),
                ]
                for name, found in ratios.items()
            ],
        )


def ratios_of(uneven: Uneven) -> Iterator[tuple[str, float]]:
    """Yield for each executor its makespan over the bound."""
    graph, tools = PlanGraph.of(uneven.plan), tools_of(uneven)
    schedules: tuple[Schedule, ...] = ("waves", "dataflow")
    for schedule in schedules:
        yield (
            schedule,
            _seconds(run_engine(uneven, tools, schedule, 200, graph)) / uneven.critical_path,
        )
    for schedule in schedules:
        capped = _seconds(run_engine(uneven, tools, schedule, CAP, graph))
        yield f"{schedule}, cap {CAP}", capped / uneven.capped_bound
    fifo = _seconds(run_fifo(uneven.shape, lambda number: anyio.sleep(uneven.seconds[number]), CAP))
    yield f"first in first out (bare asyncio), cap {CAP}", fifo / uneven.capped_bound


def _seconds(run: Coroutine[object, object, None]) -> float:
    start = time.perf_counter()
    asyncio.run(run)
    return time.perf_counter() - start
