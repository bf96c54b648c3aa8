"""What is too long for every run of the tests runs with `make crash` only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.crash.run_size import IS_WHOLE
from tests.engine.conftest import wavewright

if TYPE_CHECKING:
    from tests.support.rabbitmq import Broker

__all__ = ["wavewright"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what only the whole programme runs."""
    if IS_WHOLE:
        return
    long = pytest.mark.skip(reason="part of `make crash`")
    for item in items:
        if item.get_closest_marker("crash") is not None and "crash" in item.path.parts:
            item.add_marker(long)


@pytest.fixture
def broker_to_break(mortal_broker: Broker) -> Iterator[Broker]:
    """A broker that may be stopped and killed; it runs again afterwards."""
    yield mortal_broker
    mortal_broker.start()
