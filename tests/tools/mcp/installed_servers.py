"""MCP servers that others wrote, where `.ci/mcp-servers` has installed them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(sys.prefix) / "mcp"
PROGRAMS = FOLDER / "node_modules" / ".bin"


def require_installed_servers() -> None:
    """Skip the test where the servers are not installed; with CI=true fail it."""
    if (FOLDER / "installed-from").exists():
        return
    reason = "no MCP servers from npm: run .ci/mcp-servers (make test does)"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and with CI=true no test is skipped")
    pytest.skip(reason)
