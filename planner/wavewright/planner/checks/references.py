"""Family E3: what expressions read, and whether they mean anything.

Every expression is checked once: first what it reads (steps, inputs, items), then, if all of that
exists, its types. A step *may be absent* when it is optional or has a condition; its readers must
ask `has()` for it, in the expression or in the reading step's `when`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from wavewright.config.sources import Span, pointer_keys
from wavewright.planner.cel.embedded import (
    bare_expression,
    guarded_steps,
    iterate_strings,
    joined_conditions,
    step_path,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.plain_paths import Read, previous_part
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.types import incompatibility
from wavewright.planner.diagnostics.diagnostic import (
    Addition,
    Diagnostic,
    Mend,
    codes_by_kind,
    list_fields,
    make_diagnostic,
    suggest_name,
    type_name,
    value_text,
    with_article,
)
from wavewright.planner.language.plan import Gate, Step, dispatched_tools
from wavewright.planner.plans.let_and_stop import let_values, reads_item, without_stop
from wavewright.planner.plans.uses import (
    CALL_ROLES,
    ExpressionText,
    ExpressionUse,
    asks_each_item,
    texts_beside_steps,
)
from wavewright.planner.schemas.views import (
    OPEN,
    SchemaView,
    element_schema,
    field_schema,
    view_of,
    view_schema,
)
from wavewright.planner.types import JsonSchema, StepId

_WORD = re.compile(r"\w+")
_BARE_PATH = re.compile(r"(?:inputs|steps)\.[\w.\[\]]+")
_CONDITION_SCHEMA: JsonSchema = {"type": "boolean"}
_LIST_SCHEMA: JsonSchema = {"type": "array"}
_LISTS = ("/for_each", "/targets/expand")
"""How pointers end to what must give a list."""


class _ReferenceContext(NamedTuple):
    """Who reads: decides on what there is to read, and is named in messages."""

    name: str
    """`step 'a'`, `gate 'fresh'`, …"""
    step: Step | None = None
    """The step whose `item` and `index` may be read."""
    present: frozenset[str] = frozenset()
    """Steps that are there for certain when the expression is asked."""
    output: JsonSchema | None = None
    """What `output` is, in a gate."""
    own: str | None = None
    """Id of the step that is being computed, and so cannot be read."""
    tolerates_absence: bool = False
    before_condition: bool = False
    """Whether the condition of `step` is asked after what is read: of a list whose items it is on."""


def check_references(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what is wrong with the plan's expressions."""
    for step, texts in zip(subject.plan.steps, subject.texts, strict=True):
        if texts:
            yield from _check_step(subject, step, texts)
    for number, gate in enumerate(subject.plan.gates):
        yield from _check_gate(subject, gate, f"/gates/{number}")
    for text in texts_beside_steps(subject.plan):
        if text.role != "gate":
            yield from _check_text(subject, text, _reader_beside_steps(subject, text))
    yield from _check_let(subject)


def _reader_beside_steps(subject: CheckContext, text: ExpressionText) -> _ReferenceContext:
    """Return who reads in a cap, a stop or a result; what a result lacks is null in it."""
    match pointer_keys(text.pointer):
        case ["caps", number, *_]:
            name = f"the cap on {subject.plan.caps[int(number)].field!r}"
        case ["stop", "when"]:
            name = "the stop"
        case ["stop", *_]:
            name = "the result of the stop"
        case _:
            name = "the result"
    return _ReferenceContext(name, tolerates_absence=text.role == "result")


