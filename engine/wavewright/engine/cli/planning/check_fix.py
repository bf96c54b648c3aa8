"""`wavewright check --fix`: apply the fixes that are safe, show the difference, and write it to the file."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

from wavewright.engine.cli.common.output import CommandError
from wavewright.engine.cli.planning.check_options import CheckOptions
from wavewright.engine.cli.planning.plan_check import CheckBasis, CheckedDocument, check_plan
from wavewright.engine.fixing.edits import replace_text
from wavewright.engine.fixing.fixes import Fix
from wavewright.engine.fixing.plan_fixer import (
    CheckedPlan,
    FixedDocument,
    PlanChecker,
    UnfixedWarning,
    fix_plan,
)
from wavewright.engine.jobs.plan_drafts import PlanOrigin
from wavewright.planner.diagnostics.diagnostic import locate_diagnostics
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.language.plan import Plan
from wavewright.planner.reading.reader import PlanText


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
    fixed = fix_plan(basis.plan, PlanOrigin(basis.document, basis.pointer), basis.tools, _plan_checker(basis))
    if fixed.fixes:
        _refuse_elsewhere(basis, options)
    before, after = basis.document.source, fixed.origin.document.source
    if writes and fixed.fixes:
        replace_text(Path(before.name), before=before.text, after=after.text)
    name = printable(before.name)
    lines = difflib.unified_diff(
        before.text.splitlines(keepends=True), after.text.splitlines(keepends=True), name, f"{name} (fixed)"
    )
    difference = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    is_written = writes and bool(fixed.fixes)
    return _checked_again(checked, basis, fixed), PlanFixReport(
        fixed.fixes, fixed.unfixed, difference, is_written
    )


def _refuse_unwritable(options: CheckOptions) -> None:
    if str(options.file) == "-" or options.from_model:
        msg = "only a file can be fixed"
        raise CommandError(msg, hint="name a plan's or a job's file, or leave out --fix and --diff")


def _refuse_toml(name: str) -> None:
    if name.lower().endswith(".toml"):
        msg = f"{name!r} is TOML, and only JSON and YAML are fixed"
        raise CommandError(msg, hint="leave out --fix; the warnings say what to change", place=name)


def _refuse_elsewhere(basis: CheckBasis, options: CheckOptions) -> None:
    """Raise an error if the plan is in a goal template that the command line does not name."""
    assert basis.document is not None
    name = basis.document.source.name
    if basis.rung == "template" and name != str(options.file):
        msg = f"the plan of {str(options.file)!r} is in a goal template, which other jobs may use as well"
        raise CommandError(msg, hint=f"fix it there: wavewright check {name} --fix", place=name)


def _plan_checker(basis: CheckBasis) -> PlanChecker:
    def judge(plan: Plan) -> CheckedPlan:
        return CheckedPlan(*basis.check(plan))

    return judge


def _checked_again(checked: CheckedDocument, basis: CheckBasis, fixed: FixedDocument) -> CheckedDocument:
    """Return the fixed document as checked: the plan's new diagnostics, and the former ones of what is around it."""
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
