"""The live page as an ASGI application: HTML for people, and the same as JSON below `/api/v1`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Final, cast

import anyio
from jinja2 import Environment
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.engine.decisions.questions import (
    OpenQuestion,
    answer_question,
    find_question,
    list_questions,
)
from wavewright.engine.view.stored_runs import RunSnapshot, page_of_runs, read_run
from wavewright.engine.view.watching import RunWatches
from wavewright.executor.events.codec import encode
from wavewright.executor.run.recording import redacted_events
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.stores import journal_of
from wavewright.planner.types import RunId
from wavewright.prompts.environments import page_environment
from wavewright.reviewer.package.builder import package_bytes, stored_package
from wavewright.reviewer.report.page import style_sheet
from wavewright.reviewer.values import iso_of_epoch, visible

STATUSES: Final = (
    "running",
    "waiting_for_answer",
    "waiting_for_approval",
    "interrupted",
    "achieved",
    "not_achieved",
    "failed",
)
_MAX_EVENTS: Final = 500
"""On one page of the events of a run."""
_MAX_BODY: Final = 600
"""Characters of an event that are shown."""
_SECONDS_TO_BEGIN: Final = 10.0
"""Within which a run that is resumed begins, or says why it does not."""
_JOB_STATES_FIRST: Final = ("running", "queued")


class DecisionAnswer(BaseModel):
    """An answer to a decision, and who gives it; the name is journaled with the answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choice: Annotated[str, Field(min_length=1)]
    by: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


@asynccontextmanager
async def open_view(settings: Settings) -> AsyncGenerator[Starlette]:
    """Open the journal of a project and yield the application, for a guard such as `TokenAccess`."""
    view = View(settings)
    async with view.opened():
        yield Starlette(routes=view.routes())


def style_routes() -> list[Route]:
    """Return where the style of all pages is served."""
    return [Route("/style.css", _style), Route("/favicon.svg", _icon)]


