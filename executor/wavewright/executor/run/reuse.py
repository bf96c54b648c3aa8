"""Step keys of many calls of one tool.

What is the same for every call of a tool in one run is hashed once; each call adds its parameters. The result is
`planner.hashing.step_key`'s to the letter.

Calls that need not be made: equal calls of a reading tool are one call, and a retry takes over what ended well.

While a call is in flight, calls with the same key *follow* it and are served its output; once it has succeeded, so
is every later one. If it fails, its followers make the call themselves.

The memory of runs, kept among their events.

A run that is resumed *learns* once what its earlier lives were told; what is kept meanwhile is not given out again,
for nobody asks for it twice in one life.
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
    """Makes the keys of one tool's calls in one run."""

    def __init__(
        self, signature: ToolSignature, *, config: JsonObject | None, now: float, run: RunId
    ) -> None:
        self._signature = signature
        self._config = config
        self._now = now
        self._run = run
        self._writes = signature.writes
        # The canonical text of a list is its parts' texts, so it can be cut around the parameters.
        self._before = hashlib.sha256(
            (_canonical_text([signature.name, signature.version])[:-1] + ",").encode("ascii")
        )
        bucket = freshness_bucket(signature, now=now, run=run)
        self._after = "," + _canonical_text([config or {}, bucket])[1:]

    def key(self, params: JsonObject, step: StepId, index: int | None) -> StepKey:
        """Return the key of one call.

        Raises:
            ValueError: the parameters are no JSON.
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
            )
        digest = self._before.copy()
        digest.update((_canonical_text(params) + self._after).encode("ascii"))
        return StepKey(digest.hexdigest())


FinishedCall = StepFinished | ItemFinished


def recorded_ending(state: RunState, call: ScheduledCall) -> FinishedCall | None:
    """Return how a call ended in a run; None where it did not."""
    if call.fan_out is None:
        return state.steps.get(call.step.id)
    items = state.items.get(call.step.id)
    return items.get(call.index) if items else None


@dataclass(frozen=True, slots=True)
class ReuseSource:
    """The run that a retry takes results over from."""

    state: RunState
    origin: RunId
    """The run whose id is part of the keys of calls that are not made anew."""
    anew: frozenset[StepId] = frozenset()
    """Steps whose calls are made, whatever is known of them."""

    def find(self, call: ScheduledCall, key: StepKey) -> FinishedCall | None:
        """Return how this very call ended in that run, where it ended well and is still the same."""
        if call.step.id in self.anew:
            return None
        ending = recorded_ending(self.state, call)
        return ending if ending is not None and ending.key == key and ending.status in SUCCESSES else None


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
        """Whether an equal call is in flight, which this one now follows; otherwise this one leads."""
        followers = self._followers.get(key)
        if followers is None:
            self._followers[key] = []
            return False
        followers.append(call)
        return True

    def succeed(self, key: StepKey, ending: FinishedCall) -> list[ScheduledCall]:
        """Note the output of a call; return those that are served by it."""
        self._finished[key] = ending
        return self._followers.pop(key, [])

    def fail(self, key: StepKey) -> list[ScheduledCall]:
        """Forget a call that failed; return those that have to make it themselves."""
        return self._followers.pop(key, [])

    def _remember(self, ending: FinishedCall) -> None:
        if ending.key is not None and ending.status in SUCCESSES and not ending.withheld:
            self._finished[ending.key] = ending


class JournalReplayCache:
    """Kept answers of the runs that this process works on, in their journal."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        """Keep answers in that journal; the clock gives seconds since the epoch."""
        self._journal = journal
        self._clock = clock
        self._answers = dict[RunId, dict[str, deque[JsonObject]]]()

    async def load(self, run: RunId) -> None:
        """Take in what was kept for a run, before it goes on.

        Raises:
            JournalError: it cannot be read.
        """
        known = dict[str, deque[JsonObject]]()
        for event in await self._journal.load(run):
            if isinstance(event, AnswerKept):
                known.setdefault(event.key, deque()).append(event.answer)
        self._answers[run] = known

    def evict(self, run: RunId) -> None:
        """Let go of what was learnt for a run that is not worked on any more; it stays in the journal."""
        self._answers.pop(run, None)

    def get(self, run: RunId, key: str) -> JsonObject | None:
        """Return the next kept answer under the key, which then is given out no more."""
        kept = self._answers.get(run, {}).get(key)
        return kept.popleft() if kept else None

    async def put(
        self, run: RunId, key: str, answer: JsonObject, question: ModelQuestion | None = None
    ) -> None:
        """Keep an answer, and what was asked.

        Raises:
            JournalError: it could not be written, or the run has another owner.
        """
        await self._journal.append(run, [AnswerKept(self._clock(), key, answer, question)])
