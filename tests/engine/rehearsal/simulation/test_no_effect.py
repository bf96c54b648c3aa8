"""A simulation has no effect: no tool is called, nothing is sent, nothing is written."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.support.prepared_command import run_prepared_python

TOOLS = '''
import socket
import subprocess
import sys
from pathlib import Path
from typing import Annotated, TypedDict

from pydantic import Field


class Parcel(TypedDict):
    number: Annotated[str, Field(pattern=r"^[A-Z]{2}-[0-9]{7}$")]
    weight: float


def weigh(name: str) -> Parcel:
    """Weigh a parcel with another program."""
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return {"number": "AB-1234567", "weight": 1.5}


def write(text: str) -> str:
    """Write a file."""
    Path("written.txt").write_text(text)
    return text


def send(text: str) -> str:
    """Send a text."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(text.encode(), ("127.0.0.1", 9))
    return text
'''

SETTINGS = """\
tools:
  - path: tools.py
    functions:
      weigh: {}
      write: {effects: [write]}
      send: {effects: [egress], needs_approval: true}
"""

PLAN = """\
inputs: {names: [a, b]}
steps:
  - {id: parcels, tool: weigh, for_each: "${inputs.names}", params: {name: "${item}"}}
  - {id: file, tool: write, params: {text: "${string(steps.parcels.size())}"}}
  - {id: letter, tool: send, when: "steps.file != ''", params: {text: "${steps.file}"}}
gates:
  - {id: heavy, on: parcels, check: output.weight > 1.0, severity: warn}
"""


@dataclass(frozen=True)
class Guarded:
    """What a command did under the guard."""

    code: int
    out: str
    noted: tuple[str, ...]


@pytest.fixture
def post(tmp_path: Path) -> Path:
    """A project whose tools write, send and start programs."""
    folder = tmp_path / "post"
    folder.mkdir()
    for name, text in {"tools.py": TOOLS, "wavewright.yaml": SETTINGS, "plan.yaml": PLAN}.items():
        (folder / name).write_text(text)
    return folder


def run_guarded(folder: Path, *arguments: str) -> Guarded:
    temporary = folder.parent / "temporary"
    temporary.mkdir()
    notes = temporary / "notes.json"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("WAVEWRIGHT_")
    }
    environment |= {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(Path(__file__).with_name("guarded_command.py")), str(notes), *arguments]
    done = run_prepared_python(*command, folder=folder, environment=environment)
    assert notes.exists(), done.stderr
    return Guarded(
        done.returncode, done.stdout, tuple(cast("list[str]", json.loads(notes.read_text())))
    )


def test_a_simulation_opens_no_connection_starts_no_program_and_writes_no_file(post: Path) -> None:
    before = sorted(post.rglob("*"))

    done = run_guarded(post, "dry-run", "plan.yaml", "--simulate")

    assert (done.code, done.noted) == (0, ())
    assert "letter: send (egress)" in done.out
    assert sorted(post.rglob("*")) == before


def test_the_guard_notes_what_the_real_tools_do(post: Path) -> None:
    done = run_guarded(post, "run", "plan.yaml", "--approve", "always", "--output", "out")

    kinds = {note.partition(" ")[0] for note in done.noted}
    assert {"open", "subprocess.Popen", "socket.sendto"} <= kinds
