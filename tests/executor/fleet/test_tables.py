"""The fleet's database over encrypted connections to a verified server, and with no more rights
than workers need.

`docs/deploy/worker-role.sql` gives these rights.
"""

from __future__ import annotations

import gc
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import anyio
import asyncpg
import pytest
import yaml

from tests.executor.fleet.fleet_site import FleetSite, fleet_site, write_plan
from tests.support.certificates import make_authority, make_certificate
from tests.support.postgres import NoServer, OwnServer, PostgresServer, started
from tests.support.prepared_command import RunningCommand
from tests.support.session_server import unavailable
from wavewright.executor.postgres.journal import PostgresBudgetStore
from wavewright.planner.ports.budgets import BudgetScope, Spend
from wavewright.planner.ports.model_port import ModelUse, Role
from wavewright.planner.types import JsonObject, RunId, StepId


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
    # The driver leaves the socket of a connection that the server breaks off during TLS to the
    # garbage collector.
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
            site.folder,
            {"id": "one", "tool": "held", "params": {"name": "one"}},
            result="${steps.one}",
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


ROOT = Path(__file__).resolve().parents[3]
RIGHTS = ROOT / "docs" / "deploy" / "worker-role.sql"
USERS = ("worker_one", "worker_two")
ANSWERED = "SELECT count(*) FROM wavewright_fleet.call WHERE answer IS NOT NULL"


@pytest.fixture
def site(postgres: PostgresServer, tmp_path: Path) -> Iterator[FleetSite]:
    with fleet_site(tmp_path / "project", postgres) as made:
        yield made
        drop = "".join(f"DROP ROLE IF EXISTS {name};" for name in USERS)
        postgres.run(f"DROP OWNED BY wavewright_worker; {drop}", made.url)


def start_run(site: FleetSite, postgres: PostgresServer, *calls: str) -> RunningCommand:
    """Start a run that makes the tables, and give workers their rights."""
    steps: list[JsonObject] = [
        {"id": name, "tool": "held", "params": {"name": name}} for name in calls
    ]
    write_plan(site.folder, *steps, result=f"${{steps.{calls[-1]}}}")
    run = site.run("run", "test.plan.yaml", "--json")
    find = "SELECT FROM pg_class WHERE oid = to_regclass('wavewright_fleet.call')"
    site.wait_until(lambda: postgres.fetch(find, site.url), "the tables of the fleet")
    for _ in range(2):  # applying it again changes nothing
        postgres.run(RIGHTS.read_text(encoding="utf-8"), site.url)
    for name in USERS:
        postgres.run(f"CREATE ROLE {name} LOGIN IN ROLE wavewright_worker", site.url)
    return run


def as_user(site: FleetSite, name: str) -> str:
    parts = urlsplit(site.url)
    return parts._replace(netloc=f"{name}@{parts.hostname}:{parts.port}").geturl()


def queue_query() -> str:
    """Return the query by which the example for Kubernetes scales workers."""
    documents = yaml.safe_load_all(
        (RIGHTS.parent / "kubernetes" / "workers.yaml").read_text(encoding="utf-8")
    )
    [scaled] = [document for document in documents if document["kind"] == "ScaledObject"]
    return str(scaled["spec"]["triggers"][0]["metadata"]["query"])


def start_worker(site: FleetSite, user: str) -> RunningCommand:
    return site.start(WAVEWRIGHT_PG_URL=as_user(site, user))


def wait_for_answer(site: FleetSite, postgres: PostgresServer) -> None:
    site.wait_until(lambda: postgres.fetch(ANSWERED, site.url) == [(1,)], "the answer of one call")


def test_a_worker_makes_calls_and_another_user_goes_on_where_it_dies(
    site: FleetSite, postgres: PostgresServer
) -> None:
    run = start_run(site, postgres, "one", "two")
    site.go("one")
    first = start_worker(site, "worker_one")
    wait_for_answer(site, postgres)
    site.wait_for_mark("two began")
    first.send_signal(signal.SIGKILL)
    first.wait()
    start_worker(site, "worker_two")
    site.wait_for_mark("two began", times=2)
    site.go("two")

    assert run.wait() == 0, site.printed()
    assert len(site.processes("one began")) == 1


