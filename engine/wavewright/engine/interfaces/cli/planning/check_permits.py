"""`wavewright check --permits`: the permits of a plan, written beside it or compared with it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from wavewright.config.settings import Settings
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.output import write_file
from wavewright.engine.run.permits import permits_file, read_permits
from wavewright.engine.run.project.tools import tools_of_plan

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.planning.plan_check import (
        CheckedDocument,
        CheckOptions,
    )
    from wavewright.planner.checks.permits import Permits


def compare_permits(options: CheckOptions, checked: CheckedDocument, *, writes: bool) -> bool:
    """Write the permits of a valid plan into the file beside it; else return whether the plan needs
    more than that file permits, and say what.

    Raises:
        CommandError, DocumentError: the file cannot be written, or read.
    """
    # Imported here: most plans have no permits, and a check is fast.

    if checked.plan is None or checked.errors or str(options.file) == "-":
        return False
    file = permits_file(options.file)
    if not writes and not file.is_file():
        return False
    from wavewright.planner.checks.permits import excess, permits_text

    needed = _needed(options, checked)
    if needed is None:
        return False
    if writes:
        content = json.dumps(needed.model_dump(mode="json"), indent=2, ensure_ascii=False)
        write_file(file, content + "\n")
        lines = "".join(f"  {line}\n" for line in permits_text(needed))
        sys.stderr.write(f"{file}: permits of the plan\n{lines}")
        return False
    more = excess(needed, read_permits(file), calls_are_held=True)
    for entry in more:
        sys.stderr.write(f"{options.file}: needs more than {file.name}: {entry}\n")
    return bool(more)


def _needed(options: CheckOptions, checked: CheckedDocument) -> Permits | None:
    from wavewright.engine.run.needed_permits import needed_permits

    plan, basis = checked.plan, checked.basis
    if plan is None:
        return None
    settings: Settings = options.settings or project_settings(options.file)
    goal = None if basis is None else basis.goal
    tools = dict(tools_of_plan(plan, settings).signatures) if basis is None else basis.tools
    return needed_permits(plan, goal, tools, settings)
