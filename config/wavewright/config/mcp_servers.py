"""Settings of MCP servers: how each is started or reached, and what is believed of its tools.

The fields `command`, `args`, `env`, `cwd`, `url` and `headers` are those of the `mcpServers` that
MCP clients share. A secret is written `${env:NAME}`, and is read from the environment when the
server is started; a value that looks like a secret itself is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from wavewright.config.redaction import VARIABLE_PATTERN, is_literal_secret
from wavewright.config.sources import DocumentFault, pointer_token
from wavewright.config.value_types import Seconds, SettingsModel

ServerName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,30}$")]
"""Name of a server, and the first part of its tools' names."""

PUBLIC_VARIABLES: Final = frozenset({"HOME", "LANG", "PATH", "PWD", "TMPDIR", "USER"})
"""Variables that hold no secret: redacted, they would make paths unreadable everywhere."""


class McpToolOverrides(SettingsModel):
    """What holds for one tool of a server, in place of what the server says of it."""

    effects: (
        Annotated[frozenset[Literal["read", "write", "egress"]], Field(strict=False)] | None
    ) = None
    """What a call does: `read` looks, `write` changes something, `egress` sends data out; where
    absent, `write` and `egress`, or what a trusted server says.
    """
    idempotent: bool | None = None
    """Whether a call may be repeated; where absent, only if a trusted server says so."""
    deterministic: bool = False
    """Whether equal calls of one run give the same output, so that one call serves all of them."""
    needs_approval: bool | None = None
    """Whether a person must allow each call; where absent, they must if the server says that the
    tool destroys.
    """
    untrusted: list[str] | None = None
    """Fields of the output that hold untrusted text, where the others do not."""
    accepts_untrusted: list[str] = []
    """Parameters that may hold untrusted text."""
    destination: list[str] = []
    """Parameters that choose what is reached: not even a number from outside is safe there."""
    allowed_hosts: dict[str, list[str]] = {}
    """Parameter → hosts that an address in it may name, with their subdomains."""


class McpServerSection(SettingsModel):
    """One entry of `mcp.servers`: a program that is started (`command`) or a server that is reached
    (`url`).

    >>> from wavewright.config import McpServerSection
    >>> server = McpServerSection.model_validate({"url": "https://tools.example/mcp"})
    >>> server.url, server.command
    ('https://tools.example/mcp', None)
    """

    command: str | None = Field(default=None, min_length=1)
    """Program to start; it speaks over its standard input and output."""
    args: list[str] = []
    """Arguments of the program."""
    env: dict[str, str] = {}
    """Variables of the program, beside PATH, HOME, LANG and TMPDIR; a secret is written
    `${env:NAME}`.
    """
    cwd: str | None = Field(default=None, min_length=1)
    """Folder that the program runs in; the project's where absent."""
    url: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    """Address of a server that speaks streamable HTTP."""
    headers: dict[str, str] = {}
    """Headers of each request; a secret is written `${env:NAME}`."""
    tools: list[str] | None = None
    """Tools that plans may call; all where absent."""
    overrides: dict[str, McpToolOverrides] = {}
    """Tool → what holds for it, see below."""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 8
    """Calls that run at once."""
    timeout: Seconds = 60.0
    """How long one call, or the start of the server, may take, as seconds or with a unit."""
    trusted: bool = False
    """Whether its outputs are trusted text, and its claims that a tool only reads, stays within the
    server or may be repeated are believed; else outputs reach no address, recipient, path or
    command.
    """

    @model_validator(mode="after")
    def _has_one_transport(self) -> Self:
        """Refuse a server with both transports or none, and fields of the other transport."""
        if (self.command is None) == (self.url is None):
            raise ValueError("a server has either a 'command' to start or a 'url' to reach")
        own_fields, others = (
            ("command", ["headers"]) if self.url is None else ("url", ["args", "env", "cwd"])
        )
        for name in others:
            if name in self.model_fields_set:
                raise ValueError(f"a server with a {own_fields!r} has no {name!r}")
        return self

    @property
    def secret_variables(self) -> frozenset[str]:
        """Names of the environment variables that all but `command` and `cwd` refer to, without
        `PUBLIC_VARIABLES`.
        """
        return _variables_in(*self._values_that_may_be_secret) - PUBLIC_VARIABLES

    @property
    def variables(self) -> frozenset[str]:
        """Names of all environment variables that it refers to."""
        return _variables_in(self.command or "", self.cwd or "", *self._values_that_may_be_secret)

    @property
    def _values_that_may_be_secret(self) -> tuple[str, ...]:
        return (*self.args, *self.env.values(), self.url or "", *self.headers.values())


def _variables_in(*values: str) -> frozenset[str]:
    return frozenset(name for value in values for name in VARIABLE_PATTERN.findall(value))


class McpSection(SettingsModel):
    """The section `mcp` of `wavewright.yaml`."""

    servers: dict[ServerName, McpServerSection] = {}
    """Server → how it is started or reached, and what is believed of its tools, see below."""


def literal_secret_faults(servers: Mapping[str, McpServerSection]) -> Iterator[DocumentFault]:
    """Yield a fault for each value of a server that is a secret itself and no reference to a
    variable.
    """
    for name, server in servers.items():
        place = f"/mcp/servers{pointer_token(name)}"
        for part, values in (("env", server.env), ("headers", server.headers)):
            for key, value in values.items():
                if is_literal_secret(key, value):
                    yield _secret_fault(
                        f"{place}/{part}{pointer_token(key)}", f"{part} {key!r}", name
                    )
        for position, value in enumerate(server.args):
            previous = server.args[position - 1] if position else ""
            if is_literal_secret(previous, value):
                yield _secret_fault(f"{place}/args/{position}", f"argument {position + 1}", name)
        if server.url is not None and is_literal_secret("", server.url):
            yield _secret_fault(f"{place}/url", "the url", name)


def _secret_fault(pointer: str, part: str, server: str) -> DocumentFault:
    return DocumentFault(
        "bad_value",
        f"{part} of server {server!r} looks like a secret",
        pointer=pointer,
        hint="set it as an environment variable and write ${env:NAME} in its place",
    )
