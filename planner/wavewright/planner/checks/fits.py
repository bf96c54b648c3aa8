"""W812 and W813: references whose values may not fit where they are given.

A value that may not fit because of its kind (a null, a member of a union, an object without an
optional field) is a warning with its mend. Where the value decides, it is checked at the call; a
strict check tells these places as well. See docs/explanation/values.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from wavewright.config.sources import path_of_keys, pointer_keys
from wavewright.planner.cel.embedded import (
    bare_expression,
    field_name,
    guarded_steps,
    joined_conditions,
    step_path,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.plain_paths import is_plain_path
from wavewright.planner.checks.context import CheckContext, path_in_item, value_of_item
from wavewright.planner.checks.nulls import (
    Misuse,
    facts_of,
    facts_of_elements,
    least_length,
    misuses,
    null_in_text,
)
from wavewright.planner.checks.types import Fit, Level, fit_of
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.plans.estimates import (
    INPUT_ROOTS,
    MAX_ITEMS_INSPECTED,
    condition_if_known,
    items_to_run,
    known_items,
    value_if_known,
)
from wavewright.planner.plans.uses import (
    ExpressionRole,
    ExpressionText,
    ExpressionUse,
    asks_each_item,
    texts_beside_steps,
)
from wavewright.planner.schemas.conditions import NO_FACTS, Facts, KnownPart
from wavewright.planner.schemas.inference import PartTypes
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.schemas.views import schema_below
from wavewright.planner.types import Json, JsonSchema, StepId


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
    yield from _misuses(subject, lists_of_null)


def _misuses(subject: CheckContext, lists_of_null: Collection[StepId]) -> Iterator[Diagnostic]:
    """Yield the expressions that fail where a part of them is null, or a list too short; where a
    step's list may be null, that was said of the list and is not of its items.
    """
    of_plan = _facts_of_plan(subject)
    for step, texts in zip(subject.plan.steps, subject.texts, strict=True):
        uses = [*_uses_that_can_fail(texts)]
        known = of_plan | _facts_of_step(subject, step) if uses else of_plan
        said = {"item"} if step.id in lists_of_null else set[str]()
        for use in uses:
            types = subject.types.part_types(use.expression.strip(), use.role, step)
            known_here = of_plan if use.role == "when" else known
            yield from _misuses_in(use, types, known_here, said)
    for text in texts_beside_steps(subject.plan):
        gated = _gated_step(subject, text)
        output = None if gated is None else subject.types.call_output(gated)
        for use in _uses_that_can_fail([text]):
            types = subject.types.part_types(use.expression.strip(), use.role, gated, output=output)
            yield from _misuses_in(use, types, of_plan | _facts_of_stop(subject, text), ())


def _uses_that_can_fail(texts: Iterable[ExpressionText]) -> Iterator[ExpressionUse]:
    for text in texts:
        for use, _ in text.sound_reads:
            if not _reads_whole_output(use):
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


def _misuses_in(
    use: ExpressionUse, types: PartTypes, known: Facts, said: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield one diagnostic for each part that is misused, unless it was said of that part."""
    expression = use.expression.strip()
    tree = parse_expression(expression)
    found = [*misuses(tree, expression, types, known)]
    if not use.is_whole and use.role in ("params", "result"):
        found += null_in_text(tree, expression, types, known)
    first = dict[str, Misuse]()
    for misuse in found:
        first.setdefault(misuse.part, misuse)
    for part, misuse in first.items():
        if part not in said and not _is_on_the_way(part, first.values()):
            yield _misuse_diagnostic(use, misuse)


def _is_on_the_way(part: str, uses: Iterable[Misuse]) -> bool:
    """Whether asking for another part asks for this one, too: `has(x.y.z)` asks for `x.y`."""
    return any(
        misuse.kind == "absent" and misuse.part.startswith((f"{part}.", f"{part}["))
        for misuse in uses
    )


_CONDITIONS: frozenset[ExpressionRole] = frozenset({"when", "gate", "cap"})


