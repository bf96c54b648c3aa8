"""Origins: where a value comes from, and what its author wrote beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from wavewright.config.errors import cut_end
from wavewright.planner.types import StepId

if TYPE_CHECKING:
    from wavewright.planner.plans.job_words import Figures, JobWords

NO_STEPS: Final = frozenset[StepId]()
NO_TEXTS: Final = frozenset[str]()
_NO_FIGURES: Final[frozenset[Figures]] = frozenset()


class AnyEntry(Enum):
    """Any entry of a list, as a part of it."""

    OF_DATA = auto()
    """Of a list of which no literal decides how many entries it has."""
    WRITTEN = auto()
    """Of a list in which there is an entry for each that its author wrote."""


PartName: TypeAlias = str | AnyEntry
"""A field of an object, by its name, or the entries of a list."""
NO_PARTS: Final[Mapping[PartName, Origins]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Origins:
    """Where a value comes from, and what its author wrote beside it."""

    data: frozenset[StepId] = NO_STEPS
    """Steps that fetch data."""
    inputs: frozenset[str] = NO_TEXTS
    """Inputs of the job."""
    models: frozenset[StepId] = NO_STEPS
    """Steps in which a model answers."""
    literals: frozenset[str] = NO_TEXTS
    """What the plan's author wrote in place of data, as JSON."""
    labels: frozenset[str] = NO_TEXTS
    """Words around values that are read, which are no literals as long as something is read."""
    is_read: bool = False
    """Whether anything but literals is read, as `index` is."""
    is_of_items: bool = False
    """Whether it is a list with an entry for each item of a step, in their order, none of which comes
    before the others.
    """
    factors: frozenset[str] = NO_TEXTS
    """What makes of a value another one: a unit, a sign, an option, the name of another field."""
    choices: frozenset[str] = NO_TEXTS
    """What chooses a part of a value: a bound, a place, a key."""
    computed: frozenset[str] = NO_TEXTS
    """Computations and defaults that count as nothing in a plan, and as literals in a patch."""
    applied: frozenset[Figures] = _NO_FIGURES
    """Figures that the expression has applied to what it reads."""
    handed: frozenset[Figures] = _NO_FIGURES
    """Figures that the steps before have applied: a unit counts once, also across steps."""
    parts: Mapping[PartName, Origins] = field(default_factory=lambda: NO_PARTS, compare=False)
    """The origins of the parts of an object or a list that the plan's author put together, so that what
    he wrote into one of them is no part of the others.
    """

    @property
    def reads(self) -> bool:
        """Whether anything but literals is in it."""
        return self.is_read or bool(self.data or self.inputs or self.models)

    def applied_so_far(self) -> frozenset[Figures]:
        """Return the figures that have been applied, by the steps before and then here."""
        before_and_here = (
            (*before, *here) for before in self.handed or {()} for here in self.applied or {()}
        )
        return frozenset(before_and_here) - {()}

    def joined(self, *others: Origins) -> Origins:
        """Return the origins of a value that is made of this one and others."""
        parts = (self, *others)
        return Origins(
            data=NO_STEPS.union(*(part.data for part in parts)),
            inputs=NO_TEXTS.union(*(part.inputs for part in parts)),
            models=NO_STEPS.union(*(part.models for part in parts)),
            literals=NO_TEXTS.union(*(part.literals for part in parts)),
            labels=NO_TEXTS.union(*(part.labels for part in parts)),
            is_read=any(part.is_read for part in parts),
            is_of_items=any(part.is_of_items for part in parts),
            factors=NO_TEXTS.union(*(part.factors for part in parts)),
            choices=NO_TEXTS.union(*(part.choices for part in parts)),
            computed=NO_TEXTS.union(*(part.computed for part in parts)),
            applied=_NO_FIGURES.union(*(part.applied for part in parts)),
            handed=_NO_FIGURES.union(*(part.handed for part in parts)),
            parts=_joined_parts(parts),
        )

    def part(self, name: PartName) -> Origins:
        """Return the origins of a part: those of the whole where no more is known of it.

        >>> total, whole = Origins(data=frozenset({StepId("a")})), Origins(literals=frozenset({"9"}))
        >>> whole.with_parts({"total": total}).part("total") == total
        True
        """
        return self.parts[name] if name in self.parts else self.with_parts(NO_PARTS)

    def entry(self) -> Origins:
        """Return the origins of any entry of a list."""
        is_of_data = AnyEntry.OF_DATA in self.parts
        return self.part(AnyEntry.OF_DATA if is_of_data else AnyEntry.WRITTEN)

    def counted(self) -> Origins:
        """Return the origins of how many entries a list has, which what is written into an entry may
        not decide.
        """
        literals = NO_TEXTS if AnyEntry.OF_DATA in self.parts else self.literals
        return replace(self.with_parts(NO_PARTS), literals=literals)

    def handed_on(self) -> Origins:
        """Return the origins of what one step gives to others, to which a word by itself beside what is
        read may be an option.
        """
        if not self.reads:
            return self.settled()
        parts = {
            name: part.handed_on() if part.reads or part.parts else part
            for name, part in self.parts.items()
        }
        return replace(self.with_parts(parts), is_of_items=False)

    def with_parts(self, parts: Mapping[PartName, Origins]) -> Origins:
        """Return the origins of a value that has these parts, and no others that are known."""
        return self if not (parts or self.parts) else replace(self, parts=parts)

    def changed(self, change: Callable[[Origins], Origins]) -> Origins:
        """Return the origins with a change that is made of the whole and of each part."""
        parts = {name: part.changed(change) for name, part in self.parts.items()}
        return change(self).with_parts(parts)

    def settled(self) -> Origins:
        """Return the origins of a whole value: its words are literals where nothing is read."""
        return self.changed(Origins._with_words_settled)

    def _with_words_settled(self) -> Origins:
        if self.reads or not self.labels:
            return self
        literals = self.literals.union(map(shown, self.labels))
        return replace(self, literals=literals, labels=NO_TEXTS)

    def deciding(self, said: JobWords) -> Origins:
        """Return the origins of a decision that is taken on this value; what it is compared with is
        no part of it, but chooses unless the job has said it.
        """
        if not self.reads:
            return self.settled()
        bounds = (self.literals | self.labels) - EMPTY_VALUES
        unsaid = (shown(text) for text in bounds if text and not said.names(text))
        return self.choosing(frozenset(unsaid))

    def choosing(self, unsaid: frozenset[str]) -> Origins:
        """Return the origins of a decision on this value, by bounds that the job has not said."""
        choices = self.choices | self.factors | unsaid
        return Origins(self.data, self.inputs, self.models, is_read=True, choices=choices)


