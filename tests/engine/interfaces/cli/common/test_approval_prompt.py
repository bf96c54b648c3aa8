"""What needs a person's word, where nobody and where somebody can be asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.run_in_process import run_request
from tests.engine.terminal_session import Conversation, Thread
from wavewright.config.settings import load_settings
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.decisions.approvals import APPROVAL_USED
from wavewright.engine.run.ports import ApprovalRequest, withhold_package
from wavewright.executor.store.journal import MemoryJournal


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


@pytest.mark.parametrize("thread", ["main", "other"])
def test_ctrl_c_at_the_question_ends_the_run_and_says_how_to_resume_it(
    wavewright: CommandLine, posting_project: Path, conversation: Conversation, thread: Thread
) -> None:
    conversation.read_until("[y/N]")

    conversation.interrupt(thread)
    code = conversation.read_to_the_end()
    found = re.search(r"continue with: wavewright resume (\S+)", conversation.screen)

    assert code == 130
    assert found is not None
    assert "Traceback" not in conversation.screen
    assert not (posting_project / "posted.txt").exists()
    assert wavewright("resume", found[1], "--approve", "always").code == 0
    assert (posting_project / "posted.txt").read_text() == "hello"


@pytest.mark.parametrize("command", ["check", "dry-run", "run"])
@pytest.mark.parametrize(
    ("step", "what"),
    [
        (
            "{id: post, tool: post, params: {text: hello}}",
            "'post' calls 'post', which needs approval",
        ),
        ("{id: who, tool: ask_person, params: {question: Who?}}", "'who' asks a person"),
    ],
)
def test_a_plan_that_needs_a_person_is_refused_where_nobody_can_be_asked(
    wavewright: CommandLine, posting_project: Path, command: str, step: str, what: str
) -> None:
    (posting_project / "person.yaml").write_text(f"steps: [{step}]\n")

    refused = [
        wavewright(command, "person.yaml", "--approve", choice) for choice in ("never", "ask")
    ]

    for answer in refused:
        assert answer.code == 1
        assert f"error[E602]: step {what}, and nobody can be asked here" in answer.out + answer.err
    assert not (posting_project / "posted.txt").exists()
    assert wavewright(command, "person.yaml", "--approve", "wait").code == (
        130 if command == "run" else 0
    )


def test_an_answer_to_a_step_that_does_not_ask_is_refused(
    wavewright: CommandLine, posting_project: Path
) -> None:
    (posting_project / "asking.yaml").write_text(
        "steps: [{id: who, tool: ask_person, params: {question: Who?, default: nobody}}]\n"
    )

    misspelled = wavewright("run", "asking.yaml", "--answer", "whom=Ada")
    answered = wavewright("run", "asking.yaml", "--answer", "who=Ada", "--answer", "Eve")

    # Without a word the step would have taken its default.
    assert misspelled.code == 1
    assert "error[E301]: an answer is given to 'whom', and no step of that name" in misspelled.err
    assert "did you mean 'who'?" in misspelled.err
    assert (answered.code, "Ada" in answered.out) == (0, True)
    assert "--answer 'Eve' was not used; an answer to a step is STEP=TEXT" in answered.err


def test_an_answer_to_a_step_that_does_not_ask_is_refused_when_a_run_is_resumed(
    wavewright: CommandLine, posting_project: Path
) -> None:
    (posting_project / "asking.yaml").write_text(
        "steps:\n"
        "  - {id: who, tool: ask_person, params: {question: Who?}}\n"
        '  - {id: how, tool: ask_person, params: {question: "How, ${steps.who}?", default: slowly}}\n'
    )
    waiting = wavewright("run", "asking.yaml", "--approve", "wait")

    misspelled = wavewright("resume", "--answer", "who=Ada", "--answer", "hwo=fast")
    answered = wavewright("resume", "--answer", "who=Ada", "--answer", "how=fast")

    assert "waits for the answer" in waiting.err
    assert misspelled.code == 1
    assert "error[E301]: an answer is given to 'hwo', and no step of that name" in misspelled.err
    assert (answered.code, "slowly" in answered.err) == (0, False)


def test_an_answer_to_nobody_does_not_end_a_job_whose_targets_wait(
    wavewright: CommandLine, posting_project: Path
) -> None:
    (posting_project / "asking.yaml").write_text(
        "name: asking\ngoal: Ask about ${inputs.target}\n"
        "available_tools: [{name: ask_person}]\n"
        "inputs_schema: {type: object, properties: {target: {type: string}}, required: [target]}\n"
        "targets: {}\n"
        "plan: {steps: [{id: who, tool: ask_person, params: {question: Who?}}]}\n"
    )
    (posting_project / "asking.job.yaml").write_text(
        "goal_template: asking.yaml\ntargets: {first: [here]}\n"
    )
    waiting = wavewright("run", "asking.job.yaml", "--approve", "wait")
    run = waiting.err.rpartition("wavewright resume ")[2].split()[0]

    wavewright("resume", run, "--answer", "hwo=Ada")
    answered = wavewright("resume", run, "--answer", "who=Ada")

    assert (answered.code, "target here: achieved" in answered.err) == (0, True)


def test_what_is_checked_without_a_choice_may_need_a_person(
    wavewright: CommandLine, posting_project: Path
) -> None:
    assert [wavewright(command, "post.yaml").code for command in ("check", "dry-run")] == [0, 0]
    assert "--approve does not go with --simulate" in (
        wavewright("dry-run", "post.yaml", "--simulate", "--approve", "never").err
    )


@dataclass
class Stopping:
    """Says yes; the run is stopped while that is waited for, unless it was before."""

    token: CancellationToken

    async def approve(self, request: ApprovalRequest) -> bool:
        del request
        self.token.cancel()
        await anyio.lowlevel.checkpoint()
        return True


@pytest.mark.anyio
@pytest.mark.parametrize("is_stopped_before", [False, True])
async def test_a_run_that_is_stopped_waits_for_no_approval_and_takes_none(
    posting_project: Path, *, is_stopped_before: bool
) -> None:
    journal, token = MemoryJournal(), CancellationToken()
    if is_stopped_before:
        token.cancel()

    done = await run_request(
        RunRequest(job_file=posting_project / "post.yaml"),
        settings=load_settings(posting_project, {}),
        journal=journal,
        approver=Stopping(token),
        cancellation=token,
        publish=withhold_package,
    )

    assert done.context.state.is_interrupted
    assert [noted for noted in done.context.state.notes if noted.topic == APPROVAL_USED] == []


def test_where_nobody_can_be_asked_the_answer_is_no_and_the_option_is_named(
    wavewright: CommandLine, posting_project: Path
) -> None:
    answer = wavewright("run", "post.yaml")

    assert answer.code == 1
    assert "error[E602]: step 'post' calls 'post', which needs approval" in answer.err
    assert "`--approve always`" in answer.err
    assert not (posting_project / "posted.txt").exists()
