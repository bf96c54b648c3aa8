"""Parameters that are plain references, rendered without reading an expression.

A *direct* reference is a whole `${…}` that only names fields and places: `${steps.prices[0].close}`. Most references
of most plans are, and following one takes less time than reading it as an expression would. Wherever following does
not lead straight to a value, the expression is read and asked instead, so answers and faults are always the
expression layer's own.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from wavewright.planner.expressions import Variables
from wavewright.planner.references import Renderer, compile_render
from wavewright.planner.types import Json, JsonObject

# A field is not a word that an expression cannot have for one; what the expression layer says of those stands.
_FIELD = r"(?!(?:in|true|false|null)\b)[A-Za-z_][A-Za-z0-9_]*"
_DIRECT_REFERENCE = re.compile(
    rf"\$\{{(steps|inputs|item)((?:\.{_FIELD})*)((?:\.{_FIELD}|\[[0-9]{{1,9}}\])*)\}}", re.ASCII
)
_KEY = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]", re.ASCII)
_SCALARS = (int, float, type(None))

ParamsRenderer: TypeAlias = Callable[[Variables, dt.datetime], Json]


def compile_params(params: JsonObject) -> ParamsRenderer:
    """Return what `compile_render` would, with a short way for direct references.

    Raises:
        ExpressionFault: a reference is not closed, or holds no expression.
    """
    constants: JsonObject = {}
    renderers: list[tuple[str, Renderer]] = []
    for name, value in params.items():
        if isinstance(value, str):
            if "${" in value:
                renderers.append((name, _compile_text(value)))
                continue
        elif not isinstance(value, _SCALARS):
            renderers.append((name, compile_render(value, _compile_text)))
            continue
        constants[name] = value
    if not renderers:
        return lambda _variables, _now: constants

    def render(variables: Variables, now: dt.datetime) -> Json:
        rendered = dict(params)
        for name, renderer in renderers:
            rendered[name] = renderer(variables, now)
        return rendered

    return render


class _Missing:
    """Stands for what following does not lead to."""


_MISSING = _Missing()


def _compile_text(text: str) -> Renderer:
    direct = _DIRECT_REFERENCE.fullmatch(text)
    if direct is None:
        return compile_render(text)
    root, fields, rest = direct.groups()
    if not rest:
        return _follow_names(text, [root, *fields.split(".")[1:]])
    keys: list[str | int] = [*fields.split(".")[1:]]
    keys += [field or int(place) for field, place in _KEY.findall(rest)]

    def follow(variables: Variables, now: dt.datetime) -> Json:
        value = variables.get(root, _MISSING)
        for key in keys:
            if isinstance(value, dict) and isinstance(key, str):
                value = value.get(key, _MISSING)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                value = _MISSING
        return compile_render(text)(variables, now) if isinstance(value, _Missing) else value

    return follow


def _follow_names(text: str, names: list[str]) -> Renderer:
    """Return the renderer of a reference without places: of JSON values only an object has what a name leads to."""

    def follow(variables: Variables, now: dt.datetime) -> Json:
        value: Any = variables
        try:
            for name in names:
                value = value[name]
        except (KeyError, TypeError):
            return compile_render(text)(variables, now)
        return cast("Json", value)

    return follow
