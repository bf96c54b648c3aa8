"""What goes wrong with a tool: a call that fails, and a function that cannot become a tool."""

from __future__ import annotations

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError


class ToolError(WavewrightError):
    """A tool's answer that it failed; `transient` says whether another attempt may succeed.

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
    ) -> None:
        super().__init__(message, hint)
        self.transient = transient
        self.retry_after = retry_after
        """Seconds that the other side asks to wait before another attempt."""


class ResultRefused(ToolError):
    """A call that was made, and whose result JSON has no form for: what it did has been done."""


class ToolDefinitionError(WavewrightError):
    """A function that cannot become a tool: names the function, the parameter and the fix."""

    exit_code = exit_codes.MISUSE
