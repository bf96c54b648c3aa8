"""What workers need from outside (models, prompts, ladders and settings), and a worker made into a
tool with that.

*Services* are made once for a run. Without models they still describe every worker, so a plan can
be checked, listed and dry-run where no model is configured. Where a worker has no answer the step
fails with a `ToolError` that names the fix.

A worker's version is a hash of everything that decides its questions, prompts included: with
another prompt it is another tool, and results of the old one are not reused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from wavewright.config.errors import did_you_mean
from wavewright.config.settings import Settings
from wavewright.planner.language.goals import AvailableTool, Goal, ThinkingLevel
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.language.plan import Limits
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.ports.asking import Asking
from wavewright.planner.ports.replay_cache import NULL_REPLAY_CACHE, ReplayCache
from wavewright.planner.types import Json, JsonSchema
from wavewright.prompts.templates import SUFFIX
from wavewright.tools.functions.errors import ToolDefinitionError, ToolError
from wavewright.tools.functions.registry import check_freshness_field
from wavewright.tools.functions.schemas import properties
from wavewright.tools.functions.tool import MODEL_HINT, Tool, ToolCall
from wavewright.tools.pack_folders import project_prompts

if TYPE_CHECKING:
    from wavewright.planner.ports.asking import OnRefused
    from wavewright.planner.ports.budgets import InspectableBudgetStore
    from wavewright.planner.ports.fallback_ladder import Ladder, RungRecord
    from wavewright.planner.ports.model_port import ModelClient, ModelError, OnText, OnUse
    from wavewright.prompts import Prompts
    from wavewright.tools.functions.tool import Runtime, ServerCaller
    from wavewright.tools.workers.specs import Worker, WorkerSpec


WORKER_LADDER = "worker"


@dataclass(frozen=True, slots=True)
class Services:
    """Whom workers ask, and within which bounds."""

    models: ModelClient | None
    """None where no model is configured, or where nothing is to be called."""
    prompts: Prompts
    ladder: Callable[[str], Ladder]
    """Returns a ladder by its name; raises `DocumentError` where the settings' ladders are faulty.
    """
    budget_store: InspectableBudgetStore | None = None
    """Keeps the budgets of models, and how long calls took, for adaptive timeouts; None without
    models to call.
    """
    has_model: bool = False
    """Whether a model is configured: decides what a worker's signature says of its effects."""
    worker_tokens: int = 50_000
    """What workers share out by their `token_share`."""
    max_output_tokens: int = 16_000
    """Ceiling of one answer."""
    preference: str = "auto"
    """The goal's model preference, for workers that have none of their own."""
    thinking: ThinkingLevel = "medium"
    """The goal's thinking level, likewise."""
    limits: Limits = field(default_factory=Limits)
    """The goal's limits, for the calls of agents."""
    goal_tools: Mapping[str, AvailableTool] = field(default_factory=dict[str, "AvailableTool"])
    """What the goal says of its tools."""
    memory: ReplayCache = NULL_REPLAY_CACHE
    """What the run was answered before it was interrupted."""

    mcp: ServerCaller | None = None
    """Calls tools of MCP servers; None where nothing is to be called."""
    runtime: Runtime | None = None
    """Makes the calls of runs; None where their own process does."""

    def for_goal(self, goal: Goal) -> Services:
        """Return the same services with what a goal says of models."""
        return replace(
            self,
            preference=goal.model_preference,
            thinking=goal.thinking_level,
            limits=goal.limits,
            goal_tools={tool.name: tool for tool in goal.tools},
        )

    def asking(
        self,
        ladder: str,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
        on_rung: Callable[[RungRecord], None] | None = None,
        on_refused: OnRefused | None = None,
    ) -> Asking:
        """Return what questions down a ladder need.

        Raises:
            DocumentError: the settings' ladders are faulty.
        """
        return Asking(
            models=self.models,
            prompts=self.prompts,
            ladder=self.ladder(ladder),
            history=self.budget_store,
            on_use=on_use,
            on_text=on_text,
            on_rung=on_rung,
            on_refused=on_refused,
        )

    def answer_tokens(self, share: float) -> int:
        """Return the ceiling of an answer that may take this share of the workers' tokens."""
        return max(1, min(round(share * self.worker_tokens), self.max_output_tokens))


def make_services(
    settings: Settings,
    models: ModelClient | None = None,
    budget_store: InspectableBudgetStore | None = None,
    memory: ReplayCache = NULL_REPLAY_CACHE,
) -> Services:
    """Return the services of a project; without models they only describe workers, and run those
    that need none.
    """

    @cache  # read when one is first asked for: listing tools does not wait for that
    def ladders() -> Mapping[str, Ladder]:
        from wavewright.planner.ports.fallback_ladder import read_ladders

        return read_ladders(settings.ladders, settings.document)

    def ladder(name: str) -> Ladder:
        return ladders()[name]

    return Services(
        models=models,
        prompts=project_prompts(settings.prompts),
        ladder=ladder,
        budget_store=budget_store,
        has_model=settings.model is not None,
        worker_tokens=settings.models.worker_tokens,
        max_output_tokens=settings.models.max_output_tokens,
        memory=memory,
    )


