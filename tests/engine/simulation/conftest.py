"""A project whose plans are simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.simulation.effects_project import SimulatedProject, make_workshop


@pytest.fixture
def simulation(tmp_path: Path, wavewright: CommandLine) -> SimulatedProject:
    """A project whose tools raise when they are called."""
    return make_workshop(tmp_path, wavewright)
