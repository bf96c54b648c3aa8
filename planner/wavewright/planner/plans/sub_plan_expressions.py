"""Expressions of a sub-plan as expressions of the plan that calls it, with other steps and without its inputs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    bare_expression,
    is_plain_path,
    join_references,
    split_references,
    step_path,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.types import Json, JsonObject, StepId


@dataclass
class Rewriting:
    """Expressions of a sub-plan as expressions of the plan that calls it."""

    run: str
    """Id before those of its steps."""
    inputs: JsonObject
    """What stands for each input; texts may hold `${…}`."""
    by_item: bool
    """Whether each step runs once an item, so that one item reads what is of its place."""
    own: StepId | None = None
    """In a gate: the step that it is on."""
    missing: list[str] = field(default_factory=list[str])
    captured: list[str] = field(default_factory=list[str])

    def value(self, value: Json) -> Json:
        """Return a value with its references rewritten; what is one input alone becomes what is given for it."""
        if isinstance(value, dict):
            return {name: self.value(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            parts = split_references(value)
        except ExpressionError:
            return value
        if len(parts) == 1 and isinstance(parts[0], EmbeddedExpression):
            input_read = _INPUT.fullmatch(parts[0].expression)
            if input_read is not None and input_read[1] in self.inputs:
                return self.inputs[input_read[1]]
        return join_references(
            tuple(
                part if isinstance(part, str) else part._replace(expression=self.expression(part.expression))
                for part in parts
            )
        )

    def condition(self, condition: str) -> str:
        """Return a bare condition, rewritten."""
        try:
            return self.expression(bare_expression(condition).expression)
        except ExpressionError:
            return condition

    def expression(self, expression: str) -> str:
        """Return an expression, rewritten; a faulty one stays for the checker to report."""
        from wavewright.planner.cel.reads import (
            root_mentions,  # the parser, which plans without sub-plans need less
        )

        try:
            mentions = root_mentions(expression)
        except ExpressionError:
            return expression
        asked = {one.name for one in mentions if one.is_guarded}
        text, expected = expression, len(mentions)
        for mention in reversed(mentions):
            start, end = mention.path_start, mention.path_end
            before, after = _HAS.search(text, 0, start), _CLOSE.match(text, end)
            is_asked = mention.is_guarded and before is not None and after is not None
            if mention.root == "steps" and mention.name is not None:
                new = step_path(f"{self.run}.{mention.name}")
                if self.by_item:
                    new = "output" if mention.name == self.own else f"{new}[index]"
                    expected += new != "output"
                whole = "true" if self.by_item else None
            elif mention.root == "inputs":
                new, whole = self._input(mention.name, is_asked=mention.name in asked)
                expected += len(root_mentions(new)) - 1
            else:
                continue
            if is_asked and whole is not None and before is not None and after is not None:
                expected -= len(root_mentions(new))
                start, end, new = before.start(), after.end(), whole
            text = text[:start] + new + text[end:]
        try:
            if len(root_mentions(text)) != expected:
                self.captured.append(expression)
        except ExpressionError:
            return text  # it is too long or too deep, which the checker reports
        return text

    def _input(self, name: str | None, *, is_asked: bool) -> tuple[str, str]:
        """Return what stands for an input, and for the question whether it is there."""
        if name is None:
            return _as_expression(self.inputs), "true"
        if name in self.inputs:
            return _as_expression(self.inputs[name]), "true"
        if not is_asked:
            self.missing.append(name)
        return "null", "false"


_INPUT: Final = re.compile(r"\s*inputs\.([A-Za-z_][A-Za-z0-9_]*)\s*")
_HAS: Final = re.compile(r"\bhas\s*\(\s*\Z")
_CLOSE: Final = re.compile(r"\s*\)")


def _as_expression(value: Json) -> str:
    """Return the expression of a value whose texts may hold `${…}`."""
    match value:
        case str():
            try:
                parts = split_references(value)
            except ExpressionError:
                return json.dumps(value, ensure_ascii=False)
            if len(parts) == 1 and isinstance(parts[0], EmbeddedExpression):
                bare = parts[0].expression
                return bare.strip() if is_plain_path(bare.strip()) else f"({bare})"
            texts = [
                json.dumps(part, ensure_ascii=False)
                if isinstance(part, str)
                else f"string({part.expression})"
                for part in parts or ("",)
            ]
            return texts[0] if len(texts) == 1 else f"({' + '.join(texts)})"
        case list():
            return f"[{', '.join(map(_as_expression, value))}]"
        case dict():
            members = (
                f"{json.dumps(name, ensure_ascii=False)}: {_as_expression(one)}"
                for name, one in value.items()
            )
            return f"{{{', '.join(members)}}}"
        case bool() | None:
            return json.dumps(value)
        case _:
            return f"({json.dumps(value)})" if value < 0 else json.dumps(value)
