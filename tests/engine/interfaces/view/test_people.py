"""People of the live page: tokens of their own, a proxy that names them, roles, and sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.engine.conftest import CommandLine
from tests.engine.interfaces.view.served_page import command, served_page, write_project
from wavewright.config.sections import PersonSettings, TrustedProxySettings
from wavewright.config.settings import load_settings
from wavewright.engine.interfaces.view.guard import AccessGuard
from wavewright.engine.interfaces.view.people import PageAccess, token_hash, viewer_of
from wavewright.engine.interfaces.view.sessions import SESSION_SECONDS, Sessions
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.stores import journal_of

pytestmark = pytest.mark.anyio

COMMON, ADAS, BOBS = (
    "a-common-token-of-the-page",
    "the-token-of-ada-alone",
    "the-token-of-bob-alone",
)
PROXY = TrustedProxySettings(addresses=["10.0.0.0/24"])
PEOPLE = {
    "ada": PersonSettings(token=token_hash(ADAS), role="decide"),
    "bob": PersonSettings(token=token_hash(BOBS), role="look"),
}


async def tell_viewer(request: Request) -> JSONResponse:
    """Answer with who asks."""
    viewer = viewer_of(request)
    return JSONResponse([viewer.name, viewer.role, viewer.identity("typed"), request.url.path])


@asynccontextmanager
async def guarded(
    access: PageAccess, *, token: str | None = None, peer: str = "127.0.0.1", host: str = "page:80"
) -> AsyncGenerator[httpx.AsyncClient]:
    """Yield a client of a guarded page that tells who asks."""
    methods = ["GET", "POST"]
    app = Starlette(routes=[Route("/{path:path}", tell_viewer, methods=methods)])
    guard = AccessGuard(app, access, token, ["page:80"])
    transport = httpx.ASGITransport(guard, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        client.headers["host"] = host
        yield client
    guard.close()


def bearer(token: str) -> dict[str, str]:
    """Return the header of a program that has a token."""
    return {"Authorization": f"Bearer {token}"}


async def test_a_cookie_is_no_token_and_is_kept_as_a_hash(tmp_path: Path) -> None:
    access = PageAccess(PEOPLE, sessions=tmp_path / "sessions.sqlite")
    async with guarded(access, token=COMMON) as client:
        answer = await client.get(f"/?token={ADAS}&text=x")
        again = await client.get("/")

    secret = answer.cookies["wavewright_80"]
    assert answer.headers["location"] == "/?text=x"
    assert "SameSite=strict" in answer.headers["set-cookie"]
    assert secret not in {COMMON, ADAS}
    assert again.json()[0] == "ada"
    stored = sqlite3.connect(tmp_path / "sessions.sqlite").execute("SELECT * FROM session")
    assert secret not in str(stored.fetchall())
    assert (tmp_path / "sessions.sqlite").stat().st_mode & 0o077 == 0


async def test_a_session_ends_after_twelve_hours_and_when_it_is_revoked(tmp_path: Path) -> None:
    now = 1000.0
    sessions = Sessions(tmp_path / "sessions.sqlite", lambda: now)
    first, second = sessions.begin("hash", "ada"), sessions.begin("hash", "bob")

    assert sessions.credential(first) == sessions.credential(second) == "hash"
    assert Sessions(tmp_path / "sessions.sqlite", lambda: now).revoke("ada") == 1
    assert sessions.credential(first) is None
    now += SESSION_SECONDS
    assert sessions.credential(second) is None


async def test_a_session_ends_with_signing_out_and_with_the_persons_token(tmp_path: Path) -> None:
    access = PageAccess(PEOPLE, sessions=tmp_path / "sessions.sqlite")
    async with guarded(access) as client:
        await client.post("/sign-in", data={"token": ADAS}, headers={"Origin": "http://page:80"})
        cookies = dict(client.cookies)
        assert (await client.get("/")).json()[0] == "ada"
        async with guarded(
            PageAccess({"bob": PEOPLE["bob"]}, sessions=access.sessions)
        ) as without_ada:
            without_ada.cookies.update(cookies)
            assert (await without_ada.get("/")).status_code == 401
        await client.post("/sign-out", headers={"Origin": "http://page:80"})
        client.cookies.update(cookies)
        assert (await client.get("/")).status_code == 401


async def test_a_form_of_another_page_signs_nobody_in() -> None:
    async with guarded(PageAccess(PEOPLE)) as client:
        answer = await client.post(
            "/sign-in", data={"token": ADAS}, headers={"Origin": "http://evil.example"}
        )

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("token", "path", "status"),
    [
        (BOBS, "/decisions/x", 403),
        (BOBS, "/api/v1/decisions/x", 403),
        (BOBS, "/runs/x/cancel", 403),
        (ADAS, "/decisions/x", 200),
        (ADAS, "/api/v1/decisions/x", 200),
        (ADAS, "/jobs/x/again", 403),
        (ADAS, "/submit/x", 403),
        (COMMON, "/jobs/x/again", 200),
    ],
)
async def test_a_role_may_change_what_is_its_own_alone(token: str, path: str, status: int) -> None:
    async with guarded(PageAccess(PEOPLE), token=COMMON) as client:
        assert (await client.get(path, headers=bearer(token))).status_code == 200
        assert (await client.post(path, headers=bearer(token))).status_code == status


@pytest.mark.parametrize(
    ("peer", "headers", "told"),
    [
        ("10.0.0.7", {"X-Forwarded-User": "ada"}, ["ada", "decide", "ada (proven by proxy)"]),
        ("10.0.0.7", {"X-Forwarded-User": "eve"}, ["eve", "look", "eve (proven by proxy)"]),
        ("10.0.1.7", {"X-Forwarded-User": "ada"}, None),
        ("127.0.0.1", {"X-Forwarded-User": "ada", "X-Forwarded-For": "10.0.0.7"}, None),
        ("10.0.0.7", {"X-Forwarded-User": "ada (proven by token)"}, None),
        ("10.0.0.7", {}, None),
    ],
)
async def test_a_header_counts_from_the_trusted_proxy_alone(
    peer: str, headers: dict[str, str], told: list[str] | None
) -> None:
    async with guarded(PageAccess(PEOPLE, PROXY), peer=peer) as client:
        answer = await client.get("/", headers=headers)

    assert (answer.json()[:3] if answer.status_code == 200 else None) == told


async def test_whom_a_proxy_names_and_the_settings_do_not_know_is_told_so() -> None:
    proxy = PROXY.model_copy(update={"role": None})
    async with guarded(PageAccess(PEOPLE, proxy), peer="10.0.0.7") as client:
        answers = [
            await client.get("/", headers={"X-Forwarded-User": "eve", "Accept": kind})
            for kind in ("text/html", "text/plain")
        ]

    for answer in answers:
        assert answer.status_code == 401
        assert "eve is not among the people of this page" in answer.text


async def test_a_header_that_comes_twice_names_nobody() -> None:
    twice = [("X-Forwarded-User", "bob"), ("X-Forwarded-User", "ada")]
    async with guarded(PageAccess(PEOPLE, PROXY), peer="10.0.0.7") as client:
        assert (await client.get("/", headers=twice)).status_code == 401


async def test_somebody_whom_a_proxy_names_changes_nothing_from_another_page() -> None:
    headers = {"X-Forwarded-User": "ada"}
    async with guarded(PageAccess(PEOPLE, PROXY), peer="10.0.0.7") as client:
        other = await client.post("/decisions/x", headers={**headers, "Origin": "http://evil"})
        own = await client.post("/decisions/x", headers={**headers, "Origin": "http://page:80"})

    assert (other.status_code, own.status_code) == (403, 200)


@pytest.mark.parametrize("path", ["/ww/runs/x", "/runs/x"])
async def test_below_a_prefix_a_page_is_served_whether_the_proxy_removes_it_or_not(
    path: str,
) -> None:
    access = PageAccess(PEOPLE, public_url="https://ops.example/ww/")
    async with guarded(access, host="ops.example") as client:
        answer = await client.get(f"{path}?token={ADAS}")
        own = await client.post(
            "/ww/decisions/x", headers={**bearer(ADAS), "Origin": "https://ops.example"}
        )

    assert answer.headers["location"] == "/ww/runs/x"
    assert answer.headers["set-cookie"].startswith("__Host-wavewright_ww=")
    assert {"Secure", "HttpOnly", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
    assert own.json()[3] == "/ww/decisions/x"


@pytest.mark.parametrize(
    ("public_url", "origin", "status"),
    [
        ("https://ops.example/", "https://ops.example", 200),
        ("https://ops.example/", "http://ops.example", 403),
        ("https://OPS.example:443/", "https://ops.example", 200),
        ("http://ops.example:80/", "http://ops.example", 200),
        ("https://ops.example:8443/", "https://ops.example", 403),
    ],
)
async def test_a_change_comes_from_a_page_of_the_public_address(
    public_url: str, origin: str, status: int
) -> None:
    access = PageAccess(PEOPLE, PROXY, public_url=public_url)
    async with guarded(access, peer="10.0.0.7", host="ops.example") as client:
        headers = {"X-Forwarded-User": "ada", "Origin": origin}
        answer = await client.post("/decisions/x", headers=headers)

    assert answer.status_code == status


async def test_an_address_with_a_token_leads_to_no_other_host() -> None:
    async with guarded(PageAccess(PEOPLE)) as client:
        answer = await client.get(f"http://page:80//evil.example/?token={ADAS}")

    assert answer.headers["location"] == "/evil.example/"


async def states_of(project: Path) -> list[RunState]:
    """Return the runs in the journal of a project, the newest first."""
    async with journal_of(load_settings(project)) as journal:
        return [fold(await journal.load(row.run)) for row in await journal.list_runs()]


def test_who_decides_is_journaled_as_proven_or_as_claimed(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = write_project(tmp_path)
    monkeypatch.chdir(project)
    added = wavewright("view", "--add", "ada")
    token = added.out.splitlines()[1]
    assert token not in (project / "wavewright.yaml").read_text()
    for _ in range(2):
        with command(project, "run", "posting.plan.yaml", "--approve", "wait") as run:
            run.wait()
    monkeypatch.setenv("WAVEWRIGHT_VIEW_TOKEN", COMMON)
    with served_page(project) as served:
        asked = httpx.get(f"{served.root}/api/v1/decisions", headers=bearer(COMMON)).json()
        [mine, other] = [f"{served.root}/api/v1/decisions/{one['id']}" for one in asked]
        forged = {"choice": "refuse", "by": "bob"}
        refused = httpx.post(mine, headers=bearer(token), json=forged)
        taken = httpx.post(mine, headers=bearer(token), json={"choice": "refuse"})
        claimed = httpx.post(other, headers=bearer(COMMON), json=forged)

    assert [refused.status_code, taken.status_code, claimed.status_code] == [422, 200, 200]
    notes = [note for state in anyio.run(states_of, project) for note in state.notes]
    answers = [note.body for note in notes if note.topic == "approval_given"]
    assert sorted((answer["by"], answer["proof"]) for answer in answers) == [
        ("ada", "token"),
        ("bob", "claimed"),
    ]


@pytest.mark.parametrize(
    "before",
    [
        "",
        "version: 1\n",
        "# a comment\nview:\n  people:\n    bob: {role: look}\nmodel: test\n",
        "view:\n  proxy: {addresses: [10.0.0.1]}\nmodel: test\n",
        "# a comment\n",
        "model: test",
        'view:\n  "people":\n    bob: {role: look}\n',
    ],
)
def test_a_person_is_added_to_settings_however_they_look(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    (tmp_path / "wavewright.yaml").write_text(before)
    monkeypatch.chdir(tmp_path)
    added = wavewright("view", "--add", 'ada: "x"', "--role", "operate")

    token = added.out.splitlines()[1]
    person = load_settings(tmp_path).view.people['ada: "x"']
    assert (person.token, person.role) == (token_hash(token), "operate")
    written = (tmp_path / "wavewright.yaml").read_text().splitlines()
    assert set(before.splitlines()) <= set(written)
    again = wavewright("view", "--add", 'ada: "x"')
    assert again.code == 2
    assert "already" in again.err


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{version: 1}\n", '{version: 1, "view": {"people": {"ada": PERSON}}}\n'),
        ("view: {}\n", 'view: {people: {"ada": PERSON}}\n'),
        ("view: {people: {}}\n", "view: {people: {ada: PERSON}}\n"),
        (
            'view:\n  "people": {bob: {role: look}} # all\n',
            'view:\n  "people": {bob: {role: look}, ada: PERSON} # all\n',
        ),
    ],
)
def test_a_person_is_added_within_braces(
    tmp_path: Path,
    wavewright: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    after: str,
) -> None:
    (tmp_path / "wavewright.yaml").write_text(before)
    monkeypatch.chdir(tmp_path)

    added = wavewright("view", "--add", "ada")

    hashed = token_hash(added.out.splitlines()[1])
    person = f'{{"token": "{hashed}", "role": "decide"}}'
    assert (tmp_path / "wavewright.yaml").read_text() == after.replace("PERSON", person)
    assert load_settings(tmp_path).view.people["ada"].role == "decide"


@pytest.mark.parametrize("before", ["null\n", "---\n...\n"])
def test_settings_that_nobody_can_be_added_to_stay_as_they_are(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    (tmp_path / "wavewright.yaml").write_text(before)
    monkeypatch.chdir(tmp_path)

    refused = wavewright("view", "--add", "ada")

    assert (refused.code, refused.out) == (2, "")
    assert "write `view: {people: {}}` in its place" in refused.err
    assert (tmp_path / "wavewright.yaml").read_text() == before


def test_a_short_token_of_the_environment_is_refused(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAVEWRIGHT_VIEW_TOKEN", "fifteen-letters")
    answer = wavewright("view")

    assert answer.code == 2
    assert "WAVEWRIGHT_VIEW_TOKEN has fewer than 16 characters" in answer.err
    assert "fifteen" not in answer.err
