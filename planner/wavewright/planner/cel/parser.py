"""Parse an expression into a tree.

The *tree* consists of typed nodes that keep their positions in the text. The type checker, the
evaluator and the search for reads work on it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import cast

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.macros import MACROS, parse_bind, parse_has, parse_macro
from wavewright.planner.cel.nodes import (
    MAX_EXPRESSION_DEPTH,
    NAMESPACES,
    Binary,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Identifier,
    Index,
    ListLiteral,
    LiteralKind,
    LiteralValue,
    LogicalOperation,
    MapLiteral,
    Select,
    Unary,
    parent_depth,
    too_deep_error,
)
from wavewright.planner.cel.plain_paths import is_plain_path
from wavewright.planner.cel.tokens import Token, integer_value, string_value, tokenize

MAX_EXPRESSION_BYTES = 4096
"""Length of one expression, in UTF-8."""
_RESERVED = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
        "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_HINTS_OF_RESERVED = {
    **dict.fromkeys(("if", "else"), "write condition ? value : other"),
    **dict.fromkeys(("for", "while", "loop"), "write list.map(x, …) or list.filter(x, …)"),
    **dict.fromkeys(
        ("let", "var", "const"), "write cel.bind(x, value, …), or a name in the plan's `let`"
    ),
}
_LITERAL_KEYWORDS = frozenset({"in", "true", "false", "null"})


@lru_cache(maxsize=8192)
def parse_expression(expression: str) -> ExpressionNode:
    """Return the tree of an expression.

    Raises:
        ExpressionError: it is too long, too deep, or no CEL.
    """
    if is_plain_path(expression):
        return _parse_plain_path(expression)
    if (
        len(expression) > MAX_EXPRESSION_BYTES
        or len(expression.encode("utf-8", "surrogatepass")) > MAX_EXPRESSION_BYTES
    ):
        raise ExpressionError(
            "expression_too_large",
            f"the expression is longer than {MAX_EXPRESSION_BYTES:,} bytes",
            0,
            "split it over steps, or put the work into a tool",
        )
    tokens = tokenize(expression)
    if tokens[0][0] == "end":
        raise ExpressionError("bad_expression", "the expression is empty", 0)
    tree = _ExpressionParser(tokens).parse()
    if "//" in expression:
        _refuse_divisors(expression, tokens)
    return tree


def _refuse_divisors(expression: str, tokens: list[Token]) -> None:
    """Refuse a comment that reads as a divisor: `7 // 2` would be 7.

    To CEL `//` begins a comment, and to Python a division. A comment is words, stands on a line of its
    own, or ends an expression of several lines; what else follows a value on its line and can be
    computed is taken for a divisor. A text has none.
    """
    for before, after in pairwise(tokens):
        line, line_end, _ = expression[before[3] : after[2]].partition("\n")
        comment = line.lstrip()
        may_be_divided = before[0] not in {"op", "string"} or before[1] in (")", "]", "}")
        if not comment.startswith("//") or not may_be_divided:
            continue
        try:
            # What follows a second `//` is a comment of this one: `7 // 2 // 3` divides as well.
            divisor = _ExpressionParser(tokenize(comment[2:])).parse()
        except ExpressionError:
            continue
        is_text = isinstance(divisor, LiteralValue) and isinstance(divisor.value, str)
        is_word = is_text or isinstance(divisor, Identifier)
        is_last_line = line_end != "" and after[0] == "end"
        is_note = is_last_line and not isinstance(divisor, LiteralValue)
        if not is_word and not is_note:
            raise ExpressionError(
                "bad_expression",
                "'//' begins a comment, and does not divide",
                before[3] + line.index("//"),
                "a quotient without its fraction is written int(a / b)",
            )


def _parse_plain_path(expression: str) -> ExpressionNode:
    """Return the tree of a plain path, as the grammar would read it; most expressions are one."""
    root, *fields = expression.split(".")
    end = len(root)
    node: ExpressionNode = Identifier(0, end, 1, root)
    for depth, field in enumerate(fields, 2):
        start, end = end + 1, end + 1 + len(field)
        node = Select(0, end, depth, node, field, start, end)
    return node


_PRECEDENCE = {
    "||": 1, "&&": 2,
    "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "in": 3,
    "+": 4, "-": 4,
    "*": 5, "/": 5, "%": 5,
}  # fmt: skip


class _ExpressionParser:
    """Recursive descent over the tokens of one expression.

    The text alone identifies operators and words: strings and quoted names begin with their quotes.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nesting = 0

    def parse(self) -> ExpressionNode:
        node = self._expression()
        if self._tokens[self._at][0] != "end":
            raise self._unexpected("an operator or the end")
        return node

    def _expression(self) -> ExpressionNode:
        self._nesting += 1
        if self._nesting > MAX_EXPRESSION_DEPTH:
            raise too_deep_error(self._tokens[self._at][2])
        start = self._start()
        condition = self._binary(1)
        if self._takes("?"):
            yes = self._binary(1)
            self._expect(":")
            no = self._expression()
            depth = parent_depth(condition, yes, no)
            condition = Conditional(start, self._end(), depth, condition, yes, no)
        self._nesting -= 1
        return condition

    def _binary(self, floor: int) -> ExpressionNode:
        start = self._start()
        left = self._unary()
        while True:
            _, operator, operator_start, _ = self._tokens[self._at]
            binding = _PRECEDENCE.get(operator, 0)
            if binding < floor:
                return left
            if binding <= _PRECEDENCE["&&"]:
                left = self._logic(start, left, operator, binding)
                continue
            self._at += 1
            right = self._binary(binding + 1)
            depth = parent_depth(left, right)
            left = Binary(start, self._end(), depth, operator, left, right, operator_start)

    def _logic(
        self, start: int, first: ExpressionNode, operator: str, binding: int
    ) -> ExpressionNode:
        operands = [first]
        while self._takes(operator):
            operands.append(self._binary(binding + 1))
        depth = parent_depth(*operands)
        return LogicalOperation(start, self._end(), depth, operator, tuple(operands))

    def _unary(self) -> ExpressionNode:
        _, operator, start, _ = self._tokens[self._at]
        if operator not in ("!", "-"):
            return self._members_of(start, self._primary())
        self._at += 1
        kind, text, _, end = self._tokens[self._at]
        if operator == "-" and kind in ("int", "double"):
            # A sign belongs to its number, or the least integer could not be written.
            self._at += 1
            return self._members_of(start, _constant((kind, f"-{text}", start, end)))
        if text in ("!", "-") and text != operator:
            raise ExpressionError(
                "bad_expression",
                f"'{operator}{text}' cannot stand together",
                start,
                f"write {operator}(…)",
            )
        self._nesting += 1
        if self._nesting > MAX_EXPRESSION_DEPTH:
            raise too_deep_error(start)
        operand = self._unary()
        self._nesting -= 1
        return Unary(start, self._end(), parent_depth(operand), operator, operand)

    def _members_of(self, start: int, node: ExpressionNode) -> ExpressionNode:
        while True:
            _, text, text_start, _ = self._tokens[self._at]
            if text == ".":
                self._at += 1
                node = self._selection(start, node)
            elif text == "[":
                self._at += 1
                key = self._expression()
                node = _element(start, self._expect("]"), node, key)
            elif text == "{" and isinstance(node, Identifier | Select):
                raise ExpressionError(
                    "bad_expression",
                    "typed messages cannot be made here",
                    text_start,
                    'write a map: {"code": item.code}',
                )
            else:
                return node

    def _selection(self, start: int, operand: ExpressionNode) -> ExpressionNode:
        token = kind, text, field_start, end = self._tokens[self._at]
        if kind == "quoted":
            text = text[1:-1]
        elif kind != "name":
            raise self._unexpected("the name of a field")
        elif text in _LITERAL_KEYWORDS:
            raise ExpressionError(
                "bad_expression",
                f"'{text}' cannot follow a dot",
                field_start,
                f'write ["{text}"] instead of .{text}',
            )
        self._at += 1
        if kind == "name" and self._takes("("):
            return self._method(start, operand, token)
        return Select(start, end, parent_depth(operand), operand, text, field_start, end)

    def _method(self, start: int, target: ExpressionNode, name: Token) -> ExpressionNode:
        arguments, end = self._sequence(")")
        _, function, name_start, _ = name
        if isinstance(target, Identifier) and target.name in NAMESPACES:
            function = f"{target.name}.{function}"
            if function == "cel.bind":
                return parse_bind(target, name_start, arguments, end)
            return FunctionCall(
                target.start, end, parent_depth(*arguments), function, None, arguments, target.start
            )
        if function in MACROS:
            return parse_macro(start, target, name, arguments, end)
        depth = parent_depth(target, *arguments)
        return FunctionCall(start, end, depth, function, target, arguments, name_start)

    def _sequence(self, closing: str) -> tuple[tuple[ExpressionNode, ...], int]:
        """Return the expressions up to a closing bracket, and where it ends; only a list may end
        with a comma.
        """
        items: list[ExpressionNode] = []
        while self._tokens[self._at][1] != closing or (items and closing == ")"):
            items.append(self._expression())
            if not self._takes(","):
                break
        return tuple(items), self._expect(closing)

    def _primary(self) -> ExpressionNode:
        token = kind, text, start, _ = self._tokens[self._at]
        if kind == "name":
            self._at += 1
            return self._name(token)
        if kind not in ("op", "quoted", "end"):
            self._at += 1
            return _constant(token)
        if text == ".":
            before = self._tokens[self._at - 1][1] if self._at else ""
            raise ExpressionError(
                "bad_expression",
                "an expression cannot begin with a dot",
                start,
                _HINTS_BY_TEXT.get(before + text, "name a root: steps, inputs"),
            )
        if self._takes("("):
            inner = self._expression()
            self._expect(")")
            return inner._replace(depth=parent_depth(inner))
        if self._takes("["):
            items, end = self._sequence("]")
            return ListLiteral(start, end, parent_depth(*items), items)
        if self._takes("{"):
            return self._map(start)
        raise self._unexpected("a value")

    def _map(self, start: int) -> ExpressionNode:
        entries: list[tuple[ExpressionNode, ExpressionNode]] = []
        while self._tokens[self._at][1] != "}":
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression()))
            if not self._takes(","):
                break
        end = self._expect("}")
        depth = parent_depth(*(node for entry in entries for node in entry))
        return MapLiteral(start, end, depth, tuple(entries))

    def _name(self, token: Token) -> ExpressionNode:
        _, name, start, end = token
        if name in ("true", "false"):
            return LiteralValue(start, end, 1, "bool", name == "true")
        if name == "null":
            return LiteralValue(start, end, 1, "null", None)
        if name == "in" or name in _RESERVED:
            raise ExpressionError(
                "bad_expression",
                f"'{name}' is a reserved word, not a name",
                start,
                _HINTS_OF_RESERVED.get(name),
            )
        if not self._takes("("):
            return Identifier(start, end, 1, name)
        arguments, end = self._sequence(")")
        if name == "has":
            return parse_has(start, arguments, end)
        return FunctionCall(start, end, parent_depth(*arguments), name, None, arguments, start)

    def _start(self) -> int:
        """Return where the next token begins, a parenthesis before a node as well."""
        return self._tokens[self._at][2]

    def _end(self) -> int:
        """Return where the last token ended, a parenthesis after a node as well."""
        return self._tokens[self._at - 1][3]

    def _takes(self, text: str) -> bool:
        """Go past the next token if it is this one, and return whether it is."""
        if self._tokens[self._at][1] != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> int:
        """Go past the next token, which must be this one, and return where it ends."""
        if not self._takes(text):
            raise self._unexpected(f"'{text}'")
        return self._end()

    def _unexpected(self, wanted: str) -> ExpressionError:
        kind, text, start, _ = self._tokens[self._at]
        if kind == "end":
            return ExpressionError(
                "bad_expression", f"the expression ends where {wanted} should follow", start
            )
        number = text.removeprefix(".")
        if self._tokens[self._at - 1][1] == "steps" and text != number and number.isdecimal():
            return ExpressionError(
                "unknown_step",
                f"ids of steps begin with a letter, and {number!r} does not",
                start,
                f"call the step s{number}, and write steps.s{number}",
            )
        message = f"'{text}' stands where {wanted} should"
        before = self._tokens[self._at - 1][1] if self._at else ""
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)][1]
        # An operator of two signs stands before the second one, or begins with the one that is odd.
        hint = _HINTS_BY_TEXT.get(before + text) or _HINTS_BY_TEXT.get(text + following)
        hint = hint or _HINTS_BY_TEXT.get(text) or _HINTS_AFTER.get(before)
        if text == ":" and wanted == "']'":
            hint = _HINTS_BY_TEXT["[:"]
        if text == "}" and wanted == "':'":
            hint = _HINTS_BY_TEXT["{}"]
        return ExpressionError("bad_expression", message, start, hint)


