"""Answers of MCP tools as outputs of steps.

Structured content is a tool's output as it is; without it the output is `{text, parts}`: the texts,
and what is no text as records that name their kind.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from mcp_types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from wavewright.config.redaction import Redactor
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.mcp.connection import cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_types import CallToolResult, ContentBlock

    from wavewright.planner.types import Json, JsonObject


def output_of(result: CallToolResult, *, is_typed: bool) -> Json:
    """Return the output that a result holds: structured content only of a tool that declares its
    schema.
    """
    if is_typed and result.structured_content is not None:
        return cast("Json", result.structured_content)
    others = [block for block in result.content if not isinstance(block, TextContent)]
    return {"text": _text_of(result.content), "parts": [_part(block) for block in others]}


def failure_of(server: str, tool: str, result: CallToolResult, redactor: Redactor) -> ToolError:
    """Return the error of a result that says it is one; its text is cut, and redacted before that."""
    text = redactor.redact(_reason_of(result)).strip() or "it gives no reason"
    return ToolError(
        f"MCP server {server!r}: {tool} failed: {cut(text)}",
        hint=f"compare the parameters with those that {tool} declares",
    )


def _reason_of(result: CallToolResult) -> str:
    """Return what a result says of its failure: in words, in documents, or in its fields."""
    documents = [
        block.resource.text
        for block in result.content
        if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents)
    ]
    written = result.structured_content
    fields = "" if written is None else json.dumps(written, ensure_ascii=False)
    return _text_of(result.content) or "\n".join(documents) or fields


def _text_of(content: Iterable[ContentBlock]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


def _part(block: ContentBlock) -> JsonObject:
    match block:
        case ImageContent() | AudioContent():
            return {"type": block.type, "mime_type": block.mime_type, "data": block.data}
        case ResourceLink():
            link: JsonObject = {"type": "link", "uri": block.uri, "name": block.name}
            return link | _given(mime_type=block.mime_type, description=block.description)
        case EmbeddedResource(resource=resource):
            body: JsonObject = (
                {"text": resource.text}
                if isinstance(resource, TextResourceContents)
                else {"data": resource.blob}
            )
            return (
                {"type": "document", "uri": resource.uri}
                | _given(mime_type=resource.mime_type)
                | body
            )
        case TextContent():
            return {"type": "text", "text": block.text}


def _given(**fields: str | None) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
