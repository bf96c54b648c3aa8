"""Jobs of the pack `equities` from file to package: services, folders, daily prices, announcements,
demands.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import REPOSITORY, CommandLine
from tests.engine.equities_project import equities_job, run_job, served_prices
from tests.packs.equities.market import MONTHS, write_prices
from tests.packs.equities.price_service import Answer, serving
from wavewright.planner.types import StepId
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package, StepReport

KEY = "sekrit-0123456789"

IMPATIENT = {
    "steps": [
        {
            "id": "prices",
            "tool": "fetch_stock_data",
            "for_each": "${inputs.stocks}",
            "params": {"code": "${item.code}"},
            "retry": {"attempts": 3, "wait_initial": 0.001, "wait_jitter": 0},
        },
        {
            "id": "summary",
            "tool": "analyze_summary",
            "params": {"documents": "${steps.prices}", "title": "T"},
        },
    ],
    "result": "${steps.summary}",
}
"""A plan that does not wait long between attempts."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRICE_KEY", KEY)


def over_http(url: str) -> dict[str, Any]:
    return {
        "prices": {"base_url": url, "api_key_env": "PRICE_KEY", "suffix": ".AU"},
        "exchange": "asx",
    }


def step(package: Package, name: str) -> StepReport:
    return next(report for report in package.execution_log if report.id == StepId(name))


def text_of(folder: Path) -> str:
    """Return every byte that a run left in a folder, as text."""
    return "".join(
        file.read_bytes().decode("latin-1") for file in folder.rglob("*") if file.is_file()
    )


# -- a service over HTTP


