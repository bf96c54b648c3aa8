"""Texts on runs for a terminal: models at work, costs of models, rungs, and results in Markdown.

A *use* is the cost of one model call, recorded when the call has ended; until then the settings
tell which model is asked. Estimated counts and unknown prices are marked as such. Text from models
and providers is escaped.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavewright.executor import RunState
from wavewright.planner import JsonObject
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelError, ModelUse
from wavewright.reviewer import Package, render_summary
from wavewright.reviewer.cost_records import Cost, NamedCost, RungReport
from wavewright.reviewer.package.call_reports import calls_text, money_text, sum_costs
from wavewright.reviewer.package.summary import MAX_WIDTH, result_text

if TYPE_CHECKING:
    from wavewright.config import Settings


ModelPhase: TypeAlias = Literal["planner", "reviewer", "recovery"]
"""Roles of the phases outside the executor."""

ModelLookup: TypeAlias = "Callable[[JsonObject, ModelPhase], str | None]"
"""Returns the model that such a phase asks for a goal; None if none is configured."""

_ACTIVITY_WORDS: dict[ModelPhase, str] = {
    "planner": "planning",
    "reviewer": "reviewing",
    "recovery": "recovering",
}


def model_lookup(settings: Settings) -> ModelLookup | None:
    """Return the lookup of a phase's model; None if no model is configured."""
    if settings.model is None:
        return None

    def model_of(goal: JsonObject, phase: ModelPhase) -> str | None:
        # Most runs ask no model.
        from wavewright.tools.models import choose_model

        preference = goal.get("model_preference")
        try:
            wanted = preference if isinstance(preference, str) else "auto"
            return choose_model(settings, wanted, phase, os.environ).model
        except ModelError:
            return None  # the phase itself reports the fault

    return model_of


def activity_text(
    state: RunState, at_work: ModelLookup | None, *, has_executed: bool
) -> str | None:
    """Return what a phase outside the executor does now, and with which model; None while steps
    run.
    """
    if state.started is None or state.finished is not None:
        return None
    if state.plan is None:
        drafts = [noted.body for noted in state.notes if noted.topic == "draft"]
        is_given = any(
            draft.get("rung") == "given" or draft.get("is_saved") is True for draft in drafts
        )
        return None if is_given else _activity_with_model(state.started.goal, "planner", at_work)
    verdict = next((noted.body for noted in reversed(state.notes) if noted.topic == "review"), None)
    if verdict is not None and verdict.get("round") == state.round:
        return (
            None
            if verdict.get("goal_achieved")
            else _activity_with_model(state.started.goal, "recovery", at_work)
        )
    return _activity_with_model(state.started.goal, "reviewer", at_work) if has_executed else None


def _activity_with_model(
    goal: JsonObject, phase: ModelPhase, at_work: ModelLookup | None
) -> str | None:
    model = at_work(goal, phase) if at_work is not None else None
    return f"{_ACTIVITY_WORDS[phase]} with {printable(model)}" if model is not None else None


_MAX_REASON_LENGTH = 160
_OUTCOMES = {
    "refused": "refused",
    "truncated": "was cut off",
    "failed": "gave no answer",
    "timeout": "took too long",
    "over_budget": "was not asked: over budget",
}


def cost_words(cost: Cost) -> str:
    """Return a cost on one line: calls, tokens, money, seconds."""
    return f"{calls_text(cost)}, {amount_words(cost)}, {cost.seconds:.2f} s"


def amount_words(cost: Cost) -> str:
    """Return tokens and money."""
    about = "about " if cost.estimated else ""
    tokens = f"{about}{counted(cost.tokens, 'token')}"
    return f"{tokens}, {money_text(cost)}" if cost.tokens else tokens


