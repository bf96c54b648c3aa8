"""What language models did and cost, in words for a terminal.

A *use* is the cost of one model call. Sums say what they are sums of: where a count is an estimate or a price is not
known, the words say so, and no missing figure passes for a nought. Texts that a model or a provider wrote are made
harmless first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wavewright.planner.ladder import RungRecord
from wavewright.planner.model_port import ModelUse
from wavewright.planner.rendering import printable
from wavewright.reviewer.cost_records import Cost
from wavewright.reviewer.costs import calls_text, money_text, sum_costs

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
    tokens = f"{about}{cost.tokens:,} token{'' if cost.tokens == 1 else 's'}"
    return f"{tokens}, {money_text(cost)}" if cost.tokens else tokens


def use_line(use: ModelUse) -> str:
    """Return one line on a model call: who asked which model, how that ended, what it cost."""
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
    """Return the models that were asked, each once, in their order."""
    return list(dict.fromkeys(printable(use.model) for use in uses))


def noteworthy_rungs(records: Iterable[RungRecord]) -> Iterator[RungRecord]:
    """Yield the rungs that are worth a word: those that gave nothing, and those that cap what they gave."""
    return (record for record in records if record.outcome == "fallen" or record.ceiling < 1)


def one_line(text: str) -> str:
    """Return a text from elsewhere on one line of a terminal."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _MAX_REASON_LENGTH else f"{line[: _MAX_REASON_LENGTH - 1].rstrip()}…"