def test_a_worker_reads_nothing_of_runs_but_the_calls_that_are_its_own_or_wait(
    site: FleetSite, postgres: PostgresServer
) -> None:
    run = start_run(site, postgres, "one", "two")
    site.go("one")
    start_worker(site, "worker_one")
    site.wait_for_mark("two began")
    wait_for_answer(site, postgres)

    other, own = as_user(site, "worker_two"), as_user(site, "worker_one")
    site.wait_until(lambda: postgres.fetch(queue_query(), other) == [(1,)], "the queue of one call")
    assert postgres.fetch(ANSWERED, own) == [(1,)]
    assert postgres.fetch(ANSWERED, other) == [(0,)]
    assert postgres.fetch("SELECT count(*) FROM wavewright_fleet.call", other) == [(0,)]
    site.go("two")
    assert run.wait() == 0, site.printed()
    assert postgres.fetch("SELECT count(*) FROM wavewright_fleet.goal", other) == [(0,)]


def test_a_worker_writes_nothing_of_a_call_that_another_user_has_begun(
    site: FleetSite, postgres: PostgresServer
) -> None:
    run = start_run(site, postgres, "one")
    start_worker(site, "worker_one")
    site.wait_for_mark("one began")
    [(call, job, name)] = postgres.fetch(
        """SELECT call.id, queued.id, call.worker FROM wavewright_fleet.call JOIN wavewright_fleet.pgqueuer AS queued
        ON queued.payload = convert_to(call.id, 'UTF8')""",
        site.url,
    )

    forged = convert('{"ending":"ok","output":"forged"}')
    for worker in (name, "another"):
        for statement in (
            "begin_calls(ARRAY['{call}'], '{worker}')",
            "answer_calls(ARRAY['{call}'], ARRAY[{job}], ARRAY[{forged}], '{worker}')",
            "emit(ARRAY['{call}'], ARRAY[9], ARRAY[{forged}], ARRAY[true], '{worker}')",
        ):
            written = statement.format(call=call, job=job, forged=forged, worker=worker)
            done = f"SELECT * FROM wavewright_fleet.{written}"  # noqa: S608 - put together here
            assert postgres.fetch(done, as_user(site, "worker_two")) == []
    other = as_user(site, "worker_two")
    postgres.fetch(f"SELECT wavewright_fleet.drop_answered(ARRAY[{job}])", other)
    postgres.fetch(f"SELECT wavewright_fleet.leave('{name}')", other)
    assert postgres.fetch("SELECT count(*) FROM wavewright_fleet.pgqueuer", site.url) == [(1,)]
    assert postgres.fetch("SELECT count(*) FROM wavewright_fleet.worker", site.url) == [(1,)]

    site.go("one")
    assert run.wait() == 0, site.printed()
    assert "forged" not in site.printed()


def test_a_worker_cancels_no_call_of_another_by_a_notice(
    site: FleetSite, postgres: PostgresServer
) -> None:
    run = start_run(site, postgres, "one")
    start_worker(site, "worker_one")
    site.wait_for_mark("one began")
    [(call,)] = postgres.fetch("SELECT id FROM wavewright_fleet.call", site.url)
    for channel in ("cancelled", "answered"):
        postgres.fetch(
            f"SELECT pg_notify('wavewright_fleet_{channel}', '{call}')", as_user(site, "worker_two")
        )
    log = site.folder / "worker-0.log"
    site.wait_until(lambda: "is cancelled, which it is not" in log.read_text("utf-8"), "a doubt")
    site.go("one")

    assert run.wait() == 0, site.printed()


def convert(text: str) -> str:
    return f"convert_to('{text}', 'UTF8')"


