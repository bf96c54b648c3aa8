"""Provenance: where each field of a result and each input of a gate comes from.

A value has *origins*: steps that fetch data, inputs of the job, steps in which a model answers, and
*literals*, which the plan's author wrote. Literals are followed through expressions, items and the
steps that compute with them, wherever they end up in a value: `1000`, `${[1000.0]}`, the branches
of a conditional, a default, a factor. What only decides (a condition, a place in a list, the
separator of a text) is no part of a value, and neither are a unit, a sign or words around it. But a
value is another one by them, so those that stand in neither the goal nor the inputs are kept apart:
as *factors*, which make a value another one, and as *choices*, which say what part of it is taken.

A tool that *fetches* data, is a source of it whatever its arguments are: they only say which data.
What another tool gives is made of its arguments. Among these a single number, word or list of words
is an option of the computation as long as another argument brings data; a record is data.

A *strict* reading is for patches: there, no figure is an option or a unit, and no empty list is a
default, because a patch is written when it is known which values would pass a gate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

from wavewright.planner.cel.embedded import EmbeddedExpression, split_references
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import (
    Binary,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Has,
    Identifier,
    Index,
    ListLiteral,
    LiteralValue,
    LogicalOperation,
    Macro,
    MapLiteral,
    Parenthesized,
    Select,
    Unary,
    children,
    without_parens,
)
from wavewright.planner.cel.plain_paths import plain_read
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import ASK_MODEL, SUB_PLAN, Gate, Plan, Step
from wavewright.planner.language.signatures import AGENT, ASK_PERSON, ToolSignature
from wavewright.planner.plans.answer_types import only_answers
from wavewright.planner.plans.figures import numbers_in
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.job_words import JobWords
from wavewright.planner.plans.step_types import answer_types
from wavewright.planner.plans.uses import gate_reads
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId, as_object

OriginKind: TypeAlias = Literal["data", "input", "model", "literal"]
_SourceKind: TypeAlias = Literal["data", "model", "computed", "unknown"]

_NO_STEPS: Final = frozenset[StepId]()
_NO_TEXTS: Final = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Origins:
    """Where a value comes from."""

    data: frozenset[StepId] = _NO_STEPS
    """Steps that fetch data."""
    inputs: frozenset[str] = _NO_TEXTS
    """Inputs of the job."""
    models: frozenset[StepId] = _NO_STEPS
    """Steps in which a model answers."""
    literals: frozenset[str] = _NO_TEXTS
    """What the plan's author wrote, as JSON."""
    labels: frozenset[str] = _NO_TEXTS
    """Words around values that are read, which are no literals as long as something is read."""
    is_read: bool = False
    """Whether anything but literals is read, as `index` is."""
    units: frozenset[str] = _NO_TEXTS
    """Operators by which a unit was applied: each counts as one once."""
    factors: frozenset[str] = _NO_TEXTS
    """What the author wrote that makes of a value another one: a unit, a sign, an option, the name of
    another field.
    """
    choices: frozenset[str] = _NO_TEXTS
    """What the author wrote that chooses a part of a value: a bound, a place, a key."""

    @property
    def reads(self) -> bool:
        """Whether anything but literals is in it."""
        return self.is_read or bool(self.data or self.inputs or self.models)

    @property
    def kinds(self) -> tuple[OriginKind, ...]:
        """The kinds of its origins, in a fixed order."""
        present: dict[OriginKind, object] = {
            "data": self.data,
            "input": self.inputs,
            "model": self.models,
            "literal": self.literals,
        }
        return tuple(kind for kind, origins in present.items() if origins)

    def joined(self, *others: Origins) -> Origins:
        """Return the origins of a value that is made of this one and others."""
        parts = (self, *others)
        return Origins(
            _NO_STEPS.union(*(part.data for part in parts)),
            _NO_TEXTS.union(*(part.inputs for part in parts)),
            _NO_STEPS.union(*(part.models for part in parts)),
            _NO_TEXTS.union(*(part.literals for part in parts)),
            _NO_TEXTS.union(*(part.labels for part in parts)),
            any(part.is_read for part in parts),
            _NO_TEXTS.union(*(part.units for part in parts)),
            _NO_TEXTS.union(*(part.factors for part in parts)),
            _NO_TEXTS.union(*(part.choices for part in parts)),
        )

    def settled(self) -> Origins:
        """Return the origins of a whole value: its words are literals where nothing is read."""
        if not self.reads:
            return replace(self, literals=self.literals | self.labels, labels=_NO_TEXTS)
        return self

    def deciding(self, said: JobWords) -> Origins:
        """Return the origins of a decision that is taken on this value; what it is compared with is
        no part of it, but chooses unless the job has said it.
        """
        if not self.reads:
            return self.settled()
        bounds = (self.literals | self.labels) - _EMPTY_DEFAULTS
        unsaid = frozenset(text for text in bounds if text and not said.names(text))
        choices = self.choices | self.factors | unsaid
        return Origins(self.data, self.inputs, self.models, is_read=True, choices=choices)


