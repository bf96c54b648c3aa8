"""Names that are alike by the embeddings of a server, where the settings name one."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Final

import anyio
import httpx2
from pydantic import BaseModel, ValidationError

from wavewright.tools.functions.tool import ToolError
from wavewright.tools.knowledge.settings import EmbeddingSettings
from wavewright.tools.models.clients import guarded_client

MAX_EMBEDDED: Final = 2_000
"""Names of one call of `knowledge.merge_entities`; each is compared with each."""
_BATCH: Final = 200
"""Names of one request."""
_SECONDS: Final = 60.0
"""Of one request."""


class _Embedding(BaseModel):
    index: int
    embedding: list[float]


class _Embeddings(BaseModel):
    data: list[_Embedding]


async def embed(settings: EmbeddingSettings, names: Sequence[str]) -> list[list[float]]:
    """Return the vectors of names, each of length 1.

    Raises:
        ToolError: the server cannot be reached or gives no vector for a name; transient where it may do so later.
    """
    found: list[list[float]] = []
    key = os.environ.get(settings.key_env) if settings.key_env else None
    address = f"{settings.url.rstrip('/')}/embeddings"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with guarded_client() as client:
        for start in range(0, len(names), _BATCH):
            batch = [*names[start : start + _BATCH]]
            try:
                with anyio.fail_after(_SECONDS):
                    answer = await client.post(
                        address, json={"model": settings.model, "input": batch}, headers=headers
                    )
                answer.raise_for_status()
                entries = _Embeddings.model_validate_json(answer.content).data
            except (httpx2.HTTPError, TimeoutError, ValidationError) as error:
                is_refused = isinstance(error, ValidationError | httpx2.HTTPStatusError)
                raise ToolError(
                    f"{address} gave no embeddings: {str(error).splitlines()[0] if str(error) else 'no answer'}",
                    hint="check 'packs.knowledge.graph.embeddings', or leave it out",
                    transient=not is_refused or "Server error" in str(error),
                ) from error
            vectors = {one.index: one.embedding for one in entries}
            if {*vectors} != {*range(len(batch))} or len({*map(len, vectors.values())}) != 1:
                raise ToolError(
                    f"{address} gave {len(entries)} vectors for {len(batch)} names, or not all of one length",
                    hint="check 'model' of 'packs.knowledge.graph.embeddings'",
                )
            found += [_unit(vectors[place]) for place in range(len(batch))]
    return found


def nearest(vectors: Sequence[Sequence[float]], threshold: float) -> list[tuple[int, int, float]]:
    """Return the pairs of vectors of length 1 that are nearest to each other, with a similarity from the threshold on.

    The similarity is the cosine of their angle.
    """
    best: dict[int, tuple[float, int]] = {}
    for place, one in enumerate(vectors):
        for other in range(place):
            similarity = 1 - math.dist(one, vectors[other]) ** 2 / 2
            for here, there in ((place, other), (other, place)):
                if similarity > best.get(here, (threshold - 1e-9, 0))[0]:
                    best[here] = similarity, there
    return [
        (one, other, similarity)
        for one, (similarity, other) in best.items()
        if one < other and other in best and best[other][1] == one
    ]


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.hypot(*vector) or 1.0
    return [one / length for one in vector]
