"""Put the names of `let`, what `joined()` stands for and the condition of `stop` into the steps of a
plan.

A name of `let` stands for an expression. Before anything is checked the expression is put where the
name is read, so types, untrusted text, the graph and a patch follow what it reads, and it is
computed only where it is read, with the `item` that is there.

`joined(steps.NAME)` stands for the items of a `for_each` step, each with the output that came of it:
`[{item: …, output: …}]`.

`stop` ends a run early and well. Each step that depends on what its condition reads gets the
condition that it does not hold. Where it holds, these steps are skipped and the run's result is the
one of `stop`. See docs/explanation/semantics.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    bare_expression,
    guarded_steps,
    iterate_strings,
    joined_conditions,
    reads,
    split_references,
    step_path,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.plain_paths import Read, is_plain_path
from wavewright.planner.cel.reads import root_mentions
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.plan import Plan, PlanStop, Step
from wavewright.planner.plans.expressions import ExpressionMap
from wavewright.planner.plans.graph import PlanGraph, reached_from
from wavewright.planner.plans.origins import shown
from wavewright.planner.plans.uses import asks_each_item, condition_use, plan_texts
from wavewright.planner.types import RESERVED_IDS, Json, StepId

_MAX_LENGTH: Final = 20_000
"""Characters of what a name of `let` stands for, with the names in it put in."""
_NO_NAMES: Final = RESERVED_IDS | {
    "as", "bool", "break", "cel", "const", "continue", "double", "duration", "dyn", "else",
    "for", "function", "if", "import", "index", "int", "let", "list", "lists", "loop", "map", "math",
    "namespace", "package", "previous", "return", "sets", "string", "strings", "timestamp", "var", "void", "while",
}  # fmt: skip
"""Words that have a meaning in expressions."""


def with_let(plan: Plan) -> tuple[Plan, tuple[Diagnostic, ...]]:
    """Return a plan in which no expression reads a name of its `let`, and what is wrong with the
    names.

    Names that are at fault are left where they are read.
    """
    if not plan.let and not reads_joined(plan):
        return plan, ()
    names = _Names(plan.let, plan.steps)
    return names.put_in.plan(plan), tuple(names.faults)


def without_names(step: Step, plan: Plan) -> Step:
    """Return a step that is to join a plan, without the names of the plan's `let`.

    What it joins stays: its place is known in the plan that it has joined.
    """
    return _Names(plan.let).put_in.step(step) if plan.let else step


def let_values(plan: Plan) -> dict[str, Json]:
    """Return what each name of `let` stands for, without other names in it."""
    return _Names(plan.let, plan.steps).values if plan.let else {}


def in_authors_words(plan: Plan, *, with_names: bool = True) -> Callable[[str], str]:
    """Return what puts the names of `let` and `joined()` back into a text that quotes an expression
    of the plan, in place of what they stand for: what is said of an expression is said in its
    author's words. A plain path is as plain as a name.

    Without names, for a reader who does not see `let`, what they stand for is left there.
    """
    words = _joined_words(plan)
    for name, value in let_values(plan).items() if with_names else ():
        expression = as_expression(value)
        if not expression.startswith("("):
            continue
        words[expression] = name
        words[expression[1:-1]] = name
        # Messages cut long expressions off.
        words[f"{' '.join(expression.split())[:39]}…"] = f"{name}…"
    # The longest first: what stands for one name may hold what stands for another.
    ordered = sorted(words.items(), key=lambda pair: -len(pair[0]))
    # What only begins or ends alike is another expression: `inputs.a + 1` in `inputs.a + 10`.
    patterns = [
        (re.compile(rf"(?<![\w.]){re.escape(expression)}(?!\w|\.\d)"), word)
        for expression, word in ordered
    ]

    def put_back(text: str) -> str:
        for pattern, word in patterns:
            # A hint stays the object that it is where there is nothing to replace.
            if pattern.search(text) is not None:
                text = pattern.sub(word, text)
        return text

    return put_back


def with_joined(plan: Plan) -> Plan:
    """Return a plan for a reader, in which `joined()` stands again for what was put in."""
    if not has_joined(plan):
        return plan
    return ExpressionMap(in_authors_words(plan, with_names=False)).plan(plan)


def _joined_words(plan: Plan) -> dict[str, str]:
    """Return `joined(steps.NAME)` by the expression that it stands for, of each step with items."""
    words = dict[str, str]()
    if not has_joined(plan):
        return words
    # It was put in before the conditions of `stop`, which change the items of a step.
    plan = _without_stop_put_in(plan)
    names = _Names(plan.let, plan.steps)
    for step in plan.steps:
        pairs = names.pairs(step.id)
        if pairs is not None:
            word = f"joined({step_path(step.id)})"
            # What computes an entry is shown by itself, too.
            for text in (pairs, _pair_of(step.id)):
                words[text] = word
                # What a field is computed with is shown on one line, and not all of it.
                words[shown(text)] = word if shown(text) == text else f"{word}…"
            words[f"{step_path(step.id)}[{_JOINED_PLACE}]"] = word
    return words


def in_written_form(plan: Plan) -> Plan:
    """Return a plan as a person goes on with it: what was put in for the names of `let`, for
    `joined()` and for `stop` taken out again, so that a change of a name changes all that reads it.

    Put in again, it is the same plan. A name of a plain path, a number or a text stands in no place
    for sure; what it stands for stays there, and the name goes.
    """
    steps_alone = _without_stop_put_in(plan)
    return _WrittenForm(steps_alone).plan()


def _without_stop_put_in(plan: Plan) -> Plan:
    """Return a plan whose steps are not asked whether it stops, where that is put in again."""
    if plan.stop is None:
        return plan
    steps: list[Step] = []
    for step in plan.steps:
        own = None if step.when is None else without_stop(step.when, plan.stop)
        if own == step.when:
            steps.append(step)
            continue
        update = {"when": None if own == "true" else own, "for_each": _own_list(step.for_each)}
        steps.append(step.model_copy(update=update))
    without = plan.model_copy(update={"steps": tuple(steps)})
    return without if with_stop(without) == plan else plan


_LIST_WHERE_THERE: Final = re.compile(r"\$\{has\([^?]*\) \? (.*) : \[\]\}", re.DOTALL)


def _own_list(items: Json) -> Json:
    """Return the list of a `for_each` without what `list_where_there` asks before it."""
    match = _LIST_WHERE_THERE.fullmatch(items) if isinstance(items, str) else None
    if match is None:
        return items
    own = match[1]
    return f"${{{own[1:-1] if own.startswith('(') else own}}}"


class _WrittenForm:
    """A plan in which names, and `joined()`, stand again for what was put in."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names = _Names(plan.let, plan.steps)
        self._values = {
            name: value for name, value in self._names.values.items() if _is_recognised(value)
        }
        words = {as_expression(value): name for name, value in self._values.items()}
        words |= _joined_words(plan)
        # The longest first: what stands for one name may hold what stands for another.
        self._words = sorted(words.items(), key=lambda pair: -len(pair[0]))

    def plan(self) -> Plan:
        """Return the plan."""
        plan = self._plan
        put_back = ExpressionMap(self._expression, self._name_alone)
        others = {name: value for name, value in plan.let.items() if name not in self._values}
        without_others = _Names(others).put_in
        stop = plan.stop
        if stop is not None:
            stop = stop.model_copy(update={"result": self._structure(stop.result)})
        update = {
            "let": {name: without_others.value(plan.let[name]) for name in self._values},
            "steps": tuple(map(self._step, plan.steps)),
            "result": self._structure(plan.result),
            "stop": stop,
        }
        return put_back.plan(plan.model_copy(update=update))

    def _step(self, step: Step) -> Step:
        params = {name: self._structure(value) for name, value in step.params.items()}
        update = {"params": params, "for_each": self._structure(step.for_each)}
        return step.model_copy(update=update)

    def _structure(self, value: Json) -> Json:
        """Return a value with names in the place of the lists and objects that they stand for."""
        if not isinstance(value, (list, dict)):
            return value
        text = json.dumps(value)
        for name, known in self._values.items():
            if json.dumps(known) == text:
                return f"${{{name}}}"
        if isinstance(value, list):
            return [self._structure(item) for item in value]
        return {name: self._structure(member) for name, member in value.items()}

    def _name_alone(self, expression: str) -> list[Json]:
        text = f"${{{expression}}}"
        return [f"${{{name}}}" for name, value in self._values.items() if value == text]

    def _expression(self, expression: str) -> str:
        written = expression
        for text, word in self._words:
            written = written.replace(text, word)
        # A text of the expression may hold the same characters, where no name is read.
        is_same = self._names.put_in.change(written) == expression
        return written if is_same else expression


