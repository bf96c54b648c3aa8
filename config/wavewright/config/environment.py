"""Settings from environment variables, which take precedence over those of the file.

The fields of `EnvironmentSettings` are the table of variables; messages, settings and the reference
page are derived from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from wavewright.config.sections import (
    CassetteMode,
    HealthAddress,
    HmacKey,
    LogLevel,
    Schedule,
    Slots,
)
from wavewright.config.sources import DocumentError, DocumentFault, Source, Span
from wavewright.config.value_types import AmqpUrl, AtLeastOne, JournalLocation, PgUrl, Seconds


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """The metadata of an environment variable."""

    name: str
    setting: str = ""
    """The setting that it replaces, as a dotted path in `wavewright.yaml`; empty if it replaces
    none.
    """
    is_path: bool = False
    """Whether it may name a file or folder, relative to the working directory."""
    expected: str = ""
    """Its valid values, for messages; empty if its value may be secret and must not be shown."""


class EnvironmentSettings(BaseModel):
    """Settings from the environment, each with its variable."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    state_dir: Annotated[
        str | None, EnvironmentVariable("WAVEWRIGHT_STATE", "state_dir", is_path=True)
    ] = None
    journal: Annotated[
        JournalLocation | None, EnvironmentVariable("WAVEWRIGHT_JOURNAL", "journal", is_path=True)
    ] = None
    pg_url: Annotated[PgUrl | None, EnvironmentVariable("WAVEWRIGHT_PG_URL")] = None
    """The address of a PostgreSQL database, in place of `journal`."""
    output_dir: Annotated[
        str | None, EnvironmentVariable("WAVEWRIGHT_OUTPUT", "output_dir", is_path=True)
    ] = None
    retention: Annotated[
        Seconds | None,
        EnvironmentVariable(
            "WAVEWRIGHT_RETENTION",
            "retention",
            expected="a time longer than 0, such as '12h' or '30d'",
        ),
    ] = None
    schedule: Annotated[
        Schedule | None,
        EnvironmentVariable("WAVEWRIGHT_SCHEDULE", "schedule", expected="'waves' or 'dataflow'"),
    ] = None
    concurrency: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | None,
        EnvironmentVariable(
            "WAVEWRIGHT_CONCURRENCY", "concurrency", expected="a whole number from 1 to 10000"
        ),
    ] = None
    model: Annotated[str | None, EnvironmentVariable("WAVEWRIGHT_MODEL", "model")] = None
    """For every role and every goal, whatever `models` says."""
    base_url: Annotated[
        str | None, EnvironmentVariable("WAVEWRIGHT_BASE_URL", "models.base_url")
    ] = None
    api_key: Annotated[str | None, EnvironmentVariable("WAVEWRIGHT_API_KEY")] = None
    """The key for `models.base_url`, or for the model's provider; never a setting of the file."""
    cassette: Annotated[
        str | None, EnvironmentVariable("WAVEWRIGHT_CASSETTE", "models.cassette", is_path=True)
    ] = None
    cassette_mode: Annotated[
        CassetteMode | None,
        EnvironmentVariable(
            "WAVEWRIGHT_CASSETTE_MODE", "models.cassette_mode", expected="'replay' or 'record'"
        ),
    ] = None
    daily_tokens: Annotated[
        AtLeastOne | None,
        EnvironmentVariable(
            "WAVEWRIGHT_DAILY_TOKEN_BUDGET", "budgets.day.tokens", expected="a whole number from 1"
        ),
    ] = None
    amqp_url: Annotated[
        AmqpUrl | None, EnvironmentVariable("WAVEWRIGHT_AMQP_URL", "daemon.amqp_url")
    ] = None
    hmac_key: Annotated[HmacKey | None, EnvironmentVariable("WAVEWRIGHT_HMAC_KEY")] = None
    """The key of messages' signatures, 16 characters at least: with it every message is signed
    and must be signed; never a setting of the file."""
    slots: Annotated[
        Slots | None,
        EnvironmentVariable(
            "WAVEWRIGHT_SLOTS", "daemon.slots", expected="a whole number from 1 to 1000"
        ),
    ] = None
    health: Annotated[
        HealthAddress | None,
        EnvironmentVariable("WAVEWRIGHT_HEALTH", "daemon.health", expected="HOST:PORT"),
    ] = None
    log_level: Annotated[
        LogLevel | None,
        EnvironmentVariable(
            "WAVEWRIGHT_LOG_LEVEL",
            "daemon.log_level",
            expected="'debug', 'info', 'warning' or 'error'",
        ),
    ] = None


VARIABLES: Final = {
    field: variable
    for field, about in EnvironmentSettings.model_fields.items()
    for variable in about.metadata
    if isinstance(variable, EnvironmentVariable)
}
"""The variables by their fields in `EnvironmentSettings`."""


def read_environment(environment: Mapping[str, str]) -> EnvironmentSettings:
    """Return what the environment sets; a variable without a value sets nothing.

    Raises:
        DocumentError: variables have invalid values; each fault names one.
    """
    set_variables = {
        field: environment[variable.name]
        for field, variable in VARIABLES.items()
        if environment.get(variable.name, "").strip()
    }
    if not set_variables:
        return EnvironmentSettings.model_construct()
    try:
        return EnvironmentSettings.model_validate(set_variables)
    except ValidationError as error:
        raise _environment_error(error.errors(include_url=False), set_variables) from None


def drop_invalid_variables(environment: Mapping[str, str], error: DocumentError) -> dict[str, str]:
    """Return the environment without the variables that `read_environment` refused."""
    faulty = {line.partition("=")[0] for line in error.source.text.splitlines()}
    return {name: value for name, value in environment.items() if name not in faulty}


def _environment_error(
    details: list[ErrorDetails], set_variables: Mapping[str, str]
) -> DocumentError:
    lines: list[str] = []
    faults: list[DocumentFault] = []
    offset = 0
    for detail in details:
        field = str(detail["loc"][0])
        name, expected = VARIABLES[field].name, VARIABLES[field].expected
        if expected:
            line = f"{name}={set_variables[field]}"
            message = f"the environment variable {name} should be {expected}, and is {set_variables[field]!r}"
        else:
            line = f"{name}=***"
            message = f"the environment variable {name}: {detail.get('ctx', {}).get('error', detail['msg'])}"
        span = Span(offset + len(name) + 1, offset + len(line))
        faults.append(
            DocumentFault("bad_value", message, span, hint=f"set it right, or unset {name}")
        )
        lines.append(line)
        offset += len(line) + 1
    return DocumentError(Source("<environment>", "\n".join(lines)), tuple(faults))
