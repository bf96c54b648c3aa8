"""The report of a run, and how its pictures are drawn."""

from __future__ import annotations

from wavewright.reviewer.report.page import render_report

__all__ = ["render_report"]