def _is_recognised(value: Json) -> bool:
    """Whether what a name stands for is known again where it was put in: a plain path, a number or a
    text may stand there by itself.
    """
    if isinstance(value, str):
        return as_expression(value).startswith("(")
    return isinstance(value, (list, dict)) and bool(value)


def reads_item(value: Json) -> bool:
    """Whether a value reads `item` or `index`, so that it means something in a call alone."""
    return not {"item", "index"}.isdisjoint(_roots(value))


def reads_joined(plan: Plan) -> bool:
    """Whether an expression of a plan joins items with what came of them."""
    steps = ((step.params, step.for_each, step.when) for step in plan.steps)
    loops = [step.repeat for step in plan.steps if step.repeat is not None]
    conditions = (*(gate.check for gate in plan.gates), *(cap.when for cap in plan.caps))
    values: list[Json] = [
        *(value for step in steps for value in step),
        *(value for loop in loops for value in (loop.until, loop.params)),
        *((plan.stop.when, plan.stop.result) if plan.stop is not None else ()),
        *(plan.result, plan.let, *conditions),
    ]
    return any(_JOINED in text for value in values for _, text in iterate_strings(value))


def has_joined(plan: Plan) -> bool:
    """Whether what `joined()` stands for was put into an expression of a plan."""
    return any(_JOINED_PLACE in text.text for text in plan_texts(plan))


