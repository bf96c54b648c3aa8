"""What workers need from outside: models, prompts, ladders and settings.

*Services* are made once for a run. Without models they still describe every worker, so a plan can
be checked, listed and dry-run where no model is configured. Where a worker has no answer the step
fails with a `ToolError` that names the fix.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from wavewright.config import Settings, did_you_mean
from wavewright.planner import (
    NULL_REPLAY_CACHE,
    Asking,
    Goal,
    Json,
    JsonObject,
    Limits,
    ReplayCache,
    canonical_json,
)
from wavewright.planner.language.goals import AvailableTool, ThinkingLevel
from wavewright.prompts.templates import SUFFIX
from wavewright.tools.functions.errors import ToolDefinitionError, ToolError
from wavewright.tools.functions.tool import MODEL_HINT, Runtime, ServerCaller
from wavewright.tools.pack_folders import project_prompts

if TYPE_CHECKING:
    from wavewright.planner.ports.budgets import InspectableBudgetStore
    from wavewright.planner.ports.fallback_ladder import FallbackResult, Ladder
    from wavewright.planner.ports.model_port import ModelClient, ModelError
    from wavewright.prompts import Prompts
    from wavewright.tools.workers.specs import PromptedSpec


WORKER_LADDER = "worker"


@dataclass(frozen=True, slots=True)
class Services:
    """Whom workers ask, and within which bounds.

    >>> from pathlib import Path
    >>> from wavewright.config import load_settings
    >>> from wavewright.tools import make_services
    >>> make_services(load_settings(Path.cwd(), {})).has_model
    False
    """

    models: ModelClient | None
    """None where no model is configured, or where nothing is to be called."""
    prompts: Prompts
    ladder: Callable[[str], Ladder]
    """Returns a ladder by its name; raises `DocumentError` where the settings' ladders are faulty.
    """
    budget_store: InspectableBudgetStore | None = None
    """Keeps the budgets of models, and how long calls took, for adaptive timeouts; None without
    models to call.
    """
    has_model: bool = False
    """Whether a model is configured: decides what a worker's signature says of its effects."""
    worker_tokens: int = 50_000
    """What workers share out by their `token_share`."""
    max_output_tokens: int = 16_000
    """Ceiling of one answer."""
    preference: str = "auto"
    """The goal's model preference, for workers that have none of their own."""
    thinking: ThinkingLevel = "medium"
    """The goal's thinking level, likewise."""
    limits: Limits = field(default_factory=Limits)
    """The goal's limits, for the calls of agents."""
    goal_tools: Mapping[str, AvailableTool] = field(default_factory=dict[str, "AvailableTool"])
    """What the goal says of its tools."""
    memory: ReplayCache = NULL_REPLAY_CACHE
    """What the run was answered before it was interrupted."""

    mcp: ServerCaller | None = None
    """Calls tools of MCP servers; None where nothing is to be called."""
    runtime: Runtime | None = None
    """Makes the calls of runs; None where their own process does."""

    def for_goal(self, goal: Goal) -> Services:
        """Return the same services with what a goal says of models."""
        return replace(
            self,
            preference=goal.model_preference,
            thinking=goal.thinking_level,
            limits=goal.limits,
            goal_tools={tool.name: tool for tool in goal.tools},
        )

    def asking(self, ladder: str) -> Asking:
        """Return what questions down a ladder need; those who ask add who is told about them.

        Raises:
            DocumentError: the settings' ladders are faulty.
        """
        return Asking(
            models=self.models,
            prompts=self.prompts,
            ladder=self.ladder(ladder),
            history=self.budget_store,
        )

    def preference_of(self, spec: PromptedSpec) -> str:
        """Return the model preference of a worker or an agent, or else the goal's."""
        return self.preference if spec.model_preference == "auto" else spec.model_preference

    def thinking_of(self, spec: PromptedSpec) -> ThinkingLevel:
        """Return the thinking level of a worker or an agent, or else the goal's."""
        return spec.thinking_level or self.thinking

    def answer_tokens(self, share: float) -> int:
        """Return the ceiling of an answer that may take this share of the workers' tokens."""
        return max(1, min(round(share * self.worker_tokens), self.max_output_tokens))


