"""A circuit breaker for the models that a daemon calls.

While a model's circuit is *closed*, calls are made. An error of its provider opens it: runs that
call the model are stopped, and their jobs wait. After a pause the circuit is *half-open* and a
small call probes the model: an answer closes the circuit, an error opens it again with a longer
pause.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import anyio

from wavewright.planner import RunId
from wavewright.planner.ports.model_port import ModelCall, ModelClient, ModelError

FIRST_PAUSE: Final = 2.0
"""Seconds before the first probe; twice as long after each that failed."""
MAX_PAUSE: Final = 60.0
MAX_RETRY_AFTER: Final = 3600.0
"""Maximum of a provider's `Retry-After`, in seconds."""
PROBE_POLL_SECONDS: Final = 1.0
"""How often the clock is read: it may have been set."""
PROBE_SECONDS: Final = 60.0
"""Timeout of a probe."""
PROBE: Final = "probe"
"""Name of a probe in the records of calls."""
_PROBE_TOKENS: Final = 64

CircuitState: TypeAlias = Literal["closed", "half_open", "open"]


CircuitListener: TypeAlias = Callable[[str, CircuitState, str, float], None]
"""Called with the model, the new state of its circuit, the reason and the time of the next probe.
"""


@dataclass(slots=True)
class OpenCircuit:
    """A circuit that is not closed."""

    reason: str
    until: float
    """Time of the next probe, in seconds since the epoch."""
    pause: float


class ModelCircuitBreaker:
    """The circuits of the models that a daemon calls."""

    def __init__(
        self,
        clock: Callable[[], float],
        stop: Callable[[RunId], None],
        on_change: CircuitListener = lambda _model, _state, _reason, _until: None,
        own: Collection[str] = (),
    ) -> None:
        """Begin with every circuit closed.

        Args:
            clock: Seconds since the epoch.
            stop: Stops a run, which continues when its job is claimed again.
            on_change: Called with every change.
            own: The models that the settings name; no job starts while the circuit of one of them
                is open. A model that only a job's preference names stops that job alone.
        """
        self._own = own
        self._clock = clock
        self._stop = stop
        self._on_change = on_change
        self._open = dict[str, OpenCircuit]()
        self._stopped = dict[RunId, str]()
        """Runs that were stopped, each with its model, whose circuit is open."""
        self._changed = anyio.Event()

    def circuit_that_stopped(self, runs: Collection[RunId]) -> OpenCircuit | None:
        """Return the circuit that has stopped one of these runs and is not closed yet; of several the
        one that is probed last.
        """
        models = {model for run, model in self._stopped.items() if run in runs}
        circuits = [circuit for model, circuit in self._open.items() if model in models]
        return max(circuits, key=lambda circuit: circuit.until, default=None)

    @property
    def is_available(self) -> bool:
        """Whether the circuits of all models of the settings are closed."""
        return not any(model in self._own for model in self._open)

    async def wait_available(self) -> None:
        """Return once `is_available`."""
        while not self.is_available:
            await self._changed.wait()

    async def enter(self, call: ModelCall, model: str) -> None:
        """Return where the call may be made; else stop its run and wait to be cancelled."""
        if call.run is not None and model in self._open:
            await self._stop_run(call.run, model)

    async def failed(
        self, call: ModelCall, model: str, reason: str, retry_after: float | None
    ) -> None:
        """Open the circuit and stop the run of the call; a call without a run changes nothing."""
        if call.run is None:
            return
        if model not in self._open:
            self._open_until(model, reason, FIRST_PAUSE, retry_after)
        await self._stop_run(call.run, model)

    async def run(self, models: ModelClient) -> None:
        """Probe the models whose circuits are open, each at its time, until this is cancelled."""
        while True:
            if not self._open:
                await self._changed.wait()
            for model, opened in [*self._open.items()]:
                if self._clock() >= opened.until:
                    await self._probe(models, model, opened)
            await anyio.sleep(PROBE_POLL_SECONDS)

    async def _probe(self, models: ModelClient, model: str, opened: OpenCircuit) -> None:
        self._on_change(model, "half_open", opened.reason, opened.until)
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
            # The call may wait for its budget.
            with anyio.fail_after(2 * PROBE_SECONDS):
                await models.ask(call)
        except ModelError as error:
            if error.is_of_provider or error.kind == "timeout":
                self._open_until(
                    model, str(error), min(2 * opened.pause, MAX_PAUSE), error.retry_after
                )
                return
        except TimeoutError:
            self._open_until(model, opened.reason, min(2 * opened.pause, MAX_PAUSE), None)
            return
        del self._open[model]
        self._stopped = {run: asked for run, asked in self._stopped.items() if asked != model}
        self._on_change(model, "closed", "", self._clock())
        self._notify_changed()

    def _open_until(self, model: str, reason: str, pause: float, retry_after: float | None) -> None:
        wait = max(pause, min(retry_after or 0.0, MAX_RETRY_AFTER))
        opened = self._open[model] = OpenCircuit(reason, self._clock() + wait, pause)
        self._on_change(model, "open", reason, opened.until)
        self._notify_changed()

    async def _stop_run(self, run: RunId, model: str) -> None:
        self._stopped[run] = model
        self._stop(run)
        await anyio.sleep_forever()

    def _notify_changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
