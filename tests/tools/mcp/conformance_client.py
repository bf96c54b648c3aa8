"""The client that the official conformance suite judges: calls every listed tool of the server at a
URL.
"""

from __future__ import annotations

import sys

import anyio

from tests.tools.calling import request
from wavewright.tools.mcp.sessions import McpSessions
from wavewright.tools.mcp.tools import McpServerSettings


async def main(url: str) -> None:
    async with McpSessions([McpServerSettings("suite", url=url, timeout=20)]) as sessions:
        for tool in (await sessions.listing("suite")).tools:
            await sessions.call("suite", tool.name, request({"a": 2, "b": 3}))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
