"""What was said of a run's package: as it comes, as it is journaled, and as the run's goal has it.

The texts are somebody else's. They are journaled with the package and the iteration that they are about, become an
input of the run, and are read by steps alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wavewright.executor.events import Noted
from wavewright.executor.state import RunState
from wavewright.planner.goals import Goal
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.feedback import with_feedback

TOPIC: Final = "feedback"
"""Of the note that a package was rejected."""
_NOTHING_SAID: Final = ("The package was rejected.",)


@dataclass(frozen=True, slots=True)
class Feedback:
    """A rejection of the package that a run has sent last."""

    package: str
    iteration: int
    """Which package of the job it was, from 1."""
    texts: tuple[str, ...]
    most: int
    """Packages of one job, at most."""

    @property
    def told(self) -> tuple[str, ...]:
        """What steps read; a rejection without a word is one all the same."""
        return self.texts or _NOTHING_SAID


@dataclass(frozen=True, slots=True)
class Verdict:
    """What somebody says of the package of one of a job's targets."""

    accepted: bool
    package: str
    iteration: int
    """Which package of the target it is about, from 1."""
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation:
    """Somebody looks at the packages of a job's targets, each for itself."""

    most: int
    """Packages of one target, at most; none is looked at where it is 0, and the goal's own word comes first."""
    verdict_on: Callable[[str, int], Verdict | None]
    """Gives the verdict on a target's package of that number; none as long as there is none."""


def noted_feedback(state: RunState) -> list[Noted]:
    """Return the rejections that a run has taken, the latest last."""
    return [noted for noted in state.notes if noted.topic == TOPIC]


def note_of(feedback: Feedback, state: RunState) -> JsonObject:
    """Return what the note of a rejection says."""
    texts: list[Json] = [*feedback.told]
    return {
        "package": feedback.package,
        "iteration": feedback.iteration,
        "texts": texts,
        "round": state.round,
    }


def goal_after(goal: Goal, state: RunState) -> Goal:
    """Return the goal of a run with the feedback that it has taken."""
    for noted in noted_feedback(state):
        package, texts = noted.body.get("iteration"), noted.body.get("texts")
        if isinstance(package, int) and isinstance(texts, list):
            goal = with_feedback(goal, package, [str(text) for text in texts])
    return goal
