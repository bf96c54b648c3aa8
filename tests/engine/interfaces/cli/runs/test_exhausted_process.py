"""A tool that takes what its process needs fails, as any other, and is described as any other."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

DESCRIPTORS = 256

TOOLS = '''
def leak() -> str:
    """Open files until there are no descriptors left."""
    files = []
    while True:
        files.append(open("/dev/null"))
'''


def test_a_tool_that_uses_up_the_file_descriptors_fails_with_that_reason(tmp_path: Path) -> None:
    (tmp_path / "taps.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text("tools: [{path: taps.py, functions: {leak: {}}}]\n")
    (tmp_path / "p.yaml").write_text("version: 1\nsteps: [{id: a, tool: leak}]\n")

    ran = subprocess.run(
        [sys.executable, "-m", "wavewright.engine.main", "run", "p.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)),
    )

    assert ran.returncode == 1, ran.stderr
    assert "a: OSError: [Errno 24] Too many open files: '/dev/null'" in ran.stdout
    assert 'taps.py:6 in leak: files.append(open("/dev/null"))' in ran.stdout
