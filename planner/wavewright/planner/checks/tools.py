"""Family E2: tools and their arguments.

A step calls a tool that exists and that the goal allows, with arguments that fit its input schema.
Parameters without `${…}` are validated as they are. In others the literal parts are validated, a
whole `${…}` is compared by the type of its result (`E304`), and text that contains `${…}` is a
string. A reference whose own fault is reported elsewhere fits every schema, so one mistake gives
one message. Arguments that the goal sets on terminal steps are refused in a plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from wavewright.config.documents import value_at
from wavewright.config.errors import NameHint, did_you_mean
from wavewright.config.sources import path_of_keys, pointer_keys, pointer_token
from wavewright.planner.cel.embedded import split_references
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.checks.context import CheckContext, value_of_item
from wavewright.planner.checks.fits import fit_of_known
from wavewright.planner.diagnostics.diagnostic import (
    Addition,
    Diagnostic,
    Replacement,
    describe_parameter,
    list_fields,
    list_names,
    make_diagnostic,
    suggest_name,
    value_text,
)
from wavewright.planner.language.call_outcomes import is_unknown_by_class
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.language.plan import (
    ASK_MODEL,
    DISPATCHED_CALL,
    SUB_PLAN,
    Step,
    dispatched_tools,
)
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.answer_types import AnswerTypeError, answer_schema
from wavewright.planner.plans.dispatch import undispatchable
from wavewright.planner.plans.estimates import items_to_run
from wavewright.planner.plans.step_types import schema_fault
from wavewright.planner.plans.uses import (
    ExpressionUse,
    embedded_uses,
    holds_expression,
)
from wavewright.planner.schemas.validation import (
    InvalidSchemaError,
    SchemaViolation,
    Validator,
    look_up_reference,
    schema_definitions,
    validator_of,
)
from wavewright.planner.schemas.views import (
    ScopedSchema,
    allowed_values,
    view_of,
    view_schema,
)
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list, as_object, properties_of

REFERENCE_KEYWORD = "reference"
"""Keyword of a misfit that is a reference's."""

_OF_KINDS: Final = frozenset({"const", "enum"})
"""Keywords of a field that tells the members of a union apart."""
_WHOLE_NOW: Final = re.compile(r"\$\{\s*now\(\)\s*\}")
_STRING_SCHEMA: JsonSchema = {"type": "string"}


class StepTypes(NamedTuple):
    """What the expressions of one step give; the grammar is loaded for the first that is asked for."""

    subject: CheckContext
    step: Step

    def result(self, use: ExpressionUse) -> JsonSchema | None:
        """Return what an expression gives; nothing where its own fault is reported elsewhere."""
        return self.subject.types.result(use, self.step)

    def incompatibility(self, source: JsonSchema, target: JsonSchema) -> str | None:
        """Return why no value of `source` can be given where `target` is wanted."""
        return self.subject.types.incompatibility(source, target)


