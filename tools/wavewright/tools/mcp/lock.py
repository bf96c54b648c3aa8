"""The lock of MCP tools: what each server offered when it was accepted.

`tools.lock.json` lies beside `wavewright.yaml`. Plans are checked against it without starting a
server, and a server whose tools differ from it is refused: a description is read by models, so a
changed one can be an attack.

A tool is left out, and the others of its server are used, where its name, its description or a
schema of it cannot be used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from wavewright.config.errors import cut_end
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.mcp.schemas import SchemaAllowance, SchemaRefused, usable_schema


class McpServerError(ToolDefinitionError):
    """A server that cannot be used as settings and lock say; names the server and the fix."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One tool in a server's own words; nothing in it has been checked."""

    name: str
    description: str = ""
    input_schema: Json = None
    """As the server sent it, also where it is no object."""
    output_schema: Json = None
    annotations: JsonObject = field(default_factory=dict[str, Json])
    """`readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`, as far as the server
    gives them.
    """

    @property
    def text(self) -> str:
        """Everything in it as JSON."""
        written = [
            self.name,
            self.description,
            self.input_schema,
            self.output_schema,
            self.annotations,
        ]
        return json.dumps(written, sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of everything in it, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ServerListing:
    """The tools of one server, in the server's order."""

    name: str
    """Name that the server gives itself; empty where it gives none."""
    version: str
    tools: tuple[ListedTool, ...]
    faulty: tuple[ListedTool, ...] = ()
    """Those that break the protocol: they have a name, and cannot be called."""
    unread: str = ""
    """Why there may be more tools than were read; empty where all were."""


LOCK_NAME: Final = "tools.lock.json"
LOCK_HINT: Final = "look at the changes, then accept them with `wavewright tools --lock`"

HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""Annotations that say what a call may do."""

_MAX_NAME: Final = 128
_MAX_SERVER_NAME: Final = 200
_MAX_NAMESAKES: Final = 3
_MAX_DESCRIPTION: Final = 16 * 2**10
_MAX_SHOWN: Final = 60
_SHOWN_BEFORE: Final = 15
"""Characters shown before the first difference of two descriptions."""


class _LockModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LockedTool(_LockModel):
    """One tool as its server described it; the schemas are plain, without references."""

    hash: str
    """Of everything the server said of it."""
    description: str
    input_schema: JsonSchema
    output_schema: JsonSchema | None
    annotations: dict[str, JsonValue]


class LeftOutTool(_LockModel):
    """A tool that plans cannot call."""

    hash: str
    reason: str


class LockedServer(_LockModel):
    """The tools of one server."""

    name: str
    """Name that the server gives itself."""
    version: str
    tools: dict[str, LockedTool]
    left_out: dict[str, LeftOutTool]

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of each tool, those left out included."""
        used = {name: tool.hash for name, tool in self.tools.items()}
        return used | {name: tool.hash for name, tool in self.left_out.items()}


class ToolsLock(_LockModel):
    """What `tools.lock.json` holds."""

    version: Literal[1] = 1
    servers: dict[str, LockedServer] = {}

    @property
    def text(self) -> str:
        """The file's text; equal for equal tools."""
        return json.dumps(self.model_dump(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read_lock(root: Path) -> ToolsLock:
    """Return the lock of a project; an empty one where there is no file.

    Raises:
        McpServerError: the file is damaged.
    """
    path = root / LOCK_NAME
    try:
        changed = path.stat().st_mtime_ns
    except FileNotFoundError:
        return ToolsLock()
    return _read_file(path, changed)


@lru_cache(maxsize=4)
def _read_file(path: Path, changed: int) -> ToolsLock:
    del changed  # a file that was written again is read again
    try:
        return ToolsLock.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise McpServerError(
            f"{path} cannot be used: {reason}", "write it again with `wavewright tools --lock`"
        ) from error


def lock_server(listing: ServerListing, allowed: Collection[str] | None = None) -> LockedServer:
    """Return what the lock holds of a server's tools; of those allowed only, where a list of them
    is given.
    """
    tools: dict[str, LockedTool] = {}
    left_out: dict[str, LeftOutTool] = {}
    allowance = SchemaAllowance()
    for name, same_name in _tools_by_name(listing, allowed).items():
        try:
            tools[name] = _locked_tool(same_name, allowance)
        except SchemaRefused as error:
            left_out[name] = LeftOutTool(hash=_digest(same_name), reason=str(error))
    return LockedServer(
        name=listing.name[:_MAX_SERVER_NAME],
        version=listing.version[:_MAX_SERVER_NAME],
        tools=tools,
        left_out=left_out,
    )


def _tools_by_name(
    listing: ServerListing, allowed: Collection[str] | None
) -> dict[str, list[ListedTool]]:
    """Return the tools of a list by their names, cut where they are too long; a name should have
    one tool.
    """
    by_name: dict[str, list[ListedTool]] = {}
    for tool in (*listing.tools, *listing.faulty):
        if allowed is None or tool.name in allowed:
            by_name.setdefault(tool.name[: _MAX_NAME + 1], []).append(tool)
    return by_name


def _digest(same_name: list[ListedTool]) -> str:
    if len(same_name) == 1:
        return same_name[0].digest
    return hashlib.sha256("".join(tool.digest for tool in same_name).encode()).hexdigest()


def _locked_tool(same_name: list[ListedTool], allowance: SchemaAllowance) -> LockedTool:
    tool = same_name[0]
    if len(same_name) > 1:
        # Which of them a call would reach is not known.
        named = " and ".join(map(_told_apart, same_name[:_MAX_NAMESAKES]))
        raise SchemaRefused(f"{len(same_name)} tools have its name: {named}")
    if not tool.name or len(tool.name) > _MAX_NAME:
        raise SchemaRefused(f"its name has no character, or more than {_MAX_NAME}")
    if len(tool.description) > _MAX_DESCRIPTION:
        raise SchemaRefused(f"its description is longer than {_MAX_DESCRIPTION // 2**10} KiB")
    output = tool.output_schema
    return LockedTool(
        hash=tool.digest,
        description=tool.description,
        input_schema=_usable_schema("input", tool.input_schema, allowance),
        output_schema=None if output is None else _usable_schema("output", output, allowance),
        annotations={
            hint: tool.annotations[hint] for hint in HINTS if tool.annotations.get(hint) is not None
        },
    )


def _told_apart(tool: ListedTool) -> str:
    """Return what tells a tool from another one of its name: its parameters and its description."""
    match tool.input_schema:
        case {"properties": dict() as properties}:
            parameters = ", ".join(properties)
        case _:
            parameters = ""
    name, shown = cut_end(tool.name, _MAX_SHOWN), cut_end(parameters, _MAX_SHOWN)
    return f"{name}({shown}) {_excerpt(tool.description, 0)}"


def _usable_schema(part: str, schema: JsonValue, allowance: SchemaAllowance) -> JsonSchema:
    try:
        return usable_schema(schema, allowance)
    except SchemaRefused as error:
        raise SchemaRefused(f"its {part} schema cannot be used: {error}") from error


def plan_names(names: Iterable[str]) -> dict[str, str]:
    """Return, for the names of a server's tools, those that plans call them by after the server's.

    What the language cannot say, such as a slash, is `_` there, and so is each dot of a name whose
    dots divide nothing; a name that would be another tool's, or that has nothing else, ends with a
    hash of the server's own.
    """
    said = {name: name for name in names if _SAYABLE.fullmatch(name)}
    taken = {*said}
    for name in sorted({*names} - said.keys()):
        alias = _UNSAYABLE.sub("_", name)
        if _SAYABLE.fullmatch(alias) is None:
            alias = alias.replace(".", "_")
        if alias.startswith("-"):
            alias = f"_{alias}"
        if alias in taken or not alias.strip("_-"):
            alias = f"{alias[: _MAX_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        taken.add(alias)
        said[name] = alias
    return said


_SAYABLE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)*")
_UNSAYABLE: Final = re.compile(r"[^A-Za-z0-9_.-]")


def refuse_changed_tools(
    server: str,
    locked: LockedServer | None,
    listing: ServerListing,
    allowed: Collection[str] | None = None,
) -> None:
    """Raise an error with the differences where a server's tools are not those of the lock.

    Tools that are not allowed may change. Another version of the server with the same tools is no
    difference, and neither is a tool of the lock that may be in what was not read of the list.

    Raises:
        McpServerError: they differ, or the server is not in the lock.
    """
    if locked is None:
        raise unlocked_server_error(server)
    expected = {
        name: value for name, value in locked.hashes.items() if allowed is None or name in allowed
    }
    listed = {name: _digest(tools) for name, tools in _tools_by_name(listing, allowed).items()}
    if listing.unread:
        expected = {name: value for name, value in expected.items() if name in listed}
    if listed != expected:
        before = locked
        if listing.unread:
            before = locked.model_copy(
                update={
                    "tools": {n: tool for n, tool in locked.tools.items() if n in listed},
                    "left_out": {n: tool for n, tool in locked.left_out.items() if n in listed},
                }
            )
        changes = "\n".join(tool_changes(before, lock_server(listing, allowed), allowed))
        raise McpServerError(
            f"the tools of MCP server {server!r} are not those of {LOCK_NAME}:\n{changes}",
            LOCK_HINT,
        )


def unlocked_server_error(server: str) -> McpServerError:
    """Return the error of a server that the lock does not have."""
    return McpServerError(
        f"MCP server {server!r} is not in {LOCK_NAME}", "write it with `wavewright tools --lock`"
    )


def tool_changes(
    old: LockedServer | None, new: LockedServer, allowed: Collection[str] | None = None
) -> list[str]:
    """Return one line for each tool that is new (`+`), gone (`-`) or described in another way
    (`~`).
    """
    before = {} if old is None else old.hashes
    after = new.hashes
    lines: list[str] = []
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            lines += [f"- {name}"] if allowed is None or name in allowed else []
        elif name not in before:
            lines.append(f"+ {name}")
        elif before[name] != after[name]:
            was = {} if old is None else old.tools
            changed = _changed_parts(was.get(name), new.tools.get(name))
            reason = f": {new.left_out[name].reason}" if name in new.left_out else ""
            lines.append(f"~ {name}: {changed}{reason}")
    return lines


def _changed_parts(old: LockedTool | None, new: LockedTool | None) -> str:
    if old is None or new is None:
        if new is not None:
            return "can be used now"
        return "still cannot be used" if old is None else "cannot be used any more"
    parts: list[str] = []
    if old.description != new.description:
        common = len(os.path.commonprefix([old.description, new.description]))  # noqa: RUF071 - not of paths
        start = max(0, common - _SHOWN_BEFORE)
        parts.append(
            f"description {_excerpt(old.description, start)} → {_excerpt(new.description, start)}"
        )
    was: Mapping[str, object] = old.model_dump()
    now: Mapping[str, object] = new.model_dump()
    parts += [
        part.replace("_", " ")
        for part in ("input_schema", "output_schema", "annotations")
        if was[part] != now[part]
    ]
    return ", ".join(parts) or "titles of its schemas"


def _excerpt(text: str, start: int) -> str:
    shown = text[start : start + _MAX_SHOWN]
    return repr(("…" if start else "") + shown + ("…" if start + _MAX_SHOWN < len(text) else ""))
