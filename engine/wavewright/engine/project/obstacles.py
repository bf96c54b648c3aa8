"""What keeps the tools of a plan from working in this project.

That is a broken prompt of a worker, no model to ask, or a variable of an MCP server that is not set.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from wavewright.config.settings import Settings
from wavewright.engine.project.tool_sources import full_name
from wavewright.engine.project.tools import project_workers
from wavewright.planner.checks.feasibility import WHOLE_RUN, Obstacle
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import AGENT, ToolSignature
from wavewright.tools.workers.services import MODEL_HINT

if TYPE_CHECKING:
    from wavewright.tools.workers.specs import Worker

_WORKER_PROMPTS = ("workers/instructions", "workers/repair")
_AGENT_PROMPTS = ("workers/agent_instructions", "workers/agent")


def find_obstacles(
    plan: Plan, tools: Mapping[str, ToolSignature], settings: Settings
) -> Mapping[str, Obstacle]:
    """Return what keeps tools that the plan calls from working, by their names; asks no model.

    Where a configured model cannot be asked, which keeps every run from beginning, that stands under `WHOLE_RUN`.

    Raises:
        ToolDefinitionError: a worker's file is faulty.
    """
    called = {step.tool for step in plan.steps}
    servers = _called_servers(called, settings)
    # A worker sends data out: packs are not made to look for any other tool.
    suspects = {name for name in called - servers.keys() if name in tools and "egress" in tools[name].effects}
    found_workers = project_workers(settings, suspects).items() if suspects else ()
    workers = {name: worker for name, worker in found_workers if name in called}
    has_model = settings.model is not None
    found = _server_obstacles(servers, settings)
    found |= _whole_run_obstacles(settings) if has_model else {}
    asking = {name for name, worker in workers.items() if has_model or worker.needs_model}
    if AGENT in called and AGENT not in workers:
        asking.add(AGENT)
    if not asking:
        return found
    if not has_model:
        found |= dict.fromkeys(asking, _NO_MODEL_OBSTACLE)
    return found | _bad_prompts(asking, workers, settings)


_NO_MODEL_OBSTACLE = Obstacle("not_ready", "it needs a model, and none is configured", MODEL_HINT)


def _called_servers(called: Collection[str], settings: Settings) -> dict[str, str]:
    """Return the MCP server of each of these tools that is one of a server."""
    servers = settings.mcp.servers
    if not servers:
        return {}
    from wavewright.tools.mcp.lock import read_lock
    from wavewright.tools.mcp.tools import locked_tools

    return {
        written: server
        for server, name, _ in locked_tools(servers, read_lock(settings.root))
        for written in (name, full_name(server, name))
        if written in called
    }


def _server_obstacles(servers: Mapping[str, str], settings: Settings) -> dict[str, Obstacle]:
    """Return the tools whose server cannot be started or reached as the settings say."""
    if not servers:
        return {}
    from wavewright.tools.mcp.settings import McpServerError, server_settings

    found: dict[str, Obstacle] = {}
    for tool, server in servers.items():
        try:
            server_settings(server, settings.mcp.servers[server], settings.root)
        except McpServerError as error:
            found[tool] = Obstacle("not_ready", str(error), error.hint)
    return found


def _whole_run_obstacles(settings: Settings) -> dict[str, Obstacle]:
    from wavewright.tools.models import ModelConfigError, check_models

    try:
        check_models(settings, os.environ)
    except ModelConfigError as error:
        return {
            WHOLE_RUN: Obstacle("not_ready", f"the configured model cannot be asked: {error}", error.hint)
        }
    return {}


def _bad_prompts(
    asking: Collection[str], workers: Mapping[str, Worker], settings: Settings
) -> dict[str, Obstacle]:
    """Return the workers whose prompts cannot be rendered, whatever they are given."""
    from wavewright.engine.project.prompt_checks import find_prompt_defect
    from wavewright.prompts import Prompts

    own = Prompts(settings.prompts)
    found: dict[str, Obstacle] = {}
    for name in sorted(asking):
        used = (workers[name].spec.prompt, *_WORKER_PROMPTS) if name in workers else _AGENT_PROMPTS
        tried = tuple(worker for worker in workers.values() if worker.spec.name == name)
        for prompt in used:
            fault = find_prompt_defect(prompt, own, tried) if own.file_of(prompt) is not None else None
            if fault is not None:
                message = f"its prompt cannot be rendered: {fault.place}: {fault.message}"
                found[name] = Obstacle("bad_prompt", message, fault.hint)
                break
    return found
