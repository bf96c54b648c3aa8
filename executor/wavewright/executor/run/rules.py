"""The rules of a call: whether it is made, and if not, what stands in its place.

`CallRules.decide` looks at what is known of a ready call and returns a decision. It changes nothing
and waits for nothing; `calls.py` applies the decision. The rules are asked in the order in which
they stand in `decide`, and the first that has something to say decides. They are listed, each with
its test, in `docs/explanation/semantics.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from wavewright.executor.events.state import SUCCESSES, RunState, is_of_call
from wavewright.executor.events.types import ItemFinished, PersonAsk, StepError, StepFinished
from wavewright.executor.run.failures import UNCLEAR, UNCLEAR_KINDS, UNREADABLE, WITHHELD
from wavewright.executor.run.program import CompiledStep, CompiledTool
from wavewright.executor.run.redacted_events import WithheldCheck
from wavewright.executor.run.scheduled_calls import FanOut, ScheduledCall
from wavewright.executor.store.journal import StoredOutput
from wavewright.planner import Gate, Plan, RunId, Step, StepId, StepKey
from wavewright.planner.language.hashing import content_of, placed_key
from wavewright.planner.plans.graph import superseded_before
from wavewright.planner.types import CallContent, GateId

FinishedCall: TypeAlias = StepFinished | ItemFinished

# -- what a rule may say


@dataclass(frozen=True, slots=True)
class MakeCall:
    """The tool is called."""


@dataclass(frozen=True, slots=True)
class KeepEnding:
    """The call ended in an earlier part of this run: its ending stands."""

    ending: FinishedCall


@dataclass(frozen=True, slots=True)
class AskGatesAgain:
    """The call ended in an earlier part of this run, but gates were added to its step since."""

    ending: StepFinished


@dataclass(frozen=True, slots=True)
class FromRetriedRun:
    """The output is that of the run that this one retries."""

    run: RunId
    ending: FinishedCall


@dataclass(frozen=True, slots=True)
class FromEqualCall:
    """The output is that of an equal call of this run."""

    ending: FinishedCall


@dataclass(frozen=True, slots=True)
class FromJournal:
    """The output is that of an equal call of another run."""

    output: StoredOutput


OutputSource: TypeAlias = FromRetriedRun | FromEqualCall | FromJournal


@dataclass(frozen=True, slots=True)
class ReuseOutput:
    """The call is not made: the output of another one is its output."""

    source: OutputSource


@dataclass(frozen=True, slots=True)
class FollowEqualCall:
    """An equal call is in progress: its output will be this one's, if it succeeds."""


@dataclass(frozen=True, slots=True)
class AskPerson:
    """A person must answer first."""

    asks: PersonAsk


@dataclass(frozen=True, slots=True)
class RefuseCall:
    """The call is not made, and fails."""

    error: StepError
    """`UNCLEAR`: it was begun and may have taken effect. `WITHHELD`: it ended, and the journal does
    not keep what is read of its output. `UNREADABLE`: it ended, and the present code of its tool
    cannot read its output.
    """


@dataclass(frozen=True, slots=True)
class NeedsStoredOutput:
    """The journal is to be asked for an equal call of another run; then the rules decide again."""


@dataclass(frozen=True, slots=True)
class NeedsToKnowWhetherItRuns:
    """The tool is to be asked whether the call outlived the process that made it; then the rules
    decide again.
    """


FinalDecision: TypeAlias = (
    MakeCall | KeepEnding | AskGatesAgain | ReuseOutput | FollowEqualCall | AskPerson | RefuseCall
)
Decision: TypeAlias = FinalDecision | NeedsStoredOutput | NeedsToKnowWhetherItRuns

