"""Test a project's plans with pytest: the types of the fixtures, for annotations.

The *plugin* registers itself where wavewright is installed; a test asks for the fixtures `plan`, `dry_run`, `run_plan`,
`review` and `package` by name. Nothing here is loaded before a test asks for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.engine.testing.calls import Call
    from wavewright.engine.testing.claims import Claim
    from wavewright.engine.testing.loading import DryRunLoader, PlanLoader
    from wavewright.engine.testing.plan_view import PlanView
    from wavewright.engine.testing.redactions import Redaction
    from wavewright.engine.testing.result_views import PackageView, ReviewView
    from wavewright.engine.testing.run_view import RunView
    from wavewright.engine.testing.running import PlanRunner

__all__ = [
    "Call",
    "Claim",
    "DryRunLoader",
    "PackageView",
    "PlanLoader",
    "PlanRunner",
    "PlanView",
    "Redaction",
    "ReviewView",
    "RunView",
]

_HOMES = {
    "Call": "calls",
    "Claim": "claims",
    "DryRunLoader": "loading",
    "PackageView": "result_views",
    "PlanLoader": "loading",
    "PlanRunner": "running",
    "PlanView": "plan_view",
    "Redaction": "redactions",
    "ReviewView": "result_views",
    "RunView": "run_view",
}
"""The module of each public name: a suite that uses none of them pays for none."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
