"""Entries that count more than once in what a run gives: calls that overlap were joined.

An *entry* is an object that names what it is about: a row of a page, the record of an item. It is the
same in two outputs if it is equal in all fields, but for those that only repeat how it was fetched
(`source`). It counts twice where both outputs are joined in a list, and where a figure that is made
of the one is added to a figure that is made of the other.

Equal entries of two calls are two entries if each call asks for a subject of the job that the other
does not ask for: two accounts that hold one share hold it twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Final, TypeAlias

from wavewright.planner import ExpressionError, Json, PlanGraph, Step, StepId, as_list, evaluate
from wavewright.planner.cel.nodes import (
    Binary,
    ExpressionNode,
    FunctionCall,
    Identifier,
    Index,
    ListLiteral,
    LiteralValue,
    Macro,
    MapLiteral,
    Select,
    children,
    summed_terms,
)
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.plans.graph import input_paths, last_steps
from wavewright.planner.plans.job_words import JobWords
from wavewright.planner.plans.uses import expressions_in, value_reads
from wavewright.planner.plans.ways_of_fetching import says_how, which_data
from wavewright.reviewer.review.items import item_labels, labels_of, rendered
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import listing

_Entries: TypeAlias = Mapping[str, Json]
"""Entries by what makes them the same one."""
_NO_ENTRIES: Final[_Entries] = {}


@dataclass(frozen=True, slots=True)
class RepeatedEntries:
    """Entries that a step was given more than once, or that count more than once in the result, though
    no step has given them so often.
    """

    step: StepId | None
    """The step that was given them; None for the result."""
    labels: tuple[str, ...]

    @property
    def text(self) -> str:
        """What counts more than once, in words."""
        entries = counted(len(self.labels), "entry", "entries")
        where = "the result" if self.step is None else repr(self.step)
        named = listing(self.labels, 8)
        return f"{entries} came more than once to {where}: {named}"


def repeated_entries(
    run: ReviewedRun, steps: Collection[StepId], *, with_result: bool
) -> Iterator[RepeatedEntries]:
    """Yield what some of the steps were given more than once, and what counts so in the result."""
    joins = _Joins(run)
    for step in run.plan.steps:
        if step.id not in steps or step.id in run.replaced:
            continue
        labels = [*joins.in_items(step)]
        for value in step.params.values():
            labels += joins.in_value(value)
        if labels:
            yield RepeatedEntries(step.id, tuple(dict.fromkeys(labels)))
    if with_result and run.plan.result is not None and not run.has_stopped:
        labels = [*joins.in_expressions(run.plan.result)]
        if labels:
            yield RepeatedEntries(None, tuple(dict.fromkeys(labels)))


class _Joins:
    """The lists and sums in which the outputs of one run are joined."""

    def __init__(self, run: ReviewedRun) -> None:
        self._run = run
        self._graph = PlanGraph.of(run.plan)
        self._outputs = run.state.outputs()
        self._known: dict[StepId, _Entries] = {}
        self._identifiers = run.goal.targets.identifiers
        self._how = {
            value
            for step in run.plan.steps
            for name, value in step.params.items()
            if isinstance(value, str) and says_how(name)
        }

    def in_items(self, step: Step) -> Iterator[str]:
        """Yield the labels of items for which a step makes the same call more than once, and of the
        records that it has more than once because no call of it asks for its own item.
        """
        if step.for_each is None:
            return
        items = rendered(self._run, step.for_each)
        yield from self._more_often(items, value_reads(step.for_each), are_calls=True)
        if not self._asks_for_its_item(step) and self._is_joined(step.id):
            records = [*filter(self._names_itself, as_list(self._outputs.get(step.id)))]
            times = Counter(map(self._identity, records))
            for record, label in zip(records, labels_of(self._run, records), strict=True):
                if times[self._identity(record)] > 1:
                    yield label

    def _asks_for_its_item(self, step: Step) -> bool:
        """Whether a call of a step asks for what its item is: not where it reads nothing of it, or only
        what is the same in all items, nor what another step has for it that does not either, as the
        result of a sub-plan may.
        """
        same = _same_parts(step.for_each)
        return any(
            self._tells_apart(parse_expression(expression), step, same)
            for name, value in step.params.items()
            if not says_how(name)
            for expression, _ in expressions_in(value)
        )

    def _tells_apart(self, node: ExpressionNode, step: Step, same: frozenset[str]) -> bool:
        """Whether what a call reads differs from item to item."""
        match node:
            case Index(operand=Select() as operand, key=Identifier(name="index")):
                read = self._graph.steps.get(_step_read(operand) or StepId(""))
                if read is None or read.for_each != step.for_each:
                    return True
                return self._asks_for_its_item(read)
            case Select(operand=Identifier(name="item")) | Index(operand=Identifier(name="item")):
                return not _reads_only_same(node, "item", same, {"item", "index"})
            case Identifier(name=name):
                return name in {"item", "index"}
            case _:
                return any(self._tells_apart(part, step, same) for part in children(node))

    def _is_joined(self, name: StepId) -> bool:
        """Whether the outputs of a `for_each` step are read together, and not one for each item alone,
        as by the steps beside it in a sub-plan: `steps.rate[index]`.
        """
        plan = self._run.plan
        if plan.result is None and name in last_steps(plan):
            return True
        read: list[Json] = [[step.for_each, {**step.params}] for step in plan.steps]
        trees = (
            parse_expression(expression) for expression, _ in expressions_in([plan.result, *read])
        )
        return any(_reads_whole(tree, name) for tree in trees)

    def in_value(self, value: Json) -> Iterator[str]:
        """Yield the labels of the entries that count more than once in a parameter."""
        if isinstance(value, list):
            steps = value_reads(value)
            yield from self._more_often(rendered(self._run, value), steps, are_calls=False)
        yield from self.in_expressions(value)

    def in_expressions(self, value: Json) -> Iterator[str]:
        """Yield the labels of the entries that count more than once in an expression of a value."""
        for expression, reads in expressions_in(value):
            # What reads one step only joins nothing.
            if len({read.name for read in reads if read.root == "steps"}) > 1:
                yield from self._in_node(parse_expression(expression), expression)

    def _in_node(self, node: ExpressionNode, text: str) -> Iterator[str]:
        value = self._value(node, text)
        if isinstance(value, list) and any(map(self._names_itself, value)):
            # What the expression has left out, as a filter does, is no longer there twice.
            steps = value_reads(f"${{{text[node.start : node.end]}}}")
            yield from self._more_often(value, steps, are_calls=False)
            return
        if isinstance(value, str):
            # A text shows its parts side by side.
            return
        match node:
            case Select() | Index():
                # One entry is taken, however often it is there.
                return
            case FunctionCall(function=name) | Macro(function=name) if name in _COUNTING_ONCE:
                return
            case Binary(operator="+"):
                yield from self._added([*summed_terms(node)], text)
            case FunctionCall(function="sum" | "flatten", target=target, arguments=arguments):
                joined = target if target is not None else arguments[0]
                yield from self._added(_listed(joined), text)
            case _:
                pass
        for part in children(node):
            yield from self._in_node(part, text)

    def _more_often(
        self, entries: Json, steps: Collection[StepId], *, are_calls: bool
    ) -> Iterator[str]:
        """Yield the labels of the entries that a list made of several outputs has more often than each
        of these.

        Figures and words may be equal by chance. Items of a `for_each` are not: equal ones are equal
        calls.
        """
        sources = [name for name in sorted(steps) if name in self._outputs]
        if not isinstance(entries, list) or len(sources) < 2:
            return
        records = {
            name: Counter(map(self._identity, _records_in(self._outputs[name]))) for name in sources
        }
        in_both = set[str]()
        for step, other in combinations(records, 2):
            shared = records[step].keys() & records[other].keys()
            is_one_question = len(shared) == min(len(records[step]), len(records[other]))
            if not is_one_question and self._give_two_records_of_items(step, other):
                continue
            if shared and not self._ask_for_two_subjects(step, other):
                in_both |= shared
        if not in_both:
            return
        # Orders of two pages may name one customer: calls for each of them are equal, and the orders
        # are not. What is made of entries counts more than once only where an entry does.
        has_same_record = any(self._names_itself(json.loads(text)) for text in in_both)
        most = Counter[str]()
        for of_source in records.values():
            most |= of_source
        times = Counter(map(self._identity, entries))
        for entry, label in zip(entries, labels_of(self._run, entries), strict=True):
            text = self._identity(entry)
            is_same = are_calls or self._names_itself(entry)
            is_of_both = has_same_record or text in in_both
            if is_same and is_of_both and times[text] > max(1, most[text]):
                yield label

    def _added(self, terms: Collection[ExpressionNode], text: str) -> Iterator[str]:
        """Yield the labels of entries of which two terms of a sum are made, each by another step."""
        for term, other in combinations(terms, 2):
            entries, others = self._entries_behind(term, text), self._entries_behind(other, text)
            shared = entries.keys() & others.keys()
            steps, steps_of_other = self._steps_behind(term, text), self._steps_behind(other, text)
            pairs = product(steps - steps_of_other, steps_of_other - steps)
            if shared and any(self._overlap(*pair, shared) for pair in sorted(pairs)):
                yield from labels_of(self._run, [entries[key] for key in sorted(shared)])

    def _overlap(self, step: StepId, other: StepId, shared: set[str]) -> bool:
        """Whether two steps have given the same entries, and were asked for one subject."""
        entries, others = self._entries_of(step), self._entries_of(other)
        both = entries.keys() & others.keys() & shared
        if not both or self._ask_for_two_subjects(step, other):
            return False
        has_two_tools = self._run.plan.step(step).tool != self._run.plan.step(other).tool
        if has_two_tools or self._ask_two_questions(step, other):
            # Two questions about the same things, such as salary and bonus, may have equal answers to
            # some; only where all are equal is it one question.
            return len(both) == min(len(entries), len(others))
        return True

    def _give_two_records_of_items(self, step: StepId, other: StepId) -> bool:
        """Whether two steps give a record for each item of one list, and ask two questions for it: the
        prices of two days. Of rows on two pages, equal ones are the same row.
        """
        answers = [*as_list(self._outputs[step]), *as_list(self._outputs[other])]
        are_records = all(isinstance(answer, dict) for answer in answers)
        return are_records and self._ask_two_questions(step, other)

    def _ask_two_questions(self, step: StepId, other: StepId) -> bool:
        """Whether two steps ask one tool for different data about the items of one list."""
        first, second = self._run.plan.step(step), self._run.plan.step(other)
        if first.for_each is None or (first.tool, first.for_each) != (second.tool, second.for_each):
            return False
        tool = self._run.tools.get(first.tool)
        return which_data(first, tool) != which_data(second, tool)

    def _entries_behind(self, node: ExpressionNode, text: str) -> _Entries:
        """Return the entries of which the value of a node is made."""
        step = _step_read(node)
        if step is not None:
            return self._entries_of(step) or self._entries_given(step)
        entries = self._named_entries(self._value(node, text))
        for part in () if entries else children(node):
            entries = {**entries, **self._entries_behind(part, text)}
        return entries

    def _entries_given(self, step: StepId) -> _Entries:
        """Return the entries of which a step's output is made that has none of its own."""
        entries = _NO_ENTRIES
        if step in self._outputs:
            called = self._run.plan.step(step)
            for expression, _ in expressions_in([*called.params.values(), called.for_each]):
                tree = parse_expression(expression)
                entries = {**entries, **self._entries_behind(tree, expression)}
        return entries

    def _entries_of(self, step: StepId) -> _Entries:
        """Return the entries in a step's output; where it has none, its calls for items count as such."""
        if step not in self._known:
            entries = self._named_entries(self._outputs.get(step))
            called = self._run.plan.step(step)
            if not entries and called.for_each is not None:
                which = which_data(called, self._run.tools.get(called.tool))
                items = as_list(rendered(self._run, called.for_each))
                labels = item_labels(self._run, step)
                entries = {
                    _as_text([called.tool, which, item]): label
                    for item, label in zip(items, labels, strict=True)
                }
            self._known[step] = entries
        return self._known[step]

    def _named_entries(self, value: Json) -> _Entries:
        named = filter(self._names_itself, _records_in(value))
        return {self._identity(entry): entry for entry in named}

    def _steps_behind(self, node: ExpressionNode, text: str) -> frozenset[StepId]:
        read = value_reads(f"${{{text[node.start : node.end]}}}") & self._graph.steps.keys()
        return read.union(*map(self._graph.ancestors, read))

    def _value(self, node: ExpressionNode, text: str) -> Json:
        """Return the value of a part of an expression; None where it has none by itself."""
        try:
            return evaluate(text[node.start : node.end], self._run.scope, self._run.now)
        except ExpressionError:
            return None

    def _identity(self, entry: Json) -> str:
        """Return a text that is the same for entries that differ only in how they were fetched."""
        if not isinstance(entry, dict):
            return _as_text(entry)
        told = {
            name: value
            for name, value in entry.items()
            if name in self._identifiers or not self._repeats_how(name, value)
        }
        return _as_text(told)

    def _repeats_how(self, name: str, value: Json) -> bool:
        return says_how(name) or (isinstance(value, str) and value in self._how)

    def _names_itself(self, entry: Json) -> bool:
        """Whether an entry is an object that names what it is about."""
        return isinstance(entry, dict) and any(entry.get(key) for key in self._identifiers)

    # Subjects

    def _ask_for_two_subjects(self, step: StepId, other: StepId) -> bool:
        """Whether each of two steps asks for a subject of the job that the other does not."""
        first, second = self._run.plan.step(step), self._run.plan.step(other)
        if first.tool != second.tool:
            return _are_two(self._run.inputs_behind[step], self._run.inputs_behind[other])
        return self._are_of_two_subjects("for_each", first.for_each, second.for_each) or any(
            self._are_of_two_subjects(name, value, second.params.get(name))
            for name, value in first.params.items()
        )

    def _are_of_two_subjects(self, parameter: str, value: Json, other: Json) -> bool:
        """Whether a parameter of two calls names two subjects, or rests on steps that ask for two."""
        if value == other:
            return False
        if _are_two(self._subjects(parameter, value), self._subjects(parameter, other)):
            return True
        steps, steps_of_other = value_reads(value), value_reads(other)
        pairs = [*product(steps - steps_of_other, steps_of_other - steps)]
        return bool(pairs) and all(self._ask_for_two_subjects(*pair) for pair in pairs)

    def _subjects(self, parameter: str, value: Json) -> set[str]:
        """Return the inputs that a value reads, and the words in it that the job names.

        Words to search for are none: what is found by two of them may be one thing.
        """
        subjects = {*input_paths(value)}
        if _SEARCHES.search(parameter) is None:
            texts = [value] if isinstance(value, str) else as_list(value)
            subjects |= {f"'{text}'" for text in texts if self._is_named_word(text)}
        return subjects

    def _is_named_word(self, text: Json) -> bool:
        # A figure, a year or a day may be named by chance.
        if not isinstance(text, str) or "${" in text or not text[:1].isalpha():
            return False
        return self._job_words.names(text)

    @cached_property
    def _job_words(self) -> JobWords:
        return JobWords(self._run.goal.said)


