"""The door of the room: everything it offers is there, and opening it costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wavewright import tools


def test_every_name_that_is_offered_can_be_had() -> None:
    assert sorted(tools.__all__) == tools.__all__
    assert all(getattr(tools, name) is not None for name in tools.__all__)


def test_another_name_is_an_attribute_error() -> None:
    name = "nothing"

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = getattr(tools, name)


def test_opening_the_door_imports_nothing_heavy() -> None:
    code = (
        "import sys, wavewright.tools;"
        "assert not {'pydantic', 'anyio', 'httpx', 'docstring_parser'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
