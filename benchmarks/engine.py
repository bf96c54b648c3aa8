"""The engine as it is measured: every feature of a step is on.

Each step has a parameter that refers to another step, its parameters and its output are validated,
a retry policy and a deadline apply, its gates are asked, and a listener hears every event.
"""

from __future__ import annotations

import datetime as dt

from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, GateRecord
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.ports import GateView
from wavewright.executor.store.journal import Journal
from wavewright.planner.language.plan import Limits, Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import Json, RunId, Schedule, StepId
from wavewright.tools.functions.tool import Tool, ToolCall

NOW = dt.datetime(2010, 3, 1, tzinfo=dt.UTC)
NO_END = 10**9

ADD = ToolSignature.model_validate(
    {
        "name": "add",
        "input_schema": {
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "by": {"type": "integer"},
                "others": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["x"],
            "additionalProperties": False,
        },
        "output_schema": {
            "type": "object",
            "properties": {"v": {"type": "integer"}},
            "required": ["v"],
        },
        "retry": {"attempts": 3},
        "timeout": 600,
    }
)


async def add(call: ToolCall) -> Json:
    """Do what the bare executor's step does."""
    x = call.params["x"]
    assert isinstance(x, int)
    return {"v": x + 1}


def ask_gates(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
    """Stand for a step without gates: the port is asked, and has nothing to say."""
    del step_id, output, view
    return ()


class Counter:
    """A listener that counts the events."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, event: Event) -> None:
        """Count one."""
        del event
        self.count += 1


async def run_engine(
    plan: Plan,
    *,
    graph: PlanGraph | None = None,
    run: str = "bench",
    journal: Journal | None = None,
    schedule: Schedule = "dataflow",
) -> RunState:
    """Run a plan of `add` steps with every feature on."""
    state = await execute(
        Execution(
            plan,
            {"add": Tool(ADD, add)},
            run=RunId(run),
            now=NOW,
            journal=journal,
            verify=ask_gates,
            schedule=schedule,
            limits=Limits(max_steps=NO_END, max_waves=NO_END, concurrency=64),
            graph=graph,
            on_event=Counter(),
        )
    )
    failed = [record for record in state.steps.values() if record.status != "ok"]
    if failed or len(state.steps) != len(plan.steps):
        raise AssertionError(f"the measured run went wrong: {failed[:1]}")
    return state
