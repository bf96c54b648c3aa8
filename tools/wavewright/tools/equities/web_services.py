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
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

import anyio

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.equities.documents import SearchDocument, SearchHit, SourceNote
from wavewright.tools.equities.prices import PriceSeries, TableRow, find_columns, read_series
from wavewright.tools.equities.settings import PriceServiceSettings, SearchServiceSettings
from wavewright.tools.equities.wording import one_line
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.web.addresses import AddressRefused, place_of
from wavewright.tools.web.guarded_client import GuardedClient, StatusError

MAX_RESPONSE_BYTES = 32 * 2**20

_ADDRESS_HINT = "check the address in the settings and the network"


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
    try:
        client = GuardedClient(
            allowed=[place_of(url)],  # the operator wrote it
            max_bytes=MAX_RESPONSE_BYTES,
            seconds=timeout,
            max_redirects=0,
            shown=service,
        )
        asked = {"Accept": "application/json", **(headers or {})}
        get = partial(client.get, f"{url}?{urlencode(params)}", headers=asked, accept=None)
        answer = anyio.run(get)
    except StatusError as error:
        raise _with_hint(error) from None
    except AddressRefused:
        # Its message names the address with its key.
        raise ToolError(f"{service} has an address that is refused", hint=_ADDRESS_HINT) from None
    except ToolError as error:
        # So does the chain of errors.
        raise ToolError(str(error), transient=error.transient, hint=_ADDRESS_HINT) from None
    return _decoded(answer.content, service)


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


def _with_hint(error: StatusError) -> ToolError:
    if error.transient or error.status >= 500:
        after = "" if error.retry_after is None else f"; it asks to wait {error.retry_after:g} s"
        return ToolError(
            f"{error}{after}", transient=True, hint="try again later", retry_after=error.retry_after
        )
    hints = {
        401: "check the key in the environment",
        402: "the key's plan does not cover this",
        403: "check what the key may read",
        404: "it does not know what was asked for; check the code and the suffix",
    }
    moved = "it answers from another address; set that one in the settings" if error.status < 400 else None
    return ToolError(str(error), hint=hints.get(error.status, moved))


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
