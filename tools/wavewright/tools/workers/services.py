"""What workers need from outside: models, prompts, ladders and figures of the settings.

*Services* are made once for a run. Without models they still describe every worker, so that a plan can be checked,
listed and dry-run where no model is configured and nothing heavy is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from wavewright.config.settings import Settings
from wavewright.planner.goals import Goal, ThinkingLevel
from wavewright.planner.ladder import Ladder
from wavewright.planner.memory import NULL_REPLAY_CACHE, ReplayCache
from wavewright.planner.model_port import ModelClient
from wavewright.planner.spending import CallHistory
from wavewright.prompts import Prompts

AGENT = "agent"
"""Name of the tool whose way a model finds by itself."""
WORKER_LADDER = "worker"
MODEL_HINT = "set WAVEWRIGHT_MODEL, or 'model' in wavewright.yaml, to a model such as openai:gpt-5-mini"


@dataclass(frozen=True, slots=True)
class Services:
    """Whom workers ask, and within which bounds."""

    models: ModelClient | None
    """None where no model is configured, or where nothing is to be called."""
    prompts: Prompts
    ladders: Mapping[str, Ladder]
    history: CallHistory | None = None
    """How long calls took before; clocks adapt to it."""
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
    memory: ReplayCache = NULL_REPLAY_CACHE
    """What the run was answered before it was interrupted."""

    def for_goal(self, goal: Goal) -> Services:
        """Return the same services with what a goal says of models."""
        return replace(self, preference=goal.model_preference, thinking=goal.thinking_level)

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
    history: CallHistory | None = None,
    memory: ReplayCache = NULL_REPLAY_CACHE,
) -> Services:
    """Return the services of a project; without models they only describe workers, and run those that need none."""
    return Services(
        models=models,
        prompts=Prompts(settings.prompts),
        ladders=_LazyLadders(settings),
        history=history,
        has_model=settings.model is not None,
        worker_tokens=settings.models.worker_tokens,
        max_output_tokens=settings.models.max_output_tokens,
        memory=memory,
    )


@dataclass(frozen=True, slots=True)
class _LazyLadders(Mapping[str, Ladder]):
    """Ladders that are read when one is first asked for: whoever only lists tools does not wait for that."""

    settings: Settings
    _loaded: dict[str, Ladder] = field(default_factory=dict[str, Ladder])

    def __getitem__(self, name: str) -> Ladder:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> Mapping[str, Ladder]:
        if not self._loaded:
            from wavewright.planner.ladders import read_ladders

            self._loaded.update(read_ladders(self.settings.ladders, self.settings.document))
        return self._loaded
