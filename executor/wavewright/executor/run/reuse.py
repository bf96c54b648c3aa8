"""Reuse of calls: step keys, equal calls of one run, results of a retried run, and kept model
answers.

Equal calls of a reading tool are made once: while one is in progress, calls with the same key
*follow* it and get its output; later ones get it at once. If it fails, its followers make the call
themselves.

The `JournalReplayCache` gives a resumed run the model answers that are in its journal, each once.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from wavewright.executor.events.json_values import make_encoder
from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import AnswerKept, ItemFinished, StepFinished
from wavewright.executor.run.scheduled_calls import ScheduledCall
from wavewright.executor.store.journal import Journal
from wavewright.planner.language.hashing import freshness_bucket, step_key
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.ports.model_port import ModelQuestion
from wavewright.planner.types import JsonObject, RunId, StepId, StepKey

_canonical_text = make_encoder(sort_keys=True)


class StepKeyBuilder:
    """Builds the keys of one tool's calls in one run; they equal those of
    `planner.language.hashing.step_key`.

    The part of the hash that is the same for every call is computed once.
    """

    def __init__(
        self, signature: ToolSignature, *, config: JsonObject | None, now: float, run: RunId
    ) -> None:
        self._signature = signature
        self._config = config
        self._now = now
        self._run = run
        self._writes = signature.writes
        # The canonical text of a list is that of its parts, so it can be split around the
        # parameters.
        self._before = hashlib.sha256(
            (_canonical_text([signature.name, signature.version])[:-1] + ",").encode("ascii")
        )
        bucket = freshness_bucket(signature, now=now, run=run)
        self._after = "," + _canonical_text([config or {}, bucket])[1:]

    def key(self, params: JsonObject, step: StepId, index: int | None, data: str = "") -> StepKey:
        """Return the key of one call; `data` is the hash of the run data that it may read.

        Raises:
            ValueError: the parameters are not JSON.
        """
        if self._writes:
            return step_key(
                self._signature,
                params,
                config=self._config,
                now=self._now,
                run=self._run,
                step=step,
                index=index,
                data=data,
            )
        digest = self._before.copy()
        after = f'{self._after[:-1]},{{"data":"{data}"}}]' if data else self._after
        digest.update((_canonical_text(params) + after).encode("ascii"))
        return StepKey(digest.hexdigest())


FinishedCall = StepFinished | ItemFinished


def recorded_ending(state: RunState, call: ScheduledCall) -> FinishedCall | None:
    """Return the ending of a call in a run; None where it has not ended."""
    if call.fan_out is None:
        return state.steps.get(call.step.id)
    items = state.items.get(call.step.id)
    return items.get(call.index) if items else None


@dataclass(frozen=True, slots=True)
class ReuseSource:
    """The run whose results a retry reuses."""

    state: RunState
    origin: RunId
    """The run whose id is part of the keys of calls that may be reused."""
    anew: frozenset[StepId] = frozenset()
    """Steps whose calls are always made."""

    def find(self, call: ScheduledCall, key: StepKey) -> FinishedCall | None:
        """Return the ending of the same call in that run, where it succeeded and has the same key."""
        if call.step.id in self.anew:
            return None
        ending = recorded_ending(self.state, call)
        return (
            ending
            if ending is not None and ending.key == key and ending.status in SUCCESSES
            else None
        )


class ReuseIndex:
    """The calls of one run by key."""

    def __init__(self, prior: RunState) -> None:
        self._finished: dict[StepKey, FinishedCall] = {}
        self._followers: dict[StepKey, list[ScheduledCall]] = {}
        for items in prior.items.values():
            for item in items.values():
                self._remember(item)
        for step in prior.steps.values():
            if step.items is None:
                self._remember(step)

    def find(self, key: StepKey) -> FinishedCall | None:
        """Return the ending of an equal call that succeeded."""
        return self._finished.get(key)

    def follows(self, call: ScheduledCall, key: StepKey) -> bool:
        """Whether an equal call is in progress, which this one now follows; otherwise others will
        follow this one.
        """
        followers = self._followers.get(key)
        if followers is None:
            self._followers[key] = []
            return False
        followers.append(call)
        return True

    def succeed(self, key: StepKey, ending: FinishedCall) -> list[ScheduledCall]:
        """Store the ending of a call; return its followers."""
        self._finished[key] = ending
        return self._followers.pop(key, [])

    def fail(self, key: StepKey) -> list[ScheduledCall]:
        """Remove a call that failed; return its followers, which must make the call themselves."""
        return self._followers.pop(key, [])

    def _remember(self, ending: FinishedCall) -> None:
        if ending.key is not None and ending.status in SUCCESSES and not ending.withheld:
            self._finished[ending.key] = ending


class JournalReplayCache:
    """Model answers of the runs of this process, kept in their journal."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        """Keep answers in the journal, with the clock's time in seconds since the epoch."""
        self._journal = journal
        self._clock = clock
        self._answers = dict[RunId, dict[str, deque[JsonObject]]]()

    async def load(self, run: RunId) -> None:
        """Read the kept answers of a run before it continues.

        Raises:
            JournalError: the journal cannot be read.
        """
        known = dict[str, deque[JsonObject]]()
        for event in await self._journal.load(run):
            if isinstance(event, AnswerKept):
                known.setdefault(event.key, deque()).append(event.answer)
        self._answers[run] = known

    def evict(self, run: RunId) -> None:
        """Free the memory of a run that has stopped; its answers stay in the journal."""
        self._answers.pop(run, None)

    def get(self, run: RunId, key: str) -> JsonObject | None:
        """Return and remove the next kept answer under a key."""
        kept = self._answers.get(run, {}).get(key)
        return kept.popleft() if kept else None

    async def put(
        self, run: RunId, key: str, answer: JsonObject, question: ModelQuestion | None = None
    ) -> None:
        """Journal an answer and its question.

        Raises:
            JournalError: it could not be written, or the run has another owner.
        """
        await self._journal.append(run, [AnswerKept(self._clock(), key, answer, question)])
