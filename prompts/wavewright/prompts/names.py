"""Names in prompts: what a template asks for and is never given, in every branch of it.

A template is read and not rendered, so that a name in a branch that no sample takes is seen as
well. Templates that are included, extended or imported by name are followed. A name or a field
whose absence the template asks for (`is defined`, `default(…)`) is no fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, cast

from jinja2 import nodes

from wavewright.config.errors import did_you_mean
from wavewright.prompts.templates import SUFFIX, Prompts, hint_of_name


class NameFault(NamedTuple):
    """A name of a template that stands for nothing."""

    file: Path
    line: int
    """Counted from 1."""
    message: str
    hint: str


def find_name_faults(
    prompts: Prompts, name: str, context: Mapping[str, object]
) -> tuple[NameFault, ...]:
    """Return the names, fields, filters, tests and templates of a prompt that there are not.

    Args:
        prompts: The templates of a project.
        name: A prompt whose templates are valid.
        context: Sample values of all that the prompt is given.
    """
    finder = _TemplateNames(prompts, name, context)
    finder.read_template(name, {**prompts.environment.globals, **context})
    return tuple(dict.fromkeys(finder.faults))


class _Unknown:
    """A value of which only a run knows the form."""


_UNKNOWN: Final = _Unknown()
_ITEM_FILTERS: Final = frozenset({"first", "last", "random"})
_DEFAULT_FILTERS: Final = frozenset({"default", "d"})
_DEFINED_TESTS: Final = frozenset({"defined", "undefined"})
_MACRO_NAMES: Final = ("caller", "varargs", "kwargs")

_Names = dict[str, object]
"""What a place of a template can name, with a sample of each."""


@dataclass(slots=True)
class _TemplateNames:
    """Reads the templates of one prompt."""

    prompts: Prompts
    prompt: str
    context: Mapping[str, object]
    faults: list[NameFault] = field(default_factory=list[NameFault])
    _files: list[Path] = field(default_factory=list[Path])
    """The templates that are being read, the innermost last."""
    _asked_for: set[str] = field(default_factory=set[str])
    """Names and fields whose absence a template asks for."""

    def read_template(self, name: str, names: _Names) -> _Names:
        """Read a template that can name these values; return what it has set as well."""
        file = self.prompts.file_of(name)
        if file is None or file in self._files:
            return names
        tree = self.prompts.environment.parse(file.read_text(encoding="utf-8"))
        self._asked_for |= set(_asked_for(tree))
        self._files.append(file)
        own = dict(names)
        self._read_all(tree.body, own)
        self._files.pop()
        return own

    def _read_all(self, body: Iterable[nodes.Node], names: _Names) -> None:
        for node in body:
            self._read(node, names)

    def _read(self, node: nodes.Node, names: _Names) -> None:
        match node:
            case nodes.For():
                self._read_loop(node, names)
            case nodes.Assign():
                self._read(node.node, names)
                self._bind(node.target, self._sample(node.node, names), names)
            case nodes.AssignBlock():
                self._read_all(node.body, dict(names))
                self._bind(node.target, _UNKNOWN, names)
            case nodes.With():
                inner = dict(names)
                for target, value in zip(node.targets, node.values, strict=True):
                    self._read(value, names)
                    self._bind(target, self._sample(value, names), inner)
                self._read_all(node.body, inner)
            case nodes.Macro() | nodes.CallBlock():
                self._read_macro(node, names)
            case nodes.Block():
                self._read_all(node.body, {**names, "self": _UNKNOWN, "super": _UNKNOWN})
            case _:
                self._read_use(node, names)

    def _read_use(self, node: nodes.Node, names: _Names) -> None:
        """Read what has no names of its own: other templates and expressions."""
        match node:
            case nodes.Include() | nodes.Extends():
                self._read_other(node, node.template, names)
            case nodes.Import():
                self._read_other(node, node.template, names if node.with_context else {})
                names[node.target] = _UNKNOWN
            case nodes.FromImport():
                self._read_imported(node, names)
            case nodes.Filter() | nodes.Test():
                self._read_call(node, names)
            case nodes.Name(ctx="load"):
                self._read_name(node, names)
            case nodes.Getattr() | nodes.Getitem():
                self._read_all(node.iter_child_nodes(), names)
                self._read_field(node, names)
            case _:
                self._read_all(node.iter_child_nodes(), names)

    def _read_loop(self, node: nodes.For, names: _Names) -> None:
        self._read(node.iter, names)
        inner = dict(names)
        self._bind(node.target, _item_of(self._sample(node.iter, names)), inner)
        if node.test is not None:
            self._read(node.test, inner)
        inner["loop"] = _UNKNOWN
        self._read_all(node.body, inner)
        self._read_all(node.else_, dict(names))

    def _read_macro(self, node: nodes.Macro | nodes.CallBlock, names: _Names) -> None:
        self._read_all(node.defaults, names)
        inner: _Names = {**names, **dict.fromkeys(_MACRO_NAMES, _UNKNOWN)}
        for argument in node.args:
            inner[argument.name] = _UNKNOWN
        self._read_all(node.body, inner)
        if isinstance(node, nodes.Macro):
            names[node.name] = _UNKNOWN
        else:
            self._read(node.call, names)

    def _read_imported(self, node: nodes.FromImport, names: _Names) -> None:
        before = names if node.with_context else {}
        exported = self._read_other(node, node.template, before)
        for imported in node.names:
            name, target = imported if isinstance(imported, tuple) else (imported, imported)
            names[target] = _UNKNOWN
            if exported is not None and name not in exported:
                own = [known for known in exported if known not in before]
                self._report(
                    node, f"the template does not export {name!r}", did_you_mean(name, own)
                )

    def _read_other(self, node: nodes.Node, template: nodes.Expr, names: _Names) -> _Names | None:
        """Read a template that this one names; return what it sets, None where that is not known."""
        self._read(template, names)
        if not isinstance(template, nodes.Const) or not isinstance(template.value, str):
            return None
        name = template.value.removesuffix(SUFFIX)
        if self.prompts.file_of(name) is not None:
            visible = {**self.prompts.environment.globals, **names}
            return self.read_template(name, visible)
        if not (isinstance(node, nodes.Include) and node.ignore_missing):
            hint = did_you_mean(name, self.prompts.names()) or f"write {name}{SUFFIX}"
            self._report(node, f"there is no template {name!r}", hint)
        return None

    def _read_call(self, node: nodes.Filter | nodes.Test, names: _Names) -> None:
        environment = self.prompts.environment
        is_filter = isinstance(node, nodes.Filter)
        known: Iterable[str] = environment.filters if is_filter else environment.tests
        if node.name not in known:
            kind = "filter" if is_filter else "test"
            self._report(node, f"No {kind} named {node.name!r}", did_you_mean(node.name, known))
        self._read_all(node.iter_child_nodes(), names)

    def _read_name(self, node: nodes.Name, names: _Names) -> None:
        if node.name in names or node.name in self._asked_for:
            return
        visible = [name for name in names if name not in self.prompts.environment.globals]
        hint = hint_of_name(node.name, visible, self.prompt, self.context)
        self._report(node, f"{node.name!r} is undefined", hint)

    def _read_field(self, node: nodes.Getattr | nodes.Getitem, names: _Names) -> None:
        name = _field_name(node)
        if name is None or _path(node) in self._asked_for:
            return
        record = self._sample(node.node, names)
        fields = _fields_of(record)
        if fields is None or name in fields or hasattr(record, name):
            return
        kind = "dict object" if isinstance(record, dict) else f"{type(record).__name__} object"
        there = f"its fields are: {', '.join(fields)}; " if fields else ""
        hint = hint_of_name(name, fields, self.prompt, self.context)
        self._report(node, f"{kind!r} has no attribute {name!r}", f"{there}{hint}")

    def _sample(self, node: nodes.Node, names: _Names) -> object:
        """Return a sample of an expression's value."""
        match node:
            case nodes.Name():
                return names.get(node.name, _UNKNOWN)
            case nodes.Getattr() | nodes.Getitem():
                record, name = self._sample(node.node, names), _field_name(node)
                if name is None:
                    return _item_of(record)
                if isinstance(record, Mapping):
                    members = cast("Mapping[str, object]", record)
                    return members.get(name, _UNKNOWN)
                return getattr(record, name, _UNKNOWN) if _fields_of(record) else _UNKNOWN
            case nodes.Filter(node=nodes.Node() as value) if node.name in _ITEM_FILTERS:
                return _item_of(self._sample(value, names))
            case _:
                return _UNKNOWN

    def _bind(self, target: nodes.Node, sample: object, names: _Names) -> None:
        if isinstance(target, nodes.Name):
            names[target.name] = sample
            return
        for part in target.iter_child_nodes():
            self._bind(part, _UNKNOWN, names)

    def _report(self, node: nodes.Node, message: str, hint: str | None) -> None:
        hint = hint or "fix the template's syntax (Jinja2)"
        self.faults.append(NameFault(self._files[-1], node.lineno, message, hint))


