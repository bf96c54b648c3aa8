"""Agents of a turn: what is registered of them, and how one is asked.

An agent is a named agent of the engine where a model is configured, and else the rule-based game
master. Both act by the same tools, so the rules hold for both; an agent has only the tools that its
registration lists.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from wavewright.config import WavewrightError
from wavewright.engine import Effects, Phase
from wavewright.packs.tabletop.game.events import Option, Said, Speech
from wavewright.packs.tabletop.game.rules import tool_signatures
from wavewright.packs.tabletop.game.state import GameState, options_of
from wavewright.packs.tabletop.turn.context import Guard, TurnContext, reload_context
from wavewright.packs.tabletop.turn.table import GameTable
from wavewright.planner import NULL_REPLAY_CACHE, Json, JsonObject, Limits, RunId, StepId, StepKey
from wavewright.tools import (
    AgentConcurrency,
    AgentLimits,
    AgentSpec,
    MemoryRunData,
    NamedAgent,
    Services,
    Tool,
    ToolCall,
    ToolError,
)

NARRATIVE: Final = "narrative"
COMBAT: Final = "combat"
NPC: Final = "npc"
ENGINE: Final = "engine"
"""Who says what no agent says."""
GAME_MASTER: Final = "rule-based game master"
"""Who speaks where no model does."""
_GAME_DATA: Final = "tabletop"
"""Name of the run data that says how far a game is: two equal calls at different points of it are
two calls.
"""
_READ_AND_WRITTEN: Final = frozenset({_GAME_DATA})
_LIMITS: Final = AgentLimits(requests=8, tool_calls=12, seconds=120.0)


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What an agent is asked."""

    agent: str
    message: str
    """What the player says; of a prompt of the engine, what is to be done."""
    context: str = ""
    suggestions: tuple[Option, ...] = ()
    npc: str | None = None
    """As whom it speaks."""
    by_player: bool = True
    """Whether the message is the player's."""
    may_act: bool = True
    """Whether it may call tools."""
    speech: Speech = "narration"
    """What its answer is."""


class ToolUser:
    """The tools of one agent for one request."""

    def __init__(self, table: GameTable, tools: Sequence[str], scope: str) -> None:
        self.table = table
        self.names = tuple(tools)
        self.calls: list[tuple[str, JsonObject]] = []
        """Those that were made, refused ones included."""
        self._scope = scope

    async def call(self, tool: str, params: JsonObject) -> str:
        """Call a tool and return in words what happened.

        Raises:
            ToolError: the agent has no such tool, or the rules do not allow the call.
        """
        if tool not in self.names:
            raise ToolError(
                f"this agent has no tool {tool!r}", hint=f"it has {', '.join(self.names) or 'none'}"
            )
        self.calls.append((tool, params))
        self.table.drop_draft()  # words before a call are no answer
        return await self.table.call(tool, params, self._scope)


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent said, with the calls of tools that it made for it."""

    text: str
    calls: tuple[tuple[str, JsonObject], ...] = ()
    fault: str = ""
    """Why it has no answer."""


RulesAnswer: TypeAlias = Callable[[AgentRequest, ToolUser], Awaitable[str]]
"""Answers without a model: acts by the tools and returns what is to be said."""


@dataclass(frozen=True, slots=True)
class TurnAgent:
    """The registration of an agent: with it, and nothing else, an agent joins the turn."""

    name: str
    description: str
    prompt: str
    """Name of its prompt's template."""
    tools: tuple[str, ...]
    """Tools of the game that it may call."""
    by_rules: RulesAnswer
    selects: Guard
    """Whether it answers a turn."""
    offers: Callable[[GameState], Sequence[Option]] = lambda _: ()
    """What it adds to the suggestions for the player."""
    before: Sequence[Phase[TurnContext, TurnContext]] = ()
    """Phases of its own, before it is asked."""
    after: Sequence[Phase[TurnContext, TurnContext]] = ()
    """Phases of its own, after the state was reloaded."""


@dataclass(frozen=True, slots=True)
class AgentRegistry:
    """The agents of a game; of several that would answer, the last registered does."""

    agents: Mapping[str, TurnAgent] = field(default_factory=dict[str, TurnAgent])

    def with_agent(self, agent: TurnAgent) -> AgentRegistry:
        """Return the registry with another agent.

        Raises:
            WavewrightError: the name is taken.
        """
        if agent.name in self.agents:
            raise WavewrightError(
                f"agent {agent.name!r} is registered twice", hint="give one another name"
            )
        return AgentRegistry({**self.agents, agent.name: agent})

    def select(self, context: TurnContext) -> TurnAgent:
        """Return who answers: whom the caller hints at, outside a fight, or the last whose guard
        holds.
        """
        hinted = self.agents.get(context.incoming_agent_hint or "")
        if hinted is not None and context.machine.mode != "combat":
            return hinted
        return next(agent for agent in reversed([*self.agents.values()]) if agent.selects(context))


