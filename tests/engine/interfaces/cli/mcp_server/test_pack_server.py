"""`wavewright mcp SERVER`: what cannot be served; tests of the packs are clients of their servers."""

from __future__ import annotations

import pytest

from tests.engine.conftest import CommandLine


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("lore-stor",), "no pack brings an MCP server 'lore-stor'", "did you mean 'lore-store'?"),
        (("lore-store",), "lore-store needs a role", "--role, one of researcher, validator"),
        (
            ("lore-store", "--role", "visitor"),
            "lore-store has no role 'visitor'",
            "researcher, validator",
        ),
        (
            ("--role", "validator"),
            "--role goes with the name of a server",
            "wavewright mcp NAME --role ROLE",
        ),
    ],
)
def test_a_server_or_a_role_that_is_not_there_is_named(
    wavewright: CommandLine, arguments: tuple[str, ...], message: str, hint: str
) -> None:
    answer = wavewright("mcp", *arguments)

    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert hint in answer.err


def test_a_token_leads_to_one_role(
    wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in ("RESEARCHER", "VALIDATOR"):
        monkeypatch.setenv(f"WAVEWRIGHT_MCP_TOKEN_{role}", "the same token for both")

    answer = wavewright("mcp", "lore-store", "--http", "127.0.0.1:0")

    assert (answer.code, answer.out) == (2, "")
    assert "two roles have the same token" in answer.err

    monkeypatch.setenv("WAVEWRIGHT_MCP_TOKEN_VALIDATOR", "short")
    answer = wavewright("mcp", "lore-store", "--http", "127.0.0.1:0")
    assert "WAVEWRIGHT_MCP_TOKEN_VALIDATOR has fewer than 16 characters" in answer.err