class InputSchema:
    """A tool's input schema with the validators of its parts, each built when first needed."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema
        self.properties: JsonObject = properties_of(schema)
        self._scope = schema_definitions(schema)
        # Keyed by identity: every part that is asked for belongs to `schema` or to `_whole`, and so
        # stays alive.
        self._validators: dict[int, Validator] = {}
        self._whole: dict[int, JsonSchema] = {}

    def accepts(self, params: JsonObject) -> bool:
        """Return whether literal parameters fit."""
        return self._validator(self.schema).accepts(params)

    def violations(
        self, params: JsonObject, pointer: str, types: StepTypes
    ) -> list[SchemaViolation]:
        """Return why parameters do not fit, in their order."""
        return list(self._violations(params, self.schema, pointer, types))

    def violations_of(
        self, name: str, value: Json, pointer: str, types: StepTypes
    ) -> list[SchemaViolation]:
        """Return why a value does not fit one parameter."""
        return list(self._violations(value, self.properties.get(name, True), pointer, types))

    def _violations(
        self, value: Json, schema: Json, pointer: str, types: StepTypes
    ) -> Iterator[SchemaViolation]:
        if schema is True or schema == {}:
            return
        if not holds_expression(value):
            yield from self._validator(schema).violations(value, pointer)
            return
        if not isinstance(schema, dict):
            yield SchemaViolation(pointer, "false", "must not be there")
            return
        resolved = self._resolved(schema)
        if isinstance(value, str):
            yield from self._text(value, resolved, pointer, types)
            return
        choices = allowed_values(resolved)
        if choices is not None and not any(type(choice) is type(value) for choice in choices):
            yield _no_choice(value, choices, pointer)
            return
        yield from self._combined(value, resolved, pointer, types)
        outline = [*validator_of(_outline(resolved)).violations(value, pointer)]
        yield from outline
        if any(misfit.keyword == "type" for misfit in outline):
            return
        if isinstance(value, list):
            yield from self._list(value, resolved, pointer, types)
        elif isinstance(value, dict):
            yield from self._object(value, resolved, pointer, types)

    def _combined(
        self, value: Json, schema: JsonSchema, pointer: str, types: StepTypes
    ) -> Iterator[SchemaViolation]:
        """Yield what the schemas say that stand inside another for the same value."""
        for part in as_list(schema.get("allOf")):
            yield from self._violations(value, part, pointer, types)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield from self._one_of(value, as_list(schema[keyword]), pointer, types)
        if "if" in schema:
            yield from self._conditional(value, schema, pointer, types)

    def _text(
        self, text: str, schema: JsonSchema, pointer: str, types: StepTypes
    ) -> Iterator[SchemaViolation]:
        try:
            uses = embedded_uses(text, pointer, "params")
        except ExpressionError:
            return
        if not uses:
            literal = "".join(part for part in split_references(text) if isinstance(part, str))
            yield from self._validator(schema).violations(literal, pointer)
            return
        choices = allowed_values(schema)
        if choices is not None and not uses[0].is_whole and not _can_become(text, choices):
            yield _no_choice(text, choices, pointer)
            return
        if _WHOLE_NOW.fullmatch(text) and self._wants_date(schema):
            yield SchemaViolation(
                pointer,
                REFERENCE_KEYWORD,
                "an instant is given where a date is wanted",
                hint="write the date of the instant: ${format(now(), '%Y-%m-%d')}",
            )
            return
        source = types.result(uses[0]) if uses[0].is_whole else _STRING_SCHEMA
        if source is None:
            # Its own fault is reported elsewhere.
            return
        target = self._with_definitions(schema)
        # What is known before the run is judged by itself: of the items of an input their common
        # type says less.
        known = fit_of_known(types.subject.plan, types.step, text, target)
        if known is not None and known.level == "always":
            return
        reason = types.incompatibility(source, target)
        if reason is None and known is not None and known.level == "never":
            reason = known.reason
        if reason is not None:
            hint = _conversion(source, schema, uses[0])
            yield SchemaViolation(pointer, REFERENCE_KEYWORD, reason, hint=hint)

    def _wants_date(self, schema: JsonSchema) -> bool:
        view = view_schema(ScopedSchema(schema, self.schema))
        return all(part.schema.get("format") == "date" for part in view.alternatives)

    def _one_of(
        self, value: Json, branches: list[Json], pointer: str, types: StepTypes
    ) -> Iterator[SchemaViolation]:
        """Yield nothing where some branch fits, else the faults of the branch that comes nearest."""
        of_no_kind = [*self._of_no_kind(value, branches, pointer)]
        if of_no_kind:
            yield from of_no_kind
            return
        tried = [list(self._violations(value, branch, pointer, types)) for branch in branches]

        def distance(faults: list[SchemaViolation]) -> tuple[bool, bool, int]:
            # A branch that another constant names is another kind; of the rest one is nearer where
            # the value itself fits and only parts of it do not.
            is_of_other_kind = any(
                fault.keyword in _OF_KINDS and fault.pointer.rpartition("/")[0] == pointer
                for fault in faults
            )
            is_itself = any(fault.pointer == pointer for fault in faults)
            return is_of_other_kind, is_itself, len(faults)

        if tried and all(tried):
            yield from min(tried, key=distance)

    def _of_no_kind(
        self, value: Json, branches: list[Json], pointer: str
    ) -> Iterator[SchemaViolation]:
        """Yield what is wrong with a field that tells the branches apart, where it is written out."""
        objects = [self._resolved(as_object(branch)) for branch in branches]
        for name, member in as_object(value).items():
            fields_of_name = [as_object(properties_of(of).get(name)) for of in objects]
            parts = [{key: of[key] for key in of if key in _OF_KINDS} for of in fields_of_name]
            if all(parts) and not holds_expression(member):
                fields: list[Json] = [{"properties": {name: part}} for part in parts]
                yield from validator_of({"anyOf": fields}).violations({name: member}, pointer)

    def _conditional(
        self, value: Json, schema: JsonSchema, pointer: str, types: StepTypes
    ) -> Iterator[SchemaViolation]:
        """Yield what `then` or `else` says, where it is known which of the two counts: what `if`
        asks of is written out.
        """
        condition = as_object(schema["if"])
        asked = properties_of(condition)
        members = as_object(value)
        if not condition.keys() <= {"properties", "required", "type"} or any(
            holds_expression(members.get(name)) for name in asked
        ):
            return
        is_met = not any(self._violations(value, schema["if"], pointer, types))
        yield from self._violations(
            value, schema.get("then" if is_met else "else", True), pointer, types
        )

    def _list(
        self, items: list[Json], schema: JsonSchema, pointer: str, types: StepTypes
    ) -> Iterator[SchemaViolation]:
        first = as_list(schema.get("prefixItems"))
        rest = schema.get("items", True)
        for number, item in enumerate(items):
            part = first[number] if number < len(first) else rest
            yield from self._violations(item, part, pointer + pointer_token(number), types)

    def _object(
        self, members: JsonObject, schema: JsonSchema, pointer: str, types: StepTypes
    ) -> Iterator[SchemaViolation]:
        properties = properties_of(schema)
        # A name of a pattern that is not followed here may be any.
        rest = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name, value in members.items():
            part = properties.get(name, rest)
            if part is not False:
                yield from self._violations(value, part, pointer + pointer_token(name), types)

    def _validator(self, schema: Json) -> Validator:
        built = self._validators.get(id(schema))
        if built is None:
            nothing: JsonSchema = {"not": {}}
            whole = self._with_definitions(schema) if isinstance(schema, dict) else nothing
            try:
                built = Validator(whole, checks_formats=True)
            except InvalidSchemaError:
                if schema is self.schema:
                    raise
                # The part refers to another part; the whole arguments are validated before the
                # call.
                built = Validator({})
            self._validators[id(schema)] = built
        return built

    def _with_definitions(self, schema: JsonSchema) -> JsonSchema:
        return self._scope | schema if self._scope else schema

    def _resolved(self, schema: JsonSchema) -> JsonSchema:
        """Follow `$ref` inside the schema, a bounded number of times; whatever stands beside it
        stays.
        """
        if "$ref" not in schema:
            return schema
        whole = self._whole.get(id(schema))
        if whole is None:
            whole = self._whole[id(schema)] = _follow_reference(schema, self.schema)
        return whole


def prepared_input_schema(schema: JsonSchema) -> InputSchema:
    """Return the prepared form of a tool's input schema; equal schemas share one.

    Raises:
        InvalidSchemaError: it is no JSON Schema, or refers to something outside itself.
    """
    return _prepare_schema(canonical_json(schema))


@lru_cache(maxsize=512)
def _prepare_schema(text: bytes) -> InputSchema:
    schema: JsonSchema = json.loads(text)
    prepared = InputSchema(schema)
    prepared.accepts({})
    return prepared


_OUTLINE: Final = frozenset(
    {"type", "minItems", "maxItems", "required", "minProperties", "maxProperties"}
)


def _outline(schema: JsonSchema) -> JsonSchema:
    """Return what a schema says of a list or an object whatever its parts are."""
    outline: JsonSchema = {key: part for key, part in schema.items() if key in _OUTLINE}
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        properties: JsonObject = dict.fromkeys(properties_of(schema), True)
        outline |= {"properties": properties, "additionalProperties": False}
    return outline


def _follow_reference(schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    for _ in range(16):
        target = schema.get("$ref")
        if not isinstance(target, str) or not target.startswith("#"):
            break
        beside = {name: part for name, part in schema.items() if name != "$ref"}
        schema = (look_up_reference(target, root) or {}) | beside
    return schema


def _conversion(source: JsonSchema, target: JsonSchema, use: ExpressionUse) -> str | None:
    """Return how to make a text of a plain value where a text is wanted, and an integer of a number
    where an integer is.
    """
    expression = use.expression.strip()
    if view_of(target).kinds == {"integer"} and source.get("type") == "number":
        return (
            f"cut the fraction off: ${{int({expression})}}, or round: "
            f"${{int(math.round({expression}))}}"
        )
    if target.get("type") != "string":
        return None
    if source.get("type") not in ("number", "integer", "boolean"):
        return None
    written = f"${{string({expression})}}"
    return NameHint.of(f"convert it: {written}", written)


def _can_become(text: str, choices: list[Json]) -> bool:
    """Tell whether some choice is a text with what stands around the references of this one."""
    parts = (re.escape(part) if isinstance(part, str) else ".*" for part in split_references(text))
    pattern = re.compile("".join(parts), re.DOTALL)
    return any(isinstance(choice, str) and pattern.fullmatch(choice) for choice in choices)


def _no_choice(value: Json, choices: list[Json], pointer: str) -> SchemaViolation:
    listed = ", ".join(map(value_text, choices))
    return SchemaViolation(pointer, "enum", f"is {value_text(value)}, but must be one of {listed}")


_NO_TOOLS_HINT = (
    "there are no tools at all; name the modules that bring them under 'tools' in wavewright.yaml, in "
    "Python give `Wavewright(tools=[…])`, or name in a job the goal template that allows them"
)


def check_tools(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what is wrong with the steps' tools and arguments."""
    schemas = _schemas(subject)
    for number, (step, texts) in enumerate(zip(subject.plan.steps, subject.texts, strict=True)):
        schema = schemas.get(step.tool)
        if step.plan is not None:
            if step.id not in subject.untyped:
                yield _sub_plan_diagnostic(step, f"/steps/{number}/plan")
            continue
        if schema is None:
            yield _unusable_schema_diagnostic(subject, step, f"/steps/{number}/tool")
            continue
        if step.tool in subject.engine_params:
            yield from _check_engine_params(subject, step, f"/steps/{number}")
        pointer = f"/steps/{number}"
        told = set[str]()
        """Arguments of which an item is wrong: that is told of the item, and not of all of them."""
        is_dispatch = bool(dispatched_tools(step.tool))
        check_items = _check_written_calls if is_dispatch else _check_written_items
        for argument, fault in check_items(subject, step, schema, pointer):
            told.add(f"{pointer}/params{pointer_token(argument)}")
            yield fault
        if texts or not schema.accepts(step.params):
            types = StepTypes(subject, step)
            for misfit in schema.violations(step.params, f"{pointer}/params", types):
                if misfit.keyword == REFERENCE_KEYWORD and misfit.pointer in told:
                    continue
                if is_dispatch:
                    message = f"the list of step {step.id!r}: {misfit.message}"
                    yield make_diagnostic("E304", f"{pointer}/for_each", message, _CALL_HINT)
                else:
                    yield _argument_diagnostic(step, schema, misfit, pointer)
        yield from _check_written_types(subject, step, f"{pointer}/params")
        yield from _check_retry(step, subject.tools[step.tool], pointer)


