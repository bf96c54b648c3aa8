"""The door of a room is its `__init__.py`: what `__all__` promises is there, and opening it is cheap."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

from tests.repository.tree import ROOMS

HEAVY = (
    "networkx",
    "cel_expr_python",
    "google.protobuf",
    "httpx",
    "anyio",
    "pyarrow",
    "pandas",
    "rich",
    "typer",
)


def promised_names(door: ModuleType) -> list[str]:
    return list(getattr(door, "__all__", ()))


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_that_a_door_promises_is_there(room: str) -> None:
    door = importlib.import_module(f"wavewright.{room}")

    assert [name for name in promised_names(door) if not hasattr(door, name)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_door_lists_each_name_once(room: str) -> None:
    names = promised_names(importlib.import_module(f"wavewright.{room}"))

    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("room", ROOMS)
def test_a_door_shows_no_public_name_that_it_does_not_promise(room: str) -> None:
    door = importlib.import_module(f"wavewright.{room}")
    public = {name: value for name, value in vars(door).items() if not name.startswith("_")}
    shown = {name for name, value in public.items() if is_own(value)} - {"TYPE_CHECKING"}

    assert shown <= set(promised_names(door))


def is_own(value: object) -> bool:
    """Tell whether a value is ours, not a module or something that the door imports for its own use."""
    home = getattr(value, "__module__", "wavewright")
    return not isinstance(value, ModuleType) and str(home).startswith("wavewright")


@pytest.mark.parametrize("room", ROOMS)
def test_a_door_has_a_sentence_that_says_what_the_room_is_for(room: str) -> None:
    door = importlib.import_module(f"wavewright.{room}")

    assert door.__doc__


@pytest.mark.parametrize("room", ROOMS)
def test_opening_a_door_imports_nothing_heavy(room: str) -> None:
    program = f"import sys, wavewright.{room}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert shown.stdout.split() == []
