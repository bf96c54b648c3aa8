"""Recording of events: redacted, committed to the journal, and then applied to the state.

Events are *recorded* as they happen and *committed* in batches: events that were recorded while the
journal was writing form the next batch. Only committed events change the state, reach the listener
and free dependants, so nothing depends on an event that a crash could undo.

An output may contain what looks like a secret. The state has the output unchanged; the listener
gets `[redacted]` in place of the secret. So does the journal, except for fields that another step
reads, without which the run could not be resumed. The event names the *withheld* fields, and an
output without a needed field is not reused.
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
    TOOL_EVENT,
    AttemptLogged,
    Event,
    GateRecord,
    ItemFinished,
    LoopToolCalled,
    Noted,
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
_EventT = TypeVar("_EventT", bound=Event)

WithheldCheck: TypeAlias = Callable[[StepFinished | ItemFinished, bool], bool]
"""Whether a withheld field of an ending is needed; the flag says whether its gates are evaluated
again.
"""

WHOLE_OUTPUT: Final = ""
"""Among withheld fields: the whole output, where that is not an object."""
_MAX_NAMED_SECRETS = 64
"""Maximum of values that are redacted because an output has them under a secret's name."""
_MIN_SECRET_CHARS = 8
"""Minimum length of such a value: shorter ones occur in any text."""


class OutputRedactor:
    """Redacts the events of one run."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self._named_secrets = set[str]()
        self._plain_items = dict[StepId, dict[int, Json]]()
        """Outputs of items that hold no secret, by identity, until the output of their step is
        redacted.
        """

    def redact_output(self, output: Json) -> Json:
        """Return an output without secrets; its values under a secret's name are redacted in all
        later events.
        """
        clean = self._redactor.redact_json(output)
        if clean is not output:
            self.learn_secrets(output)
        return clean

    def learn_secrets(self, output: Json) -> None:
        """Redact an output's values under a secret's name in all later events."""
        found = {
            value for value in named_secrets(output) if _is_secret_value(value)
        } - self._named_secrets
        if found and len(self._named_secrets) < _MAX_NAMED_SECRETS:
            self._named_secrets |= found
            self._redactor = self._redactor.with_secrets(found)
            self._plain_items.clear()

    def redact_text(self, text: str) -> str:
        """Return a text without secrets."""
        return self._redactor.redact(text)

    def redact_texts(self, value: Json) -> Json:
        """Return a JSON value whose texts hold no secret; its numbers stay."""
        return self._redactor.redact_json(value, keep_numbers=True)

    def redact_event(self, event: _EventT) -> _EventT:
        """Return an event without secrets in outputs, messages and texts of tools."""
        if isinstance(event, (StepFinished, ItemFinished)):
            return self._redact_finished(event)
        match event:
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
            case Noted(topic=topic, body=body) if topic == TOOL_EVENT:
                fields = self._redactor.redact_json(body["fields"], keep_numbers=True)
                return replace(event, body={**body, "fields": fields})
            case _:
                return event

    def _redact_finished(self, ending: _Ending) -> _Ending:
        if not self._is_plain(ending):
            clean = self.redact_output(ending.output)
            if clean is not ending.output:
                ending = replace(ending, output=clean)
        if ending.error is not None:
            ending = replace(ending, error=self._redact_error(ending.error))
        if isinstance(ending, StepFinished) and ending.gates:
            ending = replace(ending, gates=tuple(map(self._redact_gate, ending.gates)))
        return ending

    def _is_plain(self, ending: StepFinished | ItemFinished) -> bool:
        """Whether an output surely has no secret; a list of items' outputs is not read again."""
        output = ending.output
        if self._plain_items and isinstance(ending, StepFinished):
            items = self._plain_items.pop(ending.step, {})
            if isinstance(output, list) and all(id(item) in items for item in output):
                return True
        is_plain = self._redactor.is_plain(output)
        if is_plain and isinstance(ending, ItemFinished):
            self._plain_items.setdefault(ending.step, {})[id(output)] = output
        return is_plain

    def _redact_error(self, error: StepError) -> StepError:
        hint = None if error.hint is None else self.redact_text(error.hint)
        return replace(error, message=self.redact_text(error.message), hint=hint)

    def _redact_gate(self, gate: GateRecord) -> GateRecord:
        return replace(
            gate, inspected=self.redact_text(gate.inspected), message=self.redact_text(gate.message)
        )


def redacted_events(events: Iterable[Event]) -> list[Event]:
    """Return the events of a run's journal without secrets in outputs, messages and texts of tools."""
    redactor = OutputRedactor()
    return [redactor.redact_event(event) for event in events]


