"""Pages of runs: the list, one run that is followed, its events, steps and models, and its
confidence.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import anyio
from markupsafe import Markup
from pydantic import ValidationError
from sse_starlette.sse import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wavewright.config.redaction import known_secrets_redactor
from wavewright.engine.interfaces.view.served_pages import (
    base_of,
    lead_to,
    page,
    reason_of,
    refusal_of,
    render,
    signature,
)
from wavewright.engine.interfaces.view.stored_runs import (
    LABEL_KINDS,
    RunQuery,
    RunSnapshot,
    RunWatches,
    list_labels,
    page_of_runs,
)
from wavewright.engine.interfaces.view.viewed_project import CommandRefused, ViewedProject
from wavewright.executor.events.codec import encode
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event
from wavewright.executor.run.redacted_events import redacted_events
from wavewright.executor.store.journal import RunNotFound
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import RunId, RunIdRefused, read_run_id
from wavewright.reviewer.package.builder import stored_package
from wavewright.reviewer.package.comparison import ComparedRun, compare
from wavewright.reviewer.package.summary import (
    model_messages,
    proof_of,
    reviewed_fields,
    step_record,
)
from wavewright.reviewer.report.sub_plan_folding import Drawings
from wavewright.reviewer.values import iso_of_epoch

STATUSES: Final = (
    "running",
    "waiting_for_answer",
    "waiting_for_approval",
    "interrupted",
    "achieved",
    "not_achieved",
    "failed",
    "cancelled",
)
_MAX_EVENTS: Final = 500
"""On one page of the events of a run."""
_MAX_DIGITS: Final = 18
"""Of the number of an event in an address."""
_MAX_FOLLOWED: Final = 200
"""Runs of one stream."""
_MAX_BODY: Final = 600
"""Characters of an event that are shown."""

Steering: TypeAlias = Callable[[RunId, str], Awaitable[RunId]]
"""Does something with a run in the name of a person, and returns the run that is shown then."""


def render_fragment(base: str, snapshot: RunSnapshot, drawings: Drawings) -> str:
    """Return a run as HTML; where it has no plan yet or has several targets, what there is.

    Links of the page begin with `base`.
    """
    html = snapshot.html(base, drawings)
    run = None if html is None else Markup(html)  # noqa: S704 - rendered from escaping templates
    return render(
        "fragment.html.j2", base=base, snapshot=snapshot, targets=snapshot.targets, run=run
    )


@dataclass(frozen=True, slots=True)
class RunPages:
    """The answers about runs as pages."""

    project: ViewedProject
    watches: RunWatches

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/", self._runs),
            Route("/compare", self._compare),
            Route("/runs/{run}", self._run),
            Route("/runs/{run}/stream", self._stream),
            Route("/streams", self._streams),
            Route("/runs/{run}/events", self._events),
            *(
                Route(f"/runs/{{run}}/{name}", partial(self._steer, act), methods=["POST"])
                for name, act in (
                    ("resume", self.project.resume),
                    ("cancel", self.project.cancel),
                    ("retry", self.project.retry),
                )
            ),
            Route("/runs/{run}/replay", self._replay, methods=["POST"]),
        ]

    async def _runs(self, request: Request) -> Response:
        """Answer with a page of the list of runs."""
        try:
            asked = RunQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            raise HTTPException(400, reason_of(error)) from error
        found = await page_of_runs(self.project.journal, asked)
        labels = {kind: await list_labels(self.project.journal, kind) for kind in LABEL_KINDS}
        return page(
            request,
            "runs.html.j2",
            title="Runs",
            page=found,
            asked=asked,
            statuses=STATUSES,
            labels=labels,
        )

    async def _compare(self, request: Request) -> Response:
        """Answer with what is different between two runs."""
        runs = [run_of_address(run) for run in request.query_params.getlist("run")]
        if len(runs) != 2:
            raise HTTPException(
                400, f"two runs are compared, not {len(runs)}: choose two in the list of runs"
            )
        try:
            # The older one first.
            sides = sorted(
                [await self.project.find_run(run) for run in runs], key=lambda one: one.row.started
            )
        except RunNotFound as error:
            raise HTTPException(404, str(error)) from error
        before, after = (ComparedRun(one.state, stored_package(one.state)) for one in sides)
        found = compare(before, after, {})
        return page(
            request,
            "compare.html.j2",
            title="Two runs",
            sides=sides,
            before=before,
            after=after,
            found=found,
        )

    async def _run(self, request: Request) -> Response:
        """Answer with the page of a run."""
        return await self._run_page(request, drawings=_drawings_of(request))

    async def _run_page(
        self, request: Request, error: str = "", code: int = 200, drawings: Drawings = "folded"
    ) -> Response:
        run = _run_of(request)
        try:
            snapshot = await self.project.find_run(run)
        except RunNotFound:
            return _missing(request, run)
        html = await anyio.to_thread.run_sync(render_fragment, base_of(request), snapshot, drawings)
        fragment = Markup(html)  # noqa: S704 - rendered from escaping templates
        return page(
            request,
            "run.html.j2",
            code,
            title=snapshot.row.job,
            snapshot=snapshot,
            fragment=fragment,
            error=error,
            drawings=drawings,
        )

    async def _stream(self, request: Request) -> Response:
        """Answer with the run as events, each the whole of it; `Last-Event-ID` is what the viewer
        has.
        """
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")

        async def events() -> AsyncGenerator[bytes]:
            async for fragment in self.watches.fragments(
                _run_of(request), seen, _drawings_of(request)
            ):
                yield fragment.message

        return EventSourceResponse(events(), ping=15)

    async def _streams(self, request: Request) -> Response:
        """Answer with several runs as events of one stream, each the whole of a run.

        Each `follow` has a run, `folded` or `open`, and the version that the viewer has.
        """
        followed = [_followed(text) for text in request.query_params.getlist("follow")]
        if not 0 < len(followed) <= _MAX_FOLLOWED:
            raise HTTPException(400, f"1 to {_MAX_FOLLOWED} runs are followed at once")
        sender, receiver = anyio.create_memory_object_stream[bytes](0)

        async def follow(run: RunId, drawings: Drawings, seen: str) -> None:
            async for fragment in self.watches.fragments(run, seen, drawings):
                await sender.send(fragment.message_in_stream_of_many(run, drawings))

        async def follow_all() -> None:
            async with sender, anyio.create_task_group() as group:
                for run, drawings, seen in followed:
                    group.start_soon(follow, run, drawings, seen)

        return EventSourceResponse(receiver, data_sender_callable=follow_all, ping=15)

    async def _events(self, request: Request) -> Response:
        """Answer with a page of a run's events."""
        run = _run_of(request)
        asked = request.query_params.get("from") or "0"
        if not asked.isdecimal() or len(asked) > _MAX_DIGITS:
            raise HTTPException(
                400, f"`from` is the number of an event, such as 500, not {asked[:40]!r}"
            )
        first = int(asked)
        loaded = await self.project.journal.load(run)
        if not loaded:
            return _missing(request, run)
        shown = [encode(event) for event in redacted_events(loaded[first : first + _MAX_EVENTS])]
        rows = [
            (first + place, iso_of_epoch(event.at), kind, _cut(body))
            for place, ((kind, body), event) in enumerate(zip(shown, loaded[first:], strict=False))
        ]
        following = first + len(rows) if first + len(rows) < len(loaded) else None
        return page(
            request,
            "events.html.j2",
            title=f"Events of {run}",
            run=run,
            rows=rows,
            following=following,
        )

    async def _steer(self, act: Steering, request: Request) -> Response:
        """Do something with a run in a person's name, and redirect to the run; a refusal is shown
        on its page.
        """
        run, form = _run_of(request), await request.form()
        try:
            led_to = await act(run, signature(request, form.get("by")))
        except RunNotFound:
            return _missing(request, run)
        except (CommandRefused, ValidationError) as error:
            return await self._run_page(request, *refusal_of(error))
        return lead_to(request, f"/runs/{led_to}")

    async def _replay(self, request: Request) -> Response:
        """Answer with what is different in a replay of a run."""
        run = _run_of(request)
        try:
            printed = await self.project.replay(run)
        except RunNotFound:
            return _missing(request, run)
        except CommandRefused as error:
            return await self._run_page(request, str(error), 409)
        return page(request, "replay.html.j2", title=f"Replay of {run}", run=run, printed=printed)


