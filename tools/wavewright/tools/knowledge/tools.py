"""The tools of the pack, but for the worker `extract_chunk`."""

from __future__ import annotations

from pathlib import Path

from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import Tool
from wavewright.tools.knowledge.documents import DocumentReader
from wavewright.tools.knowledge.settings import KnowledgeSettings


def knowledge_tools(settings: KnowledgeSettings, root: Path) -> tuple[Tool, ...]:
    """Return the tools; paths in the settings are relative to `root`."""
    reader = DocumentReader(settings, root / Path(settings.documents).expanduser())
    return (
        make_tool(
            reader.read_documents,
            name="knowledge.read_documents",
            effects={"read", "egress"},
            tags={"data"},
            untrusted_output=True,
            timeout="30m",
            expected_seconds=5.0,
            settings=settings.model_dump(mode="json"),
        ),
    )