def _check_written_types(subject: CheckContext, step: Step, pointer: str) -> Iterator[Diagnostic]:
    """Yield the types and schemas of answers that are none."""
    asked = step.params.get("for")
    if step.tool == ASK_MODEL and holds_expression(asked):
        message = f"argument 'for' of {step.tool!r} holds ${{…}}, and it types the steps that read the answer"
        yield make_diagnostic("E205", f"{pointer}/for", message, "write the types out")
    elif step.tool == ASK_MODEL and isinstance(asked, dict):
        # One field at a time, so that each is told its own fault.
        for fields in [{name: field_type} for name, field_type in asked.items()] or [asked]:
            try:
                answer_schema(fields, subject.tools)
            except AnswerTypeError as fault:
                keys = "".join(f".{key}" for key in pointer_keys(fault.pointer))
                message = f"argument 'for{keys}' of {step.tool!r} {fault}"
                yield make_diagnostic("E205", f"{pointer}/for{fault.pointer}", message, fault.hint)
    for name in subject.tools[step.tool].typed_by:
        written = step.params.get(name)
        problem = schema_fault(written) if isinstance(written, dict) else None
        if problem is not None and not holds_expression(written):
            message = f"argument {name!r} of {step.tool!r} {problem}"
            yield make_diagnostic("E205", pointer + pointer_token(name), message, "fix the schema")