def _are_two(subjects: Collection[str], others: Collection[str]) -> bool:
    return not (_are_of(subjects, others) or _are_of(others, subjects))


def _are_of(subjects: Iterable[str], others: Collection[str]) -> bool:
    """Whether all of some inputs are among others, whole or in part: `accounts` and `accounts[0]`."""
    return all(any(_is_part(path, of) or _is_part(of, path) for of in others) for path in subjects)


def _is_part(path: str, of: str) -> bool:
    return path == of or path.startswith((f"{of}.", f"{of}["))


def _same_parts(listed: Json) -> frozenset[str]:
    """Return the fields and places of the items of a `for_each` that a plan gives each of them without
    reading what they are made of: `id` of `x.map(i, {'name': i, 'id': x[0]})`; of a list that is
    written out, those in which its items are equal.
    """
    if isinstance(listed, list):
        return _equal_parts(listed)
    for expression, _ in expressions_in(listed):
        return _same_in(parse_expression(expression))
    return _NO_PARTS


def _equal_parts(items: Sequence[Json]) -> frozenset[str]:
    records = [item for item in items if isinstance(item, dict)]
    if len(records) < max(2, len(items)):
        return _NO_PARTS
    first = records[0]
    return frozenset(
        name for name in first if all(item.get(name) == first[name] for item in records)
    )