def test_a_service_that_asks_to_wait_is_asked_again(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    busy = Answer("slow down", 429, {"Retry-After": "0"})
    with serving(busy, Answer("sorry", 503), Answer(served_prices("2010-03"))) as service:
        ran, package = run_job(
            wavewright, tmp_path, equities_job("GNP", tools=over_http(service.url), plan=IMPATIENT)
        )

    assert ran.code == 0, ran.err
    assert len(service.asked) == 3
    assert "/eod/GNP.AU?" in service.asked[0]
    assert step(package, "prices").attempts == 3


@pytest.mark.parametrize(
    ("answer", "said", "mend"),
    [
        pytest.param(
            Answer("no", 401), "answered 401 Unauthorized", "check the key", id="wrong key"
        ),
        pytest.param(Answer("oh", 500), "answered 500", "try again later", id="broken"),
        pytest.param(Answer("<html>"), "with a page and not with JSON", "log-in page", id="page"),
        pytest.param(
            Answer([{"day": 1}]), "entry 1: no object with date", "shape", id="another shape"
        ),
        pytest.param(
            Answer('[{"date": "2010-03-01", "close": NaN}]'),
            "no prices between",
            "",
            id="NaN",
        ),
    ],
)
def test_a_service_that_fails_ends_in_one_message_with_the_mend(
    wavewright: CommandLine, tmp_path: Path, answer: Answer, said: str, mend: str
) -> None:
    with serving(answer) as service:
        ran, package = run_job(
            wavewright, tmp_path, equities_job("GNP", tools=over_http(service.url), plan=IMPATIENT)
        )
    error = step(package, "prices").error

    assert ran.code == 1
    assert error is not None
    assert said in error.message
    assert error.hint is not None
    assert mend in error.hint
    assert step(package, "summary").status == "blocked"
    assert "Traceback" not in ran.err


def test_the_key_is_in_nothing_that_a_run_leaves(wavewright: CommandLine, tmp_path: Path) -> None:
    with serving(Answer("no", 401), Answer(served_prices("2010-03"))) as service:
        job = equities_job("GNP", tools=over_http(service.url), plan=IMPATIENT)
        run_job(wavewright, tmp_path, job)
        ran, _ = run_job(wavewright, tmp_path, job)

    assert KEY in service.asked[0]
    assert ran.code == 0, ran.err
    assert KEY not in text_of(tmp_path) + ran.out + ran.err


def test_stale_prices_of_a_service_are_fixed_by_asking_it_again(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    with serving(Answer(served_prices("2009-10")), Answer(served_prices("2010-03"))) as service:
        ran, package = run_job(
            wavewright, tmp_path, equities_job("GNP", tools=over_http(service.url))
        )

    assert ran.code == 0, ran.err
    assert package.review is not None
    assert package.review.round == 1
    assert step(package, "prices_2").status == "ok"
    assert isinstance(package.result, dict)
    assert package.result["as_of"] == "2010-03-01"


# -- folders


def test_prices_may_stand_in_parquet_files(wavewright: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    (tmp_path / "prices").mkdir()
    for code, start in (("GNP", 10.0), ("SKS", 50.0)):
        columns = {"date": list(MONTHS), "close": [start + month for month in range(len(MONTHS))]}
        parquet.write_table(arrow.table(columns), tmp_path / "prices" / f"{code}.parquet")

    ran, package = run_job(
        wavewright, tmp_path, equities_job("GNP", "SKS", tools={"prices": "prices"})
    )

    assert ran.code == 0, ran.err
    assert {source.location for source in package.sources} >= {
        "prices/GNP.parquet",
        "prices/SKS.parquet",
    }


@pytest.mark.parametrize(
    ("indices", "kind"),
    [
        pytest.param({"XJO": "index/XJO.csv"}, "series", id="a given series"),
        pytest.param({"XJO": {"codes": ["GNP", "SKS"]}}, "equal_weight_basket", id="a basket"),
    ],
)
def test_an_index_says_what_it_is(
    wavewright: CommandLine, tmp_path: Path, indices: dict[str, Any], kind: str
) -> None:
    for folder, code in (("prices", "GNP"), ("prices", "SKS"), ("index", "XJO")):
        write_prices(tmp_path / folder, code, [100.0 + month for month in range(len(MONTHS))])
    tools = {"prices": "prices", "indices": indices}

    ran, package = run_job(
        wavewright, tmp_path, equities_job("GNP", "SKS", tools=tools, benchmarks=["XJO"])
    )

    assert ran.code == 0, ran.err
    assert isinstance(package.result, dict)
    benchmark = package.result["benchmark"]
    assert isinstance(benchmark, dict)
    assert benchmark["index_kind"] == kind


def test_announcements_are_read_from_markdown_and_from_pages(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    ran = wavewright(
        "run", REPOSITORY / "plans" / "synthetic.job.yaml", "--output", tmp_path / "out"
    )
    [file] = (tmp_path / "out").glob("*/package.json")
    package = read_package(file.read_bytes())
    locations = {source.location or "" for source in package.sources}

    assert ran.code == 0, ran.err
    assert any(place.endswith(".md") for place in locations)
    assert any(place.endswith(".html") for place in locations)
    assert isinstance(package.result, dict)
    news = package.result["news"]
    assert isinstance(news, dict)
    assert isinstance(news["announcements"], list)
    assert {str(line["code"]) for line in news["announcements"] if isinstance(line, dict)} == {
        "ALFA",
        "BRAVO",
    }


# -- how old daily prices may be


def write_daily(folder: Path, code: str, last: dt.date) -> None:
    days = [last - dt.timedelta(days=back) for back in reversed(range(30))]
    write_prices(folder, code, [10.0 + place for place in range(30)], tuple(days))


@pytest.mark.parametrize(
    ("as_of", "inputs", "code"),
    [
        pytest.param("2024-12-02T20:00:00Z", {}, 0, id="the same day"),
        pytest.param("2024-12-03T09:00:00Z", {}, 0, id="the morning after"),
        pytest.param("2024-12-04T20:00:00Z", {}, 1, id="a session behind"),
        pytest.param(
            "2024-12-05T20:00:00Z", {"max_age": "96h"}, 0, id="as old as the job lets it be"
        ),
    ],
)
def test_daily_prices_are_held_to_the_last_session_unless_the_job_says_otherwise(
    wavewright: CommandLine, tmp_path: Path, as_of: str, inputs: dict[str, Any], code: int
) -> None:
    write_daily(tmp_path / "prices", "GNP", dt.date(2024, 12, 2))
    job = equities_job("GNP", as_of=as_of, inputs=inputs, tools={"prices": "prices"})

    ran, package = run_job(wavewright, tmp_path, job)
    red = {
        gate.template_gate for gate in package.gates if gate.has_failed and gate.severity == "block"
    }

    assert ran.code == code
    assert red == ({"fresh_daily"} if code else set())


# -- what the job demands


def test_terminal_summaries_alone_get_what_the_goal_demands(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    write_prices(tmp_path / "prices", "GNP", [10.0 + month for month in range(len(MONTHS))])
    plan = {
        "steps": [
            {"id": "prices", "tool": "fetch_stock_data", "params": {"code": "GNP"}},
            {
                "id": "draft",
                "tool": "analyze_summary",
                "params": {"documents": ["${steps.prices}"], "title": "Draft"},
            },
            {
                "id": "final",
                "tool": "analyze_summary",
                "params": {
                    "documents": ["${steps.prices}"],
                    "title": "After ${steps.draft.title}",
                },
            },
        ],
        "result": "${steps.final}",
    }
    job = equities_job(
        "GNP", tools={"prices": "prices"}, plan=plan, overrides={"output_tags": ["weekly"]}
    )

    ran, package = run_job(wavewright, tmp_path, job)
    tags = {document.title: document.tags for document in package.documents}

    assert ran.code == 0, ran.err
    assert tags["After Draft"] == ("summary", "weekly")
    assert tags["Draft"] == ("summary",)


def test_a_summary_that_lacks_a_stock_is_a_failure_that_names_it(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    for code in ("GNP", "SKS"):
        write_prices(tmp_path / "prices", code, [10.0 + month for month in range(len(MONTHS))])
    plan = {
        "steps": [
            {"id": "prices", "tool": "fetch_stock_data", "params": {"code": "GNP"}},
            {
                "id": "summary",
                "tool": "analyze_summary",
                "params": {"documents": ["${steps.prices}"], "title": "T"},
            },
        ],
        "result": "${steps.summary}",
    }

    ran, package = run_job(
        wavewright, tmp_path, equities_job("GNP", "SKS", tools={"prices": "prices"}, plan=plan)
    )
    error = step(package, "summary").error

    assert ran.code == 1
    assert error is not None
    assert error.message == "the summary lacks 'SKS'; it has GNP"


def test_a_summary_that_breaks_the_output_schema_is_a_failure_that_says_where(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    write_prices(tmp_path / "prices", "GNP", [10.0 + month for month in range(len(MONTHS))])
    schema = {"type": "object", "required": ["recommendation"]}

    ran, package = run_job(
        wavewright,
        tmp_path,
        equities_job("GNP", tools={"prices": "prices"}, overrides={"output_schema": schema}),
    )
    error = step(package, "summary").error

    assert ran.code == 1
    assert error is not None
    assert "recommendation" in error.message
    assert error.hint == "fetch what is missing, or ask for less in 'output_schema'"


JOBS_IN_THREE_FORMATS = {
    "few.job.yaml": """\
name: few
goal_template: stock_analysis
as_of: 2010-03-10
variables: [{code: GNP}]
overrides: {output_tags: [weekly]}
tools: {equities: {prices: prices}}
""",
    "few.job.toml": """\
name = "few"
goal_template = "stock_analysis"
as_of = 2010-03-10
variables = [{code = "GNP"}]
[overrides]
output_tags = ["weekly"]
[tools.equities]
prices = "prices"
""",
    "few.job.json": """\
{"name": "few", "goal_template": "stock_analysis", "as_of": "2010-03-10", "variables": [{"code": "GNP"}],
 "overrides": {"output_tags": ["weekly"]}, "tools": {"equities": {"prices": "prices"}}}
""",
}


def test_a_job_says_the_same_in_yaml_toml_and_json(wavewright: CommandLine, tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "GNP", [10.0 + month for month in range(len(MONTHS))])
    results: list[object] = []
    for name, text in JOBS_IN_THREE_FORMATS.items():
        (tmp_path / name).write_text(text)
        ran = wavewright("run", name, "--output", tmp_path / name.rpartition(".")[2])
        assert ran.code == 0, ran.err
        [file] = (tmp_path / name.rpartition(".")[2]).glob("*/package.json")
        results.append(read_package(file.read_bytes()).result)

    assert results[0] == results[1] == results[2]
    assert isinstance(results[0], dict)
    assert results[0]["tags"] == ["summary", "weekly"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param(
            {"variables": [{"code": "GNP"}, {"code": "GNP"}]},
            "must hold no item twice",
            id="stock twice",
        ),
        pytest.param({"variables": []}, "must have 1 item or more", id="no stock"),
        pytest.param(
            {"inputs": {"max_age": "soon"}}, "the input 'max_age' is 'soon'", id="no duration"
        ),
        pytest.param(
            {"overrides": {"outputs": []}}, "did you mean 'output_tags'?", id="no such field"
        ),
    ],
)
def test_a_job_that_cannot_be_meant_so_is_refused_at_its_place_before_any_call(
    wavewright: CommandLine, tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    job = equities_job("GNP", tools={"prices": "prices"}) | fields
    (tmp_path / "few.job.json").write_text(json.dumps(job))

    ran = wavewright("run", "few.job.json", "--output", tmp_path / "out")

    assert ran.code == 1
    assert said in ran.err
    assert "few.job.json:1:" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_run_that_met_its_time_limit_reports_every_step_and_the_limit(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    write_prices(tmp_path / "prices", "GNP", [10.0 + month for month in range(len(MONTHS))])
    limits = {"limits": {"run_timeout": "1ms"}}

    ran, package = run_job(
        wavewright, tmp_path, equities_job("GNP", tools={"prices": "prices"}, overrides=limits)
    )
    cancelled = [report for report in package.execution_log if report.status == "cancelled"]

    assert ran.code == 1
    assert {report.id for report in cancelled} >= {"summary"}
    assert all("run_timeout" in (report.reason or "") for report in cancelled)
    assert package.review is not None
    assert {action.hint.partition(",")[0] for action in package.review.recovery_actions} == {
        "raise the limit that was reached"
    }
