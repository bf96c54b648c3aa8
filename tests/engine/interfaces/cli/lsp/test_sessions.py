"""A session in which a plan is typed character by character."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

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
