"""`wavewright tools`: what plans can call here."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.project import project_settings
from wavewright.engine.toolbox import all_tools, gather_tools
from wavewright.planner.suggestions import type_name

if TYPE_CHECKING:
    from wavewright.planner.signatures import ToolSignature


def list_tools(job: Path | None, *, output_format: str) -> int:
    """Print each tool as `name(params) -> result`, or all signatures as JSON (which `check --tools` reads)."""
    settings = project_settings()
    if job is None:
        registry = all_tools(settings)
    else:
        from wavewright.engine.jobs import read_order

        registry = gather_tools(read_order(job, None, settings).goal, settings)
    signatures = [registry[name].signature for name in sorted(registry)]
    if output_format == "json":
        listed = [_as_json(signature) for signature in signatures]
        sys.stdout.write(json.dumps(listed, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(_entry(signature) for signature in signatures))
    return exit_codes.OK


def signature_line(signature: ToolSignature) -> str:
    """Return `name(param: type, optional?: type) -> {field: type}`."""
    schema = signature.input_schema
    properties, required = schema.get("properties"), schema.get("required")
    names = set(required) if isinstance(required, list) else set[object]()
    params = [
        f"{name}{'' if name in names else '?'}: {type_name(value)}"
        for name, value in (properties.items() if isinstance(properties, dict) else ())
    ]
    return f"{signature.name}({', '.join(params)}) -> {type_name(signature.output_schema)}"


def _entry(signature: ToolSignature) -> str:
    marks: list[str] = sorted(signature.effects - {"read"})
    marks += ["untrusted output"] if signature.untrusted_output else []
    marks += ["needs approval"] if signature.needs_approval else []
    first = signature.description.partition("\n")[0]
    return f"{signature_line(signature)}\n    {first}" + (f"  [{', '.join(marks)}]" if marks else "") + "\n"


def _as_json(signature: ToolSignature) -> Mapping[str, object]:
    return signature.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {
        "name": signature.name,
        "description": signature.description,
        "input_schema": signature.input_schema,
        "output_schema": signature.output_schema,
        "effects": sorted(signature.effects),
    }
