"""The packages that others import: what each of them exports is there, and importing one loads
nothing heavy.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

from tests.repository.tree import PACKAGES, ROOT

HEAVY = (
    "anyio",
    "docstring_parser",
    "httpx",
    "jinja2",
    "jsonschema_rs",
    "markdown_it",
    "networkx",
    "pandas",
    "pyarrow",
    "pydantic",
    "re2",
    "rich",
    "typer",
    "yaml",
)
LAZY = sorted(
    ".".join(stub.relative_to(ROOT).parts[1:-1])
    for stub in ROOT.glob("*/wavewright/**/__init__.pyi")
)


def exported_names(package: ModuleType) -> list[str]:
    return list(getattr(package, "__all__", ()))


@pytest.mark.parametrize("name", LAZY)
def test_every_name_of_a_stub_can_be_imported_and_no_other_one(name: str) -> None:
    package = importlib.import_module(name)

    assert [
        exported for exported in exported_names(package) if getattr(package, exported) is None
    ] == []
    assert set(exported_names(package)) <= set(dir(package))
    with pytest.raises(AttributeError, match="chekc"):
        _ = vars(package)["__getattr__"]("chekc")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_shows_no_public_name_that_it_does_not_export(name: str) -> None:
    package = importlib.import_module(f"wavewright.{name}")
    public = {name: value for name, value in vars(package).items() if not name.startswith("_")}
    shown = {name for name, value in public.items() if is_own(value)}

    assert shown <= set(exported_names(package))


def is_own(value: object) -> bool:
    """Tell whether a value is ours, not a module or something that the package imports for its own
    use.
    """
    home = getattr(value, "__module__", "wavewright")
    return not isinstance(value, ModuleType) and str(home).startswith("wavewright")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_a_sentence_that_says_what_it_is_for(name: str) -> None:
    assert importlib.import_module(f"wavewright.{name}").__doc__


@pytest.mark.parametrize("name", sorted({*LAZY, *(f"wavewright.{part}" for part in PACKAGES)}))
def test_importing_a_package_imports_nothing_heavy(name: str) -> None:
    program = f"import sys, {name}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert shown.stdout.split() == []
