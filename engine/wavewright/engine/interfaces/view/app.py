"""The live page as an ASGI application, with the pages of jobs and decisions: HTML for people, JSON
below `/api/v1`.

Only what asks the journal needs it: while the database is away, each page says so within two
seconds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, get_args
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wavewright.config import Settings, WavewrightError, known_secrets_redactor
from wavewright.engine.interfaces.view.api import Api
from wavewright.engine.interfaces.view.input_fields import INPUT, fields_of
from wavewright.engine.interfaces.view.run_pages import (
    RunPages,
    StepPages,
    answer_missing,
    render_fragment,
    run_of_address,
)
from wavewright.engine.interfaces.view.served_pages import (
    ASSETS,
    asset_routes,
    lead_to,
    page,
    reason_of,
    refusal,
    refusal_of,
    signature,
    steered,
)
from wavewright.engine.interfaces.view.stored_runs import RunSnapshot, RunWatches
from wavewright.engine.interfaces.view.viewed_jobs import (
    JobOffer,
    ShownDryRun,
    Submissions,
    ViewedJobs,
)
from wavewright.engine.interfaces.view.viewed_project import DecisionAnswer, ViewedProject
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.schedules.scheduler import ScheduleAct
from wavewright.executor import JournalError, RunNotFound, budget_store_of
from wavewright.executor.store.errors import JournalUnreachable
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.store.transaction import StoreTransaction
from wavewright.executor.stores import journal_of, place_of_journal
from wavewright.planner import RunId, as_object
from wavewright.planner.ports.budgets import InspectableBudgetStore


@asynccontextmanager
async def open_view(settings: Settings, base: str = "") -> AsyncGenerator[ASGIApp]:
    """Open the journal of a project and yield the application, to be put behind an `AccessGuard`.

    A database that cannot be reached is waited for; meanwhile each page says so. Links of what is
    streamed begin with `base`.

    Raises:
        JournalError: the journal cannot be opened, and not because its server is away.
    """
    view = _ViewOfStore(settings, base)
    opened = AsyncExitStack()
    try:
        await view.open(opened)
    except JournalUnreachable:
        async with anyio.create_task_group() as group:
            group.start_soon(view.open_when_reachable, opened)
            try:
                yield view
            finally:
                group.cancel_scope.cancel()
    else:
        async with opened:
            yield view


_PAUSE: Final = 1.0
"""Seconds between two tries to reach a database."""
_ANSWER_SECONDS: Final = 1.5
"""Within which a database answers, or pages say that it does not."""


class _ViewOfStore:
    """The pages of a project while its store answers, and one that says so while it does not."""

    def __init__(self, settings: Settings, base: str) -> None:
        self._settings = settings
        self._base = base
        self._assets = Starlette(routes=asset_routes())
        self._journal: StoredJournal | None = None
        self._app: ASGIApp | None = None

    async def open(self, opened: AsyncExitStack) -> None:
        """Open the store and what is served of it; closed with the stack.

        Raises:
            JournalError: it cannot be opened.
        """
        async with AsyncExitStack() as opening:
            journal = await opening.enter_async_context(journal_of(self._settings))
            budgets = await opening.enter_async_context(budget_store_of(self._settings))
            group = await opening.enter_async_context(anyio.create_task_group())
            opening.callback(group.cancel_scope.cancel)
            project = ViewedProject(self._settings, journal, JobStore(journal))
            self._journal, self._app = journal, _pages_of(project, budgets, group, self._base)
            opened.push_async_exit(opening.pop_all())

    async def open_when_reachable(self, opened: AsyncExitStack) -> None:
        """Open the store as soon as its server answers, and keep it open until this is cancelled."""
        async with opened:
            while self._app is None:
                await anyio.sleep(_PAUSE)
                with suppress(JournalUnreachable):
                    await self.open(opened)
            await anyio.sleep_forever()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and _path_below_base(scope) in ASSETS:
            await self._assets(scope, receive, send)
        elif self._app is not None and await self._answers():
            await self._app(scope, receive, send)
        else:
            await self._away(Request(scope))(scope, receive, send)

    async def _answers(self) -> bool:
        """Whether the store answers in time; a file does."""
        if self._settings.journal_url is None:
            return True
        assert self._journal is not None
        with anyio.move_on_after(_ANSWER_SECONDS), suppress(JournalError):
            await self._journal.read(_ask_anything)
            return True
        return False

    def _away(self, request: Request) -> Response:
        """Return the answer while the store is away."""
        place = place_of_journal(self._settings)
        answer = page(
            request,
            "away.html.j2",
            503,
            title="The database is away",
            error=f"the database cannot be reached: {place}",
            place=place,
        )
        answer.headers["Retry-After"] = "5"
        if request.method == "GET" and isinstance(answer, HTMLResponse):
            answer.headers["Refresh"] = "5"
        return answer


def _path_below_base(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


async def _ask_anything(transaction: StoreTransaction) -> None:
    await transaction.fetch("SELECT 1")


def _pages_of(
    project: ViewedProject, budgets: InspectableBudgetStore, group: TaskGroup, base: str
) -> ASGIApp:
    jobs = ViewedJobs(project, budgets)
    redact = known_secrets_redactor(project.settings).redact_json
    watches = RunWatches(project.journal, group, partial(render_fragment, base, redact))
    pages = [
        *RunPages(project, watches).routes(),
        *StepPages(project).routes(),
        *_JobPages(jobs).routes(),
        *_SchedulePages(project).routes(),
        *_SubmitPages(Submissions(jobs)).routes(),
        *_DecisionPages(project).routes(),
    ]
    routes = [*pages, *Api(project, jobs).routes()]
    return Starlette(
        routes=routes, exception_handlers={HTTPException: refusal, RunNotFound: answer_missing}
    )


@dataclass(frozen=True, slots=True)
class _JobPages:
    """The answers about jobs as pages."""

    jobs: ViewedJobs

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/jobs", self._page),
            Route("/jobs/{run}/cancel", self._cancel, methods=["POST"]),
            Route("/jobs/{job}/again", self._send_again, methods=["POST"]),
        ]

    async def _cancel(self, request: Request) -> Response:
        """End the job of a run for good, and lead back to the jobs."""
        run = run_of_address(request.path_params["run"])
        act = partial(self.jobs.project.cancel, run)
        return await steered(request, act, self._page, "/jobs")

    async def _send_again(self, request: Request) -> Response:
        """Queue the request of a job that was given up, and lead back to the jobs."""
        job = JobId(request.path_params["job"])
        act = partial(self.jobs.send_again, job)
        return await steered(request, act, self._page, "/jobs")

    async def _page(self, request: Request, error: str = "", code: int = 200) -> Response:
        """Answer with how the jobs stand."""
        jobs = await self.jobs.overview()
        return page(request, "jobs.html.j2", code, title="Jobs", found=jobs, error=error)


@dataclass(frozen=True, slots=True)
class _SchedulePages:
    """The answers about schedules as pages."""

    project: ViewedProject

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/schedules", self._page),
            *(
                Route(
                    f"/schedules/{act}/{{name:path}}", partial(self._steer, act), methods=["POST"]
                )
                for act in get_args(ScheduleAct)
            ),
        ]

    async def _steer(self, act: ScheduleAct, request: Request) -> Response:
        """Begin, pause or resume what a form asks for; lead to the jobs where one is begun, else back
        to the schedules.
        """
        steer = partial(self.project.steer_schedule, request.path_params["name"], act)
        place = "/jobs" if act == "begin" else "/schedules"
        return await steered(request, steer, self._page, place)

    async def _page(self, request: Request, error: str = "", code: int = 200) -> Response:
        """Answer with the schedules of the project."""
        found = await self.project.schedules()
        return page(request, "schedules.html.j2", code, title="Schedules", found=found, error=error)


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
        typed = {key.removeprefix(INPUT): str(form[key]) for key in form if key.startswith(INPUT)}
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
    dry_run: ShownDryRun | None = None,
    is_checked: bool = False,
) -> Response:
    own = {**offer.inputs_of_plan, **as_object(offer.document.get("inputs"))}
    return page(
        request,
        "submit_form.html.j2",
        code,
        title=f"New job: {offer.name}",
        offer=offer,
        typed=typed,
        fields=fields_of(own, offer.schema, typed),
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
            Route("/decisions", self._page),
            Route("/decisions/{decision}", self._decide, methods=["POST"]),
        ]

    async def _decide(self, request: Request) -> Response:
        """Take an answer of a form, and lead back to the decisions."""
        form = await request.form()
        try:
            given = DecisionAnswer(choice=str(form.get("choice", "")))
            by = signature(request, form.get("by"))
            question = await self.project.answer(request.path_params["decision"], given.choice, by)
        except (WavewrightError, ValidationError) as error:
            return await self._page(request, *refusal_of(error))
        told: dict[str, str] = {"run": question.run, "answer": given.choice}
        if question.is_of_job:
            told["job"] = question.job
        return lead_to(request, f"/decisions?{urlencode(told)}")

    async def _page(self, request: Request, error: str = "", code: int = 200) -> Response:
        """Answer with what waits for a person."""
        questions = await self.project.list_questions()
        return page(
            request,
            "decisions.html.j2",
            code,
            title="Decisions",
            questions=questions,
            error=error,
            answered=await self._answered_run(request.query_params.get("run", "")),
            answer=request.query_params.get("answer", ""),
            is_of_job="job" in request.query_params,
        )

    async def _answered_run(self, run: str) -> RunSnapshot | None:
        """Return the run whose question was answered just now."""
        with suppress(RunNotFound):
            return await self.project.find_run(RunId(run)) if run else None
        return None
