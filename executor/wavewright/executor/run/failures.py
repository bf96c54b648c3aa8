"""Why an attempt of a call failed, and whether and when another follows.

The kind of a failure comes from a fixed list and says whether another attempt may succeed. Retries
follow the rules of stamina: the wait doubles from attempt to attempt up to a maximum, jitter
spreads clients, and a server's `Retry-After` is obeyed. What a tool raises is read in
`exceptions.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from wavewright.config import WavewrightError
from wavewright.executor.events.types import ErrorKind, StepError, TracebackFrame
from wavewright.planner import Retry

WITHHELD: Final = StepError(
    "output",
    "the call was made in an earlier part of the run, and the plan now reads a secret of its output that the journal"
    " does not keep",
    attempts=0,
    hint="start a new run; a tool that is safe to repeat says so with idempotent=True, and is called again",
)
UNCLEAR: Final = StepError(
    "interrupted",
    "the call was made before, its outcome is not known, and it may have taken effect",
    attempts=0,
    hint="check whether it did; if not, a retry that names the step with --again (`again` in Python) makes it; a tool"
    " that is safe to repeat says so with idempotent=True",
)
UNREADABLE: Final = StepError(
    "output",
    "the call was made before, and its output is not what the tool's present code promises",
    attempts=0,
    hint="retry with the code that made it, or start a new run; the call is not made again",
)
UNCLEAR_KINDS: Final[frozenset[ErrorKind]] = frozenset({"interrupted", "output", "timeout"})
"""Kinds of the failures of calls that may have taken effect: they were cut off, their time was up,
or what they returned is not what they promise.
"""
REFUSED: Final = StepError("refused", "a person did not approve the call", attempts=0)


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Why one attempt failed."""

    kind: ErrorKind
    message: str
    hint: str | None = None
    names: frozenset[str] = frozenset()
    """Names of the exception's classes, for `Retry.on`."""
    retry_after: float | None = None
    """Seconds that the server asked to wait."""
    is_final: bool = False
    """Whether no other attempt may follow."""
    is_unclear: bool = False
    """Whether the call may have taken effect, for all that is known."""
    frames: tuple[TracebackFrame, ...] = ()
    traceback: str = ""

    def as_error(self, attempts: int) -> StepError:
        """Return the failure as it is journaled."""
        return StepError(
            self.kind, self.message, attempts=attempts, hint=self.hint, frames=self.frames
        )

    def of_write(self) -> AttemptFailure:
        """Return the failure as that of a call which must not take effect twice: one that is unclear
        is a call that was cut off.
        """
        if not self.is_unclear or self.kind in UNCLEAR_KINDS:
            return self
        hint = self.hint or f"it may have taken effect: {UNCLEAR.hint}"
        return replace(self, kind="interrupted", hint=hint)


class RecordedFailure(WavewrightError):
    """A recorded failure, raised again in a replay; no other attempt follows."""

    def __init__(self, error: StepError) -> None:
        super().__init__(error.message)
        self.error = error


class ReportedFailure(WavewrightError):
    """A failure that another process has described."""

    def __init__(self, failure: AttemptFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def timeout_failure(seconds: float, *, was_abandoned: bool = False) -> AttemptFailure:
    """Return the failure of an attempt that exceeded its timeout.

    Args:
        seconds: The timeout.
        was_abandoned: Whether the call swallowed its cancellation and was abandoned.
    """
    if was_abandoned:
        return AttemptFailure(
            "timeout",
            f"no answer within {seconds:g} s; it swallowed its cancellation and was abandoned",
            hint="let asyncio.CancelledError pass through the tool",
        )
    return AttemptFailure(
        "timeout",
        f"no answer within {seconds:g} s",
        hint="raise the step's timeout, or ask for less",
    )


def blocked_failure(seconds: float, blocked: float) -> AttemptFailure:
    """Return the failure of an attempt that held the event loop for longer than its timeout.

    Args:
        seconds: The timeout.
        blocked: Seconds for which nothing else could run.
    """
    return AttemptFailure(
        "timeout",
        f"it blocked the loop for {blocked:.1f} s, over its timeout of {seconds:g} s",
        hint="write it as a plain function, which runs in a thread, or let it await what takes long",
    )


def may_retry(failure: AttemptFailure, retry: Retry, attempt: int) -> bool:
    """Whether another attempt follows the failed attempt number `attempt`."""
    if attempt >= retry.attempts or failure.is_final:
        return False
    kinds = retry.on
    return failure.kind in kinds or "any" in kinds or not failure.names.isdisjoint(kinds)


def seconds_before_retry(
    attempt: int, retry: Retry, jitter: float, failure: AttemptFailure
) -> float:
    """Return the seconds to wait after failed attempt number `attempt`, counted from 1.

    Args:
        attempt: The attempt that failed.
        retry: The step's policy.
        jitter: A number drawn from 0 to `retry.wait_jitter`.
        failure: How it failed; a `Retry-After` longer than the computed wait wins.
    """
    # The exponent is bounded so that a hundred attempts do not overflow a float.
    growth = retry.wait_exp_base ** min(attempt - 1, 64)
    backoff = min(retry.wait_max, retry.wait_initial * growth + jitter)
    return backoff if failure.retry_after is None else max(backoff, failure.retry_after)
