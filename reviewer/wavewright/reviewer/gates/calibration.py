"""Calibrations: which models may block by a judge gate.

A *calibration* records a measurement: how often a model, judging by a rubric, agreed with people on the same outputs.
It is valid for one gate, one wording of its rubric and one model; without a measurement a judge gate only warns. The
file is written by a person: no template, plan or model can replace it.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from wavewright.planner.language.hashing import content_hash
from wavewright.planner.language.plan import DocumentModel, Gate
from wavewright.planner.reading.reader import read_model_file
from wavewright.planner.types import GATE_ID_PATTERN, GATE_ID_SEPARATOR, GateId

_HASH = r"^sha256:[0-9a-f]{64}$"


class CalibrationRequirements(DocumentModel):
    """What a measurement must reach before a judge may block."""

    agreement: Annotated[float, Field(gt=0.5, le=1)] = 0.9
    """Minimum share of cases in which judge and people agree."""
    cases: Annotated[int, Field(ge=1)] = 30
    """Minimum number of cases."""


class Measurement(DocumentModel):
    """The measurement of one judge."""

    gate: Annotated[GateId, Field(pattern=GATE_ID_PATTERN)]
    """Id of the gate; that of a template's gate on a tool stands for the gate on each of its steps."""
    rubric: Annotated[str, Field(min_length=1)] | None = None
    """The rubric that was measured, word for word; or its hash instead."""
    rubric_hash: Annotated[str, Field(pattern=_HASH)] | None = None
    """`sha256:…` of the rubric, as `wavewright.reviewer.rubric_hash` gives it."""
    model: Annotated[str, Field(min_length=1)]
    """The model that judged, as `provider:name`; this gate is pinned to it."""
    agreement: Annotated[float, Field(ge=0, le=1)]
    """Share of the cases in which it agreed with people."""
    cases: Annotated[int, Field(ge=1)]
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
        if gate.judge is None or self.gate not in {gate.id, gate.id.partition(GATE_ID_SEPARATOR)[0]}:
            return False
        measured = self.rubric_hash if self.rubric is None else rubric_hash(self.rubric)
        return measured == rubric_hash(gate.judge.rubric)


class Calibration(DocumentModel):
    """The measurements of judges, and what a measurement must reach."""

    version: int = Field(default=1, ge=1, le=1)
    """Version of this format."""
    demands: CalibrationRequirements = Field(default_factory=CalibrationRequirements)
    """What a judge must reach to block."""
    gates: Annotated[tuple[Measurement, ...], Field(strict=False)] = ()
    """The measurements; of several for one gate and rubric the latest counts."""

    def measured(self, gate: Gate) -> Measurement | None:
        """Return the latest measurement of a gate with its rubric as it is."""
        found = [measurement for measurement in self.gates if measurement.is_of(gate)]
        return max(found, key=lambda measurement: measurement.date, default=None)

    def may_block(self, gate: Gate, model: str) -> bool:
        """Whether a verdict of this model on this gate may stop what depends on the step."""
        return self.warning_reason(gate, model) is None

    def warning_reason(self, gate: Gate, model: str) -> str | None:
        """Return why a judge may not block; None if it may."""
        found = self.measured(gate)
        if found is None:
            return "no calibration speaks of this gate with this rubric"
        if found.model != model:
            return f"the calibration is of {found.model}"
        if found.agreement < self.demands.agreement:
            return f"its agreement is {found.agreement:g}, and {self.demands.agreement:g} is asked for"
        if found.cases < self.demands.cases:
            return f"it was measured on {found.cases} cases, and {self.demands.cases} are asked for"
        return None


def rubric_hash(rubric: str) -> str:
    """Return the hash of a rubric's words; how they are broken into lines makes no difference."""
    return content_hash(" ".join(rubric.split()))


def read_calibration(path: Path) -> Calibration:
    """Return the calibration that a file of YAML, JSON or TOML holds.

    Raises:
        PlanError: the file cannot be read or is not valid; each fault has its place and its fix.
    """
    return read_model_file(path, Calibration)
