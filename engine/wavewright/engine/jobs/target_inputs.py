"""Inputs that the engine sets in a job with several targets: the target, its wave, and what came of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

from wavewright.planner.language.goals import JobTarget, JobTargets, Targets
from wavewright.planner.types import Json, JsonObject

TARGET = "target"
"""Name of the input that holds the target of a run, where a job has several."""


def first_target(targets: JobTargets) -> JobTarget:
    """Return the target that is written first."""
    first = targets.first[0]
    return first if isinstance(first, JobTarget) else JobTarget(name=first)


def inputs_of_target(
    given: JsonObject,
    names: Targets,
    target: str,
    *,
    wave: int,
    is_last_wave: bool,
    visited: Sequence[str] = (),
    failed: Sequence[str] = (),
) -> JsonObject:
    """Return the inputs of one target's run: those that are given, and what the goal template asks the engine for.

    Names that the job gives as visited or failed stay, and a job that says that there is no further wave is right.
    """
    filled: JsonObject = {TARGET: target}
    if names.wave is not None:
        filled[names.wave] = wave
    if names.is_last_wave is not None:
        filled[names.is_last_wave] = is_last_wave or given.get(names.is_last_wave) is True
    for name, ended in ((names.visited, visited), (names.failed, failed)):
        if name is not None:
            before = given.get(name, [])
            # What is no list is refused by the schema of the inputs.
            filled[name] = _united(before, ended) if isinstance(before, list) else before
    return {**given, **filled}


def _united(before: list[Json], ended: Sequence[str]) -> list[Json]:
    return [*before, *(name for name in ended if name not in before)]
