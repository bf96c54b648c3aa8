"""What every test shares: asyncio as the backend of the asynchronous ones."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