def use_line(use: ModelUse) -> str:
    """Return one line on a model call: role, model, outcome and cost."""
    role = str(use.role)
    asker = role if use.name in ("", use.role) else f"{role} {printable(use.name)}"
    place = f" for {use.step}" if use.step is not None else ""
    item = f"[{use.index}]" if use.index is not None else ""
    outcome = _OUTCOMES.get(use.outcome, "answered")
    why = f": {one_line(use.message)}" if use.message else ""
    attempts = f", {use.attempts} attempts" if use.attempts > 1 else ""
    cost = sum_costs([use])
    spent = f" ({amount_words(cost)}, {use.seconds:.2f} s{attempts})"
    return f"{asker}{place}{item}: {printable(use.model)} {outcome}{why}{spent}"


def rung_line(record: RungRecord) -> str:
    """Return one line on a rung that was tried."""
    words = f"{printable(record.ladder)}: rung {record.rung}"
    if record.outcome == "fallen":
        return f"{words} gave nothing{f': {one_line(record.reason)}' if record.reason else ''}"
    if record.ceiling >= 1:
        return f"{words} reached"
    because = f": {one_line(record.because)}" if record.because else ""
    return f"{words} reached, confidence at most {record.ceiling:g}{because}"


def models_of(uses: Sequence[ModelUse]) -> list[str]:
    """Return the models that were asked, without repetition, in order."""
    return list(dict.fromkeys(printable(use.model) for use in uses))


def noteworthy_rungs(records: Iterable[RungRecord]) -> Iterator[RungRecord]:
    """Yield the rungs that failed or that cap the confidence."""
    return (record for record in records if record.outcome == "fallen" or record.ceiling < 1)


def one_line(text: str) -> str:
    """Return an untrusted text on one line, escaped for a terminal."""
    line = printable(" ".join(text.split()))
    return (
        line if len(line) <= _MAX_REASON_LENGTH else f"{line[: _MAX_REASON_LENGTH - 1].rstrip()}…"
    )


_MARKDOWN = re.compile(
    r"^(?:#{1,6} |[-*+] |\d+\. |> |```|\|.*\|)|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\([^)\n]+\)",
    re.MULTILINE,
)


def summary_text(package: Package) -> str:
    """Return the summary of a package for standard output, as wide as the terminal if it is one."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else MAX_WIDTH
    return render_summary(package, rendered_result(package), width=width)


def rendered_result(package: Package) -> Sequence[str] | None:
    """Return the lines of a result for a terminal; None unless it is Markdown and standard output a
    terminal.
    """
    text = result_text(package)
    if text is None or not sys.stdout.isatty() or _MARKDOWN.search(text) is None:
        return None
    # Rich is loaded where a terminal shows Markdown.
    from wavewright.engine.interfaces.cli.common.markdown_text import markdown_lines

    return markdown_lines(text)


_MAX_COSTS = 20
_MAX_RUNGS = 30


def model_summary_lines(package: Package) -> Iterator[str]:
    """Yield the lines on models, an empty one first; nothing if no model was asked."""
    uses = package.model_uses
    if not uses.total.calls:
        return
    yield ""
    yield "Models"
    yield from _cost_lines("", uses.roles)
    yield from _cost_lines("rung ", uses.rungs)
    yield from _cost_lines("step ", uses.steps)
    if package.rungs:
        yield ""
        yield "Rungs"
        yield from (f"  {_rung_text(tried)}" for tried in package.rungs[:_MAX_RUNGS])
        if len(package.rungs) > _MAX_RUNGS:
            yield f"  … and {len(package.rungs) - _MAX_RUNGS} more"


def _cost_lines(kind: str, costs: Sequence[NamedCost]) -> Iterator[str]:
    for named in costs[:_MAX_COSTS]:
        yield f"  {f'{kind}{printable(named.name)}':<30}{cost_words(named.cost)}"
    if len(costs) > _MAX_COSTS:
        yield f"  … and {len(costs) - _MAX_COSTS} {kind.strip()}s more"


def _rung_text(tried: RungReport) -> str:
    item = f"[{tried.index}]" if tried.index is not None else ""
    step = f" for {tried.step}{item}" if tried.step is not None else ""
    outcome = "reached" if tried.outcome == "reached" else f"gave nothing: {one_line(tried.reason)}"
    return f"{printable(tried.ladder)}{step}: {tried.rung} {outcome}"