def _followed(text: str) -> tuple[RunId, Drawings, str]:
    """Return what a stream of several runs follows: a run, its drawings, and what is seen of it."""
    run, drawings, seen = f"{text}  ".split(" ", 2)
    return run_of_address(run), "open" if drawings == "open" else "folded", seen.strip()


def _run_of(request: Request) -> RunId:
    return run_of_address(request.path_params["run"])


def run_of_address(text: str) -> RunId:
    """Return the id of a run from an address.

    Raises:
        HTTPException: there can be no such run.
    """
    try:
        return read_run_id(text)
    except RunIdRefused as error:
        raise HTTPException(404, error.message) from error


def _drawings_of(request: Request) -> Drawings:
    """Return the drawing that a viewer looks at: sub-plans are folded unless the address says
    otherwise.
    """
    return "open" if request.query_params.get("sub-plans") == "open" else "folded"


def _missing(request: Request, run: RunId) -> Response:
    return page(request, "missing.html.j2", 404, title="No such run", run=run)


def _cut(body: str) -> str:
    return body if len(body) <= _MAX_BODY else f"{body[:_MAX_BODY]}…"


@dataclass(frozen=True, slots=True)
class StepPages:
    """The answers about steps and models of a run as pages."""

    project: ViewedProject

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/runs/{run}/steps/{step}", self._step),
            Route("/runs/{run}/why/{field:path}", self._why),
            Route("/runs/{run}/messages", self._messages),
        ]

    async def _step(self, request: Request) -> Response:
        """Answer with one step: parameters, outputs, attempts with what they printed and raised,
        models, gates.
        """
        run, name = _run_of(request), request.path_params["step"]
        events = await self._events(run)
        state = fold(events)
        plan = (
            Plan.model_construct(steps=())
            if state.plan is None
            else Plan.model_validate(state.plan)
        )
        found = next((step for step in plan.steps if step.id == name), None)
        if found is None:
            raise HTTPException(404, f"run {run!r} has no step {name!r}")
        record = step_record(plan, found, state, events)
        values = {
            "run": run,
            "record": record,
            "gates": [gate for gate in state.gates if gate.step == found.id],
            "redact": known_secrets_redactor(self.project.settings).redact_json,
        }
        return page(request, "step.html.j2", title=f"{name} of {run}", **values)

    async def _why(self, request: Request) -> Response:
        """Answer with how the confidence in a field of the result came about."""
        run, field = _run_of(request), request.path_params["field"]
        package = stored_package(fold(await self._events(run)))
        if (
            package is None
            or package.review is None
            or field not in reviewed_fields(package, package.review)
        ):
            raise HTTPException(404, f"run {run!r} has no confidence in a field {field!r}")
        proof = proof_of(package, package.review, field)
        return page(request, "why.html.j2", title=f"Why {field} of {run}", run=run, proof=proof)

    async def _messages(self, request: Request) -> Response:
        """Answer with what planner, workers and reviewer were asked, and what they answered."""
        run = _run_of(request)
        messages = model_messages(await self._events(run))
        return page(
            request, "messages.html.j2", title=f"Messages of {run}", run=run, messages=messages
        )

    async def _events(self, run: RunId) -> list[Event]:
        events = await self.project.journal.load(run)
        if not events:
            raise HTTPException(404, f"there is no run {run!r}")
        return [*redacted_events(events)]
