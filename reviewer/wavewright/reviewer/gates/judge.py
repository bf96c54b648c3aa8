"""Judge gates: a model decides by a rubric whether an output passes, with quotes as evidence.

A judge gate is pinned to one model. Its verdict is only a warning unless a calibration lets this model block on this
gate with this rubric. A gate that could not be decided has the verdict `error` and counts as failed.

A *quote* counts if it occurs in the output literally, whitespace aside, and is long enough not to occur by chance. It
may be part of a text, a whole value, or part of the output as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Final, Literal, Protocol

import anyio
from pydantic import Field

from wavewright.executor.events.json_values import is_empty
from wavewright.executor.events.types import GateRecord
from wavewright.executor.run.ports import GateView
from wavewright.planner.language.plan import Gate
from wavewright.planner.ports.model_port import (
    ModelCall,
    ModelClient,
    ModelError,
    OnUse,
    ask_with_smaller_prompt,
)
from wavewright.planner.types import GateSeverity, Json, JsonSchema, RunId, StepId
from wavewright.prompts import PromptError, Prompts, prompt_json
from wavewright.reviewer.asking_models import (
    AnswerMisfit,
    AnswerModel,
    FittingAnswer,
    ask_until_fit,
    prompt_size,
    read_answer,
    truncate,
)
from wavewright.reviewer.gates.calibration import Calibration
from wavewright.reviewer.values import shorten
from wavewright.tools.models.pricing import CHARS_PER_TOKEN

_MIN_QUOTE_CHARS = 8
"""Characters of a quote that is not a whole value."""
_QUOTATION_MARKS = "\"'\u201c\u201d\u2018\u2019«»"


class _QuoteSource:
    """An output in which quotes are looked up."""

    def __init__(self, output: Json) -> None:
        self._output = output

    def missing(self, quotes: Sequence[str]) -> tuple[str, ...]:
        """Return the quotes that do not occur in the output, or are too short to be evidence."""
        return tuple(quote for quote in quotes if not self.holds(quote))

    def holds(self, quote: str) -> bool:
        """Whether a quote occurs in the output."""
        spaced = _normalized_spaces(quote)
        readings = {spaced, spaced.strip(_QUOTATION_MARKS)} - {""}
        long = [reading for reading in readings if len(reading) >= _MIN_QUOTE_CHARS]
        # Searching a large output as a whole is much faster than taking it apart.
        return (
            any(reading in whole for whole in self._json_texts for reading in long)
            or any(reading in self._values for reading in readings)
            or any(reading in value for value in self._values for reading in long)
        )

    @cached_property
    def _values(self) -> frozenset[str]:
        return frozenset(_normalized_spaces(text) for text in _leaves(self._output))

    @cached_property
    def _json_texts(self) -> tuple[str, str]:
        """The output as JSON: as it is usually written, and as a prompt shows it."""
        return _normalized_spaces(json.dumps(self._output, ensure_ascii=False)), _normalized_spaces(
            prompt_json(self._output)
        )


def _normalized_spaces(text: str) -> str:
    return " ".join(text.split())


def _leaves(value: Json) -> Iterator[str]:
    """Yield every text of a value, and every number and truth value as JSON writes it."""
    match value:
        case str():
            yield value
        case dict():
            for entry in value.values():
                yield from _leaves(entry)
        case list():
            for entry in value:
                yield from _leaves(entry)
        case _:
            yield json.dumps(value)


_MAX_JUDGED_TOKENS: Final = 16_000
"""Maximum tokens of an output in a judge's prompt."""
_MAX_TRIES: Final = 2
"""Maximum number of questions, if answers are not valid."""

_ANSWER_TOKENS = 4_000
_MAX_QUOTES = 8
_ANSWER_OVERHEAD = 160
_ANOTHER_JUDGE_HINT = "let another model judge: set models.roles.judge (WAVEWRIGHT_MODEL goes before it)"

_VERDICT_SCHEMA: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "description": "One or two sentences."},
        "quotes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Evidence: stretches of the output, copied character for character.",
        },
        "verdict": {"type": "string", "enum": ["pass", "fail"]},
    },
    "required": ["reason", "quotes", "verdict"],
    "additionalProperties": False,
}


class GateJudge(Protocol):
    """Evaluates judge gates."""

    async def judge(
        self, gate: Gate, step: StepId, output: Json, view: GateView, *, index: int | None
    ) -> GateRecord:
        """Return the record of a judge gate on one output, or on the output for one item; never raises."""
        ...


