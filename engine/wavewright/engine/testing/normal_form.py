"""Plans, graphs, events, reviews and packages in a form that is equal where they mean the same.

A *normal form* is JSON with a stable order and without what differs from run to run. Its text is YAML for people: one
file a snapshot, read in a diff.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, cast

from wavewright.engine.cli.planning.plan_report import plan_json
from wavewright.engine.testing.project import PlanView
from wavewright.engine.testing.redactions import (
    DEFAULT_REDACTIONS,
    Redaction,
    RedactionPass,
    folder_redactions,
)
from wavewright.engine.testing.run_view import PackageView, ReviewView, RunView
from wavewright.executor.events.codec import to_json
from wavewright.executor.events.types import (
    AnswerKept,
    AttemptLogged,
    Event,
    ModelCalled,
    PlanAccepted,
    RungTaken,
    StepFinished,
    WaveFinished,
    WaveStarted,
)
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.records import Package, ReviewResult

FormKind: TypeAlias = Literal["plan", "dag", "events", "review", "package"]


def normal_form(
    form: FormKind, value: object, redactions: Sequence[Redaction] = (), *, machine: Sequence[Redaction] = ()
) -> JsonObject:
    """Return the normal form of a value.

    Args:
        form: Which one; a run has four of them.
        value: A plan, a run, events, a review or a package, or a fixture's view of one.
        redactions: The project's own rules; they go before the shipped ones.
        machine: Rules for folders of this machine; a run's own folder goes before them.

    Raises:
        TypeError: there is no such form of the value.
    """
    body = _FORMS[form](value)
    # What a plan says was written by its author: only the project's own rules, which know it, change that.
    shipped = () if form in {"plan", "dag"} else DEFAULT_REDACTIONS
    redacted = RedactionPass([*redactions, *_folder_of(value), *machine, *shipped]).redact(body)
    return {"form": form, **cast("JsonObject", _portable_value(redacted))}


def _folder_of(value: object) -> tuple[Redaction, ...]:

    return folder_redactions([value.folder]) if isinstance(value, RunView) else ()


def _plan_form(value: object) -> JsonObject:

    plan = _plan_of(value, "plan")
    return {**_shape(PlanGraph.of(plan)), "plan": plan_json(plan)}


def _dag_form(value: object) -> JsonObject:

    plan = _plan_of(value, "dag")
    tools: JsonObject = {
        step.id: f"{step.tool}, each item" if step.for_each is not None else step.tool for step in plan.steps
    }
    graph = PlanGraph.of(plan)
    edges: list[Json] = [f"{before} → {after}" for before, after in graph.edges]
    return {**_shape(graph), "steps": tools, "edges": edges}


def _shape(graph: PlanGraph) -> JsonObject:
    waves: list[Json] = [list(wave) for wave in graph.waves]
    return {"width": graph.width, "waves": waves}


def _events_form(value: object) -> JsonObject:

    events = _events_of(value)
    # Events for resuming the run or finding a fault do not show what it did.
    shown = [event for event in events if not isinstance(event, AnswerKept | AttemptLogged)]
    return {"events": [_event(to_json(event)) for event in _in_order(shown)]}


def _event(body: JsonObject) -> JsonObject:
    """Return an event without what another event or the plan says as well."""
    match body:
        case {"kind": "run_started", "goal": {"text": text}}:
            return {**body, "goal": text}
        case {"kind": "plan_accepted", "plan": plan}:
            return {**body, "plan": plan_json(Plan.model_validate(plan, strict=False))}
        case {"kind": "noted", "topic": "draft", "body": {"rung": rung}}:
            return {**body, "body": {"rung": rung}}
        case {"kind": "noted", "topic": "review", "body": review}:
            return {**body, "body": _review(ReviewResult.model_validate(review))}
        case _:
            return body


def _in_order(events: Sequence[Event]) -> list[Event]:
    """Return the events in an order that does not depend on which of two parallel steps ended first."""
    ordered: list[Event] = []
    stretch: list[Event] = []
    places: dict[str, tuple[int, int]] = {}
    for event in events:
        if hasattr(event, "step") or hasattr(event, "wave") or isinstance(event, ModelCalled | RungTaken):
            stretch.append(event)
            continue
        ordered += _order_between_phases(stretch, places)
        stretch = []
        ordered.append(event)
        if isinstance(event, PlanAccepted):
            places = _step_positions(event.plan)
    return [*ordered, *_order_between_phases(stretch, places)]


def _order_between_phases(stretch: Sequence[Event], places: Mapping[str, tuple[int, int]]) -> list[Event]:
    """Return what happened between two phases in the order of waves, then of the plan's steps, then of items."""

    def place(event: Event) -> tuple[int, int, int, int]:
        if isinstance(event, WaveStarted | WaveFinished):
            return event.wave, -1 if isinstance(event, WaveStarted) else len(places), 0, 0
        step = getattr(event, "step", None) or getattr(getattr(event, "use", None), "step", None)
        wave, position = places.get(step or "", (len(places), len(places)))
        index = getattr(event, "index", None)
        return wave, position, int(isinstance(event, StepFinished)), -1 if index is None else index

    return sorted(stretch, key=place)


