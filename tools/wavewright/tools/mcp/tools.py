"""MCP servers of the settings, with the values of the environment in place, and their tools as
tools of plans.

Signatures come from the lock and the settings. What a server says of its tools may only tighten
what holds for every tool: it writes, sends data out and is not repeated. `trusted` in the settings
lets it loosen that, and overrides go before all it says. An output is untrusted unless the settings
trust the server. The rules are in docs/reference/mcp.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from wavewright.config.mcp_servers import McpServerSection, McpToolOverrides
from wavewright.config.redaction import VARIABLE_PATTERN
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Effect, Json, JsonSchema
from wavewright.tools.functions.registry import (
    check_parameters,
    known_fields,
    with_allowed_hosts,
)
from wavewright.tools.functions.tool import Tool, ToolCall
from wavewright.tools.mcp.lock import LOCK_NAME, LockedTool, McpServerError, ToolsLock, plan_names
from wavewright.tools.mcp.schemas import with_bounded_patterns, without_patterns

if TYPE_CHECKING:
    from wavewright.tools.functions.tool import ServerCaller


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """How one server is started (`command`) or reached (`url`); one of the two is given."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables of the program, beside the few that every program gets."""
    cwd: Path | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    idempotent: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Tool → whether a call may be repeated; as annotations say where absent."""
    trusted: bool = False
    """Whether annotations that loosen are believed."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values of environment variables that the settings refer to; never shown."""
    limit: int = 8
    """Calls that run at once."""
    timeout: float = 60.0
    """Seconds that one call, or the start of the server, may take."""


def server_settings(
    name: str, section: McpServerSection, root: Path, environment: Mapping[str, str] = os.environ
) -> McpServerSettings:
    """Return the settings of a server with each `${env:NAME}` replaced by that variable.

    Raises:
        McpServerError: variables are not set; it names all of them.

    >>> from pathlib import Path
    >>> from wavewright.config import McpServerSection
    >>> from wavewright.tools import server_settings
    >>> section = McpServerSection(url="https://tools.example/mcp")
    >>> server_settings("tools", section, Path("."), {}).name
    'tools'
    """
    missing = section.variables - environment.keys()
    if missing:
        names = ", ".join(sorted(missing))
        variables = "variable" if len(missing) == 1 else "variables"
        raise McpServerError(
            f"MCP server {name!r} needs the environment {variables} {names}",
            f"set {names}, or remove what names it from mcp.servers.{name}",
        )

    def expand(text: str) -> str:
        return VARIABLE_PATTERN.sub(lambda found: environment[found[1]], text)

    return McpServerSettings(
        name=name,
        command=None if section.command is None else expand(section.command),
        args=tuple(expand(argument) for argument in section.args),
        env={key: expand(value) for key, value in section.env.items()},
        cwd=None
        if section.command is None
        else root / Path(expand(section.cwd or ".")).expanduser(),
        url=None if section.url is None else expand(section.url),
        headers={key: expand(value) for key, value in section.headers.items()},
        idempotent={
            tool: overrides.idempotent
            for tool, overrides in section.overrides.items()
            if overrides.idempotent is not None
        },
        trusted=section.trusted,
        secrets=frozenset(environment[variable] for variable in section.secret_variables) - {""},
        limit=section.limit,
        timeout=section.timeout,
    )


_WRITES_ONCE: Final = "1"
"""Version of every tool that writes, as a part of the key of its calls."""

TEXT_OUTPUT: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The texts of the answer, one after another."},
        "parts": {
            "type": "array",
            "items": {"type": "object"},
            "description": "What is no text: images, sounds, links, documents; `type` names the kind.",
        },
    },
    "required": ["text", "parts"],
}
"""Output of a tool whose server gives no output schema."""
_TEXT_FIELDS: Final[JsonSchema] = {
    "properties": {"text": {"type": "string"}, "parts": {"type": "string"}}
}
"""The fields of such an output that an override may name: what a field is called within the text, or
within a part, is the server's to say, and a name that it does not use would leave `text` trusted.
"""


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """What a call of a tool may do, as annotations say."""

    effects: frozenset[Effect]
    idempotent: bool
    needs_approval: bool


def annotated_policy(annotations: Mapping[str, Json], *, trusted: bool) -> ToolPolicy:
    """Return what holds for a tool, as far as annotations are believed.

    A claim that makes a call need more care counts from every server. One that makes it need less
    (that it only reads, stays within the server, may be repeated) counts from a trusted one: else
    a server could lead untrusted text into a tool that acts. Of two hints that contradict each
    other the stricter one counts.
    """
    destroys = annotations.get("destructiveHint") is True
    only_reads = trusted and annotations.get("readOnlyHint") is True and not destroys
    stays_within = trusted and annotations.get("openWorldHint") is False
    repeats = annotations.get("idempotentHint")
    effects: set[Effect] = {"read"} if only_reads else {"write"}
    if not stays_within:
        effects.add("egress")
    return ToolPolicy(
        frozenset(effects),
        # A call that reads may be repeated, unless it is said that it may not.
        idempotent=trusted and (repeats is True or (only_reads and repeats is not False)),
        needs_approval=destroys,
    )


