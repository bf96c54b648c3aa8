"""A plan as its author would write it: YAML for people, JSON for programs.

What stands at its default is left out, and whatever either text says is read back as the same plan. A plan may come
from a language model, so no character of it can steer a terminal: what does not print stands as an escape.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from wavewright.planner.models import Plan
from wavewright.planner.rendering import printable_json
from wavewright.planner.types import JsonObject

if TYPE_CHECKING:
    from yaml import Node, SafeDumper

_PLAIN_SCALAR = re.compile(r"[A-Za-z_](?:[\w .,/()'+-]*[\w.,/()'+-])?", re.ASCII)
"""Texts that need no quotes, but for the words below; every other is quoted, so that no reader takes it for more."""
_YAML_KEYWORDS = frozenset(
    {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"}
)


def plan_json(plan: Plan) -> JsonObject:
    """Return a plan as JSON, with its version first and without what stands at its default."""
    written: JsonObject = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"version": plan.version, **written}


def plan_as_json(plan: Plan) -> str:
    """Return a plan as the text of a JSON file."""
    return printable_json(plan_json(plan), indent=2) + "\n"


def plan_as_yaml(plan: Plan) -> str:
    """Return a plan as the text of a YAML file; every line prints."""
    import yaml

    text = yaml.dump(
        plan_json(plan),
        Dumper=_dumper(),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=math.inf,
    )
    # Only quoted texts hold such characters, and there this is their escape.
    return "".join(char if char == "\n" or char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _dumper() -> type[SafeDumper]:
    import yaml

    class PlanDumper(yaml.SafeDumper):
        """Writes no aliases, which plans may not hold, and quotes every text that is not plainly one."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - as the base class has it
            return True

    def text_node(_dumper: yaml.SafeDumper, text: str) -> Node:
        is_plain = _PLAIN_SCALAR.fullmatch(text) is not None and text.lower() not in _YAML_KEYWORDS
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=None if is_plain else '"')

    PlanDumper.add_representer(str, text_node)
    return PlanDumper
