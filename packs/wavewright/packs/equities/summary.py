"""The summary of documents by code, and the checks that it meets the job's requirements.

No model is asked, and the result says so (`method: computed`). A summary that lacks a required
stock, treats a benchmark as a stock or violates its output schema is a failure that names what is
missing and the fix, never a shorter result.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast, get_args

import jsonschema_rs
from pydantic import BaseModel, Field, ValidationError

from wavewright.config import Seconds
from wavewright.packs.equities.documents import (
    AnnouncementsDocument,
    BenchmarkComparison,
    BenchmarkResult,
    Figures,
    IndexDocument,
    InputDocument,
    NewsLine,
    PriceChart,
    PriceLine,
    SharedFigures,
    StockDocument,
    StockResult,
    SummaryDocument,
    benchmark_text,
    comparisons_table,
    news_list,
    stocks_table,
    stocks_text,
)
from wavewright.packs.equities.figures import compare, confidence_by_figure
from wavewright.packs.equities.series_documents import round_numbers
from wavewright.packs.text.markdown_tables import counted
from wavewright.planner import DocumentModel, JsonObject, JsonSchema
from wavewright.tools import ToolError


def missing_tickers(
    stocks: list[StockResult],
    announcements: list[AnnouncementsDocument],
    required: Sequence[str],
    unfit: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return the stocks that were asked for and are not there.

    Raises:
        ToolError: half of them or more are missing; a summary of the rest would be another one.
            Of those whose prices are not fit it says why they are left out.
    """
    present = {stock.code for stock in stocks} | {document.code for document in announcements}
    wanted = list(dict.fromkeys(required))
    missing = [code for code in wanted if code.upper() not in present]
    if missing and len(missing) >= len(wanted) / 2:
        left_out = [code.upper() for code in missing if code.upper() in unfit]
        reasons = "".join(f"; {code} is left out: {unfit[code][0]}" for code in left_out)
        raise ToolError(
            f"the summary lacks {', '.join(map(repr, missing))}; it has {', '.join(sorted(present)) or 'no stock'}"
            + reasons,
            hint=_UNFIT_HINT if left_out else "fetch each of them and pass their documents",
        )
    return missing


_UNFIT_HINT = (
    "give the source newer and more prices, correct those of these days, or name real jumps under "
    "the pack's 'known_jumps'"
)


class MaxAges(DocumentModel):
    """How old the last price of a stock may be, by how often it is observed."""

    daily: Seconds | None = None
    """Where absent, no trading session may have ended since it."""
    others: Seconds


def unfit_reasons(document: StockDocument, ages: MaxAges | None, now: dt.datetime) -> list[str]:
    """Return why no figures of a stock may be shown beside those of others; nothing where they may."""
    if document.figures is None:
        return [f"it has one price only, of {document.as_of}"]
    reasons = [oddity.text for oddity in document.oddities] if document.doubts else []
    if ages is not None and _is_stale(document, ages, now):
        behind = counted(document.sessions_behind, "session")
        reasons.append(
            f"its last price is of {document.as_of}, {behind} behind ({document.calendar})"
        )
    return reasons


def _is_stale(document: StockDocument, ages: MaxAges, now: dt.datetime) -> bool:
    """Whether the last price is older than the gates of the goal template allow."""
    day = dt.datetime.combine(document.as_of, dt.time(), dt.UTC)
    if document.frequency != "daily":
        return now - day > dt.timedelta(days=1, seconds=ages.others)
    if ages.daily is None:
        return document.sessions_behind > 0
    return now - day > dt.timedelta(seconds=ages.daily)


def refuse_benchmarks(stocks: list[StockResult], benchmarks: Sequence[str]) -> None:
    wrong = sorted({stock.code for stock in stocks} & {code.upper() for code in benchmarks})
    if wrong:
        raise ToolError(
            f"{', '.join(map(repr, wrong))} is a benchmark, for comparison only, and stands among the stocks",
            hint="fetch it with fetch_index_data and pass it as benchmark",
        )


