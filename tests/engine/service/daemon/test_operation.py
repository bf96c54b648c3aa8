"""A daemon as it is operated: asked how it is over HTTP, read in its log, stopped."""

from __future__ import annotations

import signal
import socket
from uuid import uuid4

import anyio
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import PATIENCE, BrokerClient, DaemonSite, job
from tests.engine.service.daemon.test_process_forced_exit import HUNG
from tests.support.tcp_proxy import TcpProxy
from tests.support.trace_collector import TraceCollector
from wavewright.engine.service.messages.models import JobRequest

pytestmark = pytest.mark.anyio


TOKEN = "of-the-page-of-a-test"  # noqa: S105 - of this test alone
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


async def asked(port: object, path: str, wanted: int) -> httpx.Response:
    """Ask until the answer has the status, which another task brings about."""
    async with httpx.AsyncClient() as http:
        with anyio.fail_after(PATIENCE):
            while True:
                answer = await http.get(f"http://127.0.0.1:{port}{path}")
                if answer.status_code == wanted:
                    return answer
                await anyio.sleep(0.02)


def port_of(place: object) -> str:
    return str(place).rpartition(":")[2]


async def test_a_daemon_says_over_http_and_to_a_collector_what_it_has_done(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    with TraceCollector() as collector:
        daemon = start(WAVEWRIGHT_HEALTH="127.0.0.1:0", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        await daemon.started()
        [served] = [line for line in daemon.lines if line["event"] == "health_served"]
        port = port_of(served["place"])
        ready = await asked(port, "/ready", 200)
        await client.send_raw(b"{")
        document = job(("say", "a private word"))
        request = JobRequest(job_id=(wanted := str(uuid4())), job=document)
        await client.send(request, trace=f"00-{TRACE_ID}-00f067aa0ba902b7-01")
        await client.until_told(wanted, "JOB_COMPLETED")
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
        'wavewright_messages_dead_lettered_total{kind="not_json"} 1.0',
        'wavewright_messages_received_total{action="accept",type="job_request"} 1.0',
        'wavewright_messages_sent_total{type="package"} 1.0',
        "wavewright_paused 0.0",
    ):
        assert line in metrics.splitlines()
    families = [*text_string_to_metric_families(metrics)]
    assert all(family.name.startswith("wavewright_") for family in families)
    values = {
        value for family in families for one in family.samples for value in one.labels.values()
    }
    assert not any(wanted in value or "private" in value for value in values), (
        "labels have few values"
    )

    spans = {span.name: span for span in collector.spans}
    assert spans.keys() >= {"run", "plan", "wave 0", "step s0"}
    assert spans["step s0"].parent_span_id == spans["wave 0"].span_id
    assert spans["wave 0"].parent_span_id == spans["plan"].parent_span_id == spans["run"].span_id
    assert {one.key: one.value.string_value for one in spans["run"].attributes}["job.id"] == wanted
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in collector.spans)
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE_ID}
    assert spans["run"].parent_span_id.hex() == "00f067aa0ba902b7"
    [package] = client.packages
    assert str(package.headers["traceparent"]).split("-")[1] == TRACE_ID
    assert collector.bodies
    assert not any(b"private" in body for body in collector.bodies)


async def test_a_daemon_that_stops_is_not_ready_while_its_jobs_are_written_down(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    site.write(daemon="health: 127.0.0.1:0")
    async with in_process() as running:
        [served] = running.said("health_served")
        await client.send(JobRequest(job_id=str(uuid4()), job=job(("hold", "on"))))
        await site.until(lambda: site.calls()["hold on"] == 1)
        running.stopping.request("a test")
        stopping = await asked(port_of(served["place"]), "/ready", 503)
        site.open_gate()

    assert stopping.json()["parts"]["daemon"] == "it is stopping: a test"


async def test_a_collector_that_is_away_keeps_no_daemon_from_ending(
    client: BrokerClient, start: StartDaemon
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        daemon = start(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
        await daemon.started()
        await client.send(JobRequest(job_id=(wanted := str(uuid4())), job=job(("say", "well"))))
        await client.until_told(wanted, "JOB_COMPLETED")
        daemon.signal(signal.SIGTERM)
        code = await daemon.ended()

    assert code == 0
    assert daemon.has_said("daemon_shutdown")
    # One that has to be ended after nine seconds tells where it hung, and this collector would be
    # waited for ten.
    assert HUNG not in daemon.text


async def test_the_log_follows_a_job_from_its_message_to_its_package(
    client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    async with in_process() as running:
        await client.send(JobRequest(job_id=wanted, job=job(("say", "well"), name="Westfall")))
        await client.until_told(wanted, "JOB_COMPLETED")

    [received], [sent] = running.said("job_received"), running.said("package_sent")
    assert (received["job_id"], received["target"]) == (wanted, "Westfall")
    assert received["source_agent"] == "tester"
    assert (sent["job_id"], sent["target"]) == (wanted, "Westfall")
    assert (sent["data_point_count"], sent["total_sources"]) == (1, 0)
    [ended] = running.said("daemon_shutdown")
    assert ended["reason"] == "the test is over"


async def test_a_broker_that_is_not_there_yet_is_waited_for_and_told_of_once(
    site: DaemonSite, start: StartDaemon
) -> None:
    with TcpProxy.before(site.url) as line:
        line.refuse()
        daemon = start(WAVEWRIGHT_AMQP_URL=line.url(site.url))
        await daemon.started("broker_away")
        line.pass_on()
        await daemon.started()
        daemon.signal(signal.SIGTERM)
        assert await daemon.ended() == 0

    assert [line["event"] for line in daemon.lines].count("broker_away") == 1
    assert not daemon.has_said("library")


async def test_a_daemon_that_waits_for_its_broker_ends_at_the_first_signal(
    site: DaemonSite, start: StartDaemon
) -> None:
    with TcpProxy.before(site.url) as line:
        line.refuse()
        daemon = start(WAVEWRIGHT_AMQP_URL=line.url(site.url))
        await daemon.started("broker_away")
        daemon.signal(signal.SIGTERM)
        code = await daemon.ended()

    assert code == 0
    # It was not ended by the clock, which shows where each thread is.
    assert "most recent call first" not in daemon.text


async def test_a_daemon_serves_the_live_page_to_whoever_has_the_token(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    site.write(daemon='view: "127.0.0.1:0"')
    refused = start()
    assert await refused.ended() == 2
    assert "WAVEWRIGHT_VIEW_TOKEN" in refused.text

    daemon = start(WAVEWRIGHT_VIEW_TOKEN=TOKEN)
    await daemon.started()
    [served] = [line for line in daemon.lines if line["event"] == "view_served"]
    await client.send(
        JobRequest(job_id=(wanted := str(uuid4())), job=job(("say", "it"), name="seen"))
    )
    await client.until_told(wanted, "JOB_COMPLETED")
    async with httpx.AsyncClient(base_url=f"http://{served['place']}") as http:
        assert (await http.get("/api/v1/jobs")).status_code == 401
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert (await http.get("/api/v1/jobs", headers=token)).json()["counts"]["completed"] == 1
        assert "seen" in (await http.get("/", headers=token)).text
    daemon.process.send_signal(signal.SIGTERM)

    assert await daemon.ended() == 0
    assert TOKEN not in daemon.text
