"""The declaration of a named agent: in a file of the project, or in a pack.

A *named agent* is a model with a prompt, tools and limits of its own. A step gives it a task (`tool: agent`), a tool
calls it in its code, and another agent has it among its tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from wavewright.planner.language.goals import ThinkingLevel
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.schemas.references import InvalidSchemaError
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import ID_PATTERN, JsonSchema
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.workers.agent_limits import AgentLimits
from wavewright.tools.workers.services import Services
from wavewright.tools.workers.specs import PROMPT_PATTERN, read_spec_file, spec_files


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
