"""Provenance: where each field of a result and each input of a gate comes from.

The rules, which `docs/explanation/confidence.md` tells with examples:

1. A value has *origins*: steps that fetch data, inputs of the job, steps in which a model answers, and
   *literals*, which the plan's author wrote. They are followed through expressions, items and steps.
2. A tool that *fetches* is a source whatever its arguments are: they only say which data. What
   another tool gives is made of its arguments: a record among them is data, a single number or word
   an option, as long as another argument brings data.
3. What an author writes is a literal unless what is read still decides the value. Then it is nothing
   if the job says it (its goal or inputs name the figure, word, unit or day) or everybody writes it
   so (counting, rounding, a mean, a percentage of a share, a default for what is not there); a
   *factor* if it makes of the value another one; a *choice* if it takes a part or words it.
4. Computing with data alone is *computed*: it counts as nothing and is shown, for a reviewer to judge.
5. A patch is read *strictly*, because it is written when it is known which values would pass a gate:
   its factors and computations are literals, and so is an empty list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wavewright.config.sources import path_text
from wavewright.config.value_types import JsonPath
from wavewright.planner.cel.embedded import EmbeddedExpression, bare_expression, split_references
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import ExpressionNode, Identifier
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.plain_paths import plain_read
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import ASK_MODEL, SUB_PLAN, Gate, Plan, Step
from wavewright.planner.language.signatures import AGENT, ASK_PERSON, ToolSignatures
from wavewright.planner.plans.answer_types import only_answers
from wavewright.planner.plans.binding import terminal_params
from wavewright.planner.plans.figures import numbers_in
from wavewright.planner.plans.graph import PlanGraph, last_steps
from wavewright.planner.plans.origins import (
    EMPTY_VALUES,
    FIELDS,
    NO_PARTS,
    NO_STEPS,
    NO_TEXTS,
    NOTHING,
    WHOLE,
    AnyEntry,
    Origins,
    PartName,
    has_digit,
    on_one_line,
    shown,
    without_name,
)
from wavewright.planner.plans.step_types import answer_types, call_output_schema
from wavewright.planner.plans.uses import (
    asks_each_item,
    expressions_in,
    gate_reads,
    holds_expression,
)
from wavewright.planner.schemas.validation import infer_schema
from wavewright.planner.schemas.views import array_schema, scoped_schema, self_contained_schema
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId, as_object, properties_of

if TYPE_CHECKING:
    from wavewright.planner.plans.expression_origins import ExpressionOrigins
    from wavewright.planner.plans.job_words import JobWords
    from wavewright.planner.plans.listed_entries import ListedEntries

_SourceKind: TypeAlias = Literal["data", "model", "computed", "unknown"]


class PlanProvenance:
    """Where the values of one plan come from."""

    def __init__(
        self,
        plan: Plan,
        tools: ToolSignatures,
        goal: Goal | None = None,
        *,
        is_strict: bool = False,
    ) -> None:
        """Follow the values of a bound plan; without its goal, all inputs count as the job's."""
        self._plan = plan
        self._tools = tools
        self._goal = goal
        self._is_strict = is_strict
        self._terminal_params = {} if goal is None else terminal_params(goal)
        self.steps: dict[StepId, Origins] = {}
        """The origins of each step's output; without steps that depend on a cycle."""
        graph = PlanGraph.of(plan)
        self._step_of = graph.steps
        for step_id in graph.order():
            origins = self._of_step(graph.steps[step_id])
            if is_strict:
                # What is not a literal is an option of a step before.
                origins = origins.changed(_without_options)
            self.steps[step_id] = origins

    @cached_property
    def said(self) -> JobWords:
        """What the job names, read when it is first asked for: inputs may be long, and most plans are
        made of plain paths, which need no word of it.
        """
        from wavewright.planner.plans.job_words import JobWords

        if self._goal is None:
            return JobWords([dict(self._plan.inputs)])
        fields = as_object((self._goal.output_schema or {}).get("properties"))
        return JobWords(self._goal.said, fields)

    @cached_property
    def _partly_taken(self) -> ListedEntries | None:
        """The lists of the job of which the plan takes some entries and leaves others out; a patch is
        judged by what the plan before it has asked for.
        """
        if self._goal is None or self._is_strict:
            return None
        if not any(isinstance(value, (list, dict)) for value in self._goal.inputs.values()):
            return None
        from wavewright.planner.plans.listed_entries import partly_taken

        return partly_taken(self._plan, self._goal)

    @cached_property
    def said_of_choices(self) -> JobWords:
        """What the job says of the entries that are to be taken: not what lists say of their own."""
        from wavewright.planner.plans.job_words import JobWords

        lists = self._partly_taken
        if self._goal is None or lists is None or not lists.names:
            return self.said
        others = {"inputs": lists.without(dict(self._goal.inputs))}
        return JobWords(self._goal.model_copy(update=others).said)

    def _with_left_out(self, origins: Origins, part: Json | Step) -> Origins:
        """Return the origins of a step or a value, with the entries that it takes of lists of which the
        job does not say that others are to be left out.
        """
        lists = self._partly_taken
        if lists is None or not lists.names or origins.choices:
            return origins
        chosen = {
            f"inputs.{entry.path}[{entry.place}] alone"
            for entry in lists.taken_by(part)
            if not lists.is_said(entry, self.said_of_choices)
        }
        return origins.joined(Origins(choices=frozenset(chosen)))

    def of_result(self, *, has_stopped: bool | None = None) -> dict[str, Origins]:
        """Return the origins of each field of the result, by its path; `result` where it is one
        value.

        Before a run, the result of `stop` and that of the whole plan both count; of a run that has
        ended, the one that it has.
        """
        stop = self._plan.stop
        by_field: dict[str, Origins] = {}
        if stop is not None and has_stopped is not False:
            # A plan that data stops may say that there is nothing: `{"ordered": []}`.
            may_say_nothing = not self._is_strict and self._condition(stop.when, NOTHING).reads
            by_field = self._of_leaves(stop.result, may_say_nothing=may_say_nothing)
        if has_stopped:
            return by_field
        if self._plan.result is not None:
            declared = self._of_leaves(self._plan.result)
        else:
            declared = {name: self.steps.get(name, NOTHING) for name in last_steps(self._plan)}
        for name, origins in declared.items():
            by_field[name] = by_field.get(name, NOTHING).joined(origins)
        return by_field

    def _of_leaves(self, result: Json, *, may_say_nothing: bool = False) -> dict[str, Origins]:
        by_field: dict[str, Origins] = {}
        for path, leaf in _leaves(result, ()):
            is_nothing = may_say_nothing and _is_nothing(leaf)
            origins = NOTHING if is_nothing else self._of_leaf(path, leaf)
            for name, part in _by_field(path_text(path), origins):
                by_field[name or "result"] = part
        return by_field

    def words(self, origins: Origins) -> frozenset[str]:
        """Return the words and signs around a value that neither the goal nor an input names."""
        return frozenset(
            shown(text)
            for text in origins.labels
            if origins.reads and shown(text) not in origins.literals and self._says_more(text)
        )

    def _says_more(self, text: str) -> bool:
        """Whether words beside a value say more of it than the job does."""
        rest = " ".join(word for word in text.split() if word.casefold() not in _NEUTRAL)
        return bool(_SAYS.search(rest)) and not self.said.names(rest)

    def of_gate(self, gate: Gate) -> Origins:
        """Return the origins of all that a gate looks at."""
        names = {*gate_reads(gate), *([gate.on] if gate.on is not None else [])}
        return NOTHING.joined(*(self.steps.get(name, NOTHING) for name in sorted(names)))

    def asks_model(self, step: Step) -> bool:
        """Whether a model answers in a step."""
        return self._source_kind(step) == "model"

    def computes(self, step: Step) -> bool:
        """Whether a step's output is made of its arguments, by code."""
        return self._source_kind(step) == "computed"

    def fetches(self, step: Step) -> bool:
        """Whether a step's tool fetches data."""
        return self._source_kind(step) == "data"

    def only_fetches(self, step: Step) -> bool:
        """Whether a step's tool fetches data, and writes nothing of which its output could be."""
        tool = self._tools.get(step.tool)
        return self.fetches(step) and (tool is None or not tool.writes)

    def reads_anything(self, value: Json, step: Step) -> bool:
        """Whether a value in a step's parameters reads a step, an input or its item."""
        return self._value(value, self._item(step)).reads

    def supplied(self, step: Step) -> dict[str, frozenset[str]]:
        """Return the literals that a step brings in as data, by parameter; `for_each` for its
        items.
        """
        kind, items = self._source_kind(step), self._items(step)
        if kind == "data":
            # The arguments of a fetch only say which data.
            return {}
        params = self._params(step)
        supplied = {
            name: self._supplied_by(step.params[name], origins, kind)
            for name, origins in params.items()
        }
        if kind == "model":
            for name, literals in self._dictated(step, params):
                supplied[name] |= literals
        if kind == "computed" and self._is_strict:
            for name, origins in params.items():
                supplied[name] |= self._repeated_entries(step, name, origins)
        if kind != "unknown":
            supplied["for_each"] = items.literals
        if kind == "computed" and not NOTHING.joined(items, *params.values()).reads:
            # Nothing brings data: what would be options is all that the output is made of.
            for name, origins in params.items():
                supplied[name] |= origins.settled().literals
        return {name: literals for name, literals in supplied.items() if literals}

    def repeated_items(self, step: Step) -> frozenset[str]:
        """Return what a step has more than once among its items, so that it makes the same calls
        again: `steps.ids + steps.ids`.
        """
        return self._repeated_in(step.for_each)

    def _figures_beside(
        self, step: Step, kind: _SourceKind, params: Mapping[str, Origins]
    ) -> frozenset[str]:
        """Return the figures that stand in a list or an object beside the data that a model is asked
        about, and that the job does not name: what it makes of them is not made of the data alone.
        """
        name = _ASKED_ABOUT.get(step.tool, "")
        if kind != "model" or name not in params or not isinstance(step.params[name], (list, dict)):
            return NO_TEXTS
        figures = params[name].literals - EMPTY_VALUES - _TRUE
        listing = ", ".join(sorted(text for text in figures if not self.said.names(text)))
        return frozenset({shown(f"{name} = {listing} of {step.id}")}) if listing else NO_TEXTS

    def _doubled(
        self, step: Step, kind: _SourceKind, params: Mapping[str, Origins]
    ) -> frozenset[str]:
        """Return what counts twice in what a step computes, by its items or its lists."""
        if kind != "computed":
            return NO_TEXTS
        in_lists = (self._repeated_entries(step, name, read) for name, read in params.items())
        return self.repeated_items(step).union(*in_lists)

    def _repeated_entries(self, step: Step, name: str, read: Origins) -> frozenset[str]:
        """Return what a list holds more than once that a step computes with: `[x, x]`.

        A text twice, or a day, is no double; neither is what only the job's inputs say.
        """
        tool = self._tools.get(step.tool)
        parameters = {} if tool is None else properties_of(tool.input_schema)
        entry = as_object(as_object(parameters.get(name)).get("items"))
        if not (read.data or read.models) or entry.get("type") == "string":
            return NO_TEXTS
        return self._repeated_in(step.params[name])

    def _repeated_in(self, value: Json) -> frozenset[str]:
        """Return what lists in a value hold more than once."""
        match value:
            case list():
                texts = [json.dumps(entry) for entry in value if holds_expression(entry)]
                read = [_QUOTED_FIELD.sub(r".\1", text) for text in texts]
                twice = {f"{shown(entry)} twice" for entry in read if read.count(entry) > 1}
                return frozenset(twice).union(*map(self._repeated_in, value))
            case dict():
                return NO_TEXTS.union(*map(self._repeated_in, value.values()))
            case str() if plain_read(value[2:-1]) is None:
                return frozenset(self._repeated_in_expressions(value))
            case _:
                return NO_TEXTS

    def _repeated_in_expressions(self, text: str) -> Iterator[str]:
        for expression, _ in expressions_in(text):
            tree = parse_expression(expression)
            if self._origins_in(expression, tree, NOTHING).repeats(tree):
                yield shown(expression)

    def _supplied_by(self, value: Json, origins: Origins, kind: _SourceKind) -> frozenset[str]:
        """Return the literals of a parameter that are data and no options of the computation."""
        if isinstance(value, str):
            if "${" not in value:
                # A word that is written out is an option.
                return NO_TEXTS
            # A tool of which nothing is known may be asked for anything, but not given records.
            makes_records = "{" in value.replace("${", "")
            if kind == "unknown" and not makes_records:
                return NO_TEXTS
            if self._is_strict and kind == "computed" and _calculates(value, origins):
                return origins.literals | {shown(value)}
            return origins.literals
        if not isinstance(value, (list, dict)):
            # A single number is an option.
            return NO_TEXTS
        if not value:
            # In a patch an empty list takes data away.
            return frozenset({json.dumps(value)}) if self._is_strict else NO_TEXTS
        figures_too = self._is_strict and kind != "unknown"
        is_data = _holds_records(value, figures_too=figures_too)
        return origins.settled().literals if is_data else NO_TEXTS

    def _dictated(
        self, step: Step, params: Mapping[str, Origins]
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield what a plan has a model say: answers of which only one fits their type, and a text
        that is asked about and comes from nowhere.
        """
        for name, schema in answer_types(step, self._tools):
            yield name, frozenset(only_answers(schema))
        name = _ASKED_ABOUT.get(step.tool, "")
        if name in params and not params[name].reads:
            yield name, params[name].settled().literals

    def _of_step(self, step: Step) -> Origins:
        origins = self._of_output(step).joined(self._withheld(step))
        return self._with_left_out(origins, step)

    def _withheld(self, step: Step) -> Origins:
        """Return the condition that keeps a step from running whatever is read (`when: false`), and by
        what it chooses among the items, as a filter does.
        """
        if step.when is None:
            return NOTHING
        condition = self._condition(step.when, self._item(step))
        literals = condition.literals
        if condition.reads:
            literals &= _FALSE
        choices = condition.choices if asks_each_item(step) else NO_TEXTS
        return Origins(literals=literals - _TRUE, choices=choices)

    def _condition(self, text: str, item: Origins) -> Origins:
        """Return the origins of what a condition decides on; none where it cannot be read."""
        try:
            return self._expression(bare_expression(text).expression, item)
        except ExpressionError:
            return NOTHING

    def _of_output(self, step: Step) -> Origins:
        kind, items = self._source_kind(step), self._items(step)
        params = self._params(step)
        # What is made of no arguments, and by no model, can only come from outside.
        is_source = not (step.params or step.for_each is not None or kind == "model")
        if kind == "data" or is_source:
            # Without items nothing is fetched: an empty list is the result, and the author's.
            own = Origins(data=frozenset({step.id}), literals=items.literals & _EMPTY_LIST)
            asked = Origins(choices=self._unnamed_items(step, items))
            twice = Origins(factors=self.repeated_items(step))
            misdirected = _misdirected(step, params, items)
            return own.joined(self._echoed(step, params), misdirected, asked, twice)
        if step.tool == SUB_PLAN:
            # Its output is its parameter: the result of the sub-plan.
            result = self._of_stopped(step) or NOTHING.joined(*params.values())
            return result.handed_on().changed(_without_words_beside)
        whole = NOTHING.joined(items, *params.values()).with_parts(NO_PARTS)
        words = [read.labels for read in params.values() if read.reads and kind == "computed"]
        return Origins(
            whole.data | ({step.id} if kind == "unknown" else NO_STEPS),
            whole.inputs,
            whole.models | ({step.id} if kind == "model" else NO_STEPS),
            NO_TEXTS.union(*self.supplied(step).values()),
            NO_TEXTS.union(*words),
            is_read=whole.is_read,
            factors=whole.factors.union(
                self._options(step, kind),
                self._doubled(step, kind, params),
                self._figures_beside(step, kind, params),
            ),
            choices=whole.choices,
            computed=whole.computed,
            handed=whole.applied_so_far(),
        )

    def _of_stopped(self, step: Step) -> Origins | None:
        """Return the origins of the result of a sub-plan that data may stop; None of another one."""
        text = step.params.get("result")
        if self._is_strict or not (isinstance(text, str) and WHOLE.fullmatch(text)):
            return None
        tree = parse_expression(text[2:-1])
        return self._origins_in(text[2:-1], tree, self._item(step)).of_stopped(tree)

    def _unnamed_items(self, step: Step, items: Origins) -> frozenset[str]:
        """Return the items of a fetch that the author listed, and that the job does not name:
        `for_each: [1, 2]`.
        """
        if step.for_each is None or items.reads:
            return NO_TEXTS
        unnamed = {
            text for text in items.literals - _EMPTY_LIST if not self.said_of_choices.names(text)
        }
        listing = f"{', '.join(sorted(unnamed))} for {step.id}"
        return frozenset({shown(listing)}) if unnamed else NO_TEXTS

    def _item(self, step: Step) -> Origins:
        """Return the origins of one of the items of a step."""
        return replace(self._value(step.for_each, NOTHING).entry().handed_on(), is_of_items=False)

    def _items(self, step: Step) -> Origins:
        """Return the origins of how many items a step has."""
        return self._value(step.for_each, NOTHING).counted().settled()

    def _params(self, step: Step) -> dict[str, Origins]:
        item = self._item(step)
        written = self._written_params(step)
        return {name: self._value(value, item) for name, value in written.items()}

    def _written_params(self, step: Step) -> JsonObject:
        """Return the parameters that the plan's author wrote: those that the goal sets are the job's."""
        of_goal = self._terminal_params.get(step.tool, {})
        return {name: value for name, value in step.params.items() if of_goal.get(name) != value}

    def _options(self, step: Step, kind: _SourceKind) -> frozenset[str]:
        """Return the figures that are options of a computation, and neither the tool's own default nor
        named by the goal or an input.
        """
        options = set[str]()
        tool = self._tools.get(step.tool)
        if kind != "computed" or tool is None:
            return NO_TEXTS
        parameters = properties_of(tool.input_schema)
        for name, value in self._written_params(step).items():
            schema = as_object(parameters.get(name))
            is_default = "default" in schema and schema["default"] == value
            figures: list[float] = [] if is_default else [*numbers_in(value)]
            if any(not self.said.names_figure(figure) for figure in figures):
                options.add(f"{name} = {json.dumps(value)} of {step.id}")
        return frozenset(options)

    def _echoed(self, step: Step, params: Mapping[str, Origins]) -> Origins:
        """Return what a step that writes may hand back in its receipt, in the strict reading."""
        tool = self._tools.get(step.tool)
        if not self._is_strict or tool is None or not tool.writes or "data" in tool.tags:
            return NOTHING
        return Origins(literals=NOTHING.joined(*params.values()).settled().literals)

    def _source_kind(self, step: Step) -> _SourceKind:
        """Return what a step's tool does: a tool without tags that reads something outside may fetch
        data or compute, as far as is known.
        """
        tool = self._tools.get(step.tool)
        if tool is None:
            return "computed" if step.tool == SUB_PLAN else "unknown"
        if tool.expected_tokens > 0 or tool.name == AGENT:
            return "model"
        rules = None if self._goal is None else self._goal.rules
        is_source = tool.name == ASK_PERSON or "data" in tool.tags or tool.writes or tool.reads_data
        is_outside = tool.untrusted_output or "egress" in tool.effects
        is_named = rules is not None and tool.name in rules.data_tools
        if is_source or is_outside or is_named or tool.freshness_field is not None:
            return "data"
        is_analysis = rules is not None and tool.name in rules.analysis_tools
        return "computed" if is_analysis or tool.tags or not tool.effects else "unknown"

    def _of_leaf(self, path: JsonPath, leaf: Json) -> Origins:
        """Return the origins of a field of the result, where figures in words count as well, unless the
        job says them in the same words: `before 2026-12-31: ${…}`.
        """
        origins = self._value(leaf, NOTHING).changed(self._with_figures_in_words)
        origins = self._with_left_out(origins.settled(), leaf)
        key = path[-1] if path else None
        if isinstance(key, str) and isinstance(leaf, str) and WHOLE.fullmatch(leaf):
            renamed = self.renamed(key, leaf.removeprefix("${"), leaf, origins)
            return origins.joined(renamed)
        return origins

    def _with_figures_in_words(self, origins: Origins) -> Origins:
        figures = frozenset(
            shown(label)
            for label in origins.labels
            if has_digit(label) and (self._is_strict or not self.said.words_figures_so(label))
        )
        return origins.joined(Origins(literals=figures)) if figures else origins

    def renamed(self, key: str, value: str, text: str, origins: Origins) -> Origins:
        """Return the factor by which the value of one field is given under the name of another field
        of the same object.

        Args:
            key: The name that the value is given.
            value: The expression of the value.
            text: The expression that it stands in.
            origins: Where the value comes from.
        """
        fields = FIELDS.findall(_STEPS.sub("", value))
        if not fields or key in fields:
            return NOTHING
        steps = {*origins.data, *origins.models, *map(StepId, _STEPS.findall(text))}
        for names in self.fields_of(steps):
            others = names.keys() & set(fields)
            if key in names and others:
                return Origins(factors=frozenset({f"{', '.join(sorted(others))} as {key}"}))
        return NOTHING

    def fields_of(self, steps: Iterable[StepId]) -> Iterator[JsonObject]:
        """Yield the fields of each object that the outputs of steps hold, by name."""
        for step in sorted(steps):
            yield from _objects(self._schema_of(step))

    @cached_property
    def _firsts(self) -> Mapping[str, StepId]:
        """Steps that fetch or compute, with the first that makes the same calls; worked out when an
        expression is looked at in which a value may meet itself.
        """
        from wavewright.planner.plans.same_values import first_of_equal_calls

        # Two answers of a model, or of a tool that may throw dice, are not the same.
        steps = (step for step in self._plan.steps if self.fetches(step) or self.computes(step))
        return first_of_equal_calls(PlanGraph.of(self._plan), {step.id for step in steps})

    def _value(self, value: Json, item: Origins) -> Origins:
        match value:
            case None:
                return NOTHING
            case str():
                return self._text(value, item)
            case list() if value:
                entry = NOTHING.joined(*(self._value(entry, item) for entry in value))
                if not entry.parts:
                    return entry
                is_of_data = all(map(_is_plain_read, value)) and not self._repeated_in(value)
                kind = AnyEntry.OF_DATA if is_of_data else AnyEntry.WRITTEN
                return entry.with_parts({kind: entry})
            case dict() if value:
                fields: dict[PartName, Origins] = {
                    name: self._value(entry, item) for name, entry in value.items()
                }
                whole = (origins.with_parts(NO_PARTS) for origins in fields.values())
                return NOTHING.joined(*whole).with_parts(fields)
            case _:
                return Origins(literals=frozenset({json.dumps(value)}))

    def _text(self, text: str, item: Origins) -> Origins:
        if "${" not in text:
            return Origins(labels=frozenset({on_one_line(text)}))
        try:
            parts = split_references(text)
        except ExpressionError:
            return NOTHING
        read = [part.expression for part in parts if isinstance(part, EmbeddedExpression)]
        # Before one field that is read, its own name says nothing more of it.
        reads_one_field = len(read) == 1 and plain_read(read[0]) is not None
        origins: list[Origins] = []
        for part in parts:
            if isinstance(part, EmbeddedExpression):
                origins.append(self._expression(part.expression, item))
            else:
                words = without_name(part, read[0]) if reads_one_field else part
                origins.append(Origins(labels=frozenset({on_one_line(words)})))
        return NOTHING.joined(*origins)

    def _expression(self, expression: str, item: Origins) -> Origins:
        keys = Origins(choices=self._chosen_keys(expression))
        plain = plain_read(expression)
        if plain is not None:
            origins = self._root(plain.root, plain.name, item)
            for name in expression.split(".")[2:]:
                origins = origins.part(name)
            return origins.joined(keys)
        try:
            tree = parse_expression(expression)
        except ExpressionError:
            return NOTHING

        if isinstance(tree, Identifier):
            return self._root(tree.name, None, item)

        origins = self._origins_in(expression, tree, item).of_tree(tree).joined(keys)
        if not self._is_strict:
            return origins
        return origins.changed(_with_options_as_literals)

    def _origins_in(
        self, expression: str, tree: ExpressionNode, item: Origins
    ) -> ExpressionOrigins:
        # Plain paths, which most plans have alone, need neither.
        from wavewright.planner.plans.expression_origins import ExpressionOrigins
        from wavewright.planner.plans.same_values import SameValues
        from wavewright.planner.plans.value_trials import ValueTrials

        def root(name: str, field: str | None) -> Origins:
            return self._root(name, field, item)

        trials = ValueTrials(expression, tree, self._type_of_root)
        same = SameValues(lambda: self._firsts)
        return ExpressionOrigins(
            expression, root, self.said, self.said_of_choices, self, trials, same
        )

    def _chosen_keys(self, expression: str) -> frozenset[str]:
        """Return the keys that an expression takes from objects of which only the data knows the
        keys.
        """
        chosen = set[str]()
        for read in _STEP_KEY.finditer(expression):
            key = read["key"] or read["quoted"]
            schema = self._schema_of(StepId(read["step"]))
            has_open_keys = isinstance(schema.get("additionalProperties"), dict)
            if has_open_keys and not self.said.names(key):
                chosen.add(key)
        return frozenset(chosen)

    def _schema_of(self, step: StepId) -> JsonSchema:
        if step not in self._step_of:
            return {}
        tool = self._tools.get(self._step_of[step].tool)
        return {} if tool is None else tool.output_schema

    def _type_of_root(self, root: str, name: str | None) -> JsonSchema:
        """Return the schema of a root of expressions, or of a field right below it."""
        if root == "index":
            return {"type": "integer"}
        if root == "inputs" and name in self._plan.inputs:
            return infer_schema(self._plan.inputs[name])
        step = self._step_of.get(StepId(name or "")) if root == "steps" else None
        if step is None:
            return {}
        output = call_output_schema(step, self._tools)
        if step.for_each is None:
            return output
        return self_contained_schema(array_schema(scoped_schema(output)))

    def _root(self, root: str, name: str | None, item: Origins) -> Origins:
        """Return the origins of a root of expressions, or of a field right below it."""
        match root:
            case "steps" if name is not None:
                origins = self.steps.get(StepId(name), NOTHING)
                step = self._step_of.get(StepId(name))
                has_items = step is not None and step.for_each is not None
                if has_items and origins.parts:
                    origins = origins.with_parts({AnyEntry.OF_DATA: origins})
                return replace(origins, is_of_items=has_items)
            case "inputs":
                return self._input(name)
            case "item":
                return item if name is None else item.part(name)
            case "index":
                return Origins(is_read=True)
            case "previous":
                # What an earlier run gave is data of the job, and no step of this run has fetched it.
                return Origins(inputs=frozenset({"previous"}))
            case _:
                return NOTHING

    def _input(self, name: str | None) -> Origins:
        """Return the origins of an input: one that the job does not give is the plan's own."""
        of_job = self._plan.inputs if self._goal is None else self._goal.inputs
        own = {
            input_name: value
            for input_name, value in self._plan.inputs.items()
            if input_name not in of_job and name in (None, input_name)
        }
        literals = frozenset(shown(json.dumps(value)) for value in own.values())
        value = self._plan.inputs.get(name or "")
        return Origins(
            inputs=NO_TEXTS if name in own else frozenset({name or "inputs"}),
            literals=literals,
            is_of_items=isinstance(value, (list, dict)) and len(value) > 1,
        )


def _is_plain_read(value: Json) -> bool:
    return isinstance(value, str) and plain_read(value[2:-1]) is not None


def _without_options(origins: Origins) -> Origins:
    return replace(origins, factors=NO_TEXTS, computed=NO_TEXTS)


def _with_options_as_literals(origins: Origins) -> Origins:
    """Return origins as of a patch: who writes one knows which values would pass, so all that he adds
    counts as data.
    """
    figures = frozenset(shown(label) for label in origins.labels if has_digit(label))
    literals = origins.literals | origins.factors | origins.computed | figures
    return _without_options(replace(origins, literals=literals))


def _without_words_beside(origins: Origins) -> Origins:
    """Return origins without the words around what is read."""
    return replace(origins, labels=NO_TEXTS) if origins.reads else origins


def _objects(schema: Json) -> Iterator[JsonObject]:
    """Yield the fields of each object in a schema, by name."""
    if isinstance(schema, dict):
        properties = properties_of(schema)
        if properties:
            yield properties
        for part in schema.values():
            yield from _objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _objects(part)


_STEP_KEY: Final = re.compile(
    r"""steps\.(?P<step>\w+)(?:\.(?P<key>\w+)(?!\w*\()|\[['"](?P<quoted>[^'"]*)['"]\])"""
)
_QUOTED_FIELD: Final = re.compile(r"""\[\\?['"](\w+)\\?['"]\]""")
"""A field in brackets, in a text of JSON."""
_SAYS: Final = re.compile(r"[^\W\d_]|[%‰±<>≈~€$£¥]|(?:^|\s)[-\u2212\u2013]$")
"""A label that says something of the value beside it; commas and brackets do not."""
_STEPS: Final = re.compile(r"steps\.(\w+)")
_NEUTRAL: Final = frozenset(
    re.findall(r"\w+", "a an and are at by for has have in is of on the was were with")
)
"""Words that say nothing of the values beside them."""

_TRUE, _FALSE = frozenset({"true"}), frozenset({"false"})
_EMPTY_LIST: Final = frozenset({"[]"})
_ASKED_ABOUT: Final = {ASK_MODEL: "of", AGENT: "context"}
"""The parameter of a model's step that holds what is asked about."""


def _misdirected(step: Step, params: Mapping[str, Origins], item: Origins) -> Origins:
    """Return what makes of the data that a fetch is asked for other data: `item + 1`."""
    factors = item.factors
    for name, asked in params.items():
        if asked.data and isinstance(step.params[name], str):
            factors |= asked.factors | asked.literals
    return Origins(factors=factors, choices=item.choices)


def _calculates(text: str, origins: Origins) -> bool:
    """Whether a parameter is calculated of the job's inputs alone, which are no data."""
    if not origins.inputs or origins.data or origins.models:
        return False
    return any(
        isinstance(part, EmbeddedExpression) and plain_read(part.expression) is None
        for part in split_references(text)
    )


def literal_fields(
    provenance: PlanProvenance, allowed: Iterable[str]
) -> Iterator[tuple[str, Origins]]:
    """Yield the fields of the result that hold literals, without those that the goal allows."""
    names = frozenset(allowed)
    for field, origins in provenance.of_result().items():
        if origins.literals and not is_allowed_field(field, names):
            yield field, origins


def is_allowed_field(field: str, allowed: Iterable[str]) -> bool:
    """Whether a field, or one that holds it, is among those of which the goal allows literals."""
    plain = field_name(field)
    return any(plain == name or plain.startswith(f"{name}.") for name in allowed)


def field_name(field: str) -> str:
    """Return a field's name as `allow_literals` has it: `rows[1].note` is `rows.note`."""
    return _POSITION.sub("", field)


_POSITION: Final = re.compile(r"\[\d+\]")


def _by_field(path: str, origins: Origins) -> Iterator[tuple[str, Origins]]:
    """Yield the fields of a value that an expression gives, by their paths, as if they were written
    one by one; what is of none of them is of all.
    """
    fields = {name: part for name, part in origins.parts.items() if isinstance(name, str)}
    if not fields:
        yield path, origins
        return
    of_parts = NOTHING.joined(*(part.with_parts(NO_PARTS) for part in fields.values()))
    of_all = Origins(
        literals=origins.literals - of_parts.literals,
        factors=origins.factors - of_parts.factors,
        choices=origins.choices - of_parts.choices,
    )
    for name, part in fields.items():
        yield from _by_field(f"{path}.{name}" if path else name, part.joined(of_all))


def _is_nothing(leaf: Json) -> bool:
    from wavewright.planner.plans.expression_origins import comes_to_nothing

    return comes_to_nothing(leaf)


def _holds_records(value: Json, *, figures_too: bool) -> bool:
    """Whether a value holds a list of objects, or of numbers where these count as well."""
    if isinstance(value, dict):
        return any(_holds_records(entry, figures_too=figures_too) for entry in value.values())
    if not isinstance(value, list):
        return False
    return any(
        isinstance(entry, dict)
        or (figures_too and isinstance(entry, (int, float)))
        or _holds_records(entry, figures_too=figures_too)
        for entry in value
    )


def _leaves(value: Json, path: JsonPath) -> Iterator[tuple[JsonPath, Json]]:
    if not isinstance(value, (dict, list)) or not value:
        yield path, value
        return
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(entry, (*path, key))
