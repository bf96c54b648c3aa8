"""Judge gates: a model decides by a rubric whether an output passes, with quotes as evidence; and
its calibration.

A judge gate is pinned to one model. Its verdict is only a warning unless a calibration lets this
model block on this gate with this rubric. A gate that could not be decided has the verdict `error`
and counts as failed.

A *quote* counts if it occurs in the output literally, whitespace aside, and is long enough not to
occur by chance. It may be part of a text, a whole value, or part of the output as JSON.

A *calibration* records a measurement: how often a model, judging by a rubric, agreed with people on
the same outputs. It is valid for one gate, one wording of its rubric and one model; without a
measurement a judge gate only warns. The
file is written by a person: no template, plan or model can replace it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol

import anyio
from pydantic import Field, model_validator

from wavewright.config.value_types import AtLeastOne, NonEmpty, Share, Texts
from wavewright.executor import GateRecord
from wavewright.executor.events.json_values import is_empty
from wavewright.executor.run.ports import GateView
from wavewright.planner import (
    Asking,
    DocumentModel,
    Gate,
    Json,
    JsonObject,
    JsonSchema,
    RunId,
    StepId,
    content_hash,
)
from wavewright.planner.ports.asking import AnswerRefused
from wavewright.planner.ports.conversation import Conversation, FittingAnswer
from wavewright.planner.ports.model_port import (
    ModelCall,
    ModelClient,
    ModelError,
    OnUse,
)
from wavewright.planner.ports.truncation import prompt_size, truncate
from wavewright.planner.reading.reader import read_model_file
from wavewright.planner.types import GATE_ID_PATTERN, GATE_ID_SEPARATOR, GateId, GateSeverity
from wavewright.prompts import PromptError, Prompts
from wavewright.reviewer.asking_models import (
    AnswerModel,
    read_answer,
    read_whole,
    repair_reply,
)
from wavewright.reviewer.gates.quotes import QuoteSource, quote_fault
from wavewright.reviewer.values import listing, shorten
from wavewright.tools.models.pricing import CHARS_PER_TOKEN

_HASH = r"^sha256:[0-9a-f]{64}$"
_MAX_JUDGED_TOKENS: Final = 16_000
"""Maximum tokens of an output in a judge's prompt."""
_MAX_TRIES: Final = 2
"""Maximum number of questions, if answers are not valid."""

_ANSWER_TOKENS = 4_000
_VERDICT_FORMS = {
    **dict.fromkeys(("passed", "passes", "true"), "pass"),
    **dict.fromkeys(("failed", "fails", "false"), "fail"),
}
"""Other forms of the two verdicts that models write."""
_MAX_QUOTES = 8
_ANSWER_OVERHEAD = 160
_ANOTHER_JUDGE_HINT = (
    "let another model judge: set models.roles.judge (WAVEWRIGHT_MODEL goes before it)"
)

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


class CalibrationRequirements(DocumentModel):
    """What a measurement must reach before a judge may block."""

    agreement: Annotated[float, Field(gt=0.5, le=1)] = 0.9
    """Minimum share of cases in which judge and people agree."""
    cases: AtLeastOne = 30
    """Minimum number of cases."""


class Measurement(DocumentModel):
    """The measurement of one judge."""

    gate: Annotated[GateId, Field(pattern=GATE_ID_PATTERN)]
    """Id of the gate; that of a template's gate on a tool stands for the gate on each of its steps.
    """
    rubric: NonEmpty | None = None
    """The rubric that was measured, word for word; or its hash instead."""
    rubric_hash: Annotated[str, Field(pattern=_HASH)] | None = None
    """`sha256:…` of the rubric, as `wavewright.reviewer.rubric_hash` gives it."""
    model: NonEmpty
    """The model that judged, as `provider:name`; this gate is pinned to it."""
    agreement: Share
    """Share of the cases in which it agreed with people."""
    cases: AtLeastOne
    """How many outputs it judged."""
    date: Annotated[dt.date, Field(strict=False)]
    """Date of the measurement."""

    @model_validator(mode="after")
    def _names_one_rubric(self) -> Measurement:
        if (self.rubric is None) == (self.rubric_hash is None):
            msg = "a measurement names its rubric once: 'rubric' (the text) or 'rubric_hash'"
            raise ValueError(msg)
        return self

    def is_of(self, gate: Gate) -> bool:
        """Whether this gate, with this wording of its rubric, was measured."""
        if gate.judge is None or self.gate not in {
            gate.id,
            gate.id.partition(GATE_ID_SEPARATOR)[0],
        }:
            return False
        measured = self.rubric_hash if self.rubric is None else rubric_hash(self.rubric)
        return measured == rubric_hash(gate.judge.rubric)


