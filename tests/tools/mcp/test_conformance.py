"""Scenarios of the official conformance suite for clients."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.tree import ROOT
from tests.tools.mcp.installed_servers import PROGRAMS, require_installed_servers


@pytest.mark.parametrize("scenario", ["tools_call", "sse-retry"])
def test_the_client_passes_a_scenario(scenario: str, tmp_path: Path) -> None:
    require_installed_servers()
    client = f"{sys.executable} -m tests.tools.mcp.conformance_client"
    suite: list[str | Path] = [PROGRAMS / "node", PROGRAMS / "conformance", "client", "--command", client]

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
