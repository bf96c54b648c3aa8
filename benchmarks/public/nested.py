"""NESTFUL and ComplexFuncBench (`nestful-wrapper`): sequences of calls that read each other.

A published call refers to an earlier one by `$var1.field$`. Where the responses were recorded, the
plan is run on them, and its calls have to have exactly the arguments that the sequence gives.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.public.cases import Case, fields_of, items_of, tool_name
from wavewright.executor import Execution, execute
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS, Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import JsonSchema, RunId
from wavewright.tools.functions.tool import Tool, ToolCall

SETS = {
    "NESTFUL executable": ("executable/executable-spec.json", "executable/executable-data.json"),
    "NESTFUL sgd": (
        "non-executable/non-executable-sgd-spec.json",
        "non-executable/non-executable-sgd-data.json",
    ),
    "NESTFUL glaive": (
        "non-executable/non-executable-glaive-spec.json",
        "non-executable/non-executable-glaive-data.json",
    ),
    "ComplexFuncBench": (
        "complexfuncbench/complexfuncbench-spec.json",
        "complexfuncbench/complexfuncbench-data.json",
    ),
}
"""The files of each set, under `data_v1` of the package."""
RECORDED = "ComplexFuncBench"
"""The set whose responses were recorded."""
_REFERENCE = re.compile(r"\$(var_?\d+)((?:\.[^$.\[\]]+|\[\d+\])*)\$")
_PART = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_RESULT = "var_result"
_JSON_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}


def read_set(folder: Path, name: str) -> tuple[dict[str, ToolSignature], list[Any]]:
    """Return the tools and the sequences of a set."""
    spec, data = (json.loads((folder / file).read_text("utf-8")) for file in SETS[name])
    return {tool_name(one["name"]): signature_of(one) for one in spec}, data


def signature_of(spec: Mapping[str, Any]) -> ToolSignature:
    """Return a published description of a function as a signature."""
    given = spec["query_parameters"]
    return ToolSignature(
        name=tool_name(spec["name"]),
        description=spec.get("description") or "",
        input_schema={
            "type": "object",
            "properties": {name: _schema(one) for name, one in given.items()},
            "required": [name for name, one in given.items() if one.get("required")],
            "additionalProperties": False,
        },
        output_schema=_fields(spec.get("output_parameters") or {}),
    )


def _fields(given: Mapping[str, Any]) -> JsonSchema:
    """Return the schema of an output: a recorded one need not have all fields that are described."""
    if not given:
        return {}
    return {
        "type": "object",
        "properties": {name: _schema(one) for name, one in given.items()},
        "additionalProperties": False,
    }


def _schema(described: Any) -> JsonSchema:
    made: JsonSchema = {}
    given = fields_of(described)
    if given is None:  # some descriptions hold a bare word
        return made
    kind = given.get("type")
    kinds = [kind] if (several := items_of(kind)) is None else several
    if all(isinstance(one, str) and one in _JSON_TYPES for one in kinds):
        made["type"] = kind
    choices = given.get("enum") or given.get("allowed_values")
    if choices:
        made["enum"] = [*choices]
    if properties := fields_of(given.get("properties")):
        made |= {"type": "object", "properties": _properties(properties)}
    if items := fields_of(given.get("items")):
        made["items"] = _schema(items)
    return made


def _properties(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _schema(one) for name, one in given.items()}


def case_of(number: int, sequence: Mapping[str, Any], tools: Mapping[str, ToolSignature]) -> Case:
    """Return a published sequence as a plan."""
    steps = list[dict[str, Any]]()
    result: Any = None
    for call in sequence["output"]:
        arguments = {name: as_expression(value) for name, value in call["arguments"].items()}
        if call["name"] == _RESULT:
            result = arguments
        else:
            steps.append(
                {"id": call["label"], "tool": tool_name(call["name"]), "params": arguments}
            )
    plan = {"version": 1, "steps": steps} | ({} if result is None else {"result": result})
    return Case(f"{number}", plan, tools)


def as_expression(value: Any) -> Any:
    """Return a value whose references are those of the plan language."""
    fields, items = fields_of(value), items_of(value)
    if fields is not None:
        return {name: as_expression(one) for name, one in fields.items()}
    if items is not None:
        return [as_expression(one) for one in items]
    if not isinstance(value, str):
        return value
    return _REFERENCE.sub(lambda read: f"${{steps.{read[1]}{_path(read[2])}}}", value)


def _path(written: str) -> str:
    parts = _PART.findall(written)
    return "".join(
        f"[{number}]" if number else f".{name}" if name.isidentifier() else f"[{json.dumps(name)}]"
        for name, number in parts
    )


def recorded_output(response: Any) -> Any:
    """Return what a reference to a recorded response reads, as the package's own reader has it."""
    fields = fields_of(response)
    data = response if fields is None else fields.get("data", fields)
    items = items_of(data)
    if items is not None:
        return items[0] if items else {}
    return data


async def runs_as_published(
    sequence: Mapping[str, Any], tools: Mapping[str, ToolSignature], case: Case
) -> bool:
    """Whether the plan, run on the recorded responses, makes the published calls with exactly their
    arguments.
    """
    outputs = {one["label"]: recorded_output(one["response"]) for one in sequence["output"]}
    made = dict[str, Any]()

    async def answer(call: ToolCall) -> Any:
        made[call.step] = dict(call.params)
        return outputs[call.step]

    called = {step["tool"] for step in case.plan["steps"]}
    open_tools = {
        name: Tool(tools[name].model_copy(update={"output_schema": {}}), answer) for name in called
    }
    await execute(
        Execution(
            Plan.model_validate(case.plan),
            open_tools,
            run=RunId("published"),
            now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            limits=LIMITS_OF_OWN_PLANS,
        )
    )
    wanted = {one["label"]: _resolved(one["arguments"], outputs) for one in sequence["output"]}
    return made == wanted


def _resolved(value: Any, outputs: Mapping[str, Any]) -> Any:
    """Return a value with what its references read, found by Python alone."""
    fields, items = fields_of(value), items_of(value)
    if fields is not None:
        return {name: _resolved(one, outputs) for name, one in fields.items()}
    if items is not None:
        return [_resolved(one, outputs) for one in items]
    whole = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if whole is None:
        return value
    found = outputs[whole[1]]
    for name, number in _PART.findall(whole[2]):
        found = found[int(number)] if number else found[name]
    return found


def read_cases(sequences: Sequence[Any], tools: Mapping[str, ToolSignature]) -> Iterator[Case]:
    """Yield the sequences of a set as plans."""
    return (case_of(number, one, tools) for number, one in enumerate(sequences))