_MAKE_CALL: Final = MakeCall()


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What was found out on behalf of the rules; nothing at first."""

    has_asked_journal: bool = False
    stored: StoredOutput | None = None
    is_running: bool | None = None
    """None where the tool was not asked."""


NOTHING_ASKED: Final = Inquiry()


@dataclass(frozen=True)
class RunSoFar:
    """A run as far as it came: one that is retried, or the one that goes on."""

    run: RunId
    state: RunState
    changed: frozenset[str] = frozenset()
    """Tools whose code is another one now."""

    @cached_property
    def endings(self) -> PastEndings:
        """How its calls have ended."""
        return PastEndings(self.state)

    @cached_property
    def _superseded(self) -> Mapping[StepId, tuple[StepId, ...]]:
        plan = self.state.plan
        return {} if plan is None else superseded_before(Plan.model_validate(plan))

    def line_of(self, step: StepId) -> list[StepId]:
        """Return a step and those that were put in its place, one after the other; the newest
        first.
        """
        newer = [name for name, older in self._superseded.items() if step in older]
        return [*reversed(newer), step]


@dataclass(frozen=True, slots=True)
class ReuseSource:
    """The runs whose results a retry reuses: the one that it repeats, and those that this repeats."""

    chain: tuple[RunSoFar, ...]
    """The newest first; not empty."""
    anew: frozenset[StepId] = frozenset()
    """Steps whose calls are always made."""
    again: frozenset[StepId] = frozenset()
    """Steps whose calls are made again: of a write only those whose outcome is unclear."""
    others: tuple[RunSoFar, ...] = ()
    """Other retries of the first run: of these, only writes count."""

    @property
    def origin(self) -> RunId:
        """The first run of the chain: its id is part of the keys of calls that may be reused."""
        return self.chain[-1].run

    def last(self, call: ScheduledCall, step: StepId) -> PastCall | None:
        """Return what became of the same call of a step when it was made last, in any run of the
        chain.

        A write that succeeded counts even where it was made again since and failed: it has taken
        effect. A read counts only as its tool's present code would make it.
        """
        past = list(self._past_calls(call, step, self.chain))
        if not _tool_of(call).signature.writes:
            return _last_of(past, writes=False)
        # What has taken effect has done so, whichever retry did it: see "Retried" in
        # docs/explanation/semantics.md.
        elsewhere = list(self._past_calls(call, step, self.others))
        newest = _last_of(past, writes=False)
        if step in self.again and _is_unclear_past(newest) and not any(map(_succeeded, elsewhere)):
            # It is known to be unclear, and is what is to be made again.
            return newest
        made = _last_of([*past, *elsewhere], writes=True)
        if made is None or _succeeded(made):
            return made
        # Whether another retry wrote before or after the one that is repeated is not known.
        return next(filter(_is_unclear_past, elsewhere), made)

    def is_named(self, step: StepId) -> bool:
        """Whether calls of a step are made again because the retry names it."""
        return step in self.anew or step in self.again

    def is_made_anew(self, step: Step) -> bool:
        """Whether the retry names a step, or its tool has other code than in the newest run."""
        return self.is_named(step.id) or step.tool in self.chain[0].changed

    def may_take_over(self, call: ScheduledCall) -> bool:
        """Whether a call that succeeded before is not made.

        A step is named in `again` for what is unclear of it; what has taken effect does so once.
        """
        is_repeated = call.step.id in self.again and _tool_of(call).is_repeatable
        return not is_repeated and call.step.id not in self.anew

    def of_superseded(self, call: ScheduledCall, step: StepId) -> Iterator[PastCall]:
        """Yield what became of the same write of a step that the call's step supersedes, where the
        retry does not have it made again.
        """
        past = None if step in self.anew else self.last(call, step)
        if past is not None and not (step in self.again and _is_unclear_past(past)):
            yield past

    def _past_calls(
        self, call: ScheduledCall, step: StepId, donors: Iterable[RunSoFar]
    ) -> Iterator[PastCall]:
        """Yield the same call of a step in each of some runs; a step that a patch put in its place
        is that step again.
        """
        # A step that was called anew has the key of the run that did so.
        runs = [donor.run for donor in (*self.chain, *self.others)]
        writes = _tool_of(call).signature.writes
        for retried in donors:
            if not writes and call.step.tool in retried.changed:
                return
            for newer in retried.line_of(step):
                yield from _past_call(retried, call, newer, runs)


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call of another run."""

    run: RunId
    ending: FinishedCall | None
    """None where it was begun and its end is not known."""


def _succeeded(past: PastCall) -> bool:
    return past.ending is not None and past.ending.status in SUCCESSES


def _was_refused(past: PastCall) -> bool:
    """Whether nothing was called, so that what runs before did still holds: a person refused it."""
    ending = past.ending
    return ending is not None and ending.error is not None and ending.error.kind == "refused"


def _was_unreadable(ending: FinishedCall) -> bool:
    """Whether nothing was called: an output of before was read again, and other code could not."""
    error = ending.error
    return error is not None and error.kind == "output" and not error.attempts


