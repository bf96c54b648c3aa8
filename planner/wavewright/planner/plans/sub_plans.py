"""Put sub-plans into the plan that calls them.

A step with `plan` becomes the steps of that plan, with the step's id and a dot before their ids,
and one step more under the id itself, whose output is the sub-plan's result. Inputs of the sub-plan
become what the step's `params` give; a condition of the step becomes one of each of its steps. With
`for_each` every step of the sub-plan runs once an item; with `repeat` the sub-plan stands there
once a run, as `id.1`, `id.2`, …, each under the condition that the run before gives. So a run knows
nothing of sub-plans: it has one graph, one budget, and one journal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from wavewright.config.sources import DocumentError
from wavewright.planner.cel.embedded import (
    bare_expression,
    guarded_steps,
    iterate_strings,
    step_path,
)
from wavewright.planner.diagnostics.diagnostic import Diagnostic, PlanError, make_diagnostic
from wavewright.planner.language.plan import SUB_PLAN, Cap, Gate, Plan, Repeat, Step
from wavewright.planner.plans.binding import repointing
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.let_and_stop import (
    asking_for,
    list_where_there,
    reads_item,
    reads_joined,
    unguarded_steps,
    with_let,
    with_stop,
)
from wavewright.planner.plans.sub_plan_call import (
    ExpandedPlace,
    ExpandedPlan,
    Rewriting,
    SubPlanCall,
    SubPlanReader,
    fields_set,
)
from wavewright.planner.plans.uses import ExpressionText, asks_each_item, step_texts, value_reads
from wavewright.planner.types import GateId, JsonObject, StepId

_UNFIT: Final = (
    "supersedes",
    "retry",
    "timeout",
    "max_items",
    "concurrency",
    "min_ok",
    "budget",
    "needs_approval",
)
"""Fields of a call; a step with `plan` makes none itself."""
_MAX_STEPS: Final = 2000
"""Of one plan; no further sub-plan is put in, and the limit of the goal, which is far lower, is
reported.
"""
_MAX_FAULTS: Final = 20


def expand_plan(
    plan: Plan, folder: Path, read: SubPlanReader, callers: Sequence[str] = ()
) -> ExpandedPlan:
    """Return a plan with its sub-plans, the names of its `let` and its `stop` put in.

    Args:
        plan: The plan as it was written.
        folder: What paths of sub-plans in it are relative to.
        read: Reads a sub-plan.
        callers: The documents of the plans that call this one, the outermost first.
    """
    plan, faults = with_let(plan)
    for number, step in enumerate(plan.steps):
        faults = (*faults, *loop_faults(step, f"/steps/{number}"))
    if all(step.plan is None for step in plan.steps):
        return ExpandedPlan(with_stop(plan), faults=faults)
    expansion = _Expansion(plan, folder, read, callers, faults)
    for number, step in enumerate(plan.steps):
        expansion.add_step(step, f"/steps/{number}")
    gates = [(gate, ExpandedPlace(f"/gates/{number}")) for number, gate in enumerate(plan.gates)]
    caps = [(cap, ExpandedPlace(f"/caps/{number}")) for number, cap in enumerate(plan.caps)]
    expanded = expansion.result([*gates, *expansion.gates], [*caps, *expansion.caps])
    return replace(expanded, plan=with_stop(expanded.plan))


def needs_expansion(plan: Plan) -> bool:
    """Return whether a plan has sub-plans, loops, names or a stop to put into its steps."""
    return (
        bool(plan.let)
        or plan.stop is not None
        or any(step.plan is not None or step.repeat is not None for step in plan.steps)
        or reads_joined(plan)
    )


class _Expansion:
    """What a plan becomes, step by step."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        read: SubPlanReader,
        callers: Sequence[str],
        faults: Sequence[Diagnostic],
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._read = read
        self._callers = callers
        self._steps: list[Step] = []
        self._places: dict[str, ExpandedPlace] = {}
        self._faults: list[Diagnostic] = [*faults]
        self.gates: list[tuple[Gate, ExpandedPlace]] = []
        self.caps: list[tuple[Cap, ExpandedPlace]] = []

    def result(
        self, gates: list[tuple[Gate, ExpandedPlace]], caps: list[tuple[Cap, ExpandedPlace]]
    ) -> ExpandedPlan:
        """Return the plan with these gates and caps."""
        for name, parts in (("gates", gates), ("caps", caps)):
            self._places |= {f"/{name}/{number}": place for number, (_, place) in enumerate(parts)}
        plan = self._plan.model_copy(
            update={
                "steps": tuple(self._steps),
                "gates": tuple(gate for gate, _ in gates),
                "caps": tuple(cap for cap, _ in caps),
            }
        )
        return ExpandedPlan(plan, self._places, tuple(self._faults))

    def add_step(self, step: Step, pointer: str) -> None:
        """Add a step, or the steps of its sub-plan."""
        if step.plan is None:
            self._add(step, ExpandedPlace(pointer))
            return
        if len(self._steps) > _MAX_STEPS or len(self._faults) > _MAX_FAULTS:
            return
        misuses = list(_misuses(step, pointer))
        self._faults += misuses
        call = self._call(step, step.plan, pointer)
        if call is None:
            return
        faults = [*call.inner_faults(), *call.faults()]
        self._faults += faults
        if not (faults or misuses):
            self._inline(call)

    def _call(self, step: Step, plan: str, pointer: str) -> SubPlanCall | None:
        """Return the call of a sub-plan that can be read and does not call itself; its faults are
        kept.
        """
        pointer_to_plan = f"{pointer}/plan"
        try:
            source = self._read(plan, self._folder)
        except (PlanError, DocumentError) as error:
            for text, hint in reading_faults(error):
                message = f"step {step.id!r} cannot call its plan: {text}"
                self._faults.append(make_diagnostic("E411", pointer_to_plan, message, hint))
            return None
        name = source.document.source.name
        if name in self._callers:
            path = " -> ".join([*self._callers[self._callers.index(name) :], name])
            message = f"step {step.id!r} calls a plan that calls itself: {path}"
            hint = "a plan that runs until a condition holds is a step with `repeat`"
            self._faults.append(make_diagnostic("E410", pointer_to_plan, message, hint))
            return None
        inner = expand_plan(source.plan, source.folder, self._read, (*self._callers, name))
        return SubPlanCall(step, pointer, source, inner)

    def _inline(self, call: SubPlanCall) -> None:
        step, repeat = call.step, call.step.repeat
        if repeat is None:
            self._add_run(call, step.id, step.params, step.when)
            return
        whens: Sequence[str | None] = [step.when]
        for number in range(1, repeat.max + 1):
            run, before = f"{step.id}.{number}", StepId(f"{step.id}.{number - 1}")
            params = step.params
            if number > 1:
                # A further run is given what `repeat` says of the run before.
                of_run_before = repointing(step.id, before).value
                further = {name: of_run_before(value) for name, value in repeat.params.items()}
                params = {**params, **further}
                whens = _whens_of_run(step.id, number, repeat, step.when)
            self._add_run(call, run, params, _all_of(whens), is_further=number > 1)
        self._add(_last_result(step, repeat), ExpandedPlace(call.pointer, step=call.pointer))
        gate = Gate(
            id=GateId(f"{step.id}.until"),
            on=step.id,
            check=repeat.until,
            severity="warn",
            hint=f"{step.id!r} ended after {repeat.max} runs: raise its 'max', or ask less in 'until'",
        )
        until = ExpandedPlace(f"{call.pointer}/repeat/until", step=call.pointer)
        self.gates.append((gate, until))

    def _add_run(
        self,
        call: SubPlanCall,
        run: str,
        params: JsonObject,
        when: str | None,
        *,
        is_further: bool = False,
    ) -> None:
        """Add one run of a sub-plan, under the id of the run."""
        by_item = call.step.for_each is not None
        rewriting = Rewriting(run, {**call.defaults, **params}, by_item=by_item)
        self._add_children(call, rewriting, when, is_further=is_further)
        self._add_result(call, rewriting, when)
        self._add_gates(call, rewriting)
        self._add_caps(call, rewriting, when)
        faults = call.rewriting_faults(rewriting)
        self._faults += (fault for fault in faults if fault not in self._faults)

    def _add_children(
        self, call: SubPlanCall, rewriting: Rewriting, when: str | None, *, is_further: bool
    ) -> None:
        """Add the steps of a sub-plan; they run where the call does."""
        step, run, graph = call.step, rewriting.run, PlanGraph.of(call.inner.plan)
        for number, child in enumerate(call.inner.plan.steps):
            awaited = graph.dependencies[child.id]
            own_when = None if child.when is None else rewriting.condition(child.when)
            # Only the first steps wait for what the call waits for: the others wait for them.
            waits = () if awaited else step.depends_on
            items = rewriting.value(child.for_each) if step.for_each is None else step.for_each
            if asks_each_item(child) and (step.optional or when is not None):
                # Its condition is asked after the list is there, which reads steps that are not.
                items = list_where_there(items, _ids_of_run(call, run))
            update = {
                "id": StepId(f"{run}.{child.id}"),
                "params": rewriting.value(child.params),
                "for_each": items,
                "when": _all_of([when, own_when, *_present_for(child, step, run, graph)]),
                "optional": child.optional or step.optional,
                "depends_on": (*waits, *(StepId(f"{run}.{name}") for name in child.depends_on)),
            }
            added = f"/steps/{len(self._steps)}"
            for field in ("params", "for_each"):
                pointer = f"/steps/{number}/{field}"
                parts = call.places_below(pointer, getattr(child, field), is_further_run=is_further)
                self._places |= {f"{added}/{field}{below}": place for below, place in parts}
            if step.for_each is not None:
                # The list is the caller's, and stands there.
                own_list = ExpandedPlace(f"{call.pointer}/for_each", step=call.pointer)
                self._places[f"{added}/for_each"] = own_list
            self._add(child.model_copy(update=update), call.place(f"/steps/{number}"))

    def _add_result(self, call: SubPlanCall, rewriting: Rewriting, when: str | None) -> None:
        """Add the step whose output is the result of a sub-plan: of one without a result, the
        outputs of the steps that nothing reads.
        """
        step, run, graph = call.step, rewriting.run, PlanGraph.of(call.inner.plan)
        result = call.inner.plan.result
        if result is None:
            outputs: JsonObject = {name: f"${{{step_path(name)}}}" for name in graph.terminal}
            result = outputs if len(outputs) > 1 else next(iter(outputs.values()))
        present: list[str] = []
        if call.inner.plan.stop is not None:
            from wavewright.planner.plans import sub_plan_stop  # few sub-plans have a stop

            result, present = sub_plan_stop.result_with_stop(call, rewriting, result)
        read = value_reads(result)
        resting = [name for name in graph.terminal if name not in read]
        texts = [ExpressionText(place, text, "result") for place, text in iterate_strings(result)]
        there = _present(step, run, graph, [*read, *resting], _unasked_reads(texts))
        place_of_result = f"/steps/{len(self._steps)}/params/result"
        self._add(
            Step(
                id=StepId(run),
                tool=SUB_PLAN,
                why=step.why,
                params={"result": rewriting.value(result)},
                for_each=step.for_each,
                when=_all_of([when, *there, *present]),
                optional=step.optional,
                depends_on=tuple(StepId(f"{run}.{name}") for name in resting),
            ),
            ExpandedPlace(call.pointer, step=call.pointer),
        )
        self._places[place_of_result] = call.place("/result")

    def _add_gates(self, call: SubPlanCall, rewriting: Rewriting) -> None:
        run = rewriting.run
        for number, gate in enumerate(call.inner.plan.gates):
            asked = replace(rewriting, own=gate.on)
            update = {
                "id": GateId(f"{run}.{gate.id}"),
                "on": StepId(f"{run}.{gate.on}"),
                "check": None if gate.check is None else asked.condition(gate.check),
            }
            self.gates.append((gate.model_copy(update=update), call.place(f"/gates/{number}")))

    def _add_caps(self, call: SubPlanCall, rewriting: Rewriting, when: str | None) -> None:
        """Add the caps of a sub-plan; they are on the whole where not all of the plan's result is
        the sub-plan's.
        """
        run = rewriting.run
        is_whole = self._plan.result == f"${{{step_path(call.step.id)}}}"
        for number, cap in enumerate(call.inner.plan.caps):
            holds = rewriting.condition(cap.when)
            if call.step.optional:
                holds = asking_for(holds, _ids_of_run(call, run))
            if call.step.optional or when is not None:
                holds = f"has({step_path(run)}) && ({holds})"
            update = {
                "field": cap.field if is_whole else "overall",
                "when": holds,
                "because": f"{run}: {cap.because}",
            }
            self.caps.append((cap.model_copy(update=update), call.place(f"/caps/{number}")))

    def _add(self, step: Step, place: ExpandedPlace) -> None:
        self._places[f"/steps/{len(self._steps)}"] = place
        self._steps.append(step)


