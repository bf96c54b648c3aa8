"""Split an expression into CEL tokens.

A *token* is a stretch of the text with a kind; strings (raw, triple-quoted, with escapes), comments and numbers
are told apart exactly as the CEL library does, so nothing inside a string is ever taken for a name.

The nodes of an expression's tree.

A *node* is a piece of CEL's grammar with its place in the text and its depth, the number of levels at and below it.
Nodes are immutable; whoever changes a tree makes a new one. They are named tuples, because fourteen classes of that
kind are made in a fifth of the time that dataclasses take, which every start pays.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from wavewright.planner.cel.errors import ExpressionError

TokenKind: TypeAlias = Literal["name", "int", "uint", "double", "string", "bytes", "op", "end"]


class Token(NamedTuple):
    """One token: `text` is what stands from `start` to `end`."""

    kind: TokenKind
    text: str
    start: int
    end: int


_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"""
STRING_PATTERN = "|".join(
    (
        r'[rR]"""(?:(?!""").)*"""',
        r"[rR]'''(?:(?!''').)*'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
        rf'"""(?:(?!""")(?:{_ESCAPE}|[^\\]))*"""',
        rf"'''(?:(?!''')(?:{_ESCAPE}|[^\\]))*'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)
_TOKEN = re.compile(
    rf"""
      (?P<space>[\t\r\n\f\ ]+|//[^\n]*)
    | (?P<bytes>[bB](?:{STRING_PATTERN.replace(" ", "[ ]")}))
    | (?P<string>{STRING_PATTERN.replace(" ", "[ ]")})
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<op>&&|\|\||==|!=|<=|>=|[-+*/%!<>=?:.,()\[\]{{}}])
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of an expression, closed by one of kind `end`; space and comments are left out.

    Raises:
        ExpressionFault: a character or a quote that CEL does not know.
    """
    tokens: list[Token] = []
    position, end = 0, len(text)
    match = _TOKEN.match
    while position < end:
        found = match(text, position)
        if found is None:
            raise _unknown_character_error(text, position)
        kind = found.lastgroup
        following = found.end()
        if kind != "space":
            tokens.append(Token(kind, found[0], position, following))  # type: ignore[arg-type]
        position = following
    tokens.append(Token("end", "", end, end))
    return tokens


def _unknown_character_error(text: str, position: int) -> ExpressionError:
    character = text[position]
    if character in "'\"":
        return ExpressionError(
            "bad_expression",
            "this string is not closed, or holds an escape that is not one",
            position,
            'close it with the same quote; a backslash is written "\\\\", or use a raw string r"…"',
        )
    if character in "&|":
        hint = f"write {character * 2!r}"
        if (name := _TEMPLATE_FILTER.match(text, position)) is not None:
            from wavewright.planner.cel.functions import filter_hint

            hint = filter_hint(name[1]) or hint
        return ExpressionError("bad_expression", f"a single {character!r} is no operator", position, hint)
    if character == "$":
        return ExpressionError(
            "bad_expression",
            "'$' cannot stand inside an expression",
            position,
            "names are written plainly inside ${…}: ${steps.prices[0].close}",
        )
    return ExpressionError("bad_expression", f"{character!r} cannot stand in an expression", position)


_TEMPLATE_FILTER = re.compile(r"\|\s*([A-Za-z_]\w*)\s*(?:\(|\||\Z)")
_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    '"': '"', "'": "'", "\\": "\\", "?": "?", "`": "`",
}  # fmt: skip
_ESCAPE_SEQUENCE = re.compile(_ESCAPE, re.DOTALL)


def string_value(token: Token) -> str:
    """Return what a string token stands for.

    Raises:
        ExpressionFault: an escape names no character.
    """
    text = token.text
    raw = text[0] in "rR"
    quoted = text[1:] if raw else text
    width = 3 if len(quoted) >= 6 and quoted[:3] in ('"""', "'''") else 1
    inner = quoted[width:-width]
    if raw and (len(inner) - len(inner.rstrip("\\"))) % 2:
        raise ExpressionError(
            "bad_expression",
            "a raw string cannot end with a backslash",
            token.start,
            'write it as an ordinary string: "\\\\"',
        )
    if raw or "\\" not in inner:
        return inner
    value = _ESCAPE_SEQUENCE.sub(_unescape, inner)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ExpressionError(
            "bad_expression",
            "an escape in this string names no character",
            token.start,
            "write characters beyond \\uFFFF as \\U0001F600",
        )
    return value


def _unescape(found: re.Match[str]) -> str:
    body = found[0][1:]
    if body in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[body]
    if body[0] in "xXuU":
        code = int(body[1:], 16)
        return chr(code) if code <= 0x10FFFF else "\ud800"
    return chr(int(body, 8))


LiteralKind: TypeAlias = Literal["int", "uint", "double", "string", "bytes", "bool", "null"]


class LiteralValue(NamedTuple):
    """A constant, as written; `string` holds what a string constant stands for."""

    start: int
    end: int
    depth: int
    kind: LiteralKind
    text: str
    string: str = ""


class Identifier(NamedTuple):
    """A name that stands alone: a root, or the name a macro gave to an element."""

    start: int
    end: int
    depth: int
    name: str


class Select(NamedTuple):
    """`operand.field`."""

    start: int
    end: int
    depth: int
    operand: ExpressionNode
    field: str
    field_start: int


class Index(NamedTuple):
    """`operand[key]`."""

    start: int
    end: int
    depth: int
    operand: ExpressionNode
    key: ExpressionNode


class FunctionCall(NamedTuple):
    """A function, or a method where it has a target; namespaced functions carry their full name."""

    start: int
    end: int
    depth: int
    function: str
    target: ExpressionNode | None
    arguments: tuple[ExpressionNode, ...]
    name_start: int


class Macro(NamedTuple):
    """`range.function(variable, …)`: the arguments are read with `variable` standing for each element."""

    start: int
    end: int
    depth: int
    function: str
    range: ExpressionNode
    variable: str
    arguments: tuple[ExpressionNode, ...]
    name_start: int


class Has(NamedTuple):
    """`has(operand.field)`."""

    start: int
    end: int
    depth: int
    selection: Select | Index


class Unary(NamedTuple):
    """`!operand` or `-operand`."""

    start: int
    end: int
    depth: int
    operator: str
    operand: ExpressionNode


class Binary(NamedTuple):
    """`left operator right`, for comparison, arithmetic and `in`."""

    start: int
    end: int
    depth: int
    operator: str
    left: ExpressionNode
    right: ExpressionNode
    operator_start: int


class LogicalOperation(NamedTuple):
    """Conditions joined by one of `&&` and `||`."""

    start: int
    end: int
    depth: int
    operator: str
    operands: tuple[ExpressionNode, ...]


class Conditional(NamedTuple):
    """`condition ? yes : no`."""

    start: int
    end: int
    depth: int
    condition: ExpressionNode
    yes: ExpressionNode
    no: ExpressionNode


class ListLiteral(NamedTuple):
    """`[…]`."""

    start: int
    end: int
    depth: int
    items: tuple[ExpressionNode, ...]


class MapLiteral(NamedTuple):
    """`{key: value, …}`."""

    start: int
    end: int
    depth: int
    entries: tuple[tuple[ExpressionNode, ExpressionNode], ...]


class Parenthesized(NamedTuple):
    """`(inner)`: kept, so that printing a tree needs no rules of precedence."""

    start: int
    end: int
    depth: int
    inner: ExpressionNode


ExpressionNode: TypeAlias = (
    LiteralValue | Identifier | Select | Index | FunctionCall | Macro | Has | Unary | Binary
    | LogicalOperation | Conditional | ListLiteral | MapLiteral | Parenthesized
)  # fmt: skip


def without_parens(node: ExpressionNode) -> ExpressionNode:
    """Return what stands inside any parentheses around a node."""
    while isinstance(node, Parenthesized):
        node = node.inner
    return node


def children(node: ExpressionNode) -> tuple[ExpressionNode, ...]:  # noqa: C901, PLR0912 - one case a kind
    """Return the nodes right below one; of a macro its range and its arguments."""
    match node:
        case Select():
            return (node.operand,)
        case Index():
            return (node.operand, node.key)
        case FunctionCall():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case Has():
            return (node.selection,)
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case LogicalOperation():
            return node.operands
        case Conditional():
            return (node.condition, node.yes, node.no)
        case ListLiteral():
            return node.items
        case MapLiteral():
            return tuple(part for entry in node.entries for part in entry)
        case Parenthesized():
            return (node.inner,)
        case Macro():
            return (node.range, *node.arguments)
        case LiteralValue() | Identifier():
            return ()
