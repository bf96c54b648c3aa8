"""The live page as an ASGI application, with the pages of jobs and decisions: HTML for people, JSON
below `/api/v1`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.engine.interfaces.view.api import Api
from wavewright.engine.interfaces.view.run_pages import (
    RunPages,
    StepPages,
    render_fragment,
    run_of_address,
)
from wavewright.engine.interfaces.view.served_pages import (
    lead_to,
    page,
    reason_of,
    refusal_of,
    script_route,
    signature,
    stream_script_route,
    style_routes,
)
from wavewright.engine.interfaces.view.stored_runs import RunWatches
from wavewright.engine.interfaces.view.viewed_jobs import (
    JobOffer,
    Submissions,
    ViewedJobs,
    input_fields,
)
from wavewright.engine.interfaces.view.viewed_project import DecisionAnswer, ViewedProject
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor.stores import budget_store_of, journal_of

_INPUT: Final = "input."
"""Beginning of the name of a field that is an input."""


@asynccontextmanager
async def open_view(settings: Settings, base: str = "") -> AsyncGenerator[Starlette]:
    """Open the journal of a project and yield the application, to be put behind a `AccessGuard`.

    Links of what is streamed begin with `base`.
    """
    async with (
        journal_of(settings) as journal,
        budget_store_of(settings) as budgets,
        anyio.create_task_group() as group,
    ):
        project = ViewedProject(settings, journal, JobStore(journal))
        jobs = ViewedJobs(project, budgets)
        pages = [
            *RunPages(project, RunWatches(journal, group, partial(render_fragment, base))).routes(),
            *StepPages(project).routes(),
            *_JobPages(jobs).routes(),
            *_SubmitPages(Submissions(jobs)).routes(),
            *_DecisionPages(project).routes(),
        ]
        yield Starlette(
            routes=[
                *pages,
                *Api(project, jobs).routes(),
                *style_routes(),
                script_route(),
                stream_script_route(),
            ]
        )
        group.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class _JobPages:
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
        return await self._page(request)

    async def _cancel(self, request: Request) -> Response:
        """End the job of a run for good, and lead back to the jobs."""
        run = run_of_address(request.path_params["run"])
        return await self._steer(request, partial(self.jobs.project.cancel, run))

    async def _send_again(self, request: Request) -> Response:
        """Queue the request of a job that was given up, and lead back to the jobs."""
        job = JobId(request.path_params["job"])
        return await self._steer(request, partial(self.jobs.send_again, job))

    async def _steer(self, request: Request, act: Callable[[str], Awaitable[object]]) -> Response:
        """Do what a form asks for, in the name of the person that it gives, and lead back to the
        jobs.
        """
        form = await request.form()
        try:
            await act(signature(request, form.get("by")))
        except (WavewrightError, ValidationError) as error:
            return await self._page(request, *refusal_of(error))
        return lead_to(request, "/jobs")

    async def _page(self, request: Request, error: str = "", code: int = 200) -> Response:
        jobs = await self.jobs.overview()
        return page(request, "jobs.html.j2", code, title="Jobs", found=jobs, error=error)


@dataclass(frozen=True, slots=True)
class _SubmitPages:
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
        templates, jobs = await anyio.to_thread.run_sync(self.submissions.names)
        return page(request, "submit.html.j2", title="New job", templates=templates, jobs=jobs)

    async def _form(self, request: Request) -> Response:
        """Answer with the form of a goal template or a job."""
        return _form_page(request, await self._offer(request), {})

    async def _submit(self, request: Request) -> Response:
        """Answer with the dry run of a job, or send it and lead to the jobs; faults are shown above
        the form.
        """
        offer, form = await self._offer(request), await request.form()
        typed = {key.removeprefix(_INPUT): str(form[key]) for key in form if key.startswith(_INPUT)}
        shown = partial(_form_page, request, offer, typed)
        try:
            draft = await anyio.to_thread.run_sync(self.submissions.draft, offer, typed)
            if form.get("do") == "send":
                await self.submissions.send(draft, signature(request, form.get("by")))
                return lead_to(request, "/jobs")
            dry_run = await anyio.to_thread.run_sync(self.submissions.dry_run, draft)
        except (WavewrightError, ValidationError) as error:
            return shown(error=reason_of(error), code=422)
        return shown(dry_run=dry_run, is_checked=True)

    async def _offer(self, request: Request) -> JobOffer:
        try:
            return await anyio.to_thread.run_sync(
                self.submissions.offer, request.path_params["name"]
            )
        except WavewrightError as error:
            raise HTTPException(404, reason_of(error)) from error


def _form_page(
    request: Request,
    offer: JobOffer,
    typed: dict[str, str],
    *,
    error: str = "",
    code: int = 200,
    dry_run: str | None = None,
    is_checked: bool = False,
) -> Response:
    return page(
        request,
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


@dataclass(frozen=True, slots=True)
class _DecisionPages:
    """The answers about decisions as pages."""

    project: ViewedProject

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/decisions", self._decisions),
            Route("/decisions/{decision}", self._decide, methods=["POST"]),
        ]

    async def _decisions(self, request: Request) -> Response:
        """Answer with what waits for a person."""
        return await self._page(request)

    async def _decide(self, request: Request) -> Response:
        """Take an answer of a form, and lead back to the decisions."""
        form = await request.form()
        try:
            given = DecisionAnswer(choice=str(form.get("choice", "")))
            by = signature(request, form.get("by"))
            await self.project.answer(request.path_params["decision"], given.choice, by)
        except (WavewrightError, ValidationError) as error:
            return await self._page(request, *refusal_of(error))
        return lead_to(request, "/decisions")

    async def _page(self, request: Request, error: str = "", code: int = 200) -> Response:
        questions = await self.project.list_questions()
        return page(
            request, "decisions.html.j2", code, title="Decisions", questions=questions, error=error
        )
