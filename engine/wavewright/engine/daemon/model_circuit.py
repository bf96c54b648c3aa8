"""A circuit breaker for the models that a daemon asks.

While a model's circuit is *closed*, its questions go through. A fault of its provider opens it with the reason: runs
that ask it are stopped where they stand, and their jobs wait. An open circuit is *half-open* while a small question
probes whether the model answers again, after pauses that grow; an answer closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import anyio

from wavewright.planner.model_port import ModelCall, ModelError, Models
from wavewright.planner.types import RunId

FIRST_PAUSE: Final = 2.0
"""Seconds before the first probe; twice as long after each that failed."""
LONGEST_PAUSE: Final = 60.0
LONGEST_ASKED: Final = 3600.0
"""Seconds that a provider may ask to be left alone."""
LOOK_SECONDS: Final = 1.0
"""How often the clock is looked at: it may have been set."""
PROBE_SECONDS: Final = 60.0
PROBE: Final = "probe"
"""What asks a probe's question, for the records of the provider and the budget."""
_PROBE_TOKENS: Final = 64

State: TypeAlias = Literal["closed", "half_open", "open"]


class CircuitWatch(Protocol):
    """Told of every change of a model's circuit."""

    def __call__(self, model: str, state: State, reason: str, until: float, /) -> None:
        """Take a change.

        Args:
            model: The model.
            state: What its circuit is now.
            reason: Why it is not closed.
            until: When it is probed next, in seconds since the epoch.
        """
        ...


def _unwatched(model: str, state: State, reason: str, until: float, /) -> None:
    """Tell nobody."""
    del model, state, reason, until


@dataclass(slots=True)
class Opened:
    """A circuit that is not closed."""

    reason: str
    until: float
    """When it is probed next, in seconds since the epoch."""
    pause: float


class ModelCircuit:
    """The circuits of all models that a daemon asks, by model."""

    def __init__(
        self,
        clock: Callable[[], float],
        stop: Callable[[RunId], None],
        watch: CircuitWatch = _unwatched,
        own: Collection[str] = (),
    ) -> None:
        """Begin with every circuit closed.

        Args:
            clock: Seconds since the epoch.
            stop: Stops a run, which goes on when its job is claimed again.
            watch: Told of every change.
            own: The models that the settings name; no job is begun while one of them cannot be asked. A model that
                only a job's preference names holds up that job alone.
        """
        self._own = own
        self._clock = clock
        self._stop = stop
        self._watch = watch
        self._open = dict[str, Opened]()
        self._changed = anyio.Event()

    @property
    def opened(self) -> Opened | None:
        """The circuit that is not closed and is probed last; none where all are closed."""
        return max(self._open.values(), key=lambda one: one.until, default=None)

    @property
    def may_begin(self) -> bool:
        """Whether each of the daemon's own models may be asked, as far as is known."""
        return not any(model in self._own for model in self._open)

    async def until_may_begin(self) -> None:
        """Wait until each of the daemon's own models may be asked."""
        while not self.may_begin:
            await self._changed.wait()

    async def enter(self, call: ModelCall, model: str) -> None:
        """Return where the question may be asked; else its run is stopped, and this waits to be cancelled."""
        if call.run is not None and model in self._open:
            await self._stop_run(call.run)

    async def failed(self, call: ModelCall, model: str, reason: str, retry_after: float | None) -> None:
        """Open the circuit and stop the run that has asked; a question of no run is its asker's affair."""
        if call.run is None:
            return
        if model not in self._open:
            self._hold(model, reason, FIRST_PAUSE, retry_after)
        await self._stop_run(call.run)

    async def run(self, models: Models) -> None:
        """Probe the models whose circuits are open, each when its time has come, until this is cancelled."""
        while True:
            if not self._open:
                await self._changed.wait()
            for model, opened in [*self._open.items()]:
                if self._clock() >= opened.until:
                    await self._probe(models, model, opened)
            await anyio.sleep(LOOK_SECONDS)

    async def _probe(self, models: Models, model: str, opened: Opened) -> None:
        self._watch(model, "half_open", opened.reason, opened.until)
        call = ModelCall(
            role="planner",
            name=PROBE,
            instructions="You are asked whether you can be reached.",
            prompt="Answer with the one word: yes",
            preference=model,
            thinking="minimal",
            max_tokens=_PROBE_TOKENS,
            timeout=PROBE_SECONDS,
        )
        try:
            # Its budget may be one that is waited for.
            with anyio.fail_after(2 * PROBE_SECONDS):
                await models.ask(call)
        except ModelError as error:
            if error.is_of_provider or error.kind == "timeout":
                self._hold(model, str(error), min(2 * opened.pause, LONGEST_PAUSE), error.retry_after)
                return
        except TimeoutError:
            self._hold(model, opened.reason, min(2 * opened.pause, LONGEST_PAUSE), None)
            return
        del self._open[model]
        self._watch(model, "closed", "", self._clock())
        self._tell_change()

    def _hold(self, model: str, reason: str, pause: float, retry_after: float | None) -> None:
        wait = max(pause, min(retry_after or 0.0, LONGEST_ASKED))
        opened = self._open[model] = Opened(reason, self._clock() + wait, pause)
        self._watch(model, "open", reason, opened.until)
        self._tell_change()

    async def _stop_run(self, run: RunId) -> None:
        self._stop(run)
        await anyio.sleep_forever()

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
