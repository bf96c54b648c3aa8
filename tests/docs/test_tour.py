"""The recording of the README's tour: the commands that stand there, and what they print."""

from __future__ import annotations

import re

from docs.record_tour import CAST, PICTURE, README, draw, printed_lines, shown_lines
from tests.docs.blocks import blocks, commands
from tests.docs.reader import agrees

RECORDED = CAST.read_text(encoding="utf-8")
TYPED = [
    command
    for block in blocks(README.read_text(encoding="utf-8"))
    if block.language == "console"
    for command in commands(block)
]


def recorded_outputs() -> dict[str, str]:
    """Return what each command of the recording printed, by the command as it was typed."""
    outputs: dict[str, list[str]] = {}
    command = ""
    for line in shown_lines(RECORDED):
        if line.startswith("$ "):
            command = line.removeprefix("$ ")
            outputs[command] = []
        else:
            outputs[command].append(line)
    return {typed: "\n".join(lines) for typed, lines in outputs.items()}


def test_the_tour_is_recorded_from_the_commands_of_the_readme() -> None:
    assert list(recorded_outputs()) == [command.text for command in TYPED]


def test_the_tour_shows_what_the_readme_shows() -> None:
    outputs = recorded_outputs()
    outdated = [
        command.text
        for command in TYPED
        if command.shown.strip() and not agrees(command.shown, outputs[command.text])
    ]

    assert outdated == [], "renew it with `make tour`"


def test_the_picture_plays_the_recording() -> None:
    assert PICTURE.read_text(encoding="utf-8") == draw(RECORDED)


def test_the_picture_fetches_nothing() -> None:
    picture = PICTURE.read_text(encoding="utf-8")

    assert set(re.findall(r"https?://[^\"'\s)<]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert "<script" not in picture


def test_the_tour_takes_about_two_minutes() -> None:
    assert 60 <= printed_lines(RECORDED)[-1][-1].at <= 150


def test_no_path_of_the_machine_is_in_the_recording() -> None:
    assert re.findall(r"/(?:tmp|home|root|work|usr)/", RECORDED) == []
