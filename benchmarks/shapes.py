"""The graphs that are measured, once as dependency lists and once as plans.

A *shape* has the same edges for both executors: the bare one is handed lists of indices, the engine
a plan whose steps refer to each other. Every step adds one to the number that it reads.
"""

from __future__ import annotations

from collections.abc import Callable

from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.types import StepId

Shape = list[list[int]]
"""For each step the steps that it depends on; the first one is the one that it reads."""

WIDTH = 50


def chain(count: int) -> Shape:
    """Each step waits for the one before."""
    return [[number - 1] if number else [] for number in range(count)]


def fan_out(count: int) -> Shape:
    """One step, and all others wait for it."""
    return [[0] if number else [] for number in range(count)]


def layered(count: int, width: int = WIDTH) -> Shape:
    """Layers; each step reads the one above it and waits for its neighbour too."""
    shape: Shape = []
    for number in range(count):
        layer, column = divmod(number, width)
        above = (layer - 1) * width
        shape.append([above + column, above + (column + 1) % width] if layer else [])
    return shape


SHAPES: dict[str, Callable[[int], Shape]] = {"chain": chain, "fan-out": fan_out, "layered": layered}


def plan_of(
    shape: Shape, tool: Callable[[int], str] = lambda _number: "add", *, in_lists: bool = False
) -> Plan:
    """Return the shape as a plan: one reference a step, and the other dependencies by name.

    With `in_lists` every dependency is a reference, and all those of a step stand in a list.
    """
    return Plan(
        steps=tuple(
            Step(
                id=StepId(f"s{number}"),
                tool=tool(number),
                params={
                    "x": number if in_lists or not before else f"${{steps.s{before[0]}.v}}",
                    "by": number,
                    **(
                        {"others": [f"${{steps.s{other}.v}}" for other in before]}
                        if in_lists
                        else {}
                    ),
                },
                depends_on=() if in_lists else tuple(StepId(f"s{other}") for other in before[1:]),
            )
            for number, before in enumerate(shape)
        )
    )
