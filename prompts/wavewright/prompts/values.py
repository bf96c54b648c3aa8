"""Values as they stand in prompts: JSON, blocks of data, and text on one line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import cast

_BLOCK_NAME = re.compile(r"[^\W\d_][\w .-]{0,80}")
_MARKS = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
_LOOK_ALIKES = {ord("<"): "\u2039", ord(">"): "\u203a"}
_ELLIPSIS = "…"


def prompt_json(value: object) -> str:
    r"""Return a value as JSON without characters that marks of a prompt are made of.

    Raises:
        TypeError: the value is no JSON.

    >>> from wavewright.prompts import prompt_json
    >>> prompt_json({"a": "<b>"})
    '{"a": "\\u003cb\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Only strings can hold these characters, and there an escape means the same.
    return _without_hidden(text.translate(_MARKS))


def data_block(value: object, name: str) -> str:
    """Return a value as JSON between marks that declare it as data.

    Raises:
        TypeError: the value is no JSON.
        ValueError: the name contains characters that marks are made of.

    >>> from wavewright.prompts import data_block
    >>> print(data_block({"city": "Tarn Quay"}, "page"))
    <data name="page">
    {
     "city": "Tarn Quay"
    }
    </data>
    """
    if not _BLOCK_NAME.fullmatch(name):
        msg = f"a data block cannot be called {name!r}"
        raise ValueError(msg)
    return f'<data name="{name}">\n{_laid_out(value)}\n</data>'


def _laid_out(value: object) -> str:
    """Return a value as JSON, with each item or member of the outermost level on a line of its own."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        lines = [f"{prompt_json(name)}: {prompt_json(member)}" for name, member in members.items()]
        return "{\n " + ",\n ".join(lines) + "\n}" if lines else "{}"
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return "[\n " + ",\n ".join(map(prompt_json, items)) + "\n]" if items else "[]"
    return prompt_json(value)


def one_line(text: object, most: int = 500) -> str:
    r"""Return text on one line, without marks and invisible characters, truncated if it is long.

    >>> from wavewright.prompts import one_line
    >>> one_line("two\t words")
    'two words'
    """
    words = _without_hidden(" ".join(str(text).split()).translate(_LOOK_ALIKES))
    return words if len(words) <= most else words[: most - 1].rstrip() + _ELLIPSIS


def _without_hidden(text: str) -> str:
    """Replace characters that do not print by JSON's escapes."""
    return (
        text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)
    )


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    # JSON writes characters beyond 16 bits as a surrogate pair.
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
