"""Mend what is safe to mend in a plan, and prove that nothing else has changed.

A *fix* goes in rounds: the warnings of one kind are mended together, the text is read again, and what was read must
be the value that was meant, sound, and doing the same as before. A mend that fails any of that is left to the
author, with the reason. Nothing here writes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from wavewright.config.documents import Document, DocumentError, read_document
from wavewright.engine.fixing.edits import NotEditable, applied
from wavewright.engine.fixing.mends import Mend, edits_of, mend_of, mended_value, merged_by
from wavewright.engine.fixing.sameness import difference
from wavewright.engine.jobs import PlanOrigin
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.models import Plan
from wavewright.planner.pointers import tokens
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json

MENDED_CODES = ("W803", "W802")
"""Warnings that are answered here, in the order of the rounds."""

_MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Judged:
    """A plan as its goal has it, with everything that was found in it."""

    bound: Plan
    found: tuple[Diagnostic, ...]
    """With pointers from the plan, without places."""


Judge = Callable[[Plan], Judged]


@dataclass(frozen=True, slots=True)
class Left:
    """A warning that could be mended elsewhere, and why it is not mended here."""

    found: Diagnostic
    why: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A document after its plan was mended."""

    origin: PlanOrigin
    """The mended document, with the place of the plan in it."""
    plan: Plan
    judged: Judged
    mends: tuple[Mend, ...]
    left: tuple[Left, ...]


def fix_plan(plan: Plan, origin: PlanOrigin, tools: Mapping[str, ToolSignature], judge: Judge) -> Fixed:
    """Return a plan's document with all that is safe to mend mended; a plan with errors stays as it is."""
    fixed = Fixed(origin, plan, judge(plan), (), ())
    for _ in range(_MOST_ROUNDS):
        following = _round(fixed, tools, judge)
        if following.mends == fixed.mends:
            return following
        fixed = following
    return fixed


def _round(fixed: Fixed, tools: Mapping[str, ToolSignature], judge: Judge) -> Fixed:
    """Mend the warnings of the first kind of which any can be mended, or say why none can."""
    left: list[Left] = []
    for code in MENDED_CODES:
        mends: list[Mend] = []
        for found in fixed.judged.found:
            if found.code == code:
                try:
                    mends.append(mend_of(found, fixed.plan, fixed.judged.bound, tools))
                except NotEditable as reason:
                    left.append(Left(found, str(reason)))
        # All together, or else the first that can be mended alone.
        alone = [[mend] for mend in mends]
        for some in alone if len(alone) < 2 else [mends, *alone]:
            try:
                return _after(fixed, some, judge)
            except NotEditable as reason:
                left += [Left(mend.found, str(reason)) for mend in some if len(some) == 1]
    return replace(fixed, left=tuple(left))


def _after(fixed: Fixed, mends: Sequence[Mend], judge: Judge) -> Fixed:
    """Return the document after the mends.

    Raises:
        NotEditable: the text would not say just what is meant, or the plan would do something else.
    """
    origin = _mended_origin(fixed.origin, mends)
    plan = _plan_at(origin)
    otherwise = difference(fixed.plan, plan, merged_by(mends))
    if otherwise is not None:
        raise NotEditable(otherwise)
    judged = judge(plan)
    fault = next((found for found in judged.found if found.severity == "error"), None)
    if fault is not None:
        msg = f"without it the plan is not sound: {fault.message}"
        raise NotEditable(msg)
    return replace(fixed, origin=origin, plan=plan, judged=judged, mends=(*fixed.mends, *mends))


def _mended_origin(origin: PlanOrigin, mends: Sequence[Mend]) -> PlanOrigin:
    document = origin.document
    text = applied(document.source.text, edits_of(document, origin.pointer, mends))
    try:
        after = read_document(text, document.source.name)
    except DocumentError as error:
        msg = "the text could not be read afterwards"
        raise NotEditable(msg) from error
    if after.value != mended_value(document.value, origin.pointer, mends):
        msg = "the text would say something else"
        raise NotEditable(msg)
    return PlanOrigin(after, origin.pointer)


def _plan_at(origin: PlanOrigin) -> Plan:
    return Plan.model_validate(_value_at(origin.document, origin.pointer))


def _value_at(document: Document, pointer: str) -> Json:
    value = document.value
    for key in tokens(pointer):
        assert isinstance(value, dict)
        value = value[key]
    return value
