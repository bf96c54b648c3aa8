"""A program that asks for the project's tools again and again imports a file once, and again when it has changed."""

from __future__ import annotations

import os
from pathlib import Path

from wavewright.planner.types import Json
from wavewright.tools.functions.user_tools import load_user_tools

MODULE = "CALLS = []\n\ndef count() -> int:\n    '''Count.'''\n    CALLS.append(1)\n    return len(CALLS)\n"
ENTRIES: list[Json] = [{"path": "mine.py"}]


def test_a_file_that_has_not_changed_brings_the_same_tools(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)

    first, second = (load_user_tools(ENTRIES, tmp_path) for _ in range(2))

    assert all(one is other for one, other in zip(first, second, strict=True))


def test_a_file_that_has_changed_is_imported_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MODULE)
    before = load_user_tools(ENTRIES, tmp_path)
    file.write_text(MODULE.replace("count", "tally"))
    os.utime(file, ns=(1, 1))

    after = load_user_tools(ENTRIES, tmp_path)

    assert [tool.signature.name for tool in (*before, *after)] == ["count", "tally"]


def test_other_options_make_other_tools_of_the_same_module(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    plain = load_user_tools(ENTRIES, tmp_path)

    [named] = load_user_tools([{"path": "mine.py", "functions": {"count": {"name": "tally"}}}], tmp_path)

    assert plain[0].signature.name == "count"
    assert named.signature.name == "tally"
