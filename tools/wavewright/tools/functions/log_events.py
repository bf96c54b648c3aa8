"""Log events that tools define: each is a dataclass whose fields are those of the event.

A tool that declares the injected parameter `emit` passes instances to it. Each becomes a note of the run, a line of the
daemon's log, and is counted in its metrics.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Final, TypeAlias

from wavewright.planner.types import JsonObject
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.functions.tool import TextChunk, ToolError

_RESERVED_FIELDS: Final = frozenset(
    {"agent_id", "domain", "event", "job_id", "level", "step_name", "target", "timestamp", "tool"}
)
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True)
class LogEvent:
    """Base of log events: a subclass is a frozen dataclass with fields that are texts, numbers, booleans or None."""

    event_name: ClassVar[str]
    """The class's name in lower case with underscores: `SearchExecuted` is `search_executed`."""

    def __init_subclass__(cls) -> None:
        """Name the event.

        Raises:
            ToolDefinitionError: a field has the name of one that every line has.
        """
        cls.event_name = _CAPITAL.sub("_", cls.__name__).lower()
        if taken := _RESERVED_FIELDS & cls.__annotations__.keys():
            raise ToolDefinitionError(
                f"log event {cls.event_name!r} has the field {min(taken)!r}, which every line has",
                hint="give the field another name",
            )

    def to_json(self) -> JsonObject:
        """Return the fields.

        Raises:
            ToolError: the class is no dataclass, or a value is neither text, number, boolean nor None.
        """
        if "__dataclass_fields__" not in vars(type(self)):
            raise ToolError(f"log event {type(self).__name__} is no dataclass")
        found: JsonObject = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str | int | float | None):
                raise ToolError(
                    f"field {field.name!r} of log event {self.event_name!r} is {type(value).__name__}, "
                    "not text, number, boolean or None"
                )
            found[field.name] = value
        return found


Emit: TypeAlias = Callable[[LogEvent | TextChunk], None]
"""Type of the injected parameter `emit`, which takes log events and texts that are shown as output; never waits."""
