"""What a reviewing model is shown of a run, and what of its answer is accepted.

A *digest* is the part of a run's outputs that fits the model's token budget, the most relevant
first. Outputs are ordered by their bearing on the verdict: those of steps with a failed gate or a
judge gate, then the result and the outputs that it is made of, then all others. Each gets what it
needs, or a fair share of what is left. A value that is too large is truncated to valid JSON, keeps
the items that a gate failed on before others, and says what is left out.

An *opinion* is read from an answer: a figure or a list in another form (`"0.9"`, `90`, one text for
a list) is read with a note. A review that contradicts itself is asked for once more. Its recovery
actions are accepted one by one: the action must be in the vocabulary, its step in the plan, its
tool in the goal. All others are refused, and the refusal is recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, get_args

from pydantic import Field

from wavewright.config.value_types import NonEmpty, Texts
from wavewright.executor import GateRecord, RunState, StepFinished
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import Goal, Json, JsonObject, JsonSchema, Plan, Step, StepId
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.plans.graph import last_steps
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.ports.asking import AnswerRefused
from wavewright.planner.ports.truncation import allot_chars, prompt_size, truncate
from wavewright.reviewer.asking_models import (
    AnswerModel,
    read_answer,
)
from wavewright.reviewer.records import (
    Action,
    DemandKind,
    Opinion,
    RecoveryAction,
    RefusedAction,
)
from wavewright.reviewer.review.denials import DENIAL
from wavewright.reviewer.review.items import item_labels
from wavewright.reviewer.review.results import ReviewedRun, RunResult
from wavewright.reviewer.values import grouped, shape, shorten
from wavewright.tools.models.pricing import CHARS_PER_TOKEN

_RANK_SHARES = (0.6, 0.75, 1.0)
"""The share of the remaining room that the steps of each rank may take."""
_ENTRY_OVERHEAD_CHARS = 80
"""Characters around each output."""
_MIN_OUTPUT_CHARS = 240
"""Characters, frame included, below which a part of an output is not worth showing."""
_MAX_RECORDS = 5
_MAX_GATES = 60
_MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class ShownOutput:
    """One output, as far as there is room for it."""

    name: str
    """A step's id, or `result`."""
    value: Json
    characters: int
    """Size of the whole output as JSON."""
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Digest:
    """What a model is shown of a run."""

    steps: tuple[JsonObject, ...]
    """Every step with its reason and how it ended."""
    gates: tuple[JsonObject, ...]
    """Every gate with what it found, failed ones first."""
    outputs: tuple[ShownOutput, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    """Outputs without room, by name and shape."""


def digest_run(run: ReviewedRun, result: RunResult, *, tokens: int) -> Digest:
    """Return what a model is shown of a run; the outputs take about `tokens` tokens at most."""
    steps: list[JsonObject] = []
    labels: dict[StepId, tuple[str, ...]] = {}
    in_words = in_authors_words(run.plan, with_names=False)
    for step in run.plan.steps:
        end = run.state.steps.get(step.id)
        steps.append(_step(step, end, run.replaced.get(step.id), in_words))
        if step.for_each and end is not None and end.items:
            labels[step.id] = item_labels(run, step.id)
    ranked = _ranked_outputs(run, result, labels)
    shown, left_out = _allot_outputs(ranked, tokens * CHARS_PER_TOKEN, _words(run))
    return Digest(tuple(steps), tuple(_gates(run, labels)), tuple(shown), tuple(left_out))


_WORD = re.compile(r"[^\W\d]\w{3,}")


def _words(run: ReviewedRun) -> frozenset[str]:
    """Return what is looked for in long outputs: the words of the goal and the gates' fields."""
    texts = [run.goal.text]
    for gate in run.plan.gates:
        texts += [gate.check or "", *(gate.required or ())]
    return frozenset(word.lower() for text in texts for word in _WORD.findall(text)) - _COMMON


_COMMON: Final = frozenset(
    {"output", "steps", "inputs", "item", "size", "with", "from", "that", "this"}
)


def result_names(run: ReviewedRun, digest: Digest) -> tuple[str, ...]:
    """Return the names of the shown outputs that are the result."""
    shown = [output.name for output in digest.outputs]
    if "result" in shown:
        return ("result",)
    return tuple(name for name in last_steps(run.plan) if name in shown)


_JUDGED, _RESULT, _OTHER = range(3)
"""The ranks of outputs by their bearing on the verdict: those of steps with a failed gate or a judge
gate, those that are the result or a part of it, all others.
"""


@dataclass(frozen=True, slots=True)
class _RankedOutput:
    name: str
    rank: int
    value: Json
    first: tuple[int, ...] = ()
    """Entries that are kept before the others."""


def _ranked_outputs(
    run: ReviewedRun, result: RunResult, labels: Mapping[StepId, Sequence[str]]
) -> list[_RankedOutput]:
    """Return the outputs, by rank and then in the plan's order; a result that equals one of them is
    not repeated.
    """
    plan, state = run.plan, run.state
    outputs: dict[StepId, Json] = {}
    for step in plan.steps:
        end = state.steps.get(step.id)
        if end is not None and end.status in SUCCESSES and step.id not in run.replaced:
            outputs[step.id] = end.output
    ranked: list[_RankedOutput] = []
    is_an_output = any(result.value == outputs.get(name) for name in result.terminal)
    if plan.result is not None and not is_an_output:
        ranked.append(_RankedOutput("result", _RESULT, result.value))
    judged = {gate.on for gate in plan.gates if gate.judge is not None}
    for step_id, output in outputs.items():
        failed = [gate for gate in state.steps[step_id].gates if gate.has_failed]
        if failed or step_id in judged:
            rank = _JUDGED
        elif step_id in result.terminal:
            rank = _RESULT
        else:
            rank = _OTHER
        ranked.append(_ranked(step_id, rank, output, failed, state, labels.get(step_id, ())))
    return sorted(ranked, key=lambda candidate: candidate.rank)


def _ranked(
    step_id: StepId,
    rank: int,
    output: Json,
    failed: Sequence[GateRecord],
    state: RunState,
    labels: Sequence[str],
) -> _RankedOutput:
    """Return an output; that of a `for_each` step as an object, each entry under its item's name."""
    items = state.items.get(step_id)
    if items is None or not isinstance(output, list):
        return _RankedOutput(step_id, rank, output)
    positions = [index for index in sorted(items) if items[index].status != "failed"]
    if len(positions) != len(output):
        # Which item an entry is of cannot be told, so none is named.
        return _RankedOutput(step_id, rank, output)
    named: JsonObject = {}
    for index, entry in zip(positions, output, strict=True):
        name = f"{index} {labels[index]}" if index < len(labels) else str(index)
        named[name] = entry
    failed_items = {gate.index for gate in failed}
    first = tuple(place for place, index in enumerate(positions) if index in failed_items)
    return _RankedOutput(step_id, rank, named, first)


def _allot_outputs(
    candidates: Sequence[_RankedOutput], room: int, words: Collection[str]
) -> tuple[list[ShownOutput], list[tuple[str, str]]]:
    """Allot the room by rank; an output whose share would be too small to be useful gets none."""
    shown: list[ShownOutput] = []
    left_out: list[_RankedOutput] = []
    for rank, part in enumerate(_RANK_SHARES):
        ranked = [candidate for candidate in candidates if candidate.rank == rank]
        if left_out:
            # What bears less on the verdict is not shown in place of what bears more on it.
            left_out += ranked
            continue
        needs = [prompt_size(candidate.value) + _ENTRY_OVERHEAD_CHARS for candidate in ranked]
        shares = allot_chars(needs, int(room * part))
        while shares and shares[-1] < min(needs[-1], _MIN_OUTPUT_CHARS):
            left_out.append(ranked.pop())
            needs.pop()
            shares = allot_chars(needs, int(room * part))
        for candidate, need, share in zip(ranked, needs, shares, strict=True):
            value = truncate(candidate.value, share - _ENTRY_OVERHEAD_CHARS, candidate.first, words)
            is_whole = value is candidate.value
            shown.append(
                ShownOutput(candidate.name, value, need - _ENTRY_OVERHEAD_CHARS, is_whole=is_whole)
            )
            room -= prompt_size(value) + _ENTRY_OVERHEAD_CHARS
    return shown, [(candidate.name, shape(candidate.value)) for candidate in left_out]


def _step(
    step: Step,
    end: StepFinished | None,
    replaced_by: StepId | None,
    in_words: Callable[[str], str],
) -> JsonObject:
    summary: JsonObject = {
        "id": step.id,
        "tool": step.tool,
        "status": end.status if end else "not_run",
    }
    if step.why:
        summary["why"] = shorten(step.why, _MAX_TEXT)
    if step.for_each is not None:
        summary["for_each"] = truncate(map_texts(step.for_each, in_words), _MAX_TEXT)
    if step.params:
        params = map_texts({**step.params}, in_words)
        summary["params"] = truncate(params, 2 * _MAX_TEXT)
    if step.optional:
        summary["optional"] = True
    if replaced_by is not None:
        summary["replaced_by"] = replaced_by
    if step.supersedes is not None:
        summary["replaces"] = step.supersedes
    if end is None:
        return summary
    if end.items is not None:
        summary["items"] = f"{end.items[0]} of {end.items[1]}"
    if end.error is not None:
        summary["error"] = {
            "kind": end.error.kind,
            "message": shorten(end.error.message, _MAX_TEXT),
        }
    elif end.reason:
        summary["reason"] = shorten(end.reason, _MAX_TEXT)
    return summary


def _gates(run: ReviewedRun, labels: Mapping[StepId, Sequence[str]]) -> Iterator[JsonObject]:
    """Yield one entry for each gate on a step, failed ones first."""
    counted = (record for record in run.state.gates if record.step not in run.replaced)
    by_gate = grouped(counted, lambda record: (record.gate, record.step))

    def has_passed(records: Sequence[GateRecord]) -> bool:
        return not any(record.has_failed for record in records)

    groups = sorted(by_gate.values(), key=has_passed)
    for records in groups[:_MAX_GATES]:
        yield _gate(records, labels.get(records[0].step, ()))
    if len(groups) > _MAX_GATES:
        yield {"left_out": f"{len(groups) - _MAX_GATES} more gates"}


def _gate(records: Sequence[GateRecord], labels: Sequence[str]) -> JsonObject:
    first, failed = records[0], [record for record in records if record.has_failed]
    summary: JsonObject = {
        "gate": first.gate,
        "step": first.step,
        "kind": first.kind,
        "severity": first.severity,
        "asked": len(records),
        "failed": len(failed),
    }
    if first.verdict == "not_evaluated":
        summary["not_evaluated"] = True
    if failed:
        summary["found"] = [_record_summary(record, labels) for record in failed[:_MAX_RECORDS]]
        if len(failed) > _MAX_RECORDS:
            summary["left_out"] = f"{len(failed) - _MAX_RECORDS} more failed records"
    else:
        summary["inspected"] = shorten(first.inspected, _MAX_TEXT)
    return summary


def _record_summary(record: GateRecord, labels: Sequence[str]) -> JsonObject:
    summary: JsonObject = {"message": shorten(record.message or record.inspected, _MAX_TEXT)}
    if record.index is not None:
        known = record.index < len(labels)
        summary["item"] = labels[record.index] if known else f"item {record.index}"
    return summary


ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
KINDS: Final[dict[DemandKind, tuple[Action, str]]] = {
    "stale": ("refetch", "the data is older than the question allows: fetch it again"),
    "incomplete": ("refetch", "something that was asked for is not there: fetch or compute it"),
    "wrong_source": ("replace_step", "it comes from a source that does not answer the question"),
    "wrong_target": ("replace_step", "it is about something else than what was asked for"),
    "failed": ("refetch", "the step or some of its items failed: call it again"),
    "contradictory": ("refetch", "it contradicts another output: fetch what decides between them"),
}
"""What can be wrong with an output, with the action that follows and an example."""
_FIELD = re.compile(
    r"[A-Za-z][A-Za-z0-9_]{0,62}(?:\.[A-Za-z][A-Za-z0-9_]{0,62}|\[(?:\*|\d{1,6})\]){0,8}"
)
_MAX_FIELDS = 8

_KEYS = ("goal_achieved",)
_MAX_LINES = 40
_MAX_LINE = 300
_MAX_SUMMARY = 1500


class ReviewAction(AnswerModel):
    """A recovery action as a model wrote it."""

    action: str = ""
    kind: str | None = None
    step: str | None = None
    tool: str | None = None
    fields: Texts = ()
    hint: str = ""


class ReviewAnswer(AnswerModel):
    """The answer of a reviewing model."""

    goal_achieved: bool
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    summary: NonEmpty
    missing_data: Texts = ()
    recovery_actions: Annotated[tuple[ReviewAction, ...], Field(strict=False)] = ()
    notes: Texts = ()
    """How the answer was read where it was written in another form."""


def read_review(text: str) -> ReviewAnswer:
    """Return the review that an answer holds; figures and lists in other forms are read with a note.

    Raises:
        AnswerRefused: it holds none, or one that cannot be read.
    """
    return read_answer(text, ReviewAnswer, _KEYS, _in_usual_form)


def contradictions(answer: ReviewAnswer) -> tuple[str, ...]:
    """Return where a review contradicts itself, in the words of the question."""
    figure = f"confidence {answer.confidence:g}"
    if not answer.goal_achieved:
        if answer.confidence <= _MOST_NOT_ACHIEVED:
            return ()
        reason = (
            f"`goal_achieved` is false and {figure}: confidence is how sure you are that the goal is "
            "achieved with this result, so it is low here"
        )
        return (reason,)
    speaking_against: list[str] = []
    if answer.confidence < _LEAST_ACHIEVED:
        speaking_against.append(
            f"{figure}: confidence is how sure you are that the goal is achieved with this result"
        )
    missing = [line for line in answer.missing_data if line.strip()]
    if missing:
        speaking_against.append(
            f"`missing_data` names {shorten(missing[0], 80)!r}: what the goal asks for is there, or it "
            "is not achieved"
        )
    demands = [action for action in answer.recovery_actions if _asks_for_a_patch(action)]
    if demands:
        demand = demands[0].hint or f"step {demands[0].step!r}"
        speaking_against.append(
            f"`recovery_actions` asks for {shorten(demand, 80)!r}: what is achieved needs no recovery"
        )
    denial = DENIAL.search(answer.summary)
    if denial is not None:
        speaking_against.append(
            f"`summary` says {shorten(denial[0], 80)!r}: where it is so, the goal is not achieved"
        )
    return tuple(f"`goal_achieved` is true and {reason}" for reason in speaking_against)


def _asks_for_a_patch(action: ReviewAction) -> bool:
    """Whether an action wants the plan changed; `none` and advice to a person do not."""
    named, _ = _vocabulary(action)
    return named in {"refetch", "add_step", "replace_step"} and bool(action.step or action.hint)


def stricter_reading(answer: ReviewAnswer) -> ReviewAnswer:
    """Return a contradictory review as one that does not find the goal achieved."""
    note = f"it contradicts itself, so the stricter reading counts: {contradictions(answer)[0]}"
    return ReviewAnswer(
        goal_achieved=False,
        confidence=min(answer.confidence, _MOST_NOT_ACHIEVED),
        summary=answer.summary,
        missing_data=answer.missing_data,
        recovery_actions=answer.recovery_actions,
        notes=(*answer.notes, note),
    )


class ReviewReader:
    """Reads the answers to one question.

    A review that contradicts itself is asked for once more, and so is a rejection from which
    nothing follows.
    """

    def __init__(self, leads_somewhere: Callable[[ReviewAnswer], bool] | None = None) -> None:
        """Ask for actions where a rejection does not lead somewhere, as a function says."""
        self.asked_again: ReviewAnswer | None = None
        """The review that was asked for once more."""
        self._leads_somewhere = leads_somewhere
        self._is_contradictory = False

    def read(self, text: str) -> ReviewAnswer:
        """Return the review of an answer, in the stricter reading where it still contradicts itself.

        Raises:
            AnswerRefused: it holds none, or the first one is to be asked for once more.
        """
        answer = read_review(text)
        first = self.asked_again
        if first is not None and not self._is_contradictory:
            # It was asked for actions alone: what it found before stands.
            return ReviewAnswer(
                goal_achieved=False,
                confidence=min(first.confidence, answer.confidence),
                summary=first.summary,
                missing_data=(*first.missing_data, *answer.missing_data),
                recovery_actions=answer.recovery_actions,
                notes=(*first.notes, "it named its actions when it was asked for them"),
            )
        if reasons := contradictions(answer):
            if first is not None:
                # It was quoted its contradiction and has written one again.
                return stricter_reading(answer)
            self.asked_again, self._is_contradictory = answer, True
            raise AnswerRefused(reasons)
        leads = self._leads_somewhere
        if first is None and leads is not None and not leads(answer):
            # A rejection from which nothing follows would end the run in silence.
            self.asked_again = answer
            raise AnswerRefused([_NO_ACTION])
        return answer

    @property
    def best_so_far(self) -> ReviewAnswer | None:
        """The review that was asked for once more, as it counts where nothing better came."""
        if self.asked_again is None or not self._is_contradictory:
            return self.asked_again
        return stricter_reading(self.asked_again)


_NO_ACTION = (
    "the goal is not achieved and nothing says how to go on: name at least one of `recovery_actions`, "
    "with its `kind`, `step` and `fields`, or what is missing in `missing_data`"
)


_LEAST_ACHIEVED = 0.5
"""The confidence below which a review that finds the goal achieved contradicts itself."""
_MOST_NOT_ACHIEVED = 0.7
"""The confidence above which one that finds it not achieved does."""
_TRUE_WORDS = frozenset({"true", "yes", "achieved"})
_FALSE_WORDS = frozenset({"false", "no", "not achieved", "partly", "partially"})
_CONFIDENCE = re.compile(
    r"(\d*[.,]?\d+)\s*(?:(%|per ?cent)|(?:/|(?:out )?of)\s*([1-9]\d*))?", re.IGNORECASE
)
_NO_ENTRIES = frozenset(
    {"", "none", "nothing", "no", "n/a", "null", "none needed", "none required"}
    | {"no action", "no action needed", "no action required", "nothing is missing"}
)
"""Texts by which a list has no entry."""


def _in_usual_form(answer: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return an answer with figures, truth values and lists in the form that was asked for, and a
    note on each that was not.
    """
    fields, notes = dict(answer), list[str]()
    for name, read in (("confidence", _figure), ("goal_achieved", _truth)):
        written = fields.get(name)
        usual = read(written)
        if usual is not None and (isinstance(written, str) or usual != written):
            fields[name] = usual
            notes.append(
                f"{name!r} was written {json.dumps(written)} and read as {json.dumps(usual)}"
            )
    for name, entries_of in (("missing_data", _lines), ("recovery_actions", _actions)):
        written = fields.get(name)
        entries: list[Json] = []
        for entry in written if isinstance(written, list) else [written]:
            if not _is_nothing(entry):
                entries += entries_of(entry)
        fields[name] = entries
        has_usual_form = isinstance(written, list) and [*map(type, written)] == [
            *map(type, entries)
        ]
        if written is not None and not has_usual_form:
            notes.append(f"{name!r} was written in another form and read as {json.dumps(entries)}")
    summary = fields.get("summary")
    if isinstance(summary, list):
        fields["summary"] = " ".join(map(str, summary))
    if not fields.get("summary"):
        fields["summary"] = "It gives no summary."
        notes.append("'summary' is missing")
    return fields, notes


def _is_nothing(entry: Json) -> bool:
    """Whether an entry says that there is none."""
    if isinstance(entry, str):
        return entry.strip(" .-").casefold() in _NO_ENTRIES
    return not entry


def _lines(entry: Json) -> Iterator[Json]:
    """Yield the line on what is missing; an object is kept as JSON."""
    yield entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False)


def _actions(entry: Json) -> Iterator[Json]:
    """Yield the actions that an entry asks for: a text is one, and so is each of several steps."""
    if isinstance(entry, str):
        yield {"action": entry, "hint": entry} if " " in entry.strip() else {"action": entry}
    elif isinstance(entry, dict):
        action: JsonObject = {name: part for name, part in entry.items() if part is not None}
        for name in ("step", "tool"):
            if _is_nothing(action.get(name)):
                action.pop(name, None)
        fields = action.get("fields")
        if isinstance(fields, str):
            action["fields"] = [fields]
        steps = action.pop("step", None)
        for step in steps if isinstance(steps, list) else [steps]:
            yield action if step is None else {**action, "step": plain_step(step)}
    else:
        yield entry


def plain_step(step: Json) -> Json:
    """Return the id of a step that is written as plans refer to it: `${steps.items[2]}`."""
    if not isinstance(step, str):
        return step
    plain = step.strip().removeprefix("${").removesuffix("}")
    return plain.removeprefix("steps.").partition("[")[0]


def _figure(value: Json) -> float | None:
    """Return a confidence from 0 to 1; from 2 to 100 it is taken for percents."""
    if isinstance(value, str):
        written = _CONFIDENCE.fullmatch(value.strip())
        if written is None:
            return None
        number = float(written[1].replace(",", "."))
        if written[3]:
            return number / int(written[3])
        if written[2]:
            return number / _HUNDRED
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    else:
        return None
    return number / _HUNDRED if _LEAST_PERCENT <= number <= _HUNDRED else number


_LEAST_PERCENT = 2
"""The figure from which one without a sign can only be percents."""
_HUNDRED = 100


def _truth(value: Json) -> bool | None:
    word = value.strip(" .").lower() if isinstance(value, str) else ""
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    return None


def to_opinion(answer: ReviewAnswer, model: str) -> Opinion:
    """Return the opinion of a model, shortened for a report."""
    return Opinion(
        model=model,
        goal_achieved=answer.goal_achieved,
        confidence=answer.confidence,
        summary=shorten(answer.summary, _MAX_SUMMARY),
        missing_data=tuple(
            shorten(line, _MAX_LINE) for line in answer.missing_data[:_MAX_LINES] if line
        ),
        notes=tuple(shorten(note, _MAX_LINE) for note in answer.notes),
    )


def accept_actions(
    answer: ReviewAnswer, plan: Plan, goal: Goal
) -> tuple[tuple[RecoveryAction, ...], tuple[RefusedAction, ...]]:
    """Return the accepted actions, and the refused ones with the reason."""
    steps = {step.id for step in plan.steps}
    accepted: list[RecoveryAction] = []
    refused: list[RefusedAction] = []
    for demanded in answer.recovery_actions[:_MAX_LINES]:
        action, kind = _vocabulary(demanded)
        why = _refusal_reason(demanded, steps, goal.tool_names)
        if action is None or why is not None:
            refused.append(
                RefusedAction(
                    action=shorten(demanded.action, 60),
                    step=demanded.step and shorten(demanded.step, 80),
                    tool=demanded.tool and shorten(demanded.tool, 80),
                    why=why or f"there is no such action; there are {', '.join(ACTIONS)}",
                )
            )
            continue
        accepted.append(
            RecoveryAction(
                action=action,
                step=StepId(demanded.step) if demanded.step else None,
                tool=demanded.tool or None,
                kind=kind,
                fields=tuple(
                    name for name in demanded.fields[:_MAX_FIELDS] if _FIELD.fullmatch(name)
                ),
                hint=shorten(demanded.hint, _MAX_LINE)
                or f"{action.replace('_', ' ')}, as the model asks",
                origin="model",
            )
        )
    return tuple(dict.fromkeys(accepted)), tuple(dict.fromkeys(refused))


def _vocabulary(demanded: ReviewAction) -> tuple[Action | None, DemandKind | None]:
    """Return an action and a kind of the vocabulary; either may stand in the place of the other,
    in any case, and begin a sentence: `Refetch the items`.
    """
    words = [_letters(word) for word in (demanded.kind or "", demanded.action)]

    def named(name: str) -> bool:
        return any(word.startswith(_letters(name)) for word in words)

    kind: DemandKind | None = next((known for known in KINDS if named(known)), None)
    action: Action | None = next((known for known in ACTIONS if named(known)), None)
    if action is None and kind is not None:
        action = KINDS[kind][0]
    return action, kind


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name.casefold()))


def review_schema(steps: Sequence[StepId], tools: Collection[str]) -> JsonSchema:
    """Return the JSON Schema of a reviewing model's answer for one plan and goal."""
    action: JsonObject = {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": [*ACTIONS]},
            "step": {
                "type": "string",
                "enum": [*steps],
                "description": "The step that it is about.",
            },
            "tool": {
                "type": "string",
                "enum": [*sorted(tools)],
                "description": "Only where another tool of the goal should be called.",
            },
            "kind": {
                "type": "string",
                "enum": [*KINDS],
                "description": "What is wrong with the step's output.",
            },
            "fields": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Fields of the output that it is about, by name.",
            },
            "hint": {"type": "string", "description": "What to do, in one sentence."},
        },
        "required": ["action", "kind", "step", "hint"],
        "additionalProperties": False,
    }
    lines: JsonObject = {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "properties": {
            "summary": {
                "type": "string",
                "description": "The verdict with its reasons, two to five sentences.",
            },
            "goal_achieved": {"type": "boolean"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "missing_data": {
                **lines,
                "description": "What the goal asks for and the outputs do not hold.",
            },
            "recovery_actions": {"type": "array", "items": action},
        },
        "required": ["summary", "goal_achieved", "confidence", "missing_data", "recovery_actions"],
        "additionalProperties": False,
    }


def _refusal_reason(
    action: ReviewAction, steps: Collection[str], tools: Collection[str]
) -> str | None:
    if action.step is not None and action.step not in steps:
        return "the plan has no such step"
    if action.tool and action.tool not in tools:
        return "the goal does not allow this tool"
    return None
