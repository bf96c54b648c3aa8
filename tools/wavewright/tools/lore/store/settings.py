"""Settings of the store of lore."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from wavewright.tools.surreal import DatabaseName, SurrealSettings


class StoreSettings(SurrealSettings):
    """Where the records of lore are."""

    what: ClassVar[str] = "lore store"
    section: ClassVar[str] = "packs.lore.store"
    sharing: ClassVar[str] = (
        "serve it once with `wavewright mcp lore-store --http HOST:PORT`, and connect to that"
    )

    path: str = Field(default=".wavewright/lore", min_length=1)
    """Folder of the embedded engine."""
    password_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "LORE_STORE_PASSWORD"  # noqa: S105 - the name of the variable
    """Name of the environment variable that holds the user's password."""
    database: DatabaseName = "lore"
    """One for each game: identities are names, and two games may have a zone or a person of the same name."""