def _past_call(
    past: RunSoFar, call: ScheduledCall, step: StepId, runs: Iterable[RunId]
) -> Iterator[PastCall]:
    """Yield the same call as one that is ready, which a step of a run has made or begun; its key is
    of one of the runs.
    """
    assert call.key is not None
    content = content_of(call.key)
    for run in runs:
        key = placed_key(content, run, step, call.nth)
        if (step, key) in past.state.begun:
            yield PastCall(past.run, None)
            return
        ending = past.endings.last_made(call, key, step)
        if ending is not None:
            yield PastCall(past.run, ending)
            return


def _last_of(calls: Iterable[PastCall], *, writes: bool) -> PastCall | None:
    """Return the one that counts of the same calls, the newest first: of a write one that succeeded,
    or else the newest.
    """
    newest: PastCall | None = None
    unreadable: PastCall | None = None
    for past in calls:
        if _was_refused(past):
            continue
        if _succeeded(past):
            return past
        if past.ending is not None and _was_unreadable(past.ending):
            # Whose output it was stands before it: see "Undone" in docs/explanation/semantics.md.
            unreadable = unreadable or past
            continue
        newest = newest or past
        if not writes:
            return newest
    return newest or unreadable


class CallRules:
    """The rules of the calls of one execution."""

    def __init__(
        self,
        prior: RunState,
        *,
        run: RunId,
        retried: ReuseSource | None,
        retry_failed: bool,
        superseded: Mapping[StepId, tuple[StepId, ...]],
        is_withheld: WithheldCheck,
        gates: Mapping[StepId | None, frozenset[GateId]],
        sharing: Mapping[StepId, CompiledTool],
    ) -> None:
        self.equal_calls = EqualCalls(prior, sharing)
        self._prior = prior
        self._own = RunSoFar(run, prior)
        self._superseded = superseded
        self._retried = retried
        self._retry_failed = retry_failed
        self._is_withheld = is_withheld
        self._gates = gates

    def decide(self, call: ScheduledCall, inquiry: Inquiry = NOTHING_ASKED) -> Decision:
        """Return what becomes of a call whose parameters and key are set."""
        return (
            self._ended_before(call)
            or self._succeeded_in_retried_run(call)
            or self._needs_person(call)
            or self._may_have_taken_effect(call, inquiry)
            or self._has_equal(call, inquiry)
            or _MAKE_CALL
        )

    def has_ended(self, call: ScheduledCall) -> bool:
        """Whether a call ended in this run or in one that it retries, so that it is not made."""
        return (self._ended_before(call) or self._succeeded_in_retried_run(call)) is not None

    def _ended_before(self, call: ScheduledCall) -> Decision | None:
        """What ended in an earlier part of this run is not called again.

        It is the same call where step, item and parameters are: the code of the tool may be another
        one.
        """
        ending = None if call.key is None else self._own.endings.find(call, call.key, call.step.id)
        if ending is None or not self.stands(ending, _tool_of(call)):
            return None
        can_read = ending.withheld or _tool_of(call).fits(ending.output)
        if ending.status in SUCCESSES and not can_read:
            return RefuseCall(UNREADABLE)
        lacks_gates = isinstance(ending, StepFinished) and self.lacks_gates(ending)
        # A fan-out is gated as a whole, so each item of it is read again.
        reads_all = lacks_gates or call.fan_out is not None
        if self._is_withheld(ending, reads_all) and _tool_of(call).is_repeatable:
            # The secret can be had again by another call, which harms nobody.
            return None
        if self._is_withheld(ending, False):
            return RefuseCall(WITHHELD)
        if isinstance(ending, StepFinished) and lacks_gates:
            return AskGatesAgain(ending)
        return KeepEnding(ending)

    def _succeeded_in_retried_run(self, call: ScheduledCall) -> Decision | None:
        """What succeeded in a run that this one retries is taken over."""
        past = self._taken_over(call)
        if past is None or past.ending is None:
            return None
        if not past.ending.withheld and not _tool_of(call).fits(past.ending.output):
            return RefuseCall(UNREADABLE)
        if self._is_withheld(past.ending, True) and _tool_of(call).is_repeatable:
            return None
        if self._is_withheld(past.ending, False):
            return RefuseCall(WITHHELD)
        return ReuseOutput(FromRetriedRun(past.run, past.ending))

    def _taken_over(self, call: ScheduledCall) -> PastCall | None:
        """Return the call whose output is this one's: of a superseded step, or of a retried run."""
        past = self._write_of_superseded(call)
        if past is None and self._retried is not None and self._retried.may_take_over(call):
            past = self._retried.last(call, call.step.id)
        if past is None or past.ending is None or past.ending.status not in SUCCESSES:
            return None
        tool = _tool_of(call)
        # A read whose output no longer fits is made again; a write never is.
        return past if tool.fits(past.ending.output) or not tool.is_repeatable else None

    def _write_of_superseded(self, call: ScheduledCall) -> PastCall | None:
        """Return what became of the same write in a step that the call's step supersedes: in this
        run, or in one that it retries.

        A patch puts a step in the place of another because its output was not good enough, or not
        there; what has taken effect does so once.
        """
        older = self._superseded.get(call.step.id, ())
        if not older or _tool_of(call).is_repeatable or call.key is None:
            return None
        return _last_of(self._past_of(older, call), writes=True)

    def _past_of(self, older: Iterable[StepId], call: ScheduledCall) -> Iterator[PastCall]:
        retried = self._retried
        runs = [self._own.run] if retried is None else [self._own.run, retried.origin]
        for step in older:
            yield from _past_call(self._own, call, step, runs)
            if retried is not None:
                yield from retried.of_superseded(call, step)

    def is_taken_over(self, call: ScheduledCall) -> bool:
        """Whether a call is not made because a retried run or a superseded step made it, and its
        whole output is known.
        """
        if self._own.endings.is_kept_item(call):
            return True
        past = self._taken_over(call)
        return past is not None and past.ending is not None and not past.ending.withheld

    def _needs_person(self, call: ScheduledCall) -> Decision | None:
        """A person allows a call, or answers it, before it is made."""
        asks = _compiled(call).asks
        if asks is None or call.answer is not None:
            return None
        return AskPerson(asks)

    def _may_have_taken_effect(self, call: ScheduledCall, inquiry: Inquiry) -> Decision | None:
        """A write that was begun and whose outcome is unknown is never repeated."""
        tool = _tool_of(call)
        if tool.is_repeatable or not tool.signature.writes or call.key is None:
            return None
        before = self._write_of_superseded(call)
        if _is_unclear_past(before) or self._is_unclear_in_retried_run(call):
            return RefuseCall(UNCLEAR)
        if (call.step.id, call.key) not in self._prior.begun:
            return None
        if inquiry.is_running is None:
            return NeedsToKnowWhetherItRuns()
        # A call that outlived its process is not repeated: it is waited for.
        return None if inquiry.is_running else RefuseCall(UNCLEAR)

    def _is_unclear_in_retried_run(self, call: ScheduledCall) -> bool:
        """Whether a run that this one retries does not know what became of the call, and nobody has
        said that it is made again.
        """
        if self._retried is None or call.step.id in self._retried.again:
            return False
        return _is_unclear_past(self._retried.last(call, call.step.id))

    def _has_equal(self, call: ScheduledCall, inquiry: Inquiry) -> Decision | None:
        """Equal calls of a deterministic tool are made once; those of any other tool are not."""
        if inquiry.has_asked_journal:
            return None if inquiry.stored is None else ReuseOutput(FromJournal(inquiry.stored))
        if self.may_share(call) and call.key is not None:
            content = content_of(call.key)
            equal = self.equal_calls.finished(content)
            is_made_here = equal is not None and equal.status != "reused"
            # What this run makes serves before what it takes over, also where that is there first.
            if not is_made_here and self.equal_calls.is_in_progress(content):
                return FollowEqualCall()
            if equal is not None:
                return ReuseOutput(FromEqualCall(equal))
        return NeedsStoredOutput() if self._may_be_stored(call) else None

    def _may_be_stored(self, call: ScheduledCall) -> bool:
        """Whether a result of another run is as good, for as long as the tool says (`cache_for`)."""
        if self._retried is not None and self._retried.is_made_anew(call.step):
            return False
        # A step that supersedes another was added because the earlier output was not good enough.
        return call.cache_key is not None and call.step.supersedes is None

    def may_share(self, call: ScheduledCall) -> bool:
        """Whether one call may serve this one and its equals."""
        return _tool_of(call).may_share(call.step, asks=_compiled(call).asks)

    def fan_out_ending(self, fan: FanOut, key: StepKey | None) -> StepFinished | None:
        """Return the ending of a whole `for_each` step in an earlier part of this run, where it
        stands, its calls are the same and the present code can read its outputs.
        """
        ending = self._prior.steps.get(fan.step.id)
        if ending is None or ending.key != key or not self.may_keep_fan_out(fan):
            return None
        outputs = ending.output if isinstance(ending.output, list) else []
        return ending if all(map(fan.compiled.tool.fits, outputs)) else None

    def may_keep_fan_out(self, fan: FanOut) -> bool:
        """Whether a whole `for_each` step may be kept, so that it is worth computing its key."""
        ending = self._prior.steps.get(fan.step.id)
        if ending is None or ending.key is None or not self.stands(ending, fan.compiled.tool):
            return False
        return not (self._is_withheld(ending, False) or self.lacks_gates(ending))

    def lacks_gates(self, ending: StepFinished) -> bool:
        """Whether the plan has gates on a step that were not evaluated when it ended: it started
        before they came.
        """
        if ending.status not in SUCCESSES:
            return False
        evaluated = {record.gate for record in ending.gates}
        return not self._gates.get(ending.step, frozenset()) <= evaluated

    def is_recorded(self, ending: FinishedCall) -> bool:
        """Whether an ending is the one that its step or item has, and not one that was undone since."""
        if isinstance(ending, StepFinished):
            return self._prior.steps.get(ending.step) is ending
        items = self._prior.items.get(ending.step)
        return items is not None and items.get(ending.index) is ending

    def has_ended_before(self, step: StepId) -> bool:
        """Whether a step has an ending that stands from an earlier part of this run."""
        ending = self._prior.steps.get(step)
        return ending is not None and self.stands(ending)

    def stands(self, ending: FinishedCall, tool: CompiledTool | None = None) -> bool:
        """Whether an ending of an earlier part of this run stands."""
        if ending.status in SUCCESSES:
            return True
        if ending.status != "failed":
            # It was skipped, blocked or cancelled: what decided that may be otherwise now.
            return False
        # A failure stands until a patch replaces the step, unless failed calls are tried again. A
        # write that may have taken effect is not even then.
        may_repeat = tool is not None and tool.is_repeatable
        return not self._retry_failed or (is_unclear(ending) and not may_repeat)


