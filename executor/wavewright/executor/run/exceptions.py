"""What a tool raises, and what it says: the kind of the failure, its message and traceback, whether
and when to retry, and whether the call may have taken effect.

Tracebacks leave out the frames of the engine and of the libraries between it and a tool. Messages
and tracebacks are redacted and of bounded size. Tools need not raise exceptions of this package.

Whether a call may have taken effect is decided by the rule of `planner/language/call_outcomes.py`;
it is asked of every call that failed, and counts for writes. An exception *says* what became of its
call where its class, the status of an HTTP answer, or the code of a database, of gRPC or of a
process does. One that says nothing is as the one that it is raised from. Where none says anything,
the outcome is known only if the tool raised the exception itself: that is its word that it failed.
What Python or a library raises on the tool's way, as a `KeyError` while an answer is read, is
nobody's word.

An exception is the tool's code: whatever is read of it may raise. Imported only once a call has
failed.
"""

from __future__ import annotations

import dis
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Final, TypeVar, cast

from wavewright.config import WavewrightError, known_secrets_redactor
from wavewright.config.errors import cut_end
from wavewright.config.redaction import Redactor
from wavewright.executor.events.json_values import valid_text
from wavewright.executor.events.types import ErrorKind, TracebackFrame
from wavewright.executor.run.earlier_requests import had_sent_before
from wavewright.executor.run.failures import AttemptFailure, RecordedFailure, ReportedFailure
from wavewright.planner.diagnostics.rendering import cut_middle
from wavewright.planner.language.call_outcomes import (
    is_of_connection,
    is_unknown_by_class,
    is_unknown_by_ftp_code,
    is_unknown_by_grpc_code,
    is_unknown_by_mysql_number,
    is_unknown_by_sqlstate,
    is_unknown_by_status,
)
from wavewright.tools import ToolError, retry_after_seconds
from wavewright.tools.functions.errors import ResultRefused
from wavewright.tools.functions.failed_code import is_engine_code, is_library_code

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
_MAX_MESSAGE_CHARS = 2000
MAX_RETRY_AFTER_SECONDS = 3600.0
"""Maximum of a server's `Retry-After`, in seconds."""


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
        names=frozenset(_names_for_retry(cause)),
        retry_after=_retry_after(cause, wall),
        is_unclear=is_outcome_unknown(error),
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


_TRANSIENT_STATUSES = frozenset({408, 425, 429})


# -- its message, and when to try again


def _only_cause(error: BaseException) -> BaseException:
    """Return the exception in groups of one, as task groups raise them."""
    parts = _group_members(error)
    return _only_cause(parts[0]) if len(parts) == 1 else error


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
    return cut_end(text, _MAX_MESSAGE_CHARS)


def _names_for_retry(error: BaseException) -> Iterator[str]:
    for cls in type(error).__mro__[:-1]:
        yield cls.__name__
        yield f"{cls.__module__}.{cls.__qualname__}"
    for part in _group_members(error):
        yield from _names_for_retry(part)


def _retry_after(error: BaseException, wall: float) -> float | None:
    text = _read_safely(lambda: _retry_after_header(error))
    seconds = error.retry_after if isinstance(error, ToolError) else None
    if isinstance(text, str):
        seconds = retry_after_seconds(text, wall)
    return None if seconds is None else min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


# -- where it was raised


