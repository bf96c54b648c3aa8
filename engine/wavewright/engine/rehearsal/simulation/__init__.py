"""Simulate a plan: run it over stubs, down every branch that can be reached.

A *simulation* is the real pipeline (scheduler, gates, caps, review, recovery) over *stubs* that
answer in the tools' place with outputs of their schemas. It reports which branches no output
reaches, which gates always pass or always fail, and which steps fail although every output is
valid. No tool is called, no model asked, no file written.
"""

from wavewright.engine.rehearsal.simulation.report import SimulationReport, as_json, as_text
from wavewright.engine.rehearsal.simulation.simulator import simulate

__all__ = ["SimulationReport", "as_json", "as_text", "simulate"]
