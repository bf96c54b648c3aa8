"""`wavewright schema`: print the JSON Schema of a document."""

from __future__ import annotations

import json
import sys

from wavewright.engine.cli import exit_codes


def print_schema(name: str) -> int:
    """Print the published JSON Schema of that name."""
    sys.stdout.write(json.dumps(_schema(name), indent=2, ensure_ascii=False) + "\n")
    return exit_codes.OK


def _schema(name: str) -> object:
    if name == "package":
        from wavewright.reviewer.packaging import package_schema

        return package_schema()
    if name == "settings":
        from wavewright.config.settings import settings_schema

        return settings_schema()
    if name == "worker":
        from wavewright.config.published import published_schema
        from wavewright.tools.workers.specs import WorkerSpec

        return published_schema(WorkerSpec, "worker", "A tool that is a language model, in config/workers")
    from wavewright.planner.schema import schema_of

    return schema_of(name)
