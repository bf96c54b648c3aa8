"""Entries of the lists that a job gives, of which a plan takes some and leaves the others out.

A plan *takes* an entry by its place (`inputs.goods[0]`), by a word that names it and no other entry of
the list, or where it filters the list by any word that not all entries have (`g.kind == 'food'`).
What a list says of its own entries is then no word of the job for this choice: the goal's text has to
name the entry or its place, or another input. Where the plan takes every entry so, one by one, or a
step behind its result goes through the whole list, none is left out: an entry that is taken as well is
a sample.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.plans.figures import figures_in, numbers_in
from wavewright.planner.plans.graph import PlanGraph, reached_from
from wavewright.planner.plans.uses import asks_each_item, value_reads
from wavewright.planner.types import Json, JsonObject

if TYPE_CHECKING:
    from wavewright.planner.plans.job_words import JobWords

_Names: TypeAlias = frozenset[str]
"""What names an entry: words without regard to case, and figures."""


class TakenEntry(NamedTuple):
    """An entry of a list of the job that a plan takes."""

    path: str
    place: int
    names: _Names
    """What names it, and by what it was chosen."""


@dataclass(frozen=True, slots=True)
class ListedEntries:
    """The lists of a job of which a plan takes some entries only."""

    names: Mapping[str, tuple[_Names, ...]]
    """What names the entries of each list, by its path in the inputs."""
    told: Mapping[str, tuple[_Names, ...]]
    """All that each entry says and not all others say."""

    def without(self, inputs: JsonObject, path: str = "") -> JsonObject:
        """Return the inputs, or the object at a path in them, without these lists."""
        kept: JsonObject = {}
        for name, value in inputs.items():
            below = _path_to(name, path)
            if below not in self.names:
                kept[name] = self.without(value, below) if isinstance(value, dict) else value
        return kept

    def taken_by(self, part: Json | Step) -> Iterator[TakenEntry]:
        """Yield the entries that a step or a value takes."""
        texts = _texts_of_step(part) if isinstance(part, Step) else part
        words, places = {*_words_in(texts)}, {*_places_in(texts)}
        chosen_by = _chosen_by(part, texts)
        for path, entries in self.names.items():
            for place, names in enumerate(entries):
                by = names & words | self.told[path][place] & chosen_by.get(path, frozenset())
                if by or (path, place) in places:
                    yield TakenEntry(path, place, names | by)

    def is_said(self, entry: TakenEntry, said: JobWords) -> bool:
        """Whether the job says that an entry is to be taken, by its place from either end or by a
        word.
        """
        places = entry.place, entry.place - len(self.names[entry.path])
        return any(map(said.names_place, places)) or any(map(said.names, entry.names))


def partly_taken(plan: Plan, goal: Goal) -> ListedEntries:
    """Return the lists of a job's inputs of which a plan takes some entries and leaves others out."""
    entries_by_path = dict(_lists_in(dict(goal.inputs), ""))
    identifiers = goal.targets.identifiers
    lists = ListedEntries(
        {path: _entry_names(entries, identifiers) for path, entries in entries_by_path.items()},
        {path: _entry_words(entries) for path, entries in entries_by_path.items()},
    )
    stop: Json = None if plan.stop is None else [plan.stop.when, plan.stop.result]
    taken = [*lists.taken_by([plan.result, stop])]
    for step in plan.steps:
        taken += lists.taken_by(step)
    counts = Counter(path for path, _ in {(entry.path, entry.place) for entry in taken})
    whole = _gone_through(plan)
    partly = {
        path: names
        for path, names in lists.names.items()
        if path not in whole and 0 < counts[path] < len(names)
    }
    return ListedEntries(partly, lists.told)


def _gone_through(plan: Plan) -> set[str]:
    """Return the lists of the inputs that steps behind the result go through, item by item."""
    graph = PlanGraph.of(plan)
    read = value_reads(plan.result) & graph.steps.keys()
    behind = read | reached_from(read, graph.dependencies)
    steps = [graph.steps[step_id] for step_id in behind]
    lists = (_WHOLE.fullmatch(str(step.for_each)) for step in steps if not asks_each_item(step))
    return {whole[1] for whole in lists if whole is not None}