def _step_positions(plan: JsonObject) -> dict[str, tuple[int, int]]:

    accepted = Plan.model_validate(plan, strict=False)
    waves = PlanGraph.of(accepted).wave_of()
    return {step.id: (waves.get(step.id, 0), number) for number, step in enumerate(accepted.steps)}


def _review_form(value: object) -> JsonObject:
    return _review(_review_of(value))


def _review(record: ReviewResult) -> JsonObject:
    body: JsonObject = record.model_dump(mode="json", exclude_defaults=True)
    body.pop("goal_achieved", None)
    body.pop("confidence", None)
    return {
        "verdict": "achieved" if record.goal_achieved else "not achieved",
        "confidence": record.confidence,
        **body,
    }


def _package_form(value: object) -> JsonObject:
    package = _package_of(value)
    body: JsonObject = package.model_dump(mode="json", exclude_defaults=True)
    if package.review is not None:
        body["review"] = _review(package.review)
    if package.earlier_reviews:
        body["earlier_reviews"] = [_review(review) for review in package.earlier_reviews]
    return body


def _plan_of(value: object, form: FormKind) -> Plan:
    match value:
        case (Plan() as plan) | PlanView(plan=plan) | RunView(plan=PlanView(plan=plan)):
            return plan
        case _:
            raise _wrong_type(value, form, "a plan or a run")


def _events_of(value: object) -> Sequence[Event]:
    if isinstance(value, RunView):
        return value.events
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return cast("Sequence[Event]", value)
    raise _wrong_type(value, "events", "a run or its events")


def _review_of(value: object) -> ReviewResult:
    match value:
        case (
            (ReviewResult() as record) | ReviewView(record=record) | RunView(review=ReviewView(record=record))
        ):
            return record
        case _:
            raise _wrong_type(value, "review", "a run or its review")


def _package_of(value: object) -> Package:
    match value:
        case (Package() as record) | PackageView(record=record) | RunView(package=PackageView(record=record)):
            return record
        case _:
            raise _wrong_type(value, "package", "a run or its package")


def _wrong_type(value: object, form: FormKind, wanted: str) -> TypeError:
    return TypeError(f"{form}_snapshot pins {wanted}, and {value!r} is none")


_FORMS: Mapping[FormKind, Callable[[object], JsonObject]] = {
    "plan": _plan_form,
    "dag": _dag_form,
    "events": _events_form,
    "review": _review_form,
    "package": _package_form,
}


def _portable_value(value: Json) -> Json:
    """Return a value as any machine has it and any file can hold it: numbers of nine digits, no half characters."""
    match value:
        case bool():
            return value
        case float():
            return float(f"{value:.9g}")
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case list():
            return [_portable_value(item) for item in value]
        case dict():
            return {str(_portable_value(name)): _portable_value(part) for name, part in value.items()}
        case _:
            return value
