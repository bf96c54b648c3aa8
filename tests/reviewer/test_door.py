from __future__ import annotations

import subprocess
import sys

import pytest

import wavewright.reviewer as door


def test_the_door_gives_what_it_promises_and_nothing_else() -> None:
    assert all(callable(getattr(door, name)) for name in door.__all__)
    assert set(door.__all__) <= set(dir(door))
    with pytest.raises(AttributeError, match="no attribute 'propose'"):
        _ = door.propose


def test_opening_the_door_loads_nothing_that_takes_long() -> None:
    code = "import sys, wavewright.reviewer; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"pydantic", "jinja2", "markdown_it", "jsonschema_rs", "networkx", "anyio"} & set(loaded)
