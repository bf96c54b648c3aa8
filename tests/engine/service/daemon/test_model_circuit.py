"""Jobs wait while their model's provider is out of order, and go on when a probe finds that it
answers.
"""

from __future__ import annotations

from uuid import uuid4

import anyio
import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import REVIEW, BrokerClient, DaemonSite, job
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.rehearsal.fake_model.replies import ApiError, denied
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.service.daemon import budgets, model_circuit
from wavewright.engine.service.messages.models import JobRequest
from wavewright.engine.service.operations.health import HealthStatus
from wavewright.planner.ports.model_port import ModelCall
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio


@pytest.fixture
def modelled(
    site: DaemonSite, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> DaemonSite:
    """A daemon whose runs a model reviews, and whose pauses are short."""
    monkeypatch.setattr(budgets, "STOP_GRACE_SECONDS", 0.1)
    monkeypatch.setattr(model_circuit, "FIRST_PAUSE", 0.4)
    monkeypatch.setattr(model_circuit, "PROBE_POLL_SECONDS", 0.05)
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
        site.environment[name] = value
    site.write(more="models: {attempts: 1}")
    return site


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        pytest.param(denied(401), "denied the request (HTTP 401)", id="a bad key"),
        pytest.param(ApiError(429), "overloaded or out of order (HTTP 429)", id="a rate limit"),
    ],
)
async def test_jobs_wait_with_the_reason_until_a_probe_is_answered(
    modelled: DaemonSite,
    client: BrokerClient,
    in_process: InProcess,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    failure: ApiError,
    said: str,
) -> None:
    # Noted as it is marked: on a slow machine the model is back before the client hears of it.
    unready: list[str] = []
    mark_failing = HealthStatus.mark_failing

    def noted(health: HealthStatus, part: str, reason: str) -> None:
        mark_failing(health, part, reason)
        if part == "model" and health.faults[part] == reason:
            unready.append(reason)

    monkeypatch.setattr(HealthStatus, "mark_failing", noted)
    # The review, and the first probe.
    model_server.answer(failure, times=2)
    model_server.answer(REVIEW, when=asked_for("review"))
    model_server.answer("yes")
    first, second = str(uuid4()), str(uuid4())
    async with in_process() as daemon:
        await client.send(JobRequest(job_id=first, job=job(("say", "one"))))
        paused = await client.until_told(first, "JOB_PAUSED")
        await client.send(JobRequest(job_id=second, job=job(("say", "two"))))
        for one in (first, second):
            await client.until_told(one, "JOB_COMPLETED")
        is_ready = daemon.watch.health.faults["model"] is None

    assert str(paused["reason"]).startswith("it waits for its model: ")
    assert said in str(paused["reason"])
    assert unready
    assert all(said in reason for reason in unready)
    assert is_ready
    assert [
        len(daemon.said(name)) for name in ("model_circuit_opened", "model_circuit_closed")
    ] == [2, 1]
    # The step was not called again, and the second job was not begun before the model was back.
    assert modelled.calls() == {"say one": 1, "say two": 1}
    assert "JOB_PAUSED" not in client.statuses(second)


@pytest.mark.parametrize(
    "is_refused", [False, True], ids=["connections are reset", "connections are refused"]
)
async def test_jobs_wait_while_no_connection_to_the_model_holds_and_complete_after_that(
    modelled: DaemonSite,
    client: BrokerClient,
    in_process: InProcess,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_refused: bool,
) -> None:
    model_server.answer(REVIEW, when=asked_for("review"))
    model_server.answer("yes")
    first, second = str(uuid4()), str(uuid4())
    # The outer proxy resets what it has taken for a server that takes nothing.
    with (
        TcpProxy.before(model_server.url) as inner,
        TcpProxy.before(inner.url(model_server.url)) as outer,
    ):
        address = outer.url(model_server.openai_url)
        modelled.environment["WAVEWRIGHT_BASE_URL"] = address
        monkeypatch.setenv("WAVEWRIGHT_BASE_URL", address)
        faulty = outer if is_refused else inner
        faulty.refuse()
        async with in_process() as daemon:
            await client.send(JobRequest(job_id=first, job=job(("say", "one"))))
            paused = await client.until_told(first, "JOB_PAUSED")
            await client.send(JobRequest(job_id=second, job=job(("say", "two"))))
            # A probe has failed, too.
            await modelled.until(lambda: len(daemon.said("model_circuit_opened")) >= 2)
            asked_while_away = len(model_server.requests)
            faulty.pass_on()
            for one in (first, second):
                await client.until_told(one, "JOB_COMPLETED")

    assert str(paused["reason"]).startswith("it waits for its model: ")
    assert asked_while_away == 0
    assert len(daemon.said("model_circuit_closed")) == 1
    assert modelled.calls() == {"say one": 1, "say two": 1}
    for one in (first, second):
        assert "JOB_FAILED" not in client.statuses(one)


async def test_only_runs_of_the_model_that_is_away_wait_for_it() -> None:
    stopped = list[RunId]()
    circuit = model_circuit.ModelCircuitBreaker(lambda: 100.0, stopped.append)
    asks = ModelCall(role="worker", name="w", instructions="", prompt="", run=RunId("asks"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(circuit.failed, asks, "one", "it is overloaded", 3_000.0)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert stopped == [RunId("asks")]
    waiting = circuit.circuit_that_stopped({RunId("asks"), RunId("target")})
    assert waiting is not None
    assert waiting.until == 3_100.0
    assert circuit.circuit_that_stopped({RunId("other")}) is None
