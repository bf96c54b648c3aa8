"""The pack `equities`: stock prices, benchmarks, announcements, and an analysis that code computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.tools import Pack, validated_settings

if TYPE_CHECKING:
    from wavewright.planner import JsonObject

__all__ = ["SETTINGS", "TOOL_NAMES", "pack"]

TOOL_NAMES = frozenset(
    {"analyze_summary", "fetch_announcements", "fetch_index_data", "fetch_stock_data", "search_web"}
)
"""Tools that the pack brings."""
SETTINGS = "wavewright.packs.equities.tools:EquitiesSettings"
"""Model of its settings."""


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack over these settings; paths in them are relative to `root`.

    Raises:
        PackError: a setting is unknown or has a wrong value.
    """
    # Imported here: a list of all packs asks for no more than their names of tools.
    from wavewright.packs.equities.conclusions import summary_worker
    from wavewright.packs.equities.tools import EquitiesSettings, equity_tools

    given = validated_settings("equities", EquitiesSettings, settings)
    tools = equity_tools(given, root)
    shown = given.conclusions
    return Pack(
        name="equities",
        tools=tools,
        workers=() if shown == "none" else (summary_worker(tools, shown),),
        description="Stock prices, benchmarks and announcements, and an analysis that code computes.",
    )
