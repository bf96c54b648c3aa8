"""What may come next in a plan that is made one step at a time.

A *choice* is a call of one tool, over one list or alone, with the values that each of its
parameters may have: literals of the parameter's own type, and references whose type fits. What is
offered is asked of the checker itself, so a plan of choices has no fault in any of its steps; it may
end where the checker finds none in the whole.

A question to a model (`ask`) is a choice whose answer has named fields, each of a type from a list;
where one of these is `calls`, the calls that the answer holds can be made by the next (`dispatch`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Final

from wavewright.config.sources import pointer_token
from wavewright.config.value_types import JsonPath
from wavewright.planner.cel.embedded import field_name
from wavewright.planner.checks.checker import errors_in
from wavewright.planner.checks.fits import fit_of_known
from wavewright.planner.checks.result_type import misfit_of_type
from wavewright.planner.checks.types import PlanTypes
from wavewright.planner.checks.written_results import check_written_result
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import (
    ASK_MODEL,
    DISPATCH,
    Plan,
    Step,
    dispatch_tool_name,
    dispatched_tools,
)
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.planning.candidates import required_tools
from wavewright.planner.planning.goal_schema import closed_object, without_absent_members
from wavewright.planner.planning.prompt import dispatchable_tools
from wavewright.planner.planning.step_building import (
    is_same_call,
    new_step_id,
    with_dependencies,
)
from wavewright.planner.plans.answer_types import WORDS
from wavewright.planner.plans.binding import bind_plan, terminal_params
from wavewright.planner.plans.dispatch import with_dispatched
from wavewright.planner.plans.uses import holds_expression
from wavewright.planner.schemas.validation import schema_definitions, validator_of
from wavewright.planner.schemas.views import (
    NOTES,
    OPEN,
    SchemaView,
    ScopedSchema,
    element_schema,
    field_schema,
    required_fields,
    self_contained_schema,
    subschema,
    view_of,
    view_schema,
)
from wavewright.planner.types import (
    Json,
    JsonObject,
    JsonSchema,
    StepId,
    as_list,
    as_object,
    properties_of,
)

MAX_STEPS: Final = 12
"""Steps of a plan; the goal's own limits may be lower."""
FIELD_DEPTH: Final = 2
"""Levels of fields below an input, an output or an item that references lead into."""
WRITTEN_DEPTH: Final = 4
"""Levels of objects and lists in an argument that is written out."""
MAX_REFERENCES: Final = 24
"""References that one parameter offers, the latest outputs first."""
MAX_LISTS: Final = 6
"""Lists over whose items a call may be made."""
MAX_OPTIONAL: Final = 6
"""Optional parameters of one call that are offered."""
MAX_TEXT: Final = 200
"""Characters of a literal text."""
MAX_LIST: Final = 5
"""Elements of a literal list."""
MAX_FIELDS: Final = 4
"""Fields of the answer to one question."""
MAX_DISPATCHED: Final = 8
"""Tools that data may choose from; a goal with more of them has no such choice."""
_LIST_OF: Final = "list of "
"""Begins the name of the type of an answer that is a list."""
_CALLS: Final = "calls"
"""Name of the type of an answer that is a list of calls."""
_FIELD: Final = r"^[a-z][a-z_]{0,20}$"
"""Name of a field of an answer."""
_MAY_BE_READ: Final = re.compile(r"""[^`'"{}\\\n]+""")
"""Name of a field that an expression can read, in back quotes where it is no plain word."""
_RULES_OF_GOAL: Final = "E5"
"""First letters of the codes of the goal's rules."""
_RESULT_TYPE: Final = "E508"
"""The code of a result that is not what the goal asks for."""
_BOUNDS: Final = (
    "pattern", "format", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
)  # fmt: skip
"""Keywords of a parameter that its literals keep."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A place that an expression can read, and what it gives."""

    path: str
    """Such as `steps.prices.total`."""
    schema: JsonSchema

    @property
    def text(self) -> str:
        """The reference as a plan writes it."""
        return f"${{{self.path}}}"


