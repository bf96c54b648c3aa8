"""How soon an editor has its answers from `wavewright lsp`, measured by a client over pipes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from lsprotocol import types

from benchmarks.measure import show_table
from tests.engine.interfaces.cli.lsp.editor import Editor, open_editor
from wavewright.engine.interfaces.cli.lsp.server import SECONDS_OF_REST

TURNS = 5
EDITS = 1_000
TOOLS = '''
def scale(x: float, by: float = 1.0) -> dict[str, float]:
    """Scale a number."""
    return {"x": x * by}
'''


def plan_text(steps: int) -> str:
    """Return a plan of chains of ten steps, as a person writes it."""
    lines = ["inputs: {x: 1}", "steps:"]
    for number in range(steps):
        read = f"steps.s{number - 1}.x" if number % 10 else "inputs.x"
        lines.append(f"  - id: s{number}\n    tool: scale\n    params:\n      x: ${{{read}}}")
    last = ", ".join(f"${{steps.s{number}.x}}" for number in range(9, steps, 10))
    return "\n".join([*lines, f'result: ["{last}"]', ""])


def measure_editor() -> None:
    """Print the time of each kind of request, and the memory of the server over many edits."""
    anyio.run(_measure)


async def _measure() -> None:
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
        root = Path(folder)
        (root / "tools.py").write_text(TOOLS, encoding="utf-8")
        (root / "wavewright.yaml").write_text("tools: [tools.py]\n", encoding="utf-8")
        async with open_editor(root) as editor:
            for steps in (300, 1_000):
                file = root / f"of_{steps}.plan.yaml"
                editor.open(file, plan_text(steps))
                await editor.diagnostics(file)
                rows += [[steps, *row] for row in await _requests(editor, file, steps)]
            columns = ["steps", "request", "best", "worst", "the server's CPU"]
            show_table("Answers to an editor, ms", columns, rows)
            await _edits(editor, root / "of_300.plan.yaml")


async def _requests(editor: Editor, file: Path, steps: int) -> list[list[object]]:
    client, named = editor.client, editor.identifier(file)
    place = editor.place(file, f"steps.s{steps - 2}.")
    whole = types.Range(types.Position(0, 0), types.Position(9 * steps, 0))
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "completion": lambda: client.text_document_completion_async(
            types.CompletionParams(named, place)
        ),
        "hover": lambda: client.text_document_hover_async(types.HoverParams(named, place)),
        "definition": lambda: client.text_document_definition_async(
            types.DefinitionParams(named, place)
        ),
        "symbols": lambda: client.text_document_document_symbol_async(
            types.DocumentSymbolParams(named)
        ),
        "inlay hints": lambda: client.text_document_inlay_hint_async(
            types.InlayHintParams(named, whole)
        ),
    }
    rows: list[list[object]] = []
    for name, ask in asked.items():
        taken: list[float] = []
        used = 0.0
        for _ in range(TURNS):
            await _changed(editor, file)
            start, used_before = time.perf_counter(), _processor_seconds(editor)
            await ask()
            taken.append(time.perf_counter() - start)
            used += _processor_seconds(editor) - used_before
        rows.append([name, min(taken) * 1000, max(taken) * 1000, used / TURNS * 1000])
    used_before = _processor_seconds(editor)
    taken = [await _changed(editor, file) - SECONDS_OF_REST for _ in range(TURNS)]
    used = _processor_seconds(editor) - used_before
    figures = (seconds * 1000 for seconds in (min(taken), max(taken), used / TURNS))
    rows.append(["diagnostics, after the rest", *figures])
    return rows


async def _changed(editor: Editor, file: Path) -> float:
    """Change a text, and return after how many seconds its diagnostics are shown."""
    start = time.perf_counter()
    end = len(editor.texts[file])
    if editor.versions[file] % 2:
        editor.splice(file, end, end, "#")
    else:
        editor.splice(file, end - 1, end, "")
    await editor.diagnostics(file)
    return time.perf_counter() - start


async def _edits(editor: Editor, file: Path) -> None:
    before = _resident(editor)
    for number in range(EDITS):
        end = len(editor.texts[file])
        if number % 2:
            editor.splice(file, end - 1, end, "")
        else:
            editor.splice(file, end, end, "\n")
    await editor.diagnostics(file)
    after = _resident(editor)
    show_table("Memory of the server, MiB", ["before", f"after {EDITS:,} edits"], [[before, after]])


def _processor_seconds(editor: Editor) -> float:
    """Return the time that the server has used of the processor, to the hundredth of a second."""
    fields = Path(f"/proc/{editor.server_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(editor: Editor) -> float:
    """Return the resident memory of the server, in MiB."""
    text = Path(f"/proc/{editor.server_pid}/status").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
