"""The checkout as these tests see it: its packages and the files that belong to it."""

from __future__ import annotations

import ast
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("config", "prompts", "planner", "tools", "executor", "reviewer", "engine", "packs")


@cache
def project_files() -> tuple[Path, ...]:
    """Return every file that belongs to the project: tracked, or new and not ignored."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files belong to the project is not known")
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = sorted({ROOT / name for name in listed.stdout.split("\0") if name})
    return tuple(path for path in paths if path.is_file())


def shipped_modules() -> list[Path]:
    """Return every Python file of the packages."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Return what a Python file of the packages says; each is parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_name(path: Path) -> str:
    """Return the name under which a shipped file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
