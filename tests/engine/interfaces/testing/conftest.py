"""The project that these tests load and run plans of: the starter project, in a folder of the
test's own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.interfaces.testing.project_suite import Suite
from wavewright.engine.interfaces.testing.project import ProjectUnderTest


@pytest.fixture(scope="session")
def new_suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Written once: its schemas take longer than all the rest."""
    return Suite.new(tmp_path_factory.mktemp("new"))


@pytest.fixture
def suite(new_suite: Suite, tmp_path: Path) -> Suite:
    return new_suite.copy(tmp_path)


@pytest.fixture
def wavewright_project(suite: Suite) -> ProjectUnderTest:
    """Takes the place of the plugin's own: the plans of these tests are not this repository's."""
    return ProjectUnderTest(suite.folder, suite.folder / "tests")
