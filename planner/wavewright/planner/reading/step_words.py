"""Read the names of steps as models write them.

Ids are written with hyphens, `fetch-page` for `fetch_page`, and as numbers, `1` for `s1`. To an
expression a hyphen is a minus and a number no name, so no id is such. It is read as a word where it
can be nothing else, together with everything that names the step; elsewhere it stays, and is told.
And a list is named without `${…}`, where nothing but a list or a reference to one may stand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from wavewright.config.sources import ListNode, Node, ObjectNode, ScalarNode, iterate_nodes
from wavewright.planner.cel.embedded import reads
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.plans.expressions import map_condition, map_references
from wavewright.planner.types import ID_PATTERN, RESERVED_IDS, StepId


def reference_of_bare(text: str, names: Collection[str] = ()) -> str | None:
    """Return the reference that an expression without `${…}` is where only a list may stand; None
    where the text reads nothing of a run, be it a root or one of `names`, those of `let`.

    >>> reference_of_bare("steps.orders.items")
    '${steps.orders.items}'
    """
    if "${" in text:
        return None
    try:
        roots = {read.root for read in reads(text)}
    except ExpressionError:
        return None
    return f"${{{text.strip()}}}" if roots & {"steps", "inputs", "previous", *names} else None


def read_ids_as_words(plan: ObjectNode, known: Collection[StepId] = ()) -> list[str]:
    """Put words in the place of names of steps that are none, wherever a plan has them; return these
    names.

    Args:
        plan: The plan, or the steps of a patch.
        known: The ids of the plan that the patch is for.
    """
    steps, gates = (
        _NamesAsWords(_ids_of(plan, "steps"), known),
        _NamesAsWords(_ids_of(plan, "gates")),
    )
    _put_into(plan, steps)
    for gate in _objects_in(plan, "gates"):
        # Nothing in a plan reads a gate.
        _rename(gate, gates, "id")
    return [*steps.read, *gates.read]


def _ids_of(plan: ObjectNode, field: str) -> list[str]:
    return [text for part in _objects_in(plan, field) for _, text in _texts_in(part, "id")]


@dataclass(slots=True)
class _NamesAsWords:
    """The words that names with hyphens and numbers are read as, beside the ids of a plan."""

    ids: list[str]
    """As they are written."""
    known: Collection[str] = ()
    """Of a patch, the ids of its plan."""
    read: set[str] = field(default_factory=set[str])
    """The names that were read as words."""
    _same: Counter[str] = field(init=False)
    """How many ids have a word, in whatever case."""

    def __post_init__(self) -> None:
        self._same = Counter(_as_word(written).lower() for written in {*self.ids})

    def of(self, name: str) -> str:
        """Return the word of a step's name; a name that may be something else as it is."""
        word = _as_word(name)
        is_word = re.fullmatch(ID_PATTERN, word) and word.lower() not in RESERVED_IDS
        is_of_plan = word in self.known
        is_one = is_of_plan or (
            self._same[word.lower()] == 1 and (name in self.ids or word in self.ids)
        )
        if word == name or not is_word or not is_one or self._is_difference(name):
            return name
        self.read.add(name)
        return word

    def in_expression(self, name: str) -> str:
        """Return what follows `steps.` with the word of the step; what is behind the longest name
        that is one is taken off: `steps.fetch-page-1`.
        """
        parts = name.split("-")
        for count in range(len(parts), 0, -1):
            begin = "-".join(parts[:count])
            word = begin if self._is_difference_of_plan(begin) else self.of(begin)
            if word != begin:
                return "-".join((word, *parts[count:]))
        return name

    def _is_difference(self, name: str) -> bool:
        """Whether a name may be meant as a difference: `steps.fetch-page` beside a step `fetch`."""
        parts = name.split("-")
        return any("-".join(parts[:count]) in self.ids for count in range(1, len(parts)))

    def _is_difference_of_plan(self, name: str) -> bool:
        """Whether a name in an expression of a patch, which no step of the patch has, may be meant as
        a difference: `steps.total-1` where the plan has a step `total`.
        """
        parts = name.split("-")
        begins = ("_".join(parts[:count]) for count in range(1, len(parts)))
        return name not in self.ids and any(begin in self.known for begin in begins)


def _as_word(written: str) -> str:
    return f"s{written}" if written.isdecimal() else written.replace("-", "_")


def _put_into(plan: ObjectNode, words: _NamesAsWords) -> None:
    """Name the steps of a plan by their words, in its nodes."""

    def read(match: re.Match[str]) -> str:
        if match["key"]:
            word = words.of(match["key"])
            return match[0] if word == match["key"] else f"steps.{word}"
        return f"steps.{words.in_expression(match['name'])}" if match["name"] else match[0]

    def in_expression(expression: str) -> str:
        return _READ.sub(read, expression)

    def in_condition(owner: ObjectNode, field: str) -> None:
        for node, text in _texts_in(owner, field):
            node.value = map_condition(text, in_expression)

    for node in iterate_nodes(plan):
        if isinstance(node, ScalarNode) and isinstance(node.value, str) and "${" in node.value:
            node.value = str(map_references(node.value, in_expression))
    for step in _objects_in(plan, "steps"):
        _rename(step, words, "id", "depends_on", "supersedes")
        in_condition(step, "when")
        for loop in _objects_in(step, "repeat"):
            in_condition(loop, "until")
    for gate in _objects_in(plan, "gates"):
        _rename(gate, words, "on")
        in_condition(gate, "check")
    for stop in _objects_in(plan, "stop"):
        in_condition(stop, "when")


_READ: Final = re.compile(
    # A text inside of an expression names no step.
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"|(?<![\w.])steps\s*\.\s*(?P<name>\w+(?:-+(?!steps\b)\w+)*)"
    r"|(?<![\w.])steps\s*\[\s*(?P<quote>[\"']?)(?P<key>[\w-]+)(?P=quote)\s*\]"
)


def _rename(owner: ObjectNode, words: _NamesAsWords, *fields: str) -> None:
    for name in fields:
        for node, text in _texts_in(owner, name):
            # A number that no step has for its id is left to be told as one.
            if isinstance(node.value, str) or text in words.ids or words.of(text) != text:
                node.value = words.of(text)


def _values_of(owner: ObjectNode, field: str) -> list[Node]:
    """Return what a field holds: the items of a list, or else the one value."""
    member = owner.members.get(field)
    if member is None:
        return []
    return member.node.items if isinstance(member.node, ListNode) else [member.node]


def _objects_in(owner: ObjectNode, field: str) -> list[ObjectNode]:
    return [node for node in _values_of(owner, field) if isinstance(node, ObjectNode)]


def _texts_in(owner: ObjectNode, field: str) -> Iterator[tuple[ScalarNode, str]]:
    for node in _values_of(owner, field):
        # To Python, `true` is an integer, too.
        if isinstance(node, ScalarNode) and type(node.value) in (str, int):
            yield node, str(node.value)
