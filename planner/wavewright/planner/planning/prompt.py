"""The prompts of the planner, and the JSON Schemas of its answer and of a recovery planner's.

Prompts are templates that a project can replace. Data from outside (inputs, answers) is passed as
values, and long values are truncated, because a plan refers to them.

The *answer schema* describes an object whose members are all optional: a plan, a reason why there
is none, or a question. It names only the goal's tools and has no fields for policy (retries,
timeouts, budgets, caps). It uses only keywords that every provider supports.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, get_args

from wavewright.config.sources import Source
from wavewright.planner.cel.functions.catalogue import FUNCTIONS
from wavewright.planner.checks.types import PlanTypes
from wavewright.planner.diagnostics.diagnostic import Diagnostic, error_diagnostics, for_model
from wavewright.planner.diagnostics.rendering import render_text
from wavewright.planner.language.goals import Goal, Rules
from wavewright.planner.language.plan import ASK_MODEL, SUB_PLAN, Gate, Plan, Step
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.planning.records import AnsweredQuestion
from wavewright.planner.planning.tool_descriptions import (
    ToolEntry,
    field_notes,
    fields_text,
    max_type_length,
    tool_entries,
    type_text,
)
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.dispatch import undispatchable
from wavewright.planner.plans.gate_questions import (
    QUESTION_FIELDS,
    gate_consequence,
    gate_question,
)
from wavewright.planner.ports.truncation import truncate
from wavewright.planner.schemas.validation import schema_definitions
from wavewright.planner.types import (
    GateSeverity,
    JsonObject,
    JsonSchema,
    StepId,
    as_object,
    properties_of,
)
from wavewright.prompts.templates import Prompts
from wavewright.prompts.values import one_line


def emit_schema(
    tools: Sequence[str],
    *,
    sub_plans: Sequence[str] = (),
    dispatched: Sequence[str] = (),
    may_ask: bool = True,
) -> JsonSchema:
    """Return the schema of a planner's answer.

    Args:
        tools: Names of the tools that the goal allows, in the order of the prompt.
        sub_plans: Names of the plans that its steps may call.
        dispatched: Names of the tools that data may choose.
        may_ask: Whether a question is a legal answer; it is not where no person can reply.
    """
    properties: JsonObject = {
        "reasoning": _text_schema("How the plan reaches the goal, in a few sentences."),
        "let": {
            "type": "object",
            "description": "Names that expressions may read in place of a long ${…}.",
        },
        "steps": _list_schema(
            _step_schema(tools, sub_plans, dispatched),
            "The plan: tool calls. References between them decide their order.",
        ),
        "gates": _list_schema(
            _gate_schema(), "Checks of outputs, beside those that the engine adds itself."
        ),
        "stop": _object_schema(
            {
                "when": _text_schema("A condition (CEL); where it holds the run ends early."),
                "result": {
                    "description": "The result in that case, as of `result`.",
                    "anyOf": [{"type": "string"}, {"type": "object"}],
                },
            },
            "when",
            "result",
            description="When there is nothing more to do, such as nothing new since yesterday.",
        ),
        "result": {
            "description": "What the run is for: a ${…} reference, or an object that holds such.",
            "anyOf": [{"type": "string"}, {"type": "object"}],
        },
        "cannot_plan": _text_schema(
            "Instead of steps: why the goal cannot be reached with these tools."
        ),
    }
    if may_ask:
        properties["ask"] = _question_schema()
    return _object_schema(properties)


def patch_schema(tools: Sequence[str], steps: Iterable[StepId]) -> JsonSchema:
    """Return the schema of a recovery planner's answer.

    Args:
        tools: Names of the tools that the goal allows, in the order of the prompt.
        steps: Ids of the plan's steps.
    """
    superseding: JsonObject = {
        "id": _text_schema("A new id; for replace the id of the replaced step."),
        "supersedes": {
            "type": "string",
            "enum": [*steps],
            "description": "For add: the finished step whose readers read this one instead.",
        },
        "only": {
            "type": "string",
            "enum": ["failed"],
            "description": "With supersedes of a for_each step: only its failed items are called again.",
        },
    }
    step = _object_schema({**_step_fields(tools), **superseding}, "id", "tool", "params")
    op = _object_schema(
        {
            "op": {"type": "string", "enum": ["add", "replace", "remove", "rewire"]},
            "step": step,
            "id": _text_schema("For remove and rewire: the id of the step."),
            "depends_on": _list_schema({"type": "string"}, "For rewire."),
        },
        "op",
    )
    return _object_schema(
        {
            "reason": _text_schema("Why the plan should change, shown when the patch is approved."),
            "ops": {"type": "array", "items": op},
            "expect": _list_schema({"type": "string"}, "Gates that should pass then."),
            "cannot_plan": _text_schema("Instead of ops: why no change of the plan would fix it."),
        }
    )


def _step_schema(
    tools: Sequence[str], sub_plans: Sequence[str], dispatched: Sequence[str]
) -> JsonSchema:
    calls_plans: JsonObject = {}
    asks_data = {**(_ask_schema() if ASK_MODEL in tools else {}), **_dispatch_schema(dispatched)}
    if sub_plans:
        calls_plans["plan"] = {
            "type": "string",
            "enum": [*sub_plans],
            "description": "In place of a tool: the sub-plan to call.",
        }
        calls_plans["repeat"] = _object_schema(
            {
                "until": _text_schema(
                    "A condition (CEL): where the result fulfils it, no further run is made."
                ),
                "max": {"type": "integer", "description": "How many runs at most."},
                "params": {
                    "type": "object",
                    "description": "Inputs of further runs, from the result before.",
                },
            },
            "until",
            "max",
            description="With a sub-plan: runs it again until its result is good enough.",
        )
    return _object_schema(
        {**_step_fields(tools), **calls_plans, **asks_data},
        "id",
        *(() if sub_plans or asks_data else ("tool",)),
        *(() if asks_data else ("params",)),
    )


def _step_fields(tools: Sequence[str]) -> JsonObject:
    """Return the fields of a step that calls a tool."""
    return {
        "why": _text_schema("One line: what the goal needs this step for."),
        "id": _text_schema("A short word, such as prices: letters, digits and underscores."),
        "tool": {"type": "string", "enum": [*tools], "description": "The tool to call."},
        "params": {
            "type": "object",
            "description": "Arguments; strings may hold ${…} references.",
        },
        "for_each": {
            "description": "A ${…} reference to a list, or a list: the step runs once an item.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {}}],
        },
        "when": _text_schema("A condition (CEL); where it is false the step is skipped."),
        "depends_on": _list_schema(
            {"type": "string"}, "Ids of steps to wait for that no reference names."
        ),
        "optional": {
            "type": "boolean",
            "description": "Whether the plan may go on if the step fails.",
        },
        "needs_approval": {
            "type": "boolean",
            "description": "Whether a person is shown the values first and must allow them.",
        },
    }


def _ask_schema() -> JsonObject:
    """Return the field of a step that asks a model in place of calling a tool."""
    of: JsonObject = {"description": "What is asked about: a ${…} reference, or an object of such."}
    fields: JsonObject = {"type": "object", "description": "The fields of the answer, with types."}
    return {
        "ask": _object_schema(
            {
                "of": of,
                "for": fields,
                "question": _text_schema("The question, where the fields do not say it."),
            },
            "of",
            "for",
            description="In place of tool and params: a question about a text, with typed answers.",
        )
    }


def _dispatch_schema(names: Sequence[str]) -> JsonObject:
    """Return the fields of a step that makes the calls of a list, of these tools."""
    if not names:
        return {}
    return {
        "dispatch": _text_schema(
            "In place of tool and params: a ${…} reference to a list of calls, {tool, params} each."
        ),
        "tools": _list_schema(
            {"type": "string", "enum": [*names]}, "With dispatch: the tools that may be called."
        ),
    }


def _gate_schema() -> JsonSchema:
    severities = get_args(GateSeverity)
    return _object_schema(
        {
            "id": _text_schema("A short word for the gate."),
            "on": _text_schema("The id of the step whose output it checks."),
            **QUESTION_FIELDS,
            "severity": {"type": "string", "enum": [*severities]},
            "hint": _text_schema("What would fix it."),
        },
        "id",
        "on",
    )


def _question_schema() -> JsonSchema:
    return _object_schema(
        {
            "question": _text_schema("What only the user can decide."),
            "options": _list_schema({"type": "string"}, "Answers to choose from."),
        },
        "question",
        description="Instead of steps: a question, where the goal cannot be planned without the answer.",
    )


def _object_schema(
    properties: JsonObject, *required: str, description: str | None = None
) -> JsonSchema:
    schema: JsonSchema = {"type": "object"}
    if description is not None:
        schema["description"] = description
    schema["properties"] = properties
    if required:
        schema["required"] = [*required]
    schema["additionalProperties"] = False
    return schema


def _text_schema(description: str) -> JsonSchema:
    return {"type": "string", "description": description}


def _list_schema(items: JsonSchema, description: str) -> JsonSchema:
    return {"type": "array", "items": items, "description": description}


MAX_DIAGNOSTICS_SHOWN = 50
"""Faults that one reply lists."""

_INPUT_CHARS = 12_000
"""Characters that the value of one input takes at most."""
_BRIEF_INPUT_CHARS = 1_000
"""The same in a brief prompt."""


@dataclass(frozen=True, slots=True)
class PlannerPrompt:
    """The first message to the planner."""

    instructions: str
    request: str
    tools: tuple[str, ...]
    """Names of the tools on the list."""
    dispatched: tuple[str, ...] = ()
    """Those of them that data may choose."""


def planner_prompt(
    goal: Goal,
    tools: ToolSignatures,
    prompts: Prompts,
    *,
    answers: Sequence[AnsweredQuestion] = (),
    may_ask: bool = True,
    kept_plan: Plan | None = None,
    is_brief: bool = False,
    today: dt.date | None = None,
) -> PlannerPrompt:
    """Return the instructions and the request of a planner; a brief one describes tools and inputs
    in less detail. `today` is the day that the run takes for now.

    Raises:
        PromptError: a template is faulty.
    """
    entries = tool_entries(goal, tools, is_brief=is_brief)
    dispatched = dispatchable_tools(goal, tools)
    values = request_values(goal, tools, entries, answers, kept_plan=kept_plan, is_brief=is_brief)
    day = "" if today is None else today.isoformat()
    request = prompts.render("planner/request", today=day, **values)
    instructions = prompts.render(
        "planner/instructions",
        may_ask=may_ask,
        calls_plans=bool(goal.sub_plans),
        asks_models=ASK_MODEL in goal.tool_names,
        dispatched=dispatched,
        functions=fitting_functions(goal, tools),
    )
    names = tuple(entry.name for entry in entries)
    return PlannerPrompt(instructions, request, names, dispatched)


def dispatchable_tools(goal: Goal, tools: ToolSignatures) -> tuple[str, ...]:
    """Return the tools of a goal that data may choose, where a step can ask a model for calls; none
    with a gate of the goal on it, or with parameters that the goal sets.
    """
    if ASK_MODEL not in goal.tool_names:
        return ()
    held = {gate.on_tool for gate in goal.gates} | {rule.tool for rule in goal.rules.terminal}
    return tuple(
        tool.name
        for tool in goal.tools
        if tool.name in tools
        and tool.name not in held | {ASK_MODEL}
        and not undispatchable(tools[tool.name])
    )


_RARE: Final = re.compile(
    r"bit[A-Z]|isNaN|transform|sets\.|quote|bytes|getMilliseconds|lists\.range"
)
"""Functions that plans hardly ever need."""
_OF_TIME: Final = re.compile(r"timestamp|duration|now\(|\.get[A-Z]")
_TIME_WORDS: Final = re.compile(r"date|time|_at\b|as_of|day|year|fresh", re.IGNORECASE)


def fitting_functions(goal: Goal, tools: ToolSignatures) -> dict[str, str]:
    """Return the functions of expressions that fit a goal, with one line each: those of time where
    its tools, inputs or gates have any.
    """
    told = [json.dumps(tools[name].output_schema) for name in goal.tool_names if name in tools]
    told += [*goal.inputs, *(gate.kind for gate in goal.gates), goal.text]
    has_time = any(_TIME_WORDS.search(text) for text in told)
    return {
        usage: meaning
        for usage, meaning in FUNCTIONS.items()
        if not _RARE.search(usage) and (has_time or not _OF_TIME.search(usage))
    }


def repair_reply(
    prompts: Prompts, diagnostics: Sequence[Diagnostic], source: Source, *, is_truncated: bool
) -> str:
    """Return the reply to an answer that cannot be used: every fault, with its place and hint.

    Raises:
        PromptError: the template is faulty.
    """
    errors = for_model(error_diagnostics(diagnostics))
    return prompts.render(
        "planner/repair",
        diagnostics=render_text(errors[:MAX_DIAGNOSTICS_SHOWN], source),
        more=max(0, len(errors) - MAX_DIAGNOSTICS_SHOWN),
        is_truncated=is_truncated,
    )


def request_values(
    goal: Goal,
    tools: ToolSignatures,
    entries: Sequence[ToolEntry],
    answers: Sequence[AnsweredQuestion],
    *,
    kept_plan: Plan | None = None,
    is_brief: bool = False,
) -> dict[str, object]:
    """Return the variables of the template `planner/request`; `docs/reference/prompts.md` lists
    them.
    """
    room = _BRIEF_INPUT_CHARS if is_brief else _INPUT_CHARS
    types = _input_types(goal)
    names = goal.targets
    others = [name for name in goal.inputs if name not in (names.variables, names.benchmarks)]
    other_values: JsonObject = {name: truncate(goal.inputs[name], room) for name in others}
    return {
        "goal": {"name": one_line(goal.name), "text": goal.text, "job": one_line(goal.job)},
        "primary": _input_values(names.variables, goal, types, room),
        "benchmarks": _input_values(names.benchmarks, goal, types, room),
        "others": [{"name": name, "type": types.get(name, "any")} for name in others],
        "other_values": other_values,
        "tools": [asdict(entry) for entry in entries],
        "sub_plans": _sub_plan_lines(goal, tools, is_brief=is_brief),
        "rules": _rule_values(goal.rules, goal, tools),
        "limits": goal.limits.model_dump(mode="json"),
        "gates": [_gate_values(gate) for gate in goal.gates],
        "result": _result_values(goal, is_brief=is_brief),
        "answers": [asdict(answered) for answered in answers],
        "kept_plan": kept_plan
        and kept_plan.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude={"inputs", "caps"}
        ),
    }


_RESULT = StepId("result")
_MAX_GOAL_LENGTH = 500


def _sub_plan_lines(goal: Goal, tools: ToolSignatures, *, is_brief: bool = False) -> list[str]:
    """Return the contract of each sub-plan that a goal allows, on one line: `name(inputs) -> type:
    its goal`.
    """
    most = max_type_length(is_brief=is_brief)
    lines: list[str] = []
    for name, plan in goal.sub_plans.items():
        asked = Step(id=_RESULT, tool=SUB_PLAN, params={"result": plan.result})
        types = PlanTypes(plan.model_copy(update={"steps": (*plan.steps, asked)}), None, tools)
        gives = "any" if plan.result is None else type_text(types.outputs[_RESULT], most)
        purpose = one_line(plan.goal or "", _MAX_GOAL_LENGTH)
        # An input of a plan has a value there, so a call may leave it out.
        declared = goal.sub_plan_inputs.get(name, {**types.inputs, "required": []})
        takes = fields_text(declared, most=most)
        lines.append(f"{name}({takes}) -> {gives}: {purpose}")
    return lines


def _input_types(goal: Goal) -> dict[str, str]:
    """Return the type of each input: as declared where the goal declares it, else as its value
    shows.
    """
    inputs = PlanTypes(bind_plan(Plan(steps=()), goal), goal, {}).inputs
    return {
        name: type_text({**schema_definitions(inputs), **as_object(part)}, 400)
        for name, part in properties_of(inputs).items()
    }


def _input_values(name: str, goal: Goal, types: Mapping[str, str], room: int) -> JsonObject | None:
    value = goal.inputs.get(name)
    if value is None or value == []:
        return None
    return {"name": name, "type": types[name], "shown": truncate(value, room)}


def _rule_values(rules: Rules, goal: Goal, tools: ToolSignatures) -> dict[str, object]:
    tagged = {name for name in goal.tool_names if name in tools and "data" in tools[name].tags}
    tags = rules.tags
    return {
        "required_tools": sorted(rules.required_tools),
        "data_tools": sorted(rules.data_tools or tagged),
        "analysis_tools": sorted(rules.analysis_tools),
        "primary_params": [
            {"tool": tool, "param": param} for tool, param in sorted(rules.primary_params.items())
        ],
        "tag_param": tags.param if tags is not None else "",
        "exclusive_tags": [sorted(group) for group in tags.exclusive] if tags is not None else [],
        "required_tags": sorted(tags.required) if tags is not None else [],
        "terminal": [{"tool": rule.tool, "params": sorted(rule.params)} for rule in rules.terminal],
    }


def _result_values(goal: Goal, *, is_brief: bool) -> dict[str, object]:
    """Return what a goal says of the result of its plans."""
    schema = goal.output_schema or {}
    most = max_type_length(is_brief=is_brief)
    return {
        "type": type_text(schema, most) if schema else "",
        "notes": () if is_brief else field_notes(schema),
        "may_write": sorted(goal.allow_literals),
    }


def _gate_values(gate: Gate) -> dict[str, object]:
    target = f"every call of {gate.on_tool}" if gate.on_tool is not None else f"step {gate.on}"
    return {
        "id": gate.id,
        "target": target,
        "words": _gate_description(gate),
        "severity": gate.severity,
    }


def _gate_description(gate: Gate) -> str:
    """Return what a gate asks and what comes of its failure, in words."""
    words = gate_question(gate)
    if gate.severity == "block":
        return f"{words} ({gate_consequence(gate)})" if gate.blocks_from > 0 else words
    return f"{words} (a warning only)"
