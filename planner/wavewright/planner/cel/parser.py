"""Read an expression into a tree.

The *tree* is CEL's grammar as typed nodes that keep their places in the text. The type checker, the evaluator and
whoever asks what an expression reads work on it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from wavewright.planner.cel.embedded import is_plain_path
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.macro_parser import MACROS, parse_bind, parse_has, parse_macro
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
    Parenthesized,
    Select,
    Unary,
    parent_depth,
    too_deep_error,
)
from wavewright.planner.cel.tokens import Token, bytes_value, integer_value, string_value, tokenize

MAX_EXPRESSION_BYTES = 4096
"""Length of one expression, in UTF-8."""
_RESERVED = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
        "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
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
    if tokens[0].kind == "end":
        raise ExpressionError("bad_expression", "the expression is empty", 0)
    return _ExpressionParser(tokens).parse()


def _parse_plain_path(expression: str) -> ExpressionNode:
    """Return the tree of a plain path, as the grammar would read it; most expressions are one."""
    root, *fields = expression.split(".")
    end = len(root)
    node: ExpressionNode = Identifier(0, end, 1, root)
    for depth, field in enumerate(fields, 2):
        start, end = end + 1, end + 1 + len(field)
        node = Select(0, end, depth, node, field, start)
    return node


_PRECEDENCE = {
    "||": 1, "&&": 2,
    "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "in": 3,
    "+": 4, "-": 4,
    "*": 5, "/": 5, "%": 5,
}  # fmt: skip


class _ExpressionParser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nesting = 0

    def parse(self) -> ExpressionNode:
        node = self._expression()
        token = self._tokens[self._at]
        if token.kind != "end":
            raise self._unexpected(token, "an operator or the end")
        return node

    def _expression(self) -> ExpressionNode:
        self._nesting += 1
        if self._nesting > MAX_EXPRESSION_DEPTH:
            raise too_deep_error(self._tokens[self._at].start)
        condition = self._binary(1)
        if self._tokens[self._at].text == "?" and self._tokens[self._at].kind == "op":
            self._at += 1
            yes = self._binary(1)
            self._expect(":")
            no = self._expression()
            depth = parent_depth(1, condition, yes, no)
            condition = Conditional(condition.start, no.end, depth, condition, yes, no)
        self._nesting -= 1
        return condition

    def _binary(self, floor: int) -> ExpressionNode:
        left = self._unary()
        while True:
            token = self._tokens[self._at]
            if token.kind not in ("op", "name"):
                return left
            binding = _PRECEDENCE.get(token.text, 0)
            if binding < floor or binding == 0:
                return left
            if binding <= 2:
                left = self._logic(left, token.text, binding)
                continue
            self._at += 1
            right = self._binary(binding + 1)
            left = Binary(
                left.start, right.end, parent_depth(1, left, right), token.text, left, right, token.start
            )

    def _logic(self, first: ExpressionNode, operator: str, binding: int) -> ExpressionNode:
        operands = [first]
        while self._tokens[self._at].text == operator:
            self._at += 1
            operands.append(self._binary(binding + 1))
        depth = parent_depth(1, *operands)
        return LogicalOperation(first.start, operands[-1].end, depth, operator, tuple(operands))

    def _unary(self) -> ExpressionNode:
        token = self._tokens[self._at]
        if token.kind != "op" or token.text not in ("!", "-"):
            return self._member()
        following = self._tokens[self._at + 1]
        if token.text == "-" and following.kind in ("int", "double"):
            # A sign belongs to its number, or the least integer could not be written.
            self._at += 2
            number = self._constant(Token(following.kind, f"-{following.text}", token.start, following.end))
            return self._members_of(number)
        self._at += 1
        if following.text in ("!", "-") and following.kind == "op" and following.text != token.text:
            raise ExpressionError(
                "bad_expression",
                f"'{token.text}{following.text}' cannot stand together",
                token.start,
                f"write {token.text}(…)",
            )
        self._nesting += 1
        if self._nesting > MAX_EXPRESSION_DEPTH:
            raise too_deep_error(token.start)
        operand = self._unary()
        self._nesting -= 1
        return Unary(token.start, operand.end, parent_depth(1, operand), token.text, operand)

    def _member(self) -> ExpressionNode:
        return self._members_of(self._primary())

    def _members_of(self, node: ExpressionNode) -> ExpressionNode:
        while True:
            token = self._tokens[self._at]
            if token.kind == "op" and token.text == ".":
                self._at += 1
                node = self._selection(node)
            elif token.kind == "op" and token.text == "[":
                self._at += 1
                index = self._expression()
                closing = self._expect("]")
                node = Index(node.start, closing.end, parent_depth(1, node, index), node, index)
            elif token.kind == "op" and token.text == "{" and isinstance(node, Identifier | Select):
                raise ExpressionError(
                    "bad_expression",
                    "typed messages cannot be made here",
                    token.start,
                    'write a map: {"code": item.code}',
                )
            else:
                return node

    def _selection(self, operand: ExpressionNode) -> ExpressionNode:
        token = self._tokens[self._at]
        if token.kind == "quoted":
            self._at += 1
            field = token.text[1:-1]
            return Select(operand.start, token.end, parent_depth(1, operand), operand, field, token.start)
        if token.kind != "name":
            raise self._unexpected(token, "the name of a field")
        if token.text in _LITERAL_KEYWORDS:
            raise ExpressionError(
                "bad_expression",
                f"'{token.text}' cannot follow a dot",
                token.start,
                f'write ["{token.text}"] instead of .{token.text}',
            )
        self._at += 1
        if self._tokens[self._at].text == "(" and self._tokens[self._at].kind == "op":
            return self._method(operand, token)
        return Select(operand.start, token.end, parent_depth(1, operand), operand, token.text, token.start)

    def _method(self, target: ExpressionNode, name: Token) -> ExpressionNode:
        arguments, end = self._arguments()
        if isinstance(target, Identifier) and target.name in NAMESPACES:
            if target.name == "cel" and name.text == "bind":
                return parse_bind(target, name, arguments, end)
            depth = parent_depth(1, *arguments)
            full_name = f"{target.name}.{name.text}"
            return FunctionCall(target.start, end, depth, full_name, None, arguments, target.start)
        if name.text in MACROS:
            return parse_macro(target, name, arguments, end)
        depth = parent_depth(1, target, *arguments)
        return FunctionCall(target.start, end, depth, name.text, target, arguments, name.start)

    def _arguments(self) -> tuple[tuple[ExpressionNode, ...], int]:
        self._expect("(")
        arguments: list[ExpressionNode] = []
        if self._tokens[self._at].text != ")":
            arguments.append(self._expression())
            while self._tokens[self._at].text == "," and self._tokens[self._at].kind == "op":
                self._at += 1
                arguments.append(self._expression())
        return tuple(arguments), self._expect(")").end

    def _primary(self) -> ExpressionNode:
        token = self._tokens[self._at]
        match token.kind:
            case "int" | "uint" | "double" | "string" | "bytes":
                self._at += 1
                return self._constant(token)
            case "name":
                self._at += 1
                return self._name(token)
            case "op":
                return self._bracketed(token)
            case _:
                raise self._unexpected(token, "a value")

    def _bracketed(self, token: Token) -> ExpressionNode:
        match token.text:
            case "(":
                self._at += 1
                inner = self._expression()
                closing = self._expect(")")
                return Parenthesized(token.start, closing.end, parent_depth(1, inner), inner)
            case "[":
                return self._list(token)
            case "{":
                return self._map(token)
            case ".":
                raise ExpressionError(
                    "bad_expression",
                    "an expression cannot begin with a dot",
                    token.start,
                    "name a root: steps, inputs",
                )
            case _:
                raise self._unexpected(token, "a value")

    def _list(self, opening: Token) -> ExpressionNode:
        self._at += 1
        items: list[ExpressionNode] = []
        while self._tokens[self._at].text != "]":
            items.append(self._expression())
            if self._tokens[self._at].text != ",":
                break
            self._at += 1
        closing = self._expect("]")
        return ListLiteral(opening.start, closing.end, parent_depth(1, *items), tuple(items))

    def _map(self, opening: Token) -> ExpressionNode:
        self._at += 1
        entries: list[tuple[ExpressionNode, ExpressionNode]] = []
        while self._tokens[self._at].text != "}":
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression()))
            if self._tokens[self._at].text != ",":
                break
            self._at += 1
        closing = self._expect("}")
        depth = parent_depth(1, *(node for entry in entries for node in entry))
        return MapLiteral(opening.start, closing.end, depth, tuple(entries))

    def _name(self, token: Token) -> ExpressionNode:
        if token.text in ("true", "false"):
            return LiteralValue(token.start, token.end, 1, "bool", token.text == "true")
        if token.text == "null":
            return LiteralValue(token.start, token.end, 1, "null", None)
        if token.text == "in" or token.text in _RESERVED:
            raise ExpressionError(
                "bad_expression", f"'{token.text}' is a reserved word, not a name", token.start
            )
        if self._tokens[self._at].text != "(" or self._tokens[self._at].kind != "op":
            return Identifier(token.start, token.end, 1, token.text)
        arguments, end = self._arguments()
        if token.text == "has":
            return parse_has(token, arguments, end)
        return FunctionCall(
            token.start, end, parent_depth(1, *arguments), token.text, None, arguments, token.start
        )

    def _constant(self, token: Token) -> LiteralValue:
        value: str | float | bytes
        match token.kind:
            case "string":
                value = string_value(token)
            case "bytes":
                value = bytes_value(token)
            case "double":
                value = float(token.text)
            case _:
                value = integer_value(token)
        return LiteralValue(token.start, token.end, 1, cast("LiteralKind", token.kind), value)

    def _expect(self, text: str) -> Token:
        token = self._tokens[self._at]
        if token.text != text or token.kind != "op":
            raise self._unexpected(token, f"'{text}'")
        self._at += 1
        return token

    def _unexpected(self, token: Token, wanted: str) -> ExpressionError:
        if token.kind == "end":
            return ExpressionError(
                "bad_expression", f"the expression ends where {wanted} should follow", token.start
            )
        hint = None
        if token.text == "=":
            hint = "equality is written '=='"
        elif token.text in ("and", "or", "not"):
            hint = "write " + {"and": "'&&'", "or": "'||'", "not": "'!'"}[token.text]
        elif token.text == "if":
            hint = "write: condition ? value : other"
        return ExpressionError(
            "bad_expression", f"'{token.text}' stands where {wanted} should", token.start, hint
        )
