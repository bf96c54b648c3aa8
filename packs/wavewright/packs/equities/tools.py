"""The settings of the pack, and its tools, bound to those of one job.

Paths in settings are relative to the folder of the file they stand in. A key for a provider is
named by its environment variable and never written down. Each tool is a plain typed function; what
it fetches is one document. `now` is the run's current time: nothing dated after it is returned.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from wavewright.config import ReadPath
from wavewright.packs.equities.documents import (
    AnnouncementsDocument,
    IndexDocument,
    SearchDocument,
    SearchHit,
    SourceNote,
    StockDocument,
    one_line,
)
from wavewright.packs.equities.price_files import VEGA_DATASETS, FilePrices, vega_prices
from wavewright.packs.equities.price_service import EodPrices, PriceServiceSettings
from wavewright.packs.equities.price_tables import PriceColumnNames, TableForm
from wavewright.packs.equities.prices import PriceSeries, PriceSource, checked_code, known_at
from wavewright.packs.equities.series_documents import (
    EQUAL_WEIGHT,
    SeriesView,
    basket_document,
    equal_weight_basket,
    index_document,
    require_one_currency,
    stock_document,
)
from wavewright.packs.equities.summary import analyze_summary
from wavewright.packs.web.search import Search, SearchResult, open_search
from wavewright.packs.web.settings import SearchSettings
from wavewright.planner import DocumentModel, Retry
from wavewright.tools import Tool, ToolError, ignore_emission, make_tool


class BasketSettings(DocumentModel):
    """An equal-weight basket of some of the source's codes."""

    kind: Literal["equal_weight_basket"] = "equal_weight_basket"
    codes: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


