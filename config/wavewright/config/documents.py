"""Documents: strict readers of JSON, YAML and TOML that keep the position of every node.

A *document* is a JSON value whose nodes have positions in a text. All formats are read strictly, so
that no two readers can disagree on what a text means. JSON is read by the interpreter's decoder,
and by the position-keeping scanner only where there is a fault or a position is needed, so valid
documents are read fast. Hooks refuse what the decoder accepts and JSON does not: names in an object
must be unique, and integers exact for every reader.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

from wavewright.config.errors import WavewrightError, similar_names
from wavewright.config.sources import (
    MAX_EXACT_INTEGER,
    DocumentError,
    DocumentFault,
    ReadLimits,
    Source,
    Span,
    find_node,
    plain_value,
    pointer_keys,
    scalar_pointers,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from wavewright.config.sources import Node


def read_json(source: Source, limits: ReadLimits) -> JsonValue:
    """Read strict JSON into a plain value.

    Raises:
        DocumentError: with every fault of the text, in text order.
    """
    try:
        value = decode_strict_json(source.text)
    except (StrictJsonError, json.JSONDecodeError, RecursionError):
        return _read_with_scanner(source, limits)
    # An escaped NUL or surrogate may be half of a pair, or the text "\\ud800": the scanner tells
    # them apart.
    if is_deeper(value, limits.max_depth) or UNSTORABLE_ESCAPE.search(source.text):
        return _read_with_scanner(source, limits)
    return value


def _read_with_scanner(source: Source, limits: ReadLimits) -> JsonValue:
    """Return the value as the scanner reads it; the scanner is imported here."""
    from wavewright.config.readers.json_scanner import scan_json

    return plain_value(scan_json(source, limits))


DEFAULT_LIMITS = ReadLimits()
_BOM = "\ufeff"
_YAML_SUFFIXES = (".yaml", ".yml")


class Document:
    """A value with its source and the positions of its nodes.

    >>> from wavewright.config import read_document
    >>> document = read_document('{"name": "digest", "steps": []}', "plan.json")
    >>> document.value["name"], document.span("/name")
    ('digest', Span(start=9, end=17))
    """

    def __init__(
        self,
        value: JsonValue,
        source: Source,
        *,
        limits: ReadLimits = DEFAULT_LIMITS,
        root: Node | None = None,
        keeps_places: bool = True,
        faults: tuple[DocumentFault, ...] = (),
    ) -> None:
        """Take the nodes from `root`, or else read them from the source, as JSON, when a position
        is needed.

        With `faults`, of single values, the document is there to be checked: it is read into no
        model.
        """
        self.value = value
        self.source = source
        self._limits = limits
        self._root = root
        self._keeps_places = keeps_places
        self.faults = faults

    @property
    def root(self) -> Node:
        """The document as nodes."""
        if self._root is None:
            from wavewright.config.readers.json_scanner import scan_json

            self._root = scan_json(self.source, self._limits)
        return self._root

    def span(self, pointer: str, *, key: bool = False) -> Span | None:
        """Return the span of a node, or of its key; None if there is no such node or key."""
        located = find_node(self.root, pointer) if self._keeps_places else None
        if located is None:
            return None
        node, key_span = located
        return key_span if key else Span(node.start, node.end)

    def nearest_span(self, pointer: str, *, key: bool = False) -> Span | None:
        """Return the span of a node, or of its key, or else of the nearest node around it."""
        span = self.span(pointer, key=key)
        while span is None and pointer:
            pointer = pointer.rpartition("/")[0]
            span = self.span(pointer)
        return span


def value_at(value: JsonValue, pointer: str) -> JsonValue:
    """Return the part of a value that a pointer names; null where there is none."""
    for key in pointer_keys(pointer):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def read_faulty_document(
    content: str | bytes, name: str, *, limits: ReadLimits = DEFAULT_LIMITS
) -> Document:
    """Read a document as `read_document` does, but keep the faults of single values, such as
    `.nan`, in it.

    So they are told together with all that is found when the document is read into a model.

    Raises:
        DocumentError: the text is no document.
    """
    try:
        return read_document(content, name, limits=limits)
    except DocumentError as error:
        if error.root is None:
            raise
        pointers = dict(scalar_pointers(error.root))
        faults = tuple(
            replace(fault, pointer=pointers.get(fault.span.start, "") if fault.span else "")
            for fault in error.faults
        )
        value = plain_value(error.root)
        return Document(value, error.source, limits=limits, root=error.root, faults=faults)


def read_document(
    content: str | bytes, name: str, *, limits: ReadLimits = DEFAULT_LIMITS
) -> Document:
    r"""Read JSON or YAML, whichever the content is, or TOML.

    Content that begins with a bracket is JSON unless the name ends in `.yaml` or `.yml`; content of
    a name that ends in `.json` is JSON whatever it begins with, and that of a name that ends in
    `.toml` is TOML.

    Raises:
        DocumentError: with each fault, its place and its fix.

    >>> from wavewright.config import read_document
    >>> read_document("every: 15m\ncities: [Tarn Quay]", "job.yaml").value
    {'every': '15m', 'cities': ['Tarn Quay']}
    """
    source = Source(name, decode(content, name, limits))
    if name.lower().endswith(".toml"):
        from wavewright.config.readers.yaml_and_toml import read_toml

        return Document(read_toml(source, limits), source, keeps_places=False)
    if not source.text.strip():
        fault = DocumentFault(
            "not_json" if name.endswith(".json") else "not_yaml",
            "the document is empty",
            Span(0, 0),
        )
        raise DocumentError(source, (fault,))
    named_yaml = name.lower().endswith(_YAML_SUFFIXES)
    if source.text.lstrip()[0] in "{[" or name.lower().endswith(".json"):
        try:
            return Document(read_json(source, limits), source, limits=limits)
        except DocumentError:
            if not named_yaml:
                raise
    from wavewright.config.readers.yaml_and_toml import read_yaml

    root = read_yaml(source, limits)
    return Document(plain_value(root), source, limits=limits, root=root)


def decode(content: str | bytes, name: str, limits: ReadLimits) -> str:
    """Return the text of a content within its limits; a byte order mark is dropped.

    Raises:
        DocumentError: the content is too large, or is not UTF-8.
    """
    if len(content) > limits.max_bytes or (
        isinstance(content, str) and _is_larger(content, limits.max_bytes)
    ):
        message = f"the text is larger than {limits.max_bytes:,} bytes"
        raise DocumentError(
            Source(name, ""), (DocumentFault("too_large", message, hint="shorten it"),)
        )
    text = _check_text(content, name) if isinstance(content, str) else _decode_bytes(content, name)
    return text.removeprefix(_BOM)


def _is_larger(text: str, max_bytes: int) -> bool:
    return len(text) * 4 > max_bytes and len(text.encode("utf-8", "surrogatepass")) > max_bytes


def _check_text(text: str, name: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        readable = text.encode("utf-8", "replace").decode()
        message = "the text holds half of a surrogate pair"
        fault = DocumentFault(
            "bad_unicode", message, Span(error.start, error.start + 1), hint="remove the character"
        )
        raise DocumentError(Source(name, readable), (fault,)) from error
    return text


def _decode_bytes(content: bytes, name: str) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        readable = content.decode("utf-8", "replace")
        offset = len(content[: error.start].decode("utf-8", "replace"))
        message = f"the text is not UTF-8: {_encoding_guess(content)}"
        fault = DocumentFault(
            "bad_encoding", message, Span(offset, offset + 1), hint="save the file as UTF-8"
        )
        raise DocumentError(Source(name, readable), (fault,)) from error
    if "\0" in text[:4]:
        message = f"the text is not UTF-8: {_encoding_guess(content)}"
        fault = DocumentFault("bad_encoding", message, Span(0, 1), hint="save the file as UTF-8")
        raise DocumentError(Source(name, text.replace("\0", "")), (fault,))
    return text


def _encoding_guess(content: bytes) -> str:
    if content[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\0" in content[:4]:
        return "it looks like UTF-16 or UTF-32"
    return "it looks like Latin-1, Windows-1252 or no text at all"


def read_document_file(
    path: Path, *, limits: ReadLimits = DEFAULT_LIMITS, named_from: Path | None = None
) -> Document:
    """Read a file of JSON, YAML or TOML.

    Args:
        path: The file.
        limits: How much is read.
        named_from: The folder from which a document names the file: a hint gives paths to write
            there.

    Raises:
        DocumentError: the file cannot be read, or is no such document.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from wavewright.config import read_document_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "settings.toml"
    ...     _ = file.write_text("concurrency = 4")
    ...     read_document_file(file).value
    {'concurrency': 4}
    """
    return read_document(read_bytes(path, limits, named_from), str(path), limits=limits)


def read_bytes(
    path: Path, limits: ReadLimits = DEFAULT_LIMITS, named_from: Path | None = None
) -> bytes:
    """Return the content of a file, one byte more than the limit at most; the arguments are those of
    `read_document_file`.

    Raises:
        DocumentError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(limits.max_bytes + 1)
    except (OSError, ValueError) as error:
        fault = DocumentFault("unreadable_file", *_file_error(path, error, named_from))
        raise DocumentError(Source(str(path), ""), (fault,)) from error


