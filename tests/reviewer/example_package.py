"""A package like those of every day: three stocks, a benchmark, one item that failed and one warning."""

from __future__ import annotations

from tests.reviewer.scripted import Fails, ScriptedRun, goal_for, plan_of, run_plan, signature
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer import Package, build_package, review_by_code

CODES = ("GNP", "SKS", "XRO")

_MARKDOWN = """# Outlook

Computed by code; *no model* wrote this.

| Stock | Return |
|:--|--:|
| GNP | 12 % |

See [the exchange](https://example.org/prices).
"""


_LONG: JsonObject = {
    "id": "long",
    "on": "prices",
    "check": "output.rows > 70",
    "severity": "warn",
    "hint": "a young listing",
}


def example_run() -> ScriptedRun:
    """Return the run that the example package is of."""
    inputs: JsonObject = {"stocks": [{"code": code} for code in CODES]}
    plan = plan_of(
        {
            "id": "prices",
            "why": "every stock needs its price history",
            "tool": "fetch_stock_data",
            "for_each": "${inputs.stocks}",
            "params": {"code": "${item.code}"},
        },
        {"id": "index", "tool": "fetch_index_data", "optional": True},
        {"id": "news", "tool": "fetch_announcements", "for_each": "${inputs.stocks}", "min_ok": 1},
        {"id": "notes", "tool": "write_notes", "for_each": "${steps.prices}", "depends_on": ["news"]},
        {
            "id": "summary",
            "tool": "analyze_summary",
            "params": {"prices": "${steps.prices}", "index": "${has(steps.index) ? steps.index : null}"},
            "depends_on": ["notes"],
        },
        gates=[
            {
                "id": "long",
                "on": "prices",
                "check": "output.rows > 70",
                "severity": "warn",
                "hint": "a young listing",
            }
        ],
        caps=[{"field": "trend", "when": "!has(steps.index)", "max": 0.4, "because": "no benchmark"}],
        result="${steps.summary}",
    )
    goal = goal_for(
        plan,
        job="Three stocks",
        text="Compare three stocks with the XJO index",
        inputs=inputs,
        targets={"key": "code"},
        gates=[{"id": "fresh", "on_tool": "fetch_stock_data", "fresh_within": "24h", "hint": "fetch again"}],
    )
    return run_plan(
        plan,
        _answers(),
        signature("fetch_stock_data", freshness_field="as_of"),
        goal=goal,
        rung="template",
        seconds={"prices": 0.8, "index": 0.3, "news": 0.5, "notes": 0.6, "summary": 0.4},
    )


def example_package() -> Package:
    """Return the package."""
    run = example_run()
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    return build_package(run.plan, run.goal, run.state, review, run.tools)


def _points(rate: int) -> list[Json]:
    return [[f"2009-{month:02d}-01", 10.0 + month * rate] for month in range(1, 13)]


def _answers() -> dict[str, object]:
    prices: list[Json] = [
        {
            "code": code,
            "as_of": "2010-03-01",
            "rows": 68 if code == "XRO" else 120,
            "source": {"id": "prices.csv", "name": "prices.csv", "as_of": "2010-03-01", "tier": "primary"},
        }
        for code in CODES
    ]
    notes: list[Json] = [
        {
            "document": {
                "id": f"notes_{code}",
                "title": f"Notes on {code}",
                "tags": ["notes"],
                "markdown": f"# {code}",
            }
        }
        for code in CODES
    ]
    chart: JsonObject = {
        "title": "Prices",
        "normalise": True,
        "series": [{"name": code, "points": _points(rate)} for rate, code in enumerate(CODES)],
    }
    summary: JsonObject = {
        "id": "outlook",
        "title": "Outlook for three stocks",
        "tags": ["equities", "outlook"],
        "content": _MARKDOWN,
        "confidence": {"trend": 0.7},
        "warnings": ["XRO has fewer prices than the others"],
        "conflicts": [
            {"subject": "GNP", "message": "two closing prices on 2009-07-01", "values": [11.5, 11.6]}
        ],
        "chart": chart,
    }
    return {
        "prices": prices,
        "index": {"level": 4711, "sources": ["XJO levels"]},
        "news": [
            {"items": 2},
            {"items": 1},
            Fails("no folder 'XRO'", hint="put the announcements of XRO there"),
        ],
        "notes": notes,
        "summary": summary,
    }
