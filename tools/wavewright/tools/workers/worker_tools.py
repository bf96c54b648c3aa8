"""A worker made into a tool.

A worker's version is a hash of everything that decides its questions, prompts included: with
another prompt it is another tool, and results of the old one are not reused.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from wavewright.planner import Json, JsonSchema, ToolSignature
from wavewright.planner.language.signatures import CallPolicy
from wavewright.planner.types import properties_of
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.functions.registry import check_freshness_field
from wavewright.tools.functions.tool import Tool, ToolCall
from wavewright.tools.workers.services import Services, declaration_version

if TYPE_CHECKING:
    from wavewright.tools.workers.specs import Worker, WorkerSpec


_DECLARATION_HINT = "fix its declaration; `wavewright schema worker` says what it may hold"
_SHARED_PROMPTS = ("workers/instructions", "workers/repair")


def make_worker(worker: Worker, services: Services) -> Tool:
    """Return a worker as a tool.

    A worker with a draft is that draft's tool, unchanged, where no model is configured.

    Raises:
        ToolDefinitionError: the declaration lacks its prompt or its output schema; the hint names
            the fix.
    """
    if worker.draft is not None and not services.has_model:
        return worker.draft
    spec = _complete_spec(worker)
    if spec.freshness_field is not None:
        check_freshness_field(spec.name, spec.freshness_field, spec.output_schema)
    expected_tokens = spec.expected_tokens
    if expected_tokens is None:
        expected_tokens = services.answer_tokens(spec.token_share)
    said: dict[str, Any] = {name: getattr(spec, name) for name in _SAID_OF_CALLS}
    signature = ToolSignature(
        **said,
        effects=frozenset({"read", "egress"}),
        idempotent=True,
        version=_version(worker, spec, services),
        expected_tokens=expected_tokens,
        model_preferences=(spec.model_preference,),
    )
    return Tool(signature, partial(_run_worker, worker, spec, services))


_SAID_OF_CALLS = (
    *CallPolicy.model_fields,
    *("name", "description", "input_schema", "output_schema", "typed_by"),
)
"""What a declaration says of calls in the words of a tool's signature."""


async def _run_worker(worker: Worker, spec: WorkerSpec, services: Services, call: ToolCall) -> Json:
    # What runs a worker is loaded when one runs, not when tools are listed.
    from wavewright.tools.workers.run import WorkerRun

    return await WorkerRun(worker, spec, services, call).run()


def _complete_spec(worker: Worker) -> WorkerSpec:
    """Return the declaration with the draft's schemas where it has none of its own."""
    spec = worker.spec
    changes: dict[str, JsonSchema] = {}
    if worker.draft is not None:
        of_code = worker.draft.signature
        if not spec.inputs:
            changes["input_schema"] = of_code.input_schema
        changes["output_schema"] = _with_fields(of_code.output_schema, spec.output_schema)
    output = changes.get("output_schema", spec.output_schema)
    if output.get("type") != "object":
        raise ToolDefinitionError(
            f"{_worker_label(worker)}: 'output_schema' must say `type: object`",
            hint="name the fields of its output, such as {type: object, properties: {answer: {type: string}}}",
        )
    try:
        completed = type(spec).model_validate({**dict(spec), **changes})
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ToolDefinitionError(
            f"{_worker_label(worker)}: {reason}", hint=_DECLARATION_HINT
        ) from error
    fault = replace(worker, spec=completed).missing_code()
    if fault is not None:
        raise ToolDefinitionError(f"{_worker_label(worker)}: {fault}", hint=_DECLARATION_HINT)
    return completed


def _worker_label(worker: Worker) -> str:
    """Return a worker's name for an error, with the file that declares it."""
    name = f"worker {worker.spec.name!r}"
    return name if worker.file is None else f"{worker.file}: {name}"


def _with_fields(base: JsonSchema, more: JsonSchema) -> JsonSchema:
    """Return the draft's schema with fields that only the model brings; none of them is required."""
    return (
        cast("JsonSchema", {**base, "properties": {**properties_of(base), **properties_of(more)}})
        if more
        else base
    )


def _version(worker: Worker, spec: WorkerSpec, services: Services) -> str:
    said = spec.model_dump(mode="json", exclude_defaults=True, exclude={"tags"})
    of_code = None if worker.draft is None else worker.draft.signature.version
    declared: list[Json] = [said, *sorted(spec.tags), of_code]
    if spec.cache_for is not None:
        # What code made without a model is no answer for later runs that have one.
        declared += [services.has_model, worker.code]
    used = (spec.prompt, *_SHARED_PROMPTS)
    return declaration_version(_worker_label(worker), declared, used, services.prompts)
