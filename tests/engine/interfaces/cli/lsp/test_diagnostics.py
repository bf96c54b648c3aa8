"""What the editor underlines: the same as `wavewright check`, on the text that is not saved."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from lsprotocol import types

from tests.engine.interfaces.cli.lsp.conftest import PLAN, TOOLS
from tests.engine.interfaces.cli.lsp.editor import Editor, position_of
from wavewright.config.settings import load_valid_settings
from wavewright.config.sources import Span
from wavewright.engine.interfaces.cli.planning.plan_check import CheckOptions, check_plan
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.mcp.lock import ListedTool, ServerListing, ToolsLock, lock_server

pytestmark = pytest.mark.anyio

BROKEN = Path(__file__).parents[4] / "planner" / "broken"
Shown = list[tuple[str | int | None, str, int, int, int, int]]


def as_checked(file: Path, encoding: str = "utf-16") -> Shown:
    """Return what `wavewright check` finds in the file itself, as an editor would show it that counts
    within lines in an encoding.
    """
    settings, _ = load_valid_settings(file.parent)
    try:
        checked = check_plan(CheckOptions(file, settings=settings))
    except PlanError as error:
        text, diagnostics = error.source.text, error.diagnostics
    except ToolDefinitionError:  # a message, and no diagnostic
        return []
    else:
        text, diagnostics = checked.text.source.text, checked.diagnostics
    shown: Shown = []
    for found in diagnostics:
        span = found.span or Span(0, 0)
        start, end = (position_of(text, at, encoding) for at in (span.start, max(span)))
        message = f"{found.message}\nhelp: {found.hint}" if found.hint else found.message
        place = (start.line, start.character, end.line, end.character)
        shown.append((found.code, message, *place))
    return shown


def as_shown(diagnostics: list[types.Diagnostic]) -> Shown:
    return [
        (
            one.code,
            one.message,
            one.range.start.line,
            one.range.start.character,
            one.range.end.line,
            one.range.end.character,
        )
        for one in diagnostics
    ]


def broken_files() -> list[Path]:
    """Return the plans, goal templates and jobs that an editor can open: those in UTF-8."""
    files = (file for folder in sorted(BROKEN.iterdir()) for file in sorted(folder.glob("*.*")))
    documents = (file for file in files if file.suffix in {".yaml", ".json"})
    return [file for file in documents if file.name != "case.json" and "not_utf8" not in str(file)]


def lock_tools_of_broken_plans(project: Path) -> None:
    """Bring most tools of the broken plans as those of an MCP server; packs bring the others."""
    listed = [
        ListedTool(one["name"], one["description"], one["input_schema"], one.get("output_schema"))
        for one in json.loads((BROKEN / "tools.json").read_text())
        if one["name"] in ("analyze", "fetch_prices", "pay_bill", "read_notes", "send_mail")
    ]
    server = lock_server(ServerListing("shop", "1", tuple(listed)))
    (project / "tools.lock.json").write_text(ToolsLock(servers={"shop": server}).text)
    settings = "tools: [tools/mine.py]\nmcp: {servers: {shop: {command: never_started}}}\n"
    (project / "wavewright.yaml").write_text(settings)


async def test_every_broken_plan_shows_what_check_finds_in_it(
    editor: Editor, project: Path
) -> None:
    lock_tools_of_broken_plans(project)
    copies = [
        (shutil.copytree(file.parent, project / file.parent.name, dirs_exist_ok=True) / file.name)
        for file in broken_files()
    ]

    differing: list[str] = []
    codes = set[str]()
    for file in copies:
        editor.open(file)
        diagnostics = await editor.diagnostics(file)
        codes |= {str(one.code) for one in diagnostics}
        shown = as_shown(diagnostics)
        if shown != as_checked(file):
            differing.append(str(file.relative_to(project)))

    assert len(copies) > 80
    assert differing == []
    assert len(codes) >= 40


async def test_a_sound_plan_shows_nothing(editor: Editor, project: Path) -> None:
    editor.open(project / "sum.plan.yaml")

    assert await editor.diagnostics(project / "sum.plan.yaml") == []


async def test_a_fault_is_shown_in_text_that_is_not_saved(editor: Editor, project: Path) -> None:
    file = project / "sum.plan.yaml"
    editor.open(file)
    editor.edit(file, "tool: add", "tool: ad")
    (found,) = await editor.diagnostics(file)

    assert found.code == "E201"
    assert found.range == types.Range(types.Position(6, 10), types.Position(6, 12))
    assert found.message.endswith("help: did you mean 'add'?")


async def test_places_are_counted_in_the_editors_units(editor: Editor, project: Path) -> None:
    file = project / "sum.plan.yaml"
    text = PLAN.replace("${steps.total}", '"😀 ${steps.totl}"')
    editor.open(file, text)
    (found, *_) = await editor.diagnostics(file)

    assert found.code == "E301"
    assert found.range.start == editor.place(file, "😀 ${steps.")
    assert editor.encoding == "utf-8"
    assert found.range.start.character == len('result: "') + 4 + len(" ${steps.")


async def test_text_that_cannot_be_read_keeps_what_was_found_around_it(
    editor: Editor, project: Path
) -> None:
    file = project / "sum.plan.yaml"
    editor.open(file, PLAN.replace("tool: add", "tool: ad"))
    await editor.diagnostics(file)
    editor.edit(file, "code: AAPL\n", "code: [AAPL\n      more: 1\n")
    shown = await editor.diagnostics(file)

    assert [one.code for one in shown] == ["E124", "E201"]
    assert shown[-1].range.start == types.Position(7, 10)


async def test_text_that_cannot_be_read_in_two_places_keeps_what_was_found_around_them(
    editor: Editor, project: Path
) -> None:
    file = project / "sum.plan.yaml"
    editor.open(file, PLAN.replace("tool: add", "tool: ad"))
    await editor.diagnostics(file)
    editor.edit(file, "code: AAPL\n", "code: [AAPL\n")
    editor.edit(file, "b: 2", "b: {c: 2")
    shown = await editor.diagnostics(file)

    assert [one.code for one in shown] == ["E124", "E201"]
    assert shown[-1].range.start == types.Position(6, 10)


async def test_a_project_that_cannot_be_imported_says_why_once(
    editor: Editor, project: Path
) -> None:
    (project / "tools" / "mine.py").write_text("import nowhere_to_be_found\n")
    file = project / "sum.plan.yaml"
    editor.open(file)
    await editor.diagnostics(file)
    editor.edit(file, "b: 2", "b: 3")
    await editor.diagnostics(file)

    assert len(editor.client.messages) == 1
    assert "No module named 'nowhere_to_be_found'" in editor.client.messages[0].message


async def test_what_a_module_prints_does_not_disturb_the_protocol(
    editor: Editor, project: Path
) -> None:
    (project / "tools" / "mine.py").write_text("print('hello')\n" + TOOLS)
    editor.open(project / "sum.plan.yaml")

    assert await editor.diagnostics(project / "sum.plan.yaml") == []


async def test_a_tool_that_was_changed_is_known_when_it_is_saved(
    editor: Editor, project: Path
) -> None:
    file = project / "sum.plan.yaml"
    editor.open(file)
    await editor.diagnostics(file)
    editor.published.clear()
    (project / "tools" / "mine.py").write_text(TOOLS.replace("def add", "def added"))
    saved = types.DidSaveTextDocumentParams(editor.identifier(file))
    editor.client.text_document_did_save(saved)
    (found,) = await editor.diagnostics(file)

    assert found.code == "E201"


async def test_the_rest_of_a_text_that_cannot_be_read_is_checked_as_it_is_edited(
    editor: Editor,
    project: Path,
) -> None:
    file = project / "sum.plan.yaml"
    editor.open(file)
    await editor.diagnostics(file)
    editor.edit(file, "code: AAPL\n", "code: [AAPL\n")
    await editor.diagnostics(file)
    editor.edit(file, "${steps.total}", "${steps.totl}")
    editor.edit(file, "steps:\n", "# above 😀\nsteps:\n")
    shown = await editor.diagnostics(file)

    assert [one.code for one in shown] == ["E124", "E301"]
    assert shown[-1].range.start == types.Position(11, len("result: ${steps."))


async def test_a_job_that_cannot_be_read_shows_no_faults_of_its_plan(
    editor: Editor, project: Path
) -> None:
    (project / "sum.plan.yaml").write_text("steps:\n  - id: total\n    tool: ad\n")
    file = project / "sum.job.yaml"
    editor.open(file, "plan: sum.plan.yaml\ninputs: {}\nname: sum\n")
    assert await editor.diagnostics(file) == []

    editor.edit(file, "inputs: {}", "inputs: {")

    assert [shown.code for shown in await editor.diagnostics(file)] == ["E124"]


async def test_a_text_that_is_emptied_keeps_nothing_of_what_stood_there(
    editor: Editor, project: Path
) -> None:
    file = project / "sum.plan.yaml"
    editor.open(file, PLAN.replace("tool: add", "tool: ad"))
    await editor.diagnostics(file)
    editor.splice(file, 0, len(editor.texts[file]), "")
    shown = await editor.diagnostics(file)

    assert [(one.code, one.message) for one in shown] == [("E124", "the document is empty")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compose.yaml", "name: shop\nservices:\n  web:\n    image: nginx\n"),
        ("ci.yml", "name: ci\non: [push]\njobs:\n  test:\n    steps:\n      - run: make\n"),
        ("mkdocs.yml", "site_name: x\nmarkdown_extensions:\n  - a: !!python/name:b\n"),
        ("package.json", '{"name": "x", "version": "1.0.0", "scripts": {"test": "x"}}'),
        ("pyproject.toml", "[project]\nname = 'x'\n"),
    ],
)
async def test_a_file_of_another_programme_shows_nothing(
    editor: Editor, project: Path, name: str, text: str
) -> None:
    file = project / name
    editor.open(file, text)

    assert await editor.diagnostics(file) == []


@pytest.mark.parametrize("name", ["notes.yaml", "notes.json"])
async def test_a_plan_is_known_by_its_fields_whatever_its_name(
    editor: Editor, project: Path, name: str
) -> None:
    text = PLAN.replace("tool: add", "tool: ad")
    if name.endswith(".json"):
        text = '{"steps": [{"id": "a", "tool": "ad", "params": {"a": 1, "b": 2}}]}'
    editor.open(project / name, text)

    assert [one.code for one in await editor.diagnostics(project / name)] == ["E201"]


@pytest.mark.parametrize(
    ("settings", "code"),
    [("packs: {equitie: {}}\n", "E107"), ("bogus: 1\n", "E104"), ("tools: [nowhere.py]\n", "E107")],
)
async def test_settings_are_checked_as_they_stand_in_the_editor(
    editor: Editor, project: Path, settings: str, code: str
) -> None:
    file = project / "wavewright.yaml"
    editor.open(file, settings)
    shown = as_shown(await editor.diagnostics(file))
    file.write_text(settings)

    assert [one[0] for one in shown] == [code]
    assert shown == as_checked(file)


async def test_settings_that_are_fixed_in_the_editor_show_nothing(
    editor: Editor, project: Path
) -> None:
    file = project / "wavewright.yaml"
    file.write_text("packs: {equitie: {}}\n")
    editor.open(file, "tools: [tools/mine.py]\n")

    assert await editor.diagnostics(file) == []


async def test_the_shape_of_a_plan_is_checked_where_its_project_cannot_be_imported(
    editor: Editor,
    project: Path,
) -> None:
    (project / "tools" / "mine.py").write_text("import nowhere_to_be_found\n")
    file = project / "sum.plan.yaml"
    editor.open(file, PLAN.replace("tool: add", "tol: add"))
    shown = await editor.diagnostics(file)
    params = types.DocumentSymbolParams(editor.identifier(file))
    symbols = await editor.client.text_document_document_symbol_async(params)

    assert "E104" in [one.code for one in shown]
    assert symbols


async def test_an_argument_that_does_not_fit_leads_to_the_tools_parameter(
    editor: Editor, project: Path
) -> None:
    file, module = project / "sum.plan.yaml", project / "tools" / "mine.py"
    editor.open(file, PLAN.replace("b: 2", "b: two"))
    (found,) = await editor.diagnostics(file)

    assert found.related_information is not None
    (related,) = found.related_information
    line = module.read_text().splitlines()[related.location.range.start.line]
    assert related.location.uri == module.resolve().as_uri()
    assert line[related.location.range.start.character :].startswith("b: float")


async def test_a_byte_order_mark_moves_no_place(editor: Editor, project: Path) -> None:
    file = project / "sum.plan.yaml"
    editor.open(file, "\ufeff" + PLAN.replace("tool: add", "tool: ad"))
    (found,) = await editor.diagnostics(file)

    assert found.range == types.Range(types.Position(6, 10), types.Position(6, 12))


@pytest.mark.parametrize("name", ["two words.plan.yaml", "größe 😀.plan.yaml", "50%20.plan.yaml"])
async def test_a_file_whose_name_is_encoded_in_its_uri_is_checked(
    editor: Editor, project: Path, name: str
) -> None:
    editor.open(project / name, PLAN)
    assert await editor.diagnostics(project / name) == []
    editor.edit(project / name, "tool: add", "tool: ad")

    assert [one.code for one in await editor.diagnostics(project / name)] == ["E201"]