NOTHING: Final = Origins()


class PlanProvenance:
    """Where the values of one plan come from."""

    def __init__(
        self,
        plan: Plan,
        tools: Mapping[str, ToolSignature],
        goal: Goal | None = None,
        *,
        is_strict: bool = False,
    ) -> None:
        """Follow the values of a bound plan; without its goal, all inputs count as the job's."""
        self._plan = plan
        self._tools = tools
        self._goal = goal
        self._is_strict = is_strict
        self.steps: dict[StepId, Origins] = {}
        """The origins of each step's output; without steps that depend on a cycle."""
        self._tool_of = {step.id: step.tool for step in plan.steps}
        self._with_items = {step.id for step in plan.steps if step.for_each is not None}
        graph = PlanGraph.of(plan)
        for step_id in graph.order():
            self.steps[step_id] = self._of_step(graph.steps[step_id])

    @cached_property
    def said(self) -> JobWords:
        """What the job names, read when it is first asked for: inputs may be long."""
        if self._goal is None:
            return JobWords([dict(self._plan.inputs)])
        return JobWords([dict(self._goal.inputs), self._goal.text])

    def of_result(self, *, has_stopped: bool | None = None) -> dict[str, Origins]:
        """Return the origins of each field of the result, by its path; `result` where it is one
        value.

        Before a run, the result of `stop` and that of the whole plan both count; of a run that has
        ended, the one that it has.
        """
        stop = self._plan.stop
        found = {} if stop is None or has_stopped is False else self._of_leaves(stop.result)
        if has_stopped:
            return found
        if self._plan.result is not None:
            declared = self._of_leaves(self._plan.result)
        else:
            replaced = {step.supersedes for step in self._plan.steps}
            terminal = [name for name in PlanGraph.of(self._plan).terminal if name not in replaced]
            declared = {name: self.steps.get(name, NOTHING) for name in terminal}
        for name, origins in declared.items():
            found[name] = found.get(name, NOTHING).joined(origins)
        return found

    def _of_leaves(self, result: Json) -> dict[str, Origins]:
        return {_path_text(path): self._of_leaf(path, leaf) for path, leaf in _leaves(result, ())}

    def words(self, origins: Origins) -> frozenset[str]:
        """Return the words and signs around a value that neither the goal nor an input names."""
        return frozenset(
            text
            for text in origins.labels - origins.literals
            if origins.reads and self._says_more(text)
        )

    def _says_more(self, text: str) -> bool:
        """Whether words beside a value say more of it than the job does."""
        rest = " ".join(word for word in text.split() if word.casefold() not in _NEUTRAL)
        return bool(_SAYS.search(rest)) and not self.said.names(rest)

    def of_gate(self, gate: Gate) -> Origins:
        """Return the origins of all that a gate looks at."""
        names = {*gate_reads(gate), *([gate.on] if gate.on is not None else [])}
        return NOTHING.joined(*(self.steps.get(name, NOTHING) for name in sorted(names)))

    def supplied(self, step: Step) -> dict[str, frozenset[str]]:
        """Return the literals that a step brings in as data, by parameter; `for_each` for its
        items.
        """
        kind = self._source_kind(step)
        if kind == "data":
            return {}
        item = self._item(step)
        found = {
            name: self._supplied_by(value, self._value(value, item), kind)
            for name, value in step.params.items()
        }
        if kind == "model":
            for name, literals in self._dictated(step, item):
                found[name] |= literals
        if kind != "unknown":
            found["for_each"] = _NO_TEXTS if item is None else item.literals
            if kind == "computed" and not self._has_reading(step, item):
                # Nothing brings data: what would be options is all that the output is made of.
                for name, value in step.params.items():
                    found[name] |= self._value(value, item).settled().literals
        return {name: literals for name, literals in found.items() if literals}

    def _dictated(self, step: Step, item: Origins | None) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield what a plan has a model say: answers of which only one fits their type, and a text
        that is asked about and comes from nowhere.
        """
        for name, schema in answer_types(step, self._tools):
            yield name, frozenset(only_answers(schema))
        name = _ASKED_ABOUT.get(step.tool, "")
        about = self._value(step.params.get(name), item)
        if name in step.params and not about.reads:
            yield name, about.settled().literals

    def asks_model(self, step: Step) -> bool:
        """Whether a model answers in a step."""
        return self._source_kind(step) == "model"

    def computes(self, step: Step) -> bool:
        """Whether a step's output is made of its arguments, by code."""
        return self._source_kind(step) == "computed"

    def reads_anything(self, value: Json, step: Step) -> bool:
        """Whether a value in a step's parameters reads a step, an input or its item."""
        return self._value(value, self._item(step)).reads

    def fetches(self, step: Step) -> bool:
        """Whether a step's tool fetches data."""
        return self._source_kind(step) == "data"

    def only_fetches(self, step: Step) -> bool:
        """Whether a step's tool fetches data, and writes nothing of which its output could be."""
        tool = self._tools.get(step.tool)
        return self.fetches(step) and (tool is None or not tool.writes)

    def _of_step(self, step: Step) -> Origins:
        kind = self._source_kind(step)
        item = self._item(step)
        if kind == "data" or not (step.params or step.for_each is not None or kind == "model"):
            return Origins(data=frozenset({step.id})).joined(
                self._echoed(step), self._misdirected(step, item)
            )
        read = [self._value(value, item) for value in step.params.values()]
        if step.tool == SUB_PLAN:
            return replace(NOTHING.joined(*read).settled(), labels=_NO_TEXTS)
        whole = NOTHING.joined(*read, *([item] if item is not None else []))
        literals = _NO_TEXTS.union(*self.supplied(step).values())
        own = Origins(
            data=frozenset({step.id}) if kind == "unknown" else _NO_STEPS,
            models=frozenset({step.id}) if kind == "model" else _NO_STEPS,
            literals=literals,
        )
        words = [value.labels for value in read if value.reads] if kind == "computed" else []
        return Origins(
            whole.data,
            whole.inputs,
            whole.models,
            is_read=whole.is_read,
            labels=_NO_TEXTS.union(*words),
            factors=whole.factors | self._options(step, kind),
            choices=whole.choices,
        ).joined(own)

    def _options(self, step: Step, kind: _SourceKind) -> frozenset[str]:
        """Return the figures that are options of a computation, and neither the tool's own default nor
        named by the goal or an input.
        """
        if kind != "computed":
            return _NO_TEXTS
        tool = self._tools.get(step.tool)
        known = {} if tool is None else as_object(tool.input_schema.get("properties"))
        options = set[str]()
        for name, value in step.params.items():
            if all(self.said.names_figure(figure) for figure in numbers_in(value)):
                continue
            schema = as_object(known.get(name))
            if "default" not in schema or schema["default"] != value:
                options.add(f"{name} = {json.dumps(value)} of {step.id}")
        return frozenset(options)

    def _misdirected(self, step: Step, item: Origins | None) -> Origins:
        """Return what makes of the data that a fetch is asked for other data: `item + 1`."""
        found = NOTHING if item is None else Origins(factors=item.factors, choices=item.choices)
        for value in step.params.values():
            asked = self._value(value, item)
            if asked.data and isinstance(value, str):
                found = found.joined(Origins(factors=asked.factors | asked.literals))
        return found

    def _echoed(self, step: Step) -> Origins:
        """Return what a step that writes may hand back in its receipt, in the strict reading."""
        tool = self._tools.get(step.tool)
        if not self._is_strict or tool is None or not tool.writes or "data" in tool.tags:
            return NOTHING
        item = self._item(step)
        written = NOTHING.joined(*(self._value(value, item) for value in step.params.values()))
        return Origins(literals=written.settled().literals)

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
        if tool.name == ASK_PERSON or "data" in tool.tags or tool.writes:
            return "data"
        if rules is not None and tool.name in rules.data_tools:
            return "data"
        if tool.untrusted_output or "egress" in tool.effects or tool.reads_data:
            return "data"
        if tool.freshness_field is not None:
            return "data"
        is_analysis = rules is not None and tool.name in rules.analysis_tools
        return "computed" if is_analysis or tool.tags or not tool.effects else "unknown"

    def _item(self, step: Step) -> Origins | None:
        return None if step.for_each is None else self._value(step.for_each, None).settled()

    def _has_reading(self, step: Step, item: Origins | None) -> bool:
        parts = [self._value(value, item) for value in step.params.values()]
        return any(part.reads for part in parts) or (item is not None and item.reads)

    def _supplied_by(self, value: Json, origins: Origins, kind: _SourceKind) -> frozenset[str]:
        """Return the literals of a parameter that are data and no options of the computation."""
        if isinstance(value, str):
            # A tool of which nothing is known may be asked for anything, but not given records.
            counts = "${" in value and (kind != "unknown" or "{" in value.replace("${", ""))
            if counts and self._is_strict and kind == "computed" and _calculates(value, origins):
                return origins.literals | {_shown(value)}
            return origins.literals if counts else _NO_TEXTS
        if not isinstance(value, (list, dict)):
            return _NO_TEXTS
        if not value:
            return frozenset({json.dumps(value)}) if self._is_strict else _NO_TEXTS
        figures_too = self._is_strict and kind != "unknown"
        is_data = _holds_records(value, figures_too=figures_too)
        return origins.settled().literals if is_data else _NO_TEXTS

    def _of_leaf(self, path: tuple[str | int, ...], leaf: Json) -> Origins:
        """Return the origins of a field of the result, where figures in words count as well."""
        origins = self._value(leaf, None)
        figures = frozenset(label for label in origins.labels if _DIGIT.search(label))
        found = origins.joined(Origins(literals=figures)).settled()
        key = path[-1] if path else None
        if isinstance(key, str) and isinstance(leaf, str) and _WHOLE.fullmatch(leaf):
            found = found.joined(self.renamed(key, leaf.removeprefix("${"), leaf, found))
        return found

    def renamed(self, key: str, value: str, text: str, origins: Origins) -> Origins:
        """Return the factor by which the value of one field is given under the name of another field
        of the same object.

        Args:
            key: The name that the value is given.
            value: The expression of the value.
            text: The expression that it stands in.
            origins: Where the value comes from.
        """
        fields = _FIELDS.findall(_STEPS.sub("", value))
        if not fields or key in fields:
            return NOTHING
        steps = {*origins.data, *origins.models, *map(StepId, _STEPS.findall(text))}
        for names in (names for step in sorted(steps) for names in _objects(self._schema_of(step))):
            others = names.intersection(fields)
            if key in names and others:
                return Origins(factors=frozenset({f"{', '.join(sorted(others))} as {key}"}))
        return NOTHING

    def is_of_items(self, text: str, origins: Origins) -> bool:
        """Whether an expression reads a step that has an entry for each of its items, in their
        order.
        """
        read = _STEPS.fullmatch(text)
        return read is not None and origins.reads and StepId(read[1]) in self._with_items

    def _value(self, value: Json, item: Origins | None) -> Origins:
        match value:
            case None:
                return NOTHING
            case str():
                return self._text(value, item)
            case list() | dict() if not value:
                return Origins(literals=frozenset({json.dumps(value)}))
            case list():
                return NOTHING.joined(*(self._value(entry, item) for entry in value))
            case dict():
                return NOTHING.joined(*(self._value(entry, item) for entry in value.values()))
            case _:
                return Origins(literals=frozenset({json.dumps(value)}))

    def _text(self, text: str, item: Origins | None) -> Origins:
        if "${" not in text:
            return Origins(labels=frozenset({_shown(text)}))
        try:
            parts = split_references(text)
        except ExpressionError:
            return NOTHING
        read = [part.expression for part in parts if isinstance(part, EmbeddedExpression)]
        return NOTHING.joined(
            *(
                self._expression(part.expression, item)
                if isinstance(part, EmbeddedExpression)
                else Origins(labels=frozenset({_shown(_without_name(part, read))}))
                for part in parts
            )
        )

    def _expression(self, expression: str, item: Origins | None) -> Origins:
        keys = Origins(choices=self._chosen_keys(expression))
        plain = plain_read(expression)
        if plain is not None:
            return self.root(plain.root, plain.name, item).joined(keys)
        from wavewright.planner.cel.parser import parse_expression

        try:
            tree = parse_expression(expression)
        except ExpressionError:
            return NOTHING
        origins = _ExpressionOrigins(self, expression, item, is_strict=self._is_strict)
        return origins.of(tree, {}).joined(keys)

    def _chosen_keys(self, expression: str) -> frozenset[str]:
        """Return the keys that an expression takes from objects of which only the data knows the
        keys.
        """
        chosen = set[str]()
        for read in _STEP_KEY.finditer(expression):
            key = read["key"] or read["quoted"]
            has_open_keys = isinstance(
                self._schema_of(StepId(read["step"])).get("additionalProperties"), dict
            )
            if has_open_keys and not self.said.names(key):
                chosen.add(key)
        return frozenset(chosen)

    def _schema_of(self, step: StepId) -> JsonSchema:
        tool = self._tools.get(self._tool_of.get(step, ""))
        return {} if tool is None else tool.output_schema

    def root(self, root: str, name: str | None, item: Origins | None) -> Origins:
        """Return the origins of a root of expressions, or of a field right below it."""
        match root:
            case "steps" if name is not None:
                return self.steps.get(StepId(name), NOTHING)
            case "inputs":
                return self._input(name)
            case "item":
                return item or NOTHING
            case "index" | "previous":
                return Origins(is_read=True)
            case _:
                return NOTHING

    def _input(self, name: str | None) -> Origins:
        """Return the origins of an input: one that the job does not give is the plan's own."""
        given = self._plan.inputs if self._goal is None else self._goal.inputs
        own = {
            each: value
            for each, value in self._plan.inputs.items()
            if each not in given and name in (None, each)
        }
        literals = frozenset(_shown(json.dumps(value)) for value in own.values())
        return Origins(
            inputs=_NO_TEXTS if name in own else frozenset({name or "inputs"}), literals=literals
        )


