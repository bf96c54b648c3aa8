"""What the model is told of a run, and what it says: calls, endings, questions, and what is past."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from tests.model.plans import Chosen, ModelStep
from wavewright.planner.types import Json

Outcome: TypeAlias = Literal["ok", "null", "fail", "transient", "broken", "late", "misfit", "cut"]
"""What became of a call; of one that broke off its tool does not know whether it took effect."""
Kind: TypeAlias = Literal["success", "failed", "unclear", "skipped", "blocked"]
Number: TypeAlias = int | None
Asked: TypeAlias = Number | Chosen
"""What a call asks: a number of the step's own tool, or of one that data chose."""

CACHE_SECONDS: Final = 3600
ANSWER_SECONDS: Final = 86_400
"""How long a question for an approval can be answered."""


@dataclass
class MadeCall:
    """A call that was really made."""

    step: str
    item: int | None
    tool: str
    x: Number
    outcome: Outcome
    attempt: int = 1
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
    """What is asked: the step, what it asks, and which of the equal items of the step it is."""

    step: str
    x: Asked
    nth: int


class Shown(NamedTuple):
    """What a person is shown: the step, and what all the calls ask that it would make."""

    step: str
    asked: tuple[Asked, ...]


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
    x: Asked
    output: Json
    version: int
    now: float
    """What `now()` gives in that run."""
    at: float


@dataclass
class Past:
    """What is known of a run: endings and answers that are in the journal, and calls begun."""

    calls: dict[Call, Ending] = field(default_factory=dict[Call, Ending])
    made_at: dict[Call, float] = field(default_factory=dict[Call, float])
    """When calls ended that succeeded and were made in this run; 0 for others."""
    undone: dict[Call, Ending] = field(default_factory=dict[Call, Ending])
    """Calls that succeeded, and whose output other code could not read since."""
    lists: dict[str, Ending] = field(default_factory=dict[str, Ending])
    """How steps over a list of items ended as a whole."""
    refused: set[Call] = field(default_factory=set[Call])
    """Calls that a person has refused: nothing was called."""
    begun: set[Call] = field(default_factory=set[Call])
    """Calls that were made, or whose start is in the journal, and whose end is not."""
    successors: dict[str, str] = field(default_factory=dict[str, str])
    """For each step that a patch superseded, the step in its place."""
    corrects: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """For each step of a patch, the steps whose outputs a gate had stopped when it came."""
    stopped: dict[str, Ending] = field(default_factory=dict[str, Ending])
    """Endings of superseded steps that a gate had stopped before their patch came."""
    replies: dict[Shown, bool] = field(default_factory=dict[Shown, bool])
    questions: list[Question] = field(default_factory=list[Question])

    def line_of(self, step: str) -> list[str]:
        """Return a step and those that patches put in its place, the newest first."""
        line = [step]
        while line[0] in self.successors:
            line.insert(0, self.successors[line[0]])
        return line

    def became(self, call: Call, *, begins: bool = True) -> Iterator[Ending]:
        """Yield what became of a call, where the run came so far."""
        if begins and call in self.begun:
            yield Ending("unclear")
        elif (ending := self.undone.get(call) or self.calls.get(call)) is not None:
            yield ending


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

    def newest_kept(self, tool: str, x: Asked) -> KeptResult | None:
        """Return the newest result of another run of the same call, of the same code and in the same
        stretch of the clock, for as long as it is kept.
        """
        asked = (tool, x, self.version, self.now // CACHE_SECONDS)
        equal = [
            kept
            for kept in self.kept
            if (kept.tool, kept.x, kept.version, kept.now // CACHE_SECONDS) == asked
        ]
        newest = max(equal, key=lambda kept: kept.at, default=None)
        is_kept = newest is not None and self.begins - newest.at <= CACHE_SECONDS
        return newest if is_kept else None

    @property
    def is_changed(self) -> bool:
        """Whether the run that it retries was of other code."""
        return bool(self.chain) and self.chain[0][1]


class NotAllowedError(AssertionError):
    """The engine did what no rule allows."""


class CallLog:
    """The calls that were really made in a part, until they are explained."""

    def __init__(self, made: Iterable[MadeCall], begun: Collection[Call]) -> None:
        self._left = list(made)
        self._begun = begun

    def take(self, step: ModelStep, call: Call, item: int | None) -> list[MadeCall]:
        """Return the attempts of a call; they are explained by it.

        Raises:
            NotAllowedError: it was asked something else, or what was begun before was not this.
        """
        taken = [made for made in self._left if (made.step, made.item) == (step.id, item)]
        self._left = [made for made in self._left if made not in taken]
        for made in taken:
            if asked_by(step, made) != call.x:
                raise NotAllowedError(f"{call} was made with other parameters")
            if made.is_taken and call not in self._begun:
                raise NotAllowedError(f"the answer of {call} was taken, which was not made before")
        return taken

    def is_explained(self) -> None:
        """Return where no call is left.

        Raises:
            NotAllowedError: one was made that belongs to no call of the plan.
        """
        if self._left:
            raise NotAllowedError(f"{self._left[0]} was made, and should not be")


def known_replies(past: Past, part: Part) -> dict[Shown, bool]:
    """Return what is answered: before, to the question that is open, or in this part.

    Raises:
        NotAllowedError: a person was asked again what they had answered.
    """
    replies = dict(past.replies)
    for last in past.questions[-1:]:
        is_open = last.shown not in replies and part.begins - last.at < ANSWER_SECONDS
        if is_open and last.answer is not None:
            replies[last.shown] = last.answer
    for shown, reply in part.replies:
        if shown in replies:
            raise NotAllowedError(f"{shown} was asked again")
        if reply is not None:
            replies[shown] = reply
    return replies


def last_of(endings: Iterable[Ending], *, writes: bool) -> Ending | None:
    """Return the ending that counts of the same call, the newest first: of a write one that
    succeeded, or else the newest.
    """
    known = [*endings] if writes else [*endings][:1]
    return next((ending for ending in known if ending.kind == "success"), next(iter(known), None))


def asked_by(step: ModelStep, made: MadeCall) -> Asked:
    """Return what a call that was made asks."""
    assert not step.tools or made.x is not None
    return Chosen(made.tool, made.x or 0) if step.tools else made.x


def output_of(step: ModelStep, made: MadeCall) -> Json:
    """Return what a call that was made gives its step."""
    return {"tool": made.tool, "output": made.output} if step.tools else made.output


def number_of(output: Json) -> Number:
    """Return the number that is read of an output: its own, or how many there are."""
    if isinstance(output, list):
        return len(output)
    if isinstance(output, dict) and "tool" in output:
        return number_of(output["output"])
    value = output.get("v") if isinstance(output, dict) else output
    return value if isinstance(value, int) else None


def is_even(number: Number) -> bool | None:
    """Whether a number is even; None where there is none."""
    return None if number is None else number % 2 == 0
