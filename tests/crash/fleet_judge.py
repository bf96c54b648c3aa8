"""What must be true, beside all that the oracle wants, where workers of a fleet make the calls.

A *hit* is the time in which a worker was killed, frozen or asked to stop: only a call that this
worker had begun may be made again for it. Neither the death of a coordinator nor a broken
connection excuses a second call. The *recorder* is a set of triggers in the database, which see
each write to the fleet's tables, whoever writes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Final

from tests.crash.crash_project import Called
from tests.crash.oracle import Findings, begins_post, is_without_result, violations
from wavewright.executor.events.types import TOOL_EVENT, Noted

MOST_DEATHS: Final = 3
"""Workers that one call may end."""

BUGS: Final = {
    "calls that each coordinator names anew": ("replace", "I4: keep of job"),
    "answers of workers that were lost": ("freeze", "I8: the call"),
}
"""The fault by which a bug is found, and what is found."""

RECORDER: Final = """
    CREATE TABLE public.recorded (call text NOT NULL, what text NOT NULL);
    GRANT ALL ON public.recorded TO public;
    CREATE FUNCTION public.record_call() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF old.answer IS NOT NULL AND new.answer IS DISTINCT FROM old.answer THEN
            INSERT INTO public.recorded VALUES (old.id, 'was answered a second time');
        ELSIF old.begun IS NOT NULL AND new.begun IS DISTINCT FROM old.begun THEN
            INSERT INTO public.recorded VALUES (old.id, 'was begun a second time');
        END IF;
        RETURN new;
    END $$;
    CREATE TRIGGER recorder BEFORE UPDATE ON wavewright_fleet.call
        FOR EACH ROW EXECUTE FUNCTION public.record_call();
    CREATE FUNCTION public.record_emission() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NOT EXISTS (SELECT FROM wavewright_fleet.call WHERE id = new.call AND answer IS NULL) THEN
            INSERT INTO public.recorded VALUES (new.call, 'emitted something after its answer');
        END IF;
        RETURN new;
    END $$;
    CREATE TRIGGER recorder BEFORE INSERT ON wavewright_fleet.emission
        FOR EACH ROW EXECUTE FUNCTION public.record_emission();
"""
READ_RECORDER: Final = "SELECT call, what, count(*) FROM public.recorded GROUP BY call, what"
READ_LEFT: Final = """
    SELECT 'calls', count(*) FROM wavewright_fleet.call WHERE answer IS NULL
    UNION ALL SELECT 'jobs of the queue', count(*) FROM wavewright_fleet.pgqueuer
    UNION ALL SELECT 'goals', count(*) FROM wavewright_fleet.goal
    UNION ALL SELECT 'emissions', count(*) FROM wavewright_fleet.emission"""


@dataclass(frozen=True)
class Hit:
    """What happened to a worker, from its beginning to its end."""

    process: int
    begun: float
    ended: float


@dataclass(frozen=True)
class FleetFindings:
    """What can be seen of a fleet."""

    found: Findings
    hits: Sequence[Hit]
    workers: Sequence[int]
    """The processes of all workers that there were."""
    recorded: Sequence[tuple[object, ...]] = ()
    left: Sequence[tuple[object, ...]] = ()
    """How many rows of each kind are left after the last job has ended."""


def fleet_violations(fleet: FleetFindings) -> list[str]:
    """Return what is broken, the oracle's findings first; nothing where all is well."""
    of_oracle = [one for one in violations(fleet.found) if not one.startswith("I4: a step")]
    return [
        *of_oracle,
        *_begun_again(fleet),
        *_in_doubt(fleet),
        *_elsewhere(fleet),
        *_emissions(fleet),
        *(f"I8: the call {call} {what} ({times} times)" for call, what, times in fleet.recorded),
        *(f"I13: {count} {kind} are left" for kind, count in fleet.left if count),
    ]


def _begun_again(fleet: FleetFindings) -> Iterable[str]:
    for (job, key), starts in _starts(fleet).items():
        tool = starts[0].tool
        for before, after in pairwise(starts):
            if not _is_hit(fleet, before.process, before.at, after.at):
                yield f"I4: {tool} of job {job} was called again, and its worker was well (key {key})"
        if len(starts) > MOST_DEATHS:
            yield f"I10: {tool} of job {job} was called {len(starts)} times (key {key})"
        if tool == "post" and len(starts) > 1:
            yield f"I5: post of job {job} was called {len(starts)} times, which may not be repeated"


def _in_doubt(fleet: FleetFindings) -> Iterable[str]:
    """Yield jobs without a result, though nothing happened to who had the call that may not be
    repeated.

    That is its worker or, after it was journaled that it begins and before it was sent, its
    coordinator.
    """
    posts = {
        job: starts[0] for (job, _), starts in _starts(fleet).items() if starts[0].tool == "post"
    }
    harmful = {call.job for call in fleet.found.ledger if call.tool == "poison"}
    for row in fleet.found.rows:
        if not is_without_result(fleet.found, row) or row.job in harmful:
            continue
        post, begins = posts.get(row.job), begins_post(fleet.found, row.job)
        if post is not None and not _is_hit(fleet, post.process, post.at, inf):
            yield f"I10: job {row.job} {row.state} without its result, and the worker of its post was well"
        if post is None and begins is not None and max(fleet.found.crashes, default=-inf) < begins:
            yield f"I10: job {row.job} {row.state} without its result, and its coordinator was well"


def _elsewhere(fleet: FleetFindings) -> Iterable[str]:
    for call in fleet.found.ledger:
        if call.process not in fleet.workers:
            yield f"I8: {call.tool} of job {call.job} was called outside the fleet"


def _emissions(fleet: FleetFindings) -> Iterable[str]:
    """Yield jobs whose journal has more log events of `gather` than it had effects, or fewer than
    it had steps.
    """
    effects = Counter(
        call.job for call in fleet.found.ledger if (call.tool, call.event) == ("gather", "effect")
    )
    steps = Counter({call.job: 0 for call in fleet.found.ledger})
    steps.update(job for (job, _), starts in _starts(fleet).items() if starts[0].tool == "gather")
    for row in fleet.found.rows:
        told = sum(
            isinstance(event, Noted) and event.topic == TOOL_EVENT
            for event in fleet.found.events.get(row.job, ())
        )
        if row.state == "completed" and not steps[row.job] <= told <= effects[row.job]:
            yield (
                f"I12: job {row.job} has {told} log events of {steps[row.job]} steps with {effects[row.job]} effects"
            )


def _starts(fleet: FleetFindings) -> dict[tuple[str, str], list[Called]]:
    starts = defaultdict[tuple[str, str], list[Called]](list)
    for call in sorted(fleet.found.ledger, key=lambda call: call.at):
        if call.event == "start":
            starts[call.job, call.key].append(call)
    return starts


def _is_hit(fleet: FleetFindings, process: int, after: float, before: float) -> bool:
    return any(
        hit.process == process and hit.begun <= before and hit.ended >= after for hit in fleet.hits
    )
