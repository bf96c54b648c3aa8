"""One run of an agent: the loop, and the rungs below it.

The rungs: `agent`, a model that works with its tools until it answers; `suggested`, tool calls or
an answer that it only wrote in its last message; `forced`, the collected outputs without an answer,
where the goal allows that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import anyio

from wavewright.planner import FallbackFailure, Json, JsonObject, JsonSchema, ModelAnswer
from wavewright.planner.language.goals import ThinkingLevel
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.planning.non_plan_answers import SuggestedCall, read_suggested_calls
from wavewright.planner.planning.typed_answers import fitting, read_answer, read_text
from wavewright.planner.ports.asking import AnswerRefused
from wavewright.planner.ports.fallback_ladder import (
    FallbackResult,
    FallbackStrategy,
    Rung,
    run_ladder,
)
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopToolError,
    ModelCall,
    ModelClient,
    ModelError,
    OnText,
    Role,
)
from wavewright.planner.ports.truncation import truncate
from wavewright.prompts import PromptError, data_block
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.workers import services as faults
from wavewright.tools.workers.agent_tools import AgentCalls
from wavewright.tools.workers.conversation import (
    Deadline,
    ask_worker,
    is_short_refusal,
    usable_value,
)
from wavewright.tools.workers.services import WORKER_LADDER, Services

_CONTEXT_CHARS = 60_000
_WRAPPED_ANSWER_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["answer"],
    "properties": {"answer": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What one run of an agent is about."""

    text: str
    """What to do; a model takes it for its orders."""
    context: Json = None
    """What is known already; read as data."""
    name: str = AGENT
    """Who works, for records of its cost."""
    role: Role = "agent"
    """`worker` where a tool or another agent calls it."""
    schema: JsonSchema | None = None
    """JSON Schema of the answer; words where absent."""
    retries: int = 2
    """How often it is told what is wrong with its answer and asked again."""
    max_tokens: int | None = None
    """Ceiling of one answer's tokens; the configured one where absent."""
    preference: str = "auto"
    thinking: ThinkingLevel = "medium"


