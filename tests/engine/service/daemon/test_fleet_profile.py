"""The profile `fleet` of compose.yaml, its very commands as processes: daemon, user of the workers,
workers.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen
from uuid import uuid4

import anyio.to_thread
import pytest
import yaml

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from tests.repository.tree import ROOT
from tests.support.postgres import PostgresServer
from tests.support.prepared_command import PreparedCommand, RunningCommand
from tests.support.session_server import unavailable
from wavewright.engine.service.messages.models import JobRequest

pytestmark = pytest.mark.anyio

SERVICES = cast(
    "dict[str, Any]", yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
)["services"]
WORKERS = 3


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.database()
    yield url
    postgres.kill_connections(url)
    postgres.run("DROP OWNED BY wavewright_worker; DROP ROLE IF EXISTS worker", url)


def make_user(url: str) -> None:
    """Run the service `worker-user`, with the addresses of this machine in place of those of the
    containers.
    """
    service, parts = SERVICES["worker-user"], urlsplit(url)
    program, *options = service["entrypoint"]
    here = {"--host": parts.hostname, "--username": parts.username, "--dbname": parts.path[1:]}
    command = [
        f"{name}={here[name]}" for name, _, _ in (option.partition("=") for option in options)
    ]
    mounted = str(ROOT / "docs" / "deploy")
    command += [option.replace("/deploy", mounted, 1) for option in service["command"]]
    if shutil.which(program) is None:
        unavailable(f"{program} is not there")
    environment = {**os.environ, "PGPORT": str(parts.port), "WORKER_PASSWORD": "of a test"}
    subprocess.run([program, *command], env=environment, check=True, capture_output=True)


@pytest.fixture
def start_worker(site: DaemonSite, database: str) -> Iterator[Callable[[], str]]:
    """Start a worker as compose does, and return the address of its health checks."""
    started = list[RunningCommand]()

    def begin() -> str:
        command, environment, address = worker_command(database)
        log = site.folder / f"worker-{len(started)}.log"
        started.append(
            PreparedCommand(command, site.folder, site.whole_environment() | environment, log)
        )
        return address

    yield begin
    for worker in started:
        worker.send_signal(signal.SIGKILL)
        worker.wait()


def worker_command(url: str) -> tuple[list[str], dict[str, str], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    command = [option.replace("0.0.0.0:9464", place) for option in SERVICES["worker"]["command"]]
    assert place in command
    parts = urlsplit(url)
    as_worker = parts._replace(
        netloc=f"worker:of%20a%20test@{parts.hostname}:{parts.port}"
    ).geturl()
    return command, {"WAVEWRIGHT_PG_URL": as_worker}, f"http://{place}"


async def read(address: str) -> str:
    def ask() -> str:
        try:
            with urlopen(address, timeout=5) as answer:  # noqa: S310 - of a process on this machine
                return str(answer.read(), "utf-8")
        except (URLError, OSError):
            return ""

    return await anyio.to_thread.run_sync(ask)


async def until_ready(health: str) -> None:
    with anyio.fail_after(40):
        while not await read(f"{health}/ready"):  # noqa: ASYNC110 - another process makes it so
            await anyio.sleep(0.05)


async def test_its_workers_make_the_calls_of_the_daemon(
    site: DaemonSite,
    client: BrokerClient,
    start: StartDaemon,
    database: str,
    start_worker: Callable[[], str],
) -> None:
    settings = yaml.safe_load(
        (ROOT / "docs" / "deploy" / "fleet" / "wavewright.yaml").read_text(encoding="utf-8")
    )
    site.write(more=f"fleet: {settings['fleet']}")
    daemon = start(WAVEWRIGHT_PG_URL=database)
    await daemon.started()
    for _ in range(2):  # compose runs it at each start
        await anyio.to_thread.run_sync(make_user, database)
    workers = [start_worker() for _ in range(WORKERS)]
    for health in workers:
        await until_ready(health)

    wanted, calls = str(uuid4()), [("say", f"word {number}") for number in range(9)]
    await client.send(JobRequest(job_id=wanted, job=job(*calls)))
    await client.until_told(wanted, "JOB_COMPLETED")
    served = [await read(f"{health}/metrics") for health in workers]
    made = [
        line
        for text in served
        for line in text.splitlines()
        if line.startswith("wavewright_fleet_calls_total{")
    ]
    assert sum(float(line.rpartition(" ")[2]) for line in made) == len(calls)
    assert site.calls().total() == len(calls)


def test_the_profile_waits_for_what_it_needs() -> None:
    profile = {name for name, service in SERVICES.items() if service.get("profiles") == ["fleet"]}

    assert profile == {"worker", "worker-user"}
    assert SERVICES["worker"]["deploy"] == {"replicas": WORKERS}
    assert SERVICES["worker"]["depends_on"] == {
        "worker-user": {"condition": "service_completed_successfully"}
    }
    assert SERVICES["worker-user"]["depends_on"] == {"daemon": {"condition": "service_healthy"}}
