"""The rounds of a run: each is a candidate for the package, and the best one is packaged.

A round is the first execution or that of a patch, up to its review. Rounds are ordered by whether
the goal is achieved, by the share of the mandatory gates that pass, by how much of the data is
there, and by the confidence; of equal ones the later counts. A patch that fails therefore never
loses an earlier result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from immutables import Map
from pydantic import ValidationError

from wavewright.executor import RunState
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import Plan, as_list, as_object
from wavewright.reviewer.records import FieldProvenance, ReviewResult, RoundSummary
from wavewright.reviewer.review.results import ReviewedRun, read_result
from wavewright.reviewer.values import brief, listing


def reviews_by_round(state: RunState, last: ReviewResult | None) -> dict[int, ReviewResult]:
    """Return the last review of each round; a resumed run may review a round again."""
    noted: dict[int, ReviewResult] = {}
    for note in state.notes:
        if note.topic != "review":
            continue
        try:
            review = ReviewResult.model_validate(note.body)
        except ValidationError:
            # Written by another version: the last review still stands, so the package is none the
            # worse.
            continue
        noted[review.round] = review
    if last is not None:
        noted[last.round] = last
    return dict(sorted(noted.items()))


def best_round(state: RunState, reviews: Mapping[int, ReviewResult]) -> int:
    """Return the best of the rounds since the last rejection of a package."""
    feedback = [note.body.get("round") for note in state.notes if note.topic == "feedback"]
    rejected = max((number for number in feedback if isinstance(number, int)), default=-1)
    # A round that a person has rejected is no candidate, however good its figures are.
    rounds = [number for number in reviews if number > rejected] or [max(reviews)]
    return max(rounds, key=lambda number: (*_standing(reviews[number]), number))


def _standing(review: ReviewResult) -> tuple[bool, float, bool, float, float]:
    passed, mandatory = review.mandatory_gates
    share = passed / mandatory if mandatory else 1.0
    return review.goal_achieved, share, review.has_result, review.coverage, review.confidence


def state_as_of(state: RunState, number: int) -> RunState:
    """Return the state of a run as it was when a round was reviewed."""
    plans = tuple(accepted for accepted in state.plans if accepted.round <= number)
    following = [accepted.at for accepted in state.plans if accepted.round > number]
    if not plans or not following:
        return state
    until = min(following)
    steps = {str(as_object(step).get("id")) for step in as_list(plans[-1].plan.get("steps"))}
    ended = {name: end for name, end in state.steps.items() if name in steps and end.at <= until}
    items = {name: ends for name, ends in state.items.items() if name in steps}
    notes = tuple(note for note in state.notes if note.at <= until)
    return replace(state, plans=plans, steps=Map(ended), items=Map(items), notes=notes)


def run_of_round(run: ReviewedRun, number: int) -> ReviewedRun:
    """Return a run as it was when a round was reviewed."""
    if number == run.state.round or run.state.plan is None:
        return run
    state = state_as_of(run.state, number)
    return ReviewedRun(Plan.model_validate(state.plan), run.goal, state, run.tools)


def summarize_rounds(
    run: ReviewedRun, reviews: Mapping[int, ReviewResult], packaged: int
) -> tuple[RoundSummary, ...]:
    """Return what came of each round, where there are several."""
    if len(reviews) < 2:
        return ()
    summaries: list[RoundSummary] = []
    for number, review in reviews.items():
        result = read_result(run_of_round(run, number))
        summaries.append(
            RoundSummary(
                round=number,
                goal_achieved=review.goal_achieved,
                confidence=review.confidence,
                mandatory_gates=review.mandatory_gates,
                coverage=review.coverage,
                result=brief(result.value),
                is_packaged=number == packaged,
            )
        )
    return tuple(summaries)


def was_rejected(state: RunState) -> bool:
    """Whether a model found the goal not achieved in a round before."""
    reviews = reviews_by_round(state, None).values()
    opinions = [review.opinion for review in reviews if review.round < state.round]
    return any(opinion is not None and not opinion.goal_achieved for opinion in opinions[-1:])


def round_lines(run: ReviewedRun) -> Iterator[str]:
    """Yield a line on each round before this one: what was asked, what failed, and what the patch
    after it changed.
    """
    reviews = reviews_by_round(run.state, None)
    for number, review in reviews.items():
        if number >= run.state.round:
            continue
        passed, mandatory = review.mandatory_gates
        asked = [
            " ".join(filter(None, (action.kind or action.action, action.step)))
            for action in review.recovery_actions
        ]
        state = state_as_of(run.state, number)
        ended = [name for name, end in state.steps.items() if end.status not in SUCCESSES]
        yield (
            f"round {number}: {passed} of {mandatory} mandatory gates passed, "
            f"asked for: {listing(asked, 6) or 'nothing'}, "
            f"steps without an output: {listing(sorted(ended), 6) or 'none'}, "
            f"then changed: {listing(_changes(run.state, number), 6) or 'nothing'}"
        )


def _changes(state: RunState, number: int) -> list[str]:
    """Return the steps that the patch after a round brought, by their tools."""
    following = [accepted for accepted in state.plans if accepted.round == number + 1]
    if not following:
        return []
    before = {step.id for step in _plan_of_round(state, number).steps}
    changes: list[str] = []
    for step in _plan_of_round(state, number + 1).steps:
        if step.id not in before:
            instead = f" instead of {step.supersedes}" if step.supersedes else ""
            changes.append(f"{step.id} ({step.tool}){instead}")
    return changes


def _plan_of_round(state: RunState, number: int) -> Plan:
    of_round = [accepted for accepted in state.plans if accepted.round == number]
    return Plan.model_validate(of_round[-1].plan)


def provenance_text(provenance: FieldProvenance) -> str:
    """Return a field of the result and where it comes from, in words."""
    return f"{provenance.field}: {origins_text(provenance)}"


def origins_text(provenance: FieldProvenance) -> str:
    """Return where a field of the result comes from, in words."""
    author = "the planner" if provenance.is_by_planner else "the plan's author"
    parts = {
        "data of": provenance.data,
        "inputs": provenance.inputs,
        "a model's answer in": provenance.models,
        "computed:": provenance.computed,
        f"written by {author}:": provenance.literals,
        f"made another value by {author}:": provenance.factors,
        f"chosen or worded by {author}:": provenance.choices,
    }
    texts = [f"{words} {listing(origins, 4)}" for words, origins in parts.items() if origins]
    return ", ".join(texts) or "nothing"
