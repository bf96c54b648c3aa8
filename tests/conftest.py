"""What every test shares: asyncio as the backend, and how Hypothesis looks for examples.

The suite draws the same examples in every run, so a red test is red for everybody. `HYPOTHESIS_PROFILE=explore`
looks for new ones, and prints what repeats a failure.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: no deadline, and no complaint about slow or picky generation.
PATIENT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "suite", derandomize=True, deadline=None, database=None, suppress_health_check=PATIENT
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
