"""From a run to a verdict, then to a package.

The door of the room: `make_verifier` asks the gates while a run goes on, `review_by_code` judges it, `propose_patch`
would mend it, `build_package` gathers what leaves it, `render_report` and `render_summary` show that. Nothing is
imported before it is used, so that whoever needs a record does not pay for the report.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.reviewer.files import FileNotWrittenError, write_whole
    from wavewright.reviewer.gates import make_verifier
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
    from wavewright.reviewer.report import render_report, write_report
    from wavewright.reviewer.review import review_by_code
    from wavewright.reviewer.summary import render_summary

__all__ = [
    "FileNotWrittenError",
    "Package",
    "PackageError",
    "RecoveryView",
    "ReviewResult",
    "build_package",
    "make_verifier",
    "package_bytes",
    "package_schema",
    "propose_patch",
    "read_package",
    "render_report",
    "render_summary",
    "review_by_code",
    "view_for_recovery",
    "write_package",
    "write_report",
    "write_whole",
]

_HOMES = {
    "FileNotWrittenError": "files",
    "Package": "records",
    "PackageError": "packaging",
    "RecoveryView": "recovery",
    "ReviewResult": "records",
    "build_package": "packaging",
    "make_verifier": "gates",
    "package_bytes": "packaging",
    "package_schema": "packaging",
    "propose_patch": "recovery",
    "read_package": "packaging",
    "render_report": "report",
    "render_summary": "summary",
    "review_by_code": "review",
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
