"""Run ids, and finding a run by the part of its id that people type.

A *run id* is the time of its birth and six random characters, `20261121-231907-3f2a7c`: ids sort by time, and the
short tail is enough to name a run. A prefix of either part that fits more than one run is never guessed.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from wavewright.executor.journal_errors import RunNotFound
from wavewright.planner.types import RunId

RunStatus: TypeAlias = Literal[
    "running",
    "achieved",
    "not_achieved",
    "failed",
    "interrupted",
    "waiting_for_approval",
    "waiting_for_answer",
]
"""`running` while its owner lives; a run that nobody owns and that never finished is `interrupted`.

What a run waits for is no concern of a store's: it gives such a run as `interrupted`.
"""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in a list of runs."""

    run: RunId
    job: str
    status: RunStatus
    started: float
    finished: float | None
    steps: int
    """Steps that have ended, by their last ending; of a run that waits for a person, those of its plan."""
    ok: int
    """Of these: ok, empty or reused."""
    failed: int
    owner: str | None = None
    """Who has it open, for people: `pid 4711 on ada`."""
    tokens: int = 0
    """Tokens of models that the purse in the same file has spent on it or put aside for it."""


def new_run_id(now: float, random: Callable[[int], bytes] = secrets.token_bytes) -> RunId:
    """Return a new run id for that instant, in UTC.

    Args:
        now: Seconds since the epoch.
        random: Gives so many random bytes.
    """
    return RunId(f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{random(3).hex()}")


def match_run(prefix: str, runs: Iterable[RunId], *, place: str = "") -> RunId:
    """Return the one run whose id, or whose tail after the last `-`, starts with `prefix`.

    Raises:
        RunNotFound: none does, or several do; names the near ones.
    """
    known = sorted(runs)
    if not known:
        raise RunNotFound("this journal has no runs yet", place=place, mend="`wavewright run JOB` makes one")
    if prefix in known:
        return RunId(prefix)
    found = [run for run in known if prefix and _starts(run, prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        raise RunNotFound(
            f"{len(found)} runs start with {prefix!r}: {_some_ids(found)}",
            place=place,
            mend="type more of the id",
        )
    raise RunNotFound(f"no run starts with {prefix!r}", place=place, mend=_suggestion(prefix, known))


def _starts(run: RunId, prefix: str) -> bool:
    wanted = prefix.lower()
    return run.lower().startswith(wanted) or run.lower().rpartition("-")[2].startswith(wanted)


def _some_ids(runs: list[RunId], most: int = 5) -> str:
    # The newest are what people look for.
    shown = ", ".join(reversed(runs[-most:]))
    return shown if len(runs) <= most else f"{shown} and {len(runs) - most} more"


def _suggestion(prefix: str, known: list[RunId]) -> str:
    tails = {run.rpartition("-")[2]: run for run in known}
    near = difflib.get_close_matches(prefix, known, n=3)
    near += [tails[tail] for tail in difflib.get_close_matches(prefix, tails, n=3) if tails[tail] not in near]
    if near:
        return f"did you mean {', '.join(near[:3])}?"
    return f"`wavewright runs` lists them; the newest is {known[-1]}"
