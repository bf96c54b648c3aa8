"""The plans that are drawn, and the steps that they stand for.

Names of `let`, sub-plans and `stop` are put into the steps by the rules of
`docs/explanation/semantics.md`, so that the interpreter knows plain steps alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, TypeAlias


class ToolRules(NamedTuple):
    """What a tool says of itself."""

    writes: bool = False
    idempotent: bool = True
    deterministic: bool = False
    is_cached: bool = False
    """Whether other runs may reuse a result for an hour."""

    @property
    def is_repeatable(self) -> bool:
        """Whether a call may be made again without another effect."""
        return not self.writes or self.idempotent


TOOLS: Final[Mapping[str, ToolRules]] = {
    "look": ToolRules(),
    "compute": ToolRules(deterministic=True),
    "fetch": ToolRules(is_cached=True),
    "post": ToolRules(writes=True, idempotent=False),
    "put": ToolRules(writes=True, idempotent=True),
}


class Chosen(NamedTuple):
    """A call that data chooses, of `dispatch`."""

    tool: str
    x: int


Value: TypeAlias = int | str | tuple[str, ...]
"""A number, a name, or steps of which the last one that is there is read.

A name is that of a step, whose number is read, of `let`, `input` or `item`.
"""
INPUT: Final = "input"
"""In a sub-plan: what the step that calls it gives."""
ITEM: Final = "item"
GATHER: Final = "gather"
"""The tool that gives the result of a sub-plan; nothing is called."""


class Condition(NamedTuple):
    """What is asked of a step: whether its number is even, whether it is null, or whether it is
    there.
    """

    asks: Literal["even", "null", "there"]
    step: str
    is_negated: bool = False


class ModelGate(NamedTuple):
    """A gate that each number of a step's output passes where it is even."""

    severity: Literal["block", "warn"] = "block"
    on_empty: Literal["warn", "block", "pass"] = "warn"


@dataclass(frozen=True)
class SubPlan:
    """What a step calls in the place of a tool: its result is the number of its last step."""

    steps: tuple[ModelStep, ...]
    most: int = 1
    """Runs at most; more than one where it is repeated."""
    until: Literal["even", "known"] = "even"
    """Of the result: no other run follows."""
    feeds_back: bool = False
    """Whether a further run is given the result of the run before."""


@dataclass(frozen=True)
class ModelStep:
    """A step: one call with `x`, or one for each of `items`."""

    id: str
    tool: str
    x: Value = ITEM
    conditions: tuple[Condition, ...] = ()
    items: tuple[int | Chosen, ...] | None = None
    optional: bool = False
    attempts: int = 1
    retries_unclear: bool = False
    min_ok: int | None = None
    approval: bool = False
    gate: ModelGate | None = None
    after: tuple[str, ...] = ()
    """Steps that it waits for and does not read."""
    sub_plan: SubPlan | None = None
    tools: tuple[str, ...] = ()
    """Of `dispatch`: the tools that data may choose; its items are such calls."""
    supersedes: str | None = None
    """The step in whose place a patch put this one."""
    only_failed: bool = False
    """With that: what succeeded there, and failed no gate, is kept."""

    def may_call(self, asked: int | Chosen | None) -> bool:
        """Whether data may choose what is asked: a call of one of the step's tools."""
        return not isinstance(asked, Chosen) or asked.tool in self.tools

    @property
    def rules(self) -> ToolRules:
        """What its tool says of itself, or all of them."""
        rules = [TOOLS[tool] for tool in self.tools or (self.tool,)]
        return ToolRules(
            writes=any(tool.writes for tool in rules),
            idempotent=all(tool.idempotent for tool in rules),
            deterministic=all(tool.deterministic for tool in rules),
            is_cached=all(tool.is_cached for tool in rules),
        )

    @property
    def reads(self) -> set[str]:
        """The steps that it depends on."""
        named = self.x if isinstance(self.x, tuple) else (self.x,)
        values = {name for name in named if isinstance(name, str)} - {INPUT, ITEM}
        return values | {condition.step for condition in self.conditions} | {*self.after}

    @property
    def unasked(self) -> set[str]:
        """The steps that it reads without asking whether they are there."""
        asked = {condition.step for condition in self.conditions if condition.asks == "there"}
        return self.reads - {*self.after} - asked


@dataclass(frozen=True)
class ModelPlan:
    """A plan as it is written."""

    steps: tuple[ModelStep, ...]
    names: Mapping[str, int | str] = field(default_factory=dict[str, int | str])
    """Its `let`: what each name stands for, a number, a step or another name."""
    stop: str | None = None
    """The step at whose even number the run ends early."""
    result: str | None = None
    """The step whose number is the result; the outputs of the terminal steps where absent."""


