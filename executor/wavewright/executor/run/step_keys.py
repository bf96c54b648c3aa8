"""The content of calls, hashed fast; the same as `planner.language.hashing.call_content`."""

from __future__ import annotations

import hashlib

from wavewright.executor.events.json_values import make_encoder
from wavewright.planner.types import CallContent, JsonObject

_canonical_text = make_encoder(sort_keys=True)


class ContentHasher:
    """Hashes the content of one tool's calls.

    The part of the hash that is the same for every call is computed once.
    """

    def __init__(self, tool: str, config: JsonObject | None) -> None:
        # The canonical text of a list is that of its parts, so it can be split around the
        # parameters.
        before = _canonical_text([tool])[:-1] + ","
        self._before = hashlib.sha256(before.encode("ascii"))
        self._after = "," + _canonical_text([config or {}])[1:]

    def content(self, params: JsonObject, data: str = "") -> CallContent:
        """Return the content of one call; `data` is the hash of the run data that it may read.

        Raises:
            ValueError: the parameters are not JSON.
        """
        digest = self._before.copy()
        after = self._after
        if data:
            after = f'{after[:-1]},{{"data":"{data}"}}]'
        digest.update((_canonical_text(params) + after).encode("ascii"))
        return CallContent(digest.hexdigest()[:32])