def _facts_of_plan(subject: CheckContext) -> Facts:
    """Return how many elements lists have at least, wherever in the plan they are read: inputs, and
    the outputs of steps with `for_each`, one for each item.
    """
    known = frozenset(_facts_of_inputs("inputs", subject.plan.inputs))
    for step_id in subject.graph.order():
        step = subject.steps[step_id]
        if step.for_each is not None and not asks_each_item(step):
            items = _items_at_least(subject, step, known)
            least = items if step.min_ok is None else min(step.min_ok, items)
            if least > 0:
                known |= {KnownPart(step_path(step_id), least)}
    return known


def _facts_of_inputs(path: str, value: Json) -> Iterator[KnownPart]:
    if isinstance(value, list) and value:
        yield KnownPart(path, len(value))
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _facts_of_inputs(f"{path}.{field_name(name)}", member)


def _items_at_least(subject: CheckContext, step: Step, known: Facts) -> int:
    if isinstance(step.for_each, list):
        return len(step.for_each)
    try:
        expression = bare_expression(step.for_each or "").expression.strip()
        tree = parse_expression(expression)
    except ExpressionError:
        return 0
    types = subject.types.part_types(expression, "for_each", step)
    return least_length(tree, expression, types, known)


def _facts_of_step(subject: CheckContext, step: Step) -> Facts:
    """Return what is known where a step runs: by its `when`, by the list of its items, and by the
    gates that what it reads has passed.
    """
    facts = _facts_of_gates(subject, step)
    if step.when is not None:
        facts |= _facts_where(subject, step.when, "when", step)
    if isinstance(step.for_each, str):
        try:
            expression = bare_expression(step.for_each).expression.strip()
            tree = parse_expression(expression)
        except ExpressionError:
            return facts
        types = subject.types.part_types(expression, "for_each", step)
        facts |= facts_of_elements(tree, expression, types, "item")
    return facts


def _facts_of_stop(subject: CheckContext, text: ExpressionText) -> Facts:
    """Return what is known where a text is computed: the result where the plan did not stop, that of
    `stop` where it did.
    """
    stop = subject.plan.stop
    if stop is None or text.role != "result":
        return NO_FACTS
    if text.pointer.startswith("/stop"):
        return _facts_where(subject, stop.when, "cap", None)
    try:
        condition = bare_expression(stop.when).expression
    except ExpressionError:
        return NO_FACTS
    return _facts_where(subject, f"!({condition})", "cap", None)


def _facts_where(
    subject: CheckContext,
    condition: str,
    role: ExpressionRole,
    step: Step | None,
    output: JsonSchema | None = None,
) -> Facts:
    """Return what is known where a condition holds."""
    try:
        expression = bare_expression(condition).expression.strip()
        tree = parse_expression(expression)
    except ExpressionError:
        return NO_FACTS
    types = subject.types.part_types(expression, role, step, output=output)
    return facts_of(tree, expression, types)


def _facts_of_gates(subject: CheckContext, reader: Step) -> Facts:
    """Return what is known of the steps that a step reads, as their gates stop what does not pass."""
    known = set[KnownPart]()
    for gate in subject.plan.gates:
        gated = None if gate.on is None else subject.steps.get(gate.on)
        stops = gate.severity == "block" and gate.on in subject.graph.reads[reader.id]
        if gated is None or not stops or gated.for_each is not None:
            continue
        output = step_path(gated.id)
        if gate.required is not None:
            known |= {KnownPart(f"{output}.{path}", 1) for path in gate.required}
        if gate.check is not None:
            schema = subject.types.call_output(gated)
            for fact in _facts_where(subject, gate.check, "gate", gated, schema):
                root, rest = fact.part[: len(_OUTPUT)], fact.part[len(_OUTPUT) :]
                if root == _OUTPUT:
                    known.add(fact._replace(part=output + rest))
    return frozenset(known)


_OUTPUT: Final = "output"


