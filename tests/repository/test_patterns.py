"""Regular expressions that match the same on every Python that is supported.

CPython before 3.11.5 matches a possessive quantifier or an atomic group wrongly where a subpattern
that can go back lies under it (https://github.com/python/cpython/issues/106052). Over single
characters (`[0-9]*+`) they are right.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, cast

import pytest

from tests.repository.tree import PACKAGES, ROOT, module_name, shipped_modules, syntax_tree

parser: Any = import_module("re._parser")
codes: Any = import_module("re._constants")

SINGLE = [[codes.LITERAL], [codes.NOT_LITERAL], [codes.ANY], [codes.IN]]

COLLECT = """
import importlib, json, os, re, sys
packages = tuple(os.path.join(os.getcwd(), package) + os.sep for package in sys.argv[1].split(","))
found = []
compile_pattern = re._compile
def record(pattern, flags):
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") == "re":
        frame = frame.f_back
    if frame.f_code.co_filename.startswith(packages) and isinstance(pattern, (str, bytes)):
        written = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
        found.append((f"{frame.f_code.co_filename}:{frame.f_lineno}", written, int(flags)))
    return compile_pattern(pattern, flags)
re._compile = record
for module in sys.stdin.read().split():
    importlib.import_module(module)
from wavewright.config.redaction import Redactor
Redactor(["a known secret \\u00e9\\n+", "short"])
json.dump(found, sys.stdout)
"""
"""Imports modules and prints the patterns that are compiled meanwhile, with their places."""


def unsafe_parts(pattern: str | bytes, flags: int = 0) -> list[str]:
    """Return what a pattern holds that is possessive or atomic over more than a single character."""
    return [str(part) for part in _unsafe(parser.parse(pattern, flags))]


def _unsafe(node: object) -> Iterator[object]:
    if not isinstance(node, (list, tuple, parser.SubPattern)):
        return
    parts = cast("Sequence[Any]", node)
    if len(parts) == 2:
        code, argument = parts
        repeats = code is codes.POSSESSIVE_REPEAT
        if code is codes.ATOMIC_GROUP or (
            repeats and [inner for inner, _ in argument[2]] not in SINGLE
        ):
            yield code
    for part in parts:
        yield from _unsafe(part)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:ab)*+",
        r"(?:a|b+)++",
        r"x(?=(?:a[bc])?+)",
        r"(?P<n>(?>a+b))",
        r"(?:[a]|bc){2,}+",
        rb"(?:ab)++",
    ],
)
def test_a_pattern_that_old_pythons_match_wrongly_is_found(
    pattern: str | bytes,
) -> None:
    assert unsafe_parts(pattern)


@pytest.mark.parametrize(
    "pattern", [r"[ab]*+c", r"a++", r".{2,5}+", r"[^x]?+", r"(?:ab)*", r"(?=(?P<n>ab))"]
)
def test_a_pattern_that_every_python_matches_alike_is_left_alone(pattern: str) -> None:
    assert not unsafe_parts(pattern)


@pytest.mark.long
def test_no_pattern_that_a_module_compiles_depends_on_the_python() -> None:
    modules = [module_name(path) for path in shipped_modules() if "starter" not in path.parts]
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, ",".join(PACKAGES)],
        cwd=ROOT,
        input="\n".join(modules),
        capture_output=True,
        text=True,
        check=True,
    )
    compiled: list[tuple[str, str, int]] = json.loads(done.stdout)

    assert len(compiled) > 100, "patterns were not collected"
    assert [place for place, pattern, flags in compiled if unsafe_parts(pattern, flags)] == []


def test_no_pattern_that_a_function_uses_depends_on_the_python() -> None:
    literals = [
        (f"{path.relative_to(ROOT)}:{call.lineno}", call.args[0].value)
        for path in shipped_modules()
        for call in ast.walk(syntax_tree(path))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).startswith("re.")
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, (str, bytes))
    ]

    assert [place for place, pattern in literals if unsafe_parts(pattern)] == []
