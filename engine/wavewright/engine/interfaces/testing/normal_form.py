"""Plans, graphs, events, reviews and packages in a form that is equal where they mean the same, and
their snapshots.

A *normal form* is JSON with a stable order and without what differs from run to run. Its text is
YAML for people: one file a snapshot, read in a diff.

A *snapshot* is that text in `__snapshots__`, named by its test and by what it pins, such as
`test_the_words_plan.plan.snapshot.yaml`. syrupy compares and writes it (`pytest
--snapshot-update`), and a failure begins with what changed.

A *change* is a line with its path. Entries of a list go by their names (of a step its id, of a cap
its field), so that one step more is one line and not a change of all that follow.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import yaml
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from wavewright.engine.interfaces.cli.planning.plan_report import plan_json
from wavewright.engine.interfaces.testing.project import PlanView, assertion_failure
from wavewright.engine.interfaces.testing.redactions import (
    DEFAULT_REDACTIONS,
    Redaction,
    RedactionPass,
    folder_redactions,
)
from wavewright.engine.interfaces.testing.run_view import PackageView, ReviewView, RunView
from wavewright.executor import (
    Event,
    PlanAccepted,
    StepFinished,
    StepStarted,
    WaveFinished,
    WaveStarted,
    to_json,
)
from wavewright.executor.events.types import (
    AnswerKept,
    AttemptLogged,
    ModelCalled,
    OutputLogged,
    RungTaken,
)
from wavewright.planner import Json, JsonObject, Plan, PlanGraph
from wavewright.planner.language.json_values import json_changes
from wavewright.reviewer import Package, ReviewResult
from wavewright.reviewer.values import shorten

if TYPE_CHECKING:
    from syrupy.types import SerializableData, SerializedData

FormKind: TypeAlias = Literal["plan", "dag", "events", "review", "package"]

_SUFFIX = "snapshot.yaml"
"""No snapshot is called `*.plan.yaml`: a check of all plans of a project must not find snapshots
among them.
"""
_WIDTH = 110
_YAML_WIDTH = 100


def normal_form(
    form: FormKind,
    value: object,
    redactions: Sequence[Redaction] = (),
    *,
    machine: Sequence[Redaction] = (),
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
    # What a plan says was written by its author: only the project's own rules, which know it,
    # change that.
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
        step.id: f"{step.tool}, each item" if step.for_each is not None else step.tool
        for step in plan.steps
    }
    graph = PlanGraph.of(plan)
    edges: list[Json] = [f"{before} → {after}" for before, after in graph.edges]
    return {**_shape(graph), "steps": tools, "edges": edges}


def _shape(graph: PlanGraph) -> JsonObject:
    waves: list[Json] = [list(wave) for wave in graph.waves]
    return {"width": graph.width, "waves": waves}


def _events_form(value: object) -> JsonObject:
    events = _events_of(value)
    shown = [event for event in events if not _is_beside_the_point(event)]
    return {"events": [_event(to_json(event)) for event in _in_order(shown)]}


def _is_beside_the_point(event: Event) -> bool:
    """Whether an event does not show what a run did: it is there to resume the run, to find a fault,
    or to watch the run, which depends on how fast its tools are.
    """
    if isinstance(event, StepStarted):
        return event.key is None
    return isinstance(event, AnswerKept | AttemptLogged | OutputLogged)


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
    """Return the events in an order that does not depend on which of two parallel steps ended
    first.
    """
    ordered: list[Event] = []
    stretch: list[Event] = []
    places: dict[str, tuple[int, int]] = {}
    for event in events:
        if (
            hasattr(event, "step")
            or hasattr(event, "wave")
            or isinstance(event, ModelCalled | RungTaken)
        ):
            stretch.append(event)
            continue
        ordered += _order_between_phases(stretch, places)
        stretch = []
        ordered.append(event)
        if isinstance(event, PlanAccepted):
            places = _step_positions(event.plan)
    return [*ordered, *_order_between_phases(stretch, places)]


def _order_between_phases(
    stretch: Sequence[Event], places: Mapping[str, tuple[int, int]]
) -> list[Event]:
    """Return what happened between two phases in the order of waves, then of the plan's steps, then
    of items.
    """

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


_MEASURES = ("mandatory_gates", "coverage", "has_result", "data", "provenance")
"""Fields of a review that follow from the plan, the gates and the steps, which have forms of their
own.
"""


def _review(record: ReviewResult) -> JsonObject:
    body: JsonObject = record.model_dump(mode="json", exclude_defaults=True)
    for name in ("goal_achieved", "confidence", *_MEASURES):
        body.pop(name, None)
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
            (ReviewResult() as record)
            | ReviewView(record=record)
            | RunView(review=ReviewView(record=record))
        ):
            return record
        case _:
            raise _wrong_type(value, "review", "a run or its review")


def _package_of(value: object) -> Package:
    match value:
        case (
            (Package() as record)
            | PackageView(record=record)
            | RunView(package=PackageView(record=record))
        ):
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
    """Return a value as any machine has it and any file can hold it: numbers of nine digits, no
    half characters.
    """
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
            return {
                str(_portable_value(name)): _portable_value(part) for name, part in value.items()
            }
        case _:
            return value


def normal_form_yaml(form: JsonObject) -> str:
    """Return a normal form as YAML: one line an idea, long texts as blocks, short lists on one
    line.
    """
    return yaml.dump(
        form, Dumper=_FormDumper, sort_keys=False, allow_unicode=True, width=_YAML_WIDTH
    )


def read_normal_form(text: str) -> JsonObject | None:
    """Return the normal form that a text holds; None where it holds none, such as after a conflict
    of git's.
    """
    try:
        read: object = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return cast("JsonObject", read) if isinstance(read, dict) else None


class _FormDumper(yaml.SafeDumper):
    """Writes no aliases, blocks for texts of several lines, and one line for lists of a few words."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - as the base class has it
        return True


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    is_block = "\n" in text and all(line == line.rstrip() for line in text.split("\n"))
    node: yaml.Node = dumper.represent_str(text)
    if not all(char == "\n" or char.isprintable() for char in text):
        return yaml.ScalarNode(node.tag, text, style='"')
    return yaml.ScalarNode(node.tag, text, style="|") if is_block else node


