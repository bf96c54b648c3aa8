"""Pages of the jobs of daemons: how they stand, and the forms in which new ones are made and dry-run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio.to_thread
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.engine.view.page_templates import page, reason_of
from wavewright.engine.view.submissions import JobOffer, Submissions, input_fields
from wavewright.engine.view.viewed_jobs import ViewedJobs
from wavewright.engine.view.viewed_project import Person
from wavewright.executor.store.job_records import JobId
from wavewright.planner.types import RunId

_INPUT: Final = "input."
"""Beginning of the name of a field that is an input."""


@dataclass(frozen=True, slots=True)
class JobPages:
    """The answers about jobs as pages."""

    jobs: ViewedJobs

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/jobs", self._jobs),
            Route("/jobs/{run}/cancel", self._cancel, methods=["POST"]),
            Route("/jobs/{job}/again", self._send_again, methods=["POST"]),
        ]

    async def _jobs(self, request: Request) -> Response:
        """Answer with how the jobs stand."""
        del request
        return await self._page()

    async def _cancel(self, request: Request) -> Response:
        """End the job of a run for good, and lead back to the jobs."""
        form = await request.form()
        try:
            person = Person(by=str(form.get("by") or "view"))
            await self.jobs.project.cancel(RunId(request.path_params["run"]), person.by)
        except WavewrightError as error:
            return await self._page(reason_of(error), 409)
        except ValidationError as error:
            return await self._page(reason_of(error), 422)
        return RedirectResponse("/jobs", 303)

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


@dataclass(frozen=True, slots=True)
class SubmitPages:
    """The answers about new jobs as pages."""

    submissions: Submissions

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/submit", self._offers),
            Route("/submit/{name:path}", self._form),
            Route("/submit/{name:path}", self._submit, methods=["POST"]),
        ]

    async def _offers(self, request: Request) -> Response:
        """Answer with the goal templates and jobs of the project."""
        del request
        templates, jobs = await anyio.to_thread.run_sync(self.submissions.names)
        return page("submit.html.j2", title="New job", templates=templates, jobs=jobs)

    async def _form(self, request: Request) -> Response:
        """Answer with the form of a goal template or a job."""
        return _form_page(await self._offer(request), {})

    async def _submit(self, request: Request) -> Response:
        """Answer with the dry run of a job, or send it and lead to the jobs; faults are shown above the form."""
        offer, form = await self._offer(request), await request.form()
        typed = {key.removeprefix(_INPUT): str(form[key]) for key in form if key.startswith(_INPUT)}
        shown = partial(_form_page, offer, typed)
        try:
            draft = await anyio.to_thread.run_sync(self.submissions.draft, offer, typed)
            if form.get("do") == "send":
                await self.submissions.send(draft, Person(by=str(form.get("by") or "view")).by)
                return RedirectResponse("/jobs", 303)
            dry_run = await anyio.to_thread.run_sync(self.submissions.dry_run, draft)
        except (WavewrightError, ValidationError) as error:
            return shown(error=reason_of(error), code=422)
        return shown(dry_run=dry_run, is_checked=True)

    async def _offer(self, request: Request) -> JobOffer:
        try:
            return await anyio.to_thread.run_sync(self.submissions.offer, request.path_params["name"])
        except WavewrightError as error:
            raise HTTPException(404, reason_of(error)) from error


def _form_page(
    offer: JobOffer,
    typed: dict[str, str],
    *,
    error: str = "",
    code: int = 200,
    dry_run: str | None = None,
    is_checked: bool = False,
) -> Response:
    return page(
        "submit_form.html.j2",
        code,
        title=f"New job: {offer.name}",
        offer=offer,
        typed=typed,
        fields=input_fields(offer, typed),
        error=error,
        dry_run=dry_run,
        is_checked=is_checked,
    )
