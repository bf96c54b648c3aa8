"""Settings of MCP servers, as a settings file gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.config import Settings, load_settings
from wavewright.config.redaction import known_secrets
from wavewright.config.sources import DocumentError

LITERAL = "sk-proj-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA"


def load(folder: Path, servers: str) -> Settings:
    (folder / "wavewright.yaml").write_text(f"mcp:\n  servers:\n{servers}")
    return load_settings(folder, {})


def test_a_server_has_the_fields_that_mcp_clients_share(tmp_path: Path) -> None:
    servers = load(
        tmp_path,
        "    time: {command: mcp-server-time, args: [--local-timezone=UTC], env: {A: b}, cwd: data}\n"
        "    web: {url: 'https://x.example/mcp', headers: {A: '${env:K}'}, timeout: 2m, trusted: true}\n",
    ).mcp.servers

    assert (servers["time"].command, servers["time"].args) == (
        "mcp-server-time",
        ["--local-timezone=UTC"],
    )
    assert (servers["time"].env, servers["time"].cwd, servers["time"].tools) == (
        {"A": "b"},
        "data",
        None,
    )
    assert (servers["web"].url, servers["web"].timeout) == ("https://x.example/mcp", 120.0)
    assert servers["web"].trusted


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{command: a, url: 'http://b'}", "either a 'command' to start or a 'url' to reach"),
        ("{trusted: true}", "either a 'command' to start or a 'url' to reach"),
        ("{command: a, headers: {}}", "a server with a 'command' has no 'headers'"),
        ("{url: 'http://b', cwd: c}", "a server with a 'url' has no 'cwd'"),
        ("{url: 'ftp://b'}", "should match"),
        (
            "{command: a, overrides: {b: {effects: [delete]}}}",
            "should be 'read', 'write' or 'egress'",
        ),
    ],
)
def test_a_server_that_cannot_be_used_is_a_fault(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        load(tmp_path, f"    one: {entry}\n")

    assert caught.value.faults[0].pointer.startswith("/mcp/servers/one")


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        (f"{{command: a, env: {{API_KEY: {LITERAL}}}}}", "env/API_KEY"),
        ("{command: a, env: {DB_PASSWORD: hunter2}}", "env/DB_PASSWORD"),
        (f"{{command: a, args: [--api-key, {LITERAL}]}}", "args/1"),
        (
            f"{{url: 'http://b', headers: {{Authorization: Bearer {LITERAL}}}}}",
            "headers/Authorization",
        ),
        (f"{{url: 'http://me:{LITERAL}@b/mcp'}}", "url"),
    ],
)
def test_a_literal_secret_is_a_fault_at_its_place_that_does_not_show_it(
    tmp_path: Path, entry: str, place: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        load(tmp_path, f"    one: {entry}\n")

    fault = caught.value.faults[0]
    assert fault.pointer == f"/mcp/servers/one/{place}"
    assert "${env:NAME}" in (fault.hint or "")
    shown = f"{caught.value} {caught.value.source.text}"
    assert LITERAL not in shown
    assert "hunter2" not in shown


def test_variables_of_args_env_url_and_headers_are_known_secrets(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "    a: {command: '${env:HOME}/a', args: ['${env:HOME}/b', '--key=${env:KEY}'], env: {X: '${env:PAT}'}}\n"
        "    b: {url: 'http://b/${env:PART}', headers: {Authorization: 'Bearer ${env:WORD}'}}\n",
    )

    environment = {"HOME": "/srv/notes", "KEY": "key-of-me", "PAT": "pat-of-me"}
    environment |= {"PART": "url-of-me", "WORD": "word-of-me"}
    found = known_secrets(settings, environment)
    assert sorted(found) == ["key-of-me", "pat-of-me", "url-of-me", "word-of-me"]
