"""The tools of a run: the project's own functions and workers, those of packs, `agent` and
`ask_person`.

What keeps a tool from working here is an *obstacle*: a broken prompt of a worker, no model to ask,
or a variable of an MCP server that is not set.

Workers are made with the services of the run. Without services they are only described, which is
enough for checks, lists and dry runs; no code that asks models is loaded then.

A *known secret* is one in the settings or the environment. In outputs of tools it is replaced by
`[redacted]`, because outputs are journaled, sent and shown to models.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from wavewright.config import Settings, WavewrightError
from wavewright.config.redaction import Redactor, known_secrets, redactor_of
from wavewright.engine.run.project.tool_sources import (
    AmbiguousTool,
    ToolSources,
    full_name,
    open_sources,
    own_workers,
    refuse_unknown_packs,
)
from wavewright.planner import (
    Goal,
    Json,
    JsonObject,
    Plan,
    Step,
    ToolSignature,
    ToolSignatures,
    as_list,
    as_object,
)
from wavewright.planner.checks.feasibility import (
    WHOLE_RUN,
    Obstacle,
)
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.language.plan import ASK_MODEL, SUB_PLAN, dispatched_tools, step_tools
from wavewright.planner.language.signatures import AGENT, ASK_PERSON, SUB_PLAN_SIGNATURE
from wavewright.tools import (
    Registry,
    Services,
    Tool,
    ToolCall,
    ToolDefinitionError,
    ToolError,
    Tools,
    load_pack,
    load_user_tools,
    make_services,
    pack_names,
    project_prompts,
)
from wavewright.tools.functions.registry import name_of
from wavewright.tools.functions.tool import MODEL_HINT, ask_person_tool
from wavewright.tools.packs import is_listed, pack_tool_names

if TYPE_CHECKING:
    from wavewright.engine.run.project.prompt_checks import PromptDefect
    from wavewright.executor import RunState
    from wavewright.tools import Worker


_WORKER_PROMPTS = ("workers/instructions", "workers/repair")
_BUILT_IN_PROMPTS = {
    AGENT: ("workers/agent_instructions", "workers/agent"),
    ASK_MODEL: ("workers/ask_model", *_WORKER_PROMPTS),
}


def tools_of_goal(goal: Goal, settings: Settings, services: Services | None = None) -> Registry:
    """Return the tools that the goal allows; those that do not exist are left out, and the checker
    reports them.

    Raises:
        ToolDefinitionError: a function or a worker of the project cannot be a tool, a name means
            several tools, or an MCP server is not in the lock.
        PackError: a pack cannot be imported or refuses its settings.
    """
    serving = (services or make_services(settings)).for_goal(goal)
    return _named_tools(goal.tool_names, goal.packs, settings, serving, goal)


def signatures_to_check(plan: Plan, goal: Goal, settings: Settings) -> dict[str, ToolSignature]:
    """Return the signatures of the tools that the goal allows, and of others that the plan names.

    A tool that is not allowed is another fault than one that does not exist. If one does not exist,
    the signatures of all tools of the project are included, so that a similar name can be
    suggested.

    Raises:
        ToolDefinitionError, PackError: as in `tools_of_goal`.
    """
    names = goal.tool_names | {step.tool for step in plan.steps}
    services = make_services(settings).for_goal(goal)
    try:
        registry = _named_tools(names, goal.packs, settings, services, goal, all_if_missing=True)
    except AmbiguousTool as error:
        callers = [repr(step.id) for step in plan.steps if error.name in step_tools(step)]
        if not callers:
            raise
        where = f"{'step' if len(callers) == 1 else 'steps'} {', '.join(callers)}"
        raise ToolDefinitionError(f"{where}: {error.message}", hint=error.hint) from error
    return registry.signatures


def tools_of_plan(plan: Plan, settings: Settings) -> Registry:
    """Return the tools that a plan names, and all of the project's if one of them does not exist."""
    names = frozenset(name for step in plan.steps for name in (step.tool, *agent_tools(step)))
    return _named_tools(
        names, packs_of_project(settings), settings, make_services(settings), all_if_missing=True
    )


