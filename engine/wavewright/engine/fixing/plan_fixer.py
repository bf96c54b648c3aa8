"""Fix what is safe to fix in a plan, and verify that nothing else has changed.

The warnings of one kind are fixed together, in rounds. After each, the text is read again: it must hold the intended
value, and the plan must be valid and do the same as before. A fix that fails any of that is left to the author, with
the reason. Nothing here writes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from wavewright.config.documents import Document, read_document
from wavewright.config.sources import DocumentError, pointer_keys
from wavewright.engine.fixing.edits import NotEditable, apply_edits
from wavewright.engine.fixing.fixes import Fix, difference, edits_for, fix_for, fixed_value, merged_steps
from wavewright.engine.jobs.plan_drafts import PlanOrigin
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json

FIXED_CODES = ("W803", "W802")
"""Warnings that can be fixed, in the order of the rounds."""

_MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A plan as its goal has it, with everything that was found in it."""

    bound: Plan
    diagnostics: tuple[Diagnostic, ...]
    """With pointers from the plan, without places."""


PlanChecker = Callable[[Plan], CheckedPlan]


@dataclass(frozen=True, slots=True)
class UnfixedWarning:
    """A warning of a kind that can be fixed, and why this one is not."""

    warning: Diagnostic
    why: str


@dataclass(frozen=True, slots=True)
class FixedDocument:
    """A document after its plan was fixed."""

    origin: PlanOrigin
    """The fixed document, with the place of the plan in it."""
    plan: Plan
    checked: CheckedPlan
    fixes: tuple[Fix, ...]
    unfixed: tuple[UnfixedWarning, ...]


def fix_plan(
    plan: Plan, origin: PlanOrigin, tools: Mapping[str, ToolSignature], judge: PlanChecker
) -> FixedDocument:
    """Return a plan's document with every safe fix; a plan with errors stays as it is."""
    fixed = FixedDocument(origin, plan, judge(plan), (), ())
    for _ in range(_MAX_ROUNDS):
        following = _fix_round(fixed, tools, judge)
        if following.fixes == fixed.fixes:
            return following
        fixed = following
    return fixed


def _fix_round(fixed: FixedDocument, tools: Mapping[str, ToolSignature], judge: PlanChecker) -> FixedDocument:
    """Fix the warnings of the first kind of which any can be fixed, or say why none can."""
    left: list[UnfixedWarning] = []
    for code in FIXED_CODES:
        fixes: list[Fix] = []
        for found in fixed.checked.diagnostics:
            if found.code == code:
                try:
                    fixes.append(fix_for(found, fixed.plan, fixed.checked.bound, tools))
                except NotEditable as reason:
                    left.append(UnfixedWarning(found, str(reason)))
        # All together, or else the first that can be fixed alone.
        alone = [[fix] for fix in fixes]
        for some in alone if len(alone) < 2 else [fixes, *alone]:
            try:
                return _apply_fixes(fixed, some, judge)
            except NotEditable as reason:
                left += [UnfixedWarning(fix.warning, str(reason)) for fix in some if len(some) == 1]
    return replace(fixed, unfixed=tuple(left))


def _apply_fixes(fixed: FixedDocument, fixes: Sequence[Fix], judge: PlanChecker) -> FixedDocument:
    """Return the document after the fixes.

    Raises:
        NotEditable: the text would not hold the intended value, or the plan would do something else.
    """
    origin = _fixed_origin(fixed.origin, fixes)
    plan = Plan.model_validate(_value_at(origin.document, origin.pointer))
    otherwise = difference(fixed.plan, plan, merged_steps(fixes))
    if otherwise is not None:
        raise NotEditable(otherwise)
    judged = judge(plan)
    fault = next((found for found in judged.diagnostics if found.severity == "error"), None)
    if fault is not None:
        msg = f"without it the plan is not valid: {fault.message}"
        raise NotEditable(msg)
    return replace(fixed, origin=origin, plan=plan, checked=judged, fixes=(*fixed.fixes, *fixes))


def _fixed_origin(origin: PlanOrigin, fixes: Sequence[Fix]) -> PlanOrigin:
    document = origin.document
    text = apply_edits(document.source.text, edits_for(document, origin.pointer, fixes))
    try:
        after = read_document(text, document.source.name)
    except DocumentError as error:
        msg = "the text could not be read afterwards"
        raise NotEditable(msg) from error
    if after.value != fixed_value(document.value, origin.pointer, fixes):
        msg = "the text would say something else"
        raise NotEditable(msg)
    return PlanOrigin(after, origin.pointer)


def _value_at(document: Document, pointer: str) -> Json:
    value = document.value
    for key in pointer_keys(pointer):
        assert isinstance(value, dict)
        value = value[key]
    return value
