"""The desk project of the engine's tests, planned and reviewed by a model behind the wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.engine.conftest import Answer, CommandLine
from tests.engine.stale_quotes_project import JOB, write_quotes_project
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package

TEMPLATE = """\
name: quotes
goal: Write down the quotes
available_tools: [{name: fetch}, {name: rate}, {name: write_down}]
inputs_schema: {type: object, properties: {codes: {type: array, items: {type: string}}}}
"""
UNPLANNED = JOB[: JOB.index("plan:")]
ITS_PLAN = JOB[JOB.index("plan:") :]
PLAN: JsonObject = {
    "steps": [
        {
            "why": "each code has a quote",
            "id": "quotes",
            "tool": "fetch",
            "for_each": "${inputs.codes}",
            "params": {"code": "${item}"},
        },
        {"why": "quotes are in another currency", "id": "rate", "tool": "rate"},
        {
            "why": "what was asked for",
            "id": "sheet",
            "tool": "write_down",
            "params": {"quotes": "${steps.quotes}", "rate": "${steps.rate}"},
        },
    ],
    "result": "${steps.sheet}",
}


def review(**fields: Json) -> JsonObject:
    """Return a kind review, changed as given."""
    kind: JsonObject = {
        "summary": "Both quotes are there.",
        "goal_achieved": True,
        "confidence": 0.9,
        "missing_data": [],
        "recovery_actions": [],
    }
    return {**kind, **fields}


@dataclass(frozen=True, slots=True)
class ModelRunProject:
    """The project in a folder, and its command line."""

    folder: Path
    wavewright: CommandLine

    def write(self, *, template: str = TEMPLATE, settings: str = "") -> None:
        """Write the project; its job brings no plan."""
        write_quotes_project(self.folder, template=template, job=UNPLANNED)
        with (self.folder / "wavewright.yaml").open("a") as file:
            file.write(settings)

    def run(self, *options: str) -> tuple[Answer, Package | None]:
        """Run the job; there is no package where there was no plan."""
        ran = self.wavewright("run", "quotes.job.yaml", "--output", "out", *options)
        files = list((self.folder / "out").glob("*/package.json"))
        return ran, read_package(files[0].read_bytes()) if files else None

    def events(self, kind: str) -> list[JsonObject]:
        """Return the events of a kind of the only run."""
        [row] = json.loads(self.wavewright("runs", "--format", "json").out)
        lines = self.wavewright("show", row["run"], "--format", "events").out.splitlines()
        return [event for line in lines if (event := json.loads(line))["kind"] == kind]