NOTHING: Final = Origins()


def _joined_parts(values: Sequence[Origins]) -> Mapping[PartName, Origins]:
    """Return the parts of a value that is made of others: each is made of the same part of them."""
    names = {name for value in values for name in value.parts}
    if not names:
        return NO_PARTS
    return {name: NOTHING.joined(*(value.part(name) for value in values)) for name in names}


def without_name(words: str, read: str) -> str:
    """Return the words before a field without the name of this field: `Total: ${steps.x.total}`."""
    fields = FIELDS.findall(read)
    if not fields:
        return words
    names = {fields[-1].casefold(), fields[-1].replace("_", " ").casefold()}
    return "" if words.strip(" :=-,;|\n").casefold() in names else words


def has_digit(text: str) -> bool:
    """Whether a figure may stand in a text."""
    return _DIGIT.search(text) is not None


def shown(text: str) -> str:
    """Return what an author wrote on one line, and not all of it where it is long."""
    return cut_end(on_one_line(text), _MAX_SHOWN)


def on_one_line(text: str) -> str:
    """Return all that an author wrote, on one line: what is at its end counts as well."""
    return " ".join(text.split())


FIELDS: Final = re.compile(r"\.(\w+)\b(?!\()")
"""The names of fields in an expression."""
WHOLE: Final = re.compile(r"\$\{(?:(?!\$\{).)*\}", re.DOTALL)
"""A text that is one expression."""
_MAX_SHOWN: Final = 60
_DIGIT: Final = re.compile(r"\d")
EMPTY_VALUES: Final = frozenset({"0", "0.0", '""', "''", "[]", "{}", "false", "null"})
"""Nothing, as expressions write it: no bound has to be named for it, and it may stand for what is not
there.
"""
