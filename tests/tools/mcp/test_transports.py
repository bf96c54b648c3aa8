"""Connections to MCP servers over HTTP, and answers as outputs of tools."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import anyio
import pytest
from mcp_types import CallToolResult, TextContent

from tests.tools.calling import request
from tests.tools.mcp.http_stub import HttpStub, http_stub
from wavewright.config.mcp_servers import McpServerSection
from wavewright.config.redaction import Redactor
from wavewright.planner.types import Json
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.mcp.sessions import McpSessions
from wavewright.tools.mcp.tools import server_settings
from wavewright.tools.mcp.transports import (
    MAX_OBJECTS,
    ConnectionState,
    MessageMeter,
    OversizedMessageError,
    output_of,
)


def call(
    server: HttpStub, name: str = "echo", *, timeout: float = 20.0, word_in_url: bool = False
) -> Json:
    """Return what a call gives; a secret is in a header, or in the URL."""
    section = McpServerSection(
        url=f"{server.url}/${{env:WORD}}" if word_in_url else server.url,
        headers={} if word_in_url else {"Authorization": "Bearer ${env:WORD}"},
        timeout=timeout,
        trusted=True,
    )
    settings = server_settings("web", section, Path(), {"WORD": "canary-canary"})

    async def once() -> Json:
        async with McpSessions([settings]) as sessions:
            return await sessions.call("web", name, request({"a": 1}))

    return anyio.run(once)


def test_a_call_over_http_sends_the_headers_of_the_settings() -> None:
    with http_stub() as server:
        assert call(server) == {"text": '{"a": 1}', "parts": []}

    assert {headers["Authorization"] for _, headers, _ in server.requests} == {
        "Bearer canary-canary"
    }


def test_ms03_a_stream_without_an_end_is_read_up_to_a_number_of_bytes() -> None:
    with http_stub("stream for ever") as server, pytest.raises(ToolError, match="more than 8 MiB"):
        call(server, "write")


def test_ms03_a_stream_without_an_answer_ends_at_the_deadline() -> None:
    with (
        http_stub("silent stream") as server,
        pytest.raises(ToolError, match=r"no answer within 0\.5 s"),
    ):
        call(server, timeout=0.5)


def test_ms13_a_redirect_to_another_origin_is_not_followed() -> None:
    with (
        http_stub() as other,
        http_stub("redirect", other.url) as server,
        pytest.raises(ToolError, match=r"Redirect to \S+ not followed"),
    ):
        call(server)

    assert other.requests == []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("many items", "more than 10,000 items"),
        ("50 MB", "more than 8 MiB"),
        ("id null", "Failed to parse JSON response"),
        ("compressed", "the response is compressed"),
        ("hangs up", "disconnected"),
    ],
)
def test_a_faulty_answer_over_http_fails_the_call(fault: str, reason: str) -> None:
    with http_stub(fault) as server, pytest.raises(ToolError, match=reason):
        call(server, "write")


def test_a_session_that_the_server_has_ended_is_opened_anew() -> None:
    with http_stub("new session") as server:
        assert call(server) == {"text": '{"a": 1}', "parts": []}

    assert [body.get("method") for _, _, body in server.requests].count("initialize") == 2


def test_closing_does_not_wait_for_a_server_that_does_not_end_the_session() -> None:
    with http_stub("never ends") as server:
        assert call(server) == {"text": '{"a": 1}', "parts": []}


def test_a_server_that_is_not_there_fails_the_call() -> None:
    with http_stub() as server:
        pass

    with pytest.raises(ToolError, match="MCP server 'web': ConnectError"):
        call(server)


def test_objects_of_json_within_a_text_are_not_counted() -> None:
    items = [{"a": 1}] * (MAX_OBJECTS + 1)

    MessageMeter().add(json.dumps({"text": json.dumps(items, indent=2)}).encode())
    with pytest.raises(OversizedMessageError):
        MessageMeter().add(json.dumps(items).encode())


def test_a_secret_that_a_cut_of_a_log_line_would_split_is_redacted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = ConnectionState("web", Redactor({"canary-canary"}))

    for before in (1990, 7990):
        state.log("x" * before + "canary-canary", logging.WARNING)

    assert len(caplog.records) == 2
    assert "canary" not in caplog.text


@pytest.mark.parametrize("word_in_url", [False, True])
def test_what_a_server_repeats_of_a_variable_is_not_shown(*, word_in_url: bool) -> None:
    with http_stub("repeats the token") as server, pytest.raises(ToolError) as caught:
        call(server, word_in_url=word_in_url)

    assert str(caught.value) == "echo failed: who is [redacted]?"


def test_structured_content_counts_only_where_the_tool_declares_its_schema() -> None:
    result = CallToolResult(
        content=[TextContent(type="text", text="2")], structured_content={"n": 2}
    )

    assert output_of(result, is_typed=True) == {"n": 2}
    assert output_of(result, is_typed=False) == {"text": "2", "parts": []}