class EquitiesSettings(DocumentModel):
    """All settings of the pack; each part is optional until a tool needs it."""

    prices: Literal["vega_datasets"] | ReadPath | PriceServiceSettings | None = None
    """`vega_datasets`, a folder, a file, or a provider."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] | None = None
    exchange: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,11}$")] = "local"
    """First part of document ids, such as `asx` in `asx:GNP:stock_collector`."""
    indices: dict[str, ReadPath | BasketSettings] = {}
    """Benchmark code → a price file, or a basket. `EQUAL_WEIGHT`, the basket of all codes, is
    always there.
    """
    announcements: ReadPath | None = None
    """A folder of Markdown or HTML files with dates."""
    search: SearchSettings | None = None
    """Provider of `search_web`."""
    conclusions: Literal["checked", "opinions", "none"] = "checked"
    """What of a model's words `analyze_summary` shows: conclusions that code has checked, its
    opinions in a part of their own too, or nothing.
    """
    calendar: Annotated[str, Field(pattern=r"^[A-Z]{4}$")] | None = None
    """Exchange whose trading sessions freshness counts, by its MIC, such as `XNYS` (with the
    package `exchange-calendars`); weekdays where absent.
    """
    known_jumps: dict[str, Annotated[tuple[dt.date, ...], Field(strict=False)]] = {}
    """Code → days on which its price really jumped as by a split."""
    columns: PriceColumnNames = PriceColumnNames()
    """Names of the columns of price files, where they are not recognised."""
    date_format: str | None = None
    """Form of the dates of price files, as for `strptime`, where it is not recognised."""


def open_price_source(settings: EquitiesSettings, root: Path) -> PriceSource:
    """Return where prices come from.

    Raises:
        ToolError: nothing is configured, or what is configured is not installed.
    """
    where = settings.prices
    if where is None:
        raise ToolError(
            "no prices are configured",
            hint="set 'prices' for the pack 'equities': a folder of CSV files, "
            f"{VEGA_DATASETS!r} (pip install 'wavewright[equities]'), or {{provider: eodhd, …}}",
        )
    if isinstance(where, PriceServiceSettings):
        return EodPrices(where, settings.currency)
    if where == VEGA_DATASETS:
        return vega_prices()
    return open_price_files(where, settings, root)


def open_price_files(path: str, settings: EquitiesSettings, root: Path) -> FilePrices:
    """Return a folder or file of prices as a source."""
    return FilePrices(
        path=root / Path(path).expanduser(),
        shown=path.rstrip("/"),
        currency=settings.currency,
        form=TableForm(settings.columns, settings.date_format),
    )


Years = Annotated[float, Field(gt=0, le=200)]


class EquityTools:
    """The tools' functions over one job's settings; sources are opened when they are first asked."""

    def __init__(self, settings: EquitiesSettings, root: Path) -> None:
        self._settings = settings
        self._root = root

    @cached_property
    def _source(self) -> PriceSource:
        return open_price_source(self._settings, self._root)

    def fetch_stock_data(
        self,
        code: str,
        years: Years | None = None,
        force: bool = False,
        *,
        now: dt.datetime,
        config: dict[str, Any],
    ) -> StockDocument:
        """Fetch the price history of one stock, with its figures.

        Gives one document: current price, dated prices, return, volatility, drawdown and trend
            signal.

        Args:
            code: The stock's code, such as AAPL.
            years: How many years of prices to return, counted back from the last one; all where
                absent.
            force: Read the source again, past every cache.
        """
        series = self._known(checked_code(code), now, years or _years_of(config), force=force)
        return stock_document(
            series,
            exchange=self._settings.exchange,
            currency=self._currency,
            view=self._view(series, now),
        )

    def fetch_index_data(
        self,
        code: str,
        years: Years | None = None,
        force: bool = False,
        *,
        now: dt.datetime,
        config: dict[str, Any],
    ) -> IndexDocument:
        """Fetch the levels of a benchmark index, for comparison only.

        The index is a given series, or an equal-weight basket of stocks, which then says so in
        index_kind and names its constituents. The code EQUAL_WEIGHT is the basket of all stocks
        that the price source has; what of them cannot be read is left out and named, where it is
        less than half.

        Args:
            code: The benchmark's code, such as XJO or EQUAL_WEIGHT.
            years: How many years of levels to return, counted back from the last one; all where
                absent.
            force: Read the source again, past every cache.
        """
        shown = checked_code(code)
        span = years or _years_of(config)
        setting = self._index_setting(shown)
        if isinstance(setting, BasketSettings):
            return self._basket(shown, setting.codes, now, span, force=force)
        if setting is not None:
            source = open_price_files(setting, self._settings, self._root)
            today = now.astimezone(dt.UTC).date()
            series = known_at(source.read(shown, today, fresh=force), now, years=span)
        elif shown == EQUAL_WEIGHT:
            codes = self._source.codes()
            return self._basket(shown, codes, now, span, force=force, skips_unreadable=True)
        else:
            series = self._own_series(shown, now, span, force=force)
        currency = self._settings.currency if isinstance(setting, str) else self._currency
        view = self._view(series, now)
        return index_document(
            series, exchange=self._settings.exchange, currency=currency, view=view
        )

    def fetch_announcements(
        self,
        code: str,
        days: Annotated[int, Field(ge=1, le=36500)] = 365,
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
        *,
        now: dt.datetime,
    ) -> AnnouncementsDocument:
        """Fetch a company's announcements, latest first.

        Args:
            code: The stock's code, such as AAPL.
            days: How many days back to look.
            limit: How many announcements to return at most.
        """
        from wavewright.packs.equities.announcements import read_announcements

        return read_announcements(
            self._settings.announcements,
            self._root,
            code=checked_code(code),
            days=days,
            limit=limit,
            now=now,
            exchange=self._settings.exchange,
        )

    @cached_property
    def _search(self) -> Search:
        return open_search(self._settings.search, self._root, pack="equities")

    async def search_web(
        self,
        query: Annotated[str, Field(min_length=1, max_length=400)],
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
        *,
        now: dt.datetime,
    ) -> SearchDocument:
        """Search the web for news and information.

        Args:
            query: What to search for.
            limit: How many results to return at most.
        """
        # Today's web knows what came after a run of the past, and its pages have no dates.
        if dt.datetime.now(dt.UTC) - now > dt.timedelta(days=1):
            raise ToolError(
                f"the run takes {now.date()} for now, and a web search finds what was written since",
                hint="leave the search out of an analysis of the past, or run the job without 'as_of'",
            )
        return _search_document(query, await self._search(query, limit, ignore_emission))

    @property
    def _currency(self) -> str | None:
        return self._settings.currency or self._source.currency

    def _view(self, series: PriceSeries, now: dt.datetime) -> SeriesView:
        known = {
            day
            for code, days in self._settings.known_jumps.items()
            if code.upper() == series.code
            for day in days
        }
        today = now.astimezone(dt.UTC).date()
        return SeriesView(today, self._settings.calendar, frozenset(known))

    def _known(
        self, code: str, now: dt.datetime, years: float | None, *, force: bool
    ) -> PriceSeries:
        today = now.astimezone(dt.UTC).date()
        return known_at(self._source.read(code, today, fresh=force), now, years=years)

    def _own_series(
        self, code: str, now: dt.datetime, years: float | None, *, force: bool
    ) -> PriceSeries:
        """Return a benchmark that the price source has under its own code."""
        try:
            return self._known(code, now, years, force=force)
        except ToolError as error:
            if error.transient:
                raise
            configured = [*self._settings.indices, EQUAL_WEIGHT]
            hint = (
                f"set {code!r} under 'indices' to a price file or to a basket "
                f"{{codes: [...]}}; configured are {', '.join(configured)}"
            )
            raise ToolError(f"no benchmark is called {code!r}: {error}", hint=hint) from error

    def _index_setting(self, code: str) -> str | BasketSettings | None:
        return next(
            (value for name, value in self._settings.indices.items() if name.upper() == code), None
        )

    def _basket(
        self,
        code: str,
        codes: tuple[str, ...],
        now: dt.datetime,
        years: float | None,
        *,
        force: bool,
        skips_unreadable: bool = False,
    ) -> IndexDocument:
        if not codes:
            raise ToolError(
                f"the price source cannot list its codes, so there is no basket {code!r} of all of them",
                hint=f"name the basket's codes under 'indices': {{{code}: {{codes: [...]}}}}",
            )
        today = now.astimezone(dt.UTC).date()
        members: dict[str, PriceSeries] = {}
        not_yet: list[str] = []
        unreadable: dict[str, ToolError] = {}
        for listed in sorted(codes, key=str.upper):
            try:
                member = checked_code(listed)
                series = self._source.read(member, today, fresh=force)
            except ToolError as error:
                if error.transient or not skips_unreadable:
                    raise
                unreadable[listed] = error
                continue
            if series.prices[0].date > today:
                not_yet.append(member)
            else:
                members[member] = known_at(series, now, years=years)
        if 2 * len(unreadable) >= len(codes):
            # As of stocks: where half of them are missing, what is left says nothing of all.
            raise next(iter(unreadable.values()))
        require_one_currency(members)
        warnings = [
            f"{listed} is not in the basket {code}: {error.message}"
            for listed, error in unreadable.items()
        ]
        if not_yet:
            warnings.append(f"not in the basket, for want of a price: {', '.join(not_yet)}")
        levels = equal_weight_basket({member: series.points for member, series in members.items()})
        return basket_document(
            code,
            levels,
            members,
            exchange=self._settings.exchange,
            view=SeriesView(today, self._settings.calendar),
            warnings=tuple(warnings),
        )


def _search_document(query: str, found: list[SearchResult]) -> SearchDocument:
    hits = [SearchHit(title=one["title"], url=one["url"], text=one["snippet"]) for one in found]
    return SearchDocument(
        id=f"web:{hashlib.sha256(query.encode()).hexdigest()[:12]}:web_search",
        kind="web-search",
        title=f"Web search: {query}",
        tags=["web-search"],
        content="\n".join(
            [
                f"# {one_line(query)}",
                "",
                *(f"- {one_line(hit.title)}: {hit.url}" for hit in hits),
                "",
            ]
        ),
        query=query,
        items=hits,
        sources=[
            SourceNote(name=hit.title or hit.url, location=hit.url, as_of=None) for hit in hits
        ],
        warnings=[],
    )


def _years_of(config: dict[str, Any]) -> float | None:
    """Return the goal's own `years` for this tool."""
    years = config.get("years")
    if years is None or (
        isinstance(years, int | float) and not isinstance(years, bool) and years > 0
    ):
        return years
    raise ToolError(
        f"the goal's configuration of this tool has years: {years!r}",
        hint="write a number of years above zero",
    )


