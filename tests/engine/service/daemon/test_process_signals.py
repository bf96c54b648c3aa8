"""Signals to a daemon that has nothing to do, and to one that has lost its broker."""

from __future__ import annotations

import signal
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest

from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from tests.support.prepared_command import PreparedCommand, Spawn, new_process
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.service.bus.relay import Relay
from wavewright.engine.service.messages.models import JobRequest

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("number", "code", "spawn"),
    [
        pytest.param(signal.SIGINT, 0, new_process, id="SIGINT"),
        pytest.param(signal.SIGHUP, 0, PreparedCommand, id="SIGHUP"),
        pytest.param(signal.SIGQUIT, 128 + signal.SIGQUIT, PreparedCommand, id="SIGQUIT"),
    ],
)
async def test_an_idle_daemon_ends_by_a_signal(
    spawn: Spawn, start: StartDaemon, number: signal.Signals, code: int
) -> None:
    daemon = start()
    await daemon.started()

    daemon.signal(number)

    assert await daemon.ended() == code
    assert daemon.has_said("daemon_shutdown") == (code == 0)


async def test_a_daemon_whose_broker_went_silent_ends_and_loses_nothing(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    with TcpProxy.before(site.url) as proxy:
        cut_off = start(WAVEWRIGHT_AMQP_URL=proxy.url(site.url))
        await cut_off.started()
        await client.send(JobRequest(job_id=wanted, job=job(("say", "before"), ("hold", "it"))))
        await site.until(lambda: site.calls()["hold it"] == 1)

        proxy.black_hole()
        cut_off.signal(signal.SIGTERM)
        await cut_off.started("daemon_stopping")
        site.open_gate()
        code = await cut_off.ended()
    start()
    await client.until_told(wanted, "JOB_COMPLETED")

    assert code == 0
    assert site.calls() == {"say before": 1, "hold it": 1, "held it": 1}
    assert client.statuses(wanted)[-1] == "JOB_COMPLETED"


async def test_the_last_messages_go_out_when_it_is_marked_which_have_gone_out_already(
    in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[str]()

    async def relay(_relay: Relay, _outbox: object) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(100):
                    await anyio.lowlevel.checkpoint()
            done.append("marked")

    async def flush(_relay: Relay, _outbox: object) -> None:
        done.append("flushed")

    monkeypatch.setattr(Relay, "run", relay)
    monkeypatch.setattr(Relay, "flush", flush)
    async with in_process():
        pass

    assert done == ["marked", "flushed"]