def _chosen_by(part: Json | Step, texts: Json) -> dict[str, _Names]:
    """Return the words and figures in expressions, or in a step, that choose among entries of a list."""
    said = [text for _, text in iterate_strings(texts)]
    if isinstance(part, Step) and asks_each_item(part):
        said = [" ".join(said)]
    else:
        said = [text for text in said if _CHOOSES.search(text)]
    return {
        path: frozenset({*_words_in(text), *map(str, map(_name_of, figures_in(text)))})
        for text in said
        for path in _LIST.findall(text)
    }


def _texts_of_step(step: Step) -> Json:
    """Return what a step says of what it asks for; of figures only its items, for others are options."""
    items: list[Json] = [*map(_name_of, numbers_in(step.for_each))]
    return [*items, step.for_each, {**step.params}, step.when]


def _lists_in(value: Json, path: str) -> Iterator[tuple[str, list[Json]]]:
    """Yield the lists of two entries or more in the inputs, with their paths."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _lists_in(part, _path_to(name, path))
    elif isinstance(value, list) and len(value) > 1:
        yield path, value


def _path_to(name: str, path: str) -> str:
    """Return the path of a field of the object at a path, which is empty for the inputs."""
    return f"{path}.{name}" if path else name


def _entry_names(entries: list[Json], identifiers: Collection[str]) -> tuple[_Names, ...]:
    """Return what names each entry of a list, and no other one: itself, or its identifiers, or else
    whichever field has another value in each.
    """
    objects = [entry for entry in entries if isinstance(entry, dict)]
    if len(objects) < len(entries):
        scalars = [_name_of(entry) for entry in entries]
        counts = Counter(scalars)
        return tuple(
            frozenset({name}) if name is not None and counts[name] == 1 else frozenset()
            for name in scalars
        )
    fields = [
        name
        for name in objects[0]
        if len({_name_of(entry.get(name)) for entry in objects} - {None}) == len(entries)
    ]
    naming = [name for name in fields if name in identifiers] or fields
    return tuple(frozenset(str(_name_of(entry[name])) for name in naming) for entry in objects)


def _entry_words(entries: list[Json]) -> tuple[_Names, ...]:
    """Return all that each entry of a list says, but what all of them say."""
    words = [
        frozenset({*_words_in(entry), *map(str, map(_name_of, numbers_in(entry)))})
        for entry in entries
    ]
    shared = words[0].intersection(*words)
    return tuple(names - shared for names in words)


def _name_of(value: Json) -> str | None:
    match value:
        case bool() | None | list() | dict():
            return None
        case str():
            return value.casefold().strip() or None
        case _:
            return f"{value:.15g}"


def _words_in(value: Json) -> Iterator[str]:
    """Yield the texts that a value of a plan holds, and those in its expressions."""
    for _, text in iterate_strings(value):
        quoted = [first or second for first, second in _QUOTED.findall(text)]
        yield from (word.casefold().strip() for word in (text, *quoted))


def _places_in(value: Json) -> Iterator[tuple[str, int]]:
    for _, text in iterate_strings(value):
        for path, place in _PLACE.findall(text):
            yield path, int(place)


_QUOTED: Final = re.compile(r"""'([^'\\]*)'|"([^"\\]*)\"""")
_WHOLE: Final = re.compile(r"\$\{\s*inputs\.(\w+(?:\.\w+)*)\s*\}")
_LIST: Final = re.compile(r"\binputs\.(\w+(?:\.\w+)*?)(?=\.\w+\(|[^.\w])")
_CHOOSES: Final = re.compile(r"\b(?:filter|exists\w*|all)\(")
"""Macros that choose among the entries of a list, or ask of some."""
_PLACE: Final = re.compile(r"\binputs\.(\w+(?:\.\w+)*)\[(\d+)\]")