def _check_written_items(
    subject: CheckContext, step: Step, schema: InputSchema, pointer: str
) -> Iterator[tuple[str, Diagnostic]]:
    """Yield the items that are written out and do not fit the parameters that they are given for,
    with these; each of them is a call that is known beforehand.
    """
    types = StepTypes(subject, step)
    for number, item in items_to_run(subject.plan, step, _written_list(step)):
        place = f"{pointer}/for_each/{number}"
        for name, text in step.params.items():
            for value in value_of_item(text, item):
                inner = f"{pointer}/params{pointer_token(name)}"
                for misfit in schema.violations_of(name, value, inner, types):
                    call = step.model_copy(update={"params": {**step.params, name: value}})
                    fault = _argument_diagnostic(call, schema, misfit, pointer)
                    yield name, replace(fault, pointer=place, given_mend=None)


def _check_written_calls(
    subject: CheckContext, step: Step, schema: InputSchema, pointer: str
) -> Iterator[tuple[str, Diagnostic]]:
    """Yield what is wrong with calls of a `dispatch` that are written out: each is judged as a step
    that makes it.
    """
    for number, item in items_to_run(subject.plan, step, _written_list(step)):
        place = f"{pointer}/for_each/{number}"
        for fault in _faults_of_call(subject, step, schema, item, place):
            yield DISPATCHED_CALL, fault


