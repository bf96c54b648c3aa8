"""The switch of requests to models: off for tests, but where one is marked as live."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

_MODEL_REQUESTS_VARIABLE = "WAVEWRIGHT_MODEL_REQUESTS"
"""Read by whatever opens the way to models."""
LIVE_MARKER = "wavewright_live"
"""The marker of tests that may ask language models."""


@contextmanager
def model_requests(*, allowed: bool) -> Generator[None]:
    """Allow or forbid requests to models for a while, of wavewright and of the library that sends
    them.
    """
    before = os.environ.get(_MODEL_REQUESTS_VARIABLE)
    # The library is never loaded for this.
    switches = (
        vars(sys.modules["pydantic_ai.models"]) if "pydantic_ai.models" in sys.modules else {}
    )
    switched_before: object = switches.get("ALLOW_MODEL_REQUESTS")
    _set_variable(None if allowed else "off")
    if switches:
        switches["ALLOW_MODEL_REQUESTS"] = allowed
    try:
        yield
    finally:
        _set_variable(before)
        if switches:
            switches["ALLOW_MODEL_REQUESTS"] = switched_before


def _set_variable(value: str | None) -> None:
    os.environ.pop(_MODEL_REQUESTS_VARIABLE, None)
    if value is not None:
        os.environ[_MODEL_REQUESTS_VARIABLE] = value