class TurnAgents:
    """Asks agents: models where there are services with one, and the rule-based game master where
    not.
    """

    def __init__(self, registry: AgentRegistry, services: Services | None = None) -> None:
        self.registry = registry
        # What tools have done is recorded at the table; only models keep answers.
        has_model = services is not None and services.models is not None
        self._services = (
            replace(services, memory=NULL_REPLAY_CACHE) if services and has_model else None
        )
        self._concurrency = AgentConcurrency(Limits())

    @property
    def are_ruled(self) -> bool:
        """Whether the rule-based game master plays them."""
        return self._services is None

    def suggestions(self, state: GameState) -> tuple[Option, ...]:
        """Return what the player can do next, by the rules and by the agents that are registered."""
        offered = [
            option for agent in self.registry.agents.values() for option in agent.offers(state)
        ]
        return (*offered, *options_of(state))

    def speaker(self, request: AgentRequest) -> str:
        """Return who says the answer."""
        if request.npc is not None:
            return request.npc
        return GAME_MASTER if self._services is None else request.agent

    async def ask(self, request: AgentRequest, context: TurnContext) -> TurnContext:
        """Let an agent act and say its answer; the context has the reason where it has none.

        Raises:
            JournalError: what happens cannot be written.
        """
        table, scope = context.table, context.table.scope(request.agent)
        answer = f"{scope}/answer"
        if not await table.has_recorded(answer):
            await table.record(
                f"{scope}/asked", lambda _: ()
            )  # the phases so far are shown while it works
            agent = self.registry.agents[request.agent]
            tools = ToolUser(table, agent.tools if request.may_act else (), scope)
            answered = await self._answer_of(agent, request, tools, context.effects)
            said = Said(self.speaker(request), answered.text, request.speech)
            if answered.fault:
                fault = f"the agent {agent.name!r} gives no answer: {answered.fault}"
                context = context.with_updates(errors=(*context.errors, fault))
                said = Said(ENGINE, fault, "system")
            await table.record(answer, lambda _: [said] if said.text else [])
            table.drop_draft()
        return reload_context(context)

    async def _answer_of(
        self, agent: TurnAgent, request: AgentRequest, tools: ToolUser, effects: Effects
    ) -> AgentAnswer:
        """Return the answer of the rules, or that of a model: in a twin run the one that the first
        pipeline had.
        """
        services = self._services
        if services is None:
            return AgentAnswer(await agent.by_rules(request, tools))
        values: JsonObject = {
            "message": request.message,
            "context": request.context,
            "by_player": request.by_player,
            "suggestions": [option.label for option in request.suggestions],
            "npc": _npc_values(request.npc, tools.table),
        }

        async def act() -> AgentAnswer:
            try:
                text = await self._model_text(services, agent, request, tools, values)
            except ToolError as error:
                return AgentAnswer("", tuple(tools.calls), error.message)
            return AgentAnswer(text, tuple(tools.calls))

        answered = await effects.do(f"ask {agent.name}", values, act)
        for tool, params in answered.calls[len(tools.calls) :]:
            with suppress(ToolError):  # also the refusal was answered
                await tools.call(tool, params)
        return answered

    async def _model_text(
        self,
        services: Services,
        agent: TurnAgent,
        request: AgentRequest,
        tools: ToolUser,
        values: JsonObject,
    ) -> str:
        """Return the words of a model, which are shown as they arrive.

        Raises:
            ToolError: it has none.
        """
        table, speaker = tools.table, self.speaker(request)
        spec = AgentSpec(
            name=agent.name,
            description=agent.description,
            prompt=agent.prompt,
            limits=_LIMITS,
        )
        bound = {name: _bound_tool(name, tools) for name in tools.names}
        named = NamedAgent(spec, bound, services, self._concurrency, version="1")
        call = ToolCall(
            run=RunId(table.game_id),
            step=StepId(f"turn_{table.turn_id}"),
            tool=agent.name,
            params=values,
            key=StepKey(f"{table.game_id}/{table.turn_id}/{agent.name}"),
            now=dt.datetime.now(dt.UTC),
            data=MemoryRunData(reads=_READ_AND_WRITTEN, writes=_READ_AND_WRITTEN),
        )
        answer = await named.answer(
            values, call, on_text=lambda text: table.hear(speaker, text, request.speech)
        )
        return str(answer)


def _bound_tool(name: str, tools: ToolUser) -> Tool:
    """Return a tool of the game for an agent; run data says how far the game is, so an equal call
    is another.
    """
    own = tool_signatures()[name]
    signature = own.model_copy(
        update={
            "reads_data": _READ_AND_WRITTEN,
            "writes_data": _READ_AND_WRITTEN,
            "output_schema": {},
        }
    )

    async def call(request: ToolCall) -> Json:
        text = await tools.call(name, request.params)
        if request.data is not None:
            request.data.write(_GAME_DATA, "events", len(tools.table.events))
        return text

    return Tool(signature, call)


def _npc_values(npc: str | None, table: GameTable) -> Json:
    if npc is None:
        return None
    creature = table.state.creatures[npc]
    lines: list[Json] = [*creature.sheet.lines]
    return {"name": creature.name, "about": creature.sheet.about, "lines": lines}
