"""The journal's port, an implementation in memory, the hash chain of events, and run ids.

A *journal* keeps the events of every run in the order of their appends. `load` always returns a
prefix of what was appended: after a failed append every later append to that run fails, until the
run is opened again. `MemoryJournal` gives the same guarantees for as long as the process lives.

The *hash chain* shows what was changed or cut afterwards. The hash of an event is the SHA-256 of the
hash before it, the event's kind and its text, as both stand in the journal; before the first event
stands the hash of the run's id. The hash of the last event, with the number of events, is the run's
*head*. It is stored apart from the events, so that a cut is seen as well, and goes into packages and
receipts, so that a journal which was rewritten as a whole is seen by who has one of these.
`docs/explanation/trust.md` says what this shows, and what it does not.

A *run id* is the time of creation and six random characters, `20261121-231907-3f2a7c`: ids sort by
time, and the tail is enough to name a run. A prefix of either part that fits several runs is
refused.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, TypeAlias

from wavewright.executor.events.codec import encode
from wavewright.executor.events.state import step_ids
from wavewright.executor.events.types import (
    Event,
    ItemFinished,
    Noted,
    PlanAccepted,
    RunFinished,
    RunStarted,
    StepFinished,
)
from wavewright.executor.store.errors import RunBusy, RunNotFound
from wavewright.planner import Json, RunId, StepId, StepKey

if TYPE_CHECKING:
    from wavewright.executor.store.transaction import Alongside


RunStatus: TypeAlias = Literal[
    "running",
    "achieved",
    "not_achieved",
    "failed",
    "interrupted",
    "cancelled",
    "waiting_for_approval",
    "waiting_for_answer",
]
"""`running` while its owner lives; a run without an owner that never finished is `interrupted`.

What a run waits for is no concern of a store's: it gives such a run as `interrupted`.
"""

REVIEWED_STATUSES: Final[tuple[RunStatus, ...]] = ("achieved", "not_achieved")
"""Of runs of which no step is open."""
ENDED_STATUSES: Final[tuple[RunStatus, ...]] = ("achieved", "not_achieved", "failed", "cancelled")
"""Of runs that nothing can follow."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in a list of runs."""

    run: RunId
    job: str
    status: RunStatus
    started: float
    finished: float | None
    steps: int
    """Steps that have ended, by their last ending; of a run that has not ended, those of its plan."""
    ok: int
    """Of these: ok, empty or reused."""
    failed: int
    owner: str | None = None
    """Who has it open, for people: `pid 4711 on ada`."""
    tokens: int = 0
    """Tokens of models that the budget store beside the journal counts for it, reserved ones
    included.
    """
    usd: float = 0.0
    """What they cost, as far as prices are known."""
    given_up: str = ""
    """Why no daemon goes on with it, where its job was given up; only of a run that was asked for."""


def first_hash(run: RunId) -> bytes:
    """Return what stands before the first event of a run in its hash chain."""
    return sha256(run.encode("utf-8", "surrogatepass")).digest()


def next_hash(before: bytes, kind: str, body: str) -> bytes:
    """Return the hash of an event, given the hash before it, its kind and its text in ASCII."""
    # A kind holds no line break, so no two pairs of kind and text give the same bytes.
    return sha256(b"%b%b\n%b" % (before, kind.encode(), body.encode("ascii"))).digest()