def _ids_of_run(call: SubPlanCall, run: str) -> frozenset[StepId]:
    """Return the ids of a sub-plan's steps in one run of it."""
    return frozenset(StepId(f"{run}.{step.id}") for step in call.inner.plan.steps)


def _present_for(child: Step, step: Step, run: str, graph: PlanGraph) -> list[str]:
    """Return the conditions that what a step of an optional sub-plan waits for is there."""
    guarded = frozenset[str]() if child.when is None else guarded_steps(child.when)
    unasked = _unasked_reads(step_texts(child, 0), guarded)
    return _present(step, run, graph, graph.dependencies[child.id], unasked)


def _present(
    step: Step, run: str, graph: PlanGraph, names: Iterable[StepId], unasked: Collection[StepId]
) -> list[str]:
    """Return the conditions that steps of an optional sub-plan are there.

    One that has a condition of its own may be absent anyway, so its readers ask for it, unless they
    have that condition, too: for these, `unasked`, the condition says no longer that it is there.

    Args:
        step: The call of the sub-plan.
        run: The id of this run of it.
        graph: The sub-plan's own.
        names: The steps that are waited for.
        unasked: Those that are read without `has()`.
    """
    if not step.optional:
        return []
    conditions: list[str] = []
    for child in (graph.steps[name] for name in names if name in graph.steps):
        if child.optional:
            continue
        if child.when is None or asks_each_item(child) or child.id in unasked:
            conditions.append(f"has({step_path(f'{run}.{child.id}')})")
        if asks_each_item(child):
            # It ends empty where its list is missing: that is no result, so this is asked as well.
            conditions += _present_for(child, step, run, graph)
    return [*dict.fromkeys(conditions)]