@dataclass(slots=True)
class AgentRun:
    """One run of an agent."""

    services: Services
    calls: AgentCalls
    """Makes the calls of its tools."""
    task: AgentTask
    on_text: OnText | None = None
    """Receives what the model says in its loop, as it arrives."""
    last_answer: ModelAnswer | None = None
    deadline: Deadline = field(init=False)

    async def run(self) -> JsonObject:
        """Return the answer with every call and all that was collected.

        Raises:
            ToolError: there is no answer.
        """
        if self.services.models is None:
            raise faults.no_model_error(self.task.name)
        self.deadline = Deadline(self.calls.limits.seconds)
        ways: dict[str, FallbackStrategy[JsonObject]] = {
            "agent": self._agent,
            "suggested": self._suggested,
        }
        if self.calls.limits.keep_partial:
            ways["forced"] = self._forced
        result: FallbackResult[JsonObject] = await run_ladder(
            self.services.ladder(WORKER_LADDER),
            ways,
            label=f"{WORKER_LADDER} {self.task.name}",
            on_rung=self.calls.call.emit,
        )
        if result.value is None:
            raise faults.ladder_tool_error(result, self.task.name, _limits_hint(self.task.name))
        return result.value

    @property
    def _models(self) -> ModelClient:
        assert self.services.models is not None
        return self.services.models

    async def _agent(self, _rung: Rung) -> JsonObject | FallbackFailure:
        limits = self.calls.limits
        try:
            asked = self._question("agent")
        except PromptError as error:
            raise ToolError(f"{self.task.name!r}: {error}", hint=error.hint) from error
        if not self.calls.tools and self.task.schema is not None:
            return await self._ask(asked, "agent", tries=1 + self.task.retries)
        with anyio.move_on_after(limits.seconds) as scope:
            try:
                self.last_answer = await self._models.work(
                    asked,
                    self.calls.loop_tools(),
                    LoopLimits(limits.requests, limits.tool_calls),
                    on_use=self.calls.call.emit,
                    on_text=self.on_text,
                )
            except ModelError as error:
                return FallbackFailure(str(error), error=error)
        if scope.cancelled_caught or self.last_answer is None:
            return FallbackFailure(f"no answer within {limits.seconds:g} s")
        return await self._read_answer(self.last_answer)

    async def _read_answer(self, answer: ModelAnswer) -> JsonObject | FallbackFailure:
        """Return the loop's final message as the answer; what does not fit, or breaks off, is asked
        for again, without tools.
        """
        if self._suggested_calls(answer):
            return FallbackFailure("it wrote calls of tools down instead of making them")
        if self.task.schema is None:
            if answer.is_truncated:
                return await self._ask_again(answer, "agent")
            return self._text_answer(answer)
        try:
            return self._result(usable_value(answer, self.task.schema), "agent")
        except AnswerRefused as refused:
            if refused.then == "end":
                return FallbackFailure("its answer stands among other words")
        return await self._ask_again(answer, "agent")

    def _text_answer(self, answer: ModelAnswer) -> JsonObject | FallbackFailure:
        """Return the final message, where it can be an answer."""
        text = answer.text.strip()
        if not text:
            return FallbackFailure("its final message is empty")
        if read_suggested_calls(text) and read_text(text).is_whole:
            return FallbackFailure("its final message is a call of a tool that it has not")
        # Who has looked and says "I cannot find it" has answered.
        if is_short_refusal(text) and not self.calls.records:
            declined = ModelError("refused", "the model declined")
            return FallbackFailure(str(declined), error=declined)
        return self._result(text, "agent")

    async def _suggested(self, _rung: Rung) -> JsonObject | FallbackFailure:
        """Make the calls that the model only wrote down, and let it answer from what they give.

        Of an agent without tools, take the last fitting value among all its words.
        """
        if self.last_answer is None:
            return FallbackFailure("the model has said nothing")
        if self.task.schema is not None:
            found = [
                fitting(value, self.task.schema) for value in read_answer(self.last_answer).values
            ]
            fit = [each.value for each in found if not each.faults]
            if fit:
                return self._result(fit[-1], "suggested")
        if not await self._make_suggested(self.last_answer):
            return FallbackFailure("its final message holds neither an answer nor a call of a tool")
        return await self._ask_again(self.last_answer, "suggested")

    def _suggested_calls(self, answer: ModelAnswer) -> list[SuggestedCall]:
        """Return the calls of its tools that a message holds as text, where it should have made
        them.
        """
        found = read_suggested_calls(answer.text, answer.calls)
        named = ((self.calls.tool_named(call.name), call) for call in found)
        return [replace(call, name=name) for name, call in named if name is not None]

    async def _make_suggested(self, answer: ModelAnswer) -> int:
        """Make the calls that a message holds as text, as long as there is time; return how many
        succeeded.
        """
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

    async def _ask_again(self, answer: ModelAnswer, rung: str) -> JsonObject | FallbackFailure:
        try:
            asked = self._question(rung, collected=self.calls.views(), said=answer.text)
        except PromptError as error:
            return FallbackFailure(str(error))
        return await self._ask(asked, rung, tries=self.task.retries)

    async def _ask(self, asked: ModelCall, rung: str, tries: int) -> JsonObject | FallbackFailure:
        is_words = self.task.schema is None

        def finish(value: Json, _tries_left: int) -> JsonObject:
            return {"answer": value["answer"] if is_words and isinstance(value, dict) else value}

        asking = replace(self.services.asking(WORKER_LADDER), on_use=self.calls.call.emit)
        reply = await ask_worker(asking, asked, finish, ending=self.deadline, tries=tries)
        if reply.answers:
            self.last_answer = reply.answers[-1]
        result = reply.outcome
        if isinstance(result, FallbackFailure):
            return result
        return self._result(result["answer"], rung)

    async def _forced(self, _rung: Rung) -> JsonObject | FallbackFailure:
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

    def _question(
        self, rung: str, *, collected: JsonObject | None = None, said: str = ""
    ) -> ModelCall:
        task, call, context = self.task, self.calls.call, self.task.context
        if context is not None:
            context = truncate(context, _CONTEXT_CHARS)
        asks_again = collected is not None
        return ModelCall(
            role=task.role,
            name=task.name,
            instructions=self.services.prompts.render(
                "workers/agent_instructions", has_tools=not asks_again and bool(self.calls.tools)
            ),
            prompt=self.services.prompts.render(
                "workers/agent",
                task=task.text,
                context=None if context is None else data_block(context, "context"),
                collected=data_block(collected, "collected") if collected else None,
                said=data_block(truncate(said, _CONTEXT_CHARS), "said") if said else None,
                has_schema=self.task.schema is not None,
            ),
            schema=(self.task.schema or _WRAPPED_ANSWER_SCHEMA) if asks_again else self.task.schema,
            schema_name="answer",
            preference=task.preference,
            thinking=task.thinking,
            max_tokens=task.max_tokens,
            timeout=self.deadline.seconds_left or None,
            rung=rung,
            run=call.run,
            job=call.job,
            step=call.step,
            index=call.index,
            budget=call.budget,
        )


def _limits_hint(name: str) -> str:
    where = (
        f"the 'config' of the goal's tool {AGENT!r}"
        if name == AGENT
        else f"the 'limits' of the agent {name!r}"
    )
    return f"raise 'requests', 'tool_calls' or 'seconds' in {where}, or let 'keep_partial' give what was collected"