@dataclass(frozen=True, slots=True)
class Choice:
    """A call that the plan may make next."""

    tool: str
    for_each: str | None
    """The list whose items it is made for."""
    params: Mapping[str, JsonSchema]
    """Schema of the values that each parameter may have; null leaves an optional one out."""

    @property
    def label(self) -> str:
        """Its name in an answer."""
        if dispatched_tools(self.tool):
            return f"{DISPATCH} {self.for_each}"
        return self.tool if self.for_each is None else f"{self.tool} for each of {self.for_each}"

    def arguments_schema(self) -> JsonSchema:
        """Return the schema of its arguments, all of which an answer names."""
        return closed_object(dict(self.params))

    def schema(self) -> JsonSchema:
        """Return the schema of this choice in an answer."""
        return closed_object({"call": {"const": self.label}, "arguments": self.arguments_schema()})

    def unoffered_references(self, arguments: JsonObject) -> tuple[str, ...]:
        """Return the names of arguments that hold `${` where no such reference is offered."""
        return tuple(
            name for name, value in arguments.items() if not _is_offered(value, self.params[name])
        )

    def only_arguments(self) -> JsonObject | None:
        """Return its arguments where each can have one value alone, else None."""
        arguments: JsonObject = {}
        for name, values in self.params.items():
            listed = _all_values(values)
            if listed is None or len(listed) > 1:
                return None
            arguments[name] = listed[0]
        return arguments


