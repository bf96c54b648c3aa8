"""`wavewright check --fix`: apply the fixes that are safe, show the difference, and write it to the
file.

The warnings of one kind are fixed together, in rounds. After each, the text is read again: it must
hold the intended value, and the plan must be valid and do the same as before. A fix that fails any
of that is left to the author, with the reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wavewright.config.documents import Document, read_document
from wavewright.config.sources import DocumentError, pointer_keys
from wavewright.engine.interfaces.cli.common.output import CommandError
from wavewright.engine.interfaces.cli.planning.plan_check import (
    CheckBasis,
    CheckedDocument,
    CheckOptions,
    check_plan,
)
from wavewright.engine.interfaces.cli.planning.plan_fixes import (
    Fix,
    difference,
    edits_for,
    fix_for,
    fixed_value,
    merged_steps,
)
from wavewright.engine.interfaces.cli.planning.text_edits import (
    NotEditable,
    apply_edits,
    replace_text,
)
from wavewright.engine.run.jobs.plan_drafts import PlanOrigin
from wavewright.planner.diagnostics.diagnostic import Diagnostic, locate_diagnostics
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.reading.reader import PlanText
from wavewright.planner.types import Json


@dataclass(frozen=True, slots=True)
class PlanFixReport:
    """What was fixed in one document, or would be."""

    fixes: tuple[Fix, ...] = ()
    left: tuple[UnfixedWarning, ...] = ()
    difference: str = ""
    """Of the text, as a unified diff; empty if nothing is fixed."""
    is_written: bool = False

    def as_text(self) -> str:
        """Return the difference and one line for each warning that is fixed or left."""
        word = "fixed" if self.is_written else "would fix"
        lines = [
            *(printable(line) for line in self.difference.splitlines()),
            *(printable(f"{word} {fix.warning.code}: {fix.message}") for fix in self.fixes),
            *(
                printable(f"left {left.warning.code}: {left.warning.message}: {left.why}")
                for left in self.left
            ),
        ]
        return "".join(f"{line}\n" for line in lines)

    def as_json(self) -> dict[str, object]:
        """Return the same as JSON."""
        return {
            "is_written": self.is_written,
            "difference": self.difference,
            "fixes": [{"code": fix.warning.code, "message": fix.message} for fix in self.fixes],
            "left": [
                {"code": left.warning.code, "message": left.warning.message, "why": left.why}
                for left in self.left
            ],
        }


def fix_document(options: CheckOptions, *, writes: bool) -> tuple[CheckedDocument, PlanFixReport]:
    """Check a plan and fix it; return the document as checked afterwards, and what was fixed.

    Raises:
        CommandError: the file is neither JSON nor YAML, or the plan is in a goal template.
        FileChanged: the file has changed since it was read.
        FileNotWrittenError: the file cannot be written.
    """
    _refuse_unwritable(options)
    checked = check_plan(options)
    basis = checked.basis
    if basis is None or basis.document is None or checked.errors:
        return checked, PlanFixReport()
    _refuse_toml(basis.document.source.name)
    fixed = fix_plan(
        basis.plan, PlanOrigin(basis.document, basis.pointer), basis.tools, _plan_checker(basis)
    )
    if fixed.fixes:
        _refuse_elsewhere(basis, options)
    before, after = basis.document.source, fixed.origin.document.source
    if writes and fixed.fixes:
        replace_text(Path(before.name), before=before.text, after=after.text)
    name = printable(before.name)
    lines = difflib.unified_diff(
        before.text.splitlines(keepends=True),
        after.text.splitlines(keepends=True),
        name,
        f"{name} (fixed)",
    )
    difference = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    is_written = writes and bool(fixed.fixes)
    return _checked_again(checked, basis, fixed), PlanFixReport(
        fixed.fixes, fixed.unfixed, difference, is_written
    )


def _refuse_unwritable(options: CheckOptions) -> None:
    if str(options.file) == "-" or options.from_model:
        raise CommandError(
            "only a file can be fixed",
            hint="name a plan's or a job's file, or leave out --fix and --diff",
        )


def _refuse_toml(name: str) -> None:
    if name.lower().endswith(".toml"):
        raise CommandError(
            f"{name!r} is TOML, and only JSON and YAML are fixed",
            hint="leave out --fix; the warnings say what to change",
            place=name,
        )


def _refuse_elsewhere(basis: CheckBasis, options: CheckOptions) -> None:
    """Raise an error if the plan is in a goal template that the command line does not name."""
    assert basis.document is not None
    name = basis.document.source.name
    if basis.rung == "template" and name != str(options.file):
        raise CommandError(
            f"the plan of {str(options.file)!r} is in a goal template, which other jobs may use as well",
            hint=f"fix it there: wavewright check {name} --fix",
            place=name,
        )


def _plan_checker(basis: CheckBasis) -> PlanChecker:
    def judge(plan: Plan) -> CheckedPlan:
        return CheckedPlan(*basis.check(plan))

    return judge


def _checked_again(
    checked: CheckedDocument, basis: CheckBasis, fixed: FixedDocument
) -> CheckedDocument:
    """Return the fixed document as checked: the plan's new diagnostics, and the former ones of what
    is around it.
    """
    if not fixed.fixes:
        return checked
    document = fixed.origin.document
    around = [
        replace(found, span=None)
        for found in checked.diagnostics
        if not found.pointer.startswith(f"{basis.pointer}/")
    ]
    found = locate_diagnostics([*around, *fixed.origin.place(fixed.checked.diagnostics)], document)
    text = PlanText(fixed.plan, document.source, document)
    return replace(checked, text=text, plan=fixed.checked.bound, diagnostics=tuple(found))


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


def _fix_round(
    fixed: FixedDocument, tools: Mapping[str, ToolSignature], judge: PlanChecker
) -> FixedDocument:
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
        NotEditable: the text would not hold the intended value, or the plan would do something
            else.
    """
    origin = _fixed_origin(fixed.origin, fixes)
    plan = Plan.model_validate(_value_at(origin.document, origin.pointer))
    otherwise = difference(fixed.plan, plan, merged_steps(fixes))
    if otherwise is not None:
        raise NotEditable(otherwise)
    judged = judge(plan)
    fault = next((found for found in judged.diagnostics if found.severity == "error"), None)
    if fault is not None:
        raise NotEditable(f"without it the plan is not valid: {fault.message}")
    return replace(fixed, origin=origin, plan=plan, checked=judged, fixes=(*fixed.fixes, *fixes))


def _fixed_origin(origin: PlanOrigin, fixes: Sequence[Fix]) -> PlanOrigin:
    document = origin.document
    text = apply_edits(document.source.text, edits_for(document, origin.pointer, fixes))
    try:
        after = read_document(text, document.source.name)
    except DocumentError as error:
        raise NotEditable("the text could not be read afterwards") from error
    if after.value != fixed_value(document.value, origin.pointer, fixes):
        raise NotEditable("the text would say something else")
    return PlanOrigin(after, origin.pointer)


def _value_at(document: Document, pointer: str) -> Json:
    value = document.value
    for key in pointer_keys(pointer):
        assert isinstance(value, dict)
        value = value[key]
    return value