def _objects(schema: Json) -> Iterator[frozenset[str]]:
    """Yield the names of the fields of each object in a schema."""
    if isinstance(schema, dict):
        properties = as_object(schema.get("properties"))
        if properties:
            yield frozenset(properties)
        for part in schema.values():
            yield from _objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _objects(part)


_STEP_KEY: Final = re.compile(
    r"""steps\.(?P<step>\w+)(?:\.(?P<key>\w+)(?!\w*\()|\[['"](?P<quoted>[^'"]*)['"]\])"""
)
_SAYS: Final = re.compile(r"[^\W\d_]|[%‰±<>≈~€$£¥]|(?:^|\s)[-\u2212\u2013]$")
"""A label that says something of the value beside it; commas and brackets do not."""
_WHOLE: Final = re.compile(r"\$\{(?:(?!\$\{).)*\}", re.DOTALL)
_FIELDS: Final = re.compile(r"\.(\w+)\b(?!\()")
_STEPS: Final = re.compile(r"steps\.(\w+)")
_NEUTRAL: Final = frozenset(
    re.findall(r"\w+", "a an and are at by for has have in is of on the was were with")
)
"""Words that say nothing of the values beside them."""

_ASKED_ABOUT: Final = {ASK_MODEL: "of", AGENT: "context"}
"""The parameter of a model's step that holds what is asked about."""


