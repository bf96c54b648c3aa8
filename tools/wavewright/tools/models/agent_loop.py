"""The loop of an agent: a model calls tools, reads their outputs, and calls again until it answers.

pydantic-ai runs the loop; the limits are ours. A call beyond a limit, of an unknown tool, or with
arguments that are no JSON object is not made: the model receives the reason instead. In the last
request that the limits allow tools are disabled, so the model has to answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import anyio
import pydantic_ai
from pydantic_ai import (
    Agent,
    RunContext,
    StructuredDict,
    ToolOutput,
    UsageLimits,
    capture_run_messages,
)
from pydantic_ai.exceptions import (
    ToolFailed,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from wavewright.planner import Json, ModelAnswer
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.planning.typed_answers import fitting, read_text
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    LoopToolError,
    ModelCall,
    ModelChoice,
    ModelError,
    ModelErrorKind,
    ModelOutcome,
    ModelUse,
    OnText,
    OnUse,
    model_question,
)
from wavewright.tools.models.errors import outcome_of
from wavewright.tools.models.messages import (
    StreamRedactor,
    encodable_json,
    encodable_text,
    is_object,
    messages_of,
    request_key,
    response_from_json,
    response_to_json,
    sent_text,
    split_response,
    visible_text,
)
from wavewright.tools.models.metered_models import MeteredModels
from wavewright.tools.models.metering import UsageTracker, sum_prices

Arguments: TypeAlias = dict[str, Any]
"""Arguments as the library reads them: JSON."""

_OUTPUT_RETRIES = 2
_JSON_OBJECT = SchemaValidator(
    core_schema.dict_schema(keys_schema=core_schema.str_schema(strict=True))
)


async def run_agent_loop(
    models: MeteredModels,
    call: ModelCall,
    tools: Sequence[LoopTool],
    limits: LoopLimits,
    on_use: OnUse | None,
    on_text: OnText | None = None,
) -> ModelAnswer:
    """Let a model call tools until it answers; return its last text where a limit ends the loop.

    Raises:
        ModelError: there is no answer, in the end.
    """
    call = models.redacted_call(call)
    choice = models.choose(call.preference, call.role)
    for name in choice.fallbacks:
        # Loads the provider's library, which must not count towards the time of the loop.
        models.served_model(name)
    said = messages_of(call)
    model = _LoopModel(_Loop(models, choice, call, tools, limits, on_use, on_text))
    agent = _make_agent(model)
    with capture_run_messages() as exchanged:
        try:
            with anyio.fail_after(call.timeout):
                await agent.run(
                    _last_prompt(said),
                    message_history=said[:-1] or None,
                    usage_limits=UsageLimits(request_limit=limits.requests),
                )
        except ModelError as error:
            raise model.failed(error.kind, str(error), error.hint, error.retry_after) from None
        except UserError as error:
            # The library refuses what the model cannot do, a loop with tools for one.
            raise model.failed(
                "denied", f"{choice.model} cannot work in a loop: {error.message}"
            ) from None
        except TimeoutError:
            seconds = f"{call.timeout:g} s" if call.timeout is not None else "time"
            raise model.failed("timeout", f"{choice.model} came to no end in {seconds}") from None
        except (UsageLimitExceeded, UnexpectedModelBehavior):
            """It has had its say."""
    return _last_answer(model, exchanged)


@dataclass(frozen=True, slots=True)
class _Loop:
    """What one loop asks, whom, and within which bounds."""

    models: MeteredModels
    choice: ModelChoice
    call: ModelCall
    tools: Sequence[LoopTool]
    limits: LoopLimits
    on_use: OnUse | None
    on_text: OnText | None


def _make_agent(model: _LoopModel) -> Agent[object, object]:
    loop, call = model.loop, model.loop.call
    # The library's banner would be printed into the output of the program.
    pydantic_ai.BANNER_ENABLED = False
    has_tool = call.schema is not None and is_object(call.schema)
    output: ToolOutput[dict[str, Any]] | type[str] = (
        _answer_tool(call.schema_name) if has_tool else str
    )
    return Agent(
        model,
        output_type=output,
        instructions=encodable_text(_instructions(call)) or None,
        toolsets=[_LoopToolset(loop)],
        retries={"tools": loop.limits.requests, "output": _OUTPUT_RETRIES},
        end_strategy="early",
        model_settings=loop.models.model_settings(call),
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
    return (
        last.content if isinstance(last, UserPromptPart) and isinstance(last.content, str) else ""
    )


def _last_answer(model: _LoopModel, exchanged: Sequence[ModelMessage]) -> ModelAnswer:
    """Return the last answer with a text."""
    loop, name = model.loop, model.loop.choice.model
    responses = [message for message in exchanged if isinstance(message, ModelResponse)]
    for message in reversed(responses):
        text, _ = split_response(message, loop.call.schema_name)
        if text.strip() and model.usage is not None:
            answer = loop.models.model_answer(message, loop.call, model.usage)
            return replace(answer, calls=(), use=model.total_use(answer.use.outcome))
        if message is responses[-1] and message.finish_reason == "length":
            # What it said when it called tools is not what it would have answered.
            reason = f"{name} was cut off at its greatest length, and answered nothing"
            raise model.failed("bad_answer", reason)
    raise model.failed("bad_answer", f"{name} called tools until its limit, and answered nothing")


class _LoopModel(WrapperModel):
    """Makes each of the loop's requests a question of its own: metered, with fallback models and
    retries.
    """

    def __init__(self, loop: _Loop) -> None:
        super().__init__(loop.models.served_model(loop.choice.model).model)
        self.loop = loop
        self.usage: UsageTracker | None = None
        self._fixed_text = sent_text(replace(loop.call, prompt="", turns=()), loop.tools)
        self._uses: list[ModelUse] = []
        self._request_count = 0

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
        models, call, on_text = self.loop.models, self.loop.call, self.loop.on_text
        streamed = (
            None
            if on_text is None
            else StreamRedactor(models.redactor.redact, on_text, by_sentence=True)
        )
        meter = models.usage_tracker(
            call,
            self.loop.choice.model,
            self._fixed_text + _conversation_text(messages),
            None if streamed is None else streamed.add,
        )
        self.usage = meter
        self._request_count += 1
        settings = self._request_settings(model_settings)
        parameters = self._with_schema(model_request_parameters)
        run, memory = call.run, models.memory
        key = request_key(call, messages, settings, parameters)
        kept = memory.get(run, key) if run is not None else None
        if kept is None:
            chain = models.fallback_chain(self.loop.choice, meter, is_formed=False)
            response = await models.metered_response(
                meter,
                lambda: chain.request(messages, settings, parameters),
                models.settings.models.request_seconds,
                self._remember,
            )
            if streamed is not None:
                streamed.close()
            kept = response_to_json(response, parameters, models.redactor)
            if run is not None:
                await memory.put(
                    run,
                    key,
                    kept,
                    model_question(call, _conversation_text(messages), models.redactor),
                )
        # Also the answer of this attempt goes through JSON, so that a resumed run continues alike.
        response = response_from_json(kept, parameters, f"{self._request_count}")
        return _with_form_called(response, call)

    def total_use(self, outcome: ModelOutcome, message: str = "") -> ModelUse:
        """Return the outcome of the whole loop."""
        if not self._uses:
            asked = self.loop.models.usage_tracker(
                self.loop.call, self.loop.choice.model, self._fixed_text
            )
            return asked.total_use(outcome, message)
        return replace(
            self._uses[-1],
            outcome=outcome,
            message=message,
            input_tokens=sum(one.input_tokens for one in self._uses),
            output_tokens=sum(one.output_tokens for one in self._uses),
            usd=sum_prices([one.usd for one in self._uses]),
            seconds=sum(one.seconds for one in self._uses),
            attempts=sum(one.attempts for one in self._uses),
            is_estimated=any(one.is_estimated for one in self._uses),
            is_implausible=any(one.is_implausible for one in self._uses),
        )

    def failed(
        self,
        kind: ModelErrorKind,
        message: str,
        hint: str | None = None,
        retry_after: float | None = None,
    ) -> ModelError:
        """Return the error that ends the whole loop."""
        use = self.total_use(outcome_of(kind), message)
        return ModelError(kind, message, hint=hint, use=use, retry_after=retry_after)

    def _remember(self, use: ModelUse) -> None:
        self._uses.append(use)
        if self.loop.on_use is not None:
            self.loop.on_use(use)

    def _request_settings(self, settings: ModelSettings | None) -> ModelSettings | None:
        is_last = self._request_count >= self.loop.limits.requests
        return (
            merge_model_settings(settings, ModelSettings(tool_choice="none"))
            if is_last
            else settings
        )

    def _with_schema(self, parameters: ModelRequestParameters) -> ModelRequestParameters:
        schema = self.loop.call.schema
        if schema is None:
            return parameters
        answers = [
            replace(tool, parameters_json_schema=dict(schema)) for tool in parameters.output_tools
        ]
        return replace(parameters, output_tools=answers)


def _with_form_called(response: ModelResponse, call: ModelCall) -> ModelResponse:
    """Return an answer whose words are nothing but an object of the form that was asked for as a
    call of the answer's tool; any other as it is.

    Not every model calls a tool to answer. What fits is not asked for again; it is read like the
    answer of a worker.
    """
    is_call = any(isinstance(part, ToolCallPart) for part in response.parts)
    if is_call or call.schema is None or not is_object(call.schema):
        return response
    reading = read_text(visible_text(response))
    if not reading.is_whole or not isinstance(reading.values[0], dict):
        return response
    held = fitting(reading.values[0], call.schema)
    if held.faults:
        return response
    others = [part for part in response.parts if not isinstance(part, TextPart)]
    answer = ToolCallPart(call.schema_name, cast("Arguments", held.value), tool_call_id="answer")
    return replace(response, parts=[*others, answer])


@dataclass(eq=False)
class _LoopToolset(AbstractToolset[object]):
    """The tools of a loop; counts their calls and makes none beyond the limit."""

    loop: _Loop
    calls_made: int = 0

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
                max_retries=self.loop.limits.requests,
                args_validator=_JSON_OBJECT,
            )
            for tool in self.loop.tools
        }

    async def call_tool(
        self,
        name: str,
        tool_args: Arguments,
        ctx: RunContext[object],  # noqa: ARG002
        tool: ToolsetTool[object],  # noqa: ARG002
    ) -> Json:
        if self.calls_made >= self.loop.limits.tool_calls:
            raise ToolFailed(
                f"Not called: {self.loop.limits.tool_calls} calls are the most. Answer with what you have."
            )
        self.calls_made += 1
        wanted = next(one for one in self.loop.tools if one.name == name)
        redactor = self.loop.models.redactor
        try:
            # Answers that call a tool are shown and kept.
            output = await wanted.call(
                {
                    key: map_texts(value, redactor.redact, redactor.redact)
                    for key, value in tool_args.items()
                }
            )
        except LoopToolError as error:
            raise ToolFailed(encodable_text(redactor.redact_known(str(error)))) from error
        return encodable_json(map_texts(output, redactor.redact_known, redactor.redact_known))


def _conversation_text(messages: Sequence[ModelMessage]) -> str:
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
