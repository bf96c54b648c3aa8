"""Retention: removal of ended runs.

Runs that name each other (a job and its targets, a run and its retries) form a *group*, which is
removed in one transaction once each of its runs may be: it has ended, its lease is not held, and
nobody else still needs it. Model costs stay counted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import anyio

from wavewright.executor.store.journal import ENDED_STATUSES
from wavewright.executor.store.leases import judge_lease, read_lease
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.store.transaction import LAST_ORDER, Row, StoreTransaction
from wavewright.planner import Json, RunId, as_object

_HAS_ENDED: Final = f"status IN {ENDED_STATUSES}"
"""Of a run: nothing can follow."""

LINKS_PAGE_SIZE: Final = 5_000
"""Events that are searched for links in one transaction, so that no other waits long for the store.
"""
_LINKING_EVENTS: Final = """
    (kind = 'noted' AND body LIKE '%"run":%' OR kind = 'run_started' AND body LIKE '%"retry":{%')"""
"""Events in which a link may be; read further by `_links_in`."""
_PAGE: Final = f"SELECT max(id) FROM (SELECT id FROM event WHERE id > $1 ORDER BY id LIMIT {LINKS_PAGE_SIZE}) AS page"  # noqa: S608
_LAST: Final = 2**63 - 1
_PAUSE_SECONDS: Final = 0.02
"""Between two transactions, for those who wait for the store."""

RunLink: TypeAlias = tuple[RunId, RunId]
"""A run, and one that its events name: the run that it repeats, or that of a target."""
RunGroup: TypeAlias = tuple[RunId, ...]


@dataclass(frozen=True, slots=True)
class RemovedGroup:
    """A group that was removed."""

    runs: RunGroup
    bytes: int
    """Of its events."""


class RunRemoval:
    """The removing side of an open journal.

    A trigger refuses to delete events of a run that exists, so a run's own row goes first and its
    events after it, in one transaction: no part of a run can be removed.
    """

    def __init__(self, journal: StoredJournal, is_needed: str = "false") -> None:
        """Remove runs of an open journal.

        Args:
            journal: The journal.
            is_needed: A condition of SQL on a row of `run`: whether others in the database still
                need that run.
        """
        self._journal = journal
        self._is_needed = is_needed

    async def removable(self, before: float) -> list[RunId]:
        """Return runs that ended before an instant, have no holder and are not needed, the oldest
        first.
        """

        async def ask(transaction: StoreTransaction) -> list[RunId]:
            query = f"{_removable(transaction, self._is_needed)} ORDER BY finished, run.no"
            rows = await transaction.fetch(query, before)
            return [RunId(row[9]) for row in rows if _is_free(row, transaction)]

        return await self._journal.read(ask)

    async def links(self, after: int) -> tuple[list[RunLink], int | None]:
        """Return the links in the next events after one, and where to go on; None where no event is
        left.
        """

        async def ask(transaction: StoreTransaction) -> tuple[list[RunLink], int | None]:
            ((last,),) = await transaction.fetch(_PAGE, after)
            return await _links(transaction, after, last) if last is not None else [], last

        return await self._journal.read(ask)

    async def remove(self, runs: RunGroup, before: float, read_up_to: int) -> int | None:
        """Remove all of the runs in one transaction and return the bytes of their events.

        Args:
            runs: A group.
            before: As for `removable`.
            read_up_to: The last event whose links are known; later ones are read again.

        Returns:
            None where nothing was removed: one of the runs may not be, or not any more.
        """
        # Rows that others have locked are skipped, so that this never waits.
        work = partial(
            _remove, is_needed=self._is_needed, runs=runs, before=before, read_up_to=read_up_to
        )
        return await self._journal.transact(work, order=LAST_ORDER)


def _removable(transaction: StoreTransaction, is_needed: str) -> str:
    return f"""
        SELECT {transaction.lease_columns}, run.run, run.no, clock_seconds()
        FROM run {transaction.lease_join}
        WHERE {_HAS_ENDED} AND finished < $1 AND NOT ({is_needed})"""  # noqa: S608 - constants


async def _remove(
    transaction: StoreTransaction, is_needed: str, runs: RunGroup, before: float, read_up_to: int
) -> int | None:
    in_list, skip_locked = transaction.in_list("$2", "text"), transaction.skip_locked("run")
    query = f"{_removable(transaction, is_needed)} AND run.run {in_list}{skip_locked}"
    locked = await transaction.fetch(query, before, list(runs))
    numbers = [row[10] for row in locked if _is_free(row, transaction)]
    if len(numbers) < len(runs):
        return None
    group = set(runs)
    if any(
        (run in group) != (other in group)
        for run, other in await _links(transaction, read_up_to, _LAST)
    ):
        return None
    where = transaction.in_list("$1", "bigint")
    size = f"SELECT coalesce(sum(length({transaction.body_bytes})), 0) FROM event WHERE run {where}"  # noqa: S608
    ((removed,),) = await transaction.fetch(size, numbers)
    # What is left of a run is its head: who has a receipt of it can still compare the two.
    await transaction.execute(
        f"""INSERT INTO removed_run (run, events, hash, removed)
            SELECT run.run, run_head.events, run_head.hash, clock_seconds()
            FROM run JOIN run_head ON run_head.run = run.no WHERE run.no {where}
            ON CONFLICT (run) DO UPDATE SET events = EXCLUDED.events, hash = EXCLUDED.hash,
                                            removed = EXCLUDED.removed""",  # noqa: S608 - constants
        numbers,
    )
    await transaction.execute(f"DELETE FROM run_head WHERE run {where}", numbers)  # noqa: S608 - constants
    await transaction.execute(f"DELETE FROM run WHERE no {where}", numbers)  # noqa: S608 - constants
    await transaction.execute(f"DELETE FROM run_label WHERE run {where}", numbers)  # noqa: S608 - constants
    await transaction.delete_events(numbers)
    return int(removed)


def _is_free(row: Row, transaction: StoreTransaction) -> bool:
    lease, now = read_lease(row[:9]), row[11]
    return (
        lease is None
        or judge_lease(lease, now=now, pid_namespace=transaction.owner.pid_namespace) == "free"
    )


async def _links(transaction: StoreTransaction, after: int, last: int) -> list[RunLink]:
    query = f"""
        SELECT run.run, kind, {transaction.body_bytes} FROM event JOIN run ON run.no = event.run
        WHERE event.id > $1 AND event.id <= $2 AND {_LINKING_EVENTS}"""  # noqa: S608 - constants
    return _links_in(await transaction.fetch(query, after, last))


def _links_in(rows: Iterable[Row]) -> list[RunLink]:
    """Return the links in the bodies of events, given as run, kind and body; one that is damaged
    has none.
    """
    return [
        (RunId(run), other)
        for run, kind, body in rows
        if (other := _linked_run(kind, body)) is not None
    ]


def _linked_run(kind: str, body: bytes) -> RunId | None:
    try:
        value: Json = json.loads(body)
    except (ValueError, RecursionError):
        return None
    link = as_object(value).get("body" if kind == "noted" else "retry")
    run = as_object(link).get("run")
    return RunId(run) if isinstance(run, str) else None


async def find_groups(
    removal: RunRemoval, before: float, spared: Collection[RunId] = ()
) -> tuple[list[RunGroup], int]:
    """Return the groups that may be removed, and the last event that was looked at for links.

    Args:
        removal: Of the journal.
        before: Runs that ended before this instant, in seconds since the epoch, are old enough.
        spared: Runs that are kept however old they are.

    Raises:
        JournalError: the journal cannot be read.
    """
    removable = [run for run in await removal.removable(before) if run not in spared]
    links, read_up_to = list[RunLink](), 0
    while removable:
        page, last = await removal.links(read_up_to)
        if last is None:
            break
        links += page
        read_up_to = last
        await anyio.sleep(_PAUSE_SECONDS)
    return _groups(removable, links), read_up_to


async def remove_groups(
    removal: RunRemoval, before: float, spared: Collection[RunId] = ()
) -> AsyncGenerator[RemovedGroup]:
    """Remove the groups that may be removed, each in a transaction of its own, and tell of each.

    The arguments are those of `find_groups`.

    Raises:
        JournalError: the journal cannot be read or written; the groups that were returned are
            removed.
    """
    groups, read_up_to = await find_groups(removal, before, spared)
    for group in groups:
        size = await removal.remove(group, before, read_up_to)
        if size is not None:
            yield RemovedGroup(group, size)
        await anyio.sleep(_PAUSE_SECONDS)


def _groups(removable: Sequence[RunId], links: Iterable[RunLink]) -> list[RunGroup]:
    """Return the groups of which every run may be removed, in the order of their first runs."""
    linked = defaultdict[RunId, list[RunId]](list)
    for reader, read in links:
        linked[reader].append(read)
        linked[read].append(reader)
    allowed, seen, groups = set(removable), set[RunId](), list[RunGroup]()
    for run in removable:
        if run in seen:
            continue
        group, to_visit = list[RunId](), [run]
        seen.add(run)
        while to_visit:
            group.append(to_visit.pop())
            fresh = {*linked[group[-1]]} - seen
            seen |= fresh
            to_visit += fresh
        if allowed.issuperset(group):
            groups.append(tuple(sorted(group)))
    return groups
