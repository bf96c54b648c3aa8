"""The worker `analyze_summary`: the computed summary with conclusions of a model, each checked.

Code computes the document with figures, confidence, sources and chart, which the model cannot
change. The model adds *conclusions*, each of them about one figure of one stock (`claims`). One that
contradicts the table is sent back, and left out where it stays; one whose sentence says more than
its figure is shown in the words of code. The setting `conclusions` decides what is shown of the rest:
`checked` nothing, `opinions` the model's own words in a part of their own, with a cap on the
confidence; `none` asks no model. Without a model the tool returns the computed summary alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

from wavewright.packs.equities.claims import (
    DIRECTIONS,
    FIGURES,
    PERIODS,
    Conclusion,
    StatedTable,
    read_conclusion,
    stated_table,
)
from wavewright.packs.equities.documents import one_line
from wavewright.packs.equities.summary import BY_CODE_ALONE, require_schema
from wavewright.planner import Json, JsonObject, JsonSchema, as_list, as_object
from wavewright.tools import AnswerRefused, AnswerToFinish, Tool, ToolError, Worker, WorkerSpec

ShownConclusions: TypeAlias = Literal["checked", "opinions", "none"]

WORDED_METHOD = "worded"
_NOT_SHOWN = frozenset(
    {"id", "kind", "tags", "content", "method", "chart", "sources", "announcements"}
)
_NOT_SHOWN_OF_STOCKS = frozenset({"sources", "evidence"})
_MAX_TEXT = 1500

_REFERENCE: Final[JsonSchema] = {
    "stock": {"type": "string", "minLength": 1, "description": "Code of the stock."},
    "figure": {"enum": [*FIGURES], "description": "The one figure that it is about."},
    "period": {
        "enum": [*PERIODS],
        "description": "one year for return_1y, latest for trend and current_price, else all prices.",
    },
    "direction": {
        "enum": [*DIRECTIONS],
        "description": "Sign of the figure; none for volatility, current_price, beta and correlation.",
    },
    "text": {"type": "string", "minLength": 1, "maxLength": 600},
}
_CONCLUSIONS: Final[JsonSchema] = {
    "type": "array",
    "minItems": 1,
    "maxItems": 8,
    "items": {
        "type": "object",
        "required": [*_REFERENCE],
        "additionalProperties": False,
        "properties": _REFERENCE,
    },
    "description": "What follows from the figures, each about one figure of one stock.",
}
_OPINIONS: Final[JsonSchema] = {
    "type": "array",
    "maxItems": 8,
    "items": {"type": "string", "minLength": 1, "maxLength": 600},
    "description": "What the model thinks besides; no code has checked it.",
}


def summary_worker(tools: Sequence[Tool], shown: ShownConclusions) -> Worker:
    """Return the worker over the pack's own tool of the same name."""
    properties: JsonSchema = {
        "method": {
            "enum": ["computed", WORDED_METHOD],
            "description": "computed: code wrote all of it; worded: a model wrote the conclusions.",
        },
        "conclusions": _CONCLUSIONS,
    }
    if shown == "opinions":
        properties["opinions"] = _OPINIONS
    spec = WorkerSpec(
        name="analyze_summary",
        description=(
            "Analyse documents and write one summary: return, volatility, drawdown, trend, comparison "
            "with a benchmark. Code computes every figure; a model adds conclusions in words."
        ),
        prompt="equities/analyze_summary",
        output_schema={"type": "object", "properties": properties},
        writes=tuple(name for name in ("conclusions", "opinions") if name in properties),
        methods={"agent": WORDED_METHOD, "suggested": WORDED_METHOD, "generated": "computed"},
        token_share=0.05,
        tags=frozenset({"analysis"}),
        expected_seconds=15.0,
        timeout=300.0,
    )
    draft = next(tool for tool in tools if tool.signature.name == spec.name)
    finish = partial(add_conclusions, has_opinions=shown == "opinions")
    return Worker(spec, draft=draft, show=model_view, finish=finish)


