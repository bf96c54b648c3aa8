"""What process 1 of a container owes its processes, where the container has no init."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def is_possible() -> bool:
    return (
        shutil.which("unshare") is not None
        and not subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode
    )


pytestmark = pytest.mark.skipif(not is_possible(), reason="no process may have its own process 1")

BEGUN = """
from wavewright.engine.process_one import work_below_process_one
work_below_process_one()
"""


def as_process_one(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*UNSHARE, "--kill-child", sys.executable, "-c", BEGUN + program],
        stdout=subprocess.PIPE,
        text=True,
    )


def process_one_of(unshare: subprocess.Popen[str]) -> int:
    return int(Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text())


def test_a_signal_ends_a_command_that_handles_none() -> None:
    with as_process_one("import time; print('begun', flush=True); time.sleep(60)") as unshare:
        assert unshare.stdout is not None
        unshare.stdout.readline()
        subprocess.run(["kill", "-TERM", str(process_one_of(unshare))], check=True)

    assert unshare.returncode == 128 + signal.SIGTERM


def test_a_command_ends_with_its_own_exit_code() -> None:
    with as_process_one("raise SystemExit(3)") as unshare:
        pass

    assert unshare.returncode == 3


def test_processes_whose_parent_has_ended_are_reaped() -> None:
    program = """
import pathlib, subprocess, time

def zombies():
    stats = [p.read_text() for p in pathlib.Path("/proc").glob("[0-9]*/stat")]
    return [stat for stat in stats if ") Z " in stat]

subprocess.run(["sh", "-c", "for n in 1 2 3 4 5 6; do sleep 0.0$n & done"], check=True)
until = time.monotonic() + 10
while "(sleep)" in str([p.read_text() for p in pathlib.Path("/proc").glob("[0-9]*/stat")]):
    assert time.monotonic() < until, zombies()
    time.sleep(0.02)
print(len(zombies()))
"""
    with as_process_one(program) as unshare:
        assert unshare.stdout is not None
        assert unshare.stdout.read() == "0\n"
