"""The report in a real browser, opened from disk."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.reviewer.example_package import example_package, example_package_with_models
from tests.reviewer.report.page_reader import FoundPage, read_page
from tests.reviewer.report.test_page import PAYLOADS, poisoned
from wavewright.planner.types import Json, StepId
from wavewright.reviewer import Package, write_report
from wavewright.reviewer.records import OutputDocument

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true",
    reason="no Chromium on this machine: `apt-get install chromium` brings one",
)


@dataclass(frozen=True)
class Visit:
    """What a browser made of a file."""

    page: FoundPage
    html: str
    console: str
    requests: tuple[str, ...]


def visit(file: Path, folder: Path, *flags: str, fragment: str = "") -> Visit:
    """Open a file in a headless Chromium with a profile of its own and wait until it has been laid
    out.
    """
    assert CHROMIUM is not None, "CI has to bring a Chromium"
    net_log = folder / "net.json"
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={net_log}",
        "--enable-logging=stderr",
        "--dump-dom",
        *flags,
        file.as_uri() + fragment,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return Visit(read_page(done.stdout), done.stdout, console, _requests(net_log))


def _requests(net_log: Path) -> tuple[str, ...]:
    """Return the addresses that a page asked for; what the browser asks of its own accord has no
    origin.
    """
    log = json.loads(net_log.read_text(encoding="utf-8"))
    kind = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = [
        event["params"]
        for event in log["events"]
        if event["type"] == kind and "url" in event.get("params", {})
    ]
    return tuple(each["url"] for each in asked if each.get("initiator") != "not an origin")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """The report of the example package, opened."""
    folder = tmp_path_factory.mktemp("report")
    return visit(write_report(example_package_with_models(), folder), folder)


def test_the_browser_has_nothing_to_complain_of_and_asks_nobody(opened: Visit) -> None:
    assert opened.console == ""
    assert opened.requests == ()


def test_the_browser_finds_every_step_as_a_box_a_bar_and_a_row(opened: Visit) -> None:
    steps = [entry.id for entry in example_package().execution_log]

    for number, step in enumerate(steps):
        assert f"step-{number}" in opened.page.ids
        assert opened.page.links.count(f"#step-{number}") == 2
        assert step in opened.page.text
    assert opened.html.count('class="line c') == 2 * 3


@pytest.mark.parametrize(
    ("scheme", "paper"), [("1", (245, 244, 240)), ("0", (19, 19, 17))], ids=["light", "dark"]
)
def test_the_browser_applies_the_style_sheet(
    tmp_path: Path, scheme: str, paper: tuple[int, int, int]
) -> None:
    path, shot = write_report(example_package(), tmp_path), tmp_path / "shot.png"
    visit(path, tmp_path, f"--screenshot={shot}", f"--blink-settings=preferredColorScheme={scheme}")

    assert first_pixel(shot.read_bytes()) == paper


def first_pixel(png: bytes) -> tuple[int, int, int]:
    """Return the colour in the upper left corner: there, every filter of the format leaves it as it
    is.
    """
    packed, place = b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            packed += png[place + 8 : place + 8 + length]
        place += 12 + length
    red, green, blue = zlib.decompressobj().decompress(packed, 4)[1:4]
    return red, green, blue


def test_a_thing_in_the_picture_of_a_large_graph_leads_to_its_quotes(tmp_path: Path) -> None:
    evidence: list[Json] = [{"quote": "Aldo <b>rules</b> Fenmoor.", "source": "keep.md"}]
    nodes: list[Json] = [
        {"id": "aldo", "label": "Aldo", "origin": "agent", "evidence": evidence},
        {"id": "fenmoor", "label": "Fenmoor", "origin": "forced"},
    ]
    others: list[Json] = [
        {"id": f"keeper {one}", "label": f"Keeper {one}", "origin": "generated"}
        for one in range(198)
    ]
    nodes.extend(others)
    edges: list[Json] = [{"from": "aldo", "to": "fenmoor", "label": "rules"}]
    drawn = OutputDocument(
        step=StepId("graph"),
        id="graph",
        title="Graph",
        markdown="Two entities.",
        content={"graph": {"nodes": nodes, "edges": edges}},
        is_result=True,
    )
    package = example_package().model_copy(update={"documents": (drawn,)})
    path = write_report(package, tmp_path)

    closed = visit(path, tmp_path)
    [link] = [one for one in closed.page.links if one.startswith("#quotes-")]
    dark_phone = ("--window-size=400,800", "--blink-settings=preferredColorScheme=0")
    shown = visit(path, tmp_path, *dark_phone, fragment=link)

    assert closed.console == shown.console == ""
    assert "<details><summary>Evidence of what is drawn" in closed.html
    assert '<details open=""><summary>Evidence of what is drawn' in shown.html
    assert "“Aldo <b>rules</b> Fenmoor.”" in shown.page.text


def test_a_page_that_does_ask_somebody_and_complains_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<img src="http://127.0.0.1:9/x.png"><script>console.error("noticed")</script>')
    seen = visit(page, tmp_path)

    assert seen.requests == ("http://127.0.0.1:9/x.png",)
    assert "noticed" in seen.console


def test_hostile_text_does_nothing_in_the_browser(tmp_path: Path) -> None:
    payload = "\n\n".join(PAYLOADS)
    package = example_package_with_models()
    hostile = Package.model_validate(poisoned(package.model_dump(mode="json"), payload))
    seen = visit(write_report(hostile, tmp_path), tmp_path)
    names = {name for name, _attributes in seen.page.elements}

    assert seen.console == ""
    assert seen.requests == ()
    assert not names & {"script", "iframe", "img", "math", "animate", "form"}
