"""Family E2: tools and their arguments.

A step calls a tool that exists and that the goal allows, with arguments that fit its input schema; references
are held to the same schema by what they give (`E304`). Arguments that the goal sets on terminal steps are the
engine's alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.planner.check_subject import CheckContext
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.faults import make_diagnostic
from wavewright.planner.fit_params import REFERENCE_KEYWORD, InputSchema, TypeOf, prepared_input_schema
from wavewright.planner.models import Step
from wavewright.planner.pointers import child_pointer, pointer_tokens
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.suggestions import (
    describe_parameter,
    did_you_mean,
    list_fields,
    list_names,
    suggest_name,
)
from wavewright.planner.types import Json, JsonSchema
from wavewright.planner.validators import InvalidSchemaError, SchemaViolation

_NO_TOOLS_HINT = (
    "there are no tools at all; name the modules that bring them under 'tools' in wavewright.yaml"
)


def check_tools(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what is wrong with the steps' tools and arguments."""
    schemas = _schemas(subject)
    for number, (step, texts) in enumerate(zip(subject.plan.steps, subject.texts, strict=True)):
        schema = schemas.get(step.tool)
        if schema is None:
            yield _unusable_schema_diagnostic(subject, step, f"/steps/{number}/tool")
            continue
        if step.tool in subject.engine_params:
            yield from _check_engine_params(subject, step, f"/steps/{number}")
        if texts or not schema.accepts(step.params):
            pointer = f"/steps/{number}"
            for misfit in schema.violations(step.params, f"{pointer}/params", _type_of(subject, step)):
                yield _argument_diagnostic(step, schema, misfit, pointer)


def _schemas(subject: CheckContext) -> dict[str, InputSchema]:
    """Return the input schemas of the tools that the plan calls and may call, each prepared once."""
    called = {step.tool for step in subject.plan.steps} & subject.allowed_tools & subject.tools.keys()
    prepared = ((name, _usable_schema(subject.tools[name])) for name in called)
    return {name: schema for name, schema in prepared if schema is not None}


def _unusable_schema_diagnostic(subject: CheckContext, step: Step, place: str) -> Diagnostic:
    if step.tool in subject.tools and step.tool in subject.allowed_tools:
        return make_diagnostic(
            "E201",
            place,
            f"tool {step.tool!r} cannot be called: its input schema is no JSON Schema",
            "mend the tool's signature; references inside a schema must stay inside it",
        )
    if step.tool in subject.tools:
        return make_diagnostic(
            "E202",
            place,
            f"step {step.id!r} calls {step.tool!r}, which this goal does not allow",
            suggest_name(step.tool, subject.allowed_tools, what="allowed tools"),
        )
    known = subject.allowed_tools & subject.tools.keys() or subject.tools.keys()
    near = did_you_mean(step.tool, known) or did_you_mean(step.tool, subject.tools)
    return make_diagnostic(
        "E201",
        place,
        f"step {step.id!r} calls {step.tool!r}, and there is no such tool",
        near or list_names(known, what="tools") or _NO_TOOLS_HINT,
    )


def _usable_schema(signature: ToolSignature) -> InputSchema | None:
    try:
        return prepared_input_schema(signature.input_schema)
    except InvalidSchemaError:
        return None


def _type_of(subject: CheckContext, step: Step) -> TypeOf:
    return lambda use: subject.types.result(use, step)


def _check_engine_params(subject: CheckContext, step: Step, pointer: str) -> Iterator[Diagnostic]:
    for name, value in subject.engine_params.get(step.tool, {}).items():
        if name in step.params and step.params[name] != value:
            yield make_diagnostic(
                "E206",
                child_pointer(f"{pointer}/params", name),
                f"step {step.id!r} sets {name!r} of {step.tool!r}, which only the goal sets",
                "remove the argument; it is filled in when the plan is bound to its goal",
            )


def _argument_diagnostic(
    step: Step, schema: InputSchema, misfit: SchemaViolation, pointer: str
) -> Diagnostic:
    top = misfit.pointer == f"{pointer}/params"
    where = pointer_tokens(misfit.pointer)[3:]
    if top and misfit.keyword == "required" and misfit.name is not None:
        return make_diagnostic(
            "E204",
            misfit.pointer,
            f"step {step.id!r} lacks the argument {misfit.name!r} of {step.tool!r}",
            _parameter_hint(schema.schema, misfit.name),
        )
    if top and misfit.name is not None:
        hints = (
            did_you_mean(misfit.name, schema.properties),
            list_fields(schema.schema, what=f"parameters of {step.tool!r}"),
        )
        return make_diagnostic(
            "E203",
            child_pointer(misfit.pointer, misfit.name),
            f"{step.tool!r} takes no argument {misfit.name!r}",
            " ".join(hint for hint in hints if hint) or f"{step.tool!r} takes no arguments",
        )
    if misfit.keyword == REFERENCE_KEYWORD:
        return make_diagnostic(
            "E304",
            misfit.pointer,
            f"argument {_argument_path(where)!r} of {step.tool!r}: {misfit.message}",
            misfit.hint or _parameter_hint(schema.schema, where[0]),
        )
    subject_name = (
        f"argument {_argument_path(where)!r} of {step.tool!r}" if where else f"the arguments of {step.tool!r}"
    )
    return make_diagnostic(
        "E205",
        misfit.pointer,
        f"{subject_name} {misfit.message}",
        _parameter_hint(schema.schema, where[0]) if where else None,
    )


def _argument_path(where: list[str]) -> str:
    """Return `filters[0].tag` for the keys that lead to a part of an argument."""
    return "".join(f"[{key}]" if key.isdecimal() else f".{key}" for key in where).removeprefix(".")


def _parameter_hint(schema: JsonSchema, name: str) -> str | None:
    """Return a parameter's type and what its tool says of it."""
    properties = schema.get("properties")
    part: Json = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(part, dict):
        return None
    return describe_parameter(name, part)
