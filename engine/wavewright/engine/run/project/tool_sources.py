"""Where the tools of a project come from, and which of them a name means.

A tool is called by its own name, one of a pack or an MCP server also by its *full name*,
`PACK.NAME` or `SERVER.NAME`. A name that several sources have is a fault that names them. Only
among packs there is a rule: those that the settings configure go before those that are merely
installed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavewright.config import Settings
from wavewright.planner import JsonObject, as_object, suggest_name
from wavewright.planner.language.plan import SUB_PLAN
from wavewright.tools import (
    Pack,
    PackError,
    Services,
    Tool,
    ToolDefinitionError,
    UserFunction,
    load_pack,
    load_user_tools,
    make_tool,
    pack_names,
)
from wavewright.tools.packs import is_listed, pack_tool_names

if TYPE_CHECKING:
    from wavewright.tools import AgentSpec, NamedAgent, Worker
    from wavewright.tools.workers.named_agents import AgentCatalog


@dataclass(frozen=True, slots=True)
class _ToolCandidate:
    """A tool that a name may mean."""

    owner: str
    full_name: str | None
    """None for a tool of the project, which has one name only."""
    make: Callable[[], Tool]


@dataclass(frozen=True, slots=True)
class ToolSources:
    """The project's tools, its MCP servers, and the packs."""

    own: dict[str, Tool]
    packs: JsonObject
    """Packs that the goal or the project configures, with their settings."""
    settings: Settings
    services: Services
    _loaded: dict[str, dict[str, Tool]] = field(default_factory=dict[str, dict[str, Tool]])
    """Tools of packs, without the agents that they call."""
    _catalogs: dict[str | None, AgentCatalog] = field(
        default_factory=dict[str | None, "AgentCatalog"]
    )
    """Agents by pack; those of the project under None."""
    _packs_of_agents: dict[str, str] = field(default_factory=dict[str, str])
    """By agent that a pack brings: the pack. One of the project in its place names tools as the
    pack does.
    """

    def find(self, name: str) -> Tool | None:
        """Return the tool that a name means, under this name; None if there is none.

        Raises:
            ToolDefinitionError: several sources have a tool of this name, its server is not in the
                lock, or it is left out of the lock.
            PackError: a pack cannot be imported or refuses its settings.
        """
        candidates = [*self._own_tool(name), *self._server_tools(name)]
        candidates += self._pack_candidates(name, is_found=bool(candidates))
        if len(candidates) > 1:
            raise _ambiguous(name, candidates)
        if not candidates:
            self._refuse_left_out(name)
            return None
        tool = candidates[0].make()
        if tool.signature.name == name:
            return tool
        return replace(tool, signature=tool.signature.model_copy(update={"name": name}))

    def pack_tools(self, pack: str) -> dict[str, Tool]:
        """Return a pack's tools by their own names.

        Raises:
            PackError: it cannot be imported or refuses its settings.
        """
        return {
            name: self._bound(pack, tool) for name, tool in self._unbound_pack_tools(pack).items()
        }

    def _unbound_pack_tools(self, pack: str) -> dict[str, Tool]:
        if pack not in self._loaded:
            settings, root, file = self._pack_settings(pack)
            self._loaded[pack], agents = load_pack_tools(pack, settings, root, file, self.services)
            if agents or self.settings.agents:
                self._add_catalog(pack, agents)
        return self._loaded[pack]

    def _add_catalog(self, pack: str | None, agents: Iterable[AgentSpec]) -> AgentCatalog | None:
        agents_by_name = {spec.name: spec for spec in agents}
        if pack is not None:
            self._packs_of_agents.update(
                {name: pack for name in agents_by_name if name not in self._packs_of_agents}
            )
        specs = {
            **agents_by_name,
            **{spec.name: spec for spec in own_agents(self.settings).values()},
        }
        if not specs:
            return None
        # Imported here and below: most projects have no agents and no workers.
        from wavewright.tools.workers.named_agents import AgentCatalog

        def find(name: str) -> Tool | None:
            own = None if pack is None else self._own_of_pack(pack, name)
            tool = self.find(name) if own is None else self._bound(pack, own)
            if tool is not None:
                return tool
            if full := [
                full_name(loaded, name)
                for loaded, tools in self._loaded.items()
                if full_name(loaded, name) in tools
            ]:
                raise ToolDefinitionError(
                    f"an agent of this project has the tool {name!r}, which a pack brings under its full name",
                    hint=f"call it {' or '.join(map(repr, full))}",
                )
            return None

        refuse = partial(self._refuse_tool, pack)
        return self._catalogs.setdefault(pack, AgentCatalog(self.services, specs, find, refuse))

    def _refuse_tool(self, pack: str | None, agent: str) -> None:
        """Check that no tool has the name of an agent that another agent may call.

        Raises:
            ToolDefinitionError: one has; names the places of both.
        """
        candidates = [*self._own_tool(agent), *self._server_tools(agent)]
        candidates += self._pack_candidates(agent, is_found=True)
        owners = [candidate.owner for candidate in candidates]
        if pack is not None and self._own_of_pack(pack, agent) is not None:
            owners.append(f"pack {pack!r}")
        if owners:
            files = [file for file, spec in own_agents(self.settings).items() if spec.name == agent]
            raise _shared_name(
                agent, str(files[0]) if files else f"pack {pack!r}", f"a tool of {owners[0]}"
            )

    def _own_of_pack(self, pack: str, name: str) -> Tool | None:
        tools = self._loaded[pack]
        return tools.get(name) or tools.get(full_name(pack, name))

    def _bound(self, pack: str | None, tool: Tool) -> Tool:
        """Return a tool with the agents that it calls."""
        if not tool.signature.calls_agents or not self.services.has_model:
            return tool
        catalog = self._catalogs.get(pack) or self._add_catalog(pack, ())
        if catalog is None:
            raise ToolDefinitionError(
                f"tool {tool.signature.name!r} calls the agent {min(tool.signature.calls_agents)!r}, "
                "which does not exist",
                hint="declare it in config/agents",
            )
        return catalog.bind(tool)

    def named_agents(self, tools: Collection[str] | None) -> dict[str, NamedAgent]:
        """Return the agents of the project and of the packs that have been loaded, whose tools are
        among these.

        Without tools, return all.

        Raises:
            ToolDefinitionError: an agent's file is faulty, or a tool of an agent does not exist or
                may not be called.
        """
        self._add_catalog(None, ())
        agents: dict[str, NamedAgent] = {}
        known = None if tools is None else {*tools, *(name.rpartition(".")[2] for name in tools)}
        for pack, catalog in self._catalogs.items():
            for name, spec in catalog.specs.items():
                is_own = self._packs_of_agents.get(name) == pack
                if is_own and (known is None or {*spec.tools} <= {*known, *catalog.specs}):
                    agents[name] = catalog.agent(name)
        return agents

    def check_agent(self, spec: AgentSpec) -> None:
        """Check that an agent of a file that is no part of the project could be one.

        Raises:
            ToolDefinitionError: a tool or its prompt does not exist, or it may not call a tool.
        """
        for pack in pack_names():
            if is_listed(pack, self.settings.packs):
                self._unbound_pack_tools(pack)
        self._add_catalog(None, [spec])
        catalog = self._catalogs[self._packs_of_agents.get(spec.name)]
        replace(catalog, specs={**catalog.specs, spec.name: spec}).agent(spec.name)

    def server_tools(self) -> dict[str, Tool]:
        """Return the tools of MCP servers by their full names."""
        return {
            candidate.full_name: candidate.make()
            for candidate in self._server_tools(None)
            if candidate.full_name is not None
        }

    def _own_tool(self, name: str) -> Iterator[_ToolCandidate]:
        if name in self.own:
            yield _ToolCandidate("this project", None, lambda: self._bound(None, self.own[name]))

    def _server_tools(self, name: str | None) -> Iterator[_ToolCandidate]:
        """Yield the tools of MCP servers that a name means; all tools without a name."""
        if not self.settings.mcp.servers:
            return
        # Imported here and below: most projects have no servers, and their client is an extra.
        from wavewright.engine.run.project.server_tools import find_server_tools

        for tool in find_server_tools(name, self.settings, self.services.mcp):
            yield _ToolCandidate(f"MCP server {tool.server!r}", tool.full_name, tool.make)

    def _refuse_left_out(self, name: str) -> None:
        """Raise an error where a name means a tool that the lock of its server leaves out.

        Raises:
            ToolDefinitionError: with the reason why no plan can call it.
        """
        if not self.settings.mcp.servers:
            return
        from wavewright.engine.run.project.server_tools import refuse_left_out

        refuse_left_out(name, self.settings)

    def _pack_candidates(self, name: str, *, is_found: bool) -> list[_ToolCandidate]:
        """Return the tools of packs that a name means: of configured packs, or else of those
        installed.

        Packs that are not listed count only if the name is found nowhere else.
        """
        installed = pack_names()
        prefix, dot, _ = name.partition(".")
        if dot:
            # A full name says which pack is meant.
            installed = tuple(pack for pack in installed if pack == prefix)
        configured: list[str] = []
        listed: list[str] = []
        others: list[str] = []
        for pack in installed:
            if pack in self.packs:
                configured.append(pack)
            elif is_listed(pack, self.settings.packs):
                listed.append(pack)
            elif not is_found:
                others.append(pack)
        # What the project has chosen goes before what is only installed: a pack that comes along
        # with another package changes no tool of a plan.
        for group in (configured, listed, others):
            candidates = [*self._bringing(name, group, is_found=is_found)]
            if candidates:
                return candidates
        return []

    def _bringing(
        self, name: str, packs: Iterable[str], *, is_found: bool
    ) -> Iterator[_ToolCandidate]:
        for pack in packs:
            settings, root, file = self._pack_settings(pack)
            try:
                names = pack_tool_names(pack, settings, root)
            except PackError as error:
                if is_found and not settings:
                    # It needs settings and has none, so none of its tools can be meant.
                    continue
                raise _placed(error, file) from error
            for tool in names:
                full = full_name(pack, tool)
                if name in (tool, full):
                    make = partial(self._pack_tool, pack, tool)
                    yield _ToolCandidate(f"pack {pack!r}", full, make)
                    break

    def _pack_tool(self, pack: str, name: str) -> Tool:
        return self._bound(pack, self._unbound_pack_tools(pack)[name])

    def _pack_settings(self, pack: str) -> tuple[JsonObject, Path, str | None]:
        """Return the settings of a pack, the folder of their file, and the file."""
        entry = as_object(self.packs.get(pack))
        root = Path(str(entry["root"])) if "root" in entry else self.settings.root
        settings = as_object(entry.get("settings"))
        file = str(entry["file"]) if "file" in entry and settings else None
        return settings, root, file


