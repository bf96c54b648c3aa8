"""The size of the code: lines, files, crowded folders, and the calls between `main` and a tool."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tempfile
import tokenize
from collections import Counter
from pathlib import Path

from benchmarks.measure import show_table
from wavewright.engine.main import main

PACKAGES = ("config", "prompts", "planner", "tools", "executor", "reviewer", "engine")
_ROOT = Path(__file__).parent.parent
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
_SETTINGS: dict[str, object] = {"tools": [{"path": "probe.py", "functions": {"probe": {}}}]}
_JOB = {
    "version": 1,
    "name": "probe",
    "goal": "Dump the stack inside a tool.",
    "plan": {"steps": [{"id": "here", "tool": "probe"}], "result": "${steps.here}"},
}
_TOOL = '''
import asyncio
import sys

import anyio


def names(code):
    return [f"{code.co_filename}:{code.co_qualname}"]


async def probe() -> list[str]:
    """Return the functions on the way here, those of the task that started this one before it."""
    task_code = asyncio.current_task().get_coro().cr_code
    loop, task, frame = [], [], sys._getframe()
    while frame is not None and not loop:
        task = [*names(frame.f_code), *task]
        is_first, frame = frame.f_code is task_code, frame.f_back
        while is_first and frame is not None:
            loop = [*names(frame.f_code), *loop]
            frame = frame.f_back
    parents, parent = [], anyio.get_current_task().parent_id
    for other in asyncio.all_tasks():
        awaited = other.get_coro() if id(other) == parent else None
        while awaited is not None:
            code = getattr(awaited, "cr_code", None) or getattr(awaited, "gi_code", None)
            parents += names(code) if code is not None else []
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return [*loop, *parents, *task]
'''


def measure_size() -> None:
    """Print files and code lines (no comments, docstrings, blank lines) per package, and the calls
    to a tool.
    """
    files = {package: sorted((_ROOT / package).rglob("*.py")) for package in PACKAGES}
    lines = {
        package: sum(code_lines(file.read_text()) for file in files[package])
        for package in PACKAGES
    }
    rows = [(package, lines[package], len(files[package])) for package in PACKAGES]
    rows.append(("all", sum(lines.values()), sum(map(len, files.values()))))
    show_table("Size", ("package", "code lines", "files"), rows)
    modules = Counter(
        file.parent for package in PACKAGES for file in files[package] if file.name != "__init__.py"
    )
    crowded = [
        f"{folder.relative_to(_ROOT)} ({count})" for folder, count in modules.items() if count > 16
    ]
    print(f"\nFolders over 16 modules: {', '.join(crowded) or 'none'}")
    calls = calls_to_a_tool()
    print(f"Calls from `main` to a tool: {len(calls)}")
    for name in calls:
        print(f"  {name}")


def code_lines(text: str) -> int:
    """Return the lines of a module that hold code."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - docstrings)


def calls_to_a_tool() -> list[str]:
    """Return the functions between `main` and a tool, as the stacks of a run's tasks have them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "wavewright.yaml").write_text(json.dumps(_SETTINGS))
        (folder / "probe.job.yaml").write_text(json.dumps(_JOB))
        (folder / "probe.py").write_text(_TOOL)
        with contextlib.redirect_stdout(io.StringIO()):
            main(["-C", name, "run", "probe.job.yaml", "--output", "out", "--quiet"])
        [package] = folder.glob("out/*/package.json")
        stack = json.loads(package.read_text())["result"]
    ours = [
        place for place in stack if any(f"/{package}/wavewright/" in place for package in PACKAGES)
    ]
    start = next(number for number, place in enumerate(ours) if place.endswith("main.py:main"))
    return [place.rpartition("/")[2] for place in ours[start:]]
