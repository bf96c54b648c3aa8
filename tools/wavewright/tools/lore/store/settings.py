"""Settings of the store: a folder for the embedded engine, or the address of a SurrealDB server."""

from __future__ import annotations

import os
from typing import Annotated, Self

from pydantic import Field, model_validator

from wavewright.planner.language.plan import DocumentModel

_Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]


class StoreSettings(DocumentModel):
    """Where the records are."""

    path: str = Field(default=".wavewright/lore", min_length=1)
    """Folder of the embedded engine."""
    url: Annotated[str, Field(pattern=r"^wss?://\S+$")] | None = None
    """Address of a SurrealDB server, such as `ws://surrealdb:8000`, in place of `path`."""
    user: str | None = None
    """User of the server."""
    password_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "LORE_STORE_PASSWORD"  # noqa: S105 - the name of the variable
    """Name of the environment variable that holds the user's password."""
    namespace: _Name = "wavewright"
    database: _Name = "lore"
    """One for each game: identities are names, and two games may have a zone or a person of the same name."""

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
