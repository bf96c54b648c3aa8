"""Connections to MCP servers over HTTP, and answers as outputs of tools."""

from __future__ import annotations

import datetime as dt
import logging
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from email.utils import format_datetime
from pathlib import Path

import anyio
import pytest
from mcp_types import CallToolResult, TextContent

from tests.support.session_server import free_port
from tests.tools.calling import request
from tests.tools.mcp.http_stub import HttpStub, http_stub
from wavewright.config.mcp_servers import McpServerSection
from wavewright.config.redaction import Redactor
from wavewright.planner.types import Json
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.mcp.connection import ConnectionState
from wavewright.tools.mcp.outputs import output_of
from wavewright.tools.mcp.sessions import McpSessions
from wavewright.tools.mcp.tools import McpServerSettings, server_settings


def call(
    server: HttpStub,
    name: str = "echo",
    *,
    timeout: float = 20.0,
    word_in_url: bool = False,
    trusted: bool = True,
) -> Json:
    """Return what a call gives; a secret is in a header, or in the URL."""
    section = McpServerSection(
        url=f"{server.url}/${{env:WORD}}" if word_in_url else server.url,
        headers={} if word_in_url else {"Authorization": "Bearer ${env:WORD}"},
        timeout=timeout,
        trusted=trusted,
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


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ("stream for ever", "more than 8 MiB"),
        ("signs of life", "messages that nobody asked for"),
    ],
)
def test_ms03_a_stream_without_an_end_is_read_up_to_a_number_of_bytes_and_events(
    stream: str, reason: str
) -> None:
    with http_stub(stream) as server, pytest.raises(ToolError, match=reason):
        call(server, "write")


def test_ms03_a_stream_without_an_answer_ends_at_the_deadline() -> None:
    with (
        http_stub("silent stream") as server,
        pytest.raises(ToolError, match="no answer within 2 s"),
    ):
        call(server, timeout=2)


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
        ("id null", "it broke the protocol"),
        ("compressed", "the response is compressed"),
        ("hangs up", "disconnected"),
    ],
)
def test_a_faulty_answer_over_http_fails_the_call(fault: str, reason: str) -> None:
    with http_stub(fault) as server, pytest.raises(ToolError, match=reason):
        call(server, "write")


SESSION = "mcp-session-id"
ANSWER = '{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"made"}]}}'


@pytest.mark.parametrize("kind", ["text/plain", "application/vnd.api+json", ""])
def test_an_answer_is_read_whichever_type_the_server_says_it_has(kind: str) -> None:
    with http_stub() as server:
        server.replies = [(200, {"Content-Type": kind}, ANSWER.encode())]

        assert call(server, "write") == {"text": "made", "parts": []}


@pytest.mark.parametrize("name", ["X-Powered-By", "Mcp-Session-Id", "Content-Type"])
@pytest.mark.parametrize(("status", "ending"), [(200, "made"), (503, "HTTP 503 Service Unavail")])
def test_a_header_in_other_characters_than_ascii_costs_no_session(
    name: str, status: int, ending: str
) -> None:
    with http_stub() as server:
        server.replies = [(status, {name: "Café"}, ANSWER.encode())]
        try:
            outcome = str(call(server))
        except ToolError as error:
            outcome = str(error)

    assert ending in outcome


def test_a_notification_is_measured_and_corrected_as_an_answer_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notice = (
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%s}}'
    )
    sent = [notice % r'"half \ud83d"', "no message", notice % f"[{'{},' * 10_000}1]"]
    with http_stub() as server:
        server.notices = "".join(f"data: {event}\n\n" for event in sent).encode()
        assert call(server) == {"text": '{"a": 1}', "parts": []}

    assert "half \N{REPLACEMENT CHARACTER}" in caplog.text
    assert "not JSON-RPC 2.0" in caplog.text
    assert "a message of more than 10,000 items" in caplog.text


