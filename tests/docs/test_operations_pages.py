"""The pages on log events and metrics name what there is, and nothing else."""

from __future__ import annotations

import re
from typing import get_args

from prometheus_client.parser import text_string_to_metric_families

from tests.repository.tree import ROOT
from wavewright.engine.interfaces.cli.service.worker_command import WorkerMetrics
from wavewright.engine.service.bus.faults import BrokerEvent
from wavewright.engine.service.operations.metrics import Metrics
from wavewright.packs.knowledge.graph.tools import GraphStageWritten, RelationsRetried
from wavewright.packs.lore.concluding import ConflictDetected
from wavewright.packs.web.pages import CrawlExecuted
from wavewright.packs.web.search import SearchExecuted
from wavewright.tools.workers.run import CallsNotRead

REFERENCE = ROOT / "docs" / "reference"


def test_every_event_of_the_log_has_its_row() -> None:
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "engine" / "wavewright").rglob("*.py")
        # Not the tools of a project, whose run data is written, nor what a trial tells its daemon.
        if "conformance" not in path.parts and not path.name.startswith("trial")
    )
    # What examples of docstrings write is no event of ours.
    code = re.sub(r"^ *(?:>>>|\.\.\.) .*$", "", code, flags=re.MULTILINE)
    page = (REFERENCE / "log-events.md").read_text(encoding="utf-8")

    said = set(re.findall(r'(?:\.write|\._write_line)\(\s*"([a-z_]+)"', code)) | set(
        get_args(BrokerEvent)
    )
    of_tools = (
        *(CallsNotRead, ConflictDetected, CrawlExecuted, SearchExecuted),
        *(GraphStageWritten, RelationsRetried),
    )
    said |= {event.event_name for event in of_tools}
    assert said == set(re.findall(r"^- `([a-z_]+)`", page, re.MULTILINE))


def test_every_metric_has_its_row() -> None:
    page = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    texts = (Metrics().text(), WorkerMetrics(slots=1).text())
    families = [
        family for text in texts for family in text_string_to_metric_families(text.decode())
    ]

    there = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    # When something began to be counted is no metric of ours.
    named = {name for name in there if not name.endswith("_created")}
    assert named == set(re.findall(r"^- `(wavewright_\w+)`", page, re.MULTILINE))
