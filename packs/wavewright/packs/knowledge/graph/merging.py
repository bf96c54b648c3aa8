"""Which entities are one, by their names; and which statements about one entity contradict each
other.

Rules over the names decide, and a rule that fits two entities equally well merges none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wavewright.packs.extraction.blocks import word_set
from wavewright.packs.extraction.prose import TITLES
from wavewright.packs.knowledge.graph.tables import OPEN_TYPES
from wavewright.packs.knowledge.models import (
    ConflictingStatement,
    GraphEntity,
    GraphObservation,
    KnowledgeGraph,
    ObservationConflict,
)
from wavewright.packs.text.cross_reference import normal_name

_SMALL_WORDS: Final = word_set("a an and de for in of on the to von")
_ONLY_ONCE: Final = re.compile(
    r"(?P<frame>^.*\b(?:born|died|founded|built|opened|closed|destroyed|crowned|discovered|introduced|invented|"
    r"released|created|written|located|lies|stands)\b.*?\b(?:in|on|at|by|near)\b)\s+(?P<value>.+)$",
    re.IGNORECASE,
)
"""Of statements that are true for one value alone: "was born in X"."""
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class ProposedMerge:
    """Two entities that a rule takes for one."""

    kept: str
    dropped: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Named:
    """An entity as the rules see it."""

    entity: GraphEntity
    normal: str

    @property
    def words(self) -> list[str]:
        return self.normal.split()

    @property
    def documents(self) -> frozenset[str]:
        return frozenset(one.document for one in self.entity.evidence)

    @property
    def weight(self) -> tuple[int, int, str]:
        """How much speaks for keeping its name."""
        return len(self.entity.evidence), len(self.entity.name), self.entity.id


_Rule = Callable[[Sequence[_Named]], Iterator[tuple[_Named, _Named, str]]]


def find_merges(
    entities: Sequence[GraphEntity], apart: Collection[tuple[str, str]] = ()
) -> list[ProposedMerge]:
    """Return the merges that the rules find, each entity dropped at most once.

    Args:
        entities: The entities of the graph.
        apart: Pairs of ids that are not merged.
    """
    apart = {*apart, *((dropped, kept) for kept, dropped in apart)}
    named = [_Named(one, normal_name(one.name)) for one in entities if one.type != "document"]
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while name in parents:
            name = parents[name]
        return name

    merges: list[ProposedMerge] = []
    for rule in _RULES:
        for kept, dropped, reason in rule(named):
            start, end = root(kept.entity.id), root(dropped.entity.id)
            types = {kept.entity.type.casefold(), dropped.entity.type.casefold()}
            is_free = start != end and (start, end) not in apart
            if is_free and (len(types) == 1 or types & OPEN_TYPES):
                parents[end] = start
                merges.append(ProposedMerge(start, end, reason))
    return merges


def _same_form(named: Sequence[_Named]) -> Iterator[tuple[_Named, _Named, str]]:
    by_form: dict[str, list[_Named]] = defaultdict(list)
    for one in named:
        by_form[one.normal].append(one)
    for group in by_form.values():
        first, *others = sorted(group, key=lambda one: one.weight, reverse=True)
        for other in others:
            yield first, other, "the names differ only in case, accents, punctuation or an article"


def _told_aliases(named: Sequence[_Named]) -> Iterator[tuple[_Named, _Named, str]]:
    owners: dict[str, list[_Named]] = defaultdict(list)
    for one in named:
        for alias in dict.fromkeys(map(normal_name, one.entity.aliases)):
            owners[alias].append(one)
    for other in named:
        found = [one for one in owners.get(other.normal, ()) if one.normal != other.normal]
        if len(found) == 1:
            yield found[0], other, f"a document gives {other.entity.name!r} as another name"


def _titles(named: Sequence[_Named]) -> Iterator[tuple[_Named, _Named, str]]:
    titled: dict[str, list[_Named]] = defaultdict(list)
    by_title: dict[str, list[_Named]] = defaultdict(list)
    surnames: dict[str, list[_Named]] = defaultdict(list)
    for one in named:
        title, *rest = one.words or [""]
        if title in TITLES and rest:
            titled[" ".join(rest)].append(one)
            by_title[title].append(one)
            for short in {rest[-1], f"{title} {rest[-1]}"} - {one.normal, " ".join(rest)}:
                surnames[short].append(one)
    for other in named:
        if len(found := titled.get(other.normal, [])) == 1:
            yield found[0], other, f"{found[0].entity.name!r} is {other.entity.name!r} with a title"
        if len(found := surnames.get(other.normal, [])) == 1:
            yield found[0], other, f"{found[0].entity.name!r} by the last name"
        if other.normal in TITLES:
            near = [
                one for one in by_title.get(other.normal, ()) if one.documents & other.documents
            ]
            if len(near) == 1:
                document = min(near[0].documents & other.documents)
                yield near[0], other, f"the only one of this title in {document}"


def _initials(named: Sequence[_Named]) -> Iterator[tuple[_Named, _Named, str]]:
    full: dict[tuple[str, str], list[_Named]] = defaultdict(list)
    acronyms: dict[str, list[_Named]] = defaultdict(list)
    for one in named:
        words = one.words
        if len(words) > 1 and all(len(word) > 1 for word in words):
            full["".join(word[0] for word in words[:-1]), words[-1]].append(one)
            acronyms["".join(word[0] for word in words if word not in _SMALL_WORDS)].append(one)
    for other in named:
        *firsts, last = other.words or [""]
        found: list[_Named] = []
        if firsts and all(len(word) == 1 for word in firsts):
            found = full.get(("".join(firsts), last), [])
        elif not firsts and 1 < len(last) < 7 and other.entity.name.replace(".", "").isupper():
            found = acronyms.get(last, [])
        if len(found) == 1:
            yield found[0], other, f"the initials of {found[0].entity.name!r}"


def _plurals(named: Sequence[_Named]) -> Iterator[tuple[_Named, _Named, str]]:
    by_form = {one.normal: one for one in named}
    for one in named:
        for plural in (f"{one.normal}s", f"{one.normal}es", re.sub("y$", "ies", one.normal)):
            other = by_form.get(plural)
            if other is not None and other is not one and len(one.normal) > 2:
                first, second = sorted((one, other), key=lambda found: found.weight, reverse=True)
                yield first, second, "singular and plural of one name"


_RULES: Final[tuple[_Rule, ...]] = (_same_form, _told_aliases, _titles, _initials, _plurals)


def conflicts_of(graph: KnowledgeGraph) -> list[ObservationConflict]:
    """Return the statements about one entity that differ in a number, or in what can be true only
    once.
    """
    return [
        ObservationConflict(subject=entity.name, values=tuple(map(_statement, group)))
        for entity in graph.entities
        for group in _conflicting(entity)
    ]


def _statement(observation: GraphObservation) -> ConflictingStatement:
    sources = dict.fromkeys(one.document for one in observation.evidence)
    return ConflictingStatement(
        value=observation.text, sources=tuple(sources), evidence=observation.evidence
    )


def _conflicting(entity: GraphEntity) -> list[tuple[GraphObservation, ...]]:
    subjects = sorted(
        map(normal_name, (entity.name, *entity.aliases, "he", "she", "it")), key=len, reverse=True
    )
    frames: dict[str, dict[str, GraphObservation]] = defaultdict(dict)
    for one in entity.observations:
        for frame, value in _frames(one.text):
            subject = next((name for name in subjects if frame.startswith(f"{name} ")), "")
            frames[frame.removeprefix(subject)].setdefault(value, one)
    groups = [tuple(by_value.values()) for by_value in frames.values() if len(by_value) > 1]
    return [*dict.fromkeys(groups)]


def _frames(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a statement says and of which value; nothing of a statement without a single
    value.
    """
    if numbers := _NUMBER.findall(text):
        yield normal_name(_NUMBER.sub(" number ", text)), " ".join(numbers)
    elif found := _ONLY_ONCE.match(text.rstrip(" .")):
        yield normal_name(found["frame"]), normal_name(found["value"])