@dataclass
class View:
    """The answers to the requests of viewers, from the journal."""

    settings: Settings

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Open the journal for as long as requests are answered."""
        async with journal_of(self.settings) as journal, anyio.create_task_group() as group:
            self.journal: StoredJournal = journal
            self.jobs = JobStore(journal)
            self.watches = RunWatches(journal, group, self._fragment)
            yield
            group.cancel_scope.cancel()

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/", self.runs),
            Route("/runs/{run}", self.run),
            Route("/runs/{run}/stream", self.stream),
            Route("/runs/{run}/events", self.events),
            Route("/runs/{run}/resume", self.resume, methods=["POST"]),
            Route("/jobs", self.job_list),
            Route("/decisions", self.decisions),
            Route("/decisions/{decision}", self.decide, methods=["POST"]),
            *style_routes(),
            Route("/view.js", _script),
            Route("/api/v1/runs", self.api_runs),
            Route("/api/v1/runs/{run}", self.api_run),
            Route("/api/v1/decisions", self.api_decisions),
            Route("/api/v1/decisions/{decision}", self.api_decide, methods=["POST"]),
        ]

    async def runs(self, request: Request) -> Response:
        """Answer with a page of the list of runs."""
        asked = request.query_params
        page = await page_of_runs(
            self.journal,
            text=asked.get("text", ""),
            status=asked.get("status", ""),
            before=RunId(asked["before"]) if "before" in asked else None,
        )
        return self._page(
            "runs.html.j2",
            title="Runs",
            page=page,
            text=asked.get("text", ""),
            status=asked.get("status", ""),
            statuses=STATUSES,
        )

    async def run(self, request: Request) -> Response:
        """Answer with the page of a run."""
        snapshot = await self._snapshot(request)
        if snapshot is None:
            return self._missing(request)
        return await self._run_page(snapshot)

    async def _run_page(self, snapshot: RunSnapshot, error: str = "", code: int = 200) -> Response:
        fragment = Markup(await anyio.to_thread.run_sync(self._fragment, snapshot))  # noqa: S704 - rendered from escaping templates
        values = {"title": snapshot.row.job, "snapshot": snapshot, "fragment": fragment, "error": error}
        return self._page("run.html.j2", code, **values)

    async def stream(self, request: Request) -> Response:
        """Answer with the run as events, each the whole of it; `Last-Event-ID` is what the viewer has."""
        run = RunId(request.path_params["run"])
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")

        async def events() -> AsyncGenerator[ServerSentEvent]:
            async for fragment in self.watches.fragments(run, seen):
                kind = "ended" if fragment.is_last else "changed"
                yield ServerSentEvent(fragment.html, event=kind, id=fragment.version)

        return EventSourceResponse(events(), ping=15)

    async def events(self, request: Request) -> Response:
        """Answer with a page of a run's events."""
        run = RunId(request.path_params["run"])
        asked = request.query_params.get("from") or "0"
        if not asked.isdecimal():
            raise HTTPException(400, f"`from` is the number of an event, such as 500, not {asked!r}")
        first = int(asked)
        loaded = await self.journal.load(run)
        shown = [encode(event) for event in redacted_events(loaded[first : first + _MAX_EVENTS])]
        rows = [
            (first + place, iso_of_epoch(event.at), kind, _cut(body))
            for place, ((kind, body), event) in enumerate(zip(shown, loaded[first:], strict=False))
        ]
        following = first + len(rows) if first + len(rows) < len(loaded) else None
        return self._page("events.html.j2", title=f"Events of {run}", run=run, rows=rows, following=following)

    async def resume(self, request: Request) -> Response:
        """Continue a run in a process of its own, as `wavewright resume` does; a refusal is shown."""
        snapshot = await self._snapshot(request)
        if snapshot is None:
            return self._missing(request)
        with TemporaryFile() as output:
            process = _resume(snapshot.row.run, self.settings.root, output)
            now = await self._changed(snapshot, lambda: process.poll() is not None)
            if now is None and process.poll():
                output.seek(0)
                return await self._run_page(snapshot, output.read().decode(errors="replace"), 409)
        return RedirectResponse(f"/runs/{snapshot.row.run}", 303)

    async def _changed(self, snapshot: RunSnapshot, is_over: Callable[[], bool]) -> RunSnapshot | None:
        """Wait until a run is no longer as it was, or something is over, and return the run where it has changed."""
        now = None
        with anyio.move_on_after(_SECONDS_TO_BEGIN):
            while now is None and not is_over():
                await anyio.sleep(0.05)
                now = await read_run(self.journal, snapshot.row.run, unless=snapshot.version)
        return now or await read_run(self.journal, snapshot.row.run, unless=snapshot.version)

    async def job_list(self, request: Request) -> Response:
        """Answer with the jobs of daemons: how many are in which state, and those that have not ended."""
        del request
        counts = await self.jobs.count_states()
        rows = await self.jobs.list_jobs([state for state in counts if state not in {"done", "failed"}])
        rows.sort(key=lambda row: (row.state not in _JOB_STATES_FIRST, -row.received))
        refused = await self.jobs.list_refused()
        return self._page(
            "jobs.html.j2", title="Jobs", counts=counts, rows=rows[:_MAX_EVENTS], refused=refused
        )

    async def decisions(self, request: Request) -> Response:
        """Answer with what waits for a person."""
        error = request.query_params.get("error", "")
        questions = await self._questions()
        return self._page("decisions.html.j2", title="Decisions", questions=questions, error=error)

    async def decide(self, request: Request) -> Response:
        """Take an answer of a form, and lead back to the decisions."""
        form = await request.form()
        try:
            given = DecisionAnswer(choice=str(form.get("choice", "")), by=str(form.get("by") or "view"))
            await self._answer(request.path_params["decision"], given)
        except (WavewrightError, ValidationError) as error:
            code = 409 if isinstance(error, WavewrightError) else 422
            questions = await self._questions()
            return self._page(
                "decisions.html.j2", code, title="Decisions", questions=questions, error=_reason(error)
            )
        return RedirectResponse("/decisions", 303)

    async def api_runs(self, request: Request) -> Response:
        """Answer with a page of the list of runs as JSON."""
        asked = request.query_params
        before = RunId(asked["before"]) if "before" in asked else None
        page = await page_of_runs(
            self.journal, text=asked.get("text", ""), status=asked.get("status", ""), before=before
        )
        return JSONResponse({"runs": [asdict(row) for row in page.rows], "next": page.following})

    async def api_run(self, request: Request) -> Response:
        """Answer with a run's package as far as it has come."""
        snapshot = await self._snapshot(request)
        if snapshot is None:
            return JSONResponse({"error": "there is no such run"}, 404)
        package = stored_package(snapshot.state)
        if package is None:
            return JSONResponse({"error": "the run has no plan yet"}, 409)
        return Response(package_bytes(package), media_type="application/json")

    async def api_decisions(self, request: Request) -> Response:
        """Answer with what waits for a person, as JSON."""
        del request
        return JSONResponse([asdict(question) for question in await self._questions()])

    async def api_decide(self, request: Request) -> Response:
        """Take an answer as JSON, `{"choice": …, "by": …}`."""
        try:
            given = DecisionAnswer.model_validate_json(await request.body())
            await self._answer(request.path_params["decision"], given)
        except ValidationError as error:
            return JSONResponse({"error": _reason(error)}, 422)
        except WavewrightError as error:
            return JSONResponse({"error": str(error), "hint": error.hint}, 409)
        return JSONResponse({"answered": True})

    async def _snapshot(self, request: Request) -> RunSnapshot | None:
        return await read_run(self.journal, RunId(request.path_params["run"]))

    async def _questions(self) -> list[OpenQuestion]:
        return await list_questions(self.journal, self.jobs, time.time())

    async def _answer(self, decision: str, given: DecisionAnswer) -> None:
        now = time.time()
        question = await find_question(self.journal, self.jobs, decision, now)
        if not isinstance(question, OpenQuestion):
            raise WavewrightError(f"it was answered already, with {question.choice!r}")
        await answer_question(self.journal, self.jobs, question, given.choice, by=given.by, now=now)

    def _fragment(self, snapshot: RunSnapshot) -> str:
        """Return a run as HTML; where it has no plan yet or has several targets, what there is."""
        html = snapshot.html()
        return self._environment.get_template("fragment.html.j2").render(
            snapshot=snapshot,
            targets=snapshot.targets,
            run=None if html is None else Markup(html),  # noqa: S704 - rendered from escaping templates
        )

    def _page(self, template: str, code: int = 200, /, **values: object) -> Response:
        return HTMLResponse(self._environment.get_template(template).render(**values), code)

    def _missing(self, request: Request) -> Response:
        run = request.path_params["run"]
        return self._page("missing.html.j2", 404, title="No such run", run=run)

    @cached_property
    def _environment(self) -> Environment:
        environment = page_environment("wavewright.engine", "pages/view", trims=True, finalize=_shown)
        filters = cast("dict[str, Callable[..., object]]", environment.filters)
        filters |= {"instant": _instant_text, "words": _words}
        return environment


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _instant_text(seconds: float) -> str:
    return iso_of_epoch(seconds)[:19].replace("T", " ")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _reason(error: WavewrightError | ValidationError) -> str:
    """Return what is wrong, each field of an answer with its fault."""
    if isinstance(error, WavewrightError):
        return str(error)
    return "; ".join(
        f"`{fault['loc'][0]}`: {fault['msg']}" if fault["loc"] else fault["msg"] for fault in error.errors()
    )


def _resume(run: RunId, root: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Continue a run in a process that outlives this one and writes what it says to a file."""
    program = "from wavewright.engine.main import run_process; run_process()"
    return subprocess.Popen(  # noqa: S603 - this program, with the id of a run of the journal
        [sys.executable, "-c", program, "resume", run],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _cut(body: str) -> str:
    return body if len(body) <= _MAX_BODY else f"{body[:_MAX_BODY]}…"


def _asset(name: str) -> str:
    return files("wavewright.engine").joinpath("pages", "view", name).read_text(encoding="utf-8")


def _style(request: Request) -> Response:
    del request
    return Response(style_sheet() + _asset("view.css"), media_type="text/css")


def _script(request: Request) -> Response:
    del request
    return Response(_asset("view.js"), media_type="text/javascript")


def _icon(request: Request) -> Response:
    del request
    return Response(_asset("icon.svg"), media_type="image/svg+xml")
