"""The keys of calls, built fast; they equal those of `planner.language.hashing.step_key`."""

from __future__ import annotations

import hashlib

from wavewright.executor.events.json_values import make_encoder
from wavewright.planner.language.hashing import freshness_bucket, step_key
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import JsonObject, RunId, StepId, StepKey

_canonical_text = make_encoder(sort_keys=True)


class StepKeyBuilder:
    """Builds the keys of one tool's calls in one run; they equal those of
    `planner.language.hashing.step_key`.

    The part of the hash that is the same for every call is computed once.
    """

    def __init__(
        self, signature: ToolSignature, *, config: JsonObject | None, now: float, run: RunId
    ) -> None:
        self._signature = signature
        self._config = config
        self._now = now
        self._run = run
        self._writes = signature.writes
        # The canonical text of a list is that of its parts, so it can be split around the
        # parameters.
        self._before = hashlib.sha256(
            (_canonical_text([signature.name, signature.version])[:-1] + ",").encode("ascii")
        )
        bucket = freshness_bucket(signature, now=now, run=run)
        self._after = "," + _canonical_text([config or {}, bucket])[1:]

    def key(self, params: JsonObject, step: StepId, index: int | None, data: str = "") -> StepKey:
        """Return the key of one call; `data` is the hash of the run data that it may read.

        Raises:
            ValueError: the parameters are not JSON.
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
                data=data,
            )
        digest = self._before.copy()
        after = f'{self._after[:-1]},{{"data":"{data}"}}]' if data else self._after
        digest.update((_canonical_text(params) + after).encode("ascii"))
        return StepKey(digest.hexdigest())
