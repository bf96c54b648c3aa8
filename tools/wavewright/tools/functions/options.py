"""What may be said of a function beside its signature and docstring, in Python and in the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field, GetPydanticSchema, with_config
from typing_extensions import TypedDict

from wavewright.config import Seconds
from wavewright.config.value_types import AtLeastOne, Texts
from wavewright.planner import Json, Retry
from wavewright.planner.language.plan import Names
from wavewright.planner.types import ConfidenceSource, Effect

# Python takes whatever lists or maps names; the settings are read as what the signature holds.
_Effects: TypeAlias = Annotated[
    Iterable[Effect],
    GetPydanticSchema(
        lambda _, handler: handler(Annotated[frozenset[Effect], Field(strict=False)])
    ),
]
_Names: TypeAlias = Annotated[Iterable[str], GetPydanticSchema(lambda _, handler: handler(Names))]
_NamesOf: TypeAlias = Annotated[
    Mapping[str, Iterable[str]],
    GetPydanticSchema(lambda _, handler: handler(dict[str, Names])),
]
_Hosts: TypeAlias = Annotated[
    Mapping[str, Iterable[str]],
    GetPydanticSchema(lambda _, handler: handler(dict[str, Texts])),
]
_Duration: TypeAlias = Annotated[
    float | str, GetPydanticSchema(lambda _, handler: handler(Seconds))
]


@with_config(ConfigDict(extra="forbid", strict=True))
class ToolOptions(TypedDict, total=False):
    """Options of a tool that is made of a function; each means what it does in `ToolSignature`, and
    has its default where it is absent or None.
    """

    name: str | None
    """The function's own name where absent."""
    description: str | None
    """The docstring where absent."""
    effects: _Effects
    idempotent: bool | None
    """Where absent, whether the tool writes nothing."""
    deterministic: bool
    """Whether one call serves all equal ones of a run."""
    version: str | None
    """Where absent, a hash of the contract and of `settings`, so that a changed signature or
    another source never meets results of the old one.
    """
    tags: _Names
    expected_seconds: _Duration
    timeout: _Duration
    retry: Retry | None
    concurrency: AtLeastOne | None
    max_items: AtLeastOne
    freshness_field: str | None
    cache_for: _Duration | None
    untrusted_output: bool
    untrusted: _Names
    needs_approval: bool
    accepts_untrusted: _Names
    destination: _Names
    reads_data: _Names
    writes_data: _Names
    output_data: _NamesOf | None
    confidence: ConfidenceSource
    calls_agents: _Names
    needs: _Names
    allowed_hosts: _Hosts | None
    settings: Json
    """What the function was set up with, where that decides what it returns."""
