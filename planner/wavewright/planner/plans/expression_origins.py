"""The origins of an expression's value: what it reads, and what its author wrote into it.

Each kind of node has one rule, and the rules are those at the head of `provenance`: a literal is data
that the author invents, unless what is read still decides the value. Then it is a factor (another
value than was read), a choice (a part of it), or nothing (a usual way to write it).

The tree is read in its plain form, so no rule is about how something is written.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import (
    FLIPPED,
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
    Select,
    Unary,
    all_nodes,
    children,
    functions_in,
    summed_terms,
)
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.plain_form import ASKS_FOR_NONE, ASKS_FOR_SOME, plain_form
from wavewright.planner.plans.expressions import evaluate
from wavewright.planner.plans.formulas import (
    OF_SHARES,
    SCALES,
    Formula,
    constant,
    constants_in,
    formula_of,
    is_known,
    list_of_size,
    summands,
    whole_of_percentage,
    without_double,
)
from wavewright.planner.plans.job_words import Figures, JobWords
from wavewright.planner.plans.neighbours import list_of_neighbours, read_by_place
from wavewright.planner.plans.origins import (
    EMPTY_VALUES,
    FIELDS,
    NO_PARTS,
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
from wavewright.planner.plans.same_values import SameValues, only_selects
from wavewright.planner.types import Json, JsonObject, StepId, as_list, as_object

if TYPE_CHECKING:
    from wavewright.planner.plans.value_trials import ValueTrials


class StepOutputs(Protocol):
    """What is known of the outputs that expressions read."""

    def renamed(self, key: str, value: str, text: str, origins: Origins) -> Origins:
        """Return the factor by which a field is given under the name of another one."""
        ...

    def fields_of(self, steps: Iterable[StepId]) -> Iterator[JsonObject]:
        """Yield the fields of each object that the outputs of steps hold, by name."""
        ...


@dataclass(frozen=True, slots=True)
class ExpressionOrigins:
    """The origins of the values in one expression."""

    text: str
    root: Callable[[str, str | None], Origins]
    """Returns the origins of a root of expressions, or of a field right below it."""
    said: JobWords
    said_of_choices: JobWords
    """What the job says of the entries that are to be taken."""
    outputs: StepOutputs
    trials: ValueTrials
    same: SameValues
    names: Mapping[str, Origins] = field(default_factory=dict[str, Origins])
    """The origins of what the names stand for that the macros around a part give."""

    def of_tree(self, tree: ExpressionNode) -> Origins:
        """Return the origins of the value of the whole expression."""
        plain = read_by_place(plain_form(tree))
        origins = self.of(plain)
        if origins.reads and not origins.literals and self.trials.is_constant(plain):
            # What comes to one value whatever is read was written, in many words: `x - x + 9.0`.
            return origins.joined(self._written(plain))
        return origins

    def of_stopped(self, tree: ExpressionNode) -> Origins | None:
        """Return the origins of what a condition that reads data may stop, in which what is empty says
        that there is nothing; None of another value.
        """
        match tree:
            case Conditional(condition=Unary(operator="!") | LogicalOperation(), no=stopped):
                pass
            case _:
                return None
        if not self.of(tree.condition).reads:
            return None
        return self.of_tree(tree._replace(no=_without_empty(stopped)))

    def repeats(self, tree: ExpressionNode) -> bool:
        """Whether a list has the entries of one value more than once: `x + x`, `[x, x].flatten()`."""
        return self.same.is_repeated(read_by_place(plain_form(tree)))

    def of(self, node: ExpressionNode) -> Origins:  # noqa: C901, PLR0912 - one case a kind
        """Return the origins of the value that a node gives."""
        match node:
            case LiteralValue(value=None):
                return NOTHING
            case LiteralValue(value=str() as text):
                return Origins(labels=frozenset({on_one_line(text)}))
            case LiteralValue():
                return self._written(node)
            case Identifier(name=name):
                return self.names[name] if name in self.names else self.root(name, None)
            case Select(operand=Identifier(name=root), field=name) if root not in self.names:
                return self.root(root, name)
            case Select() | Index():
                return self._selection(node)
            case Unary(operator="-"):
                value = self.of(node.operand)
                return value.joined(self._factor(node)) if value.reads else value
            case Binary() if node.operator in _ARITHMETIC:
                return self._arithmetic(node)
            case Conditional():
                return self._conditional(node)
            case ListLiteral() | MapLiteral():
                return self._composite(node)
            case FunctionCall():
                return self._call(node)
            case Macro():
                return self._macro(node)
            case Unary() | Binary() | LogicalOperation() | Has():
                return self._decision(node)

    def _all(self, nodes: Iterable[ExpressionNode]) -> Origins:
        return NOTHING.joined(*(self.of(node) for node in nodes))

    def _source(self, node: ExpressionNode) -> str:
        return self.text[node.start : node.end]

    def _shown(self, node: ExpressionNode) -> frozenset[str]:
        return frozenset({shown(self._source(node))})

    def _written(self, node: ExpressionNode) -> Origins:
        return Origins(literals=self._shown(node))

    def _factor(self, node: ExpressionNode) -> Origins:
        return Origins(factors=self._shown(node))

    def _choice(self, node: ExpressionNode) -> Origins:
        return Origins(choices=self._shown(node))

    def _computed(self, node: ExpressionNode) -> Origins:
        return Origins(computed=self._shown(node))

    def _twice(self, twice: Iterable[ExpressionNode]) -> Origins:
        return Origins(computed=frozenset(f"{shown(self._source(value))} twice" for value in twice))

    # What is read

    def _selection(self, node: Select | Index) -> Origins:
        if isinstance(node, Select) and isinstance(node.operand, MapLiteral):
            fields = {_text_of(key): value for key, value in node.operand.entries}
            if node.field in fields and None not in fields:
                value = self.of(fields[node.field]).settled()
                return value.joined(self._choice(node)) if len(fields) > 1 else value
        if isinstance(node.operand, ListLiteral | MapLiteral):
            entries = _entries(node.operand)
            value = NOTHING.joined(*(self.of(entry).settled() for entry in entries))
            is_fixed = isinstance(node, Select) or isinstance(node.key, LiteralValue)
            return value.joined(self._choice(node)) if is_fixed and len(entries) > 1 else value
        value = self.of(node.operand)
        part = value.part(node.field) if isinstance(node, Select) else value.entry()
        entry = replace(part, is_of_items=False)
        is_chosen = isinstance(node, Index) and value.reads and self._takes_one(node, value)
        return entry.joined(self._choice(node)) if is_chosen else entry

    def _takes_one(self, node: Index, value: Origins) -> bool:
        """Whether a place that the author wrote leaves out other entries: all but the first and the last
        of what one call gives, which are its best and its latest.
        """
        place = self._place(node)
        if place is None:
            return not self.of(node.key).reads
        if _ENTRY_OF_INPUT.fullmatch(self._source(node)):
            return False  # whether others are left out, all that the plan takes of the list says
        if self._is_split_date(node.operand) or self._is_of_tuple(node.operand, place):
            return False
        has_order = not (value.is_of_items or _is_call(node.operand, {"split"}))
        return not (has_order and place in (0, -1)) and not self.said.names_place(place)

    def _place(self, node: Index) -> Json:
        """Return the key or the place that is written, below 0 from the end: -1 of `x[x.size() - 1]`;
        None where it is worked out.
        """
        if isinstance(node.key, LiteralValue):
            return node.key.value
        return -self._from_end(node.key, node.operand) or None

    def _from_end(self, place: ExpressionNode, of: ExpressionNode) -> float:
        """Return how far before its end a place in a list is; 0 where it is not counted from there."""
        counted, before = list_of_size(place)
        return before if counted is not None and self.same.are_same(counted, of) else 0.0

    def _is_of_tuple(self, node: ExpressionNode, place: Json) -> bool:
        """Whether a place in a list has a type, and so a meaning, of its own."""
        listed = self.trials.type_of(node)
        own = as_list((listed or {}).get("prefixItems"))
        return isinstance(place, int) and 0 <= place < len(own)

    def _is_split_date(self, node: ExpressionNode) -> bool:
        """Whether a value is the year, month and day, or the day and time, that a date is split into."""
        match node:
            case FunctionCall(function="split", target=date, arguments=(separator,)) if (
                date is not None and _text_of(separator) in _DATE_SEPARATORS
            ):
                return self._is_date(date, self.of(date))
            case _:
                return False

    # Decisions

    def _decision(self, node: Unary | Binary | LogicalOperation | Has) -> Origins:
        """Return the origins of a decision; one that is taken beforehand is a literal."""
        if self.trials.is_constant(node):
            return self._written(node)
        if isinstance(node, Binary) and node.operator in FLIPPED:
            return self._comparison(node)
        sides = [self.of(side) for side in children(node)]
        if not isinstance(node, LogicalOperation):
            return NOTHING.joined(*sides).deciding(self.said_of_choices)
        both = NOTHING.joined(*(side.deciding(self.said_of_choices) for side in sides))
        # A side that reads nothing has decided: `… || true`, `… && false`.
        return both.joined(Origins(choices=both.literals)) if both.reads else both

    def _comparison(self, node: Binary) -> Origins:
        """Return the origins of a comparison; a period that the job names has days for its bounds."""
        value, other = self.of(node.left), self.of(node.right)
        bound = _text_of(node.right, within={"timestamp", "duration"})
        if value.reads and bound:
            is_named = self.said_of_choices.names_bound(node.operator, bound)
            is_said = is_named or self._is_named_time(node.right)
            return value.deciding(self.said_of_choices).choosing(
                NO_TEXTS if is_said else self._shown(node)
            )
        both = value.joined(other)
        decision = both.deciding(self.said_of_choices)
        unsaid = decision.choices - both.choices - both.factors
        if not unsaid:
            return decision
        # The whole comparison says more to a reader than its bound.
        return replace(decision, choices=decision.choices - unsaid | self._shown(node))

    def _conditional(self, node: Conditional) -> Origins:
        in_words = self._in_words(node)
        if in_words is not None:
            return in_words.joined(self._computed(node))
        value = self._defaulted(node)
        if value is not None:
            # What the condition reads is read by the value as well.
            origins = self.of(value)
            if not any(_is_null(branch) for branch in (node.yes, node.no)):
                origins = origins.joined(self._computed(node))
            return origins.settled()
        if self._is_bounded(node):
            return self._bounded(node, (node.yes, node.no))
        decision = self.of(node.condition).deciding(self.said_of_choices)
        yes, no = self.of(node.yes).settled(), self.of(node.no).settled()
        return yes.joined(no, Origins(choices=decision.choices)).settled()

    def _is_bounded(self, node: Conditional) -> bool:
        """Whether a choice is the greater or the lesser of two values: `x > 100 ? 100 : x`."""
        match node.condition:
            case Binary(operator="<" | "<=" | ">" | ">=", left=left, right=right):
                same = self.same.are_same
                is_kept = same(left, node.yes) and same(right, node.no)
                return is_kept or (same(left, node.no) and same(right, node.yes))
            case _:
                return False

    def _in_words(self, node: Conditional) -> Origins | None:
        """Return the origins of a decision that is given in words: `yes` and `no`, or words of the job,
        which has asked which of them it is. None where it is no such decision.
        """
        conditions, branches = _cases(node)
        words = [_answer_of(branch) for branch in branches]
        texts = {word.casefold().strip(" .") for word in words if word is not None}
        if None in words or len(texts) < 2:
            return None
        bounds = {figure for condition in conditions for figure in constants_in(condition)}
        unasked = {text for text in texts if text and not self._is_asked(text, texts, bounds)}
        # Between two answers that are asked for there may be a third: `rise`, `fall`, `unchanged`.
        is_between = len(texts) > 2 and all(_is_neither(text, bounds) for text in unasked)
        if unasked and not is_between and texts not in _ANSWERS:
            return None
        decisions = [self.of(condition).deciding(self.said_of_choices) for condition in conditions]
        if any(decision.literals or not decision.reads for decision in decisions):
            return None
        return NOTHING.joined(*decisions)

    def _is_asked(self, text: str, answers: Collection[str], bounds: Collection[float]) -> bool:
        """Whether the job has asked for an answer: it names its words, or those of another answer that
        it denies (`not hot`). A figure among its words is a bound of the decision.
        """
        denied = text.removeprefix("not ").removeprefix("no ")
        if not self.said.names(denied if denied in answers else text):
            return False
        return _LETTER.search(text) is not None and _figures_are(bounds, text)

    def _defaulted(self, node: Conditional) -> ExpressionNode | None:
        """Return the value of a condition that only has a default where what the value reads is not
        there; None of another one.
        """
        asked, is_there, is_divisor = _asked_for(node.condition)
        value, default = (node.yes, node.no) if is_there else (node.no, node.yes)
        if asked is None or not self._is_nothing(default):
            return None
        parts = _divisors(value) if is_divisor else all_nodes(value)
        return value if any(self.same.are_same(part, asked) for part in parts) else None

    def _is_nothing(self, node: ExpressionNode) -> bool:
        """Whether a value stands for what is not there: `0`, `[]`, `none`, or `there are no overdue
        invoices` of a job that is about these.
        """
        text = _text_of(node)
        if text is None or not text:
            return self._source(node) in EMPTY_VALUES
        words = text.casefold().strip(" .")
        if words in _NOTHING_THERE:
            return True
        denied, *named = [word for word in words.split() if word not in _OF_NOTHING] or [""]
        is_denied = denied in {"no", "none", "nothing"}
        return is_denied and (not named or self.said.names(" ".join(named)))

    # Formulas

    def _arithmetic(self, node: Binary) -> Origins:
        formula = formula_of(node)
        if formula.figures or formula.is_rounded:
            return self._converted(node, formula).joined(self._computed(node))
        if formula.base is not node:
            return self.of(formula.base)
        left, right = self.of(node.left), self.of(node.right)
        for value, other, time in ((left, node.left, node.right), (right, node.right, node.left)):
            if value.reads and self._is_named_time(time):
                # A period counts once, as a unit does.
                is_again = any(self._is_named_time(part) for part in all_nodes(other))
                return value.joined(self._factor(node) if is_again else self._computed(node))
        terms = [*summed_terms(node)]
        if any(_text_of(term) is not None for term in terms):
            return self._text_of_terms(terms)
        both = left.joined(right)
        if node.operator != "+":
            # Of `x - x`, `x / x` and `x % x` it is known beforehand what comes out.
            is_constant = node.operator != "*" and self.same.are_same(node.left, node.right)
            both = both.joined(self._computed(node))
            return both.joined(self._written(node)) if is_constant else both
        # A sum may join lists, so it is no computation, but what is twice in it counts twice.
        if not (left.reads and right.reads and self.same.counted_twice(terms)):
            return both
        # A rate that is looked up twice may be due twice: only of one name it is plain what is meant.
        is_itself = self._source(node.left) == self._source(node.right)
        return both.joined(self._written(node) if is_itself else self._factor(node))

    def _is_named_time(self, node: ExpressionNode) -> bool:
        """Whether a node is a duration that the job names, in whatever unit (`336h` for two weeks), or an
        instant that it names.
        """
        if _is_call(node, {"duration"}):
            period = _text_of(node, within={"duration"})
            return period is not None and self.said.names_period(period)
        if _is_call(node, {"timestamp"}):
            instant = _text_of(node, within={"timestamp"})
            return instant is not None and self.said.names(instant)
        return False

    def _converted(self, node: Binary, formula: Formula) -> Origins:
        """Return the origins of a value to which figures are applied: they are no part of it where the
        job asks for them or everybody writes it so, a factor where they are usual ones or named, and
        literals otherwise.
        """
        value, figures = self.of(formula.base), formula.figures
        if not value.reads or formula.is_lost:
            # What is read does not decide the value any more.
            return value.joined(self._written(node))
        if formula.unit is not None and not self.said.names_rounding(formula.unit):
            is_usual = formula.unit in SCALES
            value = value.joined(self._factor(node) if is_usual else self._written(node))
        if self._is_usual_form(formula, value):
            return value
        is_count = _is_call(formula.base, {"size"})
        here = frozenset((*before, *figures) for before in value.applied or {()})
        applied = replace(value, applied=here)
        in_all = applied.applied_so_far()
        # A unit counts once: with what was applied before, in this expression and in the steps before
        # it, the figures must still be what the job asks for.
        applications = (figures, *here, *in_all)
        if all(self.said.asks_for(asked, is_count=is_count) for asked in applications):
            return applied
        whole = whole_of_percentage(figures) if in_all == frozenset({figures}) else None
        if whole is not None and self.said.asks_for((("/", whole),)):
            return applied
        is_named = all(self.said.asks_for((figure,)) for figure in figures)
        if is_named or all(map(is_known, here)):
            return applied.joined(self._factor(node))
        return applied.joined(self._written(node))

    def _is_usual_form(self, formula: Formula, value: Origins) -> bool:
        """Whether figures only write a value in another way: they count, round, or make of a share a
        percentage, the rest or the growth.
        """
        figures = formula.figures
        if figures in _LARGER_UNITS.get(_part_of_difference(formula.base), ()):
            return True
        if not (value.data or value.models):
            # Counting on `index`, and on inputs.
            return is_known(figures) and all(figure in _COUNTED_ON for _, figure in figures)
        if formula.is_rounded and not figures:
            return True
        if figures == _NEXT and _is_call(formula.base, _COUNTED_FROM_ZERO):
            return True
        if figures in OF_SHARES and self._is_share(formula.base):
            return True
        terms = [*summands(formula.base)]
        is_mean = len(terms) > 1 and figures == (("/", float(len(terms))),)
        return is_mean and not self.same.counted_twice(terms)

    def _is_share(self, node: ExpressionNode) -> bool:
        """Whether a value is a share of another one, as a percentage and a growth are made of."""
        match node:
            case Binary(operator="/", left=left, right=right):
                return self.of(left).reads and self.of(right).reads
            case Binary(operator="+" | "-" | "*" | "%", left=left, right=right):
                return self._is_share(left) or self._is_share(right)
            case _:
                return False

    # Words

    def _text_of_terms(self, terms: Sequence[ExpressionNode]) -> Origins:
        """Return the origins of texts that are joined; what only introduces the next one is none."""
        origins: list[Origins] = []
        for term, following in zip(terms, (*terms[1:], None), strict=True):
            words = _text_of(term)
            if words is None or following is None or not self._introduces(words, following):
                origins.append(self.of(term))
        return NOTHING.joined(*origins)

    def _introduces(self, words: str, following: ExpressionNode) -> bool:
        """Whether words are the bullet before a text, or the name of the field that follows."""
        source = self._source(following)
        if _BULLET.fullmatch(words):
            # Before a figure it would be a sign; what is joined are texts.
            is_joined = _is_call(following, {"join"})
            return _PATH.fullmatch(source) is not None or (is_joined and "string(" not in source)
        match following:
            case FunctionCall(function="string", arguments=(value,)):
                source = self._source(value)
            case _:
                pass
        return _PATH.fullmatch(source) is not None and not without_name(words, source)

    def _formatted(self, node: FunctionCall) -> Origins:
        """Return the origins of `'…'.format([…])` or `format(time, '…')`; a form into which nothing
        is filled is the value itself.
        """
        if node.target is not None:
            form, filled = node.target, self._all(node.arguments)
        else:
            form, filled = node.arguments[1], self.of(node.arguments[0])
        shape = self.of(form)
        if not shape.reads and not _FORMAT_SPECIFIER.search(self._source(form)):
            return filled.joined(shape.settled())
        words = {_FORMAT_SPECIFIER.sub("", text) for text in shape.labels}
        if node.target is None:
            # What only stands between the parts of a time says nothing: `%Y-%m`.
            words = {text for text in words if any(map(str.isalnum, text))}
        return filled.joined(replace(shape, labels=frozenset(words))).settled()

    def _replaced(self, node: FunctionCall) -> Origins:
        """Return the origins of `text.replace(sought, other)`: marks in the place of others are no part
        of it, words are, and without its digits or its point a figure is another one.
        """
        assert node.target is not None
        sought, other = node.arguments
        origins = self.of(node.target)
        value, words = self.of(other), self._source(other)
        if not value.reads and _WORD.search(words):
            origins = origins.joined(value.settled())
        is_lost = _is_call(node.target, {"string"}) and not words.strip("'\"")
        if has_digit(self._source(sought)) or is_lost:
            origins = origins.joined(self._factor(node))
        return origins.joined(replace(value, literals=NO_TEXTS, labels=NO_TEXTS))

    def _joined(self, node: FunctionCall) -> Origins:
        """Return the origins of `texts.join(words)`; bullets between texts are none."""
        assert node.target is not None
        texts, written = self.of(node.target).settled(), self._all(node.arguments)
        words = _text_of(node.arguments[0]) if node.arguments else None
        # Before a figure that was made a text, a dash would be a sign.
        is_of_texts = "string(" not in self._source(node.target)
        if words is not None and _BULLET.fullmatch(words) and is_of_texts:
            return texts
        return texts.joined(Origins(labels=written.labels))

    def _read_as(self, node: FunctionCall) -> Origins:
        """Return the origins of what is read as a time, a duration or a figure: what only completes its
        text, as midnight does a day and a unit a figure, is no part of it.
        """
        whole = self._all(node.arguments).settled()
        terms = [*summed_terms(node.arguments[0])]
        if not whole.reads or all(_text_of(term) is None for term in terms):
            return whole
        origins: list[Origins] = []
        for term in terms:
            value, words = self.of(term), _text_of(term)
            is_after = any(before.reads for before in origins)
            if words is not None and self._completes(node.function, words, is_after=is_after):
                continue
            if words is not None and is_after and _TIME_OF_DAY.fullmatch(words):
                # Another time than midnight makes of a day another instant, which the job may name.
                is_named = self.said.names(words.strip())
                value = NOTHING if is_named else self._factor(term)
            origins.append(value)
        return NOTHING.joined(*origins)

    def _completes(self, function: str, words: str, *, is_after: bool) -> bool:
        """Whether a text before or after what is read only makes of it what a conversion reads; the day
        before a time of it is one that the job names.
        """
        before, after = _COMPLETIONS[function]
        if is_after:
            return after.fullmatch(words) is not None
        is_named_day = function == "timestamp" and self.said.names(words.rstrip("T "))
        return is_named_day or before.fullmatch(words) is not None

    # Lists, objects and calls

    def _composite(self, node: ListLiteral | MapLiteral) -> Origins:
        entries = _entries(node)
        if not entries:
            return self._written(node)
        parts = [self.of(entry) for entry in entries]
        renamed = NOTHING
        if isinstance(node, MapLiteral):
            if any(part.reads for part in parts):
                parts = [*self._parts_of_record(node, parts)]
            for (key, value), part in zip(node.entries, parts, strict=True):
                name, source = _text_of(key), self._source(value)
                if name is not None:
                    other = self.outputs.renamed(name, source, self.text, part)
                    renamed = renamed.joined(other)
        alone = NO_TEXTS.union(*(part.settled().literals for part in parts))
        beside = Origins(computed=alone - {""})
        # A record may hold a list and a part of it, which nothing adds up.
        is_list = isinstance(node, ListLiteral)
        twice = self.same.counted_twice(entries) if is_list else self.same.repeated(entries)
        whole = NOTHING.joined(*parts, self._twice(twice), renamed, beside)
        if isinstance(node, ListLiteral):
            entry = NOTHING.joined(*parts)
            is_of_data = not twice and all(isinstance(value, Select) for value in entries)
            kind = AnyEntry.OF_DATA if is_of_data else AnyEntry.WRITTEN
            return whole.with_parts({kind: entry} if entry.parts else NO_PARTS)
        names = [_text_of(key) for key, _ in node.entries]
        fields: dict[PartName, Origins] = {
            name: part for name, part in zip(names, parts, strict=True) if name is not None
        }
        # A key that is worked out may be any of them.
        return whole.with_parts(fields if len(fields) == len(parts) else NO_PARTS)

    def _parts_of_record(self, node: MapLiteral, parts: Sequence[Origins]) -> Iterator[Origins]:
        """Yield the origins of the fields of a record beside what is read: one that only says of which
        time the job has asked for the others is no data, `{"year": 2023, "people": t.people}`.
        """
        for (key, value), part in zip(node.entries, parts, strict=True):
            name = _text_of(key)
            is_time = name is not None and name.casefold() in _TIMES
            if is_time and isinstance(value, LiteralValue) and self.said.names(str(value.value)):
                yield self._computed(value)
            else:
                yield part

    def _call(self, node: FunctionCall) -> Origins:
        """Return the origins of what a function gives, by what it does with its arguments."""
        match node.function:
            case "now":
                return Origins(inputs=frozenset({"now()"}))
            case function if function in _QUESTIONS:
                return self._question(node)
            case function if function in _SHAPERS and node.target is not None:
                return self._part_of(node)
            case function if function in _COMPLETIONS:
                return self._read_as(node)
            case function if function in _EXTREMES and len(node.arguments) == 2:
                return self._bounded(node, node.arguments)
            case "join" if node.target is not None:
                return self._joined(node)
            case "format":
                return self._formatted(node)
            case "replace" if len(node.arguments) == 2:
                return self._replaced(node)
            case "zip":
                # Joined by place, a literal list is data.
                lists = [self.of(part).settled() for part in node.arguments]
                twice = self._twice(self.same.counted_twice(node.arguments))
                return NOTHING.joined(*lists, twice).with_parts(NO_PARTS)
            case "lists.range":
                return self._range(node)
            case _:
                return self._passed_on(node)

    def _passed_on(self, node: FunctionCall) -> Origins:
        """Return the origins of what is made of all arguments, of which none counts twice."""
        origins = self._all(children(node)).settled()
        if node.function not in _SAME_ENTRIES:
            origins = origins.with_parts(NO_PARTS)
        if node.function == "sort":
            origins = replace(origins, is_of_items=False)
        counted = node.target if node.function in _JOINING else None
        if counted is not None and self.same.is_repeated(counted):
            origins = origins.joined(self._factor(node))
        calculates = node.function.startswith("math.") and node.function not in _EXTREMES
        return origins.joined(self._computed(node)) if calculates and origins.reads else origins

    def _question(self, node: FunctionCall) -> Origins:
        """Return the origins of what is asked of a text; a pattern says what its words say."""
        if self.trials.is_constant(node):
            return self._written(node)  # every text contains the empty one
        asked = self._all(children(node))
        if node.function == "matches":
            asked = replace(asked, labels=frozenset(map(_words_of_pattern, asked.labels)))
        return asked.deciding(self.said_of_choices)

    def _range(self, node: FunctionCall) -> Origins:
        """Return the origins of places, of which those are left out before which a range stops."""
        of, less = list_of_size(node.arguments[0])
        if of is None:
            return self._passed_on(node)
        places = self.of(of).settled()
        return places.joined(self._choice(node)) if less else places

    def _bounded(self, node: ExpressionNode, values: Sequence[ExpressionNode]) -> Origins:
        """Return the origins of the greater or the lesser of two values: a figure that the job names
        is a bound that makes of the other another value.
        """
        bounds = [figure for figure in map(constant, values) if figure is not None]
        if len(bounds) != 1 or not self.said.names_quantity(bounds[0]):
            return self._all(values).settled()
        other = next(value for value in values if constant(value) is None)
        return self.of(other).settled().joined(self._factor(node))

    def _part_of(self, node: FunctionCall) -> Origins:
        """Return the origins of the part of a value that figures take, or that has a name."""
        assert node.target is not None
        whole, figures = self.of(node.target), self._all(node.arguments).literals
        value, cut = whole.settled(), tuple(map(constant, node.arguments))
        if node.function in {"slice", "substring"} and cut[1:] and cut[0] == cut[1] is not None:
            # Nothing is left, whatever is read.
            return value.joined(self._written(node))
        if node.function == "charAt":
            return value.joined(self._choice(node))
        if (
            node.function == "substring"
            and cut in _DATE_PARTS
            and self._is_date(node.target, whole)
        ):
            return value
        ends = {-self._from_end(place, node.target) for place in node.arguments} - {0.0}
        names = self.said.names_place
        is_unsaid = not (
            all(map(self.said.names, figures))
            and all(names(end) or self.said.names_quantity(-end) for end in ends)
        )
        # Of a list without an order the job has to say from which end.
        is_unsaid |= whole.is_of_items and not (names(0) or names(-1))
        is_choice = is_unsaid and (figures - EMPTY_VALUES or ends)
        return value.joined(self._choice(node)) if is_choice else value

    def _is_date(self, node: ExpressionNode, origins: Origins) -> bool:
        """Whether an expression reads the clock, or a field that holds dates, by its schema or its name."""
        names = FIELDS.findall(self._source(node))
        if not names:
            return "now" in functions_in(node)
        is_by_schema = any(
            as_object(fields.get(names[-1])).get("format") in {"date", "date-time"}
            for fields in self.outputs.fields_of(origins.data | origins.models)
        )
        return is_by_schema or _DATE_NAME.search(names[-1]) is not None

    # Macros

    def _macro(self, node: Macro) -> Origins:
        if node.function in _CONDITIONS and self.trials.is_constant(node):
            return self._written(node)
        # Neighbours that are only compared, as day by day, leave nothing of their list out, though one
        # of them begins at its second entry: then it is the list.
        compared = list_of_neighbours(node)
        over = self.of(node.range if compared is None else compared)
        body, conditions = node.arguments[-1], node.arguments[:-1]
        if node.function == "bind":
            return self.within({node.variables[0]: over}).of(body)
        entry = node.variables[-1]
        inside = self.within(dict.fromkeys(node.variables, Origins(is_read=True)))
        ordered = replace(over, is_of_items=False)
        if node.function == "filter":
            return ordered.joined(_chosen([inside.of(body)]))
        if node.function == "sortBy":
            return ordered.joined(self._ordered(map(inside.of, node.arguments)))
        value = self._of_body(node, inside.within({entry: ordered.entry()}))
        if any(map(_WORD.search, value.labels)):
            # A word for each entry reads nothing of it: `map(x, 'Oslo')`. Marks only count: `'#'`.
            value = value.settled()
        if node.function in _CONDITIONS:
            decision = over.joined(value).deciding(self.said_of_choices)
            # So has a condition: `exists(x, false)`.
            return decision if value.reads else decision.joined(Origins(choices=value.literals))
        if not only_selects(body, node.variables):
            value = value.joined(self._computed(body))
        # How many there are follows from the range, so a range of literals is in the value as well.
        counted = replace(over.counted(), labels=NO_TEXTS)
        value = value.joined(_chosen(map(inside.of, conditions)), counted).settled()
        if not value.parts or node.function not in _MAPS:
            return value.with_parts(NO_PARTS)
        return value.with_parts({AnyEntry.OF_DATA: value})

    def within(self, names: Mapping[str, Origins]) -> ExpressionOrigins:
        """Return the reading of a part in which some names stand for values of these origins."""
        return replace(self, names={**self.names, **names})

    def _ordered(self, keys: Iterable[Origins]) -> Origins:
        """Return what an order chooses by: a name, a place or what is the same for all chooses what
        comes first, and a sign only turns the order.
        """
        orders = [replace(key, factors=NO_TEXTS).deciding(self.said_of_choices) for key in keys]
        return Origins(
            choices=NO_TEXTS.union(*(order.choices | order.literals for order in orders))
        )

    def _of_body(self, node: Macro, inside: ExpressionOrigins) -> Origins:
        """Return the origins of what a macro makes of an entry; of one that counts entries, or leaves
        some out, those of its condition: `map(x, c ? 1 : 0)`, `map(x, c ? x.n : 0)`.
        """
        body = node.arguments[-1]
        if not (
            node.function in _MAPS and isinstance(body, Conditional) and constant(body.no) == 0
        ):
            return inside.of(body)
        decision = inside.of(body.condition).deciding(self.said_of_choices)
        value = inside.of(body.yes)
        if decision.reads and not decision.literals:
            if constant(body.yes) == 1:
                return decision
            if value.reads:
                return value.joined(Origins(choices=decision.choices))
        return inside.of(body)


def comes_to_nothing(leaf: Json) -> bool:
    """Whether a value reads nothing, not even the time, and says that there is nothing: `[]`,
    `${1 > 2}`; a figure says how much there is.
    """
    if isinstance(leaf, str) and WHOLE.fullmatch(leaf):
        try:
            tree = parse_expression(leaf[2:-1])
            leaf = evaluate(leaf[2:-1], {}, dt.datetime.min.replace(tzinfo=dt.UTC))
        except ExpressionError:
            return False
        if "now" in functions_in(tree):
            return False
    return leaf is None or leaf is False or leaf in ("", [], {})


def _without_empty(node: ExpressionNode) -> ExpressionNode:
    """Return a value with null in the place of what is empty in it; a figure says how much there is."""
    match node:
        case MapLiteral(entries=entries) if entries:
            return node._replace(entries=tuple((k, _without_empty(value)) for k, value in entries))
        case ListLiteral(items=items) if items:
            return node._replace(items=tuple(map(_without_empty, items)))
        case LiteralValue(value="" | False) | MapLiteral() | ListLiteral():
            return LiteralValue(node.start, node.end, 1, "null", None)
        case _:
            return node


def _chosen(conditions: Iterable[Origins]) -> Origins:
    """Return what conditions choose entries by that the job has not said: `filter(x, c)`,
    `map(x, c, x.n)`.
    """
    # A condition that reads nothing has chosen beforehand: `filter(x, false)`.
    chosen = (bound.choices if bound.reads else bound.literals for bound in conditions)
    return Origins(choices=NO_TEXTS.union(*chosen))


def _is_null(node: ExpressionNode) -> bool:
    return isinstance(node, LiteralValue) and node.value is None


def _is_call(node: ExpressionNode, functions: Iterable[str]) -> bool:
    return isinstance(node, FunctionCall) and node.function in functions


def _part_of_difference(node: ExpressionNode) -> str:
    """Return the method that gives the hours, minutes or seconds between two times; else nothing."""
    match node:
        case FunctionCall(function=function, target=Binary(operator="-")):
            return function
        case _:
            return ""


def _is_neither(text: str, bounds: Collection[float]) -> bool:
    """Whether an answer says that none of the others holds, or that values are equal."""
    words = {word for word in text.split() if not has_digit(word)}
    return bool(words) and words <= _NEITHER and _figures_are(bounds, text)


def _figures_are(bounds: Collection[float], text: str) -> bool:
    """Whether all figures in an answer are bounds of the decision that it answers."""
    figures = [word for word in text.split() if has_digit(word)]
    return all(_PLAIN_FIGURE.fullmatch(word) and float(word) in bounds for word in figures)


def _asked_for(condition: ExpressionNode) -> tuple[ExpressionNode | None, bool, bool]:
    """Return of what a condition only asks whether there is anything, whether it holds where there
    is, and whether that is a divisor: by `has()`, by `size() > 0`, by a comparison with nothing, or
    with 0.
    """
    match condition:
        case Unary(operator="!"):
            asked, is_there, is_divisor = _asked_for(condition.operand)
            return asked, not is_there, is_divisor
        case Has():
            return condition.selection, True, False
        case Macro(function="exists"):
            return condition._replace(function="filter"), True, False
        case Binary(
            operator=operator, left=FunctionCall(function="size", target=target), right=right
        ):
            comparison = operator, constant(right)
            is_there = comparison in ASKS_FOR_SOME
            is_asked = is_there or comparison in ASKS_FOR_NONE
            return target if is_asked else None, is_there, False
        case Binary(
            operator="==" | "!=",
            left=left,
            right=LiteralValue(value=None | "") | ListLiteral(items=()),
        ):
            return left, condition.operator == "!=", False
        case Binary(operator="==" | "!=" | ">" | "<=", left=left, right=right) if (
            constant(right) == 0
        ):
            return without_double(left), condition.operator in {"!=", ">"}, True
        case _:
            return None, True, False


def _divisors(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield what something is divided by in an expression."""
    for part in all_nodes(node):
        if isinstance(part, Binary) and part.operator == "/":
            yield without_double(part.right)


