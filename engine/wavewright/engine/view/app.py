"""The live page as an ASGI application, with the page of decisions: HTML for people, JSON below `/api/v1`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.engine.view.api import Api
from wavewright.engine.view.job_pages import JobPages, SubmitPages
from wavewright.engine.view.page_templates import page, reason_of, script_route, style_routes
from wavewright.engine.view.run_pages import RunPages, StepPages, render_fragment
from wavewright.engine.view.submissions import Submissions
from wavewright.engine.view.viewed_jobs import ViewedJobs
from wavewright.engine.view.viewed_project import DecisionAnswer, ViewedProject
from wavewright.engine.view.watching import RunWatches
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.stores import budget_store_of, journal_of


@dataclass(frozen=True, slots=True)
class DecisionPages:
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
        return await self._page(request.query_params.get("error", ""))

    async def _decide(self, request: Request) -> Response:
        """Take an answer of a form, and lead back to the decisions."""
        form = await request.form()
        try:
            given = DecisionAnswer(choice=str(form.get("choice", "")), by=str(form.get("by") or "view"))
            await self.project.answer(request.path_params["decision"], given)
        except WavewrightError as error:
            return await self._page(reason_of(error), 409)
        except ValidationError as error:
            return await self._page(reason_of(error), 422)
        return RedirectResponse("/decisions", 303)

    async def _page(self, error: str, code: int = 200) -> Response:
        questions = await self.project.list_questions()
        return page("decisions.html.j2", code, title="Decisions", questions=questions, error=error)


@asynccontextmanager
async def open_view(settings: Settings) -> AsyncGenerator[Starlette]:
    """Open the journal of a project and yield the application, for a guard such as `TokenAccess`."""
    async with (
        journal_of(settings) as journal,
        budget_store_of(settings) as budgets,
        anyio.create_task_group() as group,
    ):
        project = ViewedProject(settings, journal, JobStore(journal))
        jobs = ViewedJobs(project, budgets)
        pages = [
            *RunPages(project, RunWatches(journal, group, render_fragment)).routes(),
            *StepPages(project).routes(),
            *JobPages(jobs).routes(),
            *SubmitPages(Submissions(jobs)).routes(),
            *DecisionPages(project).routes(),
        ]
        yield Starlette(routes=[*pages, *Api(project, jobs).routes(), *style_routes(), script_route()])
        group.cancel_scope.cancel()
