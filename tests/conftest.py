"""What every test shares: asyncio as the backend, servers, temporary files, and how Hypothesis
looks for examples.

The suite draws the same examples in every run, so a red test is red for everybody; `make crash`
draws more. `HYPOTHESIS_PROFILE=explore` looks for new ones, and prints what repeats a failure.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import stamina
from hypothesis import HealthCheck, settings

from tests.crash.run_size import IS_WHOLE, volume

# A busy machine must not fail a test: no deadline, and no complaint about slow or picky generation.
PATIENT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

if TYPE_CHECKING:
    from tests.support.postgres import OwnServer, PostgresServer
    from tests.support.rabbitmq import Broker, RunningBroker
    from wavewright.engine.rehearsal.fake_model.server import FakeModelServer

_NUMBERS = count()

settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=volume(30, 100),
    suppress_health_check=PATIENT,
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# A model that gave no answer is asked again as often as ever, but at once: only tests of the waits
# themselves ask for `waits_between_requests`.
stamina.set_testing(True, attempts=1000, cap=True)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it runs in the background, and every program inherits it: Ctrl-C would
    # do nothing here.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Journals and database servers sync their files all the time, and nothing here cuts the power:
# where there is room, the files of the tests lie in memory.
_MEMORY = Path("/dev/shm")  # noqa: S108 - subfolders of it are made by `tempfile`
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 8 * 2**30:
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None

# The garbage collector has nothing to gain while thousands of tests and modules are loaded, nor
# from what they hold.
gc.set_threshold(100_000, 50, 1000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what only `make crash` runs."""
    if IS_WHOLE:
        return
    left_out = pytest.mark.skip(reason="part of `make crash`")
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(left_out)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test's runs without a project are kept, in place of the tester's own folder; nothing
    lies there yet.
    """
    folder = tmp_path_factory.getbasetemp() / f"state-{next(_NUMBERS)}"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, one for the session; what is known of model servers is each test's
    own, since their ports return.
    """
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    (folder / "wavewright" / "model-servers.json").unlink(missing_ok=True)
    return folder


@pytest.fixture
def waits_between_requests() -> Iterator[None]:
    """A model that gave no answer is asked again after the wait of everyday runs."""
    with stamina.set_testing(False):
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def starter_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `wavewright init` writes, once per session: most of its time goes into the schemas.
    Tests copy it.
    """
    from wavewright.engine.main import main

    folder = tmp_path_factory.mktemp("starter") / "project"
    assert main(["init", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def started_model_server() -> Iterator[FakeModelServer]:
    """The one server of the session; tests ask for `model_server`, which forgets what the test
    before it said.
    """
    # Imported for those that ask: most tests need no server, and nobody should wait for one.
    from wavewright.engine.rehearsal.fake_model.server import FakeModelServer

    with FakeModelServer() as server:
        yield server


@pytest.fixture
def model_server(started_model_server: FakeModelServer) -> Iterator[FakeModelServer]:
    """A model server on loopback that answers by this test's rules."""
    started_model_server.reset()
    yield started_model_server
    broken = started_model_server.broken[:]
    started_model_server.reset()
    if broken:
        raise broken[0]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The one PostgreSQL server of the session; each test takes a `database()` of its own."""
    from tests.support.postgres import NoServer, serving
    from tests.support.session_server import unavailable

    with ExitStack() as stack:
        try:
            server = stack.enter_context(serving())
        except NoServer as reason:
            unavailable(str(reason))
        yield server


@pytest.fixture(scope="session")
def mortal_postgres(postgres: PostgresServer) -> Iterator[OwnServer]:
    """The same where it is the tests' own, or else one more; tests ask for `own_postgres`."""
    from tests.support.postgres import NoServer, OwnServer, started
    from tests.support.session_server import unavailable

    if isinstance(postgres, OwnServer):
        yield postgres
        return
    with ExitStack() as stack:
        try:
            server = stack.enter_context(started())
        except NoServer as reason:
            unavailable(str(reason))
        yield server


@pytest.fixture
def own_postgres(mortal_postgres: OwnServer) -> Iterator[OwnServer]:
    """A PostgreSQL server that this test may stop: it runs again afterwards."""
    yield mortal_postgres
    mortal_postgres.restart()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | RunningBroker]:
    """The one RabbitMQ of the session; a test takes names of its own from it and leaves it running."""
    from tests.support.rabbitmq import shared_broker

    with shared_broker(tmp_path_factory) as shared:
        yield shared


@pytest.fixture(scope="session")
def second_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Another RabbitMQ, also where one is given; tests ask for `mortal_broker`, which has it for
    itself.
    """
    from tests.support.rabbitmq import own_broker

    with own_broker(tmp_path_factory, "rabbitmq-mortal") as shared:
        yield shared


@pytest.fixture
def mortal_broker(
    second_broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A RabbitMQ that this test may stop, kill and start; give the test time, for others may have
    it first.
    """
    from tests.support.rabbitmq import lent

    with lent(second_broker, tmp_path_factory) as own:
        yield own