def _faults_of_call(
    subject: CheckContext, step: Step, dispatched: InputSchema, item: Json, place: str
) -> Iterator[Diagnostic]:
    what = f"entry {pointer_keys(place)[-1]} of the list of step {step.id!r}"
    name: Json = item.get("tool") if isinstance(item, dict) else item
    params: Json = item.get("params", {}) if isinstance(item, dict) else None
    if any(isinstance(part, str) and holds_expression(part) for part in (name, params)):
        # Which call it is shows when it is made, and its type whether it can be one.
        types = StepTypes(subject, step)
        for misfit in dispatched.violations_of(DISPATCHED_CALL, item, place, types):
            message = f"{what}: {misfit.message}"
            yield make_diagnostic("E304", misfit.pointer, message, _CALL_HINT)
        return
    if not isinstance(name, str) or not isinstance(params, dict):
        yield make_diagnostic("E205", place, f"{what} is no call", _CALL_HINT)
        return
    names = dispatched_tools(step.tool)
    if name not in names:
        hint = suggest_name(name, names, what="`tools` of the step")
        message = f"step {step.id!r} calls {name!r}, which is none of its `tools`"
        yield make_diagnostic("E202", f"{place}/tool", message, hint)
        return
    call = step.model_copy(update={"tool": name, "params": params})
    schema = _usable_schema(subject.tools[name])
    if schema is None:
        return
    for misfit in schema.violations(params, f"{place}/params", StepTypes(subject, call)):
        yield replace(_argument_diagnostic(call, schema, misfit, place), given_mend=None)


_CALL_HINT: Final = "a call is {tool: …, params: {…}}"


