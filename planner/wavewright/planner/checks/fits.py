"""W812 and W813: references whose values may not fit where they are given.

A value that may not fit because of its kind (a null, a member of a union, an object without an
optional field) is a warning with its mend. Where the value decides, it is checked at the call; a
strict check tells these places as well. See docs/explanation/semantics.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from wavewright.config.sources import pointer_keys
from wavewright.planner.cel.embedded import bare_expression, guarded_steps, joined_conditions
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.plain_paths import is_plain_path
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.nulls import (
    Facts,
    NullUse,
    facts_of,
    facts_of_elements,
    null_in_text,
    uses_of_null,
)
from wavewright.planner.checks.types import Fit, fit_of
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.uses import ExpressionRole, ExpressionText, ExpressionUse, plan_texts
from wavewright.planner.schemas.inference import PartTypes
from wavewright.planner.schemas.views import (
    element_schema,
    field_schema,
    scoped_schema,
    self_contained_schema,
    view_schema,
)
from wavewright.planner.types import JsonSchema, StepId


def misfits_of_kind(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield the references of a plan without errors whose values may be of a kind that does not
    fit.
    """
    lists_of_null = set[StepId]()
    for step, use, fit in _fits(subject):
        expression = use.expression.strip()
        if fit.level == "member" and not _is_asked(step, expression):
            if use.role == "for_each":
                lists_of_null.add(step.id)
            hint = _mend(expression, fit, use)
            yield make_diagnostic("W812", use.pointer, _message(step, use, fit), hint)
    yield from _uses_of_null(subject, lists_of_null)


def _uses_of_null(subject: CheckContext, lists_of_null: Collection[StepId]) -> Iterator[Diagnostic]:
    """Yield the expressions that fail where a part of them is null; where a step's list may be
    null, that was said of the list and is not of its items.
    """
    for step, texts in zip(subject.plan.steps, subject.texts, strict=True):
        uses = [*_uses_that_can_fail(texts)]
        known = _facts_of_step(subject, step) if uses else frozenset[str]()
        said = {"item"} if step.id in lists_of_null else set[str]()
        for use in uses:
            types = subject.types.part_types(use.expression.strip(), use.role, step)
            known_here = frozenset[str]() if use.role == "when" else known
            yield from _nulls(use, types, known_here, said)
    for text in plan_texts(subject.plan):
        if text.role in _BESIDE_STEPS:
            gated = _gated_step(subject, text)
            output = None if gated is None else subject.types.call_output(gated)
            for use in _uses_that_can_fail([text]):
                types = subject.types.part_types(
                    use.expression.strip(), use.role, gated, output=output
                )
                yield from _nulls(use, types, frozenset(), ())


def _uses_that_can_fail(texts: Iterable[ExpressionText]) -> Iterator[ExpressionUse]:
    for text in texts:
        for use, reads in text.reads.items():
            if not isinstance(reads, ExpressionError) and not _reads_whole_output(use):
                yield use


def _gated_step(subject: CheckContext, text: ExpressionText) -> Step | None:
    """Return the step whose output a gate's check asks about."""
    if text.role != "gate":
        return None
    on = subject.plan.gates[int(pointer_keys(text.pointer)[1])].on
    return None if on is None else subject.steps.get(on)


def _reads_whole_output(use: ExpressionUse) -> bool:
    """Whether nothing can be null: a root, or one field of it, which is read as a whole."""
    expression = use.expression.strip()
    return (
        use.is_whole
        and expression.count(".") < 2
        and is_plain_path(expression)
        and not expression.startswith("item")
    )