@dataclass(frozen=True, slots=True)
class RunHead:
    """The end of a run's hash chain, which stands for all of its events up to there."""

    events: int
    """How many there are."""
    hash: str
    """Of the last one, as 64 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """A request to cancel a run."""

    by: str
    at: float


@dataclass(frozen=True, slots=True)
class LeftAnswer:
    """An answer to a question of a run that another process has open: its owner takes it."""

    nonce: str
    """Of the question."""
    choice: str
    by: str


def new_run_id(now: float, random: Callable[[int], bytes] = secrets.token_bytes) -> RunId:
    """Return a new run id for that instant, in UTC.

    Args:
        now: Seconds since the epoch.
        random: Gives so many random bytes.

    >>> from wavewright.executor import new_run_id
    >>> new_run_id(0.0, bytes)
    '19700101-000000-000000'
    """
    return RunId(f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{random(3).hex()}")


def match_run(prefix: str, runs: Iterable[RunId], *, place: str = "") -> RunId:
    """Return the one run whose id, or whose tail after the last `-`, starts with `prefix`.

    Raises:
        RunNotFound: none does, or several do; names the near ones.
    """
    known = sorted(runs)
    if not known:
        raise RunNotFound(
            "this journal has no runs yet", place=place, hint="`wavewright run JOB` makes one"
        )
    if prefix in known:
        return RunId(prefix)
    matching = [run for run in known if prefix and _starts(run, prefix)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise RunNotFound(
            f"{len(matching)} runs start with {prefix!r}: {_some_ids(matching)}",
            place=place,
            hint="type more of the id",
        )
    raise RunNotFound(
        f"no run starts with {prefix!r}", place=place, hint=_suggestion(prefix, known)
    )


def _starts(run: RunId, prefix: str) -> bool:
    start = prefix.lower()
    return run.lower().startswith(start) or run.lower().rpartition("-")[2].startswith(start)


def _some_ids(runs: list[RunId], most: int = 5) -> str:
    # The newest are what people look for.
    shown = ", ".join(reversed(runs[-most:]))
    return shown if len(runs) <= most else f"{shown} and {len(runs) - most} more"


def _suggestion(prefix: str, known: list[RunId]) -> str:
    tails = {run.rpartition("-")[2]: run for run in known}
    near = difflib.get_close_matches(prefix, known, n=3)
    near += [
        tails[tail]
        for tail in difflib.get_close_matches(prefix, tails, n=3)
        if tails[tail] not in near
    ]
    if near:
        return f"did you mean {', '.join(near[:3])}?"
    return f"`wavewright runs` lists them; the newest is {known[-1]}"


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """A step's output, as some run journaled it."""

    run: RunId
    step: StepId
    key: StepKey
    at: float
    status: Literal["ok", "empty"]
    output: Json


class Journal(Protocol):
    """Where events go and come back from."""

    async def open_run(self, run: RunId) -> None:
        """Become the run's one owner, new or to be resumed; an `append` to a run not yet opened
        does so as well.

        Raises:
            RunBusy: another process has it open.
        """
        ...

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        """Write the events at the end of the run; what is returned is done once they are durable.

        Calls of one tick of the event loop are committed together. Not awaiting is allowed; a
        failure then shows at the next append. What is given alongside is written in the same
        transaction as the events, or neither is.

        Raises:
            JournalError: when awaited, or at once for events that are not JSON.
        """
        ...

    async def close_run(self, run: RunId) -> None:
        """Give the run up, so that another process may open it."""
        ...

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order; none for a run that does not exist."""
        ...

    async def head(self, run: RunId) -> RunHead:
        """Return the head of the run's hash chain, after all that was appended before."""
        ...

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest whole and unblocked output that any run journaled under the key."""
        ...

    async def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        ...

    async def list_achieved(
        self, job: str, origin: str, *, before: RunId | None = None, limit: int
    ) -> list[RunRow]:
        """Return the achieved runs of a job that were begun last, the newest first.

        Args:
            job: The job's name.
            origin: Its file; empty for one that has none.
            before: Only runs that were begun before this one.
            limit: Maximum number of runs.
        """
        ...

    async def list_retries(self, origin: RunId) -> list[RunRow]:
        """Return the runs that retry a run, directly or through others, the newest first."""
        ...

    async def find_run(self, prefix: str) -> RunId:
        """Return the run whose id or tail starts so.

        Raises:
            RunNotFound: none does, or several do.
        """
        ...

    async def aclose(self) -> None:
        """Write what is pending, give up all runs and close; closing again does nothing."""
        ...


class BorrowedJournal:
    """A journal over another one, which whoever opened it closes; what is read is read there, and a
    subclass says what is written.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order."""
        return await self._journal.load(run)

    async def head(self, run: RunId) -> RunHead:
        """Return the head of the run's hash chain."""
        return await self._journal.head(run)

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest output under the key."""
        return await self._journal.find_output(key)

    async def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        return await self._journal.list_runs()

    async def list_achieved(
        self, job: str, origin: str, *, before: RunId | None = None, limit: int
    ) -> list[RunRow]:
        """Return the achieved runs of a job that were begun last, the newest first."""
        return await self._journal.list_achieved(job, origin, before=before, limit=limit)

    async def list_retries(self, origin: RunId) -> list[RunRow]:
        """Return the runs that retry a run, directly or through others, the newest first."""
        return await self._journal.list_retries(origin)

    async def find_run(self, prefix: str) -> RunId:
        """Return the run whose id or tail starts so."""
        return await self._journal.find_run(prefix)

    async def aclose(self) -> None:
        """Do nothing."""


def reusable_output(run: RunId, event: Event) -> StoredOutput | None:
    """Return the event's output as other runs may take it, if they may."""
    if not isinstance(event, StepFinished | ItemFinished) or event.status not in ("ok", "empty"):
        return None
    key = reusable_key(event)
    return (
        None
        if key is None
        else StoredOutput(run, event.step, key, event.at, event.status, event.output)
    )


