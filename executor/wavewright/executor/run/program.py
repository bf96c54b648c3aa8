"""A plan compiled over its tools.

Computed once: the graph, the wave and the priority of each step, and a validator for each schema of
a tool. A step's own expressions are compiled when the step starts and dropped with it, so a plan of
100,000 steps needs little more memory than its graph.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from wavewright.executor.events.state import RunState, written_data
from wavewright.executor.events.types import PersonAsk
from wavewright.planner import (
    Json,
    JsonObject,
    Limits,
    Plan,
    PlanGraph,
    Retry,
    Step,
    StepId,
    ToolSignature,
    validator_of,
)
from wavewright.planner.cel.embedded import bare_expression
from wavewright.planner.cel.evaluator import Evaluator, compile_expression
from wavewright.planner.language.goals import AvailableTool, config_of
from wavewright.planner.language.signatures import (
    RUN_INPUTS,
    asks_approval,
    is_feedback_input,
    may_share_call,
)
from wavewright.planner.plans.expressions import Renderer, compile_render
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.plans.uses import step_reads
from wavewright.planner.schemas.validation import Validator
from wavewright.tools import Tool, Tools
from wavewright.tools.functions.tool import FindCall, ToolFunction

_UNKNOWN_TOOL_SECONDS = 1.0
NO_WAVE = -1
"""The wave of a step that depends on a cycle."""


@dataclass(frozen=True, slots=True)
class CompiledTool:
    """A tool with its validators and the goal's configuration of it."""

    signature: ToolSignature
    call: ToolFunction
    accepts: Validator | None
    """Of the parameters; None without an input schema."""
    returns: Validator | None
    """Of the output; None without an output schema."""
    config: JsonObject | None
    worker_type: str | None
    limit: int | None
    """Maximum of concurrent calls."""
    items_limit: int
    """Maximum of items of a `for_each` step in this run."""
    asks_person: bool
    """Whether a person answers each call."""
    is_under_way: FindCall | None
    """Tells whether a call outlived the process that made it."""
    takes_stored: bool
    """Whether a result of another run may stand for a call."""
    room: Callable[[], int] | None
    """How many calls others can take now; None where there is no such limit."""

    def fits(self, output: Json) -> bool:
        """Whether an output from a journal is one that the tool may give today."""
        return self.returns is None or self.returns.accepts(output)

    def may_share(self, step: Step, *, asks: PersonAsk | None) -> bool:
        """Whether one call may serve a step and others that make an equal call."""
        return may_share_call(step, self.signature, asks_person=asks is not None)

    @property
    def is_repeatable(self) -> bool:
        """Whether a call may be made again without another effect."""
        return self.signature.only_reads or self.signature.idempotent


@dataclass(slots=True)
class CompiledStep:
    """A step with its expressions compiled and its limits resolved; made for every step, so it is
    not frozen.
    """

    step: Step
    tool: CompiledTool
    when: Evaluator | None
    for_each: Renderer | None
    params: Renderer
    timeout: float
    asks: PersonAsk | None
    """What a person is asked before a call is made."""

    @property
    def retry(self) -> Retry:
        """The step's own policy, or else its tool's."""
        return self.step.retry or self.tool.signature.retry

    @property
    def max_items(self) -> int:
        """Maximum of items: the step's own, or else its tool's, but not more than the run's limit."""
        return min(self.step.max_items or self.tool.signature.max_items, self.tool.items_limit)

    @property
    def setting_of_max_items(self) -> str:
        """The setting that `max_items` comes from, as a message names it."""
        if self.max_items == self.step.max_items:
            return f"`max_items` of step {self.step.id!r}"
        if self.step.max_items is None and self.max_items == self.tool.signature.max_items:
            return f"`max_items` of step {self.step.id!r}, which is that of {self.step.tool!r}"
        return "`limits.max_items` of the goal template"


