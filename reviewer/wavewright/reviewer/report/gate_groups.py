"""Gate records, gathered as they are read: one group for a gate on a step, what is red first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavewright.executor.events import GateRecord
from wavewright.planner.types import GateId, GateSeverity, StepId

_MAX_RECORDS = 60


@dataclass(frozen=True, slots=True)
class GateGroup:
    """The records of one gate on one step."""

    gate: GateId
    step: StepId
    kind: str
    severity: GateSeverity
    records: tuple[GateRecord, ...]
    """Red ones first."""
    red: int
    asked: int
    hidden: int
    is_replaced: bool

    @property
    def is_unevaluated(self) -> bool:
        """Whether there were no items to look at."""
        return any(record.verdict == "not_evaluated" for record in self.records)

    @property
    def colour(self) -> str:
        """The class that colours it."""
        if not self.red:
            return "s-ok"
        return "s-failed" if self.severity == "block" else "s-blocked"


def group_gates(records: Sequence[GateRecord], replaced: Mapping[StepId, StepId]) -> list[GateGroup]:
    """Return the gates with their records: red block gates, warnings, green ones, and last what counts no longer."""
    by_gate: dict[tuple[GateId, StepId], list[GateRecord]] = {}
    for record in records:
        by_gate.setdefault((record.gate, record.step), []).append(record)
    groups = [_group(found, is_replaced=step in replaced) for (_gate, step), found in by_gate.items()]
    rank = {"s-failed": 0, "s-blocked": 1, "s-ok": 2}
    return sorted(groups, key=lambda group: (group.is_replaced, rank[group.colour]))


def _group(records: Sequence[GateRecord], *, is_replaced: bool) -> GateGroup:
    first = records[0]
    ordered = sorted(records, key=lambda record: not record.has_failed)
    return GateGroup(
        gate=first.gate,
        step=first.step,
        kind=first.kind,
        severity=first.severity,
        records=tuple(ordered[:_MAX_RECORDS]),
        red=sum(1 for record in records if record.has_failed),
        asked=len(records),
        hidden=max(0, len(records) - _MAX_RECORDS),
        is_replaced=is_replaced,
    )


def failed_gate_steps(gates: Sequence[GateGroup]) -> dict[StepId, GateSeverity]:
    """Return the steps on which a gate is red, with how severe it is."""
    red: dict[StepId, GateSeverity] = {}
    for group in gates:
        if group.red and red.get(group.step) != "block":
            red[group.step] = group.severity
    return red
