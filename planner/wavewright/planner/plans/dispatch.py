"""Tools that data chooses: a step with `dispatch` calls each of a list of `{tool, params}`.

The calls are items of a `for_each` step, and what is called is the *union* of the tools that the
step names: `dispatch.a.b` takes one call of `a` or of `b`, with the parameters of that tool. So the
checker knows effects, trust and types before anything runs, and each call is validated, journaled,
approved and tried again as any other. See docs/explanation/semantics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wavewright.planner.language.hashing import content_hash
from wavewright.planner.language.plan import (
    DISPATCH,
    DISPATCHED_CALL,
    Retry,
    dispatched_tools,
)
from wavewright.planner.language.signatures import (
    INSTRUCTIONS,
    NOT_DISPATCHED,
    ToolSignature,
    ToolSignatures,
)
from wavewright.planner.schemas.views import (
    compose_schema,
    scoped_schema,
    self_contained_schema,
)
from wavewright.planner.types import Effect, Json, JsonSchema, as_object


def undispatchable(signature: ToolSignature) -> bool:
    """Whether data cannot choose a tool: it asks a person, is a model with tools, or is such a choice."""
    name = signature.name
    return name in NOT_DISPATCHED or name.split(".", 1)[0] == DISPATCH or "--" in name


def with_dispatched(names: Iterable[str], tools: ToolSignatures) -> ToolSignatures:
    """Return signatures, with those of the unions among these names whose tools are all there."""
    unions = dict[str, ToolSignature]()
    for name in names:
        parts = [tools.get(part) for part in dispatched_tools(name)]
        known = [part for part in parts if part is not None and not undispatchable(part)]
        if parts and name not in tools and len(known) == len(parts):
            unions[name] = dispatch_signature(name, known)
    return {**tools, **unions} if unions else tools


def dispatch_signature(name: str, tools: Sequence[ToolSignature]) -> ToolSignature:
    """Return what is known of a call that is one of any of these tools: of each quality the one
    that promises least.
    """
    call = frozenset({DISPATCHED_CALL})
    shared = frozenset(tools[0].tags).intersection(*(tool.tags for tool in tools))
    kept_for = [tool.cache_for for tool in tools if tool.cache_for is not None]
    at_once = [tool.concurrency for tool in tools if tool.concurrency is not None]
    return ToolSignature(
        name=name,
        description=f"Make calls that data chooses, of {', '.join(tool.name for tool in tools)}.",
        input_schema={
            "type": "object",
            "properties": {DISPATCHED_CALL: call_schema(tools)},
            "required": [DISPATCHED_CALL],
            "additionalProperties": False,
        },
        output_schema=_output_schema(tools),
        effects=frozenset[Effect]().union(*(tool.effects for tool in tools)),
        idempotent=all(tool.idempotent for tool in tools),
        version=content_hash([[tool.name, tool.version] for tool in tools])[7:19],
        tags=shared,
        expected_seconds=max(tool.expected_seconds for tool in tools),
        expected_tokens=max(tool.expected_tokens for tool in tools),
        timeout=max(tool.timeout for tool in tools),
        retry=_retry(tools),
        concurrency=min(at_once, default=None),
        max_items=min(tool.max_items for tool in tools),
        deterministic=all(tool.deterministic for tool in tools),
        cache_for=min(kept_for) if len(kept_for) == len(tools) else None,
        needs_approval=any(tool.needs_approval for tool in tools),
        untrusted_output=any(tool.brings_untrusted for tool in tools),
        accepts_untrusted=call if all(map(_takes_text, tools)) else frozenset(),
        destination=call if any(tool.destination for tool in tools) else frozenset(),
        reads_data=frozenset[str]().union(*(tool.reads_data for tool in tools)),
        writes_data=frozenset[str]().union(*(tool.writes_data for tool in tools)),
        calls_agents=frozenset[str]().union(*(tool.calls_agents for tool in tools)),
        code=content_hash([tool.code for tool in tools]),
    )


def _takes_text(tool: ToolSignature) -> bool:
    """Whether untrusted text may be in any parameter of a tool."""
    if tool.only_asks_model and tool.name not in INSTRUCTIONS:
        return True
    return tool.accepts_untrusted >= _parameters(tool) - tool.allowed_hosts.keys()


def _parameters(tool: ToolSignature) -> frozenset[str]:
    properties = tool.input_schema.get("properties")
    return frozenset(properties) if isinstance(properties, dict) else frozenset({"?"})


def _retry(tools: Sequence[ToolSignature]) -> Retry:
    """Return the rule of the tool that is tried least often, for the kinds that all try again."""
    least = min(tools, key=lambda tool: tool.retry.attempts).retry
    kinds = tuple(kind for kind in least.on if all(kind in tool.retry.on for tool in tools))
    return least.model_copy(update={"on": kinds})


def call_schema(tools: Sequence[ToolSignature]) -> JsonSchema:
    """Return the JSON Schema of one call of any of these tools: `{tool, params}`."""

    def build(inputs: list[Json]) -> JsonSchema:
        return _one_of(
            {
                "type": "object",
                "description": tool.description,
                "properties": {"tool": {"const": tool.name}, "params": params},
                "required": ["tool", "params"] if as_object(params).get("required") else ["tool"],
                "additionalProperties": False,
            }
            for tool, params in zip(tools, inputs, strict=True)
        )

    return _composed([tool.input_schema for tool in tools], build)


def _output_schema(tools: Sequence[ToolSignature]) -> JsonSchema:
    def build(outputs: list[Json]) -> JsonSchema:
        return _one_of(
            {
                "type": "object",
                "properties": {"tool": {"const": tool.name}, "output": output},
                "required": ["tool", "output"],
                "additionalProperties": False,
            }
            for tool, output in zip(tools, outputs, strict=True)
        )

    return _composed([tool.output_schema for tool in tools], build)


def _composed(
    schemas: Sequence[JsonSchema], build: Callable[[list[Json]], JsonSchema]
) -> JsonSchema:
    """Return a schema made of others, with what their references lead to."""
    places = [scoped_schema(schema) for schema in schemas]
    return self_contained_schema(compose_schema(places, build))


def _one_of(schemas: Iterable[JsonSchema]) -> JsonSchema:
    branches: list[Json] = [*schemas]
    first = branches[0]
    return first if len(branches) == 1 and isinstance(first, dict) else {"anyOf": branches}
