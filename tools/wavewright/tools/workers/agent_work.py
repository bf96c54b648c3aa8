"""One run of the agent's loop, and the ladder below it.

The rungs: `agent`, a model that works with its tools until it answers; `suggested`, tool calls or an answer that it
only wrote down in its last words; `forced`, what was collected without an answer, where the goal wants that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from wavewright.planner.goals import AvailableTool
from wavewright.planner.json_calls import SuggestedCall, read_suggested_calls
from wavewright.planner.ladder import Climb, Fallen, Landing, Rung, descend
from wavewright.planner.model_port import (
    LoopLimits,
    LoopToolError,
    ModelAnswer,
    ModelCall,
    ModelError,
    Models,
)
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.planner.validators import BadSchemaError, validator_of
from wavewright.prompts import PromptError, data_block
from wavewright.tools.calls import Tool, ToolCall, ToolError
from wavewright.tools.workers import faults
from wavewright.tools.workers.agent import AgentLimits, Turns
from wavewright.tools.workers.agent_calls import Collector
from wavewright.tools.workers.answers import declines, read_answer, read_text
from wavewright.tools.workers.conversation import Conversation, Ending, misfit_texts
from wavewright.tools.workers.services import AGENT, WORKER_LADDER, Services
from wavewright.tools.workers.shortening import shorten, size_of

_CONTEXT_CHARS = 60_000
_MEND = (
    f"raise 'requests', 'tool_calls' or 'seconds' in the 'config' of the goal's tool {AGENT!r}, "
    "or let 'keep_partial' give what was collected"
)
_WRAPPED: JsonSchema = {
    "type": "object",
    "required": ["answer"],
    "properties": {"answer": {"type": "string"}},
}


@dataclass(slots=True)
class AgentWork:
    """One call of the tool `agent`."""

    services: Services
    tools: Mapping[str, Tool]
    """Those of the goal that an agent may call."""
    limits: AgentLimits
    said: Mapping[str, AvailableTool]
    """What the goal says of its tools."""
    call: ToolCall
    turns: Turns
    last: ModelAnswer | None = None
    error: ModelError | None = None
    collector: Collector = field(init=False)
    ending: Ending = field(init=False)

    async def run(self) -> Json:
        """Return the answer with every call and all that was collected.

        Raises:
            ToolError: a tool may not be called, the schema is none, or there is no answer.
        """
        models = self.services.models
        if models is None:
            raise faults.no_model(AGENT)
        self._check_schema()
        self.collector = Collector(
            self._allowed(), self.limits, self.said, self.call, self.turns, self.services.memory
        )
        self.ending = Ending.after(self.limits.seconds)

        async def agent(rung: Rung) -> JsonObject | Fallen:
            del rung
            return await self._agent(models)

        async def suggested(rung: Rung) -> JsonObject | Fallen:
            del rung
            return await self._suggested(models)

        ways: dict[str, Climb[JsonObject]] = {"agent": agent, "suggested": suggested}
        if self.limits.keep_partial:
            ways["forced"] = self._forced
        landing: Landing[JsonObject] = await descend(
            self.services.ladder(WORKER_LADDER),
            ways,
            label=f"{WORKER_LADDER} {AGENT}",
            on_rung=self.call.emit,
        )
        if landing.value is None:
            raise faults.of_ladder(landing.records, AGENT, self.error, _MEND)
        return landing.value

    @property
    def _schema(self) -> JsonSchema | None:
        schema = self.call.params.get("output_schema")
        return schema if isinstance(schema, dict) else None

    def _check_schema(self) -> None:
        if self._schema is None:
            return
        try:
            validator_of(self._schema)
        except BadSchemaError as error:
            raise ToolError(
                f"'output_schema' is no JSON Schema: {error}", hint="mend it, or leave it out for words"
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

    async def _agent(self, models: Models) -> JsonObject | Fallen:
        try:
            asked = self._question("agent")
        except PromptError as error:
            raise ToolError(f"{AGENT!r}: {error}", hint=error.hint) from error
        limits = LoopLimits(self.limits.requests, self.limits.tool_calls)
        with anyio.move_on_after(self.limits.seconds) as scope:
            try:
                self.last = await models.work(
                    asked, self.collector.loop_tools(), limits, on_use=self.call.emit
                )
            except ModelError as error:
                self.error = error
                return Fallen(str(error))
        if scope.cancelled_caught or self.last is None:
            return Fallen(f"no answer within {self.limits.seconds:g} s")
        return await self._read(models, self.last)

    async def _read(self, models: Models, answer: ModelAnswer) -> JsonObject | Fallen:
        """Return the loop's last words as the answer; what does not fit is asked for again, without tools."""
        if self._written_calls(answer):
            return Fallen("it wrote calls of tools down instead of making them")
        if self._schema is None:
            return self._words(answer)
        reading = read_answer(answer)
        if reading.is_whole and not misfit_texts(reading.values[0], self._schema):
            return self._result(reading.values[0], "agent")
        if any(not misfit_texts(value, self._schema) for value in reading.values):
            return Fallen("its answer stands among other words")
        return await self._asked_again(models, answer, "agent")

    def _words(self, answer: ModelAnswer) -> JsonObject | Fallen:
        """Return the last words, where they can be an answer."""
        text = answer.text.strip()
        if not text:
            return Fallen("its last words are empty")
        if read_suggested_calls(text) and read_text(text).is_whole:
            return Fallen("its last words are a call of a tool that it has not")
        # Who has looked and says "I cannot find it" has answered.
        if declines(text) and not self.collector.records:
            self.error = ModelError("refused", "the model declined")
            return Fallen("the model declined")
        return self._result(text, "agent")

    async def _suggested(self, models: Models) -> JsonObject | Fallen:
        """Make the calls that the model only wrote down, and let it answer from what they give."""
        if self.last is None:
            return Fallen("the model has said nothing")
        if self._schema is not None:
            fitting = [
                value for value in read_answer(self.last).values if not misfit_texts(value, self._schema)
            ]
            if fitting:
                return self._result(fitting[-1], "suggested")
        made = await self._make_suggested(self.last)
        if not made:
            return Fallen("its last words hold neither an answer nor a call of a tool")
        return await self._asked_again(models, self.last, "suggested")

    def _written_calls(self, answer: ModelAnswer) -> list[SuggestedCall]:
        """Return the calls of its tools that a message holds as text, where it should have made them."""
        found = read_suggested_calls(answer.text, answer.calls)
        return [call for call in found if call.name in self.collector.tools]

    async def _make_suggested(self, answer: ModelAnswer) -> int:
        made = 0
        for suggested in self._written_calls(answer):
            if not self.ending.left:
                break
            try:
                await self.collector.make(suggested.name, suggested.arguments)
                made += 1
            except LoopToolError:
                continue  # on record; the model answers from the others
        return made

    async def _asked_again(self, models: Models, answer: ModelAnswer, rung: str) -> JsonObject | Fallen:
        is_words = self._schema is None

        def accept(value: Json, is_last: bool) -> JsonObject:  # noqa: FBT001 - the shape of `Accept`
            del is_last
            return {"answer": value["answer"] if is_words and isinstance(value, dict) else value}

        conversation = Conversation(models, self.services.prompts, accept, answers=2, on_use=self.call.emit)
        try:
            asked = self._question(rung, collected=self.collector.views(), said=answer.text)
        except PromptError as error:
            return Fallen(str(error))
        result = await conversation.hold(asked, self.ending)
        self.error = self.error or conversation.error
        if isinstance(result, Fallen):
            return result
        return self._result(result["answer"], rung)

    async def _forced(self, rung: Rung) -> JsonObject | Fallen:
        del rung
        if not self.collector.collected:
            return Fallen("nothing was collected")
        return self._result(None, "forced")

    def _result(self, answer: Json, method: str) -> JsonObject:
        return {
            "answer": answer,
            "method": method,
            "calls": [*self.collector.records],
            "collected": self.collector.collected,
        }

    def _question(self, rung: str, *, collected: JsonObject | None = None, said: str = "") -> ModelCall:
        params, call = self.call.params, self.call
        context = params.get("context")
        if context is not None and size_of(context) > _CONTEXT_CHARS:
            context = shorten(context, _CONTEXT_CHARS)
        asks_again = collected is not None
        return ModelCall(
            role="agent",
            name=AGENT,
            instructions=self.services.prompts.render(
                "workers/agent_instructions", has_tools=not asks_again and bool(self.collector.tools)
            ),
            prompt=self.services.prompts.render(
                "workers/agent",
                task=str(params["task"]),
                context=None if context is None else data_block(context, "context"),
                collected=data_block(collected, "collected") if collected else None,
                said=data_block(shorten(said, _CONTEXT_CHARS), "said") if said else None,
                has_schema=self._schema is not None,
            ),
            schema=(self._schema or _WRAPPED) if asks_again else self._schema,
            schema_name="answer",
            preference=self.services.preference,
            thinking=self.services.thinking,
            max_tokens=self.limits.max_tokens,
            timeout=self.ending.left or None,
            rung=rung,
            run=call.run,
            job=call.job,
            step=call.step,
            index=call.index,
            budget=call.budget,
        )