class CompiledPlan:
    """A bound plan with its tools."""

    def __init__(
        self,
        plan: Plan,
        tools: Tools,
        *,
        limits: Limits,
        goal_tools: Iterable[AvailableTool] = (),
        graph: PlanGraph | None = None,
        asks_people: bool = False,
    ) -> None:
        self.plan = plan
        self.in_words = in_authors_words(plan)
        """Puts the names of `let` back into a text that quotes an expression."""
        # A tool is given feedback by its parameter, and other calls are not made again because of
        # it.
        self._data_inputs = {
            name: value for name, value in plan.inputs.items() if not is_feedback_input(name)
        }
        self.graph = graph or PlanGraph.of(plan)
        # In arrays by place, since dictionaries would need more memory than all outputs.
        self.place = {step_id: number for number, step_id in enumerate(self.graph.steps)}
        self.wave_of = array("l", [NO_WAVE]) * len(self.place)
        for number, wave in enumerate(self.graph.waves):
            for step_id in wave:
                self.wave_of[self.place[step_id]] = number
        self._asks_people = asks_people
        known = {tool.name: tool for tool in goal_tools}
        self.tools = {
            name: _compile_tool(
                tools[name], known.get(name), config_of(name, known.values()), limits
            )
            for name in dict.fromkeys(step.tool for step in plan.steps)
            if name in tools
        }
        self.data_readers = frozenset(
            name for name, tool in self.tools.items() if tool.signature.reads_data
        )
        """The tools that read run data."""
        remaining = self.graph.priorities(self._expected_seconds)
        self.priority = array("d", (remaining.get(step_id, 0.0) for step_id in self.place))

    def compile(self, step: Step) -> CompiledStep:
        """Return the step, ready to run.

        Raises:
            ExpressionError: one of its expressions is invalid.
            KeyError: its tool is missing.
        """
        tool = self.tools[step.tool]
        when = for_each = None
        if step.when is not None:
            when = compile_expression(bare_expression(step.when).expression)
        if step.for_each is not None:
            for_each = compile_render(step.for_each)
        return CompiledStep(
            step,
            tool,
            when,
            for_each,
            params=compile_render(step.params),
            timeout=step.timeout or tool.signature.timeout,
            asks=self._asks_of(step, tool),
        )

    def sharing_steps(self) -> dict[StepId, CompiledTool]:
        """Return the steps whose output may serve other steps that make an equal call, with their
        tools.
        """
        sharing = dict[StepId, CompiledTool]()
        for step in self.plan.steps:
            tool = self.tools.get(step.tool)
            if tool is not None and tool.may_share(step, asks=self._asks_of(step, tool)):
                sharing[step.id] = tool
        return sharing

    def _asks_of(self, step: Step, tool: CompiledTool) -> PersonAsk | None:
        if not self._asks_people:
            return None
        if tool.asks_person:
            return "question"
        return "approval" if asks_approval(step, tool.signature) else None

    def own_dependencies(self, step: Step) -> Iterable[StepId]:
        """Return the steps that this one reads or names in `depends_on`, without those that only
        its gates read.
        """
        known = self.graph.steps
        named = dict.fromkeys((*step.depends_on, *sorted(step_reads(step))))
        return [StepId(name) for name in named if name in known]

    def visible(self, step_id: StepId, outputs: Mapping[StepId, Json]) -> JsonObject:
        """Return the outputs that a step may read: those of dependencies that are present."""
        return {name: outputs[name] for name in self.graph.dependencies[step_id] if name in outputs}

    def visible_data(self, step: Step, state: RunState) -> dict[str, JsonObject]:
        """Return the run data that a step may read whose tool is one of the `data_readers`.

        That is the plan's inputs, and what the steps that it depends on have written. Steps come in
        the order of their waves and items in theirs, so it does not matter which ended first.
        """
        reads = self.tools[step.tool].signature.reads_data
        data: dict[str, JsonObject] = {RUN_INPUTS: self._data_inputs}
        before = [name for name in self.graph.ancestors(step.id) if self._writes_data(name)]
        for name in sorted(
            before, key=lambda name: (self.wave_of[self.place[name]], self.place[name])
        ):
            for written in written_data(state, name):
                for part in written.keys() & reads:
                    data[part] = {**data.get(part, {}), **written[part]}
        return data

    def _writes_data(self, step_id: StepId) -> bool:
        tool = self.tools.get(self.graph.steps[step_id].tool)
        return tool is not None and bool(tool.signature.writes_data)

    def _expected_seconds(self, step: Step) -> float:
        tool = self.tools.get(step.tool)
        return tool.signature.expected_seconds if tool else _UNKNOWN_TOOL_SECONDS


def _compile_tool(
    tool: Tool, available: AvailableTool | None, config: JsonObject | None, limits: Limits
) -> CompiledTool:
    signature = tool.signature
    ceilings = (signature.concurrency, limits.tool_concurrency.get(signature.name))
    return CompiledTool(
        signature=signature,
        call=tool.call,
        accepts=validator_of(signature.input_schema) if signature.input_schema else None,
        returns=validator_of(signature.output_schema) if signature.output_schema else None,
        config=config,
        worker_type=available.worker_type if available else None,
        limit=min((limit for limit in ceilings if limit is not None), default=None),
        items_limit=limits.max_items,
        asks_person=tool.asks_person,
        is_under_way=tool.is_under_way,
        takes_stored=tool.takes_stored,
        room=tool.room,
    )