def _words_of_pattern(pattern: str) -> str:
    """Return a regular expression without its flags and anchors, so that its words are left; as it is
    where there is more in it than words.
    """
    words = _PATTERN_MARKS.sub(" ", pattern)
    return pattern if _PATTERN.search(words) else words


def _entries(node: ListLiteral | MapLiteral) -> list[ExpressionNode]:
    if isinstance(node, ListLiteral):
        return [*node.items]
    return [value for _, value in node.entries]


def _text_of(node: ExpressionNode, within: Iterable[str] = ()) -> str | None:
    """Return the text that a node is, also as the only argument of some functions."""
    match node:
        case FunctionCall(function=function, arguments=(argument,)) if function in within:
            return _text_of(argument)
        case LiteralValue(value=str() as text):
            return text
        case _:
            return None


def _answer_of(node: ExpressionNode) -> str | None:
    """Return the words of an answer, that of a truth value as well."""
    if isinstance(node, LiteralValue) and isinstance(node.value, bool):
        return "true" if node.value else "false"
    return _text_of(node)


def _cases(node: ExpressionNode) -> tuple[list[ExpressionNode], list[ExpressionNode]]:
    """Return the conditions of a choice among values, one within the other, and the values."""
    if not isinstance(node, Conditional):
        return [], [node]
    conditions, values = [node.condition], list[ExpressionNode]()
    for branch in (node.yes, node.no):
        inner, last = _cases(branch)
        conditions += inner
        values += last
    return conditions, values


