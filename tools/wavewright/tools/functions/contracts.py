"""Read the contract of a Python function: its parameters, their descriptions and its result.

A *contract* is read once, when the function is registered, so a parameter without a type is an
error at start and not during a run. The function itself imports nothing of this project.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast
from weakref import WeakKeyDictionary

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaMode
from pydantic_core import PydanticUndefined, SchemaValidator

from wavewright.planner import Json, JsonObject, JsonSchema
from wavewright.tools.functions.errors import ResultRefused, ToolDefinitionError, ToolError
from wavewright.tools.functions.results import written_as_json
from wavewright.tools.functions.schemas import (
    SCHEMA_ERRORS,
    model_schema,
    portable_annotation,
    reader_of,
    schema_of,
)

RESERVED_PARAMETERS = frozenset({"agents", "config", "data", "emit", "now", "idempotency_key"})
"""Keyword-only parameters that the engine fills; they never show in a tool's input schema."""

UserFunction = Callable[..., Any]
"""Any function of the user's; what it takes and gives is read from its signature."""


@dataclass(frozen=True, slots=True)
class Contract:
    """A function's parameters and result, as schemas and as the code that converts them."""

    description: str
    input_schema: JsonSchema
    output_schema: JsonSchema
    reserved: frozenset[str]
    """Which of the reserved parameters this function takes."""
    arguments: SchemaValidator
    """Reads the parameters as a model."""
    fields: dict[str, str]
    """Parameter name by field name of that model."""
    passed: frozenset[str]
    """Fields of the model that the function has no default for, but perhaps their type."""
    result: TypeAdapter[object] | None
    place: str

    def bind(self, params: JsonObject) -> dict[str, object]:
        """Return the keyword arguments for these parameters, converted to the types that the
        function names.

        Raises:
            ToolError: a parameter is missing, unknown or of the wrong type.
        """
        try:
            bound: BaseModel = self.arguments.validate_python(params)
        except ValidationError as error:
            raise ToolError(f"the parameters do not fit: {_validation_messages(error)}") from error
        passed = bound.model_fields_set | self.passed
        return {self.fields[name]: getattr(bound, name) for name in passed}

    def to_json(self, result: object) -> Json:
        """Return a result as a JSON value: models, dataclasses and dates become what JSON has for
        them.

        Raises:
            ResultRefused: the result holds something that JSON has no form for.
        """
        try:
            return written_as_json(result, f"the result of {self.place}", self.result)
        except ToolError as error:
            raise ResultRefused(error.message, hint=error.hint) from error


_CONTRACTS: WeakKeyDictionary[UserFunction, dict[object, Contract]] = WeakKeyDictionary()


def read_contract(function: UserFunction, name: str) -> Contract:
    """Return the contract of a function, from its signature and docstring; it is read once per
    function and name.

    A method has one for all objects of a class: packs make their tools anew for each run.

    Raises:
        ToolDefinitionError: the function cannot be called with named JSON values.
    """
    code = getattr(function, "__func__", function)
    if not inspect.isfunction(code):
        return _read_contract(function, name)
    known = _CONTRACTS.setdefault(code, {})
    owner: object = getattr(function, "__self__", None)
    key = (name, type(owner))
    if key not in known:
        known[key] = _read_contract(function, name)
    return known[key]


def _read_contract(function: UserFunction, name: str) -> Contract:
    place = _source_location(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(
            f"tool {name!r}: {place} is a generator", hint="return a list with everything in it"
        )
    parameters, hints = _read_signature(function, name, place)
    docs = docstring_parser.parse(inspect.getdoc(unwrap_partial(function)) or "")
    meanings = {item.arg_name: item.description for item in docs.params if item.description}
    open_parameters = [item for item in parameters if not _is_reserved(item)]
    fields: dict[str, Any] = {}
    passed = set[str]()
    for position, parameter in enumerate(open_parameters):
        _check_parameter(parameter, hints, name, place)
        annotation, default = hints[parameter.name], parameter.default
        if isinstance(default, FieldInfo):
            # `n: int = Field(3, ge=1)` is `n: Annotated[int, Field(3, ge=1)]`.
            annotation, default = Annotated[annotation, default], inspect.Parameter.empty
        if default is inspect.Parameter.empty:
            default = PydanticUndefined
            passed.add(f"p{position}")
        described: dict[str, Any] = {"alias": parameter.name}
        if parameter.name in meanings:
            described["description"] = _one_paragraph(meanings[parameter.name])
        fields[f"p{position}"] = (annotation, Field(default, **described))
    try:
        arguments = create_model(
            f"{name}_arguments", __config__=ConfigDict(extra="forbid", defer_build=False), **fields
        )
        input_schema = model_schema(arguments)
    except SCHEMA_ERRORS:
        for parameter in open_parameters:
            owner = f"tool {name!r}: parameter {parameter.name!r} of {place} has the type"
            _schema_of_type(hints[parameter.name], "validation", owner, "take")
        raise
    input_schema.setdefault("properties", {})
    result: TypeAdapter[object] | None = None
    output_schema: JsonSchema = {}
    if "return" in hints:
        owner = f"tool {name!r}: {place} returns"
        result, output_schema = _schema_of_type(hints["return"], "serialization", owner, "return")
    return Contract(
        description=_tool_description(docs),
        input_schema=input_schema,
        output_schema=output_schema,
        reserved=frozenset(item.name for item in parameters if _is_reserved(item)),
        arguments=reader_of(arguments.__pydantic_core_schema__),
        fields={f"p{position}": item.name for position, item in enumerate(open_parameters)},
        passed=frozenset(passed),
        result=result,
        place=place,
    )


def _read_signature(
    function: UserFunction, name: str, place: str
) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    wrapped = unwrap_partial(function)
    if hasattr(wrapped, "registry") and hasattr(wrapped, "dispatch"):
        # Arguments are given by their names, and this chooses its code by the first position.
        raise ToolDefinitionError(
            f"tool {name!r}: {place} is of functools.singledispatch, which takes no named argument",
            hint="register a function that calls it",
        )
    is_annotated = inspect.isroutine(wrapped) or inspect.isclass(wrapped)
    try:
        # What a partial fixes is no parameter any more; Python would let a caller set it again.
        parameters = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.name not in _fixed_names(function)
        ]
        # An object that is called has its annotations at `__call__`.
        annotated = wrapped if is_annotated else type(wrapped).__call__
        hints = typing.get_type_hints(annotated, include_extras=True)
        hints = {part: portable_annotation(hint) for part, hint in hints.items()}
    except NameError as error:
        raise ToolDefinitionError(
            f"tool {name!r}: an annotation of {place} names {error.name!r}, which is not there at run time",
            hint="import it outside `if TYPE_CHECKING`",
        ) from error
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(
            f"tool {name!r}: the signature of {place} cannot be read: {error}",
            hint="register a function that is written in Python, or wrap it in one",
        ) from error
    return parameters, hints


