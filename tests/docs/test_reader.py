"""What counts as the same output, and what is a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, Command, commands
from tests.docs.reader import Reader, agrees, brought_up_to_date


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        pytest.param("done in 0.12 s\n", "done in 3.4 s\n", id="seconds"),
        pytest.param("at 2024-01-02T03:04:05Z\n", "at 2026-11-21T23:18:55.123Z\n", id="instant"),
        pytest.param("plan sha256:0a1b\n", "plan sha256:ffff00\n", id="hash"),
        pytest.param("first\n...\nlast\n", "first\nany\nlines\nlast\n", id="left out"),
        pytest.param("index\nprices\n", "prices\nindex\n", id="order of lines"),
        pytest.param("one   \n", "one\n\n", id="space at the end"),
    ],
)
def test_what_differs_from_run_to_run_makes_no_difference(shown: str, printed: str) -> None:
    assert agrees(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        pytest.param("2 steps\n", "3 steps\n", id="a number"),
        pytest.param("first\n...\nlast\n", "first\nany\n", id="the end is missing"),
        pytest.param("as of 2010-03-01\n", "as of 2024-03-01\n", id="a date"),
        pytest.param("first\n", "first\nsecond\n", id="a line too many"),
    ],
)
def test_everything_else_does(shown: str, printed: str) -> None:
    assert not agrees(shown, printed)


def test_a_command_goes_on_after_a_backslash_and_ends_where_output_begins() -> None:
    block = Block(
        "console", None, "$ wavewright run \\\n    job.yaml\ndone\n$ echo $?\n0\n", line=10
    )

    assert commands(block) == [
        Command(11, "wavewright run job.yaml", "done\n"),
        Command(14, "echo $?", "0\n"),
    ]


def test_an_extract_stays_an_extract_when_it_is_brought_up_to_date() -> None:
    shown = "first: 1 step\n...\nlast: 2 waves\n"
    printed = "first: 3 steps\nbetween\nlast: 2 waves\n"

    assert brought_up_to_date(shown, printed) == "first: 3 steps\n...\nlast: 2 waves\n"
    assert brought_up_to_date("first\n", printed) == printed


def test_what_a_model_cost_differs_from_run_to_run() -> None:
    assert agrees("2 calls, 4,548 tokens, 0.0012 USD\n", "2 calls, 912 tokens, under 0.0001 USD\n")
    assert not agrees("2 calls, 4,548 tokens, price unknown\n", "2 calls, 912 tokens, 0.0012 USD\n")


def test_a_reader_sets_and_forgets_variables(tmp_path: Path) -> None:
    reader = Reader.in_folder(tmp_path)

    reader.type("export COLOUR=green")
    before = reader.type("echo $COLOUR")
    reader.type("unset COLOUR")

    assert before == "green\n"
    assert reader.type("echo $COLOUR") == "\n"


def test_a_server_listens_elsewhere_and_is_told_of_as_the_page_names_it(tmp_path: Path) -> None:
    reader = Reader.in_folder(tmp_path)
    reader.save("answers.yaml", "answers: [{text: hello}]\n")
    reader.type("wavewright fake-model --port 8765 --script answers.yaml &")
    try:
        (server,) = reader.servers
        reader.type("export ADDRESS=http://127.0.0.1:8765/v1")

        assert server.port != "8765"
        assert reader.environment["ADDRESS"] == f"http://127.0.0.1:{server.port}/v1"
        assert reader.type("echo $ADDRESS") == "http://127.0.0.1:8765/v1\n"
    finally:
        reader.leave()
