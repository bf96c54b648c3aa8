"""Whether a run that the journal has is the one that a program means by its id."""

from __future__ import annotations

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.executor.events.state import RunState
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.hashing import canonical_json, plan_hash
from wavewright.planner.language.plan import Plan


class RunExists(WavewrightError):
    """The journal has a run of this id, and it is not the one that is meant."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


def require_same_job(state: RunState, job: ResolvedJob) -> None:
    """Raise an error where a run follows another plan than a program gives, or has other inputs.

    Else the old result would be taken for the new one, and a run that waits would go on with what
    nobody has asked for.

    Raises:
        RunExists: what is different.
    """
    assert state.started is not None
    goal = Goal.model_validate(state.started.goal)
    hint = "give this one an id of its own, or continue that one with: await ww.resume(id)"
    own_inputs = job.goal.model_dump(mode="json")["inputs"]
    their_inputs = goal.model_dump(mode="json")["inputs"]
    # In JSON `true` is not 1, which Python takes for equal.
    own, theirs = (
        {name: canonical_json(value) for name, value in inputs.items()}
        for inputs in (own_inputs, their_inputs)
    )
    if own != theirs:
        names = sorted(name for name in {*own, *theirs} if own.get(name) != theirs.get(name))
        listed = ", ".join(map(repr, names))
        raise RunExists(f"run {state.started.run!r} has other inputs: {listed} differ", hint)
    given = None if job.draft is None else plan_hash(job.draft.plan)
    if given != _first_hash(state) or goal.text != job.goal.text:
        raise RunExists(f"run {state.started.run!r} is of another plan", hint)


def _first_hash(state: RunState) -> str | None:
    """Return the hash of the plan that a run was begun with; None where it had none."""
    assert state.started is not None
    for noted in state.notes:
        # The plan that is given is journaled with the start; what a planner makes comes later.
        if noted.topic == "draft" and noted.at == state.started.at:
            return plan_hash(Plan.model_validate(noted.body["plan"]))
    return None
