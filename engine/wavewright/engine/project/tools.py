"""The tools of a run: the project's own functions and workers, those of packs, and the agent.

Workers are made with the services of the run. Without services they are only described, which is enough for checks,
lists and dry runs; no code that asks models is loaded then.

A *known secret* is one in the settings or the environment. In outputs of tools it is replaced by `[redacted]`, because
outputs are journaled, sent and shown to models.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavewright.config.redaction import Redactor, known_secrets
from wavewright.config.settings import Settings
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.functions.registry import Registry
from wavewright.tools.functions.tool import Tool, ToolCall
from wavewright.tools.functions.user_tools import load_user_tools
from wavewright.tools.packs import Pack, PackError, is_listed, load_pack, pack_names
from wavewright.tools.workers.services import AGENT, Services, make_services

if TYPE_CHECKING:
    from wavewright.tools.workers.specs import Worker


def tools_of_goal(goal: Goal, settings: Settings, services: Services | None = None) -> Registry:
    """Return the tools that the goal allows; those that do not exist are left out, and the checker reports them.

    Raises:
        ToolDefinitionError: a function or a worker of the project cannot be a tool.
        PackError: a pack cannot be imported or refuses its settings.
    """
    serving = (services or make_services(settings)).for_goal(goal)
    return _named_tools(goal.tool_names, goal.packs, settings, serving, goal)


def signatures_to_check(plan: Plan, goal: Goal, settings: Settings) -> dict[str, ToolSignature]:
    """Return the signatures of the tools that the goal allows, and of others that the plan names.

    A tool that is not allowed is another fault than one that does not exist. If one does not exist, the signatures of
    all tools of the project are included, so that a similar name can be suggested.

    Raises:
        ToolDefinitionError, PackError: as in `tools_of_goal`.
    """
    names = goal.tool_names | {step.tool for step in plan.steps}
    services = make_services(settings).for_goal(goal)
    return _named_tools(names, goal.packs, settings, services, goal, all_if_missing=True).signatures


def tools_of_plan(plan: Plan, settings: Settings, services: Services | None = None) -> Registry:
    """Return the tools that a plan names, and all of the project's if one of them does not exist."""
    packs: JsonObject = {
        name: {"settings": given, "root": str(settings.root), "file": str(settings.file)}
        for name, given in settings.packs.items()
    }
    names = frozenset(name for step in plan.steps for name in (step.tool, *agent_tools(step)))
    return _named_tools(names, packs, settings, services or make_services(settings), all_if_missing=True)


def agent_tools(step: Step) -> tuple[str, ...]:
    """Return the tools that a step names for its agent; empty for a step that calls another tool."""
    named = step.params.get("tools") if step.tool == AGENT else None
    return tuple(name for name in named if isinstance(name, str)) if isinstance(named, list) else ()


def all_tools(settings: Settings, services: Services | None = None) -> Registry:
    """Return every tool of the project and of the packs that are listed.

    Raises:
        ToolDefinitionError, PackError: as in `tools_of_goal`.
    """
    _refuse_unknown_packs(settings)
    serving = services or make_services(settings)
    found = _project_tools(settings, serving)
    for name in (name for name in pack_names() if is_listed(name, settings.packs)):
        brought = _load(name, _object(settings.packs.get(name)), settings.root, str(settings.file), serving)
        found = {**brought, **found}
    if AGENT not in found:
        found[AGENT] = _agent_tool(serving, found, is_closed=False)
    return Registry(found.values())


def project_workers(settings: Settings, names: Collection[str]) -> dict[str, Worker]:
    """Return the project's model workers, and those of packs until all of the names are found.

    Raises:
        ToolDefinitionError, PackError: as in `tools_of_goal`.
    """
    found = {worker.spec.name: worker for worker in _project_workers(settings)}
    for name in pack_names():
        if found.keys() >= set(names):
            break
        brought = load_pack(name, _object(settings.packs.get(name)), settings.root).workers
        found = {worker.spec.name: worker for worker in brought} | found
    return found


def load_named_pack(name: str, settings: Settings) -> None:
    """Import a pack with its settings, to check that it accepts them.

    Raises:
        ToolDefinitionError, PackError: as in `tools_of_goal`.
    """
    _refuse_unknown_packs(settings)
    _load(name, _object(settings.packs.get(name)), settings.root, str(settings.file), make_services(settings))


