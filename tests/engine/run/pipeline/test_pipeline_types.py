"""What mypy says of a pipeline whose phases do not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODULES = ("phase", "pipeline")
DECLARATIONS = """
from dataclasses import dataclass
from wavewright.engine.run.pipeline.phase import PhaseResult, proceed
from wavewright.engine.run.pipeline.pipeline import Pipeline, maybe, when

@dataclass(frozen=True)
class Turn:
    text: str

@dataclass(frozen=True)
class Fight:
    round: int

class Greet:
    name = "greet"
    async def run(self, context: Turn) -> PhaseResult[Turn]:
        return proceed(context)

class Strike:
    name = "strike"
    async def run(self, context: Fight) -> PhaseResult[Fight]:
        return proceed(context)

class Begin:
    name = "begin"
    async def run(self, context: Turn) -> PhaseResult[Fight]:
        return proceed(Fight(1))

def is_long(turn: Turn) -> bool:
    return len(turn.text) > 9

def is_over(fight: Fight) -> bool:
    return fight.round > 9

greeted = Pipeline.builder().phase(Greet())
"""
FITTING = """
greeted.when(is_long, [Greet(), when(is_long, [maybe(is_long, Greet())])]).phase(Begin()).phase(Strike()).build()
"""
REFUSED = (
    "greeted.phase(Strike())",
    "greeted.maybe(is_long, Strike())",
    "greeted.maybe(is_over, Greet())",
    "greeted.when(is_long, [Greet(), Strike()])",
    "greeted.when(is_long, [Greet(), when(is_over, [Strike()])])",
    "greeted.when(is_long, [Begin()])",
    "greeted.phase(Begin()).phase(Greet())",
    "greeted.build().run(Fight(1))",
)


def test_a_phase_of_another_context_is_refused(tmp_path: Path) -> None:
    lines = (DECLARATIONS + FITTING).splitlines()
    file = tmp_path / "turns.py"
    file.write_text("\n".join((*lines, *REFUSED)))
    root = Path(__file__).parents[4]
    # What a pipeline's types are made of, and nothing else of the engine, which would take half a
    # minute.
    types = [root / "engine/wavewright/engine/run/pipeline" / f"{name}.py" for name in MODULES]
    options = [
        "--strict",
        "--no-error-summary",
        "--follow-imports=skip",
        "--cache-dir",
        str(tmp_path),
    ]

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *options, file, *types],
        cwd=root,
        check=False,
        capture_output=True,
        text=True,
    )

    told = [line.partition("turns.py:")[2] for line in checked.stdout.splitlines()]
    found = {int(line.partition(":")[0]) for line in told if ": error:" in line}
    assert found == {len(lines) + 1 + number for number in range(len(REFUSED))}, (
        checked.stdout + checked.stderr
    )
