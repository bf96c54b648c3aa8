"""MCP servers that are programs: started, spoken to over their standard streams, and ended.

A program gets a short list of variables and leads a process group of its own, which ends with it.
The library's own transport reads lines of any length, inherits other variables and leaves standard
error to the terminal.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import mcp_types
from anyio.abc import ByteReceiveStream, ByteSendStream, ObjectReceiveStream, Process
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from wavewright.tools.mcp.tools import McpServerSettings
from wavewright.tools.mcp.transports import (
    ConnectionState,
    MessageMeter,
    OversizedMessageError,
    leave_out_faulty_tools,
)

INHERITED_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR")
"""Variables that each program gets, beside those of its settings."""
EXIT_SECONDS: Final = 2.0
"""What a program gets to end after its input is closed, and again after SIGTERM."""

_MAX_LINE_BYTES = 8000
"""Of a line in the log."""


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a program whose settings have these variables."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    return inherited | dict(variables)


@asynccontextmanager
async def stdio_transport(
    server: McpServerSettings, state: ConnectionState
) -> AsyncGenerator[TransportStreams]:
    assert server.command is not None
    process: Process | None = None
    # A cancelled start would leave a program running.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            [server.command, *server.args],
            env=child_environment(server.env),
            cwd=server.cwd,
            start_new_session=True,
        )
    assert process is not None
    assert process.stdin is not None
    assert process.stderr is not None
    delivered, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    grace = 0.0
    async with incoming, outgoing, anyio.create_task_group() as group:
        group.start_soon(_read_stdout, process, delivered, state)
        group.start_soon(_write_stdin, process.stdin, sent, state)
        group.start_soon(_read_stderr, process.stderr, state)
        try:
            yield incoming, outgoing
            grace = 0.0 if state.fault else EXIT_SECONDS
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()
                await _stop(process, grace)
            group.cancel_scope.cancel()


async def _read_stdout(
    process: Process,
    delivered: MemoryObjectSendStream[SessionMessage | Exception],
    state: ConnectionState,
) -> None:
    assert process.stdout is not None
    async with delivered:
        try:
            async for line in _lines(process.stdout):
                if (message := _parse(line, state)) is not None:
                    await delivered.send(message)
        except (OversizedMessageError, ValueError) as error:
            state.end(str(error))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        else:
            with anyio.move_on_after(EXIT_SECONDS):
                await process.wait()
            state.end(_ending(process.returncode))


async def _lines(stream: ByteReceiveStream) -> AsyncGenerator[bytes]:
    """Yield the lines of a stream.

    Raises:
        OversizedMessageError: a line is too long.
    """
    parts, meter = list[bytes](), MessageMeter()
    async for chunk in stream:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            meter.add(line)
            yield b"".join((*parts, line))
            parts, meter = [], MessageMeter()
        meter.add(rest)
        parts.append(rest)


def _parse(line: bytes, state: ConnectionState) -> SessionMessage | None:
    """Return the message of a line; None where the line is none, as what a program prints.

    Raises:
        ValueError: it looks like a message, but breaks the protocol.
    """
    if not line.startswith(b"{"):
        _keep_line(line, state)
        return None
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        raise ValueError(
            "it broke the protocol: it sent a message that is not JSON-RPC 2.0"
        ) from None
    if isinstance(message, mcp_types.JSONRPCError) and message.id is None:
        raise ValueError(f"it broke the protocol: an error without an id: {message.error.message}")
    leave_out_faulty_tools(message, state)
    return SessionMessage(message)


async def _write_stdin(
    stdin: ByteSendStream, sent: ObjectReceiveStream[SessionMessage], state: ConnectionState
) -> None:
    try:
        async with sent:
            async for item in sent:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        state.end("it closed its standard input")


async def _read_stderr(stderr: ByteReceiveStream, state: ConnectionState) -> None:
    rest = b""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for chunk in stderr:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                _keep_line(line, state)
            rest = rest[-_MAX_LINE_BYTES:]


def _keep_line(line: bytes, state: ConnectionState) -> None:
    text = line[:_MAX_LINE_BYTES].decode(errors="replace").strip()
    if text:
        state.lines.append(text)
        state.log(text)


def _ending(status: int | None) -> str:
    if status is None:
        return "it closed its standard output"
    return (
        f"it exited with status {status}"
        if status >= 0
        else f"{signal.Signals(-status).name} ended it"
    )


async def _stop(process: Process, grace: float) -> None:
    """End a program and its process group: by its closed input, then SIGTERM, then SIGKILL."""
    assert process.stdin is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    if not await _has_exited(process, grace):
        _signal_group(process, signal.SIGTERM)
        await _has_exited(process, EXIT_SECONDS)
    _signal_group(process, signal.SIGKILL)
    await process.aclose()


async def _has_exited(process: Process, seconds: float) -> bool:
    # `wait` would also wait for the pipes, which a child of the program may hold open.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - a process ends by itself
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
