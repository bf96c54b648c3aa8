"""Environment variables of a daemon that researches zones in cycles, as defaults of the daemon's settings.

What `wavewright.yaml` states wins over them. Those of the standing job count where `STARTING_ZONE` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from wavewright.planner.types import JsonObject, as_object
from wavewright.tools.message_contract import MessageContract
from wavewright.tools.packs import PackError

_N = TypeVar("_N", int, float)

STARTING_ZONE: Final = "STARTING_ZONE"
"""First zone of the standing job."""
CYCLE_DELAY: Final = "RESEARCH_CYCLE_DELAY_MINUTES"
"""Minutes between two cycles."""
CYCLE_TOKENS: Final = "PER_CYCLE_TOKEN_BUDGET"
DAY_TOKENS: Final = "DAILY_TOKEN_BUDGET"
ITERATIONS: Final = "MAX_RESEARCH_VALIDATE_ITERATIONS"
"""Packages of one zone that the validator may reject or accept."""


def with_environment(contract: MessageContract, environment: Mapping[str, str]) -> MessageContract:
    """Return the contract with the defaults that the environment gives.

    Raises:
        PackError: a variable is not a number.
    """
    daemon: JsonObject = {**contract.daemon}
    if start := environment.get(STARTING_ZONE):
        standing: JsonObject = {"start": start}
        if (minutes := number_from(environment, CYCLE_DELAY, float)) is not None:
            standing["pause"] = 60 * minutes
        if (tokens := number_from(environment, CYCLE_TOKENS, int)) is not None:
            standing["tokens_per_cycle"] = tokens
        daemon["standing"] = standing
    if (most := number_from(environment, ITERATIONS, int)) is not None:
        daemon["validation"] = {**as_object(daemon.get("validation")), "iterations": most}
    of_day = number_from(environment, DAY_TOKENS, int)
    budgets: JsonObject = contract.budgets if of_day is None else {"day": {"tokens": of_day}}
    return replace(contract, daemon=daemon, budgets=budgets)


def number_from(environment: Mapping[str, str], name: str, read: Callable[[str], _N]) -> _N | None:
    """Return what a variable states; `None` where it is not set.

    Raises:
        PackError: it is not a number.
    """
    text = environment.get(name, "")
    if not text:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise PackError(f"{name} is no number", hint="set a number, or unset it", place=name) from error
