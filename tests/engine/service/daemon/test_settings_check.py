"""Whatever keeps a daemon from starting is told at once, and is exit code 2 where waiting is no
use.
"""

from __future__ import annotations

import os
import socket
from dataclasses import replace

import anyio.to_thread
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import DaemonSite
from tests.support.rabbitmq import DUMB, Broker, RunningBroker
from wavewright.engine.service.bus.bus import BusSettings, open_bus

pytestmark = pytest.mark.anyio


@pytest.fixture
def starting(
    site: DaemonSite, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """Call the command line in the yard, with its environment."""
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(site.folder)
    return wavewright


async def answer_of(starting: CommandLine) -> tuple[int, str]:
    answer = await anyio.to_thread.run_sync(starting, "daemon")
    assert "Traceback" not in answer.err
    return answer.code, answer.err


async def test_faults_of_every_kind_are_told_at_once(
    site: DaemonSite, starting: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_SLOTS", "none")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")
    (site.folder / "journal").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (site.folder / "wavewright.yaml").write_text(
            f"""
            tools: [{{path: yard.py, functions: [say]}}, {{path: gone.py}}, {{path: lost.py}}]
            packs: {{nobody: {{}}}}
            workers: [none.yaml]
            ladders: {{planner: {{}}}}
            journal: journal
            unknown: 1
            model: openai
            daemon:
              amqp_url: {site.url.replace("tester-of-loopback", "another-password")}
              goal_template: nowhere
              health: 127.0.0.1:{port}
              slotz: 3
            """
        )
        monkeypatch.delenv("WAVEWRIGHT_AMQP_URL")

        code, told = await answer_of(starting)

    assert code == 2
    for said in (
        "'unknown' is no field",
        "'slotz' is no field",
        "WAVEWRIGHT_SLOTS",
        "'tools[1]'",
        "'tools[2]'",
        "there is no pack 'nobody'",
        "none.yaml",
        "ladder 'planner'",
        "'nowhere'",
        "'openai'",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        f"cannot be served at 127.0.0.1:{port}",
        "a folder is no journal",
        "the broker refuses the user 'tester' or its password",
    ):
        assert said in told, said
    assert "the address of the broker is missing" not in told
    assert "another-password" not in told


async def test_no_queue_is_made_by_a_default_that_was_meant_to_be_another(
    site: DaemonSite, starting: CommandLine
) -> None:
    spare = f"{site.topology.intake}.spare"
    site.write(daemon="queue: {}")
    settings = site.folder / "wavewright.yaml"
    settings.write_text(settings.read_text().replace(site.topology.intake, spare))

    code, told = await answer_of(starting)

    assert (code, "'queue' is no field of 'daemon'" in told) == (2, True)
    # Had it been made, it would not be made in another form now.
    site.topology = replace(site.topology, intake=spare, outlets=(), delivery_limit=2)
    async with open_bus(BusSettings(site.url, site.topology)):
        pass


async def test_every_place_that_refuses_the_daemon_is_told(
    site: DaemonSite, start: StartDaemon
) -> None:
    (site.folder / "other.db").write_text(
        "no database at all, and long enough to be looked at" * 20
    )
    site.write(daemon="delivery_limit: 3", more="journal: other.db")
    with socket.create_server(("127.0.0.1", 0)) as other:
        daemon = start(WAVEWRIGHT_HEALTH=f"127.0.0.1:{other.getsockname()[1]}")
        code = await daemon.ended()

    assert code == 2
    assert f"queue '{site.topology.intake}' exists with other arguments" in daemon.text
    assert "the file is not a journal" in daemon.text
    assert "Address already in use by " in daemon.text
    assert f"process {os.getpid()}\n  = help: set `daemon.health` to another place" in daemon.text
    assert "Traceback" not in daemon.text


async def test_a_user_of_the_broker_who_may_not_write_is_named_with_the_right_that_is_missing(
    site: DaemonSite, broker: Broker | RunningBroker, start: StartDaemon
) -> None:
    if not isinstance(broker, Broker):
        pytest.skip("the broker of WAVEWRIGHT_TEST_AMQP_URL has no user without rights")
    async with open_bus(BusSettings(site.url, site.topology)):
        pass
    daemon = start(WAVEWRIGHT_AMQP_URL=broker.url_of(DUMB))
    code = await daemon.ended()

    assert code == 2
    assert (
        f"the user {DUMB!r} may not write to the exchange {site.topology.exchange!r}" in daemon.text
    )
    assert "rabbitmqctl set_permissions" in daemon.text
    assert "Traceback" not in daemon.text