def full_name(source: str, tool: str) -> str:
    """Return the full name of a pack's or a server's tool."""
    return tool if tool.startswith(f"{source}.") else f"{source}.{tool}"


class AmbiguousTool(ToolDefinitionError):
    """A name that several tools have."""

    def __init__(self, name: str, owners: str, hint: str) -> None:
        super().__init__(f"{name!r} is a tool of {owners}", hint=hint)
        self.name = name


def _ambiguous(name: str, candidates: list[_ToolCandidate]) -> AmbiguousTool:
    full = [
        repr(candidate.full_name)
        for candidate in candidates
        if candidate.full_name not in (None, name)
    ]
    owners = " and of ".join(candidate.owner for candidate in candidates)
    if not full:
        hint = "give the MCP server another name"
    elif len(full) < len(candidates):
        hint = f"call it {' or '.join(full)}, or rename yours"
    else:
        hint = f"call it {' or '.join(full)}"
    return AmbiguousTool(name, owners, hint)


def _shared_name(name: str, agent: str, tool: str) -> ToolDefinitionError:
    return ToolDefinitionError(
        f"{name!r} is an agent, in {agent}, and {tool}", hint="give one of the two another name"
    )


def open_sources(packs: JsonObject, settings: Settings, services: Services) -> ToolSources:
    """Return the sources of a project's tools, with its own functions and workers loaded.

    Raises:
        ToolDefinitionError: a function or worker of the project cannot be a tool, or two have one
            name, also where one of them is an agent.
        PackError: the settings name a pack that is not installed.
    """
    refuse_unknown_packs(settings)
    own_tools = {
        tool.signature.name: tool for tool in load_user_tools(settings.tools, settings.root)
    }
    for function in settings.functions:
        tool = function if isinstance(function, Tool) else make_tool(cast("UserFunction", function))
        if tool.signature.name in own_tools:
            raise ToolDefinitionError(
                f"{tool.signature.name!r} is given twice as a tool",
                hint="give one of the two another name",
            )
        own_tools[tool.signature.name] = tool
    for worker in own_workers(settings):
        name = worker.spec.name
        if name in own_tools:
            raise ToolDefinitionError(
                f"{name!r} is a function and a worker of this project",
                hint="give one of the two another name",
            )
        own_tools[name] = _worker_tool(worker, services)
    if SUB_PLAN in own_tools:
        # Steps of this tool are the engine's own, whoever has written the plan.
        what = f"{SUB_PLAN!r} is the tool of a step that holds a sub-plan's result"
        raise ToolDefinitionError(what, hint="give yours another name")
    for file, spec in own_agents(settings).items():
        if spec.name in own_tools:
            raise _shared_name(spec.name, str(file), _place_of_tool(spec.name, settings))
    return ToolSources(own_tools, packs, settings, services)


