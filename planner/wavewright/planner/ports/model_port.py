"""The port to language models, and the plain data that passes through it.

A *model call* is one question to a language model; its *use* is what it cost. Which model answers
(a provider, a chain of providers, a cassette) is decided behind the port, so callers import no
provider's library and hold no key. Answers are untrusted text, which the caller has to read.

A *circuit breaker* stands between a question and a provider that is out of order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.redaction import Redactor
from wavewright.planner.diagnostics.rendering import cut_middle
from wavewright.planner.language.goals import ThinkingLevel
from wavewright.planner.language.plan import Budget
from wavewright.planner.types import Json, JsonObject, JsonSchema, RunId, StepId

Role: TypeAlias = Literal["planner", "recovery", "reviewer", "judge", "agent", "worker"]
"""Who asks: `worker` spends worker tokens, every other role orchestrator tokens."""

ModelOutcome: TypeAlias = Literal[
    "answered", "refused", "truncated", "failed", "timeout", "over_budget"
]

ModelErrorKind: TypeAlias = Literal[
    "unreachable",
    "overloaded",
    "denied",
    "refused",
    "bad_answer",
    "timeout",
    "over_budget",
    "over_context",
]
"""Why there is no answer. `denied` (a bad key, no right) and `refused` are never tried again as
they are.
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier answer of the same conversation, and what was replied to it."""

    answer: str
    reply: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One question to a language model."""

    role: Role
    name: str
    """The asker, for the record: `planner`, a gate's id, a worker's name."""
    instructions: str
    prompt: str
    turns: tuple[Turn, ...] = ()
    """Earlier turns, oldest first; the model sees prompt, answer, reply, answer, reply."""
    schema: JsonSchema | None = None
    """JSON Schema that the answer should fit, by whatever way the provider has; plain text where
    absent.
    """
    goal_schema: JsonSchema | None = None
    """The same in more detail, for providers that hold a model to a schema while it writes. It is no
    part of what identifies the question.
    """
    schema_name: str = "answer"
    preference: str = "auto"
    """A model preference of the goal, or a whole model name."""
    thinking: ThinkingLevel = "medium"
    max_tokens: int | None = None
    """Ceiling of the answer's tokens; the configured one where absent."""
    timeout: float | None = None
    """Seconds for the whole call, its retries included; the configured one where absent."""
    rung: str = ""
    """The rung of the ladder that asks."""
    run: RunId | None = None
    job: str | None = None
    step: StepId | None = None
    index: int | None = None
    budget: Budget | None = None
    """What the step may spend, beside the budgets of run, job and day."""
    streams_raw: bool = False
    """Whether `on_text` receives the answer as it arrives, with what looks like a secret, and an
    empty text at each beginning; else whole lines without secrets.
    """


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What one model call cost, whether or not it was answered."""

    role: Role
    name: str
    model: str
    """The model that answered, or the first that was asked."""
    outcome: ModelOutcome
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """None where no price is known."""
    seconds: float = 0.0
    attempts: int = 1
    """Requests made, repeated ones and those of fallback models included."""
    is_estimated: bool = False
    """Whether the tokens are an estimate, because the provider sent no believable count."""
    rung: str = ""
    step: StepId | None = None
    index: int | None = None
    input_chars: int = 0
    """Size of what was asked, without the types of a goal: what timeouts adapt to."""
    message: str = ""
    """Why there was no answer, or what was changed in it."""
    is_implausible: bool = False
    """Whether the provider claims far more tokens than were asked and answered; they count
    nevertheless.
    """

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A call of a tool as a model wrote it: neither the name nor the arguments are to be trusted."""

    name: str
    arguments: str
    """JSON, or a text that the model wrote in its place."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model said.

    >>> from wavewright.planner import ModelAnswer
    >>> ModelAnswer.__dataclass_fields__["is_truncated"].default
    False
    """

    text: str
    """The answer as it came: JSON where a schema was given and the model kept to it, else its
    words.
    """
    use: ModelUse
    is_truncated: bool = False
    """Whether the answer was cut off: at its ceiling of tokens, or by a stream that ended early."""
    calls: tuple[NamedCall, ...] = ()
    """Tools that it called instead of answering."""
    has_met_ceiling: bool = False
    """Whether it was cut off at its ceiling of tokens, so that a higher one may bring the rest."""


