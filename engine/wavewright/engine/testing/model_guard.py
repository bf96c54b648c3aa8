"""Keep the tests of a project from asking language models by accident.

Requests to models are *off* for every test of a wavewright project, and for whatever commands such a test starts, but
where the test is marked as live. A test that asks all the same fails with what would allow it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
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
def model_requests_off(*, unless: bool = False) -> Generator[None]:
    """Let no model be asked for a while, `unless` the test may."""
    if unless:
        yield
        return
    before = os.environ.get(MODEL_REQUESTS_VARIABLE)
    os.environ[MODEL_REQUESTS_VARIABLE] = "off"
    try:
        with _pydantic_ai_off():
            yield
    finally:
        if before is None:
            del os.environ[MODEL_REQUESTS_VARIABLE]
        else:
            os.environ[MODEL_REQUESTS_VARIABLE] = before


@contextmanager
def _pydantic_ai_off() -> Generator[None]:
    """Turn the switch of the library that asks models, where it is loaded: it is never loaded for that."""
    library = sys.modules.get("pydantic_ai.models")
    if library is None:
        yield
        return
    before: object = vars(library)["ALLOW_MODEL_REQUESTS"]
    vars(library)["ALLOW_MODEL_REQUESTS"] = False
    try:
        yield
    finally:
        vars(library)["ALLOW_MODEL_REQUESTS"] = before
