"""`wavewright diff` and `wavewright replay`: what differs between plans, and between a run and its
replay.

`diff` compares two plans, or the plans of a run's recovery rounds; `replay` a recorded run with
what it comes to with another planner, other prompts or another reviewer.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from pydantic import ValidationError

from wavewright.config import Document, Settings, exit_codes, read_document_file
from wavewright.engine.interfaces.cli.common.arguments import (
    from_root,
    has_journal,
    project_settings,
)
from wavewright.engine.interfaces.cli.common.named_runs import load_run
from wavewright.engine.interfaces.cli.common.output import (
    CommandError,
    print_aside,
    print_json,
    print_lines,
)
from wavewright.engine.interfaces.cli.common.run_text import use_line
from wavewright.engine.run.jobs.documents import is_job, is_template, misuse_error
from wavewright.engine.run.jobs.goal_in_words import with_kept_plan
from wavewright.engine.run.jobs.plan_drafts import plan_with_sub_plans
from wavewright.engine.run.jobs.resolving import resolve_job
from wavewright.engine.run.permit_checks import needed_permits
from wavewright.engine.run.project.tools import tools_of_plan
from wavewright.engine.run.target_waves import no_plan_reason
from wavewright.executor import RunState, fold
from wavewright.planner import (
    Goal,
    Json,
    JsonObject,
    Plan,
    PlanDiff,
    PlanError,
    PlanPatch,
    apply_patch,
    diff_plans,
)
from wavewright.planner.checks.permits import PermitEntry, difference_lines, permit_changes
from wavewright.planner.diagnostics.diagnostic import counted, locate_diagnostics
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.patches import PatchRefused
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.reading.reader import read_model
from wavewright.reviewer.cost_records import Cost
from wavewright.reviewer.package.call_reports import sum_costs
from wavewright.reviewer.review.caps import patch_rungs

if TYPE_CHECKING:
    # A comparison of plans replays nothing.
    from wavewright.engine.rehearsal.recordings.replay import ReplayResult
    from wavewright.engine.rehearsal.recordings.replay_models import ReplayOptions
    from wavewright.reviewer.package.comparison import ComparedRun, RoleCostChange, RunComparison


def diff(before: str, after: str | None, *, output_format: str) -> int:
    """Print the differences between the plans of two files or runs; the exit code is 1 if there are
    any.

    `after` may be a patch of `before`. For two jobs, their goals (inputs, gates, caps, limits) are
    compared too. Without `after`, the plans of the recovery rounds of the run `before` are
    compared.

    Raises:
        CommandError, DocumentError: a name stands for no plan, or the patch cannot be applied.
    """
    settings = project_settings(Path(before) if _is_file(before) else None)
    if after is None:
        if _is_file(before):
            msg = f"there is nothing to compare {before!r} with"
            raise CommandError(
                msg, hint="name a second plan; only a run is compared with its own first plan"
            )
        return diff_rounds(_state_of_run(before, settings), settings, output_format=output_format)
    first, goal = _read_plan(before, settings)
    patched = _patched(first, after)
    second, other = (patched, None) if patched is not None else _read_plan(after, settings)
    goals: tuple[Goal, Goal] | None = None
    if goal is not None and other is not None:
        # Jobs also differ in what their goals put into the plans and ask for beside them.
        goals = (goal, other)
        first, second = bind_plan(first, goal), bind_plan(second, other)
    difference = _diff_of_plans(first, second, settings, goals)
    old, new = (
        needed_permits(plan, plan_goal, tools_of_plan(plan, settings).signatures, settings)
        for plan, plan_goal in ((first, goal), (second, other or goal))
    )
    if output_format == "json":
        more, less = permit_changes(old, new)
        permits: JsonObject = {"more": _entries_json(more), "less": _entries_json(less)}
        print_json({**difference.to_json(), "permits": permits})
    else:
        sys.stdout.write(f"{difference}\n")
        print_lines(difference_lines(old, new))
    return exit_codes.OK if difference.is_empty else exit_codes.NEGATIVE


def _entries_json(entries: Iterable[PermitEntry]) -> list[Json]:
    return [
        {"kind": entry.kind, "name": entry.name, "because": [*entry.because]} for entry in entries
    ]


def _read_plan(name: str, settings: Settings) -> tuple[Plan, Goal | None]:
    """Return the plan of a file or a run, with its goal where the file is a job."""
    if _is_file(name):
        path = Path(name)
        return _plan_of_document(read_document_file(path), path, settings)
    return Plan.model_validate(_state_of_run(name, settings).plan), None


def _is_file(name: str) -> bool:
    path = Path(name)
    return path.exists() or bool(path.suffix)


def _state_of_run(name: str, settings: Settings) -> RunState:
    """Return a run that has a plan.

    Raises:
        CommandError: there is none.
    """
    if not has_journal(settings):
        msg = f"there is neither a file nor a run {name!r}"
        raise CommandError(msg, hint="name plans, jobs or runs", place=str(Path(name)))
    _, events = anyio.run(load_run, settings, name)
    state = fold(events)
    if state.plan is None:
        raise CommandError(no_plan_reason(state, f"run {state.run!r} ended before it had a plan"))
    return state


def _plan_of_document(
    document: Document, path: Path, settings: Settings
) -> tuple[Plan, Goal | None]:
    if not (is_job(document) or is_template(document)):
        return plan_with_sub_plans(read_model(document, Plan), document, settings).plan, None
    order = with_kept_plan(resolve_job(document, path, None, settings), settings)
    draft = order.draft
    if draft is None:
        msg = f"{str(path)!r} has no plan: neither the job nor its goal template has one"
        raise CommandError(msg, hint="name a plan file, or a run of the job, instead")
    return draft.plan, order.goal


def _patched(plan: Plan, name: str) -> Plan | None:
    """Return the patched plan; None if the name is not that of a patch file."""
    path = Path(name)
    if not path.is_file():
        return None
    document = read_document_file(path)
    if not (isinstance(document.value, dict) and "ops" in document.value):
        return None
    try:
        return apply_patch(plan, read_model(document, PlanPatch), finished=())
    except PatchRefused as error:
        placed = locate_diagnostics(error.diagnostics, document)
        raise misuse_error(PlanError(placed, document.source)) from error


@dataclass(frozen=True, slots=True)
class _RecoveryRound:
    """One round of recovery: its patch, the rung that made it, and its changes of the plan."""

    number: int
    patch: PlanPatch
    rung: str | None
    """`recipe` or `model`; None if it was not recorded."""
    found: PlanDiff


def diff_rounds(state: RunState, settings: Settings, *, output_format: str) -> int:
    """Print what each patch of a run changed, and why; the exit code is 1 if there was one.

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
        print_json(
            {
                "run": state.run,
                "rounds": [_round_json(recovery) for recovery in rounds],
                "whole": whole.to_json() if whole is not None else None,
            }
        )
    else:
        print_lines(_round_lines(state, rounds, whole))
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


