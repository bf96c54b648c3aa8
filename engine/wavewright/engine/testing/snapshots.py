"""Snapshots of plans and runs: one readable file each, and a failure that begins with what changed.

A *snapshot* is the text of a normal form in `__snapshots__`, named by its test and by what it pins, such as
`test_the_words_plan.plan.snapshot.yaml`. syrupy compares and writes it (`pytest --snapshot-update`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from wavewright.engine.testing.changes import describe_changes
from wavewright.engine.testing.claims import assertion_failure
from wavewright.engine.testing.normal_form import FormKind, normal_form

if TYPE_CHECKING:
    from syrupy.types import SerializableData, SerializedData
    from yaml import Node, SafeDumper

    from wavewright.engine.testing.redactions import Redaction
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


SUFFIX = "snapshot.yaml"
"""No snapshot is called `*.plan.yaml`: a check of all plans of a project must not find snapshots among them."""
_MAX_LINES = 5
"""Sentences that stand on a line each: pytest shows eight lines of a failure unless it is asked for more."""
_WIDTH = 110


class NormalFormSnapshots(SingleFileSnapshotExtension):
    """Keeps normal forms, one file each."""

    _write_mode = WriteMode.TEXT
    form: ClassVar[FormKind]
    redactions: ClassVar[Sequence[Redaction]] = ()
    machine: ClassVar[Sequence[Redaction]] = ()

    def serialize(self, data: SerializableData, **_: Any) -> SerializedData:
        """Return the text of the value's normal form."""
        try:
            return normal_form_yaml(normal_form(self.form, data, self.redactions, machine=self.machine))
        except TypeError as error:
            raise assertion_failure(str(error)) from None

    def diff_lines(self, serialized_data: SerializedData, snapshot_data: SerializedData) -> Iterator[str]:
        """Yield what changed in sentences, then the lines of the text that did."""
        old, new = read_normal_form(str(snapshot_data)), read_normal_form(str(serialized_data))
        changes = describe_changes(old, new) if old is not None and new is not None else []
        if changes:
            yield from changes if len(changes) <= _MAX_LINES else _wrapped_sentences(changes)
            yield ""
        yield from super().diff_lines(serialized_data, snapshot_data)


def snapshots_of(
    form: FormKind, redactions: Sequence[Redaction] = (), machine: Sequence[Redaction] = ()
) -> type[NormalFormSnapshots]:
    """Return the extension of syrupy for one normal form, with the project's own rules and those of its folders."""
    fields = {
        "form": form,
        "redactions": tuple(redactions),
        "machine": tuple(machine),
        "file_extension": f"{form}.{SUFFIX}",
    }
    return type(f"{form.capitalize()}Snapshots", (NormalFormSnapshots,), fields)


def _wrapped_sentences(sentences: Sequence[str]) -> Iterator[str]:
    """Yield sentences, several on a line where they fit."""
    line = sentences[0]
    for sentence in sentences[1:]:
        if len(line) + len(sentence) + 2 > _WIDTH:
            yield line
            line = sentence
        else:
            line = f"{line}; {sentence}"
    yield line
