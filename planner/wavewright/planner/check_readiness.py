"""Whether the tools of a plan can work where it would run: their prompts, and a model to ask.

What is known of the surroundings is given as *obstacles*; this module only says which steps meet them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.faults import make_diagnostic
from wavewright.planner.models import Plan, Step

ObstacleKind: TypeAlias = Literal["bad_prompt", "no_model"]


WHOLE_RUN = ""
"""Stands for a tool's name where no run can begin."""


class Obstacle(NamedTuple):
    """What keeps a tool from working here."""

    kind: ObstacleKind
    message: str
    """What is wrong, with its place: a clause that follows a colon."""
    hint: str | None = None


def check_readiness(
    plan: Plan, obstacles: Mapping[str, Obstacle], *, is_run: bool = False
) -> Iterator[Diagnostic]:
    """Yield which steps call a tool that cannot work.

    Args:
        plan: The plan.
        obstacles: What keeps tools from working, by their names.
        is_run: Whether the plan is about to run here. If not, a missing model is a warning: it may be there where the
            plan runs.
    """
    whole = obstacles.get(WHOLE_RUN)
    if whole is not None:
        yield make_diagnostic("W806", "", f"a run here cannot begin: {whole.message}", whole.hint)
    for number, step in enumerate(plan.steps):
        obstacle = obstacles.get(step.tool)
        if obstacle is None:
            continue
        code = "E207" if obstacle.kind == "bad_prompt" else "E208" if is_run and _is_certain(step) else "W806"
        yield make_diagnostic(
            code,
            f"/steps/{number}/tool",
            f"step {step.id!r} calls {step.tool!r}: {obstacle.message}",
            obstacle.hint,
        )


def _is_certain(step: Step) -> bool:
    """Whether the run fails if the step does, and the step does not depend on a condition."""
    return not step.optional and step.when is None
