"""A project whose quotes are stale until they are forced, with a template that has the recipe for
it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

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


def write_quotes_project(folder: Path, *, template: str = TEMPLATE, job: str = JOB) -> None:
    """Write the project into a folder."""
    for name, text in {
        "desk.py": TOOLS,
        "wavewright.yaml": SETTINGS,
        "quotes.template.yaml": template,
        "quotes.job.yaml": job,
    }.items():
        (folder / name).write_text(text)


def take_calls(folder: Path) -> Counter[str]:
    """Return the calls that the tools have noted since they were last asked for."""
    file = folder / "calls.txt"
    made = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return Counter(made)
