"""Where a name is defined and used, and renaming it wherever it is used."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lsprotocol import types

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import (
    DocumentError,
    ListNode,
    Node,
    ObjectNode,
    ScalarNode,
    Span,
    find_node,
    pointer_keys,
    pointer_token,
)
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.engine.interfaces.cli.lsp.reading import (
    ReadText,
    node_at,
    offset_in_text,
    read_text,
    value_at,
)
from wavewright.engine.interfaces.cli.lsp.text_edits import NotEditable, WordRename, rename_words
from wavewright.engine.run.project.templates import named_template
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.reads import root_mentions
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.places import expression_at, part_at
from wavewright.planner.plans.uses import ExpressionText, plan_texts
from wavewright.planner.types import GATE_ID_PATTERN, STEP_ID_PATTERN
from wavewright.tools.pack_folders import project_prompts

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.interfaces.cli.lsp.completion import Surroundings
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument
    from wavewright.tools.functions.registry import Registry

NameKind: TypeAlias = Literal["step", "input", "gate", "tool", "plan", "template", "prompt"]
_ROOTS = {"step": "steps", "input": "inputs"}
"""Below which root expressions read a name."""
_PLACES: dict[str, NameKind] = {
    "/steps/#/id": "step",
    "/steps/#/depends_on/#": "step",
    "/steps/#/supersedes": "step",
    "/gates/#/on": "step",
    "/gates/#/id": "gate",
    "/steps/#/tool": "tool",
    "/gates/#/on_tool": "tool",
    "/steps/#/plan": "plan",
}
_PLACES_OF_OTHERS: dict[str, NameKind] = {
    "/plan": "plan",
    "/goal_template": "template",
    "/prompt": "prompt",
    "/available_tools/#": "tool",
    "/available_tools/#/name": "tool",
    "/tools/#": "tool",
    "/gates/#/id": "gate",
    "/gates/#/on_tool": "tool",
    "/recipes/#/gate": "gate",
    "/may_drop/#": "gate",
    "/expect/#": "gate",
}


@dataclass(frozen=True, slots=True)
class NameAt:
    """A name that stands at a place."""

    kind: NameKind
    name: str


def name_at(
    document: OpenDocument, position: types.Position, around: Surroundings
) -> NameAt | None:
    """Return the name at a place; None where none stands there."""
    read, offset = document.read, document.places.offset(position)
    at = None if read is None else node_at(read.document.root, offset)
    if read is None or at is None:
        return None
    pointer = read.in_plan(at.pointer)
    keys = [] if pointer is None else pointer_keys(pointer)
    if at.is_key:
        return NameAt("input", keys[1]) if keys[:1] == ["inputs"] and len(keys) == 2 else None
    text = getattr(at.node, "value", None)
    if not isinstance(text, str):
        return None
    kind = _PLACES.get(_shape(pointer)) if pointer is not None else None
    kind = kind or _PLACES_OF_OTHERS.get(_shape(at.pointer))
    if kind is not None:
        return NameAt(kind, text)
    subject = read.subject(around.tools, around.goal)
    inside = offset_in_text(document.text, at.node, offset)
    if subject is None or pointer is None or inside is None:
        return None
    place = expression_at(subject, pointer, text, inside)
    part = None if place is None else part_at(place)
    if part is not None and part.step is not None:
        return NameAt("step", part.step)
    if part is not None and part.root == "inputs" and part.name is not None:
        return NameAt("input", part.name)
    return None


def _shape(pointer: str) -> str:
    return re.sub(r"/\d+(?=/|$)", "/#", pointer)


# --- places of a name


def places_of(read: ReadText, subject: CheckContext | None, name: NameAt) -> Iterator[Span]:
    """Yield where a document defines and uses a name, its definition first.

    Raises:
        NotEditable: the name is written with escapes.
    """
    base = read.plan_pointer or ""
    shapes = {shape for shape, kind in _PLACES.items() if kind == name.kind}
    shapes_of_others = {shape for shape, kind in _PLACES_OF_OTHERS.items() if kind == name.kind}
    for pointer, node in _scalars(read.document.root, ""):
        if node.value != name.name:
            continue
        inside = read.in_plan(pointer)
        is_in_plan = inside is not None and _shape(inside) in shapes
        if is_in_plan or _shape(pointer) in shapes_of_others:
            yield _inner_span(read.document.source.text, node)
    if name.kind == "input":
        for inputs in dict.fromkeys((f"{base}/inputs", "/inputs")):
            found = find_node(read.document.root, inputs + pointer_token(name.name))
            if found is not None and found[1] is not None:
                yield found[1]
    root = _ROOTS.get(name.kind)
    if root is None:
        return
    known = [*plan_texts(subject.plan)] if subject is not None and subject.plan.steps else []
    texts = known if read.plan_pointer is not None else [*_expression_texts(read)]
    for text in texts:
        found = find_node(read.document.root, base + text.pointer)
        if found is None or not isinstance(found[0], ScalarNode):
            continue
        words = [
            WordRename(start, name.name, name.name) for start in _mentions(text, root, name.name)
        ]
        source = read.document.source.text
        for edit in rename_words(source, found[0], text.text, words):
            yield Span(edit.start, edit.end)


def _expression_texts(read: ReadText) -> Iterator[ExpressionText]:
    """Yield the texts of a document without a plan that may hold expressions."""
    for pointer, text in iterate_strings(read.document.value):
        if "${" in text or "steps." in text or "inputs." in text:
            yield ExpressionText(pointer, text, "result" if "${" in text else "cap")


def _mentions(text: ExpressionText, root: str, name: str) -> Iterator[int]:
    try:
        for use in text.uses():
            for mention in root_mentions(use.expression):
                if (mention.root, mention.name) == (root, name):
                    yield use.start + use.expression.index(name, mention.start)
    except ExpressionError:
        return


def _scalars(node: Node, pointer: str) -> Iterator[tuple[str, ScalarNode]]:
    if isinstance(node, ScalarNode):
        yield pointer, node
    elif isinstance(node, ListNode):
        for place, item in enumerate(node.items):
            yield from _scalars(item, pointer + pointer_token(place))
    else:
        for key, member in node.members.items():
            yield from _scalars(member.node, pointer + pointer_token(key))


def _inner_span(text: str, node: Node) -> Span:
    quoted = text[node.start : node.start + 1] in {'"', "'"}
    return Span(node.start + 1, node.end - 1) if quoted else Span(node.start, node.end)


def references(document: OpenDocument, name: NameAt, around: Surroundings) -> list[types.Location]:
    """Return where a document defines and uses a name."""
    read = document.read
    if read is None:
        return []
    spans = places_of(read, read.subject(around.tools, around.goal), name)
    ordered = sorted(dict.fromkeys(spans))
    return [types.Location(document.uri, document.places.range(span)) for span in ordered]


# --- definitions


def definition(
    document: OpenDocument, name: NameAt, around: Surroundings, tools: Registry
) -> types.Location | None:
    """Return where a name is defined: in the document, in code, or in another file."""
    if name.kind in ("step", "input", "gate"):
        read = document.read
        found = (
            []
            if read is None
            else [*places_of(read, read.subject(around.tools, around.goal), name)]
        )
        if not found:
            return None
        return types.Location(document.uri, document.places.range(found[0]))
    if name.kind == "tool":
        return _tool_definition(name.name, around, tools)
    return _file_start(_file_of(document, name, around))


def _tool_definition(name: str, around: Surroundings, tools: Registry) -> types.Location | None:
    tool = tools.get(name)
    if tool is None:
        return None
    if callable(tool.function):
        function = inspect.unwrap(tool.function)
        try:
            file, line = inspect.getsourcefile(function), inspect.getsourcelines(function)[1] - 1
        except (OSError, TypeError):
            return None
        start = types.Position(line, 0)
        return (
            None if file is None else types.Location(Path(file).as_uri(), types.Range(start, start))
        )
    settings = around.settings
    short = name.rpartition(".")[2]
    for folder in settings.workers:
        for worker in (folder / f"{name}.yaml", folder):
            if worker.is_file() and name in worker.read_text(encoding="utf-8"):
                return _file_start(worker)
    return _in_file(settings.root / "tools.lock.json", f'"{short}"')


def _in_file(file: Path, words: str) -> types.Location | None:
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if words not in text:
        return None
    start = text.index(words)
    places = TextPositions(text, "utf-16")
    return types.Location(file.as_uri(), places.range(Span(start, start + len(words))))


def _file_start(file: Path | None) -> types.Location | None:
    start = types.Position(0, 0)
    if file is None or not file.is_file():
        return None
    return types.Location(file.resolve().as_uri(), types.Range(start, start))


def _file_of(document: OpenDocument, name: NameAt, around: Surroundings) -> Path | None:
    if name.kind == "prompt":
        return project_prompts(around.settings.prompts).file_of(name.name)
    beside = document.path.parent / name.name
    if name.kind == "plan" and beside.is_file():
        return beside
    return named_template(name.name, around.settings)


# --- renaming


def rename(
    document: OpenDocument,
    name: NameAt,
    new: str,
    around: Surroundings,
    open_texts: Mapping[Path, str],
) -> types.WorkspaceEdit:
    """Return the edits that give a step, an input or a gate another name, in the file, in the jobs
    and tests that name the file, and in the goal templates of these jobs; of a file that is open,
    in its text as it stands there.

    Raises:
        RenameRefused: the new name is none, is taken, or cannot be written everywhere.
    """
    read = document.read
    pattern = GATE_ID_PATTERN if name.kind == "gate" else STEP_ID_PATTERN
    if read is None or name.kind not in ("step", "input", "gate"):
        raise RenameRefused("only steps, inputs and gates of a plan that can be read are renamed")
    if not re.fullmatch(pattern, new):
        raise RenameRefused(f"{new!r} is no name for a {name.kind}")
    subject = read.subject(around.tools, around.goal)
    try:
        if [*places_of(read, subject, NameAt(name.kind, new))]:
            raise RenameRefused(f"{new!r} is taken")
        changes = {document.uri: _edits(document.places, places_of(read, subject, name), new)}
        for file, text in _files_that_name(document.path, around.settings, open_texts):
            places = TextPositions(text, document.places.encoding)
            if file.suffix == ".py":
                edits = _edits(places, _literals(text, name.name), new)
            else:
                other = read_text(text, str(file))
                spans = () if other is None else places_of(other, None, name)
                edits = _edits(places, spans, new)
            if edits:
                changes[file.as_uri()] = edits
    except NotEditable as error:
        raise RenameRefused(str(error)) from error
    return types.WorkspaceEdit(changes=changes)


class RenameRefused(WavewrightError):
    """A name cannot be changed; the message says why."""


def _edits(
    places: TextPositions, spans: Iterator[Span] | tuple[()], new: str
) -> list[types.TextEdit]:
    return [types.TextEdit(places.range(span), new) for span in sorted(dict.fromkeys(spans))]


def _literals(text: str, name: str) -> Iterator[Span]:
    """Yield where a test in Python has a name as a string of its own."""
    for found in re.finditer(rf"([\"']){re.escape(name)}\1", text):
        yield Span(found.start() + 1, found.end() - 1)


def _files_that_name(
    file: Path, settings: Settings, open_texts: Mapping[Path, str]
) -> Iterator[tuple[Path, str]]:
    """Yield the documents that name a file, their goal templates, and the tests of the project that
    name the file or one of these jobs.

    Documents are looked for beside the file, in the folder `jobs`, and, where the file is a goal
    template, by its name.
    """

    def text_of(path: Path) -> str:
        known = open_texts.get(path)
        return path.read_text(encoding="utf-8", errors="replace") if known is None else known

    own = read_text(text_of(file), str(file))
    names = [file.name]
    if own is not None and own.kind == "goal":
        names.append(str(value_at(own.document.value, "/name")))
    jobs, templates = dict[Path, str](), dict[Path, str]()
    for path in sorted({*file.parent.iterdir(), *(settings.root / "jobs").rglob("*")} - {file}):
        if path.suffix not in _DOCUMENTS or not path.is_file():
            continue
        text = text_of(path)
        read = read_text(text, str(path)) if any(name in text for name in names) else None
        if read is None or not _names_one_of(read, names):
            continue
        jobs[path] = text
        template = value_at(read.document.value, "/goal_template")
        with suppress(DocumentError):
            found = named_template(template, settings) if isinstance(template, str) else None
            if found is not None and found.absolute() != file:
                templates[found.absolute()] = text_of(found.absolute())
    yield from {**jobs, **templates}.items()
    names += [path.name for path in jobs]
    for test in sorted((settings.root / "tests").rglob("*.py")):
        text = text_of(test)
        if any(name in text for name in names):
            yield test, text


_DOCUMENTS: Final = (".yaml", ".yml", ".json")


def _names_one_of(read: ReadText, names: list[str]) -> bool:
    """Whether a document names a plan or a goal template by one of these names."""
    for field in ("/plan", "/goal_template"):
        named = value_at(read.document.value, field)
        if isinstance(named, str) and named.rpartition("/")[2] in names:
            return True
    return False


# --- outline


def symbols(document: OpenDocument, around: Surroundings) -> list[types.DocumentSymbol]:
    """Return the steps of a plan by wave, then its gates."""
    read = document.read
    subject = None if read is None else read.subject(around.tools, around.goal)
    if read is None or subject is None:
        return []
    waves: dict[int, list[types.DocumentSymbol]] = {}
    wave_of = subject.graph.wave_of()
    for number, step in enumerate(subject.plan.steps):
        symbol = _symbol(document, read, f"/steps/{number}", step.id, step.tool)
        if symbol is not None:
            waves.setdefault(wave_of.get(step.id, 0), []).append(symbol)
    found = [_wave(number, members) for number, members in sorted(waves.items())]
    for number, gate in enumerate(subject.plan.gates):
        symbol = _symbol(document, read, f"/gates/{number}", gate.id, f"gate on {gate.on}")
        found += [symbol] if symbol is not None else []
    return found


def _symbol(
    document: OpenDocument, read: ReadText, pointer: str, name: str, detail: str
) -> types.DocumentSymbol | None:
    base = read.plan_pointer or ""
    node = find_node(read.document.root, base + pointer)
    own = find_node(read.document.root, f"{base}{pointer}/id")
    if node is None or own is None:
        return None
    places = document.places
    whole, chosen = Span(node[0].start, node[0].end), Span(own[0].start, own[0].end)
    kind = types.SymbolKind.Function if pointer.startswith("/steps") else types.SymbolKind.Event
    return types.DocumentSymbol(name, kind, places.range(whole), places.range(chosen), detail)


def _wave(number: int, members: list[types.DocumentSymbol]) -> types.DocumentSymbol:
    starts, ends = zip(*((one.range.start, one.range.end) for one in members), strict=True)
    whole = types.Range(min(starts), max(ends))
    name = f"wave {number + 1}"
    return types.DocumentSymbol(
        name, types.SymbolKind.Namespace, whole, members[0].selection_range, children=members
    )


def folds(document: OpenDocument) -> list[types.FoldingRange]:
    """Return the lists and objects of several lines."""
    read, found = document.read, list[types.FoldingRange]()
    waiting: list[Node] = [] if read is None else [read.document.root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ScalarNode):
            continue
        whole = document.places.range(Span(node.start, node.end))
        if whole.end.line > whole.start.line:
            found.append(types.FoldingRange(whole.start.line, whole.end.line))
        if isinstance(node, ObjectNode):
            waiting += [member.node for member in node.members.values()]
        else:
            waiting += node.items
    return sorted(found, key=lambda fold: (fold.start_line, fold.end_line))