_DATE_NAME: Final = re.compile(r"(?:^|_)(?:date|day|datetime|time|timestamp|at|as_of)$")
_LETTER: Final = re.compile(r"[^\W\d_]")
_PLAIN_FIGURE: Final = re.compile(r"\d+(?:\.\d+)?")
_WORD: Final = re.compile(r"[^\W_]")
_PATH: Final = re.compile(r"[\w.]+(?:\[[^\]]*\][\w.]*)*")
_ENTRY_OF_INPUT: Final = re.compile(r"inputs(?:\.\w+)+\[\d+\]")
_BULLET: Final = re.compile(r"\s*[-\u2013*\u2022]\s+")
_PATTERN_MARKS: Final = re.compile(r"\(\?[a-z]+\)|\\b|[\^$|()]|\.\*|\\s[+*]?")
_PATTERN: Final = re.compile(r"[\\\[\]{}*+?.]")
_FORMAT_SPECIFIER: Final = re.compile(r"%[-0]*\d*(?:\.\d+)?[a-zA-Z]")

_TIME_OF_DAY: Final = re.compile(r"[T ]?\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?")
_NO_WORDS: Final = re.compile("")
_REST_OF_FIGURE: Final = (re.compile("0*"), re.compile(r"\.0+"))
_COMPLETIONS: Final = {
    "timestamp": (
        _NO_WORDS,
        re.compile(r"(?:-01){0,2}[T ]?(?:00)?(?::00){0,2}(?:\.0+)?(?:Z|[+-]\d\d:\d\d)?"),
    ),
    "duration": (_NO_WORDS, re.compile("ns|us|ms|[smhd]")),
    "int": _REST_OF_FIGURE,
    "double": _REST_OF_FIGURE,
}
"""What completes a text that is read as something else, before and after what is in it."""