def model_view(params: JsonObject, draft: JsonObject) -> JsonObject:
    """Return what the model sees: the figures of the document, and what the companies announced."""
    document: JsonObject = {name: value for name, value in draft.items() if name not in _NOT_SHOWN}
    document["stocks"] = [
        {name: value for name, value in stock.items() if name not in _NOT_SHOWN_OF_STOCKS}
        for stock in map(as_object, as_list(draft.get("stocks")))
    ]
    return {"document": document, "announcements": [*_announcement_titles(params)]}


def add_conclusions(found: AnswerToFinish, *, has_opinions: bool) -> Json:
    """Return the computed document with the model's conclusions in it.

    Raises:
        AnswerRefused: a conclusion contradicts the table, and the model may correct it; no
            conclusion is left; or the result breaks its schema.
    """
    answer = as_object(found.answer)
    given = [as_object(item) for item in as_list(answer.get("conclusions"))]
    kept, faults = _read_all(given, stated_table(found.draft))
    # A lie is corrected by the model while it may answer again; in the end it is left out, and what
    # the table holds up stays.
    if faults and not (found.is_last and kept):
        raise AnswerRefused(faults)
    if not kept:
        raise AnswerRefused(["there is no conclusion"])
    opinions = [str(line).strip() for line in as_list(answer.get("opinions"))]
    opinions += [item.text for item in kept if not item.is_verified]
    opinions = [line for line in dict.fromkeys(opinions) if line] if has_opinions else []
    content = _insert_conclusions(str(found.draft["content"]), kept, opinions)
    output: JsonObject = {
        **found.draft,
        "id": f"summary:{hashlib.sha256(content.encode()).hexdigest()[:16]}",
        "content": content,
        "method": WORDED_METHOD,
        "conclusions": [_as_json(item) for item in kept],
        "opinions": [*opinions],
    }
    schema = found.params.get("output_schema")
    try:
        if isinstance(schema, dict):
            require_schema(output, schema)
    except ToolError as error:
        raise AnswerRefused([str(error)]) from error
    return output


def _read_all(
    given: Sequence[JsonObject], table: StatedTable
) -> tuple[list[Conclusion], list[str]]:
    """Return the conclusions that the table holds up, and what is wrong with the others."""
    read = [(item, read_conclusion(item, table)) for item in given]
    kept = [result for _, result in read if isinstance(result, Conclusion)]
    faults = [
        f"the conclusion {one_line(str(item.get('text')))[:80]!r} contradicts the table: {result}"
        for item, result in read
        if isinstance(result, str)
    ]
    return kept, faults


def _as_json(item: Conclusion) -> JsonObject:
    return {
        "stock": item.stated.code,
        "figure": item.stated.figure,
        "period": item.stated.period,
        "direction": item.stated.direction,
        "text": item.shown(),
    }


def _insert_conclusions(content: str, kept: Sequence[Conclusion], opinions: Sequence[str]) -> str:
    """Put the conclusions under the line that says who wrote what; a model's words cannot make
    marks there.
    """
    lines = [
        "; a model chose the conclusions, and code has checked each against the table.",
        "",
        "## Conclusions",
        "",
        *(f"- {one_line(item.shown())}" for item in kept),
    ]
    with_conclusions = content.replace(BY_CODE_ALONE, "\n".join(lines), 1)
    if not opinions:
        return with_conclusions
    below = [
        "## Opinions of the model",
        "",
        "No code has checked these sentences.",
        "",
        *(f"- {one_line(line)}" for line in opinions),
        "",
    ]
    return "\n".join([with_conclusions, *below])


def _announcement_titles(params: JsonObject) -> Iterator[JsonObject]:
    documents = (*as_list(params.get("announcements")), *as_list(params.get("documents")))
    for document in map(as_object, documents):
        if document.get("kind") != "announcements":
            continue
        for item in map(as_object, as_list(document.get("items"))):
            yield {
                "code": document.get("code"),
                "date": item.get("date"),
                "title": item.get("title"),
                "text": str(item.get("text", ""))[:_MAX_TEXT],
            }
