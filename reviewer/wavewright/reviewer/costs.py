"""What language models cost in a run, from its events.

*Orchestrator tokens* are those of planning, recovery, review, judging and agents' loops; *worker tokens* those of
model workers. Every call counts, answered or not, for what it was charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from wavewright.executor.events import LoopToolCalled
from wavewright.executor.state import RunState
from wavewright.planner.model_port import ModelUse
from wavewright.reviewer.calls import summarized_params
from wavewright.reviewer.cost_records import Cost, LoopCallReport, ModelUses, NamedCost, RungReport
from wavewright.reviewer.times import duration_text
from wavewright.reviewer.values import shorten

_MAX_LOOP_CALLS = 1000
_MAX_RUNGS = 2000
_MAX_TEXT = 300


def sum_costs(uses: Iterable[ModelUse]) -> Cost:
    """Return the sum of some uses."""
    listed = tuple(uses)
    priced = [use.usd for use in listed if use.usd is not None]
    return Cost(
        calls=len(listed),
        unanswered=sum(use.outcome != "answered" for use in listed),
        # Where a budget refused only to repeat a request, the call was made.
        over_budget=sum(use.outcome == "over_budget" and not use.attempts for use in listed),
        attempts=sum(use.attempts for use in listed),
        input_tokens=sum(use.input_tokens for use in listed),
        output_tokens=sum(use.output_tokens for use in listed),
        usd=sum(priced) if priced else None,
        unpriced=sum(use.usd is None and use.tokens > 0 for use in listed),
        estimated=sum(use.is_estimated for use in listed),
        seconds=sum(use.seconds for use in listed),
    )


def sum_uses(state: RunState) -> ModelUses:
    """Return the cost of all model calls of a run."""
    uses = [state.uses[number] for number in sorted(state.uses)]
    return ModelUses(
        total=sum_costs(uses),
        steps=_costs_by(uses, lambda use: use.step),
        roles=_costs_by(uses, lambda use: use.role),
        rungs=_costs_by(uses, lambda use: f"{use.role} {use.rung}" if use.rung else None),
        models=_costs_by(uses, lambda use: use.model),
    )


def token_shares(state: RunState) -> tuple[int, int]:
    """Return orchestrator tokens and worker tokens."""
    by_workers = sum(use.tokens for use in state.uses.values() if use.role == "worker")
    return sum(use.tokens for use in state.uses.values()) - by_workers, by_workers


def list_rungs(state: RunState) -> tuple[RungReport, ...]:
    """Return every rung that was tried, in the order of the run; the first where they are very many."""
    return tuple(
        RungReport(
            ladder=taken.rung.ladder,
            rung=taken.rung.rung,
            outcome=taken.rung.outcome,
            reason=shorten(taken.rung.reason, _MAX_TEXT),
            seconds=taken.rung.seconds,
            ceiling=taken.rung.ceiling,
            because=taken.rung.because,
            step=taken.step,
            index=taken.index,
        )
        for taken in state.rungs[:_MAX_RUNGS]
    )


def list_loop_calls(state: RunState) -> tuple[LoopCallReport, ...]:
    """Return the tools that agents called inside their steps, step by step."""
    return tuple(_loop_call_report(made) for made in _loop_calls(state))


def cost_lines(uses: ModelUses, orchestrator: int, workers: int) -> Iterator[str]:
    """Yield what models cost, in a line or two of words; nothing where none was asked."""
    total = uses.total
    if not total.calls:
        return
    asked = ", ".join(named.name for named in uses.models[:3])
    more = f" and {len(uses.models) - 3} more" if len(uses.models) > 3 else ""
    yield f"{calls_text(total)} of {asked}{more}, {duration_text(total.seconds)} added up"
    about = "about " if total.estimated else ""
    yield (
        f"{about}{total.tokens:,} tokens (orchestrator {orchestrator:,}, workers {workers:,}), "
        f"{money_text(total)}"
    )


def calls_text(cost: Cost) -> str:
    """Return how many calls were made, how many of them had no answer, and how many a budget refused."""
    silent = cost.unanswered - cost.over_budget
    notes = [f"{silent} without an answer"] if silent else []
    if cost.over_budget:
        notes.append(f"{cost.over_budget} over budget and never made")
    made = _counted_calls(cost.made, "call") if cost.made else "no call"
    return f"{made} ({', '.join(notes)})" if notes else made


def money_text(cost: Cost) -> str:
    """Return the money; what has no known price is said, not left out."""
    if cost.unpriced:
        return "price unknown" if not cost.usd else f"at least {usd_text(cost.usd)}"
    return usd_text(cost.usd or 0.0)


def usd_text(usd: float) -> str:
    """Return an amount of US dollars; one too small for four digits is said to be small, not nothing."""
    return f"{usd:.4f} USD" if usd == 0 or usd >= 0.0001 else "under 0.0001 USD"


def _costs_by(uses: Iterable[ModelUse], name_of: Callable[[ModelUse], str | None]) -> tuple[NamedCost, ...]:
    groups: dict[str, list[ModelUse]] = {}
    for use in uses:
        name = name_of(use)
        if name is not None:
            groups.setdefault(name, []).append(use)
    return tuple(NamedCost(name=name, cost=sum_costs(group)) for name, group in groups.items())


def _loop_calls(state: RunState) -> Iterator[LoopToolCalled]:
    for _, made in sorted(state.loop_calls.items()):
        yield from made[:_MAX_LOOP_CALLS]


def _loop_call_report(made: LoopToolCalled) -> LoopCallReport:
    return LoopCallReport(
        step=made.step,
        index=made.index,
        tool=made.call.tool,
        params=summarized_params(made.call.params),
        status=made.call.status,
        seconds=made.call.seconds,
        message=shorten(made.call.message, _MAX_TEXT),
    )


def _counted_calls(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
