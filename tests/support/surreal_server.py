"""A SurrealDB server for tests: the real engine, which the client's library brings, behind a
WebSocket.

Frames of the protocol go to the engine as they come, so that statements, sign-in and errors are the
engine's own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import websockets
from anyio.from_thread import start_blocking_portal
from surrealdb import AsyncSurreal
from surrealdb._surrealdb_ext import AsyncEmbeddedDB
from surrealdb.data.cbor import decode, encode
from websockets.asyncio.server import ServerConnection

USER, PASSWORD = "keeper", "of-the-lore"


@contextmanager
def served_surreal() -> Generator[int]:
    """Serve an empty database and return its port; the server runs in a thread of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_served()) as port:
        yield port


@asynccontextmanager
async def _served() -> AsyncGenerator[int]:
    engine = AsyncEmbeddedDB("mem://")
    await engine.connect()
    owner: Any = AsyncSurreal("mem://")
    owner._db = engine
    await owner.query(f"DEFINE USER {USER} ON ROOT PASSWORD '{PASSWORD}' ROLES OWNER")

    async def answer(connection: ServerConnection) -> None:
        async for frame in connection:
            assert isinstance(frame, bytes)
            try:
                reply = await engine.execute(frame)
            except RuntimeError as error:
                fault = {"code": -32000, "message": str(error)}
                reply = encode({"id": decode(frame).get("id"), "error": fault})
            await connection.send(reply)

    async with websockets.serve(
        answer, "127.0.0.1", 0, subprotocols=[websockets.Subprotocol("cbor")]
    ) as server:
        yield next(iter(server.sockets)).getsockname()[1]
