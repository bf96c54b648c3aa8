"""A package like those of every day: three stocks, a benchmark, one item that failed and one
warning.
"""

from __future__ import annotations

from tests.reviewer.scripted_runs import Fails, ScriptedRun, goal_for, plan_of, run_plan, signature
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, LoopToolCalled, ModelCalled, RungTaken
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer import Package, build_package, review_by_code
from wavewright.reviewer.records import Opinion, RefusedAction
from wavewright.tools.functions.tool import AgentToolCall

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
        {
            "id": "notes",
            "tool": "write_notes",
            "for_each": "${steps.prices}",
            "depends_on": ["news"],
        },
        {
            "id": "summary",
            "tool": "analyze_summary",
            "params": {
                "prices": "${steps.prices}",
                "index": "${has(steps.index) ? steps.index : null}",
            },
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
        caps=[
            {"field": "trend", "when": "!has(steps.index)", "max": 0.4, "because": "no benchmark"}
        ],
        result="${steps.summary}",
    )
    goal = goal_for(
        plan,
        job="Three stocks",
        text="Compare three stocks with the XJO index",
        inputs=inputs,
        targets={"key": "code"},
        gates=[
            {
                "id": "fresh",
                "on_tool": "fetch_stock_data",
                "fresh_within": "24h",
                "hint": "fetch again",
            }
        ],
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


def example_model_events() -> tuple[Event, ...]:
    """Return what models would have left in the example run: a planner, a worker that fell, an
    agent, a reviewer.
    """
    at = example_run().events[-1].at
    summary, news = StepId("summary"), StepId("news")
    uses = (
        ModelUse("planner", "planner", "openai:gpt-5", "truncated", 5200, 900, 0.0155, 4.2, rung="llm"),
        ModelUse("planner", "planner", "openai:gpt-5", "answered", 6100, 1100, 0.0186, 5.1, 2, rung="repaired"),
        ModelUse(
            "worker", "summarise", "openai-chat:local", "answered", 9000, 700, None, 3.0,
            is_estimated=True, rung="suggested", step=summary,
        ),
        ModelUse("agent", "agent", "openai:gpt-5", "answered", 300, 40, 0.001, 1.0, step=news, index=1),
        ModelUse("reviewer", "reviewer", "openai:gpt-5", "answered", 12000, 400, 0.019, 6.0, rung="model"),
    )  # fmt: skip
    rungs = (
        (RungRecord("planner", "llm", "fallen", "the answer was cut off", 4.2), None),
        (
            RungRecord("planner", "repaired", "reached", "", 5.1, 0.95, "the plan was repaired"),
            None,
        ),
        (
            RungRecord("worker summarise", "agent", "fallen", "no object in the answer", 2.0),
            summary,
        ),
        (
            RungRecord("worker summarise", "suggested", "reached", "", 1.0, 0.8, "put together"),
            summary,
        ),
        (RungRecord("reviewer", "model", "reached", "", 6.0), None),
    )
    call = AgentToolCall(
        "fetch_announcements",
        {"code": "SKS", "text": "x" * 500},
        "refused",
        0.0,
        "the cap is reached",
    )
    return (
        *(ModelCalled(at, use) for use in uses),
        *(RungTaken(at, record, step) for record, step in rungs),
        LoopToolCalled(at, news, call, 1),
    )


def example_package_with_models() -> Package:
    """Return the example package as it would be had models planned, worked and reviewed."""
    run = example_run()
    state = fold((*run.events, *example_model_events()))
    review = review_by_code(run.plan, run.goal, state, run.tools)
    opinion = Opinion(
        model="openai:gpt-5",
        goal_achieved=True,
        confidence=0.7,
        summary="All three stocks are compared.",
    )
    refused = RefusedAction(
        action="refetch", step="prices", tool="run_shell", why="the goal does not allow this tool"
    )
    reviewed = review.model_copy(
        update={"reviewer": "model", "opinion": opinion, "refused_actions": (refused,)}
    )
    return build_package(run.plan, run.goal, state, reviewed, run.tools)


def _points(rate: int) -> list[Json]:
    return [[f"2009-{month:02d}-01", 10.0 + month * rate] for month in range(1, 13)]


def _answers() -> dict[str, object]:
    prices: list[Json] = [
        {
            "code": code,
            "as_of": "2010-03-01",
            "rows": 68 if code == "XRO" else 120,
            "source": {
                "id": "prices.csv",
                "name": "prices.csv",
                "as_of": "2010-03-01",
                "tier": "primary",
            },
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
            {
                "subject": "GNP",
                "message": "two closing prices on 2009-07-01",
                "values": [11.5, 11.6],
            }
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
