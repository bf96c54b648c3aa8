"""The declaration of a named agent: in a file of the project, or in a pack.

A *named agent* is a model with a prompt, tools and limits of its own. A step gives it a task (`tool: agent`), a tool
calls it in its code, and another agent has it among its tools. A goal limits its agents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import anyio
from pydantic import Field, field_validator

from wavewright.config.value_types import Seconds
from wavewright.planner.language.goals import ThinkingLevel
from wavewright.planner.language.plan import DocumentModel, Limits
from wavewright.planner.language.signatures import AGENT, ToolSignature
from wavewright.planner.schemas.validation import InvalidSchemaError, validator_of
from wavewright.planner.types import ID_PATTERN, JsonSchema
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.workers.services import Services
from wavewright.tools.workers.specs import PROMPT_PATTERN, read_spec_file, spec_files


class AgentLimits(DocumentModel):
    """What a goal may say of its agent, in the tool's `config`."""

    requests: Annotated[int, Field(ge=1, le=200)] = 10
    """Questions to the model."""
    tool_calls: Annotated[int, Field(ge=0, le=1000)] = 30
    """Calls of tools in all."""
    seconds: Seconds = 300.0
    """For the whole step, its tools included."""
    view_chars: Annotated[int, Field(ge=200, le=200_000)] = 4000
    """Characters of a tool's output that the model is shown."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Ceiling of one answer's tokens; the configured one where absent."""
    keep_partial: bool = False
    """Whether a loop that ends without an answer gives what it collected, as a forced result."""


class AgentConcurrency:
    """Lets no more calls run at once than the goal's limits and the tools' own allow: over all items of the run."""

    def __init__(self, limits: Limits) -> None:
        self._ceilings = limits.tool_concurrency
        self.total = anyio.CapacityLimiter(limits.concurrency)
        """What every call waits for, whatever its tool."""
        self._by_tool: dict[str, anyio.CapacityLimiter] = {}

    def tool_limiter(self, signature: ToolSignature) -> anyio.CapacityLimiter:
        """Return what the calls of one tool wait for."""
        most = min(signature.concurrency or math.inf, self._ceilings.get(signature.name, math.inf))
        return self._by_tool.setdefault(signature.name, anyio.CapacityLimiter(most))


class AgentSpec(DocumentModel):
    """An agent as data: the file format of `config/agents/*.yaml`."""

    version: Literal[1] = 1
    """Version of this format."""
    name: Annotated[str, Field(pattern=ID_PATTERN)]
    """Name that steps, tools and other agents call it by."""
    description: Annotated[str, Field(min_length=1)]
    """What it does, for planners and other agents: one or two sentences."""
    prompt: Annotated[str, Field(pattern=PROMPT_PATTERN)]
    """Name of its prompt, such as `agents/find_dates` for `prompts/agents/find_dates.md.j2`."""
    tools: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Tools, workers and other agents that it may call; only such as read and need no approval."""
    output_schema: JsonSchema | None = None
    """JSON Schema of its answer, with `type: object`; words where absent."""
    model_preference: str = "auto"
    """Which model is asked; the goal's preference where it is `auto`."""
    thinking_level: ThinkingLevel | None = None
    """How much thought the model should spend; the goal's level where absent."""
    token_share: Annotated[float, Field(gt=0, le=1, strict=False)] | None = None
    """Share of `models.worker_tokens` that one answer may take."""
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    """Ceiling of one answer's tokens; `models.max_output_tokens` where neither this nor a share is given."""
    limits: AgentLimits = AgentLimits()
    """Ends of its loop."""
    retries: Annotated[int, Field(ge=0, le=5)] = 2
    """How often it is told what is wrong with its answer and asked again."""

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name == AGENT:
            msg = f"{AGENT!r} is the tool that runs agents: choose another name"
            raise ValueError(msg)
        return name

    @field_validator("output_schema")
    @classmethod
    def _is_of_an_object(cls, schema: JsonSchema | None) -> JsonSchema | None:
        if schema is None:
            return None
        try:
            validator_of(schema)
        except InvalidSchemaError as error:
            msg = f"is no JSON Schema: {error}"
            raise ValueError(msg) from error
        if schema.get("type") != "object":
            msg = "must say `type: object`: put a list or a number into a field of an object"
            raise ValueError(msg)
        return schema

    def answer_tokens(self, services: Services) -> int | None:
        """Return the ceiling of one answer; None where the agent sets none."""
        share = None if self.token_share is None else max(1, round(self.token_share * services.worker_tokens))
        given = [one for one in (share, self.max_output_tokens, self.limits.max_tokens) if one is not None]
        return min(given, default=None)


def load_agents(places: Sequence[Path]) -> dict[Path, AgentSpec]:
    """Return the agents of files, and of the files in folders, by file; a folder that is not there holds none.

    Raises:
        ToolDefinitionError: a file is missing or faulty, or two have one name; names the file and the line.
    """
    found: dict[str, tuple[AgentSpec, Path]] = {}
    for file in spec_files(places):
        spec = read_spec_file(file, AgentSpec, "agent")
        if spec.name in found:
            raise ToolDefinitionError(
                f"{file}: agent {spec.name!r} is declared twice",
                hint=f"the other one is in {found[spec.name][1]}",
            )
        found[spec.name] = (spec, file)
    return {file: spec for spec, file in found.values()}
