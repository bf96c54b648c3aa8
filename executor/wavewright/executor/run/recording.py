"""Events as the journal keeps them: without secrets that no later step reads.

A step's output may hold what looks like a secret. The run itself works with the output as it is; whoever is told of
an event gets `[redacted]` in its place. So does the journal, but for the fields that another step reads: without them
the run could not be resumed. What was *withheld* so is named in the event, and nothing is reused that lacks a field.

The way of events into the journal, and from there into the state.

Events are *recorded* as they happen and *committed* in batches, one batch a tick of the event loop: whatever was
recorded while the journal was writing goes out together. Only committed events change the state, reach the
listener and let dependants start, so nobody ever acts on what a crash could undo. The state holds them as they
happened; the journal keeps no secret that no later step reads, and the listener is told of none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

import anyio

from wavewright.config.redaction import Redactor, named_secrets
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import (
    AttemptLogged,
    Event,
    GateRecord,
    ItemFinished,
    LoopToolCalled,
    OutputStreamed,
    StepError,
    StepFinished,
)
from wavewright.executor.run.ports import Clock
from wavewright.executor.store.journal import Journal, MemoryJournal
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.planner.language.plan import Gate
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import fields_read
from wavewright.planner.types import Json, JsonObject, RunId, StepId

_Ending = TypeVar("_Ending", bound=StepFinished | ItemFinished)
_Told = TypeVar("_Told", bound=Event)

WithheldCheck: TypeAlias = Callable[[StepFinished | ItemFinished, bool], bool]
"""Whether something of an ending is needed that was withheld; the flag says whether its gates are asked again."""

WHOLE_OUTPUT: Final = ""
"""Stands among withheld fields for an output that has none."""
_MAX_NAMED_SECRETS = 64
"""Values that are looked for because an output has them under a secret's name."""
_MIN_SECRET_CHARS = 8
"""Characters of such a value: shorter ones are words of any text."""