def _without_name(words: str, read: Sequence[str]) -> str:
    """Return the words around one field without the name of this field: `Total: ${steps.x.total}`."""
    fields = _FIELDS.findall(read[0]) if len(read) == 1 and plain_read(read[0]) else []
    if not fields:
        return words
    names = {fields[-1].casefold(), fields[-1].replace("_", " ").casefold()}
    return "" if words.strip(" :=-").casefold() in names else words


def _calculates(text: str, origins: Origins) -> bool:
    """Whether a parameter is calculated of the job's inputs alone, which are no data."""
    if not origins.inputs or origins.data or origins.models:
        return False
    return any(
        isinstance(part, EmbeddedExpression) and plain_read(part.expression) is None
        for part in split_references(text)
    )


_DIGIT: Final = re.compile(r"\d")
_FORMAT_SPECIFIER: Final = re.compile(r"%[-0]*\d*(?:\.\d+)?[a-zA-Z]")
_WORD: Final = re.compile(r"[^\W_]")
_UNITS: Final = frozenset({"1", "1.0", "100", "100.0"})
"""Figures with which values are counted on, or made percentages, once each; no others are units."""
_HUNDRED: Final = frozenset({"100", "100.0"})
_EMPTY_DEFAULTS: Final = frozenset({"0", "0.0", '""', "''", "[]", "{}", "false"})
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
_QUESTIONS: Final = frozenset(
    {"contains", "startsWith", "endsWith", "matches", "indexOf", "lastIndexOf"}
)
"""Methods that ask something of a text; what they look for is no part of the answer."""
_SHAPERS: Final = frozenset(
    {
        "join",
        "split",
        "substring",
        "charAt",
        "slice",
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
    }
)
"""Methods whose arguments say which part of a value is taken, or how its parts are joined."""
_CHOOSERS: Final = frozenset({"filter", "sortBy"})
_ROUNDINGS: Final = frozenset({"math.round", "math.floor", "math.ceil", "math.trunc"})
_TENS: Final = re.compile(r"10+(?:\.0)?")
_CONDITIONS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})

