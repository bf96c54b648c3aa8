"""The token, the host and the origin of requests to the live page."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.engine.interfaces.view.served_page import ServedPage, served_page, write_project
from wavewright.engine.interfaces.view.guard import AccessGuard
from wavewright.engine.interfaces.view.people import PageAccess


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    with served_page(write_project(tmp_path_factory.mktemp("project"))) as served:
        yield served


def test_the_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(page: ServedPage) -> None:
    with httpx.Client() as client:
        first = client.get(page.url)
        second = client.get(page.root)

    assert first.status_code == 303
    assert "token" not in first.headers["location"]
    assert "HttpOnly" in first.headers["set-cookie"]
    assert second.status_code == 200


@pytest.mark.parametrize("path", ["/", "/style.css", "/api/v1/runs", "/?token=wrong", "/decisions"])
def test_without_the_token_nothing_is_shown(page: ServedPage, path: str) -> None:
    answer = httpx.get(f"{page.root}{path}")

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_a_program_is_told_in_json_that_it_has_no_token(page: ServedPage) -> None:
    answer = httpx.get(page.root, headers={"Accept": "application/json"})

    assert answer.status_code == 401
    assert "Authorization: Bearer TOKEN" in answer.json()["error"]


def test_another_name_of_the_host_is_refused(page: ServedPage) -> None:
    answer = httpx.get(page.root, headers={**page.bearer, "Host": "evil.example"})

    assert answer.status_code == 421


def test_a_program_is_told_in_json_that_another_name_of_the_host_is_refused(
    page: ServedPage,
) -> None:
    other = {"Host": "evil.example", "Accept": "application/json"}
    answer = httpx.get(page.root, headers={**page.bearer, **other})

    assert answer.status_code == 421
    assert answer.json() == {"error": "this server is not 'evil.example'"}


def test_a_browser_is_told_on_a_page_why_it_is_refused(page: ServedPage) -> None:
    browser = {"Host": "evil.example", "Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    answer = httpx.get(page.root, headers={**page.bearer, **browser})

    assert answer.status_code == 421
    assert answer.headers["content-type"].startswith("text/html")
    assert "this server is not &#39;evil.example&#39;" in answer.text


@pytest.mark.parametrize("origin", ["", "http://evil.example", "null"])
def test_a_form_of_another_page_changes_nothing(page: ServedPage, origin: str) -> None:
    with httpx.Client() as client:
        client.get(page.url)
        answer = client.post(
            f"{page.root}/decisions/x",
            data={"choice": "approve"},
            headers={"Origin": origin} if origin else {},
        )

    assert answer.status_code == 403


async def refuse_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Stand for a page to which every request is passed on."""
    raise AssertionError((scope, receive, send))


def test_a_change_is_refused_when_its_body_was_read_and_not_before() -> None:
    # A proxy that is still sending the body may drop an answer that overtakes it.
    left = [{"type": "http.request", "body": b"a", "more_body": True}] * 2
    left.append({"type": "http.request", "body": b"b"})
    unread = list[int]()

    async def receive() -> Message:
        return left.pop(0)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            unread.append(len(left))

    async def ask() -> None:
        guard = AccessGuard(refuse_nothing, PageAccess(), "a long enough token", ["page"])
        headers = [(b"host", b"page"), (b"origin", b"https://evil.example")]
        scope = {"type": "http", "method": "POST", "path": "/sign-out", "headers": headers}
        await guard({**scope, "query_string": b"", "scheme": "http"}, receive, send)

    anyio.run(ask)

    assert unread == [0]


def test_every_answer_forbids_what_is_not_of_the_page_itself(page: ServedPage) -> None:
    for path in ("/", "/runs/unknown", "/view.js"):
        headers = httpx.get(f"{page.root}{path}", headers=page.bearer).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
