"""Copies of where jobs stand, written behind their runs to an MCP server of the project.

The journal stays authoritative: nothing waits for a copy, nothing is read from one, and what cannot be written is
logged and left out. Of copies of one target that wait only the newest is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

import anyio

from wavewright.config.settings import Settings
from wavewright.engine.operations.logs import StructuredLog
from wavewright.planner.ports.budgets import BudgetScope
from wavewright.planner.types import RunId, StepId, StepKey
from wavewright.tools.functions.tool import ServerCaller, ToolCall
from wavewright.tools.message_contract import CheckpointForm, JobProgress
from wavewright.tools.workers.services import Services


def checkpoint_writer(
    settings: Settings, services: Services, log: StructuredLog, clock: Callable[[], float]
) -> CheckpointWriter | None:
    """Return what copies the progress of jobs, where the pack has a form for it and the project names its server."""
    form, bound, budget_store = log.contract.checkpoint, settings.budgets.day.tokens, services.budget_store
    if form is None or services.mcp is None or form.server not in settings.mcp.servers:
        return None

    async def tokens_today() -> int:
        if bound is None or budget_store is None:
            return 0
        left = (await budget_store.left(BudgetScope())).day.tokens
        return 0 if left is None else bound - max(0, left)

    return CheckpointWriter(form, services.mcp, log, clock, tokens_today)


class CheckpointWriter:
    """Writes the newest progress of a daemon's jobs in the form of its pack."""

    def __init__(
        self,
        form: CheckpointForm,
        sessions: ServerCaller,
        log: StructuredLog,
        clock: Callable[[], float],
        tokens_today: Callable[[], Awaitable[int]],
    ) -> None:
        self._form = form
        self._sessions = sessions
        self._log = log
        self._clock = clock
        self._tokens_today = tokens_today
        self._newest = dict[str, JobProgress]()
        """What waits, by target."""
        self._is_wanted = anyio.Event()

    def note(self, progress: JobProgress) -> None:
        """Take over where a job stands; it is written soon."""
        self._newest[progress.target] = progress
        self._is_wanted.set()

    async def run(self) -> None:
        """Write what is noted, until this is cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted = anyio.Event()
            waiting, self._newest = self._newest, {}
            for progress in waiting.values():
                await self._write(progress)

    async def _write(self, progress: JobProgress) -> None:
        form, now = self._form, datetime.fromtimestamp(self._clock(), UTC)
        run, step = RunId(progress.run), StepId("checkpoint")
        try:
            known = replace(progress, tokens_today=await self._tokens_today())
            params = form.params(known, now.date())
            call = ToolCall(run=run, step=step, tool=form.tool, params=params, key=StepKey(""), now=now)
            await self._sessions.call(form.server, form.tool, call)
        except Exception as error:  # noqa: BLE001 - a copy that cannot be made must not stop the daemon
            self._log.write("checkpoint_not_saved", "warning", target=progress.target, error=error)
