"""Whether a plan can read the result of an earlier run: it is of the type of the plan's own, and
holds no untrusted text where the plan's own holds none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.data_flow import WHOLE_RESULT, flow_of
from wavewright.planner.checks.influence import Level
from wavewright.planner.checks.types import PlanTypes
from wavewright.planner.checks.untrusted_text import untrusted_inputs
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS, Plan
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.plans.let_and_stop import with_let, with_stop
from wavewright.planner.plans.previous_run import declared_results
from wavewright.planner.schemas.validation import InvalidSchemaError, validator_of
from wavewright.planner.types import Json, JsonSchema, StepId


def misfit_of_result(result: Json, plan: Plan, goal: Goal, tools: ToolSignatures) -> str | None:
    """Return why a result of an earlier run can be none of this plan; None where it can.

    A part that is null fits: it is where an optional step gave nothing.
    """
    plan = with_let(plan)[0]
    types = PlanTypes(plan, goal, tools, previous={})
    reasons = [
        _first(_misfits(result, declared, "result", types)) for declared in declared_results(plan)
    ]
    if plan.result is None:
        reasons.append(_first(_violations(result, types.own_result, "result")))
    return None if None in reasons else reasons[-1]


def trusted_untrusted_field(
    earlier: Plan, plan: Plan, goal: Goal, tools: ToolSignatures
) -> str | None:
    """Return the part of an earlier run's result that holds untrusted text where the plan, which is
    another one, takes its own for trusted; None where there is none.

    A tool of the earlier plan that is not known any more brought untrusted text.
    """
    was, now = _untrusted_results(earlier, goal, tools), _untrusted_results(plan, goal, tools)
    if WHOLE_RESULT in now:
        return None
    more = sorted(name for name in was if name not in now)
    if not more:
        return None
    return "result" if more[0] == WHOLE_RESULT else f"result.{more[0]}"


def _untrusted_results(plan: Plan, goal: Goal, tools: ToolSignatures) -> Collection[str]:
    """Return the fields of a plan's result of which untrusted text decides more than a choice."""
    subject = CheckContext(with_stop(with_let(plan)[0]), goal, tools, LIMITS_OF_OWN_PLANS)
    sources = dict[StepId, frozenset[str]]()
    for step in subject.steps.values():
        signature = subject.signature(step)
        if signature is None:
            sources[step.id] = frozenset()
        elif signature.brings_untrusted:
            sources[step.id] = signature.untrusted
    flow = flow_of(subject, sources, untrusted_inputs(subject), equals_count=True)
    found = flow.influence_on_result()
    return [name for name, influence in found.items() if influence.level is Level.TEXT]


def _first(reasons: Iterable[str]) -> str | None:
    return next(iter(reasons), None)


def _misfits(value: Json, declared: Json, name: str, types: PlanTypes) -> Iterator[str]:
    """Yield why a value is not what the structure gives that a plan declares."""
    match declared, value:
        case dict(), dict():
            for key in declared.keys() - value.keys():
                yield f"{name} lacks {key!r}"
            for key in value.keys() - declared.keys():
                yield f"{name} has {key!r}, which the plan's has not"
            for key in declared.keys() & value.keys():
                yield from _misfits(value[key], declared[key], f"{name}.{key}", types)
        case list(), list() if len(declared) == len(value):
            for place, (part, own) in enumerate(zip(value, declared, strict=True)):
                yield from _misfits(part, own, f"{name}[{place}]", types)
        case str(), None:
            return
        case _:
            yield from _violations(value, types.value(declared), name)


def _violations(value: Json, schema: JsonSchema, name: str) -> Iterator[str]:
    try:
        violations = validator_of(schema).violations(value)
    except InvalidSchemaError:
        return
    for violation in violations:
        yield f"{name}{violation.pointer} {violation.message}"