def _misuse_diagnostic(use: ExpressionUse, misuse: Misuse) -> Diagnostic:
    part, guard = misuse.part, f"{misuse.part} != null"
    message = f"{part!r} may be null, and {misuse.fault}"
    if misuse.kind == "null elements":
        message = f"an element of {part!r} may be null, and {misuse.fault}"
        hint = f"leave it out: {part}.filter(x, x != null)"
        return make_diagnostic("W812", use.pointer, message, hint)
    if misuse.kind == "absent":
        message = f"{part!r} may be absent, and {misuse.fault}"
        guard = f"has({part})"
    if misuse.kind == "too few elements":
        short = "be empty" if misuse.needed == 1 else f"have fewer than {misuse.needed} elements"
        message = f"{part!r} may {short}, and {misuse.fault}"
        guard = f"{part}.size() > {misuse.needed - 1}"
    hint = f"ask for it first: {guard} && …"
    if use.role not in _CONDITIONS:
        expression = use.expression.strip()
        reader = expression if is_plain_path(expression) else misuse.reader
        other = f"{guard} ? {reader} : …"
        written = f"${{{other}}}" if reader == expression else other
        hint = f"give another value for that case: {written}"
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
                    target = schema_below(signature.input_schema, pointer_keys(use.pointer)[3:])
                elif use.is_whole and use.pointer == f"/steps/{number}/for_each":
                    target = _LIST
                source = None if target is None else subject.types.result(use, step)
                if source is not None and target is not None:
                    known = None
                    if text.role == "params":
                        known = fit_of_known(subject.plan, step, text.text, target)
                    yield step, use, known or fit_of(source, target)


def fit_of_known(plan: Plan, step: Step, text: str, target: JsonSchema) -> Fit | None:
    """Return how the values of a parameter fit that are known before the run, as those are of an
    input and of its items; None where they are not all known.

    One that does not fit does so never where its call is certain, for the step must succeed with it.
    """
    is_of_item = path_in_item(text) is not None
    if not is_of_item:
        known = {"": value_if_known(text, plan.scope({}), INPUT_ROOTS)}
    else:
        items = known_items(plan, step)
        if items is None or len(items) > MAX_ITEMS_INSPECTED:
            return None
        running = items_to_run(plan, step, items)
        known = {f"for item {at}, ": value_of_item(text, item) for at, item in running}
    if not all(known.values()):
        return None
    validator = validator_of(target, checks_formats=True)
    for where, [value] in known.items():
        for misfit in validator.violations(value):
            part = path_of_keys(pointer_keys(misfit.pointer), value) or "it"
            reason = f"{where}{part} {misfit.message}"
            level: Level = "never" if _must_succeed(plan, step) else "member"
            return Fit(level, reason, "kind", "item" if is_of_item else "value")
    return Fit("always")


def _must_succeed(plan: Plan, step: Step) -> bool:
    """Whether a step is certain to make a call, as far as its own fields say, and may fail in none."""
    if step.optional or step.min_ok is not None:
        return False
    if step.for_each is None:
        return condition_if_known(step, plan.scope({})) is True
    items = known_items(plan, step) or []
    is_asked_once = step.when is not None and not asks_each_item(step)
    return not is_asked_once and any(items_to_run(plan, step, items))


def _message(step: Step, use: ExpressionUse, fit: Fit) -> str:
    place = (
        "the list"
        if use.role == "for_each"
        else f"argument {path_of_keys(pointer_keys(use.pointer)[3:], step.params)!r}"
    )
    return f"{place} of step {step.id!r}: {fit.reason}"


def _mend(expression: str, fit: Fit, use: ExpressionUse) -> str:
    if fit.where == "value":
        return "give it another value"
    if fit.where == "item":
        return "give it another value, or leave it out by a `when` that reads the item"
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
    conditions = joined_conditions(step.when)
    if f"{expression} != null" in conditions or expression in guarded_steps(step.when):
        return True
    return any(condition.startswith(f"has({expression}.") for condition in conditions)
