"""Agents that a tool calls: the injected parameter `agents`.

A tool declares which *named agents* it calls. Where no model is configured there are none, and the tool does its work
by code alone or says what it needs.
"""

from __future__ import annotations

from typing import Protocol

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.tool import ToolError


class Agents(Protocol):
    """Type of the injected parameter `agents`."""

    @property
    def is_available(self) -> bool:
        """Whether a model is configured."""
        ...

    async def run(self, name: str, values: JsonObject, scope: str = "") -> Json:
        """Return an agent's answer: what its output schema says, or words.

        Args:
            name: The agent, which the tool declares.
            values: What its prompt is rendered with, as `inputs`.
            scope: What the tools of the agent see as the scope of their run data.

        Raises:
            ToolError: there is no such agent, or it gives no answer.
        """
        ...


class NoAgents:
    """Agents of a call that has no model."""

    is_available = False

    async def run(self, name: str, values: JsonObject, scope: str = "") -> Json:
        """Refuse.

        Raises:
            ToolError: always.
        """
        del values, scope
        raise ToolError(
            f"the agent {name!r} needs a model, and none is configured",
            hint="set WAVEWRIGHT_MODEL, or 'model' in wavewright.yaml, to a model such as openai:gpt-5-mini",
        )
