"""Tools whose outputs hold no known secret.

A *known secret* is one that the settings or the environment hold. A tool that gives one away, by mistake or because
somebody made it, gives `[redacted]` in its place: what a run has seen is journaled, sent and put before models.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from wavewright.config.redaction import Redactor, known_secrets
from wavewright.config.settings import Settings
from wavewright.planner.types import Json
from wavewright.tools.calls import Tool, ToolCall
from wavewright.tools.registry import Registry


def tools_with_redacted_outputs(tools: Mapping[str, Tool], settings: Settings) -> Registry:
    """Return the tools with outputs from which the secrets of settings and environment are taken."""
    known = known_secrets(settings, os.environ)
    redactor = _redactor(known)
    return Registry(_with_redacted_output(tool, redactor) if known else tool for tool in tools.values())


def known_secrets_redactor(settings: Settings) -> Redactor:
    """Return what takes the secrets of settings and environment out of texts."""
    return _redactor(known_secrets(settings, os.environ))


@lru_cache(maxsize=4)
def _redactor(known: tuple[str, ...]) -> Redactor:
    return Redactor(known)


def _with_redacted_output(tool: Tool, redactor: Redactor) -> Tool:
    async def call(request: ToolCall) -> Json:
        return _redact_value(await tool.call(request), redactor)

    return replace(tool, call=call)


def _redact_value(value: Json, redactor: Redactor) -> Json:
    match value:
        case str():
            return redactor.redact_known(value)
        case list():
            return [_redact_value(item, redactor) for item in value]
        case dict():
            return {
                _redact_key(name, redactor): _redact_value(item, redactor) for name, item in value.items()
            }
        case _:
            return value


def _redact_key(name: Any, redactor: Redactor) -> Any:
    # What is no text here is no JSON, which is the executor's to say.
    return redactor.redact_known(name) if isinstance(name, str) else name
