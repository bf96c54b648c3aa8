"""A session in which a plan is typed character by character."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.engine.interfaces.cli.lsp.conftest import PLAN
from tests.engine.interfaces.cli.lsp.editor import Editor, open_editor, position_of
from tests.engine.interfaces.cli.lsp.test_diagnostics import as_checked, as_shown
from tests.repository.tree import ROOT

pytestmark = pytest.mark.anyio

PLANS = re.findall(
    r"^```yaml[^\n]*\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("text", PLANS[:2], ids=["sound", "mistaken"])
async def test_a_plan_that_is_typed_has_the_diagnostics_of_check_and_no_fault_of_the_server(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "typed.plan.yaml"
    async with open_editor(tmp_path, is_new_process=True) as editor:
        editor.open(file, "")
        for offset, character in enumerate(text):
            editor.splice(file, offset, offset, character)
            if offset % 11 == 0:
                named, place = editor.identifier(file), position_of(text, offset + 1)
                client = editor.client
                await client.text_document_completion_async(types.CompletionParams(named, place))
                await client.text_document_hover_async(types.HoverParams(named, place))
                await client.text_document_document_symbol_async(types.DocumentSymbolParams(named))
        shown = as_shown(await editor.diagnostics(file))
        messages = [one.message for one in editor.client.messages]
    file.write_text(text)

    assert shown == as_checked(file)
    assert [one for one in messages if "error of its own" in one] == []


CALLED = """\
goal: "Lines \U0001f600 of a title"
inputs: {title: "\U0001d518 title"}
steps:
  - {id: news, tool: headline, params: {title: "${inputs.title}"}}
result: {lines: "${steps.news}"}
"""
TYPED = {
    "calls.plan.yaml": """\
# \U0001f600 a comment\twith a tab
goal: "\U0001f600 of \U0001d518"
inputs: {titles: ["\U0001f600", b]}
let: {first: "${steps.each[0].lines[0]}"}
steps:
  - {id: each, plan: called.plan.yaml, for_each: "${inputs.titles}", params: {title: "\U0001f600 ${item}"}}
  - id: chosen
    tools: [add, fetch]
    dispatch: [{tool: add, params: {a: 1, b: 2}}, {tool: fetch, params: {code: "${first.text}"}}]
  - {id: sum, tool: add, params: {a: "${first.words}", b: "\U0001f600 ${steps.chosen}"}}
result: ${steps.sum}
""",
    "day.job.yaml": """\
goal_template: sums
inputs: {code: "\U0001f600"}
benchmarks: []
plan:
  steps:
    - {id: "prices", tool: fetch, params: {'code': "${inputs.code}"}}
    - {id: total, tool: add, params: {a: "${steps.prices.AAPL}", b: "${steps.price}"}}
  result: ${steps.total}
""",
    "wavewright.yaml": """\
tools: [tools/mine.py]   # \U0001f600
concurrency: 4
packs:
  web: {user_agent: "\U0001f600", requests_per_minute: 3}
schedules: {daily: {job: day.job.yaml, cron: "0 7 * * *"}}
schedules: {}
""",
    "goals/sums.yaml": """\
