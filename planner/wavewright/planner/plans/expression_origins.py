"""The origins of an expression's value: what it reads, and what its author wrote into it.

Each kind of node has one rule, and the rules are those of `docs/explanation/confidence.md`: a
literal is data that the author invents, unless what is read still decides the value. Then it is a
factor (another value than was read), a choice (a part of it), or nothing (a usual way to write it).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

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
from wavewright.planner.plans.formulas import (
    Formula,
    constant,
    formula_of,
    is_count,
    is_known,
    is_of_share,
)
from wavewright.planner.plans.job_words import JobWords
from wavewright.planner.plans.origins import EMPTY_VALUES, NO_TEXTS, NOTHING, Origins


class PlanReads(Protocol):
    """What expressions read of their plan and of the job."""

    @property
    def said(self) -> JobWords:
        """What the job names."""
        ...

    def root(self, root: str, name: str | None, item: Origins | None) -> Origins:
        """Return the origins of a root of expressions, or of a field right below it."""
        ...

    def renamed(self, key: str, value: str, text: str, origins: Origins) -> Origins:
        """Return the factor by which a field is given under the name of another one."""
        ...

    def is_of_items(self, text: str, origins: Origins) -> bool:
        """Whether an expression reads a step that has an entry for each of its items."""
        ...

    def is_date(self, text: str, origins: Origins) -> bool:
        """Whether an expression reads a field that holds dates."""
        ...


Locals: TypeAlias = Mapping[str, Origins]
"""The origins of the names that macros gave."""


@dataclass(frozen=True, slots=True)
class ExpressionOrigins:
    """The origins of the values in one expression."""

    plan: PlanReads
    text: str
    item: Origins | None
    is_strict: bool

    def of(self, node: ExpressionNode, names: Locals) -> Origins:
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

    def _all(self, nodes: Iterable[ExpressionNode], names: Locals) -> Origins:
        return NOTHING.joined(*(self.of(node, names) for node in nodes))

    def _source(self, node: ExpressionNode) -> str:
        bare = without_parens(node)
        return self.text[bare.start : bare.end]

    def _written(self, node: ExpressionNode) -> Origins:
        """Return what the author wrote as a literal."""
        return Origins(literals=frozenset({shown(self._source(node))}))

    def _factor(self, node: ExpressionNode) -> Origins:
        return Origins(factors=frozenset({shown(self._source(node))}))

    def _choice(self, node: ExpressionNode) -> Origins:
        return Origins(choices=frozenset({shown(self._source(node))}))

    def _literal(self, node: LiteralValue) -> Origins:
        if node.value is None:
            return NOTHING
        if not isinstance(node.value, str):
            return self._written(node)
        text = frozenset({shown(node.value)})
        if self.is_strict and has_digit(node.value):
            return Origins(literals=text)
        return Origins(labels=text)

    # What is read

    def _selection(self, node: Select | Index, names: Locals) -> Origins:
        operand = without_parens(node.operand)
        if isinstance(operand, Identifier) and operand.name not in names:
            name = node.field if isinstance(node, Select) else _text_of(node.key)
            if name is not None:
                return self.plan.root(operand.name, name, self.item)
        if isinstance(operand, ListLiteral | MapLiteral):
            return self._entry_of_composite(node, operand, names)
        value = self.of(operand, names)
        if isinstance(node, Index) and value.reads and self._takes_one(node, value, names):
            return value.joined(self._choice(node))
        return value

    def _entry_of_composite(
        self, node: Select | Index, composite: ListLiteral | MapLiteral, names: Locals
    ) -> Origins:
        entries = _entries(composite)
        value = NOTHING.joined(*(self.of(entry, names).settled() for entry in entries))
        has_written_key = isinstance(node, Index) and isinstance(
            without_parens(node.key), LiteralValue
        )
        return value.joined(self._choice(node)) if has_written_key and len(entries) > 1 else value

    def _takes_one(self, node: Index, value: Origins, names: Locals) -> bool:
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

    # Decisions

    def _decision(self, node: Unary | Binary | LogicalOperation | Has, names: Locals) -> Origins:
        """Return the origins of a decision; one that is taken beforehand is a literal."""
        if isinstance(node, Binary) and self._is_decided(node):
            return self._written(node)
        if isinstance(node, Binary) and node.operator in _FLIPPED:
            return self._comparison(node, names)
        if isinstance(node, LogicalOperation):
            # A side that reads nothing has decided: `… || true`.
            sides = (self.of(side, names) for side in children(node))
            return NOTHING.joined(*(side.deciding(self.plan.said) for side in sides))
        return self._all(children(node), names).deciding(self.plan.said)

    def _is_decided(self, node: Binary) -> bool:
        """Whether a comparison has one answer: with itself, or of a size with what it always is."""
        if self._source(node.left) == self._source(node.right):
            return True
        size, operator, bound = node.left, node.operator, constant(node.right)
        if bound is None:
            size, operator, bound = node.right, _FLIPPED.get(operator, ""), constant(node.left)
        if bound is None or not is_count(size):
            return False
        if operator in {">=", "<"}:
            return bound <= 0
        return operator in {">", "<=", "!=", "=="} and bound < 0

    def _comparison(self, node: Binary, names: Locals) -> Origins:
        """Return the origins of a comparison; a period that the job names has days for its bounds."""
        left, right = self.of(node.left, names), self.of(node.right, names)
        for value, operator, bound in (
            (left, node.operator, node.right),
            (right, _FLIPPED[node.operator], node.left),
        ):
            text = _text_of(bound, within={"timestamp"})
            if value.reads and text:
                is_said = self.plan.said.names_bound(operator, text)
                unsaid = NO_TEXTS if is_said else frozenset({shown(self._source(node))})
                return value.deciding(self.plan.said).choosing(unsaid)
        both = left.joined(right)
        decision = both.deciding(self.plan.said)
        unsaid = decision.choices - both.choices - both.factors
        if not unsaid:
            return decision
        # The whole comparison says more to a reader than its bound.
        return replace(decision, choices=decision.choices - unsaid | self._choice(node).choices)

    def _conditional(self, node: Conditional, names: Locals) -> Origins:
        if not self.is_strict:
            in_words = self._in_words(node, names)
            if in_words is not None:
                return in_words
        decision = self.of(node.condition, names).deciding(self.plan.said)
        value, default = self._with_default(node)
        if value is not None and default is not None and not self.is_strict:
            found = self.of(value, names)
        else:
            found = NOTHING.joined(
                self.of(node.yes, names).settled(), self.of(node.no, names).settled()
            )
        return found.joined(Origins(choices=decision.choices)).settled()

    def _in_words(self, node: Conditional, names: Locals) -> Origins | None:
        """Return the origins of a decision that is given in words: `yes` and `no`, or words of the job,
        which has asked which of them it is. None where it is no such decision.
        """
        words = [_text_of(branch) for branch in _branches(node)]
        texts = {word.casefold().strip() for word in words if word is not None}
        if None in words or len(texts) < len(words) or any(map(has_digit, texts)):
            return None
        is_asked = all(self.plan.said.names(text) for text in texts if text)
        if not is_asked and frozenset(texts) not in _ANSWERS:
            return None
        found = [self.of(each, names).deciding(self.plan.said) for each in _conditions(node)]
        if any(each.literals or not each.reads for each in found):
            return None
        is_reversed = self.plan.said.asks_whether_there_is and self._answers_reversed(node)
        return NOTHING.joined(*found, self._choice(node) if is_reversed else NOTHING)

    def _answers_reversed(self, node: Conditional) -> bool:
        """Whether a condition says `no` where there is something: `x.size() > 0 ? 'no' : 'yes'`."""
        condition, is_there = without_parens(node.condition), True
        while isinstance(condition, Unary) and condition.operator == "!":
            condition, is_there = without_parens(condition.operand), not is_there
        if isinstance(condition, Binary):
            if condition.operator not in {">", "!=", "=="}:
                return False
            if constant(condition.right) != 0 and self._source(condition.right) not in _NO_VALUES:
                return False
            is_there = is_there == (condition.operator != "==")
        elif not isinstance(condition, Has):
            return False
        answer = _text_of(node.yes if is_there else node.no) or ""
        return answer.casefold().strip() in _REFUSALS

    def _with_default(
        self, node: Conditional
    ) -> tuple[ExpressionNode, ExpressionNode] | tuple[None, None]:
        """Return the value and the default of a condition that only asks whether there is anything of
        what the value reads: by `has()`, by `size() > 0`, or by a comparison with nothing.
        """
        condition, is_there = without_parens(node.condition), True
        if isinstance(condition, Unary) and condition.operator == "!":
            condition, is_there = without_parens(condition.operand), False
        asked: ExpressionNode | None = None
        if isinstance(condition, Has):
            asked = condition.selection
        elif isinstance(condition, Binary) and condition.operator in {">", "!=", "=="}:
            is_there = is_there == (condition.operator != "==")
            left, right = without_parens(condition.left), self._source(condition.right)
            if right == "0" and isinstance(left, FunctionCall) and left.function == "size":
                asked = left.target
            elif right in _NO_VALUES and condition.operator != ">":
                asked = left
        value, default = (node.yes, node.no) if is_there else (node.no, node.yes)
        if asked is None or self._source(asked) not in self._source(value):
            return None, None
        text = _text_of(default)
        is_nothing = self._source(default) in EMPTY_VALUES or (
            text is not None and text.casefold().strip() in _NOTHING_THERE
        )
        return (value, default) if is_nothing else (None, None)

    # Formulas

    def _arithmetic(self, node: Binary, names: Locals) -> Origins:
        if self.is_strict:
            return self._strict_arithmetic(node, names)
        rounded = self._rounded(node, names)
        if rounded is not None:
            return rounded
        if self._adds_a_named_part(node):
            return self.of(node.left, names)
        formula = formula_of(node)
        if formula.figures:
            return self._converted(node, formula, names)
        if formula.base is not node:
            return self.of(formula.base, names)
        left, right = self.of(node.left, names), self.of(node.right, names)
        is_itself = self._source(node.left) == self._source(node.right)
        if left.reads and is_itself and node.operator != "*":
            return left.joined(self._written(node.left))
        terms = [*_terms(node)]
        if any(_text_of(term) is not None for term in terms):
            return self._text_of_terms(terms, names)
        sources = [self._source(term) for term in terms]
        if left.reads and right.reads and len(set(sources)) < len(sources):
            return left.joined(right, self._factor(node))
        return left.joined(right)

    def _adds_a_named_part(self, node: Binary) -> bool:
        """Whether a value is raised or lowered by a part of itself that the job names:
        `x + x * 0.15`, which is `x * 1.15`.
        """
        whole, part = formula_of(node.left), formula_of(node.right)
        is_of_itself = not whole.figures and self._source(whole.base) == self._source(part.base)
        if not is_of_itself or node.operator not in {"+", "-"}:
            return False
        match part.figures:
            case (("*", share),):
                factor = 1 + share if node.operator == "+" else 1 - share
                return self.plan.said.names_formula((("*", float(f"{factor:.12g}")),))
            case _:
                return False

    def _strict_arithmetic(self, node: Binary, names: Locals) -> Origins:
        left, right = self.of(node.left, names), self.of(node.right, names)
        if node.operator != "+":
            return left.joined(right, self._calculation(node))
        return left.joined(right, self._twice([node.left, node.right], names))

    def _converted(self, node: Binary, formula: Formula, names: Locals) -> Origins:
        """Return the origins of a value to which figures are applied: they are no part of it where the
        job asks for them, a factor where they are usual ones, and literals otherwise.
        """
        value = self.of(formula.base, names)
        written = Origins(literals=frozenset(f"{figure:.15g}" for _, figure in formula.figures))
        operators = frozenset(operator for operator, _ in formula.figures)
        is_lost = any(figure == 0 for _, figure in formula.figures)
        # A unit counts once, also where a name or a function stands between it and another one.
        if is_lost:
            # A decision on it is taken beforehand as well: `x * 0.0 > 0.0`.
            return value.joined(written, self._factor(node))
        if not value.reads or operators & value.units:
            return value.joined(written)
        marks = frozenset(f"{operator} {figure}" for operator, figure in formula.figures)
        applied = replace(value, units=value.units | operators | marks)
        is_twice = marks & value.units and not self.plan.said.names_conversion(formula.figures * 2)
        if is_twice:
            return applied.joined(self._factor(node))
        if self._is_usual(formula, value, names):
            return applied
        said = self.plan.said
        is_named = all(
            said.names_figure(figure) or said.is_of_percentage(figure)
            for _, figure in formula.figures
        )
        if is_known(formula.figures) or is_named:
            return applied.joined(self._factor(node))
        return applied.joined(written)

    def _is_usual(self, formula: Formula, value: Origins, names: Locals) -> bool:
        """Whether figures only write a value in another way, or apply what the job asks for."""
        figures, said = formula.figures, self.plan.said
        if not (value.data or value.models):
            # Counting on `index`, and on inputs.
            is_counting = all(figure in _COUNTED_ON for _, figure in figures)
            return is_known(figures) and is_counting
        if figures == _NEXT and _is_counted_from_zero(formula.base):
            return True
        if is_of_share(figures) and self._is_share(formula.base, names):
            is_percentage = any(figure == 100 for _, figure in figures)
            return said.asks_for_share or not is_percentage
        if said.names_formula(figures):
            return True
        is_multiplied = any(operator == "*" for operator, _ in figures)
        if said.names_conversion(figures) and not (is_multiplied and is_count(formula.base)):
            return True
        terms = [self._source(term) for term in _terms(formula.base)]
        is_mean = len(terms) > 1 and figures == (("/", float(len(terms))),)
        return is_mean and len(set(terms)) == len(terms)

    def _is_share(self, node: ExpressionNode, names: Locals) -> bool:
        """Whether a value is a share of another one, as a percentage and a growth are made of."""
        bare = without_parens(node)
        if not isinstance(bare, Binary) or bare.operator not in _ARITHMETIC:
            return False
        if bare.operator == "/":
            return self.of(bare.left, names).reads and self.of(bare.right, names).reads
        return any(self._is_share(side, names) for side in (bare.left, bare.right))

    def _rounded(self, node: Binary, names: Locals) -> Origins | None:
        """Return the origins of what is rounded to some places by `math.round(x * 100.0) / 100.0`, also
        where it is made a percentage on the way: `math.round(a / b * 1000.0) / 10.0`.
        """
        call, divisor = without_parens(node.left), constant(node.right)
        if node.operator != "/" or divisor is None or not isinstance(call, FunctionCall):
            return None
        if call.function not in _ROUNDINGS or divisor < 1 or not _is_power_of_ten(divisor):
            return None
        product = without_parens(call.arguments[0])
        if not isinstance(product, Binary) or product.operator != "*":
            return None
        factor = constant(product.right)
        if factor == divisor > 1:
            return self.of(product.left, names)
        if factor != 100 * divisor or not self._is_share(product.left, names):
            return None
        share = self.of(product.left, names)
        return share if self.plan.said.asks_for_share else share.joined(self._factor(node))

    # Words

    def _text_of_terms(self, terms: Sequence[ExpressionNode], names: Locals) -> Origins:
        """Return the origins of texts that are joined; what only introduces the next one is none."""
        found: list[Origins] = []
        for term, following in zip(terms, (*terms[1:], None), strict=True):
            words = _text_of(term)
            if words is None or following is None or not self._introduces(words, following):
                found.append(self.of(term, names))
        return NOTHING.joined(*found)

    def _introduces(self, words: str, following: ExpressionNode) -> bool:
        """Whether words are the bullet before a text, or the name of the field that follows."""
        source, call = self._source(following), without_parens(following)
        if _BULLET.fullmatch(words):
            # Before a figure it would be a sign; what is joined are texts.
            is_joined = isinstance(call, FunctionCall) and call.function == "join"
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
        words = {_FORMAT_SPECIFIER.sub("", text) for text in shape.labels | shape.literals}
        return filled.joined(replace(shape, literals=NO_TEXTS, labels=frozenset(words))).settled()

    def _lost_figures(self, node: FunctionCall) -> Origins:
        """Return the factor by which a figure is written as another one: `replace('0', '')`."""
        assert node.target is not None
        of = without_parens(node.target)
        is_number = isinstance(of, FunctionCall) and of.function == "string"
        sought, replacement = (self._source(argument) for argument in node.arguments)
        if has_digit(sought) or (is_number and not replacement.strip("'\"")):
            return self._factor(node)
        return NOTHING

    def _replacement(self, node: ExpressionNode, names: Locals) -> Origins:
        """Return the origins of what takes the place of a part of a text: marks are none, words are."""
        value = self.of(node, names)
        if value.reads or not _WORD.search(self._source(node)):
            return replace(value, literals=NO_TEXTS, labels=NO_TEXTS)
        return value.settled()

    # Lists, objects and calls

    def _composite(self, node: ListLiteral | MapLiteral, names: Locals) -> Origins:
        entries = _entries(node)
        if not entries:
            return self._written(node)
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
        name = _text_of(key)
        if name is None:
            return NOTHING
        return self.plan.renamed(name, self._source(value), self.text, origins)

    def _twice(self, terms: Iterable[ExpressionNode], names: Locals) -> Origins:
        """Return what is read twice among the terms of a sum or a list, which counts it twice."""
        sources = [self._source(term) for term in terms if self.of(term, names).reads]
        twice = {f"{source} twice" for source in sources if sources.count(source) > 1}
        return Origins(literals=frozenset(twice))

    def _call(self, node: FunctionCall, names: Locals) -> Origins:
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

    def _part(self, node: FunctionCall, names: Locals) -> Origins:
        """Return which part of a value a shaper takes by figures, or the words that it puts between
        the parts.
        """
        assert node.target is not None
        if node.function == "join":
            return self._separator(node, names)
        source, target = self._source(node.target), self.of(node.target, names)
        cut = tuple(constant(argument) for argument in node.arguments)
        if (
            node.function == "substring"
            and cut in _DATE_PARTS
            and self.plan.is_date(source, target)
        ):
            return NOTHING
        figures = self._all(node.arguments, names).literals
        unsaid = [text for text in figures if not self.plan.said.names(text)]
        is_of_items = self.plan.is_of_items(source, target)
        is_choice = (unsaid or is_of_items) and figures - EMPTY_VALUES
        return self._choice(node) if is_choice else NOTHING

    def _separator(self, node: FunctionCall, names: Locals) -> Origins:
        """Return the words that a `join` puts between texts; bullets and dashes are none there."""
        assert node.target is not None
        words = _text_of(node.arguments[0]) if node.arguments else None
        is_of_texts = "string(" not in self._source(node.target)
        if words is not None and _BULLET.fullmatch(words) and is_of_texts:
            return NOTHING
        return Origins(labels=self._all(node.arguments, names).labels)

    # Macros

    def _macro(self, node: Macro, names: Locals) -> Origins:
        over = self.of(node.range, names)
        if node.function in _CHOOSERS:
            inner = {**names, **dict.fromkeys(node.variables, Origins(is_read=True))}
            bounds = [self.of(part, inner) for part in node.arguments]
            # A condition that reads nothing has chosen beforehand: `filter(x, false)`.
            chosen = NO_TEXTS.union(
                *(bound.choices if bound.reads else bound.literals for bound in bounds)
            )
            if node.function == "filter":
                against = self._against_the_goal(node.arguments[-1])
                return over.joined(Origins(choices=chosen | against))
            # A sign only turns an order; a name or a place in a key chooses what comes first.
            orders = (replace(bound, factors=NO_TEXTS).deciding(self.plan.said) for bound in bounds)
            named = NO_TEXTS.union(*(order.choices for order in orders))
            return over.joined(Origins(choices=named))
        inner = {**names, **dict.fromkeys(node.variables, over)}
        if len(node.variables) > 1:
            inner[node.variables[0]] = over.joined(Origins(is_read=True))
        body = node.arguments[-1]
        made = self._counted(body, inner) if node.function == "map" else None
        if made is None:
            made = self.of(body, inner)
        if node.function in _CONDITIONS:
            return over.joined(made).deciding(self.plan.said)
        if node.function == "bind":
            return made
        if self.is_strict and not self._only_selects(body, frozenset(node.variables)):
            made = made.joined(self._calculation(body))
        # How many there are follows from the range, so a range of literals is in the value as well.
        return made.settled().joined(Origins(literals=over.literals))

    def _against_the_goal(self, node: ExpressionNode) -> frozenset[str]:
        """Return the comparisons by which a filter keeps what is on the other side of a bound than the
        job says: `t.people < 400` where it wants those above 400.
        """
        bare = without_parens(node)
        if isinstance(bare, LogicalOperation):
            return NO_TEXTS.union(*(self._against_the_goal(side) for side in children(bare)))
        if not isinstance(bare, Binary) or bare.operator not in _FLIPPED:
            return NO_TEXTS
        operator, bound = bare.operator, constant(bare.right)
        if bound is None:
            operator, bound = _FLIPPED[operator], constant(bare.left)
        if bound is None or self.plan.said.allows_side(operator, bound):
            return NO_TEXTS
        return self._choice(bare).choices

    def _counted(self, node: ExpressionNode, names: Locals) -> Origins | None:
        """Return the origins of what a condition counts, or leaves out, entry by entry:
        `map(x, c ? 1 : 0)`, `map(x, c ? x.n : 0)`. None where a body is no such condition.
        """
        bare = without_parens(node)
        if self.is_strict or not isinstance(bare, Conditional) or constant(bare.no) != 0:
            return None
        decision = self.of(bare.condition, names).deciding(self.plan.said)
        if decision.literals or not decision.reads:
            return None
        if constant(bare.yes) == 1:
            return decision
        value = self.of(bare.yes, names)
        return value.joined(Origins(choices=decision.choices)) if value.reads else None

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
        return self._written(node)


def _entries(node: ListLiteral | MapLiteral) -> list[ExpressionNode]:
    return [*node.items] if isinstance(node, ListLiteral) else [v for _, v in node.entries]


def _text_of(node: ExpressionNode, within: Iterable[str] = ()) -> str | None:
    """Return the text that a node is, also as the only argument of some functions."""
    bare = without_parens(node)
    if isinstance(bare, FunctionCall) and bare.function in within and len(bare.arguments) == 1:
        bare = without_parens(bare.arguments[0])
    if isinstance(bare, LiteralValue) and isinstance(bare.value, str):
        return bare.value
    return None


def _terms(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield the terms of a sum, or of texts that are joined."""
    bare = without_parens(node)
    if isinstance(bare, Binary) and bare.operator == "+":
        yield from _terms(bare.left)
        yield from _terms(bare.right)
    else:
        yield bare


