"""Server-sent events, and texts cut into the pieces that a stream sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from wavewright.planner.types import JsonObject


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event."""

    content: JsonObject | str
    event: str | None = None

    @property
    def encoded(self) -> bytes:
        """The event as it goes over the wire."""
        name = f"event: {self.event}\n" if self.event else ""
        content = self.content if isinstance(self.content, str) else json.dumps(self.content)
        return f"{name}data: {content}\n\n".encode()


def pieces(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces of at most this many characters."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