STRONGER_MODEL_HINT = "ask for less in one call, or set 'model_preference' to a stronger model"


def no_model_error(name: str) -> ToolError:
    """Return the error of a worker for which no rung gives an answer."""
    return ToolError(f"{name!r} needs a model, and none is configured", hint=MODEL_HINT)


def model_tool_error(error: ModelError, name: str, hint: str | None = None) -> ToolError:
    """Return a model's error as a tool's: what may pass stays passing, and the hint stays."""
    return ToolError(
        f"{name!r} has no answer from its model: {error}",
        transient=error.is_transient,
        hint=error.hint or _HINTS.get(error.kind, hint),
        retry_after=error.retry_after,
    )


def ladder_tool_error(
    records: Sequence[RungRecord],
    name: str,
    error: ModelError | None,
    hint: str = STRONGER_MODEL_HINT,
) -> ToolError:
    """Return why no rung gave anything; the model's own error where there was one, `hint` where it
    names none.
    """
    if error is not None:
        return model_tool_error(error, name, hint if error.kind in _TASK_ERROR_KINDS else None)
    if not records:
        return no_model_error(name)
    reasons = "; ".join(f"{record.rung}: {record.reason}" for record in records)
    return ToolError(f"{name!r} has no usable answer: {reasons}", hint=hint)


_TASK_ERROR_KINDS = frozenset({"bad_answer", "timeout"})
"""Kinds of errors behind which the work may stand, and not the provider alone."""
_HINTS = {
    "over_budget": "raise the budget under 'budgets', or the step's own",
    "over_context": "pass less, or lower 'max_input_chars' of the worker",
    "refused": "the model declined: change the text or the instructions, or ask another model",
    "denied": "check the model's key, and what it may be used for",
}


_DECLARATION_HINT = "fix its declaration; `wavewright schema worker` says what it may hold"
_INCLUDE_TAG = re.compile(r"""\{%-?\s*(?:include|extends|import|from)\s+["']([^"']+)["']""")
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
    signature = ToolSignature(
        name=spec.name,
        description=spec.description,
        input_schema=spec.input_schema,
        output_schema=spec.output_schema,
        effects=frozenset({"read", "egress"}),
        idempotent=True,
        deterministic=spec.deterministic,
        version=_version(worker, spec, services),
        tags=spec.tags,
        expected_seconds=spec.expected_seconds,
        expected_tokens=(
            services.answer_tokens(spec.token_share)
            if spec.expected_tokens is None
            else spec.expected_tokens
        ),
        timeout=spec.timeout,
        retry=spec.retry,
        concurrency=spec.concurrency,
        max_items=spec.max_items,
        freshness_field=spec.freshness_field,
        cache_for=spec.cache_for,
        needs_approval=spec.needs_approval,
        typed_by=spec.typed_by,
    )
    return Tool(signature, partial(_run_worker, worker, spec, services))


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
        cast("JsonSchema", {**base, "properties": {**properties(base), **properties(more)}})
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


def declaration_version(user: str, said: Json, used: Sequence[str], prompts: Prompts) -> str:
    """Return a short hash of a declaration and of the prompts that it uses, with those that they
    include.

    `user` is what the prompts belong to, in the words of an error.

    Raises:
        ToolDefinitionError: there is no such prompt, or it cannot be read.
    """
    digest = hashlib.sha256(canonical_json(said))
    texts: dict[str, bytes] = {}
    for prompt in used:
        if prompts.file_of(prompt) is None:
            near = did_you_mean(prompt, prompts.names())
            looked = ", ".join(str(folder) for folder in prompts.folders)
            raise ToolDefinitionError(
                f"{user}: there is no prompt {prompt!r}",
                hint=near or f"write {prompt}{SUFFIX} in one of {looked}",
            )
        try:
            _add_texts(prompt, prompts, texts)
        except OSError as error:
            raise ToolDefinitionError(
                f"{user}: the prompt {prompt!r} cannot be read: {error.strerror}",
                hint=f"check {prompts.file_of(prompt)}",
            ) from error
    for text in texts.values():
        digest.update(b"\0" + text)
    return digest.hexdigest()[:12]


def _add_texts(prompt: str, prompts: Prompts, texts: dict[str, bytes]) -> None:
    """Add the text of a prompt and of all that it includes; what is not there is told when it is
    rendered.
    """
    file = prompts.file_of(prompt)
    if prompt in texts or file is None:
        return
    texts[prompt] = file.read_bytes()
    for included in _INCLUDE_TAG.findall(texts[prompt].decode(errors="replace")):
        _add_texts(included.removesuffix(SUFFIX), prompts, texts)
