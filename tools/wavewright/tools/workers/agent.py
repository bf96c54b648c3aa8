"""The tool `agent`: a step in which a model chooses its own calls among the goal's reading tools.

It is for work whose order is not known beforehand. It may call only tools that read, that belong to
the goal and that need no approval, and never itself or a tool that asks a person. Its calls are
recorded, and their outputs are in the step's output in full, whatever part of them the model was
shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from wavewright.planner import (
    Goal,
    InvalidSchemaError,
    Json,
    JsonObject,
    JsonSchema,
    Limits,
    ToolSignature,
    validator_of,
)
from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.language.signatures import AGENT, FEEDBACK_PARAM, is_open_to_agents
from wavewright.tools.functions.errors import ToolDefinitionError, ToolError
from wavewright.tools.functions.tool import Tool, ToolCall, Tools
from wavewright.tools.workers.agent_tools import AgentCalls, AgentConcurrency, AgentLimits
from wavewright.tools.workers.named_agents import (
    AGENT_PROMPTS,
    TIMEOUT_MARGIN_SECONDS,
    TOKENS_PER_REQUEST,
    NamedAgent,
    with_calls_of,
)
from wavewright.tools.workers.services import Services, declaration_version

if TYPE_CHECKING:
    from wavewright.tools.workers.agent_run import AgentRun


def agent_tool(
    services: Services,
    tools: Tools,
    goal: Goal | None = None,
    *,
    agents: Mapping[str, NamedAgent] | None = None,
    is_closed: bool = True,
) -> Tool:
    """Return the tool `agent` over those of a goal's tools that only read, and over named agents.

    Its parameters say which those are where the tools are closed: a goal's or a plan's, and not all
        that there are.

    Raises:
        ToolDefinitionError: the goal's configuration of the tool is wrong.
    """
    limits = _read_limits(goal)
    said = {} if goal is None else {tool.name: tool for tool in goal.tools}
    open_ones = {name: tool for name, tool in tools.items() if is_open_to_agents(tool.signature)}
    named = dict[str, NamedAgent]() if agents is None else agents
    usable = {
        **open_ones,
        **{name: tool for agent in named.values() for name, tool in agent.tools.items()},
    }
    declared: list[Json] = [limits.model_dump(mode="json"), [*_tool_versions(open_ones, said)]]
    if named:
        declared.append([[name, named[name].version] for name in sorted(named)])
    own = ToolSignature(
        name=AGENT,
        description=(
            "Let a model work on an open question by itself, with tools that only read. Use it where the next step "
            "depends on what the last one found; name single tools as steps wherever the order is known."
        ),
        input_schema=_input_schema(sorted(usable) if is_closed else None, sorted(named)),
        output_schema=_OUTPUT_SCHEMA,
        effects=frozenset({"read", "egress"}),
        version=declaration_version(f"tool {AGENT!r}", declared, AGENT_PROMPTS, services.prompts),
        tags=frozenset({AGENT}),
        expected_seconds=limits.seconds / 5,
        expected_tokens=limits.requests * TOKENS_PER_REQUEST,
        timeout=max([limits.seconds, *(one.spec.limits.seconds for one in named.values())])
        + TIMEOUT_MARGIN_SECONDS,
        max_items=100,
        typed_by={"output_schema": "answer"},
        calls_agents=frozenset(named),
        untrusted_output=not is_closed,
    )
    called = [tool.signature for tool in open_ones.values()]
    signature = with_calls_of(own, [*called, *(agent.signature for agent in named.values())])
    turns = AgentConcurrency(Limits() if goal is None else goal.limits)

    async def call(request: ToolCall) -> Json:
        name = request.params.get("agent")
        if name is None:
            return await _unnamed_run(services, open_ones, limits, said, turns, request).run()
        return await _named_run(named, str(name), request).run()

    return Tool(signature, call)


def _unnamed_run(
    services: Services,
    tools: Tools,
    limits: AgentLimits,
    said: Mapping[str, AvailableTool],
    turns: AgentConcurrency,
    call: ToolCall,
) -> AgentRun:
    from wavewright.tools.workers.agent_run import AgentRun, AgentTask  # as in `NamedAgent`

    context, feedback = call.params.get("context"), call.params.get(FEEDBACK_PARAM)
    task = AgentTask(
        str(call.params["task"]),
        {"known": context, FEEDBACK_PARAM: feedback} if feedback else context,
        schema=_given_schema(call),
        max_tokens=limits.max_tokens,
        preference=services.preference,
        thinking=services.thinking,
    )
    calls = AgentCalls(_chosen_tools(call, tools), limits, said, call, turns, services.memory)
    return AgentRun(services, calls, task)


def _named_run(named: Mapping[str, NamedAgent], name: str, call: ToolCall) -> AgentRun:
    """Return the run of a named agent in a step of its own: its tokens are not those of a worker.

    Raises:
        ToolError: there is no such agent, or it may not call a tool that is named.
    """
    agent = named.get(name)
    if agent is None:
        raise ToolError(
            f"there is no agent {name!r}",
            hint=f"there are {', '.join(map(repr, sorted(named))) or 'none'}",
        )
    context = call.params.get("context")
    members = context if isinstance(context, dict) else dict[str, Json]()
    feedback = call.params.get(FEEDBACK_PARAM, [])
    values: JsonObject = {
        **members,
        "task": call.params["task"],
        "context": context,
        FEEDBACK_PARAM: feedback,
    }
    task = replace(agent.task(values), role="agent")
    if (schema := _given_schema(call)) is not None:
        task = replace(task, schema=schema)
    return replace(agent, tools=_chosen_tools(call, agent.tools)).run_for(task, call)


def _given_schema(call: ToolCall) -> JsonSchema | None:
    """Return the schema of the answer that a step asks for.

    Raises:
        ToolError: it is no schema of an object.
    """
    schema = call.params.get("output_schema")
    if not isinstance(schema, dict):
        return None
    try:
        validator_of(schema)
    except InvalidSchemaError as error:
        raise ToolError(
            f"'output_schema' is no JSON Schema: {error}",
            hint="fix it, or leave it out for an answer in words",
        ) from error
    if schema.get("type") != "object":
        raise ToolError(
            "'output_schema' of an agent must say `type: object`",
            hint="put a list or a number into a field of an object",
        )
    return schema


def _chosen_tools(call: ToolCall, tools: Tools) -> Tools:
    """Return those of an agent's tools that a step names; all where it names none.

    Raises:
        ToolError: one is named that the agent may not call.
    """
    named = call.params.get("tools")
    if not isinstance(named, list):
        return tools
    wrong = [str(name) for name in named if name not in tools]
    if wrong:
        raise ToolError(
            f"an agent may not call {', '.join(map(repr, wrong))}",
            hint=f"tools of the goal that only read: {', '.join(sorted(tools)) or 'none'}",
        )
    return {str(name): tools[str(name)] for name in named}


def _tool_versions(tools: Tools, said: Mapping[str, AvailableTool]) -> Iterator[Json]:
    """Yield what decides what the tools give: an answer made with others is no answer any more."""
    for name, tool in sorted(tools.items()):
        available = said.get(name)
        config: Json = None if available is None else available.config
        yield [
            name,
            tool.signature.version,
            None if available is None else available.description,
            config,
        ]


def _read_limits(goal: Goal | None) -> AgentLimits:
    tools = () if goal is None else goal.tools
    config: JsonObject = next(
        (tool.config for tool in tools if tool.name == AGENT), dict[str, Json]()
    )
    try:
        return AgentLimits.model_validate(config)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(["config", *(str(part) for part in fault["loc"])])
        raise ToolDefinitionError(
            f"the goal's tool {AGENT!r}: {where}: {fault['msg'].lower()}",
            hint=f"it may say {', '.join(AgentLimits.model_fields)}",
        ) from error


def _input_schema(names: list[str] | None, agents: list[str]) -> JsonSchema:
    """Return the schema of the parameters; `names` are the tools that there are, where that is
    known.
    """
    agent: JsonSchema = {
        "type": "string",
        "enum": [*agents],
        "description": "A named agent, with a prompt, tools and limits of its own.",
    }
    tools: JsonSchema = {
        "type": ["array", "null"],
        "items": {"type": "string"},
        "description": "Tools that it may call; all of the goal's that only read where absent.",
    }
    if names:
        tools["items"] = {"type": "string", "enum": [*names]}
    elif names is not None:
        tools |= {"maxItems": 0, "description": "None: the goal has no tool that only reads."}
    return {
        "type": "object",
        "required": ["task"],
        "additionalProperties": False,
        "properties": {
            "task": {
                "type": "string",
                "minLength": 1,
                "description": "What to find out, and what to answer. What steps gave belongs into `context`.",
            },
            **({"agent": agent, FEEDBACK_PARAM: _FEEDBACK_SCHEMA} if agents else {}),
            "context": {"description": "What is known already; the model reads it as data."},
            "tools": tools,
            "output_schema": {
                "type": ["object", "null"],
                "description": "JSON Schema of the answer; words where absent.",
            },
        },
    }


_FEEDBACK_SCHEMA: JsonSchema = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Why the last package was rejected; the model reads it as data.",
}
_OUTPUT_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["answer", "method", "calls", "collected"],
    "properties": {
        "answer": {"description": "The answer: words, or what `output_schema` asked for."},
        "method": {
            "enum": ["agent", "suggested", "forced"],
            "description": "How the answer was made.",
        },
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "tool", "params", "status"],
                "properties": {
                    "id": {"type": "string"},
                    "tool": {"type": "string"},
                    "params": {"type": "object"},
                    "status": {"enum": ["ok", "failed", "refused"]},
                    "seconds": {"type": "number"},
                    "message": {"type": "string"},
                },
            },
            "description": "Every tool that was called, in order.",
        },
        "collected": {
            "type": "object",
            "description": "What the tools gave, whole, by the id of the call.",
        },
    },
}