def _same_in(listed: ExpressionNode) -> frozenset[str]:
    """Return the parts that are the same in all entries of a list, by the expression that makes it."""
    match listed:
        case FunctionCall(function="zip", target=None, arguments=lists):
            return frozenset(str(place) for place, part in enumerate(lists) if _has_one_value(part))
        case FunctionCall(function=name, target=over) if name in _KEEPING and over is not None:
            return _same_in(over)
        case Macro(function="filter" | "sortBy", range=over):
            return _same_in(over)
        case Macro(function="map" | "transformList", range=over, arguments=(*_, body)):
            entry, same = listed.variables[-1], _same_in(over)
            if isinstance(body, Identifier) and body.name == entry:
                return same
            named = {*listed.variables}
            return frozenset(
                name
                for name, value in _parts_of(body)
                if _reads_only_same(value, entry, same, named)
            )
        case _:
            return _NO_PARTS


def _has_one_value(listed: ExpressionNode) -> bool:
    """Whether all entries of a list are the same, by the expression that makes it."""
    match listed:
        case Macro(function="map" | "transformList", range=over, arguments=(*_, body)):
            entry, named = listed.variables[-1], {*listed.variables}
            return _reads_only_same(body, entry, _same_in(over), named)
        case _:
            return False


def _parts_of(body: ExpressionNode) -> list[tuple[str, ExpressionNode]]:
    """Return the parts of what a macro makes of an entry, by their names or places."""
    match body:
        case MapLiteral(entries=entries):
            return [
                (str(key.value), value) for key, value in entries if isinstance(key, LiteralValue)
            ]
        case ListLiteral(items=items):
            return [(str(place), value) for place, value in enumerate(items)]
        case _:
            return []


