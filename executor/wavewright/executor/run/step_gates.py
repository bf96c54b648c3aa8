"""The gates of steps: asked through the port `Verify`, which may fail or be slow."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from wavewright.executor.events.types import GateRecord
from wavewright.executor.run.deadlines import CallCancelledItself, Deadlines
from wavewright.executor.run.ports import GateRecords, GateView, Verify
from wavewright.executor.run.scheduled_calls import ScheduledCall
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import Json, StepId

_JUDGE_SECONDS = 86_400.0
"""Far longer than any judge: its own timeout and the run's apply first."""


class StepGates:
    """The gates of one plan. Gates that cannot be evaluated have failed, with the verdict `error`."""

    def __init__(self, plan: Plan, verify: Verify, deadlines: Deadlines) -> None:
        self._plan = plan
        self._verify = verify
        self._deadlines = deadlines

    def ask(
        self, call: ScheduledCall, output: Json, items: Sequence[tuple[int, Json]] | None
    ) -> GateRecords | Awaitable[GateRecords]:
        """Return the records of a step's gates for its output, or an awaitable of them."""
        step = call.step.id
        view = GateView(
            self._plan.inputs, {**call.visible, step: output}, items, self._plan.previous
        )
        try:
            return self._verify(step, output, view)
        except Exception as error:  # noqa: BLE001 - a port's implementation
            return self._not_evaluated(step, f"{type(error).__name__}: {error}")

    async def await_records(self, step: StepId, asked: Awaitable[GateRecords]) -> GateRecords:
        """Wait for the records of a step's gates."""
        try:
            with self._deadlines.limit(_JUDGE_SECONDS) as timed:
                return await timed.drive(asked)
        except CallCancelledItself:
            return self._not_evaluated(step, "it was cancelled")
        except Exception as error:  # noqa: BLE001 - a port's implementation
            return self._not_evaluated(step, f"{type(error).__name__}: {error}")

    def _not_evaluated(self, step: StepId, reason: str) -> GateRecords:
        """Return records with the verdict `error` for all gates of a step."""
        return tuple(
            GateRecord(
                gate=gate.id,
                step=step,
                kind=gate.kind,
                severity=gate.severity,
                verdict="error",
                inspected=gate.check or gate.kind,
                message=f"the gate could not be evaluated: {reason}",
                hint=gate.hint,
            )
            for gate in self._plan.gates
            if gate.on == step
        )
