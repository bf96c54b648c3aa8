"""Events without secrets, for the journal and for listeners.

An output may contain what looks like a secret. The state has the output unchanged; the listener
gets `[redacted]` in place of the secret. So does the journal, except for fields that another step
reads, without which the run could not be resumed. The event names the *withheld* fields, and an
output without a needed field is not reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from wavewright.config.redaction import Redactor, named_secrets
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import (
    REFUSED_ANSWER,
    TOOL_EVENT,
    AttemptLogged,
    Event,
    GateRecord,
    ItemFinished,
    LoopToolCalled,
    Noted,
    OutputLogged,
    OutputStreamed,
    StepError,
    StepFinished,
)
from wavewright.planner import Gate, Json, JsonObject, PlanGraph, StepId, as_object
from wavewright.planner.plans.uses import fields_read

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
        secrets = {
            value for value in named_secrets(output) if _is_secret_value(value)
        } - self._named_secrets
        if secrets and len(self._named_secrets) < _MAX_NAMED_SECRETS:
            self._named_secrets |= secrets
            self._redactor = self._redactor.with_secrets(secrets)
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
            case OutputStreamed(text=text) | OutputLogged(text=text):
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
            case Noted(topic=topic, body=body) if topic == REFUSED_ANSWER:
                return replace(event, body=as_object(self.redact_texts(body)))
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
