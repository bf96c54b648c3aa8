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


def phases_of(node: Node) -> Iterator[Phase[Any, Any]]:
    """Yield the phases of a node in the order of their declaration."""
    if isinstance(node, GuardedPhases):
        for inner in node.nodes:
            yield from phases_of(inner)
    else:
        yield node


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
