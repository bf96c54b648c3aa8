"""One request that is to be answered with JSON, and every way in which it is not.

The answer's text never reaches a message (it is somebody else's), nor does the address with its key: messages name
the service and the status. Failures that another attempt may mend are marked transient.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import cast

import httpx

from wavewright.planner.types import Json
from wavewright.tools.calls import ToolError

MAX_RESPONSE_BYTES = 32 * 2**20

_TRANSIENT_STATUSES = frozenset({408, 425, 429})


def get_json(
    url: str,
    *,
    service: str,
    params: Mapping[str, str],
    timeout: float,
    headers: Mapping[str, str] | None = None,
) -> Json:
    """Return the JSON that a service answers with.

    Raises:
        ToolError: it cannot be reached, refuses, or answers with something else.
    """
    # httpx writes each address, and so a key in it, to its log.
    logging.getLogger("httpx").addFilter(_without_query)
    try:
        with (
            httpx.Client(timeout=timeout, follow_redirects=False) as client,
            client.stream("GET", url, params=dict(params), headers=dict(headers or {})) as answer,
        ):
            _require_success(answer, service)
            content = _read_capped(answer, service)
    except httpx.TimeoutException:
        raise ToolError(f"{service} did not answer within {timeout:g} s", transient=True) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # The chain is cut: the original names the address with its key.
        raise ToolError(
            f"{service} cannot be reached ({type(error).__name__})",
            transient=isinstance(error, httpx.TransportError),
            hint="look at the address in the settings and at the network",
        ) from None
    return _decoded(content, service)


def key_from_environment(name: str, *, service: str) -> str:
    """Return a key by the name of its environment variable.

    Raises:
        ToolError: the variable is not set.
    """
    key = os.environ.get(name, "").strip()
    if not key:
        raise ToolError(
            f"{service} needs a key, and the environment variable {name} is not set", hint=f"export {name}=…"
        )
    return key


def _require_success(answer: httpx.Response, service: str) -> None:
    status = answer.status_code
    if 200 <= status < 300:
        return
    transient = status in _TRANSIENT_STATUSES or status >= 500
    wait = _retry_after(answer.headers.get("Retry-After"))
    message = f"{service} answered {status} {answer.reason_phrase}".rstrip()
    if transient:
        after = "" if wait is None else f"; it asks to wait {wait:g} s"
        raise ToolError(message + after, transient=True, hint="try again later", retry_after=wait)
    hints = {
        401: "look at the key in the environment",
        402: "the key's plan does not cover this",
        403: "look at what the key may read",
        404: "it does not know what was asked for; look at the code and the suffix",
    }
    moved = "it answers from another address; set that one in the settings" if 300 <= status < 400 else None
    raise ToolError(message, hint=hints.get(status, moved))


def _retry_after(text: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header asks for, from seconds or from a date."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=dt.UTC)
    return max(0.0, (until - dt.datetime.now(dt.UTC)).total_seconds())


def _read_capped(answer: httpx.Response, service: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for piece in answer.iter_bytes():
        size += len(piece)
        if size > MAX_RESPONSE_BYTES:
            raise ToolError(f"{service} answered with more than {MAX_RESPONSE_BYTES // 2**20} MiB")
        pieces.append(piece)
    return b"".join(pieces)


def _decoded(content: bytes, service: str) -> Json:
    start = content.lstrip()[:1]
    if not start:
        raise ToolError(f"{service} answered with nothing", transient=True)
    try:
        return cast("Json", json.loads(content))
    except (ValueError, RecursionError):
        kind = "a page" if start == b"<" else "text"
        raise ToolError(
            f"{service} answered with {kind} and not with JSON",
            hint="look at the address in the settings: it may lead to a log-in page or a proxy",
        ) from None


class _QueryStripper(logging.Filter):
    """Cuts the query off every address that is logged: it holds the key."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                argument.copy_with(query=None) if isinstance(argument, httpx.URL) else argument
                for argument in record.args
            )
        return True


_without_query = _QueryStripper()
