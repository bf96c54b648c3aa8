"""What a value of a plan is made of: what it reads, what its author wrote, and how that shapes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from wavewright.planner.plans.job_words import JobWords
from wavewright.planner.types import StepId

OriginKind: TypeAlias = Literal["data", "input", "model", "literal"]

NO_STEPS: Final = frozenset[StepId]()
NO_TEXTS: Final = frozenset[str]()
EMPTY_VALUES: Final = frozenset({"0", "0.0", '""', "''", "[]", "{}", "false"})
"""Nothing, as expressions write it: no bound has to be named for it, and it may stand for what is not
there.
"""


@dataclass(frozen=True, slots=True)
class Origins:
    """Where a value comes from."""

    data: frozenset[StepId] = NO_STEPS
    """Steps that fetch data."""
    inputs: frozenset[str] = NO_TEXTS
    """Inputs of the job."""
    models: frozenset[StepId] = NO_STEPS
    """Steps in which a model answers."""
    literals: frozenset[str] = NO_TEXTS
    """What the plan's author wrote, as JSON."""
    labels: frozenset[str] = NO_TEXTS
    """Words around values that are read, which are no literals as long as something is read."""
    is_read: bool = False
    """Whether anything but literals is read, as `index` is."""
    units: frozenset[str] = NO_TEXTS
    """Operators by which a figure was applied, each of which counts as a unit once, and what was
    applied, as in `/ 1000.0`, which steps hand on.
    """
    factors: frozenset[str] = NO_TEXTS
    """What the author wrote that makes of a value another one: a unit, a sign, an option, the name of
    another field.
    """
    choices: frozenset[str] = NO_TEXTS
    """What the author wrote that chooses a part of a value: a bound, a place, a key."""

    @property
    def reads(self) -> bool:
        """Whether anything but literals is in it."""
        return self.is_read or bool(self.data or self.inputs or self.models)

    @property
    def kinds(self) -> tuple[OriginKind, ...]:
        """The kinds of its origins, in a fixed order."""
        present: dict[OriginKind, object] = {
            "data": self.data,
            "input": self.inputs,
            "model": self.models,
            "literal": self.literals,
        }
        return tuple(kind for kind, origins in present.items() if origins)

    def joined(self, *others: Origins) -> Origins:
        """Return the origins of a value that is made of this one and others."""
        parts = (self, *others)
        return Origins(
            NO_STEPS.union(*(part.data for part in parts)),
            NO_TEXTS.union(*(part.inputs for part in parts)),
            NO_STEPS.union(*(part.models for part in parts)),
            NO_TEXTS.union(*(part.literals for part in parts)),
            NO_TEXTS.union(*(part.labels for part in parts)),
            any(part.is_read for part in parts),
            NO_TEXTS.union(*(part.units for part in parts)),
            NO_TEXTS.union(*(part.factors for part in parts)),
            NO_TEXTS.union(*(part.choices for part in parts)),
        )

    def settled(self) -> Origins:
        """Return the origins of a whole value: its words are literals where nothing is read."""
        if self.reads:
            return self
        return replace(self, literals=self.literals | self.labels, labels=NO_TEXTS)

    def deciding(self, said: JobWords) -> Origins:
        """Return the origins of a decision that is taken on this value; what it is compared with is
        no part of it, but chooses unless the job has said it.
        """
        if not self.reads:
            return self.settled()
        bounds = (self.literals | self.labels) - EMPTY_VALUES
        unsaid = frozenset(text for text in bounds if text and not said.names(text))
        return self.choosing(unsaid)

    def choosing(self, unsaid: frozenset[str]) -> Origins:
        """Return the origins of a decision on this value, by bounds that the job has not said."""
        choices = self.choices | self.factors | unsaid
        return Origins(self.data, self.inputs, self.models, is_read=True, choices=choices)


NOTHING: Final = Origins()