def _place_of_tool(name: str, settings: Settings) -> str:
    for worker in own_workers(settings):
        if worker.spec.name == name:
            return f"a worker, in {worker.file}"
    for position, entry in enumerate(settings.tools):
        tools = load_user_tools((entry,), settings.root, first=position)
        if any(tool.signature.name == name for tool in tools):
            return f"a function, in tools[{position}] of {settings.file}"
    return "a tool of this project"


# The code of workers is imported only if there is one: most checks and runs have none.


def own_workers(settings: Settings) -> tuple[Worker, ...]:
    """Return the project's model workers.

    Raises:
        ToolDefinitionError: a worker's file is faulty.
    """
    if not any(place.suffix or place.exists() for place in settings.workers):
        return ()
    from wavewright.tools.workers.specs import load_workers

    return load_workers(settings.workers)


def own_agents(settings: Settings) -> dict[Path, AgentSpec]:
    """Return the project's named agents by file.

    Raises:
        ToolDefinitionError: an agent's file is faulty.
    """
    if not any(place.suffix or place.exists() for place in settings.agents):
        return {}
    from wavewright.tools.workers.named_agents import load_agents

    return load_agents(settings.agents)


def _worker_tool(worker: Worker, services: Services) -> Tool:
    from wavewright.tools.workers.worker_tools import make_worker

    return make_worker(worker, services)