def require_schema(summary: JsonObject, schema: JsonSchema) -> None:
    try:
        validator = jsonschema_rs.validator_for(schema)
    except ValueError as error:
        raise ToolError(
            f"the output schema is no JSON Schema: {error}", hint="fix 'output_schema'"
        ) from error
    faults = [
        f"{'.'.join(str(part) for part in error.instance_path) or 'the summary'}: {error.message}"
        for error in validator.iter_errors(summary)
    ]
    if faults:
        more = f", and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise ToolError(
            f"the summary does not satisfy the output schema: {'; '.join(faults[:3])}{more}",
            hint="fetch what is missing, or ask for less in 'output_schema'",
        )


Known = TypeVar("Known", bound=BaseModel)

BY_CODE_ALONE = "; no model wrote any of it."
"""How the paragraph under the title ends; a model that does write something of it says so there
instead.
"""

Title = Annotated[str, Field(min_length=1, max_length=300)]


def analyze_summary(  # noqa: PLR0913 - the parameters of a tool are what plans write
    documents: list[InputDocument],
    title: Title,
    benchmark: InputDocument | Sequence[InputDocument] | None = None,
    announcements: Sequence[InputDocument] = (),
    filter_tags: Sequence[str] = (),
    output_tags: Sequence[str] = (),
    required_tickers: Sequence[str] = (),
    benchmark_codes: Sequence[str] = (),
    output_schema: dict[str, Any] | None = None,
    company_names: Sequence[str | None] = (),
    max_ages: MaxAges | None = None,
    *,
    now: dt.datetime,
) -> SummaryDocument:
    """Analyse documents and write one summary: return, volatility, drawdown, trend, comparison with
    a benchmark.

    Code computes every figure from the prices in the documents; no model is asked.

    Args:
        documents: Documents of fetch_stock_data or fetch_announcements, the primary targets.
        title: Title of the summary.
        benchmark: Document of fetch_index_data, or a list of them, for comparison only.
        announcements: Documents of fetch_announcements to list beside the figures.
        filter_tags: Keep only documents that have all of these tags.
        output_tags: Tags that the summary gets. Set by the engine.
        required_tickers: Stocks that must be in the summary. Set by the engine.
        benchmark_codes: Codes that are benchmarks and so no stocks. Set by the engine.
        output_schema: JSON Schema that the summary must satisfy. Set by the engine.
        company_names: Names of the companies, in the order of the required tickers. Set by the
            engine.
        max_ages: How old a stock's last price may be; an older stock of several is left out. Set
            by the engine.
        now: The run's current time.
    """
    kept = [document for document in documents if set(filter_tags) <= set(document.tags)]
    if not kept:
        raise ToolError(
            f"none of the {len(documents)} documents has the tags {', '.join(filter_tags) or '(none asked)'}",
            hint="pass the documents of a data step, and filter by tags that they have",
        )
    given = [benchmark] if isinstance(benchmark, InputDocument) else [*(benchmark or ())]
    indices = _benchmarks_of(given, kept)
    every = _histories(kept)
    # Figures of doubtful or old prices are worth nothing: such a stock of several is left out. Of one
    # alone the gates of the goal decide.
    unfit: dict[str, list[str]] = {}
    if max(len(every), len(required_tickers)) > 1:
        reasons = {stock.code: unfit_reasons(stock, max_ages, now) for stock in every}
        unfit = {code: texts for code, texts in reasons.items() if texts}
    histories = [stock for stock in every if stock.code not in unfit]
    if every and not histories:
        told = "; ".join(f"{code}: {texts[0]}" for code, texts in unfit.items())
        raise ToolError(f"the prices of every stock are doubtful: {told}", hint=_UNFIT_HINT)
    names = dict(zip(map(str.upper, required_tickers), company_names, strict=False))
    stocks = [_stock_result(document, indices, names.get(document.code)) for document in histories]
    listed = [
        *_documents_of_kind(kept, AnnouncementsDocument),
        *_documents_of_kind(announcements, AnnouncementsDocument),
    ]
    asked_for = required_tickers or [stock.code for stock in every]
    lacking = missing_tickers(stocks, listed, asked_for, unfit)
    missing = [*dict.fromkeys([*lacking, *unfit])]
    refuse_benchmarks(stocks, benchmark_codes)
    left_out = [
        f"{code} is left out: {'; '.join(unfit[code][:3])}"
        if code in unfit
        else f"{code} is missing: there are no prices of it here."
        for code in missing
    ]
    benchmarks = [_benchmark_result(index) for index in indices]
    news = [
        NewsLine(code=document.code, date=item.date, title=item.title, source=item.source)
        for document in listed
        for item in document.items
    ]
    sources = [note for stock in stocks for note in stock.sources]
    sources += [note for index in indices for note in index.sources]
    sources += [note for document in listed for note in document.sources]
    notes = [*left_out, *_shared_notes(stocks, indices)]
    # Warnings of the documents are shown in the text, and already reported by the steps that
    # fetched them.
    inherited = [
        note for document in (*kept, *indices, *announcements) for note in _warnings_of(document)
    ]
    content = _markdown(title, stocks, benchmarks, news, [*notes, *inherited])
    summary = SummaryDocument(
        id=f"summary:{hashlib.sha256(content.encode()).hexdigest()[:16]}",
        kind="summary",
        title=title,
        tags=list(dict.fromkeys(["summary", *output_tags])),
        content=content,
        method="computed",
        as_of=max(
            [*(stock.as_of for stock in stocks), *(line.date for line in news)], default=None
        ),
        stocks=stocks,
        benchmark=benchmarks[0] if benchmarks else None,
        benchmarks=benchmarks,
        missing=missing,
        announcements=news,
        confidence=_lowest_confidences(stocks),
        chart=_chart(histories, indices),
        sources=[*{(note.name, note.location, note.as_of): note for note in sources}.values()],
        warnings=notes,
    )
    if output_schema is not None:
        require_schema(summary.model_dump(mode="json"), output_schema)
    return summary


