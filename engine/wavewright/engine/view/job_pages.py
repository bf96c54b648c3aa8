"""Pages of the jobs of daemons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wavewright.engine.view.page_templates import page
from wavewright.engine.view.viewed_project import ViewedProject

_MAX_JOBS: Final = 500
"""That have not ended, on the page."""
_STATES_FIRST: Final = ("running", "queued")


@dataclass(frozen=True, slots=True)
class JobPages:
    """The answers about jobs as pages."""

    project: ViewedProject

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [Route("/jobs", self._jobs)]

    async def _jobs(self, request: Request) -> Response:
        """Answer with the jobs of daemons: how many are in which state, and those that have not ended."""
        del request
        jobs = self.project.jobs
        counts = await jobs.count_states()
        rows = await jobs.list_jobs([state for state in counts if state not in {"done", "failed"}])
        rows.sort(key=lambda row: (row.state not in _STATES_FIRST, -row.received))
        refused = await jobs.list_refused()
        return page("jobs.html.j2", title="Jobs", counts=counts, rows=rows[:_MAX_JOBS], refused=refused)
