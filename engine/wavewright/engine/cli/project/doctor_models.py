"""Checks of `wavewright doctor` on language models: which are configured, and whether they answer.

Each model that a role would ask is asked one short question with a short timeout. The cost is charged to the day's
budget in the journal, if there is one. Keys are never shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

import anyio

from wavewright.engine.cli.common.arguments import has_journal
from wavewright.engine.cli.common.run_text import amount_words, one_line
from wavewright.engine.cli.project.project_checks import DoctorFinding
from wavewright.executor.store.journal import JournalError
from wavewright.planner.ports.model_port import ModelCall, ModelError, ModelErrorKind, ModelUse, Role
from wavewright.reviewer.package.call_reports import sum_costs, usd_text
from wavewright.tools.models import ModelConfigError, check_models, choose_model, model_configured

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from wavewright.config.sections import BudgetSettings
    from wavewright.config.settings import Settings
    from wavewright.planner.ports.budgets import Allowance, InspectableBudgetStore, RemainingBudget
    from wavewright.planner.ports.model_port import ModelClient

_TIMEOUT_SECONDS = 20.0
"""Timeout of one question, including its retries."""
_MAX_TOKENS = 512
"""Token limit of one answer: enough for a model that thinks before it answers."""
_QUESTION = "Answer with the one word: ready"

_HINTS: dict[ModelErrorKind, str] = {
    "unreachable": "check the address and whether a server answers there, or set models.fallbacks",
    "overloaded": "try again later, or set models.fallbacks",
    "denied": "check that the key is right and may use this model",
    "refused": "name another model",
    "bad_answer": "check that the address implements the provider's API, or name another model",
    "timeout": "try again later, or set models.fallbacks",
    "over_budget": "raise the budget in wavewright.yaml",
    "over_context": "name a model with a larger context window",
}
"""Hints for errors without a hint of their own."""


@dataclass(slots=True)
class _ProbedModel:
    """A model, with the roles that ask it for the same reason."""

    model: str
    why: str
    fallbacks: tuple[str, ...]
    roles: list[Role] = field(default_factory=list[Role])


@dataclass(frozen=True, slots=True)
class _ProbeResult:
    """The answers of the models, and the budget that is left."""

    answers: tuple[DoctorFinding, ...]
    left: Allowance


def model_findings(settings: Settings, *, is_offline: bool) -> Iterator[DoctorFinding]:
    """Yield the configured models and, unless offline, whether they answer."""
    if not model_configured(settings):
        yield DoctorFinding(
            "model", "note", "none configured: plans come from jobs and goal templates, reviews from code"
        )
        return
    try:
        check_models(settings)
        chosen = _choices(settings, os.environ)
    except ModelConfigError as error:
        yield DoctorFinding("model", "fault", str(error), error.hint or "")
        return
    for choice in chosen:
        yield DoctorFinding("model", "ok", _choice_words(choice))
    replays = settings.cassette is not None and settings.cassette_mode == "replay"
    if settings.cassette is not None:
        yield anyio.run(_cassette, settings)
    try:
        seen = anyio.run(_probe, settings, () if is_offline or replays else chosen)
    except (ModelConfigError, JournalError) as error:
        yield DoctorFinding("model", "fault", str(error), error.hint or "")
        return
    yield from seen.answers
    yield _budget_findings(settings, seen.left)


def _choices(settings: Settings, environment: Mapping[str, str]) -> list[_ProbedModel]:
    """Return the models of all roles; roles that ask the same model for the same reason are grouped."""
    found: dict[tuple[str, str], _ProbedModel] = {}
    roles: tuple[Role, ...] = get_args(Role)
    for role in roles:
        choice = choose_model(settings, "auto", role, environment)
        place = (choice.model, choice.why)
        found.setdefault(place, _ProbedModel(choice.model, choice.why, choice.fallbacks)).roles.append(role)
    return list(found.values())


def _choice_words(choice: _ProbedModel) -> str:
    fallbacks = f", then {', then '.join(choice.fallbacks)}" if choice.fallbacks else ""
    is_for_all = len(choice.roles) == len(get_args(Role))
    roles = "every role" if is_for_all else ", ".join(choice.roles)
    return one_line(f"{choice.model}{fallbacks} for {roles}: {choice.why}")


async def _cassette(settings: Settings) -> DoctorFinding:
    """Return whether a run could open the cassette."""
    from wavewright.executor.budgets.stores import MemoryBudgetStore
    from wavewright.tools.models import open_models

    try:
        async with open_models(settings, MemoryBudgetStore()):
            pass
    except ModelConfigError as error:  # names and keys were checked before
        return DoctorFinding("cassette", "fault", str(error), error.hint or "")
    if settings.cassette_mode == "record":
        return DoctorFinding(
            "cassette", "note", f"{settings.cassette}: missing answers are asked and recorded"
        )
    return DoctorFinding(
        "cassette", "note", f"answers are replayed from {settings.cassette}; no model is asked"
    )


async def _probe(settings: Settings, chosen: Iterable[_ProbedModel]) -> _ProbeResult:
    """Ask each model once, and read the remaining budget afterwards.

    Raises:
        ModelConfigError: the models are not configured correctly.
        JournalError: the journal, which keeps the budgets, cannot be used.
    """
    from wavewright.planner.ports.budgets import BudgetScope
    from wavewright.tools.models import open_models

    async with AsyncExitStack() as stack:
        budget_store = await stack.enter_async_context(_budget_store(settings))
        answers: list[DoctorFinding] = []
        asked: dict[str, Role] = {choice.model: choice.roles[0] for choice in reversed(list(chosen))}
        if asked:
            # Without the cassette, which does not record this question.
            live = replace(settings, cassette=None)
            models = await stack.enter_async_context(open_models(live, budget_store))
            answers = [await _probe_model(models, model, asked[model]) for model in reversed(asked)]
        return _ProbeResult(tuple(answers), await budget_store.left(BudgetScope()))


def _budget_store(settings: Settings) -> AbstractAsyncContextManager[InspectableBudgetStore]:
    """Return the project's budget store; without a journal, an empty one in memory."""
    if has_journal(settings):
        from wavewright.executor.stores import budget_store_of

        return budget_store_of(settings)
    from wavewright.executor.budgets.stores import MemoryBudgetStore

    return MemoryBudgetStore(settings.budgets)


