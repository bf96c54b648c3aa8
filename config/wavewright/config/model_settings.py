"""Settings of language models: which are asked, how patiently, and what they may cost.

The key of a provider is never a setting: it comes from the environment (`WAVEWRIGHT_API_KEY`, or the provider's own
variable) and is written nowhere.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

RoleName: TypeAlias = Literal["planner", "recovery", "reviewer", "judge", "agent", "worker"]
ThinkingName: TypeAlias = Literal["minimal", "low", "medium", "high"]
Schedule: TypeAlias = Literal["waves", "dataflow"]
CassetteMode: TypeAlias = Literal["replay", "record"]

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class _ModelSettingsModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class ModelProviderSettings(_ModelSettingsModel):
    """What one provider lets us do."""

    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Requests begun in any minute; unlimited where absent."""
    concurrency: Annotated[int, Field(ge=1)] | None = None
    """Requests under way at once; unlimited where absent."""


class PriceSettings(_ModelSettingsModel):
    """Price of a model that the price list does not know, in US dollars per million tokens."""

    input: Annotated[float, Field(ge=0, strict=False)]
    """Of what a model reads."""
    output: Annotated[float, Field(ge=0, strict=False)]
    """Of what a model writes."""


class ModelsSection(_ModelSettingsModel):
    """The section `models` of `wavewright.yaml`."""

    base_url: str | None = Field(default=None, min_length=1)
    """Address of an OpenAI-compatible endpoint, for models named `openai-chat:NAME`."""
    preferences: dict[str, str] = {}
    """Goal's word (`flash`, `pro`, `sonnet`, …) → model name; before the shipped map."""
    roles: dict[RoleName, str] = {}
    """Role → preference or model name, where a role should not ask the default model."""
    fallbacks: list[str] = []
    """Models that are asked in turn where the first gives no answer."""
    thinking: dict[ThinkingName, str] = {}
    """Goal's thinking level → what the provider is told: minimal, low, medium, high, xhigh, max or off."""
    attempt_seconds: _Positive = 60.0
    """Of one HTTP attempt."""
    request_seconds: _Positive = 180.0
    """Of one model call, its retries and waits included."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """HTTP attempts of one model call, the first included."""
    providers: dict[str, ModelProviderSettings] = {}
    """Provider → its limits."""
    prices: dict[str, PriceSettings] = {}
    """Model name without provider → price."""
    max_output_tokens: Annotated[int, Field(ge=1)] = 16_000
    """Ceiling of one answer."""
    worker_tokens: Annotated[int, Field(ge=1)] = 50_000
    """What workers share out: a worker's `token_share` of it is the ceiling of its answer."""
    calibration: str | None = Field(default=None, min_length=1)
    """File that says which judge gates may block; without it they only warn."""
    cassette: str | None = Field(default=None, min_length=1)
    """File of recorded answers."""
    cassette_mode: CassetteMode = "replay"
    """`replay` asks nobody; `record` asks and writes down what is missing."""

    def call_seconds(self, clock: float | None) -> float:
        """Return how long a call may take to which its ladder gives so much; None where no ladder has a say.

        A `request_seconds` that was set holds beside the ladder's clock; its default gives way to it.
        """
        if clock is None:
            return self.request_seconds
        return min(clock, self.request_seconds) if "request_seconds" in self.model_fields_set else clock


class BudgetSettings(_ModelSettingsModel):
    """Upper bounds of what models may cost."""

    tokens: Annotated[int, Field(ge=1)] | None = None
    """Read and written, of all calls."""
    usd: _Positive | None = None
    """US dollars; every model that is asked needs a price."""
    calls: Annotated[int, Field(ge=1)] | None = None
    """Requests to models, repeated ones included."""
    seconds: _Positive | None = None
    """Time of model calls, added up."""


class BudgetsSection(_ModelSettingsModel):
    """The section `budgets` of `wavewright.yaml`."""

    run: BudgetSettings = BudgetSettings.model_construct()
    job: BudgetSettings = BudgetSettings.model_construct()
    """Of all runs of one job (by its name)."""
    day: BudgetSettings = BudgetSettings.model_construct()
    """Of all runs together, from midnight to midnight UTC."""
    recovery_share: Annotated[float, Field(ge=0, le=0.9, strict=False)] = 0.2
    """Part of the run's budget that only review and recovery may spend."""
