r"""Split an expression into CEL tokens.

A *token* is a part of the text with a kind. Strings (raw, triple-quoted, with escapes), comments
and numbers follow CEL's grammar, so nothing inside a string is taken for a name; but a string may
hold line breaks however it is quoted, since JSON and YAML make one of the `\n` in `join('\n')`
before an expression is read.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.functions.catalogue import filter_hint
from wavewright.planner.cel.operators import INT_RANGE

TokenKind: TypeAlias = Literal[
    "name", "quoted", "int", "double", "string", "op", "end", "foreign", "unknown"
]


Token: TypeAlias = tuple[TokenKind, str, int, int]
"""Kind, text, and where the text starts and ends. A plain tuple: a named one takes three times as
long to make.
"""

_ESCAPE = (
    r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"""
)
STRING_PATTERN = "|".join(
    (
        r'[rR]"""(?:(?!""").)*"""',
        r"[rR]'''(?:(?!''').)*'''",
        r'[rR]"[^"]*"',
        r"[rR]'[^']*'",
        rf'"""(?:(?!""")(?:{_ESCAPE}|[^\\]))*"""',
        rf"'''(?:(?!''')(?:{_ESCAPE}|[^\\]))*'''",
        rf'"(?:{_ESCAPE}|[^\\"])*"',
        rf"'(?:{_ESCAPE}|[^\\'])*'",
    )
)
_STRING = STRING_PATTERN.replace(" ", "[ ]")
_TOKEN = re.compile(
    rf"""
    (?:[\t\r\n\f\ ]+|//[^\n]*)*
    (?: (?P<op>&&|\|\||[=!<>]=|\.(?![0-9])|[-+*/%!<>=?:,()\[\]{{}}])
      | (?P<name>(?![bB]?[rR]?["'])[A-Za-z_][A-Za-z0-9_]*)
      | (?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<foreign>(?:0x[0-9a-fA-F]+|[0-9]+)[uU]|[bB](?=[rR]?["']))
      | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
      | (?P<end>\Z)
      | (?P<string>{_STRING})
      | (?P<quoted>`[^`'"{{}}\\\n\r]+`)
      | (?P<unknown>[rR]?.)
    )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of an expression, closed by one of kind `end`; space and comments are left
    out.

    Raises:
        ExpressionError: a character or a quote that CEL does not know.
    """
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind: Any = match.lastgroup
        written: str = match[kind]
        end = match.end()
        tokens.append((kind, written, end - len(written), end))
        if kind == "end":
            break
        if kind == "foreign":
            raise _foreign_literal_error(written, end - len(written))
        if kind == "unknown":
            raise _unknown_character_error(text, end - 1)
    return tokens


def _foreign_literal_error(written: str, position: int) -> ExpressionError:
    """Return the fault of a constant that CEL has and JSON has not."""
    if written in "bB":
        what, hint = "bytes", 'write a string: "…"'
    else:
        what, hint = "unsigned integers", f"write {written[:-1]}"
    return ExpressionError(
        "bad_expression", f"there are no {what} here, as JSON has none", position, hint
    )


def _unknown_character_error(text: str, position: int) -> ExpressionError:
    character = text[position]
    if character in "'\"":
        hint = (
            'close it with the same quote; a backslash is written "\\\\", or use a raw string r"…"'
        )
        return ExpressionError(
            "bad_expression",
            "this string is not closed, or holds an escape that is not one",
            position,
            hint,
        )
    if character in "&|":
        hint = f"write {character * 2!r}"
        if (name := _TEMPLATE_FILTER.match(text, position)) is not None:
            hint = filter_hint(name[1]) or hint
        return ExpressionError(
            "bad_expression", f"a single {character!r} is no operator", position, hint
        )
    if character == "$":
        return ExpressionError(
            "bad_expression",
            "'$' cannot stand inside an expression",
            position,
            "names are written plainly inside ${…}: ${steps.prices[0].close}",
        )
    return ExpressionError(
        "bad_expression",
        f"{character!r} cannot stand in an expression",
        position,
        _HINTS_OF_CHARACTERS.get(character),
    )


_HINTS_OF_CHARACTERS = {
    "^": "a power is written as a product: x * x",
    "~": "whether a pattern is in a text is written text.matches(r'…')",
    "#": "a comment begins with '//'",
    **dict.fromkeys("“”„", "a string stands in straight quotes"),
    **dict.fromkeys("≤≥", "write '<=' or '>='"),
    "≠": "write '!='",
    "×": "write '*'",
    "÷": "write '/'",
}
_TEMPLATE_FILTER = re.compile(r"\|\s*([A-Za-z_]\w*)\s*(?:\(|\||\Z)")
_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    '"': '"', "'": "'", "\\": "\\", "?": "?", "`": "`",
}  # fmt: skip
_ESCAPE_SEQUENCE = re.compile(_ESCAPE, re.DOTALL)


def string_value(token: Token) -> str:
    """Return what a string token stands for.

    Raises:
        ExpressionError: an escape names no character.
    """
    _, text, start, _ = token
    is_raw, inner = _inner_text(text, start)
    if is_raw or "\\" not in inner:
        return inner
    value = _ESCAPE_SEQUENCE.sub(_unescape, inner)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ExpressionError(
            "bad_expression",
            "an escape in this string names no character",
            start,
            "write characters beyond \\uFFFF as \\U0001F600",
        )
    return value


def _inner_text(text: str, start: int) -> tuple[bool, str]:
    """Return whether a string is raw, and what stands between its quotes."""
    is_raw = text[0] in "rR"
    quoted = text[1:] if is_raw else text
    width = 3 if len(quoted) >= 6 and quoted[:3] in ('"""', "'''") else 1
    inner = quoted[width:-width]
    if is_raw and (len(inner) - len(inner.rstrip("\\"))) % 2:
        raise ExpressionError(
            "bad_expression",
            "a raw string cannot end with a backslash",
            start,
            'write it as an ordinary string: "\\\\"',
        )
    return is_raw, inner


def _unescape(found: re.Match[str]) -> str:
    body = found[0][1:]
    if body in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[body]
    if body[0] in "xXuU":
        code = int(body[1:], 16)
        return chr(code) if code <= 0x10FFFF else "\ud800"
    return chr(int(body, 8))


def integer_value(token: Token) -> int:
    """Return what an integer token stands for.

    Raises:
        ExpressionError: it has more than 64 bits.
    """
    _, text, start, _ = token
    number = int(text, 16 if "x" in text else 10)
    if not INT_RANGE[0] <= number <= INT_RANGE[1]:
        raise ExpressionError(
            "bad_expression",
            f"{text} is too large for an integer",
            start,
            f"write {text}.0 for a number of that size",
        )
    return number
