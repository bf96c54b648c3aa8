"""Connections to the database: what goes wrong with them, and what the error says."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from pydantic import ValidationError

from tests.packs.lore.store.stores import ash_vale, opened
from tests.support.surreal_server import PASSWORD, USER, served_surreal
from tests.support.tcp_proxy import TcpProxy
from wavewright.packs.lore.settings import StoreSettings
from wavewright.packs.surreal import SurrealConnection, SurrealStoreError

pytestmark = pytest.mark.anyio


async def test_the_error_of_any_statement_is_raised(place: StoreSettings, tmp_path: Path) -> None:
    async with SurrealConnection(place, tmp_path) as connection:
        with pytest.raises(
            SurrealStoreError, match="refused a statement: An error occurred: second"
        ):
            await connection.run("RETURN 1; THROW 'second'; RETURN 3;")
        with pytest.raises(SurrealStoreError, match=r"refused a statement: .*Parse error"):
            await connection.run("GIVE ME EVERYTHING")
        with pytest.raises(
            SurrealStoreError, match="refused a statement: An error occurred: within"
        ):
            await connection.run("BEGIN; CREATE zone:a; THROW 'within'; COMMIT;")
        assert await connection.run("RETURN 1; SELECT * FROM zone;") == [1, []]


async def test_updates_beside_each_other_are_not_lost(place: StoreSettings, tmp_path: Path) -> None:
    async with SurrealConnection(place, tmp_path) as connection:
        async with anyio.create_task_group() as group:
            for _ in range(300):
                group.start_soon(connection.run, "UPSERT counter:one SET value += 1;")
        assert await connection.run("SELECT VALUE value FROM counter:one;") == [[300]]


async def test_a_lost_connection_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LORE_STORE_PASSWORD", PASSWORD)
    with served_surreal() as port, TcpProxy("127.0.0.1", port) as proxy:
        settings = StoreSettings(url=f"ws://127.0.0.1:{proxy.port}", user=USER)
        async with opened(settings, tmp_path) as (store, connection):
            await store.world_lore_put_package(ash_vale())
            proxy.reset()
            assert (await store.world_lore_zone("Ash Vale")).zone.name == "Ash Vale"
            proxy.cut_after(1, "back")  # the statement arrives, its answer does not
            assert (await store.world_lore_put_package(ash_vale())).records == 5
            assert await connection.run("RETURN 1;") == [1]


@pytest.mark.parametrize("password", ["wrong", ""])
async def test_a_server_that_refuses_the_password_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setenv("LORE_STORE_PASSWORD", password)
    with (
        served_surreal() as port,
        pytest.raises(SurrealStoreError, match="problem with authentication") as refused,
    ):
        async with opened(StoreSettings(url=f"ws://127.0.0.1:{port}", user=USER), tmp_path):
            pass
    assert refused.value.hint is not None
    assert "LORE_STORE_PASSWORD" in refused.value.hint


async def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        SurrealStoreError, match=r"the lore store at ws://127\.0\.0\.1:1 cannot be used"
    ) as refused:
        async with SurrealConnection(StoreSettings(url="ws://127.0.0.1:1"), tmp_path):
            pass
    assert refused.value.hint is not None
    assert "packs.lore.store" in refused.value.hint


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")

    with pytest.raises(SurrealStoreError, match="cannot be opened"):
        async with SurrealConnection(StoreSettings(path="file/store"), tmp_path):
            pass


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "a", "url": "ws://b"},
        {"user": "c"},
        {"url": "http://b"},
        {"database": "a; REMOVE"},
        {"more": 1},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        StoreSettings.model_validate(fields)