@dataclass(frozen=True)
class GuidedPlan:
    """The steps of a plan so far, and what may follow them."""

    goal: Goal
    tools: ToolSignatures
    steps: tuple[Step, ...] = ()

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """The calls that may come next, in the goal's order of tools; none where no step is left.

        As many steps as are still needed for the tools that the goal demands are kept for these.
        """
        left = self._steps_at_most - len(self.steps)
        if left <= 0:
            return ()
        called = {step.tool for step in self.steps}
        demanded = [name for name in required_tools(self.goal, self.tools) if name not in called]
        wanted = demanded if left <= len(demanded) else [*self._names]
        names = self._allowed_next(wanted)
        calls = [
            (name, for_each, [*self._slots(self._signatures[name], for_each)])
            for name in names
            for for_each in (None, *self._lists)
        ]
        refused = self._refused_by_checker([slot for *_, slots in calls for slot in slots])
        choices = (
            _choice(
                name,
                None if for_each is None else for_each.text,
                [slot.without(refused) for slot in slots],
            )
            for name, for_each, slots in calls
        )
        return tuple(
            choice for choice in choices if choice is not None and not self._is_used_up(choice)
        )

    @cached_property
    def results(self) -> tuple[str, ...]:
        """References that the plan may end with, the last step's first; none where more is needed."""
        if not self.steps:
            return ()
        return tuple(
            reference.text
            for reference in self._outputs(1)[:MAX_REFERENCES]
            if misfit_of_type(reference.schema, self._result_type) is None
            and not self._faults_of_end(self.plan(reference.text))
        )

    @cached_property
    def result_fields(self) -> Mapping[str, JsonSchema]:
        """Values of the fields of a result that is put together, where the goal's type of it is an
        object that no step gives; null leaves a field out. Empty where a field has no value, or
        more is needed.
        """
        wanted = view_of(self._result_type)
        if not self.steps or self.results or wanted.kind != "object":
            return {}
        required = {*required_fields(wanted)}
        fields: dict[str, JsonSchema] = {}
        for name in properties_of(wanted.schema):
            texts = self._fitting_references(wanted, name)
            if texts:
                fields[name] = {"enum": texts if name in required else [None, *texts]}
        if not fields.keys() >= required:
            return {}
        # Their types fit; the goal's other rules are asked about with one of each.
        any_of_each: JsonObject = {
            name: as_list(values["enum"])[-1] for name, values in fields.items()
        }
        return {} if self._faults_of_end(self.plan(any_of_each)) else fields

    def _fitting_references(self, owner: SchemaView, name: str) -> list[Json]:
        """Return the references whose type fits a field of an object."""
        wanted = self_contained_schema(field_schema(owner, name) or OPEN)
        fitting = (
            reference.text
            for reference in self._references
            if self._types.incompatibility(reference.schema, wanted) is None
            and misfit_of_type(reference.schema, wanted) is None
            and not self._refuses_result({name: reference.text})
        )
        return [*islice(fitting, MAX_REFERENCES)]

    def _refuses_result(self, result: JsonObject) -> bool:
        """Whether the checker refuses something in a part of the result, whatever else the plan
        lacks.
        """
        plan = self.plan(result)
        return any(
            fault.pointer.startswith("/result") and fault.code != _RESULT_TYPE
            for fault in [*self._errors(plan), *self._invented(plan)]
        )

    @property
    def may_end(self) -> bool:
        """Whether the plan may end here."""
        return bool(self.results or self.result_fields)

    def result_schema(self) -> JsonSchema:
        """Return the schema of what the plan may end with."""
        if self.result_fields:
            return closed_object(dict(self.result_fields))
        return {"enum": [*self.results]}

    def ending(self, result: Json) -> Plan | None:
        """Return the plan with a result that it may end with; None where it is none of these."""
        if result in self.results:
            return self.plan(result)
        if not self.result_fields or not isinstance(result, dict):
            return None
        result = {**dict.fromkeys(self.result_fields), **result}
        if not validator_of(self.result_schema()).accepts(result):
            return None
        plan = self.plan({name: value for name, value in result.items() if value is not None})
        return None if self._faults_of_end(plan) else plan

    @property
    def _result_type(self) -> JsonSchema:
        """The goal's type of a result; where its rules name the tools of last steps, that is the
        type of what these give.
        """
        return {} if self.goal.rules.terminal else self.goal.output_schema or {}

    def plan(self, result: Json) -> Plan:
        """Return the plan so far, ending with a result."""
        return Plan(reasoning="made one step at a time", steps=self.steps, result=result)

    def with_step(
        self, choice: Choice, arguments: JsonObject
    ) -> GuidedPlan | tuple[Diagnostic, ...]:
        """Return the plan with one more step, or what the checker finds in that step.

        A step that is equal to one that is there is no further step: nothing is found, and the
        plan is the same.
        """
        step = self._step(choice, arguments)
        if any(is_same_call(step, other) for other in self.steps):
            return self
        longer = replace(self, steps=(*self.steps, step))
        faults = self._faults_of_last(Plan(steps=longer.steps))
        return longer if not faults else tuple(faults)

    def _allowed_next(self, names: Sequence[str]) -> list[str]:
        """Return the tools that the goal's rules allow after the steps so far: data before
        analysis, nothing after the end.
        """
        allowed: list[str] = []
        for name in names:
            if name in self._signatures:
                step = self._step(Choice(name, None, {}), {})
                faults = self._faults_of_last(Plan(steps=(*self.steps, step)))
                if not any(fault.code.startswith(_RULES_OF_GOAL) for fault in faults):
                    allowed.append(name)
        return allowed

    # --- what each parameter may be

    def _slots(self, signature: ToolSignature, for_each: Reference | None) -> Iterator[_Parameter]:
        """Yield the parameters of a tool with the references whose type fits them."""
        schema = signature.input_schema
        required = as_list(schema.get("required"))
        set_by_engine = terminal_params(self.goal).get(signature.name, {})
        text = None if for_each is None else for_each.text
        items = [] if for_each is None else _fields_of("item", _item_of(for_each), FIELD_DEPTH)
        for name, part in properties_of(schema).items():
            if name in set_by_engine or part is False:
                continue
            wanted = {**schema_definitions(schema), **as_object(part)}
            slot = _Parameter(signature.name, text, (name,), name in required, wanted)
            if signature.name == ASK_MODEL and name in _WRITTEN_OUT:
                yield replace(slot, wanted=self._asked(name))
            else:
                yield self._with_references(slot, items)

    def _with_references(self, slot: _Parameter, items: Sequence[Reference]) -> _Parameter:
        """Return a parameter with the references whose type fits it, and with its members where it
        can be written out.
        """
        call = Step(id=StepId("probe"), tool=slot.tool, for_each=slot.for_each)

        def fits(reference: Reference) -> bool:
            if self._types.incompatibility(reference.schema, slot.wanted) is not None:
                return False
            known = fit_of_known(self._bound, call, reference.text, slot.wanted)
            return known is None or known.level != "never"

        fitting = (reference.text for reference in (*items, *self._references) if fits(reference))
        references = tuple(islice(fitting, MAX_REFERENCES))
        members: tuple[_Parameter, ...] = ()
        # Calls that data chooses are read and never written here.
        may_be_written = len(slot.path) < WRITTEN_DEPTH and not dispatched_tools(slot.tool)
        if may_be_written and not self._is_given(slot, references):
            members = tuple(self._with_references(part, items) for part in _members_of(slot))
        return replace(slot, references=references, members=members)

    def _is_given(self, slot: _Parameter, references: Sequence[str]) -> bool:
        """Whether a parameter is a list that the goal's data or one of its tools gives: a small
        model would invent records in its place.
        """
        if view_of(slot.wanted).kind != "array":
            return False
        outputs = (signature.output_schema for signature in self._signatures.values())
        return bool(references) or any(
            view_of(output).kind == "array"
            and self._types.incompatibility(output, slot.wanted) is None
            for output in outputs
        )

    def _asked(self, name: str) -> JsonSchema:
        """Return the schema of what a question is to answer, or of its words."""
        if name != "for":
            return {"type": "string", "minLength": 1}
        types: list[Json] = [*WORDS, *(_LIST_OF + word for word in WORDS)]
        if self._dispatched:
            types.append(_CALLS)
        field: JsonObject = {
            "name": {"type": "string", "pattern": _FIELD},
            "type": {"enum": types},
        }
        return {
            "type": "array",
            "items": closed_object(field),
            "minItems": 1,
            "maxItems": MAX_FIELDS,
        }

    def _refused_by_checker(self, slots: Sequence[_Parameter]) -> frozenset[tuple[_Parameter, str]]:
        """Return the references that the checker refuses, each asked about in a step of its own.

        Their types fit; what is refused is refused for another reason, such as untrusted text.
        """
        asked = [
            (part, text)
            for slot in slots
            for part in slot.with_members()
            for text in part.references
        ]
        probes = tuple(
            Step(
                id=StepId(f"probe_{number}"),
                tool=part.tool,
                for_each=part.for_each,
                params=part.argument(text),
            )
            for number, (part, text) in enumerate(asked)
        )
        first = len(self.steps)
        refused = set[tuple[_Parameter, str]]()
        for fault in self._errors(Plan(steps=(*self.steps, *probes))):
            step, _, member = fault.pointer.removeprefix("/steps/").partition("/")
            number = int(step) - first if step.isdecimal() else -1
            if number >= 0 and _is_about(fault, f"/{member}", asked[number][0]):
                refused.add(asked[number])
        return frozenset(refused)

    @cached_property
    def _references(self) -> list[Reference]:
        """What an argument outside a fan-out may read: outputs, the latest first, then inputs."""
        references = self._outputs(FIELD_DEPTH)
        inputs = self._types.inputs
        for name, part in properties_of(inputs).items():
            schema = {**schema_definitions(inputs), **as_object(part)}
            references += _fields_of(f"inputs.{field_name(name)}", schema, FIELD_DEPTH)
        return references

    def _outputs(self, depth: int) -> list[Reference]:
        """Return what the steps give, the latest first, with fields of so many levels."""
        return [
            reference
            for step in reversed(self.steps)
            for reference in _fields_of(f"steps.{step.id}", self._types.outputs[step.id], depth)
        ]

    @cached_property
    def _lists(self) -> list[Reference]:
        """The lists that a step can be made for each item of, the latest outputs first."""
        lists = (
            reference for reference in self._references if view_of(reference.schema).kind == "array"
        )
        return [*islice(lists, MAX_LISTS)]

    def _is_used_up(self, choice: Choice) -> bool:
        """Whether the plan has every call already that the choice could add: it has but one."""
        arguments = choice.only_arguments()
        if arguments is None:
            return False
        step = self._step(choice, arguments)
        return any(is_same_call(step, other) for other in self.steps)

    # --- the plan so far

    @cached_property
    def _dispatched(self) -> tuple[str, ...]:
        """The tools that data may choose; none where they are too many."""
        names = dispatchable_tools(self.goal, self.tools)
        return names if len(names) <= MAX_DISPATCHED else ()

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """What a step can call, in the goal's order."""
        union = (dispatch_tool_name(self._dispatched),) if self._dispatched else ()
        return (*(tool.name for tool in self.goal.tools), *union)

    @cached_property
    def _signatures(self) -> ToolSignatures:
        return with_dispatched(self._names, self.tools)

    @property
    def _steps_at_most(self) -> int:
        """As many as can wait for each other, so that no order of steps has too many waves."""
        limits = self.goal.limits
        return min(limits.max_steps, limits.max_waves, MAX_STEPS)

    @cached_property
    def _bound(self) -> Plan:
        return bind_plan(Plan(steps=self.steps), self.goal)

    @cached_property
    def _types(self) -> PlanTypes:
        return PlanTypes(self._bound, self.goal, self._signatures)

    def _faults_of_last(self, plan: Plan) -> list[Diagnostic]:
        """Return what the checker refuses in the last step of a plan.

        What the step gives need not be what the goal asks for: its result is chosen at the end.
        """
        at = f"/steps/{len(plan.steps) - 1}/"
        faults = [fault for fault in self._errors(plan) if fault.code != _RESULT_TYPE]
        return [fault for fault in faults if f"{fault.pointer}/".startswith(at)]

    def _faults_of_end(self, plan: Plan) -> list[Diagnostic]:
        """Return what is wrong with a plan that ends here."""
        return self._errors(plan) or self._invented(plan)

    def _invented(self, plan: Plan) -> list[Diagnostic]:
        """Return the fields of a result that hold what the planner wrote, and no data: they look
        like data and are invented.
        """
        return [*check_written_result(bind_plan(plan, self.goal), self.goal, self.tools)]

    def _errors(self, plan: Plan) -> list[Diagnostic]:
        return errors_in(bind_plan(plan, self.goal), self.goal, self.tools)

    def _step(self, choice: Choice, arguments: JsonObject) -> Step:
        signature = self._signatures.get(choice.tool)
        schema = {} if signature is None else signature.input_schema
        required = as_list(schema.get("required"))
        params: JsonObject = {
            name: value
            for name, value in arguments.items()
            if value is not None or name in required
        }
        if choice.tool == ASK_MODEL and "for" in params:
            params["for"] = self._answer_types(params["for"])
        # Null leaves a member of an object out, too.
        params = as_object(without_absent_members(params, schema))
        is_dispatch = bool(dispatched_tools(choice.tool))
        name = new_step_id(DISPATCH if is_dispatch else choice.tool, self.steps)
        step = Step(
            id=StepId(name),
            tool=choice.tool,
            params=params,
            for_each=choice.for_each,
            # Calls that data chooses are made in the order of the list.
            concurrency=1 if is_dispatch else None,
        )
        return with_dependencies(step, self.steps, self.goal, self._signatures)

    def _answer_types(self, fields: Json) -> JsonObject:
        """Return the fields of an answer with their types, as a plan writes them."""
        types: JsonObject = {}
        for field in map(as_object, as_list(fields)):
            word = str(field["type"])
            item = word.removeprefix(_LIST_OF)
            if word == _CALLS:
                types[str(field["name"])] = {_CALLS: [*self._dispatched]}
            else:
                types[str(field["name"])] = word if item == word else {"list": item}
        return types


