"""The live page while its database is away: each page says so, in time, and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.engine.interfaces.view.served_page import command, served_page, write_project
from tests.support.postgres import PostgresServer
from tests.support.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SECONDS = 2.0
"""Within which a page answers; the machine of the tests may be busy for as long again."""


@pytest.fixture
def line(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    """The way to a database, which can be cut."""
    database = postgres.database()
    with TcpProxy.before(database) as proxy:
        monkeypatch.setenv("WAVEWRIGHT_PG_URL", proxy.url(database))
        yield proxy


def stop_server(line: TcpProxy) -> None:
    """End all connections, and let nobody connect anew."""
    line.refuse()
    line.reset()


def timed(client: httpx.Client, path: str) -> tuple[httpx.Response, float]:
    """Return an answer, and the seconds that it took."""
    began = time.monotonic()
    return client.get(path, timeout=60), time.monotonic() - began


def until_served(client: httpx.Client, path: str) -> httpx.Response:
    """Return the answer once the database is there."""
    while (answer := client.get(path, timeout=60)).status_code == 503:
        pass
    return answer


@pytest.mark.parametrize(
    "cut", [stop_server, pytest.param(TcpProxy.black_hole, marks=pytest.mark.long)]
)
def test_each_page_says_in_time_that_the_database_is_away_and_comes_back(
    tmp_path: Path, line: TcpProxy, cut: Callable[[TcpProxy], None]
) -> None:
    with served_page(write_project(tmp_path)) as served, served.client() as client:
        assert client.get("/").status_code == 200
        cut(line)
        paths = ("/", "/jobs", "/decisions", "/runs/none", "/api/v1/runs")
        with ThreadPoolExecutor(len(paths)) as at_once:
            answers = [*at_once.map(partial(timed, client), paths)]
        for answer, seconds in answers:
            assert answer.status_code == 503
            assert "cannot be reached" in answer.text
            assert seconds < 2 * SECONDS
        line.pass_on()

        assert "No runs yet" in until_served(client, "/").text


def test_a_page_that_starts_without_its_database_is_served_once_it_is_there(
    tmp_path: Path, line: TcpProxy
) -> None:
    line.refuse()
    with served_page(write_project(tmp_path)) as served, served.client() as client:
        assert client.get("/").status_code == 503
        assert client.get("/style.css").status_code == 200
        line.pass_on()

        assert "No runs yet" in until_served(client, "/").text


def test_a_run_is_followed_on_after_its_database_was_away(tmp_path: Path, line: TcpProxy) -> None:
    project = write_project(tmp_path)
    with (
        command(project, "run", "posting.plan.yaml", "--approve", "wait") as run,
        served_page(project) as served,
        served.client() as client,
    ):
        run.wait()
        [row] = client.get("/api/v1/runs").json()["runs"]
        with client.stream("GET", f"/runs/{row['run']}/stream", timeout=60) as stream:
            kinds = (one for one in stream.iter_lines() if one.startswith("event: "))
            assert next(kinds) == "event: changed"
            stop_server(line)
            assert client.get("/").status_code == 503
            line.pass_on()
            until_served(client, "/")
            client.post(f"/api/v1/runs/{row['run']}/cancel", json={"by": "ada"}, timeout=60)
            assert [*kinds][-1] == "event: ended"
