"""`wavewright tools`: the tools that plans of this project can call."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.output import print_json
from wavewright.engine.project.tools import all_tools, tools_of_goal
from wavewright.planner.diagnostics.suggestions import type_name
from wavewright.planner.types import Json
from wavewright.tools.functions.schemas import properties

if TYPE_CHECKING:
    from wavewright.planner.language.signatures import ToolSignature

WIDTH = 80
"""Columns of the text."""


def list_tools(job: Path | None, *, output_format: str) -> int:
    """Print each tool as `name(params) -> result`, or all signatures as JSON (which `check --tools` reads)."""
    settings = project_settings(job)
    if job is None:
        registry = all_tools(settings)
    else:
        from wavewright.engine.jobs.resolving import resolve_job_file

        registry = tools_of_goal(resolve_job_file(job, None, settings).goal, settings)
    signatures = [registry[name].signature for name in sorted(registry)]
    if output_format == "json":
        print_json([tool_json(signature) for signature in signatures])
    else:
        sys.stdout.write("\n".join(_tool_lines(signature) for signature in signatures))
    return exit_codes.OK


def _params(signature: ToolSignature) -> list[str]:
    schema = signature.input_schema
    properties, required = schema.get("properties"), schema.get("required")
    names = set(required) if isinstance(required, list) else set[object]()
    return [
        f"{name}{'' if name in names else '?'}: {type_name(value)}"
        for name, value in (properties.items() if isinstance(properties, dict) else ())
    ]


def _result(schema: Json) -> str:
    """Return the type of a result: the fields of an object, or of the objects in a list, one level deep."""
    if not isinstance(schema, dict):
        return "any"
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, dict) and properties(items):
        return f"list of {_result(items)}"
    fields = properties(schema)
    if not fields:
        return type_name(schema)
    return f"{{{', '.join(f'{name}: {type_name(value)}' for name, value in fields.items())}}}"


def _tool_lines(signature: ToolSignature) -> str:
    marks: list[str] = sorted(signature.effects - {"read"})
    marks += ["untrusted output"] if signature.untrusted_output else []
    marks += ["needs approval"] if signature.needs_approval else []
    about = signature.description.partition("\n")[0] + (f"  [{', '.join(marks)}]" if marks else "")
    lines = textwrap.wrap(about, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join([*_wrapped_call(signature), *lines]) + "\n"


def _wrapped_call(signature: ToolSignature) -> list[str]:
    """Return `name(param: type, optional?: type) -> {field: type}`, wrapped if it is longer than a line."""
    call = f"{signature.name}({', '.join(_params(signature))})"
    result = f"-> {_result(signature.output_schema)}"
    if len(call) + 1 + len(result) <= WIDTH:
        return [f"{call} {result}"]
    return [
        *textwrap.wrap(call, WIDTH, subsequent_indent=" " * 8, break_long_words=False),
        *textwrap.wrap(
            result, WIDTH, initial_indent="    ", subsequent_indent=" " * 8, break_long_words=False
        ),
    ]


def tool_json(signature: ToolSignature) -> Mapping[str, object]:
    """Return a signature as JSON, without the fields that have their default."""
    return signature.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {
        "name": signature.name,
        "description": signature.description,
        "input_schema": signature.input_schema,
        "output_schema": signature.output_schema,
        "effects": sorted(signature.effects),
    }