def make_services(
    settings: Settings,
    models: ModelClient | None = None,
    budget_store: InspectableBudgetStore | None = None,
    memory: ReplayCache = NULL_REPLAY_CACHE,
) -> Services:
    """Return the services of a project; without models they only describe workers, and run those
    that need none.

    >>> from pathlib import Path
    >>> from wavewright.config import load_settings
    >>> from wavewright.tools import make_services
    >>> make_services(load_settings(Path.cwd(), {})).models is None
    True
    """

    @cache  # read when one is first asked for: listing tools does not wait for that
    def ladders() -> Mapping[str, Ladder]:
        from wavewright.planner.ports.fallback_ladder import read_ladders

        return read_ladders(settings.ladders, settings.document)

    def ladder(name: str) -> Ladder:
        return ladders()[name]

    return Services(
        models=models,
        prompts=project_prompts(settings.prompts),
        ladder=ladder,
        budget_store=budget_store,
        has_model=settings.model is not None,
        worker_tokens=settings.models.worker_tokens,
        max_output_tokens=settings.models.max_output_tokens,
        memory=memory,
    )


STRONGER_MODEL_HINT = "ask for less in one call, or set 'model_preference' to a stronger model"


def no_model_error(name: str) -> ToolError:
    """Return the error of a worker for which no rung gives an answer."""
    return ToolError(f"{name!r} needs a model, and none is configured", hint=MODEL_HINT)


def model_tool_error(error: ModelError, name: str, hint: str | None = None) -> ToolError:
    """Return a model's error as a tool's: what may pass stays passing, and the hint stays."""
    return ToolError(
        f"{name!r} has no answer from its model: {error}",
        transient=error.is_transient,
        hint=error.hint or _HINTS.get(error.kind, hint),
        retry_after=error.retry_after,
    )


def ladder_tool_error(
    result: FallbackResult[JsonObject],
    name: str,
    hint: str = STRONGER_MODEL_HINT,
) -> ToolError:
    """Return why no rung gave anything; the model's own error where there was one, `hint` where it
    names none.
    """
    error = result.error
    if error is not None:
        return model_tool_error(error, name, hint if error.kind in _TASK_ERROR_KINDS else None)
    if not result.records:
        return no_model_error(name)
    reasons = "; ".join(f"{record.rung}: {record.reason}" for record in result.records)
    return ToolError(f"{name!r} has no usable answer: {reasons}", hint=hint)


_TASK_ERROR_KINDS = frozenset({"bad_answer", "timeout"})
"""Kinds of errors behind which the work may stand, and not the provider alone."""
_HINTS = {
    "over_budget": "raise the budget under 'budgets', or the step's own",
    "over_context": "pass less, or lower 'max_input_chars' of the worker",
    "refused": "the model declined: change the text or the instructions, or ask another model",
    "denied": "check the model's key, and what it may be used for",
}


_INCLUDE_TAG = re.compile(r"""\{%-?\s*(?:include|extends|import|from)\s+["']([^"']+)["']""")


def declaration_version(user: str, said: Json, used: Sequence[str], prompts: Prompts) -> str:
    """Return a short hash of a declaration and of the prompts that it uses, with those that they
    include.

    `user` is what the prompts belong to, in the words of an error.

    Raises:
        ToolDefinitionError: there is no such prompt, or it cannot be read.
    """
    digest = hashlib.sha256(canonical_json(said))
    texts: dict[str, bytes] = {}
    for prompt in used:
        if prompts.file_of(prompt) is None:
            near = did_you_mean(prompt, prompts.names())
            looked = ", ".join(str(folder) for folder in prompts.folders)
            raise ToolDefinitionError(
                f"{user}: there is no prompt {prompt!r}",
                hint=near or f"write {prompt}{SUFFIX} in one of {looked}",
            )
        try:
            _add_texts(prompt, prompts, texts)
        except OSError as error:
            raise ToolDefinitionError(
                f"{user}: the prompt {prompt!r} cannot be read: {error.strerror}",
                hint=f"check {prompts.file_of(prompt)}",
            ) from error
    for text in texts.values():
        digest.update(b"\0" + text)
    return digest.hexdigest()[:12]


def _add_texts(prompt: str, prompts: Prompts, texts: dict[str, bytes]) -> None:
    """Add the text of a prompt and of all that it includes; what is not there is told when it is
    rendered.
    """
    file = prompts.file_of(prompt)
    if prompt in texts or file is None:
        return
    texts[prompt] = file.read_bytes()
    for included in _INCLUDE_TAG.findall(texts[prompt].decode(errors="replace")):
        _add_texts(included.removesuffix(SUFFIX), prompts, texts)
