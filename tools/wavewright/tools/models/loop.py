"""An agent's loop: a model calls tools, sees what they gave, and calls again until it answers.

The loop is the library's; its ends are ours. A call beyond a limit, of a tool that there is not, or with arguments
that are no JSON object is never made: the model is told instead. At the last question that the limits allow no tool
can be called, so that the model has to answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import pydantic_ai
from pydantic_ai import Agent, RunContext, StructuredDict, ToolOutput, UsageLimits, capture_run_messages
from pydantic_ai.exceptions import ToolFailed, UnexpectedModelBehavior, UsageLimitExceeded, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from wavewright.planner.memory import question_of
from wavewright.planner.model_port import (
    LoopLimits,
    LoopTool,
    LoopToolError,
    ModelAnswer,
    ModelCall,
    ModelChoice,
    ModelError,
    ModelErrorKind,
    ModelUse,
    OnUse,
    Outcome,
)
from wavewright.planner.types import Json
from wavewright.tools.models.asking import messages_of, what_is_sent
from wavewright.tools.models.characters import whole_json, whole_text
from wavewright.tools.models.faults import outcome_of
from wavewright.tools.models.remembering import kept_response, recalled_response, request_key
from wavewright.tools.models.structure import is_object, read_answer

if TYPE_CHECKING:
    from wavewright.tools.models.asking import ProviderModels
    from wavewright.tools.models.metering import Meter

Arguments: TypeAlias = dict[str, Any]
"""Arguments as the library reads them: JSON."""

_OUTPUT_RETRIES = 2
_JSON_OBJECT = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema(strict=True)))


async def work_in_loop(
    models: ProviderModels,
    call: ModelCall,
    tools: Sequence[LoopTool],
    limits: LoopLimits,
    on_use: OnUse | None,
) -> ModelAnswer:
    """Let a model call tools until it answers; its last words, where a limit ends the loop.

    Raises:
        ModelError: there is no answer, in the end.
    """
    call = models.without_secrets(call)
    choice = models.choose(call.preference, call.role)
    for name in choice.fallbacks:
        models.served(name)  # loads its provider's library, which is no part of the loop's time
    model = _LoopModel(models, choice, call, tools, limits, on_use)
    agent = _make_agent(model, _LoopToolset(tools, limits, models), models.settings_of(call))
    with capture_run_messages() as exchanged:
        try:
            with anyio.fail_after(call.timeout):
                await _run(agent, messages_of(call), limits)
        except ModelError as error:
            raise model.failed(error.kind, str(error), error.hint, error.retry_after) from None
        except UserError as error:
            # The library refuses what the model cannot do, a loop with tools for one.
            raise model.failed("denied", f"{choice.model} cannot work in a loop: {error.message}") from None
        except TimeoutError:
            seconds = f"{call.timeout:g} s" if call.timeout is not None else "time"
            raise model.failed("timeout", f"{choice.model} came to no end in {seconds}") from None
        except (UsageLimitExceeded, UnexpectedModelBehavior):
            """It has had its say."""
    return _last_words(models, model, exchanged, call)


def _make_agent(model: _LoopModel, toolset: _LoopToolset, settings: ModelSettings) -> Agent[object, object]:
    call = model.call
    # One run's greeting would end up in the middle of another program's output.
    pydantic_ai.BANNER_ENABLED = False
    has_tool = call.schema is not None and is_object(call.schema)
    output: ToolOutput[dict[str, Any]] | type[str] = _answer_tool(call.schema_name) if has_tool else str
    return Agent(
        model,
        output_type=output,
        instructions=whole_text(_instructions(call)) or None,
        toolsets=[toolset],
        retries={"tools": toolset.limits.requests, "output": _OUTPUT_RETRIES},
        end_strategy="early",
        model_settings=settings,
    )


async def _run(agent: Agent[object, object], said: list[ModelMessage], limits: LoopLimits) -> None:
    await agent.run(
        _last_prompt(said),
        message_history=said[:-1] or None,
        usage_limits=UsageLimits(request_limit=limits.requests),
    )


def _instructions(call: ModelCall) -> str:
    if call.schema is None or is_object(call.schema):
        return call.instructions
    form = json.dumps(call.schema, ensure_ascii=False)
    return f"{call.instructions}\n\nGive the answer as JSON that fits this schema, and nothing else:\n{form}"


def _answer_tool(name: str) -> ToolOutput[dict[str, Any]]:
    # Its schema is put in when it is sent: the library's own cannot hold one that refers to itself.
    return ToolOutput(
        StructuredDict({"type": "object", "additionalProperties": True}, name=name),
        name=name,
        description="Give the answer by calling this tool, once.",
    )


def _last_prompt(said: list[ModelMessage]) -> str:
    last = said[-1].parts[-1]
    return last.content if isinstance(last, UserPromptPart) and isinstance(last.content, str) else ""


def _last_words(
    models: ProviderModels, model: _LoopModel, exchanged: Sequence[ModelMessage], call: ModelCall
) -> ModelAnswer:
    """Return the last answer that says anything."""
    for message in reversed(exchanged):
        if not isinstance(message, ModelResponse):
            continue
        text, _ = read_answer(message, call.schema_name)
        if text.strip() and model.meter is not None:
            answer = models.answer_in(message, call, model.meter)
            return replace(answer, calls=(), use=model.summed(answer.use.outcome))
    raise model.failed(
        "bad_answer", f"{model.choice.model} called tools until its limit, and answered nothing"
    )


class _LoopModel(WrapperModel):
    """Makes each of the loop's requests a question of its own: metered, in a chain, with patience."""

    def __init__(
        self,
        models: ProviderModels,
        choice: ModelChoice,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        on_use: OnUse | None,
    ) -> None:
        super().__init__(models.served(choice.model).model)
        self.choice = choice
        self.meter: Meter | None = None
        self._models = models
        self.call = call
        self._frame = what_is_sent(replace(call, prompt="", turns=()), tools)
        self._limits = limits
        self._on_use = on_use
        self._uses: list[ModelUse] = []
        self._asked = 0

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return one answer of the loop.

        Raises:
            ModelError: there is none.
        """
        meter = self._models.meter(self.call, self.choice.model, self._frame + _text_of(messages))
        self.meter = meter
        self._asked += 1
        settings = self._told(model_settings)
        parameters = self._with_schema(model_request_parameters)
        run, memory = self.call.run, self._models.memory
        key = request_key(self.call, messages, settings, parameters)
        kept = memory.recall(run, key) if run is not None else None
        if kept is None:
            response = await self._answered(meter, messages, settings, parameters)
            redactor = self._models.redactor
            kept = kept_response(response, parameters, redactor)
            if run is not None:
                await memory.keep(run, key, kept, question_of(self.call, _text_of(messages), redactor))
        # Also where it was answered now: what follows is the same in a run that is resumed.
        return recalled_response(kept, parameters, f"{self._asked}")

    async def _answered(
        self,
        meter: Meter,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        chain = self._models.chain(self.choice, meter, is_formed=False)
        return await self._models.settled(
            meter,
            lambda: chain.request(messages, settings, parameters),
            self._models.settings.models.request_seconds,
            self._remember,
        )

    def summed(self, outcome: Outcome, message: str = "") -> ModelUse:
        """Return what the whole loop came to."""
        if not self._uses:
            asked = self._models.meter(self.call, self.choice.model, self._frame)
            return asked.use(outcome, message)
        prices = [one.usd for one in self._uses if one.usd is not None]
        return replace(
            self._uses[-1],
            outcome=outcome,
            message=message,
            input_tokens=sum(one.input_tokens for one in self._uses),
            output_tokens=sum(one.output_tokens for one in self._uses),
            usd=sum(prices) if len(prices) == len(self._uses) else None,
            seconds=sum(one.seconds for one in self._uses),
            attempts=sum(one.attempts for one in self._uses),
            is_estimated=any(one.is_estimated for one in self._uses),
        )

    def failed(
        self, kind: ModelErrorKind, message: str, hint: str | None = None, retry_after: float | None = None
    ) -> ModelError:
        """Return the error that the whole loop ends in."""
        use = self.summed(outcome_of(kind), message)
        return ModelError(kind, message, hint=hint, use=use, retry_after=retry_after)

    def _remember(self, use: ModelUse) -> None:
        self._uses.append(use)
        if self._on_use is not None:
            self._on_use(use)

    def _told(self, settings: ModelSettings | None) -> ModelSettings | None:
        is_last = self._asked >= self._limits.requests
        return merge_model_settings(settings, ModelSettings(tool_choice="none")) if is_last else settings

    def _with_schema(self, parameters: ModelRequestParameters) -> ModelRequestParameters:
        schema = self.call.schema
        if schema is None:
            return parameters
        answers = [replace(tool, parameters_json_schema=dict(schema)) for tool in parameters.output_tools]
        return replace(parameters, output_tools=answers)


@dataclass(eq=False)
class _LoopToolset(AbstractToolset[object]):
    """The tools of a loop; counts their calls and makes none too many."""

    tools: Sequence[LoopTool]
    limits: LoopLimits
    models: ProviderModels
    made: int = field(default=0)

    @property
    def id(self) -> str:
        """Name of the toolset, which the library asks for."""
        return "loop"

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:  # noqa: ARG002
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=dict(tool.input_schema),
                ),
                max_retries=self.limits.requests,
                args_validator=_JSON_OBJECT,
            )
            for tool in self.tools
        }

    async def call_tool(
        self,
        name: str,
        tool_args: Arguments,
        ctx: RunContext[object],  # noqa: ARG002
        tool: ToolsetTool[object],  # noqa: ARG002
    ) -> Json:
        if self.made >= self.limits.tool_calls:
            raise ToolFailed(
                f"Not called: {self.limits.tool_calls} calls are the most. Answer with what you have."
            )
        self.made += 1
        wanted = next(one for one in self.tools if one.name == name)
        redactor = self.models.redactor
        try:
            # Whatever calls a tool is shown and kept.
            output = await wanted.call(
                {key: _cleaned(value, redactor.redact) for key, value in tool_args.items()}
            )
        except LoopToolError as error:
            raise ToolFailed(whole_text(redactor.redact_known(str(error)))) from error
        return whole_json(_cleaned(output, redactor.redact_known))


def _cleaned(value: Json, clean: Callable[[str], str]) -> Json:
    """Return a value with each of its texts cleaned, those of names too."""
    match value:
        case str():
            return clean(value)
        case list():
            return [_cleaned(one, clean) for one in value]
        case dict():
            return {clean(key): _cleaned(one, clean) for key, one in value.items()}
        case _:
            return value


def _text_of(messages: Sequence[ModelMessage]) -> str:
    """Return what a conversation holds, for the estimate."""
    pieces: list[str] = []
    for message in messages:
        for part in message.parts:
            content = getattr(part, "content", None) or getattr(part, "args", None)
            if isinstance(content, str):
                pieces.append(content)
            elif content is not None:
                pieces.append(json.dumps(content, default=str, ensure_ascii=False))
    return "\n".join(pieces)
