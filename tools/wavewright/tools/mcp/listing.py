"""What an MCP server offers: its own name and version, and its tools as it describes them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from wavewright.planner.types import Json, JsonObject


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One tool in a server's own words; nothing in it has been checked."""

    name: str
    description: str = ""
    input_schema: Json = None
    """As the server sent it, also where it is no object."""
    output_schema: Json = None
    annotations: JsonObject = field(default_factory=dict[str, Json])
    """`readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`, as far as the server gives them."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything in it, in hexadecimal."""
        written = [self.name, self.description, self.input_schema, self.output_schema, self.annotations]
        text = json.dumps(written, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ServerListing:
    """The tools of one server, in the server's order."""

    name: str
    """Name that the server gives itself; empty where it gives none."""
    version: str
    tools: tuple[ListedTool, ...]
