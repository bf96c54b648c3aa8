"""Measuring how often a judge agrees with people.

A *case* is an output with the verdict of a person. Every case is put to one model, as the gate
itself would; the result is an entry for a calibration file, with the cases on which judge and
person differ. An invalid verdict or a missing answer counts as a difference.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import anyio
from pydantic import Field, JsonValue

from wavewright.config import WavewrightError, exit_codes
from wavewright.executor import GateRecord
from wavewright.executor.run.ports import GateView
from wavewright.planner import DocumentModel, Gate, Json, JsonObject, StepId
from wavewright.planner.ports.model_port import ModelClient, ModelUse
from wavewright.planner.reading.reader import read_model_file
from wavewright.prompts import Prompts
from wavewright.reviewer.gates.judge import Measurement, ModelJudge

_MAX_PARALLEL_CASES: Final = 8


class JudgeCase(DocumentModel):
    """An output, and whether a person lets it pass.

    >>> from wavewright.reviewer import JudgeCase
    >>> JudgeCase(output="Prices rose by 4 %.", passes=True).passes
    True
    """

    passes: bool
    output: JsonValue


class JudgeCases(DocumentModel):
    """The cases that a judge is measured on."""

    cases: Annotated[tuple[JudgeCase, ...], Field(strict=False, min_length=1)]


@dataclass(frozen=True, slots=True)
class JudgeDifference:
    """A case on which judge and person differ."""

    case: int
    """Counted from 1."""
    passes: bool
    """The person's verdict."""
    record: GateRecord
    """The judge's verdict, with its reason."""


@dataclass(frozen=True, slots=True)
class JudgeMeasurement:
    """The measurement of a judge, with its differences.

    >>> from wavewright.reviewer import JudgeMeasurement
    >>> from wavewright.reviewer.gates.judge import Measurement
    >>> counted = {"model": "a:model", "agreement": 0.95, "cases": 40, "date": "2026-03-01"}
    >>> measured = Measurement(gate="says_why", rubric="It says why.", **counted)
    >>> JudgeMeasurement(measured, differences=()).as_json()["agreement"]
    0.95
    """

    measurement: Measurement
    differences: tuple[JudgeDifference, ...]

    def as_json(self) -> JsonObject:
        """Return the entry of a calibration file."""
        entry: JsonObject = self.measurement.model_dump(mode="json", exclude_none=True)
        return entry


class SeveralModelsAnswered(WavewrightError):
    """More than one model judged, so the measurement is of none of them; name a model without
    fallbacks.
    """

    exit_code = exit_codes.MISUSE


def read_cases(path: Path) -> tuple[JudgeCase, ...]:
    """Return the cases of a file of YAML or JSON: `{cases: [{passes, output}, …]}`.

    Raises:
        PlanError: the file cannot be read, or is no such thing.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from wavewright.reviewer import read_cases
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "cases.yaml"
    ...     _ = file.write_text("cases: [{passes: true, output: Prices rose by 4 %.}]")
    ...     [case.passes for case in read_cases(file)]
    [True]
    """
    return read_model_file(path, JudgeCases).cases


async def measure_judge(
    gate: Gate,
    cases: Sequence[JudgeCase],
    models: ModelClient,
    prompts: Prompts,
    *,
    model: str,
    date: dt.date,
) -> JudgeMeasurement:
    """Return how often a model, judging by a gate's rubric, agrees with people on the same outputs.

    Args:
        gate: A judge gate.
        cases: Outputs with the verdicts of people; none of them should be quoted in the rubric.
        models: The client that asks models.
        prompts: The templates `judge/…`, as the gate's runs will use them.
        model: The model to be measured, as `provider:name`.
        date: Date of the measurement.

    Raises:
        SeveralModelsAnswered: a fallback model took part.
    """
    assert gate.judge is not None
    answered: set[str] = set()

    def note(use: ModelUse) -> None:
        if use.outcome == "answered":
            answered.add(use.model)

    judge = ModelJudge(models, prompts, model=model, on_use=note)
    records: dict[int, GateRecord] = {}
    limiter = anyio.CapacityLimiter(_MAX_PARALLEL_CASES)

    async def one(number: int, output: Json) -> None:
        async with limiter:
            records[number] = await judge.judge(
                gate, StepId("case"), output, _EMPTY_VIEW, index=None
            )

    async with anyio.create_task_group() as group:
        for number, case in enumerate(cases, start=1):
            group.start_soon(one, number, case.output)
    if len(answered) > 1:
        raise SeveralModelsAnswered(
            f"{', '.join(sorted(answered))} judged: name one model without fallbacks"
        )
    differences = tuple(
        JudgeDifference(number, case.passes, records[number])
        for number, case in enumerate(cases, start=1)
        if records[number].verdict != ("pass" if case.passes else "fail")
    )
    measurement = Measurement(
        gate=gate.id,
        rubric=gate.judge.rubric,
        model=next(iter(answered), model),
        agreement=round((len(cases) - len(differences)) / len(cases), 4),
        cases=len(cases),
        date=date,
    )
    return JudgeMeasurement(measurement, differences)


_EMPTY_VIEW: Final = GateView()
"""A case is judged without a run."""
