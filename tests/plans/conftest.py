"""What the snapshots of these plans leave out."""

from __future__ import annotations

import pytest

from wavewright.engine.interfaces.testing import Redaction


@pytest.fixture
def wavewright_redactions() -> tuple[Redaction, ...]:
    """A chart has a point for each day: hundreds of lines that say what stands in the price files."""
    return (Redaction("<points>", frozenset({"points"}), in_data=True),)
