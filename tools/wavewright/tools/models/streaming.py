"""Reading an answer while it is written.

What has come is shown at once, but for a *tail* that may be the beginning of a secret: a piece is let go when a line
is complete, after its secrets are taken out.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx2
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import StreamedResponse

from wavewright.planner.model_port import OnText

_LONGEST_TAIL = 2_000
"""Characters that are held back at most, where no line ends."""
_BLOCK_START = "-----BEGIN"
_BLOCK_END = "-----END"


class TextGate:
    """Lets text through line by line, without its secrets."""

    def __init__(self, redact: Callable[[str], str], on_text: OnText) -> None:
        self._redact = redact
        self._on_text = on_text
        self._held = ""

    def add(self, text: str) -> None:
        """Take the next piece."""
        self._held += text
        end = self._safe_end()
        if end:
            ready, self._held = self._held[:end], self._held[end:]
            self._on_text(self._redact(ready))

    def close(self) -> None:
        """Let the rest through."""
        if self._held:
            rest, self._held = self._held, ""
            self._on_text(self._redact(rest))

    def _safe_end(self) -> int:
        start = self._held.rfind(_BLOCK_START)
        if start >= 0 and _BLOCK_END not in self._held[start:]:
            return 0 if len(self._held) < 8 * _LONGEST_TAIL else len(self._held)
        end = self._held.rfind("\n") + 1
        if end or len(self._held) < _LONGEST_TAIL:
            return end
        # No secret holds a space, so one that is cut here begins after it.
        return max(self._held.rfind(" ") + 1, 0)


async def read_stream(
    stream: StreamedResponse, answer_tool: str | None, on_text: OnText, begun: Callable[[], None]
) -> tuple[ModelResponse, bool]:
    """Return a streamed answer, and whether it is whole: it says itself how it ended.

    A connection that breaks after something came leaves what came; before that it is a fault.
    """
    has_text = False
    answering: set[int] = set()
    try:
        async for event in stream:
            begun()
            text = _text_in(event, answer_tool, answering)
            if text:
                has_text = True
                on_text(text)
    except (ModelAPIError, httpx2.TransportError, OSError):
        if not has_text:
            raise
        return stream.get(), False
    response = stream.get()
    return response, response.finish_reason is not None


def _text_in(event: ModelResponseStreamEvent, answer_tool: str | None, answering: set[int]) -> str:
    """Return what an event adds to the answer; a tool's arguments count where they are the answer."""
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return text
        case PartStartEvent(index=index, part=ToolCallPart(tool_name=name, args=arguments)) if (
            name == answer_tool
        ):
            answering.add(index)
            return arguments if isinstance(arguments, str) else ""
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(text))) if index in answering:
            return text
        case _:
            return ""
