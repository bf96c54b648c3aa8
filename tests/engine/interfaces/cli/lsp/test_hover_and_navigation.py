"""What the editor shows of a name, where it goes from there, and what renaming changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from tests.engine.interfaces.cli.lsp.editor import Editor, open_editor
from wavewright.engine.interfaces.cli.lsp.server import build_server
from wavewright.tools.mcp.lock import ListedTool, ServerListing, ToolsLock, lock_server

pytestmark = pytest.mark.anyio

NEWS = """\
inputs:
  topic: rain
steps:
  - id: news
    tool: headline
    params:
      title: "About ${inputs.topic}"
  - id: total
    tool: add
    for_each: ${steps.news}
    depends_on: [news]
    params:
      a: ${item.words}
      b: 2
gates:
  - id: some
    on: news
    check: steps.news.size() > 0
result: ${steps.news.map(line, line.words)}
"""


async def hovered(editor: Editor, file: Path, after: str, occurrence: int = 1) -> str:
    params = types.HoverParams(editor.identifier(file), editor.place(file, after, occurrence))
    found = await editor.client.text_document_hover_async(params)
    assert found is not None
    assert isinstance(found.contents, types.MarkupContent)
    return found.contents.value


async def defined(editor: Editor, file: Path, after: str) -> types.Location:
    params = types.DefinitionParams(editor.identifier(file), editor.place(file, after))
    found = await editor.client.text_document_definition_async(params)
    assert isinstance(found, types.Location)
    return found


async def renamed(editor: Editor, file: Path, after: str, new: str) -> dict[str, str]:
    """Return the files as they are after a renaming, by name."""
    params = types.RenameParams(editor.identifier(file), editor.place(file, after), new)
    edit = await editor.client.text_document_rename_async(params)
    assert edit is not None
    assert edit.changes is not None
    return {
        Path(uri.removeprefix("file://")).name: after_edits(editor, uri, edits)
        for uri, edits in edit.changes.items()
    }


def after_edits(editor: Editor, uri: str, edits: Sequence[types.TextEdit]) -> str:
    path = Path(uri.removeprefix("file://"))
    text = editor.texts[path] if path in editor.texts else path.read_text()
    lines = text.splitlines(keepends=True)
    for one in sorted(edits, key=lambda one: one.range.start, reverse=True):
        start, end = one.range.start, one.range.end
        line = lines[start.line]
        lines[start.line] = line[: start.character] + one.new_text + line[end.character :]
    return "".join(lines)


async def test_a_part_of_an_expression_shows_its_type(editor: Editor, project: Path) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)

    assert "item.words: integer" in await hovered(editor, file, "${item.wor")
    assert "line.words: integer" in await hovered(editor, file, "line.wor")
    assert "a list of what passes" in await hovered(editor, file, "news.ma")


async def test_a_step_shows_its_output_and_its_tool(editor: Editor, project: Path) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    shown = await hovered(editor, file, "for_each: ${steps.ne")

    assert "step `news`, wave 1" in shown
    assert "fields: text: string, words: integer" in shown
    assert "Return lines of news." in shown
    assert "effects: read" in shown


async def test_a_tool_and_a_key_show_what_they_are(editor: Editor, project: Path) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)

    assert "add(a: number, b: number) -> number" in await hovered(editor, file, "tool: ad")
    assert "A condition" not in await hovered(editor, file, "depends_o")
    assert "'title' takes a string" in await hovered(editor, file, "titl")


async def test_a_fault_shows_the_page_of_its_code(editor: Editor, project: Path) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS.replace("tool: add", "tool: ad"))
    await editor.diagnostics(file)
    shown = await hovered(editor, file, "tool: ad")

    assert shown.startswith("**E201: ")


async def test_a_step_is_defined_where_its_id_stands(editor: Editor, project: Path) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    found = await defined(editor, file, "check: steps.ne")

    assert found.uri == file.as_uri()
    assert found.range.start == types.Position(3, 8)


async def test_a_tool_is_defined_in_its_function(editor: Editor, project: Path) -> None:
    file, module = project / "news.plan.yaml", project / "tools" / "mine.py"
    editor.open(file, NEWS)
    found = await defined(editor, file, "tool: ad")

    assert found.uri == module.resolve().as_uri()
    assert module.read_text().splitlines()[found.range.start.line].startswith("def add")


async def test_a_plan_of_a_job_is_gone_to(editor: Editor, project: Path) -> None:
    editor.open(project / "sum.job.yaml", "name: sum\nplan: sum.plan.yaml\n")
    found = await defined(editor, project / "sum.job.yaml", "plan: sum")

    assert found.uri == (project / "sum.plan.yaml").resolve().as_uri()


async def test_every_use_of_a_step_is_found(editor: Editor, project: Path) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    params = types.ReferenceParams(
        context=types.ReferenceContext(include_declaration=True),
        text_document=editor.identifier(file),
        position=editor.place(file, "id: ne"),
    )
    found = await editor.client.text_document_references_async(params)

    assert found is not None
    assert [one.range.start.line for one in found] == [3, 9, 10, 16, 17, 18]


async def test_a_step_is_renamed_wherever_it_is_named(editor: Editor, project: Path) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    texts = await renamed(editor, file, "${steps.ne", "lines")

    assert texts == {
        "news.plan.yaml": NEWS.replace("id: news", "id: lines")
        .replace("steps.news", "steps.lines")
        .replace("[news]", "[lines]")
        .replace("on: news", "on: lines")
    }


async def test_jobs_and_tests_that_name_the_plan_follow_a_renaming(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    file.write_text(NEWS)
    job = (
        "name: news\nplan: news.plan.yaml\ninputs:\n  topic: sun\n"
        "schedule: {cron: 0 7 * * *, inputs: {topic: moon}}\n"
    )
    (project / "news.job.yaml").write_text(job)
    settings = project / "wavewright.yaml"
    schedules = "schedules:\n" + "".join(
        f"  {name}: {{job: {name}.job.yaml, cron: 0 7 * * *, inputs: {{topic: mars}}}}\n"
        for name in ("news", "other")
    )
    settings.write_text(settings.read_text() + schedules)
    (project / "tests").mkdir()
    test = "def test_it(run):\n    run('news.job.yaml', inputs={'topic': 'sun'})\n"
    (project / "tests" / "test_news.py").write_text(test)
    editor.open(file)
    texts = await renamed(editor, file, "  topi", "subject")

    assert texts["news.job.yaml"] == job.replace("topic", "subject")
    assert texts["test_news.py"] == test.replace("topic", "subject")
    assert texts["news.plan.yaml"] == NEWS.replace("topic", "subject")
    assert texts["wavewright.yaml"] == settings.read_text().replace("topic", "subject", 1)
    editor.open(project / "news.job.yaml")
    assert await renamed(editor, project / "news.job.yaml", "  topi", "subject") == texts
    editor.open(settings)
    assert await renamed(editor, settings, "inputs: {topi", "subject") == texts


async def test_a_name_is_changed_in_a_document_whose_folder_was_moved_away(
    editor: Editor, project: Path
) -> None:
    file = project / "plans" / "news.plan.yaml"
    file.parent.mkdir()
    editor.open(file, NEWS)
    file.parent.rename(project / "moved")
    texts = await renamed(editor, file, "${steps.ne", "lines")

    assert "id: lines" in texts["news.plan.yaml"]


async def test_a_name_of_a_step_and_a_gate_is_left_alone_in_tests(
    editor: Editor, project: Path
) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "test_news.py").write_text("'news.plan.yaml', 'news', \"some\"\n")
    file = project / "news.plan.yaml"
    editor.open(file, NEWS.replace("id: some", "id: news"))

    assert [*(await renamed(editor, file, "gates:\n  - id: ne", "checked"))] == ["news.plan.yaml"]


async def test_a_name_that_is_taken_is_refused_with_the_reason(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    with pytest.raises(JsonRpcException, match="'total' is taken"):
        await renamed(editor, file, "id: ne", "total")


async def test_the_outline_has_the_steps_by_wave_and_the_gates(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    params = types.DocumentSymbolParams(editor.identifier(file))
    found = await editor.client.text_document_document_symbol_async(params)

    shown = [one for one in found or () if isinstance(one, types.DocumentSymbol)]
    assert [(one.name, [inner.name for inner in one.children or ()]) for one in shown] == [
        ("wave 1", ["news"]),
        ("wave 2", ["total"]),
        ("some", []),
    ]


async def outline(editor: Editor, file: Path) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return the names of an outline, those below them with their first lines."""
    params = types.DocumentSymbolParams(editor.identifier(file))
    found = await editor.client.text_document_document_symbol_async(params)
    shown = [one for one in found or () if isinstance(one, types.DocumentSymbol)]
    return [
        (one.name, [(inner.name, inner.range.start.line) for inner in one.children or ()])
        for one in shown
    ]


