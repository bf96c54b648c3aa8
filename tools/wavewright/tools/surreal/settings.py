"""Settings of a database: a folder for the embedded engine, or the address of a SurrealDB server."""

from __future__ import annotations

import os
from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import Field, model_validator

from wavewright.planner.language.plan import DocumentModel

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