_Locals: TypeAlias = Mapping[str, Origins]


@dataclass(frozen=True, slots=True)
class _ExpressionOrigins:
    """The origins of one expression's value."""

    plan: PlanProvenance
    text: str
    item: Origins | None
    is_strict: bool

    def of(self, node: ExpressionNode, names: _Locals) -> Origins:
        """Return the origins of the value that a node gives, with the names that macros gave."""
        match node:
            case LiteralValue():
                return self._literal(node)
            case Identifier():
                known = names.get(node.name)
                return known if known is not None else self.plan.root(node.name, None, self.item)
            case Select() | Index():
                return self._selection(node, names)
            case Parenthesized():
                return self.of(node.inner, names)
            case Unary() if node.operator == "-":
                value = self.of(node.operand, names)
                return value.joined(self._factor(node)) if value.reads else value
            case Binary() if node.operator in _ARITHMETIC:
                return self._arithmetic(node, names)
            case Conditional():
                return self._conditional(node, names)
            case ListLiteral() | MapLiteral():
                return self._composite(node, names)
            case FunctionCall():
                return self._call(node, names)
            case Macro():
                return self._macro(node, names)
            case Unary() | Binary() | LogicalOperation() | Has():
                return self._decision(node, names)

    def _decision(self, node: Unary | Binary | LogicalOperation | Has, names: _Locals) -> Origins:
        """Return the origins of a decision; one that is taken beforehand is a literal."""
        if isinstance(node, Binary) and self._source(node.left) == self._source(node.right):
            return Origins(literals=frozenset({_shown(self._source(node))}))
        if isinstance(node, LogicalOperation):
            # A side that reads nothing has decided: `… || true`.
            return NOTHING.joined(
                *(self.of(side, names).deciding(self.plan.said) for side in children(node))
            )
        return self._all(children(node), names).deciding(self.plan.said)

    def _all(self, nodes: Iterable[ExpressionNode], names: _Locals) -> Origins:
        return NOTHING.joined(*(self.of(node, names) for node in nodes))

    def _literal(self, node: LiteralValue) -> Origins:
        if node.value is None:
            return NOTHING
        if isinstance(node.value, str):
            shown = frozenset({_shown(node.value)})
            is_figure = self.is_strict and _DIGIT.search(node.value)
            return Origins(literals=shown) if is_figure else Origins(labels=shown)
        return Origins(literals=frozenset({_shown(self.text[node.start : node.end])}))

    def _selection(self, node: Select | Index, names: _Locals) -> Origins:
        operand = without_parens(node.operand)
        if isinstance(operand, Identifier) and operand.name not in names:
            if isinstance(node, Select):
                return self.plan.root(operand.name, node.field, self.item)
            key = without_parens(node.key)
            if isinstance(key, LiteralValue) and isinstance(key.value, str):
                return self.plan.root(operand.name, key.value, self.item)
        if isinstance(operand, ListLiteral | MapLiteral):
            entries = _entries(operand)
            found = NOTHING.joined(*(self.of(entry, names).settled() for entry in entries))
            is_choice = isinstance(node, Index) and isinstance(
                without_parens(node.key), LiteralValue
            )
            chosen = {_shown(self._source(node))} if is_choice and len(entries) > 1 else _NO_TEXTS
            return found.joined(Origins(choices=frozenset(chosen)))
        value = self.of(operand, names)
        if isinstance(node, Index) and value.reads and self._takes_one(node, value, names):
            return value.joined(Origins(choices=frozenset({_shown(self._source(node))})))
        return value

    def _takes_one(self, node: Index, value: Origins, names: _Locals) -> bool:
        """Whether a place that the author wrote leaves out other entries; the first of what one call
        gives is its best.
        """
        key = without_parens(node.key)
        if not isinstance(key, LiteralValue):
            return not self.of(key, names).reads
        if isinstance(key.value, str):
            return False
        is_first = key.value == 0 and not self.plan.is_of_items(self._source(node.operand), value)
        return not (is_first or self.plan.said.names_place(key.value))

    def _arithmetic(self, node: Binary, names: _Locals) -> Origins:
        rounded = None if self.is_strict else self._rounded(node)
        if rounded is not None:
            return self.of(rounded, names)
        left, right = self.of(node.left, names), self.of(node.right, names)
        if self.is_strict and node.operator != "+":
            return left.joined(right, self._calculation(node))
        if self.is_strict:
            return left.joined(right, self._twice([node.left, node.right], names))
        hundredfold = self._hundredfold(node)
        if hundredfold is not None and right.reads:
            # `100.0 * a / b` is `a / b * 100.0`.
            whole = self.of(hundredfold, names)
            is_itself = self._source(hundredfold) == self._source(node.right)
            if whole.reads and not is_itself:
                return whole.joined(right, Origins(units=frozenset({"*"})))
        if (
            left.reads
            and node.operator != "*"
            and self._source(node.left) == self._source(node.right)
        ):
            return left.joined(Origins(literals=frozenset({_shown(self._source(node))})))
        for value, operand, unit in (
            (right, node.right, node.left),
            (left, node.left, node.right),
        ):
            is_unit = value.reads and self._source(unit) in _UNITS
            if is_unit and node.operator not in value.units:
                counted = replace(value, units=value.units | {node.operator})
                is_percentage = node.operator == "*" and self._source(unit) in _HUNDRED
                is_growth = node.operator == "-" and self._source(unit) not in _HUNDRED
                is_usual = not (value.data or value.models) or (
                    (is_percentage or is_growth) and self._is_share(operand, names)
                )
                return counted if is_usual else counted.joined(self._factor(node))
        return left.joined(right)

    def _rounded(self, node: Binary) -> ExpressionNode | None:
        """Return what is rounded to some places by `math.round(x * 100.0) / 100.0`."""
        call = without_parens(node.left)
        if node.operator != "/" or not isinstance(call, FunctionCall):
            return None
        if call.function not in _ROUNDINGS or not _TENS.fullmatch(self._source(node.right)):
            return None
        product = without_parens(call.arguments[0])
        if not isinstance(product, Binary) or product.operator != "*":
            return None
        is_same = self._source(product.right) == self._source(node.right)
        return product.left if is_same else None

    def _hundredfold(self, node: Binary) -> ExpressionNode | None:
        """Return what is made a percentage before it is divided."""
        product = without_parens(node.left)
        if node.operator != "/" or not isinstance(product, Binary) or product.operator != "*":
            return None
        for unit, value in ((product.left, product.right), (product.right, product.left)):
            if self._source(unit) in _HUNDRED:
                return value
        return None

    def _factor(self, node: ExpressionNode) -> Origins:
        return Origins(factors=frozenset({_shown(self._source(node))}))

    def _is_share(self, node: ExpressionNode, names: _Locals) -> bool:
        """Whether a value is a share of another one, as a percentage and a growth are made of."""
        bare = without_parens(node)
        if not isinstance(bare, Binary) or bare.operator not in _ARITHMETIC:
            return False
        if bare.operator == "/":
            return self.of(bare.left, names).reads and self.of(bare.right, names).reads
        return any(self._is_share(side, names) for side in (bare.left, bare.right))

    def _conditional(self, node: Conditional, names: _Locals) -> Origins:
        yes, no = self.of(node.yes, names), self.of(node.no, names)
        bounds = Origins(choices=self.of(node.condition, names).deciding(self.plan.said).choices)
        yes = yes.joined(bounds)
        is_default = self._source(node.no) in _EMPTY_DEFAULTS and self._is_guard(node)
        if is_default and not self.is_strict:
            return yes.settled()
        return yes.settled().joined(no.settled())

    def _is_guard(self, node: Conditional) -> bool:
        """Whether a condition only asks whether there is anything of what its first branch reads: by
        `has()`, or by `size() > 0`.
        """
        condition = without_parens(node.condition)
        asked: ExpressionNode | None = None
        if isinstance(condition, Has):
            asked = condition.selection
        elif isinstance(condition, Binary) and condition.operator in {">", "!="}:
            size = without_parens(condition.left)
            is_with_none = self._source(condition.right) == "0"
            if is_with_none and isinstance(size, FunctionCall) and size.function == "size":
                asked = size.target
        return asked is not None and self._source(asked) in self._source(node.yes)

    def _composite(self, node: ListLiteral | MapLiteral, names: _Locals) -> Origins:
        entries = _entries(node)
        if not entries:
            return Origins(literals=frozenset({self.text[node.start : node.end]}))
        parts = [self.of(entry, names) for entry in entries]
        if isinstance(node, MapLiteral):
            parts += [
                self._renamed(key, value, part)
                for (key, value), part in zip(node.entries, parts, strict=True)
            ]
        if not self.is_strict:
            return NOTHING.joined(*parts)
        return NOTHING.joined(*(part.settled() for part in parts), self._twice(entries, names))

    def _renamed(self, key: ExpressionNode, value: ExpressionNode, origins: Origins) -> Origins:
        name = without_parens(key)
        if not isinstance(name, LiteralValue) or not isinstance(name.value, str):
            return NOTHING
        return self.plan.renamed(name.value, self._source(value), self.text, origins)

    def _twice(self, terms: Iterable[ExpressionNode], names: _Locals) -> Origins:
        """Return what is read twice among the terms of a sum or a list, which counts it twice."""
        sources = [self._source(term) for term in terms if self.of(term, names).reads]
        twice = {f"{source} twice" for source in sources if sources.count(source) > 1}
        return Origins(literals=frozenset(twice))

    def _call(self, node: FunctionCall, names: _Locals) -> Origins:
        if node.function == "now":
            return Origins(inputs=frozenset({"now()"}))
        target = () if node.target is None else (node.target,)
        if node.function in _QUESTIONS:
            return self._all((*target, *node.arguments), names).deciding(self.plan.said)
        if node.function in _SHAPERS and target:
            return self._all(target, names).settled().joined(self._part(node, names))
        if node.function == "format":
            return self._formatted(node, names)
        if node.function == "replace" and target and len(node.arguments) == 2:
            return self._all(target, names).joined(
                self._replacement(node.arguments[1], names), self._lost_figures(node)
            )
        found = self._all((*target, *node.arguments), names)
        if node.function == "zip":
            found = NOTHING.joined(*(self.of(one, names).settled() for one in node.arguments))
            if self.is_strict:
                found = found.joined(self._twice(node.arguments, names))
        return found if found.reads else found.settled()

    def _part(self, node: FunctionCall, names: _Locals) -> Origins:
        """Return which part of a value a shaper takes by figures, or the words that it puts between
        the parts.
        """
        given = self._all(node.arguments, names)
        unsaid = {text for text in given.literals if not self.plan.said.names(text)}
        is_of_items = node.target is not None and self.plan.is_of_items(
            self._source(node.target), self.of(node.target, names)
        )
        if (unsaid or is_of_items) and given.literals - _EMPTY_DEFAULTS:
            return Origins(choices=frozenset({_shown(self._source(node))}))
        return Origins(labels=given.labels if node.function == "join" else _NO_TEXTS)

    def _formatted(self, node: FunctionCall, names: _Locals) -> Origins:
        """Return the origins of `'…'.format([…])` or `format(time, '…')`; a form into which nothing
        is filled is the value itself.
        """
        if node.target is not None:
            form, filled = node.target, self._all(node.arguments, names)
        else:
            form, filled = node.arguments[1], self.of(node.arguments[0], names)
        shape = self.of(form, names)
        if not shape.reads and not _FORMAT_SPECIFIER.search(self._source(form)):
            return filled.joined(shape.settled())
        words = {_FORMAT_SPECIFIER.sub("", text) for text in shape.labels | shape.literals}
        return filled.joined(replace(shape, literals=_NO_TEXTS, labels=frozenset(words))).settled()

    def _lost_figures(self, node: FunctionCall) -> Origins:
        """Return the factor by which a figure is written as another one: `replace('0', '')`."""
        assert node.target is not None
        of = without_parens(node.target)
        is_number = isinstance(of, FunctionCall) and of.function == "string"
        sought, replacement = (self._source(argument) for argument in node.arguments)
        if _DIGIT.search(sought) or (is_number and not replacement.strip("'\"")):
            return self._factor(node)
        return NOTHING

    def _replacement(self, node: ExpressionNode, names: _Locals) -> Origins:
        """Return the origins of what takes the place of a part of a text: marks are none, words are."""
        value = self.of(node, names)
        if value.reads or not _WORD.search(self._source(node)):
            return replace(value, literals=_NO_TEXTS, labels=_NO_TEXTS)
        return value.settled()

    def _macro(self, node: Macro, names: _Locals) -> Origins:
        over = self.of(node.range, names)
        if node.function in _CHOOSERS:
            inner = {**names, **dict.fromkeys(node.variables, Origins(is_read=True))}
            bounds = [self.of(part, inner) for part in node.arguments]
            chosen = _NO_TEXTS.union(*(bound.choices for bound in bounds))
            return over.joined(Origins(choices=chosen)) if node.function == "filter" else over
        inner = {**names, **dict.fromkeys(node.variables, over)}
        if len(node.variables) > 1:
            inner[node.variables[0]] = over.joined(Origins(is_read=True))
        made = self.of(node.arguments[-1], inner)
        if node.function in _CONDITIONS:
            return over.joined(made).deciding(self.plan.said)
        if node.function == "bind":
            return made
        if self.is_strict and not self._only_selects(node.arguments[-1], frozenset(node.variables)):
            made = made.joined(self._calculation(node.arguments[-1]))
        # How many there are follows from the range, so a range of literals is in the value as well.
        return made.settled().joined(Origins(literals=over.literals))

    def _only_selects(self, node: ExpressionNode, variables: frozenset[str]) -> bool:
        """Whether what a macro makes of an entry is the entry, parts of it, or a record of these."""
        match without_parens(node):
            case MapLiteral(entries=entries):
                return all(self._only_selects(value, variables) for _, value in entries)
            case LiteralValue():
                return True
            case Identifier(name=name):
                return name in variables
            case Select(operand=operand):
                return self._only_selects(operand, variables)
            case _:
                return False

    def _calculation(self, node: ExpressionNode) -> Origins:
        """Return a calculation of a patch, by which figures can be made into any others."""
        return Origins(literals=frozenset({_shown(self._source(node))}))

    def _source(self, node: ExpressionNode) -> str:
        bare = without_parens(node)
        return self.text[bare.start : bare.end]


def _entries(node: ListLiteral | MapLiteral) -> list[ExpressionNode]:
    return [*node.items] if isinstance(node, ListLiteral) else [v for _, v in node.entries]


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
    plain = _POSITION.sub("", field)
    return any(plain == name or plain.startswith(f"{name}.") for name in allowed)


_POSITION: Final = re.compile(r"\[\d+\]")


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


def _leaves(
    value: Json, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    inner: Iterable[tuple[str | int, Json]] = ()
    if isinstance(value, dict):
        fields: JsonObject = value
        inner = fields.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    is_leaf = True
    for key, entry in inner:
        is_leaf = False
        yield from _leaves(entry, (*path, key))
    if is_leaf:
        yield path, value


def _path_text(path: tuple[str | int, ...]) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".") or "result"


_MAX_SHOWN: Final = 60


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else f"{line[: _MAX_SHOWN - 1]}…"
