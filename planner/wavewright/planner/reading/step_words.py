"""Read ids that a model writes with hyphens as words: `fetch-page` as `fetch_page`.

To an expression a hyphen is a minus, so no id has one. An id is read as a word where it can be
nothing else, together with everything that names the step; elsewhere it stays, and is told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from wavewright.config.sources import ListNode, Node, ObjectNode, ScalarNode, iterate_nodes
from wavewright.planner.plans.expressions import map_condition, map_references
from wavewright.planner.types import ID_PATTERN, RESERVED_IDS


def read_ids_as_words(plan: ObjectNode) -> int:
    """Put words in the place of ids with hyphens, wherever a plan names the steps; return how many
    ids there were.
    """
    steps, gates = _words_of_ids(plan, "steps"), _words_of_ids(plan, "gates")
    if steps:
        _put_into(plan, steps)
    for gate in _objects_in(plan, "gates"):
        # Nothing in a plan reads a gate.
        _rename(gate, "id", gates)
    return len(steps) + len(gates)


def _words_of_ids(plan: ObjectNode, field: str) -> dict[str, str]:
    """Return the words that ids with hyphens are read as, where they can be nothing else."""
    ids = {text for part in _objects_in(plan, field) for _, text in _texts_in(part, "id")}
    same = Counter(_as_word(written).lower() for written in ids)
    words: dict[str, str] = {}
    for written in ids:
        word = _as_word(written)
        if word == written or word.lower() in RESERVED_IDS or not re.fullmatch(ID_PATTERN, word):
            continue
        parts = written.split("-")
        # Beside a step `fetch`, `steps.fetch-page` may be meant as a difference.
        is_difference = any("-".join(parts[:count]) in ids for count in range(1, len(parts)))
        if same[word.lower()] == 1 and not is_difference:
            words[written] = word
    return words


def _as_word(written: str) -> str:
    return written.replace("-", "_")


def _put_into(plan: ObjectNode, words: Mapping[str, str]) -> None:
    """Name the steps of a plan by these words, in its nodes."""

    def read(match: re.Match[str]) -> str:
        name = match["name"] or match["key"]
        return f"steps.{words[name]}" if name in words else match[0]

    def in_expression(expression: str) -> str:
        return _READ.sub(read, expression)

    def in_condition(owner: ObjectNode, field: str) -> None:
        for node, text in _texts_in(owner, field):
            node.value = map_condition(text, in_expression)

    for node in iterate_nodes(plan):
        if isinstance(node, ScalarNode) and isinstance(node.value, str) and "${" in node.value:
            node.value = str(map_references(node.value, in_expression))
    for step in _objects_in(plan, "steps"):
        _rename(step, "id", words)
        _rename(step, "depends_on", words)
        in_condition(step, "when")
        for loop in _objects_in(step, "repeat"):
            in_condition(loop, "until")
    for gate in _objects_in(plan, "gates"):
        _rename(gate, "on", words)
        in_condition(gate, "check")
    for stop in _objects_in(plan, "stop"):
        in_condition(stop, "when")


_READ: Final = re.compile(
    # A text inside of an expression names no step.
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"|(?<![\w.])steps\s*\.\s*(?P<name>[A-Za-z][\w-]*)"
    r"|(?<![\w.])steps\s*\[\s*(?P<quote>[\"'])(?P<key>[\w-]+)(?P=quote)\s*\]"
)


def _rename(owner: ObjectNode, field: str, words: Mapping[str, str]) -> None:
    for node, text in _texts_in(owner, field):
        node.value = words.get(text, text)


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
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            yield node, node.value