def last_frames(error: BaseException, redactor: Redactor) -> tuple[TracebackFrame, ...]:
    """Return the last frames of the user's own code, the innermost last.

    Without any, as in a tool that was installed with pip, the frames of libraries are returned. Of
    an exception group the first exception is followed.
    """
    stack = [
        frame
        for exception in _first_exceptions(error)
        for frame in _tool_frames(traceback.extract_tb(exception.__traceback__))
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


# -- whether the call may have taken effect


def is_outcome_unknown(error: BaseException, *, is_alone: bool = True) -> bool:
    """Whether a call that raised this may have taken effect, for all that is known.

    Args:
        error: What was raised.
        is_alone: Whether nothing else of the call ran meanwhile, as tasks of a group do.
    """
    raised = list(_chain(error, _origin_of))
    for place, origin in enumerate(raised):
        is_unknown = _says_unknown(origin)
        if is_unknown is not None:
            return is_unknown or (
                _is_of_request(origin)
                and _may_have_written_before(raised[: place + 1], is_alone=is_alone)
            )
    if any(is_of_connection(_class_names(origin)) for origin in raised):
        return True
    return not any(map(_is_word_of_tool, raised))


def _may_have_written_before(raised: Sequence[BaseException], *, is_alone: bool) -> bool:
    """Whether the tool may have written before a request of its own that was refused.

    Args:
        raised: What stands for the refusal, and last the refusal itself.
        is_alone: As of `is_outcome_unknown`.
    """
    frames = [frame for error in raised for frame in _own_frames(error)]
    if not frames:
        return False
    is_called_back = any(map(_is_called_back, raised))
    return (
        is_called_back
        or not is_alone
        or had_sent_before(frames, is_write_refused=_is_of_write(raised[-1]))
    )


def _is_of_request(error: BaseException) -> bool:
    """Whether an exception speaks of one request alone, and not of all that its call has done.

    The tool's own word is of the whole call, and what a database refuses is rolled back.
    """
    return not _is_word_of_tool(error) and (
        _status_code(error) is not None or any(map(_is_of_network, _chain(error, _passed_on_by)))
    )


def _says_unknown(error: BaseException) -> bool | None:
    """Return what an exception says of the outcome of its call; None where it says nothing."""
    if isinstance(error, ToolError):
        # Other errors of this kind are the tool's word that it failed.
        return error.is_unclear
    if parts := _group_members(error):
        return any(is_outcome_unknown(part, is_alone=False) for part in parts) or None
    status = _status_code(error)
    if status is not None:
        named = _read_safely(lambda: _retry_after_header(error))
        return is_unknown_by_status(status, has_retry_after=named is not None)
    # An exception that another passes on knows better what has happened.
    passed_on = [*_chain(error, _passed_on_by)][::-1]
    for passed in passed_on:
        is_unknown = _unknown_by_code(passed)
        if is_unknown is None:
            is_unknown = is_unknown_by_class(_class_names(passed))
        if is_unknown is not None:
            return is_unknown
    return True if any(map(_is_of_network, passed_on)) else None


def _unknown_by_code(error: BaseException) -> bool | None:
    """Return what the code says that stands in an exception; None where there is none."""
    names = {cls.__name__ for cls in type(error).__mro__}
    code = _exit_code(error)
    if code is not None:
        return code < 0 or code in _EXIT_CODES_OF_KILLED
    if not names.isdisjoint(_OF_GRPC):
        return _is_answer_too_large(error) or is_unknown_by_grpc_code(_grpc_code(error))
    if "error_temp" in names:
        return is_unknown_by_ftp_code(_text_of(error)[:3])
    if any(cls.__module__ == "sqlite3" for cls in type(error).__mro__):
        # What SQLite does not commit it rolls back.
        return False
    if not names.isdisjoint(_OF_DATABASES) and error.args and isinstance(error.args[0], int):
        return is_unknown_by_mysql_number(error.args[0])
    state = _sqlstate(error)
    if state is not None:
        return is_unknown_by_sqlstate(state)
    return None if names.isdisjoint(_REFUSED_BY_DATABASES) else False


_EXIT_CODES_OF_KILLED: Final = frozenset({124, *range(129, 193)})
"""How `timeout` says that the time was up, and a shell that a signal ended a process."""
_OF_GRPC: Final = frozenset({"GRPCError", "RpcError"})
_OF_DATABASES: Final = frozenset({"DatabaseError", "InterfaceError", "OperationalError"})
"""Classes of what the driver of a database raises (PEP 249)."""
_REFUSED_BY_DATABASES: Final = frozenset(
    {"DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"}
)
"""Classes of statements that a database did not carry out (PEP 249)."""
_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}")


def _exit_code(error: BaseException) -> int | None:
    """Return the exit code of a process that failed, as a `CalledProcessError` has it."""
    code = _read_safely(partial(getattr, error, "returncode", None))
    return code if isinstance(code, int) and code != 0 else None


def _grpc_code(error: BaseException) -> str:
    """Return the name of a status code of gRPC: `code()` of grpcio, `status` of grpclib."""
    read = _read_safely(partial(getattr, error, "code", None))
    code = _read_safely(read) if callable(read) else getattr(error, "status", None)
    return str(getattr(code, "name", "UNKNOWN"))


def _is_answer_too_large(error: BaseException) -> bool:
    """Whether gRPC says, as a server does that has no more resources, that an answer was too large
    for the client, or a request for the server.
    """
    details = _read_safely(partial(getattr, error, "details", None))
    text = _read_safely(details) if callable(details) else None
    return isinstance(text, str) and "eceived message larger" in text


