"""Keep the tests of a project from asking language models by accident."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def models_off(*, unless: bool = False) -> Generator[None]:
    """Let no model be asked for a while, `unless` the test may.

    The library that asks models has a switch for it; it is turned only where that library is loaded already.
    """
    library = sys.modules.get("pydantic_ai.models")
    if unless or library is None:
        yield
        return
    before: object = library.__dict__["ALLOW_MODEL_REQUESTS"]
    library.__dict__["ALLOW_MODEL_REQUESTS"] = False
    try:
        yield
    finally:
        library.__dict__["ALLOW_MODEL_REQUESTS"] = before
