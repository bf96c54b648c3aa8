"""Signatures of MCP tools, from the lock, the annotations and the settings; and the settings of one
server.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wavewright.config.mcp_servers import McpServerSection, McpToolOverrides
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.mcp.lock import (
    ListedTool,
    McpServerError,
    ServerListing,
    ToolsLock,
    lock_server,
)
from wavewright.tools.mcp.tools import TEXT_OUTPUT, locked_tools, mcp_tool, server_settings

INPUT: JsonObject = {"type": "object", "properties": {"url": {"type": "string"}}}


def signature(
    annotations: JsonObject | None = None,
    output: Json = None,
    *,
    trusted: bool = False,
    input_schema: JsonObject = INPUT,
    **overrides: object,
) -> ToolSignature:
    listed = ListedTool("open", "Open a page.", input_schema, output, annotations or {})
    section = McpServerSection(
        command="serve",
        trusted=trusted,
        timeout=7,
        overrides={"open": McpToolOverrides.model_validate(overrides)},
    )
    locked = lock_server(ServerListing("server", "1", (listed,))).tools["open"]
    return mcp_tool("web.open", "web", "open", locked, section, None).signature


def violations(schema: JsonObject, value: Json) -> list[str]:
    return [one.message for one in validator_of(schema).violations(value)]


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"title": "Open"},
        {"readOnlyHint": True},
        {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
        {"destructiveHint": False},
    ],
)
def test_a_server_that_is_not_trusted_loosens_nothing(annotations: JsonObject) -> None:
    found = signature(annotations)

    assert (set(found.effects), found.idempotent) == ({"write", "egress"}, False)


def test_a_claim_that_tightens_counts_from_every_server() -> None:
    assert signature({"readOnlyHint": True, "destructiveHint": True}).needs_approval


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, ({"write", "egress"}, False, False)),
        ({"title": "Open"}, ({"write", "egress"}, False, False)),
        ({"readOnlyHint": True}, ({"read", "egress"}, True, False)),
        ({"readOnlyHint": True, "destructiveHint": True}, ({"write", "egress"}, False, True)),
        ({"readOnlyHint": True, "idempotentHint": False}, ({"read", "egress"}, False, False)),
        ({"readOnlyHint": True, "openWorldHint": False}, ({"read"}, True, False)),
        ({"openWorldHint": False, "destructiveHint": False}, ({"write"}, False, False)),
        ({"idempotentHint": True, "destructiveHint": True}, ({"write", "egress"}, True, True)),
    ],
)
def test_the_effects_of_a_trusted_server_are_those_of_its_annotations_the_stricter_one(
    annotations: JsonObject, expected: tuple[set[str], bool, bool]
) -> None:
    found = signature(annotations, trusted=True)

    assert (set(found.effects), found.idempotent, found.needs_approval) == expected


def test_overrides_go_before_annotations() -> None:
    found = signature(
        {"destructiveHint": True},
        effects=["read"],
        idempotent=True,
        needs_approval=False,
        accepts_untrusted=["url"],
        allowed_hosts={"url": ["example.org"]},
    )

    assert (set(found.effects), found.idempotent, found.needs_approval) == ({"read"}, True, False)
    assert (set(found.accepts_untrusted), found.allowed_hosts) == (
        {"url"},
        {"url": ("example.org",)},
    )


def test_an_override_of_an_unknown_parameter_names_the_tool() -> None:
    with pytest.raises(ToolDefinitionError, match=r"'web\.open' has no parameter 'uri'"):
        signature(accepts_untrusted=["uri"])


def test_an_override_that_takes_any_text_as_a_destination_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match=r"'web\.open': 'url' is a destination"):
        signature(accepts_untrusted=["url"], destination=["url"])


def test_an_override_of_a_field_that_the_output_lacks_names_the_tool() -> None:
    assert signature(output=INPUT, untrusted=["url"]).untrusted == {"url"}
    with pytest.raises(ToolDefinitionError, match=r"'web\.open' has no field 'body'"):
        signature(output=INPUT, untrusted=["body"])


def test_untrusted_fields_of_an_answer_without_a_schema_are_its_text_and_parts() -> None:
    assert signature(untrusted=["text"], trusted=True).untrusted == {"text"}
    with pytest.raises(ToolDefinitionError, match="has no field 'body'") as refused:
        signature(untrusted=["body"], trusted=True)

    assert refused.value.hint == "its fields: parts, text"


def test_an_output_is_untrusted_unless_the_server_is_trusted() -> None:
    assert signature({"readOnlyHint": True}).untrusted_output
    assert not signature(trusted=True).untrusted_output


def test_an_output_schema_types_the_output_and_without_one_it_is_text_and_parts() -> None:
    assert signature(output=INPUT).output_schema == INPUT
    assert signature().output_schema == TEXT_OUTPUT
    assert signature().timeout == 600


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=(a+)+$).*b", "(x+x+)+y", "a" * 300])
def test_no_pattern_that_takes_long_is_in_a_signature(pattern: str) -> None:
    bomb: JsonObject = {
        "type": "object",
        "properties": {
            "x": {"type": "string", "pattern": pattern},
            "y": {"type": "array", "items": {"anyOf": [{"pattern": pattern}]}},
            "z": {
                "type": "object",
                "patternProperties": {pattern: {}},
                "additionalProperties": False,
                "propertyNames": {"pattern": pattern},
            },
        },
    }

    found = signature(output=bomb, input_schema=bomb)

    assert pattern not in json.dumps([found.output_schema, found.input_schema])
    assert violations(found.output_schema, {"x": "!", "z": {"q": 1}}) == []


def test_a_pattern_that_bounds_a_parameter_is_held_against_it() -> None:
    dated: JsonObject = {
        "type": "object",
        "properties": {"day": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}},
    }

    found = signature(input_schema=dated)

    assert violations(found.input_schema, {"day": "monday"}) != []
    assert violations(found.input_schema, {"day": "2026-11-28"}) == []


def test_the_version_of_a_tool_that_reads_follows_what_the_server_says() -> None:
    reads: JsonObject = {"readOnlyHint": True}

    first = signature(reads, trusted=True).version

    assert first == signature(reads, trusted=True).version
    assert first != signature({**reads, "openWorldHint": False}, trusted=True).version


def test_a_write_keeps_its_key_where_the_server_describes_the_tool_anew() -> None:
    assert signature().version == signature(output=INPUT).version


def test_only_allowed_tools_of_configured_servers_are_there() -> None:
    tools = tuple(ListedTool(name, input_schema=INPUT) for name in ("a", "b"))
    locked = lock_server(ServerListing("server", "1", tools))
    lock = ToolsLock(servers={"one": locked, "two": locked, "old": locked})
    servers = {
        "one": McpServerSection(command="serve"),
        "two": McpServerSection(command="serve", tools=["b", "c"]),
        "new": McpServerSection(command="serve"),
    }

    assert [tool.full_name for tool in locked_tools(servers, lock)] == ["one.a", "one.b", "two.b"]


def test_an_override_of_a_tool_that_is_not_locked_is_refused() -> None:
    locked = lock_server(ServerListing("server", "1", (ListedTool("open", input_schema=INPUT),)))
    section = McpServerSection(
        command="serve", overrides={"opne": McpToolOverrides(effects=frozenset())}
    )

    with pytest.raises(
        McpServerError, match=r"'web' has no tool 'opne' in tools\.lock\.json"
    ) as caught:
        list(locked_tools({"web": section}, ToolsLock(servers={"web": locked})))

    assert "mcp.servers.web.overrides" in str(caught.value.hint)
    assert list(locked_tools({"web": section}, ToolsLock())) == []


def test_references_to_variables_are_replaced_and_the_folder_is_the_projects(
    tmp_path: Path,
) -> None:
    section = McpServerSection(
        command="${env:BIN}/serve", args=["a-${env:X}-b"], env={"K": "${env:KEY}"}
    )

    server = server_settings("one", section, tmp_path, {"BIN": "/bin", "X": "x", "KEY": "k"})

    assert (server.command, server.args, server.env) == ("/bin/serve", ("a-x-b",), {"K": "k"})
    assert server.cwd == tmp_path


def test_a_variable_that_is_not_set_is_named_with_its_server(tmp_path: Path) -> None:
    section = McpServerSection(url="https://x.example/mcp", headers={"A": "Bearer ${env:MISSING}"})

    with pytest.raises(McpServerError, match="'tracker' needs the environment variable MISSING"):
        server_settings("tracker", section, tmp_path, {})