def _file_error(
    path: Path, error: OSError | ValueError, named_from: Path | None
) -> tuple[str, None, str, str | None]:
    """Return message, span, pointer and hint."""
    hint: str | None = None
    if isinstance(error, FileNotFoundError):
        message = f"there is no file {str(path)!r}"
        hint = _similar_files(path, named_from)
    elif isinstance(error, IsADirectoryError):
        message = f"{str(path)!r} is a folder"
        hint = _list_folder(path, named_from)
    elif isinstance(error, PermissionError):
        message = f"{str(path)!r} may not be read"
        hint = "give yourself permission to read it"
    else:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"{str(path)!r} cannot be read: {reason}"
    return message, None, "", hint


def _similar_files(path: Path, named_from: Path | None) -> str | None:
    try:
        if not path.parent.is_dir():
            return f"there is no folder {str(path.parent)!r} either"
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return None
    near = [
        _quoted_path(path.parent / name, named_from) for name in similar_names(path.name, names, 3)
    ]
    return f"did you mean {' or '.join(near)}?" if near else None


def _quoted_path(path: Path, named_from: Path | None) -> str:
    return repr(str(path) if named_from is None else os.path.relpath(path, named_from))


def _list_folder(path: Path, named_from: Path | None) -> str:
    try:
        names = sorted(
            entry.name for entry in path.iterdir() if entry.suffix in {".json", *_YAML_SUFFIXES}
        )
    except OSError:
        names = []
    some = ", ".join(_quoted_path(path / name, named_from) for name in names[:3])
    return f"name a file in it, such as {some}" if some else "name a file of JSON or YAML"