class Calibration(DocumentModel):
    """The measurements of judges, and what a measurement must reach.

    >>> from wavewright.reviewer import Calibration
    >>> Calibration().gates
    ()
    """

    version: int = Field(default=1, ge=1, le=1)
    """Version of this format."""
    demands: CalibrationRequirements = Field(default_factory=CalibrationRequirements)
    """What a judge must reach to block."""
    gates: Annotated[tuple[Measurement, ...], Field(strict=False)] = ()
    """The measurements; of several for one gate and rubric the latest counts."""

    def measured(self, gate: Gate) -> Measurement | None:
        """Return the latest measurement of a gate with its rubric as it is."""
        measurements = [measurement for measurement in self.gates if measurement.is_of(gate)]
        return max(measurements, key=lambda measurement: measurement.date, default=None)

    def may_block(self, gate: Gate, model: str) -> bool:
        """Whether a verdict of this model on this gate may stop what depends on the step."""
        return self.warning_reason(gate, model) is None

    def warning_reason(self, gate: Gate, model: str) -> str | None:
        """Return why a judge may not block; None if it may."""
        measurement = self.measured(gate)
        if measurement is None:
            return "no calibration speaks of this gate with this rubric"
        if measurement.model != model:
            return f"the calibration is of {measurement.model}"
        if measurement.agreement < self.demands.agreement:
            return f"its agreement is {measurement.agreement:g}, and {self.demands.agreement:g} is asked for"
        if measurement.cases < self.demands.cases:
            return f"it was measured on {measurement.cases} cases, and {self.demands.cases} are asked for"
        return None


class GateJudge(Protocol):
    """Evaluates judge gates."""

    async def judge(
        self, gate: Gate, step: StepId, output: Json, view: GateView, *, index: int | None
    ) -> GateRecord:
        """Return the record of a judge gate on one output, or on the output for one item; never
        raises.
        """
        ...