name: sums
goal: "Sums \U0001f600"
inputs_schema: {type: object, properties: {code: {type: string}}}
available_tools: [{name: fetch}, {name: add}]
gates: [{id: "en\U0001f600ough", on_tool: add, check: "output > 3 && '\U0001f600' != ''"}]
""",
}


@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize(
    ("client", "line_break"), [("neovim", "\n"), ("visual_studio_code", "\r\n")]
)
async def test_documents_typed_in_either_encoding_have_the_diagnostics_of_check(
    project: Path, name: str, client: str, line_break: str
) -> None:
    (project / "goals").mkdir()
    (project / "goals" / "sums.yaml").write_text(TYPED["goals/sums.yaml"].replace("\U0001f600", ""))
    (project / "called.plan.yaml").write_text(CALLED)
    file, typed = project / name, TYPED[name].replace("\n", line_break)
    async with open_editor(project, client) as editor:
        editor.open(file, "")
        for number, key in enumerate(re.findall(r"\r\n|.|\n", typed)):
            end = len(editor.texts[file])
            editor.splice(file, end, end, key)
            if number % 40 == 0:
                await _ask_everything(editor, file)
        end = len(typed)
        editor.splice(file, end - 5, end, "")
        editor.splice(file, end - 5, end - 5, typed[-5:])
        shown = as_shown(await editor.diagnostics(file))
        messages = [one.message for one in editor.client.messages]
        encoding = editor.encoding
    file.write_bytes(typed.encode())

    assert shown == as_checked(file, encoding)
    assert messages == []


@pytest.mark.parametrize("foreign", ["\u2028", "\x0c", "\x85"])
async def test_lines_are_those_of_the_editor_whatever_python_takes_for_a_line_break(
    project: Path, editor: Editor, foreign: str
) -> None:
    file = project / "sum.plan.yaml"
    editor.open(file, f"# one{foreign}two\n{PLAN}")
    editor.edit(file, "b: 2", "b: two")
    editor.edit(file, foreign, "")
    (found,) = await editor.diagnostics(file)

    assert (found.code, found.range.start) == ("E205", editor.place(file, "b: "))


async def _ask_everything(editor: Editor, file: Path) -> None:
    """Ask at the end of a text for all that an editor asks for."""
    text, client, named = editor.texts[file], editor.client, editor.identifier(file)
    place = editor.position(text, len(text))
    whole, context = types.Range(types.Position(0, 0), place), types.CodeActionContext([])
    options = types.FormattingOptions(2, insert_spaces=True)
    await client.text_document_completion_async(types.CompletionParams(named, place))
    await client.text_document_hover_async(types.HoverParams(named, place))
    await client.text_document_document_symbol_async(types.DocumentSymbolParams(named))
    await client.text_document_folding_range_async(types.FoldingRangeParams(named))
    await client.text_document_inlay_hint_async(types.InlayHintParams(named, whole))
    await client.text_document_formatting_async(types.DocumentFormattingParams(named, options))
    await client.text_document_code_action_async(types.CodeActionParams(named, whole, context))


async def test_faults_of_the_server_are_one_message_at_most_and_the_session_goes_on(
    project: Path,
) -> None:
    nowhere = types.TextDocumentIdentifier((project / "never_opened.plan.yaml").as_uri())
    async with open_editor(project) as editor:
        for line in range(3):
            params = types.HoverParams(nowhere, types.Position(line, 0))
            assert await editor.client.text_document_hover_async(params) is None
        editor.open(project / "sum.plan.yaml")

        assert await editor.diagnostics(project / "sum.plan.yaml") == []
        assert len(editor.client.messages) <= 1


async def test_a_text_without_a_file_is_checked(project: Path) -> None:
    file = project / "not_saved_yet.plan.yaml"
    async with open_editor(project) as editor:
        editor.open(file, "steps:\n  - id: a\n    tool: ad\n")
        (found,) = await editor.diagnostics(file)

    assert found.code == "E201"


async def test_a_request_that_is_cancelled_is_not_answered(project: Path) -> None:
    file = project / "large.plan.yaml"
    steps = (f"  - id: s{number}\n    tool: now\n" for number in range(1_000))
    async with open_editor(project) as editor:
        editor.open(file, "steps:\n" + "".join(steps))
        await editor.diagnostics(file)
        params = types.DocumentSymbolParams(editor.identifier(file))
        first, second = (
            editor.client.protocol.send_request(
                types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, params, msg_id=name
            )
            for name in ("first", "second")
        )
        editor.client.cancel_request(types.CancelParams("second"))
        await asyncio.wrap_future(first)

        with pytest.raises(JsonRpcException, match=r"[Cc]ancel"):
            await asyncio.wrap_future(second)


async def test_the_memory_of_the_server_is_flat_over_a_thousand_edits(project: Path) -> None:
    file = project / "sum.plan.yaml"
    async with open_editor(project) as editor:
        editor.open(file)
        await _edit_often(editor, file, 200)
        before = resident_bytes(editor.server_pid)
        await _edit_often(editor, file, 1_000)
        after = resident_bytes(editor.server_pid)

    assert after - before < 8 * 2**20


async def _edit_often(editor: Editor, file: Path, times: int) -> None:
    """Type and take back, with a question after every tenth edit and a check after every 500."""
    for number in range(times):
        end = len(editor.texts[file])
        if number % 2:
            editor.splice(file, end - 2, end, "")
        else:
            editor.splice(file, end, end, "# ")
        if number % 10 == 0:
            params = types.HoverParams(editor.identifier(file), types.Position(2, 12))
            await editor.client.text_document_hover_async(params)
        if number % 500 == 0:
            await editor.diagnostics(file)


def resident_bytes(process: int) -> int:
    """Return the memory of a process that is not swapped out."""
    pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
