"""`wavewright diff RUN`: a run's first plan against what its recovery made of it, round by round."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import ValidationError

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.toolbox import tools_of_plan
from wavewright.planner.models import Plan, PlanPatch
from wavewright.planner.plan_diff import PlanDiff, diff_plans
from wavewright.planner.rendering import printable, printable_json
from wavewright.reviewer.rungs import patch_rungs

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.executor.state import RunState
    from wavewright.planner.types import JsonObject


@dataclass(frozen=True, slots=True)
class _RecoveryRound:
    """One round of recovery: its patch, who made it, and what it did to the plan."""

    number: int
    patch: PlanPatch
    rung: str | None
    """`recipe` or `model`; None where nobody recorded it."""
    found: PlanDiff


def diff_rounds(state: RunState, settings: Settings, *, output_format: str) -> int:
    """Print what each patch of a run that has a plan changed, and why; 1 where there was one.

    Raises:
        CommandError: another version of the plan language wrote the run's plans.
    """
    try:
        rounds = tuple(_recovery_rounds(state, settings))
        ends = _journaled_plan(state.plans[0].plan), _journaled_plan(state.plans[-1].plan)
    except ValidationError as error:
        msg = f"the plans of run {state.run!r} were journaled by another version of wavewright"
        hint = f"`wavewright show {state.run} --format events` prints them as they are"
        raise CommandError(msg, hint=hint) from error
    whole = _diff_of_plans(*ends, settings) if rounds else None
    if output_format == "json":
        told: JsonObject = {
            "run": state.run,
            "rounds": [_round_json(one) for one in rounds],
            "whole": whole.to_json() if whole is not None else None,
        }
        sys.stdout.write(printable_json(told, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{printable(line)}\n" for line in _round_lines(state, rounds, whole))
    return exit_codes.NEGATIVE if rounds else exit_codes.OK


def _recovery_rounds(state: RunState, settings: Settings) -> Iterator[_RecoveryRound]:
    for (before, after), made in zip(pairwise(state.plans), patch_rungs(state), strict=True):
        if after.patch is None:
            continue
        yield _RecoveryRound(
            after.round,
            PlanPatch.model_validate_json(json.dumps(after.patch)),
            made.rung if made is not None else None,
            _diff_of_plans(_journaled_plan(before.plan), _journaled_plan(after.plan), settings),
        )


def _journaled_plan(journaled: JsonObject) -> Plan:
    return Plan.model_validate_json(json.dumps(journaled))


def _diff_of_plans(old: Plan, new: Plan, settings: Settings) -> PlanDiff:
    tools = {**tools_of_plan(old, settings).signatures, **tools_of_plan(new, settings).signatures}
    return diff_plans(old, new, tools)


def _round_lines(
    state: RunState, rounds: tuple[_RecoveryRound, ...], whole: PlanDiff | None
) -> Iterator[str]:
    if whole is None:
        yield f"run {state.run} follows its first plan: no patch was applied"
        return
    for one in rounds:
        by = f" (by the rung {one.rung})" if one.rung is not None else ""
        yield f"round {one.number}: {' '.join(one.patch.reason.split())}{by}"
        if one.patch.expect:
            yield f"  should turn green: {', '.join(one.patch.expect)}"
        yield from (f"  {line}" for line in str(one.found).splitlines())
        yield ""
    if len(rounds) > 1:
        yield "all rounds together:"
        yield from (f"  {line}" for line in str(whole).splitlines())
        yield ""
    yield f"the first plan is {whole.old.hash}"
    yield f"the patched one is {whole.new.hash}"


def _round_json(one: _RecoveryRound) -> JsonObject:
    return {
        "round": one.number,
        "reason": one.patch.reason,
        "expect": [*one.patch.expect],
        "rung": one.rung,
        **one.found.to_json(),
    }
