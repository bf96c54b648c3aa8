"""What is drawn: plans, what tools and people do, and the parts in which a run is executed."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.model.driver import DrawnCase, DrawnPart, PartKind
from tests.model.facts import Outcome
from tests.model.plans import (
    INPUT,
    TOOLS,
    Chosen,
    Condition,
    ModelGate,
    ModelPlan,
    ModelStep,
    SubPlan,
    steps_of,
)
from wavewright.planner.language.plan import dispatch_tool_name

_NUMBERS = st.integers(1, 3)
_LISTS = st.lists(_NUMBERS, max_size=4).map(tuple)
_TOOLS = st.sampled_from(sorted(TOOLS))
_NONE = st.just(frozenset[str]())
_GATES = st.builds(
    ModelGate,
    severity=st.sampled_from(["block", "warn"]),
    on_empty=st.sampled_from(["warn", "block", "pass"]),
)
_OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(
    ["ok", "ok", "ok", "ok", "null", "fail", "transient", "broken", "late", "misfit"]
)


_KINDS: st.SearchStrategy[PartKind] = st.sampled_from(
    ["resume", "recover", "recover", "retry", "retry", "new"]
)


def _seldom(strategy: st.SearchStrategy[ModelGate]) -> st.SearchStrategy[ModelGate | None]:
    return st.one_of(st.none(), st.none(), strategy)


@st.composite
def _calls(
    draw: st.DrawFn, name: str, values: st.SearchStrategy[int | str], before: list[str]
) -> ModelStep:
    """Return a step that calls a tool: with one of the values, for each item of a list, or as data
    chooses.
    """
    items: tuple[int | Chosen, ...] | None = draw(st.none() | _LISTS)
    tools = tuple[str, ...]()
    if items is not None and draw(st.integers(0, 3)) == 0:
        tools = tuple(sorted(draw(st.sets(_TOOLS, min_size=1, max_size=2))))
        items = draw(st.lists(_chosen(tools), max_size=4).map(tuple))
    return ModelStep(
        id=name,
        tool=dispatch_tool_name(tools) if tools else draw(_TOOLS),
        tools=tools,
        x="item" if items is not None else draw(values),
        conditions=draw(_conditions(before)),
        items=items,
        optional=draw(st.booleans()),
        attempts=draw(st.integers(1, 3)),
        retries_unclear=draw(st.booleans()),
        min_ok=None if items is None else draw(st.none() | st.integers(0, 1)),
        approval=draw(st.integers(0, 4)) == 0,
        gate=draw(_seldom(_GATES)),
    )


def _chosen(tools: tuple[str, ...]) -> st.SearchStrategy[Chosen]:
    """Return calls that data chooses, few of them of tools that it may not."""
    within = st.sampled_from(tools)
    return st.builds(Chosen, st.one_of(within, within, within, _TOOLS), _NUMBERS)


def _conditions(before: list[str]) -> st.SearchStrategy[tuple[Condition, ...]]:
    none: tuple[Condition, ...] = ()
    if not before:
        return st.just(none)
    asked = st.builds(
        Condition, asks=st.just("even"), step=st.sampled_from(before), is_negated=st.booleans()
    )
    return st.just(none) | asked.map(lambda condition: (condition,))


@st.composite
def _sub_plans(draw: st.DrawFn, *, by_item: bool) -> SubPlan:
    steps = list[ModelStep]()
    for name in "xy"[: draw(st.integers(1, 2))]:
        before = [step.id for step in steps]
        values = st.sampled_from([INPUT, *before]) | _NUMBERS
        step = draw(_calls(name, values, before))
        if by_item:
            tool = step.tools[0] if step.tools else step.tool
            step = ModelStep(name, tool, draw(values), attempts=step.attempts, gate=step.gate)
        steps.append(step)
    return SubPlan(
        tuple(steps),
        1 if by_item else draw(st.integers(1, 3)),
        draw(st.sampled_from(["even", "known"])),
        draw(st.booleans()),
    )


@st.composite
def _plans(draw: st.DrawFn) -> ModelPlan:
    """Return up to five steps, each of which may read those before it."""
    steps = list[ModelStep]()
    names = dict[str, int | str]()
    for name in "abcde"[: draw(st.integers(1, 5))]:
        before = [step.id for step in steps]
        if before and draw(st.integers(0, 3)) == 0:
            names[f"of_{name}"] = draw(st.sampled_from([*before, *names]) | _NUMBERS)
        values = st.sampled_from([*before, *names]) | _NUMBERS if before else _NUMBERS
        if draw(st.integers(0, 3)) > 0:
            steps.append(draw(_calls(name, values, before)))
            continue
        items = draw(st.none() | _LISTS)
        steps.append(
            ModelStep(
                name,
                "",
                "item" if items is not None else draw(values),
                draw(_conditions(before)),
                items,
                draw(st.booleans()),
                sub_plan=draw(_sub_plans(by_item=items is not None)),
            )
        )
    ids = st.sampled_from([step.id for step in steps])
    return ModelPlan(
        tuple(steps),
        names,
        draw(ids) if draw(st.integers(0, 3)) == 0 else None,
        draw(st.none() | ids),
    )


@st.composite
def _parts(draw: st.DrawFn, plan: ModelPlan) -> tuple[DrawnPart, ...]:
    """Return up to four executions; the last one comes to its end."""
    count = draw(st.integers(1, 4))
    ids = st.sampled_from([step.id for step in plan.steps])
    all_ids = st.sampled_from([step.id for step in steps_of(plan)])
    lists = {step.id: step.items for step in plan.steps if step.items}
    parts = list[DrawnPart]()
    for number in range(count):
        is_last = number == count - 1
        kind = draw(_KINDS)
        parts.append(
            DrawnPart(
                kind=kind,
                stop_after=None if is_last else draw(st.none() | st.integers(1, 14)),
                is_killed=draw(st.booleans()),
                answers={
                    step.id: draw(st.sampled_from(["approve", "approve", "refuse", "wait"]))
                    for step in plan.steps
                },
                left=draw(st.sampled_from(["nothing", "open", "open", "stale"])),
                is_approved=draw(st.booleans()),
                pause=draw(st.sampled_from([0, 0, 5_000, 100_000])),
                version=draw(st.integers(1, 2)),
                unreadable=draw(_NONE | _NONE | st.frozensets(_TOOLS, max_size=2)),
                named=draw(all_ids if kind == "recover" else st.none() | ids),
                again=draw(st.frozensets(all_ids, max_size=1)),
                only_failed=draw(st.booleans()),
                takes_stored=draw(st.integers(0, 3)) > 0,
                items={
                    name: draw(st.permutations(items).map(tuple) | _other_lists(items))
                    for name, items in lists.items()
                },
            )
        )
    return tuple(parts)


def _other_lists(
    items: tuple[int | Chosen, ...],
) -> st.SearchStrategy[tuple[int | Chosen, ...]]:
    """Return other lists that may stand in the place of one."""
    if isinstance(items[0], Chosen):
        return st.lists(st.sampled_from(items), max_size=4).map(tuple)
    return _LISTS


@st.composite
def cases(draw: st.DrawFn) -> DrawnCase:
    """Return a plan with what befalls it."""
    plan = draw(_plans())
    return DrawnCase(
        plan,
        draw(st.lists(_OUTCOMES, max_size=8).map(tuple)),
        draw(_parts(plan)),
        draw(st.sampled_from(["waves", "dataflow"])),
    )
