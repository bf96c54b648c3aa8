"""What servers answer, corrected before the library reads it.

The library refuses a whole answer for one part that breaks the protocol: all tools of a list for one
of them, and what a call has done for a kind of content that it does not know. Null stands for what
is absent, as some languages write an empty list, and `[]` for an empty record, as others do.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final, TypeAlias, cast, get_args

import mcp_types
from mcp_types.methods import SERVER_RESULTS
from pydantic import BaseModel, TypeAdapter, ValidationError

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.mcp.connection import ConnectionState
from wavewright.tools.mcp.lock import ListedTool
from wavewright.tools.mcp.wire import BARE_RESULT, RETURNED, UNREAD_TOOLS

MAX_FAULTY_TOOLS: Final = 1000


def correct_result(message: mcp_types.JSONRPCResponse, method: str, state: ConnectionState) -> None:
    """Correct the result of a request: a handshake, a list of tools or a call.

    Tools that cannot be corrected are taken out and kept as the connection's faulty tools.
    """
    result = cast("JsonObject", message.result)
    bare = result.pop(BARE_RESULT, None)
    if not isinstance(result.get("_meta", {}), dict):
        del result["_meta"]
    for name in ("isError", "resultType"):
        if result.get(name, "") is None:
            del result[name]
    match method:
        case "initialize":
            _correct_handshake(result)
        case "tools/list":
            result.setdefault("tools", bare)
            _correct_list(result, state)
        case "tools/call" if result.keys().isdisjoint(_ASKS_FOR_INPUT):
            if result.keys().isdisjoint(RETURNED):
                # What a call has returned is kept, whatever it is called.
                others = {name: result[name] for name in result.keys() - _OF_EVERY_RESULT}
                result["content"] = [others] if others else bare
            _correct_content(result)
        case _:
            pass


_ASKS_FOR_INPUT: Final = frozenset({"inputRequests", "requestState"})
_OF_EVERY_RESULT: Final = frozenset({"_meta", "resultType"})


_Checks: TypeAlias = tuple[TypeAdapter[Any], ...]


def _checks_of(method: str, field: str) -> _Checks:
    """Return what holds a field of a result against the protocol, in each version of it."""
    annotations: list[Any] = []
    for (result_of, _version), model in SERVER_RESULTS.items():
        if result_of != method:
            continue
        for one in get_args(model) or (model,):
            declared = cast("type[BaseModel]", one).model_fields.get(field)
            if declared is not None:
                annotations.append(declared.annotation)
    return tuple(TypeAdapter[Any](annotation) for annotation in annotations)


def _fits(value: object, checks: _Checks) -> bool:
    try:
        for check in checks:
            check.validate_python(value, by_name=False)
    except ValidationError:
        return False
    return True


def _correct_handshake(result: JsonObject) -> None:
    """Leave out what does not fit of what is not needed: some languages write `[]` for `{}`."""
    capabilities = result.get("capabilities")
    members = capabilities if isinstance(capabilities, dict) else {}
    result["capabilities"] = {
        name: member for name, member in members.items() if _fits({name: member}, _CAPABILITIES)
    }
    if not _fits(result.get("serverInfo"), _SERVER_INFO):
        result["serverInfo"] = {"name": "", "version": ""}
    if not isinstance(result.get("instructions"), str):
        result.pop("instructions", None)


_CAPABILITIES: Final = _checks_of("initialize", "capabilities")
_SERVER_INFO: Final = _checks_of("initialize", "server_info")
_TOOLS: Final = (
    *_checks_of("tools/list", "tools"),
    TypeAdapter[Any](list[mcp_types.Tool]),
)
_CONTENT: Final = (
    *_checks_of("tools/call", "content"),
    TypeAdapter[Any](list[mcp_types.ContentBlock]),
)
_MAX_LEFT_OUT_NOTES: Final = 20


def _correct_list(result: JsonObject, state: ConnectionState) -> None:
    cursor = result.get("nextCursor")
    if isinstance(cursor, int | float):
        result["nextCursor"] = str(cursor)
    elif not isinstance(cursor, str):
        result.pop("nextCursor", None)  # it leads to no page
    if result["tools"] in (None, {}):
        result["tools"] = []
    tools = result["tools"]
    if not isinstance(tools, list):
        return
    unread = result.pop(UNREAD_TOOLS, None)
    if isinstance(unread, str):
        state.unread_tools = unread
    sound: list[Json] = []
    left_out = 0
    for tool in tools:
        corrected = _corrected_tool(tool)
        if corrected is not None:
            sound.append(corrected)
            continue
        left_out += 1
        if left_out <= _MAX_LEFT_OUT_NOTES:
            shown = tool.get("name") if isinstance(tool, dict) else tool
            text = f"left out a tool without a proper name or schema: {str(shown)[:200]!r}"
            state.log(text, logging.WARNING)
        if isinstance(tool, dict) and len(state.faulty_tools) < MAX_FAULTY_TOOLS:
            _keep_faulty(tool, state)
    result["tools"] = sound


def _keep_faulty(tool: JsonObject, state: ConnectionState) -> None:
    name = tool.get("name")
    if not isinstance(name, str):
        return
    description = tool.get("description")
    state.faulty_tools.append(
        ListedTool(
            name,
            description if isinstance(description, str) else "",
            tool.get("inputSchema"),
            tool.get("outputSchema"),
        )
    )


def _corrected_tool(tool: Json) -> Json:
    """Return a tool that keeps to the protocol; nothing where it has no name or proper schemas."""
    if not isinstance(tool, dict):
        return None
    corrected = {**tool, "inputSchema": _parameters(tool.get("inputSchema"))}
    output = tool.get("outputSchema")
    if output in (*_EMPTY, True, {}):
        corrected.pop("outputSchema", None)  # it says nothing of the output
    elif isinstance(output, dict):
        corrected["outputSchema"] = _with_records(output)
    if not _are_schemas_of_objects(corrected):
        return None
    if _fits([corrected], _TOOLS):
        return corrected
    # Only a name and its schemas make a tool.
    for name in [*corrected]:
        rest = {"name": corrected.get("name"), "inputSchema": {"type": "object"}}
        if name not in {*rest, "outputSchema"} and not _fits(
            [{**rest, name: corrected[name]}], _TOOLS
        ):
            del corrected[name]
    return corrected if _fits([corrected], _TOOLS) else None


def _are_schemas_of_objects(tool: JsonObject) -> bool:
    schemas = [tool["inputSchema"], tool.get("outputSchema", {"type": "object"})]
    return all(isinstance(schema, dict) and schema.get("type") == "object" for schema in schemas)


def _parameters(schema: Json) -> Json:
    """Return a schema of parameters as that of an object, which they always are: some servers leave
    that out.
    """
    if schema is True:
        return {"type": "object"}
    if not isinstance(schema, dict):
        return schema
    kinds = schema.get("type", "object")
    if isinstance(kinds, list) and "object" in kinds:
        kinds = "object"
    return _with_records({**schema, "type": kinds})


def _with_records(schema: JsonObject) -> JsonObject:
    """Return a schema with a record where null or `[]` stands for an empty one, and without `{}` for
    an empty list.
    """
    corrected = {**schema}
    for keyword in _RECORDS_OF_SCHEMAS & schema.keys():
        members = schema[keyword]
        if members in _EMPTY:
            corrected[keyword] = {}
        elif isinstance(members, dict):
            corrected[keyword] = {name: _schema(member) for name, member in members.items()}
    for keyword in _SCHEMAS_IN_SCHEMAS & schema.keys():
        corrected[keyword] = _schema(schema[keyword])
    for keyword in _LISTS_OF_SCHEMAS & schema.keys():
        members = schema[keyword]
        if isinstance(members, list):
            corrected[keyword] = [_schema(member) for member in members]
    if schema.get("required", []) in (None, {}):
        del corrected["required"]
    return corrected


def _schema(member: Json) -> Json:
    if member in _EMPTY:
        return {}
    return _with_records(member) if isinstance(member, dict) else member


_RECORDS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_SCHEMAS_IN_SCHEMAS: Final = frozenset({"items", "additionalProperties"})
_LISTS_OF_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_EMPTY: Final[tuple[Json, ...]] = (None, [])


def _correct_content(result: JsonObject) -> None:
    content = result.get("content")
    blocks: list[Json] = []
    if isinstance(content, list):
        blocks = content
    elif content not in (None, {}):
        blocks = [content]
    if not _fits(blocks, _CONTENT):
        blocks = [_corrected_block(block) for block in blocks]
    result["content"] = blocks
    if not isinstance(result.get("structuredContent", {}), dict):
        del result["structuredContent"]


def _corrected_block(block: Json) -> Json:
    """Return a block of content; one of an unknown kind as a document, which holds it in JSON."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if _fits([block], _CONTENT):
        return block
    if isinstance(block, dict):
        bare = {name: block[name] for name in block.keys() & _MAKE_A_BLOCK}
        if _fits([bare], _CONTENT):
            return bare
    kind = block.get("type") if isinstance(block, dict) else None
    uri = f"unknown:{kind[:_MAX_KIND]}" if isinstance(kind, str) else "unknown:"
    written = json.dumps(block, ensure_ascii=False)
    document: JsonObject = {"uri": uri, "mimeType": "application/json", "text": written}
    return {"type": "resource", "resource": document}


_MAKE_A_BLOCK: Final = frozenset(
    {"type", "text", "data", "mimeType", "uri", "name", "description", "resource"}
)
_MAX_KIND: Final = 100
