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
from typing import Any, Final, Self, TypeAlias

import anyio
import mcp_types
from anyio.abc import TaskGroup
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from wavewright.config.redaction import Redactor
from wavewright.planner.types import Json, JsonSchema
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.injected import TextChunk
from wavewright.tools.functions.tool import ToolCall
from wavewright.tools.mcp.connection import (
    CURRENT_CONNECTION,
    CallFault,
    ConnectionState,
    log_library_briefly,
    reason_of,
)
from wavewright.tools.mcp.http_transport import http_transport, is_expired_session, proxy_hint
from wavewright.tools.mcp.listing import ListingCutOff, PageLimit, list_tools
from wavewright.tools.mcp.lock import ListedTool, McpServerError, ServerListing
from wavewright.tools.mcp.outputs import failure_of, output_of
from wavewright.tools.mcp.schemas import is_too_much_to_compare, usable_schema
from wavewright.tools.mcp.stdio_transport import stdio_transport
from wavewright.tools.mcp.tools import McpServerSettings, annotated_policy

ListingCheck: TypeAlias = Callable[[str, ServerListing], None]
"""Looks at what a server lists, by the server's name in the settings."""

_Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Starts a task."""

MAX_PROGRESS_NOTES: Final = 1000
"""Notes of progress that one call may add to its step."""

_LISTING_ERRORS: Final = (
    ListingCutOff,
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
_OTHER_PROTOCOL: Final = frozenset({UNSUPPORTED_PROTOCOL_VERSION, HEADER_MISMATCH})
"""Errors by which a server says that it speaks, or lists, something else by now."""
_SCHEME: Final = re.compile(r"^(?:basic|bearer|token) +", re.IGNORECASE)
_MAX_NOTE_CHARS = 200
_CLOSE_SECONDS = 2.0
"""What a server gets to answer the end of its session."""
_PATIENCE: Final = 3.0
"""Timeouts for which calls wait in all before a server that sends nothing meanwhile is given up."""
_FIRST_BACKOFF = 0.1
_MAX_BACKOFF = 10.0
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}


class McpSessions:
    """The sessions with the servers of the settings, at most one with each.

    >>> import anyio
    >>> from wavewright.tools import McpSessions
    >>> async def servers() -> int:
    ...     async with McpSessions([]):
    ...         return 0
    >>> anyio.run(servers)
    0
    """

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


class _NoAnswerError(Exception):
    """A call has no answer, and could be made again in another session, or in this one."""

    def __init__(self, error: ToolError, *, was_made: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.was_made = was_made
        """Whether the call may have taken effect."""


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
        self._sessions = list[_Session]()
        """Those that are open: an expired one lives until its other calls have ended."""
        self._failures = 0
        """Sessions in a row that ended without an answer to a call."""

    def close(self) -> None:
        for session in self._sessions:
            session.close()

    async def call(self, start: _Start, tool: str, request: ToolCall) -> Json:
        async with self._slots:
            for is_last in (False, True):
                session = await self.session(start, tool)
                listed = self._allowed(session.listing, tool)
                try:
                    output = await session.call(listed, request)
                except _NoAnswerError as lost:
                    self._failures += 1
                    # One that a server has not made is made again, whatever it does: with an
                    # expired session it was refused before.
                    if is_last or (lost.was_made and not _may_repeat(self._settings, listed)):
                        raise lost.error from lost
                else:
                    self._failures = 0
                    return output
        raise AssertionError("unreachable: the second attempt returns or raises")

    async def session(self, start: _Start, tool: str | None = None) -> _Session:
        """Return the open session; open one where there is none, after a wait that doubles with
        each failure. A list that was read in part, without the tool of the call, is read again.
        """
        async with self._opening:
            session = self._session
            if session is None or not session.is_usable:
                if session is not None and session.state.ended.is_set():
                    await session.closed.wait()  # two programs could be in each other's way
                if self._failures:
                    await anyio.sleep(
                        min(_FIRST_BACKOFF * 2 ** min(self._failures - 1, 16), _MAX_BACKOFF)
                    )
                session = self._begin(start, PageLimit())
            try:
                try:
                    await session.opened()
                except ToolError:
                    if session.cut_off is None:
                        raise
                    # The page at which the server ended is not asked for again: it would end again.
                    session = self._begin(start, session.cut_off)
                    await session.opened()
            except ToolError:
                self._failures += 1
                raise
            await session.refresh(tool)
            return session

    def _begin(self, start: _Start, limit: PageLimit) -> _Session:
        """Begin to open a session that reads the list up to a limit."""
        self._sessions = [one for one in self._sessions if not one.state.ended.is_set()]
        session = self._session = _Session(self._settings, self._redactor, limit)
        self._sessions.append(session)
        start(session.run)
        return session

    def _allowed(self, listing: ServerListing, name: str) -> ListedTool:
        """Return a tool of a list that has been verified, once for each list."""
        server = self._settings.name
        listed = next((tool for tool in listing.tools if tool.name == name), None)
        if listed is None and listing.unread:
            raise ToolError(
                f"MCP server {server!r} has not listed the tool {name!r}: its list was read in part, "
                f"since {listing.unread}",
                hint="have the server list fewer tools, or mend what ends its list",
                transient=True,
            )
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

    def __init__(self, settings: McpServerSettings, redactor: Redactor, limit: PageLimit) -> None:
        self._settings = settings
        self._redactor = redactor
        self._limit = limit
        self.cut_off: PageLimit | None = None
        """Up to where the list can be read, where the server ended at a page of it."""
        self.state = ConnectionState(settings.name, redactor)
        self._ready = anyio.Event()
        self.closed = anyio.Event()
        """Set once its program has ended, or its connection is closed."""
        self._scope = anyio.CancelScope()
        """Around all that the session waits for."""
        self._client: Client | None = None
        self._asked = "initialize"
        """What the opening waits for."""
        self._is_stale = False
        self._is_expired = False
        """Whether the server does not know this session any more."""
        self._calls = 0
        """Calls that are under way."""
        self.listing = ServerListing("", "", ())
        self._output_schemas: dict[str, JsonSchema] = {}

    async def run(self) -> None:
        """Hold the session open until its end; failures are kept as the state's fault."""
        CURRENT_CONNECTION.set(self.state)
        log_library_briefly()
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
                    self._asked = "tools/list"
                    remaining = self._scope.deadline - anyio.current_time()
                    await self._list_tools(client, remaining / 2)
                    self._client = client
                    self._scope.deadline = math.inf
                    self._ready.set()
                    await self.state.ended.wait()
                    self._scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        except Exception as error:  # noqa: BLE001 - a server's fault must end as the fault of its calls
            self.state.end_by(error)
        finally:
            self.state.end("")
            self._ready.set()
            self.closed.set()

    async def _list_tools(self, client: Client, seconds: float) -> None:
        try:
            self.listing = await list_tools(client, self.state, seconds, self._limit)
        except ListingCutOff as cut:
            self.cut_off = cut.limit
            raise

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
                f"it did not answer {self._asked} within {self._settings.timeout:g} s",
                self._opening_hint(),
                transient=self.state.transient,
                retry_after=self.state.retry_after,
            )

    def _opening_hint(self) -> str:
        name = self._settings.name
        if self.state.hint is not None:
            return self.state.hint.replace("NAME", name)
        if "protocol version" in self.state.fault:
            return f"use a version of the server that speaks one of {', '.join(KNOWN_PROTOCOL_VERSIONS)}"
        proxy = None if self._settings.url is None else proxy_hint()
        return proxy or (
            f"try the command or URL of mcp.servers.{name} by hand, or raise its timeout"
        )

    async def refresh(self, tool: str | None) -> None:
        """List the tools again where the server has said that they changed, or where this one may be
        in what was not read.
        """
        is_missing = tool is not None and tool not in {one.name for one in self.listing.tools}
        if self._is_stale or (self.listing.unread and is_missing):
            self._is_stale = False
            assert self._client is not None
            try:
                with anyio.fail_after(self._settings.timeout):
                    await self._list_tools(self._client, self._settings.timeout / 2)
                self._output_schemas.clear()
            except _LISTING_ERRORS as error:
                self.state.end(reason_of(error))
                raise self.state.error(
                    "it does not list its tools any more", transient=True
                ) from error
            except anyio.get_cancelled_exc_class():
                self._is_stale = True
                raise

    @property
    def is_usable(self) -> bool:
        """Whether calls can be made in it."""
        return not (self._is_expired or self.state.ended.is_set())

    async def call(self, tool: ListedTool, request: ToolCall) -> Json:
        """Call a tool.

        Raises:
            ToolError: it fails, or does not answer in time.
            _NoAnswerError: the session ended before the answer, or the server does not know it.
        """
        self._calls += 1
        heard, began = self.state.heard, anyio.current_time()
        try:
            result = await self._result(tool, request)
        finally:
            self._calls -= 1
            if self.state.heard == heard:
                self._note_silence(anyio.current_time() - began)
            if self._is_expired and not self._calls:
                self.state.end("")
        if isinstance(result, mcp_types.InputRequiredResult):
            raise self.state.error(
                f"{tool.name} asks for input of a person or a model, which no server gets"
            )
        if result.is_error:
            raise failure_of(self._settings.name, tool.name, result, self._redactor)
        return self._checked_output(tool, result)

    def _note_silence(self, seconds: float) -> None:
        """Note that the server has sent nothing at all while a call waited for so long. One that is
        silent for too long hangs: the next call opens another session, and the other calls in this
        one are waited for.

        It is the time that counts, and not the calls: a step may give up long before `timeout`.
        """
        self.state.silence += seconds
        if self.state.silence >= _PATIENCE * self._settings.timeout and not self._is_expired:
            self.state.warn(
                f"it sent nothing for {self.state.silence:g} s of calls: it is given up"
            )
            self._is_expired = True

    async def _result(
        self, tool: ListedTool, request: ToolCall
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        assert self._client is not None
        # Not `call_tool`: it holds the answer against the server's own schema, with a matcher that
        # can backtrack for hours.
        asked = mcp_types.CallToolRequest(
            params=mcp_types.CallToolRequestParams(name=tool.name, arguments=request.params)
        )
        try:
            with anyio.fail_after(self._settings.timeout):
                return await self._client.session.send_request(
                    asked, _CALL_RESULTS, progress_callback=_progress_note(request)
                )
        except TimeoutError:
            raise self.state.error(
                f"{tool.name} gave no answer within {self._settings.timeout:g} s",
                f"raise mcp.servers.{self._settings.name}.timeout, or ask for less",
                transient=_may_repeat(self._settings, tool),
                is_unclear=True,
            ) from None
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            if self.state.ended.is_set() or not isinstance(error, MCPError):
                self.state.end("")
                # The reason is known once the connection is closed, and another program must not
                # start before.
                await self.closed.wait()
                raise _NoAnswerError(self._lost_error(tool), was_made=True) from error
            raise self._error_of(tool, self._fault_of(error)) from error
        except (RuntimeError, ValidationError) as error:
            raise self.state.error(
                f"the answer of {tool.name} cannot be read: {reason_of(error)}",
                self._hint_for(tool),
                is_unclear=True,
            ) from error

    def _lost_error(self, tool: ListedTool) -> ToolError:
        # What may have taken effect is not to be called again by the retries of a step either.
        return self.state.error(
            "it closed the connection during the call",
            "see the log for what it wrote; a call that writes may have taken effect",
            transient=_may_repeat(self._settings, tool),
            is_unclear=True,
        )

    def _fault_of(self, error: MCPError) -> CallFault:
        """Return the fault that the connection has found, or that the server's own error is."""
        found = error.error.data
        if isinstance(found, CallFault):
            return found
        if self._settings.url is not None:
            if error.error.code in _OTHER_PROTOCOL or is_expired_session(error.error.message):
                return CallFault("expired", error.error.message)
            if error.error.code == CONNECTION_CLOSED:
                return CallFault("lost", error.error.message)
        return CallFault("failed", error.error.message)

    def _hint_for(self, tool: ListedTool) -> str:
        """Return what mends answers that cannot be used."""
        tools = f"mcp.servers.{self._settings.name}.tools"
        hint = f"use a version of the server that mends it, or leave {tool.name} out of {tools}"
        # Nobody knows what was done of a call whose answer cannot be read.
        return hint if _may_repeat(self._settings, tool) else f"it may have taken effect; {hint}"

    def _error_of(self, tool: ListedTool, fault: CallFault) -> ToolError | _NoAnswerError:
        text = f"{tool.name} failed: {fault.reason}"
        if fault.kind == "lost":
            error = self.state.error(
                text,
                "it may have taken effect: make sure before it is called again",
                transient=_may_repeat(self._settings, tool),
                is_unclear=True,
            )
            return _NoAnswerError(error, was_made=True)
        hint = fault.hint and fault.hint.replace("NAME", self._settings.name)
        if fault.kind == "unreadable":
            hint = self._hint_for(tool)
        is_transient = fault.transient or fault.kind == "expired"
        error = self.state.error(
            text,
            hint,
            transient=is_transient,
            retry_after=fault.retry_after,
            is_unclear=fault.is_unclear or fault.kind == "unreadable",
        )
        if fault.kind == "expired":
            # Its other calls may have been made before it expired, and are waited for.
            self._is_expired = True
            return _NoAnswerError(error, was_made=False)
        return error

    def _checked_output(self, tool: ListedTool, result: mcp_types.CallToolResult) -> Json:
        """Return the output of a result; whoever called holds it against the schema of the lock.

        Raises:
            ToolError: the tool declares an output and gives none, or one that takes long to check.
        """
        if tool.output_schema is None:
            return output_of(result, is_typed=False)
        if result.structured_content is None:
            raise self.state.error(
                f"{tool.name} gave no structured content, though it has an output schema",
                self._hint_for(tool),
                is_unclear=True,
            )
        output = output_of(result, is_typed=True)
        schema = self._output_schemas.get(tool.name)
        if schema is None:
            schema = self._output_schemas[tool.name] = usable_schema(tool.output_schema)
        if is_too_much_to_compare(output, schema):
            raise self.state.error(
                f"the answer of {tool.name} is too large for its own output schema",
                "ask for less at once",
                is_unclear=True,
            )
        return output

    async def _log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        self.state.log(str(params.data), _LEVELS.get(params.level, logging.ERROR))

    async def _receive(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._is_stale = True


def _may_repeat(settings: McpServerSettings, tool: ListedTool) -> bool:
    """Return whether a call that may have taken effect can be made again."""
    policy = annotated_policy(tool.annotations, trusted=settings.trusted)
    return settings.idempotent.get(tool.name, policy.idempotent)


def _progress_note(request: ToolCall) -> ProgressFnT:
    """Return what makes progress of a call output of its step, up to `MAX_PROGRESS_NOTES`."""
    notes_left = MAX_PROGRESS_NOTES

    async def note(progress: float, total: float | None, message: str | None) -> None:
        nonlocal notes_left
        if notes_left > 0:
            notes_left -= 1
            amount = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            text = f"{amount} {(message or '')[:_MAX_NOTE_CHARS]}".rstrip()
            request.emit(TextChunk(f"{text}\n"))

    return note