_EXIT_CODES = {"denied": exit_codes.MISUSE, "over_budget": exit_codes.NEGATIVE}
"""Exit codes of settings that cannot work and of a refusal; otherwise it is the environment that
failed.
"""


class ModelError(WavewrightError):
    """There is no answer; `hint` names the fix. It never holds a key or a prompt."""

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        hint: str | None = None,
        use: ModelUse | None = None,
        retry_after: float | None = None,
        is_of_provider: bool = False,
    ) -> None:
        super().__init__(message, hint, exit_code=_EXIT_CODES.get(kind, exit_codes.ENVIRONMENT))
        self.kind: ModelErrorKind = kind
        self.use = use
        self.retry_after = retry_after
        """Seconds that the provider asked to wait, where it did."""
        self.is_of_provider = is_of_provider
        """Whether any other question would fail for the same reason: a bad key, a rate limit, no
        connection.
        """

    @property
    def is_transient(self) -> bool:
        """Whether the same question may be answered later."""
        return self.kind in {"unreachable", "overloaded", "timeout", "bad_answer"}


@dataclass(frozen=True, slots=True)
class LoopTool:
    """A tool that an agent may call in its loop; `call` validates, limits and records."""

    name: str
    description: str
    input_schema: JsonSchema
    call: Callable[[JsonObject], Awaitable[Json]]
    """Raises `LoopToolError` with a text for the model."""


class LoopToolError(WavewrightError):
    """The reply to an agent whose call failed or was not allowed."""


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Limits of an agent's loop."""

    requests: int = 10
    """Questions to the model."""
    tool_calls: int = 30
    """Calls of tools in all; those of one answer beyond it are refused, none of them is made."""


OnUse: TypeAlias = Callable[[ModelUse], None]
"""Receives the cost of every call as soon as it is settled, answered or not."""
OnText: TypeAlias = Callable[[str], None]
"""Receives every part of an answer as it arrives."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which model would be asked, and why that one."""

    model: str
    """`provider:name`."""
    why: str
    fallbacks: tuple[str, ...] = field(default=())


class ModelClient(Protocol):
    """Answers model calls. Budgets, retries, rate limits, timeouts and redaction are behind it."""

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        """Return the answer; `on_text` streams it.

        Raises:
            ModelError: there is none, in the end.
        """
        ...

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
    ) -> ModelAnswer:
        """Let a model call tools in a loop until it answers; return its last text where a limit
        ends the loop.

        `on_text` streams what it says, also before it calls a tool.

        Raises:
            ModelError: there is no answer, in the end.
        """
        ...

    def choose(self, preference: str, role: Role) -> ModelChoice:
        """Return which model a call would go to.

        Raises:
            ModelError: the preference names none; the hint lists those there are.
        """
        ...


class CircuitBreaker(Protocol):
    """Lets questions through while their model can be asked.

    It is notified when no model of a question's chain can be asked at all: a bad key, a rate limit,
    a broken connection. It may hold back this question and later ones until the provider is
    available again.
    """

    async def enter(self, call: ModelCall, model: str) -> None:
        """Return once the question may be asked; otherwise stop its run and wait to be cancelled."""
        ...

    async def failed(
        self, call: ModelCall, model: str, reason: str, retry_after: float | None
    ) -> None:
        """Note that the provider answers no question; where the question's run is stopped for it,
        never return.

        `retry_after` is how many seconds the provider asks to wait, where it does.
        """
        ...


class _AlwaysClosed:
    """A circuit that lets every question through and leaves failures to the caller."""

    async def enter(self, call: ModelCall, model: str) -> None:
        """Return."""

    async def failed(
        self, call: ModelCall, model: str, reason: str, retry_after: float | None
    ) -> None:
        """Return."""


ALWAYS_CLOSED: Final = _AlwaysClosed()


MAX_QUESTION_LENGTH: Final = 16_000


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """What a model was asked, as the journal keeps it."""

    role: str
    name: str
    text: str
    """Without secrets; beginning and end where it is longer than `MAX_QUESTION_LENGTH`."""
    step: StepId | None = None
    index: int | None = None


def model_question(call: ModelCall, text: str, redactor: Redactor) -> ModelQuestion:
    """Return the question that a call puts with this text, without its secrets."""
    # Cut first, a secret could lose the end by which it is known.
    said = cut_middle(redactor.redact(text), MAX_QUESTION_LENGTH)
    return ModelQuestion(call.role, call.name, said, call.step, call.index)
