"""The worker `analyze_summary`: the computed summary with conclusions of a model, whose figures are
verified.

Code computes the document with figures, confidence, sources and chart, which the model cannot
change. The model adds *conclusions*: sentences in which every figure must be *supported*, or the
answer is sent back. A figure is supported if rounding a number of the document gives it, as it is
or as percent; a written sign must match. Dates must occur in the document literally; counts up to
twelve need no support. Without a model the tool returns the computed summary alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from wavewright.packs.equities.documents import one_line
from wavewright.packs.equities.summary import BY_CODE_ALONE, require_schema
from wavewright.planner import Json, JsonObject, as_list
from wavewright.tools import AnswerRefused, AnswerToFinish, Tool, ToolError, Worker, WorkerSpec

_DATE = re.compile(r"\b\d{4}-\d{2}(?:-\d{2})?\b")
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.,)])[+\N{MINUS SIGN}-]\s?)?"
    r"(?<![\w.])(?P<digits>\d{1,3}(?:,\d{3})+|\d+)(?P<decimals>\.\d+)?(?P<unit>\s?(?:%|per ?cent\b))?"
)
_MAX_COUNT = 12


def unsupported_figures(text: str, document: Json) -> tuple[str, ...]:
    """Return the figures and dates of a text that the document does not hold, as they are written."""
    numbers, words = _contents(document)
    known = " ".join(words)
    wrong = [date for date in _DATE.findall(text) if date not in known]
    of_words = [_value(match) for match in _NUMBER.finditer(_DATE.sub(" ", known))]
    years = [Decimal(date[:4]) for date in _DATE.findall(known)]
    supports = [*numbers, *of_words, *years]
    wrong += [
        match[0].strip()
        for match in _NUMBER.finditer(_DATE.sub(" ", text))
        if not _is_supported(match, supports)
    ]
    return tuple(dict.fromkeys(wrong))


def _contents(document: Json) -> tuple[list[Decimal], list[str]]:
    leaves = [*_leaves(document)]
    numbers = [one for one in leaves if isinstance(one, int | float) and not isinstance(one, bool)]
    return [Decimal(str(one)) for one in numbers], [one for one in leaves if isinstance(one, str)]


def _leaves(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _leaves(member)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _is_supported(match: re.Match[str], supports: list[Decimal]) -> bool:
    stated = abs(_value(match))
    if match["unit"] is None and not match["decimals"] and stated <= _MAX_COUNT:
        return True
    places = len(match["decimals"] or ".") - 1
    scales = (Decimal(100), Decimal(1)) if match["unit"] else (Decimal(1),)
    return any(
        _rounds_to(abs(number) * scale, stated, places) and _has_sign(number, match["sign"])
        for number in supports
        for scale in scales
    )


def _rounds_to(number: Decimal, stated: Decimal, places: int) -> bool:
    # Half a unit of the last place, both ways: either rounding of a half is accepted.
    return abs(number - stated) <= Decimal(5).scaleb(-places - 1)


def _has_sign(number: Decimal, sign: str | None) -> bool:
    if sign is None:
        return True
    return number >= 0 if sign.strip() == "+" else number <= 0


def _value(match: re.Match[str]) -> Decimal:
    value = Decimal(match["digits"].replace(",", "") + (match["decimals"] or ""))
    return -value if (match["sign"] or "").strip() in {"-", "\N{MINUS SIGN}"} else value


WORDED_METHOD = "worded"
_NOT_SHOWN = frozenset(
    {"id", "kind", "tags", "content", "method", "chart", "sources", "announcements"}
)
_NOT_SHOWN_OF_STOCKS = frozenset({"sources", "evidence"})
_MAX_TEXT = 1500

_SPEC = WorkerSpec(
    name="analyze_summary",
    description=(
        "Analyse documents and write one summary: return, volatility, drawdown, trend, comparison with a benchmark. "
        "Code computes every figure; a model adds conclusions in words."
    ),
    prompt="equities/analyze_summary",
    output_schema={
        "type": "object",
        "properties": {
            "method": {
                "enum": ["computed", WORDED_METHOD],
                "description": "computed: code wrote all of it; worded: a model wrote the conclusions.",
            },
            "conclusions": {
                "type": "array",
                "minItems": 1,
                "maxItems": 8,
                "items": {"type": "string", "minLength": 1, "maxLength": 600},
                "description": "What follows from the figures, a sentence or two each; written by a model.",
            },
        },
    },
    writes=("conclusions",),
    methods={"agent": WORDED_METHOD, "suggested": WORDED_METHOD, "generated": "computed"},
    token_share=0.05,
    tags=frozenset({"analysis"}),
    expected_seconds=15.0,
    timeout=300.0,
)


def summary_worker(tools: Sequence[Tool]) -> Worker:
    """Return the worker over the pack's own tool of the same name."""
    draft = next(tool for tool in tools if tool.signature.name == _SPEC.name)
    return Worker(_SPEC, draft=draft, show=model_view, finish=add_conclusions)