class _JudgeAnswer(AnswerModel):
    """An answer of a judge."""

    reason: str
    quotes: Annotated[tuple[str, ...], Field(strict=False)]
    verdict: Literal["pass", "fail"]


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """Evaluates judge gates by asking the pinned model."""

    models: ModelClient
    prompts: Prompts
    calibration: Calibration = field(default_factory=Calibration)
    run: RunId | None = None
    job: str | None = None
    on_use: OnUse | None = None
    """Called with the cost of every call."""
    tokens: int = _MAX_JUDGED_TOKENS
    """Maximum tokens of the output in the prompt."""
    timeout: float | None = None
    """Seconds for one verdict; None for the configured timeout of a call."""
    model: str | None = None
    """The model to ask instead of the calibrated or configured one."""

    async def judge(
        self, gate: Gate, step: StepId, output: Json, view: GateView, *, index: int | None
    ) -> GateRecord:
        """Return the model's verdict; it counts only with valid quotes."""
        assert gate.judge is not None
        preference = self._preference(gate)
        try:
            model = self.models.choose(preference, "judge").model
            # In a thread: truncating an output of megabytes takes a while.
            written = partial(self._call, gate, step, output, view, index, preference)
            room = self.tokens * CHARS_PER_TOKEN
            call = await anyio.to_thread.run_sync(written, room)
            answer = await ask_with_smaller_prompt(
                lambda asked: ask_until_fit(
                    self.models,
                    asked,
                    _verdict_reader(output),
                    tries=_MAX_TRIES,
                    repair=lambda faults: self.prompts.render("judge/repair", faults=faults),
                    on_use=self.on_use,
                ),
                call,
                lambda: anyio.to_thread.run_sync(written, min(room, prompt_size(output)) // 2),
            )
        except (ModelError, PromptError) as error:
            message = f"the judge could not be asked: {error}"
            return self._undecided_record(gate, step, index, None, message, _error_hint(error))
        if not isinstance(answer, FittingAnswer):
            message = f"no verdict that counts: {'; '.join(answer.faults)}"
            return self._undecided_record(gate, step, index, answer.model, message, _ANOTHER_JUDGE_HINT)
        return self._decided_record(gate, step, index, answer, pinned=model)

    def _preference(self, gate: Gate) -> str:
        if self.model is not None:
            return self.model
        measured = self.calibration.measured(gate)
        return measured.model if measured is not None else "auto"

    def _call(
        self,
        gate: Gate,
        step: StepId,
        output: Json,
        view: GateView,
        index: int | None,
        preference: str,
        room: int,
    ) -> ModelCall:
        assert gate.judge is not None
        shown = truncate(output, room)
        items = dict(view.items or ()) if index is not None else {}
        request = self.prompts.render(
            "judge/request",
            rubric=gate.judge.rubric,
            step=step,
            item=truncate(items[index], 400) if index is not None and index in items else "",
            output=shown,
            is_whole=shown is output,
            characters=prompt_size(output),
        )
        return ModelCall(
            role="judge",
            name=gate.id,
            instructions=self.prompts.render("judge/instructions"),
            prompt=request,
            schema=_VERDICT_SCHEMA,
            schema_name="verdict",
            preference=preference,
            max_tokens=_ANSWER_TOKENS,
            timeout=self.timeout,
            run=self.run,
            job=self.job,
            step=step,
            index=index,
        )

    def _decided_record(
        self, gate: Gate, step: StepId, index: int | None, answer: FittingAnswer[_JudgeAnswer], *, pinned: str
    ) -> GateRecord:
        said = answer.value
        quoted = "; ".join(f"“{shorten(quote, _ANSWER_OVERHEAD)}”" for quote in said.quotes[:2])
        more = f" and {len(said.quotes) - 2} more" if len(said.quotes) > 2 else ""
        evidence = f", quoting {quoted}{more}" if quoted else ""
        stood_in = f" in place of {pinned}" if answer.model != pinned else ""
        return GateRecord(
            gate=gate.id,
            step=step,
            kind="judge",
            severity=self._severity(gate, answer.model),
            verdict=said.verdict,
            inspected=f"{_rubric(gate)}, judged by {answer.model}{stood_in}{evidence}"
            + self._warning_reason(gate, answer.model),
            message=shorten(said.reason, 400) if said.verdict == "fail" else "",
            index=index,
        )

    def _undecided_record(
        self, gate: Gate, step: StepId, index: int | None, model: str | None, message: str, hint: str
    ) -> GateRecord:
        name = model or self._gate_label(gate)
        return GateRecord(
            gate=gate.id,
            step=step,
            kind="judge",
            severity=self._severity(gate, name),
            verdict="error",
            inspected=f"{_rubric(gate)}, put to {name}{self._warning_reason(gate, name)}",
            message=shorten(message, 400),
            hint=hint,
            index=index,
        )

    def _gate_label(self, gate: Gate) -> str:
        try:
            return self.models.choose(self._preference(gate), "judge").model
        except ModelError:
            return self._preference(gate)

    def _severity(self, gate: Gate, model: str) -> GateSeverity:
        """Return `block` only where the gate asks for it and the model was measured on it."""
        return "block" if gate.severity == "block" and self.calibration.may_block(gate, model) else "warn"

    def _warning_reason(self, gate: Gate, model: str) -> str:
        """Return why a measured gate does not block, for the record; empty if it blocks or was not measured."""
        if gate.severity != "block" or self.calibration.measured(gate) is None:
            return ""
        why = self.calibration.warning_reason(gate, model)
        return f"; it only warns: {why}" if why else ""


def _error_hint(error: ModelError | PromptError) -> str:
    """Return the hint of an error, or a general one."""
    return error.hint or "see what 'wavewright doctor' says of the model, and run it again"


def _rubric(gate: Gate) -> str:
    assert gate.judge is not None
    return f"rubric: {shorten(gate.judge.rubric, 120)}"


def _verdict_reader(output: Json) -> Callable[[str], _JudgeAnswer]:
    """Return a reader of verdicts on an output, which refuses verdicts without valid evidence."""
    quotable = _QuoteSource(output)

    def read(text: str) -> _JudgeAnswer:
        answer = read_answer(text, _JudgeAnswer, ("verdict",))
        quotes = tuple(quote for quote in answer.quotes if quote.strip())[:_MAX_QUOTES]
        missing = quotable.missing(quotes)
        if missing:
            raise AnswerMisfit(
                *(f"this quote does not stand in the output: {shorten(each, 120)!r}" for each in missing)
            )
        if answer.verdict == "pass" and not quotes and not is_empty(output):
            raise AnswerMisfit("a pass needs at least one quote from the output")
        return answer.model_copy(update={"quotes": quotes})

    return read