def _branches(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield the values among which conditions choose, one within the other."""
    bare = without_parens(node)
    if isinstance(bare, Conditional):
        yield from _branches(bare.yes)
        yield from _branches(bare.no)
    else:
        yield bare


def _conditions(node: ExpressionNode) -> Iterator[ExpressionNode]:
    bare = without_parens(node)
    if isinstance(bare, Conditional):
        yield bare.condition
        yield from _conditions(bare.yes)
        yield from _conditions(bare.no)


def _is_counted_from_zero(node: ExpressionNode) -> bool:
    """Whether a node is a part of a date that people count from one."""
    bare = without_parens(node)
    return isinstance(bare, FunctionCall) and bare.function in _COUNTED_FROM_ZERO


def _is_power_of_ten(figure: float) -> bool:
    return math.log10(figure).is_integer()


def without_name(words: str, read: str) -> str:
    """Return the words before a field without the name of this field: `Total: ${steps.x.total}`."""
    fields = FIELDS.findall(read)
    if not fields:
        return words
    names = {fields[-1].casefold(), fields[-1].replace("_", " ").casefold()}
    return "" if words.strip(" :=-,;|\n").casefold() in names else words


def has_digit(text: str) -> bool:
    """Whether a figure may stand in a text."""
    return _DIGIT.search(text) is not None


def shown(text: str) -> str:
    """Return what an author wrote on one line, and not all of it where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else f"{line[: _MAX_SHOWN - 1]}…"


FIELDS: Final = re.compile(r"\.(\w+)\b(?!\()")
"""The names of fields in an expression."""
_MAX_SHOWN: Final = 60
_DIGIT: Final = re.compile(r"\d")
_PATH: Final = re.compile(r"[\w.]+(?:\[[^\]]*\][\w.]*)*")
_BULLET: Final = re.compile(r"\s*[-\u2013*\u2022]\s+")
_FORMAT_SPECIFIER: Final = re.compile(r"%[-0]*\d*(?:\.\d+)?[a-zA-Z]")
_WORD: Final = re.compile(r"[^\W_]")
_NEXT: Final = (("+", 1.0),)
_COUNTED_FROM_ZERO: Final = frozenset({"getMonth", "getDayOfMonth", "getDayOfYear"})
_COUNTED_ON: Final = frozenset({1.0, 100.0})
_NO_VALUES: Final = frozenset({"null", "''", '""'})
_NOTHING_THERE: Final = frozenset(
    {"", "-", "none", "n/a", "na", "unknown", "not known", "not available", "no data", "missing"}
)
"""Words that stand for a value that is not there."""
_ANSWERS: Final = frozenset(
    {frozenset({"yes", "no"}), frozenset({"y", "n"}), frozenset({"true", "false"})}
)
"""A decision in words, whatever was asked."""
_REFUSALS: Final = frozenset({"no", "n", "false"})
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
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
_CONDITIONS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
