"""A project of the tests and its live page, served by a process as a user starts it."""

from __future__ import annotations

import re
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.prepared_command import PipedCommand

TOOLS = '''
import time
from pathlib import Path


def wait_for(file: str) -> str:
    """Wait until a file is there.

    Args:
        file: Its name.
    """
    while not Path(file).exists():
        time.sleep(0.02)
    return file


def post(text: str) -> str:
    """Post a text.

    Args:
        text: What is posted.
    """
    with Path("posted.txt").open("a") as posted:
        posted.write(f"{text}\\n")
    return text
'''
SETTINGS = "tools: [{path: tools/own.py, functions: {wait_for: {}, post: {effects: [write], needs_approval: true}}}]\n"
WAITING_PLAN = """
goal: Wait for two files
steps:
  - {id: first, tool: wait_for, params: {file: "one.txt"}}
  - {id: second, tool: wait_for, params: {file: "two.txt"}, depends_on: [first]}
result: ${steps.second}
"""
POSTING_PLAN = "steps: [{id: post, tool: post, params: {text: hello}}]\n"


def write_project(folder: Path) -> Path:
    """Write a project with a tool that waits and one that needs approval, and return its folder."""
    (folder / "tools").mkdir()
    (folder / "tools" / "own.py").write_text(TOOLS)
    (folder / "wavewright.yaml").write_text(SETTINGS)
    (folder / "waiting.plan.yaml").write_text(WAITING_PLAN)
    (folder / "posting.plan.yaml").write_text(POSTING_PLAN)
    return folder


@contextmanager
def command(folder: Path, *arguments: str) -> Generator[PipedCommand]:
    """Start a command in a project; it is ended with the block."""
    with PipedCommand(*arguments, folder=folder) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate()


@dataclass(frozen=True)
class ServedPage:
    """A live page that is served."""

    url: str
    """With the token."""

    @property
    def root(self) -> str:
        """The address without the token."""
        return self.url.partition("/?")[0]

    @property
    def bearer(self) -> Mapping[str, str]:
        """Header of a program that has the token."""
        return {"Authorization": f"Bearer {self.url.partition('token=')[2]}"}

    def client(self) -> httpx.Client:
        """Return a client that has the token."""
        return httpx.Client(base_url=self.root, headers=self.bearer)


@contextmanager
def served_page(folder: Path) -> Generator[ServedPage]:
    """Serve the live page of a project."""
    with command(folder, "view") as process:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + process.stderr.read()
        yield ServedPage(found[0])
