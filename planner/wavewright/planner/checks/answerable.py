"""E602: approvals and answers that no person can give where a plan is to run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from wavewright.planner.checks.context import CheckContext
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.signatures import ASK_PERSON, asks_approval
from wavewright.planner.plans.estimates import calls_nothing
from wavewright.planner.types import StepId

_WHERE: Final = (
    "at a terminal, with `--approve wait`, by a daemon whose decisions people answer, "
    "or in Python with `Wavewright({}=…)`"
)


_WITHOUT_STEP: Final = "leave the step out, or answer that the goal cannot be planned without it"
_WITHOUT_APPROVAL: Final = (
    "leave out `needs_approval`, and pass constants, inputs of the job or one of several "
    "trusted values"
)


def unanswerable_steps(
    subject: CheckContext, finished: Collection[StepId], *, can_ask: bool, can_answer: bool
) -> Iterator[Diagnostic]:
    """Yield the steps that would wait for an approval or an answer that no person can give."""
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        if signature is None or step.id in finished or calls_nothing(subject.plan, step):
            continue
        if not can_ask and asks_approval(step, signature):
            yield make_diagnostic(
                "E602",
                f"/steps/{number}",
                f"step {step.id!r} calls {step.tool!r}, which needs approval, and nobody can be asked here",
                f"run it where somebody can answer ({_WHERE.format('approve')}), or approve every step beforehand with "
                "`--approve always`",
                hint_for_model=_WITHOUT_APPROVAL if step.needs_approval else _WITHOUT_STEP,
            )
        if not can_answer and step.tool == ASK_PERSON and "default" not in step.params:
            yield make_diagnostic(
                "E602",
                f"/steps/{number}",
                f"step {step.id!r} asks a person, and nobody can be asked here",
                f"run it where somebody can answer ({_WHERE.format('ask')}), or give step {step.id!r} a `default`",
            )
