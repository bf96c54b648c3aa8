"""Sub-plans as they were written, as steps call them, and as they are put into the plan that calls
them.

*Rewriting* makes expressions of a sub-plan ones of the plan that calls it, with other steps and
without its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from wavewright.config.documents import Document
from wavewright.config.sources import pointer_keys, pointer_token
from wavewright.planner.cel.embedded import (
    bare_expression,
    iterate_strings,
    step_path,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.reads import (
    root_mentions,  # the parser, which plans without sub-plans need less
)
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    list_names,
    make_diagnostic,
    suggest_name,
)
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.plans.binding import escape_references
from wavewright.planner.plans.expressions import map_references
from wavewright.planner.plans.let_and_stop import as_expression
from wavewright.planner.schemas.validation import infer_schema, validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId


@dataclass(frozen=True, slots=True)
class SubPlan:
    """A plan that another one calls, as it was written."""

    plan: Plan
    document: Document
    pointer: str
    """Of the plan in its document."""
    folder: Path
    """What paths in it are relative to."""
    inputs: Mapping[str, JsonSchema] | None = None
    """The inputs that it declares, by name; those of the plan itself where absent."""
    required: frozenset[str] = frozenset()
    """Those of them that have no value but the one that a call gives."""

    def declared_inputs(self) -> JsonSchema:
        """Return the inputs that it declares as the schema of an object."""
        return {
            "type": "object",
            "properties": dict(self.inputs or {}),
            "required": [*sorted(self.required)],
        }


SubPlanReader: TypeAlias = Callable[[str, Path], SubPlan]
"""Gives the sub-plan of a name or a path; raises `PlanError` or `DocumentError`."""


class ExpandedPlace(NamedTuple):
    """Where a part of an expanded plan was written."""

    pointer: str
    document: Document | None = None
    """The sub-plan's; None where it is the document of the plan itself."""
    step: str = ""
    """Pointer of the step that calls a sub-plan, of what comes from that call."""
    giver: str = ""
    """Id of the step that gives a sub-plan what stands here; empty where nobody gives it."""


_WRITTEN_HERE: Final = ExpandedPlace("")
_NOT_FOR_ITEMS: Final = ("for_each", "when", "optional")
"""Fields that no step of a sub-plan has which runs for each item."""


