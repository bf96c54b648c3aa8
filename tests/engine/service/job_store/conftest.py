"""Limits of attempts that a test can reach."""

from __future__ import annotations

import pytest

from tests.engine.service.job_store.job_examples import FEW_ATTEMPTS
from wavewright.engine.service.job_store import rules


@pytest.fixture(autouse=True)
def few_attempts_without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a job after few deaths, and begin it again at once after each."""
    monkeypatch.setattr(rules, "MAX_ATTEMPTS", FEW_ATTEMPTS)
    monkeypatch.setattr(rules, "ATTEMPT_PAUSES", ())