def _is_unclear_past(past: PastCall | None) -> bool:
    if past is None:
        return False
    # An output that could not be read, and that nobody has any more, may be that of a write.
    return past.ending is None or is_unclear(past.ending) or _was_unreadable(past.ending)


def is_unclear(ending: FinishedCall) -> bool:
    """Whether a call that failed may have taken effect."""
    error = ending.error
    # An output that was only read again is of no call.
    return error is not None and error.kind in UNCLEAR_KINDS and not _was_unreadable(ending)


class PastEndings:
    """How the calls of a run have ended, found by what they are."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._items: dict[StepId, dict[StepKey, ItemFinished]] = {}
        """By step and key; of the steps of whose items one was looked for at another place."""

    def last_made(self, call: ScheduledCall, key: StepKey, step: StepId) -> FinishedCall | None:
        """Return how the same call of a step ended when it was made last, however the step ended
        since.
        """
        ending = self.find(call, key, step)
        if ending is None or not is_of_call(ending):
            return self._state.undone.get((step, key), ending)
        return ending

    def find(self, call: ScheduledCall, key: StepKey, step: StepId) -> FinishedCall | None:
        """Return the ending of the same call of a step; None where it has not ended."""
        if call.item is None:
            ending = self._state.steps.get(step)
            if ending is not None and ending.key == key:
                return ending
            return self._state.undone.get((step, key))
        items = self._state.items.get(step) or dict[int, ItemFinished]()
        at_place = items.get(call.item)
        is_here = step == call.step.id and self.is_kept_item(call)
        if at_place is not None and (is_here or at_place.key == key):
            return at_place
        # The list was in another order when that run was made.
        if step not in self._items:
            self._items[step] = {item.key: item for item in items.values() if item.key is not None}
        return self._items[step].get(key) or self._state.undone.get((step, key))

    def is_kept_item(self, call: ScheduledCall) -> bool:
        """Whether a patch took an item over from the step before, whose parameters it was called
        with.
        """
        items = self._state.items.get(call.step.id)
        if call.item is None or call.step.only != "failed" or items is None:
            return False
        ending = items.get(call.item)
        return ending is not None and ending.status == "reused" and ending.key != call.key


def gates_by_step(gates: tuple[Gate, ...]) -> dict[StepId | None, frozenset[GateId]]:
    """Return the ids of gates by the step that they are on."""
    by_step = dict[StepId | None, frozenset[GateId]]()
    for gate in gates:
        by_step[gate.on] = by_step.get(gate.on, frozenset()) | {gate.id}
    return by_step


class EqualCalls:
    """The calls of one run by content: what has succeeded, and what is in progress.

    While a call is in progress, equal ones *follow* it and get its output. If it fails, they are
    made themselves.
    """

    def __init__(self, prior: RunState, sharing: Mapping[StepId, CompiledTool]) -> None:
        self._finished: dict[CallContent, FinishedCall] = {}
        self._leaders: dict[CallContent, ScheduledCall] = {}
        self._followers: dict[CallContent, list[ScheduledCall]] = {}
        for step_id, tool in sharing.items():
            step = prior.steps.get(step_id)
            if step is not None and step.items is None:
                self._remember(step, tool)
            for item in prior.items.get(step_id, {}).values():
                self._remember(item, tool)

    def finished(self, content: CallContent) -> FinishedCall | None:
        """Return the ending of an equal call that succeeded."""
        return self._finished.get(content)

    def is_in_progress(self, content: CallContent) -> bool:
        """Whether an equal call is in progress."""
        return content in self._leaders

    def start(self, call: ScheduledCall, content: CallContent) -> None:
        """Let equal calls follow this one from now on."""
        self._leaders.setdefault(content, call)

    def follow(self, call: ScheduledCall, content: CallContent) -> None:
        """Let a call wait for the equal one that is in progress."""
        self._followers.setdefault(content, []).append(call)

    def succeed(
        self, call: ScheduledCall, content: CallContent, ending: FinishedCall
    ) -> list[ScheduledCall]:
        """Keep the ending of a call; return its followers."""
        self._let_serve(content, ending)
        return self.take_followers(call, content)

    def take_followers(self, call: ScheduledCall, content: CallContent) -> list[ScheduledCall]:
        """Return the calls that follow one that has ended; where it failed they must be made
        themselves.
        """
        # A call that is taken over leads none: those that follow wait for the one in progress.
        if self._leaders.get(content) is not call:
            return []
        del self._leaders[content]
        return self._followers.pop(content, [])

    def _remember(self, ending: FinishedCall, tool: CompiledTool) -> None:
        """Keep an ending of an earlier part of the run that the present code can read."""
        if ending.key is None or ending.status not in SUCCESSES or ending.withheld:
            return
        if tool.fits(ending.output):
            self._let_serve(content_of(ending.key), ending)

    def _let_serve(self, content: CallContent, ending: FinishedCall) -> None:
        # "Which of several": one of the present code serves before one of older code. A call that
        # was made in this run is newer than one of a run before, and the latest is the newest.
        other = self._finished.get(content)
        if other is None or _newness(ending) >= _newness(other):
            self._finished[content] = ending


def _newness(ending: FinishedCall) -> tuple[bool, float]:
    return ending.status != "reused", ending.at


def kept_items(plan: Plan, state: RunState, at: float) -> Iterator[ItemFinished]:
    """Yield the endings of items that the steps of a patched plan take over, as of a time in seconds
    since the epoch.

    A step with `only: failed` takes over every item of the step that it supersedes which has an
    output and failed no gate.
    """
    for step in plan.steps:
        if step.only == "failed" and step.supersedes is not None and step.id not in state.items:
            yield from _kept_items_of(step, state, at)


def _kept_items_of(step: Step, state: RunState, at: float) -> Iterator[ItemFinished]:
    assert step.supersedes is not None
    ending = state.steps.get(step.supersedes)
    gates = () if ending is None else ending.gates
    stopped = {gate.index for gate in gates if gate.has_failed}
    for index, item in sorted(state.items.get(step.supersedes, {}).items()):
        if item.status in SUCCESSES and index not in stopped:
            yield replace(item, at=at, step=step.id, status="reused", seconds=0.0, attempts=0)


def _compiled(call: ScheduledCall) -> CompiledStep:
    assert call.compiled is not None
    return call.compiled


def _tool_of(call: ScheduledCall) -> CompiledTool:
    return _compiled(call).tool
