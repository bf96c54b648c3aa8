"""The settings of one MCP server with the values of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.config.mcp_servers import McpServerSection
from wavewright.tools.mcp.settings import McpServerError, server_settings


def test_references_to_variables_are_replaced_and_the_folder_is_the_projects(tmp_path: Path) -> None:
    section = McpServerSection(command="${env:BIN}/serve", args=["a-${env:X}-b"], env={"K": "${env:KEY}"})

    server = server_settings("one", section, tmp_path, {"BIN": "/bin", "X": "x", "KEY": "k"})

    assert (server.command, server.args, server.env) == ("/bin/serve", ("a-x-b",), {"K": "k"})
    assert server.cwd == tmp_path


def test_a_variable_that_is_not_set_is_named_with_its_server(tmp_path: Path) -> None:
    section = McpServerSection(url="https://x.example/mcp", headers={"A": "Bearer ${env:MISSING}"})

    with pytest.raises(McpServerError, match="'tracker' needs the environment variable MISSING"):
        server_settings("tracker", section, tmp_path, {})