@dataclass(frozen=True)
class BoundPlan:
    """A plan as it is executed: its plain steps, each after those that it reads."""

    steps: tuple[ModelStep, ...]
    stop: str | None
    result: str | None

    def resting_on(self, name: str | None) -> set[str]:
        """Return a step, of a sub-plan all of its steps, what patches have put in their place, and
        what depends on them.
        """
        own = {
            step.id
            for step in self.steps
            if name is not None and (step.id == name or step.id.startswith(f"{name}."))
        }
        own |= {step.id for step in self.steps if step.supersedes in own}
        return own | descendants(self.steps, own)

    def patched(
        self, names: Sequence[str], finished: Collection[str], *, only_failed: bool
    ) -> BoundPlan:
        """Return the plan with a further step in the place of each of these; of the first one, the
        items that did not fail may be kept. What has finished is as it was.
        """
        new = {name: f"{name}_2" for name in names}
        past = {*finished, *names, *(step.supersedes for step in self.steps)}
        steps = list[ModelStep]()
        for step in self.steps:
            steps.append(step if step.id in past else _repointed(step, new))
            if step.id in new:
                again = replace(
                    _repointed(step, new),
                    id=new[step.id],
                    supersedes=step.id,
                    only_failed=only_failed and step.id == names[0],
                )
                steps.append(again)
        ends = [None if name is None else new.get(name, name) for name in (self.stop, self.result)]
        return BoundPlan(tuple(steps), *ends)


def _repointed(step: ModelStep, new: Mapping[str, str]) -> ModelStep:
    """Return a step that reads others in the place of some."""
    x = step.x
    if isinstance(x, tuple):
        x = tuple(new.get(name, name) for name in x)
    elif isinstance(x, str):
        x = new.get(x, x)
    conditions = tuple(
        condition._replace(step=new.get(condition.step, condition.step))
        for condition in step.conditions
    )
    after = tuple(new.get(name, name) for name in step.after)
    return replace(step, x=x, conditions=conditions, after=after)


def bound(plan: ModelPlan) -> BoundPlan:
    """Return a plan with names, sub-plans and `stop` put into its steps."""
    return BoundPlan(steps_of(plan), plan.stop, plan.result)


def steps_of(plan: ModelPlan) -> tuple[ModelStep, ...]:
    """Return the steps that a plan stands for, each after those that it reads."""
    named = [replace(step, x=_named(step.x, plan.names)) for step in plan.steps]
    steps = [part for step in named for part in _expanded(step)]
    if plan.stop is None:
        return tuple(steps)
    goes_on = Condition("even", plan.stop, is_negated=True)
    waits = descendants(steps, {plan.stop})
    return tuple(
        replace(step, conditions=(goes_on, *step.conditions)) if step.id in waits else step
        for step in steps
    )


def descendants(steps: Sequence[ModelStep], names: Iterable[str]) -> set[str]:
    """Return the steps that depend on some of these, directly or not."""
    known = {*names}
    found = set[str]()
    for step in steps:
        if step.reads & (known | found):
            found.add(step.id)
    return found


def _named(x: Value, names: Mapping[str, int | str]) -> Value:
    while isinstance(x, str) and x in names:
        x = names[x]
    return x


def _expanded(step: ModelStep) -> Iterator[ModelStep]:
    """Yield a step, or the steps of its sub-plan: once, or as often as it may run."""
    sub_plan = step.sub_plan
    if sub_plan is None:
        yield step
        return
    if sub_plan.most == 1:
        yield from _run_of(step, sub_plan, step.id)
        return
    runs = tuple(f"{step.id}.{number}" for number in range(1, sub_plan.most + 1))
    for number, run in enumerate(runs):
        before = runs[:number]
        conditions = (*step.conditions, *(Condition("there", earlier) for earlier in before))
        x = step.x
        if before:
            conditions += (_unlike(sub_plan.until, before[-1]),)
            x = before[-1] if sub_plan.feeds_back else step.x
        yield from _run_of(replace(step, x=x, conditions=conditions), sub_plan, run)
    there = (Condition("there", runs[0]),) if step.optional else ()
    conditions = (*step.conditions, *there)
    yield ModelStep(step.id, GATHER, runs, conditions, optional=step.optional)


def _unlike(until: Literal["even", "known"], run: str) -> Condition:
    """Return the condition that the result of a run is not what is looked for."""
    return Condition("null", run) if until == "known" else Condition("even", run, is_negated=True)


def _run_of(step: ModelStep, sub_plan: SubPlan, run: str) -> Iterator[ModelStep]:
    """Yield the steps of one run of a sub-plan, and the one that gives its result."""
    children = {child.id: child for child in sub_plan.steps}
    last = sub_plan.steps[-1]
    read = set[str]().union(*(child.reads for child in sub_plan.steps))
    resting = [name for name in children if name not in read and name != last.id]

    def there(names: Iterable[str], unasked: Collection[str]) -> tuple[Condition, ...]:
        """Of an optional sub-plan: what fails in it leaves the rest of it out. What has a condition
        may be absent anyway, so that its readers ask for it where they mean to.
        """
        if not step.optional:
            return ()
        sure = [name for name in children if name in {*names} and not children[name].optional]
        return tuple(
            Condition("there", f"{run}.{name}")
            for name in sure
            if not children[name].conditions or name in unasked
        )

    for child in sub_plan.steps:
        own = tuple(
            condition._replace(step=f"{run}.{condition.step}") for condition in child.conditions
        )
        x = child.x
        if x == INPUT:
            x = step.x
        elif isinstance(x, str) and x in children:
            x = f"{run}.{x}"
        yield replace(
            child,
            id=f"{run}.{child.id}",
            x=x,
            conditions=(*step.conditions, *own, *there(child.reads, child.unasked)),
            items=child.items if step.items is None else step.items,
            optional=child.optional or step.optional,
        )
    yield ModelStep(
        run,
        GATHER,
        f"{run}.{last.id}",
        (*step.conditions, *there([last.id, *resting], {last.id})),
        step.items,
        step.optional,
        after=tuple(f"{run}.{name}" for name in resting),
    )