def _nulls(
    use: ExpressionUse, types: PartTypes, known: Facts, said: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield one diagnostic for each part that may be null, unless it was said of that part."""
    expression = use.expression.strip()
    tree = parse_expression(expression)
    nulls = [*uses_of_null(tree, expression, types, known)]
    if not use.is_whole and use.role in ("params", "result"):
        nulls += null_in_text(tree, expression, types, known)
    first = dict[str, NullUse]()
    for null in nulls:
        first.setdefault(null.part, null)
    yield from (_null_diagnostic(use, null) for part, null in first.items() if part not in said)


_CONDITIONS: frozenset[ExpressionRole] = frozenset({"when", "gate", "cap"})
_BESIDE_STEPS: frozenset[ExpressionRole] = frozenset({"gate", "cap", "result"})


def _facts_of_step(subject: CheckContext, step: Step) -> Facts:
    """Return what is not null where a step runs, for its `when` and for the list of its items."""
    facts = frozenset[str]()
    places: tuple[tuple[str | None, ExpressionRole], ...] = (
        (step.when, "when"),
        (step.for_each if isinstance(step.for_each, str) else None, "for_each"),
    )
    for text, role in places:
        if text is None:
            continue
        try:
            expression = bare_expression(text).expression.strip()
            tree = parse_expression(expression)
        except ExpressionError:
            continue
        types = subject.types.part_types(expression, role, step)
        if role == "when":
            facts |= facts_of(tree, expression, types)
        else:
            facts |= facts_of_elements(tree, expression, types, "item")
    return facts


def _null_diagnostic(use: ExpressionUse, null: NullUse) -> Diagnostic:
    if null.of_elements:
        message = f"an element of {null.part!r} may be null, and {null.fault}"
        hint = f"leave it out: {null.part}.filter(x, x != null)"
        return make_diagnostic("W812", use.pointer, message, hint)
    expression = use.expression.strip()
    reader = expression if is_plain_path(expression) else null.reader
    other = f"{null.part} != null ? {reader} : …"
    hint = (
        f"give another value for that case: {other if use.role in _CONDITIONS else f'${{{other}}}'}"
    )
    message = f"{null.part!r} may be null, and {null.fault}"
    return make_diagnostic("W812", use.pointer, message, hint)


def fits_by_value(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield the references of a plan without errors of which only a call shows whether the value
    fits.
    """
    for step, use, fit in _fits(subject):
        if fit.level == "value":
            hint = "the call is refused where it does not fit"
            yield make_diagnostic("W813", use.pointer, _message(step, use, fit), hint)


_LIST: JsonSchema = {"type": "array"}


def _fits(subject: CheckContext) -> Iterator[tuple[Step, ExpressionUse, Fit]]:
    """Yield how the value of each whole reference fits its place."""
    for number, (step, texts) in enumerate(zip(subject.plan.steps, subject.texts, strict=True)):
        signature = subject.signature(step)
        for text in texts:
            for use in text.reads:
                target = None
                if use.is_whole and text.role == "params" and signature is not None:
                    target = _schema_at(signature.input_schema, pointer_keys(use.pointer)[3:])
                elif use.is_whole and use.pointer == f"/steps/{number}/for_each":
                    target = _LIST
                source = None if target is None else subject.types.result(use, step)
                if source is not None and target is not None:
                    yield step, use, fit_of(source, target)


def _message(step: Step, use: ExpressionUse, fit: Fit) -> str:
    place = "the list" if use.role == "for_each" else f"argument {_argument(use)!r}"
    return f"{place} of step {step.id!r}: {fit.reason}"


def _argument(use: ExpressionUse) -> str:
    keys = pointer_keys(use.pointer)[3:]
    return "".join(f"[{key}]" if key.isdecimal() else f".{key}" for key in keys).lstrip(".")


def _mend(expression: str, fit: Fit, use: ExpressionUse) -> str:
    if fit.misfit == "null" and fit.where == "elements":
        return f"leave it out: ${{{expression}.filter(x, x != null)}}"
    if fit.misfit == "absent":
        return "ask with has(…) for the field, and give another value where it is not there"
    if fit.where != "itself" or not is_plain_path(expression):
        return "give another value for that case, or have the step run only where it is not so"
    if fit.misfit == "null":
        other = "[]" if use.role == "for_each" else "…"
        return (
            f"give another value for that case: ${{{expression} != null ? {expression} : {other}}}"
        )
    return f"convert it: string({expression}), double({expression})"


def _is_asked(step: Step, expression: str) -> bool:
    """Whether the step runs only where the value is not null."""
    if step.when is None:
        return False
    asked = joined_conditions(step.when)
    if f"{expression} != null" in asked or expression in guarded_steps(step.when):
        return True
    return any(condition.startswith(f"has({expression}.") for condition in asked)


def _schema_at(schema: JsonSchema, keys: list[str]) -> JsonSchema | None:
    """Return what a place in the parameters wants, or nothing where the schema does not say."""
    place = scoped_schema(schema)
    for key in keys:
        view = view_schema(place)
        inner = field_schema(view, key)
        if inner is None and key.isdecimal():
            inner = element_schema(view, int(key))
        if inner is None:
            return None
        place = inner
    return self_contained_schema(place)
