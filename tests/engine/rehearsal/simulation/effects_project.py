"""A project whose tools would write and send, and raise as soon as they are called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tests.engine.conftest import CommandLine
from wavewright.planner.types import JsonObject

TOOLS = '''
from datetime import date
from typing import NoReturn, TypedDict

from pydantic import AnyUrl, BaseModel


class Site(BaseModel):
    at: AnyUrl
    size: int


class Order(TypedDict):
    id: str
    amount: float
    lines: list[str]
    as_of: date


class Check(TypedDict):
    is_large: bool
    count: int
    note: str | None


def _refuse() -> NoReturn:
    raise SystemExit("a real tool was called")


def list_orders(shop: str, force: bool = False) -> list[str]:
    """List the orders of a shop."""
    _refuse()


def fetch_order(id: str, force: bool = False) -> Order:
    """Fetch an order."""
    _refuse()


def check_order(id: str) -> Check:
    """Check an order."""
    _refuse()


def rate() -> float:
    """Fetch the rate."""
    _refuse()


def send(text: str) -> str:
    """Send a text to everybody."""
    _refuse()


def note(text: str, times: int = 1) -> str:
    """Write a note."""
    _refuse()


def guess(text: str):
    """Return whatever there is."""
    _refuse()


def rows(table: str) -> list[dict]:
    """Return the rows of a table, whichever columns it has."""
    _refuse()


def place(id: str) -> Site:
    """Find the place of an order."""
    _refuse()


def totals(table: str) -> dict[str, float]:
    """Return a sum for each column."""
    _refuse()


def entries(table: str) -> list:
    """Return whatever stands in a table."""
    _refuse()
'''

SETTINGS = """\
tools:
  - path: tools.py
    functions:
      list_orders: {}
      fetch_order: {freshness_field: as_of}
      check_order: {}
      rate: {}
      send: {effects: [egress, write], needs_approval: true}
      note: {effects: [write]}
      guess: {}
      rows: {}
      place: {}
      totals: {}
      entries: {}
"""


@dataclass(frozen=True)
class SimulatedProject:
    """A project folder with one plan in it."""

    folder: Path
    wavewright: CommandLine

    def plan(self, text: str) -> None:
        """Write the plan."""
        (self.folder / "plan.yaml").write_text(text)

    def simulate(self, *options: str) -> JsonObject:
        """Return the report of a simulation of the plan."""
        answer = self.wavewright("dry-run", "plan.yaml", "--simulate", "--format", "json", *options)
        assert answer.err == ""
        import json

        report = cast("JsonObject", json.loads(answer.out))
        assert answer.code == (1 if report["faults"] else 0)
        return report


def write_simulated_project(folder: Path, wavewright: CommandLine) -> SimulatedProject:
    """Write the project."""
    (folder / "tools.py").write_text(TOOLS)
    (folder / "wavewright.yaml").write_text(SETTINGS)
    return SimulatedProject(folder, wavewright)


def scenarios(report: JsonObject) -> dict[str, JsonObject]:
    """Return the scenarios of a report by name."""
    return {str(one["name"]): one for one in cast("list[JsonObject]", report["scenarios"])}


def entries(report: JsonObject, name: str) -> list[JsonObject]:
    """Return a list of objects of a report."""
    return cast("list[JsonObject]", report[name])
