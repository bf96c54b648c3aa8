"""The page of a dry run: what stands in it, and how a real browser without a network shows it."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path

import pytest

from benchmarks.dry_run import record_of
from benchmarks.shapes import SHAPES, plan_of
from tests.engine.conftest import REPOSITORY, CommandLine
from tests.reviewer.report.test_page_in_chromium import CHROMIUM, first_pixel, visit
from wavewright.engine.rehearsal.dry_run.page import dry_run_page
from wavewright.planner.language.plan import Plan

STOCKS = REPOSITORY / "plans" / "stocks.job.yaml"
HOSTILE = "</script><img src=http://127.0.0.1:9/x.png onerror=alert(1)><!--&\u2028"

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
needs_time = pytest.mark.timeout(120)


@pytest.fixture
def page(wavewright: CommandLine, tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    assert wavewright("dry-run", STOCKS, "--format", "html", "--output", path).code == 0
    return path


def large(shape: str) -> str:
    return dry_run_page(record_of(plan_of(SHAPES[shape](1_000))))


def digests(kind: str, text: str) -> set[str]:
    found = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
    return {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found}


def test_the_browser_may_apply_just_the_style_that_the_page_was_made_with(page: Path) -> None:
    text = page.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in html.unescape(policy[1]).split(";"))

    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digests('style', text).pop()}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert "<script" not in text
    assert not re.search(r"\s(?:style|on\w+)=", text)


def test_each_box_of_the_graph_leads_to_the_row_of_its_step(page: Path) -> None:
    text = page.read_text()

    assert text.count('class="node') == 4
    for step in ("prices", "index", "summary"):
        assert f'<a href="#step-{step}"' in text
        assert f'<tr id="step-{step}">' in text
    assert text.count('class="edge critical"') == 1


@needs_chromium
@needs_time
def test_the_browser_has_nothing_to_complain_of_and_a_row_has_the_details_of_its_step(
    page: Path,
) -> None:
    seen = visit(page, page.parent, fragment="#step-prices")
    row = re.search(r'<tr id="step-prices">.*?</tr>', seen.html, re.DOTALL)
    assert row is not None
    text = html.unescape(re.sub(r"<[^>]+>", "\n", row[0]))

    assert (seen.console, seen.requests) == ("", ())
    for word in (
        "prices",
        "fetch_stock_data",
        "p90",
        "the tool's own figure",
        '"code": "${item.code}"',
        "fresh",
    ):
        assert word in text


def test_a_step_that_needs_approval_says_when_a_person_is_asked(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "wavewright.yaml").write_text(
        "tools: [{path: tools/notes.py, functions: {list_notes: {needs_approval: true}}}]\n"
    )
    (project / "plan.yaml").write_text(
        "steps: [{id: a, tool: list_notes, params: {folder: notes}}]\n"
    )
    page = project / "page.html"

    assert wavewright("dry-run", "plan.yaml", "--format", "html", "--output", page).code == 0
    assert "a person is asked when it is ready" in page.read_text()
    assert "asked when ready, for 1 step" in wavewright("dry-run", "plan.yaml").out


@needs_chromium
@needs_time
def test_hostile_text_does_nothing(tmp_path: Path) -> None:
    step = {
        "id": "a",
        "tool": "add",
        "why": HOSTILE,
        "params": {"x": 1},
        "when": f"'{HOSTILE}' != ''",
    }
    path = tmp_path / "page.html"
    path.write_text(
        dry_run_page(record_of(Plan.model_validate({"steps": [step]}))), encoding="utf-8"
    )
    seen = visit(path, tmp_path, fragment="#step-a")

    assert (seen.console, seen.requests) == ("", ())
    assert "img" not in {name for name, _ in seen.page.elements}
    assert HOSTILE.removesuffix("\u2028") in seen.page.text


@needs_chromium
@needs_time
@pytest.mark.parametrize(
    ("scheme", "paper"), [("1", (245, 244, 240)), ("0", (19, 19, 17))], ids=["light", "dark"]
)
def test_the_page_is_light_or_dark_as_the_reader_likes(
    page: Path, scheme: str, paper: tuple[int, int, int]
) -> None:
    shot = page.with_name("shot.png")
    visit(
        page, page.parent, f"--screenshot={shot}", f"--blink-settings=preferredColorScheme={scheme}"
    )

    assert first_pixel(shot.read_bytes()) == paper


@needs_chromium
@needs_time
@pytest.mark.parametrize("wide", [500, 1600])
def test_nothing_sticks_out_of_a_narrow_or_a_wide_window(page: Path, wide: int) -> None:
    script = (
        "const room = window.innerWidth, needed = document.documentElement.scrollWidth;"
        'document.title = `of ${room}: ${needed <= room ? "fits" : "sticks out"}`;'
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = page.read_text().replace("style-src ", f"script-src 'sha256-{digest}'; style-src ", 1)
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    seen = visit(page, page.parent, f"--window-size={wide},900")

    assert f"<title>of {wide}: fits</title>" in seen.html


@pytest.mark.parametrize("shape", SHAPES)
def test_the_page_of_a_thousand_steps_is_small(shape: str) -> None:
    assert len(large(shape).encode()) < 2_000_000


def test_a_plan_that_is_too_large_to_be_drawn_is_listed() -> None:
    text = dry_run_page(record_of(plan_of(SHAPES["layered"](1_001))))

    assert 'class="node' not in text
    assert text.count('<tr id="step-') == 1_001