def functions_elsewhere(
    state: RunState, settings: Settings, is_called: Callable[[Step], bool] = lambda _step: True
) -> list[str]:
    """Return the functions of a program that a run's plan calls and that a project does not have.

    Args:
        state: The run; without a plan it may call every function.
        settings: Those of the project, with the functions that a program has given.
        is_called: Tells which steps of the plan count.

    Raises:
        ToolDefinitionError: tools of the project cannot be read.
    """
    if state.started is None or not state.started.program_tools:
        return []
    called = {*state.started.program_tools}
    if state.plan is not None:
        steps = filter(is_called, Plan.model_validate(state.plan).steps)
        called &= {name for step in steps for name in (*step_tools(step), *agent_tools(step))}
    if called:
        called -= {name_of(function) for function in settings.functions}
        called -= {tool.signature.name for tool in load_user_tools(settings.tools, settings.root)}
    return sorted(called)


def agent_tools(step: Step) -> tuple[str, ...]:
    """Return the tools that a step names for its agent, or for the calls that it asks a model for;
    empty for a step that calls another tool.
    """
    if step.tool == ASK_MODEL:
        return tuple(_tools_of_calls(step.params.get("for")))
    if step.tool != AGENT:
        return ()
    return tuple(name for name in as_list(step.params.get("tools")) if isinstance(name, str))


def _tools_of_calls(types: Json) -> Iterator[str]:
    """Yield the tools that types of an answer name in `calls`."""
    if isinstance(types, dict):
        named = types.get("calls") if len(types) == 1 else None
        yield from (name for name in as_list(named) if isinstance(name, str))
        for part in types.values():
            yield from _tools_of_calls(part)


def all_tools(
    settings: Settings, services: Services | None = None, *, without: Collection[str] = ()
) -> Registry:
    """Return every tool of the project, of the packs that are listed, and of MCP servers.

    A pack's tool has its short name where no other pack brings one of that name; a server's tool
    has its full name. Packs that are left out are not loaded.

    Raises:
        ToolDefinitionError, PackError: as in `tools_of_goal`.
    """
    sources = open_sources(
        packs_of_project(settings), settings, services or make_services(settings)
    )
    listed = [pack for pack in pack_names() if is_listed(pack, settings.packs)]
    brought = {pack: sources.pack_tools(pack) for pack in listed if pack not in without}
    left_out = [
        pack_tool_names(pack, as_object(settings.packs.get(pack)), settings.root)
        for pack in listed
        if pack in without
    ]
    counts = Counter(itertools.chain(*brought.values(), *left_out))
    names = [*sources.own]
    for pack, in_pack in brought.items():
        names += [name if counts[name] == 1 else full_name(pack, name) for name in in_pack]
    names += sources.server_tools()
    tools = dict[str, Tool]()
    for name in names:
        tool = sources.find(name)
        if tool is not None:
            tools[name] = tool
    tools.setdefault(ASK_PERSON, ask_person_tool())
    if ASK_MODEL not in tools:
        tools[ASK_MODEL] = _question_tool(sources, tools)
    if AGENT not in tools:
        tools[AGENT] = _agent_tool(sources, tools, is_closed=False)
    return Registry(tools.values())


def packs_of_project(settings: Settings) -> JsonObject:
    """Return the packs that the project's settings configure, as a goal has them."""
    return {
        name: {"settings": pack_settings, "root": str(settings.root), "file": str(settings.file)}
        for name, pack_settings in settings.packs.items()
    }


def project_workers(settings: Settings, names: Collection[str]) -> dict[str, Worker]:
    """Return the project's model workers, and those of packs until all of the names are found.

    Raises:
        ToolDefinitionError, PackError: as in `tools_of_goal`.
    """
    workers = {worker.spec.name: worker for worker in own_workers(settings)}
    for pack in pack_names():
        missing = set(names) - workers.keys()
        if not missing:
            break
        pack_settings = as_object(settings.packs.get(pack))
        brought = pack_tool_names(pack, pack_settings, settings.root)
        if missing.isdisjoint([*brought, *(full_name(pack, tool) for tool in brought)]):
            continue  # it is not made to look for what it does not bring
        for worker in load_pack(pack, pack_settings, settings.root).workers:
            workers |= dict.fromkeys(
                missing & {worker.spec.name, full_name(pack, worker.spec.name)}, worker
            )
    return workers


