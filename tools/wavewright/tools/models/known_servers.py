"""What is known of servers of OpenAI's chat API that are not OpenAI's: how they can be asked for a
form, and how fast they are.

Such a server may hold an answer to a schema (`native`), know only tools, or neither; some accept a
schema and ignore it. So it is found out by a *probe*: a question of at most 30 tokens whose right
answer nobody would give unasked. What was found is kept in the user's cache folder
(`$XDG_CACHE_HOME/wavewright`, else `~/.cache/wavewright`) for a week, or for an hour where the
server failed over a better way, with the server's *pace*: the tokens that it reads and writes in a
second, by which its clock is set. A probe is charged to nobody.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import anyio
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from wavewright.config.atomic_files import FileNotWrittenError, write_atomically
from wavewright.planner import JsonSchema, find_json, validator_of
from wavewright.tools.models.endpoints import PROBE_NAME, PROBE_WORD, Endpoint
from wavewright.tools.models.errors import PROVIDER_ERRORS, fault_of
from wavewright.tools.models.messages import (
    OUTPUT_MODES,
    OutputMode,
    read_stream,
    split_response,
    structured_parameters,
    visible_text,
)

PROBE_TOKENS: Final = 30
PROBE_SECONDS: Final = 60.0
KEPT_SECONDS: Final = 7 * 86_400.0
"""How long what was found holds: a server may learn more by an upgrade."""
KEPT_AFTER_FAULT_SECONDS: Final = 3_600.0
"""How long it holds where the server failed over a better way: that may have been for a moment."""
MAX_KEPT: Final = 200
"""Servers that the file names, the latest."""
PATIENCE: Final = 5.0
"""Times the seconds that a server takes by its pace: how long it may be silent."""
_PROBE_SCHEMA: Final[JsonSchema] = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": [PROBE_WORD]}},
    "required": ["word"],
    "additionalProperties": False,
}


class KnownServer(BaseModel):
    """What is known of one model at one address."""

    model_config = ConfigDict(frozen=True)

    mode: OutputMode | None = None
    """The best way to ask it for a form."""
    read_per_second: Annotated[float, Field(gt=0)] | None = None
    """Tokens of a question."""
    written_per_second: Annotated[float, Field(gt=0)] | None = None
    """Tokens of an answer."""
    at: float = 0.0
    """When the mode was found, in seconds of the epoch."""
    has_failed: bool = False
    """Whether it failed over a better mode, and did not refuse it."""

    def knows_mode(self, now: float) -> bool:
        """Whether the mode that was found still holds."""
        lasts = KEPT_AFTER_FAULT_SECONDS if self.has_failed else KEPT_SECONDS
        return self.mode is not None and now - self.at < lasts

    def silent_seconds(self, tokens: int) -> float | None:
        """Return how long it may be silent over a question of so many tokens; None where its pace
        is not known.
        """
        if self.read_per_second is None or self.written_per_second is None:
            return None
        return PATIENCE * (tokens / self.read_per_second + 1 / self.written_per_second)


_KEPT = TypeAdapter(dict[str, KnownServer])


@dataclass(slots=True)
class ServerKnowledge:
    """What is known of the server of one model, from the file and by asking."""

    endpoint: Endpoint
    model: Model
    """Asked for the probe: without cassette."""
    _known: KnownServer | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def known(self) -> KnownServer:
        """What is known by now."""
        if self._known is None:
            self._known = _read().get(_key(self.endpoint), KnownServer())
        return self._known

    async def mode(self) -> OutputMode:
        """Return the best way to ask for a form, by a probe where it is not known.

        A server that cannot be reached gets no probe that counts: the question itself will tell.
        """
        async with self._lock:
            known = self.known
            if known.mode is not None and known.knows_mode(time.time()):
                return known.mode
            found = await probe(self.endpoint, self.model)
            if found is None:
                return "native"
            self._keep(known.model_copy(update={**found._asdict(), "at": time.time()}))
            return found.mode

    def measure(self, read: int, read_seconds: float, written: int, written_seconds: float) -> None:
        """Note how long an answer took: until it began, and from there to its end."""
        if min(read_seconds, written_seconds) <= 0 or min(read, written - 1) <= 0:
            return
        reading, writing = read / read_seconds, (written - 1) / written_seconds
        known = self.known
        is_new = known.read_per_second is None
        if known.read_per_second is not None:
            # A question of which a part was read before is no measure of a slower one.
            reading = min(reading, 1.2 * known.read_per_second)
        pace = {"read_per_second": reading, "written_per_second": writing}
        self._known = known.model_copy(update=pace)
        if is_new:
            self._keep(self._known)

    def _keep(self, known: KnownServer) -> None:
        self._known = known
        servers = _read()
        servers.pop(_key(self.endpoint), None)
        servers[_key(self.endpoint)] = known
        _write(dict([*servers.items()][-MAX_KEPT:]))


class ProbedMode(NamedTuple):
    """The best way to ask a server for a form."""

    mode: OutputMode
    has_failed: bool = False
    """Whether the server failed over a better way, as it may for a moment."""


async def probe(endpoint: Endpoint, model: Model) -> ProbedMode | None:
    """Return the best way to ask a server for a form; None where it gave no answer at all."""
    has_failed = False
    for mode in OUTPUT_MODES:
        if mode == "prompted" and not has_failed:
            break
        try:
            with anyio.fail_after(PROBE_SECONDS):
                # As a stream, which is how questions are asked: some servers have nothing else.
                async with model.request_stream(
                    [ModelRequest(parts=[UserPromptPart("Name a colour, in one word.")])],
                    ModelSettings(max_tokens=PROBE_TOKENS, temperature=0.0),
                    structured_parameters(_PROBE_SCHEMA, PROBE_NAME, mode),
                ) as stream:
                    response, _ = await read_stream(stream, None, None, lambda: None)
        except TimeoutError:
            return None
        except PROVIDER_ERRORS as error:
            fault = fault_of(error, endpoint.name, "")
            if not fault.may_be_of_form or mode == "prompted":
                return None
            # It may be out of order altogether: then it does not answer in words either.
            has_failed |= fault.is_of_provider
            continue
        if _is_held(response, mode):
            return ProbedMode(mode, has_failed)
        if _is_undecided(response):
            # The form was accepted, and all tokens went into thinking.
            return None
    return ProbedMode("prompted", has_failed)


def _is_held(response: ModelResponse, mode: OutputMode) -> bool:
    text, _ = split_response(response, PROBE_NAME)
    if mode == "tool" and not any(isinstance(part, ToolCallPart) for part in response.parts):
        return False
    accepts = validator_of(_PROBE_SCHEMA).accepts
    return any(accepts(found.value) for found in find_json(text).values)


def _is_undecided(response: ModelResponse) -> bool:
    has_called = any(isinstance(part, ToolCallPart) for part in response.parts)
    return not has_called and not visible_text(response).strip()


# --- the file


def _file() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "wavewright" / "model-servers.json"


def _key(endpoint: Endpoint) -> str:
    return f"{endpoint.shown_address} {endpoint.name}"


def _read() -> dict[str, KnownServer]:
    """Return the servers that the file names; none where it cannot be read."""
    try:
        return _KEPT.validate_json(_file().read_bytes())
    except (OSError, RuntimeError, ValidationError):
        return {}


def _write(servers: dict[str, KnownServer]) -> None:
    """Replace the file; where that cannot be, a server is probed again the next time."""
    with suppress(FileNotWrittenError, RuntimeError):
        write_atomically(_file(), _KEPT.dump_json(servers, exclude_none=True))
