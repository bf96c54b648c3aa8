"""A run of its own."""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import dataclass

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import PhaseResult, proceed
from wavewright.engine.recording import draft_note, record, record_resumed
from wavewright.engine.version import __version__
from wavewright.executor.events import RunStarted
from wavewright.executor.journal_runs import new_run_id
from wavewright.planner.types import RunId


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Open the run in the journal, so that no other process works on it."""

    ports: Ports
    name: str = "open_run"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Journal that the run has started, with the plan it was given, or that it goes on."""
        assert context.goal is not None
        if context.state.started is not None:
            self._limit_spending(context, context.run)
            return proceed(await record_resumed(self.ports, context))
        now = self.ports.clock()
        run = context.request.run or new_run_id(now.timestamp())
        self._limit_spending(context, run)
        if context.request.run is None:
            await self.ports.journal.open_run(run)
        started = RunStarted(
            run=run,
            at=now.timestamp(),
            job=context.goal.title,
            goal=context.goal.model_dump(mode="json", by_alias=True),
            now=_run_instant(context, now),
            versions={
                "wavewright": __version__,
                "python": platform.python_version(),
                **{f"tool {name}": tool.signature.version for name, tool in sorted(context.tools.items())},
            },
            tool_code={name: tool.code for name, tool in sorted(context.tools.items()) if tool.code},
            retry=context.retry,
        )
        # One append: a run that is stopped before its plan is accepted can still be resumed with that plan.
        given = () if context.draft is None else (draft_note(context.draft, now.timestamp()),)
        return proceed(await record(self.ports, context, started, *given, run=run))

    def _limit_spending(self, context: RunContext, run: RunId) -> None:
        """Hold what models may cost to the goal's own budget."""
        if self.ports.budget_store is not None and context.goal is not None:
            self.ports.budget_store.limit_run(run, context.goal.limits.budget)


def _run_instant(context: RunContext, now: dt.datetime) -> float:
    """Return what the run takes for now; a retry takes what the run before it took, or nothing would be the same."""
    if context.request.as_of is None and context.donor is not None and context.donor.started is not None:
        return context.donor.started.now
    assert context.goal is not None
    return (context.goal.as_of or now).timestamp()
