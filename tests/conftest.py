"""What every test shares: asyncio as the backend, a model server, and how Hypothesis looks for examples.

The suite draws the same examples in every run, so a red test is red for everybody. `HYPOTHESIS_PROFILE=explore`
looks for new ones, and prints what repeats a failure.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: no deadline, and no complaint about slow or picky generation.
PATIENT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

if TYPE_CHECKING:
    from tests.support.scripted_model import ScriptedServer

settings.register_profile(
    "suite", derandomize=True, deadline=None, database=None, suppress_health_check=PATIENT
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it runs in the background, and every program inherits it: Ctrl-C would do nothing here.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def started_model_server() -> Iterator[ScriptedServer]:
    """The one server of the session; tests ask for `model_server`, which forgets what the test before it said."""
    # Imported for those that ask: most tests need no server, and nobody should wait for one.
    from tests.support.scripted_model import ScriptedServer

    with ScriptedServer() as server:
        yield server


@pytest.fixture
def model_server(started_model_server: ScriptedServer) -> Iterator[ScriptedServer]:
    """A model server on loopback that answers by this test's rules."""
    started_model_server.reset()
    yield started_model_server
    broken = started_model_server.broken[:]
    started_model_server.reset()
    if broken:
        raise broken[0]