_JOINED: Final = "joined("
_OPENS: Final = re.compile(r"(?<![\w.])joined\(\s*\Z")
_CLOSES: Final = re.compile(r"\s*\)")
_JOINED_PLACE: Final = "joined_at"
"""The variable of the expression that `joined()` stands for."""


def _pair_of(step: str) -> str:
    """Return the expression of an item of a step, with the output that came of it."""
    return f'{{"item": joined_item, "output": {step_path(step)}[{_JOINED_PLACE}]}}'


@dataclass
class _Names:
    """The names of a plan's `let`, and the steps whose items are joined with their outputs."""

    let: Mapping[str, Json]
    steps: Sequence[Step] = ()
    values: dict[str, Json] = field(default_factory=dict[str, Json])
    """What each name stands for, without other names in it."""
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])
    _joining: list[str] = field(default_factory=list[str])
    """Steps whose lists are being put in."""

    def __post_init__(self) -> None:
        for name in self.let:
            self._resolve(name, ())

    def _resolve(self, name: str, readers: tuple[str, ...]) -> None:
        """Find what a name stands for, the names that it reads first."""
        if name in self.values:
            return
        pointer = f"/let/{name}"
        if name.lower() in _NO_NAMES:
            hint = f"call it {name + '_value'!r}, for example"
            self._refuse(pointer, f"nothing can be called {name!r} in `let`", hint)
            return
        if name in readers:
            path = " -> ".join((*readers[readers.index(name) :], name))
            self._refuse(pointer, f"{name!r} of `let` reads itself: {path}", None)
            return
        for read in _roots(self.let[name]):
            if read in self.let:
                self._resolve(read, (*readers, name))
        value = self.put_in.value(self.let[name])
        if len(json.dumps(value)) > _MAX_LENGTH:
            message = f"{name!r} of `let` is longer than {_MAX_LENGTH:,} characters, names put in"
            self._refuse(pointer, message, "compute a part of it in a tool")
            return
        self.values[name] = value

    def _refuse(self, pointer: str, message: str, hint: str | None) -> None:
        fault = make_diagnostic("E314", pointer, message, hint)
        if fault not in self.faults:
            self.faults.append(fault)

    @property
    def put_in(self) -> ExpressionMap:
        """What puts the names in; a value that is a name alone becomes what the name stands for."""
        return ExpressionMap(self._without_names, self._named)

    def _named(self, expression: str) -> list[Json]:
        name = expression.strip()
        return [self.values[name]] if name in self.values else []

    def _without_names(self, expression: str) -> str:
        """Return an expression that reads no name; a faulty one stays for the checker to report."""
        if is_plain_path(expression):
            return expression
        try:
            mentions = root_mentions(expression)
        except ExpressionError:
            return expression
        text = expression
        for mention in reversed(mentions):
            if mention.root in self.values:
                start = mention.path_start
                value = as_expression(self.values[mention.root])
                text = text[:start] + value + text[start + len(mention.root) :]
        return self._put_joined(text) if _JOINED in text else text

    def _put_joined(self, text: str) -> str:
        for mention in reversed(root_mentions(text)):
            opened = _OPENS.search(text[: mention.path_start])
            closed = _CLOSES.match(text, mention.path_end)
            if mention.root == "steps" and mention.name and opened and closed:
                pairs = self.pairs(mention.name)
                if pairs is not None:
                    text = text[: opened.start()] + pairs + text[closed.end() :]
        return text

    def pairs(self, name: str) -> str | None:
        """Return the expression of a step's items, each with the output that came of it; None where
        no such step has items, which the checker then finds at its place.
        """
        for number, step in enumerate(self.steps):
            if step.id == name and step.for_each is not None and name not in self._joining:
                self._joining.append(name)
                items = self._chosen_items(step, f"/steps/{number}")
                self._joining.pop()
                return f"({items}).transformList({_JOINED_PLACE}, joined_item, {_pair_of(name)})"
        return None

    def _chosen_items(self, step: Step, pointer: str) -> str:
        """Return the expression of the items for which a step runs, one for each output."""
        items = as_expression(self.put_in.value(step.for_each))
        if step.min_ok is not None:
            why = "with `min_ok` items may be missing among the outputs"
            hint = "leave `min_ok` out, or return the item with the output"
            self._refuse(
                f"{pointer}/min_ok",
                f"joined(steps.{step.id}) would join what does not belong together: {why}",
                hint,
            )
        if step.when is None:
            return items
        try:
            condition = bare_expression(self.put_in.condition(step.when)).expression
        except ExpressionError:
            return items  # it is not closed, which is told where it stands
        roots = set(_roots(f"${{{condition}}}"))
        if "index" in roots:
            why = "its condition reads `index`"
            hint = "let the condition read `item` alone"
            self._refuse(
                f"{pointer}/when",
                f"joined(steps.{step.id}) would join what does not belong together: {why}",
                hint,
            )
        return f"({items}).filter(item, {condition})" if "item" in roots else items