def _asked_for(tree: nodes.Template) -> Iterator[str]:
    """Yield the names and fields whose absence a template asks for."""
    for node in tree.find_all((nodes.Test, nodes.Filter)):
        asks = _DEFINED_TESTS if isinstance(node, nodes.Test) else _DEFAULT_FILTERS
        if node.name in asks and node.node is not None:
            yield _path(node.node)


def _path(node: nodes.Node) -> str:
    """Return a name or a field as it is written; empty where it is neither."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr() | nodes.Getitem():
            return f"{_path(node.node)}.{_field_name(node)}"
        case _:
            return ""


def _field_name(node: nodes.Getattr | nodes.Getitem) -> str | None:
    if isinstance(node, nodes.Getattr):
        return node.attr
    name = node.arg.value if isinstance(node.arg, nodes.Const) else None
    return name if isinstance(name, str) else None


def _fields_of(record: object) -> tuple[str, ...] | None:
    """Return the fields of a record; None where only a run knows them."""
    if type(record) is dict:
        return tuple(map(str, cast("dict[object, object]", record)))
    if isinstance(record, str | list | tuple):
        return ()
    names = getattr(type(record), "model_fields", None) or getattr(type(record), "__slots__", None)
    return tuple(map(str, names)) if names else None


def _item_of(sample: object) -> object:
    """Return an item of a list; unknown where there is none to see."""
    if isinstance(sample, list | tuple):
        items = cast("Sequence[object]", sample)
        return items[0] if items else _UNKNOWN
    return _UNKNOWN
