"""What the model is told of a run, and what it says: calls, endings, questions, and what is past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from tests.model.plans import Chosen
from wavewright.planner.types import Json

Outcome: TypeAlias = Literal["ok", "null", "fail", "transient", "late", "cut"]
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
    begun: set[Call] = field(default_factory=set[Call])
    """Calls that were made, or whose start is in the journal, and whose end is not."""
    successors: dict[str, str] = field(default_factory=dict[str, str])
    """For each step that a patch superseded, the step in its place."""
    corrects: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """For each step of a patch, the steps whose outputs a gate had stopped when it came."""
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