def _diff_of_plans(
    old: Plan, new: Plan, settings: Settings, goals: tuple[Goal, Goal] | None = None
) -> PlanDiff:
    tools = {**tools_of_plan(old, settings).signatures, **tools_of_plan(new, settings).signatures}
    return diff_plans(old, new, tools, goals)


def _round_lines(
    state: RunState, rounds: tuple[_RecoveryRound, ...], whole: PlanDiff | None
) -> Iterator[str]:
    if whole is None:
        yield f"run {state.run} follows its first plan; no patch was applied"
        return
    for recovery in rounds:
        by = f" (by the rung {recovery.rung})" if recovery.rung is not None else ""
        yield f"round {recovery.number}: {' '.join(recovery.patch.reason.split())}{by}"
        if recovery.patch.expect:
            yield f"  expected to pass: {', '.join(recovery.patch.expect)}"
        yield from (f"  {line}" for line in str(recovery.found).splitlines())
        yield ""
    if len(rounds) > 1:
        yield "all rounds together:"
        yield from (f"  {line}" for line in str(whole).splitlines())
        yield ""
    yield f"the first plan is {whole.old.hash}"
    yield f"the patched one is {whole.new.hash}"


def _round_json(recovery: _RecoveryRound) -> JsonObject:
    return {
        "round": recovery.number,
        "reason": recovery.patch.reason,
        "expect": [*recovery.patch.expect],
        "rung": recovery.rung,
        **recovery.found.to_json(),
    }


def replay(run: str | None, request: ReplayOptions, *, output_format: str) -> int:
    """Replay a run, print the differences, and return the exit code.

    Raises:
        ReplayRejected: the run cannot be replayed with these options.
        JournalError: there is no such run, or it cannot be read.
    """
    settings = project_settings()
    request = replace(request, prompt_dir=from_root(request.prompt_dir, settings))
    with contextlib.chdir(settings.root):  # where tools run
        replayed = anyio.run(_replay, run, settings, request)
    difference = replayed.compare()
    if output_format == "json":
        print_json(_replay_json(replayed, difference))
    else:
        sys.stdout.writelines(
            f"{printable(line).rstrip()}\n" for line in _replay_lines(replayed, difference)
        )
    if any(use.outcome != "over_budget" for use in replayed.silent_models):
        return exit_codes.ENVIRONMENT
    is_same = replayed.is_same_verdict and replayed.is_whole and not replayed.silent_models
    return exit_codes.OK if is_same else exit_codes.NEGATIVE