def equity_tools(settings: EquitiesSettings, root: Path) -> tuple[Tool, ...]:
    """Return the pack's five tools."""
    functions = EquityTools(settings, root)
    over_http = isinstance(settings.prices, PriceServiceSettings)
    fetches: dict[str, Any] = {
        "effects": {"read", "egress"} if over_http else {"read"},
        "tags": {"data"},
        "deterministic": True,
        "freshness_field": "as_of",
        "expected_seconds": 2.0 if over_http else 0.05,
        "cache_for": "1h" if over_http else None,
        "retry": Retry(attempts=3),
        "timeout": "2m",
        # A code that the source does not know is an error of the call, whoever has written it.
        "accepts_untrusted": {"code"},
        # What is kept for other runs is no answer for a job that names another source.
        "settings": [settings.model_dump(mode="json"), str(root)] if over_http else None,
    }
    return (
        make_tool(functions.fetch_stock_data, **fetches),
        make_tool(functions.fetch_index_data, **fetches),
        make_tool(
            functions.fetch_announcements,
            deterministic=True,
            tags={"data"},
            expected_seconds=0.1,
            untrusted_output=True,
            timeout="2m",
        ),
        make_tool(
            functions.search_web,
            effects={"read", "egress"},
            accepts_untrusted={"query"},
            tags={"data"},
            expected_seconds=2.0,
            untrusted_output=True,
            retry=Retry(attempts=3),
            timeout="2m",
        ),
        make_tool(
            analyze_summary,
            deterministic=True,
            tags={"analysis"},
            expected_seconds=0.1,
            timeout="2m",
        ),
    )