def _in_usual_form(answer: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return an answer with its verdict as `pass` or `fail` and its quotes as a list, and a note on a
    verdict that was written as another word, or as a truth.
    """
    fields, notes = dict(answer), list[str]()
    verdict = answer["verdict"]
    fields["verdict"] = plain = _plain_verdict(verdict)
    if plain != verdict:
        notes.append(f"'verdict' was written {json.dumps(verdict)} and read as {plain!r}")
    quote = answer.get("quotes")
    if isinstance(quote, str):
        fields["quotes"] = [quote]
    return fields, notes


def _plain_verdict(verdict: Json) -> Json:
    """Return the verdict that another form of its word, or a truth, can only mean."""
    if isinstance(verdict, bool):
        return "pass" if verdict else "fail"
    if isinstance(verdict, str):
        word = verdict.strip().casefold()
        return _VERDICT_FORMS.get(word, word)
    return verdict


class _JudgeAnswer(AnswerModel):
    """An answer of a judge."""

    reason: str
    quotes: Texts
    verdict: Literal["pass", "fail"]
    notes: Texts
    """How it was read, where it was not as it should be."""


@dataclass(frozen=True, slots=True)
class ModelJudge:
    """Evaluates judge gates by asking the pinned model."""

    models: ModelClient
    prompts: Prompts
    calibration: Calibration = field(default_factory=Calibration)
    run: RunId | None = None
    goal: str = ""
    """What the run is to achieve, in words."""
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
            conversation = Conversation(
                Asking(models=self.models, prompts=self.prompts, on_use=self.on_use),
                call,
                read_whole(_verdict_reader(output)),
                repair_reply(self.prompts, "judge/repair"),
                lambda: written(min(room, prompt_size(output)) // 2),
            )
            answer = await conversation.ask_all(_MAX_TRIES)
        except (ModelError, PromptError) as error:
            message = f"the judge could not be asked: {error}"
            hint = error.hint or "see what 'wavewright doctor' says of the model, and run it again"
            return self._undecided_record(gate, step, index, None, message, hint)
        if not isinstance(answer, FittingAnswer):
            message = f"no verdict that counts: {'; '.join(answer.faults)}"
            return self._undecided_record(
                gate, step, index, answer.model, message, _ANOTHER_JUDGE_HINT
            )
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
            goal=self.goal,
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
        self,
        gate: Gate,
        step: StepId,
        index: int | None,
        answer: FittingAnswer[_JudgeAnswer],
        *,
        pinned: str,
    ) -> GateRecord:
        said = answer.value
        quoted = listing(
            [f"“{shorten(quote, _ANSWER_OVERHEAD)}”" for quote in said.quotes], 2, "; "
        )
        evidence = f", quoting {quoted}" if quoted else ""
        stood_in = f" in place of {pinned}" if answer.model != pinned else ""
        warning = self._warning_reason(gate, answer.model)
        how_read = f" (of its answer, {'; '.join(said.notes)})" if said.notes else ""
        inspected = (
            f"{_rubric(gate)}, judged by {answer.model}{stood_in}{evidence}{how_read}{warning}"
        )
        message = shorten(said.reason, 400) if said.verdict == "fail" else ""
        severity = self._severity(gate, answer.model)
        return GateRecord(
            gate.id, step, "judge", severity, said.verdict, inspected, message=message, index=index
        )

    def _undecided_record(
        self,
        gate: Gate,
        step: StepId,
        index: int | None,
        model: str | None,
        message: str,
        hint: str,
    ) -> GateRecord:
        name = model or self._gate_label(gate)
        inspected = f"{_rubric(gate)}, put to {name}{self._warning_reason(gate, name)}"
        severity, message = self._severity(gate, name), shorten(message, 400)
        return GateRecord(
            gate.id,
            step,
            "judge",
            severity,
            "error",
            inspected,
            message=message,
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
        return (
            "block"
            if gate.severity == "block" and self.calibration.may_block(gate, model)
            else "warn"
        )

    def _warning_reason(self, gate: Gate, model: str) -> str:
        """Return why a measured gate does not block, for the record; empty if it blocks or was not
        measured.
        """
        if gate.severity != "block" or self.calibration.measured(gate) is None:
            return ""
        why = self.calibration.warning_reason(gate, model)
        return f"; it only warns: {why}" if why else ""


def _rubric(gate: Gate) -> str:
    assert gate.judge is not None
    return f"rubric: {shorten(gate.judge.rubric, 120)}"


def _verdict_reader(output: Json) -> Callable[[str], _JudgeAnswer]:
    """Return a reader of verdicts on an output, which refuses verdicts without valid evidence."""
    quotable = QuoteSource(output)

    def read(text: str) -> _JudgeAnswer:
        answer = read_answer(text, _JudgeAnswer, ("verdict",), _in_usual_form)
        quotes = tuple(quote for quote in answer.quotes if quote.strip())[:_MAX_QUOTES]
        missing = quotable.missing(quotes)
        if missing:
            raise AnswerRefused([quote_fault(quote) for quote in missing])
        if answer.verdict == "pass" and not quotes and not is_empty(output):
            raise AnswerRefused(["a pass needs at least one quote from the output"])
        return answer.model_copy(update={"quotes": quotes})

    return read


def rubric_hash(rubric: str) -> str:
    r"""Return the hash of a rubric's words; how they are broken into lines makes no difference.

    >>> from wavewright.reviewer import rubric_hash
    >>> rubric_hash("It names its\nsources.") == rubric_hash("It names its sources.")
    True
    """
    return content_hash(" ".join(rubric.split()))


def read_calibration(path: Path) -> Calibration:
    """Return the calibration that a file of YAML, JSON or TOML holds.

    Raises:
        PlanError: the file cannot be read or is not valid; each fault has its place and its fix.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from wavewright.reviewer import read_calibration
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "judges.yaml"
    ...     _ = file.write_text("gates: []")
    ...     read_calibration(file).gates
    ()
    """
    return read_model_file(path, Calibration)
