"""Read ids that a model writes with hyphens as words: `fetch-page` as `fetch_page`.

To an expression a hyphen is a minus, so no id has one. An id is read as a word where it can be
nothing else, together with everything that names the step; elsewhere it stays, and is told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from wavewright.config.sources import ListNode, Node, ObjectNode, ScalarNode, iterate_nodes
from wavewright.planner.plans.expressions import map_condition, map_references
from wavewright.planner.types import ID_PATTERN, RESERVED_IDS


def read_ids_as_words(plan: ObjectNode) -> int:
    """Put words in the place of ids with hyphens, wherever a plan names the steps; return how many
    ids there were.
    """
    steps, gates = _words_of_ids(plan, "steps"), _words_of_ids(plan, "gates")
    if steps:
        _StepWords(steps).put_into(plan)
    for gate in _objects_in(plan, "gates"):
        # Nothing in a plan reads a gate.
        _rename(gate, "id", gates)
    return len(steps) + len(gates)


def _words_of_ids(plan: ObjectNode, field: str) -> dict[str, str]:
    """Return the words that ids with hyphens are read as, where they can be nothing else."""
    ids = [written for part in _objects_in(plan, field) for written in _texts_of(part, "id")]
    return {written: word for written in ids if (word := _word_of(written, ids)) is not None}


def _word_of(written: str, ids: Sequence[str]) -> str | None:
    """Return the word that an id with hyphens is read as; None where it has none, or where it may
    be read otherwise.
    """
    word = written.replace("-", "_")
    if word == written or word.lower() in RESERVED_IDS or not re.fullmatch(ID_PATTERN, word):
        return None
    same = Counter(other.replace("-", "_").lower() for other in ids)[word.lower()]
    parts = written.split("-")
    # Beside a step `fetch`, `steps.fetch-page` may be meant as a difference.
    is_difference = any("-".join(parts[:count]) in ids for count in range(1, len(parts)))
    return None if same > 1 or is_difference else word


class _StepWords:
    """Puts words in the place of ids."""

    def __init__(self, words: dict[str, str]) -> None:
        self._words = words
        names = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
        self._reads = re.compile(
            # A text inside of an expression names no step.
            r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
            rf"|(?<![\w.])steps\s*\.\s*(?P<name>{names})(?![\w-])"
            rf"|(?<![\w.])steps\s*\[\s*(?P<quote>[\"'])(?P<key>{names})(?P=quote)\s*\]"
        )

    def put_into(self, plan: ObjectNode) -> None:
        """Change the nodes of a plan."""
        for node in iterate_nodes(plan):
            if isinstance(node, ScalarNode) and isinstance(node.value, str) and "${" in node.value:
                node.value = str(map_references(node.value, self._expression))
        for step in _objects_in(plan, "steps"):
            _rename(step, "id", self._words)
            _rename(step, "depends_on", self._words)
            self._put_into_condition(step, "when")
            for loop in _objects_in(step, "repeat"):
                self._put_into_condition(loop, "until")
        for gate in _objects_in(plan, "gates"):
            _rename(gate, "on", self._words)
            self._put_into_condition(gate, "check")
        for stop in _objects_in(plan, "stop"):
            self._put_into_condition(stop, "when")

    def _put_into_condition(self, owner: ObjectNode, field: str) -> None:
        for node in _values_of(owner, field):
            if isinstance(node, ScalarNode) and isinstance(node.value, str):
                node.value = map_condition(node.value, self._expression)

    def _expression(self, expression: str) -> str:
        return self._reads.sub(self._read, expression)

    def _read(self, match: re.Match[str]) -> str:
        name = match["name"] or match["key"]
        return match[0] if name is None else f"steps.{self._words[name]}"


def _rename(owner: ObjectNode, field: str, words: Mapping[str, str]) -> None:
    for node in _values_of(owner, field):
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            node.value = words.get(node.value, node.value)


def _values_of(owner: ObjectNode, field: str) -> list[Node]:
    """Return what a field holds: the items of a list, or else the one value."""
    member = owner.members.get(field)
    if member is None:
        return []
    return member.node.items if isinstance(member.node, ListNode) else [member.node]


def _objects_in(owner: ObjectNode, field: str) -> list[ObjectNode]:
    return [node for node in _values_of(owner, field) if isinstance(node, ObjectNode)]


def _texts_of(owner: ObjectNode, field: str) -> Iterator[str]:
    for node in _values_of(owner, field):
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            yield node.value