class EventRedactor:
    """Redacts the events of one execution for its journal and for its listener."""

    def __init__(self, graph: PlanGraph, gates: Iterable[Gate], prior: RunState) -> None:
        self._graph = graph
        self._gated = frozenset(gate.on for gate in gates)
        self._redactor = OutputRedactor()
        for record in prior.steps.values():
            self._redactor.redact_output(record.output)

    def redact(self, event: Event) -> tuple[Event, Event]:
        """Return an event as it is journaled, and as the listener gets it."""
        clean = self._redactor.redact_event(event)
        if clean is not event and isinstance(event, StepFinished | ItemFinished):
            assert isinstance(clean, StepFinished | ItemFinished)
            if clean.output is not event.output:
                output, withheld = self._redact_output(event.step, event.output, clean.output)
                # An output from another run's journal may have withheld fields already.
                return replace(clean, output=output, withheld=(*event.withheld, *withheld)), clean
        return clean, clean

    def is_withheld(self, ending: StepFinished | ItemFinished, asks_gates: bool) -> bool:  # noqa: FBT001 - a port
        """Whether this plan, or a gate that is evaluated again, reads a withheld field of an
        ending.
        """
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

    def _redact_output(
        self, step_id: StepId, output: Json, clean: Json
    ) -> tuple[Json, tuple[str, ...]]:
        """Return an output as it is journaled, and its withheld fields."""
        read = self._fields_read(step_id)
        if read is None or (read and not isinstance(output, dict)):
            return output, ()
        if not isinstance(output, dict):
            return clean, (WHOLE_OUTPUT,)
        kept: JsonObject = {}
        withheld = list[str]()
        for name, value in output.items():
            member = {name: value}
            if name not in read and (cleaned := self._redactor.redact_output(member)) is not member:
                assert isinstance(cleaned, dict)
                member = cleaned
                withheld += member
            kept.update(member)
        return kept, tuple(withheld)

    def _fields_read(self, step_id: StepId) -> frozenset[str] | None:
        """Return the fields of a step's output that other steps read, or None where one reads it
        whole.
        """
        graph = self._graph
        readers = (
            graph.steps[name]
            for name in graph.dependants.get(step_id, ())
            if step_id in graph.reads[name]
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
"""Maximum of committed events that are not folded into the state; in bulk they cost a fraction."""


class EventRecorder:
    """Records and commits the events of one run; without a journal only the state has them."""

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
        """Called with committed events; it may record more."""
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
        """When the journal was last written to, which only the owner of the lease can."""
        self.is_instant = journal is None or isinstance(journal, MemoryJournal)
        """Whether a commit never waits, so that no task is needed for it."""

    @property
    def state(self) -> RunState:
        """The state after all committed events."""
        if self._unfolded:
            self._fold()
        return self._state

    def _fold(self) -> None:
        self._state = fold(self._unfolded, self._state)
        self._unfolded.clear()

    def record(self, event: Event) -> None:
        """Record an event; it is applied once it is committed."""
        self._pending.append(event)
        self._wake_up()

    async def committed(self) -> None:
        """Wait until everything recorded so far is in the journal."""
        if self._pending and not self.is_instant:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    async def check_lease(self) -> None:
        """Raise where another owner may have taken the run's lease.

        A lease is taken over when its owner has not renewed it for longer than its duration. A
        process that was suspended for so long checks the lease here before it makes a call.

        Raises:
            JournalError: another owner has the run, or the journal cannot be reached.
        """
        if self.is_instant or self._journal is None:
            return
        asked_at = now, wall = self._instant()
        held_at, held_wall = self._lease_checked_at
        # The monotonic clock stops while the machine sleeps, and the wall clock may be set.
        if 0 <= now - held_at < LEASE_SECONDS and 0 <= wall - held_wall < LEASE_SECONDS:
            return
        await self._journal.append(self._run, [])
        self._lease_checked_at = asked_at

    def _instant(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._clock.wall()

    def commit_now(self) -> None:
        """Commit recorded events, where the journal never waits."""
        while self._pending and self.is_instant:
            batch, self._pending = self._pending, []
            journaled, published = self._redacted(batch)
            if self._journal is not None:
                # A `MemoryJournal` has written when `append` returns.
                self._journal.append(self._run, journaled)
            self._apply_committed(batch, published)
            self.on_commit(batch)

    async def _commit_pending(self) -> None:
        while self._pending and self._journal is not None:
            batch, self._pending = self._pending, []
            waiting, self._waiting = self._waiting, []
            asked_at = self._instant()
            journaled, published = self._redacted(batch)
            await self._journal.append(self._run, journaled)
            self._lease_checked_at = asked_at
            self._apply_committed(batch, published)
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            self.on_commit(batch)

    def _redacted(self, batch: list[Event]) -> tuple[Sequence[Event], Sequence[Event]]:
        """Return events as they are journaled, and as the listener gets them."""
        if self._journal is None and self._on_event is None:
            return batch, batch
        journaled, published = zip(*map(self._redact, batch), strict=True)
        return journaled, published

    def _apply_committed(self, batch: list[Event], published: Sequence[Event]) -> None:
        self._unfolded += batch
        if len(self._unfolded) >= _FOLD_BATCH:
            self._fold()
        if self._on_event is not None:
            for event in published:
                self._on_event(event)

    async def commit_until_closed(self) -> None:
        """Commit recorded events until `close` was called and none is left.

        Shielded from cancellation, so that a cancelled run journals what has ended.
        """
        with anyio.CancelScope(shield=True):
            while True:
                await self._commit_pending()
                if self._closed:
                    return
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake

    def close(self) -> None:
        """Let `commit_until_closed` return once all events are committed."""
        self._closed = True
        self._wake_up()

    def _wake_up(self) -> None:
        # The future is cancelled where the event loop is closed; nothing is written then.
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        self._wake = None