@pytest.mark.parametrize(
    "events",
    [
        f"data: {ANSWER}",
        f"event: message\ndata: {ANSWER}\n",
        f"event: result\ndata: {ANSWER}\n\n",
        f": hello\nretry: 60000\n\nevent:message\ndata:{ANSWER}\r\n\r\n",
        f'data: {{"jsonrpc":"2.0","method":"notifications/x"}}{ANSWER}\n\n',
        ANSWER,
    ],
)
def test_an_answer_is_read_however_its_event_is_written(events: str) -> None:
    with http_stub() as server:
        server.replies = [(200, {"Content-Type": "text/event-stream"}, events.encode())]

        assert call(server, "write") == {"text": "made", "parts": []}


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("application/json; charset=latin-1", "latin-1"),
        ("application/json; charset=latin-1", "utf-8"),
        ("application/json; charset=UTF-16LE", "utf-16-le"),
        ("application/json; charset=punycode", "utf-8"),
        ("text/event-stream; charset=latin-1", "utf-8"),
    ],
)
def test_a_text_is_read_in_utf_8_or_else_in_the_charset_that_is_named(kind: str, sent: str) -> None:
    answer = ANSWER.replace("made", "fait à Évora")
    body = f"data: {answer}\n\n" if "stream" in kind else answer
    with http_stub() as server:
        server.replies = [(200, {"Content-Type": kind}, body.encode(sent))]

        assert call(server, "write") == {"text": "fait à Évora", "parts": []}


def test_a_session_whose_id_has_other_characters_than_ascii_goes_on() -> None:
    with http_stub() as server:
        server.session = "sé 1"

        assert call(server, "write") == {"text": '{"a": 1}', "parts": []}
    sent = [headers for _, headers, _ in server.requests[1:]]
    assert {value for one in sent for name, value in one.items() if name.lower() == SESSION} == {
        "sé 1"
    }


@pytest.mark.parametrize(
    ("status", "kind", "body", "reason"),
    [
        (200, "text/html", "<html>log in</html>", "text/html, which holds no answer: <html>log in"),
        (
            200,
            "application/json",
            '{"error": "quota"}',
            'which holds no answer: {"error": "quota"}',
        ),
        (302, "text/plain", "", "it answered with HTTP 302 Found"),
    ],
)
def test_what_holds_no_answer_is_quoted(status: int, kind: str, body: str, reason: str) -> None:
    with http_stub() as server:
        server.replies = [(status, {"Content-Type": kind}, body.encode())]
        with pytest.raises(ToolError) as caught:
            call(server, "write")

    assert reason in str(caught.value)


@pytest.mark.parametrize("before", ["no json", "[1]", '{"level":"info"}'])
def test_an_event_that_is_no_message_is_passed_by(before: str) -> None:
    events = f"data: {before}\n\nevent: message\ndata: [{ANSWER}]\n\n"
    with http_stub() as server:
        server.replies = [(200, {"Content-Type": "text/event-stream"}, events.encode())]

        assert call(server, "write") == {"text": "made", "parts": []}


def test_an_event_that_was_the_answer_and_cannot_be_read_fails_the_call() -> None:
    event = 'data: {"jsonrpc":"2.0","id":3,"result":nothing}\n\n'
    with http_stub() as server:
        server.replies = [(200, {"Content-Type": "text/event-stream"}, event.encode())]
        with pytest.raises(ToolError, match=r"not JSON-RPC 2\.0") as caught:
            call(server, "write", trusted=False)

    assert "it may have taken effect" in str(caught.value.hint)
    assert caught.value.is_unclear


@pytest.mark.parametrize("status", [202, 204])
def test_a_status_without_an_answer_fails_the_call_at_once(status: int) -> None:
    with http_stub() as server:
        server.replies = [(status, {}, b"")]
        with pytest.raises(ToolError, match=rf"HTTP {status} .* an empty body"):
            call(server, "write")


