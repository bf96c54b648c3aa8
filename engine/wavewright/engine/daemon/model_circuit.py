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

from wavewright.planner.ports.model_port import ModelCall, ModelClient, ModelError
from wavewright.planner.types import RunId

FIRST_PAUSE: Final = 2.0
"""Seconds before the first probe; twice as long after each that failed."""
MAX_PAUSE: Final = 60.0
MAX_RETRY_AFTER: Final = 3600.0
"""Seconds that a provider may ask to be left alone."""
PROBE_POLL_SECONDS: Final = 1.0
"""How often the clock is looked at: it may have been set."""
PROBE_SECONDS: Final = 60.0
PROBE: Final = "probe"
"""What asks a probe's question, for the records of the provider and the budget."""
_PROBE_TOKENS: Final = 64

CircuitState: TypeAlias = Literal["closed", "half_open", "open"]


class CircuitListener(Protocol):
    """Told of every change of a model's circuit."""

    def __call__(self, model: str, state: CircuitState, reason: str, until: float, /) -> None:
        """Take a change.

        Args:
            model: The model.
            state: What its circuit is now.
            reason: Why it is not closed.
            until: When it is probed next, in seconds since the epoch.
        """
        ...


def _ignore_change(model: str, state: CircuitState, reason: str, until: float, /) -> None:
    """Tell nobody."""
    del model, state, reason, until


@dataclass(slots=True)
class OpenCircuit:
    """A circuit that is not closed."""

    reason: str
    until: float
    """When it is probed next, in seconds since the epoch."""
    pause: float


class ModelCircuitBreaker:
    """The circuits of all models that a daemon asks, by model."""

    def __init__(
        self,
        clock: Callable[[], float],
        stop: Callable[[RunId], None],
        watch: CircuitListener = _ignore_change,
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
        self._open = dict[str, OpenCircuit]()
        self._changed = anyio.Event()

    @property
    def open_circuit(self) -> OpenCircuit | None:
        """The circuit that is not closed and is probed last; none where all are closed."""
        return max(self._open.values(), key=lambda one: one.until, default=None)

    @property
    def is_available(self) -> bool:
        """Whether each of the daemon's own models may be asked, as far as is known."""
        return not any(model in self._own for model in self._open)

    async def wait_available(self) -> None:
        """Wait until each of the daemon's own models may be asked."""
        while not self.is_available:
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
            self._open_until(model, reason, FIRST_PAUSE, retry_after)
        await self._stop_run(call.run)

    async def run(self, models: ModelClient) -> None:
        """Probe the models whose circuits are open, each when its time has come, until this is cancelled."""
        while True:
            if not self._open:
                await self._changed.wait()
            for model, opened in [*self._open.items()]:
                if self._clock() >= opened.until:
                    await self._probe(models, model, opened)
            await anyio.sleep(PROBE_POLL_SECONDS)

    async def _probe(self, models: ModelClient, model: str, opened: OpenCircuit) -> None:
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
                self._open_until(model, str(error), min(2 * opened.pause, MAX_PAUSE), error.retry_after)
                return
        except TimeoutError:
            self._open_until(model, opened.reason, min(2 * opened.pause, MAX_PAUSE), None)
            return
        del self._open[model]
        self._watch(model, "closed", "", self._clock())
        self._notify_changed()

    def _open_until(self, model: str, reason: str, pause: float, retry_after: float | None) -> None:
        wait = max(pause, min(retry_after or 0.0, MAX_RETRY_AFTER))
        opened = self._open[model] = OpenCircuit(reason, self._clock() + wait, pause)
        self._watch(model, "open", reason, opened.until)
        self._notify_changed()

    async def _stop_run(self, run: RunId) -> None:
        self._stop(run)
        await anyio.sleep_forever()

    def _notify_changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
