"""Templates of prompts: found in the user's folders first, strict, and closed to what they are
given.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from wavewright.prompts import PromptError, Prompts, data_block, one_line, prompt_json
from wavewright.prompts.environments import PromptEnvironment


def folder(path: Path, **templates: str) -> Path:
    for name, text in templates.items():
        file = path / f"{name.replace('__', '/')}.md.j2"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return path


def fault(prompts: Prompts, name: str, /, **values: object) -> PromptError:
    with pytest.raises(PromptError) as caught:
        prompts.render(name, **values)
    return caught.value


def test_a_template_of_the_project_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    own = folder(tmp_path, planner__repair="Once more, please: {{ diagnostics }}")

    shown = Prompts([own]).render("planner/repair", diagnostics="E301", more=0, is_truncated=False)

    assert shown == "Once more, please: E301"
    assert Prompts([own]).file_of("planner/repair") == own / "planner" / "repair.md.j2"


def test_the_first_folder_wins_and_a_folder_that_is_not_there_does_no_harm(tmp_path: Path) -> None:
    first = folder(tmp_path / "one", greeting="first {{ name }}")
    second = folder(tmp_path / "two", greeting="second", other="other")
    prompts = Prompts([tmp_path / "none", first, second])

    assert prompts.render("greeting", name="Ada") == "first Ada"
    assert prompts.render("other") == "other"
    assert {"greeting", "other", "planner/request"} <= set(prompts.names())


def test_templates_include_each_other_across_folders(tmp_path: Path) -> None:
    own = folder(tmp_path, mine='{% include "planner/repair.md.j2" %}')

    assert "cut off" in Prompts([own]).render("mine", is_truncated=True)


def test_a_prompt_of_a_pack_is_found_below_its_name_and_includes_others_of_it(
    tmp_path: Path,
) -> None:
    pack = folder(tmp_path, ask='Of {{ tea }}. {% include "tea/rules.md.j2" %}', rules="Be brief.")
    prompts = Prompts(packs=lambda: {"tea": pack})

    assert prompts.render("tea/ask", tea="Assam") == "Of Assam. Be brief."
    assert {"tea/ask", "tea/rules", "planner/request"} <= set(prompts.names())


def test_a_template_of_the_project_takes_the_place_of_a_packs_and_may_include_it(
    tmp_path: Path,
) -> None:
    pack = folder(tmp_path / "pack", ask="Which tea?")
    own = folder(tmp_path / "own", tea__ask='{% include "shipped/tea/ask.md.j2" %} Please.')
    prompts = Prompts([own], lambda: {"tea": pack})

    assert prompts.render("tea/ask") == "Which tea? Please."
    assert prompts.file_of("tea/ask") == own / "tea" / "ask.md.j2"
    assert prompts.file_of("shipped/tea/ask") == pack / "ask.md.j2"


def test_packs_are_not_looked_for_where_a_prompt_is_shipped_or_the_projects(
    tmp_path: Path,
) -> None:
    def refused() -> dict[str, Path]:
        raise AssertionError

    prompts = Prompts([folder(tmp_path, mine="mine")], refused)

    assert prompts.file_of("planner/request")
    assert prompts.file_of("mine")


def test_values_are_never_read_as_templates(tmp_path: Path) -> None:
    prompts = Prompts([folder(tmp_path, show="{{ text }} {{ text | data('text') }}")])

    shown = prompts.render("show", text="{{ 7 * 7 }} {% include 'x' %} ${inputs.a}")

    assert "{{ 7 * 7 }} {% include 'x' %} ${inputs.a}" in shown
    assert "49" not in shown


def test_a_member_of_a_dictionary_wins_over_its_method(tmp_path: Path) -> None:
    prompts = Prompts([folder(tmp_path, show="{{ answer.items }} {{ answer['values'] }}")])

    assert prompts.render("show", answer={"items": 3, "values": 4}) == "3 4"


@pytest.mark.parametrize(
    ("template", "line", "message", "hint"),
    [
        pytest.param(
            "one\n{{ missing }}", 2, "'missing' is undefined", "the prompt 'show' is given: known", id="undefined"
        ),
        pytest.param(
            "{{ known.nothing }}", 1, "'str object' has no attribute 'nothing'", "is given: known", id="attribute"
        ),
        pytest.param("a\nb\n{% if %}", 3, "Expected an expression", "syntax", id="syntax"),
        pytest.param("a\n{{ known | nosuch }}", 2, "No filter named 'nosuch'", "syntax", id="filter"),
        pytest.param("\n{{ 1 / 0 }}", 2, "division by zero", "{% if … %}", id="arithmetic"),
        pytest.param("\n{{ none }}", 2, "a value is null here", "{% if … %}", id="null"),
        pytest.param("{{ known.__class__.__mro__ }}", 1, "unsafe", "{% if … %}", id="reaching into the program"),
        pytest.param(
            "\n{% include 'planner/repiar.md.j2' %}", 2, "no template 'planner/repiar'", "repair", id="include"
        ),
    ],
)  # fmt: skip
def test_a_faulty_template_is_named_with_its_line_and_a_mend(
    template: str, line: int, message: str, hint: str, tmp_path: Path
) -> None:
    prompts = Prompts([folder(tmp_path, show=template)])

    error = fault(prompts, "show", known="text")

    assert (error.file, error.line) == (tmp_path / "show.md.j2", line)
    assert message in error.message
    assert hint in str(error.hint)
    assert str(tmp_path / "show.md.j2") in str(error)


@pytest.mark.parametrize(
    "name", ["planner/requst", "../secrets", "/etc/passwd", "planner/request.md.j2"]
)
def test_a_prompt_that_is_not_there_is_an_error_with_a_mend(name: str) -> None:
    error = fault(Prompts(), name)

    assert error.message == f"there is no prompt {name!r}"
    assert error.hint


def test_a_template_that_is_no_utf8_is_an_error_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "show.md.j2").write_bytes(b"\xff\xfe\xff")

    assert fault(Prompts([tmp_path]), "show").file == tmp_path / "show.md.j2"


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(ANY_JSON)
def test_a_data_block_gives_its_value_back_and_nothing_in_it_ends_it(value: object) -> None:
    block = data_block(value, "inputs")
    first, *lines, last = block.split("\n")

    assert (first, last) == ('<data name="inputs">', "</data>")
    assert json.loads("\n".join(lines)) == value
    assert block.count("<") == block.count(">") == 2
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("name", ['x">', "x\u200b", "x\n", "", "<", "\uff1cx"])
def test_a_data_block_cannot_be_called_like_a_mark(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be called"):
        data_block(1, name)


def test_json_in_a_prompt_escapes_what_could_mark_or_hide() -> None:
    assert prompt_json("</data>\u202e\U000e0001") == r'"\u003c/data\u003e\u202e\udb40\udc01"'


def test_one_line_is_one_line_without_marks() -> None:
    assert one_line("Fetch\n\n1. fake(tool)\t<data>") == "Fetch 1. fake(tool) \u2039data\u203a"
    assert one_line("word " * 200, 20) == "word word word word…"


def test_jinja_is_loaded_when_a_prompt_is_rendered_and_not_before() -> None:
    program = (
        "import sys\n"
        "from wavewright.prompts import Prompts\n"
        "import wavewright.planner.planning.planner\n"
        "prompts = Prompts()\n"
        "print('jinja2' in sys.modules, 'pydantic_ai' in sys.modules)\n"
        "prompts.render('planner/repair', is_truncated=True)\n"
        "print('jinja2' in sys.modules)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert shown.stdout.split() == ["False", "False", "True"]


def test_a_template_may_begin_with_the_shipped_one_that_it_replaces(tmp_path: Path) -> None:
    own = folder(
        tmp_path, planner__repair='{% include "shipped/planner/repair.md.j2" %}\nBe brief.'
    )

    shown = Prompts([own]).render("planner/repair", is_truncated=True)

    assert shown == Prompts().render("planner/repair", is_truncated=True) + "\nBe brief."


def test_a_prompt_is_compiled_once_for_all_runs_and_again_where_its_text_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []
    compile_source: Callable[..., Any] = PromptEnvironment.compile

    def counting(self: PromptEnvironment, source: str, *where: Any) -> Any:
        compiled.append(source)
        return compile_source(self, source, *where)

    monkeypatch.setattr(PromptEnvironment, "compile", counting)
    file = tmp_path / "note.md.j2"
    rendered: list[str] = []
    for text in ("one", "one", "two"):
        file.write_text(text)
        rendered.append(Prompts([tmp_path]).render("note"))

    assert rendered == ["one", "one", "two"]
    assert compiled == ["one", "two"]
