"""Step keys of many calls of one tool.

What is the same for every call of a tool in one run is hashed once; each call adds its parameters. The result is
`planner.hashing.step_key`'s to the letter.
"""

from __future__ import annotations

import hashlib

from wavewright.executor.json_text import make_encoder
from wavewright.planner.hashing import freshness_bucket, step_key
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import JsonObject, RunId, StepId, StepKey

_canonical_text = make_encoder(sort_keys=True)


class StepKeyBuilder:
    """Makes the keys of one tool's calls in one run."""

    def __init__(
        self, signature: ToolSignature, *, config: JsonObject | None, now: float, run: RunId
    ) -> None:
        self._signature = signature
        self._config = config
        self._now = now
        self._run = run
        self._writes = signature.writes
        # The canonical text of a list is its parts' texts, so it can be cut around the parameters.
        self._before = hashlib.sha256(
            (_canonical_text([signature.name, signature.version])[:-1] + ",").encode("ascii")
        )
        bucket = freshness_bucket(signature, now=now, run=run)
        self._after = "," + _canonical_text([config or {}, bucket])[1:]

    def key(self, params: JsonObject, step: StepId, index: int | None) -> StepKey:
        """Return the key of one call.

        Raises:
            ValueError: the parameters are no JSON.
        """
        if self._writes:
            return step_key(
                self._signature,
                params,
                config=self._config,
                now=self._now,
                run=self._run,
                step=step,
                index=index,
            )
        digest = self._before.copy()
        digest.update((_canonical_text(params) + self._after).encode("ascii"))
        return StepKey(digest.hexdigest())
