"""Thinking that stands before an answer, where its server has left it there.

It is marked by `<think>…</think>`, by some models as `<thinking>`, `<thought>`, `<reasoning>`,
`<seed:think>`, `[THINK]`, `◁think▷` or a channel of its own (`<|channel|>analysis<|message|>`); the
mark of its beginning may stand in the template of the prompt. It is no part of the answer: it is
neither read nor shown.
"""

from __future__ import annotations

import re
from typing import Final


def end_of_thinking(text: str) -> int:
    """Return where an answer begins behind its thinking: at 0 where it has none before it, or ends in
    the middle of it.

    >>> from wavewright.planner.reading.thinking import end_of_thinking
    >>> answer = "<think>A colour.</think> Blue."
    >>> answer[end_of_thinking(answer) :]
    'Blue.'
    """
    if _END.search(text) is None:
        return 0
    thinking = _MARKED.match(text)
    if thinking is None:
        thinking = _ENDED.match(text)
        # A mark in a block of code is none.
        if thinking and len(_FENCE.findall(thinking[0])) % 2:
            return 0
    return 0 if thinking is None else thinking.end()


class ThinkingFilter:
    """Passes an answer on while it arrives, without the thinking before it."""

    def __init__(self) -> None:
        self._held = ""
        self._searched = 0
        """How much of what is held has no end of thinking in it."""
        self._has_thought = False
        self._has_begun = False
        """Whether the answer itself has."""

    def add(self, text: str) -> str:
        """Take the next part; return what of the answer has arrived with it."""
        if self._has_begun:
            return text
        self._held += text
        while (begin := _BEGIN.match(self._held)) is not None:
            end = _END.search(self._held, max(begin.end(), self._searched))
            if end is None:
                # A mark may have arrived in part.
                self._searched = max(len(self._held) - _MARK_CHARS, 0)
                return ""
            self._held, self._searched = self._held[end.end() :], 0
            self._has_thought = True
        if self._has_thought:
            # A blank behind the mark may arrive later than the mark.
            self._held = self._held.lstrip()
        if _MAY_BEGIN.fullmatch(self._held):
            return ""
        self._has_begun = True
        return self._held

    def close(self) -> str:
        """Return what is still held at the end of the answer."""
        return "" if self._has_begun else self._held


_NAME: Final = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning)"
_CHANNEL: Final = r"<\|channel\|>"
THINKING_BEGINS: Final = (
    rf"(?:<{_NAME}\b[^<>]{{0,80}}>|(?-i:\[THINK\])|◁think▷|{_CHANNEL}analysis<\|message\|>)"
)
THINKING_ENDS: Final = (
    rf"(?:</{_NAME}\s{{0,80}}>|(?-i:\[/THINK\])|◁/think▷"
    rf"|{_CHANNEL}final[^{{}}\[\]]{{0,60}}?<\|message\|>)"
)
"""Patterns of the marks, whatever their case."""
_BEGIN: Final = re.compile(r"\s*<think\b[^<>]{0,80}>", re.IGNORECASE)
"""Of an answer that still arrives this mark alone is passed over: its steps may start."""
_END: Final = re.compile(rf"{THINKING_ENDS}\s*", re.IGNORECASE)
_MARK_CHARS: Final = 100
"""Characters of the mark at the end, at most."""
_MAY_BEGIN: Final = re.compile(r"\s*(?:<(?:t(?:h(?:i(?:n(?:k[^<>]{0,80})?)?)?)?)?)?", re.IGNORECASE)
_MARKED: Final = re.compile(
    rf"(?:\s*(?:<\|start\|>assistant)?{THINKING_BEGINS}.*?{THINKING_ENDS})+\s*",
    re.DOTALL | re.IGNORECASE,
)
_ENDED: Final = re.compile(
    # A mark on a line of its own, or one with JSON behind it, before which nothing begins that could
    # be an answer in a form.
    rf"(?!\s*(?:[\[{{`\"]|<(?!\|)))(?:(?!{THINKING_BEGINS}).)*?"
    rf"(?:^{THINKING_ENDS}[ \t]*$|{THINKING_ENDS}(?=\s*(?:[\[{{]|```)))\s*",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
