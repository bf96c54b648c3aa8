"""From a goal to a checked plan: the language, its reader, the checker, the graph, and patches.

This is the room's door. Each name is imported when it is first asked for, so that a program pays for what it uses:
the checker does not load networkx, and a version number loads nothing at all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.planner.allowance import Allowance, InspectableBudgetStore, RemainingBudget
    from wavewright.planner.binding import (
        bind_plan,
        mandatory_caps,
        mandatory_gates,
        template_gate_of,
    )
    from wavewright.planner.catalogue import CATALOGUE, DiagnosticEntry
    from wavewright.planner.checker import check
    from wavewright.planner.diagnostics import Diagnostic, PlanError, locate_diagnostics
    from wavewright.planner.estimates import expected_seconds
    from wavewright.planner.expressions import ExpressionError, TypedEnvironment, evaluate
    from wavewright.planner.goals import Goal, GoalTemplate, Job, Limits, Recipe, Rules
    from wavewright.planner.graph import CriticalPath, PlanGraph
    from wavewright.planner.hashing import canonical_json, content_hash, plan_hash, step_key
    from wavewright.planner.ladder import (
        FallbackFailure,
        FallbackResult,
        Ladder,
        Rung,
        RungRecord,
        RungTimeout,
        run_ladder,
        rung_timeout,
    )
    from wavewright.planner.ladders import read_ladders
    from wavewright.planner.model_port import (
        LoopLimits,
        LoopTool,
        LoopToolError,
        ModelAnswer,
        ModelCall,
        ModelChoice,
        ModelClient,
        ModelError,
        ModelUse,
        NamedCall,
        Role,
        Turn,
    )
    from wavewright.planner.models import Cap, Gate, Plan, PlanPatch, Retry, Step
    from wavewright.planner.patches import (
        PatchCheck,
        PatchRefused,
        apply_patch,
        check_patch,
        patch_fingerprint,
    )
    from wavewright.planner.plan_diff import PlanDiff, diff_plans
    from wavewright.planner.planned import AnsweredQuestion, PlanningAttempt, PlanningResult, UserQuestion
    from wavewright.planner.planning import make_plan
    from wavewright.planner.reader import (
        PlanText,
        read_model,
        read_model_answer,
        read_model_file,
        read_plan,
        read_plan_file,
    )
    from wavewright.planner.references import compile_render, reads, render
    from wavewright.planner.rendering import render_json, render_text
    from wavewright.planner.resolving import check_template, resolve_goal
    from wavewright.planner.sarif import render_sarif
    from wavewright.planner.signatures import Tools, ToolSignature
    from wavewright.planner.spending import (
        BudgetExceeded,
        BudgetScope,
        BudgetStore,
        CallHistory,
        Reservation,
        Spend,
    )
    from wavewright.planner.types import (
        GateId,
        Json,
        JsonObject,
        JsonSchema,
        PlanHash,
        RunId,
        StepId,
        StepKey,
    )
    from wavewright.planner.types_fit import incompatibility
    from wavewright.planner.validators import InvalidSchemaError, Validator, validator_of

__all__ = [
    "CATALOGUE",
    "Allowance",
    "AnsweredQuestion",
    "BudgetExceeded",
    "BudgetScope",
    "BudgetStore",
    "CallHistory",
    "Cap",
    "CriticalPath",
    "Diagnostic",
    "DiagnosticEntry",
    "ExpressionError",
    "FallbackFailure",
    "FallbackResult",
    "Gate",
    "GateId",
    "Goal",
    "GoalTemplate",
    "InspectableBudgetStore",
    "InvalidSchemaError",
    "Job",
    "Json",
    "JsonObject",
    "JsonSchema",
    "Ladder",
    "Limits",
    "LoopLimits",
    "LoopTool",
    "LoopToolError",
    "ModelAnswer",
    "ModelCall",
    "ModelChoice",
    "ModelClient",
    "ModelError",
    "ModelUse",
    "NamedCall",
    "PatchCheck",
    "PatchRefused",
    "Plan",
    "PlanDiff",
    "PlanError",
    "PlanGraph",
    "PlanHash",
    "PlanPatch",
    "PlanText",
    "PlanningAttempt",
    "PlanningResult",
    "Recipe",
    "RemainingBudget",
    "Reservation",
    "Retry",
    "Role",
    "Rules",
    "RunId",
    "Rung",
    "RungRecord",
    "RungTimeout",
    "Spend",
    "Step",
    "StepId",
    "StepKey",
    "ToolSignature",
    "Tools",
    "Turn",
    "TypedEnvironment",
    "UserQuestion",
    "Validator",
    "apply_patch",
    "bind_plan",
    "canonical_json",
    "check",
    "check_patch",
    "check_template",
    "compile_render",
    "content_hash",
    "diff_plans",
    "evaluate",
    "expected_seconds",
    "incompatibility",
    "locate_diagnostics",
    "make_plan",
    "mandatory_caps",
    "mandatory_gates",
    "patch_fingerprint",
    "plan_hash",
    "read_ladders",
    "read_model",
    "read_model_answer",
    "read_model_file",
    "read_plan",
    "read_plan_file",
    "reads",
    "render",
    "render_json",
    "render_sarif",
    "render_text",
    "resolve_goal",
    "run_ladder",
    "rung_timeout",
    "step_key",
    "template_gate_of",
    "validator_of",
]

_HOMES = {
    "allowance": ("Allowance", "Left", "OpenPurse"),
    "binding": ("bind_plan", "mandatory_caps", "mandatory_gates", "template_gate_of"),
    "catalogue": ("CATALOGUE", "Entry"),
    "checker": ("check",),
    "diagnostics": ("Diagnostic", "PlanError", "place"),
    "estimates": ("expected_seconds",),
    "expressions": ("ExpressionFault", "TypedEnvironment", "evaluate"),
    "goals": ("Goal", "GoalTemplate", "Job", "Limits", "Recipe", "Rules"),
    "graph": ("CriticalPath", "PlanGraph"),
    "hashing": ("canonical_json", "content_hash", "plan_hash", "step_key"),
    "ladder": ("Clock", "Fallen", "Ladder", "Landing", "Rung", "RungRecord", "deadline", "descend"),
    "ladders": ("read_ladders",),
    "model_port": (
        "LoopLimits",
        "LoopTool",
        "LoopToolError",
        "ModelAnswer",
        "ModelCall",
        "ModelChoice",
        "ModelError",
        "Models",
        "ModelUse",
        "NamedCall",
        "Role",
        "Turn",
    ),
    "models": ("Cap", "Gate", "Plan", "PlanPatch", "Retry", "Step"),
    "patches": ("PatchCheck", "PatchRefused", "apply_patch", "check_patch", "fingerprint"),
    "plan_diff": ("PlanDiff", "diff_plans"),
    "planned": ("Answered", "Attempt", "Planned", "UserQuestion"),
    "planning": ("make_plan",),
    "reader": (
        "PlanText",
        "read_model",
        "read_model_answer",
        "read_model_file",
        "read_plan",
        "read_plan_file",
    ),
    "references": ("compile_render", "reads", "render"),
    "rendering": ("render_json", "render_text"),
    "resolving": ("check_template", "resolve_goal"),
    "sarif": ("render_sarif",),
    "signatures": ("ToolSignature", "Tools"),
    "spending": ("Account", "CallHistory", "OverBudget", "Purse", "Reservation", "Spend"),
    "types": ("GateId", "Json", "JsonObject", "JsonSchema", "PlanHash", "RunId", "StepId", "StepKey"),
    "types_fit": ("misfit",),
    "validators": ("BadSchemaError", "Validator", "validator_of"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
