"""Which budgets a model call counts towards, and whether it may still be made.

A *budget counter* is one sum: of a run, of the work in it, of a job, of a day or of a step. Sums
are in whole units (calls, tokens, billionths of a dollar, millionths of a second), so that
reserving and giving back leaves no remainder.
Nothing is stored here: see `stores.py` and `tables.py`.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import (
    Allowance,
    BudgetExceeded,
    BudgetScope,
    RemainingBudget,
    Reservation,
    Spend,
)
from wavewright.planner.ports.model_port import ModelUse, Role

CALL_HISTORY_SIZE: Final = 200
"""Answered calls of a model in a role whose seconds are given out."""

LimitScope: TypeAlias = Literal["run", "job", "day", "step"]
Measure: TypeAlias = Literal["calls", "tokens", "usd", "seconds"]

FINISHING_ROLES: Final[frozenset[Role]] = frozenset({"recovery", "reviewer", "judge"})
"""Roles that may spend what is held back of a run's budget: without a review and a recovery the
rest is wasted.
"""

_MEASURES: Final[tuple[Measure, ...]] = ("calls", "tokens", "usd", "seconds")
_UNITS: Final[dict[Measure, int]] = {"calls": 1, "tokens": 1, "usd": 10**9, "seconds": 10**6}
_MAX_UNITS: Final = 10**15
"""Units beyond which no figure is believed: sums of many such still fit SQLite's integers."""