def _sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error: of psycopg and asyncpg, of psycopg2, and of ODBC."""
    for name in ("sqlstate", "pgcode"):
        state = _read_safely(partial(getattr, error, name, None))
        if isinstance(state, str) and state:
            return state
    first = error.args[0] if len(error.args) > 1 else None
    is_of_odbc = type(error).__module__.partition(".")[0] in {"aioodbc", "pyodbc"}
    if is_of_odbc and isinstance(first, str) and _SQLSTATE.fullmatch(first):
        return first
    return None


# -- who has raised an exception


def _is_word_of_tool(error: BaseException) -> bool:
    """Whether a `raise` of the tool's own code, and no library, raised an exception.

    So `raise ValueError("no such account")` says that the call failed, while a `KeyError` of
    `answer["id"]` may have come when all was done. An exception without a traceback was made, and
    never raised.
    """
    if _group_members(error) or isinstance(error, WavewrightError | SystemExit):
        # The members of a group have spoken for themselves.
        return True
    frames = list(_frames(error))
    if not frames:
        return True
    innermost = frames[-1]
    is_own = _package_of(innermost) == "wavewright" or innermost in _own_frames(error)
    return is_own and _is_at_raise(innermost)


def _own_frames(error: BaseException) -> list[TracebackType]:
    """Return the frames of the tool's own code, the innermost last."""
    outside = [frame for frame in _frames(error) if not is_engine_code(_file_of(frame))]
    # A tool may itself be installed: then its package is its own code.
    package = _package_of(outside[0]) if outside else ""
    return [
        frame
        for frame in outside
        if _package_of(frame) == package or not is_library_code(_file_of(frame))
    ]


def _is_called_back(error: BaseException) -> bool:
    """Whether a library called the tool's own code, which it may do more than once."""
    own = _own_frames(error)
    outside = [frame for frame in _frames(error) if not is_engine_code(_file_of(frame))]
    between = outside[: outside.index(own[-1])] if own else []
    return any(
        frame not in own and _package_of(frame) not in sys.stdlib_module_names for frame in between
    )


def _frames(error: BaseException) -> Iterator[TracebackType]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _file_of(frame: TracebackType) -> str:
    return frame.tb_frame.f_code.co_filename


def _package_of(frame: TracebackType) -> str:
    return str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_at_raise(frame: TracebackType) -> bool:
    """Whether a frame was left by a `raise` or an `assert`, and not by what Python raises."""
    code = frame.tb_frame.f_code.co_code
    return frame.tb_lasti < len(code) and code[frame.tb_lasti] == dis.opmap["RAISE_VARARGS"]


# -- what is read of an exception

_Read = TypeVar("_Read")
_MAX_CHAINED = 8
"""Exceptions that pass on one another, or are raised from one another, and are looked at."""


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
    """Return the exception that another stands for: it passes it on, or is raised from it.

    Of an exception that is raised while another is handled, that is so only where the tool raises
    it. A library's may be of a second request, which the tool made because the first was refused.
    """
    origin = _passed_on_by(error) or error.__cause__
    # `from None` says that the other one is no matter.
    if origin is not None or error.__suppress_context__ or not _is_word_of_tool(error):
        return origin
    return error.__context__


def _passed_on_by(error: BaseException) -> BaseException | None:
    """Return the exception that another only passes on, as ones of urllib and requests do."""
    passed = _read_safely(partial(getattr, error, "reason", None))
    if passed is None and len(error.args) == 1:
        passed = error.args[0]
    return passed if isinstance(passed, BaseException) else None


def _class_names(error: BaseException) -> list[str]:
    return [f"{cls.__module__}.{cls.__name__}" for cls in type(error).__mro__]


def _group_members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions of a group; none of another exception."""
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", error).exceptions


def _status_code(error: BaseException) -> int | None:
    """Return the status of the HTTP answer that an exception stands for, where that is an error."""
    for read in (
        # So it is named by httpx and requests; by clients of models; by aiohttp and urllib.
        lambda: getattr(getattr(error, "response", None), "status_code", None),
        lambda: getattr(error, "status_code", None),
        lambda: getattr(error, "status", None),
        # So by stripe, and by botocore.
        lambda: getattr(error, "http_status", None),
        lambda: getattr(error, "response", {})["ResponseMetadata"]["HTTPStatusCode"],
    ):
        status = _read_safely(read)
        if isinstance(status, int) and 400 <= status < 600:
            return status
    return None


def _is_of_write(error: BaseException) -> bool:
    """Whether an exception names the request that it is of, and that one would have written."""
    for read in (
        # So it is named by httpx and requests, and by aiohttp.
        lambda: getattr(getattr(error, "request", None), "method", None),
        lambda: getattr(getattr(error, "request_info", None), "method", None),
    ):
        method = _read_safely(read)
        if isinstance(method, str):
            return method.upper() not in _READING_METHODS
    return False


_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def _retry_after_header(error: BaseException) -> object:
    """Return the `Retry-After` of the HTTP answer that an exception stands for."""
    headers = getattr(getattr(error, "response", error), "headers", None)
    get = getattr(headers, "get", None)
    return (get("Retry-After") or get("retry-after")) if callable(get) else None


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


def _text_of(error: BaseException) -> str:
    """Return the text of an exception, which may not be readable."""
    words = _read_safely(lambda: str(error))
    return "<its text cannot be read: __str__ failed>" if words is None else words


def _read_safely(read: Callable[[], _Read]) -> _Read | None:
    """Return what a method or property of an exception returns; None where it raises."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - `__str__`, `response` and their like are the tool's code
        return None