def _roots(value: Json) -> Iterator[str]:
    """Yield the roots that a value's references name; a text that cannot be read names none."""
    for _, text in iterate_strings(value):
        try:
            parts = split_references(text) if "${" in text else ()
            for part in parts:
                if isinstance(part, EmbeddedExpression):
                    yield from (read.root for read in reads(part.expression))
        except ExpressionError:
            continue


def as_expression(value: Json) -> str:
    """Return the expression of a value whose texts may hold `${…}`."""
    match value:
        case str():
            try:
                parts = split_references(value)
            except ExpressionError:
                return json.dumps(value, ensure_ascii=False)
            if len(parts) == 1 and isinstance(parts[0], EmbeddedExpression):
                bare = parts[0].expression
                return bare.strip() if is_plain_path(bare.strip()) else f"({bare})"
            texts = [
                json.dumps(part, ensure_ascii=False)
                if isinstance(part, str)
                else f"string({part.expression})"
                for part in parts or ("",)
            ]
            return texts[0] if len(texts) == 1 else f"({' + '.join(texts)})"
        case list():
            return f"[{', '.join(map(as_expression, value))}]"
        case dict():
            members = (
                f"{json.dumps(name, ensure_ascii=False)}: {as_expression(member)}"
                for name, member in value.items()
            )
            return f"{{{', '.join(members)}}}"
        case bool() | None:
            return json.dumps(value)
        case _:
            return f"({json.dumps(value)})" if value < 0 else json.dumps(value)