class Amount(NamedTuple):
    """What was spent or is reserved, in whole units."""

    calls: int = 0
    tokens: int = 0
    usd: int = 0
    """Billionths of a US dollar."""
    seconds: int = 0
    """Millionths of a second."""

    def plus(self, other: Amount) -> Amount:
        """Return the sum."""
        return Amount(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: Amount) -> Amount:
        """Return the difference."""
        return Amount(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def spend(self) -> Spend:
        """Return the same in dollars and seconds."""
        return Spend(
            self.calls, self.tokens, self.usd / _UNITS["usd"], self.seconds / _UNITS["seconds"]
        )


NO_AMOUNT: Final = Amount()


class BudgetCounter(NamedTuple):
    """One sum."""

    kind: Literal["run", "work", "job", "day", "step"]
    """`work`: of a run, what all roles but `FINISHING_ROLES` spend."""
    name: str
    """The run, the job or the day."""
    step: str = ""


Totals: TypeAlias = Callable[[BudgetCounter], Amount]


@dataclass(frozen=True, slots=True)
class _Limit:
    """The most that one counter may come to in one measure."""

    scope: LimitScope
    counter: BudgetCounter
    measure: Measure
    limit: int
    whole: int
    """The budget itself: more than `limit` where a part of it is held back."""
    setting: str
    """Where the budget is set, for the hint."""


class BudgetLimits:
    """The configured budgets, and those of goals."""

    def __init__(self, configured: BudgetsSection) -> None:
        self._configured = configured
        self._run_budgets = dict[str, Budget]()

    def limit_run(self, run: str, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget; the latest call counts."""
        if budget is None:
            self._run_budgets.pop(run, None)
        else:
            self._run_budgets[run] = budget

    def check(self, account: BudgetScope, day: str, amount: Spend, totals: Totals) -> Amount:
        """Return the amount to reserve for a call.

        A price that is not a finite number is an unknown one: it counts as nothing, and is refused
        under any budget of money.

        Raises:
            BudgetExceeded: it is more than is left.
        """
        reserved = _reserved_amount(amount)
        is_priceless = amount.usd in (math.inf, -math.inf) or amount.usd != amount.usd
        for bound in self._limits(account, day):
            if bound.measure == "usd" and is_priceless:
                raise BudgetExceeded(
                    f"what the call costs is not known, and the {bound.scope} has a budget in US dollars",
                    scope=bound.scope,
                    hint="say what the model costs under `models.prices` in wavewright.yaml",
                )
            left = max(0, bound.limit - getattr(totals(bound.counter), bound.measure))
            if getattr(reserved, bound.measure) > left:
                raise _refusal(bound, getattr(reserved, bound.measure), left)
        return reserved

    def left(self, account: BudgetScope, day: str, totals: Totals) -> Allowance:
        """Return what a scope could still reserve."""
        left: dict[LimitScope, dict[Measure, int]] = {"run": {}, "job": {}, "day": {}, "step": {}}
        for bound in self._limits(account, day):
            rest = max(0, bound.limit - getattr(totals(bound.counter), bound.measure))
            known = left[bound.scope]
            known[bound.measure] = min(rest, known.get(bound.measure, rest))
        spent = {counter.kind: totals(counter).spend() for counter in counters_of(account, day)}

        def of(scope: LimitScope) -> RemainingBudget:
            return _remaining(left[scope], spent.get(scope, Spend()))

        return Allowance(run=of("run"), job=of("job"), day=of("day"), step=of("step"))

    def _limits(self, account: BudgetScope, day: str) -> Iterator[_Limit]:
        """Yield the limits of a scope, the narrowest first."""
        configured = self._configured
        counters = {counter.kind: counter for counter in counters_of(account, day)}
        if "step" in counters:
            yield from _limits_of(
                "step", counters["step"], account.step_budget, "the step's `budget.{}`"
            )
        if account.run is not None:
            for budget, setting in (
                (self._run_budgets.get(account.run), "`limits.budget.{}` of the goal"),
                (configured.run, "`budgets.run.{}` in wavewright.yaml"),
            ):
                if "work" in counters:
                    share = configured.recovery_share
                    yield from _limits_of("run", counters["work"], budget, setting, held_back=share)
                yield from _limits_of("run", counters["run"], budget, setting)
        if "job" in counters:
            yield from _limits_of(
                "job", counters["job"], configured.job, "`budgets.job.{}` in wavewright.yaml"
            )
        yield from _limits_of(
            "day", counters["day"], configured.day, "`budgets.day.{}` in wavewright.yaml"
        )


def counters_of(account: BudgetScope, day: str) -> tuple[BudgetCounter, ...]:
    """Return the sums that a call counts towards."""
    counters = [BudgetCounter("day", day)]
    if account.job is not None:
        counters.append(BudgetCounter("job", account.job))
    if account.run is not None:
        counters.append(BudgetCounter("run", account.run))
        if account.role not in FINISHING_ROLES:
            counters.append(BudgetCounter("work", account.run))
    if account.step is not None:
        counters.append(BudgetCounter("step", account.run or "", account.step))
    return tuple(counters)


def _reserved_amount(amount: Spend) -> Amount:
    """Return an amount in whole units, rounded up; what is negative or no number counts as nothing."""
    return Amount(*(_units(measure, getattr(amount, measure)) or 0 for measure in _MEASURES))


def settled_amount(spent: Spend, reserved: Amount) -> Amount:
    """Return what a call came to; a figure that cannot be true is replaced by what was reserved for
    it.
    """
    units = (_units(measure, getattr(spent, measure)) for measure in _MEASURES)
    return Amount(
        *(
            aside if stated is None else stated
            for stated, aside in zip(units, reserved, strict=True)
        )
    )


def plausible_seconds(use: ModelUse) -> float | None:
    """Return the seconds of an answered call, for estimates; None where they cannot be true."""
    is_known = use.outcome == "answered" and math.isfinite(use.seconds) and use.seconds >= 0
    return use.seconds if is_known else None


def budget_day(seconds: float, latest: str | None) -> str:
    """Return the date (UTC) of an instant, but never one before the latest on record.

    A clock that goes back neither begins a day anew nor gives anything back.
    """
    today = dt.datetime.fromtimestamp(seconds, dt.UTC).date().isoformat()
    return today if latest is None else max(today, latest)


def _units(measure: Measure, value: float) -> int | None:
    """Return a figure in whole units, rounded up; None where it is negative or no number."""
    if isinstance(value, int):
        return None if value < 0 else min(_MAX_UNITS, value * _UNITS[measure])
    if not math.isfinite(value) or value < 0:
        return None
    units = min(value * _UNITS[measure], float(_MAX_UNITS))
    # Up to what a float can tell apart: 0.1 dollars are not 100,000,001 billionths.
    return math.ceil(round(units, 3))


def _limits_of(
    scope: LimitScope,
    counter: BudgetCounter,
    budget: BudgetSettings | Budget | None,
    setting: str,
    *,
    held_back: float = 0.0,
) -> Iterator[_Limit]:
    if budget is None:
        return
    for measure in _MEASURES:
        limit: float | None = getattr(budget, measure)
        if limit is None:
            continue
        whole = round(limit * _UNITS[measure])
        yield _Limit(
            scope, counter, measure, whole - int(whole * held_back), whole, setting.format(measure)
        )


def _remaining(rests: dict[Measure, int], spent: Spend) -> RemainingBudget:
    usd, seconds = rests.get("usd"), rests.get("seconds")
    return RemainingBudget(
        calls=rests.get("calls"),
        tokens=rests.get("tokens"),
        usd=None if usd is None else usd / _UNITS["usd"],
        seconds=None if seconds is None else seconds / _UNITS["seconds"],
        spent=spent,
    )


def _refusal(bound: _Limit, asked: int, left: int) -> BudgetExceeded:
    measure = bound.measure
    budget = f"the {bound.scope}'s budget of {format_measure(measure, bound.whole)}"
    needed, remaining = format_measure(measure, asked), format_measure(measure, left)
    message = f"the call may take {needed}, and {budget} has {remaining} left"
    if bound.limit < bound.whole:
        message += f" beside the {format_measure(measure, bound.whole - bound.limit)} held back for review and recovery"
    hint = f"raise {bound.setting}, or ask for less"
    if bound.scope == "day":
        hint += "; a new day begins at midnight UTC"
    return BudgetExceeded(
        message, scope=bound.scope, hint=hint, measure=measure, left=left / _UNITS[measure]
    )


def format_measure(measure: Measure, units: int) -> str:
    """Return a figure as people read it."""
    match measure:
        case "calls" | "tokens":
            return counted(units, measure.removesuffix("s"))
        case "usd":
            return f"${_format_figure(units / _UNITS['usd'], 4)}"
        case "seconds":
            return f"{_format_figure(units / _UNITS['seconds'], 1)} s"


def _format_figure(figure: float, places: int) -> str:
    """Return a figure with so many places, or with all that it has where those would show nothing
    of it.
    """
    is_lost = 0 < figure < 10.0**-places
    return f"{figure:.9f}".rstrip("0") if is_lost else f"{figure:,.{places}f}"


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve an amount."""

    account: BudgetScope
    amount: Spend


@dataclass(frozen=True, slots=True)
class Settle:
    """Replace a reservation by what the call came to; without a use, by nothing: the call was never
    made.
    """

    id: int
    spent: Spend
    use: ModelUse | None


BudgetRequest: TypeAlias = Reserve | Settle


BudgetReply: TypeAlias = Reservation | BudgetExceeded | None
