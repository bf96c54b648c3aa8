"""The origins of an expression's value: what it reads, and what its author wrote into it.

Each kind of node has one rule, and the rules are those at the head of `provenance`: a literal is data
that the author invents, unless what is read still decides the value. Then it is a factor (another
value than was read), a choice (a part of it), or nothing (a usual way to write it).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add, mul, sub
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

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
    all_nodes,
    children,
    named_field,
    summed_terms,
    without_parens,
)
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.job_words import Figures, JobWords, Operator
from wavewright.planner.plans.neighbours import list_of_neighbours
from wavewright.planner.plans.origins import (
    EMPTY_VALUES,
    FIELDS,
    NO_TEXTS,
    NOTHING,
    Origins,
    has_digit,
    on_one_line,
    shown,
    without_name,
)
from wavewright.planner.types import Json, JsonObject, StepId, as_object

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
class Local:
    """What a name stands for that a macro gave."""

    origins: Origins
    text: str = ""
    """The expression of its value, which `cel.bind` names."""
    lists: tuple[str, ...] = ()
    """Of an entry of `zip`, the lists that its places are of: they choose nothing."""


Locals: TypeAlias = Mapping[str, Local]
"""The names that macros gave."""


@dataclass(frozen=True, slots=True)
class ExpressionOrigins:
    """The origins of the values in one expression."""

    text: str
    root: Callable[[str, str | None], Origins]
    """Returns the origins of a root of expressions, or of a field right below it."""
    said: JobWords
    outputs: StepOutputs
    trials: ValueTrials
    first_of_equal: Callable[[], Mapping[str, StepId]]
    """Returns steps, with the first that makes the same calls: what one of them gives is what the
    others give, and counts twice where both are added up.
    """

    def of(self, node: ExpressionNode, names: Locals) -> Origins:
        """Return the origins of the value that a node gives, with the names that macros gave."""
        match node:
            case LiteralValue():
                return self._literal(node)
            case Identifier():
                known = names.get(node.name)
                return self.root(node.name, None) if known is None else known.origins
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

    def repeats(self, node: ExpressionNode) -> bool:
        """Whether a list has the entries of one value more than once: `x + x`, `[x, x].flatten()`."""
        return self._is_repeated(node, {})

    def _literal(self, node: LiteralValue) -> Origins:
        if node.value is None:
            return NOTHING
        if isinstance(node.value, str):
            return Origins(labels=frozenset({on_one_line(node.value)}))
        return self._written(node)

    def _all(self, nodes: Iterable[ExpressionNode], names: Locals) -> Origins:
        return NOTHING.joined(*(self.of(node, names) for node in nodes))

    def _source(self, node: ExpressionNode) -> str:
        bare = without_parens(node)
        return self.text[bare.start : bare.end]

    def _compared(self, node: ExpressionNode, names: Locals) -> str:
        """Return a text that is equal for values that are: in it steps that make the same calls have
        one name, and so have the entries of macros: `x.map(a, a.n)` is `x.map(b, b.n)`.
        """
        text = _with_firsts(self._spelled_out(without_parens(node), names), self.first_of_equal)
        macros = [part for part in all_nodes(node) if isinstance(part, Macro)]
        variables = dict.fromkeys(name for macro in macros for name in macro.variables)
        for number, name in enumerate(variables):
            text = re.sub(rf"(?<![\w.]){name}\b(?!\()", f"${number}", text)
        return text

    def _spelled_out(self, node: ExpressionNode, names: Locals) -> str:
        """Return the text of a node with what names stand for in their places: `p[0]` of `zip(x, y)`
        is an entry of `x`, and `x["f"]` is `x.f`.
        """
        match node:
            case Identifier(name=name) if name in names and names[name].text:
                return names[name].text
            case Select(operand=operand, field=field):
                return f"{self._spelled_out(operand, names)}.{field}"
            case Index(operand=operand):
                key = named_field(node)
                if key is not None:
                    return f"{self._spelled_out(operand, names)}.{key}"
                lists, place = self._zipped(operand, names), constant(node.key)
                if place is not None and 0 <= place < len(lists):
                    return f"{lists[int(place)]}[]"
            case Macro(function="bind", arguments=(body,)):
                return self._spelled_out(body, self._bound(node, names))
            case Macro():
                names = {name: names[name] for name in names.keys() - {*node.variables}}
            case _:
                pass
        text, at = "", node.start
        for part in children(node):
            text += self.text[at : part.start] + self._spelled_out(part, names)
            at = part.end
        return text + self.text[at : node.end]

    def _zipped(self, node: ExpressionNode, names: Locals) -> tuple[str, ...]:
        """Return the lists of which `zip` has made an entry; none of another value."""
        bare = without_parens(node)
        if isinstance(bare, Identifier) and bare.name in names:
            return names[bare.name].lists
        return ()

    def _bound(self, node: Macro, names: Locals, value: Origins = NOTHING) -> Locals:
        """Return the names in the body of `cel.bind`, whose value has origins."""
        text = self._spelled_out(without_parens(node.range), names)
        if _PATH.fullmatch(text) is None:
            text = f"({text})"
        if len(text) > _MAX_SPELLED_OUT:
            # Names within names within names grow without end; such a one stands for itself.
            text = ""
        return {**names, node.variables[0]: Local(value, text)}

    def _entries_of(self, node: Macro, origins: Origins, names: Locals) -> Locals:
        """Return the names in the body of a macro that runs over a list, whose entries have origins; the
        first of two names is a place or a key.
        """
        over = _list_behind(node.range)[0]
        lists: tuple[str, ...] = ()
        if isinstance(over, FunctionCall) and over.function == "zip":
            lists = tuple(self._compared(part, names) for part in over.arguments)
        *places, entry = node.variables
        known_places = dict.fromkeys(places, Local(Origins(is_read=True)))
        return {**names, **known_places, entry: Local(origins, lists=lists)}

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

    # What is read

    def _selection(self, node: Select | Index, names: Locals) -> Origins:
        operand = without_parens(node.operand)
        if isinstance(operand, Identifier) and operand.name not in names:
            name = node.field if isinstance(node, Select) else named_field(node)
            if name is not None:
                return self.root(operand.name, name)
        if isinstance(operand, ListLiteral | MapLiteral):
            entries = _entries(operand)
            value = NOTHING.joined(*(self.of(entry, names).settled() for entry in entries))
            key = without_parens(node.key) if isinstance(node, Index) else None
            is_chosen = isinstance(key, LiteralValue) and len(entries) > 1
            return value.joined(self._choice(node)) if is_chosen else value
        value = self.of(operand, names)
        is_chosen = isinstance(node, Index) and value.reads and self._takes_one(node, value, names)
        entry = replace(value, is_of_items=False)
        return entry.joined(self._choice(node)) if is_chosen else entry

    def _takes_one(self, node: Index, value: Origins, names: Locals) -> bool:
        """Whether a place that the author wrote leaves out other entries; the first of what one call
        gives is its best.
        """
        if self._zipped(node.operand, names):
            return False
        key = without_parens(node.key)
        if not isinstance(key, LiteralValue):
            return not self.of(key, names).reads
        if isinstance(key.value, str):
            return False
        is_of_parts = _is_call(node.operand, {"split"})  # whose first one is no better
        is_first = key.value == 0 and not value.is_of_items and not is_of_parts
        return not (is_first or self.said.names_place(key.value))

    # Decisions

    def _decision(self, node: Unary | Binary | LogicalOperation | Has, names: Locals) -> Origins:
        """Return the origins of a decision; one that is taken beforehand is a literal."""
        if self.trials.is_constant(node):
            return self._written(node)
        if isinstance(node, Binary) and node.operator in _FLIPPED:
            return self._comparison(node, names)
        if isinstance(node, LogicalOperation):
            sides = (self.of(side, names) for side in children(node))
            both = NOTHING.joined(*(side.deciding(self.said) for side in sides))
            # A side that reads nothing has decided: `… || true`, `… && false`.
            return both.joined(Origins(choices=both.literals)) if both.reads else both
        return self._all(children(node), names).deciding(self.said)

    def _comparison(self, node: Binary, names: Locals) -> Origins:
        """Return the origins of a comparison; a period that the job names has days for its bounds."""
        left, right = self.of(node.left, names), self.of(node.right, names)
        for value, operator, bound in (
            (left, node.operator, node.right),
            (right, _FLIPPED[node.operator], node.left),
        ):
            text = _text_of(bound, within={"timestamp", "duration"})
            if value.reads and text:
                is_said = self.said.names_bound(operator, text) or self._is_named_period(bound)
                unsaid = NO_TEXTS if is_said else self._shown(node)
                return value.deciding(self.said).choosing(unsaid)
        both = left.joined(right)
        decision = both.deciding(self.said)
        unsaid = decision.choices - both.choices - both.factors
        if not unsaid:
            return decision
        # The whole comparison says more to a reader than its bound.
        return replace(decision, choices=decision.choices - unsaid | self._shown(node))

    def _conditional(self, node: Conditional, names: Locals) -> Origins:
        in_words = self._in_words(node, names)
        if in_words is not None:
            return in_words.joined(self._computed(node))
        value = self._defaulted(node)
        if value is not None:
            # What the condition reads is read by the value as well.
            origins = self.of(value, names)
            if not any(_is_null(branch) for branch in (node.yes, node.no)):
                origins = origins.joined(self._computed(node))
            return origins.settled()
        if self._is_bounded(node):
            return self._bounded(node, (node.yes, node.no), names)
        decision = self.of(node.condition, names).deciding(self.said)
        yes, no = self.of(node.yes, names).settled(), self.of(node.no, names).settled()
        return yes.joined(no, Origins(choices=decision.choices)).settled()

    def _is_bounded(self, node: Conditional) -> bool:
        """Whether a choice is the greater or the lesser of two values: `x > 100 ? 100 : x`."""
        condition = without_parens(node.condition)
        if not isinstance(condition, Binary) or condition.operator not in {"<", "<=", ">", ">="}:
            return False
        compared = {self._source(side) for side in (condition.left, condition.right)}
        return compared == {self._source(branch) for branch in (node.yes, node.no)}

    def _in_words(self, node: Conditional, names: Locals) -> Origins | None:
        """Return the origins of a decision that is given in words: `yes` and `no`, or words of the job,
        which has asked which of them it is. None where it is no such decision.
        """
        conditions, branches = _cases(node)
        words = [_answer_of(branch) for branch in branches]
        texts = {word.casefold().strip(" .") for word in words if word is not None}
        if None in words or len(texts) < 2:
            return None
        bounds = {figure for condition in conditions for figure in _constants(condition)}
        unasked = {text for text in texts if text and not self._is_asked(text, texts, bounds)}
        # Between two answers that are asked for there may be a third: `rise`, `fall`, `unchanged`.
        is_between = len(texts) > 2 and all(self._is_neither(text, bounds) for text in unasked)
        if unasked and not is_between and texts not in _ANSWERS:
            return None
        decisions = [self.of(condition, names).deciding(self.said) for condition in conditions]
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

    def _is_neither(self, text: str, bounds: Collection[float]) -> bool:
        """Whether an answer says that none of the others holds, or that values are equal."""
        words = {word for word in text.split() if not has_digit(word)}
        return bool(words) and words <= _NEITHER and _figures_are(bounds, text)

    def _defaulted(self, node: Conditional) -> ExpressionNode | None:
        """Return the value of a condition that only has a default where what the value reads is not
        there; None of another one.
        """
        asked, is_there, is_divisor = self._asked_for(node.condition)
        value, default = node.yes, node.no
        if not is_there:
            value, default = default, value
        text = _text_of(default)
        says_nothing = text is not None and self._says_nothing(text.casefold().strip(" ."))
        is_nothing = says_nothing or self._source(default) in EMPTY_VALUES
        if asked is None or not is_nothing:
            return None
        if is_divisor:
            return value if self._divides(value, self._source(asked)) else None
        return value if self._source(asked) in self._source(value) else None

    def _says_nothing(self, text: str) -> bool:
        """Whether a text stands for what is not there: `none`, or `there are no overdue invoices` of a
        job that is about these.
        """
        if text in _NOTHING_THERE:
            return True
        words = [word for word in text.split() if word not in _OF_NOTHING]
        named = " ".join(words[1:])
        is_denied = words[:1] in (["no"], ["none"], ["nothing"])
        return is_denied and (not named or self.said.names(named))

    def _divides(self, node: ExpressionNode, divisor: str) -> bool:
        """Whether something is divided by what has a text in an expression."""
        bare = without_parens(node)
        match bare:
            case Binary(operator="/") if self._source(_without_double(bare.right)) == divisor:
                return True
            case _:
                return any(self._divides(part, divisor) for part in children(bare))

    def _asked_for(self, condition: ExpressionNode) -> tuple[ExpressionNode | None, bool, bool]:
        """Return of what a condition only asks whether there is anything, whether it holds where
        there is, and whether that is a divisor: by `has()`, by `size() > 0`, by a comparison with
        nothing, or with 0.
        """
        bare = without_parens(condition)
        if isinstance(bare, Unary) and bare.operator == "!":
            asked, is_there, is_divisor = self._asked_for(bare.operand)
            return asked, not is_there, is_divisor
        if isinstance(bare, Has):
            return bare.selection, True, False
        if not isinstance(bare, Binary) or bare.operator not in _FLIPPED:
            return None, True, False
        left, operator, right = without_parens(bare.left), bare.operator, self._source(bare.right)
        if isinstance(left, LiteralValue):
            left, right = without_parens(bare.right), self._source(left)
            operator = _FLIPPED[operator]
        asked, is_divisor = None, False
        if isinstance(left, FunctionCall) and left.function == "size":
            if (operator, right) in _ASKED_OF_SIZES:
                asked = left.target if left.target is not None else left.arguments[0]
        elif right in _NO_VALUES and operator in {"==", "!="}:
            asked = left
        elif right in {"0", "0.0"} and operator in {"==", "!=", ">"}:
            asked, is_divisor = _without_double(left), True
        return asked, operator not in {"==", "<"}, is_divisor

    # Formulas

    def _arithmetic(self, node: Binary, names: Locals) -> Origins:
        formula = self._formula(node)
        if formula.figures or formula.is_rounded:
            return self._converted(node, formula, names).joined(self._computed(node))
        if formula.base is not node:
            return self.of(formula.base, names)
        left, right = self.of(node.left, names), self.of(node.right, names)
        for value, other, period in ((left, node.left, node.right), (right, node.right, node.left)):
            if value.reads and self._is_named_period(period):
                # A period counts once, as a unit does.
                is_again = any(self._is_named_period(part) for part in all_nodes(other))
                return value.joined(self._factor(node) if is_again else self._computed(node))
        terms = [*summed_terms(node)]
        if any(_text_of(term) is not None for term in terms):
            return self._text_of_terms(terms, names)
        if node.operator != "+":
            both = left.joined(right, self._computed(node))
            # Of `x - x`, `x / x` and `x % x` it is known beforehand what comes out.
            is_same_value = self._compared(node.left, names) == self._compared(node.right, names)
            is_constant = is_same_value and node.operator != "*"
            return both.joined(self._written(node)) if is_constant else both
        # A sum may join lists, so it is no computation, but what is twice in it counts twice.
        sources = self._lists_counted(terms, names)
        if not left.reads or not right.reads or len({*sources}) == len(sources):
            return left.joined(right)
        # A rate that is looked up twice may be due twice: only of one name it is plain what is meant.
        is_itself = self._source(node.left) == self._source(node.right)
        return left.joined(right, self._written(node) if is_itself else self._factor(node))

    def _is_named_period(self, node: ExpressionNode) -> bool:
        """Whether a node is a duration that the job names, in whatever unit: `336h` for two weeks."""
        text = _text_of(node, within={"duration"}) if _is_call(node, {"duration"}) else None
        return text is not None and self.said.names_period(text)

    def _formula(self, node: ExpressionNode) -> _Formula:
        """Return what figures are applied to which value; none of a value that is read as it is."""
        bare = without_parens(node)
        if isinstance(bare, FunctionCall) and bare.function in _ROUNDINGS:
            inner = self._formula(bare.arguments[0])
            return replace(inner, awaits_places=True) if inner.figures else _Formula(bare)
        unwrapped = _without_double(bare)
        if unwrapped is not bare:
            return self._formula(unwrapped)
        if not isinstance(bare, Binary) or bare.operator not in _ON_THE_RIGHT:
            return _Formula(bare)
        left, right = constant(bare.left), constant(bare.right)
        if left is not None and right is not None:
            return _Formula(bare)
        if right is not None:
            return self._formula(bare.left).applying(_ON_THE_RIGHT[bare.operator], right)
        if left is not None:
            return self._formula(bare.right).applying(_ON_THE_LEFT[bare.operator], left)
        return self._formula_of_two(bare)

    def _formula_of_two(self, node: Binary) -> _Formula:
        """Return the figures beside two values: `100 * a / b` is `a / b * 100`, `x + x * 0.15` is
        `x * 1.15`.
        """
        left, right = self._formula(node.left), self._formula(node.right)
        is_rounded = any(side.is_rounded or side.awaits_places for side in (left, right))
        if is_rounded or not (left.figures or right.figures):
            return _Formula(node)
        if node.operator in _INVERSE:
            of_right: Figures = right.figures
            if any(operator not in _INVERSE for operator, _ in (*left.figures, *of_right)):
                return _Formula(node)
            if node.operator == "/":
                of_right = tuple((_INVERSE[operator], figure) for operator, figure in of_right)
            base = node._replace(left=left.base, right=right.base)
            return _Formula(base, (*left.figures, *of_right))
        if left.figures or self._source(left.base) != self._source(right.base):
            return _Formula(node)
        part = 1.0
        for operator, figure in right.figures:
            if operator not in _INVERSE or figure == 0:
                return _Formula(node)
            part *= figure if operator == "*" else 1 / figure
        factor = 1 + part if node.operator == "+" else 1 - part
        return _Formula(left.base, (("*", float(f"{factor:.12g}")),))

    def _converted(self, node: Binary, formula: _Formula, names: Locals) -> Origins:
        """Return the origins of a value to which figures are applied: they are no part of it where the
        job asks for them or everybody writes it so, a factor where they are usual ones or named, and
        literals otherwise.
        """
        value, figures = self.of(formula.base, names), formula.figures
        if not value.reads or formula.is_lost:
            # What is read does not decide the value any more.
            return value.joined(self._written(node))
        if formula.unit is not None and not self.said.names_rounding(formula.unit):
            is_usual = formula.unit in _SCALES
            value = value.joined(self._factor(node) if is_usual else self._written(node))
        if self._is_usual_form(formula, value, names):
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
        if in_all == frozenset({figures}) and self._is_percentage_of_named(figures):
            return applied
        is_named = all(self.said.asks_for((figure,)) for figure in figures)
        if is_named or all(map(_is_known, here)):
            return applied.joined(self._factor(node))
        return applied.joined(self._written(node))

    def _is_usual_form(self, formula: _Formula, value: Origins, names: Locals) -> bool:
        """Whether figures only write a value in another way: they count, round, or make of a share a
        percentage, the rest or the growth.
        """
        figures = formula.figures
        if not (value.data or value.models):
            # Counting on `index`, and on inputs.
            return _is_known(figures) and all(figure in _COUNTED_ON for _, figure in figures)
        if formula.is_rounded and not figures:
            return True
        if figures == _NEXT and _is_call(formula.base, _COUNTED_FROM_ZERO):
            return True
        if figures in _OF_SHARES and self._is_share(formula.base, names):
            return True
        terms = [self._compared(term, names) for term in _summands(formula.base)]
        is_mean = len(terms) > 1 and figures == (("/", float(len(terms))),)
        return is_mean and len({*terms}) == len(terms)

    def _is_percentage_of_named(self, figures: Figures) -> bool:
        """Whether figures make of a value a percentage of a figure that the job names, or its growth
        from there: `x / 5000.0 * 100.0`, `(x - 5000.0) / 5000.0`.
        """
        divisions = [at for at, (operator, _) in enumerate(figures) if operator == "/"]
        if len(divisions) != 1:
            return False
        at = divisions[0]
        if not self.said.asks_for((figures[at],)):
            return False
        whole, rest = figures[at][1], (*figures[:at], *figures[at + 1 :])
        if rest and rest[0] in {("-", whole), ("from", whole)}:
            # What is taken off the whole, or it off this, before the division.
            return rest[1:] in {(), (("*", 100.0),)}
        is_divided_first = at == 0 or rest == (("*", 100.0),)
        return is_divided_first and rest in _OF_SHARES

    def _is_share(self, node: ExpressionNode, names: Locals) -> bool:
        """Whether a value is a share of another one, as a percentage and a growth are made of."""
        bare = without_parens(node)
        if not isinstance(bare, Binary) or bare.operator not in _ARITHMETIC:
            return False
        if bare.operator == "/":
            return self.of(bare.left, names).reads and self.of(bare.right, names).reads
        return any(self._is_share(side, names) for side in (bare.left, bare.right))

    # Words

    def _text_of_terms(self, terms: Sequence[ExpressionNode], names: Locals) -> Origins:
        """Return the origins of texts that are joined; what only introduces the next one is none."""
        origins: list[Origins] = []
        for term, following in zip(terms, (*terms[1:], None), strict=True):
            words = _text_of(term)
            if words is None or following is None or not self._introduces(words, following):
                origins.append(self.of(term, names))
        return NOTHING.joined(*origins)

    def _introduces(self, words: str, following: ExpressionNode) -> bool:
        """Whether words are the bullet before a text, or the name of the field that follows."""
        source, call = self._source(following), without_parens(following)
        if _BULLET.fullmatch(words):
            # Before a figure it would be a sign; what is joined are texts.
            is_joined = _is_call(call, {"join"})
            return _PATH.fullmatch(source) is not None or (is_joined and "string(" not in source)
        if isinstance(call, FunctionCall) and call.function == "string" and call.arguments:
            source = self._source(call.arguments[0])
        return _PATH.fullmatch(source) is not None and not without_name(words, source)

    def _formatted(self, node: FunctionCall, names: Locals) -> Origins:
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
        words = {_FORMAT_SPECIFIER.sub("", text) for text in shape.labels}
        if node.target is None:
            # What only stands between the parts of a time says nothing: `%Y-%m`.
            words = {text for text in words if any(map(str.isalnum, text))}
        return filled.joined(replace(shape, labels=frozenset(words))).settled()

    def _replaced(self, node: FunctionCall, names: Locals) -> Origins:
        """Return the origins of `text.replace(sought, other)`: marks in the place of others are no part
        of it, words are, and without its digits or its point a figure is another one.
        """
        assert node.target is not None
        sought, other = node.arguments
        origins = self.of(node.target, names)
        value, words = self.of(other, names), self._source(other)
        if not value.reads and _WORD.search(words):
            origins = origins.joined(value.settled())
        is_lost = _is_call(node.target, {"string"}) and not words.strip("'\"")
        if has_digit(self._source(sought)) or is_lost:
            origins = origins.joined(self._factor(node))
        return origins.joined(replace(value, literals=NO_TEXTS, labels=NO_TEXTS))

    # Lists, objects and calls

    def _composite(self, node: ListLiteral | MapLiteral, names: Locals) -> Origins:
        entries = _entries(node)
        if not entries:
            return self._written(node)
        parts = [self.of(entry, names) for entry in entries]
        counted = [entry for entry, part in zip(entries, parts, strict=True) if part.reads]
        is_list = isinstance(node, ListLiteral)
        if isinstance(node, MapLiteral) and counted:
            parts = [*self._parts_of_record(node, parts)]
        sources = self._lists_counted(counted, names) if is_list else [*map(self._source, counted)]
        origins = NOTHING.joined(*parts, _twice(sources))
        if isinstance(node, MapLiteral):
            for (key, value), part in zip(node.entries, parts, strict=True):
                name = _text_of(key)
                if name is not None:
                    source = self._source(value)
                    origins = origins.joined(self.outputs.renamed(name, source, self.text, part))
        alone = NO_TEXTS.union(*(part.settled().literals for part in parts))
        return origins.joined(Origins(computed=alone - {""}))

    def _parts_of_record(self, node: MapLiteral, parts: Sequence[Origins]) -> Iterator[Origins]:
        """Yield the origins of the fields of a record beside what is read: one that only says of which
        time the job has asked for the others is no data, `{"year": 2023, "people": t.people}`.
        """
        for (key, value), part in zip(node.entries, parts, strict=True):
            name, literal = _text_of(key), without_parens(value)
            is_time = name is not None and name.casefold() in _TIMES
            if (
                is_time
                and isinstance(literal, LiteralValue)
                and self.said.names(str(literal.value))
            ):
                yield self._computed(literal)
            else:
                yield part

    def _lists_counted(self, entries: Sequence[ExpressionNode], names: Locals) -> list[str]:
        """Return the text of each value that is joined with others; of a part of a list that is one of
        the others, and of that list in another order, the text of the list, as its entries count
        twice. Two parts of one list may be all of it.
        """
        lists = [
            (self._compared(behind, names), is_part)
            for behind, is_part in map(_list_behind, entries)
        ]
        whole = {text for text, is_part in lists if not is_part}
        counted: list[str] = []
        for entry, (text, _) in zip(entries, lists, strict=True):
            counted.append(text if text in whole else self._named_alike(entry, names))
        return counted

    def _named_alike(self, node: ExpressionNode, names: Locals) -> str:
        """Return the text of a value, of records in which fields of a list's entries stand without the
        name that these have there and without an order.
        """
        bare = without_parens(node)
        if not (isinstance(bare, Macro) and _copies_entries(bare)):
            return self._compared(node, names)
        body = without_parens(bare.arguments[-1])
        parts = _entries(body) if isinstance(body, MapLiteral) else [body]
        name = re.compile(rf"\b{bare.variables[-1]}\b")
        fields = sorted(name.sub("", self._compared(part, names)) for part in parts)
        return f"{self._named_alike(bare.range, names)} {fields}"

    def _is_repeated(self, node: ExpressionNode, names: Locals) -> bool:
        """Whether a list holds one value more than once, so that it counts so often where its entries
        are added up: `[x, x]`, `x + x`, `x.map(i, [i, i])`, `ids.map(i, x)`.
        """
        bare = without_parens(node)
        match bare:
            case ListLiteral(items=items):
                inside = [item for item in items if isinstance(without_parens(item), ListLiteral)]
                return self._counts_twice(items, names) or self._any_repeated(inside, names)
            case Binary(operator="+"):
                terms = [*summed_terms(bare)]
                return self._counts_twice(terms, names) or self._any_repeated(terms, names)
            case FunctionCall(function=name, target=over) if name in _KEEPING and over is not None:
                lists = without_parens(over)
                if (
                    name == "flatten"
                    and isinstance(lists, FunctionCall)
                    and lists.function == "zip"
                ):
                    return self._counts_twice(lists.arguments, names)
                return self._is_repeated(over, names)
            case Macro(function=name, range=over) if name in _CHOOSERS:
                return self._is_repeated(over, names)
            case Macro(function=name) if name in _MAPS:
                return self._is_mapped_twice(bare, names)
            case Macro(function="bind", arguments=(body,)):
                value = self.of(bare.range, names)
                return self._is_repeated(body, self._bound(bare, names, value))
            case Conditional(yes=yes, no=no):
                return self._any_repeated([yes, no], names)
            case _:
                return False

    def _any_repeated(self, nodes: Iterable[ExpressionNode], names: Locals) -> bool:
        return any(self._is_repeated(node, names) for node in nodes)

    def _counts_twice(self, nodes: Iterable[ExpressionNode], names: Locals) -> bool:
        """Whether two of some values are one that is read, or hold the entries of one list."""
        read = [node for node in nodes if self.of(node, names).reads]
        sources = self._lists_counted(read, names)
        return len({*sources}) < len(sources)

    def _is_mapped_twice(self, node: Macro, names: Locals) -> bool:
        """Whether what a macro makes of different entries holds one value more than once."""
        body = node.arguments[-1]
        inner = self._entries_of(node, Origins(is_read=True), names)
        uses_entry = any(
            isinstance(part, Identifier) and part.name in node.variables for part in all_nodes(body)
        )
        if not uses_entry and self.of(body, inner).reads:
            return True
        return self._is_repeated(node.range, names) or self._is_repeated(body, inner)

    def _call(self, node: FunctionCall, names: Locals) -> Origins:
        if node.function == "now":
            return Origins(inputs=frozenset({"now()"}))
        if node.function in _QUESTIONS:
            return self._question(node, names)
        target = () if node.target is None else (node.target,)
        if node.function in _SHAPERS and target:
            return self._all(target, names).settled().joined(self._part(node, names))
        if node.function == "format":
            return self._formatted(node, names)
        if node.function == "zip":
            return self._zip(node, names)
        if node.function in _COMPLETIONS:
            return self._read_as(node, names)
        if node.function == "replace" and target and len(node.arguments) == 2:
            return self._replaced(node, names)
        if node.function in _EXTREMES and len(node.arguments) == 2:
            return self._bounded(node, node.arguments, names)
        count = self._formula(node.arguments[0]) if node.function == "lists.range" else None
        if count is not None and count.is_size_less_some():
            places = self.of(count.base, names)
            # What a range of places stops short of is left out.
            return places.joined(self._choice(node)) if count.figures else places
        origins = self._all((*target, *node.arguments), names).settled()
        if node.function in _JOINING and target and self._is_repeated(target[0], names):
            origins = origins.joined(self._factor(node))
        calculates = node.function.startswith("math.") and node.function not in _EXTREMES
        return origins.joined(self._computed(node)) if calculates and origins.reads else origins

    def _question(self, node: FunctionCall, names: Locals) -> Origins:
        """Return the origins of what is asked of a text; a pattern says what its words say."""
        if self.trials.is_constant(node):
            return self._written(node)  # every text contains the empty one
        asked = self._all(children(node), names)
        if node.function == "matches":
            asked = replace(asked, labels=frozenset(map(_words_of_pattern, asked.labels)))
        return asked.deciding(self.said)

    def _read_as(self, node: FunctionCall, names: Locals) -> Origins:
        """Return the origins of what is read as a time, a duration or a figure: what only completes its
        text, as midnight does a day and a unit a figure, is no part of it.
        """
        whole = self._all(node.arguments, names).settled()
        terms = [*summed_terms(node.arguments[0])]
        if not whole.reads or all(_text_of(term) is None for term in terms):
            return whole
        origins: list[Origins] = []
        for term in terms:
            value, words = self.of(term, names), _text_of(term)
            is_after = any(before.reads for before in origins)
            if words is not None and self._completes(node.function, words, is_after=is_after):
                continue
            if words is not None and is_after and _TIME_OF_DAY.fullmatch(words):
                # Another time than midnight makes of a day another instant.
                value = self._factor(term)
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

    def _zip(self, node: FunctionCall, names: Locals) -> Origins:
        """Return the origins of lists that are joined by place, of which a literal one is data."""
        lists = [self.of(part, names) for part in node.arguments]
        read = [
            self._compared(part, names)
            for part, origins in zip(node.arguments, lists, strict=True)
            if origins.reads
        ]
        return NOTHING.joined(*(origins.settled() for origins in lists), _twice(read))

    def _bounded(
        self, node: ExpressionNode, values: Sequence[ExpressionNode], names: Locals
    ) -> Origins:
        """Return the origins of the greater or the lesser of two values: a figure that the job names
        is a bound that makes of the other another value.
        """
        bounds = [figure for figure in map(constant, values) if figure is not None]
        if len(bounds) != 1 or not self.said.names_figure(bounds[0]):
            return self._all(values, names).settled()
        other = next(value for value in values if constant(value) is None)
        return self.of(other, names).settled().joined(self._factor(node))

    def _part(self, node: FunctionCall, names: Locals) -> Origins:
        """Return which part of a value a shaper takes by figures, or the words that it puts between
        the parts; bullets and dashes between texts are none.
        """
        assert node.target is not None
        source, target = self._source(node.target), self.of(node.target, names)
        written = self._all(node.arguments, names)
        if node.function == "join":
            words = _text_of(node.arguments[0]) if node.arguments else None
            # Before a figure that was made a text, a dash would be a sign.
            is_bullet = words is not None and _BULLET.fullmatch(words) and "string(" not in source
            return NOTHING if is_bullet else Origins(labels=written.labels)
        cut = tuple(constant(argument) for argument in node.arguments)
        if node.function in {"slice", "substring"} and cut[1:] and cut[0] == cut[1] is not None:
            # Nothing is left, whatever is read.
            return self._written(node)
        is_of_date = node.function == "substring" and cut in _DATE_PARTS
        if is_of_date and self._is_date(source, target):
            return NOTHING
        if node.function == "charAt":
            return self._choice(node)
        figures = written.literals
        is_unsaid = not all(self.said.names(text) for text in figures)
        is_choice = (is_unsaid or target.is_of_items) and figures - EMPTY_VALUES
        return self._choice(node) if is_choice else NOTHING

    def _is_date(self, text: str, origins: Origins) -> bool:
        """Whether an expression reads a field that holds dates, by its schema or its name."""
        names = FIELDS.findall(text)
        if not names:
            return False
        is_by_schema = any(
            as_object(fields.get(names[-1])).get("format") in {"date", "date-time"}
            for fields in self.outputs.fields_of(origins.data | origins.models)
        )
        return is_by_schema or _DATE_NAME.search(names[-1]) is not None

    # Macros

    def _macro(self, node: Macro, names: Locals) -> Origins:
        if node.function in _CONDITIONS and self.trials.is_constant(node):
            return self._written(node)
        over = self._range_of(node, names)
        if node.function in _CHOOSERS:
            ordered = replace(over, is_of_items=False)
            return ordered.joined(Origins(choices=self._chosen(node, names)))
        body = node.arguments[-1]
        if node.function == "bind":
            return self.of(body, self._bound(node, names, over))
        inner = self._entries_of(node, replace(over, is_of_items=False), names)
        counted = self._counted(body, inner) if node.function in _MAPS else None
        value = self.of(body, inner) if counted is None else counted
        if node.function in _CONDITIONS:
            decision = over.joined(value).deciding(self.said)
            # So has a condition: `exists(x, false)`.
            return decision if value.reads else decision.joined(Origins(choices=value.literals))
        if not _only_selects(body, frozenset(node.variables)):
            value = value.joined(self._computed(body))
        taken = self._conditions(node.arguments[:-1], node, names)
        value = value.joined(Origins(choices=taken))
        # How many there are follows from the range, so a range of literals is in the value as well.
        return value.joined(replace(over, labels=NO_TEXTS)).settled()

    def _range_of(self, node: Macro, names: Locals) -> Origins:
        """Return the origins of what a macro runs over.

        Neighbours that are only compared, as day by day, leave nothing of their list out, though one
        of them begins at its second entry: then it is the list.
        """
        compared = list_of_neighbours(node, self.text)
        return self.of(node.range if compared is None else compared, names)

    def _chosen(self, node: Macro, names: Locals) -> frozenset[str]:
        """Return what a filter or an order chooses by that the job has not said."""
        if node.function == "filter":
            return self._conditions(node.arguments, node, names)
        bounds = self._of_entries(node.arguments, node, names)
        # A sign only turns an order; a name, a place or what is the same for all chooses what
        # comes first.
        orders = [replace(bound, factors=NO_TEXTS).deciding(self.said) for bound in bounds]
        return NO_TEXTS.union(*(order.choices | order.literals for order in orders))

    def _conditions(
        self, conditions: Sequence[ExpressionNode], node: Macro, names: Locals
    ) -> frozenset[str]:
        """Return what the conditions of a macro choose entries by: `filter(x, c)`, `map(x, c, x.n)`."""
        bounds = self._of_entries(conditions, node, names)
        # A condition that reads nothing has chosen beforehand: `filter(x, false)`.
        return NO_TEXTS.union(
            *(bound.choices if bound.reads else bound.literals for bound in bounds)
        )

    def _of_entries(
        self, arguments: Sequence[ExpressionNode], node: Macro, names: Locals
    ) -> list[Origins]:
        """Return the origins of what a macro asks of each entry."""
        inner = self._entries_of(node, Origins(is_read=True), names)
        return [self.of(argument, inner) for argument in arguments]

    def _counted(self, node: ExpressionNode, names: Locals) -> Origins | None:
        """Return the origins of what a condition counts, or leaves out, entry by entry:
        `map(x, c ? 1 : 0)`, `map(x, c ? x.n : 0)`. None where a body is no such condition.
        """
        bare = without_parens(node)
        if not isinstance(bare, Conditional) or constant(bare.no) != 0:
            return None
        decision = self.of(bare.condition, names).deciding(self.said)
        if decision.literals or not decision.reads:
            return None
        if constant(bare.yes) == 1:
            return decision
        value = self.of(bare.yes, names)
        return value.joined(Origins(choices=decision.choices)) if value.reads else None


@dataclass(frozen=True, slots=True)
class _Formula:
    """A value, and the figures that are applied to it one after the other."""

    base: ExpressionNode
    figures: Figures = ()
    is_rounded: bool = False
    awaits_places: bool = False
    """Whether it was rounded, and not divided by the places yet."""
    unit: float | None = None
    """What it was rounded to, if not to places: 1000 of `math.round(x / 1000.0) * 1000.0`."""
    is_lost: bool = False
    """Whether the value cannot be told from the outcome any more: `x * 0`, `x + 1e300`."""

    def is_size_less_some(self) -> bool:
        """Whether it is the size of a list, or that less some: `x.size() - 2`."""
        is_lessened = all(operator == "-" for operator, _ in self.figures)
        return _is_call(self.base, {"size"}) and is_lessened and not self.is_rounded

    def applying(self, operator: Operator, figure: float) -> _Formula:
        """Return the formula with one more figure; a division by the places, or what undoes the figure
        before, ends a rounding.
        """
        if (operator, figure) in _NEUTRAL:
            return self
        is_lost = self.is_lost or not _MIN_SIZE < abs(figure) < _MAX_SIZE
        is_of_places = operator == "/" and figure in _PLACES
        is_undone = self.awaits_places and self.figures[-1] == (_INVERSE.get(operator), figure)
        if is_undone and not is_of_places:
            unit = figure if operator == "*" else 1 / figure
            rounded = replace(self, figures=self.figures[:-1], is_rounded=True, awaits_places=False)
            return replace(rounded, unit=unit, is_lost=is_lost)
        places = None
        if self.awaits_places and self.figures[-1][0] == "*":
            places = self.figures[-1][1]
        if places is None or not is_of_places:
            figures = (*self.figures, (operator, figure))
            return replace(self, figures=figures, awaits_places=False, is_lost=is_lost)
        # `math.round(x * 1000.0) / 10.0` is `x * 100.0`, rounded.
        figures = self.figures[:-1]
        if places != figure:
            figures = (*figures, ("*", places / figure))
        return replace(self, figures=figures, is_rounded=True, awaits_places=False, is_lost=is_lost)


def first_of_equal_calls(graph: PlanGraph, steps: Collection[StepId]) -> Mapping[str, StepId]:
    """Return some steps of a plan, each with the first of them that makes the same calls."""
    firsts: dict[str, StepId] = {}
    first_of_calls: dict[str, StepId] = {}
    for step_id in graph.order():
        if step_id not in steps:
            continue
        step = graph.steps[step_id]
        # Data that is fetched again after another step may have become other data.
        after = sorted({firsts.get(name, name) for name in graph.dependencies[step_id]})
        calls: list[Json] = [step.tool, step.params, step.for_each, step.when, *after]
        text = _with_firsts(json.dumps(calls, sort_keys=True), lambda: firsts)
        firsts[step_id] = first_of_calls.setdefault(text, step_id)
    return firsts


def _with_firsts(text: str, firsts: Callable[[], Mapping[str, StepId]]) -> str:
    """Return a text in which steps that make the same calls have the name of the first of them."""
    return _STEP.sub(lambda read: f"steps.{firsts().get(read[1], read[1])}", text)


def _is_known(figures: Figures) -> bool:
    """Whether figures are such as convert units or count on, each operator at most once."""
    operators = [operator for operator, _ in figures]
    is_each_once = len({*operators}) == len(operators)
    return is_each_once and all(figure in _KNOWN[operator] for operator, figure in figures)


def constant(node: ExpressionNode) -> float | None:
    """Return the figure that a node stands for, if it is one that was written."""
    bare = without_parens(node)
    match bare:
        case FunctionCall(function="double", target=None):
            return constant(bare.arguments[0])
        case Unary(operator="-"):
            figure = constant(bare.operand)
            return None if figure is None else -figure
        case Binary() if bare.operator in _CALCULATED:
            left, right = constant(bare.left), constant(bare.right)
            if left is None or right is None or (right == 0 and bare.operator == "/"):
                return None
            return _CALCULATED[bare.operator](left, right)
        case LiteralValue(value=int() | float() as figure) if not isinstance(figure, bool):
            return float(figure)
        case _:
            return None


def _without_double(node: ExpressionNode) -> ExpressionNode:
    """Return what is made a double, or else the node."""
    bare = without_parens(node)
    if isinstance(bare, FunctionCall) and bare.function == "double" and bare.target is None:
        return without_parens(bare.arguments[0])
    return bare


def _constants(node: ExpressionNode) -> Iterator[float]:
    """Yield the figures that are written in an expression."""
    figure = constant(node)
    if figure is not None:
        yield figure
        return
    for part in children(node):
        yield from _constants(part)


def _is_null(node: ExpressionNode) -> bool:
    bare = without_parens(node)
    return isinstance(bare, LiteralValue) and bare.value is None


def _is_call(node: ExpressionNode, functions: Iterable[str]) -> bool:
    bare = without_parens(node)
    return isinstance(bare, FunctionCall) and bare.function in functions


def _words_of_pattern(pattern: str) -> str:
    """Return a regular expression without its flags and anchors, so that its words are left; as it is
    where there is more in it than words.
    """
    words = _PATTERN_MARKS.sub(" ", pattern)
    return pattern if _PATTERN.search(words) else words


def _figures_are(bounds: Collection[float], text: str) -> bool:
    """Whether all figures in an answer are bounds of the decision that it answers."""
    figures = [word for word in text.split() if has_digit(word)]
    return all(_PLAIN_FIGURE.fullmatch(word) and float(word) in bounds for word in figures)


def _entries(node: ListLiteral | MapLiteral) -> list[ExpressionNode]:
    if isinstance(node, ListLiteral):
        return [*node.items]
    return [value for _, value in node.entries]


def _text_of(node: ExpressionNode, within: Iterable[str] = ()) -> str | None:
    """Return the text that a node is, also as the only argument of some functions."""
    bare = without_parens(node)
    if isinstance(bare, FunctionCall) and bare.function in within and len(bare.arguments) == 1:
        bare = without_parens(bare.arguments[0])
    if isinstance(bare, LiteralValue) and isinstance(bare.value, str):
        return bare.value
    return None


def _answer_of(node: ExpressionNode) -> str | None:
    """Return the words of an answer, that of a truth value as well."""
    bare = without_parens(node)
    if isinstance(bare, LiteralValue) and isinstance(bare.value, bool):
        return "true" if bare.value else "false"
    return _text_of(bare)


def _twice(sources: list[str]) -> Origins:
    """Return what is read twice in a list, which counts it twice."""
    twice = {f"{source} twice" for source in sources if sources.count(source) > 1}
    return Origins(computed=frozenset(twice))


def _list_behind(node: ExpressionNode) -> tuple[ExpressionNode, bool]:
    """Return the list whose entries a list has, in whatever order, and whether it has a part of them
    only.
    """
    bare = without_parens(node)
    match bare:
        case Macro(function="filter", range=over):
            return _list_behind(over)[0], True
        case FunctionCall(function="slice", target=over) if over is not None:
            return _list_behind(over)[0], True
        case Macro(range=over) if _copies_entries(bare):
            # The same entries, with some of their fields.
            return _list_behind(over)[0], True
        case Macro(function="sortBy", range=over):
            return _list_behind(over)
        case FunctionCall(function="sort" | "reverse", target=over) if over is not None:
            return _list_behind(over)
        case _:
            return bare, False


def _copies_entries(node: Macro) -> bool:
    """Whether what a macro makes of an entry is the entry, or a record of its fields."""
    body = without_parens(node.arguments[-1])
    is_record = isinstance(body, MapLiteral | Identifier)
    is_of_all = node.function == "map" and len(node.arguments) == 1
    return is_of_all and is_record and _only_selects(body, frozenset(node.variables))


def _only_selects(node: ExpressionNode, variables: frozenset[str]) -> bool:
    """Whether what a macro makes of an entry is the entry, parts of it, or a record of these."""
    match without_parens(node):
        case MapLiteral(entries=entries):
            return all(_only_selects(value, variables) for _, value in entries)
        case LiteralValue():
            return True
        case Identifier(name=name):
            return name in variables
        case Select(operand=operand):
            return _only_selects(operand, variables)
        case _:
            return False


def _summands(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield what a value is the sum of: `x + y`, `[x, y].sum()` or `sum([x, y])`."""
    bare = without_parens(node)
    if isinstance(bare, FunctionCall) and bare.function == "sum":
        summed = bare.target if bare.target is not None else bare.arguments[0]
        entries = without_parens(summed)
        if isinstance(entries, ListLiteral):
            yield from entries.items
            return
    yield from summed_terms(bare)


