"""`wavewright why RUN FIELD`: how the confidence in a field of a run's result came about, step by step."""

from __future__ import annotations

import anyio

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.cli.common.output import print_json, print_line
from wavewright.engine.cli.common.stored_runs import load_run
from wavewright.engine.cli.runs.runs_command import package_of
from wavewright.executor.events.state import fold
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.reviewer.review.proof import proof_of, reviewed_fields


def show_reasons(run: str | None, field: str, *, output_format: str) -> int:
    """Print where the figure of a field came from, and each cap with the steps by which it reaches the field.

    Raises:
        CommandError: the run was not reviewed, or its result has no such field.
    """
    _, events = anyio.run(load_run, project_settings(), run)
    package = package_of(fold(events))
    if package.review is None:
        raise CommandError(
            f"run {package.run!r} was not reviewed",
            hint=f"finish it: `wavewright resume {package.run}`",
            exit_code=exit_codes.NEGATIVE,
        )
    known = reviewed_fields(package, package.review)
    if field not in known:
        hint = suggest_name(field, known, what="its fields")
        raise CommandError(f"the result of run {package.run!r} has no field {field!r}", hint=hint)
    proof = proof_of(package, package.review, field)
    if output_format == "json":
        print_json(proof.as_json())
    else:
        for line in proof.lines():
            print_line(printable(line))
    return exit_codes.OK