class OutputRedactor:
    """Takes secrets out of what the steps of one run bring."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self._named_secrets = set[str]()

    def redact_output(self, output: Json) -> Json:
        """Return an output without its secrets; what it calls a secret goes from later ones, whatever its name."""
        clean = self._redactor.redact_json(output)
        if clean != output:
            self.learn_secrets(output)
        return clean

    def learn_secrets(self, output: Json) -> None:
        """Look for what an output calls a secret in all that comes later."""
        found = {value for value in named_secrets(output) if _is_secret_value(value)} - self._named_secrets
        if found and len(self._named_secrets) < _MAX_NAMED_SECRETS:
            self._named_secrets |= found
            self._redactor = self._redactor.with_secrets(found)

    def redact_text(self, text: str) -> str:
        """Return a text without secrets."""
        return self._redactor.redact(text)

    def redact_texts(self, value: Json) -> Json:
        """Return a JSON value whose texts hold no secret; its numbers stay."""
        return self._redactor.redact_json(value, keep_numbers=True)

    def redact_event(self, event: _Told) -> _Told:
        """Return an event without secrets in what a tool brought or said."""
        match event:
            case StepFinished() | ItemFinished():
                return self._redact_finished(event)
            case OutputStreamed(text=text):
                return replace(event, text=self.redact_text(text))
            case LoopToolCalled(call=call):
                return replace(event, call=replace(call, message=self.redact_text(call.message)))
            case AttemptLogged():
                return replace(
                    event,
                    traceback=self.redact_text(event.traceback),
                    stdout=self.redact_text(event.stdout),
                    stderr=self.redact_text(event.stderr),
                    log=self.redact_text(event.log),
                )
            case _:
                return event

    def _redact_finished(self, ending: _Ending) -> _Ending:
        clean = self.redact_output(ending.output)
        if clean != ending.output:
            ending = replace(ending, output=clean)
        if ending.error is not None:
            ending = replace(ending, error=self._redact_error(ending.error))
        if isinstance(ending, StepFinished) and ending.gates:
            ending = replace(ending, gates=tuple(map(self._redact_gate, ending.gates)))
        return ending

    def _redact_error(self, error: StepError) -> StepError:
        hint = None if error.hint is None else self.redact_text(error.hint)
        return replace(error, message=self.redact_text(error.message), hint=hint)

    def _redact_gate(self, gate: GateRecord) -> GateRecord:
        return replace(
            gate, looked_at=self.redact_text(gate.looked_at), message=self.redact_text(gate.message)
        )


def redacted_events(events: Iterable[Event]) -> list[Event]:
    """Return the events of a run, as they stand in its journal, without secrets in what its tools brought or said."""
    redactor = OutputRedactor()
    return [redactor.redact_event(event) for event in events]


class EventRedactor:
    """Makes of the events of one execution what its journal keeps."""

    def __init__(self, graph: PlanGraph, gates: Iterable[Gate], prior: RunState) -> None:
        self._graph = graph
        self._gated = frozenset(gate.on for gate in gates)
        self._redactor = OutputRedactor()
        for record in prior.steps.values():
            self._redactor.redact_output(record.output)

    def redact(self, event: Event) -> tuple[Event, Event]:
        """Return an event as it is journaled, and as it is told to whoever looks on."""
        told = self._redactor.redact_event(event)
        if isinstance(event, StepFinished | ItemFinished):
            assert isinstance(told, StepFinished | ItemFinished)
            if told.output != event.output:
                output, withheld = self._redact_output(event.step, event.output, told.output)
                # One that comes from another run's journal may lack something already.
                return replace(told, output=output, withheld=(*event.withheld, *withheld)), told
        return told, told

    def is_withheld(self, ending: StepFinished | ItemFinished, asks_gates: bool) -> bool:  # noqa: FBT001 - a port
        """Whether the journal withheld something of an ending that this plan, or a gate that is asked, reads."""
        if not ending.withheld:
            return False
        if asks_gates and ending.step in self._gated:
            return True
        read = self._fields_read(ending.step)
        return (
            read is None
            or (bool(read) and WHOLE_OUTPUT in ending.withheld)
            or not read.isdisjoint(ending.withheld)
        )

    def _redact_output(self, step_id: StepId, output: Json, clean: Json) -> tuple[Json, tuple[str, ...]]:
        """Return an output as it is journaled, and the fields in which something was withheld."""
        read = self._fields_read(step_id)
        if read is None or (read and not isinstance(output, dict)):
            return output, ()
        if not isinstance(output, dict):
            return clean, (WHOLE_OUTPUT,)
        kept: JsonObject = {}
        withheld = list[str]()
        for name, value in output.items():
            member = {name: value}
            if name not in read and (cleaned := self._redactor.redact_output(member)) != member:
                assert isinstance(cleaned, dict)
                member = cleaned
                withheld += member
            kept.update(member)
        return kept, tuple(withheld)

    def _fields_read(self, step_id: StepId) -> frozenset[str] | None:
        """Return the fields of a step's output that other steps read, or None where one reads it whole."""
        graph = self._graph
        readers = (
            graph.steps[name] for name in graph.dependants.get(step_id, ()) if step_id in graph.reads[name]
        )
        return _united(fields_read(reader, step_id) for reader in readers)


