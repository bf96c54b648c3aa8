"""Signatures from a file, for checking a plan where the tools themselves are not installed."""

from __future__ import annotations

from pathlib import Path

from pydantic import RootModel

from wavewright.config.documents import read_document_file
from wavewright.planner.diagnostics.diagnostic import Diagnostic, PlanError, locate_diagnostics
from wavewright.planner.language.signatures import Tools, ToolSignature
from wavewright.planner.reading.reader import read_model


class _SignatureList(RootModel[list[ToolSignature]]):
    """A JSON or YAML list of `{name, description, input_schema, output_schema, effects}`."""


def read_tools_file(path: Path) -> Tools:
    """Return the signatures that a file lists, by name.

    Raises:
        DocumentError: the file is missing or is no document.
        PlanError: it is no list of signatures, or a name stands twice; each fault at its place.
    """
    document = read_document_file(path)
    read = read_model(document, _SignatureList)
    found: Tools = {}
    repeated: list[Diagnostic] = []
    for position, signature in enumerate(read.root):
        if signature.name in found:
            repeated.append(
                Diagnostic(
                    code="E103",
                    message=f"tool {signature.name!r} is listed twice",
                    pointer=f"/{position}/name",
                    hint="keep one signature for each tool",
                )
            )
        found[signature.name] = signature
    if repeated:
        raise PlanError(tuple(locate_diagnostics(repeated, document)), document.source)
    return found
