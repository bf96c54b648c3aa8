"""A project to rehearse in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.simulation.effects_project import Workshop, make_workshop


@pytest.fixture
def workshop(tmp_path: Path, wavewright: CommandLine) -> Workshop:
    """A project whose tools raise when they are called."""
    return make_workshop(tmp_path, wavewright)
