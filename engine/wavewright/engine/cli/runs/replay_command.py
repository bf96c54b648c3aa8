"""`wavewright replay`: a recorded run with another planner, other prompts or another reviewer."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import from_root, load_run, project_settings
from wavewright.engine.cli.common.output import print_json
from wavewright.engine.recordings.replay import ReplayResult
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.diagnostics.suggestions import counted
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject
from wavewright.reviewer.cost_records import Cost
from wavewright.reviewer.package.call_reports import sum_costs
from wavewright.reviewer.package.comparison import ComparedRun, RoleCostChange, RunComparison

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.recordings.replay_models import ReplayOptions


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
            {"role": use.role, "name": use.name, "model": use.model, "tokens": use.tokens, "usd": use.usd}
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
    return f"{counted(cost.calls, 'call')}, {cost.tokens:,} tokens{money}"


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
    found = replayed.compare()
    if output_format == "json":
        print_json(_replay_json(replayed, found))
    else:
        sys.stdout.writelines(f"{printable(line).rstrip()}\n" for line in _replay_lines(replayed, found))
    if any(use.outcome != "over_budget" for use in replayed.silent_models):
        return exit_codes.ENVIRONMENT
    is_same = replayed.is_same_verdict and replayed.is_whole and not replayed.silent_models
    return exit_codes.OK if is_same else exit_codes.NEGATIVE


async def _replay(run: str | None, settings: Settings, request: ReplayOptions) -> ReplayResult:
    from wavewright.engine.recordings.replay import replay_run

    name, events = await load_run(settings, run)
    return await replay_run(name, events, settings, request, on_use=_print_model_use)


def _print_model_use(use: ModelUse) -> None:
    """Print a model call to standard error as soon as it has ended."""
    from wavewright.engine.cli.common.run_text import use_line

    sys.stderr.write(f"{use_line(use)}\n")
    sys.stderr.flush()
