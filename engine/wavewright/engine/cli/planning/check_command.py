"""`wavewright check`: prove plans sound, or say what is wrong and where, and mend what is safe to mend."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from wavewright.config import exit_codes
from wavewright.config.documents import Source
from wavewright.engine.cli.common.arguments import warn_of_foreign_job
from wavewright.engine.cli.planning.plan_check import CheckedDocument, CheckOptions, check_plan
from wavewright.engine.jobs.document_kinds import is_template
from wavewright.planner.plans.graph import PlanGraph

if TYPE_CHECKING:
    from wavewright.engine.cli.planning.check_fix import PlanFixReport

FixMode = Literal["nothing", "show", "write"]
"""What becomes of warnings that are safe to mend."""


def check_files(options: Sequence[CheckOptions], *, output_format: str, fixing: FixMode = "nothing") -> int:
    """Check plans, or the plans of jobs, print what was found, and return the exit code.

    Raises:
        CommandError, DocumentError: a file cannot be read, or cannot be mended.
    """
    found: list[tuple[CheckedDocument, PlanFixReport | None]] = []
    for one in options:
        if one.tools is None:
            warn_of_foreign_job(one.file)
        checked, mending = _check(one, fixing)
        found.append((checked, mending))
        if output_format == "text":
            _print_text(checked, mending)
    if output_format == "sarif":
        from wavewright.planner.diagnostics.rendering import sarif_log

        documents = [one for checked, _ in found for one in checked.documents]
        _print_json(sarif_log([(one.diagnostics, one.text.source) for one in documents]))
    elif output_format == "json":
        told = [_as_json(*one) for one in found]
        named = [{"file": str(one.file), **each} for one, each in zip(options, told, strict=True)]
        _print_json(told[0] if len(told) == 1 else {"files": named})
    is_mendable = fixing == "show" and any(mending is not None and mending.difference for _, mending in found)
    is_faulty = any(checked.errors for checked, _ in found)
    return exit_codes.NEGATIVE if is_faulty or is_mendable else exit_codes.OK


def _check(options: CheckOptions, fixing: FixMode) -> tuple[CheckedDocument, PlanFixReport | None]:
    if fixing == "nothing":
        return check_plan(options), None
    from wavewright.engine.cli.planning.check_fix import fix_document

    return fix_document(options, writes=fixing == "write")


def _print_json(value: object) -> None:
    from wavewright.planner.diagnostics.rendering import printable_json

    sys.stdout.write(printable_json(value, indent=2) + "\n")


def _print_text(checked: CheckedDocument, mending: PlanFixReport | None) -> None:
    source = checked.text.source
    if mending is not None:
        sys.stdout.write(mending.as_text())
    if found := [one for one in checked.documents if one.diagnostics]:
        from wavewright.planner.diagnostics.rendering import render_text

        shown = [render_text(one.diagnostics, one.text.source) for one in found]
        sys.stdout.write("\n\n".join(shown) + "\n")
    sys.stdout.write(_verdict_text(checked, source) + "\n")


def _as_json(checked: CheckedDocument, mending: PlanFixReport | None) -> dict[str, object]:
    from wavewright.planner.diagnostics.rendering import render_json

    plan = checked.plan if not checked.errors else None
    return {
        "plan": plan.model_dump(mode="json", by_alias=True, exclude_none=True) if plan is not None else None,
        "repairs": [
            {"kind": repair.kind, "message": repair.message, "offset": repair.offset}
            for repair in checked.text.repairs
        ],
        "diagnostics": [
            told for one in checked.documents for told in render_json(one.diagnostics, one.text.source)
        ],
        **({} if mending is None else {"mended": mending.as_json()}),
    }


def _verdict_text(checked: CheckedDocument, source: Source) -> str:
    warnings = sum(len(one.diagnostics) for one in checked.documents) - checked.errors
    counts = [
        _counted(checked.errors, "error"),
        _counted(warnings, "warning"),
        _counted(len(checked.text.repairs), "repair"),
    ]
    told = ", ".join(count for count in counts if count)
    if checked.errors:
        return f"{source.name}: {told}"
    if checked.plan is None:
        document = checked.text.document
        is_planned = document is not None and not is_template(document)
        what = "a job whose plan a model makes" if is_planned else "a goal template without a plan"
        what = checked.kind or what
        return f"{source.name}: valid: {what}" + (f" ({told})" if told else "")
    graph = PlanGraph.of(checked.plan)
    steps, waves = _counted(len(checked.plan.steps), "step"), _counted(graph.depth, "wave")
    shape = f"{steps} in {waves}, max parallelism {graph.width}"
    return f"{source.name}: valid: {shape}" + (f" ({told})" if told else "")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}" if number else ""