def _unasked_reads(
    texts: Iterable[ExpressionText], asked: Collection[str] = ()
) -> frozenset[StepId]:
    """Return the steps that texts read without asking for them, but for those asked elsewhere."""
    unasked = (unguarded_steps(text.all_reads, asked) for text in texts)
    return frozenset(chain.from_iterable(unasked))


def reading_faults(error: PlanError | DocumentError) -> Iterator[tuple[str, str | None]]:
    """Yield why a sub-plan cannot be read, each reason with its place and its hint."""
    faults = error.diagnostics if isinstance(error, PlanError) else error.faults
    for fault in faults:
        where = error.source.name
        if fault.span is not None:
            line, column = error.source.position(fault.span.start)
            where = f"{where}:{line}:{column}"
        # Said twice, a path such as `etc/passwd: 'etc/passwd'` would read as a name with its secret.
        is_said = repr(where) in fault.message
        yield fault.message if is_said else f"{where}: {fault.message}", fault.hint


def _misuses(step: Step, pointer: str) -> Iterator[Diagnostic]:
    """Yield what a step with a sub-plan says that only a call of a tool can say."""
    unfit = fields_set(step, _UNFIT)
    if step.tool != SUB_PLAN:
        unfit.append("tool")
    for name in unfit:
        hint = f"remove {name!r}, or write it at the steps of {step.plan!r}"
        yield make_diagnostic(
            "E411", f"{pointer}/{name}", f"step {step.id!r} has both 'plan' and {name!r}", hint
        )
    if asks_each_item(step):
        message = f"the condition of step {step.id!r} is one of items, and its sub-plan runs for all of them"
        hint = "leave items out of the list: list.filter(x, …)"
        yield make_diagnostic("E411", f"{pointer}/when", message, hint)
    if step.repeat is not None and step.for_each is not None:
        message = f"step {step.id!r} has both 'for_each' and 'repeat'"
        hint = "repeat a plan of which one step has the `for_each`"
        yield make_diagnostic("E411", f"{pointer}/repeat", message, hint)
    arguments = {"params": step.params}
    if step.repeat is not None:
        arguments["repeat"] = step.repeat.params
    for name, value in arguments.items():
        if reads_item(value) and step.for_each is None:
            message = f"step {step.id!r} reads the item of a `for_each` that it does not have"
            yield make_diagnostic(
                "E305", f"{pointer}/{name}", message, "give the step a `for_each`"
            )


