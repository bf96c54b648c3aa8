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
from wavewright.reviewer.feedback import with_feedback_input

FEEDBACK_TOPIC: Final = "feedback"
"""Of the note that a package was rejected."""
_DEFAULT_FEEDBACK: Final = ("The package was rejected.",)


@dataclass(frozen=True, slots=True)
class Feedback:
    """A rejection of the package that a run has sent last."""

    package: str
    iteration: int
    """Which package of the job it was, from 1."""
    texts: tuple[str, ...]
    max_packages: int
    """Packages of one job, at most."""

    @property
    def texts_for_steps(self) -> tuple[str, ...]:
        """What steps read; a rejection without a word is one all the same."""
        return self.texts or _DEFAULT_FEEDBACK


@dataclass(frozen=True, slots=True)
class PackageVerdict:
    """What somebody says of the package of one of a job's targets."""

    accepted: bool
    package: str
    iteration: int
    """Which package of the target it is about, from 1."""
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PackageValidation:
    """Somebody looks at the packages of a job's targets, each for itself."""

    max_packages: int
    """Packages of one target, at most; none is looked at where it is 0, and the goal's own word comes first."""
    verdict_on: Callable[[str, int], PackageVerdict | None]
    """Gives the verdict on a target's package of that number; none as long as there is none."""


def feedback_notes(state: RunState) -> list[Noted]:
    """Return the rejections that a run has taken, the latest last."""
    return [noted for noted in state.notes if noted.topic == FEEDBACK_TOPIC]


def feedback_note(feedback: Feedback, state: RunState) -> JsonObject:
    """Return what the note of a rejection says."""
    texts: list[Json] = [*feedback.texts_for_steps]
    return {
        "package": feedback.package,
        "iteration": feedback.iteration,
        "texts": texts,
        "round": state.round,
    }


def goal_with_feedback(goal: Goal, state: RunState) -> Goal:
    """Return the goal of a run with the feedback that it has taken."""
    for noted in feedback_notes(state):
        package, texts = noted.body.get("iteration"), noted.body.get("texts")
        if isinstance(package, int) and isinstance(texts, list):
            goal = with_feedback_input(goal, package, [str(text) for text in texts])
    return goal