def with_stop(plan: Plan, *, among: Collection[StepId] | None = None) -> Plan:
    """Return a plan whose steps are skipped where its `stop` holds: those that depend on what the
    condition reads, directly or not, but for those that the condition itself waits for.

    A plan that is given twice stays as it is.

    Args:
        plan: The plan, its sub-plans put in.
        among: The steps that may be changed; all where absent.
    """
    if plan.stop is None:
        return plan
    try:
        condition = condition_use(plan.stop.when, "/stop/when", "cap").expression
        names = [read.name for read in reads(condition) if read.root == "steps"]
    except ExpressionError:
        return plan
    stopped = _stopped_steps(plan, {StepId(name) for name in names if name})
    goes_on = f"!({condition})"
    steps: list[Step] = []
    for step in plan.steps:
        is_stopped = step.id in stopped and (among is None or step.id in among)
        steps.append(_step_that_stops(step, goes_on, stopped) if is_stopped else step)
    caps = tuple(
        cap.model_copy(update={"when": asking_for(cap.when, stopped)}) for cap in plan.caps
    )
    return plan.model_copy(update={"steps": tuple(steps), "caps": caps})


def without_stop(condition: str, stop: PlanStop) -> str:
    """Return what a step's condition is beside that the plan does not stop; `true` where it is
    nothing else.
    """
    try:
        goes_on = f"!({bare_expression(stop.when).expression})"
    except ExpressionError:
        return condition
    if condition == goes_on:
        return "true"
    own = condition.removeprefix(f"{goes_on} && (")
    return condition if own == condition else own.removesuffix(")")


def _stopped_steps(plan: Plan, read: Collection[StepId]) -> frozenset[StepId]:
    """Return the steps that depend on one of these and that none of these depends on.

    A condition that reads no step is known before any of them runs: it stops them all.
    """
    if not read:
        return frozenset(step.id for step in plan.steps)
    graph = PlanGraph.of(plan)
    known = {name for name in read if name in graph.steps}
    needed = known | reached_from(known, graph.dependencies)
    return frozenset(reached_from(known, graph.dependants) - needed)


def _step_that_stops(step: Step, goes_on: str, stopped: frozenset[StepId]) -> Step:
    """Return a step with the condition that the plan does not stop."""
    if step.when is not None and joined_conditions(goes_on) <= joined_conditions(step.when):
        return step
    when = goes_on
    for_each: Json = step.for_each
    if step.when is not None:
        own = bare_expression(step.when).expression
        when = f"{goes_on} && ({own})"
        if asks_each_item(step):
            # Such a condition is asked after the list is there, which may read skipped steps.
            for_each = list_where_there(for_each, stopped)
    return step.model_copy(update={"when": when, "for_each": for_each})


def list_where_there(items: Json, absent: frozenset[StepId]) -> Json:
    """Return the list of a `for_each` that is empty where one of the steps that it reads without
    asking is not there.

    Args:
        items: The list, or a text that gives one.
        absent: The steps that may be absent.
    """
    try:
        expression = as_expression(items)
        missing = unguarded(expression, absent)
    except ExpressionError:
        return items
    return f"${{{' && '.join(missing)} ? {expression} : []}}" if missing else items


def asking_for(condition: str, absent: frozenset[StepId]) -> str:
    """Return a condition that is false where a step that it reads without asking is not there.

    Args:
        condition: A bare condition.
        absent: The steps that may be absent.
    """
    try:
        expression = bare_expression(condition).expression
        missing = unguarded(expression, absent)
    except ExpressionError:
        return condition
    return f"{' && '.join(missing)} && ({expression})" if missing else condition


def unguarded(expression: str, absent: frozenset[StepId]) -> list[str]:
    """Return the questions for the absent steps that an expression reads without asking."""
    names = dict.fromkeys(unguarded_steps(reads(expression), guarded_steps(expression)))
    return [f"has({step_path(name)})" for name in names if name in absent]


def unguarded_steps(read: Iterable[Read], asked: Collection[str]) -> Iterator[StepId]:
    """Yield the steps that are read without asking for them, but for those that are asked elsewhere."""
    for name in (part.name for part in read if part.root == "steps" and not part.guarded):
        if name is not None and name not in asked:
            yield StepId(name)
