"""What is too long for every run of the tests runs with `make crash` only."""

from __future__ import annotations

import pytest

from tests.crash.volume import IS_WHOLE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what only the whole programme runs."""
    if IS_WHOLE:
        return
    long = pytest.mark.skip(reason="part of `make crash`")
    for item in items:
        if item.get_closest_marker("crash") is not None and "crash" in item.path.parts:
            item.add_marker(long)
