"""Simulate a plan: run it over stubs, down every branch that can be reached.

A *simulation* is the real pipeline (scheduler, gates, caps, review, recovery) over *stubs* that answer in the tools'
place with outputs of the shapes that the tools promise. It says which branches no output reaches, which gates never
turn, and which steps fail although every tool keeps its promise. No tool is called, no model asked, no file written.
"""

from wavewright.engine.simulation.report import (
    FailureReport,
    ScenarioReport,
    SimulationReport,
    UnreachedBranch,
    as_json,
    as_text,
)
from wavewright.engine.simulation.simulator import SearchBounds, simulate

__all__ = [
    "FailureReport",
    "ScenarioReport",
    "SearchBounds",
    "SimulationReport",
    "UnreachedBranch",
    "as_json",
    "as_text",
    "simulate",
]