def _cases(node: ExpressionNode) -> tuple[list[ExpressionNode], list[ExpressionNode]]:
    """Return the conditions of a choice among values, one within the other, and the values."""
    bare = without_parens(node)
    if not isinstance(bare, Conditional):
        return [], [bare]
    conditions, values = [bare.condition], list[ExpressionNode]()
    for branch in (bare.yes, bare.no):
        inner, last = _cases(branch)
        conditions += inner
        values += last
    return conditions, values


_MAX_SPELLED_OUT: Final = 2_000
"""Characters of what a name stands for."""
_STEP: Final = re.compile(r"\bsteps\.(\w+)")
_DATE_NAME: Final = re.compile(r"(?:^|_)(?:date|day|datetime|time|timestamp|at|as_of)$")
_LETTER: Final = re.compile(r"[^\W\d_]")
_PLAIN_FIGURE: Final = re.compile(r"\d+(?:\.\d+)?")
_WORD: Final = re.compile(r"[^\W_]")
_PATH: Final = re.compile(r"[\w.]+(?:\[[^\]]*\][\w.]*)*")
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

_NO_VALUES: Final = frozenset({"null", '""', "''"})
_NOTHING_THERE: Final = frozenset(
    {"", "-", "none", "n/a", "na", "unknown", "not known", "not available", "no data", "missing"}
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

_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_ASKED_OF_SIZES: Final = frozenset({(">", "0"), ("!=", "0"), ("==", "0"), (">=", "1"), ("<", "1")})
"""Comparisons by which a size is asked whether there is anything."""
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
_ON_THE_RIGHT: Final[dict[str, Operator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}
_ON_THE_LEFT: Final[dict[str, Operator]] = {"+": "+", "-": "from", "*": "*", "/": "over"}
_INVERSE: Final[dict[Operator, Operator]] = {"*": "/", "/": "*"}
_CALCULATED: Final[dict[str, Callable[[float, float], float]]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": lambda left, right: left / right,
}
_NEUTRAL: Final = frozenset({("*", 1.0), ("/", 1.0), ("+", 0.0), ("-", 0.0)})
_PLACES: Final = frozenset(10.0**places for places in range(1, 13))
_MIN_SIZE, _MAX_SIZE = 1e-12, 1e12
"""Between these, a figure leaves of a double what it was."""

_NEXT: Final[Figures] = (("+", 1.0),)
_COUNTED_ON: Final = frozenset({1.0, 100.0})
_COUNTED_FROM_ZERO: Final = frozenset({"getMonth", "getDayOfMonth", "getDayOfYear"})
"""Parts of a date that people count from one."""
_SCALES: Final = frozenset(
    {
        *(10.0, 100.0, 1e3, 1e6, 1e9),
        *(60.0, 3600.0, 24.0, 86400.0, 7.0, 12.0, 52.0, 365.0, 365.25),
        *(1.8, 5.0, 9.0, 2.54, 0.3048, 1.609344, 0.45359237),
        *(2.0, 4.0, 0.5, round(math.pi, 2), round(math.pi, 4), round(math.pi, 5), math.pi),
    }
)
_SHIFTS: Final = frozenset({1.0, 32.0, 273.15})
_KNOWN: Final[dict[Operator, frozenset[float]]] = {
    "*": _SCALES,
    "/": _SCALES,
    "+": _SHIFTS,
    "-": _SHIFTS,
    "from": frozenset({1.0, 100.0}),
    "over": frozenset({1.0, 100.0}),
}
_OF_SHARES: Final[frozenset[Figures]] = frozenset(
    {
        (("*", 100.0),),
        (("-", 1.0),),
        (("from", 1.0),),
        (("-", 1.0), ("*", 100.0)),
        (("from", 1.0), ("*", 100.0)),
        (("*", 100.0), ("-", 100.0)),
        (("*", 100.0), ("from", 100.0)),
    }
)
"""What makes of a share a percentage, the rest or the growth."""

_DATE_PARTS: Final = frozenset(
    (float(start), float(end))
    for start, end in ((0, 4), (0, 7), (0, 10), (5, 7), (5, 10), (8, 10), (11, 16), (11, 19))
)
"""Where a year, a month, a day and a time begin and end in a date."""
_QUESTIONS: Final = frozenset(
    {"contains", "startsWith", "endsWith", "matches", "indexOf", "lastIndexOf"}
)
"""Methods that ask something of a text; what they look for is no part of the answer."""
_SHAPERS: Final = frozenset(
    {
        *("join", "split", "substring", "charAt", "slice"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    }
)
"""Methods whose arguments say which part of a value is taken, or how its parts are joined."""
_TIMES: Final = frozenset({"year", "quarter", "month", "week", "day", "date", "period"})
_CHOOSERS: Final = frozenset({"filter", "sortBy"})
_MAPS: Final = frozenset({"map", "transformList"})
_KEEPING: Final = frozenset({"flatten", "reverse", "slice", "sort"})
"""Methods that give the entries of a list, or some of them, in whatever order."""
_JOINING: Final = frozenset({"sum", "flatten"})
"""Methods in whose value every entry of a list counts."""
_EXTREMES: Final = frozenset({"math.least", "math.greatest", "min", "max"})
_ROUNDINGS: Final = frozenset({"math.round", "math.floor", "math.ceil", "math.trunc"})
_CONDITIONS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
