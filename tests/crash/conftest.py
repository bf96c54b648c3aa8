"""A broker that tests of the crash programme may break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.engine.conftest import wavewright

if TYPE_CHECKING:
    from tests.support.rabbitmq import Broker

__all__ = ["wavewright"]


@pytest.fixture
def broker_to_break(mortal_broker: Broker) -> Iterator[Broker]:
    """A broker that may be stopped and killed; it runs again afterwards."""
    yield mortal_broker
    mortal_broker.start()
