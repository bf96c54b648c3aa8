"""`wavewright mcp` as clients that others wrote see it: the official conformance suite and the
inspector.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.interfaces.cli.mcp_server.token_proxy import token_proxy
from tests.support.prepared_command import PipedCommand
from tests.tools.mcp.installed_servers import PROGRAMS, require_installed_servers
from wavewright.planner.types import Json

PROGRAM = (sys.executable, "-m", "wavewright.engine.main", "mcp")
TOKEN = "0123456789abcdef"  # noqa: S105 - of the test's own server


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "wavewright.yaml").write_text("version: 1\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def address(project: Path) -> Iterator[str]:
    """Serve the project over HTTP; return its address."""
    require_installed_servers()
    environment = {**os.environ, "WAVEWRIGHT_MCP_TOKEN": TOKEN}
    with PipedCommand(
        "mcp", "--http", "127.0.0.1:0", folder=project, environment=environment
    ) as server:
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        yield found.group()


def inspected(project: Path, *arguments: str) -> Json:
    """Return what the inspector prints of the answer to one request."""
    require_installed_servers()
    ended = subprocess.run(
        [PROGRAMS / "node", PROGRAMS / "mcp-inspector", "--cli", *arguments],
        cwd=project,
        env={**os.environ, "HOME": str(project)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    answer: Json = json.loads(ended.stdout)
    return answer


# The other scenarios of the suite ask for tools, prompts and resources of its own.
@pytest.mark.parametrize(
    "scenario",
    [
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ],
)
def test_the_server_passes_a_scenario(scenario: str, address: str, tmp_path: Path) -> None:
    suite: list[str | Path] = [
        PROGRAMS / "node",
        PROGRAMS / "conformance",
        "server",
        "--scenario",
        scenario,
    ]
    with token_proxy(address, TOKEN) as url:
        ended = subprocess.run(
            [*suite, "--url", url, "--output-dir", tmp_path],
            capture_output=True,
            text=True,
            check=False,
        )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 failed" in ended.stdout


def test_the_inspector_finds_no_fault_in_the_schemas_of_the_tools(project: Path) -> None:
    listed = inspected(project, *PROGRAM, "--method", "tools/list", "--strict")

    assert isinstance(listed, dict)
    tools = listed["tools"]
    assert isinstance(tools, list)
    named = {str(tool["name"]): tool for tool in tools if isinstance(tool, dict)}
    assert {
        "check_plan",
        "dry_run",
        "run_plan",
        "show_run",
        "list_tools",
        "explain_diagnostic",
    } == set(named)
    assert all("outputSchema" in tool for tool in named.values())


def test_the_inspector_calls_a_tool_over_http(project: Path, address: str) -> None:
    answer = inspected(
        project,
        address,
        *("--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"),
        *("--method", "tools/call", "--tool-name", "check_plan"),
        *("--tool-arg", "plan=steps: [{id: a, tool: nobody}]"),
    )

    assert isinstance(answer, dict)
    assert "nobody" in json.dumps(answer["structuredContent"])


def test_the_inspector_reads_the_language_page(project: Path, address: str) -> None:
    answer = inspected(
        project,
        address,
        *("--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"),
        *("--method", "resources/read", "--uri", "wavewright://language"),
    )

    assert "steps" in json.dumps(answer)
