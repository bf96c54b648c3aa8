"""Connections to SurrealDB, in a folder or on a server, for the packs that keep records there.

A connection has one owner of its folder and one writer at a time, and checks every statement's
status. The engine itself gives none of the three: two processes on one folder damage each other's
reads, concurrent updates are lost although each is acknowledged, and the client's `query` hides the
errors of all statements but the first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeAlias, cast

import anyio
from pydantic import Field, model_validator

from wavewright.config import WavewrightError, exit_codes
from wavewright.planner import DocumentModel

Row: TypeAlias = dict[str, Any]
"""A record of the database: JSON values, record ids and times."""
DatabaseName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]


class SurrealSettings(DocumentModel):
    """Where a pack's records are; a subclass names the pack's defaults."""

    what: ClassVar[str] = "database"
    """What messages call it."""
    section: ClassVar[str] = ""
    """Where the settings stand, such as `packs.lore.store`."""
    sharing: ClassVar[str] = "name a SurrealDB server as 'url', which several processes may use"
    """What to do where two processes want one folder."""

    path: str = Field(min_length=1)
    """Folder of the embedded engine."""
    url: Annotated[str, Field(pattern=r"^wss?://\S+$")] | None = None
    """Address of a SurrealDB server, such as `ws://surrealdb:8000`, in place of `path`."""
    user: str | None = None
    """User of the server."""
    password_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "SURREALDB_PASSWORD"  # noqa: S105 - the name of the variable
    """Name of the environment variable that holds the user's password."""
    namespace: DatabaseName = "wavewright"
    database: DatabaseName

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        """Refuse a place of both kinds, and a user without a server."""
        if self.url is not None and "path" in self.model_fields_set:
            raise ValueError("a store has either a 'path' or a 'url'")
        if self.url is None and self.user is not None:
            raise ValueError("'user' goes with 'url'")
        return self

    def password(self) -> str:
        """Return the password of the user, from the environment."""
        return os.environ.get(self.password_env, "")


class SurrealStoreError(WavewrightError):
    """The store cannot be opened, or refuses a statement."""

    exit_code = exit_codes.ENVIRONMENT


class _Client(Protocol):
    """The methods of the client that are used."""

    async def connect(self) -> None: ...
    async def use(self, namespace: str, database: str) -> None: ...
    async def signin(self, vars: Mapping[str, str]) -> object: ...  # noqa: A002 - the client's name
    async def query_raw(self, query: str, params: Row) -> dict[str, Any]: ...
    async def close(self) -> None: ...


class SurrealConnection:
    """An open database; an async context manager.

    Raises:
        SurrealStoreError: the library is not installed, another process has the folder, or the
            server refuses.
    """

    def __init__(self, settings: SurrealSettings, root: Path) -> None:
        self._settings = settings
        self._folder = root / Path(settings.path).expanduser()
        self._lock = anyio.Lock()
        self._client: _Client | None = None
        self._owner: int | None = None

    async def __aenter__(self) -> Self:
        try:
            if self._settings.url is None:
                self._owner = _own(self._folder, self._settings)
            self._client = await self._connected()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()

    async def close(self) -> None:
        """Close the database and let go of its folder; closing twice does nothing."""
        await self._drop_client()
        owner, self._owner = self._owner, None
        if owner is not None:
            os.close(owner)

    async def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def run(self, sql: str, **values: object) -> list[Any]:
        """Run statements one after the other and return the result of each; nothing else runs
        meanwhile.

        Raises:
            SurrealStoreError: a statement failed, or the server cannot be reached.
        """
        async with self._lock:
            return _results(await self._sent(sql, values))

    async def _sent(self, sql: str, values: Row, *, is_repeated: bool = False) -> dict[str, Any]:
        try:
            if self._client is None:
                self._client = await self._connected()
            return await self._client.query_raw(sql, values)
        except RuntimeError as error:  # of the embedded engine
            raise SurrealStoreError(f"the store refused a statement: {error}") from error
        # A KeyError: the client has forgotten what waits for an answer when its connection is lost.
        except (OSError, KeyError, _closed_error()) as error:
            await self._drop_client()
            if is_repeated:
                raise self._unreachable(error) from error
        # It may have been executed: each of ours gives the same state when it is repeated.
        return await self._sent(sql, values, is_repeated=True)

    async def _connected(self) -> _Client:
        try:
            from surrealdb import AsyncSurreal
            from surrealdb.errors import SurrealError
        except ImportError as error:
            raise SurrealStoreError(
                f"the library of the {self._settings.what} is not installed",
                hint="run `pip install 'wavewright[graph]'`",
            ) from error
        settings = self._settings
        # One factory of three classes that share these methods.
        client = cast("_Client", AsyncSurreal(settings.url or f"surrealkv://{self._folder}"))
        try:
            await client.connect()
            if settings.user is not None:
                await client.signin({"username": settings.user, "password": settings.password()})
            await client.use(settings.namespace, settings.database)
        except (OSError, RuntimeError, SurrealError, _closed_error()) as error:
            await client.close()
            raise self._unreachable(error) from error
        return client

    def _unreachable(self, reason: object) -> SurrealStoreError:
        settings = self._settings
        if settings.url is None:
            return SurrealStoreError(
                f"the {settings.what} in {self._folder} cannot be opened: {reason}",
                hint=f"name another folder as '{settings.section}.path'",
            )
        return SurrealStoreError(
            f"the {settings.what} at {settings.url} cannot be used: {reason}",
            hint=f"check 'url', 'user' and the variable {settings.password_env} of '{settings.section}'",
        )


def record_id(table: str, key: object) -> Any:
    """Return the id of a record as the engine takes it: a name within a statement could be read as
    something else.
    """
    from surrealdb import RecordID

    return RecordID(table, key)


def _closed_error() -> type[Exception]:
    from websockets.exceptions import WebSocketException

    return WebSocketException


def _own(folder: Path, settings: SurrealSettings) -> int:
    """Return the open lock file of a folder of the engine, which takes no lock itself.

    Raises:
        SurrealStoreError: another process has it, or it cannot be written.
    """
    place = folder.with_name(f"{folder.name}.owner")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SurrealStoreError(
            f"the {settings.what} in {folder} cannot be opened: {error.strerror}",
            hint=f"name a folder that can be written as '{settings.section}.path'",
        ) from error
    if sys.platform == "win32":
        return opened
    import fcntl

    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(opened)
        raise SurrealStoreError(
            f"another process has the {settings.what} in {folder} open",
            hint=settings.sharing,
        ) from error
    return opened


def _results(answer: dict[str, Any]) -> list[Any]:
    if "error" in answer:  # a text that cannot be parsed
        raise SurrealStoreError(f"the store refused a statement: {_reason(answer['error'])}")
    statements = answer["result"]
    failed = [one["result"] for one in statements if one["status"] != "OK"]
    if failed:
        # Statements of a transaction that was rolled back say only that they were not executed.
        reason = next((text for text in failed if "not executed" not in str(text)), failed[0])
        raise SurrealStoreError(f"the store refused a statement: {reason}")
    return [one["result"] for one in statements]


def _reason(error: Any) -> Any:
    return cast("Row", error).get("message", error) if isinstance(error, dict) else error