def reusable_key(event: StepFinished | ItemFinished) -> StepKey | None:
    """Return the key under which other runs may take the event's output, if they may.

    They may not where items are missing, a block gate failed or a secret was withheld: the next run
    should call the tool again.
    """
    if event.status not in ("ok", "empty") or event.withheld:
        return None
    if isinstance(event, StepFinished):
        if event.items is not None and event.items[0] < event.items[1]:
            return None
        if event.gates and any(
            gate.has_failed and gate.severity == "block" for gate in event.gates
        ):
            return None
    return event.cache_key


class MemoryJournal:
    """A journal that lives as long as the process.

    >>> import anyio
    >>> from wavewright.executor import MemoryJournal, StepStarted
    >>> async def kept() -> int:
    ...     async with MemoryJournal() as journal:
    ...         await journal.open_run("r1")
    ...         await journal.append("r1", [StepStarted(1.0, "a")])
    ...         return len(await journal.load("r1"))
    >>> anyio.run(kept)
    1
    """

    def __init__(self) -> None:
        self.alongside: list[tuple[RunId, Alongside]] = []
        """What was given alongside events, in its order: there is no database in memory that would
        take its rows.
        """
        self._events = dict[RunId, list[Event]]()
        self._outputs = dict[StepKey, StoredOutput]()
        self._hashed = dict[RunId, tuple[int, bytes]]()
        """How many events of a run are hashed, and the last hash: made when a head is asked for."""
        self._opened = set[RunId]()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def open_run(self, run: RunId) -> None:
        """Become the run's one owner."""
        if run in self._opened:
            raise RunBusy(f"run {run!r} is open already in this process", hint="wait for it to end")
        self._opened.add(run)
        self._events.setdefault(run, [])

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        """Keep the events; what is returned is done."""
        if alongside is not None:
            self.alongside.append((run, alongside))
        known = self._events.get(run)
        if known is None:
            known = self._events[run] = []
        self._opened.add(run)
        known.extend(events)
        for event in events:
            if (stored := reusable_output(run, event)) is not None:
                self._outputs[stored.key] = stored
        return COMPLETED

    async def close_run(self, run: RunId) -> None:
        """Give the run up."""
        self._opened.discard(run)

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order."""
        return list(self._events.get(run, ()))

    async def head(self, run: RunId) -> RunHead:
        """Return the head of the run's hash chain, the same as that of a journal in a file."""
        count, link = self._hashed.get(run, (0, first_hash(run)))
        events = self._events.get(run, [])
        for event in events[count:]:
            link = next_hash(link, *encode(event))
        self._hashed[run] = (len(events), link)
        return RunHead(len(events), link.hex())

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest output under the key."""
        return self._outputs.get(key)

    async def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        rows = [
            _with_planned(summarize_run(run, events, is_owned=run in self._opened), events)
            for run, events in self._events.items()
        ]
        return sorted(rows, key=lambda row: (row.started, row.run), reverse=True)

    async def list_achieved(
        self, job: str, origin: str, *, before: RunId | None = None, limit: int
    ) -> list[RunRow]:
        """Return the achieved runs of a job that were begun last, the newest first."""
        runs = [*reversed(self._events)]
        if before is not None:
            runs = runs[runs.index(before) + 1 :]
        rows = (
            summarize_run(run, self._events[run], is_owned=run in self._opened)
            for run in runs
            if (start := self._start_of(run)) is not None
            and (start.job, start.goal.get("origin", "")) == (job, origin)
        )
        return [*islice((row for row in rows if row.status == "achieved"), limit)]

    async def list_retries(self, origin: RunId) -> list[RunRow]:
        """Return the runs that retry a run, directly or through others, the newest first."""
        return [
            summarize_run(run, self._events[run], is_owned=run in self._opened)
            for run in reversed(self._events)
            if (start := self._start_of(run)) is not None
            and start.retry is not None
            and start.retry.origin == origin
        ]

    def _start_of(self, run: RunId) -> RunStarted | None:
        first = next(iter(self._events[run]), None)
        return first if isinstance(first, RunStarted) else None

    async def find_run(self, prefix: str) -> RunId:
        """Return the run whose id or tail starts so."""
        return match_run(prefix, self._events, place="the journal in memory")

    async def aclose(self) -> None:
        """Give up all runs."""
        self._opened.clear()


class _Completed:
    """An awaitable that is done; one for all, since it has no state."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


