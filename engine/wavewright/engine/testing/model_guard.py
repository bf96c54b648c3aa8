"""Keep the tests of a project from asking language models by accident.

Requests to models are *off* for every test of a wavewright project, and for whatever commands such a test starts, but
where the test is marked as live. A test that asks nevertheless fails with what would allow it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path

import pytest

MODEL_REQUESTS_VARIABLE = "WAVEWRIGHT_MODEL_REQUESTS"
"""Read by whatever opens the way to models."""
LIVE_MARKER = "wavewright_live"
"""The marker of tests that may ask language models."""


def is_live(test: pytest.Item) -> bool:
    """Whether a test is marked as one that may ask models."""
    return test.get_closest_marker(LIVE_MARKER) is not None


@cache
def is_in_wavewright_project(folder: Path) -> bool:
    """Whether a folder lies in a wavewright project."""
    return any(
        (home / name).is_file()
        for home in (folder, *folder.parents)
        for name in ("wavewright.yaml", "wavewright.yml")
    )


@contextmanager
def model_requests(*, allowed: bool) -> Generator[None]:
    """Allow or forbid requests to models for a while, of wavewright and of the library that sends them."""
    before = os.environ.get(MODEL_REQUESTS_VARIABLE)
    # The library is never loaded for this.
    switches = vars(sys.modules["pydantic_ai.models"]) if "pydantic_ai.models" in sys.modules else {}
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


def model_requests_off(*, unless: bool) -> AbstractContextManager[None]:
    """Forbid requests to models for a while, or leave them as they are."""
    return nullcontext() if unless else model_requests(allowed=False)


def _set_variable(value: str | None) -> None:
    os.environ.pop(MODEL_REQUESTS_VARIABLE, None)
    if value is not None:
        os.environ[MODEL_REQUESTS_VARIABLE] = value
