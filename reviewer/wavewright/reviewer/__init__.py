"""From a run to a verdict, then to a package.

The door of the room: `make_verifier` asks the gates while a run goes on, with a `ModelJudge` where a rubric decides;
`review_by_code` judges the run, and `review_by_model` lowers that verdict; `replan` would mend it, by recipe or by
model; `build_package` gathers what leaves it, `render_report` and `render_summary` show that. Nothing is imported
before it is used, so that whoever needs a record does not pay for the report.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.reviewer.calibration import Calibration, read_calibration, rubric_hash
    from wavewright.reviewer.files import FileNotWrittenError, write_atomically
    from wavewright.reviewer.gates import make_verifier
    from wavewright.reviewer.judging import GateJudge, ModelJudge
    from wavewright.reviewer.measuring import JudgeCase, JudgeMeasurement, measure_judge, read_cases
    from wavewright.reviewer.model_review import review_by_model
    from wavewright.reviewer.packaging import (
        PackageError,
        build_package,
        package_bytes,
        package_schema,
        read_package,
        write_package,
    )
    from wavewright.reviewer.records import Package, ReviewResult
    from wavewright.reviewer.recovery import RecoveryView, propose_patch, view_for_recovery
    from wavewright.reviewer.replanning import ReplanResult, finished_steps, replan
    from wavewright.reviewer.report import render_report, write_report
    from wavewright.reviewer.review import review_by_code
    from wavewright.reviewer.summary import render_summary

__all__ = [
    "Calibration",
    "FileNotWrittenError",
    "GateJudge",
    "JudgeCase",
    "JudgeMeasurement",
    "ModelJudge",
    "Package",
    "PackageError",
    "RecoveryView",
    "ReplanResult",
    "ReviewResult",
    "build_package",
    "finished_steps",
    "make_verifier",
    "measure_judge",
    "package_bytes",
    "package_schema",
    "propose_patch",
    "read_calibration",
    "read_cases",
    "read_package",
    "render_report",
    "render_summary",
    "replan",
    "review_by_code",
    "review_by_model",
    "rubric_hash",
    "view_for_recovery",
    "write_atomically",
    "write_package",
    "write_report",
]

_HOMES = {
    "Calibration": "calibration",
    "Case": "measuring",
    "FileNotWrittenError": "files",
    "Judge": "judging",
    "Measured": "measuring",
    "ModelJudge": "judging",
    "Package": "records",
    "PackageError": "packaging",
    "RecoveryView": "recovery",
    "Replanned": "replanning",
    "ReviewResult": "records",
    "build_package": "packaging",
    "finished_steps": "replanning",
    "make_verifier": "gates",
    "measure_judge": "measuring",
    "package_bytes": "packaging",
    "package_schema": "packaging",
    "propose_patch": "recovery",
    "read_calibration": "calibration",
    "read_cases": "measuring",
    "read_package": "packaging",
    "render_report": "report",
    "render_summary": "summary",
    "replan": "replanning",
    "review_by_code": "review",
    "review_by_model": "model_review",
    "rubric_hash": "calibration",
    "view_for_recovery": "recovery",
    "write_package": "packaging",
    "write_report": "report",
    "write_whole": "files",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