_WRITTEN_OUT: Final = ("for", "question")
"""Parameters of a question that hold no references."""


@dataclass(frozen=True, slots=True, eq=False)
class _Parameter:
    """A parameter of a call that may come next."""

    tool: str
    for_each: str | None
    path: JsonPath
    """Its name; of a part of it, the names of members from the outermost, and 0 for the elements of
    a list.
    """
    is_required: bool
    wanted: JsonSchema
    references: tuple[str, ...] = ()
    """Those whose type fits."""
    members: tuple[_Parameter, ...] = ()
    """Of an object that can be written out; of a list, its element; of alternatives, the objects
    among them.
    """

    def part(self, schema: ScopedSchema, *names: str | int, is_required: bool = True) -> _Parameter:
        """Return a part of it; without a name it stands in the same place."""
        wanted = self_contained_schema(schema)
        return _Parameter(self.tool, self.for_each, (*self.path, *names), is_required, wanted)

    def without(self, refused: Container[tuple[_Parameter, str]]) -> _Parameter:
        """Return it without the references that are refused, in its members, too."""
        return replace(
            self,
            references=tuple(text for text in self.references if (self, text) not in refused),
            members=tuple(member.without(refused) for member in self.members),
        )

    def with_members(self) -> Iterator[_Parameter]:
        """Yield it and everything that it has members of."""
        yield self
        for member in self.members:
            yield from member.with_members()

    def argument(self, text: str) -> JsonObject:
        """Return arguments of a call of which only this is given."""
        value: Json = text
        for name in reversed(self.path):
            value = [value] if isinstance(name, int) else {name: value}
        return as_object(value)


