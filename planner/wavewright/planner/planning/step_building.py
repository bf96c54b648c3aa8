"""Build steps whose arguments are found and not generated.

A *builder* adds calls one by one and fills missing required arguments from what is known: the
goal's targets, an input of the same name, outputs of earlier steps, the text of the goal. The
result counts only if it passes the check. Types and references are then valid, but nothing says
that it is sensible, so its confidence ceiling is low.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from wavewright.planner.checks.checker import errors_in
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.plans.binding import bind_plan, escape_references, terminal_params
from wavewright.planner.plans.uses import step_reads
from wavewright.planner.types import (
    ID_PATTERN,
    RESERVED_IDS,
    Json,
    JsonObject,
    JsonSchema,
    StepId,
    as_list,
    as_object,
    properties_of,
)

_MAX_CANDIDATES = 12
"""Maximum number of candidates for one argument; each is checked."""

_TITLE_PARAMS = frozenset({"title", "name", "subject", "headline"})
_TASK_PARAMS = frozenset({"query", "question", "goal", "topic", "task", "instructions", "prompt"})
_ID = re.compile(ID_PATTERN)
_MAX_ID_LENGTH = 50


def data_tools(goal: Goal, tools: ToolSignatures) -> tuple[str, ...]:
    """Return the tools that fetch data for a goal, in its order: those it names, or those tagged
    `data`.
    """
    named = goal.rules.data_tools
    return tuple(
        tool.name
        for tool in goal.tools
        if tool.name in tools and (tool.name in named if named else "data" in tools[tool.name].tags)
    )


class StepBuilder:
    """Builds a plan, call by call."""

    def __init__(self, goal: Goal, tools: ToolSignatures) -> None:
        self.steps: list[Step] = []
        self._goal = goal
        self._tools = tools
        self._data = frozenset(data_tools(goal, tools))
        self._set_by_engine = terminal_params(goal)

    def plan(self, reasoning: str) -> Plan:
        """Return the plan of the steps so far."""
        return Plan(reasoning=reasoning, steps=tuple(self.steps))

    def copy(self) -> StepBuilder:
        """Return a copy of the builder with the same steps."""
        other = StepBuilder(self._goal, self._tools)
        other.steps = [*self.steps]
        return other

    def calls(self, tool: str) -> bool:
        """Whether some step calls a tool."""
        return any(step.tool == tool for step in self.steps)

    def add(
        self,
        tool: str,
        params: JsonObject | None = None,
        *,
        wanted_id: str | None = None,
        why: str | None = None,
    ) -> bool:
        """Add a call; return False if a required argument of it cannot be found."""
        given = params or {}
        missing = self._missing(tool, given)
        step = Step(id=new_step_id(wanted_id or tool, self.steps), why=why, tool=tool, params=given)
        for for_each in self._for_each_candidates(tool, missing) if missing else (None,):
            over = step if for_each is None else step.model_copy(update={"for_each": for_each})
            filled = self._filled(over, missing)
            if filled is not None:
                self.steps.append(with_dependencies(filled, self.steps, self._goal, self._tools))
                return True
        return False

    # --- missing arguments and their candidates
    # ----------------------------------------------------------------

    def _missing(self, tool: str, given: JsonObject) -> list[str]:
        signature = self._tools.get(tool)
        names = as_list(signature.input_schema.get("required") if signature is not None else None)
        engine = self._set_by_engine.get(tool, {})
        return [
            name
            for name in names
            if isinstance(name, str) and name not in given and name not in engine
        ]

    def _filled(self, step: Step, missing: Sequence[str]) -> Step | None:
        """Return the step with each missing argument filled by the first candidate that fits."""
        arguments: JsonObject = {}
        for name in missing:
            candidates = islice(self._candidates(step, name), _MAX_CANDIDATES)
            value = next(
                (candidate for candidate in candidates if self._fits(step, name, candidate)), None
            )
            if value is None:
                return None
            arguments[name] = value
        return step.model_copy(update={"params": {**step.params, **arguments}})

    def _fits(self, step: Step, name: str, value: Json) -> bool:
        """Whether the checker has no fault in one argument, nor in the step's `for_each`."""
        alone = step.model_copy(update={"params": {name: value}})
        plan = Plan(steps=(*self.steps, alone))
        number = len(self.steps)
        places = (f"/steps/{number}/params/{name}", f"/steps/{number}/for_each")
        errors = errors_in(bind_plan(plan, self._goal), self._goal, self._tools)
        return not any(error.pointer.startswith(places) for error in errors)

    def _for_each_candidates(self, tool: str, missing: Sequence[str]) -> Iterator[str | None]:
        """Yield candidates of the step's `for_each`."""
        goal = self._goal
        targets = goal.inputs.get(goal.targets.variables)
        over_targets = f"${{inputs.{goal.targets.variables}}}"
        if goal.rules.primary_params.get(tool) in missing or goal.targets.key in missing:
            if isinstance(targets, list) and targets:
                yield over_targets
            return
        yield None
        if not _only_reads(self._tools, tool):
            return
        for name, value in goal.inputs.items():
            if isinstance(value, list) and value and name in {f"{one}s" for one in missing}:
                yield f"${{inputs.{name}}}"
        for step in reversed(self.steps):
            if step.for_each is None and self._output(step).get("type") == "array":
                yield f"${{steps.{step.id}}}"

    def _candidates(self, step: Step, name: str) -> Iterator[Json]:
        """Yield candidates of an argument, most likely first."""
        schema = self._parameter(step.tool, name)
        if step.for_each is not None:
            key = self._goal.targets.key
            is_target = name in (self._goal.rules.primary_params.get(step.tool), key)
            yield from (
                f"${{item.{part}}}"
                for part in dict.fromkeys((key if is_target else None, name))
                if part
            )
            yield "${item}"
        if name in self._goal.inputs:
            yield f"${{inputs.{name}}}"
        yield from self._goal_texts(step, name, schema)
        for earlier in reversed(self.steps):
            if earlier.for_each is None and name in as_object(
                self._output(earlier).get("properties")
            ):
                yield f"${{steps.{earlier.id}.{name}}}"
        yield from self._outputs(step, name, schema)
        if "const" in schema:
            yield schema["const"]

    def _outputs(self, step: Step, name: str, schema: JsonSchema) -> Iterator[str]:
        """Yield outputs of earlier steps as a whole, where a list or an object is wanted: those of
        data tools first.
        """
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        sources = [source for source in self.steps if source.tool in self._data] or self.steps
        if "array" in kinds:
            # Each output must fit by itself: the checker knows too little about joined lists.
            fitting = [
                source
                for source in sources
                if self._fits(step, name, f"${{{self._concatenation([source])}}}")
            ]
            primary = [
                source for source in fitting if source.tool in self._goal.rules.primary_params
            ]
            if fitting:
                yield f"${{{self._concatenation(primary or fitting)}}}"
        if "object" in kinds:
            yield from (
                f"${{steps.{source.id}}}" for source in reversed(sources) if source.for_each is None
            )

    def _concatenation(self, steps: Sequence[Step]) -> str:
        """Return an expression that gives the outputs of steps as one list."""
        lists = [
            step
            for step in steps
            if step.for_each is not None or self._output(step).get("type") == "array"
        ]
        single = ", ".join(f"steps.{step.id}" for step in steps if step not in lists)
        return " + ".join(
            [f"steps.{step.id}" for step in lists] + ([f"[{single}]"] if single else [])
        )

    def _goal_texts(self, step: Step, name: str, schema: JsonSchema) -> Iterator[str]:
        """Yield the goal's text for arguments that want a text, if the tool only reads."""
        is_free = (
            schema.get("type") == "string" and not {"enum", "pattern", "format"} & schema.keys()
        )
        if not is_free or not _only_reads(self._tools, step.tool):
            return
        title = self._goal.job if name in _TITLE_PARAMS else ""
        words = self._goal.text if name in _TASK_PARAMS else title
        longest = schema.get("maxLength")
        if words:
            yield str(escape_references(words[: longest if isinstance(longest, int) else None]))

    # --- the plan so far
    # --------------------------------------------------------------------------------------

    def _output(self, step: Step) -> JsonSchema:
        signature = self._tools.get(step.tool)
        return {} if signature is None else signature.output_schema

    def _parameter(self, tool: str, name: str) -> JsonSchema:
        signature = self._tools.get(tool)
        if signature is None:
            return {}
        return as_object(properties_of(signature.input_schema).get(name))


