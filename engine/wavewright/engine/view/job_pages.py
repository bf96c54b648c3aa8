"""Pages of the jobs of daemons."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.engine.view.page_templates import page, reason_of
from wavewright.engine.view.viewed_jobs import ViewedJobs
from wavewright.engine.view.viewed_project import Person
from wavewright.executor.store.job_records import JobId


@dataclass(frozen=True, slots=True)
class JobPages:
    """The answers about jobs as pages."""

    jobs: ViewedJobs

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/jobs", self._jobs),
            Route("/jobs/{job}/again", self._send_again, methods=["POST"]),
        ]

    async def _jobs(self, request: Request) -> Response:
        """Answer with how the jobs stand."""
        del request
        return await self._page()

    async def _send_again(self, request: Request) -> Response:
        """Queue the request of a job that was given up, and lead back to the jobs."""
        form = await request.form()
        try:
            given = Person(by=str(form.get("by") or "view"))
            await self.jobs.send_again(JobId(request.path_params["job"]), given.by)
        except WavewrightError as error:
            return await self._page(reason_of(error), 409)
        except ValidationError as error:
            return await self._page(reason_of(error), 422)
        return RedirectResponse("/jobs", 303)

    async def _page(self, error: str = "", code: int = 200) -> Response:
        return page("jobs.html.j2", code, title="Jobs", found=await self.jobs.overview(), error=error)