def load_named_pack(name: str, settings: Settings) -> None:
    """Import a pack with its settings, to check that it accepts them.

    Raises:
        ToolDefinitionError, PackError: as in `tools_of_goal`.
    """
    refuse_unknown_packs(settings)
    ToolSources({}, packs_of_project(settings), settings, make_services(settings)).pack_tools(name)


def tools_with_redacted_outputs(tools: Tools, settings: Settings) -> Registry:
    """Return the tools with known secrets redacted from their outputs."""
    known = known_secrets(settings, os.environ)
    redactor = redactor_of(known)
    return Registry(
        _with_redacted_output(tool, redactor) if known else tool for tool in tools.values()
    )


def find_obstacles(plan: Plan, tools: ToolSignatures, settings: Settings) -> Mapping[str, Obstacle]:
    """Return what keeps tools that the plan calls from working, by their names; asks no model.

    Where a configured model cannot be asked, which keeps every run from beginning, that stands
    under `WHOLE_RUN`.

    Raises:
        ToolDefinitionError: a worker's file is faulty.
    """
    called = {step.tool for step in plan.steps}
    servers, unusable = _called_servers(called, settings)
    obstacles = {tool: Obstacle("not_ready", str(error), error.hint) for tool, error in unusable}
    has_model = settings.model is not None
    if has_model and (fault := _model_fault(settings)) is not None:
        message = f"the configured model cannot be asked: {fault}"
        obstacles[WHOLE_RUN] = Obstacle("not_ready", message, fault.hint)
    workers = _called_workers(called, servers, tools, settings)
    asking = {name for name, worker in workers.items() if has_model or worker.needs_model}
    for name in called & {AGENT, ASK_MODEL} & tools.keys():
        # A project's own tool of one of these names answers without a model, for all that is known.
        if name in tools[name].tags and name not in workers:
            asking.add(name)
    if not has_model:
        missing = Obstacle("not_ready", "it needs a model, and none is configured", MODEL_HINT)
        obstacles |= dict.fromkeys(asking, missing)
    for name, defect in _prompt_defects(asking, workers, settings):
        message = f"its prompt cannot be rendered: {defect.place}: {defect.message}"
        obstacles[name] = Obstacle("bad_prompt", message, defect.hint)
    return obstacles


def _called_workers(
    called: Collection[str],
    servers: Mapping[str, str],
    tools: ToolSignatures,
    settings: Settings,
) -> dict[str, Worker]:
    """Return the workers among the tools that a plan calls."""
    suspects = set[str]()
    for name in called:
        # A worker sends data out: packs are not made to look for any other tool.
        if name in tools and name not in servers and "egress" in tools[name].effects:
            suspects.add(name)
    if not suspects:
        return {}
    workers = project_workers(settings, suspects)
    return {name: worker for name, worker in workers.items() if name in called}


def _named_tools(
    names: frozenset[str],
    packs: JsonObject,
    settings: Settings,
    services: Services,
    goal: Goal | None = None,
    *,
    all_if_missing: bool = False,
) -> Registry:
    sources = open_sources(packs, settings, services)
    # Tools of which data chooses one are found by themselves, and then stand for their union.
    unions = {name for name in names if dispatched_tools(name)}
    parts = {part for name in unions for part in dispatched_tools(name)}
    named = (names | parts) - unions - {SUB_PLAN}
    if AGENT not in sources.own:
        named -= {AGENT}
    tools = dict[str, Tool]()
    for name in sorted(named):
        tool = sources.find(name)
        if tool is not None:
            tools[name] = tool
    # A project's own tool goes before the built-in one of its name.
    if ASK_PERSON in names:
        tools.setdefault(ASK_PERSON, ask_person_tool())
    if SUB_PLAN in names:
        tools[SUB_PLAN] = Tool(SUB_PLAN_SIGNATURE, _result_of_sub_plan)
    if ASK_MODEL in names and ASK_MODEL not in tools:
        tools[ASK_MODEL] = _question_tool(sources, tools)
    if all_if_missing and named - tools.keys():
        tools = {**sources.own, **sources.server_tools(), **tools}
    # Last, since it may call any of the others.
    if AGENT in names and AGENT not in tools:
        tools[AGENT] = _agent_tool(sources, tools, goal)
    tools |= _unions(unions, tools)
    if not settings.reuses_results:
        return Registry(replace(tool, takes_stored=False) for tool in tools.values())
    return Registry(tools.values())


