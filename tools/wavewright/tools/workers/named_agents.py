"""Named agents: their declaration, in a file of the project or in a pack, and what steps, tools and
other agents call.

A *named agent* is a model with a prompt, tools and limits of its own. A step gives it a task
(`tool: agent`), a tool calls it in its code, and another agent has it among its tools. A goal
limits its agents.

An agent calls only tools that read, need no approval and ask no person; its calls are events of the
step that it works in, and budgets, limits and the journal hold for them. The tokens of an agent
that a tool or another agent calls are worker tokens, those of an agent step are orchestrator
tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, field_validator

from wavewright.config import did_you_mean
from wavewright.config.value_types import AtLeastOne, Texts
from wavewright.planner import Json, JsonObject, JsonSchema, ToolSignature
from wavewright.planner.language.signatures import AGENT, FEEDBACK_PARAM, is_open_to_agents
from wavewright.planner.ports.model_port import OnText
from wavewright.prompts import PromptError
from wavewright.tools.functions.errors import ToolDefinitionError, ToolError
from wavewright.tools.functions.injected import MemoryRunData
from wavewright.tools.functions.tool import Tool, ToolCall, Tools
from wavewright.tools.workers.agent_tools import AgentCalls, AgentConcurrency, AgentLimits
from wavewright.tools.workers.services import Services, declaration_version
from wavewright.tools.workers.specs import (
    PromptedSpec,
    checked_schema,
    load_specs,
    read_spec_file,
)

if TYPE_CHECKING:
    from wavewright.tools.workers.agent_run import AgentRun, AgentTask


AGENT_PROMPTS = ("workers/agent", "workers/agent_instructions", "workers/repair")
TIMEOUT_MARGIN_SECONDS = 30.0
"""Seconds that a step has beyond the loop's own clock: to end with what there is, and not by being
stopped.
"""
TOKENS_PER_REQUEST = 2000
"""Prior of the tokens of one question in the loop."""


def _schema_of_an_object(schema: JsonSchema) -> JsonSchema:
    if checked_schema(schema).get("type") != "object":
        raise ValueError(
            "must say `type: object`: put a list or a number into a field of an object"
        )
    return schema


class AgentSpec(PromptedSpec):
    """An agent as data: the file format of `config/agents/*.yaml`.

    >>> from wavewright.tools import AgentSpec
    >>> AgentSpec(name="reader", description="Read.", prompt="reader", tools=("fetch",)).tools
    ('fetch',)
    """

    tools: Texts = ()
    """Tools, workers and other agents that it may call; only such as read and need no approval."""
    output_schema: Annotated[JsonSchema, AfterValidator(_schema_of_an_object)] | None = None
    """JSON Schema of its answer, with `type: object`; words where absent."""
    token_share: Annotated[float, Field(gt=0, le=1, strict=False)] | None = None
    """Share of `models.worker_tokens` that one answer may take."""
    max_output_tokens: AtLeastOne | None = None
    """Ceiling of one answer's tokens; `models.max_output_tokens` where neither this nor a share is
    given.
    """
    limits: AgentLimits = AgentLimits()
    """Ends of its loop."""
    retries: Annotated[int, Field(ge=0, le=5)] = 2
    """How often it is told what is wrong with its answer and asked again."""

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name == AGENT:
            msg = f"{AGENT!r} is the tool that runs agents: choose another name"
            raise ValueError(msg)
        return name

    def answer_tokens(self, services: Services) -> int | None:
        """Return the ceiling of one answer; None where the agent sets none."""
        share = (
            None
            if self.token_share is None
            else max(1, round(self.token_share * services.worker_tokens))
        )
        given = [
            one
            for one in (share, self.max_output_tokens, self.limits.max_tokens)
            if one is not None
        ]
        return min(given, default=None)


def load_agents(places: Sequence[Path]) -> dict[Path, AgentSpec]:
    """Return the agents of files, and of the files in folders, by file; a folder that is not there
    holds none.

    Raises:
        ToolDefinitionError: a file is missing or faulty, or two have one name; names the file and
            the line.
    """
    return load_specs(places, "agent", partial(read_spec_file, model=AgentSpec, kind="agent"))


@dataclass(frozen=True, slots=True)
class NamedAgent:
    """An agent with the tools that it may call.

    >>> from pathlib import Path
    >>> from wavewright.config import load_settings
    >>> from wavewright.planner import Limits
    >>> from wavewright.tools import AgentConcurrency, AgentSpec, NamedAgent, make_services
    >>> spec = AgentSpec(name="reader", description="Read.", prompt="reader")
    >>> services = make_services(load_settings(Path.cwd(), {}))
    >>> NamedAgent(spec, {}, services, AgentConcurrency(Limits()), version="1").spec.name
    'reader'
    """

    spec: AgentSpec
    tools: Tools
    services: Services
    concurrency: AgentConcurrency
    version: str

    @property
    def signature(self) -> ToolSignature:
        """What it is as a tool of another agent."""
        own = ToolSignature(
            name=self.spec.name,
            description=self.spec.description,
            input_schema={
                "type": "object",
                "required": ["task"],
                "additionalProperties": False,
                "properties": {
                    "task": {
                        "type": "string",
                        "minLength": 1,
                        "description": "What to do, and what to answer.",
                    },
                    "context": {"description": "What is known already."},
                },
            },
            output_schema=self.spec.output_schema or {},
            effects=frozenset({"read", "egress"}),
            version=self.version,
            expected_seconds=self.spec.limits.seconds / 5,
            expected_tokens=self.spec.limits.requests * TOKENS_PER_REQUEST,
            model_preferences=(self.spec.model_preference,),
            timeout=self.spec.limits.seconds + TIMEOUT_MARGIN_SECONDS,
            calls_agents=frozenset({self.spec.name}),
        )
        return with_calls_of(own, [tool.signature for tool in self.tools.values()])

    def as_tool(self) -> Tool:
        """Return it as a tool of another agent."""

        async def call(request: ToolCall) -> Json:
            values: JsonObject = {
                "task": request.params["task"],
                "context": request.params.get("context"),
            }
            return await self.answer(values, request)

        return Tool(self.signature, call)

    async def answer(
        self, values: JsonObject, request: ToolCall, scope: str = "", on_text: OnText | None = None
    ) -> Json:
        """Return its answer to a tool or an agent that calls it; `on_text` streams its words.

        Its prompt is given the feedback that the call, or the step that it is made in, has.
        What its own calls have written as run data stays, whether it comes to an answer or not.

        Raises:
            ToolError: it has none.
        """
        signature = self.signature
        values = {**values, FEEDBACK_PARAM: [*request.feedback]}
        data = (request.data or MemoryRunData()).child(
            signature.reads_data, signature.writes_data, scope
        )
        run = self.run_for(self.task(values), replace(request, data=data, answer=None), on_text)
        try:
            output = await run.run()
        finally:
            if request.data is not None:
                request.data.keep(data.written)
        return output["answer"]

    def run_for(
        self, task: AgentTask, request: ToolCall, on_text: OnText | None = None
    ) -> AgentRun:
        """Return a run of it for a task, not begun yet."""
        # Loaded when one runs, not when tools are listed.
        from wavewright.tools.workers.agent_run import AgentRun

        services, limits = self.services, self.spec.limits
        calls = AgentCalls(
            self.tools, limits, services.goal_tools, request, self.concurrency, services.memory
        )
        return AgentRun(services, calls, task, on_text)

    def task(self, values: JsonObject) -> AgentTask:
        """Return its task, with its prompt rendered with these values.

        Raises:
            ToolError: the prompt cannot be rendered with them.
        """
        from wavewright.tools.workers.agent_run import AgentTask

        spec, services = self.spec, self.services
        try:
            text = services.prompts.render(spec.prompt, inputs=values)
        except PromptError as error:
            raise ToolError(f"agent {spec.name!r}: {error}", hint=error.hint) from error
        return AgentTask(
            text,
            name=spec.name,
            role="worker",
            schema=spec.output_schema,
            retries=spec.retries,
            max_tokens=spec.answer_tokens(services),
            preference=services.preference_of(spec),
            thinking=services.thinking_of(spec),
        )


def with_calls_of(signature: ToolSignature, tools: Iterable[ToolSignature]) -> ToolSignature:
    """Return the signature of something that calls these tools: it touches their run data and
    passes their text on.
    """
    within = tuple(tools)
    known = [signature, *within]
    return signature.model_copy(
        update={
            "within": within,
            "reads_data": frozenset[str]().union(*(tool.reads_data for tool in known)),
            "writes_data": frozenset[str]().union(*(tool.writes_data for tool in known)),
            "untrusted_output": any(tool.brings_untrusted for tool in known),
        }
    )


@dataclass(slots=True)
class AgentCatalog:
    """The agents of a pack or of the project, with the tools that call them."""

    services: Services
    specs: Mapping[str, AgentSpec]
    find: Callable[[str], Tool | None]
    """Returns the tool that a name means; it may come back here for tools that call agents."""
    refuse_tool: Callable[[str], None]
    """Raises `ToolDefinitionError` where the name of an agent may mean a tool, too."""
    _agents: dict[str, NamedAgent] = field(default_factory=dict[str, NamedAgent])
    _opening: list[str] = field(default_factory=list[str])
    """Agents whose tools are being looked up now."""

    def agent(self, name: str, user: str = "") -> NamedAgent:
        """Return an agent; `user` is what asks for it, for errors.

        Raises:
            ToolDefinitionError: there is none of that name, it cannot call one of its tools, or it
                would call itself.
        """
        if name in self._agents:
            return self._agents[name]
        spec = self.specs.get(name)
        if spec is None:
            raise ToolDefinitionError(
                f"{user or 'this project'} calls the agent {name!r}, which does not exist",
                hint=did_you_mean(name, self.specs)
                or f"there are {', '.join(sorted(self.specs)) or 'none'}",
            )
        if name in self._opening:
            way = " → ".join([*self._opening[self._opening.index(name) :], name])
            raise ToolDefinitionError(
                f"agent {name!r} would call itself: {way}", hint="leave one of them out"
            )
        self._opening.append(name)
        try:
            tools = {tool: self._open_tool(name, tool) for tool in spec.tools}
        finally:
            self._opening.pop()
        declared: list[Json] = [spec.model_dump(mode="json"), self.services.worker_tokens]
        declared.append({name: tool.signature.version for name, tool in tools.items()})
        version = declaration_version(
            f"agent {name!r}", declared, (spec.prompt, *AGENT_PROMPTS), self.services.prompts
        )
        concurrency = AgentConcurrency(self.services.limits)
        self._agents[name] = NamedAgent(spec, tools, self.services, concurrency, version)
        return self._agents[name]

    def _open_tool(self, agent: str, name: str) -> Tool:
        """Return a tool of an agent.

        Raises:
            ToolDefinitionError: it does not exist, a tool and an agent have the name, or no agent
                may call it.
        """
        if name in self.specs:
            self.refuse_tool(name)
        tool = self.agent(name).as_tool() if name in self.specs else self.find(name)
        if tool is None:
            raise ToolDefinitionError(
                f"agent {agent!r} has the tool {name!r}, which does not exist",
                hint="correct the name under 'tools', or bring the tool",
            )
        if not is_open_to_agents(tool.signature):
            raise ToolDefinitionError(
                f"agent {agent!r} may not call {name!r}",
                hint="an agent calls tools that only read, need no approval and ask no person",
            )
        return tool

    def bind(self, tool: Tool) -> Tool:
        """Return a tool with the agents that it calls; unchanged where it calls none, or no model
        is configured.

        Raises:
            ToolDefinitionError: as in `agent`.
        """
        names = tool.signature.calls_agents
        if not names or not self.services.has_model:
            return tool
        own = tool.signature
        agents = {name: self.agent(name, f"tool {own.name!r}") for name in sorted(names)}
        signature = with_calls_of(own, [agent.signature for agent in agents.values()]).model_copy(
            update={
                "within": tuple(
                    tool for agent in agents.values() for tool in agent.signature.within
                ),
                "effects": own.effects | {"egress"},
                "version": ".".join([own.version, *(agent.version for agent in agents.values())]),
                "expected_tokens": max(
                    agent.signature.expected_tokens for agent in agents.values()
                ),
                "model_preferences": tuple(
                    sorted({agent.spec.model_preference for agent in agents.values()})
                ),
            }
        )

        async def call(request: ToolCall) -> Json:
            called = None if self.services.models is None else CalledAgents(agents, request)
            return await tool.call(replace(request, agents=called))

        return replace(tool, signature=signature, call=call)


@dataclass(frozen=True, slots=True)
class CalledAgents:
    """The agents of one call of a tool."""

    agents: Mapping[str, NamedAgent]
    request: ToolCall
    is_available: bool = True

    async def run(self, name: str, values: JsonObject, scope: str = "") -> Json:
        """Return an agent's answer.

        Raises:
            ToolError: the tool does not declare the agent, or it gives no answer.
        """
        if name not in self.agents:
            raise ToolError(
                f"the tool {self.request.tool!r} calls the agent {name!r} and does not declare it",
                hint=f"declare it where the tool is made: calls_agents={{{name!r}}}",
            )
        return await self.agents[name].answer(values, self.request, scope)
