"""The OpenAPI document of a JSON API, made from the types of its operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from wavewright.engine.pipeline.version import __version__
from wavewright.engine.view.api_operations import BODY, QUERY, REFUSALS, Operation, Problem
from wavewright.planner.types import JsonObject

_COMPONENTS: Final = "#/components/schemas/"


def openapi_document(title: str, operations: Sequence[Operation]) -> JsonObject:
    """Return the document, in OpenAPI 3.1; each operation needs a bearer token."""
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        ("problem", "serialization", TypeAdapter(Problem))
    ]
    for operation in operations:
        for part, shape in operation.types.items():
            mode: JsonSchemaMode = "serialization" if part == "return" else "validation"
            inputs.append((f"{operation.name} {part}", mode, TypeAdapter(shape)))
    # The answer has a schema for each input, under its name and mode, and the shared ones in `$defs`.
    found, shared = TypeAdapter.json_schemas(inputs, ref_template=_COMPONENTS + "{model}")
    schemas = cast("dict[str, JsonObject]", {name: schema for (name, _), schema in found.items()})
    components = cast("dict[str, JsonObject]", shared.get("$defs", {}))
    paths: dict[str, JsonObject] = {}
    for operation in operations:
        described = _described(operation, schemas, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    for operation in operations:
        # The fields of a query are parameters, and its model is referred to by nothing.
        if QUERY in operation.types:
            components.pop(operation.types[QUERY].__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "paths": {**paths},
        "components": {
            "schemas": {**components},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(
    operation: Operation, schemas: dict[str, JsonObject], components: dict[str, JsonObject]
) -> JsonObject:
    def schema(part: str) -> JsonObject:
        return schemas[f"{operation.name} {part}"]

    parameters = [_parameter(name, "path", schema(name), required=True) for name in operation.path_names]
    if QUERY in operation.types:
        model = components[str(schema(QUERY)["$ref"]).removeprefix(_COMPONENTS)]
        fields = cast("dict[str, JsonObject]", model["properties"])
        required = cast("list[str]", model.get("required", []))
        parameters += [
            _parameter(name, "query", field, required=name in required) for name, field in fields.items()
        ]
    refusals: JsonObject = {
        str(code): {"description": why, "content": _json(schemas["problem"])}
        for code, why in REFUSALS.items()
    }
    body: JsonObject = (
        {"requestBody": {"required": True, "content": _json(schema(BODY))}} if BODY in operation.types else {}
    )
    answer: JsonObject = {"description": operation.summary, "content": _json(schema("return"))}
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*parameters],
        **body,
        "responses": {"200": answer, **refusals},
    }


def _parameter(name: str, place: str, schema: JsonObject, *, required: bool) -> JsonObject:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _json(schema: JsonObject) -> JsonObject:
    return {"application/json": {"schema": schema}}
