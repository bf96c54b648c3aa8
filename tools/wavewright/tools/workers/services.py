"""What workers need from outside: models, prompts, ladders and settings.

*Services* are made once for a run. Without models they still describe every worker, so a plan can be checked, listed
and dry-run where no model is configured. Where a worker has no answer the step fails with a `ToolError` that names
the fix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wavewright.config.settings import Settings
from wavewright.planner.language.goals import AvailableTool, Goal, ThinkingLevel
from wavewright.planner.language.plan import Limits
from wavewright.planner.ports.replay_cache import NULL_REPLAY_CACHE, ReplayCache
from wavewright.prompts import Prompts
from wavewright.tools.functions.tool import ToolError

if TYPE_CHECKING:
    from wavewright.planner.ports.budgets import InspectableBudgetStore
    from wavewright.planner.ports.fallback_ladder import Ladder, RungRecord
    from wavewright.planner.ports.model_port import ModelClient, ModelError
    from wavewright.tools.functions.tool import Runtime, ServerCaller


WORKER_LADDER = "worker"
MODEL_HINT = "set WAVEWRIGHT_MODEL, or 'model' in wavewright.yaml, to a model such as openai:gpt-5-mini"


@dataclass(frozen=True, slots=True)
class Services:
    """Whom workers ask, and within which bounds."""

    models: ModelClient | None
    """None where no model is configured, or where nothing is to be called."""
    prompts: Prompts
    ladders: Mapping[str, Ladder]
    budget_store: InspectableBudgetStore | None = None
    """Keeps the budgets of models, and how long calls took, for adaptive timeouts; None without models to call."""
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

    def answer_tokens(self, share: float) -> int:
        """Return the ceiling of an answer that may take this share of the workers' tokens."""
        return max(1, min(round(share * self.worker_tokens), self.max_output_tokens))

    def ladder(self, name: str) -> Ladder:
        """Return a ladder by its name.

        Raises:
            DocumentError: the settings' ladders are faulty.
        """
        return self.ladders[name]


def make_services(
    settings: Settings,
    models: ModelClient | None = None,
    budget_store: InspectableBudgetStore | None = None,
    memory: ReplayCache = NULL_REPLAY_CACHE,
) -> Services:
    """Return the services of a project; without models they only describe workers, and run those that need none."""
    return Services(
        models=models,
        prompts=Prompts(settings.prompts),
        ladders=_LazyLadders(settings),
        budget_store=budget_store,
        has_model=settings.model is not None,
        worker_tokens=settings.models.worker_tokens,
        max_output_tokens=settings.models.max_output_tokens,
        memory=memory,
    )


@dataclass(frozen=True, slots=True)
class _LazyLadders(Mapping[str, "Ladder"]):
    """Ladders that are read when one is first asked for: listing tools does not wait for that."""

    settings: Settings
    _loaded: dict[str, Ladder] = field(default_factory=dict[str, "Ladder"])

    def __getitem__(self, name: str) -> Ladder:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> Mapping[str, Ladder]:
        if not self._loaded:
            from wavewright.planner.ports.fallback_ladder import read_ladders

            self._loaded.update(read_ladders(self.settings.ladders, self.settings.document))
        return self._loaded


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
    records: Sequence[RungRecord], name: str, error: ModelError | None, hint: str = STRONGER_MODEL_HINT
) -> ToolError:
    """Return why no rung gave anything; the model's own error where there was one, `hint` where it names none."""
    if error is not None:
        return model_tool_error(error, name, hint if error.kind in _TASK_ERROR_KINDS else None)
    if not records:
        return no_model_error(name)
    reasons = "; ".join(f"{record.rung}: {record.reason}" for record in records)
    return ToolError(f"{name!r} has no usable answer: {reasons}", hint=hint)


_TASK_ERROR_KINDS = frozenset({"bad_answer", "timeout"})
"""Kinds of errors behind which the work may stand, and not the provider alone."""
_HINTS = {
    "over_budget": "raise the budget under 'budgets', or the step's own",
    "over_context": "pass less, or lower 'max_input_chars' of the worker",
    "refused": "the model declined: change the text or the instructions, or ask another model",
    "denied": "check the model's key, and what it may be used for",
}
