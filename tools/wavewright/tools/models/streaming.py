"""Reading an answer while it is written.

What has come is shown at once, but for a *tail* that may be the beginning of a secret: a piece is let go when a line
is complete, after its secrets are taken out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic_ai.exceptions import ContentFilterError
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
from wavewright.tools.models.faults import PROVIDER_ERRORS

_MAX_TAIL_CHARS = 2_000
"""Characters that are held back at most, where no line ends."""
_BLOCK_START = "-----BEGIN"
_BLOCK_END = re.compile(r"-----END [^-]{1,80}-----")
_MAX_BLOCK_CHARS = 16_000
"""Characters of a private key: what goes on for longer is none."""


class StreamRedactor:
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
        end = self._held.rfind("\n") + 1
        if not end and len(self._held) >= _MAX_TAIL_CHARS:
            # No secret on one line holds a space, so one that is cut here begins after it.
            end = self._held.rfind(" ") + 1
        # One of several lines is let go whole, its last line with it.
        start = self._held.rfind(_BLOCK_START, 0, end)
        if start < 0 or _BLOCK_END.search(self._held, start, end):
            return end
        return start if len(self._held) - start < _MAX_BLOCK_CHARS else end


async def read_stream(
    stream: StreamedResponse, answer_tool: str | None, on_text: OnText, begun: Callable[[], None]
) -> tuple[ModelResponse, bool]:
    """Return a streamed answer, and whether it is whole: it says itself how it ended.

    What breaks after something came leaves what came, for that has been shown; before that it is a fault.
    """
    has_text = False
    answering: set[int] = set()
    events = aiter(stream)
    while True:
        try:
            event = await anext(events)
        except StopAsyncIteration:
            break
        except PROVIDER_ERRORS as error:
            if not has_text or isinstance(error, ContentFilterError):
                raise
            return stream.get(), False
        begun()
        text = _event_text(event, answer_tool, answering)
        if text:
            has_text = True
            on_text(text)
    response = stream.get()
    return response, response.finish_reason is not None


def _event_text(event: ModelResponseStreamEvent, answer_tool: str | None, answering: set[int]) -> str:
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
