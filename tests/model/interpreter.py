"""The reference model: what a run of a plan may do, by the rules of `docs/explanation/semantics.md`.

It interprets the steps of a plan one by one, without journal, scheduler or keys. What tools and
people answered is taken from the log of what they were really asked; the model says which calls and
questions are allowed, which are missing, how each step ends, and what the result is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from tests.model.plans import GATHER, ITEM, Condition, ModelPlan, ModelStep, descendants, steps_of
from wavewright.planner.types import Json

Outcome: TypeAlias = Literal["ok", "null", "fail", "transient", "late", "cut"]
Kind: TypeAlias = Literal["success", "failed", "unclear", "skipped", "blocked"]
Number: TypeAlias = int | None

CACHE_SECONDS: Final = 3600
ANSWER_SECONDS: Final = 86_400
"""How long a question for an approval can be answered."""


class ToolRules(NamedTuple):
    """What a tool says of itself."""

    writes: bool = False
    idempotent: bool = True
    deterministic: bool = False
    is_cached: bool = False
    """Whether other runs may reuse a result for `CACHE_SECONDS`."""

    @property
    def is_repeatable(self) -> bool:
        """Whether a call may be made again without another effect."""
        return not self.writes or self.idempotent


TOOLS: Final[Mapping[str, ToolRules]] = {
    "look": ToolRules(),
    "compute": ToolRules(deterministic=True),
    "fetch": ToolRules(is_cached=True),
    "post": ToolRules(writes=True, idempotent=False),
    "put": ToolRules(writes=True, idempotent=True),
}


@dataclass
class MadeCall:
    """A call that was really made."""

    step: str
    item: int | None
    tool: str
    x: Number
    outcome: Outcome
    output: Json = None
    is_taken: bool = False
    """Whether it had outlived an earlier part of the run, and its answer was taken now."""


class Ending(NamedTuple):
    """How a call or a step ended."""

    kind: Kind
    output: Json = None
    is_stopped: bool = False
    """Whether a gate blocks what depends on it."""


class Call(NamedTuple):
    """What is asked: the step, the number, and which of the equal items of the step it is."""

    step: str
    x: Number
    nth: int


class Shown(NamedTuple):
    """What a person is shown: the step, and the numbers of all the calls that it would make."""

    step: str
    numbers: tuple[Number, ...]


@dataclass
class Question:
    """A question that is in the journal, since nobody answered at once."""

    shown: Shown
    at: float
    answer: bool | None = None
    """What a person has answered to this question since."""


class KeptResult(NamedTuple):
    """A result in the journal of another run."""

    tool: str
    x: Number
    output: Json
    version: int
    now: float
    """What `now()` gives in that run."""
    at: float


@dataclass
class Past:
    """What is known of a run: endings and answers that are in the journal, and calls begun."""

    calls: dict[Call, Ending] = field(default_factory=dict[Call, Ending])
    undone: dict[Call, Ending] = field(default_factory=dict[Call, Ending])
    """Calls that succeeded, and whose output other code could not read since."""
    lists: dict[str, Ending] = field(default_factory=dict[str, Ending])
    """How steps over a list of items ended as a whole."""
    begun: set[Call] = field(default_factory=set[Call])
    """Calls that were made, or whose start is in the journal, and whose end is not."""
    replies: dict[Shown, bool] = field(default_factory=dict[Shown, bool])
    questions: list[Question] = field(default_factory=list[Question])


@dataclass(frozen=True)
class Part:
    """One execution of a run, from a start or a resumption to an end or a stop."""

    made: Sequence[MadeCall]
    is_complete: bool
    """Whether it came to its end, so that nothing may be missing but what waits for a person."""
    replies: Sequence[tuple[Shown, bool | None]]
    """What people were asked and said; None where they did not answer."""
    begins: float
    """When it was begun."""
    now: float
    """What `now()` gives in the run."""
    version: int = 1
    """Of the code of all tools."""
    unreadable: frozenset[str] = frozenset()
    """Tools whose present code cannot read what they gave before."""
    kept: Sequence[KeptResult] = ()
    """Results of other runs that may be reused."""
    chain: tuple[tuple[Past, bool], ...] = ()
    """The runs that this one retries, the newest first, and whether the code was another one."""
    named: str | None = None
    """The step that a retry names: it is made again with all that depends on it."""
    again: frozenset[str] = frozenset()
    """Steps of a retry whose unclear calls are made again."""


class NotAllowedError(AssertionError):
    """The engine did what no rule allows."""


class _NotThere(Exception):
    """What is read is not there."""


class Interpreter:
    """Interprets one part of one run."""

    def __init__(self, plan: ModelPlan, past: Past, part: Part) -> None:
        self._plan = plan
        self.steps = {step.id: step for step in steps_of(plan)}
        self._past = past
        self._part = part
        self._replies = self._known_replies()
        self._anew = self._made_anew() | part.again
        self._ended: dict[str, Ending] = {}
        self.calls: dict[Call, Ending] = {}
        """How the calls of this part ended, or were kept or reused."""
        self.places: dict[Call, int | None] = {}
        """The calls of steps that came so far, with their places in lists."""

    def run(self) -> dict[str, Ending]:
        """Return how each step ends that ends in this part.

        Raises:
            NotAllowedError: a call was made that should not be, or one is missing.
        """
        for step in self.steps.values():
            ending = self._step(step)
            if ending is not None:
                self._ended[step.id] = ending._replace(is_stopped=self._is_stopped(step, ending))
            elif self._part.is_complete and not self._may_wait(step):
                raise NotAllowedError(f"{step.id} has not ended")
        self._deterministic_calls_are_made_once()
        return self._ended

    def result(self) -> Json:
        """Return the result of a run whose steps have all ended."""
        if self._plan.stop is not None and self._holds(Condition("even", self._plan.stop)):
            return {"stopped": self._number(self._plan.stop)}
        if self._plan.result is not None:
            return self._number(self._plan.result) if self._is_there(self._plan.result) else None
        read = set[str]().union(*(step.reads for step in self.steps.values()))
        outputs: dict[str, Json] = {
            name: self._ended[name].output if self._is_there(name) else None
            for name in self.steps
            if name not in read
        }
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))

    # -- how a step ends

    def _step(self, step: ModelStep) -> Ending | None:
        if not step.reads <= self._ended.keys():
            self._forbid(step, "a step that it depends on has not ended")
            return None
        if any(self._blocks(name) for name in step.reads):
            self._forbid(step, "it is blocked")
            return Ending("blocked")
        answers = [self._holds(condition) for condition in step.conditions]
        if False in answers:
            self._forbid(step, "its condition is false")
            return Ending("skipped")
        if None in answers:
            self._forbid(step, "its condition cannot be computed")
            return Ending("failed")
        try:
            items = [None] if step.items is None else [*step.items]
            numbers = [self._value(step, index, item) for index, item in enumerate(items)]
        except _NotThere:
            self._forbid(step, "it reads what is not there")
            return Ending("failed")
        if step.tool == GATHER:
            return Ending("success", numbers[0] if step.items is None else [*numbers])
        return self._called(step, numbers)

    def _called(self, step: ModelStep, numbers: Sequence[Number]) -> Ending | None:
        """Return how a step ends that makes calls: one, or one an item."""
        seen = Counter[Number]()
        calls = list[Call]()
        for x in numbers:
            calls.append(Call(step.id, x, seen[x]))
            seen[x] += 1
        ended = self._past.lists.get(step.id)
        if ended is not None and self._can_read(step, ended):
            self._forbid(step, "it has ended")
            return ended
        is_settled = step.items is None and self._settled(step, calls[0]) is not None
        reply = True if is_settled else self._reply(step, calls)
        if reply is None:
            self._forbid(step, "nobody has allowed it")
            return None
        if reply is False:
            self._forbid(step, "a person has refused it")
            return Ending("failed")
        endings = [
            self._call(step, call, None if step.items is None else index)
            for index, call in enumerate(calls)
        ]
        if step.items is None:
            return endings[0]
        if None in endings:
            return None
        outputs = [ending.output for ending in endings if ending and ending.kind == "success"]
        needed = len(calls) if step.min_ok is None else min(step.min_ok, len(calls))
        return Ending("success", outputs) if len(outputs) >= needed else Ending("failed")

    def _is_stopped(self, step: ModelStep, ending: Ending) -> bool:
        """Whether a gate blocks the readers of a step; a gate that cannot be computed fails."""
        if step.gate is None or ending.kind != "success":
            return False
        if step.items is not None and not ending.output:
            return step.gate.on_empty == "block"
        outputs = ending.output if isinstance(ending.output, list) else [ending.output]
        has_failed = any(_is_even(_number_of(output)) is not True for output in outputs)
        return has_failed and step.gate.severity == "block"

    def _blocks(self, name: str) -> bool:
        """Whether what depends on a step cannot run."""
        was_skipped = self._ended[name].kind == "skipped"
        return not (self._is_there(name) or was_skipped or self.steps[name].optional)

    def _is_there(self, name: str) -> bool:
        return self._ended[name].kind == "success" and not self._ended[name].is_stopped

    def _may_wait(self, step: ModelStep) -> bool:
        """Whether a step, or one that it depends on, may wait for a person, who is asked one
        question at a time.
        """
        if all(reply is not None for _, reply in self._part.replies):
            return False
        reads = [self.steps[name] for name in step.reads - self._ended.keys()]
        return step.approval or any(self._may_wait(read) for read in reads)

    # -- what is read

    def _value(self, step: ModelStep, index: int, item: Number) -> Number:
        """Return the number that a call of a step is made with."""
        if step.x == ITEM:
            return item
        if isinstance(step.x, int):
            return step.x
        names = step.x if isinstance(step.x, tuple) else (step.x,)
        there = [name for name in names if self._is_there(name)]
        if not there:
            raise _NotThere
        output = self._ended[there[-1]].output
        if step.items is not None and isinstance(output, list):
            return _number_of(output[index])
        return _number_of(output)

    def _number(self, name: str) -> Number:
        return _number_of(self._ended[name].output)

    def _holds(self, condition: Condition) -> bool | None:
        """Return what a condition gives; None where it cannot be computed."""
        is_there = self._is_there(condition.step)
        answer: bool | None = is_there
        if condition.asks == "even" and is_there:
            answer = _is_even(self._number(condition.step))
        elif condition.asks == "null":
            answer = is_there and self._number(condition.step) is None
        return None if answer is None else answer != condition.is_negated

    # -- whether a call is made

    def _call(self, step: ModelStep, call: Call, item: int | None) -> Ending | None:
        """Return how one call ends, and check that it is made exactly where it should be."""
        made = [one for one in self._part.made if (one.step, one.item) == (step.id, item)]
        if any(one.x != call.x for one in made):
            raise NotAllowedError(f"{call} was made with other parameters")
        ending = self._settled(step, call)
        if any(one.is_taken for one in made):
            if call not in self._past.begun:
                raise NotAllowedError(f"the answer of {call} was taken, which was not made before")
        elif ending is None and self._is_unclear(step, call):
            ending = Ending("unclear")
        if ending is None:
            ending = self._of_another_run(step, call)
        if ending is not None and made:
            raise NotAllowedError(f"{call} was made, but it {ending.kind} without a call")
        if ending is None and not made:
            ending = self._of_an_equal_call(step, call)
        if ending is None:
            ending = self._attempts(step, call, made)
        if ending is not None:
            self.calls[call] = ending
        self.places[call] = item
        return ending

    def _settled(self, step: ModelStep, call: Call) -> Ending | None:
        """Return how a call ended before in this run, or else in one that it retries."""
        before = self._past.calls.get(call)
        if before is None:
            return self._taken_over(step, call)
        return before if self._can_read(step, before) else Ending("failed")

    def _taken_over(self, step: ModelStep, call: Call) -> Ending | None:
        """Return the ending of the call in a run that is retried, where it succeeded there."""
        if step.id in self._anew:
            return None
        retried = self._in_chain(step, call)
        if retried is None or retried.kind != "success":
            return None
        if self._can_read(step, retried):
            return retried
        return None if TOOLS[step.tool].is_repeatable else Ending("failed")

    def _can_read(self, step: ModelStep, ending: Ending) -> bool:
        """Whether the present code of the step's tool can read what it gave before."""
        if ending.kind != "success" or step.tool not in self._part.unreadable:
            return True
        outputs = ending.output if isinstance(ending.output, list) else [ending.output]
        return all(isinstance(output, dict) and "w" in output for output in outputs)

    def _in_chain(self, step: ModelStep, call: Call) -> Ending | None:
        """Return what became of the call in the runs that are retried."""
        writes = TOOLS[step.tool].writes
        newest: Ending | None = None
        for past, is_changed in self._part.chain:
            if not writes and is_changed:
                return newest
            ending = past.undone.get(call) or past.calls.get(call)
            if call in past.begun and writes:
                ending = Ending("unclear")
            if ending is None:
                continue
            if ending.kind == "success":
                return ending
            newest = newest or ending
            if not writes:
                return newest
        return newest

    def _made_anew(self) -> set[str]:
        """Return the step that a retry names, of a sub-plan all of its steps, and what depends on
        them.
        """
        name = self._part.named
        if name is None:
            return set()
        own = {step for step in self.steps if step == name or step.startswith(f"{name}.")}
        return own | descendants([*self.steps.values()], own)

    def _is_unclear(self, step: ModelStep, call: Call) -> bool:
        """Whether a call may have taken effect already, and would take effect again."""
        if TOOLS[step.tool].is_repeatable:
            return False
        retried = self._in_chain(step, call)
        is_unclear = retried is not None and retried.kind == "unclear"
        return call in self._past.begun or (is_unclear and step.id not in self._part.again)

    def _of_another_run(self, step: ModelStep, call: Call) -> Ending | None:
        """Return the result of another run, for as long as the tool says, in the same stretch of
        the clock and of the same code.
        """
        part = self._part
        is_changed = bool(part.chain) and part.chain[0][1]
        if not TOOLS[step.tool].is_cached or step.id in self._anew or is_changed:
            return None
        for kept in part.kept:
            ending = Ending("success", kept.output)
            is_same = (kept.tool, kept.x, kept.version) == (step.tool, call.x, part.version)
            is_of_stretch = kept.now // CACHE_SECONDS == part.now // CACHE_SECONDS
            is_young = part.begins - kept.at <= CACHE_SECONDS
            if is_same and is_of_stretch and is_young and self._can_read(step, ending):
                return ending
        return None

    def _attempts(self, step: ModelStep, call: Call, made: list[MadeCall]) -> Ending | None:
        if not made and self._part.is_complete:
            raise NotAllowedError(f"{call} was not made")
        for number, one in enumerate(made, 1):
            is_last = number == len(made)
            if one.outcome == "cut":
                return None
            again = number < step.attempts and (
                one.outcome == "transient"
                or (one.outcome == "late" and step.retries_late and TOOLS[step.tool].is_repeatable)
            )
            if not is_last and not again:
                raise NotAllowedError(f"{call} was made again after {one.outcome}")
            if not is_last:
                continue
            if one.outcome in ("ok", "null"):
                return Ending("success", one.output)
            if again and self._part.is_complete:
                raise NotAllowedError(f"{call} was not made again after {one.outcome}")
            if again:
                return None
            is_unclear = one.outcome == "late" and not TOOLS[step.tool].is_repeatable
            return Ending("unclear" if is_unclear else "failed")
        return None

    # -- equal calls of deterministic tools

    def _of_an_equal_call(self, step: ModelStep, call: Call) -> Ending | None:
        """Return the ending of an equal call that has succeeded in this run."""
        if not self._may_share(step.id):
            return None
        for known in (self._past.calls, self.calls):
            for other, ending in known.items():
                if other.x == call.x and self._may_serve(other, ending):
                    return ending
        for one in self._part.made:
            if (one.x, one.outcome) == (call.x, "ok") and self._may_share(one.step):
                return Ending("success", one.output)
        return None

    def _deterministic_calls_are_made_once(self) -> None:
        done = {
            call.x for call, ending in self._past.calls.items() if self._may_serve(call, ending)
        }
        for one in self._part.made:
            if not self._may_share(one.step):
                continue
            if one.x in done:
                raise NotAllowedError(f"{one} was made although an equal call had succeeded")
            if one.outcome == "ok":
                done.add(one.x)

    def _may_serve(self, call: Call, ending: Ending) -> bool:
        """Whether a call that has ended may serve others."""
        is_readable = self._can_read(self.steps[call.step], ending)
        return ending.kind == "success" and self._may_share(call.step) and is_readable

    def _may_share(self, name: str) -> bool:
        """Whether a step's call may serve another: what asks a person serves nobody else."""
        step = self.steps[name]
        return step.tool != GATHER and TOOLS[step.tool].deterministic and not step.approval

    # -- people

    def _known_replies(self) -> dict[Shown, bool]:
        """Return what is answered: before, to the question that is open, or in this part.

        Raises:
            NotAllowedError: a person was asked again what they had answered.
        """
        replies = dict(self._past.replies)
        if self._past.questions:
            last = self._past.questions[-1]
            is_open = last.shown not in replies
            if is_open and last.answer is not None and self._part.begins - last.at < ANSWER_SECONDS:
                replies[last.shown] = last.answer
        for shown, reply in self._part.replies:
            if shown in replies:
                raise NotAllowedError(f"{shown} was asked again")
            if reply is not None:
                replies[shown] = reply
        return replies

    def _reply(self, step: ModelStep, calls: Sequence[Call]) -> bool | None:
        """Return what people said to calls; None where they have not answered.

        They are asked about all calls that no retried run has made, and where there is none nobody
        is asked.
        """
        asked = [call.x for call in calls if self._taken_over(step, call) is None]
        if not step.approval or not asked:
            return True
        return self._replies.get(Shown(step.id, tuple(asked)))

    def _forbid(self, step: ModelStep, why: str) -> None:
        if any(one.step == step.id for one in self._part.made):
            raise NotAllowedError(f"{step.id} was called, but {why}")


def _number_of(output: Json) -> Number:
    """Return the number that is read of an output: its own, or how many there are."""
    if isinstance(output, list):
        return len(output)
    value = output.get("v") if isinstance(output, dict) else output
    return value if isinstance(value, int) else None


def _is_even(number: Number) -> bool | None:
    return None if number is None else number % 2 == 0
