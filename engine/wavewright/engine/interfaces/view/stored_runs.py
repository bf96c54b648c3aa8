"""What the live page reads of the journal: a page of the list of runs, and one run as it is now.

A run that somebody looks at is read again as its journal grows, once for all its viewers.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict
from sse_starlette.event import ServerSentEvent

from wavewright.engine.run.decisions.questions import (
    OpenQuestion,
    mark_waiting_runs,
    pending_question,
    run_now,
)
from wavewright.engine.run.target_waves import TargetWaves, target_waves
from wavewright.executor import RunState, fold
from wavewright.executor.events.state import step_ids
from wavewright.executor.store import run_queries
from wavewright.executor.store.errors import JournalUnreachable
from wavewright.executor.store.journal import ENDED_STATUSES, RunRow
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner import RunId
from wavewright.reviewer import Package
from wavewright.reviewer.package.builder import last_review, stored_package
from wavewright.reviewer.package.failures import FailedCall, failed_calls, group_failures
from wavewright.reviewer.package.log_lines import (
    NOTHING_SHOWN,
    LogLine,
    ShownLines,
    log_lines,
)
from wavewright.reviewer.report.page import LiveRun, render_run
from wavewright.reviewer.report.sub_plan_folding import Drawings
from wavewright.reviewer.values import grouped

PAGE_SIZE: Final = 50
LABEL_KINDS: Final = ("template", "model", "gate", "tag")
_MAX_LABELS: Final = 100
_MAX_LINES: Final = 12
"""Of the log, on the page of a run."""
_MAX_OUTCOMES: Final = 12
"""Of the last runs of a job."""
_MAX_PAGES_SEARCHED: Final = 40
"""Of runs that have not ended, for a page of those in one of their states, which the store does not
know by itself.
"""
_NOTHING: Final = Markup()
_PAUSE: Final = 0.3
"""Seconds between two looks at the journal, at least."""
_SHARE: Final = 3.0
"""A look that took long is followed by a pause that is this many times as long."""
_VERDICTS: Final = {
    "interrupted": ("Interrupted", "Nobody executes this run. `wavewright resume` continues it."),
    "waiting_for_answer": (
        "Waiting for an answer",
        "A question is open; the run continues after its answer.",
    ),
    "waiting_for_approval": (
        "Waiting for an approval",
        "A person is asked; the run continues after the answer.",
    ),
}


class RunList(BaseModel):
    """A page of the list of runs, the newest first."""

    runs: list[RunRow]
    next: RunId | None
    """The value of `before` for the runs that follow; null after the last one."""


class RunQuery(BaseModel):
    """Which runs are listed; what is empty does not count."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = ""
    """A part of the job's name or of the run's id."""
    status: str = ""
    template: str = ""
    """The goal template that the job names."""
    tag: str = ""
    """A tag of what the run makes."""
    gate: str = ""
    """A gate of the run's plan."""
    model: str = ""
    """A model that was called."""
    before: RunId | None = None
    """The run at which the page before ended."""

    @property
    def labels(self) -> list[tuple[str, str]]:
        """What the runs must have, the rarest kind first."""
        kinds = {"gate": self.gate, "tag": self.tag, "model": self.model, "template": self.template}
        return [(kind, value) for kind, value in kinds.items() if value]

    def at(self, before: RunId) -> str:
        """Return the address of the page that follows a run."""
        return "/?" + urlencode({**self.model_dump(exclude_defaults=True), "before": before})


async def page_of_runs(journal: StoredJournal, asked: RunQuery) -> RunList:
    """Return the newest runs that a query asks for."""
    found: list[RunRow] = []
    status, before = asked.status, asked.before
    stored = status if status in {"", *ENDED_STATUSES} else "interrupted"
    for _ in range(_MAX_PAGES_SEARCHED):
        rows = await journal.read(
            partial(
                run_queries.list_newest_runs,
                text=asked.text,
                status=stored,
                labels=asked.labels,
                before=before,
                limit=PAGE_SIZE,
            )
        )
        marked = await mark_waiting_runs(journal, rows, time.time())
        found += [row for row in marked if status in {"", row.status}]
        before = rows[-1].run if len(rows) == PAGE_SIZE else None
        if before is None or not status or len(found) >= PAGE_SIZE:
            break
    return RunList(runs=found, next=before)


