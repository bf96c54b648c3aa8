"""Pages of runs: the list, one run that is followed, its events, steps and models, and its
confidence.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Final, TypeAlias

import anyio
from markupsafe import Markup
from pydantic import TypeAdapter, ValidationError
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wavewright.config import known_secrets_redactor
from wavewright.engine.interfaces.view.input_fields import INPUT as _INPUT, InputField, fields_of
from wavewright.engine.interfaces.view.served_pages import (
    base_of,
    lead_to,
    page,
    reason_of,
    refusal_of,
    render,
    signature,
    steered,
)
from wavewright.engine.interfaces.view.stored_runs import (
    LABEL_KINDS,
    RunQuery,
    RunSnapshot,
    RunWatches,
    list_labels,
    outcomes_of_jobs,
    page_of_runs,
)
from wavewright.engine.interfaces.view.viewed_project import (
    CommandRefused,
    ViewedProject,
    retry_options,
)
from wavewright.engine.run.model_phases import refused_answers
from wavewright.engine.run.recording import faults_of_plan
from wavewright.executor import Event, RunNotFound, fold
from wavewright.executor.events.codec import encode
from wavewright.executor.events.state import step_ids
from wavewright.executor.run.redacted_events import redacted_events
from wavewright.planner import Goal, Json, RunId, as_object
from wavewright.planner.types import RunIdRefused, read_run_id
from wavewright.reviewer.package.builder import stored_package
from wavewright.reviewer.package.comparison import ComparedRun, compare
from wavewright.reviewer.package.confidence_proof import proof_of, reviewed_field
from wavewright.reviewer.package.log_lines import LEVELS, LogFilter, log_lines
from wavewright.reviewer.package.step_records import step_record, timed_messages
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
_MAX_EVENTS: Final = 100
"""On one page of the events of a run."""
_MAX_DIGITS: Final = 18
"""Of the number of an event in an address."""
_MAX_FOLLOWED: Final = 200
"""Runs of one stream."""
_MAX_LINES: Final = 1_000
"""Of a log on one page, the last ones."""
_LOG_FILTER: Final = TypeAdapter(LogFilter)
_LOG_FIELDS: Final = {each.name for each in fields(LogFilter)}
_MAX_CALLS: Final = 100
"""Of a step, on its page; failed ones come first."""
_MAX_BODY: Final = 600
"""Characters of an event that are shown."""

Steering: TypeAlias = Callable[[RunId, str], Awaitable[RunId]]
"""Does something with a run in the name of a person, and returns the run that is shown then."""


@dataclass(frozen=True, slots=True)
class RetryForm:
    """What a form asks for that repeats a run."""

    start: str = ""
    """The step from which it is repeated; empty for what has failed or changed."""
    only_failed: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    """As they are typed."""

    @classmethod
    def of(cls, form: FormData | QueryParams) -> RetryForm:
        """Return what was filled in."""
        typed = {key: str(form[key]) for key in form if key.startswith(_INPUT)}
        return cls(
            start=str(form.get("from") or ""),
            only_failed=form.get("failed") == "yes",
            inputs={key.removeprefix(_INPUT): text for key, text in typed.items()},
        )


def render_fragment(
    base: str, redact: Callable[[Json], Json], snapshot: RunSnapshot, drawings: Drawings
) -> str:
    """Return a run as HTML; where it has no plan yet or has several targets, what there is.

    Links of the page begin with `base`; `redact` returns a value without secrets.
    """
    values = {"base": base, "redact": redact, "snapshot": snapshot}
    # Rendered from escaping templates, as what follows.
    question, failures, lines = (
        Markup(render(f"{name}.html.j2", **values))  # noqa: S704
        for name in ("question", "failures", "last_lines")
    )
    html = snapshot.html(base, drawings, question, failures + lines)
    run = None if html is None else Markup(html)  # noqa: S704 - rendered from escaping templates
    return render(
        "fragment.html.j2",
        base=base,
        snapshot=snapshot,
        targets=snapshot.targets,
        run=run,
        refused=redact([*faults_of_plan(snapshot.state)]),
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
                )
            ),
            Route("/runs/{run}/retry", self._retry_form),
            Route("/runs/{run}/retry", self._retry, methods=["POST"]),
            Route("/runs/{run}/replay", self._replay, methods=["POST"]),
        ]

    async def _runs(self, request: Request) -> Response:
        """Answer with a page of the list of runs."""
        try:
            asked = RunQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            raise HTTPException(400, reason_of(error)) from error
        return await self._runs_page(request, asked)

    async def _runs_page(
        self, request: Request, asked: RunQuery, error: str = "", code: int = 200
    ) -> Response:
        found = await page_of_runs(self.project.journal, asked)
        labels = {kind: await list_labels(self.project.journal, kind) for kind in LABEL_KINDS}
        return page(
            request,
            "runs.html.j2",
            code,
            title="Runs",
            error=error,
            page=found,
            asked=asked,
            statuses=STATUSES,
            labels=labels,
            now=time.time(),
            outcomes=outcomes_of_jobs(found.runs),
        )

    async def _compare(self, request: Request) -> Response:
        """Answer with what is different between two runs."""
        runs = [run_of_address(run) for run in request.query_params.getlist("run")]
        if len(runs) != 2:
            error = f"two runs are compared, not {len(runs)}: choose two in the list of runs"
            return await self._runs_page(request, RunQuery(), error, 400)
        found = [await self.project.find_run(run) for run in runs]
        # The older one first.
        sides = sorted(found, key=lambda side: side.row.started)
        before, after = (ComparedRun(side.state, side.package) for side in sides)
        difference = compare(before, after, {})
        return page(
            request,
            "compare.html.j2",
            title="Two runs",
            sides=sides,
            before=before,
            after=after,
            found=difference,
        )

    async def _run(self, request: Request) -> Response:
        """Answer with the page of a run."""
        return await self._run_page(request, drawings=_drawings_of(request))

    async def _run_page(
        self, request: Request, error: str = "", code: int = 200, drawings: Drawings = "folded"
    ) -> Response:
        snapshot = await self.project.find_run(_run_of(request))
        redact = known_secrets_redactor(self.project.settings).redact_json
        html = await anyio.to_thread.run_sync(
            render_fragment, base_of(request), redact, snapshot, drawings
        )
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
        loaded = await events_of_run(self.project, run)
        shown = [encode(event) for event in redacted_events(loaded[first : first + _MAX_EVENTS])]
        rows = [
            (first + place, iso_of_epoch(event.at), kind, _cut(body))
            for place, ((kind, body), event) in enumerate(zip(shown, loaded[first:], strict=False))
        ]
        after = first + len(rows)
        return page(
            request,
            "events.html.j2",
            title=f"Events of {run}",
            run=run,
            rows=rows,
            earlier=max(0, first - _MAX_EVENTS) if first else None,
            later=after if after < len(loaded) else None,
        )

    async def _steer(self, act: Steering, request: Request) -> Response:
        """Do something with a run in a person's name, and redirect to the run; a refusal is shown
        on its page.
        """
        run = _run_of(request)
        return await steered(request, partial(act, run), self._run_page, f"/runs/{run}")

    async def _retry_form(self, request: Request) -> Response:
        """Answer with the form that repeats a run, with its inputs."""
        return await self._retry_page(request, RetryForm.of(request.query_params))

    async def _retry_page(
        self,
        request: Request,
        asked: RetryForm,
        *,
        error: str = "",
        code: int = 200,
        outlook: str = "",
    ) -> Response:
        run = _run_of(request)
        snapshot = await self.project.find_run(run)
        return page(
            request,
            "retry.html.j2",
            code,
            title=f"Retry of {run}",
            run=run,
            job=snapshot.row.job,
            asked=asked,
            steps=step_ids(snapshot.state.plan),
            fields=_fields_of_run(snapshot, asked.inputs),
            error=error,
            outlook=outlook,
        )

    async def _retry(self, request: Request) -> Response:
        """Repeat a run as a form asks for it, and lead to the new run; or show what it would call."""
        run, form = _run_of(request), await request.form()
        asked = RetryForm.of(form)
        try:
            changed = await self._changed_inputs(run, asked)
            options = retry_options(asked.start, changed, only_failed=asked.only_failed)
            if form.get("do") == "show":
                outlook = await self.project.retry_outlook(run, options)
                return await self._retry_page(request, asked, outlook=outlook)
            led_to = await self.project.retry(run, signature(request, form.get("by")), options)
        except (CommandRefused, ValidationError) as error:
            reason, code = refusal_of(error)
            return await self._retry_page(request, asked, error=reason, code=code)
        return lead_to(request, f"/runs/{led_to}")

    async def _changed_inputs(self, run: RunId, asked: RetryForm) -> dict[str, str]:
        """Return the inputs that were typed otherwise than the run has them."""
        fields = _fields_of_run(await self.project.find_run(run), {})
        before = {field.name: field.value for field in fields}
        return {name: text for name, text in asked.inputs.items() if text != before.get(name)}

    async def _replay(self, request: Request) -> Response:
        """Answer with what is different in a replay of a run."""
        run = _run_of(request)
        try:
            printed = await self.project.replay(run)
        except CommandRefused as error:
            return await self._run_page(request, *refusal_of(error))
        return page(request, "replay.html.j2", title=f"Replay of {run}", run=run, printed=printed)


def _fields_of_run(snapshot: RunSnapshot, typed: Mapping[str, str]) -> list[InputField]:
    """Return the fields for the inputs of a run: those of its job, and those of its plan whose place
    they may take.
    """
    started, plan = snapshot.state.started, snapshot.state.plan or {}
    goal = Goal.model_validate({} if started is None else started.goal)
    own = {**as_object(plan.get("inputs")), **goal.inputs}
    return fields_of(own, goal.inputs_schema, typed)


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


async def events_of_run(project: ViewedProject, run: RunId) -> list[Event]:
    """Return the events of a run as they are journaled.

    Raises:
        RunNotFound: it has none.
    """
    events = await project.journal.load(run)
    if not events:
        raise RunNotFound(f"there is no run {run!r}")
    return events


def answer_missing(request: Request, error: Exception) -> Response:
    """Return the answer for a run that is not there, whatever page of it is asked for."""
    assert isinstance(error, RunNotFound)
    return page(request, "missing.html.j2", 404, title="No such run", error=f"{error.message}.")


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
            Route("/runs/{run}/logs", self._logs),
        ]

    async def _step(self, request: Request) -> Response:
        """Answer with one step: parameters, outputs, attempts with what they printed and raised,
        models, gates.
        """
        run, name = _run_of(request), request.path_params["step"]
        events = await self._events(run)
        state = fold(events)
        record = step_record(name, state, events)
        if record is None:
            raise HTTPException(404, f"run {run!r} has no step {name!r}")
        wanted = request.query_params.get("status", "")
        ended = [call for call in record.calls if wanted in {"", call[2].status}]
        shown = record.of_first(_MAX_CALLS, wanted)
        faults = {place[1]: fault for place, fault in state.faults.items() if place[0] == name}
        values = {
            "run": run,
            "record": shown,
            "ended": len(record.calls),
            "left_out": len(ended) - len(shown.calls),
            "faults": faults,
            "gates": [gate for gate in state.gates if gate.step == name],
            "redact": known_secrets_redactor(self.project.settings).redact_json,
        }
        return page(request, "step.html.j2", title=f"{name} of {run}", **values)

    async def _why(self, request: Request) -> Response:
        """Answer with how the confidence in a field of the result came about."""
        run, field = _run_of(request), request.path_params["field"]
        package = stored_package(fold(await self._events(run)))
        review = None if package is None else package.review
        if package is None or review is None:
            raise HTTPException(404, f"run {run!r} was not reviewed")
        reviewed = reviewed_field(package, review, field)
        if reviewed is None:
            raise HTTPException(404, f"run {run!r} has no confidence in a field {field!r}")
        proof = proof_of(package, review, reviewed)
        return page(request, "why.html.j2", title=f"Why {field} of {run}", run=run, proof=proof)

    async def _logs(self, request: Request) -> Response:
        """Answer with what the calls of a run printed, logged and raised, by step, item, level and
        text; of many lines with the last ones.
        """
        run, asked = _run_of(request), request.query_params
        try:
            wanted = _LOG_FILTER.validate_python(
                {name: value for name, value in asked.items() if value and name in _LOG_FIELDS}
            )
        except ValidationError as error:
            raise HTTPException(400, reason_of(error)) from error
        snapshot = await self.project.find_run(run)
        lines, _ = log_lines(await self._events(run))
        found = [line for line in lines if wanted.matches(line)]
        return page(
            request,
            "logs.html.j2",
            title=f"Logs of {run}",
            run=run,
            lines=found[-_MAX_LINES:],
            left_out=max(0, len(found) - _MAX_LINES),
            wanted=wanted,
            levels=LEVELS,
            steps=step_ids(snapshot.state.plan),
            is_live=snapshot.row.status == "running",
        )

    async def _messages(self, request: Request) -> Response:
        """Answer with what planner, workers and reviewer were asked, and what they answered."""
        run = _run_of(request)
        events = await self._events(run)
        return page(
            request,
            "messages.html.j2",
            title=f"Messages of {run}",
            run=run,
            messages=timed_messages(events),
            refused=refused_answers(fold(events)),
        )

    async def _events(self, run: RunId) -> list[Event]:
        return redacted_events(await events_of_run(self.project, run))
