"""Events as the journal keeps them: without secrets that no later step reads.

A step's output may hold what looks like a secret. The run itself works with the output as it is; whoever is told of
an event gets `[redacted]` in its place. So does the journal, but for the fields that another step reads: without them
the run could not be resumed. What was *withheld* so is named in the event, and nothing is reused that lacks a field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from wavewright.config.redaction import Redactor, named_secrets
from wavewright.executor.events import (
    AttemptLogged,
    Event,
    GateRecord,
    ItemFinished,
    LoopToolCalled,
    OutputStreamed,
    StepError,
    StepFinished,
)
from wavewright.executor.state import RunState
from wavewright.planner.graph import PlanGraph
from wavewright.planner.models import Gate
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.planner.uses import fields_read

_Ending = TypeVar("_Ending", bound=StepFinished | ItemFinished)
_Told = TypeVar("_Told", bound=Event)

Lacks: TypeAlias = Callable[[StepFinished | ItemFinished, bool], bool]
"""Whether something of an ending is needed that was withheld; the flag says whether its gates are asked again."""

WHOLE: Final = ""
"""Stands among withheld fields for an output that has none."""
_MOST_NAMED = 64
"""Values that are looked for because an output has them under a secret's name."""
_LEAST_NAMED = 8
"""Characters of such a value: shorter ones are words of any text."""


class OutputRedactor:
    """Takes secrets out of what the steps of one run bring."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self._named = set[str]()

    def without_secrets(self, output: Json) -> Json:
        """Return an output without its secrets; what it calls a secret goes from later ones, whatever its name."""
        clean = self._redactor.redact_json(output)
        if clean != output:
            self.learn(output)
        return clean

    def learn(self, output: Json) -> None:
        """Look for what an output calls a secret in all that comes later."""
        found = {value for value in named_secrets(output) if _is_telling(value)} - self._named
        if found and len(self._named) < _MOST_NAMED:
            self._named |= found
            self._redactor = self._redactor.knowing(found)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self._redactor.redact(text)

    def texts(self, value: Json) -> Json:
        """Return a JSON value whose texts hold no secret; its numbers stay."""
        return self._redactor.redact_json(value, keep_numbers=True)

    def told(self, event: _Told) -> _Told:
        """Return an event without secrets in what a tool brought or said."""
        match event:
            case StepFinished() | ItemFinished():
                return self._ending(event)
            case OutputStreamed(text=text):
                return replace(event, text=self.text(text))
            case LoopToolCalled(call=call):
                return replace(event, call=replace(call, message=self.text(call.message)))
            case AttemptLogged():
                return replace(
                    event,
                    traceback=self.text(event.traceback),
                    stdout=self.text(event.stdout),
                    stderr=self.text(event.stderr),
                    log=self.text(event.log),
                )
            case _:
                return event

    def _ending(self, ending: _Ending) -> _Ending:
        clean = self.without_secrets(ending.output)
        if clean != ending.output:
            ending = replace(ending, output=clean)
        if ending.error is not None:
            ending = replace(ending, error=self._error(ending.error))
        if isinstance(ending, StepFinished) and ending.gates:
            ending = replace(ending, gates=tuple(map(self._gate, ending.gates)))
        return ending

    def _error(self, error: StepError) -> StepError:
        hint = None if error.hint is None else self.text(error.hint)
        return replace(error, message=self.text(error.message), hint=hint)

    def _gate(self, gate: GateRecord) -> GateRecord:
        return replace(gate, looked_at=self.text(gate.looked_at), message=self.text(gate.message))


def told_events(events: Iterable[Event]) -> list[Event]:
    """Return the events of a run, as they stand in its journal, without secrets in what its tools brought or said."""
    redactor = OutputRedactor()
    return [redactor.told(event) for event in events]


class JournaledEvents:
    """Makes of the events of one execution what its journal keeps."""

    def __init__(self, graph: PlanGraph, gates: Iterable[Gate], prior: RunState) -> None:
        self._graph = graph
        self._gated = frozenset(gate.on for gate in gates)
        self._redactor = OutputRedactor()
        for record in prior.steps.values():
            self._redactor.without_secrets(record.output)

    def of(self, event: Event) -> tuple[Event, Event]:
        """Return an event as it is journaled, and as it is told to whoever looks on."""
        told = self._redactor.told(event)
        if isinstance(event, StepFinished | ItemFinished):
            assert isinstance(told, StepFinished | ItemFinished)
            if told.output != event.output:
                output, withheld = self._kept(event.step, event.output, told.output)
                # One that comes from another run's journal may lack something already.
                return replace(told, output=output, withheld=(*event.withheld, *withheld)), told
        return told, told

    def lacks(self, ending: StepFinished | ItemFinished, asks_gates: bool) -> bool:  # noqa: FBT001 - a port
        """Whether the journal withheld something of an ending that this plan, or a gate that is asked, reads."""
        if not ending.withheld:
            return False
        if asks_gates and ending.step in self._gated:
            return True
        read = self._fields_read(ending.step)
        return (
            read is None or (bool(read) and WHOLE in ending.withheld) or not read.isdisjoint(ending.withheld)
        )

    def _kept(self, step_id: StepId, output: Json, clean: Json) -> tuple[Json, tuple[str, ...]]:
        """Return an output as it is journaled, and the fields in which something was withheld."""
        read = self._fields_read(step_id)
        if read is None or (read and not isinstance(output, dict)):
            return output, ()
        if not isinstance(output, dict):
            return clean, (WHOLE,)
        kept: JsonObject = {}
        withheld = list[str]()
        for name, value in output.items():
            member = {name: value}
            if name not in read and (cleaned := self._redactor.without_secrets(member)) != member:
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


def _is_telling(value: str) -> bool:
    return len(value) >= _LEAST_NAMED and any(character.isdigit() for character in value)