def _list_node(dumper: yaml.SafeDumper, items: list[object]) -> yaml.Node:
    is_short = (
        all(not isinstance(item, list | dict) for item in items)
        and len(str(items)) < _YAML_WIDTH - 20
    )
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=is_short)


_FormDumper.add_representer(str, _text_node)
_FormDumper.add_representer(list, _list_node)


class NormalFormSnapshots(SingleFileSnapshotExtension):
    """Keeps normal forms, one file each."""

    _write_mode = WriteMode.TEXT
    form: ClassVar[FormKind]
    redactions: ClassVar[Sequence[Redaction]] = ()
    machine: ClassVar[Sequence[Redaction]] = ()

    def serialize(self, data: SerializableData, **_: Any) -> SerializedData:
        """Return the text of the value's normal form."""
        try:
            return normal_form_yaml(
                normal_form(self.form, data, self.redactions, machine=self.machine)
            )
        except TypeError as error:
            raise assertion_failure(str(error)) from None

    def diff_lines(
        self, serialized_data: SerializedData, snapshot_data: SerializedData
    ) -> Iterator[str]:
        """Yield what changed by its paths, then the lines of the text that did."""
        old, new = read_normal_form(str(snapshot_data)), read_normal_form(str(serialized_data))
        changes = describe_changes(old, new) if old is not None and new is not None else []
        if changes:
            # Pytest shows eight lines of a failure unless it is asked for more.
            yield from textwrap.wrap("; ".join(changes), _WIDTH)
            yield ""
        yield from super().diff_lines(serialized_data, snapshot_data)


def snapshots_of(
    form: FormKind, redactions: Sequence[Redaction] = (), machine: Sequence[Redaction] = ()
) -> type[NormalFormSnapshots]:
    """Return the extension of syrupy for one normal form, with the project's own rules and those of
    its folders.
    """
    fields = {
        "form": form,
        "redactions": tuple(redactions),
        "machine": tuple(machine),
        "file_extension": f"{form}.{_SUFFIX}",
    }
    return type(f"{form.capitalize()}Snapshots", (NormalFormSnapshots,), fields)


_MAX_CHANGES = 12
_VALUE_WIDTH = 60
_NAMING_FIELDS = (
    "kind", "topic", "id", "field", "gate", "action", "name", "step", "index",
)  # fmt: skip
"""Fields that tell the entries of a list apart, in the order in which a name has them."""


def describe_changes(old: JsonObject, new: JsonObject) -> list[str]:
    """Return what changes from one normal form to another, a line each; none where they are equal."""
    changes = list(json_changes(_named(old), _named(new), within_lists=True))
    # By names alone, entries in another order are the same.
    changes = changes or list(json_changes(old, new, within_lists=True))
    lines = [change.describe(_bare) for change in changes[:_MAX_CHANGES]]
    if len(changes) > _MAX_CHANGES:
        lines.append(f"and {len(changes) - _MAX_CHANGES} more")
    return lines


def _named(value: Json) -> Json:
    """Return a value in which lists of entries with names are objects by these names."""
    if isinstance(value, dict):
        return {name: _named(part) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    names = [_name_of(entry) for entry in value]
    if not names or "" in names:
        return [_named(entry) for entry in value]
    seen: Counter[str] = Counter()
    by_name: JsonObject = {}
    for name, entry in zip(names, value, strict=True):
        seen[name] += 1
        by_name[name if seen[name] == 1 else f"{name} ({seen[name]})"] = _named(entry)
    return by_name


def _name_of(entry: Json) -> str:
    """Return what an entry of a list is called; empty where nothing names it."""
    if not isinstance(entry, dict):
        return ""
    return " ".join(str(entry[name]) for name in _NAMING_FIELDS if entry.get(name) is not None)


def _bare(value: Json) -> str:
    """Return a value in a few characters, texts as they are."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, _VALUE_WIDTH)
