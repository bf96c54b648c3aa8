"""The places of the store of lore, by which connections are tested."""

from __future__ import annotations

from tests.tools.lore.store.conftest import place

__all__ = ["place"]
