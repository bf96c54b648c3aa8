"""The state of a run: the fold of its events.

`reduce` takes a state and an event and returns the next state. It is pure, so the same events give
the same state in every process: live, after a crash, and later from a file. Records are the events
themselves, in persistent maps; a state never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, assert_never

from immutables import Map, MapMutation

from wavewright.executor.events.types import (
    AnswerKept,
    AttemptLogged,
    Event,
    GateRecord,
    ItemFinished,
    LoopToolCalled,
    ModelCalled,
    Noted,
    OutputLogged,
    OutputStreamed,
    PlanAccepted,
    RunFinished,
    RungTaken,
    RunStarted,
    StepFinished,
    StepStarted,
    StepStatus,
    WaveFinished,
    WaveStarted,
)
from wavewright.planner import Json, JsonObject, RunId, StepId, StepKey
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import PlanHash

_E = TypeVar("_E")
_BulkEvent: TypeAlias = StepStarted | StepFinished | ItemFinished | RungTaken

SUCCESSES: frozenset[StepStatus] = frozenset({"ok", "empty", "reused"})
"""Statuses with which a step has an output."""


@dataclass(frozen=True, slots=True)
class WaveRecord:
    """One wave of one round: when it ran, and its steps."""

    wave: int
    round: int
    steps: tuple[StepId, ...]
    started: float
    finished: float | None = None


_NO_STEPS: Map[StepId, StepFinished] = Map()
_NO_ITEMS: Map[StepId, Map[int, ItemFinished]] = Map()
_NO_ITEMS_OF_STEP: Map[int, ItemFinished] = Map()
_NO_CALLS: Map[tuple[StepId, StepKey], StepStarted] = Map()
_NO_WAVES: Map[tuple[int, int], WaveRecord] = Map()
_NO_USES: Map[int, ModelUse] = Map()
_NO_RUNGS: Map[int, RungTaken] = Map()
_NO_LOOP_CALLS: Map[StepId, Map[int, LoopToolCalled]] = Map()
_NO_LOOP_CALLS_OF_STEP: Map[int, LoopToolCalled] = Map()
_NONE_UNDER_WAY: Map[StepId, StepStarted] = Map()
_NOTHING_UNDONE: Map[tuple[StepId, StepKey], StepFinished | ItemFinished] = Map()
_NO_FAULTS: Map[tuple[StepId, int | None], AttemptLogged] = Map()
MAX_FAULTS = 200
"""Maximum of failed calls whose last attempt is in the state; the journal has all."""


@dataclass(frozen=True, slots=True, repr=False)
class RunState:
    """What is known of a run after some of its events.

    >>> from wavewright.executor import StepFinished, fold
    >>> state = fold([StepFinished(1.0, "a", "ok", output=4)])
    >>> state.steps["a"].output
    4
    """

    started: RunStarted | None = None
    plans: tuple[PlanAccepted, ...] = ()
    """The first plan, then one for each patch."""
    steps: Map[StepId, StepFinished] = _NO_STEPS
    """How each step ended; the latest ending where a step ran again."""
    items: Map[StepId, Map[int, ItemFinished]] = _NO_ITEMS
    """Items of `for_each` steps, by position."""
    begun: Map[tuple[StepId, StepKey], StepStarted] = _NO_CALLS
    """Calls whose start was journaled, as for writing tools, and whose end is not."""
    wave_records: Map[tuple[int, int], WaveRecord] = _NO_WAVES
    """By round and wave."""
    notes: tuple[Noted, ...] = ()
    uses: Map[int, ModelUse] = _NO_USES
    """The use of each model call, numbered from 0."""
    rung_records: Map[int, RungTaken] = _NO_RUNGS
    """Every rung of a fallback ladder that was tried, numbered from 0."""
    loop_records: Map[StepId, Map[int, LoopToolCalled]] = _NO_LOOP_CALLS
    """Tools that agents called inside their steps, numbered from 0 in each step."""
    faults: Map[tuple[StepId, int | None], AttemptLogged] = _NO_FAULTS
    """The last failed attempt of a call, by step and item; of at most `MAX_FAULTS` calls."""
    under_way: Map[StepId, StepStarted] = _NONE_UNDER_WAY
    """Steps that run: they have started in this attempt and have not ended."""
    undone: Map[tuple[StepId, StepKey], StepFinished | ItemFinished] = _NOTHING_UNDONE
    """Calls that ended, and whose step or item has another ending since: it made another call, was
    blocked, or other code could not read the output.
    """
    finished: RunFinished | None = None
    """How the run ended; None again after any event of a resumed run."""

    def __repr__(self) -> str:
        # Without the events: `asyncio.run` formats the result of its main task when it restores
        # signal handlers.
        return f"<RunState of {self.run!r}: {len(self.steps)} steps, round {self.round}, finished={self.finished!r}>"

    @property
    def run(self) -> RunId | None:
        """The run's id."""
        return self.started.run if self.started else None

    @property
    def rungs(self) -> tuple[RungTaken, ...]:
        """Every rung that was tried, in order; computed at each access."""
        return _in_order(self.rung_records)

    @property
    def loop_calls(self) -> dict[StepId, tuple[LoopToolCalled, ...]]:
        """Tools that agents called inside their steps, in order; computed at each access."""
        return {step: _in_order(calls) for step, calls in self.loop_records.items()}

    @property
    def accepted(self) -> PlanAccepted | None:
        """The acceptance of the current plan."""
        return self.plans[-1] if self.plans else None

    @property
    def plan(self) -> JsonObject | None:
        """The current plan, as JSON."""
        return self.plans[-1].plan if self.plans else None

    @property
    def plan_hash(self) -> PlanHash | None:
        """The hash of the current plan."""
        return self.plans[-1].plan_hash if self.plans else None

    @property
    def rung(self) -> str | None:
        """Which rung of the ladder made the first plan; patches do not change that."""
        return self.plans[0].rung if self.plans else None

    @property
    def round(self) -> int:
        """Number of patches of the current plan."""
        return self.plans[-1].round if self.plans else 0

    @property
    def patches(self) -> tuple[JsonObject, ...]:
        """The patches that were applied, first to last."""
        return tuple(accepted.patch for accepted in self.plans if accepted.patch is not None)

    @property
    def waves(self) -> tuple[WaveRecord, ...]:
        """The waves in the order in which they ran."""
        return tuple(self.wave_records[place] for place in sorted(self.wave_records))

    @property
    def gates(self) -> tuple[GateRecord, ...]:
        """Every gate record, in the order of the plan's steps."""
        return tuple(record for step in self._ordered() for record in step.gates)

    @property
    def is_interrupted(self) -> bool:
        """Whether the run was stopped before its end and can be resumed."""
        return self.finished is not None and self.finished.status == "interrupted"

    @property
    def has_ended(self) -> bool:
        """Whether the run has an end, and cannot be resumed."""
        return self.finished is not None and not self.is_interrupted

    def status(self, step_id: StepId) -> StepStatus | None:
        """Return how a step ended; `None` where it has not."""
        record = self.steps.get(step_id)
        return record.status if record else None

    def is_present(self, step_id: StepId) -> bool:
        """Whether other steps can read the step's output: it succeeded, and no failed gate blocks
        it.
        """
        record = self.steps.get(step_id)
        return (
            record is not None
            and record.status in SUCCESSES
            and blocking_gate(record.gates) is None
        )

    def outputs(self) -> Mapping[StepId, Json]:
        """Return the outputs of the steps that are present."""
        return {
            step_id: record.output
            for step_id, record in self.steps.items()
            if self.is_present(step_id)
        }

    def _ordered(self) -> list[StepFinished]:
        """Return the endings in the plan's order; those of other steps come last, by id."""
        place = {step_id: number for number, step_id in enumerate(step_ids(self.plan))}
        return sorted(
            self.steps.values(),
            key=lambda record: (place.get(record.step, len(place)), record.step),
        )

    def finished_steps(self) -> frozenset[StepId]:
        """Return the steps that ran to an end; a patch may not touch them."""
        ran = SUCCESSES | {"failed"}
        return frozenset(step for step, ended in self.steps.items() if ended.status in ran)


