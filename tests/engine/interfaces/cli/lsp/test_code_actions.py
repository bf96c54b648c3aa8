"""Changes that the editor offers: the one that a hint speaks of, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from tests.engine.interfaces.cli.lsp.conftest import PLAN
from tests.engine.interfaces.cli.lsp.editor import Editor

pytestmark = pytest.mark.anyio


LETTERS = '''

def read_page(address: str) -> str:
    """Read a page."""
    return address


def send(text: str) -> str:
    """Send a letter."""
    return text
'''


async def changed(editor: Editor, project: Path, text: str, code: str) -> str:
    """Return a text after the action for a code, which is the only one for it."""
    file = project / "new.plan.yaml"
    editor.open(file, text)
    (found,) = (one for one in await editor.diagnostics(file) if one.code == code)
    context = types.CodeActionContext([found])
    # An editor asks where its cursor is, which may be before what it names.
    cursor = types.Position(found.range.start.line, 0)
    params = types.CodeActionParams(editor.identifier(file), types.Range(cursor, cursor), context)
    actions = await editor.client.text_document_code_action_async(params) or ()
    (action,) = (one for one in actions if isinstance(one, types.CodeAction))
    assert action.edit is not None
    assert action.edit.changes is not None
    offset = {place: number for number, place in enumerate(places(text))}
    for edit in action.edit.changes[file.as_uri()]:
        start, end = (
            offset[place.line, place.character] for place in (edit.range.start, edit.range.end)
        )
        text = text[:start] + edit.new_text + text[end:]
    return text


def places(text: str) -> list[tuple[int, int]]:
    found = [(0, 0)]
    for character in text:
        line, column = found[-1]
        found.append((line + 1, 0) if character == "\n" else (line, column + 1))
    return found


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        pytest.param("tool: add", "tool: ad", "E201", id="tool"),
        pytest.param("days: 3", "day: 3", "E203", id="argument"),
        pytest.param("${steps.total}", "${steps.totl}", "E301", id="step"),
        pytest.param("result: ", "resul: ", "E104", id="key"),
    ],
)
async def test_the_name_that_was_meant_takes_the_place_of_the_other(
    editor: Editor, project: Path, right: str, wrong: str, code: str
) -> None:
    text = PLAN.replace("code: AAPL", "code: AAPL\n      days: 3")

    assert await changed(editor, project, text.replace(right, wrong), code) == text


async def test_a_missing_argument_is_added(editor: Editor, project: Path) -> None:
    text = PLAN.replace("      b: 2\n", "")

    assert await changed(editor, project, text, "E204") == text.replace(
        "AAPL}\n", "AAPL}\n      b: 0\n"
    )


async def test_the_arguments_are_added_where_there_are_none(editor: Editor, project: Path) -> None:
    text = "steps:\n  - id: prices\n    tool: fetch\n"

    assert await changed(editor, project, text, "E204") == text + '    params: {"code": ""}\n'


async def test_a_number_is_made_a_text(editor: Editor, project: Path) -> None:
    text = PLAN + "# end\n"
    text = text.replace(
        "result:", "  - id: more\n    tool: fetch\n    params:\n      code: ${steps.total}\nresult:"
    )

    assert await changed(editor, project, text, "E304") == text.replace(
        "code: ${steps.total}", "code: ${string(steps.total)}"
    )


async def test_a_reader_gets_a_condition(editor: Editor, project: Path) -> None:
    text = PLAN.replace("tool: fetch", "tool: fetch\n    optional: true")
    asked = text.replace("      b: 2\n", '      b: 2\n    when: "has(steps.prices)"\n')

    assert await changed(editor, project, text, "E306") == asked


async def test_an_approval_is_asked_for_where_untrusted_text_is_sent(
    editor: Editor, project: Path
) -> None:
    module = project / "tools" / "mine.py"
    module.write_text(module.read_text() + LETTERS)
    options = "functions: {read_page: {untrusted_output: true}, send: {effects: [egress]}}"
    settings = f"tools: [{{path: tools/mine.py, {options}}}]\n"
    (project / "wavewright.yaml").write_text(settings)
    text = """\
steps:
  - id: page
    tool: read_page
    params:
      address: here
  - id: letter
    tool: send
    params:
      text: ${steps.page}
"""

    assert await changed(editor, project, text, "E601") == text + "    needs_approval: true\n"


async def test_a_dependency_that_a_reference_shows_is_taken_out(
    editor: Editor, project: Path
) -> None:
    text = PLAN.replace("tool: add", "tool: add\n    depends_on: [prices]")

    assert await changed(editor, project, text, "W803") == PLAN


async def test_a_second_definition_names_the_first(editor: Editor, project: Path) -> None:
    file = project / "new.plan.yaml"
    editor.open(file, PLAN.replace("id: total", "id: prices"))
    shown = await editor.diagnostics(file)

    (found,) = (one for one in shown if one.code == "E119")
    (related,) = [*(found.related_information or ())]
    assert related.location.range.start == types.Position(1, 8)


async def test_a_name_in_folded_text_is_fixed_where_it_stands(
    editor: Editor, project: Path
) -> None:
    text = PLAN.replace("${steps.total}", ">\n  the total is ${steps.total}\n  and no more")

    assert await changed(editor, project, text.replace("steps.total", "steps.totl"), "E301") == text


async def test_a_name_behind_escapes_is_fixed_where_it_stands(
    editor: Editor, project: Path
) -> None:
    text = PLAN.replace("${steps.total}", '"\\u00e4 ${steps.total}"')

    assert await changed(editor, project, text.replace("steps.total", "steps.totl"), "E301") == text


async def test_what_is_added_to_braces_of_yaml_needs_no_quotes(
    editor: Editor, project: Path
) -> None:
    text = "steps:\n  - {id: a, tool: add, params: {a: 1}}\n"

    assert await changed(editor, project, text, "E204") == text.replace("a: 1}", "a: 1, b: 0}")


async def test_an_added_line_ends_as_the_lines_of_the_file_do(
    editor: Editor, project: Path
) -> None:
    text = PLAN.replace("      b: 2\n", "").replace("\n", "\r\n")
    added = text.replace("AAPL}\r\n", "AAPL}\r\n      b: 0\r\n")

    assert await changed(editor, project, text, "E204") == added


async def test_a_name_that_stands_inside_of_what_is_underlined_is_not_replaced(
    editor: Editor,
    project: Path,
) -> None:
    file = project / "wavewright.yaml"
    editor.open(file, "packs: {equitie: {}}\n")
    (found,) = await editor.diagnostics(file)
    context = types.CodeActionContext([found])
    params = types.CodeActionParams(editor.identifier(file), found.range, context)
    actions = await editor.client.text_document_code_action_async(params)

    assert found.message.endswith("did you mean 'equities'?")
    assert not actions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("when: 1 < 2", "when: has(steps.prices) && (1 < 2)"),
        ('when: "1 < 2"', 'when: "has(steps.prices) && (1 < 2)"'),
        ("when: ${1 < 2}", "when: has(steps.prices) && (1 < 2)"),
        ("when: 'size(''a'') < 2'", "when: 'has(steps.prices) && (size(''a'') < 2)'"),
    ],
)
async def test_the_condition_of_a_reader_stays_beside_the_one_that_it_gets(
    editor: Editor, project: Path, before: str, after: str
) -> None:
    text = PLAN.replace("tool: fetch", "tool: fetch\n    optional: true")
    text = text.replace("tool: add", f"tool: add\n    {before}")

    assert await changed(editor, project, text, "E306") == text.replace(before, after)
