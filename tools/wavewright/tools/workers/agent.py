"""The tool `agent`: a step in which a model chooses its own calls among the goal's reading tools.

It is for work whose order is not known beforehand. It may call only tools that read, that belong to the goal and that
need no approval, and never itself or a tool that asks a person. Its calls are recorded, and their outputs are in the
step's output in full, whatever part of them the model was shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from pydantic import ValidationError

from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import Limits
from wavewright.planner.language.signatures import AGENT, ToolSignature, is_open_to_agents
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.functions.tool import Tool, ToolCall
from wavewright.tools.workers.agent_limits import AgentConcurrency, AgentLimits
from wavewright.tools.workers.factory import declaration_version
from wavewright.tools.workers.services import Services

_TOKENS_PER_REQUEST = 2000
"""Prior of the tokens of one question in the loop."""
_PROMPTS = ("workers/agent", "workers/agent_instructions", "workers/repair")
_TIMEOUT_MARGIN_SECONDS = 30.0
"""Seconds that the step has beyond the loop's own clock: to end with what there is, and not by being stopped."""


def agent_tool(
    services: Services, tools: Mapping[str, Tool], goal: Goal | None = None, *, is_closed: bool = True
) -> Tool:
    """Return the tool `agent` over those of a goal's tools that only read.

    Its parameters say which those are where the tools are closed: a goal's or a plan's, and not all that there are.

    Raises:
        ToolDefinitionError: the goal's configuration of the tool is wrong.
    """
    limits = _read_limits(goal)
    said = {} if goal is None else {tool.name: tool for tool in goal.tools}
    open_ones = {name: tool for name, tool in tools.items() if is_open_to_agents(tool.signature)}
    signature = ToolSignature(
        name=AGENT,
        description=(
            "Let a model work on an open question by itself, with tools that only read. Use it where the next step "
            "depends on what the last one found; name single tools as steps wherever the order is known."
        ),
        input_schema=_input_schema(sorted(open_ones) if is_closed else None),
        output_schema=_OUTPUT_SCHEMA,
        effects=frozenset({"read", "egress"}),
        version=declaration_version(
            f"tool {AGENT!r}",
            [limits.model_dump(mode="json"), [*_tool_versions(open_ones, said)]],
            _PROMPTS,
            services.prompts,
        ),
        tags=frozenset({AGENT}),
        expected_seconds=limits.seconds / 5,
        expected_tokens=limits.requests * _TOKENS_PER_REQUEST,
        timeout=limits.seconds + _TIMEOUT_MARGIN_SECONDS,
        max_items=100,
        reads_data=frozenset[str]().union(*(tool.signature.reads_data for tool in open_ones.values())),
        writes_data=frozenset[str]().union(*(tool.signature.writes_data for tool in open_ones.values())),
        untrusted_output=any(tool.signature.untrusted_output for tool in open_ones.values()) or not is_closed,
    )
    turns = AgentConcurrency(Limits() if goal is None else goal.limits)
    return Tool(signature, partial(_run_agent, services, open_ones, limits, said, turns))


async def _run_agent(
    services: Services,
    tools: Mapping[str, Tool],
    limits: AgentLimits,
    said: Mapping[str, AvailableTool],
    turns: AgentConcurrency,
    call: ToolCall,
) -> Json:
    from wavewright.tools.workers.agent_run import AgentRun

    return await AgentRun(services, tools, limits, said, call, turns).run()


def _tool_versions(tools: Mapping[str, Tool], said: Mapping[str, AvailableTool]) -> Iterator[Json]:
    """Yield what decides what the tools give: an answer made with others is no answer any more."""
    for name, tool in sorted(tools.items()):
        available = said.get(name)
        config: Json = None if available is None else available.config
        yield [name, tool.signature.version, None if available is None else available.description, config]


def _read_limits(goal: Goal | None) -> AgentLimits:
    tools = () if goal is None else goal.tools
    config: JsonObject = next((tool.config for tool in tools if tool.name == AGENT), dict[str, Json]())
    try:
        return AgentLimits.model_validate(config)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(["config", *(str(part) for part in fault["loc"])])
        raise ToolDefinitionError(
            f"the goal's tool {AGENT!r}: {where}: {fault['msg'].lower()}",
            hint=f"it may say {', '.join(AgentLimits.model_fields)}",
        ) from error


def _input_schema(names: list[str] | None) -> JsonSchema:
    """Return the schema of the parameters; `names` are the tools that there are, where that is known."""
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
            "context": {"description": "What is known already; the model reads it as data."},
            "tools": tools,
            "output_schema": {
                "type": ["object", "null"],
                "description": "JSON Schema of the answer; words where absent.",
            },
        },
    }


_OUTPUT_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["answer", "method", "calls", "collected"],
    "properties": {
        "answer": {"description": "The answer: words, or what `output_schema` asked for."},
        "method": {"enum": ["agent", "suggested", "forced"], "description": "How the answer was made."},
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
