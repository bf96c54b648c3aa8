"""Resources and the prompt of the server: schemas, the language page, runs and their packages."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resources import FunctionResource

from wavewright.config.settings import Settings
from wavewright.engine.cli.common.arguments import has_journal, open_journal
from wavewright.engine.cli.common.stored_runs import load_run
from wavewright.engine.cli.mcp_server.plan_tools import Project
from wavewright.engine.cli.mcp_server.run_tools import RUN_URI
from wavewright.engine.cli.project.init_command import AUTHORED_SCHEMAS, schema_text
from wavewright.engine.cli.runs.runs_command import package_of, row_json
from wavewright.engine.project.tools import all_tools
from wavewright.executor.events.state import fold
from wavewright.planner.diagnostics.rendering import printable_json
from wavewright.planner.language.goals import AvailableTool, GoalTemplate, Job
from wavewright.planner.planning.prompt import planner_prompt
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.prompts import Prompts
from wavewright.reviewer.package.builder import package_bytes

_MAX_RUNS = 50
_JSON, _MARKDOWN = "application/json", "text/markdown"
_SCHEMAS = (*AUTHORED_SCHEMAS, "package")
_NEXT_STEPS = """
Do not only answer: call the tool `check_plan` with the object as its `plan`, fix what it finds, and look at it with
`dry_run`. Call `run_plan` when the user wants the result."""


def add_resources(server: MCPServer[Project], settings: Settings) -> None:
    """Add the resources and the prompt of a project."""
    for name in _SCHEMAS:
        _add_text(
            server,
            f"wavewright://schemas/{name}",
            f"JSON Schema of a {name}",
            _JSON,
            partial(schema_text, name),
        )
    _add_text(server, "wavewright://language", "The plan language", _MARKDOWN, language_page)
    _add_text(server, "wavewright://runs", "The newest runs", _JSON, partial(_list_runs, settings))

    @server.resource(f"{RUN_URI}/package", name="package", description="A run's package.", mime_type=_JSON)
    async def package(run: str) -> str:
        _, events = await load_run(settings, run)
        return package_bytes(package_of(fold(events))).decode()

    @server.prompt(
        name="write_plan", description="Write a plan that reaches a goal with this project's tools."
    )
    def write_plan(goal: str) -> str:
        return plan_prompt(goal, settings)


def language_page() -> str:
    """Return the reference of the plan language."""
    return (files("wavewright.planner.language") / "plan-language.md").read_text(encoding="utf-8")


def plan_prompt(goal: str, settings: Settings) -> str:
    """Return what the planner is asked for a goal that may use every tool of the project.

    Raises:
        PromptError, ToolDefinitionError, PackError: a prompt, a tool or a pack of the project is faulty.
    """
    signatures = all_tools(settings).signatures
    tools = tuple(AvailableTool(name=name) for name in sorted(signatures))
    # Unvalidated: a project without tools has an empty list, and a `${` in the user's words is text.
    template = GoalTemplate.model_construct(name="goal", goal="goal", available_tools=tools)
    resolved = resolve_goal(Job(name="goal"), template).model_copy(update={"text": goal})
    prompt = planner_prompt(resolved, signatures, Prompts(settings.prompts))
    return f"{prompt.instructions}\n\n{prompt.request}\n{_NEXT_STEPS}"


def _add_text(server: MCPServer[Project], uri: str, title: str, mime_type: str, read: Any) -> None:
    name = uri.removeprefix("wavewright://")
    server.add_resource(FunctionResource(uri=uri, name=name, title=title, mime_type=mime_type, fn=read))


async def _list_runs(settings: Settings) -> str:
    if not await anyio.to_thread.run_sync(has_journal, settings):
        return "[]"
    async with open_journal(settings) as journal:
        rows = await journal.list_runs()
    return printable_json([row_json(row) for row in rows[:_MAX_RUNS]], indent=2)