def _written_list(step: Step) -> list[Json]:
    return step.for_each if isinstance(step.for_each, list) else []


def _check_retry(step: Step, tool: ToolSignature, pointer: str) -> Iterator[Diagnostic]:
    """A write whose outcome is unknown is never repeated, so no rules of retries may say that it is."""
    retry = step.retry or tool.retry
    if not tool.writes or tool.idempotent or retry.attempts == 1:
        return
    for kind in retry.on:
        # `transient` repeats what is known to have had no effect, such as a refused connection.
        if kind in ("any", "output") or is_unknown_by_class([kind]):
            place = f"{pointer}/retry" if step.retry is not None else f"{pointer}/tool"
            yield make_diagnostic(
                "E209",
                place,
                f"step {step.id!r} tries {step.tool!r} again after {kind!r}, and the tool writes and is not idempotent",
                f"leave {kind!r} out of `retry.on`, or have the tool say `idempotent: true` where a repeated call with "
                "the same key changes nothing",
            )
            return


def _schemas(subject: CheckContext) -> dict[str, InputSchema]:
    """Return the input schemas of the tools that the plan calls and may call, each prepared once."""
    called = (
        {step.tool for step in subject.plan.steps} & subject.allowed_tools & subject.tools.keys()
    )
    prepared = ((name, _usable_schema(subject.tools[name])) for name in called)
    return {name: schema for name, schema in prepared if schema is not None}


def _sub_plan_diagnostic(step: Step, place: str) -> Diagnostic:
    return make_diagnostic(
        "E411",
        place,
        f"step {step.id!r} calls the plan {step.plan!r}, and no plan can be called from here",
        "write the steps themselves; plans are called from files of plans, jobs and goal templates",
    )


def _unusable_schema_diagnostic(subject: CheckContext, step: Step, place: str) -> Diagnostic:
    for name in dispatched_tools(step.tool):
        if name in subject.allowed_tools and name in subject.tools:
            if name in subject.held_tools:
                message = f"step {step.id!r} leaves {name!r} to data, and the goal has rules for its calls"
                return make_diagnostic("E202", place, message, "call it as a step of its own")
            if not undispatchable(subject.tools[name]):
                continue
            message = f"step {step.id!r} leaves {name!r} to data, which no data may choose"
            return make_diagnostic("E202", place, message, "call it as a step of its own")
        return _unknown_tool_diagnostic(subject, step, name, place)
    if step.tool in subject.tools and step.tool in subject.allowed_tools:
        return make_diagnostic(
            "E201",
            place,
            f"tool {step.tool!r} cannot be called: its input schema is no JSON Schema",
            "fix the tool's signature; references inside a schema must stay inside it",
        )
    return _unknown_tool_diagnostic(subject, step, step.tool, place)


def _unknown_tool_diagnostic(
    subject: CheckContext, step: Step, name: str, place: str
) -> Diagnostic:
    if name in subject.tools:
        return make_diagnostic(
            "E202",
            place,
            f"step {step.id!r} calls {name!r}, which this goal does not allow",
            suggest_name(name, subject.allowed_tools, what="allowed tools"),
        )
    if subject.goal is not None and name in subject.goal.sub_plans:
        message = f"step {step.id!r} calls {name!r}, which is a sub-plan and no tool"
        return make_diagnostic("E201", place, message, f"write `plan: {name}` in place of `tool`")
    known = subject.allowed_tools & subject.tools.keys() or subject.tools.keys()
    near = did_you_mean(name, known) or did_you_mean(name, subject.tools)
    return make_diagnostic(
        "E201",
        place,
        f"step {step.id!r} calls {name!r}, and there is no such tool",
        near or list_names(known - {SUB_PLAN}, what="tools") or _NO_TOOLS_HINT,
    )


def _usable_schema(signature: ToolSignature) -> InputSchema | None:
    try:
        return prepared_input_schema(signature.input_schema)
    except InvalidSchemaError:
        return None