def written_data(state: RunState, step: StepId) -> Iterator[dict[str, JsonObject]]:
    """Yield the run data that the calls of a step have written, by name and key; of items in their
    order.
    """
    ending = state.steps.get(step)
    if ending is None:
        return
    if ending.items is None:
        calls: Iterable[StepFinished | ItemFinished | None] = (ending,)
    else:
        items = state.items.get(step, _NO_ITEMS_OF_STEP)
        calls = (items.get(index) for index in range(ending.items[1]))
    for call in calls:
        if call is not None and call.data is not None and call.status in SUCCESSES:
            yield call.data


def last_instant(state: RunState) -> float:
    """Return the time of the last thing that is known to have happened in a run; 0 where nothing is."""
    if state.finished is not None:
        return state.finished.at
    begun = () if state.started is None else (state.started.at,)
    items = (item.at for known in state.items.values() for item in known.values())
    known = (
        state.plans,
        state.steps.values(),
        state.under_way.values(),
        state.rung_records.values(),
        state.notes,
    )
    return max(*begun, *items, *(event.at for events in known for event in events), 0.0)


def blocking_gate(gates: tuple[GateRecord, ...]) -> GateRecord | None:
    """Return the first failed gate with severity `block`; None where there is none."""
    for record in gates:
        if record.has_failed and record.severity == "block":
            return record
    return None


