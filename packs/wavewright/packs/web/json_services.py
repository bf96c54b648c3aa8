"""One request that is to be answered with JSON, and every way in which it is not.

The answer's text never reaches a message (it is not trusted), nor does the address with its key:
messages name the service and the status. Failures that another attempt may overcome are marked
transient.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import urlencode

from wavewright.packs.web.addresses import AddressRefused, WebAddress, place_of
from wavewright.planner import Json, JsonObject
from wavewright.tools import ToolError

if TYPE_CHECKING:
    from wavewright.packs.web.guarded_client import StatusError

MAX_RESPONSE_BYTES = 32 * 2**20

_ADDRESS_HINT = "check the address in the settings and the network"


Admit: TypeAlias = Callable[[WebAddress], Awaitable[None]]
"""Awaited before a request; it limits rates by waiting."""


async def fetch_json(
    url: str,
    *,
    service: str,
    seconds: float,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    body: JsonObject | None = None,
    admit: Admit | None = None,
) -> Json:
    """Return the JSON that a service answers with.

    Args:
        url: Address of the service; its host may be a private one, since the settings name it.
        service: What messages call it.
        seconds: Seconds that it has for its answer.
        params: Put into the query.
        headers: Sent beside the client's own.
        body: Posted as JSON; the request is a GET where it is absent.
        admit: Awaited before the request.

    Raises:
        ToolError: it cannot be reached, refuses, or answers with something else.
    """
    from wavewright.packs.web.guarded_client import GuardedClient, StatusError, admit_all

    try:
        client = GuardedClient(
            allowed=[place_of(url)],  # the operator wrote it
            max_bytes=MAX_RESPONSE_BYTES,
            seconds=seconds,
            max_redirects=0,
            shown=service,
        )
        answer = await client.get(
            f"{url}?{urlencode(params)}" if params else url,
            headers={"Accept": "application/json", **(headers or {})},
            accept=None,
            admit=admit or admit_all,
            body=body,
        )
    except StatusError as error:
        raise _with_hint(error) from None
    except AddressRefused:
        # Its message names the address with its key.
        raise ToolError(f"{service} has an address that is refused", hint=_ADDRESS_HINT) from None
    except ToolError as error:
        # So does the chain of errors.
        raise ToolError(
            str(error),
            transient=error.transient,
            hint=error.hint or _ADDRESS_HINT,
            retry_after=error.retry_after,
        ) from None
    return _decoded(answer.content, service)


def key_from_environment(name: str, *, service: str) -> str:
    """Return a key by the name of its environment variable.

    Raises:
        ToolError: the variable is not set.
    """
    key = os.environ.get(name, "").strip()
    if not key:
        raise ToolError(
            f"{service} needs a key, and the environment variable {name} is not set",
            hint=f"export {name}=…",
        )
    return key


def _with_hint(error: StatusError) -> ToolError:
    if error.transient or error.status >= 500:
        after = "" if error.retry_after is None else f"; it asks to wait {error.retry_after:g} s"
        return ToolError(
            f"{error}{after}", transient=True, hint="try again later", retry_after=error.retry_after
        )
    hints = {
        401: "check the key in the environment",
        402: "the key's plan does not cover this",
        403: "check what the key may read",
        404: "it does not know what was asked for; check the code and the suffix",
    }
    moved = (
        "it answers from another address; set that one in the settings"
        if error.status < 400
        else None
    )
    return ToolError(str(error), hint=hints.get(error.status, moved))


def _decoded(content: bytes, service: str) -> Json:
    start = content.lstrip()[:1]
    if not start:
        raise ToolError(f"{service} answered with nothing", transient=True)
    try:
        return cast("Json", json.loads(content))
    except (ValueError, RecursionError):
        kind = "a page" if start == b"<" else "text"
        raise ToolError(
            f"{service} answered with {kind} and not with JSON",
            hint="check the address in the settings: it may lead to a log-in page or a proxy",
        ) from None
