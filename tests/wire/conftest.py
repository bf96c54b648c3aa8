"""The command line as the engine's tests call it, for the tests that go the whole way."""

from __future__ import annotations

from tests.engine.conftest import project, wavewright

__all__ = ["project", "wavewright"]
