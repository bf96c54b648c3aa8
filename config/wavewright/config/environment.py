"""Settings that the environment gives; they go before those of the file.

| variable | setting |
|---|---|
| `WAVEWRIGHT_STATE` | `state_dir` |
| `WAVEWRIGHT_JOURNAL` | `journal` |
| `WAVEWRIGHT_PG_URL` | `journal`, as the address of a PostgreSQL database |
| `WAVEWRIGHT_OUTPUT` | `output_dir` |
| `WAVEWRIGHT_RETENTION` | `retention` |
| `WAVEWRIGHT_SCHEDULE` | `schedule` |
| `WAVEWRIGHT_CONCURRENCY` | `concurrency` |
| `WAVEWRIGHT_MODEL` | `model`, for every role and preference |
| `WAVEWRIGHT_BASE_URL` | `models.base_url` |
| `WAVEWRIGHT_API_KEY` | the key for `base_url`, or for the model's provider; it has no place in the file |
| `WAVEWRIGHT_CASSETTE` | `models.cassette` |
| `WAVEWRIGHT_CASSETTE_MODE` | `models.cassette_mode` |
| `WAVEWRIGHT_DAILY_TOKEN_BUDGET` | `budgets.day.tokens` |
| `WAVEWRIGHT_AMQP_URL` | `daemon.amqp_url` |
| `WAVEWRIGHT_HMAC_KEY` | the key of signatures; it has no place in the file |
| `WAVEWRIGHT_SLOTS` | `daemon.slots` |
| `WAVEWRIGHT_HEALTH` | `daemon.health` |
| `WAVEWRIGHT_LOG_LEVEL` | `daemon.log_level` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from wavewright.config.sections import CassetteMode, HealthAddress, HmacKey, LogLevel, Schedule, Slots
from wavewright.config.sources import DocumentError, DocumentFault, Source, Span
from wavewright.config.value_types import AmqpUrl, JournalLocation, PgUrl, Seconds


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """An environment variable and the setting that it replaces."""

    name: str
    setting: str


VARIABLES: Final = (
    EnvironmentVariable("WAVEWRIGHT_STATE", "state_dir"),
    EnvironmentVariable("WAVEWRIGHT_JOURNAL", "journal"),
    EnvironmentVariable("WAVEWRIGHT_PG_URL", "pg_url"),
    EnvironmentVariable("WAVEWRIGHT_OUTPUT", "output_dir"),
    EnvironmentVariable("WAVEWRIGHT_RETENTION", "retention"),
    EnvironmentVariable("WAVEWRIGHT_SCHEDULE", "schedule"),
    EnvironmentVariable("WAVEWRIGHT_CONCURRENCY", "concurrency"),
    EnvironmentVariable("WAVEWRIGHT_MODEL", "model"),
    EnvironmentVariable("WAVEWRIGHT_BASE_URL", "base_url"),
    EnvironmentVariable("WAVEWRIGHT_API_KEY", "api_key"),
    EnvironmentVariable("WAVEWRIGHT_CASSETTE", "cassette"),
    EnvironmentVariable("WAVEWRIGHT_CASSETTE_MODE", "cassette_mode"),
    EnvironmentVariable("WAVEWRIGHT_DAILY_TOKEN_BUDGET", "daily_tokens"),
    EnvironmentVariable("WAVEWRIGHT_AMQP_URL", "amqp_url"),
    EnvironmentVariable("WAVEWRIGHT_HMAC_KEY", "hmac_key"),
    EnvironmentVariable("WAVEWRIGHT_SLOTS", "slots"),
    EnvironmentVariable("WAVEWRIGHT_HEALTH", "health"),
    EnvironmentVariable("WAVEWRIGHT_LOG_LEVEL", "log_level"),
)


class EnvironmentSettings(BaseModel):
    """Settings as the environment gives them, after reading their texts."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    state_dir: str | None = None
    journal: JournalLocation | None = None
    pg_url: PgUrl | None = None
    output_dir: str | None = None
    retention: Seconds | None = None
    schedule: Schedule | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    cassette: str | None = None
    cassette_mode: CassetteMode | None = None
    daily_tokens: Annotated[int, Field(ge=1)] | None = None
    amqp_url: AmqpUrl | None = None
    hmac_key: HmacKey | None = None
    slots: Slots | None = None
    health: HealthAddress | None = None
    log_level: LogLevel | None = None


def read_environment(environment: Mapping[str, str]) -> EnvironmentSettings:
    """Return what the environment sets; a variable without a value sets nothing.

    Raises:
        DocumentError: variables are wrong; each fault names one.
    """
    given = {one.setting: environment[one.name] for one in VARIABLES if environment.get(one.name, "").strip()}
    if not given:
        return EnvironmentSettings.model_construct()
    try:
        return EnvironmentSettings.model_validate(given)
    except ValidationError as error:
        raise _environment_error(error.errors(include_url=False), given) from None


def drop_invalid_variables(environment: Mapping[str, str], error: DocumentError) -> dict[str, str]:
    """Return the environment without the variables that `read_environment` has refused."""
    faulty = {line.partition("=")[0] for line in error.source.text.splitlines()}
    return {name: value for name, value in environment.items() if name not in faulty}


_EXPECTED = {
    "retention": "a time longer than 0, such as '12h' or '30d'",
    "schedule": "'waves' or 'dataflow'",
    "concurrency": "a whole number from 1 to 10000",
    "cassette_mode": "'replay' or 'record'",
    "daily_tokens": "a whole number from 1",
    "slots": "a whole number from 1 to 1000",
    "health": "HOST:PORT",
    "log_level": "'debug', 'info', 'warning' or 'error'",
}


def _environment_error(details: list[ErrorDetails], given: Mapping[str, str]) -> DocumentError:
    names = {one.setting: one.name for one in VARIABLES}
    lines: list[str] = []
    faults: list[DocumentFault] = []
    offset = 0
    for detail in details:
        setting = str(detail["loc"][0])
        name = names[setting]
        wanted = _EXPECTED.get(setting)
        if wanted is not None:
            line = f"{name}={given[setting]}"
            message = f"the environment variable {name} should be {wanted}, and is {given[setting]!r}"
        else:
            # An address may hold a password, and a key is one: they are said to be wrong, and never repeated.
            line = f"{name}=***"
            message = f"the environment variable {name}: {detail.get('ctx', {}).get('error', detail['msg'])}"
        span = Span(offset + len(name) + 1, offset + len(line))
        faults.append(DocumentFault("bad_value", message, span, hint=f"set it right, or unset {name}"))
        lines.append(line)
        offset += len(line) + 1
    return DocumentError(Source("<environment>", "\n".join(lines)), tuple(faults))
