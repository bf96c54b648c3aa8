"""A run of its own."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import StepResult, go_on
from wavewright.engine.recording import note, record
from wavewright.engine.version import __version__
from wavewright.executor.events import RunStarted
from wavewright.executor.journal_runs import new_run_id


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Open the run in the journal, so that no other process works on it."""

    ports: Ports
    name: str = "open_run"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Journal that the run has started, or that it goes on."""
        assert context.goal is not None
        journal, now = self.ports.journal, self.ports.clock()
        if context.request.run is not None:
            await journal.open_run(context.request.run)
            return go_on(await note(self.ports, context, "resumed", {}))
        run = new_run_id(now.timestamp())
        await journal.open_run(run)
        started = RunStarted(
            run=run,
            at=now.timestamp(),
            job=context.goal.job,
            goal=context.goal.model_dump(mode="json", by_alias=True),
            now=(context.goal.as_of or now).timestamp(),
            versions={
                "wavewright": __version__,
                "python": platform.python_version(),
                **{f"tool {name}": tool.signature.version for name, tool in sorted(context.tools.items())},
            },
        )
        return go_on(await record(self.ports, context, started, run=run))