def _united(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    united = frozenset[str]()
    for part in parts:
        if part is None:
            return None
        united |= part
    return united


def _is_secret_value(value: str) -> bool:
    return len(value) >= _MIN_SECRET_CHARS and any(character.isdigit() for character in value)


Listener = Callable[[Event], None]

_FOLD_BATCH = 1024
"""Committed events that may wait to be folded: in bulk they cost a fraction of what each costs alone."""


class EventRecorder:
    """The events of one run on their way; without a journal they live in the state alone."""

    def __init__(
        self,
        run: RunId,
        journal: Journal | None,
        state: RunState,
        on_event: Listener | None,
        clock: Clock,
        redact: Callable[[Event], tuple[Event, Event]],
    ) -> None:
        self.on_commit: Callable[[Iterable[Event]], None] = lambda _events: None
        """Called with what is committed; it may record more."""
        self._state = state
        self._unfolded: list[Event] = []
        self._run = run
        self._journal = journal
        self._on_event = on_event
        self._redact = redact
        self._pending: list[Event] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._wake: asyncio.Future[None] | None = None
        self._closed = False
        self._clock = clock
        self._lease_checked_at = self._instant()
        """When the journal last took something, which it does for the run's owner alone."""
        self.is_instant = journal is None or isinstance(journal, MemoryJournal)
        """Whether a commit never waits, so that it needs no task of its own."""

    @property
    def state(self) -> RunState:
        """The state after all that is committed."""
        if self._unfolded:
            self._fold()
        return self._state

    def _fold(self) -> None:
        self._state = fold(self._unfolded, self._state)
        self._unfolded.clear()

    def record(self, event: Event) -> None:
        """Note an event; it counts once it is committed."""
        self._pending.append(event)
        self._wake_up()

    async def committed(self) -> None:
        """Wait until everything recorded so far is in the journal."""
        if self._pending and not self.is_instant:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    async def check_lease(self) -> None:
        """Return where nobody else can have the run by now.

        Whoever replaces an owner waits for longer than a lease without a sign of it. A process that was stopped for
        so long, and goes on, finds out here and not by what it does a second time.

        Raises:
            JournalError: another owner came, or nobody can tell.
        """
        if self.is_instant or self._journal is None:
            return
        asked_at = now, wall = self._instant()
        held_at, held_wall = self._lease_checked_at
        # The machine's monotonic clock stands still while the machine sleeps, and the other one may be set.
        if 0 <= now - held_at < LEASE_SECONDS and 0 <= wall - held_wall < LEASE_SECONDS:
            return
        await self._journal.append(self._run, [])
        self._lease_checked_at = asked_at

    def _instant(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._clock.wall()

    def commit_now(self) -> None:
        """Commit what is pending, where the journal never waits."""
        while self._pending and self.is_instant:
            batch, self._pending = self._pending, []
            kept, told = self._redacted(batch)
            if self._journal is not None:
                # A `MemoryJournal` is done when it returns.
                self._journal.append(self._run, kept)
            self._apply_committed(batch, told)
            self.on_commit(batch)

    async def _commit_pending(self) -> None:
        while self._pending and self._journal is not None:
            batch, self._pending = self._pending, []
            waiting, self._waiting = self._waiting, []
            asked_at = self._instant()
            kept, told = self._redacted(batch)
            await self._journal.append(self._run, kept)
            self._lease_checked_at = asked_at
            self._apply_committed(batch, told)
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            self.on_commit(batch)

    def _redacted(self, batch: list[Event]) -> tuple[Sequence[Event], Sequence[Event]]:
        """Return events as they are journaled, and as the listener is told of them."""
        if self._journal is None and self._on_event is None:
            return batch, batch
        kept, told = zip(*map(self._redact, batch), strict=True)
        return kept, told

    def _apply_committed(self, batch: list[Event], told: Sequence[Event]) -> None:
        self._unfolded += batch
        if len(self._unfolded) >= _FOLD_BATCH:
            self._fold()
        if self._on_event is not None:
            for event in told:
                self._on_event(event)

    async def commit_until_closed(self) -> None:
        """Commit whatever is recorded, until `close` was called and nothing is left.

        Shielded: a run that is cancelled still writes down what it has done.
        """
        with anyio.CancelScope(shield=True):
            while True:
                await self._commit_pending()
                if self._closed:
                    return
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake

    def close(self) -> None:
        """Let `commit_until_closed` return once nothing is left."""
        self._closed = True
        self._wake_up()

    def _wake_up(self) -> None:
        # Cancelled where the event loop ends under the run: nothing is written any more then.
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        self._wake = None
