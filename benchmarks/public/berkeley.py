"""The Berkeley function-calling set (`bfcl-eval`): each task with its published calls as a plan.

A task has functions, a question and calls with the values that are right. The first right value of
each argument is taken, and an argument that may be left out is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.public.cases import Case, fields_of, items_of, tool_name
from wavewright.planner.language.signatures import ToolSignature

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}
_SCHEMA_WORDS = ("description", "enum", "minimum", "maximum")


def read_cases(folder: Path, category: str) -> Iterator[Case]:
    """Yield the tasks of a category; `folder` is the `data` of the package."""
    tasks = _lines(folder / f"BFCL_v4_{category}.json")
    answers = {
        one["id"]: one["ground_truth"]
        for one in _lines(folder / "possible_answer" / f"BFCL_v4_{category}.json")
    }
    for task in tasks:
        yield case_of(task, answers[task["id"]])


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def case_of(task: Mapping[str, Any], answer: list[dict[str, Any]]) -> Case:
    """Return a task as a plan of its right calls."""
    schemas = {one["name"]: one for one in task["function"]}
    names = {name: tool_name(name) for name in schemas}
    tools = {
        names[name]: ToolSignature(
            name=names[name],
            description=one.get("description", ""),
            input_schema={**_schema(one["parameters"]), "additionalProperties": False},
        )
        for name, one in schemas.items()
    }
    steps = list[dict[str, Any]]()
    for number, call in enumerate(answer):
        ((name, arguments),) = call.items()
        parameters = schemas[name]["parameters"]
        params = _arguments(arguments, parameters)
        steps.append({"id": f"call_{number}", "tool": names[name], "params": params})
    return Case(task["id"], {"version": 1, "steps": steps}, tools)


def _schema(given: Any) -> dict[str, Any]:
    """Return a published type of an argument as JSON Schema."""
    made: dict[str, Any] = {key: given[key] for key in _SCHEMA_WORDS if key in given}
    kind = given.get("type")
    kind = _TYPES.get(kind, kind)
    if kind is not None:
        made["type"] = kind
    if isinstance(given.get("properties"), dict):
        made["properties"] = {name: _schema(one) for name, one in given["properties"].items()}
        made["required"] = [*given.get("required", ())]
    if isinstance(given.get("items"), dict):
        made["items"] = _schema(given["items"])
    return made


def _arguments(given: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    """Return the first right value of each argument, without those that may be left out."""
    properties, required = schema.get("properties", {}), schema.get("required", ())
    made = dict[str, Any]()
    for name, right in given.items():
        values = [right] if (several := items_of(right)) is None else several
        if "" in values and name not in required:
            continue
        first = values[0] if values else values
        made[name] = _value(first, properties.get(name, {}))
    return made


def _value(value: Any, schema: Any) -> Any:
    fields, items = fields_of(value), items_of(value)
    if fields is not None and schema.get("properties"):
        return _arguments(fields, schema)
    if fields is not None:
        return {name: (items_of(one) or [one])[0] for name, one in fields.items()}
    if items is not None:
        return [_value(one, schema.get("items") or {}) for one in items]
    return value.replace("${", "$${") if isinstance(value, str) else value
