"""What needs a person's word, where nobody and where somebody can be asked."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine


@pytest.fixture
def posting_project(project: Path) -> Path:
    """A project with a tool that may be called only with approval."""
    (project / "tools" / "post.py").write_text(
        "from pathlib import Path\n\n\n"
        'def post(text: str) -> str:\n    """Post a text."""\n'
        '    Path("posted.txt").write_text(text)\n    return text\n'
    )
    (project / "wavewright.yaml").write_text(
        "tools: [{path: tools/post.py, functions: {post: {effects: [write], needs_approval: true}}}]\n"
    )
    (project / "post.yaml").write_text("steps: [{id: post, tool: post, params: {text: hello}}]\n")
    return project


class Conversation:
    """A run on a terminal of its own, whose screen is read and whose keys are typed."""

    def __init__(self, folder: Path) -> None:
        self.master, slave = pty.openpty()
        self.running = subprocess.Popen(
            [sys.executable, "-m", "wavewright.engine.main", "run", "post.yaml"],
            cwd=folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""

    def read_until(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.screen:
            assert time.monotonic() < deadline, self.screen
            self._read()

    def read_to_the_end(self) -> int:
        deadline = time.monotonic() + 30
        while self._read():
            assert time.monotonic() < deadline, self.screen
        return self.running.wait(timeout=30)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def _read(self) -> bool:
        if not select.select([self.master], [], [], 0.1)[0]:
            return True
        try:
            found = os.read(self.master, 65536)
        except OSError:  # the program has ended and its terminal is closed
            return False
        self.screen += found.decode()
        return bool(found)


@pytest.fixture
def conversation(posting_project: Path) -> Iterator[Conversation]:
    talk = Conversation(posting_project)
    yield talk
    if talk.running.poll() is None:
        talk.running.kill()
    talk.running.wait()
    os.close(talk.master)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_at_the_terminal_is_asked(
    posting_project: Path, conversation: Conversation, answer: str, code: int
) -> None:
    conversation.read_until("[y/N]")
    assert "step 'post' calls 'post', which needs approval" in conversation.screen

    conversation.type(answer)

    assert conversation.read_to_the_end() == code
    assert (posting_project / "posted.txt").exists() == (code == 0)


def test_ctrl_c_at_the_question_ends_the_run_and_says_how_to_resume_it(
    wavewright: CommandLine, posting_project: Path, conversation: Conversation
) -> None:
    conversation.read_until("[y/N]")

    conversation.running.send_signal(signal.SIGINT)
    code = conversation.read_to_the_end()
    found = re.search(r"go on with: wavewright resume (\S+)", conversation.screen)

    assert code == 130
    assert found is not None
    assert "Traceback" not in conversation.screen
    assert not (posting_project / "posted.txt").exists()
    assert wavewright("resume", found[1], "--approve", "always").code == 0
    assert (posting_project / "posted.txt").read_text() == "hello"


def test_where_nobody_can_be_asked_the_answer_is_no_and_the_option_is_named(
    wavewright: CommandLine, posting_project: Path
) -> None:
    answer = wavewright("run", "post.yaml")

    assert answer.code == 1
    assert "nobody can be asked here; --approve always says yes" in answer.err
    assert not (posting_project / "posted.txt").exists()
