"""Failures of attempts: kind, message and traceback of a tool's exception, and whether and when to
retry.

Tracebacks leave out the frames of the engine and of the libraries between it and a tool. Messages
and tracebacks are redacted and of bounded size.

The kind of a failure comes from a fixed list and says whether another attempt may succeed. Retries
follow the rules of stamina: the wait doubles from attempt to attempt up to a maximum, jitter
spreads clients, and a server's `Retry-After` is obeyed. Tools need not raise exceptions of this
package.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar, cast

from wavewright.config.errors import WavewrightError
from wavewright.config.redaction import Redactor, known_secrets_redactor
from wavewright.executor.events.json_values import valid_text
from wavewright.executor.events.types import ErrorKind, StepError, TracebackFrame
from wavewright.planner.diagnostics.rendering import cut_middle
from wavewright.planner.language.call_outcomes import (
    is_before_any_effect,
    is_broken_off,
    is_unknown_by_status,
)
from wavewright.planner.language.plan import Retry
from wavewright.tools.functions.errors import ResultRefused, ToolError

MAX_FRAMES: Final = 4
"""Maximum of frames in an error."""
MAX_TRACEBACK_CHARS: Final = 16_000
_MAX_TRACED_FRAMES: Final = 40
"""Frames of one exception in the text of a traceback."""
_MAX_LINE_CHARS = 200
_MAX_REDACTED_CHARS = 16 * MAX_TRACEBACK_CHARS
"""Characters of a text that are redacted before it is cut, since a part of a secret is not
recognised.
"""


def last_frames(error: BaseException, redactor: Redactor) -> tuple[TracebackFrame, ...]:
    """Return the last frames of the user's own code, the innermost last.

    Without any, as in a tool that was installed with pip, the frames of libraries are returned. Of
    an exception group the first exception is followed.
    """
    from wavewright.tools.functions.failed_code import is_engine_code, is_library_code

    stack = [
        frame
        for one in _first_exceptions(error)
        for frame in _tool_frames(traceback.extract_tb(one.__traceback__))
    ]
    own = [frame for frame in stack if not is_library_code(frame.filename)]
    shown = own or [frame for frame in stack if not is_engine_code(frame.filename)]
    return tuple(_frame(frame, redactor) for frame in shown[-MAX_FRAMES:])


def traceback_text(error: BaseException, redactor: Redactor) -> str:
    """Return the traceback as Python prints it, without the frames of the engine above the tool's
    own.
    """
    whole = traceback.TracebackException.from_exception(
        error, limit=-_MAX_TRACED_FRAMES, compact=True
    )
    whole.stack = traceback.StackSummary.from_list(_tool_frames(whole.stack))
    text = "".join(whole.format()).rstrip()
    text = valid_text(redactor.redact(cut_middle(text, _MAX_REDACTED_CHARS)))
    return cut_middle(text, MAX_TRACEBACK_CHARS)


def _first_exceptions(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and, where it is a group, the first exception of each level."""
    yield error
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        yield error


