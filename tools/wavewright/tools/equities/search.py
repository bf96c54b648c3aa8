"""Web search through a service that answers with JSON, such as a SearXNG of one's own."""

from __future__ import annotations

import datetime as dt
import hashlib
from urllib.parse import urlsplit

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.calls import ToolError
from wavewright.tools.equities.documents import SearchDocument, SearchHit, SourceNote
from wavewright.tools.equities.http_json import get_json, key_from_environment
from wavewright.tools.equities.settings import SearchServiceSettings
from wavewright.tools.equities.wording import one_line

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
