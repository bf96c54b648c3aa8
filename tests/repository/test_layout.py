"""Where files lie: a portion of the namespace in each package's folder, nothing else at the root,
and a true map.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repository.tree import PACKAGES, ROOT, project_files

FOLDERS = {*PACKAGES, "plans", "tests", "docs", "benchmarks", ".ci", ".github"}
FILES = {
    ".dockerignore",
    ".editorconfig",
    ".git-blame-ignore-revs",
    ".gitignore",
    ".pre-commit-hooks.yaml",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "compose.yaml",
    "mkdocs.yml",
    "pyproject.toml",
    "requirements-daemon.lock",
    "requirements-release.lock",
    "requirements-run.lock",
    "requirements.lock",
}


def test_the_root_holds_the_agreed_folders_and_files_and_nothing_else() -> None:
    names = {path.relative_to(ROOT).parts[0] for path in project_files()}

    assert names == FOLDERS | FILES


def test_every_python_file_of_a_package_lies_in_its_portion_of_the_namespace() -> None:
    python_files = [path.relative_to(ROOT) for path in project_files() if path.suffix == ".py"]
    outside = [
        str(path)
        for path in python_files
        if path.parts[0] in PACKAGES and path.parts[1:3] != ("wavewright", path.parts[0])
    ]

    assert outside == []


def test_no_python_file_lies_at_the_root() -> None:
    assert [
        path.name for path in project_files() if path.parent == ROOT and path.suffix == ".py"
    ] == []


def test_no_room_closes_the_namespace_for_the_others() -> None:
    assert list(ROOT.glob("*/wavewright/__init__.py")) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_alone_in_its_folder_and_says_it_is_typed(package: str) -> None:
    portion = ROOT / package / "wavewright"

    assert [child.name for child in portion.iterdir() if child.name != "__pycache__"] == [package]
    assert (portion / package / "__init__.py").is_file()
    assert (portion / package / "py.typed").is_file()


def test_nothing_is_imported_by_a_name_that_users_have_themselves() -> None:
    folders = [path for path in project_files() if path.name == "__init__.py"]
    bare = [str(path.relative_to(ROOT)) for path in folders if path.parent.parent == ROOT]

    assert bare == []


def place_on_the_map(name: str) -> Path:
    """Return the path that the map means: `engine/main.py` is `engine/wavewright/engine/main.py`."""
    package, _, rest = name.partition("/")
    short = ROOT / package / "wavewright" / package / rest
    return short if package in PACKAGES and short.exists() else ROOT / name


MAP = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8") + re.findall(
    r"^## Where code goes$.*?(?=^## )",
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)[0]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w.]+/[\w./]*)`", MAP))))
def test_a_path_on_the_map_exists(name: str) -> None:
    assert place_on_the_map(name).exists()


@pytest.mark.parametrize(
    ("symbol", "name"), sorted(set(re.findall(r"`(\w+)` in `([\w.]+/[\w./]*)`", MAP)))
)
def test_a_symbol_on_the_map_is_in_its_module(symbol: str, name: str) -> None:
    assert re.search(rf"\b{symbol}\b", place_on_the_map(name).read_text(encoding="utf-8"))
