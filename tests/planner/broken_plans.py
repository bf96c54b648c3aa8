"""The broken plans: one folder for each diagnostic, with the plan and the exact text that it gives.

A folder holds `plan.yaml`, `plan.json`, or `plan.txt` (an answer of a model), and where the fault
needs them a goal template (`goal.yaml`), plans that the plan calls, a job (`job.yaml`), a patch
(`patch.yaml`, whose base `PLAN` stands for the plan's hash), and `case.json` with the reader's
limits, the steps that have finished, the name under which the plan is asked for, what is left of
the budgets, whether a person can be asked, whether a model wrote the plan or patch
(`written_by_model`), or what keeps tools from working (`obstacles`) where the
plan is checked or run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from wavewright.config.documents import read_document
from wavewright.config.sources import ReadLimits, Source
from wavewright.planner.checks.checker import check, check_values, errors_in
from wavewright.planner.checks.feasibility import Obstacle, check_readiness
from wavewright.planner.checks.written_results import check_written_result
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    error_diagnostics,
    locate_diagnostics,
)
from wavewright.planner.diagnostics.rendering import render_text
from wavewright.planner.language.goals import Goal, GoalTemplate, Job
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import Plan, PlanPatch
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.planner.plans.patches import check_patch
from wavewright.planner.plans.sub_plan_call import SubPlan
from wavewright.planner.plans.sub_plans import expand_plan
from wavewright.planner.ports.budgets import Allowance, RemainingBudget
from wavewright.planner.reading.reader import (
    PlanText,
    read_model,
    read_model_answer,
    read_plan,
    read_plan_file,
)
from wavewright.planner.types import StepId

FOLDER = Path(__file__).parent / "broken"


def tools() -> dict[str, ToolSignature]:
    """Return the tools that all broken plans may call."""
    listed = json.loads((FOLDER / "tools.json").read_text())
    return {one["name"]: ToolSignature.model_validate_json(json.dumps(one)) for one in listed}


@dataclass(frozen=True)
class BrokenPlan:
    """One folder."""

    folder: Path

    @property
    def code(self) -> str:
        """The diagnostic that the folder is for."""
        return self.folder.name.partition("_")[0]

    @property
    def plan_file(self) -> Path:
        """The plan, whatever its form."""
        return next(self.folder.glob("plan.*"))

    @property
    def expected(self) -> str:
        """The text that the plan gives."""
        return (self.folder / "expected.txt").read_text(encoding="utf-8")

    def shown(self) -> str:
        """Return what the plan gives now."""
        diagnostics, source = self.found()
        return render_text(diagnostics, source).replace(f"{self.folder}/", "") + "\n"

    def errors_both_ways(self) -> tuple[list[Diagnostic], list[Diagnostic]]:
        """Return the errors among what `check` finds, and those that are looked for alone; none
        where the plan cannot be read or is a patch's.
        """
        text, goal = self._text(), self._goal()
        if text.plan is None or text.diagnostics:
            return [], []
        plan = text.plan if goal is None else bind_plan(text.plan, goal)
        left = self._allowance()
        alone = errors_in(plan, goal, tools(), allowance=left)
        return error_diagnostics(check(plan, goal, tools(), allowance=left)), alone

    def found(self) -> tuple[tuple[Diagnostic, ...], Source]:
        """Return the diagnostics with the text that they speak of."""
        text = self._text()
        if text.plan is None:
            return text.diagnostics, text.source
        if (self.folder / "patch.yaml").exists():
            return self._patch(text.plan)
        goal = self._goal()
        assert text.document is not None
        expanded = expand_plan(text.plan, Path(), self._sub_plan, (self.plan_file.name,))
        if expanded.faults:
            return tuple(locate_diagnostics(expanded.faults, text.document)), text.source
        plan = expanded.plan if goal is None else bind_plan(expanded.plan, goal)
        can_ask = self._case.get("can_ask", True)
        checked = check(plan, goal, tools(), allowance=self._allowance(), can_ask=can_ask)
        if self._case.get("strict"):
            checked += check_values(plan, goal, tools())
        if self._case.get("written_by_model"):
            checked += check_written_result(plan, goal, tools())
        placed = expanded.place([*checked, *self._unready(plan)])
        found = locate_diagnostics(placed, text.document)
        return (*text.diagnostics, *found), text.source

    def _sub_plan(self, name: str, _folder: Path) -> SubPlan:
        text = read_plan((self.folder / name).read_bytes(), name)
        assert text.plan is not None
        assert text.document is not None
        return SubPlan(text.plan, text.document, "", Path())

    @cached_property
    def _case(self) -> dict[str, Any]:
        file = self.folder / "case.json"
        loaded: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return loaded

    def _allowance(self) -> Allowance | None:
        left = self._case.get("left")
        if left is None:
            return None
        lefts = {
            scope: RemainingBudget(**left.get(scope, {})) for scope in ("run", "job", "day", "step")
        }
        return Allowance(run=lefts["run"], job=lefts["job"], day=lefts["day"], step=lefts["step"])

    def _unready(self, plan: Plan) -> Iterator[Diagnostic]:
        obstacles = {
            name: Obstacle(**given) for name, given in self._case.get("obstacles", {}).items()
        }
        return check_readiness(plan, obstacles, is_run=self._case.get("is_run", False))

    def _text(self) -> PlanText:
        if "file" in self._case:
            return read_plan_file(self.folder / self._case["file"])
        content, name = self.plan_file.read_bytes(), self.plan_file.name
        if name.endswith(".txt"):
            return read_model_answer(content, name)
        limits = {
            bound: self._case[bound] for bound in ("max_bytes", "max_depth") if bound in self._case
        }
        return read_plan(content, name, limits=ReadLimits(**limits))

    def _goal(self) -> Goal | None:
        file = self.folder / "goal.yaml"
        if not file.exists():
            return None
        template = read_model(read_document(file.read_bytes(), file.name), GoalTemplate)
        job_file = self.folder / "job.yaml"
        if not job_file.exists():
            return resolve_goal(Job(name="job"), template)
        document = read_document(job_file.read_bytes(), job_file.name)
        return resolve_goal(read_model(document, Job), template, document)

    def _patch(self, plan: Plan) -> tuple[tuple[Diagnostic, ...], Source]:
        content = (self.folder / "patch.yaml").read_text().replace("PLAN", plan_hash(plan))
        document = read_document(content, "patch.yaml")
        patch = read_model(document, PlanPatch)
        finished = frozenset(StepId(name) for name in self._case.get("finished", ()))
        checked = check_patch(
            plan,
            patch,
            finished=finished,
            tools=tools(),
            written_by_model=self._case.get("written_by_model", False),
        )
        return tuple(locate_diagnostics(checked.diagnostics, document)), document.source


def broken_plans() -> list[BrokenPlan]:
    """Return every folder, by code."""
    return [BrokenPlan(folder) for folder in sorted(FOLDER.iterdir()) if folder.is_dir()]