def with_tools_of(plan: Plan, tools: Tools) -> Tools:
    """Return tools of a run with those that stand for several in its plan."""
    return {**tools, **_unions({step.tool for step in plan.steps}, tools)}


def _unions(names: Collection[str], tools: Tools) -> dict[str, Tool]:
    """Return those of the named tools that stand for several."""
    if not any(dispatched_tools(name) for name in names):
        return {}
    from wavewright.tools.functions.dispatch import dispatch_tools  # few plans dispatch

    return dispatch_tools(names, tools)


def _question_tool(sources: ToolSources, tools: Tools) -> Tool:
    from wavewright.tools.workers.ask_model import model_questioner  # most runs ask no model so
    from wavewright.tools.workers.worker_tools import make_worker

    known = {name: tool.signature for name, tool in tools.items()}
    return make_worker(model_questioner(known), sources.services)


def removed_tool(name: str) -> Tool:
    """Return what stands for a tool that is installed no more: its outputs may be of any type, and
    a call fails.
    """

    async def call(_: ToolCall) -> Json:
        raise ToolError(f"no tool named {name!r} is installed")

    return Tool(
        ToolSignature(name=name, description="It is installed no more.", effects=frozenset()), call
    )


async def _result_of_sub_plan(call: ToolCall) -> Json:
    return call.params["result"]


def _agent_tool(
    sources: ToolSources,
    tools: dict[str, Tool],
    goal: Goal | None = None,
    *,
    is_closed: bool = True,
) -> Tool:
    from wavewright.tools.workers.agent import agent_tool  # most checks and runs have no agent

    agents = sources.named_agents(None if goal is None else tools)
    return agent_tool(sources.services, tools, goal, agents=agents, is_closed=is_closed)


def _with_redacted_output(tool: Tool, redactor: Redactor) -> Tool:
    async def call(request: ToolCall) -> Json:
        return map_texts(
            await tool.call(request), redactor.redact_known, partial(_redact_key, redactor=redactor)
        )

    return replace(tool, call=call)


def _redact_key(name: Any, redactor: Redactor) -> Any:
    # A key that is no text is not JSON; the executor reports it.
    return redactor.redact_known(name) if isinstance(name, str) else name


def _called_servers(
    called: Collection[str], settings: Settings
) -> tuple[dict[str, str], list[tuple[str, WavewrightError]]]:
    """Return the MCP server of each of these tools that is one of a server, and what keeps tools
    of servers from working.
    """
    if not settings.mcp.servers:
        return {}, []
    from wavewright.engine.run.project.server_tools import called_servers, unusable_servers

    servers = called_servers(called, settings)
    return servers, list(unusable_servers(servers, settings))


def _model_fault(settings: Settings) -> WavewrightError | None:
    # Most plans ask no model.
    from wavewright.tools.models import ModelConfigError, check_models

    try:
        check_models(settings, os.environ)
    except ModelConfigError as error:
        return error
    return None


def _prompt_defects(
    asking: Collection[str], workers: Mapping[str, Worker], settings: Settings
) -> Iterator[tuple[str, PromptDefect]]:
    """Yield the workers whose prompts cannot be rendered, whatever they are given, with the first
    defect.
    """
    if not asking:
        return
    from wavewright.engine.run.project.prompt_checks import find_prompt_defect

    own = project_prompts(settings.prompts)
    for name in sorted(asking):
        used = _BUILT_IN_PROMPTS.get(name, ())
        if name in workers:
            used = (workers[name].spec.prompt, *_WORKER_PROMPTS)
        tried = tuple(worker for worker in workers.values() if worker.spec.name == name)
        for prompt in used:
            defect = find_prompt_defect(prompt, own, tried) if own.file_of(prompt) else None
            if defect is not None:
                yield name, defect
                break
