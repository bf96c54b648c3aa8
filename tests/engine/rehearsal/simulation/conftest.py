"""A project whose plans are simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.rehearsal.simulation.effects_project import (
    SimulatedProject,
    write_simulated_project,
)


@pytest.fixture
def simulation(tmp_path: Path, wavewright: CommandLine) -> SimulatedProject:
    """A project whose tools raise when they are called."""
    return write_simulated_project(tmp_path, wavewright)