def _reads_only_same(
    node: ExpressionNode, entry: str, same: frozenset[str], named: Collection[str]
) -> bool:
    """Whether a value reads of an entry only what is the same in all of them; `named` are the names
    that stand for something of it.
    """
    match node:
        case Identifier(name=name):
            return name not in named
        case Select(operand=Identifier(name=name), field=part) if name == entry and part in same:
            return True
        case Index(operand=Identifier(name=name), key=LiteralValue(value=part)) if (
            name == entry and str(part) in same
        ):
            return True
        case _:
            return all(_reads_only_same(part, entry, same, named) for part in children(node))


def _step_read(node: ExpressionNode) -> StepId | None:
    """Return the step whose output a node is."""
    match node:
        case Select(operand=Identifier(name="steps"), field=name):
            return StepId(name)
        case _:
            return None


def _reads_whole(node: ExpressionNode, step: StepId) -> bool:
    """Whether an expression reads all of a step's output, and not the entry at its own `index`."""
    match node:
        case Index(operand=operand, key=Identifier(name="index")) if _step_read(operand) == step:
            return False
        case _:
            return _step_read(node) == step or any(
                _reads_whole(part, step) for part in children(node)
            )


def _listed(node: ExpressionNode) -> Collection[ExpressionNode]:
    """Return the entries of a list that is written out, also where something is made of each of them;
    none of any other list.
    """
    while isinstance(node, Macro) and node.function == "map" and len(node.arguments) == 1:
        node = node.range
    return node.items if isinstance(node, ListLiteral) else ()


def _records_in(output: Json) -> Iterator[Json]:
    """Yield an output that is an object, and the entries of its lists without lists inside of these."""
    if isinstance(output, dict):
        yield output
    yield from _listed_in(output)


def _listed_in(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _listed_in(part)
    for entry in as_list(value):
        if isinstance(entry, list):
            yield from _listed_in(entry)
        else:
            yield entry


def _as_text(entry: Json) -> str:
    return json.dumps(entry, sort_keys=True)


_NO_PARTS: Final = frozenset[str]()
_KEEPING: Final = frozenset({"distinct", "flatten", "reverse", "slice", "sort"})
"""Methods that give entries of a list, in whatever order."""
_COUNTING_ONCE: Final = frozenset(
    {
        *("distinct", "max", "min", "maxBy", "minBy", "math.greatest", "math.least"),
        *("contains", "all", "exists", "exists_one", "existsOne"),
    }
)
"""Functions to whose value it adds nothing that an entry is there twice."""
_SEARCHES: Final = re.compile(
    r"(?:^|_)(?:query|q|search|text|keywords?|terms?|filter|prompt|pattern|where|sql)(?:_|$)"
)
"""Names of parameters that hold what is searched for."""
