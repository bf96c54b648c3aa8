"""One MCP server as it is started or reached: its settings with the values of the environment in place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.mcp_servers import VARIABLE_PATTERN
from wavewright.tools.functions.contracts import ToolDefinitionError

if TYPE_CHECKING:
    from wavewright.config.mcp_servers import McpServerSection


class McpServerError(ToolDefinitionError):
    """A server that cannot be used as settings and lock say; names the server and the fix."""


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
    """Tool → whether a call may be repeated; as the server's annotations say where absent."""
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
        McpServerError: a variable is not set.
    """

    def expand(text: str) -> str:
        for variable in VARIABLE_PATTERN.findall(text):
            if variable not in environment:
                raise McpServerError(
                    f"MCP server {name!r} needs the environment variable {variable}",
                    f"set {variable}, or remove it from mcp.servers.{name}",
                )
        return VARIABLE_PATTERN.sub(lambda found: environment[found[1]], text)

    return McpServerSettings(
        name=name,
        command=None if section.command is None else expand(section.command),
        args=tuple(expand(argument) for argument in section.args),
        env={key: expand(value) for key, value in section.env.items()},
        cwd=None if section.command is None else root / Path(expand(section.cwd or ".")).expanduser(),
        url=None if section.url is None else expand(section.url),
        headers={key: expand(value) for key, value in section.headers.items()},
        idempotent={
            tool: overrides.idempotent
            for tool, overrides in section.overrides.items()
            if overrides.idempotent is not None
        },
        secrets=frozenset(environment[variable] for variable in section.secret_variables),
        limit=section.limit,
        timeout=section.timeout,
    )