@dataclass(frozen=True, slots=True)
class ExpandedPlan:
    """A plan without sub-plans, with the places of its parts."""

    plan: Plan
    places: Mapping[str, ExpandedPlace] = field(default_factory=dict[str, ExpandedPlace])
    """By the pointer of the part; empty where the plan calls no sub-plan."""
    faults: tuple[Diagnostic, ...] = ()

    def place(self, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return diagnostics of the expanded plan as those of the plan as it was written, each once.

        One of a sub-plan stands at the step that calls it, and its message begins with file, line
        and column. A step of a sub-plan stands in the plan once a run of a loop, and what its caller
        writes stands in many of its steps: that is said at the caller, where it is written.
        """
        placed: dict[tuple[str, str, str], _Placed] = {}
        for diagnostic in diagnostics:
            part = self._placed(diagnostic)
            message = _RUN.sub("", part.diagnostic.message)
            where = part.diagnostic.pointer
            if part.is_in_sub_plan:
                # However many steps call a sub-plan, what is wrong in it is wrong once.
                where, message = "", _CALLER.sub("'", message)
            placed.setdefault((part.diagnostic.code, where, message), part)
        written: dict[tuple[str, str, str], _Placed] = {}
        for part in placed.values():
            if part.caller is not None and (part.is_given or not part.is_in_sub_plan):
                known = written.get(part.fault)
                if known is None or known.nearness < part.nearness:
                    written[part.fault] = part
        return [
            part.diagnostic for part in placed.values() if part is written.get(part.fault, part)
        ]

    def _placed(self, diagnostic: Diagnostic) -> _Placed:
        keys = pointer_keys(diagnostic.pointer)
        for length in range(len(keys), 1, -1):
            place = self.places.get("".join(map(pointer_token, keys[:length])))
            if place is None or (place.giver and not _is_of_text(diagnostic)):
                continue
            rest = "".join(map(pointer_token, keys[length:]))
            is_given = bool(place.giver)
            if is_given:
                reader = self.plan.steps[int(keys[1])].id
                diagnostic = _said_of_giver(diagnostic, reader, place.giver)
            said = _RUN.sub("", _READER.sub("step", diagnostic.message))
            fault = (diagnostic.code, place.step, said)
            if place.document is None:
                moved = replace(diagnostic, pointer=place.pointer + rest)
                return _Placed(moved, fault, place.step or None, is_given=is_given)
            message = f"{position_text(place.document, place.pointer + rest)}: {diagnostic.message}"
            moved = replace(diagnostic, pointer=f"{place.step}/plan", message=message, within=None)
            return _Placed(moved, fault, place.step, is_in_sub_plan=True, is_given=is_given)
        return _Placed(diagnostic, (diagnostic.code, "", diagnostic.message))


def _is_of_text(found: Diagnostic) -> bool:
    """Whether a fault is one of a text itself, wherever it is read, and not of the place that it is
    given to: which type that wants says the sub-plan.
    """
    return found.code.startswith("E3") and found.code not in ("E304", "E309")


def _said_of_giver(found: Diagnostic, reader: str, giver: str) -> Diagnostic:
    """Return what is wrong with a text that one step gives and another one reads, as said of the
    first.
    """
    read_by, given_by = f"step {reader!r}", f"step {giver!r}"
    hint = None if found.hint is None else found.hint.replace(read_by, given_by)
    message = found.message.replace(read_by, given_by)
    return replace(found, message=message, hint=hint, within=None)


class _Placed(NamedTuple):
    """A diagnostic of an expanded plan at its place in the plan as it was written."""

    diagnostic: Diagnostic
    fault: tuple[str, str, str]
    """Its code, the step that calls the sub-plan it comes from, and what it says of any run."""
    caller: str | None = None
    """Pointer of the step that calls a sub-plan; None where it comes from none."""
    is_in_sub_plan: bool = False
    is_given: bool = False
    """Whether it is said of what a step gives to a sub-plan, where that is written."""

    @property
    def nearness(self) -> tuple[bool, int]:
        """How near it stands to the author of the whole plan: in that plan, and there at a field
        and not at a step, whose pointer is the shorter one.
        """
        return not self.is_in_sub_plan, len(self.diagnostic.pointer)


_RUN: Final = re.compile(r"\.\d+(?=[.'`])|`")
"""The number of a run in an id, such as `refine.2.search`, and the quotes of such an id."""
_CALLER: Final = re.compile(r"'(?:[A-Za-z]\w*\.)+(?=\w+')")
"""What stands before the id of a step in a sub-plan: the ids of the steps that call it."""
_READER: Final = re.compile(r"step '[^']*'")
"""Who reads: what a caller writes is read by each step of its sub-plan."""


def fields_set(step: Step, names: Iterable[str]) -> list[str]:
    """Return which of these fields a step has, in their order.

    >>> fields_set(Step(id=StepId("a"), tool="fetch", optional=True), ("when", "optional"))
    ['optional']
    """
    return [name for name in names if getattr(step, name) not in (None, False)]


def position_text(document: Document, pointer: str) -> str:
    """Return `file:line:column` of a node, or of the nearest node around it."""
    span = document.nearest_span(pointer)
    if span is None:
        return document.source.name
    line, column = document.source.position(span.start)
    return f"{document.source.name}:{line}:{column}"


@dataclass(frozen=True)
class SubPlanCall:
    """A step with the sub-plan that it calls."""

    step: Step
    pointer: str
    source: SubPlan
    inner: ExpandedPlan

    @property
    def defaults(self) -> JsonObject:
        """Inputs of the sub-plan that the step need not give."""
        return {name: escape_references(value) for name, value in self.source.plan.inputs.items()}

    def place(self, pointer: str) -> ExpandedPlace:
        """Return the place of a part of the sub-plan."""
        place = self.inner.places.get(pointer, ExpandedPlace(pointer))
        giver = place.giver and f"{self.step.id}.{place.giver}"
        if place.document is None:
            written = self.source.pointer + place.pointer
            return ExpandedPlace(written, self.source.document, self.pointer, giver)
        return place._replace(step=self.pointer, giver=giver)

    def places_below(
        self, pointer: str, value: Json, *, is_further_run: bool = False
    ) -> Iterator[tuple[str, ExpandedPlace]]:
        """Yield the parts of a value of the sub-plan, by their pointers below its own, that were
        written elsewhere: by a step that gives an input of which the part is made alone, in the
        sub-plan or at this call of it.
        """
        for place, text in iterate_strings(value):
            if f"{pointer}{place}" in self.inner.places:
                yield place, self.place(f"{pointer}{place}")
            name = _WHOLE_INPUT.fullmatch(text)
            if name is None:
                continue
            repeat = self.step.repeat
            if is_further_run and repeat is not None and name[1] in repeat.params:
                written = f"{self.pointer}/repeat/params/{name[1]}"
            elif name[1] in self.step.params:
                written = f"{self.pointer}/params/{name[1]}"
            else:
                continue  # it is what the sub-plan itself says of the input
            yield place, ExpandedPlace(written, step=self.pointer, giver=self.step.id)

    def inner_faults(self) -> Iterator[Diagnostic]:
        """Yield what is wrong with sub-plans of the sub-plan."""
        for fault in self.inner.faults:
            where = position_text(self.source.document, self.source.pointer + fault.pointer)
            yield replace(
                fault,
                pointer=f"{self.pointer}/plan",
                message=f"{where}: {fault.message}",
                within=None,
            )

    def faults(self) -> Iterator[Diagnostic]:
        """Yield what keeps the step from calling its sub-plan."""
        declared = self.source.inputs
        if declared is None:
            declared = input_types(self.source.plan)
        sets = [("/params", self.step.params)]
        sets += (
            [("/repeat/params", self.step.repeat.params)] if self.step.repeat is not None else []
        )
        for pointer, params in sets:
            for name, value in params.items():
                place = f"{self.pointer}{pointer}/{name}"
                if name not in declared:
                    hint = suggest_name(name, declared, what="inputs") or list_names(
                        declared, what="inputs"
                    )
                    yield make_diagnostic(
                        "E411", place, f"{self.step.plan!r} takes no input {name!r}", hint
                    )
                elif not any("${" in text for _, text in iterate_strings(value)):
                    for misfit in validator_of(declared[name]).violations(value):
                        message = f"the input {name!r} of {self.step.plan!r} {misfit.message}"
                        yield make_diagnostic("E411", place, message)
        if self.step.for_each is None:
            return
        for written, what in self._not_for_items():
            where = position_text(written.document or self.source.document, written.pointer)
            hint = "of a sub-plan that runs for each item, every step runs once an item"
            text = f"{where}: step {self.step.id!r} runs this plan for each item, and {what}"
            yield make_diagnostic("E411", f"{self.pointer}/for_each", text, hint)

    def _not_for_items(self) -> Iterator[tuple[ExpandedPlace, str]]:
        """Yield what a sub-plan that runs for each item cannot have, each where it is written.

        A `repeat` and a `stop` become conditions of many steps, which nobody wrote: they are told
        themselves.
        """
        plan = self.source.plan
        told = set[str]()
        for number, step in enumerate(plan.steps):
            for name in fields_set(step, (*_NOT_FOR_ITEMS, "repeat")):
                told.add(f"/steps/{number}")
                yield self._written(f"/steps/{number}"), f"step {step.id!r} has {name!r}"
        if plan.stop is not None:
            yield self._written("/stop"), "it has 'stop'"
        for number in range(len(self.inner.plan.caps)):
            yield self.place(f"/caps/{number}"), "it has a cap"
        if plan.stop is not None:
            # Its condition is that of all steps, also of those in the plans that this one calls.
            return
        for number, step in enumerate(self.inner.plan.steps):
            place = self.inner.places.get(f"/steps/{number}", _WRITTEN_HERE)
            is_called = place.document is not None
            # Of a plan that this one calls, one such step is enough to say.
            if is_called and place.step not in told and fields_set(step, _NOT_FOR_ITEMS):
                told.add(place.step)
                caller = step.id.partition(".")[0]
                what = (
                    f"the plan that step {caller!r} calls has conditions, lists or optional steps"
                )
                yield self._written(place.step), what

    def _written(self, pointer: str) -> ExpandedPlace:
        """Return the place of a part of the sub-plan as its author wrote it."""
        return ExpandedPlace(self.source.pointer + pointer, self.source.document)

    def rewriting_faults(self, rewriting: Rewriting) -> Iterator[Diagnostic]:
        """Yield what the sub-plan reads and is not given."""
        for name in dict.fromkeys(rewriting.missing):
            message = f"step {self.step.id!r} lacks the input {name!r} of {self.step.plan!r}"
            yield make_diagnostic(
                "E411", f"{self.pointer}/params", message, f"add `{name}:` to its params"
            )
        for text in rewriting.captured:
            message = f"in {self.step.plan!r}, a variable of {text!r} has the name of a root"
            hint = "call the variable otherwise than inputs, steps, item and index"
            yield make_diagnostic("E411", f"{self.pointer}/plan", message, hint)


def input_types(plan: Plan) -> dict[str, JsonSchema]:
    """Return the types of what a plan that declares no inputs may be given, by name: those of its
    own inputs, which stand for what a caller leaves out.

    >>> input_types(Plan(steps=(), inputs={"days": 30}))
    {'days': {'type': 'number'}}
    """
    return {name: _loose_schema(value) for name, value in plan.inputs.items()}


def _loose_schema(value: Json) -> JsonSchema:
    """Return a schema of values of the same type as one that stands for them."""
    kind = infer_schema(value).get("type")
    if kind is None:
        return {}
    # An integer may stand for any number.
    return {"type": "number" if kind == "integer" else kind}


@dataclass
class Rewriting:
    """Expressions of a sub-plan as expressions of the plan that calls it."""

    run: str
    """Id before those of its steps."""
    inputs: JsonObject
    """What stands for each input; texts may hold `${…}`."""
    by_item: bool
    """Whether each step runs once an item, so that one item reads what is of its place."""
    own: StepId | None = None
    """In a gate: the step that it is on."""
    missing: list[str] = field(default_factory=list[str])
    captured: list[str] = field(default_factory=list[str])

    def value(self, value: Json) -> Json:
        """Return a value with its references rewritten; what is one input alone becomes what is
        given for it.
        """
        return map_references(value, self.expression, self._given_input)

    def _given_input(self, expression: str) -> list[Json]:
        name = _INPUT.fullmatch(expression)
        return [self.inputs[name[1]]] if name is not None and name[1] in self.inputs else []

    def condition(self, condition: str) -> str:
        """Return a bare condition, rewritten."""
        try:
            return self.expression(bare_expression(condition).expression)
        except ExpressionError:
            return condition

    def expression(self, expression: str) -> str:
        """Return an expression, rewritten; a faulty one stays for the checker to report."""
        try:
            mentions = root_mentions(expression)
        except ExpressionError:
            return expression
        guarded = {one.name for one in mentions if one.is_guarded}
        text, expected = expression, len(mentions)
        for mention in reversed(mentions):
            start, end = mention.path_start, mention.path_end
            before, after = _HAS.search(text, 0, start), _CLOSE.match(text, end)
            is_asked = mention.is_guarded and before is not None and after is not None
            if mention.root == "steps" and mention.name is not None:
                new = step_path(f"{self.run}.{mention.name}")
                if self.by_item:
                    new = "output" if mention.name == self.own else f"{new}[index]"
                    expected += new != "output"
                whole = "true" if self.by_item else None
            elif mention.root == "inputs":
                new, whole = self._input(mention.name, is_asked=mention.name in guarded)
                expected += len(root_mentions(new)) - 1
            else:
                continue
            if is_asked and whole is not None and before is not None and after is not None:
                expected -= len(root_mentions(new))
                start, end, new = before.start(), after.end(), whole
            text = text[:start] + new + text[end:]
        try:
            if len(root_mentions(text)) != expected:
                self.captured.append(expression)
        except ExpressionError:
            return text  # it is too long or too deep, which the checker reports
        return text

    def _input(self, name: str | None, *, is_asked: bool) -> tuple[str, str]:
        """Return what stands for an input, and for the question whether it is there."""
        if name is None:
            return as_expression(self.inputs), "true"
        if name in self.inputs:
            return as_expression(self.inputs[name]), "true"
        if is_asked:
            return "null", "false"
        self.missing.append(name)
        # A value of which nothing is known: that it is missing is all that is to be told.
        return "dyn(now())", "false"


_WHOLE_INPUT: Final = re.compile(r"\$\{\s*inputs\.([A-Za-z_][A-Za-z0-9_]*)\s*\}")
_INPUT: Final = re.compile(r"\s*inputs\.([A-Za-z_][A-Za-z0-9_]*)\s*")
_HAS: Final = re.compile(r"\bhas\s*\(\s*\Z")
_CLOSE: Final = re.compile(r"\s*\)")
