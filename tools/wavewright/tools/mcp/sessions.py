"""Sessions with MCP servers: opened at the first call, shared by all jobs of a process, reopened
after a failure.

A *session* is one connection after its handshake. A task of its own opens and closes it, since the
cancel scopes of the library's client must not cross tasks; calls are made by their own tasks, so
that their cancellation reaches the server. Nothing is offered to a server: requests for sampling,
elicitation and roots are refused.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import copy_context
from typing import Any, Final, Self, TypeAlias, cast

import anyio
import mcp_types
from anyio.abc import TaskGroup
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST
from pydantic import TypeAdapter, ValidationError

from wavewright.config.redaction import Redactor
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.injected import TextChunk
from wavewright.tools.functions.tool import ToolCall
from wavewright.tools.mcp.lock import ListedTool, McpServerError, ServerListing
from wavewright.tools.mcp.schemas import is_too_much_to_compare, usable_schema
from wavewright.tools.mcp.stdio_transport import stdio_transport
from wavewright.tools.mcp.tools import McpServerSettings, annotated_policy
from wavewright.tools.mcp.transports import ConnectionState, failure_of, http_transport, output_of

ListingCheck: TypeAlias = Callable[[str, ServerListing], None]
"""Looks at what a server lists, by the server's name in the settings."""

_Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Starts a task."""

MAX_LISTED_TOOLS: Final = 1000
MAX_PROGRESS_NOTES: Final = 1000
"""Notes of progress that one call may add to its step."""

_LISTING_ERRORS: Final = (
    MCPError,
    ValidationError,
    TimeoutError,
    RuntimeError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
)
_CALL_RESULTS: Final = TypeAdapter[mcp_types.CallToolResult | mcp_types.InputRequiredResult](
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
)
_SCHEME: Final = re.compile(r"^(?:basic|bearer|token) +", re.IGNORECASE)
_MAX_NOTE_CHARS = 200
_CLOSE_SECONDS = 2.0
"""What a server gets to answer the end of its session."""
_FIRST_BACKOFF = 0.1
_MAX_BACKOFF = 10.0
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}


class McpSessions:
    """The sessions with the servers of the settings, at most one with each."""

    def __init__(
        self,
        servers: Iterable[McpServerSettings],
        verify: ListingCheck | None = None,
        unusable: Mapping[str, McpServerError] | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            servers: The servers that may be called.
            verify: Raises `McpServerError` where a server lists other tools than expected; none of
                them is called.
            unusable: Server → why its settings cannot be used; its calls fail with that.
        """
        self._unusable = unusable or {}
        self._servers = {server.name: _ServerSessions(server, verify) for server in servers}
        self._group: TaskGroup | None = None
        self._start: _Start | None = None

    async def __aenter__(self) -> Self:
        self._group = group = await anyio.create_task_group().__aenter__()
        # A session outlives the call that opens it: in that call's context, its log would be
        # captured as the call's.
        context = copy_context()
        self._start = lambda run: context.run(lambda: group.start_soon(run))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all sessions; their programs have ended afterwards."""
        assert self._group is not None
        for server in self._servers.values():
            server.close()
        # An error of the body passes by the group, which would wrap it.
        await self._group.__aexit__(None, None, None)

    async def call(self, server: str, tool: str, request: ToolCall) -> Json:
        """Call a tool of a server, which is started or reached where it is not yet.

        Raises:
            ToolError: the server or the tool fails, or does not answer in time.
        """
        return await self._server(server).call(self._starter(), tool, request)

    async def listing(self, server: str) -> ServerListing:
        """Return what a server lists now.

        Raises:
            ToolError: the server fails, or does not answer in time.
        """
        return (await self._server(server).session(self._starter())).listing

    def _server(self, name: str) -> _ServerSessions:
        if (error := self._unusable.get(name)) is not None:
            raise ToolError(str(error), hint=error.hint)
        if (server := self._servers.get(name)) is None:
            raise ToolError(
                f"there is no MCP server {name!r}",
                hint=f"add it to the settings as mcp.servers.{name}",
            )
        return server

    def _starter(self) -> _Start:
        if self._start is None:
            raise RuntimeError(
                "enter the sessions before a call: async with McpSessions(...) as sessions"
            )
        return self._start


async def list_server_tools(server: McpServerSettings) -> ServerListing:
    """Start or reach a server, return what it lists, and leave it.

    Raises:
        ToolError: the server fails, or does not answer in time.
    """
    async with McpSessions([server]) as sessions:
        return await sessions.listing(server.name)


class _ConnectionLostError(Exception):
    """A session ended before it answered; the call may have taken effect."""


class _ServerSessions:
    """One server, over all its sessions."""

    def __init__(self, settings: McpServerSettings, verify: ListingCheck | None) -> None:
        self._settings = settings
        self._verify = verify
        self._verified: ServerListing | None = None
        # A server may repeat a token without the scheme that its variable has.
        self._redactor = Redactor(
            {*settings.secrets, *(_SCHEME.sub("", one) for one in settings.secrets)}
        )
        self._slots = anyio.Semaphore(settings.limit)
        self._opening = anyio.Lock()
        self._session: _Session | None = None
        self._failures = 0
        """Sessions in a row that ended without an answer to a call."""

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    async def call(self, start: _Start, tool: str, request: ToolCall) -> Json:
        async with self._slots:
            for is_last in (False, True):
                session = await self.session(start)
                listed = self._allowed(session.listing, tool)
                try:
                    output = await session.call(listed, request)
                except _ConnectionLostError as error:
                    self._failures += 1
                    if is_last or not self._may_repeat(listed):
                        raise session.state.error(
                            "it closed the connection during the call",
                            "see the log for what it wrote; a call that writes may have taken effect",
                            transient=True,
                        ) from error
                else:
                    self._failures = 0
                    return output
        raise AssertionError("unreachable: the second attempt returns or raises")

    def _may_repeat(self, tool: ListedTool) -> bool:
        """Return whether a call that may have taken effect can be made again."""
        policy = annotated_policy(tool.annotations, trusted=self._settings.trusted)
        return self._settings.idempotent.get(tool.name, policy.idempotent)

    async def session(self, start: _Start) -> _Session:
        """Return the open session; open one where there is none, after a wait that doubles with
        each failure.
        """
        async with self._opening:
            if self._session is None or self._session.state.ended.is_set():
                if self._failures:
                    await anyio.sleep(
                        min(_FIRST_BACKOFF * 2 ** min(self._failures - 1, 16), _MAX_BACKOFF)
                    )
                self._session = _Session(self._settings, self._redactor)
                start(self._session.run)
            try:
                await self._session.opened()
            except ToolError:
                self._failures += 1
                raise
            await self._session.refresh()
            return self._session

    def _allowed(self, listing: ServerListing, name: str) -> ListedTool:
        """Return a tool of a list that has been verified, once for each list."""
        server = self._settings.name
        listed = next((tool for tool in listing.tools if tool.name == name), None)
        if listed is None:
            raise ToolError(
                f"MCP server {server!r} no longer lists the tool {name!r}",
                hint="run wavewright tools --lock, and make another plan",
            )
        if self._verify is not None and listing is not self._verified:
            try:
                self._verify(server, listing)
            except McpServerError as error:
                raise ToolError(str(error), hint=error.hint) from error
            self._verified = listing
        return listed


class _Session:
    """One session, from its opening to its end."""

    def __init__(self, settings: McpServerSettings, redactor: Redactor) -> None:
        self._settings = settings
        self._redactor = redactor
        self.state = ConnectionState(settings.name, redactor)
        self._ready = anyio.Event()
        self._closed = anyio.Event()
        self._scope = anyio.CancelScope()
        """Around all that the session waits for."""
        self._client: Client | None = None
        self._is_stale = False
        self.listing = ServerListing("", "", ())
        self._output_schemas: dict[str, JsonSchema] = {}

    async def run(self) -> None:
        """Hold the session open until its end; failures are kept as the state's fault."""
        connect = stdio_transport if self._settings.url is None else http_transport
        try:
            with self._scope:
                self._scope.deadline = anyio.current_time() + self._settings.timeout
                async with Client(
                    connect(self._settings, self.state),
                    logging_callback=self._log,
                    log_level="info",
                    message_handler=self._receive,
                    cache=None,
                ) as client:
                    self.listing = await _list_tools(client)
                    self._client = client
                    self._scope.deadline = math.inf
                    self._ready.set()
                    await self.state.ended.wait()
                    self._scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        except Exception as error:  # noqa: BLE001 - a server's fault must end as the fault of its calls
            self.state.end(_reason(error))
        finally:
            self.state.end("")
            self._ready.set()
            self._closed.set()

    def close(self) -> None:
        """Begin the end of the session; one that is not open yet is given up."""
        self.state.ended.set()
        if self._client is None:
            self._scope.cancel()

    async def opened(self) -> None:
        """Wait for the end of the opening.

        Raises:
            ToolError: it failed, or took too long.
        """
        with anyio.move_on_after(self._settings.timeout):
            await self._ready.wait()
        if self._client is None:
            raise self.state.error(
                f"it did not answer initialize within {self._settings.timeout:g} s",
                f"try the command or URL of mcp.servers.{self._settings.name} by hand, or raise its timeout",
                transient=True,
            )

    async def refresh(self) -> None:
        """List the tools again where the server has said that they changed."""
        if self._is_stale:
            self._is_stale = False
            assert self._client is not None
            try:
                with anyio.fail_after(self._settings.timeout):
                    self.listing = await _list_tools(self._client)
                self._output_schemas.clear()
            except _LISTING_ERRORS as error:
                self.state.end(_reason(error))
                raise self.state.error(
                    "it does not list its tools any more", transient=True
                ) from error
            except anyio.get_cancelled_exc_class():
                self._is_stale = True
                raise

    async def call(self, tool: ListedTool, request: ToolCall) -> Json:
        """Call a tool.

        Raises:
            ToolError: it fails, or does not answer in time.
            _ConnectionLostError: the session ended before the answer.
        """
        assert self._client is not None
        notes_left = MAX_PROGRESS_NOTES

        async def note(progress: float, total: float | None, message: str | None) -> None:
            nonlocal notes_left
            if notes_left > 0:
                notes_left -= 1
                amount = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
                text = f"{amount} {(message or '')[:_MAX_NOTE_CHARS]}".rstrip()
                request.emit(TextChunk(f"{text}\n"))

        try:
            with anyio.fail_after(self._settings.timeout):
                # Not `call_tool`: it holds the answer against the server's own schema, with a
                # matcher that can backtrack for hours.
                result = await self._client.session.send_request(
                    mcp_types.CallToolRequest(
                        params=mcp_types.CallToolRequestParams(
                            name=tool.name, arguments=request.params
                        )
                    ),
                    _CALL_RESULTS,
                    progress_callback=note,
                )
        except TimeoutError:
            raise self.state.error(
                f"{tool.name} gave no answer within {self._settings.timeout:g} s",
                f"raise mcp.servers.{self._settings.name}.timeout, or ask for less",
                transient=True,
            ) from None
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            if self._is_lost(error):
                self.state.end("")
                # The reason is known once the connection is closed, and another program must not
                # start before.
                await self._closed.wait()
                raise _ConnectionLostError from error
            raise self.state.error(f"{tool.name} failed: {_reason(error)}") from error
        except (RuntimeError, ValidationError) as error:
            raise self.state.error(
                f"the answer of {tool.name} breaks the protocol: {_reason(error)}"
            ) from error
        if isinstance(result, mcp_types.InputRequiredResult):
            raise self.state.error(
                f"{tool.name} asks for input of a person or a model, which no server gets"
            )
        if result.is_error:
            raise failure_of(tool.name, result, self._redactor)
        return self._checked_output(tool, result)

    def _checked_output(self, tool: ListedTool, result: mcp_types.CallToolResult) -> Json:
        """Return the output of a result; whoever called holds it against the schema of the lock.

        Raises:
            ToolError: the tool declares an output and gives none, or one that takes long to check.
        """
        if tool.output_schema is None:
            return output_of(result, is_typed=False)
        if result.structured_content is None:
            raise self.state.error(
                f"{tool.name} gave no structured content, though it has an output schema"
            )
        output = output_of(result, is_typed=True)
        schema = self._output_schemas.get(tool.name)
        if schema is None:
            schema = self._output_schemas[tool.name] = usable_schema(tool.output_schema)
        if is_too_much_to_compare(output, schema):
            raise self.state.error(
                f"the answer of {tool.name} is too large for its own output schema",
                "ask for less at once",
            )
        return output

    def _is_lost(self, error: Exception) -> bool:
        if self.state.ended.is_set() or not isinstance(error, MCPError):
            return True
        code = error.error.code
        # Over HTTP the library reports an ended session as one of two errors, which a program may
        # use for anything.
        return self._settings.url is not None and (
            code == CONNECTION_CLOSED
            or (code == INVALID_REQUEST and error.error.message == "Session terminated")
        )

    async def _log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        self.state.log(str(params.data), _LEVELS.get(params.level, logging.ERROR))

    async def _receive(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._is_stale = True


async def _list_tools(client: Client) -> ServerListing:
    """Return all pages of the list."""
    tools, cursor = list[ListedTool](), None
    while len(tools) < MAX_LISTED_TOOLS:
        page = await client.list_tools(cursor=cursor)
        tools.extend(map(_listed, page.tools))
        cursor = page.next_cursor
        if cursor is None:
            break
    info = client.server_info
    return ServerListing(
        info.name if info else "", info.version if info else "", tuple(tools[:MAX_LISTED_TOOLS])
    )


def _listed(tool: mcp_types.Tool) -> ListedTool:
    hints: JsonObject = (
        {}
        if tool.annotations is None
        else tool.annotations.model_dump(by_alias=True, exclude_none=True, exclude={"title"})
    )
    return ListedTool(
        tool.name, tool.description or "", tool.input_schema, tool.output_schema, hints
    )


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, MCPError):
        return error.error.message
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
