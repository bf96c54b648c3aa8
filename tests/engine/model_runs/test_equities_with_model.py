"""The whole way over a real wire: a model plans, stale prices are found, a review says no, a model
mends the plan.

Prices come from a real service that gives old ones until it is asked to read again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import Answer, CommandLine
from tests.engine.equities_project import equities_job, served_prices
from tests.packs.equities.price_service import Answer as Served, serving
from wavewright.engine.rehearsal.fake_model.request import WIRES, Wire
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer, asked_for
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package

PLAN: JsonObject = {
    "reasoning": "The prices first, then one summary of them.",
    "steps": [
        {
            "why": "the summary is about their prices",
            "id": "prices",
            "tool": "fetch_stock_data",
            "for_each": "${inputs.stocks}",
            "params": {"code": "${item.code}"},
        },
        {
            "why": "what was asked for",
            "id": "outlook",
            "tool": "analyze_summary",
            "params": {
                "documents": "${steps.prices}",
                "title": "Outlook for ${inputs.stocks.size()} stock",
            },
        },
    ],
    "result": "${steps.outlook}",
}
NO: JsonObject = {
    "summary": "The prices end in October 2009, so there is no outlook.",
    "goal_achieved": False,
    "confidence": 0.1,
    "missing_data": ["prices of the last 45 days"],
    "recovery_actions": [
        {
            "action": "refetch",
            "step": "prices",
            "tool": "fetch_stock_data",
            "hint": "read the source again with force",
        }
    ],
}
YES: JsonObject = {
    "summary": "The outlook names the stock and rests on prices of March 2010.",
    "goal_achieved": True,
    "confidence": 0.9,
    "missing_data": [],
    "recovery_actions": [],
}
PATCH: JsonObject = {
    "reason": "the prices were stale: read the source again, past every cache",
    "ops": [
        {
            "op": "add",
            "step": {
                "why": "newer prices",
                "id": "prices_again",
                "tool": "fetch_stock_data",
                "for_each": "${inputs.stocks}",
                "params": {"code": "${item.code}", "force": True},
                "supersedes": "prices",
            },
        }
    ],
    "expect": ["fresh__prices_again"],
}
CONCLUSIONS: JsonObject = {
    "conclusions": [
        {
            "stock": "GNP",
            "figure": "period_return",
            "period": "all prices",
            "direction": "up",
            "text": "GNP has risen over all prices.",
        }
    ]
}
PRICE_KEY = "sekrit-prices-0123456789"
SETTINGS = "models: {prices: {scripted: {input: 1.0, output: 2.0}}}\n"


def ask_for_help(monkeypatch: pytest.MonkeyPatch, server: FakeModelServer, wire: Wire) -> None:
    monkeypatch.setenv("PRICE_KEY", PRICE_KEY)
    for name, value in server.environment(wire).items():
        monkeypatch.setenv(name, value)
    server.answer(PLAN, when=asked_for("plan"))
    server.answer(NO, YES, when=asked_for("review"))
    server.answer(PATCH, when=asked_for("patch"))
    server.answer(CONCLUSIONS, when=asked_for("analyze_summary"))


def job_without_recipes(url: str) -> dict[str, Any]:
    tools = {
        "prices": {"base_url": url, "api_key_env": "PRICE_KEY", "suffix": ".AU"},
        "exchange": "asx",
    }
    return equities_job("GNP", tools=tools, overrides={"recipes": []})


def run_stale(wavewright: CommandLine, folder: Path, *options: str) -> tuple[Answer, Package, int]:
    """Run the job on a service whose prices are stale at first; also return how often that was
    asked.
    """
    with serving(Served(served_prices("2009-10")), Served(served_prices("2010-03"))) as service:
        (folder / "few.job.json").write_text(json.dumps(job_without_recipes(service.url)))
        ran = wavewright("run", "few.job.json", "--output", folder / "out", *options)
    [file] = (folder / "out").glob("*/package.json")
    return ran, read_package(file.read_bytes()), len(service.asked)


def step_names(package: Package) -> dict[str, str]:
    return {str(report.id): report.status for report in package.execution_log}


@pytest.mark.parametrize("wire", WIRES)
def test_a_model_plans_and_mends_a_run_whose_data_was_stale(
    wire: Wire,
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "wavewright.yaml").write_text(SETTINGS)
    ask_for_help(monkeypatch, model_server, wire)

    ran, package, fetched = run_stale(wavewright, tmp_path, "--approve", "always")

    assert ran.code == 0, ran.err
    assert not model_server.unmatched
    assert {request.wire for request in model_server.requests} == {wire}
    assert (package.status, package.rung) == ("achieved", "llm")
    assert fetched == 2
    assert step_names(package) == {"prices": "ok", "prices_again": "ok", "outlook": "ok"}
    assert {
        gate.template_gate for gate in package.gates if gate.has_failed and gate.severity == "block"
    } == {"fresh"}
    assert isinstance(package.result, dict)
    assert package.result["as_of"] == "2010-03-01"
    assert package.result["conclusions"] == CONCLUSIONS["conclusions"]
    [first] = package.earlier_reviews
    assert not first.goal_achieved
    [patch] = package.patches
    assert (patch.round, patch.rung, patch.reason) == (1, "model", PATCH["reason"])
    assert package.review is not None
    assert (package.review.goal_achieved, package.review.round) == (True, 1)


def test_what_each_call_cost_is_in_the_package_and_shown(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "wavewright.yaml").write_text(SETTINGS)
    ask_for_help(monkeypatch, model_server, "chat")

    ran, package, _ = run_stale(wavewright, tmp_path, "--approve", "always")
    shown: Answer = wavewright("show", package.run)

    uses = package.model_uses
    read = sum(request.character_count // 4 for request in model_server.requests)
    assert ran.code == 0, ran.err
    assert uses.total.calls == len(model_server.requests) == 5
    assert {one.name: one.cost.calls for one in uses.roles} == {
        "planner": 1,
        "reviewer": 2,
        "recovery": 1,
        "worker": 1,
    }
    assert [one.name for one in uses.steps] == ["outlook"]
    assert uses.total.input_tokens == read
    assert package.orchestrator_tokens + package.worker_tokens == uses.total.tokens
    assert package.worker_tokens == next(
        one.cost.tokens for one in uses.roles if one.name == "worker"
    )
    assert uses.total.usd == pytest.approx((read + 2 * uses.total.output_tokens) / 1e6)
    assert f"{uses.total.tokens:,}" in shown.out


def test_nothing_of_the_key_is_left_and_the_recovery_planner_saw_no_data(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_for_help(monkeypatch, model_server, "chat")

    ran, _, _ = run_stale(wavewright, tmp_path, "--approve", "always")
    [asked] = [request for request in model_server.requests if request.schema_name == "patch"]
    left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())

    assert ran.code == 0, ran.err
    assert API_KEY.encode() not in left
    assert PRICE_KEY.encode() not in left
    assert all(PRICE_KEY not in request.text for request in model_server.requests)
    assert all(request.had_key for request in model_server.requests)
    assert "2009-10-01" not in asked.text
    assert "fresh" in asked.text


def test_a_patch_that_sends_out_what_the_plan_sent_needs_no_persons_word(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_for_help(monkeypatch, model_server, "chat")

    ran, package, fetched = run_stale(wavewright, tmp_path, "--approve", "never")

    assert ran.code == 0
    assert fetched == 2
    assert len(package.patches) == 1
    assert package.status == "achieved"
