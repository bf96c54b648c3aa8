"""Family E5: the rules of the goal, which no plan can change.

Rules are data of the goal template. They are checked on the plan as it is written: on literal
values, references to inputs, and dependencies between steps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from wavewright.config.sources import pointer_token
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.diagnostics.diagnostic import Diagnostic, list_names, make_diagnostic
from wavewright.planner.language.goals import Goal, TagRules, Targets
from wavewright.planner.language.plan import DISPATCHED_CALL, Step, step_tools
from wavewright.planner.plans.binding import mandatory_caps, template_gate_of
from wavewright.planner.plans.estimates import known_values
from wavewright.planner.types import Json, JsonObject, StepId, as_object

_PATH = re.compile(r"\$\{\s*(?P<root>item|inputs\.\w+)(?:\.\w+|\[\w+\])*\s*\}")


def check_goal_rules(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield which of the goal's rules the plan breaks."""
    goal = subject.goal
    if goal is None:
        return
    yield from _check_gates(subject, goal)
    yield from _check_caps(subject, goal)
    if subject.plan.steps:
        yield from _check_tags(subject, goal.rules.tags)
        yield from _check_analyses(subject, goal)
        yield from _check_targets(subject, goal)
        yield from _check_terminal_params(subject, goal)
        if goal.output_schema is not None and not goal.rules.terminal:
            # Imported here: many goals say nothing of their result. Where a tool must end the plan,
            # the engine gives that tool the schema.
            from wavewright.planner.checks.result_type import check_result_type

            yield from check_result_type(subject, goal.output_schema)
        yield from _check_required_tools(subject, goal)


def _check_gates(subject: CheckContext, goal: Goal) -> Iterator[Diagnostic]:
    mandatory = {gate.id.lower(): gate for gate in subject.mandatory_gates}
    template_ids = {gate.id.lower() for gate in goal.gates}
    present: set[str] = set()
    for number, gate in enumerate(subject.plan.gates):
        demanded = mandatory.get(gate.id.lower())
        present.add(gate.id.lower())
        if demanded == gate:
            continue
        if demanded is not None or gate.id.lower() in template_ids:
            origin = template_gate_of(gate.id, goal) or gate.id
            yield make_diagnostic(
                "E502",
                f"/gates/{number}",
                f"gate {gate.id!r} would change the goal's gate {origin!r}, which no plan can",
                "remove the gate, or give your own gate another id",
            )
    for folded, gate in mandatory.items():
        if folded not in present:
            yield make_diagnostic(
                "E502",
                "/gates",
                f"the goal's gate {gate.id!r} on {gate.on!r} is missing",
                "bind the plan to its goal before it is checked",
            )


def _check_caps(subject: CheckContext, goal: Goal) -> Iterator[Diagnostic]:
    for cap in mandatory_caps(subject.plan, goal):
        if cap not in subject.plan.caps:
            yield make_diagnostic(
                "E502",
                "/caps",
                f"the goal's cap on {cap.field!r} ({cap.because}) is missing",
                "bind the plan to its goal before it is checked",
            )


def _check_tags(subject: CheckContext, rules: TagRules | None) -> Iterator[Diagnostic]:
    if rules is None:
        return
    covered: set[str] = set()
    all_known = True
    for number, step in enumerate(subject.plan.steps):
        if rules.param not in step.params:
            continue
        calls = [
            _texts(value) for value in known_values(subject.plan, step, step.params[rules.param])
        ]
        all_known = all_known and bool(calls)
        covered.update(*calls)
        for exclusive in rules.exclusive:
            named = next(
                (sorted(tags & exclusive) for tags in calls if len(tags & exclusive) > 1), None
            )
            if named:
                yield make_diagnostic(
                    "E501",
                    f"/steps/{number}/params" + pointer_token(rules.param),
                    f"step {step.id!r} asks for {_join_with_and(named)} in one call, "
                    "and the goal allows one of them at a time",
                    f"make one step for each: {rules.param}: [{named[0]}] in one, [{named[1]}] in the other",
                )
    missing = sorted(rules.required - covered)
    if missing and all_known:
        yield make_diagnostic(
            "E506",
            "/steps",
            f"no step asks for {_join_with_and(missing)}, which the goal requires",
            f"name it in the {rules.param!r} of a step",
        )


def _check_analyses(subject: CheckContext, goal: Goal) -> Iterator[Diagnostic]:
    analysis = goal.rules.analysis_tools
    if not analysis:
        return
    tagged = {
        name
        for name in subject.allowed_tools
        if name in subject.tools and "data" in subject.tools[name].tags
    }
    data = goal.rules.data_tools or tagged
    supported = _descendants_of_tools(subject, data)
    for number, step in enumerate(subject.plan.steps):
        # What a `dispatch` may call, it may call without data.
        called = next((tool for tool in step_tools(step) if tool in analysis), None)
        if (
            called is not None
            and step.id not in supported
            and step.id not in subject.unorderable_steps
        ):
            yield make_diagnostic(
                "E503",
                f"/steps/{number}",
                f"step {step.id!r} calls {called!r} and rests on no step that fetches data",
                list_names(data, what="read, or depend on, a step that calls one of"),
            )


def _descendants_of_tools(subject: CheckContext, tools: Collection[str]) -> set[StepId]:
    """Return the steps that a call of one of these tools comes before, directly or not."""
    graph = subject.graph
    # A `dispatch` calls one of them for sure where all that it may call are among them.
    calls = {
        step_id
        for step_id, step in subject.steps.items()
        if all(tool in tools for tool in step_tools(step))
    }
    resting: set[StepId] = set()
    for step_id in graph.order():
        if any(other in calls or other in resting for other in graph.dependencies[step_id]):
            resting.add(step_id)
    return resting


