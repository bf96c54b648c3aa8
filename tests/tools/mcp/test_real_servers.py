"""MCP servers that others wrote, called through the sessions; and scenarios of the conformance
suite for clients.
"""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.repository.tree import ROOT
from tests.tools.calling import request
from tests.tools.mcp.installed_servers import FOLDER, PROGRAMS, require_installed_servers
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.injected import TextChunk
from wavewright.tools.mcp.sessions import McpSessions
from wavewright.tools.mcp.tools import McpServerSettings

Outcomes = Mapping[str, Json | ToolError]


def outcomes(
    servers: list[McpServerSettings], calls: Mapping[str, JsonObject], emitted: list[object]
) -> Outcomes:
    """Return what each call, written `server.tool`, gives; servers are called at once, each in the
    order given.
    """
    found = dict[str, Json | ToolError]()

    async def call_all(sessions: McpSessions, server: str) -> None:
        for name, params in calls.items():
            if name.partition(".")[0] == server:
                asked = replace(request(params), emit=emitted.append)
                try:
                    found[name] = await sessions.call(server, name.partition(".")[2], asked)
                except ToolError as error:
                    found[name] = error

    async def run() -> None:
        async with McpSessions(servers) as sessions, anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(call_all, sessions, server.name)

    anyio.run(run)
    return found


def python(name: str, module: str, *args: str) -> McpServerSettings:
    return McpServerSettings(name, command=sys.executable, args=("-m", module, *args))


@contextmanager
def site(folder: Path) -> Generator[str]:
    """Serve a folder on loopback."""
    handler = functools.partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so in the base class
        """Write nothing."""


def test_the_servers_in_python_answer(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "new.html").write_text("<html><body><main><p>Calm seas</p></main></body></html>")
    with site(tmp_path) as url:
        found = outcomes(
            [
                python("time", "mcp_server_time", "--local-timezone=UTC"),
                python("git", "mcp_server_git", "--repository", str(tmp_path)),
                python("fetch", "mcp_server_fetch", "--allow-private-ips", "--ignore-robots-txt"),
            ],
            {
                "time.convert_time": {
                    "source_timezone": "UTC",
                    "time": "12:00",
                    "target_timezone": "Asia/Tokyo",
                },
                "time.get_current_time": {"timezone": "Atlantis"},
                "git.git_status": {"repo_path": str(tmp_path)},
                "fetch.fetch": {"url": f"{url}/new.html"},
            },
            [],
        )

    assert "T21:00" in str(found["time.convert_time"])
    assert isinstance(found["time.get_current_time"], ToolError)
    assert "new.html" in str(found["git.git_status"])
    assert "Calm seas" in str(found["fetch.fetch"])


def test_the_servers_of_npm_and_of_an_older_library_answer(tmp_path: Path) -> None:
    require_installed_servers()
    (tmp_path / "a.txt").write_text("A lighthouse")
    emitted = list[object]()
    entity: JsonObject = {
        "name": "Ada",
        "entityType": "person",
        "observations": ["keeps the light"],
    }
    found = outcomes(
        [
            McpServerSettings("everything", command=str(PROGRAMS / "mcp-server-everything")),
            McpServerSettings(
                "filesystem", command=str(PROGRAMS / "mcp-server-filesystem"), args=(str(tmp_path),)
            ),
            McpServerSettings(
                "memory",
                command=str(PROGRAMS / "mcp-server-memory"),
                env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")},
            ),
            McpServerSettings(
                "sqlite",
                command=str(FOLDER / "sqlite" / "bin" / "mcp-server-sqlite"),
                args=("--db-path", str(tmp_path / "notes.db")),
            ),
        ],
        {
            "everything.get-structured-content": {"location": "Chicago"},
            "everything.get-tiny-image": {},
            "everything.get-resource-links": {"count": 2},
            "everything.trigger-long-running-operation": {"duration": 0.02, "steps": 2},
            "everything.get-sum": {"a": "one"},
            "everything.get-env": {},
            "filesystem.read_text_file": {"path": str(tmp_path / "a.txt")},
            "memory.create_entities": {"entities": [entity]},
            "memory.read_graph": {},
            "sqlite.write_query": {"query": "CREATE TABLE note (words TEXT)"},
            "sqlite.list_tables": {},
        },
        emitted,
    )

    weather = found["everything.get-structured-content"]
    assert isinstance(weather, dict)
    assert set(weather) == {"temperature", "conditions", "humidity"}
    assert part_types(found["everything.get-tiny-image"]) == ["image"]
    assert part_types(found["everything.get-resource-links"]) == ["link", "link"]
    assert [chunk.text[:6] for chunk in emitted if isinstance(chunk, TextChunk)] == [
        "1 of 2",
        "2 of 2",
    ]
    assert isinstance(found["everything.get-sum"], ToolError)
    assert "WAVEWRIGHT" not in str(found["everything.get-env"])
    assert "PYTEST" not in str(found["everything.get-env"])
    assert found["filesystem.read_text_file"] == {"content": "A lighthouse"}
    assert "keeps the light" in str(found["memory.read_graph"])
    assert "note" in str(found["sqlite.list_tables"])


def part_types(output: Json | ToolError) -> list[Json]:
    assert isinstance(output, dict)
    parts = output["parts"]
    assert isinstance(parts, list)
    return [part["type"] for part in parts if isinstance(part, dict)]


@pytest.mark.parametrize("scenario", ["tools_call", "sse-retry"])
def test_the_client_passes_a_scenario(scenario: str, tmp_path: Path) -> None:
    require_installed_servers()
    client = f"{sys.executable} -m tests.tools.mcp.conformance_client"
    suite: list[str | Path] = [
        PROGRAMS / "node",
        PROGRAMS / "conformance",
        "client",
        "--command",
        client,
    ]

    ended = subprocess.run(
        [*suite, "--scenario", scenario, "--output-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "OVERALL: PASSED" in ended.stdout + ended.stderr