COMPLETED: Final[Awaitable[None]] = _Completed()
"""What an append returns that needed no waiting."""


def run_status(ended: RunStatus | None, *, is_owned: bool) -> RunStatus:
    """Return how a run stands, from how it last ended and whether a process has it open."""
    if ended is None or ended == "interrupted":
        return "running" if is_owned else "interrupted"
    return ended


def _with_planned(row: RunRow, events: Sequence[Event]) -> RunRow:
    """Return a row that counts the steps of the plan that were still to come at the run's end, too."""
    planned = [len(step_ids(event.plan)) for event in events if isinstance(event, PlanAccepted)]
    if row.status in REVIEWED_STATUSES or not planned:
        return row
    return replace(row, steps=max(row.steps, planned[-1]))


def summarize_run(run: RunId, events: Sequence[Event], *, is_owned: bool) -> RunRow:
    """Return the list row of a run from its events."""
    job, started, finished = "", 0.0, None
    ended: RunStatus | None = None
    last, planned = dict[StepId, str](), 0
    for event in events:
        match event:
            case RunStarted():
                job, started = event.job, event.at
            case PlanAccepted():
                planned = len(step_ids(event.plan))
            case StepFinished():
                last[event.step] = event.status
            case RunFinished():
                ended, finished = event.status, event.at
                continue
            case Noted():
                continue
            case _:
                pass
        # It did more than take a note after it ended: it was resumed.
        ended, finished = None, None
    statuses = list(last.values())
    status = run_status(ended, is_owned=is_owned)
    return RunRow(
        run=run,
        job=job,
        status=status,
        started=started,
        finished=finished,
        steps=len(statuses) if status in ENDED_STATUSES else max(planned, len(statuses)),
        ok=sum(status in ("ok", "empty", "reused") for status in statuses),
        failed=statuses.count("failed"),
    )