def load_pack_tools(
    pack: str, settings: JsonObject, root: Path, file: str | None, services: Services
) -> tuple[dict[str, Tool], tuple[AgentSpec, ...]]:
    """Return a pack's tools by their own names, and its agents; `file` is where its settings come
    from.

    Raises:
        PackError: it cannot be imported or refuses its settings.
    """
    try:
        loaded = load_pack(pack, settings, root)
        return {tool.signature.name: tool for tool in _tools_of(loaded, services)}, loaded.agents
    except PackError as error:
        raise _placed(error, file) from error


def _placed(error: PackError, file: str | None) -> PackError:
    """Return an error with the file of the settings, which the pack does not know."""
    return PackError(str(error), hint=error.hint, place=file)


def _tools_of(pack: Pack, services: Services) -> Iterable[Tool]:
    """Yield a pack's tools, then its workers; a worker replaces a tool of the same name."""
    yield from pack.tools
    for worker in pack.workers:
        yield _worker_tool(worker, services)


def refuse_unknown_packs(settings: Settings) -> None:
    """Check that the packs of the settings are installed.

    Raises:
        PackError: one is not.
    """
    if not settings.packs:
        return
    known = pack_names()
    for name in settings.packs:
        if name not in known:
            message = f"there is no pack {name!r}"
            raise PackError(
                message,
                hint=suggest_name(name, known, what="installed packs"),
                place=str(settings.file),
            )
