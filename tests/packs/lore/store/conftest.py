"""Both places of a store: a folder of the embedded engine, and a server."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.surreal_server import PASSWORD, USER, served_surreal
from wavewright.packs.lore.settings import StoreSettings


@pytest.fixture(params=["embedded", "server"])
def place(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Generator[StoreSettings]:
    if request.param == "embedded":
        yield StoreSettings()
        return
    monkeypatch.setenv("LORE_STORE_PASSWORD", PASSWORD)
    with served_surreal() as port:
        yield StoreSettings(url=f"ws://127.0.0.1:{port}", user=USER)
