"""What an agent is given of the pages that were read."""

from __future__ import annotations

from wavewright.packs.lore.recording import SUMMARY, topic_texts
from wavewright.packs.lore.run_data import content_name
from wavewright.packs.lore.settings import DIRECT, SHIPPED_TOPICS, read_topics
from wavewright.tools import MemoryRunData

RESEARCH, OTHER = "npc_research", "lore_research"


def test_texts_stand_under_the_header_of_their_topic() -> None:
    data = MemoryRunData()
    data.write(content_name(RESEARCH), "a", {"url": "https://a.example/", "text": "Mara bakes."})
    data.write(content_name(OTHER), "b", {"url": "https://b.example/", "text": "Long ago."})
    data.write(content_name(DIRECT), "c", {"url": "https://c.example/", "text": "A map."})
    data.write(SUMMARY, OTHER, {"text": "An age ago.", "covers": ["b"]})

    texts = topic_texts(data, [RESEARCH, OTHER, DIRECT], read_topics(SHIPPED_TOPICS))

    assert texts == [
        {
            "section": "## Characters",
            "topic": RESEARCH,
            "url": "https://a.example/",
            "text": "Mara bakes.",
        },
        {"section": "## Lore and cosmology", "topic": OTHER, "summary": "An age ago."},
        {"topic": DIRECT, "url": "https://c.example/", "text": "A map."},
    ]
