"""Standard streams: what tools print there, and commands whose caller has closed some."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.prepared_command import PreparedCommand, run_prepared

SECRET = "k-3f9a77c1d2e84b56"  # noqa: S105
PLAN = """
version: 1
steps: [{id: a, tool: show, params: {way: %s}}]
result: ${steps.a}
"""
TOOLS = '''
import logging
import os
import subprocess
import sys

KEY = "SHOP_API_KEY"


def show(way: str) -> str:
    """Print the key in one of many ways."""
    key = os.environ[KEY]
    match way:
        case "print":
            print(f"it is {key}!")
        case "error":
            print(f"it is {key}!", file=sys.stderr)
        case "parts":
            sys.stdout.write(f"it is {key[:6]}")
            sys.stdout.flush()
            sys.stdout.write(f"{key[6:]}!\\\\n")
        case "log":
            logging.getLogger("shop").warning("it is %s!", key)
        case "child":
            subprocess.run(["sh", "-c", f"echo it is ${KEY}!"], check=True)
        case "descriptor":
            os.write(1, f"it is {key}!\\\\n".encode())
        case "end":
            print(f"it is {key}!", flush=True)
            os._exit(9)
        case _:
            pass
    return way
'''.replace("\\\\", "\\")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text("tools: [{path: shop.py}]\n")
    (tmp_path / "plan.yaml").write_text(PLAN % "nothing")
    return tmp_path


CLOSED = {
    "<&-": (0,),
    ">&-": (1,),
    "2>&-": (2,),
    ">&- 2>&-": (1, 2),
    "<&- >&- 2>&-": (0, 1, 2),
}
"""Which standard streams a shell closes, by how that is written."""


def command(
    project: Path, *arguments: str, closed: Sequence[int] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command, with standard streams closed."""
    return run_prepared(*arguments, folder=project, environment=environment(), closed=closed)


def environment() -> dict[str, str]:
    return {**os.environ, "SHOP_API_KEY": SECRET}


def new_command(project: Path, *arguments: str, closed: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a new interpreter, with standard streams closed by the shell."""
    line = f'exec "$0" -m wavewright.engine.main "$@" {closed}'
    return subprocess.run(
        ["sh", "-c", line, sys.executable, *arguments],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("way", ["print", "error", "parts", "log", "child", "descriptor", "end"])
def test_a_key_that_a_tool_prints_is_redacted(project: Path, way: str) -> None:
    (project / "plan.yaml").write_text(PLAN % way)

    answer = command(project, "run", "plan.yaml")

    assert "it is [redacted]!" in answer.stderr
    assert SECRET not in answer.stdout + answer.stderr


def test_a_key_that_a_tool_prints_on_a_terminal_is_redacted(project: Path) -> None:
    (project / "plan.yaml").write_text(PLAN % "print")

    shown = on_terminal(project, ["run", "plan.yaml"])

    assert "it is [redacted]!" in shown
    assert SECRET not in shown


def on_terminal(project: Path, arguments: Sequence[str]) -> str:
    """Return what a command writes to a terminal."""
    ours, theirs = pty.openpty()
    running = PreparedCommand(arguments, project, {**environment(), "TERM": "xterm"}, theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 1 << 16):
            shown += part
    except OSError:
        # So Linux says that nobody has the other end open any more.
        pass
    running.wait()
    os.close(ours)
    return shown.decode(errors="replace")


@pytest.mark.parametrize("closed", CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "plan.yaml"), 0),
        (("run", "plan.yaml", "--json"), 0),
        (("check", "plan.yaml"), 0),
        (("run", "absent.yaml"), 2),
    ],
    ids=["run", "json", "check", "refused"],
)
def test_a_command_with_closed_streams_ends_as_with_open_ones(
    project: Path, arguments: tuple[str, ...], code: int, closed: tuple[int, ...]
) -> None:
    assert_ended(command(project, *arguments, closed=closed), code)


@pytest.mark.parametrize("closed", CLOSED)
def test_an_interpreter_that_starts_with_closed_streams_answers(project: Path, closed: str) -> None:
    assert_ended(new_command(project, "--version", closed=closed), 0)


def assert_ended(answer: subprocess.CompletedProcess[str], code: int) -> None:
    assert answer.returncode == code
    assert "defect" not in answer.stderr
    assert "Traceback" not in answer.stderr


def test_what_is_written_to_a_closed_stream_is_in_no_file(project: Path) -> None:
    before = {file for file in project.rglob("*") if file.is_file()}

    answer = new_command(project, "run", "plan.yaml", closed="<&- >&- 2>&-")

    assert_ended(answer, 0)
    written = [file for file in project.rglob("*") if file.is_file() and file not in before]
    assert not any(b"wave 1: a" in file.read_bytes() for file in written)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "plan.yaml"), 3),
        (("check", "plan.yaml"), 3),
        (("--version",), 3),
        (("run", "absent.yaml"), 2),
        (("nonsense",), 2),
    ],
    ids=["run", "check", "version", "refused", "misuse"],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_command_that_can_write_neither_outcome_nor_errors_says_so_by_its_exit_code(
    project: Path, arguments: tuple[str, ...], code: int
) -> None:
    with Path("/dev/full").open("w") as full:
        running = PreparedCommand(arguments, project, environment(), full.fileno())

    assert running.wait() == code
