"""Strict readers of YAML and TOML, limited to values of JSON.

The YAML library only provides events, so only texts, numbers, booleans, null, lists and objects are
built. A plain scalar is a number exactly where JSON would read one, and a boolean only as `true` or
`false`; `on`, `no`, `nan`, `1:30`, `007` and dates stay text. Aliases, anchors, tags, duplicate
keys and a second document are refused.

Of TOML, dates and times become ISO 8601 texts. The interpreter's reader keeps no positions, so a
syntax fault has its position and any other fault names its node only.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

import yaml

from wavewright.config.sources import (
    EMPTY_DOCUMENT,
    MAX_EXACT_INTEGER,
    DocumentError,
    DocumentFault,
    ListNode,
    Member,
    Node,
    ObjectNode,
    ReadLimits,
    Scalar,
    ScalarNode,
    Source,
    Span,
    pointer_token,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

_Loader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*+)\Z")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?\Z")
_NONFINITE = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
"""The forms that YAML has for these numbers; `nan` and `inf` are words."""
_CONSTANTS: dict[str, Scalar] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_AMBIGUOUS_LINE_BREAK = re.compile("[\x85\u2028\u2029]")
_FORBIDDEN_CHARACTER = re.compile("[\0\ud800-\udfff]")


class _UnsupportedYamlError(Exception):
    def __init__(self, fault: DocumentFault) -> None:
        self.fault = fault
        super().__init__(fault.message)


def read_yaml(source: Source, limits: ReadLimits) -> Node:
    """Read strict YAML into nodes.

    Raises:
        DocumentError: with the faults of the text, in its order.
    """
    doubtful = _AMBIGUOUS_LINE_BREAK.search(source.text)
    if doubtful is not None:
        message = f"the text holds U+{ord(doubtful[0]):04X}, which some readers of YAML take for a line break"
        hint = f'write it as an escape in double quotes: "\\u{ord(doubtful[0]):04x}"'
        raise DocumentError(
            source, (DocumentFault("bad_unicode", message, Span(*doubtful.span()), hint=hint),)
        )
    builder = _NodeBuilder(source.text, limits.max_depth)
    try:
        node = builder.document()
    except _UnsupportedYamlError as stopped:
        raise DocumentError(source, (*builder.faults, stopped.fault)) from stopped
    except yaml.YAMLError as error:
        raise DocumentError(source, (*builder.faults, _syntax_fault(source.text, error))) from error
    if builder.faults:
        raise DocumentError(source, tuple(builder.faults), root=node)
    return node


class _NodeBuilder:
    """Builds nodes from events, recursively up to a maximum depth."""

    def __init__(self, text: str, max_depth: int) -> None:
        self.faults: list[DocumentFault] = []
        self._text = text
        self._max_depth = max_depth
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=_Loader))

    def document(self) -> Node:
        next(self._events)  # the stream begins
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            raise _UnsupportedYamlError(DocumentFault("not_yaml", EMPTY_DOCUMENT, Span(0, 0)))
        node = self._node(next(self._events), 0)
        next(self._events)  # the document ends
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            _refuse(
                "not_yaml",
                "a second document begins here",
                event,
                hint="keep one document in a file",
            )
        return node

    def _node(self, event: yaml.Event, depth: int, *, is_key: bool = False) -> Node:
        if isinstance(event, yaml.AliasEvent):
            _refuse(
                "yaml_alias",
                f"the alias {f'*{event.anchor}'!r} is not read",
                event,
                hint=_WRITE_OUT,
            )
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            _refuse(
                "yaml_alias", f"the anchor {f'&{anchor}'!r} is not read", event, hint=_WRITE_OUT
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            hint = "remove the tag; quote the value where it should be text"
            short = str(tag).replace("tag:yaml.org,2002:", "!!")
            _refuse("yaml_tag", f"the tag {short!r} is not read", event, hint=hint)
        if isinstance(event, yaml.ScalarEvent):
            return ScalarNode(self._scalar(event, is_key=is_key), *_event_extent(event, self._text))
        if depth >= self._max_depth:
            message = f"lists and objects are nested more than {self._max_depth} deep"
            _refuse("too_deep", message, event, hint="flatten the structure")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(event, depth + 1)
        return self._object(event, depth + 1)

    def _list(self, start: yaml.SequenceStartEvent, depth: int) -> ListNode:
        node = ListNode(*_event_extent(start, self._text))
        event = next(self._events)
        while not isinstance(event, yaml.SequenceEndEvent):
            node.items.append(self._node(event, depth))
            event = next(self._events)
        flow = bool(start.flow_style)
        node.end = (
            _index(event.end_mark)
            if flow
            else max((node.end, *(item.end for item in node.items[-1:])))
        )
        return node

    def _object(self, start: yaml.Event, depth: int) -> ObjectNode:
        node = ObjectNode(*_event_extent(start, self._text))
        event = next(self._events)
        while not isinstance(event, yaml.MappingEndEvent):
            self._member(node, event, depth)
            event = next(self._events)
        if getattr(start, "flow_style", False):
            node.end = _index(event.end_mark)
        elif node.members:
            last = next(reversed(node.members.values()))
            node.end = max(last.key.end, last.node.end)
        return node

    def _member(self, node: ObjectNode, event: yaml.Event, depth: int) -> None:
        key_node = self._node(event, depth, is_key=True)
        if not isinstance(event, yaml.ScalarEvent) or not isinstance(key_node, ScalarNode):
            _refuse("not_yaml", "a key is a list or an object", event, hint=_QUOTE_REFERENCE)
        # `on:`, `no:` and `1:` are keys of that name: keys of JSON are texts.
        key, span = event.value, Span(key_node.start, key_node.end)
        value = self._node(next(self._events), depth)
        if key in node.members:
            message = f"the key {key!r} stands twice in one object"
            hint = "remove one of them: which of the two counts would be a guess"
            self.faults.append(DocumentFault("duplicate_key", message, span, hint=hint))
        else:
            node.members[key] = Member(span, value)

    def _scalar(self, event: yaml.ScalarEvent, *, is_key: bool) -> Scalar:
        text = event.value
        if event.style or is_key:
            if _FORBIDDEN_CHARACTER.search(text):
                message = "a string holds a NUL character or half of a surrogate pair"
                self._note_fault("bad_unicode", message, event, "remove the character")
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INTEGER.match(text):
            return self._integer(event)
        if _FRACTION.match(text):
            return self._fraction(event)
        if _NONFINITE.match(text):
            hint = "write a finite number, or quote it where it should be text"
            self._note_fault("nonfinite_number", f"{text} is no finite number", event, hint)
        return text

    def _integer(self, event: yaml.ScalarEvent) -> int:
        # The length is looked at first: converting many thousand digits takes seconds, and Python
        # refuses.
        number = int(event.value) if len(event.value) <= 17 else MAX_EXACT_INTEGER + 1
        if abs(number) <= MAX_EXACT_INTEGER:
            return number
        shown = event.value if len(event.value) <= 40 else event.value[:37] + "…"
        message = f"the integer {shown!r} is beyond 2^53 - 1, so readers disagree on its value"
        self._note_fault("number_out_of_range", message, event, "quote it where it should be text")
        return 0

    def _fraction(self, event: yaml.ScalarEvent) -> float:
        number = float(event.value)
        if math.isfinite(number):
            return number
        message = f"the number {event.value[:40]!r} is too large and would become infinite"
        self._note_fault(
            "nonfinite_number", message, event, "write a finite number, or null where there is none"
        )
        return 0.0

    def _note_fault(self, kind: str, message: str, event: yaml.Event, hint: str) -> None:
        self.faults.append(DocumentFault(kind, message, _span(event), hint=hint))


_WRITE_OUT = "write the value out where it is used; '*' and '&' in text want quotes"
_QUOTE_REFERENCE = (
    "quote text that begins with '{' or '['; a reference inside {…} or […] is written \"${…}\""
)


class _Mark(Protocol):
    @property
    def index(self) -> int: ...


def _index(mark: _Mark | None) -> int:
    return 0 if mark is None else mark.index


def _event_extent(event: yaml.Event, text: str) -> tuple[int, int]:
    """Return start and end of an event; a block scalar ends before the line breaks that follow it."""
    start, end = _index(event.start_mark), _index(event.end_mark)
    while end > start and text[end - 1] in "\r\n \t":
        end -= 1
    return start, end


def _span(event: yaml.Event) -> Span:
    return Span(_index(event.start_mark), _index(event.end_mark))


def _refuse(kind: str, message: str, event: yaml.Event, *, hint: str | None = None) -> NoReturn:
    span = _span(event)
    raise _UnsupportedYamlError(
        DocumentFault(kind, message, Span(span.start, max(span.end, span.start + 1)), hint=hint)
    )


def _syntax_fault(text: str, error: yaml.YAMLError) -> DocumentFault:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        offset = min(error.problem_mark.index, len(text))
        context = f" ({error.context})" if error.context else ""
        message = f"{error.problem}{context}"
        return DocumentFault(
            "not_yaml",
            message,
            _one_character(offset, text),
            hint=_syntax_hint(message, text, offset),
        )
    offset = _as_offset(getattr(error, "position", 0), len(text))
    return DocumentFault(
        "not_yaml", "a character that YAML does not allow", _one_character(offset, text)
    )


def _as_offset(value: object, limit: int) -> int:
    return min(value, limit) if isinstance(value, int) else 0


def _one_character(offset: int, text: str) -> Span:
    return Span(offset, min(offset + 1, len(text)))


def _syntax_hint(message: str, text: str, offset: int) -> str:
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    if "\t" in line:
        return "indent with spaces: YAML takes no tabs"
    if "mapping values are not allowed" in message:
        return "quote text that holds ': '"
    if "${" in line:
        return _QUOTE_REFERENCE
    if "block collection" in message or "block mapping" in message:
        return "indent what belongs to one list or object by the same number of spaces"
    if "flow" in message:
        return "close each '[' with ']' and each '{' with '}', and put ',' between their entries"
    return "look here and in the line above for a wrong indentation, quote or ':'"


_PLACE = re.compile(r" \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)\Z")


def read_toml(source: Source, limits: ReadLimits) -> JsonValue:
    """Read strict TOML into a plain value.

    Raises:
        DocumentError: with the faults of the text.
    """
    # Imported here: few documents are TOML.
    import tomllib

    try:
        value = tomllib.loads(source.text)
    except RecursionError as error:
        raise DocumentError(source, (_too_deep(limits, ""),)) from error
    except ValueError as error:
        raise DocumentError(source, (_toml_fault(source, error),)) from error
    reader = _TomlConverter(limits)
    plain = reader.value(value, "", 0)
    if reader.faults:
        raise DocumentError(source, tuple(reader.faults))
    return plain


class _TomlConverter:
    """Converts values of the interpreter's reader to values of JSON."""

    def __init__(self, limits: ReadLimits) -> None:
        self.faults: list[DocumentFault] = []
        self._limits = limits

    def value(self, value: object, pointer: str, depth: int) -> JsonValue:
        if isinstance(value, (dict, list)) and depth >= self._limits.max_depth:
            self.faults.append(_too_deep(self._limits, pointer))
            return None
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            return {
                key: self.value(inner, pointer + pointer_token(key), depth + 1)
                for key, inner in members.items()
            }
        if isinstance(value, list):
            items = cast("list[object]", value)
            return [
                self.value(inner, pointer + pointer_token(index), depth + 1)
                for index, inner in enumerate(items)
            ]
        if isinstance(value, (dt.datetime, dt.date, dt.time)):
            return value.isoformat()
        self._check_scalar(value, pointer)
        return cast("JsonValue", value)

    def _check_scalar(self, value: object, pointer: str) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            message, hint = "a number is not finite", "write a finite number"
            self.faults.append(
                DocumentFault("nonfinite_number", message, pointer=pointer, hint=hint)
            )
        if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
            message, hint = "an integer is beyond 2^53 - 1", "quote it where it should be text"
            self.faults.append(
                DocumentFault("number_out_of_range", message, pointer=pointer, hint=hint)
            )
        if isinstance(value, str) and "\0" in value:
            message, hint = "a string holds a NUL character", "remove the character"
            self.faults.append(DocumentFault("bad_unicode", message, pointer=pointer, hint=hint))


def _too_deep(limits: ReadLimits, pointer: str) -> DocumentFault:
    message = f"lists and objects are nested more than {limits.max_depth} deep"
    return DocumentFault("too_deep", message, pointer=pointer, hint="flatten the structure")


def _toml_fault(source: Source, error: ValueError) -> DocumentFault:
    text = str(error)
    place = _PLACE.search(text)
    if place is None:
        return DocumentFault("not_toml", text[:1].lower() + text[1:])
    offset = len(source.text)
    if place[1] is not None:
        line_starts = [0, *(line_end.end() for line_end in re.finditer("\n", source.text))]
        offset = min(line_starts[int(place[1]) - 1] + int(place[2]) - 1, offset)
    message = text[: place.start()]
    span = Span(offset, min(offset + 1, len(source.text)))
    if message == "Invalid value" and source.text[offset : offset + 1].isalpha():
        return DocumentFault(
            "not_toml", "this value is text without quotes", span, hint='put it in quotes: "…"'
        )
    return DocumentFault("not_toml", message[:1].lower() + message[1:], span)
