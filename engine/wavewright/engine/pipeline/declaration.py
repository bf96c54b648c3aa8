"""What a pipeline declares: phases, groups of phases under a guard, and both as text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from wavewright.engine.pipeline.phase import Phase

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class GuardedPhases(Generic[C]):
    """Phases that run in turn if the guard holds before the first of them."""

    guard: Callable[[C], bool]
    nodes: tuple[Phase[C, C] | GuardedPhases[C], ...]


Node: TypeAlias = Phase[Any, Any] | GuardedPhases[Any]
"""A phase or a group; contexts are checked where the pipeline is declared."""


def when(guard: Callable[[C], bool], phases: Sequence[Phase[C, C] | GuardedPhases[C]]) -> GuardedPhases[C]:
    """Return a group of phases under a guard, to be nested in another group."""
    return GuardedPhases(guard, tuple(phases))


def maybe(guard: Callable[[C], bool], phase: Phase[C, C]) -> GuardedPhases[C]:
    """Return one phase under a guard, to be nested in a group."""
    return GuardedPhases(guard, (phase,))


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition of a group in a flat sequence; if it is false, as many entries after it are skipped."""

    holds: Callable[[Any], bool]
    length: int


def flattened(nodes: Sequence[Node]) -> list[Phase[Any, Any] | Guard]:
    """Return the phases in the order of their declaration, each group after its guard."""
    flat: list[Phase[Any, Any] | Guard] = []
    for node in nodes:
        if isinstance(node, GuardedPhases):
            inner = flattened(node.nodes)
            flat += [Guard(node.guard, len(inner)), *inner]
        else:
            flat.append(node)
    return flat


def branch_targets(nodes: Sequence[Node]) -> dict[str, int]:
    """Return the places, in `flattened(nodes)`, where a branch may continue, by the name of the first phase there."""
    targets: dict[str, int] = {}
    place = 0
    for node in nodes:
        flat = flattened([node])
        first = next((entry for entry in flat if not isinstance(entry, Guard)), None)
        if first is not None:
            targets[first.name] = place
        place += len(flat)
    return targets


def describe_nodes(nodes: Sequence[Node]) -> str:
    """Return nodes as text: a line per phase, guarded phases indented under their condition."""
    lines = [line for node in nodes for line in _lines(node, "")]
    width = max((len(label) for label, purpose in lines if purpose is not None), default=0) + 2
    return "".join(
        f"{label}\n" if purpose is None else f"{label:<{width}}{purpose}".rstrip() + "\n"
        for label, purpose in lines
    )


def _lines(node: Node, indent: str) -> Iterator[tuple[str, str | None]]:
    """Yield label and purpose of each line; a condition has no purpose."""
    if isinstance(node, GuardedPhases):
        yield f"{indent}when {_guard_text(node.guard)}:", None
        for inner in node.nodes:
            yield from _lines(inner, f"{indent}    ")
    else:
        yield f"{indent}{node.name}", _purpose(node)


def _guard_text(guard: Callable[[Any], bool]) -> str:
    name = getattr(guard, "__name__", type(guard).__name__)
    return "(condition)" if name == "<lambda>" else name.replace("_", " ")


def _purpose(phase: Phase[Any, Any]) -> str:
    text = inspect.getdoc(type(phase)) or ""
    return text.partition("\n")[0].rstrip(".")