def test_a_worker_without_rights_says_what_gives_them(
    site: FleetSite, postgres: PostgresServer
) -> None:
    start_run(site, postgres, "one").send_signal(signal.SIGKILL)
    postgres.run("REVOKE wavewright_worker FROM worker_one", site.url)
    worker = start_worker(site, "worker_one")

    assert worker.wait() == 3
    printed = (site.folder / "worker-0.log").read_text(encoding="utf-8")
    assert "may not use the tables of the fleet" in printed
    assert "docs/deploy/worker-role.sql" in printed


@pytest.mark.parametrize(
    "statement",
    [
        *(
            f"TABLE wavewright.{table}"
            for table in (
                "event",
                "job",
                "job_request",
                "decision",
                "inbox",
                "outbox",
                "outbox_body",
            )
        ),
        "SELECT job FROM wavewright.run",
        "DELETE FROM wavewright.model_call",
        "DELETE FROM wavewright_fleet.call",
        "UPDATE wavewright_fleet.call SET request = ''",
        "UPDATE wavewright_fleet.call SET answer = 'forged'",
        "INSERT INTO wavewright_fleet.emission (call, no, body, is_text) VALUES ('a', 1, '', true)",
        "DELETE FROM wavewright_fleet.pgqueuer",
        "UPDATE wavewright_fleet.pgqueuer SET payload = ''",
        "UPDATE wavewright_fleet.pgqueuer SET status = 'successful'",
        "UPDATE wavewright_fleet.pgqueuer SET status = 'picked', heartbeat = now() + interval '1 minute'",
        "DELETE FROM wavewright_fleet.worker",
        "UPDATE wavewright_fleet.worker SET heartbeat = '-infinity'",
        "UPDATE wavewright.budget_total SET counter = 'day'",
        "TRUNCATE wavewright.worker_balance",
        "TABLE wavewright.worker_balance",
        "INSERT INTO wavewright.budget_total VALUES ('day', '2999-12-31', '', 0, 0, 0, 0)",
        "INSERT INTO wavewright.model_call VALUES (9e18, 0, '2026-01-01', '', '', '', 'worker', 0, 0, 0, 0)",
        "INSERT INTO wavewright_fleet.pgqueuer (entrypoint, priority, status) VALUES ('x', 0, 'queued')",
    ],
)
def test_a_worker_is_refused(statement: str, rights: tuple[PostgresServer, str]) -> None:
    postgres, url = rights
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        postgres.run(statement, url)


