"""What goes wrong with a tool: a call that fails, and a function that cannot become a tool."""

from __future__ import annotations

import datetime as dt
import re
from email.utils import parsedate_to_datetime

from wavewright.config import WavewrightError, exit_codes


class ToolError(WavewrightError):
    """A tool's answer that it failed; `transient` says whether another attempt may succeed, and
    `is_unclear` that the call may have taken effect all the same.

    A user's function need not import this: any exception is a failure, and `OSError`,
    `TimeoutError` and HTTP 408, 425, 429 and 5xx count as transient.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        hint: str | None = None,
        retry_after: float | None = None,
        is_unclear: bool = False,
    ) -> None:
        super().__init__(message, hint)
        self.transient = transient
        self.is_unclear = is_unclear
        """Whether nobody knows if the call took effect: a write is then never repeated."""
        self.retry_after = retry_after
        """Seconds that the other side asks to wait before another attempt."""


class ResultRefused(ToolError):
    """A call that was made, and whose result JSON has no form for: what it did has been done."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, is_unclear=True)


class ToolDefinitionError(WavewrightError):
    """A function that cannot become a tool: names the function, the parameter and the fix."""

    exit_code = exit_codes.MISUSE


def retry_after_seconds(text: str, now: float) -> float | None:
    """Return the seconds that a `Retry-After` asks to wait, which it says as a number or as a date
    (RFC 9110, 10.2.3); None where it says neither.

    >>> from wavewright.tools import retry_after_seconds
    >>> retry_after_seconds("Thu, 01 Jan 1970 00:01:00 GMT", now=20.0)
    40.0
    """
    text = text.strip()
    # Some servers write a fraction.
    if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]+)?", text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=dt.UTC)
    return max(0.0, date.timestamp() - now)
