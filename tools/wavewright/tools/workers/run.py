"""One call of a worker: the rungs of its ladder, and their results.

The rungs are `agent` (a model, with a timeout that fits the question), `suggested` (a result found
in an answer that was not accepted), `generated` (code only) and `forced` (the smallest valid
result, marked as such). The declaration says which of them a worker has; where none gives a result
the step fails with a hint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import anyio
import anyio.to_thread

from wavewright.planner import (
    FallbackFailure,
    Json,
    JsonObject,
    JsonSchema,
    ModelAnswer,
    read_whole_calls,
)
from wavewright.planner.planning.typed_answers import fitting, misfit_texts, read_answer
from wavewright.planner.ports.conversation import rung_seconds
from wavewright.planner.ports.fallback_ladder import (
    FallbackResult,
    FallbackStrategy,
    Rung,
    run_ladder,
)
from wavewright.planner.ports.model_port import ModelCall, ModelError
from wavewright.planner.ports.truncation import prompt_size, truncate
from wavewright.prompts import PromptError, data_block
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.injected import LogEvent, TextChunk
from wavewright.tools.functions.tool import MODEL_HINT, ToolCall
from wavewright.tools.workers import services as faults
from wavewright.tools.workers.conversation import (
    Deadline,
    ask_worker,
)
from wavewright.tools.workers.long_inputs import (
    SUMMARIZER_SPEC,
    UNCHANGED,
    overlong_inputs,
    shorten_inputs,
    shortened_note,
    split_text,
    summarizer,
)
from wavewright.tools.workers.services import WORKER_LADDER, Services
from wavewright.tools.workers.specs import (
    AnswerRefused,
    AnswerToFinish,
    Worker,
    WorkerRung,
    WorkerSpec,
    only_fields,
    without_method,
)

_MAX_PARALLEL_PARTS = 4


@dataclass(frozen=True)
class CallsNotRead(LogEvent):
    """Calls that a model wrote down were cut or broken, and are left out."""

    calls: str
    """Their names, by commas."""


@dataclass(slots=True)
class WorkerRun:
    """One call of one worker; `spec` has every schema that the declaration left to the draft."""

    worker: Worker
    spec: WorkerSpec
    services: Services
    call: ToolCall
    draft: JsonObject = field(default_factory=dict[str, Json])
    model_answers: list[ModelAnswer] = field(default_factory=list[ModelAnswer])

    async def run(self) -> Json:
        """Return the output of the first rung that gives one.

        Raises:
            ToolError: none does; the hint names the fix.
        """
        if self.worker.draft is not None:
            drafted = await self.worker.draft.call(self.call)
            if self.services.models is None or not isinstance(drafted, dict):
                return drafted
            self.draft = drafted
        result: FallbackResult[JsonObject] = await run_ladder(
            self.services.ladder(WORKER_LADDER),
            self._rung_functions(),
            label=f"{WORKER_LADDER} {self.spec.name}",
            on_rung=self.call.emit,
        )
        if result.value is None:
            hint = faults.STRONGER_MODEL_HINT if self.services.models is not None else MODEL_HINT
            raise faults.ladder_tool_error(result, self.spec.name, hint)
        return result.value

    def _rung_functions(self) -> dict[str, FallbackStrategy[JsonObject]]:
        ways: dict[str, FallbackStrategy[JsonObject]] = {}
        if self.services.models is not None:
            ways["agent"] = self._agent
            if self.spec.text_field is None:
                ways["suggested"] = self._suggested
        if self.worker.draft is not None or self.worker.generate is not None:
            ways["generated"] = self._generated
        if self.spec.forced is not None or self.worker.force is not None:
            ways["forced"] = self._forced
        return ways

    async def _agent(self, rung: Rung) -> JsonObject | FallbackFailure:
        try:
            inputs, notes = await self._shown_inputs()
            questions = self._calls(inputs, notes, self.spec.max_input_chars)
            # Its time is up before the step's is, so that the next rung has its turn.
            seconds = await rung_seconds(self.services.asking(WORKER_LADDER), rung, *questions)
            most = 0.9 * self.spec.timeout
            ending = Deadline(most if seconds is None else min(seconds, most))
        except ModelError as error:
            return FallbackFailure(str(error), is_outage=True, error=error)
        except PromptError as error:
            raise ToolError(f"{self.spec.name!r}: {error}", hint=error.hint) from error
        tries = rung.tries if self.spec.repairs is None else 1 + self.spec.repairs
        outcome = await self._ask_all(questions, ending, tries)
        failure = outcome.error if isinstance(outcome, FallbackFailure) else None
        if failure is None or failure.kind != "over_context" or self.spec.longer_inputs == "refuse":
            return outcome
        return await self._ask_all(self._smaller_calls(inputs, notes), ending, tries)

    def _smaller_calls(self, inputs: JsonObject, notes: tuple[str, ...]) -> list[ModelCall]:
        """Return the question with half of the input, or in parts of half the size; a model is told
        what is missing.
        """
        most = min(self.spec.max_input_chars, sum(map(prompt_size, inputs.values()))) // 2
        if self.spec.longer_inputs == "parts":
            return self._calls(inputs, notes, most)
        less, left_out = shorten_inputs(inputs, most)
        return self._calls(less, (*notes, *left_out), most)

    async def _ask_all(
        self, calls: Sequence[ModelCall], ending: Deadline, tries: int
    ) -> JsonObject | FallbackFailure:
        """Ask for each part of the input, several at once, and join what comes back."""
        results: list[JsonObject | FallbackFailure] = [
            FallbackFailure("it was not asked") for _ in calls
        ]
        at_once = anyio.CapacityLimiter(_MAX_PARALLEL_PARTS)
        streams = self.spec.stream and len(calls) == 1
        emit = self.call.emit

        def show(text: str) -> None:
            emit(TextChunk(text))

        asking = replace(
            self.services.asking(WORKER_LADDER), on_use=emit, on_text=show if streams else None
        )

        async def ask(place: int) -> None:
            async with at_once:
                reply = await ask_worker(
                    asking, calls[place], self._output, ending=ending, tries=tries
                )
            results[place] = reply.outcome
            self.model_answers += reply.answers

        if len(calls) == 1:
            await ask(0)
        else:
            async with anyio.create_task_group() as group:
                for place in range(len(calls)):
                    group.start_soon(ask, place)
        failures = [result for result in results if isinstance(result, FallbackFailure)]
        if failures:
            # That a model gave no answer says more than what was wrong with another answer.
            return next((failure for failure in failures if failure.error), failures[0])
        return self._join_outputs(
            [result for result in results if not isinstance(result, FallbackFailure)]
        )

    async def _suggested(self, _rung: Rung) -> JsonObject | FallbackFailure:
        """Return what an answer holds among its words; the last such value of the latest answer
        counts.
        """
        if not self.model_answers:
            return FallbackFailure("no model has said anything", is_outage=True)
        schema = self._answer_schema()
        assert schema is not None
        for answer in reversed(self.model_answers):
            values = [*read_answer(answer).values]
            if self.worker.suggest is not None:
                values.append(self.worker.suggest(self.call.params, answer))
                lost = read_whole_calls(answer.text, answer.calls).lost
                if lost:
                    self.call.emit(CallsNotRead(", ".join(lost)))
            for held in reversed([fitting(value, schema) for value in values]):
                if not held.faults:
                    try:
                        return self._output(held.value, 0, "suggested")
                    except AnswerRefused:
                        continue
        return FallbackFailure("nothing among the model's words fits", is_outage=True)

    async def _generated(self, _rung: Rung) -> JsonObject | FallbackFailure:
        if self.worker.draft is not None:
            return self.draft
        assert self.worker.generate is not None
        made = await anyio.to_thread.run_sync(self.worker.generate, self.call.params)
        return made if isinstance(made, FallbackFailure) else self._valid_output(made, "generated")

    async def _forced(self, _rung: Rung) -> JsonObject | FallbackFailure:
        force = self.worker.force
        return self._valid_output(
            self.spec.forced if force is None else force(self.call.params), "forced"
        )

    def _valid_output(self, made: Json, rung: WorkerRung) -> JsonObject | FallbackFailure:
        """Return what code made with the word for how, where it fits the output schema."""
        if not isinstance(made, dict):
            return FallbackFailure("it is no object")
        output = {**made, **self.spec.method_of(rung)}
        misfits = misfit_texts(output, self.spec.output_schema)
        return FallbackFailure(misfits[0]) if misfits else output

    def _output(
        self,
        answer: Json,
        tries_left: int,
        rung: Literal["agent", "suggested"] = "agent",
    ) -> JsonObject:
        """Turn an answer into the output.

        Raises:
            AnswerRefused: it cannot be one.
        """
        output: Json
        if self.worker.finish is not None:
            output = self.worker.finish(
                AnswerToFinish(self.call.params, answer, self.draft, tries_left == 0, rung)
            )
        elif self.spec.text_field is not None:
            output = {self.spec.text_field: answer}
        elif self.spec.writes and isinstance(answer, dict):
            output = {
                **self.draft,
                **{name: answer[name] for name in self.spec.writes if name in answer},
            }
        else:
            output = answer
        if not isinstance(output, dict):
            raise AnswerRefused(["it is no object"])
        output = {**output, **self.spec.method_of(rung)}
        misfits = misfit_texts(output, self.spec.output_schema)
        if misfits:
            raise AnswerRefused(misfits)
        return output

    def _join_outputs(self, outputs: Sequence[JsonObject]) -> JsonObject | FallbackFailure:
        if len(outputs) == 1:
            return outputs[0]
        if self.worker.join is not None:
            return self._valid_output(self.worker.join(outputs), "agent")
        name = self.spec.text_field
        assert name is not None
        return {**outputs[0], name: "\n\n".join(str(output[name]) for output in outputs)}

    async def _shown_inputs(self) -> tuple[JsonObject, tuple[str, ...]]:
        """Return what the model is shown, made short enough, with a note of what was done to it."""
        params = self.call.params
        shown = params if self.worker.show is None else self.worker.show(params, self.draft)
        size = sum(prompt_size(value) for value in shown.values())
        if size <= self.spec.max_input_chars or self.spec.longer_inputs == "parts":
            return shown, ()
        if self.spec.longer_inputs == "refuse":
            raise ToolError(
                f"the inputs of {self.spec.name!r} have {size:,} characters, "
                f"more than the {self.spec.max_input_chars:,} that it reads",
                hint="pass less, or cut the input and use for_each",
            )
        if self.spec.longer_inputs == "summarize":
            return await self._summarized_inputs(shown)
        return shorten_inputs(shown, self.spec.max_input_chars)

    async def _summarized_inputs(self, inputs: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
        """Return inputs whose long texts are summaries and whose other long values are shortened,
        with notes.

        A text that no model could summarise stays unchanged: it may be too long then, but nothing
        of it is lost.
        """
        spec = SUMMARIZER_SPEC.model_copy(update={"stream": False})
        shorter = dict(inputs)
        notes: list[str] = []
        for name, room in overlong_inputs(inputs, self.spec.max_input_chars).items():
            value = inputs[name]
            if not isinstance(value, str):
                shorter[name] = truncate(value, room)
                notes.append(shortened_note(name, value, shorter[name]))
                continue
            call = replace(self.call, tool=spec.name, params={"content": value})
            output = await WorkerRun(summarizer(), spec, self.services, call).run()
            assert isinstance(output, dict)
            shorter[name] = output["summary"]
            notes.append(
                f"{name!r} is {len(value):,} characters long and could not be summarised: it is given whole"
                if output["method"] == UNCHANGED
                else f"{name!r} is a summary of a text of {len(value):,} characters"
            )
        return shorter, tuple(notes)

    def _calls(self, inputs: JsonObject, notes: tuple[str, ...], most: int) -> list[ModelCall]:
        """Return the question, or one for each part of an input of more than `most` characters."""
        name = self.spec.parts_of
        text = inputs.get(name) if name is not None else None
        if self.spec.longer_inputs != "parts" or not isinstance(text, str) or name is None:
            return [self._call(inputs, notes)]
        parts = split_text(text, most)
        if len(parts) < 2:
            return [self._call(inputs, notes)]
        return [
            self._call(
                {**inputs, name: part},
                (
                    *notes,
                    f"{name!r} is part {place} of {len(parts)} of a longer text, cut where it had to be",
                ),
            )
            for place, part in enumerate(parts, 1)
        ]

    def _call(self, inputs: JsonObject, notes: tuple[str, ...]) -> ModelCall:
        spec, services, call = self.spec, self.services, self.call
        schema = self._answer_schema()
        known = {**dict.fromkeys(spec.inputs), **inputs}
        return ModelCall(
            role="worker",
            name=spec.name,
            instructions=services.prompts.render(
                "workers/instructions",
                answers_in_json=schema is not None,
                notes=notes,
            ),
            prompt=services.prompts.render(
                spec.prompt,
                inputs={name: prompt_value(value, name) for name, value in known.items()},
                draft=data_block(self.draft, "draft")
                if self.draft and self.worker.show is None
                else None,
            ),
            schema=schema,
            schema_name=spec.name,
            preference=services.preference_of(spec),
            thinking=services.thinking_of(spec),
            max_tokens=services.answer_tokens(spec.token_share),
            rung="agent",
            run=call.run,
            job=call.job,
            step=call.step,
            index=call.index,
            budget=call.budget,
        )

    def _answer_schema(self) -> JsonSchema | None:
        """Return the schema of what the model is asked for; none where it is asked for text."""
        if self.spec.text_field is not None:
            return None
        if self.worker.asks_for is not None:
            return self.worker.asks_for(self.call.params)
        if self.spec.writes:
            return only_fields(self.spec.output_schema, self.spec.writes, all_required=True)
        return without_method(self.spec.output_schema)


def prompt_value(value: Json, name: str) -> object:
    """Return a value as a prompt may hold it: numbers and truth values plain, all else as a block
    of data.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    try:
        return data_block(value, name)
    except (
        ValueError
    ):  # a name that could be taken for a mark: inputs that no schema declares can have any
        return data_block(value, "input")
