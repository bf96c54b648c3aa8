"""The live page as an ASGI application: HTML for people, and the same as JSON below `/api/v1`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette

from wavewright.config.settings import Settings
from wavewright.engine.view.api import Api
from wavewright.engine.view.decision_pages import DecisionPages
from wavewright.engine.view.job_pages import JobPages, SubmitPages
from wavewright.engine.view.page_templates import script_route, style_routes
from wavewright.engine.view.run_pages import RunPages, render_fragment
from wavewright.engine.view.step_pages import StepPages
from wavewright.engine.view.submissions import Submissions
from wavewright.engine.view.viewed_jobs import ViewedJobs
from wavewright.engine.view.viewed_project import ViewedProject
from wavewright.engine.view.watching import RunWatches
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.stores import budget_store_of, journal_of


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