async def _replay(run: str | None, settings: Settings, request: ReplayOptions) -> ReplayResult:
    from wavewright.engine.rehearsal.recordings.replay import replay_run

    name, events = await load_run(settings, run)
    return await replay_run(name, events, settings, request, on_use=_print_model_use)


def _print_model_use(use: ModelUse) -> None:
    """Print a model call to standard error as soon as it has ended."""
    print_aside(use_line(use))


_FORMAT = "wavewright/replay/1"
_MAX_LINES = 40
"""Lines of one section."""


def _replay_json(replayed: ReplayResult, found: RunComparison) -> JsonObject:
    request = replayed.replay_options
    return {
        "format": _FORMAT,
        "run": replayed.before.state.run,
        "planner": request.planner,
        "reviewer": request.reviewer,
        "prompt_dir": None if request.prompt_dir is None else str(request.prompt_dir),
        "before": _run_json(replayed.before),
        "after": _run_json(replayed.after),
        "is_same_verdict": replayed.is_same_verdict,
        "changes": found.to_json(),
        "misses": [miss.to_json() for miss in replayed.misses],
        "unanswered": [*replayed.unanswered],
        "silent": [
            {"role": use.role, "model": use.model, "outcome": use.outcome, "message": use.message}
            for use in replayed.silent_models
        ],
        "live": [
            {"step": call.step, "index": call.index, "tool": call.tool, "params": call.params}
            for call in replayed.live_calls
        ],
        "asked": [
            {
                "role": use.role,
                "name": use.name,
                "model": use.model,
                "tokens": use.tokens,
                "usd": use.usd,
            }
            for use in replayed.live_uses
        ],
        "warnings": [*replayed.changed_tools],
    }


def _replay_lines(replayed: ReplayResult, found: RunComparison) -> Iterator[str]:
    """Yield the replay compared with the recorded run: the verdict first, then the differences."""
    request = ", ".join(replayed.replay_options.description())
    yield f"Replay of {replayed.before.state.run}" + (f" with {request}" if request else "")
    yield f"  verdict     {_arrow(_outcome_text(replayed.before), _outcome_text(replayed.after))}"
    yield f"  confidence  {_arrow(_confidence(replayed.before), _confidence(replayed.after))}"
    yield from _section(
        "Gave no answer",
        (f"{use.role}: {use.message or use.model}" for use in replayed.silent_models),
    )
    for title, lines in (
        ("Plan", found.plan),
        ("Steps", found.steps),
        ("Gates", found.gates),
        ("Confidence", found.confidence),
        ("Review", found.review),
    ):
        yield from _section(title, lines)
    if found.is_empty:
        yield ""
        yield "There are no differences."
    yield from _costs(found.costs, replayed)
    yield from _section("Never recorded", map(str, replayed.misses))
    yield from _section("Never asked", replayed.unanswered)
    yield from _section("Called live", map(str, replayed.live_calls))
    yield from _section("Changed since", replayed.changed_tools)


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    known = list(lines)
    if not known:
        return
    yield ""
    yield title
    for line in known[:_MAX_LINES]:
        yield from (f"  {part}" for part in line.split("\n"))
    if len(known) > _MAX_LINES:
        yield f"  … and {len(known) - _MAX_LINES} more; --format json has them all"


def _costs(costs: tuple[RoleCostChange, ...], replayed: ReplayResult) -> Iterator[str]:
    if not costs:
        return
    yield ""
    yield f"{'Models':<14}{'recorded':<32}{'replayed'}"
    for cost in costs:
        yield f"  {cost.role:<12}{_cost(cost.before):<32}{_cost(cost.after)}"
    yield f"  asked for this replay: {_cost(sum_costs(replayed.live_uses))}"


def _cost(cost: Cost) -> str:
    if not cost.calls:
        return "nothing"
    money = "" if cost.usd is None else f", ${cost.usd:.4f}"
    return f"{counted(cost.calls, 'call')}, {counted(cost.tokens, 'token')}{money}"


def _arrow(before: str, after: str) -> str:
    return f"{before}, as recorded" if before == after else f"{before} → {after}"


def _outcome_text(side: ComparedRun) -> str:
    return side.status.replace("_", " ")


def _confidence(side: ComparedRun) -> str:
    review = None if side.package is None else side.package.review
    return "none" if review is None else f"{review.confidence:.2f}"


def _run_json(side: ComparedRun) -> JsonObject:
    review = None if side.package is None else side.package.review
    return {
        "verdict": side.status,
        "confidence": None if review is None else review.confidence,
        "summary": "" if review is None else review.summary,
        "rounds": side.state.round,
        "plan_hash": side.state.plan_hash,
        "rung": side.state.rung,
        "ending": side.ending,
    }