def _documents_of_kind(documents: Sequence[InputDocument], model: type[Known]) -> list[Known]:
    """Return the documents of one kind, with the fields of that kind.

    Raises:
        ToolError: a document says that it is of the kind and lacks what the kind has.
    """
    (kind,) = get_args(model.model_fields["kind"].annotation)
    return [_read_document(document, model) for document in documents if document.kind == kind]


def _read_document(document: InputDocument, model: type[Known]) -> Known:
    try:
        return model.model_validate(document.model_dump())
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ToolError(
            f"document {document.id!r} of kind {document.kind!r} has no usable {where}: {fault['msg'].lower()}",
            hint="pass the whole output of the tool that fetched it",
        ) from error


def _benchmarks_of(
    given: Sequence[InputDocument], documents: list[InputDocument]
) -> list[IndexDocument]:
    """Return the benchmarks: those that were given, then indices among the documents; each once."""
    wrong = next((document for document in given if document.kind != "index-data"), None)
    if wrong is not None:
        raise ToolError(
            f"the benchmark is document {wrong.id!r} of kind {wrong.kind!r}",
            hint="pass the output of fetch_index_data as benchmark",
        )
    found = [_read_document(document, IndexDocument) for document in given]
    found += _documents_of_kind(documents, IndexDocument)
    return list({index.code: index for index in reversed(found)}.values())[::-1]


def _warnings_of(document: BaseModel) -> list[str]:
    """Return a document's own warnings, whatever its kind."""
    found = document.model_dump(include={"warnings"}).get("warnings")
    return [str(note) for note in cast("list[object]", found)] if isinstance(found, list) else []


def _histories(documents: list[InputDocument]) -> list[StockDocument]:
    found: dict[str, StockDocument] = {}
    for document in _documents_of_kind(documents, StockDocument):
        if document.code in found:
            raise ToolError(
                f"stock {document.code!r} stands twice among the documents",
                hint="pass each stock's document once",
            )
        found[document.code] = document
    return list(found.values())


def _chart(histories: list[StockDocument], indices: list[IndexDocument]) -> PriceChart | None:
    if not histories:
        return None
    documents = [*histories, *indices]
    lines = [PriceLine(name=document.code, points=document.prices) for document in documents]
    return PriceChart(title="Prices, indexed to 100", series=lines)


def _stock_result(
    document: StockDocument, indices: list[IndexDocument], name: str | None
) -> StockResult:
    figures = document.figures
    if figures is None:
        raise ToolError(
            f"stock {document.code!r} has one price only, of {document.as_of}",
            hint="fetch more of its history, or leave it out",
        )
    compared = [(index, _comparison(document, index)) for index in indices]
    comparisons = [comparison for _, comparison in compared if comparison is not None]
    of_first = compared[0][1] if compared else None
    return StockResult(
        **_shown_figures(document, figures),
        name=name or None,
        current_price=document.current_price,
        trend=figures.trend,
        comparison=of_first,
        comparisons=comparisons,
        oddities=document.oddities,
        confidence=confidence_by_figure(figures, of_first, document.oddities),
        observations=figures.observations,
        frequency=figures.frequency,
        evidence=[document.id, *(index.id for index, result in compared if result is not None)],
        sources=document.sources,
    )


