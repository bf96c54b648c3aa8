"""E507: fields of a result that hold what the planner wrote, and no data."""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.config.sources import pointer_token
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.plans.provenance import PlanProvenance, field_name, literal_fields
from wavewright.planner.types import StepId

_MAX_SHOWN = 3


def check_written_result(
    plan: Plan, goal: Goal | None, tools: ToolSignatures
) -> Iterator[Diagnostic]:
    """Yield the fields of the result of a planner's plan that hold literals which the goal does not
    allow.

    The plan is bound to its goal and has no other errors: a plan that people write may hold anything.
    """
    provenance = PlanProvenance(plan, tools, goal)
    allowed = frozenset[str]() if goal is None else goal.allow_literals
    written = [*literal_fields(provenance, allowed)]
    at_the_end = provenance.of_result(has_stopped=False) if written else {}
    for field, origins in written:
        texts = sorted(origins.literals)
        is_of_stop = field not in at_the_end or not at_the_end[field].literals
        shown = ", ".join(texts[:_MAX_SHOWN]) + (" and more" if len(texts) > _MAX_SHOWN else "")
        by = next(
            (
                f", written in step {step.id!r}"
                for step in plan.steps
                if origins.literals & frozenset().union(*provenance.supplied(step).values())
            ),
            "",
        )
        yield make_diagnostic(
            "E507",
            _pointer(plan, field, is_of_stop=is_of_stop),
            f"{field!r} of the result{' of stop' if is_of_stop else ''} holds what the planner wrote: {shown}{by}",
            f"read it from a step (`${{steps.…}}`), or have the goal allow it: `allow_literals: [{field_name(field)}]`",
        )


def _pointer(plan: Plan, field: str, *, is_of_stop: bool) -> str:
    ids = [step.id for step in plan.steps]
    if plan.result is None and field in ids and not is_of_stop:
        return f"/steps/{ids.index(StepId(field))}"
    written, pointer = plan.result, "/result"
    if is_of_stop and plan.stop is not None:
        written, pointer = plan.stop.result, "/stop/result"
    for part in field.replace("[", ".").replace("]", "").split("."):
        # What one expression gives has fields that the plan does not write one by one.
        if isinstance(written, dict) and part in written:
            written = written[part]
        elif isinstance(written, list) and part.isdigit():
            written = written[int(part)]
        else:
            break
        pointer += pointer_token(part)
    return pointer