StrictJsonKind: TypeAlias = Literal["duplicate_key", "nonfinite_number", "number_out_of_range"]

_LONG_INTEGER: Final = re.compile(r"[0-9]{16}")
UNSTORABLE_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
"""Matches every text that may decode to NUL or half a surrogate pair."""


class StrictJsonError(WavewrightError):
    """A text that the decoder accepts, and JSON or this project does not."""

    def __init__(self, kind: StrictJsonKind, message: str) -> None:
        super().__init__(message)
        self.kind: StrictJsonKind = kind


def decode_strict_json(text: str) -> JsonValue:
    """Return the value of a text.

    Raises:
        StrictJsonError: an object has a name twice, or readers disagree on the value of a number.
        json.JSONDecodeError: it is not JSON.
        RecursionError: it is nested too deeply for the interpreter.
    """
    value: JsonValue = (_decode_long if _LONG_INTEGER.search(text) else _decode_short)(text)
    return value


def is_deeper(value: JsonValue, limit: int) -> bool:
    """Whether lists and objects are nested more than `limit` deep."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return bool(level)


def _constant(_name: str) -> NoReturn:
    raise StrictJsonError(
        "nonfinite_number", "NaN and Infinity are no JSON; write null where there is no number"
    )


def _integer(digits: str) -> int:
    # The length is looked at first: converting 200,000 digits takes seconds, and Python refuses.
    number = int(digits) if len(digits) <= 17 else MAX_EXACT_INTEGER + 1
    if -MAX_EXACT_INTEGER <= number <= MAX_EXACT_INTEGER:
        return number
    raise StrictJsonError(
        "number_out_of_range", "an integer is beyond 2^53 - 1; write an identifier as a string"
    )


def _fraction(digits: str) -> float:
    number = float(digits)
    if math.isfinite(number):
        return number
    raise StrictJsonError("nonfinite_number", "a number is too large and would become infinite")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise StrictJsonError(
            "duplicate_key", "an object has the same name twice, so readers disagree on its value"
        )
    return value


_decode_short = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_fraction, parse_constant=_constant
).decode
"""For texts without an integer that could be too large, nearly all: the hook takes half of the
time.
"""
_decode_long = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
).decode
