"""Family E2: tools and their arguments.

A step calls a tool that exists and that the goal allows, with arguments that fit its input schema; references
are held to the same schema by what they give (`E304`). Arguments that the goal sets on terminal steps are the
engine's alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.planner.check_subject import Subject
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.faults import fault
from wavewright.planner.fit_params import REFERENCE, InputSchema, TypeOf, input_schema
from wavewright.planner.models import Step
from wavewright.planner.pointers import child, tokens
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.suggestions import choice, did_you_mean, fields_listing, listing, parameter_text
from wavewright.planner.types import Json, JsonSchema
from wavewright.planner.validators import BadSchemaError, Misfit

_NO_TOOLS = "there are no tools at all; name the modules that bring them under 'tools' in wavewright.yaml"


def check_tools(subject: Subject) -> Iterator[Diagnostic]:
    """Yield what is wrong with the steps' tools and arguments."""
    schemas = _schemas(subject)
    for number, (step, texts) in enumerate(zip(subject.plan.steps, subject.texts, strict=True)):
        schema = schemas.get(step.tool)
        if schema is None:
            yield _unusable(subject, step, f"/steps/{number}/tool")
            continue
        if step.tool in subject.engine_params:
            yield from _reserved(subject, step, f"/steps/{number}")
        if texts or not schema.accepts(step.params):
            pointer = f"/steps/{number}"
            for misfit in schema.misfits(step.params, f"{pointer}/params", _type_of(subject, step)):
                yield _argument_fault(step, schema, misfit, pointer)


def _schemas(subject: Subject) -> dict[str, InputSchema]:
    """Return the input schemas of the tools that the plan calls and may call, each prepared once."""
    called = {step.tool for step in subject.plan.steps} & subject.allowed & subject.tools.keys()
    prepared = ((name, _prepared(subject.tools[name])) for name in called)
    return {name: schema for name, schema in prepared if schema is not None}


def _unusable(subject: Subject, step: Step, place: str) -> Diagnostic:
    if step.tool in subject.tools and step.tool in subject.allowed:
        return fault(
            "E201",
            place,
            f"tool {step.tool!r} cannot be called: its input schema is no JSON Schema",
            "mend the tool's signature; references inside a schema must stay inside it",
        )
    if step.tool in subject.tools:
        return fault(
            "E202",
            place,
            f"step {step.id!r} calls {step.tool!r}, which this goal does not allow",
            choice(step.tool, subject.allowed, what="allowed tools"),
        )
    known = subject.allowed & subject.tools.keys() or subject.tools.keys()
    near = did_you_mean(step.tool, known) or did_you_mean(step.tool, subject.tools)
    return fault(
        "E201",
        place,
        f"step {step.id!r} calls {step.tool!r}, and there is no such tool",
        near or listing(known, what="tools") or _NO_TOOLS,
    )


def _prepared(signature: ToolSignature) -> InputSchema | None:
    try:
        return input_schema(signature.input_schema)
    except BadSchemaError:
        return None


def _type_of(subject: Subject, step: Step) -> TypeOf:
    return lambda use: subject.types.result(use, step)


def _reserved(subject: Subject, step: Step, pointer: str) -> Iterator[Diagnostic]:
    for name, value in subject.engine_params.get(step.tool, {}).items():
        if name in step.params and step.params[name] != value:
            yield fault(
                "E206",
                child(f"{pointer}/params", name),
                f"step {step.id!r} sets {name!r} of {step.tool!r}, which only the goal sets",
                "remove the argument; it is filled in when the plan is bound to its goal",
            )


def _argument_fault(step: Step, schema: InputSchema, misfit: Misfit, pointer: str) -> Diagnostic:
    top = misfit.pointer == f"{pointer}/params"
    where = tokens(misfit.pointer)[3:]
    if top and misfit.keyword == "required" and misfit.name is not None:
        return fault(
            "E204",
            misfit.pointer,
            f"step {step.id!r} lacks the argument {misfit.name!r} of {step.tool!r}",
            _parameter_hint(schema.schema, misfit.name),
        )
    if top and misfit.name is not None:
        hints = (
            did_you_mean(misfit.name, schema.properties),
            fields_listing(schema.schema, what=f"parameters of {step.tool!r}"),
        )
        return fault(
            "E203",
            child(misfit.pointer, misfit.name),
            f"{step.tool!r} takes no argument {misfit.name!r}",
            " ".join(hint for hint in hints if hint) or f"{step.tool!r} takes no arguments",
        )
    if misfit.keyword == REFERENCE:
        return fault(
            "E304",
            misfit.pointer,
            f"argument {_path(where)!r} of {step.tool!r}: {misfit.message}",
            misfit.hint or _parameter_hint(schema.schema, where[0]),
        )
    subject_name = (
        f"argument {_path(where)!r} of {step.tool!r}" if where else f"the arguments of {step.tool!r}"
    )
    return fault(
        "E205",
        misfit.pointer,
        f"{subject_name} {misfit.message}",
        _parameter_hint(schema.schema, where[0]) if where else None,
    )


def _path(where: list[str]) -> str:
    """Return `filters[0].tag` for the keys that lead to a part of an argument."""
    return "".join(f"[{key}]" if key.isdecimal() else f".{key}" for key in where).removeprefix(".")


def _parameter_hint(schema: JsonSchema, name: str) -> str | None:
    """Return a parameter's type and what its tool says of it."""
    properties = schema.get("properties")
    part: Json = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(part, dict):
        return None
    return parameter_text(name, part)