def loop_faults(step: Step, pointer: str) -> Iterator[Diagnostic]:
    """Yield that nothing would run the loop of a step: what a step with `tool` calls has no second
    run.
    """
    if step.repeat is not None and step.plan is None:
        message = f"step {step.id!r} has 'repeat' and no 'plan': only a sub-plan runs again"
        hint = (
            "put the step into a plan of its own, and call that with `plan`;"
            " a call that fails is tried again by `retry`"
        )
        yield make_diagnostic("E411", f"{pointer}/repeat", message, hint)


def _whens_of_run(step: StepId, number: int, repeat: Repeat, when: str | None) -> list[str]:
    """Return the conditions of a further run: those before have results, the last one not what is
    looked for.

    An equal result is no reason to stop: the same question may be answered otherwise later, as
    where a status is asked for until it is "done".
    """
    runs = [StepId(f"{step}.{earlier}") for earlier in range(1, number)]
    until = repointing(step, runs[-1]).condition(repeat.until)
    conditions = [] if when is None else [when]
    conditions += [f"has({step_path(run)})" for run in runs]
    conditions.append(f"!({bare_expression(until).expression})")
    return conditions


def _last_result(step: Step, repeat: Repeat) -> Step:
    """Return the step whose output is the result of the last run."""
    runs = [step_path(f"{step.id}.{number}") for number in range(1, repeat.max + 1)]
    result = runs[0]
    for run in runs[1:]:
        result = f"has({run}) ? {run} : {result}"
    update = {
        "tool": SUB_PLAN,
        "plan": None,
        "repeat": None,
        "params": {"result": f"${{{result}}}"},
        "depends_on": (),
    }
    if step.optional:
        update["when"] = _all_of([step.when, f"has({runs[0]})"])
    return step.model_copy(update=update)


def _all_of(conditions: Sequence[str | None]) -> str | None:
    """Return the condition that all of these hold, where there are any."""
    written = [condition for condition in conditions if condition is not None]
    bare = [bare_expression(condition).expression for condition in written]
    if len(bare) > 1:
        # What binds less than `&&` stands in parentheses.
        bare = [f"({text})" if "||" in text or "?" in text else text for text in bare]
    return " && ".join(bare) or None
