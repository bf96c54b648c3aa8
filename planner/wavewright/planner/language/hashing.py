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
from wavewright.planner.types import (
    CallContent,
    Json,
    JsonObject,
    PlanHash,
    RunId,
    StepId,
    StepKey,
)

# ASCII keeps a lone surrogate representable: hashing is total over whatever got past the reader.
_CANONICAL_ENCODER = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
)


def canonical_json(value: Json) -> bytes:
    r"""Return the canonical text of a value: keys sorted by code point, no blanks, ASCII.

    Raises:
        ValueError: the value holds NaN or an infinity, which are no JSON.

    >>> from wavewright.planner import canonical_json
    >>> canonical_json({"b": 1, "a": "é"})
    b'{"a":"\\u00e9","b":1}'
    """
    return _CANONICAL_ENCODER.encode(value).encode("ascii")


def content_hash(value: Json) -> str:
    """Return `sha256:<hex>` of a value's canonical text.

    >>> from wavewright.planner import content_hash
    >>> content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
    True
    """
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def plan_hash(plan: Plan) -> PlanHash:
    """Return the hash of what a plan does: everything but the prose (`goal`, `reasoning`, `why`)
    and `previous`, which is what an earlier run gave.

    Fields that stand at their default count as absent, so spelling a default out changes nothing.

    >>> from wavewright.planner import Plan, Step, plan_hash
    >>> plain = Plan(steps=(Step(id="a", tool="rank"),))
    >>> explained = Plan(reasoning="It is short.", steps=(Step(id="a", tool="rank", why="Once."),))
    >>> plan_hash(plain) == plan_hash(explained)
    True
    """
    content = plan.model_dump(
        mode="json",
        by_alias=True,
        exclude_defaults=True,
        exclude={
            "goal": True,
            "reasoning": True,
            "previous": True,
            "steps": {"__all__": {"why": True}},
        },
    )
    return PlanHash(content_hash(content))


def step_key(
    tool: str,
    params: JsonObject,
    *,
    config: JsonObject | None,
    run: RunId,
    step: StepId,
    nth: int = 0,
    data: str = "",
) -> StepKey:
    """Return the key of one call of a run: its content, and its place.

    The version of the tool is no part of it, so a call that has ended in a run is the same call
    after the tool's code has changed.

    Args:
        tool: Name of the tool that is called.
        params: Its resolved parameters, without any `${…}`.
        config: What the goal says of the tool.
        run: The run; of a retry, the run whose calls it repeats.
        step: The step that makes the call.
        nth: How many items before this one make a call with the same content. Items are told apart
            by that and not by their index, so a list may be reordered between a run and its retry.
        data: Hash of the run data that the call may read.

    Raises:
        ValueError: the parameters are not JSON.

    >>> from wavewright.planner import step_key
    >>> first = step_key("pay", {"to": "alice"}, config=None, run="r1", step="a")
    >>> first == step_key("pay", {"to": "mallory"}, config=None, run="r1", step="a")
    False
    """
    return placed_key(call_content(tool, params, config=config, data=data), run, step, nth)


def call_content(
    tool: str, params: JsonObject, *, config: JsonObject | None, data: str = ""
) -> CallContent:
    """Return the hash of what a call asks of its tool; equal calls have an equal content.

    Raises:
        ValueError: the parameters are not JSON.
    """
    content: list[Json] = [tool, params, config or {}]
    if data:
        content.append({"data": data})
    return CallContent(_short_hash(canonical_json(content)))


def placed_key(content: CallContent, run: RunId, step: StepId, nth: int = 0) -> StepKey:
    """Return the key of a call with this content."""
    return StepKey(f"{content}-{_short_hash(canonical_json([run, step, nth]))}")


def content_of(key: StepKey) -> CallContent:
    """Return the content of the call that has a key."""
    return CallContent(key.partition("-")[0])


def cache_key(
    signature: ToolSignature, content: CallContent, *, now: float, cache_for: float
) -> StepKey:
    """Return the key under which other runs find the result of a call, for a stretch of time.

    The tool's version and its code are a part of it: what another version made is another result.
    """
    stretch = int(now // cache_for)
    made_by = [signature.version, signature.code]
    return StepKey(_short_hash(canonical_json([content, *made_by, stretch])))


def _short_hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:32]