def _tool_frames(stack: Iterable[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return a stack from the first frame outside the engine; all of it where there is none."""
    from wavewright.tools.functions.failed_code import is_engine_code

    frames = list(stack)
    first = next(
        (place for place, frame in enumerate(frames) if not is_engine_code(frame.filename)), 0
    )
    return frames[first:]


def _frame(frame: traceback.FrameSummary, redactor: Redactor) -> TracebackFrame:
    code = redactor.redact((frame.line or "").strip())
    return TracebackFrame(
        _shown_path(frame.filename), frame.lineno or 0, frame.name, code[:_MAX_LINE_CHARS]
    )


def _shown_path(file: str) -> str:
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):
        # The working directory was removed, or the file lies on another drive.
        return file
    return file if relative.startswith("..") else relative


_Read = TypeVar("_Read")
_CONNECTION_ERRORS = frozenset({"AutoReconnect", "ConnectionError"})
"""Errors of a connection that clients of databases raise whether they had sent or not."""
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_MAX_MESSAGE_CHARS = 2000
_MAX_CHAINED = 8
"""Exceptions that pass on one another, or are raised from one another, and are looked at."""
MAX_RETRY_AFTER_SECONDS = 3600.0
"""Maximum of a server's `Retry-After`, in seconds."""


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


def describe_failure(
    error: BaseException, wall: float, redactor: Redactor | None = None
) -> AttemptFailure:
    """Return the failure for an exception of a tool.

    Args:
        error: What the tool raised.
        wall: The time now, for a `Retry-After` that is a date.
        redactor: Redacts every text; by default with the secrets of the environment.
    """
    try:
        return _described(error, wall, redactor or known_secrets_redactor(None))
    except Exception:  # noqa: BLE001 - its attributes are the tool's code, and groups may be nested without end
        name = type(error).__name__
        words = f"{name}: it cannot be described"
        return AttemptFailure("tool", words, names=frozenset({name}), is_unclear=True)


def _described(error: BaseException, wall: float, redactor: Redactor) -> AttemptFailure:
    cause = _only_cause(error)
    if isinstance(cause, RecordedFailure):
        known = cause.error
        return AttemptFailure(
            known.kind, known.message, known.hint, is_final=True, frames=known.frames
        )
    if isinstance(cause, ReportedFailure):
        return cause.failure
    return AttemptFailure(
        kind=_kind_of(cause),
        message=_message(cause, redactor),
        hint=valid_text(cause.hint) if isinstance(cause, ToolError) and cause.hint else None,
        names=frozenset(_class_names(cause)),
        retry_after=_retry_after(cause, wall),
        is_unclear=is_outcome_unknown(cause),
        frames=last_frames(cause, redactor),
        traceback=traceback_text(cause, redactor),
    )


def _kind_of(error: BaseException) -> ErrorKind:
    if isinstance(error, ResultRefused):
        return "output"
    return "transient" if is_transient(error) else "tool"


def is_transient(error: BaseException) -> bool:
    """Whether another attempt may succeed where this one failed."""
    if isinstance(error, ToolError):
        return error.transient
    if parts := _group_members(error):
        return all(map(is_transient, parts))
    status = _status_code(error)
    if status is not None:
        return status in _TRANSIENT_STATUSES or 500 <= status < 600
    # These `OSError`s are permanent.
    if isinstance(
        error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError
    ):
        return False
    return _is_of_network(error)


def is_outcome_unknown(error: BaseException) -> bool:
    """Whether a call that raised this may have taken effect, by the rule of `call_outcomes.py`."""
    # An exception that says nothing of it is as the one that it hides.
    for origin in _chain(error, _origin_of):
        is_unknown = _says_unknown(origin)
        if is_unknown is not None:
            return is_unknown
    return False


def _says_unknown(error: BaseException) -> bool | None:
    """Return what an exception says of the outcome of its call; None where it says nothing."""
    if isinstance(error, ToolError):
        # Other errors of this kind are the tool's word that it failed.
        return error.is_unclear
    if parts := _group_members(error):
        return any(map(is_outcome_unknown, parts)) or None
    status = _status_code(error)
    if status is not None:
        named = _read_safely(lambda: _retry_after_header(error))
        return is_unknown_by_status(status, has_retry_after=named is not None)
    errors = list(_chain(error, _passed_on_by))
    names = [cls.__name__ for passed in errors for cls in type(passed).__mro__]
    if is_before_any_effect(names):
        return False
    is_unknown = is_broken_off(names) or any(map(_is_of_network, errors))
    is_unknown = is_unknown or not _CONNECTION_ERRORS.isdisjoint(names)
    return is_unknown or _was_killed(error) or _has_lost_database(error) or None


def may_retry(failure: AttemptFailure, retry: Retry, attempt: int) -> bool:
    """Whether another attempt follows the failed attempt number `attempt`."""
    if attempt >= retry.attempts or failure.is_final:
        return False
    wanted = retry.on
    return failure.kind in wanted or "any" in wanted or not failure.names.isdisjoint(wanted)


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


def _only_cause(error: BaseException) -> BaseException:
    """Return the exception in groups of one, as task groups raise them."""
    parts = _group_members(error)
    return _only_cause(parts[0]) if len(parts) == 1 else error


def _group_members(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", error).exceptions


def _message(error: BaseException, redactor: Redactor) -> str:
    if parts := _group_members(error):
        text = "; ".join(_message(part, redactor) for part in parts)
    elif isinstance(error, ToolError):
        text = _text_of(error)
    else:
        words = _text_of(error)
        text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    # Messages of libraries may contain URLs and headers, and the message is journaled.
    text = valid_text(redactor.redact(text[:_MAX_REDACTED_CHARS]))
    return text if len(text) <= _MAX_MESSAGE_CHARS else text[: _MAX_MESSAGE_CHARS - 1] + "…"


def _text_of(error: BaseException) -> str:
    words = _read_safely(lambda: str(error))
    return "<its text cannot be read: __str__ failed>" if words is None else words


def _read_safely(read: Callable[[], _Read]) -> _Read | None:
    """Return what a method or property of an exception returns; None where it raises."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - `__str__`, `response` and their like are the tool's code
        return None


def _class_names(error: BaseException) -> Iterator[str]:
    for cls in type(error).__mro__[:-1]:
        yield cls.__name__
        yield f"{cls.__module__}.{cls.__qualname__}"
    for part in _group_members(error):
        yield from _class_names(part)


def _status_code(error: BaseException) -> int | None:
    """Return the status of the HTTP answer that an exception stands for."""
    # So it is named by httpx and requests; by clients of models; by aiohttp and urllib.
    for read in (
        lambda: getattr(getattr(error, "response", None), "status_code", None),
        lambda: getattr(error, "status_code", None),
        lambda: getattr(error, "status", None),
    ):
        status = _read_safely(read)
        if isinstance(status, int) and 400 <= status < 600:
            return status
    return None


def _chain(
    error: BaseException, behind: Callable[[BaseException], BaseException | None]
) -> Iterator[BaseException]:
    """Yield an exception, the one behind it, the one behind that, and so on."""
    current: BaseException | None = error
    for _ in range(_MAX_CHAINED):
        if current is None:
            return
        yield current
        current = behind(current)


def _origin_of(error: BaseException) -> BaseException | None:
    """Return the exception that another passes on, or is raised from or in the handling of."""
    # `from None` says that the other one is no matter.
    handled = None if error.__suppress_context__ else error.__context__
    return _passed_on_by(error) or error.__cause__ or handled


def _passed_on_by(error: BaseException) -> BaseException | None:
    """Return the exception that another only passes on, as ones of urllib and requests do."""
    passed = _read_safely(partial(getattr, error, "reason", None))
    if passed is None and len(error.args) == 1:
        passed = error.args[0]
    return passed if isinstance(passed, BaseException) else None


def _was_killed(error: BaseException) -> bool:
    """Whether it is of a process that a signal ended, as a `CalledProcessError` may be."""
    code = _read_safely(partial(getattr, error, "returncode", None))
    return isinstance(code, int) and code < 0


def _has_lost_database(error: BaseException) -> bool:
    """Whether a driver of a database says that it failed, without the answer of a server."""
    kinds = [cls for cls in type(error).__mro__ if cls.__name__ == "OperationalError"]
    # What SQLite does not commit it rolls back. What is raised from another is as that one.
    if not kinds or kinds[0].__module__ == "sqlite3" or _origin_of(error) is not None:
        return False
    # So the code of an answer is named by psycopg, by psycopg2, and as one of MySQL.
    codes = [_read_safely(partial(getattr, error, name, None)) for name in ("sqlstate", "pgcode")]
    number = error.args[0] if error.args and isinstance(error.args[0], int) else None
    if number is not None:
        return number in _LOST_BY_MYSQL
    return not any(codes)


_LOST_BY_MYSQL: Final = frozenset({2006, 2013, 2055})
"""Numbers that clients of MySQL give a connection that broke."""


def _is_of_network(error: BaseException) -> bool:
    """Whether the network or the operating system has failed."""
    return isinstance(error, OSError | TimeoutError) or _is_http_transport_error(error)


def _is_http_transport_error(error: BaseException) -> bool:
    """Whether it is a network error of httpx or its successor, without importing either."""
    return any(
        cls.__name__ == "TransportError"
        and cls.__module__.partition(".")[0] in {"httpx", "httpx2", "httpcore"}
        for cls in type(error).__mro__
    )


def _retry_after(error: BaseException, wall: float) -> float | None:
    text = _read_safely(lambda: _retry_after_header(error))
    seconds = error.retry_after if isinstance(error, ToolError) else None
    if isinstance(text, str):
        seconds = _seconds_of(text.strip(), wall)
    return None if seconds is None else min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _retry_after_header(error: BaseException) -> object:
    headers = getattr(getattr(error, "response", error), "headers", None)
    get = getattr(headers, "get", None)
    return (get("Retry-After") or get("retry-after")) if callable(get) else None


def _seconds_of(text: str, wall: float) -> float | None:
    """Return the seconds of a `Retry-After`, which is a number or a date (RFC 9110, 10.2.3)."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=dt.UTC)
    return date.timestamp() - wall