def unwrap_partial(function: object) -> object:
    """Return what a partial wraps, or the function itself."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    return function


def _fixed_names(function: object) -> frozenset[str]:
    """Return the parameters that a partial gives by their names."""
    fixed = frozenset[str]()
    while isinstance(function, functools.partial):
        wrapping = cast("functools.partial[object]", function)
        fixed |= wrapping.keywords.keys()
        function = wrapping.func
    return fixed


def _is_reserved(parameter: inspect.Parameter) -> bool:
    return (
        parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.name in RESERVED_PARAMETERS
    )


def _check_parameter(
    parameter: inspect.Parameter, hints: dict[str, Any], name: str, place: str
) -> None:
    """Raise where a parameter cannot be given as a named JSON value."""
    where = f"tool {name!r}: parameter {parameter.name!r} of {place}"
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        raise ToolDefinitionError(
            f"tool {name!r}: {place} takes {stars}{parameter.name}, which has no schema",
            hint="name every parameter, or take one list or dict",
        )
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise ToolDefinitionError(
            f"{where} is positional-only", hint="remove the '/' from the signature"
        )
    if parameter.name not in hints:
        raise ToolDefinitionError(
            f"{where} has no type", hint=f"annotate it, for example `{parameter.name}: str`"
        )


def _schema_of_type(
    annotation: Any, mode: JsonSchemaMode, owner: str, verb: str
) -> tuple[TypeAdapter[object], JsonSchema]:
    """Return the adapter and the schema of a type; `owner` and `verb` are words for the error.

    Raises:
        ToolDefinitionError: it has none.
    """
    try:
        adapter: TypeAdapter[object] = TypeAdapter(annotation)
        return adapter, schema_of(adapter, mode=mode)
    except SCHEMA_ERRORS as error:
        shown = repr(annotation.__name__ if isinstance(annotation, type) else str(annotation))
        raise ToolDefinitionError(
            f"{owner} {shown}, which has no JSON form", hint=_schemable_hint(verb, error)
        ) from error


def _schemable_hint(verb: str, error: Exception) -> str:
    if isinstance(error, PydanticUserError) and error.code == "typed-dict-version":
        return "import TypedDict from typing_extensions: Python 3.11 needs it where another class holds a TypedDict"
    return f"{verb} text, numbers, lists, dicts, dates, dataclasses, TypedDicts or pydantic models"


def _tool_description(docs: docstring_parser.Docstring) -> str:
    summary, rest = docs.short_description, docs.long_description
    if rest is not None and not docs.blank_after_short_description:
        # The parser ends a summary with its line; one that runs on is one paragraph.
        more, _, rest = rest.partition("\n\n")
        summary = f"{summary} {more}"
    return "\n\n".join(part for part in (_one_paragraph(summary), rest) if part)


def _one_paragraph(text: str | None) -> str | None:
    return " ".join(text.split()) if text else None


def _source_location(function: UserFunction) -> str:
    """Return the function's name with file and line, as far as it has them."""
    wrapped = cast("UserFunction", unwrap_partial(function))
    shown = getattr(wrapped, "__qualname__", None) or type(wrapped).__qualname__
    code = getattr(inspect.unwrap(wrapped), "__code__", None)
    if code is None:
        return f"{shown}()"
    return f"{shown}() ({code.co_filename}:{code.co_firstlineno})"


def _validation_messages(error: ValidationError) -> str:
    shown = [
        f"{'.'.join(str(part) for part in fault['loc']) or 'the whole'}: {fault['msg'].lower()}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)[:3]
    ]
    return "; ".join(shown)
