"""Who answers where a planner has a question."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.terminal_session import Conversation, Thread
from tests.engine.unplanned_project import PLAN, REVIEW, write_job
from wavewright.engine.interfaces.cli.common.terminal import (
    CommandLineAsker,
    chosen_option,
    named_steps,
    question_lines,
)
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.planning.records import UserQuestion
from wavewright.planner.types import JsonObject

QUESTION = UserQuestion("Which notes?", ("all of them", "the newest"))
ASK: JsonObject = {"ask": {"question": "Which notes?", "options": ["all of them", "the newest"]}}


@pytest.fixture
def asking(
    project: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> FakeModelServer:
    """A planner that has one question."""
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    write_job(project)
    model_server.answer(ASK, PLAN, when=asked_for("plan"))
    model_server.answer(REVIEW, when=asked_for("review"))
    return model_server


@contextmanager
def at_the_terminal(folder: Path, *arguments: str) -> Generator[Conversation]:
    talk = Conversation(folder, *arguments)
    try:
        yield talk
    finally:
        talk.end()


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_person_at_the_terminal_is_asked(
    project: Path, asking: FakeModelServer, command: str
) -> None:
    with at_the_terminal(project, command, "plans/ranking.job.yaml") as talk:
        talk.read_until("2. the newest")
        talk.type("2\n")

        assert talk.read_to_the_end() == 0

    assert "the newest" in asking.requests[1].text


def test_an_empty_line_is_no_answer(project: Path, asking: FakeModelServer) -> None:
    with at_the_terminal(project, "plan", "plans/ranking.job.yaml") as talk:
        talk.read_until("2. the newest")
        talk.type("\n")

        assert talk.read_to_the_end() == 1
        assert "--answer TEXT" in talk.screen

    assert len(asking.requests) == 1


@pytest.mark.parametrize("thread", ["main", "other"])
def test_ctrl_c_at_the_question_ends_planning(
    project: Path, asking: FakeModelServer, thread: Thread
) -> None:
    with at_the_terminal(project, "plan", "plans/ranking.job.yaml") as talk:
        talk.read_until("\n> ")
        talk.interrupt(thread)

        assert talk.read_to_the_end() == 130
        assert "Traceback" not in talk.screen

    assert len(asking.requests) == 1


@pytest.mark.parametrize("thread", ["main", "other"])
def test_ctrl_c_at_the_question_keeps_the_run_for_later(
    wavewright: CommandLine, project: Path, asking: FakeModelServer, thread: Thread
) -> None:
    with at_the_terminal(project, "run", "plans/ranking.job.yaml") as talk:
        talk.read_until("\n> ")
        talk.interrupt(thread)

        assert talk.read_to_the_end() == 130
        assert "Traceback" not in talk.screen
        run = talk.screen.rpartition("wavewright resume ")[2].split()[0]

    assert wavewright("resume", run, "--answer", "all of them").code == 0
    # The question was journaled before it was put to anybody, and so is not paid for twice.
    assert ["Which notes?" in request.text for request in asking.requests] == [False, True, False]


def test_a_question_is_shown_with_its_options_and_without_what_steers_a_terminal() -> None:
    lines = question_lines(UserQuestion("Which\x1b[2J one?", ("a\nb", "c")))

    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("1", "all of them"),
        ("2", "the newest"),
        ("3", "3"),
        ("0", "0"),
        ("the newest", "the newest"),
    ],
)
def test_an_option_is_named_by_its_number_or_in_words(typed: str, answer: str) -> None:
    assert chosen_option(QUESTION, typed) == answer


def test_a_number_that_is_itself_an_option_is_meant_as_such() -> None:
    assert chosen_option(UserQuestion("How many?", ("5", "1")), "1") == "1"


@pytest.mark.anyio
async def test_given_answers_come_first_and_then_nobody_where_nobody_is_there() -> None:
    said: list[str] = []

    def free_terminal() -> AbstractContextManager[None]:
        raise AssertionError("nobody sits there")

    asker = CommandLineAsker(["2"], said.append, free_terminal, is_attended=False)

    assert await asker.ask(QUESTION) == "the newest"
    assert await asker.ask(QUESTION) is None
    assert said[0] == "the planner asks: Which notes? (--answer 'the newest')"
    assert said[1:] == question_lines(QUESTION)
    assert not list(asker.unused_lines())


@pytest.mark.parametrize(
    ("given", "named", "unused"),
    [
        ("zone=Duskwood", ["zone"], "--answer 'zone=Duskwood' was not used"),
        ("inner.zone=a=b", ["inner.zone"], "--answer 'inner.zone=a=b' was not used"),
        ("zone[0]=Duskwood", ["zone[0]"], "--answer 'zone[0]=Duskwood' was not used"),
        ("newest", [], "--answer 'newest' was not used; an answer to a step is STEP=TEXT"),
        ("a = b", [], "--answer 'a = b' was not used; an answer to a step is STEP=TEXT"),
    ],
)
def test_an_answer_names_a_step_or_an_item_of_one(
    given: str, named: list[str], unused: str
) -> None:
    def free_terminal() -> AbstractContextManager[None]:
        raise AssertionError("nobody sits there")

    asker = CommandLineAsker([given], print, free_terminal, is_attended=False)

    assert named_steps(asker) == named
    assert list(asker.unused_lines()) == [unused]
