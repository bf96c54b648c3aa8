"""A run that ends at any point of its journal comes, resumed, to the very package of one that was never stopped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from wavewright.config.settings import Settings, load_settings
from wavewright.engine.context import ApprovalRequest, RunRequest
from wavewright.engine.session import run_request
from wavewright.executor.events import Event, ItemFinished, StepFinished
from wavewright.executor.journal import MemoryJournal
from wavewright.planner.types import Schedule
from wavewright.reviewer.records import Package, StepReport, Timings

pytestmark = pytest.mark.anyio

TOOLS = '''
from pathlib import Path
from typing import TypedDict


class Quote(TypedDict):
    code: str
    as_of: str


def _note(call: str) -> None:
    with Path(__file__).with_name("calls.txt").open("a") as calls:
        calls.write(call + "\\n")


def fetch(code: str, force: bool = False) -> Quote:
    """Fetch a quote: yesterday's, unless it is forced."""
    _note(f"fetch {code} {force}")
    return {"code": code, "as_of": "2010-03-01" if force else "2009-01-01"}


def rate() -> float:
    """Fetch the exchange rate."""
    _note("rate")
    return 1.25


def write_down(quotes: list[Quote], rate: float) -> str:
    """Write the quotes down."""
    _note("write_down")
    return f"{len(quotes)} quotes at {rate}"
'''

SETTINGS = """\
tools:
  - path: desk.py
    functions:
      fetch: {freshness_field: as_of}
      rate: {}
      write_down: {effects: [write], idempotent: true}
"""

TEMPLATE = """\
name: quotes
goal: Write down fresh quotes
available_tools: [{name: fetch}, {name: rate}, {name: write_down}]
inputs_schema: {type: object, properties: {codes: {type: array, items: {type: string}}}}
gates:
  - {id: fresh, on_tool: fetch, fresh_within: 24h}
recipes:
  - {gate: fresh, set_params: {force: true}, reason: the quotes are stale}
"""

JOB = """\
name: two quotes
goal_template: quotes.template.yaml
as_of: 2010-03-01
inputs: {codes: [GNP, SKS]}
plan:
  goal: Write down fresh quotes
  steps:
    - {id: quotes, tool: fetch, for_each: "${inputs.codes}", params: {code: "${item}"}}
    - {id: rate, tool: rate}
    - {id: sheet, tool: write_down, params: {quotes: "${steps.quotes}", rate: "${steps.rate}"}}
  result: ${steps.sheet}
"""


class Agreeing:
    """Approves of everything."""

    async def approve(self, request: ApprovalRequest) -> bool:
        del request
        return True


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for name, text in {
        "desk.py": TOOLS,
        "wavewright.yaml": SETTINGS,
        "quotes.template.yaml": TEMPLATE,
        "quotes.job.yaml": JOB,
    }.items():
        (tmp_path / name).write_text(text)
    return load_settings(tmp_path)


async def package_of(request: RunRequest, settings: Settings, journal: MemoryJournal) -> Package:
    done = await run_request(request, settings=settings, journal=journal, approver=Agreeing())
    await journal.aclose()
    assert done.context.package is not None, done.halted
    return done.context.package


def calls(settings: Settings) -> Counter[str]:
    file = settings.root / "calls.txt"
    made = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return Counter(made)


def timeless(package: Package) -> Package:
    """Return the package without what differs from one run to the next: its times."""
    log = tuple(_timeless_step(report) for report in package.execution_log)
    return package.model_copy(update={"run": "", "timings": Timings(), "execution_log": log})


def _timeless_step(report: StepReport) -> StepReport:
    return report.model_copy(update={"started": None, "seconds": 0.0})


def journaled(events: list[Event]) -> Counter[str]:
    """Return the calls whose end the events hold, as the tools note them."""
    made: Counter[str] = Counter()
    for event in events:
        match event:
            case ItemFinished(step=step, index=index):
                made[f"fetch {('GNP', 'SKS')[index]} {step != 'quotes'}"] += 1
            case StepFinished(step="rate"):
                made["rate"] = 1
            case StepFinished(step="sheet", status="ok"):
                made["write_down"] += 1
            case _:
                pass
    return made


@pytest.mark.parametrize("schedule", ["waves", "dataflow"])
async def test_a_run_that_was_cut_after_any_event_ends_with_the_same_package(
    settings: Settings, schedule: Schedule
) -> None:
    whole = MemoryJournal()
    request = RunRequest(job_file=settings.root / "quotes.job.yaml", schedule=schedule)
    expected = await package_of(request, settings, whole)
    [row] = await whole.list_runs()
    events = await whole.load(row.run)
    all_calls = calls(settings)

    assert expected.status == "achieved"
    assert expected.result == "2 quotes at 1.25"
    assert [patch.round for patch in expected.patches] == [1]
    assert all_calls == journaled(events)

    # The start and the plan as it was given are one append, so no crash can part them.
    for cut in range(2, len(events)):
        journal = MemoryJournal()
        await journal.append(row.run, events[:cut])
        await journal.close_run(row.run)
        package = await package_of(RunRequest(run=row.run), settings, journal)
        made = calls(settings)

        where = f"cut after event {cut}, {type(events[cut - 1]).__name__}"
        assert timeless(package) == timeless(expected), where
        assert made == all_calls - journaled(events[:cut]), where
