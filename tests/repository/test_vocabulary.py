"""Names of files, functions and variables use the field's words; those of the former vocabulary are
refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.tree import ROOT, project_files

REPLACED = {
    "brake": "drain signal",
    "bury": "dead-letter",
    "desk": "writer thread",
    "duties": "writer thread",
    "fallen": "fallback failure",
    "harvest": "collect",
    "heed": "apply",
    "inlet": "source",
    "landing": "fallback result",
    "mended": "fixed",
    "parcel": "batch",
    "performer": "call executor",
    "pot": "budget counter",
    "purse": "budget store",
    "realm": "PID namespace",
    "sealed": "saved",
    "sieve": "stream redactor",
    "stopper": "cancellation token",
    "till": "reservation batch",
    "trouble": "broker health",
    "turnstile": "rate limiter",
    "weigh": "validate",
    "wish": "request, transaction",
    "workshop": "job runner",
}


def words_of(name: str) -> set[str]:
    """Return the words of an identifier in any case style, in lower case and without a plural's
    `s`.
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return {
        form
        for word in words
        for form in (word.lower(), word.lower().removesuffix("s").removesuffix("e"))
    }


def defined_names(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield name
            case (
                ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                yield name
            case _:
                pass


def test_no_name_has_a_word_that_was_replaced() -> None:
    old = {
        f"{module.relative_to(ROOT)}: {name}": sorted(words_of(name) & REPLACED.keys())
        for module in (path for path in project_files() if path.suffix == ".py")
        for name in {module.stem, *defined_names(module)}
        if words_of(name) & REPLACED.keys()
    }

    assert old == {}


@pytest.mark.parametrize(
    ("name", "word"),
    [("open_purse", "purse"), ("PURSE", "purse"), ("WishesOfOne", "wish"), ("PotName", "pot")],
)
def test_a_replaced_word_is_found_in_every_style(name: str, word: str) -> None:
    assert word in words_of(name)


@pytest.mark.parametrize("name", ["spot", "until", "brakeman_id", "desktop"])
def test_no_other_word_is_taken_for_a_replaced_one(name: str) -> None:
    assert not words_of(name) & REPLACED.keys()
