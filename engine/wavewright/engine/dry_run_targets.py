"""What a dry run says of a job with several targets: it looks at one, and each of the others is like it."""

from __future__ import annotations

import math

from wavewright.engine.dry_run import DryRun
from wavewright.engine.jobs import TARGET
from wavewright.planner.goals import JobTargets
from wavewright.reviewer.times import duration_text


def target_notes(targets: JobTargets, dry_run: DryRun) -> tuple[str, ...]:
    """Return what a reader should know of all the runs that the job would be."""
    first = min(len(dict.fromkeys(map(_target_name, targets.first))), targets.most)
    seconds = dry_run.estimate.seconds
    rounds = math.ceil(first / targets.at_once)
    took = f"{duration_text(rounds * seconds.expected)}, at p90 {duration_text(rounds * seconds.p90)}"
    shown = dry_run.plan.inputs.get(TARGET)
    notes = [
        f"this is the run for one target, {shown!r}; there is one for each, with a package of its own",
        f"the first wave has {_counted(first, 'target')}, {targets.at_once} at once: {took}",
        _further_text(targets),
    ]
    if dry_run.approvals:
        notes.append("each target asks for its own approval")
    return tuple(notes)


def _further_text(targets: JobTargets) -> str:
    if targets.depth == 0:
        return "there are no further waves: `targets.depth` is 0"
    if targets.expand is None:
        return "nothing says how further targets are found: neither job nor template has `targets.expand`"
    waves = _counted(targets.depth, "further wave")
    return f"at most {waves}, of what {targets.expand} gives; {targets.most:,} targets in all at most"


def _target_name(target: object) -> str:
    return str(getattr(target, "name", target))


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