def with_dependencies(step: Step, steps: Sequence[Step], goal: Goal, tools: ToolSignatures) -> Step:
    """Return the step with dependencies on steps that it does not read but must follow: an analysis
    follows all data, a call with effects follows everything.
    """
    analyses = step.tool in goal.rules.analysis_tools
    if _only_reads(tools, step.tool) and not analyses:
        return step
    data = frozenset(data_tools(goal, tools))
    earlier = [step_id.id for step_id in steps if not analyses or step_id.tool in data]
    waited_for = _with_ancestors(step_reads(step), steps)
    unread: list[StepId] = []
    for step_id in reversed(earlier):
        if step_id not in waited_for:
            unread.insert(0, step_id)
            waited_for |= _with_ancestors([step_id], steps)
    return step.model_copy(update={"depends_on": tuple(unread)}) if unread else step


def _with_ancestors(ids: Iterable[StepId], steps: Sequence[Step]) -> set[StepId]:
    """Return these steps and everything that they depend on."""
    ancestors = set(ids)
    for step in reversed(steps):
        if step.id in ancestors:
            ancestors |= {*step_reads(step), *step.depends_on}
    return ancestors


def _only_reads(tools: ToolSignatures, tool: str) -> bool:
    signature = tools.get(tool)
    return signature is not None and signature.only_reads and not signature.needs_approval


def new_step_id(wanted: str, steps: Iterable[Step]) -> StepId:
    """Return an id that none of the steps has, as close as possible to the wanted one."""
    root = re.sub(r"[^A-Za-z0-9_]+", "_", wanted)[:_MAX_ID_LENGTH]
    if not _ID.fullmatch(root) or root.lower() in RESERVED_IDS:
        root = f"call_{root}"[:_MAX_ID_LENGTH]
    taken = {step.id.lower() for step in steps}
    number, name = 1, root
    while name.lower() in taken:
        number += 1
        name = f"{root}_{number}"
    return StepId(name)


def is_same_call(step: Step, other: Step) -> bool:
    """Whether one of two steps gets the output of the other: equal calls are made once."""
    return (step.tool, step.params, step.for_each) == (other.tool, other.params, other.for_each)
