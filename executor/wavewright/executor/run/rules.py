"""The rules of a call: whether it is made, and if not, what stands in its place.

`CallRules.decide` looks at what is known of a ready call and returns a decision. It changes nothing
and waits for nothing; `calls.py` applies the decision. The rules are asked in the order in which
they stand in `decide`, and the first that has something to say decides. They are listed, each with
its test, in `docs/explanation/semantics.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import ItemFinished, PersonAsk, StepFinished
from wavewright.executor.run.program import CompiledStep, CompiledTool
from wavewright.executor.run.redacted_events import WithheldCheck
from wavewright.executor.run.scheduled_calls import ScheduledCall
from wavewright.executor.store.journal import StoredOutput
from wavewright.planner.language.plan import Gate
from wavewright.planner.types import GateId, RunId, StepId, StepKey

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

    run: RunId | None
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
class RefuseUnclear:
    """The call was begun and may have taken effect: it is not repeated."""


@dataclass(frozen=True, slots=True)
class RefuseWithheld:
    """The call ended, and the journal does not keep what is read of its output."""


@dataclass(frozen=True, slots=True)
class NeedsStoredOutput:
    """The journal is to be asked for an equal call of another run; then the rules decide again."""


@dataclass(frozen=True, slots=True)
class NeedsToKnowWhetherItRuns:
    """The tool is to be asked whether the call outlived the process that made it; then the rules
    decide again.
    """


FinalDecision: TypeAlias = (
    MakeCall
    | KeepEnding
    | AskGatesAgain
    | ReuseOutput
    | FollowEqualCall
    | AskPerson
    | RefuseUnclear
    | RefuseWithheld
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


@dataclass(frozen=True, slots=True)
class ReuseSource:
    """The run whose results a retry reuses."""

    state: RunState
    origin: RunId
    """The run whose id is part of the keys of calls that may be reused."""
    anew: frozenset[StepId] = frozenset()
    """Steps whose calls are always made."""

    def find(self, call: ScheduledCall) -> FinishedCall | None:
        """Return the ending of the same call in that run, where it succeeded and has the same key."""
        if call.step.id in self.anew:
            return None
        ending = recorded_ending(self.state, call)
        if ending is None or ending.key != call.key or ending.status not in SUCCESSES:
            return None
        return ending


class CallRules:
    """The rules of the calls of one execution."""

    def __init__(
        self,
        prior: RunState,
        *,
        retried: ReuseSource | None,
        retry_failed: bool,
        is_withheld: WithheldCheck,
        gates: Mapping[StepId | None, frozenset[GateId]],
    ) -> None:
        self.equal_calls = EqualCalls(prior)
        self._prior = prior
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

    def _ended_before(self, call: ScheduledCall) -> Decision | None:
        """What ended in an earlier part of this run is not called again."""
        ending = recorded_ending(self._prior, call)
        if ending is None or not self.stands(ending):
            return None
        # An item that was kept from the step before was called with that step's parameters.
        is_kept = call.step.only == "failed" and ending.status == "reused"
        if ending.key != call.key and not is_kept:
            return None
        lacks_gates = isinstance(ending, StepFinished) and self.lacks_gates(ending)
        # A fan-out is gated as a whole, so each item of it is read again.
        reads_all = lacks_gates or call.fan_out is not None
        if self._is_withheld(ending, reads_all) and _tool_of(call).is_repeatable:
            # The secret can be had again by another call, which harms nobody.
            return None
        if self._is_withheld(ending, False):
            return RefuseWithheld()
        if isinstance(ending, StepFinished) and lacks_gates:
            return AskGatesAgain(ending)
        return KeepEnding(ending)

    def _succeeded_in_retried_run(self, call: ScheduledCall) -> Decision | None:
        """What succeeded in the run that this one retries is taken over."""
        ending = self.retried_ending(call)
        if ending is None or self._retried is None:
            return None
        if self._is_withheld(ending, True) and _tool_of(call).is_repeatable:
            return None
        if self._is_withheld(ending, False):
            return RefuseWithheld()
        return ReuseOutput(FromRetriedRun(self._retried.state.run, ending))

    def _needs_person(self, call: ScheduledCall) -> Decision | None:
        """A person allows a call, or answers it, before it is made."""
        asks = _compiled(call).asks
        if asks is None or call.answer is not None:
            return None
        return AskPerson(asks)

    def _may_have_taken_effect(self, call: ScheduledCall, inquiry: Inquiry) -> Decision | None:
        """A write that was begun and whose end is unknown is never repeated."""
        tool = _tool_of(call).signature
        if not tool.writes or tool.idempotent or call.key is None:
            return None
        if (call.step.id, call.key) not in self._prior.begun:
            return None
        if inquiry.is_running is None:
            return NeedsToKnowWhetherItRuns()
        # A call that outlived its process is not repeated: it is waited for.
        return None if inquiry.is_running else RefuseUnclear()

    def _has_equal(self, call: ScheduledCall, inquiry: Inquiry) -> Decision | None:
        """Equal calls of a reading tool are made once."""
        if not self.may_share(call) or call.key is None:
            return None
        if inquiry.has_asked_journal:
            return None if inquiry.stored is None else ReuseOutput(FromJournal(inquiry.stored))
        equal = self.equal_calls.finished(call.key)
        if equal is not None:
            return ReuseOutput(FromEqualCall(equal))
        if self.equal_calls.is_in_progress(call.key):
            return FollowEqualCall()
        if _tool_of(call).signature.cache_for is None or self._is_called_anew(call.step.id):
            return None
        return NeedsStoredOutput()

    def may_share(self, call: ScheduledCall) -> bool:
        """Whether one call may serve this one and its equals."""
        # What a person has answered to one step is no answer to another, and a step that supersedes
        # another was added because the earlier output was not good enough.
        is_answered = _compiled(call).asks == "question"
        return _tool_of(call).only_reads and not is_answered and call.step.supersedes is None

    def _is_called_anew(self, step: StepId) -> bool:
        return self._retried is not None and step in self._retried.anew

    def retried_ending(self, call: ScheduledCall) -> FinishedCall | None:
        """Return the ending of the same call in the run that this one retries, where its output
        still fits the tool.
        """
        ending = None if self._retried is None or call.key is None else self._retried.find(call)
        if ending is None or not _tool_of(call).fits(ending.output):
            return None
        return ending

    def fan_out_ending(self, step: StepId, key: StepKey | None) -> StepFinished | None:
        """Return the ending of a whole `for_each` step in an earlier part of this run, where it
        stands and its calls are the same.
        """
        ending = self._prior.steps.get(step)
        if ending is None or ending.key is None or ending.key != key or not self.stands(ending):
            return None
        if self._is_withheld(ending, False) or self.lacks_gates(ending):
            return None
        return ending

    def may_keep_fan_out(self, step: StepId) -> bool:
        """Whether a whole `for_each` step may be kept, so that it is worth computing its key."""
        ending = self._prior.steps.get(step)
        return ending is not None and self.fan_out_ending(step, ending.key) is not None

    def lacks_gates(self, ending: StepFinished) -> bool:
        """Whether the plan has gates on a step that were not evaluated when it ended: it started
        before they came.
        """
        if ending.status not in SUCCESSES:
            return False
        evaluated = {record.gate for record in ending.gates}
        return not self._gates.get(ending.step, frozenset()) <= evaluated

    def has_ended_before(self, step: StepId) -> bool:
        """Whether a step has an ending that stands from an earlier part of this run."""
        ending = self._prior.steps.get(step)
        return ending is not None and self.stands(ending)

    def stands(self, ending: FinishedCall) -> bool:
        """Whether an ending of an earlier part of this run stands."""
        if ending.status in SUCCESSES:
            return True
        if ending.status != "failed":
            # It was skipped, blocked or cancelled: what decided that may be otherwise now.
            return False
        # A failure stands until a patch replaces the step, unless failed calls are tried again. A
        # write that may have taken effect is not even then.
        is_unclear = ending.error is not None and ending.error.kind == "interrupted"
        return is_unclear or not self._retry_failed


def recorded_ending(state: RunState, call: ScheduledCall) -> FinishedCall | None:
    """Return the ending of a call in a run; None where it has not ended."""
    if call.item is None:
        return state.steps.get(call.step.id)
    items = state.items.get(call.step.id)
    return items.get(call.item) if items else None


def gates_by_step(gates: tuple[Gate, ...]) -> dict[StepId | None, frozenset[GateId]]:
    """Return the ids of gates by the step that they are on."""
    found = dict[StepId | None, frozenset[GateId]]()
    for gate in gates:
        found[gate.on] = found.get(gate.on, frozenset()) | {gate.id}
    return found


class EqualCalls:
    """The calls of one run by key: what has succeeded, and what is in progress.

    While a call is in progress, equal ones *follow* it and get its output. If it fails, they are
    made themselves.
    """

    def __init__(self, prior: RunState) -> None:
        self._finished: dict[StepKey, FinishedCall] = {}
        self._followers: dict[StepKey, list[ScheduledCall]] = {}
        for items in prior.items.values():
            for item in items.values():
                self._remember(item)
        for step in prior.steps.values():
            if step.items is None:
                self._remember(step)

    def finished(self, key: StepKey) -> FinishedCall | None:
        """Return the ending of an equal call that succeeded."""
        return self._finished.get(key)

    def is_in_progress(self, key: StepKey) -> bool:
        """Whether an equal call is in progress."""
        return key in self._followers

    def start(self, key: StepKey) -> None:
        """Let equal calls follow this one from now on."""
        self._followers.setdefault(key, [])

    def follow(self, call: ScheduledCall, key: StepKey) -> None:
        """Let a call wait for the equal one that is in progress."""
        self._followers[key].append(call)

    def succeed(self, key: StepKey, ending: FinishedCall) -> list[ScheduledCall]:
        """Keep the ending of a call; return its followers."""
        self._finished[key] = ending
        return self._followers.pop(key, [])

    def fail(self, key: StepKey) -> list[ScheduledCall]:
        """Return the followers of a call that failed, which must be made themselves."""
        return self._followers.pop(key, [])

    def _remember(self, ending: FinishedCall) -> None:
        if ending.key is not None and ending.status in SUCCESSES and not ending.withheld:
            self._finished[ending.key] = ending


def _compiled(call: ScheduledCall) -> CompiledStep:
    assert call.compiled is not None
    return call.compiled


def _tool_of(call: ScheduledCall) -> CompiledTool:
    return _compiled(call).tool