async def test_the_outline_of_a_text_that_is_broken_is_that_of_the_last_good_one_moved(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    await editor.diagnostics(file)
    before = await outline(editor, file)
    editor.edit(file, "      a: ${item.words}\n", "      a: [${item.words}\n\n")
    await editor.diagnostics(file)
    at_the_end = await outline(editor, file)
    editor.splice(file, 0, 0, "\n\n")
    await editor.diagnostics(file)

    assert before[0] == ("wave 1", [("news", 3)])
    assert at_the_end == before
    assert await outline(editor, file) == [
        ("wave 1", [("news", 5)]),
        ("wave 2", [("total", 9)]),
        ("some", []),
    ]


async def test_waves_are_those_of_a_run_with_names_and_sub_plans_put_in(
    editor: Editor, project: Path
) -> None:
    (project / "two.plan.yaml").write_text(
        "goal: Two\nsteps:\n  - {id: one, tool: headline, params: {title: a}}\n"
        '  - {id: two, tool: add, params: {a: 1, b: "${steps.one.size()}"}}\nresult: ${steps.two}\n'
    )
    file = project / "calls.plan.yaml"
    editor.open(
        file,
        "let: {known: '${steps.call}'}\nsteps:\n  - {id: call, plan: two.plan.yaml}\n"
        '  - {id: last, tool: add, params: {a: "${known}", b: 2}}\n',
    )

    assert await outline(editor, file) == [("wave 1", [("call", 2)]), ("wave 4", [("last", 3)])]
    assert "two.plan.yaml() -> number" in await hovered(editor, file, "plan: two")


async def test_steps_can_be_folded(editor: Editor, project: Path) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    params = types.FoldingRangeParams(editor.identifier(file))
    found = await editor.client.text_document_folding_range_async(params)

    assert {(3, 6), (7, 13)} <= {(one.start_line, one.end_line) for one in found or ()}


async def test_formatting_keeps_comments_and_changes_no_value(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, "# why   \n" + NEWS.replace("b: 2\n", "b: 2  \n") + "\n\n")
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    params = types.DocumentFormattingParams(editor.identifier(file), options)
    (edit,) = [*(await editor.client.text_document_formatting_async(params) or ())]

    assert edit.new_text == "# why\n" + NEWS


async def test_waves_and_the_type_of_the_result_are_shown_between_the_lines(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    whole = types.Range(types.Position(0, 0), types.Position(40, 0))
    params = types.InlayHintParams(editor.identifier(file), whole)
    found = await editor.client.text_document_inlay_hint_async(params) or ()

    assert [(one.position.line, one.label) for one in found] == [
        (3, "wave 1"),
        (7, "wave 2"),
        (18, "list of integer"),
    ]


async def test_a_dry_run_of_the_unsaved_text_is_one_click_away(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    params = types.CodeLensParams(editor.identifier(file))
    (lens,) = [*(await editor.client.text_document_code_lens_async(params) or ())]
    assert lens.command is not None
    command = types.ExecuteCommandParams(lens.command.command, lens.command.arguments)
    text = await editor.client.workspace_execute_command_async(command)

    assert lens.range.start.line == 0
    assert isinstance(text, str)
    assert text.startswith("# Dry run of news.plan.yaml\n")
    assert "wave 2" in text.lower()


async def test_an_editor_that_shows_no_documents_shows_a_dry_run_as_a_message(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = types.WindowClientCapabilities(
        show_document=types.ShowDocumentClientCapabilities(support=False)
    )

    def capabilities(_name: str) -> types.ClientCapabilities:
        return types.ClientCapabilities(window=window)

    monkeypatch.setattr(f"{open_editor.__module__}.client_capabilities", capabilities)
    file = project / "news.plan.yaml"
    async with open_editor(project) as editor:
        editor.open(file, NEWS)
        command = types.ExecuteCommandParams("wavewright.dryRun", [file.as_uri()])
        text = await editor.client.workspace_execute_command_async(command)

        assert [shown.message for shown in editor.client.messages] == [text]


async def reformatted(editor: Editor, project: Path, name: str, text: str) -> str:
    """Return a text as the editor formats it."""
    file = project / name
    editor.open(file, text)
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    params = types.DocumentFormattingParams(editor.identifier(file), options)
    edits = await editor.client.text_document_formatting_async(params) or ()
    return edits[0].new_text if edits else text


async def test_formatting_sets_the_indentation_of_yaml_and_keeps_comments(
    editor: Editor, project: Path
) -> None:
    text = """\
# first
steps:
- id:   prices  # why
  tool: fetch
  params: {code: "AAPL",days:   0x1E}
  # before the next
- id: note
  why: >
    folded
    text
  tool: fetch
  params:
      code:   'it''s'
result: ["${steps.prices}"]
"""

    assert (
        await reformatted(editor, project, "a.plan.yaml", text)
        == """\
# first
steps:
  - id: prices  # why
    tool: fetch
    params: {code: "AAPL", days: 0x1E}
  # before the next
  - id: note
    why: >
      folded
      text
    tool: fetch
    params:
      code: 'it''s'
result: ["${steps.prices}"]
"""
    )


async def test_formatting_keeps_the_line_breaks_of_windows(editor: Editor, project: Path) -> None:
    text = "steps:\r\n- {id: a,tool: fetch, params: {code: x}}\r\n"

    formatted = await reformatted(editor, project, "a.plan.yaml", text)

    assert formatted == "steps:\r\n  - {id: a, tool: fetch, params: {code: x}}\r\n"


async def test_formatting_sets_the_indentation_of_json_and_keeps_numbers(
    editor: Editor, project: Path
) -> None:
    text = '{"inputs":{"x":1.50e3,"u":"\\u00e4"},\n"steps":[\n{"id":"a","tool":"fetch","params":{"code":"x"}}]}'

    assert (
        await reformatted(editor, project, "a.plan.json", text)
        == """\
{
  "inputs": {"x": 1.50e3, "u": "\\u00e4"},
  "steps": [
    {"id": "a", "tool": "fetch", "params": {"code": "x"}}
  ]
}
"""
    )


async def test_deep_json_on_one_line_is_formatted_at_once(editor: Editor, project: Path) -> None:
    depth = 40
    text = '{"steps":' + "[" * depth + f'"{"long " * 30}"' + "]" * depth + "}"

    formatted = await reformatted(editor, project, "a.plan.json", text)

    assert json.loads(formatted) == json.loads(text)
    assert len(formatted.splitlines()) == 2 * depth + 3


async def test_a_text_that_cannot_be_read_is_not_formatted(editor: Editor, project: Path) -> None:
    text = "steps:\n- {id: a, tool: [\n"

    assert await reformatted(editor, project, "a.plan.yaml", text) == text


async def test_a_renamed_gate_is_renamed_in_recipes_and_in_tests(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    file.write_text(NEWS)
    (project / "goals").mkdir()
    settings = "tools: [tools/mine.py]\ntemplates: [goals]\n"
    (project / "wavewright.yaml").write_text(settings)
    template = (
        "version: 1\nname: lines\ngoal: g\navailable_tools: [{name: headline}]\n"
        "recipes:\n  - {gate: some, reason: some is missing}\nmay_drop: [some]\n"
    )
    (project / "goals" / "lines.yaml").write_text(template)
    (project / "jobs").mkdir()
    (project / "jobs" / "daily.yaml").write_text("goal_template: lines\nplan: ../news.plan.yaml\n")
    (project / "tests").mkdir()
    test = "def test_it(run):\n    assert run('daily.yaml').gates['some'].passed\n"
    (project / "tests" / "test_news.py").write_text(test)
    editor.open(file)
    editor.open(project / "goals" / "lines.yaml", "# unsaved\n" + template)
    texts = await renamed(editor, file, "id: som", "enough")

    assert texts["news.plan.yaml"] == NEWS.replace("id: some", "id: enough")
    changed = template.replace("gate: some", "gate: enough").replace("[some]", "[enough]")
    assert texts["lines.yaml"] == "# unsaved\n" + changed
    assert texts["test_news.py"] == test.replace("some", "enough")


async def test_a_renamed_input_is_renamed_in_the_steps_that_call_its_plan(
    editor: Editor, project: Path
) -> None:
    part = "inputs: {n: 1}\nsteps:\n  - {id: a, tool: add, params: {a: '${inputs.n}', b: 1}}\n"
    call = "  - {id: c, plan: part.plan.yaml, params: {n: 2}, repeat: {until: 'true', max: 2, params: {n: 3}}}\n"
    other = "  - {id: d, plan: other.plan.yaml, params: {n: 4}}\n"
    file = project / "part.plan.yaml"
    file.write_text(part)
    (project / "whole.plan.yaml").write_text(f"steps:\n{call}{other}")
    editor.open(file)

    assert await renamed(editor, file, "inputs.", "count") == {
        "part.plan.yaml": part.replace("n:", "count:").replace("inputs.n", "inputs.count"),
        "whole.plan.yaml": f"steps:\n{call.replace('{n:', '{count:')}{other}",
    }


async def test_a_step_of_a_sub_plan_is_renamed_where_it_has_the_name_of_its_caller_before_it(
    editor: Editor, project: Path
) -> None:
    part, whole = project / "part.plan.yaml", project / "whole.plan.yaml"
    part.write_text("steps:\n  - {id: a, tool: add, params: {a: 1, b: 1}}\nresult: ${steps.a}\n")
    text = (
        "steps:\n  - {id: c, plan: part.plan.yaml}\n"
        "  - {id: d, tool: add, params: {a: '${steps.`c.a`}', b: '${steps.c}'}, depends_on: [c.a]}\n"
        "gates: [{id: some, on: c.a, check: output > 0}]\n"
    )
    whole.write_text(text)
    for file in (part, whole):
        editor.open(file)

    assert await renamed(editor, part, "id: ", "sum") == {
        part.name: part.read_text().replace("id: a", "id: sum").replace("steps.a", "steps.sum"),
        whole.name: text.replace("c.a", "c.sum"),
    }
    assert await renamed(editor, whole, "id: ", "call") == {
        whole.name: text.replace("id: c,", "id: call,")
        .replace("c.a", "call.a")
        .replace("steps.c}", "steps.call}")
    }


async def test_an_input_of_a_goal_template_is_renamed_in_its_schema_and_its_gates(
    editor: Editor, project: Path
) -> None:
    file = project / "lines.yaml"
    text = (
        "version: 1\nname: lines\ngoal: Lines of ${inputs.topic}.\n"
        "available_tools: [{name: headline}]\ntargets: {variables: topic}\n"
        "inputs_schema: {required: [topic], properties: {topic: {type: string}}}\n"
        "gates: [{id: some, on_tool: headline, check: inputs.topic != ''}]\n"
        "plan: {steps: [{id: news, tool: headline, params: {title: '${inputs.topic}'}}]}\n"
    )
    editor.open(file, text)

    for place in ("properties: {to", "variables: to", "'${inputs.to"):
        changed = await renamed(editor, file, place, "subject")
        assert changed == {file.name: text.replace("topic", "subject")}


async def test_a_name_of_let_is_found_and_renamed_where_it_is_read(
    editor: Editor, project: Path
) -> None:
    file = project / "sum.plan.yaml"
    names = "inputs: {most: 9}\nlet:\n  sums: ${steps.total + inputs.most}\n"
    text = names + file.read_text().replace("result: ${steps.total}", "result: ${sums}")
    editor.open(file, text)

    assert "sums: number" in await hovered(editor, file, "  su")
    assert "inputs.most: integer" in await hovered(editor, file, "{mo")
    assert (await defined(editor, file, "result: ${su")).range.start.line == 2
    assert await renamed(editor, file, "result: ${su", "all") == {
        file.name: text.replace("sums", "all")
    }


async def test_a_renamed_input_of_json_keeps_its_quotes(editor: Editor, project: Path) -> None:
    file = project / "news.plan.json"
    text = (
        '{"inputs": {"topic": "😀"}, "steps": [{"id": "news", "tool": "headline", '
        '"params": {"title": "😀 ${inputs.topic}"}}]}'
    )
    editor.open(file, text)
    params = types.RenameParams(editor.identifier(file), editor.place(file, '{"top'), "subject")
    edit = await editor.client.text_document_rename_async(params)

    assert edit is not None
    (edits,) = (edit.changes or {}).values()
    starts = [editor.place(file, word) for word in ('{"inputs": {"', "inputs.")]
    assert [one.range.start for one in edits] == starts
    assert {one.new_text for one in edits} == {"subject"}


async def test_a_renaming_that_is_refused_is_no_fault_of_the_server(
    editor: Editor, project: Path
) -> None:
    file = project / "news.plan.yaml"
    editor.open(file, NEWS)
    for new in ("total", "not a name"):
        with pytest.raises(JsonRpcException):
            await renamed(editor, file, "id: ne", new)

    said = [shown.message for shown in editor.client.messages]
    # A check of the test before may end late, when the folder of its project is gone.
    others = [text for text in said if str(project.parent) in text and str(project) not in text]
    assert [text for text in said if text not in others] == []


def test_a_request_that_is_refused_leaves_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    build_server()
    for error in (JsonRpcInvalidParams("'total' is taken"), ValueError("a fault")):
        logging.getLogger("pygls.protocol.json_rpc").error("it ended", exc_info=error)

    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [ValueError]


async def test_files_of_two_projects_have_the_tools_of_their_own(
    editor: Editor, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "ours.py").write_text('def only_here(a: int) -> int:\n    """Here."""\n    return a\n')
    (other / "wavewright.yaml").write_text("tools: [ours.py]\n")
    text = "steps:\n  - id: a\n    tool: only_here\n    params:\n      a: 1\n"
    editor.open(other / "a.plan.yaml", text)
    editor.open(project / "a.plan.yaml", text)

    assert await editor.diagnostics(other / "a.plan.yaml") == []
    (found,) = await editor.diagnostics(project / "a.plan.yaml")
    place = await defined(editor, other / "a.plan.yaml", "tool: only")

    assert found.code == "E201"
    assert place.uri == (other / "ours.py").as_uri()


async def test_tools_and_prompts_that_are_no_functions_are_gone_to(
    editor: Editor, project: Path
) -> None:
    listed = ListedTool("buy", "Buy it.", {"type": "object", "properties": {}}, {"type": "object"})
    server = lock_server(ServerListing("shop", "1", (listed,)))
    (project / "tools.lock.json").write_text(ToolsLock(servers={"shop": server}).text)
    for folder in ("workers", "prompts"):
        (project / folder).mkdir()
    (project / "prompts" / "writing.md.j2").write_text("Write.\n")
    worker = (
        "version: 1\nname: writer\ndescription: It writes.\nprompt: writing\n"
        "input_schema: {type: object}\noutput_schema: {type: object}\n"
    )
    (project / "workers" / "writer.yaml").write_text(worker)
    (project / "wavewright.yaml").write_text(
        "prompts: [prompts]\nworkers: [workers]\nmcp: {servers: {shop: {command: never}}}\n"
    )
    text = "steps:\n- {id: a, tool: shop.buy}\n- {id: b, tool: writer}\n- {id: c, plan: sum.plan.yaml}\n"
    file = project / "new.plan.yaml"
    editor.open(file, text)
    editor.open(project / "workers" / "writer.yaml")
    places = [
        await defined(editor, file, "tool: shop."),
        await defined(editor, file, "tool: wri"),
        await defined(editor, file, "plan: sum"),
        await defined(editor, project / "workers" / "writer.yaml", "prompt: wri"),
    ]

    assert [place.uri.rpartition("/")[2] for place in places] == [
        "tools.lock.json",
        "writer.yaml",
        "sum.plan.yaml",
        "writing.md.j2",
    ]


async def test_formatting_keeps_the_braces_of_a_single_field(editor: Editor, project: Path) -> None:
    text = "steps:\n- id: a\n  tool: headline\n  params: {title: [{a: 1},{b: 2}]}\n"

    formatted = await reformatted(editor, project, "a.plan.yaml", text)

    assert formatted == (
        "steps:\n  - id: a\n    tool: headline\n    params: {title: [{a: 1}, {b: 2}]}\n"
    )
