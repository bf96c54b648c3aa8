"""Diagnostics as SARIF 2.1.0, the form that editors and code hosts read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from wavewright.config.documents import Source
from wavewright.planner.catalogue import CATALOGUE
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.rendering import LineIndex
from wavewright.planner.types import Json, JsonObject

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(diagnostics: Sequence[Diagnostic], source: Source) -> str:
    """Return the diagnostics as the text of a SARIF log."""
    return json.dumps(sarif_log([(diagnostics, source)]), indent=2, ensure_ascii=False)


def sarif_log(found: Sequence[tuple[Sequence[Diagnostic], Source]]) -> JsonObject:
    """Return the diagnostics of any number of texts as one SARIF log; its rules are those that were broken."""
    codes = sorted({diagnostic.code for diagnostics, _ in found for diagnostic in diagnostics})
    results: list[Json] = []
    for diagnostics, source in found:
        lines = LineIndex(source)
        results += [_result(diagnostic, codes, lines) for diagnostic in diagnostics]
    rules: list[Json] = [_rule(code) for code in codes]
    driver: JsonObject = {"name": "wavewright", "rules": rules}
    run: JsonObject = {
        "tool": {"driver": driver},
        # Columns are counted in characters, as everywhere else in this project, not in UTF-16 units.
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> JsonObject:
    entry = CATALOGUE[code]
    return {
        "id": code,
        "name": entry.kind,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.meaning},
        "help": {"text": entry.fix},
        "defaultConfiguration": {"level": entry.severity},
    }


def _result(diagnostic: Diagnostic, codes: list[str], lines: LineIndex) -> JsonObject:
    hint = f"\nHelp: {diagnostic.hint}" if diagnostic.hint else ""
    location: JsonObject = {"physicalLocation": _physical(diagnostic, lines)}
    if diagnostic.pointer:
        location["logicalLocations"] = [{"fullyQualifiedName": diagnostic.pointer, "kind": "value"}]
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": diagnostic.severity,
        "message": {"text": f"{diagnostic.message}{hint}"},
        "locations": [location],
    }


def _physical(diagnostic: Diagnostic, lines: LineIndex) -> JsonObject:
    physical: JsonObject = {"artifactLocation": {"uri": _uri(lines.source.name)}}
    if diagnostic.span is not None:
        place = lines.locate(diagnostic.span)
        physical["region"] = {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        }
    return physical


def _uri(name: str) -> str:
    path = Path(name)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