def _members_of(slot: _Parameter) -> Iterator[_Parameter]:
    """Yield the members of an object that can be written out, the element of a list that holds such
    objects, or the objects among alternatives.
    """
    view = view_of(slot.wanted)
    if view.kind == "union" and view.is_exact:
        yield from (slot.part(branch.scoped) for branch in view.branches if _is_writable(branch))
    if view.kind == "array" and _keeps_all(view):
        element = element_schema(view)
        if element is not None and any(map(_is_writable, view_schema(element).alternatives)):
            yield slot.part(element, 0)
    if not _is_writable(view):
        return
    required = required_fields(view)
    for name in properties_of(view.schema):
        place = field_schema(view, name) or OPEN
        yield slot.part(place, name, is_required=name in required)


def _is_writable(view: SchemaView) -> bool:
    """Whether a type is that of an object of which nothing is said but which members it has."""
    return view.kind == "object" and view.schema.keys() <= _WORDS_OF_OBJECT


_WORDS_OF_OBJECT: Final = NOTES | {"type", "properties", "required", "additionalProperties"}


def _is_about(fault: Diagnostic, place: str, part: _Parameter) -> bool:
    """Whether a fault of a step that gives one argument alone is one of that argument.

    What an object around it lacks (E205) is none: its other members are not there.
    """
    own = "/params" + "".join(map(pointer_token, part.path))
    is_around = f"{own}/".startswith(f"{place}/") and place.count("/") > 1
    return (
        place.startswith("/for_each")
        or f"{place}/".startswith(f"{own}/")
        or (is_around and fault.code != "E205")
    )


