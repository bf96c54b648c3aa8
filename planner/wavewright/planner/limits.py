"""Limits: how large a run may become."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wavewright.config.durations import Seconds
from wavewright.planner.models import Budget, DocumentModel


class Limits(DocumentModel):
    """Upper bounds of a run; what reaches one is reported, never silent."""

    max_steps: Annotated[int, Field(ge=1)] = 50
    """Steps of a plan."""
    max_waves: Annotated[int, Field(ge=1)] = 10
    """Waves of a plan, one after the other."""
    max_items: Annotated[int, Field(ge=1)] = 1000
    """Items of one `for_each`."""
    concurrency: Annotated[int, Field(ge=1)] = 16
    """Calls that run at once."""
    tool_concurrency: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Calls of one tool that run at once, by tool name."""
    rounds: Annotated[int, Field(ge=0, le=10)] = 2
    """Recovery patches after the first execution."""
    iterations: Annotated[int, Field(ge=0, le=10)] | None = None
    """Packages of one job that a validator may look at; the daemon's own setting where absent."""
    run_timeout: Seconds | None = None
    """Time of the whole run, recovery included."""
    budget: Budget | None = None
    """What models may spend in the run, beside the configured budgets."""
