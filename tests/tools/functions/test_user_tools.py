"""A project's own functions: found by the settings, imported without shadowing anything."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.tools.calling import call
from wavewright.planner.types import Json
from wavewright.tools import Tool, ToolDefinitionError, load_user_tools

MINE = '''
from json import dumps
from beside import GREETING

def greet(name: str) -> str:
    """Greet somebody.

    Args:
        name: Whom to greet.
    """
    return f"{GREETING} {name}"

def send(to: str) -> str:
    return dumps(to)

def _hidden(a: str) -> str:
    return a
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    (folder / "beside.py").write_text('GREETING = "Hello"\n')
    return tmp_path


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [tool.signature.name for tool in tools]


@pytest.mark.parametrize("entry", ["tools/mine.py", {"path": "tools/mine.py"}])
def test_every_public_function_of_a_file_becomes_a_tool(entry: Json, project: Path) -> None:
    tools = load_user_tools([entry], project)

    assert names(tools) == ["greet", "send"]
    assert call(tools[0], name="Ada") == "Hello Ada"


def test_settings_choose_functions_and_say_what_they_do(project: Path) -> None:
    entry: Json = {
        "path": "tools/mine.py",
        "functions": {
            "send": {"effects": ["write"], "timeout": "30s", "retry": {"attempts": 2}},
            "greet": {"name": "hello", "tags": ["polite"]},
        },
    }

    send, hello = load_user_tools([entry], project)

    assert send.signature.writes
    assert send.signature.timeout == 30
    assert send.signature.retry.attempts == 2
    assert hello.signature.name == "hello"
    assert hello.signature.tags == {"polite"}


def test_a_folder_brings_the_tools_of_each_file(project: Path) -> None:
    (project / "tools" / "beside.py").write_text(
        'GREETING = "Hi"\ndef wave() -> str:\n    return "wave"\n'
    )
    (project / "tools" / "_private.py").write_text("def secret() -> str:\n    return ''\n")

    assert names(load_user_tools(["tools/"], project)) == ["wave", "greet", "send"]


def test_a_dotted_name_is_looked_for_below_the_project(project: Path) -> None:
    package = project / "pack_of_mine_41"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "calls.py").write_text("def ring() -> int:\n    return 3\n")

    tools = load_user_tools(["pack_of_mine_41.calls"], project)

    assert call(tools[0]) == 3


def test_what_a_module_offers_in_all_is_what_counts(project: Path) -> None:
    (project / "tools" / "mine.py").write_text("from json import loads\n__all__ = ['loads']\n")

    with pytest.raises(ToolDefinitionError, match="tool 'loads'"):
        load_user_tools(["tools/mine.py"], project)


def test_a_users_file_shadows_no_library(project: Path) -> None:
    (project / "tools" / "json.py").write_text("def loads(text: str) -> str:\n    return 'mine'\n")
    path_before = list(sys.path)

    tools = load_user_tools(["tools/json.py", "tools/mine.py"], project)

    assert names(tools) == ["loads", "greet", "send"]
    assert sys.modules["json"] is json
    assert sys.path == path_before
    assert call(tools[2], to="x") == '"x"'


@pytest.mark.parametrize(
    ("source", "message", "place"),
    [
        pytest.param("def f(:\n", "SyntaxError", r"mine\.py:1$", id="syntax"),
        pytest.param(
            "x = 1\nraise ValueError('no luck')\n",
            "ValueError: no luck",
            r"mine\.py:2$",
            id="raises",
        ),
        pytest.param(
            "\n\nimport nothing_of_that_name\n", "ModuleNotFoundError", r"mine\.py:3$", id="import"
        ),
        pytest.param("import sys\nsys.exit(3)\n", "SystemExit: 3", r"mine\.py:2$", id="exits"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_its_line(
    source: str, message: str, place: str, project: Path
) -> None:
    (project / "tools" / "mine.py").write_text(source)

    with pytest.raises(ToolDefinitionError, match=message) as refused:
        load_user_tools(["tools/mine.py"], project)

    assert re.search(place, refused.value.hint or "")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param(
            "tools/missing.py",
            r"'tools\[0\]': there is no file or folder 'tools/missing.py'",
            id="file",
        ),
        pytest.param("no_such_module_77", "there is no module 'no_such_module_77'", id="module"),
        pytest.param({"pth": "x"}, r"'tools\[0\]\.pth': 'pth' is no field", id="unknown field"),
        pytest.param({}, r"'tools\[0\]' has neither", id="neither"),
        pytest.param({"path": "x", "module": "y"}, r"'tools\[0\]' has both", id="both"),
        pytest.param(7, r"'tools\[0\]'", id="number"),
        pytest.param(
            {"path": "tools/mine.py", "functions": ["gret"]},
            "has no function 'gret'",
            id="function",
        ),
        pytest.param(
            {"path": "tools/mine.py", "functions": {"greet": {"effects": ["burn"]}}},
            r"functions.*effects",
            id="effect",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_is_named_with_its_mend(
    entry: Json, message: str, project: Path
) -> None:
    with pytest.raises(ToolDefinitionError, match=message) as refused:
        load_user_tools([entry], project)

    assert refused.value.hint


def test_a_misspelt_option_is_named_with_the_one_that_is_meant(project: Path) -> None:
    entry: Json = {"path": "tools/mine.py", "functions": {"greet": {"efects": ["write"]}}}

    with pytest.raises(ToolDefinitionError, match="'efects'") as refused:
        load_user_tools([entry], project)

    assert refused.value.hint == "did you mean 'effects'?"


def test_the_shape_of_an_entry_is_no_hint_for_a_fault_of_one_option(project: Path) -> None:
    entry: Json = {"path": "tools/mine.py", "functions": {"greet": {"untrusted": True}}}

    with pytest.raises(ToolDefinitionError, match="should be a list, and is true") as refused:
        load_user_tools([entry], project)

    assert "functions: [" not in (refused.value.hint or "")


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

    [named] = load_user_tools(
        [{"path": "mine.py", "functions": {"count": {"name": "tally"}}}], tmp_path
    )

    assert plain[0].signature.name == "count"
    assert named.signature.name == "tally"
