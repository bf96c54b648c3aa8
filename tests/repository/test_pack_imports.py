"""A pack imports public names only: what comes with the engine is written as any stranger's is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.tree import PACKAGES, ROOT

PACKS = sorted((ROOT / "packs").rglob("*.py"))


def public_names(package: str) -> set[str]:
    """Return the names that the stub of a package lists."""
    stub = ROOT / package / "wavewright" / package / "__init__.pyi"
    return {
        alias.asname or alias.name
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


PUBLIC = {f"wavewright.{name}": public_names(name) for name in PACKAGES if name != "packs"}


def hidden_imports(program: str) -> Iterator[str]:
    """Yield what a program imports of the engine that no stub lists."""
    for node in ast.walk(ast.parse(program)):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases if is_of_engine(alias.name))
            case ast.ImportFrom(module=str(module), names=aliases) if is_of_engine(module):
                listed = PUBLIC.get(module, set())
                yield from (f"{module}: {a.name}" for a in aliases if a.name not in listed)
            case _:
                pass


def is_of_engine(module: str) -> bool:
    return module.partition(".")[0] == "wavewright" and not module.startswith("wavewright.packs")


@pytest.mark.parametrize("path", PACKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pack_imports_of_the_engine_only_names_that_a_stub_lists(path: Path) -> None:
    assert list(hidden_imports(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "program",
    [
        "import wavewright.tools",
        "from wavewright import tools",
        "from wavewright.tools.packs import Pack",
        "from wavewright.tools import packs",
        "def late():\n    from wavewright.engine.run import jobs",
    ],
)
def test_an_import_of_what_no_stub_lists_is_seen(program: str) -> None:
    assert list(hidden_imports(program))