@pytest.mark.parametrize(("status", "transient"), [(401, False), (404, False), (503, True)])
def test_a_server_that_refuses_the_session_is_asked_again_only_where_that_may_help(
    status: int, *, transient: bool
) -> None:
    with http_stub(f"opens with {status}") as server, pytest.raises(ToolError) as caught:
        call(server)

    assert caught.value.transient == transient
    assert caught.value.retry_after == 3


def test_a_session_that_the_server_has_ended_is_opened_anew() -> None:
    with http_stub("new session") as server:
        assert call(server) == {"text": '{"a": 1}', "parts": []}

    assert [body.get("method") for _, _, body in server.requests].count("initialize") == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'),
        (410, b"gone"),
        (
            400,
            b'{"jsonrpc":"2.0","id":"x","error":{"code":-32000,"message":"No valid session ID"}}',
        ),
        (400, b'{"error":{"message":"Bad Request: Session expired"}}'),
        (400, b"Unknown Mcp-Session-Id"),
        (400, b'{"error":"No transport found for sessionId"}'),
        (400, b"The session has ended"),
        (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Session not found"}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid session"}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"2026-07-28 only"}}'),
    ],
)
def test_a_call_in_a_session_that_the_server_forgot_is_made_in_a_new_one_even_if_it_writes(
    status: int, body: bytes
) -> None:
    with http_stub() as server:
        server.replies = [(status, {}, body)]

        assert call(server, "write", trusted=False) == {"text": '{"a": 1}', "parts": []}

    assert [body.get("method") for _, _, body in server.requests].count("initialize") == 2


def test_a_session_that_a_server_forgets_again_and_again_fails_the_call() -> None:
    with http_stub() as server:
        server.replies = [(404, {}, b"")] * 9
        with pytest.raises(ToolError, match="does not know the session"):
            call(server, "write")

    assert server.calls == 2


@pytest.mark.parametrize(
    ("status", "headers", "transient", "is_unclear", "retry_after"),
    [
        (401, {}, False, False, None),
        (403, {}, False, False, None),
        (405, {}, False, False, None),
        (429, {"Retry-After": "7"}, True, False, 7.0),
        (500, {}, True, True, None),
        (502, {}, True, True, None),
        (503, {}, True, True, None),
        (503, {"Retry-After": "0"}, True, False, 0.0),
        (503, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, True, False, 0.0),
        (503, {"Retry-After": "soon"}, True, False, None),
        (503, {"Retry-After": "Tue, 01 Feb 99999999999 00:00:00 GMT"}, True, False, None),
    ],
)
def test_the_status_is_in_the_error_which_says_whether_and_when_to_try_again(
    status: int,
    headers: dict[str, str],
    *,
    transient: bool,
    is_unclear: bool,
    retry_after: float | None,
) -> None:
    with http_stub() as server:
        server.replies = [(status, headers, b"because")]
        with pytest.raises(ToolError) as caught:
            call(server, "write")

    assert f"write failed: HTTP {status} " in str(caught.value)
    assert "because" in str(caught.value)
    assert (caught.value.transient, caught.value.retry_after) == (transient, retry_after)
    assert caught.value.is_unclear == is_unclear


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "its token in mcp.servers."),
        (403, "what its token"),
        (404, "the path of mcp.servers."),
    ],
)
def test_a_server_that_refuses_the_session_is_reported_with_what_mends_it(
    status: int, hint: str
) -> None:
    with http_stub(f"opens with {status}") as server, pytest.raises(ToolError) as caught:
        call(server, "write")

    assert f"HTTP {status} " in str(caught.value)
    assert f"check {hint}" in str(caught.value.hint)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "1000", "Connection": "close"},
        {"Content-Length": "1000"},
        {"Content-Encoding": "gzip"},
    ],
)
def test_a_status_whose_body_is_cut_short_or_never_ends_or_is_compressed_is_in_the_error(
    headers: dict[str, str],
) -> None:
    with http_stub() as server:
        server.replies = [(429, headers, b"because")]
        with pytest.raises(ToolError, match="write failed: HTTP 429 Too Many Requests") as caught:
            call(server, "write")

    assert caught.value.transient
    assert not caught.value.is_unclear


