"""Parameters that are plain references, rendered without reading an expression.

A *direct* reference is a whole `${…}` that only names fields and places: `${steps.prices[0].close}`. Most references
of most plans are, and following one takes less time than reading it as an expression would. Wherever following does
not lead straight to a value, the expression is read and asked instead, so answers and faults are always the
expression layer's own.

A plan and its tools, made ready to run.

Everything that is the same for every step is done once here: who waits for whom, which wave a step is in, how long
the way from it to the end is, and one validator for each schema of a tool. What belongs to one step alone is
*compiled* when the step is about to start and dropped with it, so a plan of a hundred thousand steps costs no more
than its graph.
"""

from __future__ import annotations

import datetime as dt
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from wavewright.planner.language.goals import AvailableTool, Limits
from wavewright.planner.language.plan import Plan, Retry, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.expressions import (
    Evaluator,
    Renderer,
    Variables,
    bare_expression,
    compile_expression,
    compile_render,
)
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import step_reads
from wavewright.planner.schemas.validation import Validator, validator_of
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.tools.functions.tool import Tool, ToolFunction

# A field is not a word that an expression cannot have for one; what the expression layer says of those stands.
_FIELD = r"(?!(?:in|true|false|null)\b)[A-Za-z_][A-Za-z0-9_]*"
_DIRECT_REFERENCE = re.compile(
    rf"\$\{{(steps|inputs|item)((?:\.{_FIELD})*)((?:\.{_FIELD}|\[[0-9]{{1,9}}\])*)\}}", re.ASCII
)
_KEY = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]", re.ASCII)
_SCALARS = (int, float, type(None))

ParamsRenderer: TypeAlias = Callable[[Variables, dt.datetime], Json]


def compile_params(params: JsonObject) -> ParamsRenderer:
    """Return what `compile_render` would, with a short way for direct references.

    Raises:
        ExpressionFault: a reference is not closed, or holds no expression.
    """
    constants: JsonObject = {}
    renderers: list[tuple[str, Renderer]] = []
    for name, value in params.items():
        if isinstance(value, str):
            if "${" in value:
                renderers.append((name, _compile_text(value)))
                continue
        elif not isinstance(value, _SCALARS):
            renderers.append((name, compile_render(value, _compile_text)))
            continue
        constants[name] = value
    if not renderers:
        return lambda _variables, _now: constants

    def render(variables: Variables, now: dt.datetime) -> Json:
        rendered = dict(params)
        for name, renderer in renderers:
            rendered[name] = renderer(variables, now)
        return rendered

    return render


class _Missing:
    """Stands for what following does not lead to."""


_MISSING = _Missing()


def _compile_text(text: str) -> Renderer:
    direct = _DIRECT_REFERENCE.fullmatch(text)
    if direct is None:
        return compile_render(text)
    root, fields, rest = direct.groups()
    if not rest:
        return _follow_names(text, [root, *fields.split(".")[1:]])
    keys: list[str | int] = [*fields.split(".")[1:]]
    keys += [field or int(place) for field, place in _KEY.findall(rest)]

    def follow(variables: Variables, now: dt.datetime) -> Json:
        value = variables.get(root, _MISSING)
        for key in keys:
            if isinstance(value, dict) and isinstance(key, str):
                value = value.get(key, _MISSING)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                value = _MISSING
        return compile_render(text)(variables, now) if isinstance(value, _Missing) else value

    return follow


def _follow_names(text: str, names: list[str]) -> Renderer:
    """Return the renderer of a reference without places: of JSON values only an object has what a name leads to."""

    def follow(variables: Variables, now: dt.datetime) -> Json:
        value: Any = variables
        try:
            for name in names:
                value = value[name]
        except (KeyError, TypeError):
            return compile_render(text)(variables, now)
        return cast("Json", value)

    return follow


_UNKNOWN_TOOL_SECONDS = 1.0
NO_WAVE = -1
"""The wave of a step that a cycle keeps from ever being ready."""