@dataclass(frozen=True, slots=True)
class LockedServerTool:
    """A tool of a server that plans may call."""

    server: str
    name: str
    """The server's own."""
    full_name: str
    """What plans call it: the server and the name, or what stands for a name that they cannot say."""
    locked: LockedTool

    @property
    def short_name(self) -> str:
        """The full name without the server."""
        return self.full_name.partition(".")[2]


def locked_tools(
    servers: Mapping[str, McpServerSection], lock: ToolsLock
) -> Iterator[LockedServerTool]:
    """Yield every tool that plans may call.

    Raises:
        McpServerError: the settings override a tool that the lock of its server does not have.
    """
    for server, section in servers.items():
        locked = lock.servers.get(server)
        if locked is None:
            continue
        if unknown := sorted(section.overrides.keys() - locked.hashes.keys()):
            raise McpServerError(
                f"MCP server {server!r} has no tool {unknown[0]!r} in {LOCK_NAME}",
                f"correct the name in mcp.servers.{server}.overrides, or run `wavewright tools --lock`",
            )
        said = plan_names(locked.tools)
        for name, tool in locked.tools.items():
            if section.tools is None or name in section.tools:
                yield LockedServerTool(server, name, f"{server}.{said[name]}", tool)


@dataclass(frozen=True, slots=True)
class LeftOutServerTool:
    """A tool of a server that plans would call, and that the lock leaves out."""

    server: str
    name: str
    short_name: str
    reason: str

    @property
    def full_name(self) -> str:
        """What plans would call it."""
        return f"{self.server}.{self.short_name}"

    def error(self) -> McpServerError:
        """Return the error of a plan that calls it."""
        return McpServerError(
            f"tool {self.name!r} of MCP server {self.server!r} cannot be called: {self.reason}",
            "have it mended in the server, then run `wavewright tools --lock`",
        )


def left_out_tools(
    servers: Mapping[str, McpServerSection], lock: ToolsLock
) -> Iterator[LeftOutServerTool]:
    """Yield every tool that the settings allow and the lock leaves out."""
    for server, section in servers.items():
        locked = lock.servers.get(server)
        if locked is None:
            continue
        said = plan_names(locked.left_out)
        for name, tool in locked.left_out.items():
            if section.tools is None or name in section.tools:
                yield LeftOutServerTool(server, name, said[name], tool.reason)


def mcp_tool(
    called: str,
    server: str,
    name: str,
    tool: LockedTool,
    section: McpServerSection,
    caller: ServerCaller | None,
) -> Tool:
    """Return a server's tool under the name that plans call it by; without a caller it is described
    only.

    Raises:
        ToolDefinitionError: an override names a parameter that the tool has not, or a host that is
            none.
    """
    signature = _signature(
        called, server, tool, section, section.overrides.get(name, McpToolOverrides())
    )

    async def call(request: ToolCall) -> Json:
        if caller is None:
            raise McpServerError(
                f"MCP server {server!r} is not opened here", "run the plan with `wavewright run`"
            )
        return await caller.call(server, name, request)

    return Tool(signature, call)


def _signature(
    called: str,
    server: str,
    tool: LockedTool,
    section: McpServerSection,
    overrides: McpToolOverrides,
) -> ToolSignature:
    policy = annotated_policy(tool.annotations, trusted=section.trusted)
    hosts = {parameter: tuple(allowed) for parameter, allowed in overrides.allowed_hosts.items()}
    idempotent, needs_approval = overrides.idempotent, overrides.needs_approval
    effects = policy.effects if overrides.effects is None else overrides.effects
    output_schema = (
        TEXT_OUTPUT if tool.output_schema is None else without_patterns(tool.output_schema)
    )
    check_parameters(called, tool.input_schema, overrides.accepts_untrusted, overrides.destination)
    try:
        return ToolSignature(
            name=called,
            description=tool.description,
            input_schema=with_allowed_hosts(
                called, with_bounded_patterns(tool.input_schema), hosts
            ),
            output_schema=output_schema,
            effects=effects,
            idempotent=policy.idempotent if idempotent is None else idempotent,
            deterministic=overrides.deterministic,
            # What was read of a tool that is described anew is read again. What was written stays
            # written: a new description must not have a run that goes on write it twice.
            version=_WRITES_ONCE if "write" in effects else tool.hash[:12],
            # The session limits each request; a step also waits for a slot, for the start and for a
            # repeat.
            timeout=max(600.0, 4 * section.timeout),
            untrusted_output=not section.trusted or bool(overrides.untrusted),
            untrusted=known_fields(
                called,
                _TEXT_FIELDS if tool.output_schema is None else output_schema,
                overrides.untrusted or (),
            ),
            needs_approval=policy.needs_approval if needs_approval is None else needs_approval,
            accepts_untrusted=frozenset(overrides.accepts_untrusted),
            destination=frozenset(overrides.destination),
            allowed_hosts=hosts,
        )
    except ValidationError as error:
        reason = error.errors()[0]["msg"].lower()
        raise McpServerError(
            f"tool {called!r} of MCP server {server!r} cannot be used: {reason}",
            f"leave it out of mcp.servers.{server}.tools",
        ) from error