def _check_let(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what is wrong with names that no expression need read; whoever reads one is checked
    with what it stands for. One that reads `item` means something only where it is read.
    """
    for name, value in let_values(subject.plan).items():
        if reads_item(value):
            continue
        reader = _ReferenceContext(f"{name!r} of `let`", tolerates_absence=True)
        for pointer, text in iterate_strings(value, f"/let/{name}"):
            yield from _check_text(subject, ExpressionText(pointer, text, "result"), reader)


def check_expansion(subject: CheckContext, text: str, pointer: str) -> Iterator[Diagnostic]:
    """Yield what is wrong with the expression of a job beside its plan that gives further targets."""
    expression_text = ExpressionText(pointer, text, "for_each")
    yield from _check_text(
        subject, expression_text, _ReferenceContext("the job", tolerates_absence=True)
    )
    if not _is_one_expression(expression_text):
        message = f"the job is to run for each item of {value_text(text)}, which is text"
        yield make_diagnostic("E309", pointer, message, _list_hint(text))


def _check_step(
    subject: CheckContext, step: Step, texts: tuple[ExpressionText, ...]
) -> Iterator[Diagnostic]:
    present: frozenset[str] = guarded_steps(step.when) if step.when is not None else frozenset()
    reader = _ReferenceContext(f"step {step.id!r}", step=step, present=present, own=step.id)
    lists = reader
    if asks_each_item(step):
        # A condition on items is asked after the list is there.
        lists = reader._replace(present=frozenset(), before_condition=True)
    for text in texts:
        own = text
        if text.role == "when" and subject.plan.stop is not None:
            # What is wrong with the condition of a `stop`, which its steps have too, is told there.
            own = replace(text, text=without_stop(text.text, subject.plan.stop))
        yield from _check_text(subject, own, lists if text.role == "for_each" else reader)
        if text.text == step.for_each and text.role == "for_each" and not _is_one_expression(text):
            yield make_diagnostic(
                "E309",
                text.pointer,
                f"step {step.id!r} is to run for each item of {value_text(text.text)}, which is text",
                _list_hint(text.text),
            )


def _list_hint(text: str) -> str:
    if _BARE_PATH.fullmatch(text.strip()):
        return f"write ${{{text.strip()}}}: without ${{…}} it is only text"
    return "write a list, or one whole ${…} that gives a list, with nothing around it"


def _is_one_expression(text: ExpressionText) -> bool:
    """Return whether a text is one whole `${…}`; one that is not closed is reported as that."""
    try:
        uses = text.uses()
    except ExpressionError:
        return True
    return len(uses) == 1 and uses[0].is_whole


def _check_gate(subject: CheckContext, gate: Gate, pointer: str) -> Iterator[Diagnostic]:
    on = subject.steps.get(gate.on) if gate.on is not None else None
    if on is None:
        return
    output = subject.types.call_output(on)
    if gate.check is not None:
        assured: frozenset[str] = guarded_steps(on.when) if on.when is not None else frozenset()
        text = ExpressionText(f"{pointer}/check", gate.check, "gate")
        reader = _ReferenceContext(
            f"gate {gate.id!r}", step=on, present=assured | {on.id}, output=output
        )
        yield from _check_text(subject, text, reader)
    for number, path in enumerate(gate.required or ()):
        unknown = _unknown_field(output, path.split("."))
        if unknown is not None:
            name, schema = unknown
            yield make_diagnostic(
                "E303",
                f"{pointer}/required/{number}",
                f"gate {gate.id!r} requires {path!r}, and the output of {on.id!r} has no field {name!r}",
                list_fields(schema, what="fields"),
            )


def _check_text(
    subject: CheckContext, text: ExpressionText, reader: _ReferenceContext
) -> Iterator[Diagnostic]:
    if not text.reads:
        try:
            text.uses()
        except ExpressionError as unclosed:
            yield _expression_diagnostic(unclosed, text.pointer, 0, text.text)
    for use, read in text.reads.items():
        faults = list(_check_reads(subject, use, read, reader))
        yield from faults
        if all(fault.code == "E306" for fault in faults):
            yield from _check_types(subject, use, reader)


def _check_reads(
    subject: CheckContext,
    use: ExpressionUse,
    reads_of_use: tuple[Read, ...] | ExpressionError,
    reader: _ReferenceContext,
) -> Iterator[Diagnostic]:
    if isinstance(reads_of_use, ExpressionError):
        yield _expression_diagnostic(reads_of_use, use.pointer, use.start, use.expression)
        return
    reported: set[tuple[str, str | None]] = set()
    for read in reads_of_use:
        key = (read.root, read.name)
        check = _CHECK_BY_ROOT.get(read.root)
        wrong = None if check is None or key in reported else check(subject, use, reader, read)
        if wrong is not None:
            reported.add(key)
            yield wrong


def _check_step_read(
    subject: CheckContext, use: ExpressionUse, reader: _ReferenceContext, read: Read
) -> Diagnostic | None:
    name = read.name
    if name is None:
        return None
    if name == reader.own:
        return _read_diagnostic(
            use,
            read,
            "E311",
            f"{reader.name} reads its own output",
            "ask what you want of its output in a gate",
        )
    step = subject.steps.get(StepId(name))
    if step is None:
        return _read_diagnostic(
            use,
            read,
            "E301",
            f"{reader.name} reads {name!r}, which no step defines",
            suggest_name(name, subject.steps, what="steps"),
        )
    may_be_absent = step.optional or (step.when is not None and not asks_each_item(step))
    if may_be_absent and not (
        read.guarded
        or name in reader.present
        or reader.tolerates_absence
        or _runs_with(subject, step, reader, use.expression)
    ):
        why = "it is optional" if step.optional else "it has a condition"
        where = (
            ""
            if reader.step is None or reader.before_condition or use.role in ("when", "gate")
            else f", or give {reader.name} `when: has({step_path(name)})`"
        )
        return _read_diagnostic(
            use,
            read,
            "E306",
            f"{reader.name} reads {name!r}, which may be absent: {why}",
            f"ask first: has({step_path(name)}) ? … : …{where}",
            _condition(reader, name),
        )
    return None


def _runs_with(
    subject: CheckContext, step: Step, reader: _ReferenceContext, expression: str
) -> bool:
    """Whether a step's conditions hold wherever a reader runs: the reader, or what is there, has
    them too.
    """
    if step.optional or step.when is None:
        return False
    there = [
        subject.steps.get(StepId(name)) for name in (*reader.present, *guarded_steps(expression))
    ]
    running = there if reader.before_condition else [reader.step, *there]
    whens = [one.when for one in running if one is not None and one.when is not None]
    conditions = joined_conditions(step.when)
    return any(conditions <= joined_conditions(when) for when in whens)


def _check_input_read(
    subject: CheckContext, use: ExpressionUse, reader: _ReferenceContext, read: Read
) -> Diagnostic | None:
    known = subject.types.inputs["properties"]
    if read.name is None or not isinstance(known, dict) or read.name in known:
        return None
    return _read_diagnostic(
        use,
        read,
        "E302",
        f"{reader.name} reads the input {read.name!r}, which does not exist",
        suggest_name(read.name, known, what="inputs") or "the plan has no inputs",
    )


def _check_previous_read(
    _: CheckContext, use: ExpressionUse, reader: _ReferenceContext, read: Read
) -> Diagnostic | None:
    # Also a plan with a `previous` of its own asks: the last run takes the place of all of it.
    if read.name is None or read.guarded or previous_part(read.name) in reader.present:
        return None
    part = f"previous.{read.name}"
    return _read_diagnostic(
        use,
        read,
        "E306",
        f"{reader.name} reads '{part}', which is absent until a run of the job is achieved",
        f"ask first: has({part}) ? … : …",
    )


def _check_item_read(
    _: CheckContext, use: ExpressionUse, reader: _ReferenceContext, read: Read
) -> Diagnostic | None:
    repeats = reader.step is not None and reader.step.for_each is not None
    if repeats and use.role in CALL_ROLES:
        return None
    if repeats:
        why, hint = "the list of `for_each` is there before its items", "read the list itself"
    else:
        why, hint = (
            "only a step with `for_each` has it",
            "give the step a `for_each`, or read the list itself",
        )
    return _read_diagnostic(use, read, "E305", f"{reader.name} reads {read.root!r}: {why}", hint)


_CHECK_BY_ROOT: dict[
    str, Callable[[CheckContext, ExpressionUse, _ReferenceContext, Read], Diagnostic | None]
] = {
    "steps": _check_step_read,
    "inputs": _check_input_read,
    "previous": _check_previous_read,
    "item": _check_item_read,
    "index": _check_item_read,
}


def _check_types(
    subject: CheckContext, use: ExpressionUse, reader: _ReferenceContext
) -> Iterator[Diagnostic]:
    typed = subject.types.typed(use, reader.step, output=reader.output)
    if isinstance(typed, ExpressionError):
        yield _expression_diagnostic(typed, use.pointer, use.start, use.expression)
        return
    if use.role == "params":
        return
    if (
        use.role in ("when", "gate", "cap")
        and incompatibility(typed, _CONDITION_SCHEMA) is not None
    ):
        yield make_diagnostic(
            "E308",
            use.pointer,
            f"the condition of {reader.name} gives {with_article(type_name(typed))}, not true or false",
            "compare it with something, or test it with has(…) or size() > 0",
        )
    if (
        use.role == "for_each"
        and use.is_whole
        and use.pointer.endswith(_LISTS)
        and incompatibility(typed, _LIST_SCHEMA) is not None
    ):
        yield make_diagnostic(
            "E309",
            use.pointer,
            f"{reader.name} is to run for each item of {use.expression.strip()!r},"
            f" which is {with_article(type_name(typed))}",
            list_fields(typed, what="its fields") or _no_list_hint(reader.step),
        )


def _no_list_hint(step: Step | None) -> str:
    tools = () if step is None else dispatched_tools(step.tool)
    if not tools:
        return "give it a list, or leave `for_each` out: without it the step runs once"
    asked = f"{{todo: {{calls: [{', '.join(tools)}]}}}}"
    return f"give it a list of {{tool, params}}, as `ask` makes it with `for: {asked}`"


def _expression_diagnostic(
    error: ExpressionError, pointer: str, start: int, expression: str
) -> Diagnostic:
    within = None
    if error.offset is not None:
        word = _WORD.match(expression, error.offset)
        end = word.end() if word else error.offset + 1
        within = Span(start + error.offset, start + end)
    return make_diagnostic(
        codes_by_kind()[error.kind], pointer, error.message, error.hint, within=within
    )


def _read_diagnostic(
    use: ExpressionUse,
    read: Read,
    code: str,
    message: str,
    hint: str | None,
    mend: Mend | None = None,
) -> Diagnostic:
    start = use.start + read.offset
    within = Span(start, start + len(read.name or read.root))
    return make_diagnostic(code, use.pointer, message, hint, within=within, mend=mend)


def _condition(reader: _ReferenceContext, name: str) -> Mend | None:
    """Return the condition that skips a step where one that it reads is absent; its own stays."""
    if reader.step is None or reader.output is not None or reader.before_condition:
        return None
    guard = f"has({step_path(name)})"
    if reader.step.when is None:
        return Addition("when", guard)
    try:
        own = bare_expression(reader.step.when).expression.strip()
    except ExpressionError:
        return None
    return Addition("when", f"{guard} && ({own})")


def _unknown_field(schema: JsonSchema, path: list[str]) -> tuple[str, JsonSchema] | None:
    """Return the first field of a dotted path that a value cannot have, and the schema of that
    value. A list on the way is read entry by entry, unless the path gives a position.
    """
    view = view_of(schema)
    for name in path:
        if view.kind == "array" and name.isdecimal():
            view = _entries_of(view)
            continue
        while view.kind == "array":
            view = _entries_of(view)
        place = field_schema(view, name)
        if place is None:
            return name, view.schema
        view = view_schema(place)
    return None


def _entries_of(view: SchemaView) -> SchemaView:
    return view_schema(element_schema(view) or OPEN)