@dataclass(frozen=True, slots=True)
class CompiledTool:
    """A tool with its validators, and what the goal says of it."""

    signature: ToolSignature
    call: ToolFunction
    accepts: Validator | None
    """Of the parameters; `None` where anything goes."""
    returns: Validator | None
    """Of the output; `None` where nothing is promised."""
    config: JsonObject | None
    worker_type: str | None
    only_reads: bool
    """Whether two equal calls are one."""
    limit: int | None
    """Most calls at the same time."""

    @property
    def is_repeatable(self) -> bool:
        """Whether a call may be made again without changing anything more."""
        return self.only_reads or self.signature.idempotent


@dataclass(slots=True)
class CompiledStep:
    """A step with its expressions compiled and its limits resolved; made for every step, so it is not frozen."""

    step: Step
    tool: CompiledTool
    when: Evaluator | None
    for_each: Renderer | None
    params: Renderer
    retry: Retry
    timeout: float
    max_items: int


class CompiledPlan:
    """A bound plan over its tools."""

    def __init__(
        self,
        plan: Plan,
        tools: Mapping[str, Tool],
        *,
        limits: Limits,
        goal_tools: Iterable[AvailableTool] = (),
        graph: PlanGraph | None = None,
    ) -> None:
        self.plan = plan
        self.graph = graph or PlanGraph.of(plan)
        # By place and in arrays: a dictionary for each of these would weigh more than all outputs.
        self.place = {step_id: number for number, step_id in enumerate(self.graph.steps)}
        self.wave_of = array("l", [NO_WAVE]) * len(self.place)
        for number, wave in enumerate(self.graph.waves):
            for step_id in wave:
                self.wave_of[self.place[step_id]] = number
        self._limits = limits
        known = {tool.name: tool for tool in goal_tools}
        self.tools = {
            name: _compile_tool(tools[name], known.get(name), limits)
            for name in dict.fromkeys(step.tool for step in plan.steps)
            if name in tools
        }
        remaining = self.graph.priorities(self._expected_seconds)
        self.priority = array("d", (remaining.get(step_id, 0.0) for step_id in self.place))

    def compile(self, step: Step) -> CompiledStep:
        """Return the step, ready to run.

        Raises:
            ExpressionFault: one of its expressions is none.
            KeyError: nobody brought its tool.
        """
        tool = self.tools[step.tool]
        signature = tool.signature
        return CompiledStep(
            step,
            tool,
            None if step.when is None else compile_expression(bare_expression(step.when).expression),
            None if step.for_each is None else compile_render(step.for_each),
            compile_params(step.params),
            step.retry or signature.retry,
            step.timeout or signature.timeout,
            min(step.max_items or signature.max_items, self._limits.max_items),
        )

    def own_dependencies(self, step: Step) -> Iterable[StepId]:
        """Return the steps that this one reads or names; what only its gates read is not among them."""
        known = self.graph.steps
        named = dict.fromkeys((*step.depends_on, *sorted(step_reads(step))))
        return [StepId(name) for name in named if name in known]

    def visible(self, step_id: StepId, outputs: Mapping[StepId, Json]) -> JsonObject:
        """Return the outputs that a step may read: those of its dependencies that are present."""
        return {name: outputs[name] for name in self.graph.dependencies[step_id] if name in outputs}

    def _expected_seconds(self, step: Step) -> float:
        tool = self.tools.get(step.tool)
        return tool.signature.expected_seconds if tool else _UNKNOWN_TOOL_SECONDS


def _compile_tool(tool: Tool, available: AvailableTool | None, limits: Limits) -> CompiledTool:
    signature = tool.signature
    ceilings = [
        limit
        for limit in (signature.concurrency, limits.tool_concurrency.get(signature.name))
        if limit is not None
    ]
    return CompiledTool(
        signature=signature,
        call=tool.call,
        accepts=validator_of(signature.input_schema) if signature.input_schema else None,
        returns=validator_of(signature.output_schema) if signature.output_schema else None,
        config=available.config if available else None,
        worker_type=available.worker_type if available else None,
        only_reads=signature.only_reads,
        limit=min(ceilings, default=None),
    )
