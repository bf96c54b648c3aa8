"""The text of a normal form, and back: YAML that a person reads in a diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from yaml import Node, SafeDumper

    from wavewright.planner.types import JsonObject

_YAML_WIDTH = 100


def normal_form_yaml(form: JsonObject) -> str:
    """Return a normal form as YAML: one line an idea, long texts as blocks, short lists on one line."""
    import yaml

    return yaml.dump(form, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=_YAML_WIDTH)


def read_normal_form(text: str) -> JsonObject | None:
    """Return the normal form that a text holds; None where it holds none, such as after a conflict of git's."""
    import yaml

    try:
        read: object = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return cast("JsonObject", read) if isinstance(read, dict) else None


def _dumper() -> type[SafeDumper]:
    import yaml
    from yaml import ScalarNode

    class FormDumper(yaml.SafeDumper):
        """Writes no aliases, blocks for texts of several lines, and one line for lists of a few words."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - as the base class has it
            return True

    def text_node(dumper: SafeDumper, text: str) -> Node:
        is_block = "\n" in text and all(line == line.rstrip() for line in text.split("\n"))
        node: Node = dumper.represent_str(text)
        if not all(char == "\n" or char.isprintable() for char in text):
            return ScalarNode(node.tag, text, style='"')
        return ScalarNode(node.tag, text, style="|") if is_block else node

    def list_node(dumper: SafeDumper, items: list[object]) -> Node:
        is_short = (
            all(not isinstance(item, list | dict) for item in items) and len(str(items)) < _YAML_WIDTH - 20
        )
        return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=is_short)

    FormDumper.add_representer(str, text_node)
    FormDumper.add_representer(list, list_node)
    return FormDumper