_NOTHING_THERE: Final = frozenset(
    {"-", "none", "n/a", "na", "unknown", "not known", "not available", "no data", "missing"}
)
"""Words that stand for a value that is not there."""
_OF_NOTHING: Final = frozenset(
    {"are", "at", "available", "found", "for", "in", "is", "of", "the", "there"}
)
"""Words beside the name of what is not there."""
_ANSWERS: Final = ({"yes", "no"}, {"y", "n"}, {"true", "false"})
"""A decision in words, whatever was asked."""
_NEITHER: Final = frozenset(
    {
        *(
            "unchanged",
            "flat",
            "stable",
            "steady",
            "constant",
            "no",
            "change",
            "neutral",
            "neither",
        ),
        *("equal", "equals", "even", "same", "the", "as", "to", "exactly", "at", "level", "tie"),
    }
)
"""Words of an answer that says nothing but that none of the others holds."""

_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
_NEXT: Final[Figures] = (("+", 1.0),)
_COUNTED_ON: Final = frozenset({1.0, 100.0})
_COUNTED_FROM_ZERO: Final = frozenset({"getMonth", "getDayOfMonth", "getDayOfYear"})
"""Parts of a date that people count from one."""
_LARGER_UNITS: Final[Mapping[str, Collection[Figures]]] = {
    "getHours": [(("/", 24.0),)],
    "getMinutes": [(("/", 60.0),), (("/", 1440.0),)],
    "getSeconds": [(("/", 60.0),), (("/", 3600.0),), (("/", 86400.0),)],
}
"""How people write the time between two instants in minutes, hours and days."""
_DATE_PARTS: Final = frozenset(
    (float(start), float(end))
    for start, end in ((0, 4), (0, 7), (0, 10), (5, 7), (5, 10), (8, 10), (11, 16), (11, 19))
)
"""Where a year, a month, a day and a time begin and end in a date."""
_DATE_SEPARATORS: Final = frozenset({"-", "T", ":"})
_TIMES: Final = frozenset({"year", "quarter", "month", "week", "day", "date", "period"})
"""Fields that say of which time a record is."""

_QUESTIONS: Final = frozenset(
    {"contains", "startsWith", "endsWith", "matches", "indexOf", "lastIndexOf"}
)
"""Methods that ask something of a text; what they look for is no part of the answer."""
_SHAPERS: Final = frozenset(
    {
        *("split", "substring", "charAt", "slice"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    }
)
"""Methods whose arguments say which part of a value is taken."""
_MAPS: Final = frozenset({"map", "transformList"})
_SAME_ENTRIES: Final = frozenset({"distinct", "dyn", "reverse"})
"""Functions whose value has the entries, or the fields, of their argument."""
_JOINING: Final = frozenset({"sum", "flatten"})
"""Methods in whose value every entry of a list counts."""
_EXTREMES: Final = frozenset({"math.least", "math.greatest", "min", "max"})
_CONDITIONS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