def _choice(tool: str, for_each: str | None, slots: Sequence[_Parameter]) -> Choice | None:
    """Return the choice of a call; None where a required parameter has no value, or where a call
    for each item reads no item.
    """
    params: dict[str, JsonSchema] = {}
    optional = 0
    reads_item = for_each is None
    for slot in slots:
        values = _values_of(slot)
        if slot.is_required and not values:
            return None
        if not slot.is_required:
            if optional == MAX_OPTIONAL or not values:
                continue
            optional += 1
            values.insert(0, {"type": "null"})
        reads_item = reads_item or _may_read_item(slot)
        params[str(slot.path[0])] = _any_of(values)
    return Choice(tool, for_each, params) if reads_item else None


def _may_read_item(slot: _Parameter) -> bool:
    return any(
        text.startswith("${item") for part in slot.with_members() for text in part.references
    )


def _any_of(values: list[JsonSchema]) -> JsonSchema:
    return values[0] if len(values) == 1 else {"anyOf": [*values]}


def _fields_of(path: str, schema: JsonSchema, depth: int) -> list[Reference]:
    """Return a place and the fields below it that are always there."""
    found = [Reference(path, schema)]
    view = view_of(schema)
    if depth == 0 or view.kind != "object" or view.nullable:
        return found
    for name in sorted(required_fields(view)):
        part = field_schema(view, name)
        if part is not None and _MAY_BE_READ.fullmatch(name):
            inner = f"{path}.{field_name(name)}"
            found += _fields_of(inner, self_contained_schema(part), depth - 1)
    return found


def _item_of(reference: Reference) -> JsonSchema:
    """Return what an item of a list is."""
    return self_contained_schema(element_schema(view_of(reference.schema)) or OPEN)


def _values_of(slot: _Parameter) -> list[JsonSchema]:
    """Return what an argument may be: one of the references, or a literal of its type."""
    if slot.tool == ASK_MODEL and slot.path[0] in _WRITTEN_OUT:
        return [slot.wanted]
    choices: list[JsonSchema] = [{"enum": [*slot.references]}] if slot.references else []
    return [*choices, *_literals_of(slot)]


def _literals_of(slot: _Parameter) -> Iterator[JsonSchema]:
    """Yield the schemas of what may be written out for a parameter, with references in it."""
    view = view_of(slot.wanted)
    if not slot.members:
        literals = [_literal_schema(view)]
    elif view.kind == "array":
        literals = [_written_list(view, slot.members[0])]
    elif view.kind == "union":
        others = [branch for branch in view.branches if not _is_writable(branch)]
        literals = [_written_object(branch) for branch in slot.members]
        literals.append(_literal_of_kinds(others))
    else:
        literals = [_written_object(slot)]
    yield from (literal for literal in literals if literal is not None)


def _written_list(view: SchemaView, element: _Parameter) -> JsonSchema | None:
    """Return the schema of a list that is written out; None where its element has no value."""
    values = _values_of(element)
    return _list_of(_any_of(values), view) if values else None


def _written_object(slot: _Parameter) -> JsonSchema | None:
    """Return the schema of an object whose members are references or literals; None where a
    required one has no value.
    """
    members: JsonObject = {}
    for member in slot.members:
        values = _values_of(member)
        if member.is_required and not values:
            return None
        if values:
            absent: list[JsonSchema] = [] if member.is_required else [{"type": "null"}]
            members[str(member.path[-1])] = _any_of([*absent, *values])
    return closed_object(members)


