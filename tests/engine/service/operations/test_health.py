from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import httpx
import pytest

from wavewright.engine.service.operations.health import (
    HealthStatus,
    PortTakenError,
    listening_socket,
    serve_health,
)
from wavewright.engine.service.operations.metrics import Metrics

pytestmark = pytest.mark.anyio
T = TypeVar("T")


async def test_a_daemon_is_ready_once_every_part_works_and_says_which_does_not() -> None:
    health, metrics = HealthStatus(), Metrics()
    health.expect("broker")
    health.expect("store")
    async with serve_health(health, metrics) as port, httpx.AsyncClient() as client:
        address = f"http://127.0.0.1:{port}"
        before = await client.get(f"{address}/ready")
        health.mark_working("store")
        health.mark_working("broker")
        works = await client.get(f"{address}/ready")
        health.mark_failing("broker", "connection refused")
        lost = await client.get(f"{address}/ready")
        live = await client.get(f"{address}/live")

    assert (before.status_code, works.status_code, lost.status_code) == (503, 200, 503)
    assert lost.json() == {"ready": False, "parts": {"broker": "connection refused", "store": "ok"}}
    assert live.status_code == 200


async def test_a_daemon_without_parts_is_not_ready() -> None:
    assert not HealthStatus().is_ready


async def test_metrics_are_served_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.set_job_counts({"queued": 3})
    async with serve_health(HealthStatus(), metrics) as port, httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert 'wavewright_jobs{state="queued"} 3.0' in answer.text


async def test_nothing_can_be_changed_over_http() -> None:
    async with serve_health(HealthStatus(), Metrics()) as port, httpx.AsyncClient() as client:
        answers = [
            await client.post(f"http://127.0.0.1:{port}{path}")
            for path in ("/live", "/ready", "/metrics")
        ]

    assert [answer.status_code for answer in answers] == [405, 405, 405]


async def test_a_taken_port_is_told_with_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=rf"127\.0\.0\.1:{port}: ") as caught:
            async with serve_health(HealthStatus(), Metrics(), f"127.0.0.1:{port}"):
                pass

    assert caught.value.hint == "set `daemon.health` to another place"


def test_a_process_that_ends_while_the_holder_of_a_port_is_looked_for_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = set[str]()

    def listing(real: Callable[[Path], T]) -> Callable[[Path], T]:
        def list_folder(folder: Path) -> T:
            if Path(folder).name == "fd" and not gone:
                gone.add(str(folder))
                raise FileNotFoundError(errno.ENOENT, "No such file or directory")
            return real(folder)

        return list_folder

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, listing(getattr(os, name)))
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(OSError, match="Address already in use"):
            listening_socket(place)

    assert len(gone) == 1


async def test_signals_stay_the_daemons_own() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with serve_health(HealthStatus(), Metrics()):
        assert signal.getsignal(signal.SIGTERM) is before


async def test_a_scraper_that_never_hangs_up_does_not_keep_the_daemon() -> None:
    with anyio.fail_after(5):
        async with serve_health(HealthStatus(), Metrics()) as port:
            stream = await anyio.connect_tcp("127.0.0.1", port)
            await stream.send(b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await stream.receive()).startswith(b"HTTP/1.1 200")
        await stream.aclose()


async def test_it_listens_on_another_kind_of_address_as_well() -> None:
    async with (
        serve_health(HealthStatus(), Metrics(), "[::1]:0") as port,
        httpx.AsyncClient() as client,
    ):
        assert (await client.get(f"http://[::1]:{port}/live")).status_code == 200
