"""One request that is to be answered with JSON, and every way in which it is not.

The answer's text never reaches a message (it is somebody else's), nor does the address with its key: messages name
the service and the status. Failures that another attempt may overcome are marked transient.

Prices from a service over HTTP, in the shape of EODHD.

`GET {base}/eod/{CODE}?api_token=…&fmt=json&from=…&to=…` answers with a list of
`{date, open, high, low, close, adjusted_close, volume}`. The day after which nothing may be known is part of the
request, and what comes back is cut again.

Web search through a service that answers with JSON, such as a SearXNG of one's own.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import cast
from urllib.parse import quote, urlsplit

import httpx

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.equities.documents import SearchDocument, SearchHit, SourceNote
from wavewright.tools.equities.prices import PriceSeries, TableRow, find_columns, read_series
from wavewright.tools.equities.settings import PriceServiceSettings, SearchServiceSettings
from wavewright.tools.equities.wording import one_line
from wavewright.tools.functions.tool import ToolError

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
            hint="check the address in the settings and the network",
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
        401: "check the key in the environment",
        402: "the key's plan does not cover this",
        403: "check what the key may read",
        404: "it does not know what was asked for; check the code and the suffix",
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
            hint="check the address in the settings: it may lead to a log-in page or a proxy",
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


_HEADER = ("date", "close", "adjusted_close")


class EodPrices:
    """End-of-day prices of one service."""

    def __init__(self, settings: PriceServiceSettings, currency: str | None) -> None:
        self._settings = settings
        self.currency = currency
        self._service = f"{settings.provider} at {urlsplit(settings.base_url).hostname}"

    def codes(self) -> tuple[str, ...]:
        """Return nothing: the service lists no codes here, so a basket must name its own."""
        return ()

    def read(self, code: str, until: dt.date, *, fresh: bool) -> PriceSeries:
        """Return the prices of a code up to a day; the service is asked every time, so `fresh` adds nothing."""
        del fresh
        symbol = code + self._settings.suffix
        answer = get_json(
            f"{self._settings.base_url.rstrip('/')}/eod/{quote(symbol, safe='')}",
            service=self._service,
            params={
                "api_token": key_from_environment(self._settings.api_key_env, service=self._service),
                "fmt": "json",
                "from": self._settings.since,
                "to": until.isoformat(),
            },
            timeout=self._settings.timeout,
        )
        place = f"{self._service}, {symbol}"
        rows = list(self._rows(answer, place))
        has_adjusted = bool(rows) and all(row.cells[2] is not None for row in rows)
        columns = find_columns(_HEADER if has_adjusted else _HEADER[:2], place)
        series = read_series(code, rows, columns, file=place, source=self._service)
        if series is None:
            raise ToolError(
                f"{place}: no prices between {self._settings.since} and {until}",
                hint="check the code and the suffix, or set an earlier 'since'",
            )
        return series

    def _rows(self, answer: Json, place: str) -> Iterator[TableRow]:
        if not isinstance(answer, list):
            raise ToolError(
                f"{place}: the answer is no list of prices",
                hint="check the address in the settings; the service's shape is that of EODHD",
            )
        for number, entry in enumerate(answer, start=1):
            if not isinstance(entry, dict) or "date" not in entry or "close" not in entry:
                raise ToolError(
                    f"{place}, entry {number}: no object with date and close",
                    hint="the service's shape is that of EODHD: [{date, close, adjusted_close, …}]",
                )
            yield TableRow(f"entry {number}", [cast("object", entry.get(name)) for name in _HEADER])


MAX_TEXT = 2_000


def search(
    settings: SearchServiceSettings | None, query: str, *, limit: int, now: dt.datetime
) -> SearchDocument:
    """Return the results of one search.

    Raises:
        ToolError: no service is configured, or it does not answer in its configured shape.
    """
    if settings is None:
        raise ToolError(
            "no search service is configured",
            hint="set 'search' for the pack 'equities', such as {url: 'http://localhost:8888/search'} for SearXNG",
        )
    _require_current_time(now)
    service = f"the search service at {urlsplit(settings.url).hostname}"
    headers: dict[str, str] = {}
    if settings.api_key_env is not None:
        headers[settings.api_key_header] = key_from_environment(settings.api_key_env, service=service)
    answer = get_json(
        settings.url,
        service=service,
        params={**settings.params, settings.query_param: query},
        timeout=settings.timeout,
        headers=headers,
    )
    hits = [
        _search_hit(entry, settings)
        for entry in _results(answer, settings, service)
        if isinstance(entry, dict)
    ]
    kept = [hit for hit in hits if hit.url.startswith(("http://", "https://"))][:limit]
    return SearchDocument(
        id=f"web:{hashlib.sha256(query.encode()).hexdigest()[:12]}:web_search",
        kind="web-search",
        title=f"Web search: {query}",
        tags=["web-search"],
        content="\n".join(
            [f"# {one_line(query)}", "", *(f"- {one_line(hit.title)}: {hit.url}" for hit in kept), ""]
        ),
        query=query,
        items=kept,
        sources=[SourceNote(name=hit.title or hit.url, location=hit.url, as_of=None) for hit in kept],
        warnings=[],
    )


def _require_current_time(now: dt.datetime) -> None:
    """Raise where the run stands in the past: today's web knows what came after, and its pages have no dates."""
    if dt.datetime.now(dt.UTC) - now > dt.timedelta(days=1):
        raise ToolError(
            f"the run takes {now.date()} for now, and a web search finds what was written since",
            hint="leave the search out of an analysis of the past, or run the job without 'as_of'",
        )


def _results(answer: Json, settings: SearchServiceSettings, service: str) -> list[Json]:
    node = answer
    for part in settings.results.split(".") if settings.results else ():
        node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, list):
        raise ToolError(
            f"{service} answered without a list at {settings.results!r}",
            hint="set 'search.results' to the dotted path of its results; a SearXNG must allow the format json",
        )
    return node


def _search_hit(entry: JsonObject, settings: SearchServiceSettings) -> SearchHit:
    return SearchHit(
        title=_result_text(entry.get(settings.title))[:300],
        url=_result_text(entry.get(settings.link)),
        text=_result_text(entry.get(settings.text))[:MAX_TEXT],
    )


def _result_text(value: Json) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""
