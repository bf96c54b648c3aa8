"""The report of a run, and how its pictures are drawn."""

from __future__ import annotations

from wavewright.reviewer.report.page import REPORT_NAME, render_report, write_report

__all__ = ["REPORT_NAME", "render_report", "write_report"]
