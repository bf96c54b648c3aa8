"""One run of an agent: the loop, and the rungs below it.

The rungs: `agent`, a model that works with its tools until it answers; `suggested`, tool calls or an answer that it
only wrote in its last message; `forced`, the collected outputs without an answer, where the goal allows that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import anyio

from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.planning.non_plan_answers import SuggestedCall, read_suggested_calls
from wavewright.planner.ports.fallback_ladder import (
    FallbackFailure,
    FallbackResult,
    FallbackStrategy,
    Rung,
    run_ladder,
)
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopToolError,
    ModelAnswer,
    ModelCall,
    ModelClient,
    ModelError,
)
from wavewright.planner.schemas.validation import InvalidSchemaError, validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.prompts import PromptError, data_block
from wavewright.tools.functions.tool import Tool, ToolCall, ToolError
from wavewright.tools.workers import services as faults
from wavewright.tools.workers.agent_limits import AgentConcurrency, AgentLimits
from wavewright.tools.workers.agent_tools import AgentCalls
from wavewright.tools.workers.conversation import (
    Deadline,
    WorkerConversation,
    is_short_refusal,
    misfit_texts,
    read_answer,
    read_text,
)
from wavewright.tools.workers.long_inputs import prompt_size, shorten
from wavewright.tools.workers.services import WORKER_LADDER, Services

_CONTEXT_CHARS = 60_000
_LIMITS_HINT = (
    f"raise 'requests', 'tool_calls' or 'seconds' in the 'config' of the goal's tool {AGENT!r}, "
    "or let 'keep_partial' give what was collected"
)
_WRAPPED_ANSWER_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["answer"],
    "properties": {"answer": {"type": "string"}},
}


@dataclass(slots=True)
class AgentRun:
    """One call of the tool `agent`."""

    services: Services
    tools: Mapping[str, Tool]
    """Those of the goal that an agent may call."""
    limits: AgentLimits
    goal_tools: Mapping[str, AvailableTool]
    """What the goal says of its tools."""
    call: ToolCall
    concurrency: AgentConcurrency
    last_answer: ModelAnswer | None = None
    error: ModelError | None = None
    calls: AgentCalls = field(init=False)
    deadline: Deadline = field(init=False)

    async def run(self) -> Json:
        """Return the answer with every call and all that was collected.

        Raises:
            ToolError: a tool may not be called, the schema is none, or there is no answer.
        """
        models = self.services.models
        if models is None:
            raise faults.no_model_error(AGENT)
        self._check_schema()
        self.calls = AgentCalls(
            self._allowed(), self.limits, self.goal_tools, self.call, self.concurrency, self.services.memory
        )
        self.deadline = Deadline.after(self.limits.seconds)

        async def agent(rung: Rung) -> JsonObject | FallbackFailure:
            del rung
            return await self._agent(models)

        async def suggested(rung: Rung) -> JsonObject | FallbackFailure:
            del rung
            return await self._suggested(models)

        ways: dict[str, FallbackStrategy[JsonObject]] = {"agent": agent, "suggested": suggested}
        if self.limits.keep_partial:
            ways["forced"] = self._forced
        result: FallbackResult[JsonObject] = await run_ladder(
            self.services.ladder(WORKER_LADDER),
            ways,
            label=f"{WORKER_LADDER} {AGENT}",
            on_rung=self.call.emit,
        )
        if result.value is None:
            raise faults.ladder_tool_error(result.records, AGENT, self.error, _LIMITS_HINT)
        return result.value

    @property
    def _schema(self) -> JsonSchema | None:
        schema = self.call.params.get("output_schema")
        return schema if isinstance(schema, dict) else None

    def _check_schema(self) -> None:
        if self._schema is None:
            return
        try:
            validator_of(self._schema)
        except InvalidSchemaError as error:
            raise ToolError(
                f"'output_schema' is no JSON Schema: {error}",
                hint="fix it, or leave it out for an answer in words",
            ) from error
        if self._schema.get("type") != "object":
            raise ToolError(
                "'output_schema' of an agent must say `type: object`",
                hint="put a list or a number into a field of an object",
            )

    def _allowed(self) -> dict[str, Tool]:
        """Return the tools that this call may use.

        Raises:
            ToolError: one is named that an agent may not call.
        """
        named = self.call.params.get("tools")
        if not isinstance(named, list):
            return dict(self.tools)
        wrong = [str(name) for name in named if name not in self.tools]
        if wrong:
            raise ToolError(
                f"an agent may not call {', '.join(map(repr, wrong))}",
                hint=f"tools of the goal that only read: {', '.join(sorted(self.tools)) or 'none'}",
            )
        return {str(name): self.tools[str(name)] for name in named}

    async def _agent(self, models: ModelClient) -> JsonObject | FallbackFailure:
        try:
            asked = self._question("agent")
        except PromptError as error:
            raise ToolError(f"{AGENT!r}: {error}", hint=error.hint) from error
        limits = LoopLimits(self.limits.requests, self.limits.tool_calls)
        with anyio.move_on_after(self.limits.seconds) as scope:
            try:
                self.last_answer = await models.work(
                    asked, self.calls.loop_tools(), limits, on_use=self.call.emit
                )
            except ModelError as error:
                self.error = error
                return FallbackFailure(str(error))
        if scope.cancelled_caught or self.last_answer is None:
            return FallbackFailure(f"no answer within {self.limits.seconds:g} s")
        return await self._read_answer(models, self.last_answer)

    async def _read_answer(self, models: ModelClient, answer: ModelAnswer) -> JsonObject | FallbackFailure:
        """Return the loop's last words as the answer; what does not fit is asked for again, without tools."""
        if self._suggested_calls(answer):
            return FallbackFailure("it wrote calls of tools down instead of making them")
        if self._schema is None:
            return self._text_answer(answer)
        reading = read_answer(answer)
        if reading.is_whole and not misfit_texts(reading.values[0], self._schema):
            return self._result(reading.values[0], "agent")
        if any(not misfit_texts(value, self._schema) for value in reading.values):
            return FallbackFailure("its answer stands among other words")
        return await self._ask_again(models, answer, "agent")

    def _text_answer(self, answer: ModelAnswer) -> JsonObject | FallbackFailure:
        """Return the last words, where they can be an answer."""
        text = answer.text.strip()
        if not text:
            return FallbackFailure("its last words are empty")
        if read_suggested_calls(text) and read_text(text).is_whole:
            return FallbackFailure("its last words are a call of a tool that it has not")
        # Who has looked and says "I cannot find it" has answered.
        if is_short_refusal(text) and not self.calls.records:
            self.error = ModelError("refused", "the model declined")
            return FallbackFailure("the model declined")
        return self._result(text, "agent")

    async def _suggested(self, models: ModelClient) -> JsonObject | FallbackFailure:
        """Make the calls that the model only wrote down, and let it answer from what they give."""
        if self.last_answer is None:
            return FallbackFailure("the model has said nothing")
        if self._schema is not None:
            fitting = [
                value
                for value in read_answer(self.last_answer).values
                if not misfit_texts(value, self._schema)
            ]
            if fitting:
                return self._result(fitting[-1], "suggested")
        made = await self._make_suggested(self.last_answer)
        if not made:
            return FallbackFailure("its last words hold neither an answer nor a call of a tool")
        return await self._ask_again(models, self.last_answer, "suggested")

    def _suggested_calls(self, answer: ModelAnswer) -> list[SuggestedCall]:
        """Return the calls of its tools that a message holds as text, where it should have made them."""
        found = read_suggested_calls(answer.text, answer.calls)
        named = ((self.calls.tool_named(call.name), call) for call in found)
        return [replace(call, name=name) for name, call in named if name is not None]

    async def _make_suggested(self, answer: ModelAnswer) -> int:
        made = 0
        for suggested in self._suggested_calls(answer):
            if not self.deadline.seconds_left:
                break
            try:
                await self.calls.call_tool(suggested.name, suggested.arguments)
                made += 1
            except LoopToolError:
                continue  # on record; the model answers from the others
        return made

    async def _ask_again(
        self, models: ModelClient, answer: ModelAnswer, rung: str
    ) -> JsonObject | FallbackFailure:
        is_words = self._schema is None

        def accept(value: Json, is_last: bool) -> JsonObject:  # noqa: FBT001 - the shape of `Accept`
            del is_last
            return {"answer": value["answer"] if is_words and isinstance(value, dict) else value}

        conversation = WorkerConversation(
            models, self.services.prompts, accept, max_answers=2, on_use=self.call.emit
        )
        try:
            asked = self._question(rung, collected=self.calls.views(), said=answer.text)
        except PromptError as error:
            return FallbackFailure(str(error))
        result = await conversation.run(asked, self.deadline)
        self.error = self.error or conversation.error
        if isinstance(result, FallbackFailure):
            return result
        return self._result(result["answer"], rung)

    async def _forced(self, rung: Rung) -> JsonObject | FallbackFailure:
        del rung
        if not self.calls.collected:
            return FallbackFailure("nothing was collected")
        return self._result(None, "forced")

    def _result(self, answer: Json, method: str) -> JsonObject:
        return {
            "answer": answer,
            "method": method,
            "calls": [*self.calls.records],
            "collected": self.calls.collected,
        }

    def _question(self, rung: str, *, collected: JsonObject | None = None, said: str = "") -> ModelCall:
        params, call = self.call.params, self.call
        context = params.get("context")
        if context is not None and prompt_size(context) > _CONTEXT_CHARS:
            context = shorten(context, _CONTEXT_CHARS)
        asks_again = collected is not None
        return ModelCall(
            role="agent",
            name=AGENT,
            instructions=self.services.prompts.render(
                "workers/agent_instructions", has_tools=not asks_again and bool(self.calls.tools)
            ),
            prompt=self.services.prompts.render(
                "workers/agent",
                task=str(params["task"]),
                context=None if context is None else data_block(context, "context"),
                collected=data_block(collected, "collected") if collected else None,
                said=data_block(shorten(said, _CONTEXT_CHARS), "said") if said else None,
                has_schema=self._schema is not None,
            ),
            schema=(self._schema or _WRAPPED_ANSWER_SCHEMA) if asks_again else self._schema,
            schema_name="answer",
            preference=self.services.preference,
            thinking=self.services.thinking,
            max_tokens=self.limits.max_tokens,
            timeout=self.deadline.seconds_left or None,
            rung=rung,
            run=call.run,
            job=call.job,
            step=call.step,
            index=call.index,
            budget=call.budget,
        )
