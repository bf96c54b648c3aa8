"""`wavewright mcp --http`: who may call."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.engine.conftest import CommandLine
from tests.support.prepared_command import PipedCommand

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Serve an empty project; return its address and the token that the server has printed."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "wavewright.yaml").write_text("version: 1\n", encoding="utf-8")
    with PipedCommand("mcp", "--http", "127.0.0.1:0", folder=folder) as server:
        address = re.search(r"http://\S+", server.stdout.readline())
        token = server.stdout.readline().removeprefix("token: ").strip()
        assert address is not None
        yield address.group(), token


def asked(served: tuple[str, str], **headers: str) -> httpx.Response:
    """Return the answer to a first message with further headers."""
    accept = {"Accept": "application/json, text/event-stream"}
    with httpx.Client(trust_env=False) as client:
        return client.post(served[0], json=INITIALIZE, headers={**accept, **headers})


def test_a_client_with_the_printed_token_is_served(served: tuple[str, str]) -> None:
    answer = asked(served, Authorization=f"Bearer {served[1]}")
    assert answer.status_code == 200
    assert '"name":"wavewright"' in answer.text


@pytest.mark.parametrize(
    "given", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic wrong"}]
)
def test_a_client_without_the_token_is_refused(
    served: tuple[str, str], given: dict[str, str]
) -> None:
    answer = asked(served, **given)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "attacker.example:80", 421),
        ("Origin", "http://attacker.example", 403),
        ("Origin", "null", 403),
    ],
)
def test_a_page_of_another_site_is_refused_even_with_the_token(
    served: tuple[str, str], header: str, value: str, status: int
) -> None:
    assert (
        asked(served, Authorization=f"Bearer {served[1]}", **{header: value}).status_code == status
    )


@pytest.mark.usefixtures("project")
def test_an_address_and_a_token_that_cannot_be_used_are_named(
    wavewright: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.is_dir()
    answer = wavewright("mcp", "--http", "8000")
    assert (answer.code, answer.out) == (2, "")
    assert "--http '8000': a place is HOST:PORT" in answer.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = wavewright("mcp", "--http", f"127.0.0.1:{taken.getsockname()[1]}")
        assert (answer.code, answer.out) == (2, "")
        assert "cannot be used" in answer.err
        assert f", process {os.getpid()}" in answer.err
        assert "port 0 takes a free one" in answer.err
    monkeypatch.setenv("WAVEWRIGHT_MCP_TOKEN", "short")
    answer = wavewright("mcp", "--http", "127.0.0.1:0")
    assert (answer.code, answer.out) == (2, "")
    assert "WAVEWRIGHT_MCP_TOKEN has fewer than 16 characters" in answer.err