def _check_engine_params(subject: CheckContext, step: Step, pointer: str) -> Iterator[Diagnostic]:
    for name, value in subject.engine_params.get(step.tool, {}).items():
        if name in step.params and step.params[name] != value:
            yield make_diagnostic(
                "E206",
                f"{pointer}/params" + pointer_token(name),
                f"step {step.id!r} sets {name!r} of {step.tool!r}, which only the goal sets",
                "remove the argument; it is filled in when the plan is bound to its goal",
            )


def _argument_diagnostic(
    step: Step, schema: InputSchema, misfit: SchemaViolation, pointer: str
) -> Diagnostic:
    where = pointer_keys(misfit.pointer.removeprefix(f"{pointer}/params"))
    is_of_arguments = not where
    if is_of_arguments and misfit.keyword == "required" and misfit.name is not None:
        return make_diagnostic(
            "E204",
            misfit.pointer,
            f"step {step.id!r} lacks the argument {misfit.name!r} of {step.tool!r}",
            _parameter_hint(schema.schema, misfit.name),
            mend=Addition(misfit.name, _blank_value(schema, misfit.name), ("params",)),
        )
    if is_of_arguments and misfit.name is not None:
        near = did_you_mean(misfit.name, schema.properties)
        hints = (near, list_fields(schema.schema, what=f"parameters of {step.tool!r}"))
        return make_diagnostic(
            "E203",
            misfit.pointer + pointer_token(misfit.name),
            f"{step.tool!r} takes no argument {misfit.name!r}",
            " ".join(hint for hint in hints if hint) or f"{step.tool!r} takes no arguments",
            mend=Replacement(near.name) if isinstance(near, NameHint) else None,
        )
    if misfit.keyword == REFERENCE_KEYWORD:
        return make_diagnostic(
            "E304",
            misfit.pointer,
            f"argument {path_of_keys(where, step.params)!r} of {step.tool!r}: {misfit.message}",
            misfit.hint or _parameter_hint(schema.schema, where[0]),
            mend=Replacement(misfit.hint.name) if isinstance(misfit.hint, NameHint) else None,
        )
    what = f"argument {path_of_keys(where, step.params)!r}" if where else "the arguments"
    hint = _parameter_hint(schema.schema, where[0]) if where else None
    meant = _reference_meant(
        value_at(step.params, misfit.pointer.removeprefix(f"{pointer}/params"))
    )
    return make_diagnostic(
        "E205",
        misfit.pointer,
        f"{what} of {step.tool!r} {misfit.message}",
        hint if meant is None else f"did you mean {meant}?",
    )


TEMPLATE_REFERENCE: Final = re.compile(
    r"\{\{-?\s*((?:steps|inputs|item)\b[\w.\[\]\"']*)[^{}]*\}\}"
    r"|(?<![${])\{((?:steps|inputs)\.[\w.\[\]\"']+)\}"
    r"|(?<!\w)\$((?:steps|inputs)\.\w[\w.\[\]\"']*\b)"
)
"""A reference as template languages, with or without a filter, formats and shells write it."""
_BARE_REFERENCE: Final = re.compile(r"(?:\$\()?((?:steps|inputs)\.\w[\w.\[\]\"']*|item\b[\w.]*)\)?")
"""A text that is the name of a value."""


def _reference_meant(written: Json) -> str | None:
    """Return the reference that an author may have meant by a text that does not fit."""
    if not isinstance(written, str):
        return None
    found = TEMPLATE_REFERENCE.search(written) or _BARE_REFERENCE.fullmatch(written.strip())
    return None if found is None else f"${{{next(filter(None, found.groups()))}}}"


def _blank_value(schema: InputSchema, name: str) -> Json:
    """Return what an author can begin with for an argument: a choice, or a value of its type."""
    part = as_object(schema.properties.get(name))
    choices = as_list(part.get("enum"))
    blanks: JsonObject = {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    return choices[0] if choices else blanks.get(str(part.get("type")), "")


def _parameter_hint(schema: JsonSchema, name: str) -> str | None:
    """Return a parameter's type and what its tool says of it."""
    part = properties_of(schema).get(name)
    return describe_parameter(name, part) if isinstance(part, dict) else None
