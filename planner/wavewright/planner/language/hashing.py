"""Names for content: plan hashes and step keys.

A *canonical* JSON text is the one text that stands for a value, so that equal values have equal
hashes in every process and on every machine. Integers and floats stay apart (`1` is not `1.0`):
expressions and tools can tell them apart, and of the two mistakes the harmless one is to call a
tool again.
"""

from __future__ import annotations

import hashlib
import json

from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, PlanHash, RunId, StepId, StepKey

# ASCII keeps a lone surrogate representable: hashing is total over whatever got past the reader.
_CANONICAL_ENCODER = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
)


def canonical_json(value: Json) -> bytes:
    """Return the canonical text of a value: keys sorted by code point, no blanks, ASCII.

    Raises:
        ValueError: the value holds NaN or an infinity, which are no JSON.
    """
    return _CANONICAL_ENCODER.encode(value).encode("ascii")


def content_hash(value: Json) -> str:
    """Return `sha256:<hex>` of a value's canonical text."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def plan_hash(plan: Plan) -> PlanHash:
    """Return the hash of what a plan does: everything but the prose (`goal`, `reasoning`, `why`).

    Fields that stand at their default count as absent, so spelling a default out changes nothing.
    """
    content = plan.model_dump(
        mode="json",
        by_alias=True,
        exclude_defaults=True,
        exclude={"goal": True, "reasoning": True, "steps": {"__all__": {"why": True}}},
    )
    return PlanHash(content_hash(content))


def freshness_bucket(signature: ToolSignature, *, now: float, run: RunId) -> Json:
    """Return what makes a result of this tool usable again: a stretch of time, or this run alone."""
    if signature.cache_for is None or signature.writes:
        return run
    period = int(now // signature.cache_for)
    # What other code made is no result of this tool, whatever its contract says.
    return [period, signature.code] if signature.code else period


def step_key(
    signature: ToolSignature,
    params: JsonObject,
    *,
    config: JsonObject | None,
    now: float,
    run: RunId,
    step: StepId,
    index: int | None = None,
    data: str = "",
) -> StepKey:
    """Return the key of one call: equal keys mean that one result serves both.

    Args:
        signature: The tool that is called.
        params: Its resolved parameters, without any `${…}`.
        config: What the goal says of the tool.
        now: The instant of the run, in seconds since the epoch.
        run: The run; part of the key where no other run may use the result.
        step: The step and `index` the item; part of the key of a tool that writes, because there
            two equal calls are two effects and not one.
        index: Position of the item of a `for_each` step.
        data: Hash of the run data that the call may read.
    """
    content: list[Json] = [
        signature.name,
        signature.version,
        params,
        config or {},
        freshness_bucket(signature, now=now, run=run),
    ]
    if signature.writes:
        content += [step, index]
    if data:
        content.append({"data": data})
    return StepKey(hashlib.sha256(canonical_json(content)).hexdigest())
