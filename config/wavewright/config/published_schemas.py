"""JSON Schemas for editors, generated from the models that read the documents.

The docstrings of a model's fields become descriptions, so that an editor shows the reference.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import cast, get_args

from pydantic import BaseModel, JsonValue, TypeAdapter

_EXAMPLE = re.compile(r"\n\n(The example goes on from .*\n\n)?>>> ")
_BREAK_IN_PARAGRAPH = re.compile(r"(?<!\n)\n(?![\n -])")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def published_schema(
    shape: object, name: str, title: str, *, version: int = 1
) -> dict[str, JsonValue]:
    """Return the JSON Schema of a model, or of any type made of models."""
    generated = TypeAdapter(cast("type[object]", shape)).json_schema(
        by_alias=True, mode="validation"
    )
    schema = cast("dict[str, JsonValue]", generated)
    models = {model.__name__: model for model in _models_in(shape, set())}
    definitions = schema.get("$defs", {})
    for model_name, definition in definitions.items() if isinstance(definitions, dict) else ():
        if isinstance(definition, dict) and model_name in models:
            _add_descriptions(definition, models[model_name])
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        _add_descriptions(schema, shape)
    remove_examples(schema)
    _simplify_schema(schema)
    return {
        "$schema": DIALECT,
        "$id": f"urn:wavewright:schema:{name}:{version}",
        **schema,
        "title": title,
    }


def remove_examples(node: JsonValue) -> None:
    """Remove the examples of docstrings from the descriptions of a schema: they are for those who
    read Python.
    """
    if isinstance(node, list):
        for inner in node:
            remove_examples(inner)
    if not isinstance(node, dict):
        return
    for inner in node.values():
        remove_examples(inner)
    if isinstance(description := node.get("description"), str):
        node["description"] = _EXAMPLE.split(description, maxsplit=1)[0]


def _add_descriptions(definition: dict[str, JsonValue], model: type[BaseModel]) -> None:
    """Add the docstrings of a model's fields as descriptions, and remove the generated titles."""
    properties = definition.get("properties")
    if not isinstance(properties, dict):
        return
    docs = field_docs(model)
    names = {field.alias or name: name for name, field in model.model_fields.items()}
    for key, field in properties.items():
        if not isinstance(field, dict):
            continue
        field.pop("title", None)
        doc = docs.get(names.get(key, key))
        if doc is not None:
            field["description"] = doc


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each field in the model's source, if the source is available."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base is not BaseModel and issubclass(base, BaseModel):
            docs.update(_own_field_docs(base))
    return docs


@cache
def _own_field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstrings of the fields that the class itself declares; finding its source parses
    its module.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    except (OSError, TypeError, SyntaxError):
        return {}
    return {
        field: doc
        for statement in tree.body
        if isinstance(statement, ast.ClassDef)
        for field, doc in _docs_of(statement)
    }


def _docs_of(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, doc in zip(definition.body, definition.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if (
            isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
            and isinstance(doc.value.value, str)
        ):
            yield field.target.id, inspect.cleandoc(doc.value.value)


def _models_in(annotation: object, seen: set[object]) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation in seen:
            return
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models_in(field.annotation, seen)
    for inner in get_args(annotation):
        yield from _models_in(cast("object", inner), seen)


def _simplify_schema(node: JsonValue) -> None:
    """Simplify a schema, and remove constraints that the model does not have.

    A list that is read into a set may repeat an item; a line break within a paragraph of a
    description is a space; `gt` is no keyword of JSON Schema; nested `anyOf` are flattened; an
    optional field needs no default of null.
    """
    if isinstance(node, list):
        for inner in node:
            _simplify_schema(inner)
    if not isinstance(node, dict):
        return
    for inner in node.values():
        _simplify_schema(inner)
    if isinstance(description := node.get("description"), str):
        node["description"] = _BREAK_IN_PARAGRAPH.sub(" ", description)
    if node.get("uniqueItems") is True and node.get("type") == "array":
        del node["uniqueItems"]
    if node.get("default", ...) is None and "anyOf" in node:
        del node["default"]
    alternatives = node.get("anyOf")
    if isinstance(alternatives, list):
        node.pop("gt", None)
        node["anyOf"] = [
            alternative for branch in alternatives for alternative in _alternatives(branch)
        ]


def _alternatives(branch: JsonValue) -> list[JsonValue]:
    if isinstance(branch, dict):
        inner = branch.get("anyOf")
        if isinstance(inner, list) and branch.keys() <= {"anyOf", "gt"}:
            return inner
    return [branch]
