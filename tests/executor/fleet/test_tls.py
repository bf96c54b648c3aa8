"""A coordinator and a worker whose connections to the database are encrypted, and the server's name verified."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.fleet.fleet_site import FleetSite, fleet_site, write_plan
from tests.support.certificates import make_authority, make_certificate
from tests.support.postgres import NoServer, OwnServer, started
from tests.support.session_server import unavailable


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnServer]:
    folder = tmp_path / "certificates"
    folder.mkdir()
    make_authority(folder)
    make_certificate(folder)
    try:
        with started() as made:
            made.encrypt(folder / "server.pem", folder / "server.key")
            yield made
    except NoServer as reason:
        unavailable(str(reason))
    # The driver leaves the socket of a connection that the server breaks off during TLS to the garbage collector.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def connections(site: FleetSite, server: OwnServer) -> set[tuple[object, ...]]:
    return set(
        server.fetch(
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()",
            site.url,
        )
    )


def test_calls_are_made_over_verified_connections(server: OwnServer, tmp_path: Path) -> None:
    with fleet_site(tmp_path / "project", server) as site:
        site.url += f"?sslmode=verify-full&sslrootcert={tmp_path}/certificates/ca.pem"
        site.start()
        write_plan(
            site.folder, {"id": "one", "tool": "held", "params": {"name": "one"}}, result="${steps.one}"
        )
        run = site.run("run", "test.plan.yaml")
        site.wait_for_mark("one began")
        assert connections(site, server) == {(True,)}
        site.go("one")

        assert run.wait() == 0, site.printed()


def test_a_worker_refuses_a_server_that_another_authority_vouches_for(
    server: OwnServer, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    make_authority(other)
    with fleet_site(tmp_path / "project", server) as site:
        site.url += f"?sslmode=verify-full&sslrootcert={other}/ca.pem"
        worker = site.start()

        assert worker.wait() == 3
        assert "certificate" in (site.folder / "worker-0.log").read_text(encoding="utf-8")
