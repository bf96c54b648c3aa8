"""`wavewright check`: check plans, and show every fault with its place and fix; with `--permits`,
write the permits of a plan beside it or compare them with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wavewright.config import DocumentError, Source, exit_codes
from wavewright.engine.interfaces.cli.common.arguments import warn_of_foreign_job
from wavewright.engine.interfaces.cli.common.output import (
    print_aside,
    print_json,
    report_error,
    without_secrets,
    write_file,
)
from wavewright.engine.interfaces.cli.planning.plan_check import (
    CheckedDocument,
    CheckOptions,
    check_plan,
)
from wavewright.engine.run.jobs.documents import is_template
from wavewright.engine.run.permits import permits_file, read_permits
from wavewright.engine.run.project.tools import tools_of_plan
from wavewright.planner import PlanGraph, PlanText, render_json, render_text, sarif_log
from wavewright.planner.diagnostics.diagnostic import counted, diagnostics_of

if TYPE_CHECKING:
    from wavewright.planner.checks.permits import Permits


def check_files(
    options: Sequence[CheckOptions], *, output_format: str, writes_permits: bool = False
) -> int:
    """Check plans, or the plans of jobs, print the diagnostics, and return the exit code.

    Raises:
        CommandError, DocumentError: a file cannot be read.
    """
    found: list[CheckedDocument] = []
    exceeds, misuse = False, None
    for file_options in options:
        if file_options.tools is None:
            warn_of_foreign_job(file_options.file)
        try:
            checked = check_plan(file_options)
        except DocumentError as error:
            # Of several files, what was found in the others is told as well.
            if output_format == "text":
                raise
            misuse = report_error(error)
            checked = CheckedDocument(PlanText(None, error.source), None, diagnostics_of(error))
        found.append(checked)
        if output_format == "text":
            _print_text(checked)
        exceeds = compare_permits(file_options, checked, writes=writes_permits) or exceeds
    if output_format == "sarif":
        documents = [document for checked in found for document in checked.documents]
        print_json(
            sarif_log([(document.diagnostics, document.text.source) for document in documents])
        )
    elif output_format == "json":
        reports = [check_json(checked) for checked in found]
        named = [
            {"file": str(file_options.file), **report}
            for file_options, report in zip(options, reports, strict=True)
        ]
        print_json(reports[0] if len(reports) == 1 else {"files": named})
    if misuse is not None:
        return misuse
    is_faulty = any(checked.errors for checked in found)
    return exit_codes.NEGATIVE if is_faulty or exceeds else exit_codes.OK


def _print_text(checked: CheckedDocument) -> None:
    if faulty := [document for document in checked.documents if document.diagnostics]:
        shown = [render_text(document.diagnostics, document.text.source) for document in faulty]
        # The lines that are shown may hold the very secret that a fault is about.
        sys.stdout.write(without_secrets("\n\n".join(shown)) + "\n")
    sys.stdout.write(verdict_text(checked, checked.text.source) + "\n")


def check_json(checked: CheckedDocument) -> dict[str, object]:
    """Return what was found as JSON: the plan if it is valid, the repairs of its text, and the
    diagnostics.
    """
    plan = checked.plan if not checked.errors else None
    return {
        "plan": plan.model_dump(mode="json", by_alias=True, exclude_none=True)
        if plan is not None
        else None,
        "repairs": [
            {"kind": repair.kind, "message": repair.message, "offset": repair.offset}
            for repair in checked.text.repairs
        ],
        "diagnostics": [
            diagnostic
            for document in checked.documents
            for diagnostic in render_json(document.diagnostics, document.text.source)
        ],
    }


def verdict_text(checked: CheckedDocument, source: Source) -> str:
    """Return one line: whether the document is valid, its size, and how much was found."""
    warnings = sum(len(document.diagnostics) for document in checked.documents) - checked.errors
    numbers = {"error": checked.errors, "warning": warnings, "repair": len(checked.text.repairs)}
    counts = ", ".join(counted(number, noun) for noun, number in numbers.items() if number)
    if checked.errors:
        return f"{source.name}: {counts}"
    suffix = f" ({counts})" if counts else ""
    if checked.plan is None:
        document = checked.text.document
        is_planned = document is not None and not is_template(document)
        what = "a job whose plan a model makes" if is_planned else "a goal template without a plan"
        return f"{source.name}: valid: {checked.kind or what}{suffix}"
    graph = PlanGraph.of(checked.plan)
    steps, waves = counted(len(checked.plan.steps), "step"), counted(graph.depth, "wave")
    return f"{source.name}: valid: {steps} in {waves}, max parallelism {graph.width}{suffix}"


def compare_permits(options: CheckOptions, checked: CheckedDocument, *, writes: bool) -> bool:
    """Write the permits of a valid plan into the file beside it; else return whether the plan needs
    more than that file permits, and say what.

    Raises:
        CommandError, DocumentError: the file cannot be written, or read.
    """
    if checked.errors or str(options.file) == "-":
        return False
    file = permits_file(options.file)
    if checked.plan is None:
        if writes:
            print_aside(
                f"{file}: not written: it is of a plan, and a model makes that of this job "
                "(`wavewright plan JOB --out FILE` writes one)"
            )
        return False
    if not writes and not file.is_file():
        return False
    # Imported here: most plans have no permits, and a check is fast.
    from wavewright.planner.checks.permits import excess, permits_text

    needed = _needed(options, checked)
    if needed is None:
        return False
    if writes:
        content = json.dumps(needed.model_dump(mode="json"), indent=2, ensure_ascii=False)
        write_file(file, content + "\n")
        lines = "".join(f"\n  {line}" for line in permits_text(needed))
        print_aside(f"{file}: permits of the plan{lines}")
        return False
    more = excess(needed, read_permits(file), calls_are_held=True)
    for entry in more:
        print_aside(f"{options.file}: needs more than {file.name}: {entry}")
    return bool(more)


def _needed(options: CheckOptions, checked: CheckedDocument) -> Permits | None:
    # As above.
    from wavewright.engine.run.permit_checks import needed_permits

    plan, basis = checked.plan, checked.basis
    if plan is None:
        return None
    settings = options.project
    goal = None if basis is None else basis.goal
    tools = dict(tools_of_plan(plan, settings).signatures) if basis is None else basis.tools
    return needed_permits(plan, goal, tools, settings)