def _named_tools(
    names: frozenset[str],
    packs: JsonObject,
    settings: Settings,
    services: Services,
    goal: Goal | None = None,
    *,
    all_if_missing: bool = False,
) -> Registry:
    _refuse_unknown_packs(settings)
    own = _project_tools(settings, services)
    found = {name: own[name] for name in sorted(names & own.keys())}
    missing = set(names - own.keys()) - {AGENT}
    for pack in _packs_by_precedence(packs) if missing else ():
        brought = _pack_tools(pack, packs, settings, services)
        found |= {name: tool for name, tool in brought.items() if name in missing}
        missing -= brought.keys()
        if not missing:
            break
    if missing and all_if_missing:
        found = {**own, **found}
    if AGENT in names and AGENT not in own:
        found[AGENT] = _agent_tool(services, found, goal)
    return Registry(found.values())


def _packs_by_precedence(packs: JsonObject) -> Iterator[str]:
    """Yield the packs that have settings, then the other installed ones, which are searched for only if needed."""
    yield from sorted(packs)
    yield from (name for name in pack_names() if name not in packs)


def _project_tools(settings: Settings, services: Services) -> dict[str, Tool]:
    """Return the project's functions and workers.

    Raises:
        ToolDefinitionError: one cannot be a tool, or two have one name.
    """
    found = {tool.signature.name: tool for tool in load_user_tools(settings.tools, settings.root)}
    for worker in _project_workers(settings):
        name = worker.spec.name
        if name in found:
            raise ToolDefinitionError(
                f"{name!r} is a function and a worker of this project",
                hint="give one of the two another name",
            )
        found[name] = _worker_tool(worker, services)
    return found


# The code of workers and agents is imported only if there is one: most checks and runs have none.


def _project_workers(settings: Settings) -> tuple[Worker, ...]:
    if not any(place.suffix or place.exists() for place in settings.workers):
        return ()
    from wavewright.tools.workers.specs import load_workers

    return load_workers(settings.workers)


def _worker_tool(worker: Worker, services: Services) -> Tool:
    from wavewright.tools.workers.factory import make_worker

    return make_worker(worker, services)


def _agent_tool(
    services: Services, tools: dict[str, Tool], goal: Goal | None = None, *, is_closed: bool = True
) -> Tool:
    from wavewright.tools.workers.agent import agent_tool

    return agent_tool(services, tools, goal, is_closed=is_closed)


def _pack_tools(name: str, packs: JsonObject, settings: Settings, services: Services) -> dict[str, Tool]:
    entry = _object(packs.get(name))
    root = Path(str(entry["root"])) if "root" in entry else settings.root
    file = str(entry["file"]) if "file" in entry else None
    return _load(name, _object(entry.get("settings")), root, file, services)


def _load(name: str, given: JsonObject, root: Path, file: str | None, services: Services) -> dict[str, Tool]:
    try:
        return _by_name(_tools_of(load_pack(name, given, root), services))
    except PackError as error:
        # The pack does not know which file its settings come from.
        raise PackError(str(error), hint=error.hint, place=file if given else None) from error


def _tools_of(pack: Pack, services: Services) -> Iterable[Tool]:
    """Yield a pack's tools, then its workers; a worker replaces a tool of the same name."""
    yield from pack.tools
    for worker in pack.workers:
        yield _worker_tool(worker, services)


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    return {tool.signature.name: tool for tool in tools}


def _refuse_unknown_packs(settings: Settings) -> None:
    """Raise an error if the settings name a pack that is not installed."""
    if not settings.packs:
        return
    known = pack_names()
    for name in settings.packs:
        if name not in known:
            message = f"there is no pack {name!r}"
            raise PackError(
                message, hint=suggest_name(name, known, what="installed packs"), place=str(settings.file)
            )


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def tools_with_redacted_outputs(tools: Mapping[str, Tool], settings: Settings) -> Registry:
    """Return the tools with known secrets redacted from their outputs."""
    known = known_secrets(settings, os.environ)
    redactor = _redactor(known)
    return Registry(_with_redacted_output(tool, redactor) if known else tool for tool in tools.values())


def known_secrets_redactor(settings: Settings) -> Redactor:
    """Return a redactor of the secrets in settings and environment."""
    return _redactor(known_secrets(settings, os.environ))


@lru_cache(maxsize=4)
def _redactor(known: tuple[str, ...]) -> Redactor:
    return Redactor(known)


def _with_redacted_output(tool: Tool, redactor: Redactor) -> Tool:
    async def call(request: ToolCall) -> Json:
        return _redact_value(await tool.call(request), redactor)

    return replace(tool, call=call)


def _redact_value(value: Json, redactor: Redactor) -> Json:
    match value:
        case str():
            return redactor.redact_known(value)
        case list():
            return [_redact_value(item, redactor) for item in value]
        case dict():
            return {
                _redact_key(name, redactor): _redact_value(item, redactor) for name, item in value.items()
            }
        case _:
            return value


def _redact_key(name: Any, redactor: Redactor) -> Any:
    # A key that is no text is not JSON; the executor reports it.
    return redactor.redact_known(name) if isinstance(name, str) else name
