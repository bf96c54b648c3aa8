"""What `wavewright doctor` finds out about language models: which would be asked, and whether they answer.

Each model that a role would ask is asked one short question with a short clock. Where there is a journal, what that
costs is charged to the day like any other call. A key is never shown.
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
from wavewright.executor.store.errors import JournalError
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
"""How long one question may take, its retries included."""
_MAX_TOKENS = 512
"""Ceiling of one answer: room for a model that thinks before it says a word."""
_QUESTION = "Answer with the one word: ready"

_HINTS: dict[ModelErrorKind, str] = {
    "unreachable": "see that the address is right and that somebody answers there, or set models.fallbacks",
    "overloaded": "try again later, or set models.fallbacks",
    "denied": "see that the key is right and may use this model",
    "refused": "name another model",
    "bad_answer": "see that the address speaks the provider's language, or name another model",
    "timeout": "try again later, or set models.fallbacks",
    "over_budget": "raise the budget in wavewright.yaml",
    "over_context": "name a model that reads more at once",
}
"""What may help where the error itself does not say."""


@dataclass(slots=True)
class _ProbedModel:
    """A model that is asked for the same reason by several roles."""

    model: str
    why: str
    fallbacks: tuple[str, ...]
    roles: list[Role] = field(default_factory=list[Role])


@dataclass(frozen=True, slots=True)
class _ProbeResult:
    """What was found out by asking."""

    answers: tuple[DoctorFinding, ...]
    left: Allowance


def model_findings(settings: Settings, *, is_offline: bool) -> Iterator[DoctorFinding]:
    """Yield which models would be asked and, unless offline, whether they answer."""
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
    """Return the models of all roles; roles that ask the same one for the same reason stand together."""
    found: dict[tuple[str, str], _ProbedModel] = {}
    roles: tuple[Role, ...] = get_args(Role)
    for role in roles:
        choice = choose_model(settings, "auto", role, environment)
        place = (choice.model, choice.why)
        found.setdefault(place, _ProbedModel(choice.model, choice.why, choice.fallbacks)).roles.append(role)
    return list(found.values())


def _choice_words(choice: _ProbedModel) -> str:
    fallbacks = f", then {', then '.join(choice.fallbacks)}" if choice.fallbacks else ""
    everybody = len(choice.roles) == len(get_args(Role))
    roles = "every role" if everybody else ", ".join(choice.roles)
    return one_line(f"{choice.model}{fallbacks} for {roles}: {choice.why}")


async def _cassette(settings: Settings) -> DoctorFinding:
    """Open the cassette, as a run would, and close it again."""
    from wavewright.executor.budgets.stores import MemoryBudgetStore
    from wavewright.tools.models import open_models

    try:
        async with open_models(settings, MemoryBudgetStore()):
            pass
    except ModelConfigError as error:  # names and keys were looked at before
        return DoctorFinding("cassette", "fault", str(error), error.hint or "")
    if settings.cassette_mode == "record":
        return DoctorFinding("cassette", "note", f"{settings.cassette}: what it lacks is asked and recorded")
    return DoctorFinding(
        "cassette", "note", f"answers are replayed from {settings.cassette}; no model is asked"
    )


async def _probe(settings: Settings, chosen: Iterable[_ProbedModel]) -> _ProbeResult:
    """Ask each model once, and look into the purse afterwards.

    Raises:
        ModelConfigError: the models cannot be asked as things are set up.
        JournalError: the journal, which keeps what was spent, cannot be used.
    """
    from wavewright.planner.ports.budgets import BudgetScope
    from wavewright.tools.models import open_models

    async with AsyncExitStack() as stack:
        budget_store = await stack.enter_async_context(_budget_store(settings))
        answers: list[DoctorFinding] = []
        asked: dict[str, Role] = {choice.model: choice.roles[0] for choice in reversed(list(chosen))}
        if asked:
            # Past the cassette: this question is none of those that a project records.
            live = replace(settings, cassette=None)
            models = await stack.enter_async_context(open_models(live, budget_store))
            answers = [await _probe_model(models, model, asked[model]) for model in reversed(asked)]
        return _ProbeResult(tuple(answers), await budget_store.left(BudgetScope()))


def _budget_store(settings: Settings) -> AbstractAsyncContextManager[InspectableBudgetStore]:
    """Return the project's purse; looking creates no journal, and without one there is nothing spent."""
    if has_journal(settings):
        from wavewright.executor.stores import budget_store_of

        return budget_store_of(settings)
    from wavewright.executor.budgets.stores import MemoryBudgetStore

    return MemoryBudgetStore(settings.budgets)


async def _probe_model(models: ModelClient, model: str, role: Role) -> DoctorFinding:
    """Ask a short question and say what came of it."""
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
            "answer", "fault", f"{model} gave none: {one_line(str(error))}", error.hint or _HINTS[error.kind]
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
        detail = f"none: models may cost anything ({today})"
        return DoctorFinding("budgets", "note", detail, "set budgets.run or budgets.day in wavewright.yaml")
    return DoctorFinding("budgets", "ok", "; ".join([*words, today]))


def _budget_bounds(budget: BudgetSettings, rest: RemainingBudget | None) -> Iterator[str]:
    """Yield each bound of a budget, with what is left of it where that is known."""
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