_HINTS_BY_TEXT = {
    "=>": "a function of elements is written list.map(x, x.name)",
    "for": "a list made of another is written list.map(x, x.name), or list.filter(x, x.n > 1)",
    **dict.fromkeys(("=", "is"), "equality is written '=='"),
    "and": "write '&&'",
    "or": "write '||'",
    "not": "write '!'",
    "if": "write: condition ? value : other",
    **dict.fromkeys(("<>", "!=="), "inequality is written '!='"),
    **dict.fromkeys(
        ("??", "?:", "?.", ".?", "[?"), "a default is written: has(x.name) ? x.name : other"
    ),
    "**": "a power is written as a product: x * x",
    "{}": "one pair of braces is enough: ${…}; in a second one stand names and values of a map",
    "[:": "a part of a list is list.slice(from, to), and of a text text.substring(from, to)",
}
"""What other languages write, and what CEL has for it."""
_HINTS_AFTER = {"not": _HINTS_BY_TEXT["not"], "lambda": _HINTS_BY_TEXT["=>"]}
"""The same of words that pass for a name until the next one: `not x`."""


def _element(start: int, end: int, owner: ExpressionNode, key: ExpressionNode) -> ExpressionNode:
    """Return the node of `owner[key]`: a text that is written names a field."""
    depth = parent_depth(owner, key)
    if isinstance(key, LiteralValue) and isinstance(key.value, str):
        return Select(start, end, depth, owner, key.value, key.start, key.end)
    return Index(start, end, depth, owner, key)


def _constant(token: Token) -> LiteralValue:
    kind, text, start, end = token
    value: str | float
    match kind:
        case "string":
            value = string_value(token)
        case "double":
            value = float(text)
        case _:
            value = integer_value(token)
    return LiteralValue(start, end, 1, cast("LiteralKind", kind), value)
