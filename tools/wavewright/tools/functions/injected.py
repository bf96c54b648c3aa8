"""What the engine injects into a function beside its parameters: run data (`data`), and `emit` for
log events.

*Run data* are values that the tools of one run share, beside what steps pass on to each other. A
*value* has a name, such as `pages`, and a key. A tool declares the names that it reads and writes;
it sees what the steps that its own depends on have written, and what its own call has written.
Values are kept with the result of the call in the journal, and no model is shown them.
`MemoryRunData` is what a call is given; a test of a tool makes one itself.

A *log event* is a dataclass whose fields are those of the event. Each that is emitted becomes a
note of the run, a line of the daemon's log, and is counted in its metrics.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Final, Protocol, TypeAlias

from wavewright.planner import Json, JsonObject, canonical_json
from wavewright.planner.language.signatures import RUN_INPUTS
from wavewright.tools.functions.errors import ToolDefinitionError, ToolError

RunValues: TypeAlias = Mapping[str, Mapping[str, Json]]
"""Values by name and key."""

_NOTHING: Final[Mapping[str, Json]] = {}


class RunData(Protocol):
    """Type of the injected parameter `data`."""

    @property
    def inputs(self) -> JsonObject:
        """The inputs of the plan."""
        ...

    @property
    def scope(self) -> str:
        """What the caller of an agent passed on to the agent's tools; empty in a step."""
        ...

    def read(self, name: str) -> Mapping[str, Json]:
        """Return a copy of the values of a name by key, in the order in which the keys were first
        written.

        Raises:
            ToolError: the tool does not declare that it reads the name.
        """
        ...

    def write(self, name: str, key: str, value: Json) -> None:
        """Set a value; it is kept if the call succeeds.

        Raises:
            ToolError: the tool does not declare that it writes the name.
        """
        ...


class MemoryRunData:
    """The run data that one call sees, and what it writes.

    >>> from wavewright.tools import MemoryRunData
    >>> data = MemoryRunData({"zone": "Harrow Fen"})
    >>> data.inputs["zone"]
    'Harrow Fen'
    """

    __slots__ = ("_parent", "_reads", "_scope", "_values", "_writes", "written")

    def __init__(
        self,
        inputs: Mapping[str, Json] | None = None,
        values: RunValues | None = None,
        *,
        scope: str = "",
        reads: frozenset[str] | None = None,
        writes: frozenset[str] | None = None,
        parent: MemoryRunData | None = None,
    ) -> None:
        """Begin with the values there are; `reads` and `writes` are the names that may be used, any
        where absent.
        """
        self._values: RunValues = values or {}
        if inputs is not None:
            self._values = {**self._values, RUN_INPUTS: inputs}
        self._scope = scope
        self._reads = reads
        self._writes = writes
        self._parent = parent
        self.written: dict[str, JsonObject] = {}
        """What the call has written, by name and key."""

    @property
    def inputs(self) -> JsonObject:
        """The inputs of the plan."""
        return copy.deepcopy(dict(self._visible(RUN_INPUTS)))

    @property
    def scope(self) -> str:
        """What the caller of an agent passed on to the agent's tools."""
        return self._scope or ("" if self._parent is None else self._parent.scope)

    def read(self, name: str) -> Mapping[str, Json]:
        """Return a copy of the values of a name."""
        self._require("reads_data", name, self._reads)
        return copy.deepcopy(dict(self._visible(name)))

    def write(self, name: str, key: str, value: Json) -> None:
        """Set a value."""
        self._require("writes_data", name, self._writes)
        # A new object, since calls of an agent that run in other threads may read the old one now.
        self.written[name] = {**self.written.get(name, {}), key: value}

    def child(
        self, reads: frozenset[str], writes: frozenset[str], scope: str = ""
    ) -> MemoryRunData:
        """Return the data for a call that this one makes; `keep` takes over what it writes."""
        return MemoryRunData(scope=scope, reads=reads, writes=writes, parent=self)

    def keep(self, written: RunValues) -> None:
        """Write what a call has written that this one made.

        Raises:
            ToolError: the tool of this call does not declare that it writes a name.
        """
        for name, values in written.items():
            for key, value in values.items():
                self.write(name, key, value)

    def digest(self, names: Iterable[str]) -> str:
        """Return a hash of what is visible under these names."""
        return values_digest({name: self._visible(name) for name in names})

    def _visible(self, name: str) -> Mapping[str, Json]:
        before = (
            self._values.get(name, _NOTHING) if self._parent is None else self._parent.visible(name)
        )
        own = self.written.get(name)
        return before if own is None else {**before, **own}

    def visible(self, name: str) -> Mapping[str, Json]:
        """Return the values of a name for a call that this one makes, without a copy.

        Raises:
            ToolError: the tool of this call does not declare that it reads the name.
        """
        if self._writes is None or name not in self._writes:
            self._require("reads_data", name, self._reads)
        return self._visible(name)

    def _require(self, option: str, name: str, allowed: frozenset[str] | None) -> None:
        if allowed is not None and name not in allowed:
            verb = option.partition("_")[0]
            raise ToolError(
                f"the tool {verb} run data {name!r} and does not declare it",
                hint=f"declare it where the tool is made: {option}={{{name!r}}}",
            )


def values_digest(values: RunValues) -> str:
    """Return a hash of values; equal values have equal hashes, in whatever order they were written."""
    content: JsonObject = {name: dict(keyed) for name, keyed in values.items() if keyed}
    return hashlib.sha256(canonical_json(content)).hexdigest() if content else ""


_RESERVED_FIELDS: Final = frozenset(
    {"agent_id", "domain", "event", "job_id", "level", "step_name", "target", "timestamp", "tool"}
)
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True)
class LogEvent:
    """Base of log events: a subclass is a frozen dataclass with fields that are texts, numbers,
    booleans or None.

    >>> from dataclasses import dataclass
    >>> from wavewright.tools import LogEvent
    >>> @dataclass(frozen=True)
    ... class PageRead(LogEvent):
    ...     url: str
    >>> PageRead("https://world.example/fen").url
    'https://world.example/fen'
    """

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
            ToolError: the class is no dataclass, or a value is neither text, number, boolean nor
                None.
        """
        if "__dataclass_fields__" not in vars(type(self)):
            raise ToolError(f"log event {type(self).__name__} is no dataclass")
        values: JsonObject = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str | int | float | None):
                raise ToolError(
                    f"field {field.name!r} of log event {self.event_name!r} is {type(value).__name__}, "
                    "not text, number, boolean or None"
                )
            values[field.name] = value
        return values


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of a long output, shown while the rest is still to come.

    >>> from wavewright.tools import TextChunk
    >>> TextChunk("The fen lies ").text
    'The fen lies '
    """

    text: str


Emit: TypeAlias = Callable[[LogEvent | TextChunk], None]
"""Type of the injected parameter `emit`, which takes log events and texts that are shown as output;
never waits.
"""
