"""A daemon as it is operated: asked how it is over HTTP, read in its log, stopped."""

from __future__ import annotations

import signal
import socket
from uuid import uuid4

import anyio
import httpx
import pytest

from tests.engine.daemon.conftest import InProcess, StartDaemon
from tests.engine.daemon.yard import PATIENCE, Counterpart, Yard, job
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.messages.requests import JobRequest

pytestmark = pytest.mark.anyio


async def asked(port: object, path: str, wanted: int) -> httpx.Response:
    """Ask until the answer has the status, which another task brings about."""
    async with httpx.AsyncClient() as client:
        with anyio.fail_after(PATIENCE):
            while True:
                answer = await client.get(f"http://127.0.0.1:{port}{path}")
                if answer.status_code == wanted:
                    return answer
                await anyio.sleep(0.02)


def port_of(place: object) -> str:
    return str(place).rpartition(":")[2]


async def test_a_daemon_says_over_http_that_it_is_ready_and_what_it_has_done(
    yard: Yard, counterpart: Counterpart, start: StartDaemon
) -> None:
    daemon = start(WAVEWRIGHT_HEALTH="127.0.0.1:0")
    await daemon.started()
    [served] = [line for line in daemon.lines if line["event"] == "health_served"]
    port = port_of(served["place"])
    ready = await asked(port, "/ready", 200)
    await counterpart.send_raw(b"{")
    await counterpart.send(JobRequest(job_id=(wanted := str(uuid4())), job=job(("say", "well"))))
    await counterpart.until_told(wanted, "JOB_COMPLETED")
    metrics = ""
    with anyio.fail_after(PATIENCE):
        while 'wavewright_jobs{state="completed"} 1.0' not in metrics:
            metrics = (await asked(port, "/metrics", 200)).text
            await anyio.sleep(0.05)
    daemon.signal(signal.SIGTERM)

    assert await daemon.ended() == 0
    assert ready.json() == {"ready": True, "parts": {"broker": "ok", "store": "ok"}}
    for line in (
        'wavewright_up{part="broker"} 1.0',
        'wavewright_up{part="store"} 1.0',
        'wavewright_slots{state="free"} 4.0',
        'wavewright_messages_buried_total{kind="not_json"} 1.0',
        'wavewright_messages_received_total{action="accept",type="job_request"} 1.0',
        'wavewright_messages_sent_total{type="package"} 1.0',
        "wavewright_paused 0.0",
    ):
        assert line in metrics.splitlines()


async def test_a_daemon_that_stops_is_not_ready_while_its_jobs_are_written_down(
    yard: Yard, counterpart: Counterpart, in_process: InProcess
) -> None:
    yard.write(daemon="health: 127.0.0.1:0")
    async with in_process() as running:
        [served] = running.said("health_served")
        await counterpart.send(JobRequest(job_id=str(uuid4()), job=job(("hold", "on"))))
        await yard.until(lambda: yard.calls()["hold on"] == 1)
        running.stopping.ask("a test")
        stopping = await asked(port_of(served["place"]), "/ready", 503)
        yard.open_gate()

    assert stopping.json()["parts"]["daemon"] == "it is stopping: a test"


async def test_a_collector_that_is_away_keeps_no_daemon_from_ending(
    counterpart: Counterpart, start: StartDaemon
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        daemon = start(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
        await daemon.started()
        await counterpart.send(JobRequest(job_id=(wanted := str(uuid4())), job=job(("say", "well"))))
        await counterpart.until_told(wanted, "JOB_COMPLETED")
        daemon.signal(signal.SIGTERM)
        with anyio.fail_after(9):  # it would be 10 s for that collector alone
            code = await daemon.ended()

    assert code == 0
    assert daemon.has_said("daemon_shutdown")


async def test_the_log_follows_a_job_from_its_message_to_its_package(
    counterpart: Counterpart, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    async with in_process() as running:
        await counterpart.send(JobRequest(job_id=wanted, job=job(("say", "well"), name="Westfall")))
        await counterpart.until_told(wanted, "JOB_COMPLETED")

    [received], [sent] = running.said("job_received"), running.said("package_sent")
    assert (received["job_id"], received["zone_name"]) == (wanted, "Westfall")
    assert received["source_agent"] == "tester"
    assert (sent["job_id"], sent["zone_name"]) == (wanted, "Westfall")
    assert (sent["data_point_count"], sent["total_sources"]) == (1, 0)
    [ended] = running.said("daemon_shutdown")
    assert ended["reason"] == "the test is over"


async def test_a_broker_that_is_not_there_yet_is_waited_for_and_told_of_once(
    yard: Yard, start: StartDaemon
) -> None:
    with TcpProxy.before(yard.url) as line:
        line.refuse()
        daemon = start(WAVEWRIGHT_AMQP_URL=line.url(yard.url))
        await daemon.started("broker_away")
        line.pass_on()
        await daemon.started()
        daemon.signal(signal.SIGTERM)
        assert await daemon.ended() == 0

    assert [line["event"] for line in daemon.lines].count("broker_away") == 1
    assert not daemon.has_said("library")