def test_a_worker_takes_from_a_budget_no_more_than_it_settles_of_its_own(
    rights: tuple[PostgresServer, str], owner_url: str
) -> None:
    postgres, url = rights
    postgres.run(
        """INSERT INTO wavewright.budget_total VALUES ('day', '2026-01-01', '', 1, 100, 100, 100);
        INSERT INTO wavewright.model_call (id, at, day, role, calls, tokens, usd, seconds)
        VALUES (1, 0, '2026-01-01', 'worker', 1, 100, 100, 100)""",
        owner_url,
    )
    spend = "UPDATE wavewright.budget_total SET tokens = tokens {} WHERE name = '2026-01-01'"
    settle = "UPDATE wavewright.model_call SET settled = true, tokens = 40 WHERE id = {}"
    reserve = """INSERT INTO wavewright.model_call (id, at, day, role, calls, tokens, usd, seconds)
        VALUES (2, 0, '2026-01-01', 'worker', 1, 50, 1, 1)"""
    for refused in (
        spend.format("* 0"),
        spend.format("- 1"),
        settle.format(1),
        "INSERT INTO wavewright.budget_total VALUES ('day', '2026-01-02', '', 1, -5, 0, 0)",
        reserve.replace("50", "-50"),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            postgres.run(refused, url)

    postgres.run(f"{reserve}; {spend.format('+ 50')}", url)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        postgres.run(f"{settle.format(2)}; {spend.format('- 11')}", url)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        postgres.run(f"{settle.format(2)}; {spend.format('- 10')}; {spend.format('- 10')}", url)
    postgres.run(f"{settle.format(2)}; {spend.format('- 10')}", url)

    totals = "SELECT tokens FROM wavewright.budget_total WHERE name = '2026-01-01'"
    assert postgres.fetch(totals, owner_url) == [(140,)]


def test_a_reservation_that_was_not_added_to_a_budget_frees_nothing_of_it(
    rights: tuple[PostgresServer, str], owner_url: str
) -> None:
    postgres, url = rights
    postgres.run(
        "INSERT INTO wavewright.budget_total VALUES ('day', '2026-02-01', '', 1, 1000, 0, 0)",
        owner_url,
    )
    forged = """INSERT INTO wavewright.model_call (id, at, day, role, calls, tokens, usd, seconds)
        SELECT max(id) + 1, 0, '2026-02-01', 'worker', 0, 1000, 0, 0 FROM wavewright.model_call"""
    settled = """UPDATE wavewright.model_call SET settled = true, tokens = 0
        WHERE day = '2026-02-01' AND NOT settled"""
    taken = "UPDATE wavewright.budget_total SET tokens = tokens {} WHERE name = '2026-02-01'"
    for statements in (
        f"{forged}; {settled}; {taken.format('- 1000')}",
        f"{forged}; {taken.format('+ 400')}; {settled}; {taken.format('- 401')}",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="adds to budgets only"):
            postgres.run(statements, url)
    postgres.run(f"{forged}; {settled}", url)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="adds to budgets only"):
        postgres.run(taken.format("- 1"), url)

    totals = "SELECT tokens FROM wavewright.budget_total WHERE name = '2026-02-01'"
    assert postgres.fetch(totals, owner_url) == [(1000,)]


def test_a_worker_reserves_and_settles_for_every_role_and_owes_nothing(
    rights: tuple[PostgresServer, str], owner_url: str
) -> None:
    postgres, url = rights

    async def call(store: PostgresBudgetStore, role: Role, spent: int) -> None:
        scope = BudgetScope(run=RunId("fair"), job="j", step=StepId("s"), role=role)
        reservation = await store.reserve(scope, Spend(calls=1, tokens=50))
        use = ModelUse(role, "n", "acme:one", "answered", seconds=1.0)
        await store.settle(reservation, Spend(calls=1, tokens=spent), use)

    async def calls() -> None:
        async with PostgresBudgetStore(url) as store, anyio.create_task_group() as group:
            for role in get_args(Role):
                for spent in (0, 20, 50, 80):
                    group.start_soon(call, store, role, spent)

    anyio.run(calls)

    owed = "SELECT count(*) FROM wavewright.worker_balance WHERE name IN ('fair', 'j')"
    assert postgres.fetch(owed, owner_url) == [(0,)]
    counted = "SELECT tokens FROM wavewright.budget_total WHERE counter = 'run' AND name = 'fair'"
    assert postgres.fetch(counted, owner_url) == [(150 * len(get_args(Role)),)]


@pytest.fixture(scope="module")
def owner_url(rights: tuple[PostgresServer, str], postgres: PostgresServer) -> str:
    """The address of the database of `rights` for its owner."""
    return postgres.url_of(urlsplit(rights[1]).path.removeprefix("/"))


@pytest.fixture(scope="module")
def rights(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[tuple[PostgresServer, str]]:
    """A database with its tables, and the address of a worker there."""
    with fleet_site(tmp_path_factory.mktemp("rights") / "project", postgres) as made:
        start_run(made, postgres, "one").send_signal(signal.SIGKILL)
        queued = "INSERT INTO wavewright_fleet.pgqueuer (entrypoint, priority, status) VALUES ('x', 0, 'queued')"
        postgres.run(queued, made.url)
        yield postgres, as_user(made, "worker_one")
        drop = "".join(f"DROP ROLE IF EXISTS {name};" for name in USERS)
        postgres.run(f"DROP OWNED BY wavewright_worker; {drop}", made.url)
