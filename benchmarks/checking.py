"""How long it takes to prove a plan sound."""

from __future__ import annotations

import time

from benchmarks.engine import ADD, NO_END
from benchmarks.measure import best_of_calls, show_table
from benchmarks.shapes import layered, plan_of
from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Limits, Plan

LIMITS = Limits(max_steps=NO_END, max_waves=NO_END)


def without_expressions(count: int) -> Plan:
    """Return the layered plan with constants where its references stood; the edges are the same."""
    plan = plan_of(layered(count))
    steps = [
        step.model_copy(
            update={
                "params": {"x": 1, "by": number},
                "depends_on": tuple(f"s{before}" for before in layered_before(number)),
            }
        )
        for number, step in enumerate(plan.steps)
    ]
    return plan.model_copy(update={"steps": tuple(steps)})


def layered_before(number: int) -> list[int]:
    """Return what a step of the layered shape waits for."""
    return (
        layered(number + 1)[number]
        if number < 50
        else [number - 50, number // 50 * 50 - 50 + (number + 1) % 50]
    )


def measure_checking(sizes: tuple[int, ...]) -> None:
    """Print the processor time of a warm check, with and without an expression a step."""
    rows: list[list[object]] = []
    for size in sizes:
        plain, reading = without_expressions(size), plan_of(layered(size))
        rows.append([size, milliseconds(plain), milliseconds(reading)])
    show_table(
        "Check of a layered plan, warm, ms of processor time",
        ["steps", "without expressions", "with one expression a step"],
        rows,
    )


def milliseconds(plan: Plan) -> float:
    """Return the best processor time of a check."""

    def run() -> None:
        errors = [
            found
            for found in check(plan, None, {"add": ADD}, limits=LIMITS)
            if found.severity == "error"
        ]
        if errors:
            raise AssertionError(f"the measured plan is faulty: {errors[0]}")

    turns = 25 if len(plan.steps) <= 1000 else 3
    return best_of_calls(turns, run, time.process_time) * 1000