async def _probe_model(models: ModelClient, model: str, role: Role) -> DoctorFinding:
    """Ask a model a short question and return the finding."""
    uses: list[ModelUse] = []
    call = ModelCall(
        role=role,
        name="doctor",
        instructions="You are asked whether you can be reached.",
        prompt=_QUESTION,
        thinking="minimal",
        max_tokens=_MAX_TOKENS,
        timeout=_TIMEOUT_SECONDS,
    )
    try:
        answer = await models.ask(call, on_use=uses.append)
    except ModelError as error:
        return DoctorFinding(
            "answer",
            "fault",
            f"{model} gave no answer: {one_line(str(error))}",
            error.hint or _HINTS[error.kind],
        )
    spent = amount_words(sum_costs(uses))
    by = answer.use.model if answer.use.model != model else ""
    instead = f" (a fallback: {model} gave no answer)" if by else ""
    detail = f"{by or model} answered in {answer.use.seconds:.2f} s{instead}, {spent}"
    name = (by or model).partition(":")[2]
    hint = f"set models.prices.{name} in wavewright.yaml" if sum_costs(uses).unpriced else ""
    return DoctorFinding("answer", "note" if by else "ok", detail, hint)


def _budget_findings(settings: Settings, left: Allowance) -> DoctorFinding:
    scopes = (
        ("run", settings.budgets.run, None),
        ("job", settings.budgets.job, None),
        ("day", settings.budgets.day, left.day),
    )
    words = [
        f"{scope}: {', '.join(_budget_bounds(budget, rest))}"
        for scope, budget, rest in scopes
        if any(value is not None for _, value in budget)
    ]
    spent = left.day.spent
    today = f"today {spent.tokens:,} tokens, {usd_text(spent.usd)}"
    if not words:
        detail = f"none: the cost of models is not limited ({today})"
        return DoctorFinding("budgets", "note", detail, "set budgets.run or budgets.day in wavewright.yaml")
    return DoctorFinding("budgets", "ok", "; ".join([*words, today]))


def _budget_bounds(budget: BudgetSettings, rest: RemainingBudget | None) -> Iterator[str]:
    """Yield each limit of a budget, with what is left of it if that is known."""
    bounds = (
        ("tokens", "tokens", ",.0f"),
        ("usd", "USD", ",.4f"),
        ("calls", "calls", ",.0f"),
        ("seconds", "s", ",.1f"),
    )
    for measure, unit, form in bounds:
        whole: float | None = getattr(budget, measure)
        if whole is None:
            continue
        remaining: float | None = getattr(rest, measure) if rest is not None else None
        of = f"{remaining:{form}} of " if remaining is not None else ""
        yield f"{of}{whole:{form}} {unit}{' left' if of else ''}"