def outcomes_of_jobs(rows: Sequence[RunRow]) -> dict[str, list[RunRow]]:
    """Return the last runs of each job on a page of the list, the oldest first."""
    of_jobs = grouped(rows, lambda row: row.job)
    return {job: runs[:_MAX_OUTCOMES][::-1] for job, runs in of_jobs.items()}


async def list_labels(journal: StoredJournal, kind: str) -> list[str]:
    """Return the first values of a kind of label that the journal knows."""
    return await journal.read(partial(run_queries.list_labels, kind=kind, limit=_MAX_LABELS))


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run as it is at some time."""

    row: RunRow
    events: int
    state: RunState

    read_at: float = field(compare=False)
    """Seconds since the epoch."""
    lines: tuple[LogLine, ...] = ()
    """The last ones that its calls have printed."""
    shown: ShownLines = NOTHING_SHOWN

    @property
    def version(self) -> str:
        """What changes whenever something of the run does, and as it grows older."""
        return _version(self.row, self.events, self.read_at)

    @property
    def package(self) -> Package | None:
        """The package as far as the run has come; None before there is a plan."""
        now = run_now(self.state, self.row.status, self.read_at, self.row.given_up)
        return stored_package(self.state, now)

    @property
    def question(self) -> OpenQuestion | None:
        """What the run asks a person."""
        return pending_question(self.state, self.read_at)

    @property
    def failures(self) -> list[tuple[FailedCall, ...]]:
        """The calls that have failed, in groups of one error."""
        return group_failures(failed_calls(self.state))

    @property
    def has_ended(self) -> bool:
        """Whether nothing can follow."""
        return self.row.finished is not None and self.row.status in ENDED_STATUSES

    @property
    def targets(self) -> TargetWaves | None:
        """Of a run with several targets, how far they are."""
        return target_waves(self.state)

    def html(
        self,
        base: str,
        drawings: Drawings,
        question: Markup = _NOTHING,
        failures: Markup = _NOTHING,
    ) -> str | None:
        """Return the run as a fragment of the page, whose links begin with `base`, with what is
        asked and what has failed; None before there is a plan.
        """
        package = self.package
        if package is None:
            return None
        verdict = _VERDICTS.get(self.row.status)
        if self.row.status == "running":
            verdict = "Running", _work_now(self.state)
        live = None if verdict is None else LiveRun(*verdict)
        links = f"{base}/runs/{self.row.run}"
        return render_run(
            package, live, links=links, drawings=drawings, question=question, failures=failures
        )


def _work_now(state: RunState) -> str:
    """Return what a run is at work with, beside its steps."""
    review = last_review(state)
    if review is not None and review.round == state.round and not review.goal_achieved:
        return "The goal is not achieved so far; a patch of the plan is being made."
    if all(step in state.steps for step in step_ids(state.plan)):
        return "The steps have ended; what came of them is being reviewed."
    if state.round:
        return f"The steps of recovery round {state.round} are at work."
    return "This page follows the run."


def _version(row: RunRow, events: int, at: float) -> str:
    """Return what changes whenever something of a run does, and each time that it has run for a
    quarter longer: the scale of its drawing is made anew.
    """
    age = int(math.log(max(1.0, at - row.started), 1.25)) if row.status == "running" else 0
    return f"{events}-{row.status}-{age}" + ("-given_up" if row.given_up else "")


async def read_run(
    journal: StoredJournal, run: RunId, *, unless: str = "", known: RunSnapshot | None = None
) -> RunSnapshot | None:
    """Return a run as it is now; None where its version is `unless` or that of `known`, or there is
    no such run.

    Of a run that is `known` only the events are read that have come since.
    """
    found = await journal.read(partial(run_queries.find_row, run=run))
    if found is None:
        return None
    row, events = found
    [row] = (
        await mark_waiting_runs(journal, [row], time.time())
        if row.status == "interrupted"
        else [row]
    )
    now = time.time()
    if _version(row, events, now) in {unless, "" if known is None else known.version}:
        return None
    before = 0 if known is None else known.events
    new = await journal.read(partial(run_queries.load, run=run, after=before))
    state = fold(new, None if known is None else known.state)
    lines, shown = log_lines(new, NOTHING_SHOWN if known is None else known.shown)
    last = (*(() if known is None else known.lines), *lines)[-_MAX_LINES:]
    return RunSnapshot(row, before + len(new), state, now, last, shown)


_RenderSnapshot = Callable[[RunSnapshot, Drawings], str]


@dataclass(frozen=True, slots=True)
class RunFragment:
    """A run as it is sent to a browser, whole."""

    version: str
    html: str
    message: bytes
    """The server-sent event, the same bytes for all viewers."""
    is_last: bool
    """Whether the run has ended."""

    def message_in_stream_of_many(self, run: RunId, drawings: Drawings) -> bytes:
        """Return the server-sent event of a stream of several runs: its id names the run."""
        name = f"{run} {drawings} {self.version}"
        return ServerSentEvent(self.html, event=_kind(is_last=self.is_last), id=name).encode()


@dataclass(slots=True)
class _Watch:
    fragment: RunFragment | None = None
    changed: anyio.Event = field(default_factory=anyio.Event)
    viewers: int = 0

    def set(self, fragment: RunFragment) -> None:
        self.fragment = fragment
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


class RunWatches:
    """The runs that are looked at."""

    def __init__(self, journal: StoredJournal, group: TaskGroup, render: _RenderSnapshot) -> None:
        """Watch nothing yet.

        Args:
            journal: Where the runs are.
            group: In which they are read while somebody looks.
            render: Makes the fragment; called in a thread.
        """
        self._journal = journal
        self._group = group
        self._render = render
        self._watches: dict[tuple[RunId, Drawings], _Watch] = {}

    async def fragments(
        self, run: RunId, seen: str = "", drawings: Drawings = "folded"
    ) -> AsyncGenerator[RunFragment]:
        """Yield the run as it is and each time that it has changed, until it has ended.

        Args:
            run: The run.
            seen: Version that the viewer has, which is not yielded again.
            drawings: Which the viewer looks at.
        """
        watch = self._watches.get((run, drawings))
        if watch is None:
            watch = self._watches[run, drawings] = _Watch()
            self._group.start_soon(self._watch, run, drawings, watch)
        watch.viewers += 1
        try:
            while True:
                changed, fragment = watch.changed, watch.fragment
                if fragment is not None and fragment.version != seen:
                    seen = fragment.version
                    yield fragment
                if fragment is not None and fragment.is_last:
                    return
                if watch.fragment is fragment:
                    await changed.wait()
        finally:
            watch.viewers -= 1

    async def _watch(self, run: RunId, drawings: Drawings, watch: _Watch) -> None:
        known: RunSnapshot | None = None
        while watch.viewers:
            began = time.monotonic()
            # A database that is away for a while ends no stream.
            snapshot = None
            with suppress(JournalUnreachable):
                snapshot = await read_run(self._journal, run, known=known)
            if snapshot is not None:
                known = snapshot
                watch.set(await anyio.to_thread.run_sync(self._fragment, snapshot, drawings))
                if snapshot.has_ended:
                    break
            await anyio.sleep(max(_PAUSE, _SHARE * (time.monotonic() - began)))
        del self._watches[run, drawings]

    def _fragment(self, snapshot: RunSnapshot, drawings: Drawings) -> RunFragment:
        html, is_last = self._render(snapshot, drawings), snapshot.has_ended
        event = ServerSentEvent(html, event=_kind(is_last=is_last), id=snapshot.version)
        return RunFragment(snapshot.version, html, event.encode(), is_last)


def _kind(*, is_last: bool) -> str:
    return "ended" if is_last else "changed"
