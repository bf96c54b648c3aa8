"""The pack `lore`: a daemon that researches the zones of a game world, and the store of what was
accepted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.tools import Pack

if TYPE_CHECKING:
    from wavewright.planner import JsonObject

__all__ = ["SETTINGS", "TOOL_NAMES", "pack"]

TOOL_NAMES = frozenset(
    {
        "lore.assemble_package",
        "lore.crawl_webpage",
        "lore.cross_reference",
        "lore.discover_zones",
        "lore.extract_category",
        "lore.present_zone",
        "lore.research_topic",
        "lore.search",
        "lore.summarize_content",
        "lore.validate_package",
    }
)
"""Tools that the pack brings."""
SETTINGS = "wavewright.packs.lore.settings:LoreSettings"
"""Model of its settings."""


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack over these settings; paths in them are relative to `root`.

    Raises:
        PackError: a setting is unknown or has a wrong value.
    """
    # Imported here: a list of all packs asks for no more than their names of tools.
    from wavewright.packs.lore.messages import CONTRACT
    from wavewright.packs.lore.packages import validate_package_tool
    from wavewright.packs.lore.settings import (
        SHIPPED_SOURCES,
        SHIPPED_TOPICS,
        read_settings,
        read_tiers,
        read_topics,
        with_environment,
    )
    from wavewright.packs.lore.store.server import store_server
    from wavewright.packs.lore.tools import lore_agents, lore_tools

    given = read_settings(settings)
    tiers = read_tiers(
        root / Path(given.sources).expanduser() if given.sources else SHIPPED_SOURCES
    )
    topics = read_topics(root / Path(given.topics).expanduser() if given.topics else SHIPPED_TOPICS)
    return Pack(
        name="lore",
        tools=(*lore_tools(given, root, topics, tiers), validate_package_tool(tiers)),
        agents=lore_agents(len(topics)),
        description="Research of the zones of a game world.",
        messages=with_environment(CONTRACT, os.environ),
        mcp_servers={"lore-store": store_server(given.store, root)},
    )