def model_view(params: JsonObject, draft: JsonObject) -> JsonObject:
    """Return what the model sees: the figures of the document, and what the companies announced."""
    document: JsonObject = {name: value for name, value in draft.items() if name not in _NOT_SHOWN}
    stocks = draft.get("stocks")
    document["stocks"] = [
        {name: value for name, value in stock.items() if name not in _NOT_SHOWN_OF_STOCKS}
        for stock in as_list(stocks)
        if isinstance(stock, dict)
    ]
    return {"document": document, "announcements": [*_announcement_titles(params)]}


def add_conclusions(found: AnswerToFinish) -> Json:
    """Return the computed document with the model's conclusions in it.

    Raises:
        AnswerRefused: a conclusion states a figure that the document does not hold, or the result
            breaks its schema.
    """
    assert isinstance(found.answer, dict)
    written = [str(line).strip() for line in as_list(found.answer.get("conclusions"))]
    conclusions = [line for line in written if line]
    if not conclusions:
        raise AnswerRefused(["the conclusions are empty"])
    seen = model_view(found.params, found.draft)
    faults = [
        f"the conclusion {one_line(line)[:80]!r} states {', '.join(wrong)}, which stands nowhere in the document: "
        "state only figures that it holds, and compute none"
        for line in conclusions
        if (wrong := unsupported_figures(line, seen))
    ]
    if faults:
        raise AnswerRefused(faults)
    content = _insert_conclusions(str(found.draft["content"]), conclusions)
    output: JsonObject = {
        **found.draft,
        "id": f"summary:{hashlib.sha256(content.encode()).hexdigest()[:16]}",
        "content": content,
        "method": WORDED_METHOD,
        "conclusions": [*conclusions],
    }
    _require_valid(output, found.params.get("output_schema"))
    return output


def _insert_conclusions(content: str, conclusions: list[str]) -> str:
    """Put the conclusions under the line that says who wrote what; a model's words cannot make
    marks there.
    """
    lines = [
        "; a model wrote the conclusions.",
        "",
        "## Conclusions",
        "",
        *(f"- {one_line(c)}" for c in conclusions),
    ]
    return content.replace(BY_CODE_ALONE, "\n".join(lines), 1)


def _require_valid(output: JsonObject, schema: Json) -> None:
    if isinstance(schema, dict):
        try:
            require_schema(output, schema)
        except ToolError as error:
            raise AnswerRefused([str(error)]) from error


def _announcement_titles(params: JsonObject) -> Iterator[JsonObject]:
    for document in (*as_list(params.get("announcements")), *as_list(params.get("documents"))):
        if not isinstance(document, dict) or document.get("kind") != "announcements":
            continue
        for item in as_list(document.get("items")):
            if isinstance(item, dict):
                shown = {name: item.get(name) for name in ("date", "title")}
                yield {
                    "code": document.get("code"),
                    **shown,
                    "text": str(item.get("text", ""))[:_MAX_TEXT],
                }