def _literal_schema(view: SchemaView) -> JsonSchema | None:
    """Return the schema of a literal; None for objects, for what is open, and where a type says
    more than a literal keeps.

    It has every bound of the parameter, so what fits it fits the parameter; a server whose grammar
    cannot hold an answer to one of them is told, and asked again.
    """
    schema = view.schema
    for keyword in ("enum", "const"):
        if keyword in schema:
            return {keyword: schema[keyword]}
    if not _keeps_all(view):
        return None
    bounds = _bounds_of(view)
    match view.kind:
        case "string":
            return {"type": "string", "maxLength": MAX_TEXT, **bounds}
        case "boolean" | "integer" | "number":
            return {"type": view.kind, **bounds}
        case "array":
            return _literal_list(view)
        case "union":
            return _literal_of_kinds(view.branches)
        case _:
            return None


def _literal_of_kinds(branches: Sequence[SchemaView]) -> JsonSchema | None:
    """Return the schema of a literal of one of several kinds; None where a value may be of two of
    them, of which `oneOf` takes none.
    """
    kinds = ["number" if branch.kind == "integer" else branch.kind for branch in branches]
    literals = [_literal_schema(branch) for branch in branches]
    written = [literal for literal in literals if literal is not None]
    return _any_of(written) if written and len({*kinds}) == len(kinds) else None


def _keeps_all(view: SchemaView) -> bool:
    """Whether a literal keeps all that a type says."""
    return view.is_exact and view.schema.keys() <= _WORDS_OF_LITERAL


_WORDS_OF_LITERAL: Final = NOTES | {"type", "items", "prefixItems", "anyOf", "oneOf", *_BOUNDS}


def _literal_list(view: SchemaView) -> JsonSchema | None:
    if "prefixItems" in view.schema:
        return _literal_tuple(view)
    place = element_schema(view)
    if place is None:
        return None
    element = view_schema(place)
    literal = _literal_schema(element)
    if literal is None or element.kind == "array":
        return None
    return _list_of(literal, view)


def _literal_tuple(view: SchemaView) -> JsonSchema | None:
    """Return the schema of a list of one element for each place that has a type of its own."""
    places = as_list(view.schema["prefixItems"])
    elements = [_literal_schema(view_schema(subschema(part, view.root))) for part in places]
    count = len(elements)
    least, most = view.schema.get("minItems", count), view.schema.get("maxItems", count)
    has_room = isinstance(most, int | float) and most >= count
    is_filled = isinstance(least, int | float) and least <= count
    if None in elements or not has_room or not is_filled:
        return None
    return {"type": "array", "prefixItems": [*elements], "minItems": count, "maxItems": count}


def _list_of(items: JsonSchema, view: SchemaView) -> JsonSchema:
    return {"type": "array", "items": items, "maxItems": MAX_LIST, **_bounds_of(view)}


def _bounds_of(view: SchemaView) -> JsonSchema:
    return {word: view.schema[word] for word in _BOUNDS if word in view.schema}


def _all_values(values: JsonSchema) -> list[Json] | None:
    """Return the values that a parameter may have; None where nobody can list them."""
    if "anyOf" in values:
        parts = [_all_values(as_object(branch)) for branch in as_list(values["anyOf"])]
        return None if None in parts else [value for part in parts for value in part or ()]
    if values.get("type") == "null":
        return [None]
    if "const" in values:
        return [values["const"]]
    return as_list(values["enum"]) if "enum" in values else None


def _is_offered(value: Json, values: JsonSchema) -> bool:
    """Whether what holds `${` in an argument is one of the references that are offered there."""
    if not holds_expression(value):
        return True
    branches = [as_object(branch) for branch in as_list(values.get("anyOf"))] or [values]
    if any(value in as_list(branch.get("enum")) for branch in branches):
        return True
    for branch in branches:
        members = properties_of(branch)
        if isinstance(value, dict) and value.keys() <= members.keys():
            parts = [(part, as_object(members[name])) for name, part in value.items()]
        elif isinstance(value, list) and "items" in branch:
            parts = [(part, as_object(branch["items"])) for part in value]
        else:
            continue
        if all(_is_offered(part, schema) for part, schema in parts):
            return True
    return False