def test_retry_after_may_be_a_date() -> None:
    later = format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=100), usegmt=True)
    with http_stub() as server:
        server.replies = [(503, {"Retry-After": later}, b"")]
        with pytest.raises(ToolError) as caught:
            call(server, "write")

    assert caught.value.retry_after == pytest.approx(100, abs=30)


def test_a_call_that_broke_off_is_made_again_only_where_it_may_be_repeated() -> None:
    with http_stub("hangs up") as server:
        with pytest.raises(ToolError) as caught:
            call(server, "echo", trusted=False)
        assert server.calls == 1
        assert not caught.value.transient
        assert caught.value.is_unclear

        with pytest.raises(ToolError):
            call(server, "echo", trusted=True)
        assert server.calls == 3


def test_a_proxy_that_is_not_used_is_named_where_a_server_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with http_stub() as server:
        pass

    with pytest.raises(ToolError) as caught:
        call(server)

    assert "HTTPS_PROXY is set, but MCP servers are reached directly" in str(caught.value.hint)


@pytest.mark.parametrize("stateless", [False, True])
def test_a_server_that_was_started_again_answers_in_a_new_session(
    *, stateless: bool, tmp_path: Path
) -> None:
    port = free_port()
    settings = McpServerSettings("real", url=f"http://127.0.0.1:{port}/mcp", timeout=20)

    async def calls() -> list[Json]:
        async with McpSessions([settings]) as sessions:
            outputs = list[Json]()
            for _ in range(2):
                with real_server(port, tmp_path, stateless=stateless):
                    await wait_for_port(port)
                    outputs.append(await sessions.call("real", "add", request({"a": 1, "b": 2})))
            return outputs

    first, second = anyio.run(calls)

    assert first == second == {"result": 3}
    assert (tmp_path / "calls").read_text() == "add\nadd\n"


SERVER = """
import sys
from mcp.server import MCPServer
server = MCPServer("real")

@server.tool()
def add(a: int, b: int) -> int:
    with open(sys.argv[2], "a") as calls:
        calls.write("add\\n")
    return a + b

server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), stateless_http=sys.argv[3] == "True")
"""


@contextmanager
def real_server(port: int, folder: Path, *, stateless: bool) -> Generator[None]:
    """Run a server of the library that servers are written with."""
    arguments = [str(port), str(folder / "calls"), str(stateless)]
    process = subprocess.Popen([sys.executable, "-c", SERVER, *arguments])
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def wait_for_port(port: int) -> None:
    with anyio.fail_after(30):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.05)
            else:
                await stream.aclose()
                return


def test_a_server_that_does_not_take_a_notification_answers_calls() -> None:
    with http_stub("takes no notification") as server:
        assert call(server) == {"text": '{"a": 1}', "parts": []}


def test_the_body_of_what_has_no_answer_is_not_decompressed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with http_stub("ends with a compressed body") as server:
        assert call(server) == {"text": '{"a": 1}', "parts": []}

    assert "termination failed" not in caplog.text
    assert server.requests[-1][0] == "DELETE"


def test_closing_does_not_wait_for_a_server_that_does_not_end_the_session() -> None:
    with http_stub("never ends") as server:
        assert call(server) == {"text": '{"a": 1}', "parts": []}


def test_a_server_that_is_not_there_fails_the_call() -> None:
    with http_stub() as server:
        pass

    with pytest.raises(ToolError, match="MCP server 'web': ConnectError"):
        call(server)


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

    assert str(caught.value) == "MCP server 'web': echo failed: who is [redacted]?"


def test_structured_content_counts_only_where_the_tool_declares_its_schema() -> None:
    result = CallToolResult(
        content=[TextContent(type="text", text="2")], structured_content={"n": 2}
    )

    assert output_of(result, is_typed=True) == {"n": 2}
    assert output_of(result, is_typed=False) == {"text": "2", "parts": []}
