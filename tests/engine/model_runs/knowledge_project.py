"""A project whose notes become a graph, and what its model is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.engine.conftest import CommandLine
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.executor.events.codec import from_json
from wavewright.executor.events.types import Event
from wavewright.planner.types import Json, JsonObject

READING: Final = "Read the text in the block"
"""What the model is asked for each chunk."""
REVIEW: Final[JsonObject] = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was read.",
    "missing_data": [],
    "recovery_actions": [],
}

CREWS: Final = {
    "Fulmar": "Odd Brandt",
    "Gannet": "Ines Varga",
    "Kittiwake": "Hanna Lund",
    "Petrel": "Mira Fenn",
    "Razorbill": "Tobias Renn",
    "Shearwater": "Piet Morrow",
}
"""Boats and who commands them, in the order in which their notes are read."""
FLEET: Final = {
    f"{boat.lower()}.md": f"# {boat}\n\n{boat} is a boat of the Skerry Line. {keeper} commands {boat} every winter.\n"
    for boat, keeper in CREWS.items()
}
"""A note about each boat, of one chunk."""


def boat_of(request: FakeModelRequest) -> str | None:
    """Return the boat whose note a request is about."""
    return next(
        (boat for boat in CREWS if READING in request.text and f"{boat} is a boat" in request.text),
        None,
    )


def records_of(boat: str) -> JsonObject:
    """Return the records that a model finds in the note about a boat."""
    keeper = CREWS[boat]
    quotes: list[Json] = [f"{keeper} commands {boat} every winter."]
    return {
        "observations": [{"entity": boat, "text": f"{boat} sails in winter.", "quotes": quotes}],
        "entities": [
            {"name": keeper, "type": "person", "quotes": quotes},
            {"name": boat, "type": "boat", "quotes": quotes},
        ],
        "relations": [{"source": keeper, "relation": "commands", "target": boat, "quotes": quotes}],
    }


class Notes:
    """A project with a folder of notes and their graph."""

    def __init__(self, folder: Path, wavewright: CommandLine, notes: Mapping[str, str]) -> None:
        """Write the notes, by file name, and settings by which the templates' own plans are run."""
        self.folder = folder
        self.wavewright = wavewright
        self.report = ""
        (folder / "notes").mkdir()
        for name, text in notes.items():
            (folder / "notes" / name).write_text(text)
        (folder / "wavewright.yaml").write_text(
            json.dumps(
                {
                    "concurrency": 1,
                    "models": {"attempts": 2},
                    "packs": {"knowledge": {"documents": "notes", "graph": {"path": "graph.db"}}},
                    # The templates' own plans, whatever a model would order.
                    "ladders": {"planner": [{"name": "template"}]},
                }
            )
        )

    def write_job(self, template: str, **job: Json) -> Path:
        """Write the job of a goal template over all notes; return its file."""
        given = {"name": "notes", "goal_template": template, "inputs": {"folder": "."}, **job}
        path = self.folder / "notes.job.yaml"
        path.write_text(json.dumps(given))
        return path

    def run(self, template: str, *, code: int = 0, **job: Json) -> dict[str, Any]:
        """Run a job of a goal template over all notes, which ends with a code; return its package."""
        ran = self.wavewright("run", self.write_job(template, **job), "--output", "out")
        assert ran.code == code, ran.out + ran.err
        return self.take_package()

    def take_package(self) -> dict[str, Any]:
        """Return the package that the last run wrote, and delete it; `report` is its page."""
        [package] = (self.folder / "out").glob("*/package.json")
        made: dict[str, Any] = json.loads(package.read_text())
        self.report = package.with_name("report.html").read_text()
        for file in package.parent.iterdir():
            file.unlink()
        package.parent.rmdir()
        return made

    def events(self, package: dict[str, Any]) -> list[Event]:
        """Return the events of a package's run."""
        told = self.wavewright("show", package["run"], "--format", "events").out
        return [from_json(json.loads(line)) for line in told.splitlines()]