def reduce(state: RunState, event: Event) -> RunState:  # noqa: C901, PLR0912 - one case an event
    """Return the state after one more event."""
    match event:
        case StepFinished():
            return _with_step(state, event)
        case ItemFinished():
            known = state.items.get(event.step, _NO_ITEMS_OF_STEP)
            return replace(
                state,
                items=state.items.set(event.step, known.set(event.index, event)),
                begun=_without(state.begun, event),
                undone=_with_undone(state.undone, known.get(event.index), event),
                finished=None,
            )
        case StepStarted():
            return _with_start(state, event)
        case WaveStarted():
            record = WaveRecord(event.wave, event.round, event.steps, event.at)
            return replace(
                state,
                wave_records=state.wave_records.set((event.round, event.wave), record),
                finished=None,
            )
        case WaveFinished():
            return _with_finished_wave(state, event)
        case RunStarted():
            return replace(state, started=event, finished=None)
        case PlanAccepted():
            kept = state if state.plans else _with_steps_of(state, event)
            return replace(kept, plans=(*state.plans, event), finished=None)
        case ModelCalled():
            return replace(state, uses=state.uses.set(len(state.uses), event.use), finished=None)
        case RungTaken():
            taken = state.rung_records.set(len(state.rung_records), event)
            return replace(state, rung_records=taken, finished=None)
        case LoopToolCalled():
            known_calls = state.loop_records.get(event.step, _NO_LOOP_CALLS_OF_STEP)
            calls = state.loop_records.set(event.step, known_calls.set(len(known_calls), event))
            return replace(state, loop_records=calls, finished=None)
        case AttemptLogged():
            return _with_fault(state, event)
        case OutputStreamed() | OutputLogged() | AnswerKept():
            return state if state.finished is None else replace(state, finished=None)
        case Noted():
            # What ran when another attempt begins was cut off with the attempt before.
            running = _NONE_UNDER_WAY if event.topic == "resumed" else state.under_way
            return replace(state, notes=(*state.notes, event), under_way=running)
        case RunFinished():
            return replace(state, finished=event, under_way=_NONE_UNDER_WAY)
        case _:
            assert_never(event)


def fold(events: Iterable[Event], state: RunState | None = None) -> RunState:
    """Return the state after all the events, as repeated `reduce`, with endings and rungs applied
    in bulk.

    >>> from wavewright.executor import StepFinished, fold
    >>> fold([StepFinished(1.0, "a", "ok", output=4)]).outputs()
    {'a': 4}
    """
    folded = state if state is not None else RunState()
    bulk: list[_BulkEvent] = []
    for event in events:
        if isinstance(event, (StepStarted, StepFinished, ItemFinished, RungTaken)):
            bulk.append(event)
            continue
        if bulk:
            folded = _with_bulk(folded, bulk)
            bulk = []
        folded = reduce(folded, event)
    return _with_bulk(folded, bulk) if bulk else folded


def _with_step(state: RunState, ending: StepFinished) -> RunState:
    # Without `replace`, which would double the cost of this call for every step.
    return RunState(
        state.started,
        state.plans,
        state.steps.set(ending.step, ending),
        state.items,
        _without(state.begun, ending) if state.begun else state.begun,
        state.wave_records,
        state.notes,
        state.uses,
        state.rung_records,
        state.loop_records,
        state.faults,
        state.under_way.delete(ending.step) if ending.step in state.under_way else state.under_way,
        _with_undone(state.undone, state.steps.get(ending.step), ending),
    )