def _check_targets(subject: CheckContext, goal: Goal) -> Iterator[Diagnostic]:
    if not goal.rules.primary_params:
        return
    names = goal.targets
    for number, step in enumerate(subject.plan.steps):
        for tool in step_tools(step):
            param = goal.rules.primary_params.get(tool)
            if param is None:
                continue
            if tool == step.tool:
                place = f"/steps/{number}/params" + pointer_token(param)
                wrong = _benchmarks_in(subject, names, step, step.params.get(param))
            else:
                place = f"/steps/{number}/for_each"
                wrong = _known_benchmarks(
                    subject, names, _written_arguments(subject, step, tool, param)
                )
            if wrong:
                yield make_diagnostic(
                    "E504",
                    place,
                    f"step {step.id!r} takes {wrong} as a primary target",
                    f"{param!r} of {tool!r} takes values of `inputs.{names.variables}`;"
                    f" `inputs.{names.benchmarks}` is for comparison only",
                )


def _written_arguments(subject: CheckContext, step: Step, tool: str, param: str) -> list[Json]:
    """Return the known arguments of one parameter in the calls of a tool that a `dispatch` makes."""
    return [
        as_object(call.get("params")).get(param)
        for call in _written_calls(subject, step)
        if call.get("tool") == tool
    ]


def _written_calls(subject: CheckContext, step: Step) -> list[JsonObject]:
    """Return the calls of a `dispatch` that are known before the run."""
    calls = known_values(subject.plan, step, step.params.get(DISPATCHED_CALL))
    return [as_object(call) for call in calls]


def _benchmarks_in(subject: CheckContext, names: Targets, step: Step, value: Json) -> str | None:
    """Return which benchmarks an argument is, by its values where they are known, else by where
    they come from.
    """
    values = list(known_values(subject.plan, step, value))
    if not values:
        source = f"inputs.{names.benchmarks}"
        return f"a value of `{source}`" if _is_path_below(source, step, value) else None
    return _known_benchmarks(subject, names, values)


def _known_benchmarks(subject: CheckContext, names: Targets, values: list[Json]) -> str | None:
    benchmarks = _identities(subject.plan.inputs.get(names.benchmarks), names.key)
    benchmarks -= _identities(subject.plan.inputs.get(names.variables), names.key)
    named = set[str]().union(*(_identities(value, names.key) for value in values)) & benchmarks
    return f"the benchmark {_join_with_and(sorted(named))}" if named else None


def _is_path_below(source: str, step: Step, value: Json) -> bool:
    """Return whether a value is a path below `source`, or below `item` of a `for_each` over such a
    path.
    """
    root = _root(value)
    return root == source or (root == "item" and _root(step.for_each) == source)


def _root(value: Json) -> str | None:
    path = _PATH.fullmatch(value) if isinstance(value, str) else None
    return None if path is None else path["root"]


def _identities(value: Json, key: str | None) -> set[str]:
    """Return what identifies a target, or each target of a list; case and blanks around it do not
    count.
    """
    if isinstance(value, list):
        return set[str]().union(*(_identities(item, key) for item in value))
    if isinstance(value, dict):
        return _identities(value[key], None) if key is not None and key in value else set()
    return {value.strip().upper()} if isinstance(value, str) else set()


def _check_terminal_params(subject: CheckContext, goal: Goal) -> Iterator[Diagnostic]:
    params_by_tool = subject.engine_params
    if not params_by_tool or subject.graph.cycles:
        return
    terminal = frozenset(subject.graph.terminal)
    calls = [
        (number, step)
        for number, step in enumerate(subject.plan.steps)
        if step.tool in params_by_tool and step.id in terminal
    ]
    if not calls and subject.likely_meant_tools.isdisjoint(params_by_tool):
        tools = " or ".join(map(repr, sorted(params_by_tool)))
        yield make_diagnostic(
            "E505",
            "/steps",
            f"the goal {goal.name!r} requires its output of {tools}, and no last step calls it",
            "end the plan with a step that calls it, and let no other step read that one",
        )
    for number, step in calls:
        missing = [name for name in params_by_tool[step.tool] if name not in step.params]
        if missing:
            yield make_diagnostic(
                "E505",
                f"/steps/{number}/params",
                f"the last step {step.id!r} lacks {_join_with_and(missing)}, which the goal sets",
                "bind the plan to its goal before it is checked",
            )


def _check_required_tools(subject: CheckContext, goal: Goal) -> Iterator[Diagnostic]:
    required = goal.rules.required_tools
    called = {
        tool for tool in required for step in subject.plan.steps if _is_called(subject, step, tool)
    }
    for tool in sorted(required - called - subject.likely_meant_tools):
        yield make_diagnostic(
            "E506",
            "/steps",
            f"no step calls {tool!r}, which the goal requires",
            f"add a step that calls {tool!r}",
        )


def _is_called(subject: CheckContext, step: Step, tool: str) -> bool:
    """Whether a step calls a tool for sure: a `dispatch` does where it has no other choice, or where
    its calls are known before the run.
    """
    tools = step_tools(step)
    if tools == (tool,):
        return True
    return tool in tools and any(call.get("tool") == tool for call in _written_calls(subject, step))


def _texts(value: Json) -> frozenset[str]:
    items = value if isinstance(value, list) else [value]
    return frozenset(item for item in items if isinstance(item, str))


def _join_with_and(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))
