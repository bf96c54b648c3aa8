"""What `wavewright --help` lists."""

from __future__ import annotations

from collections import Counter

from typer.core import TyperGroup
from typer.main import get_command

from tests.engine.conftest import CommandLine
from wavewright.engine.interfaces.cli.app import COMMAND_SECTIONS, application

HIDDEN = {"fake-model"}
"""Tools for tests, which have a page of their own."""


def test_each_command_is_listed_in_one_section() -> None:
    listed = Counter(name for names in COMMAND_SECTIONS.values() for name in names)
    group = get_command(application())

    assert isinstance(group, TyperGroup)
    assert set(listed) == set(group.commands) - HIDDEN
    assert set(listed.values()) == {1}


def test_the_first_section_is_what_a_new_user_needs(wavewright: CommandLine) -> None:
    sections = wavewright("--help").out.split("\n\n")
    start = next(section for section in sections if section.startswith("Start:"))

    assert [line.split()[0] for line in start.splitlines()[1:]] == ["init", "do", "run", "doctor"]