def _with_start(state: RunState, event: StepStarted) -> RunState:
    running = state.under_way.set(event.step, event)
    begun = state.begun
    if event.key is not None:
        begun = begun.set((event.step, event.key), event)
    return replace(state, begun=begun, under_way=running, finished=None)


def _with_bulk(state: RunState, events: Iterable[_BulkEvent]) -> RunState:
    begun, steps, rungs = state.begun, state.steps.mutate(), state.rung_records.mutate()
    undone = state.undone
    running = state.under_way.mutate()
    items: dict[StepId, MapMutation[int, ItemFinished]] = {}
    for event in events:
        if isinstance(event, RungTaken):
            rungs[len(rungs)] = event
            continue
        if isinstance(event, StepStarted):
            running[event.step] = event
            if event.key is not None:
                begun = begun.set((event.step, event.key), event)
            continue
        if isinstance(event, StepFinished):
            undone = _with_undone(undone, steps.get(event.step), event)
            steps[event.step] = event
            running.pop(event.step, None)
        else:
            known = items.get(event.step)
            if known is None:
                known = items[event.step] = state.items.get(event.step, _NO_ITEMS_OF_STEP).mutate()
            undone = _with_undone(undone, known.get(event.index), event)
            known[event.index] = event
        if begun:
            begun = _without(begun, event)
    return RunState(
        state.started,
        state.plans,
        steps.finish(),
        state.items.update({step: endings.finish() for step, endings in items.items()}),
        begun,
        state.wave_records,
        state.notes,
        state.uses,
        rungs.finish(),
        state.loop_records,
        state.faults,
        running.finish(),
        undone,
    )


def _with_steps_of(state: RunState, accepted: PlanAccepted) -> RunState:
    """Return the state without endings of steps that began before the first plan was whole, and are
    not in it.
    """
    if not state.steps and not state.items:
        return state
    ids = {StepId(name) for name in step_ids(accepted.plan)}
    steps = Map({step: ending for step, ending in state.steps.items() if step in ids})
    items = Map({step: endings for step, endings in state.items.items() if step in ids})
    return replace(state, steps=steps, items=items)


def _without(
    begun: Map[tuple[StepId, StepKey], StepStarted], ending: StepFinished | ItemFinished
) -> Map[tuple[StepId, StepKey], StepStarted]:
    """Remove a call that has ended; a cancelled one may have taken effect and is kept."""
    if ending.key is None or ending.status == "cancelled" or (ending.step, ending.key) not in begun:
        return begun
    return begun.delete((ending.step, ending.key))


def _with_undone(
    undone: Map[tuple[StepId, StepKey], StepFinished | ItemFinished],
    before: StepFinished | ItemFinished | None,
    ending: StepFinished | ItemFinished,
) -> Map[tuple[StepId, StepKey], StepFinished | ItemFinished]:
    """Add the ending before, where it is that of a call, and this one is not of the same call made
    again.
    """
    if before is None or before.key is None or not is_of_call(before):
        return undone
    if ending.key == before.key and is_of_call(ending):
        return undone
    return undone.set((before.step, before.key), before)


def is_of_call(ending: StepFinished | ItemFinished) -> bool:
    """Whether a call stands behind an ending: one that was made, or whose output was taken over."""
    return ending.status in SUCCESSES or ending.attempts > 0


def _with_fault(state: RunState, event: AttemptLogged) -> RunState:
    place = (event.step, event.index)
    if not event.traceback or (place not in state.faults and len(state.faults) >= MAX_FAULTS):
        return state if state.finished is None else replace(state, finished=None)
    return replace(state, faults=state.faults.set(place, event), finished=None)


def _in_order(numbered: Map[int, _E]) -> tuple[_E, ...]:
    return tuple(numbered[number] for number in range(len(numbered)))


def _with_finished_wave(state: RunState, event: WaveFinished) -> RunState:
    place = (event.round, event.wave)
    record = state.wave_records.get(place)
    if record is None:
        return state
    return replace(
        state,
        wave_records=state.wave_records.set(place, replace(record, finished=event.at)),
        finished=None,
    )


def step_ids(plan: JsonObject | None) -> list[str]:
    """Return the ids of the steps of a plan as JSON."""
    steps = plan.get("steps") if plan else None
    if not isinstance(steps, list):
        return []
    return [str(step["id"]) for step in steps if isinstance(step, dict) and "id" in step]