def _comparison(document: StockDocument, index: IndexDocument) -> BenchmarkComparison | None:
    """Return a stock against a benchmark; nothing where their currencies differ: there is no rate."""
    if _differ_in_currency(document.currency, index.currency):
        return None
    comparison = compare(document.prices, index.prices, index.code)
    if comparison is None:
        return None
    return BenchmarkComparison.model_validate(round_numbers(comparison.model_dump()))


def _differ_in_currency(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _benchmark_result(index: IndexDocument) -> BenchmarkResult:
    figures = index.figures
    if figures is None:
        raise ToolError(
            f"the benchmark {index.code!r} has one level only, of {index.as_of}",
            hint="fetch more of its history, or compare with another benchmark",
        )
    return BenchmarkResult(
        **_shown_figures(index, figures),
        index_kind=index.index_kind,
        constituents=index.constituents,
    )


def _shown_figures(document: StockDocument | IndexDocument, figures: Figures) -> dict[str, Any]:
    """Return the fields that stocks and benchmarks have in a summary."""
    return {
        **figures.model_dump(include={*SharedFigures.model_fields}),
        "code": document.code,
        "currency": document.currency,
        "as_of": document.as_of,
        "trend_signal": figures.trend.signal,
    }


def _shared_notes(stocks: list[StockResult], indices: list[IndexDocument]) -> list[str]:
    """Return what a reader of the comparison should know: overlap, different dates, nothing in
    common.
    """
    notes: list[str] = []
    if stocks and not indices:
        notes.append("There is no benchmark, so nothing is compared.")
    for index in indices:
        inside = [stock.code for stock in stocks if stock.code in index.constituents]
        if inside:
            are = "is a constituent" if len(inside) == 1 else "are constituents"
            notes.append(
                f"{', '.join(inside)} {are} of the benchmark {index.code}, "
                "which draws beta and correlation towards it."
            )
        foreign = [s.code for s in stocks if _differ_in_currency(s.currency, index.currency)]
        if foreign:
            notes.append(
                f"{', '.join(foreign)} and {index.code} are in different currencies, and are not "
                "compared: there is no rate."
            )
        compared = {s.code for s in stocks if index.code in {c.benchmark for c in s.comparisons}}
        apart = [s.code for s in stocks if s.code not in compared and s.code not in foreign]
        if apart:
            notes.append(
                f"{', '.join(apart)} have fewer than two dates in common with {index.code}."
            )
    doubtful = [
        f"{stock.code}: {oddity.text}." for stock in stocks for oddity in stock.oddities[:5]
    ]
    notes += doubtful
    if len({stock.as_of for stock in stocks}) > 1:
        notes.append("The stocks' last prices are of different dates.")
    if len({stock.since for stock in stocks}) > 1:
        notes.append(
            "The stocks' prices start on different dates; figures over all prices cover different spans."
        )
    return notes


def _lowest_confidences(stocks: list[StockResult]) -> dict[str, float]:
    fields = dict.fromkeys(name for stock in stocks for name in stock.confidence)
    return {name: min(stock.confidence[name] for stock in stocks) for name in fields}


def _markdown(
    title: str,
    stocks: list[StockResult],
    benchmarks: list[BenchmarkResult],
    news: list[NewsLine],
    warnings: list[str],
) -> str:
    made = "Computed by code from the prices" if stocks else "Listed by code"
    lines = [f"# {title}", "", f"{made}{BY_CODE_ALONE}", ""]
    if stocks:
        lines += [stocks_text(stocks), "", *stocks_table(stocks), ""]
        if compared := comparisons_table(stocks):
            lines += [*compared, ""]
    for benchmark in benchmarks:
        lines += [benchmark_text(benchmark), ""]
    if news:
        lines += ["## Announcements", "", *news_list(news), ""]
    if warnings:
        lines += [
            "## To bear in mind",
            "",
            *(f"- {warning}" for warning in dict.fromkeys(warnings)),
            "",
        ]
    return "\n".join(lines)
