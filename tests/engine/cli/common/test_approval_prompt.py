"""What needs a person's word, where nobody and where somebody can be asked."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.terminal_session import Conversation


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


@pytest.fixture
def conversation(posting_project: Path) -> Iterator[Conversation]:
    talk = Conversation(posting_project, "run", "post.yaml")
    yield talk
    talk.end()


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
