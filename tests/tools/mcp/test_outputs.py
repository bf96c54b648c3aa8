"""The answer of an MCP server as the output of a tool."""

from __future__ import annotations

from mcp_types import CallToolResult, TextContent

from wavewright.tools.mcp.transports import output_of


def test_structured_content_counts_only_where_the_tool_declares_its_schema() -> None:
    result = CallToolResult(content=[TextContent(type="text", text="2")], structured_content={"n": 2})

    assert output_of(result, is_typed=True) == {"n": 2}
    assert output_of(result, is_typed=False) == {"text": "2", "parts": []}
