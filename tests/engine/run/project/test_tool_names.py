"""Which tool a name means: of the project, of a pack, of an MCP server."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.config import load_settings
from wavewright.config.documents import read_document
from wavewright.engine.interfaces.cli.project.project_checks import check_agent
from wavewright.engine.run.project import tools
from wavewright.engine.run.project.tools import (
    all_tools,
    project_workers,
    signatures_to_check,
    tools_of_goal,
    tools_of_plan,
)
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import JsonObject
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.mcp.lock import LOCK_NAME, ListedTool, ServerListing, ToolsLock, lock_server
from wavewright.tools.packs import load_pack, pack_names, pack_tool_names

SERVERS = "mcp: {servers: {time: {command: no-such-program}, clock: {command: no-such-program}}}\n"


def project(folder: Path, function: str = "note", settings: str = "") -> Path:
    (folder / "tools.py").write_text(
        f'def {function}(text: str) -> str:\n    """Note."""\n    return text\n'
    )
    (folder / "wavewright.yaml").write_text(f"tools: [tools.py]\n{settings}")
    return folder


def lock(folder: Path, **tools: tuple[str, ...]) -> None:
    schema: JsonObject = {"type": "object", "properties": {}}
    servers = {
        server: lock_server(
            ServerListing(
                server, "1", tuple(ListedTool(name, input_schema=schema) for name in names)
            )
        )
        for server, names in tools.items()
    }
    (folder / LOCK_NAME).write_text(ToolsLock(servers=servers).text)


def goal_with(*names: str) -> Goal:
    tools = tuple(AvailableTool(name=name) for name in names)
    return Goal(name="one", job="one", text="x", inputs={}, tools=tools)


def found(folder: Path, *names: str) -> set[str]:
    plan = Plan.model_validate(
        {"steps": [{"id": f"s{n}", "tool": name} for n, name in enumerate(names)]}
    )
    return set(tools_of_plan(plan, load_settings(folder, {})))


@pytest.mark.parametrize("lists_all", [False, True])
def test_a_tool_of_the_project_hides_none_of_a_pack(tmp_path: Path, *, lists_all: bool) -> None:
    settings = load_settings(project(tmp_path, "summarize_content"), {})
    goal = goal_with("summarize_content")

    with pytest.raises(
        ToolDefinitionError,
        match="'summarize_content' is a tool of this project and of pack 'text'",
    ) as caught:
        all_tools(settings) if lists_all else tools_of_goal(goal, settings)

    assert caught.value.hint == "call it 'text.summarize_content', or rename yours"


def test_steps_that_call_a_name_of_several_tools_are_named(tmp_path: Path) -> None:
    settings = load_settings(project(tmp_path, "summarize_content"), {})
    steps = [
        {"id": "first", "tool": "summarize_content"},
        {"id": "other", "tool": "text.summarize_content"},
        {"id": "chosen", "tools": ["summarize_content", "note"], "dispatch": "${inputs.calls}"},
    ]
    plan = Plan.model_validate({"steps": steps})

    with pytest.raises(
        ToolDefinitionError,
        match=r"^steps 'first', 'chosen': 'summarize_content' is a tool of this project and",
    ) as caught:
        signatures_to_check(plan, goal_with(), settings)

    assert caught.value.hint == "call it 'text.summarize_content', or rename yours"


def test_a_full_name_means_the_packs_tool(tmp_path: Path) -> None:
    assert found(project(tmp_path, "summarize_content"), "text.summarize_content") == {
        "text.summarize_content"
    }


def test_a_tool_of_a_server_has_its_full_name_and_where_it_is_unique_its_own(
    tmp_path: Path,
) -> None:
    lock(project(tmp_path, settings=SERVERS), time=("convert",), clock=("now",))

    assert found(tmp_path, "time.convert", "now") == {"time.convert", "now"}
    assert {"time.convert", "clock.now", "note"} <= set(all_tools(load_settings(tmp_path, {})))


def test_two_servers_with_one_tool_are_told_apart_by_their_full_names(tmp_path: Path) -> None:
    lock(project(tmp_path, settings=SERVERS), time=("now",), clock=("now",))

    with pytest.raises(
        ToolDefinitionError, match="'now' is a tool of MCP server 'time' and of MCP server 'clock'"
    ) as caught:
        found(tmp_path, "now")

    assert caught.value.hint == "call it 'time.now' or 'clock.now'"
    assert found(tmp_path, "time.now", "clock.now") == {"time.now", "clock.now"}


def test_a_server_that_is_not_locked_is_a_fault_where_its_tool_is_named(tmp_path: Path) -> None:
    lock(project(tmp_path, settings=SERVERS), clock=("now",))

    assert found(tmp_path, "now", "note") == {"now", "note"}
    with pytest.raises(ToolDefinitionError, match=r"'time' is not in tools\.lock\.json"):
        found(tmp_path, "time.now")


def test_a_tool_that_nobody_has_is_suggested_those_of_servers(tmp_path: Path) -> None:
    lock(project(tmp_path, settings=SERVERS), time=("convert",))
    plan = Plan.model_validate({"steps": [{"id": "s", "tool": "time.convrt"}]})

    known = signatures_to_check(plan, goal_with("note"), load_settings(tmp_path, {}))

    assert "time.convert" in known


def test_packs_declare_the_tools_that_they_bring() -> None:
    for pack in pack_names():
        assert pack_tool_names(pack) == load_pack(pack).tool_names, pack


def test_a_worker_is_found_by_both_names_and_no_pack_is_made_for_another_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(project(tmp_path))
    names = {"extract_chunk", "knowledge.extract_chunk"}
    assert project_workers(settings, names).keys() == names

    monkeypatch.setattr(tools, "load_pack", None)
    assert project_workers(settings, {"note"}) == {}


def test_an_agent_in_place_of_a_packs_names_its_tools_as_the_pack_does_and_another_in_full(
    tmp_path: Path,
) -> None:
    project(tmp_path)
    folder = tmp_path / "config" / "agents"
    folder.mkdir(parents=True)
    file = folder / "agent.yaml"
    text = "name: {}\ndescription: Finds people.\nprompt: lore/research\ntools: [crawl_webpage]\n"
    file.write_text(text.format("research"))
    environment = {
        "WAVEWRIGHT_MODEL": "openai-chat:scripted",
        "WAVEWRIGHT_BASE_URL": "http://127.0.0.1:9/v1",
    }
    settings = load_settings(tmp_path, environment)

    assert "lore.research_topic" in all_tools(settings)
    assert check_agent(read_document(file.read_text(), str(file)), settings) == ()

    file.write_text(text.format("scout"))
    with pytest.raises(ToolDefinitionError) as caught:
        all_tools(settings)
    [found] = check_agent(read_document(file.read_text(), str(file)), settings)

    assert caught.value.hint == found.hint == "call it 'lore.crawl_webpage'"
