"""The page of a dry run: what stands in it, and how it is used, in a real browser without a
network.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.dry_run import TOOLS, record_of
from benchmarks.shapes import SHAPES, plan_of
from tests.engine.conftest import REPOSITORY, CommandLine
from tests.reviewer.report.test_page_in_chromium import CHROMIUM, Visit, first_pixel, visit
from wavewright.engine.rehearsal.dry_run.page import (
    BOX_HEIGHT,
    dry_run_page,
    layout_plan,
    step_reports,
)
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
    return dry_run_page(record_of(plan_of(SHAPES[shape](1_000))), TOOLS)


def digests(kind: str, text: str) -> set[str]:
    found = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
    return {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found}


def driven(page: Path, program: str, *flags: str) -> Visit:
    """Return a visit of a page that a program uses as a reader would; it says what it sees by
    `say`.
    """
    script = (
        "const $ = (id) => document.getElementById(id); const said = [];\n"
        "const say = (what) => said.push(what);\n"
        'const box = (id) => [...document.querySelectorAll(".node")].find((node) => node.textContent.startsWith(id));\n'
        'const press = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));\n'
        "const point = (node, kind, x, y) => node.dispatchEvent(\n"
        "  new PointerEvent(kind, {clientX: x, clientY: y, button: 0, bubbles: true}));\n"
        "const click = (node) => { const at = node.getBoundingClientRect();\n"
        '  for (const kind of ["pointerdown", "pointerup"]) point(node, kind, at.x + 5, at.y + 5); };\n'
        'const chosen = () => document.querySelector("aside h2")?.textContent ?? "none";\n'
        f"{program}\n"
        'document.title = "said " + JSON.stringify(said);'
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = page.read_text(encoding="utf-8")
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    return visit(page, page.parent, *flags)


def said(seen: Visit) -> list[object]:
    found = re.search(r"<title>said (.*?)</title>", seen.html)
    assert found, seen.console
    answer: list[object] = json.loads(html.unescape(found[1]))
    return answer


def test_the_browser_may_run_and_apply_just_what_the_page_was_made_with(page: Path) -> None:
    text = page.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in html.unescape(policy[1]).split(";"))

    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digests('script', text).pop()}'",
        "style-src": f"'sha256-{digests('style', text).pop()}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert not re.search(r"\s(?:style|on\w+)=", text)


def test_what_a_reader_without_scripts_needs_stands_in_the_page(page: Path) -> None:
    text = page.read_text()

    for step in ("prices", "index", "summary"):
        assert f'<a href="#step-{step}">{step}</a>' in text
    assert text.count('class="node') == 4
    assert "has not run" in text


@needs_chromium
@needs_time
def test_the_browser_has_nothing_to_complain_of_and_shows_the_step_of_the_address(
    page: Path,
) -> None:
    seen = visit(page, page.parent, fragment="#step-prices")
    panel = re.search(r"<aside.*?</aside>", seen.html, re.DOTALL)
    assert panel is not None
    text = html.unescape(re.sub(r"<[^>]+>", "\n", panel[0]))

    assert (seen.console, seen.requests) == ("", ())
    for word in (
        "prices",
        "fetch_stock_data, once an item: 5",
        "p90",
        "the tool's own figure",
        '"code": "${item.code}"',
        "code: string",
        "current_price: number",
        "fresh",
        "Read or waited for by",
        "summary",
    ):
        assert word in text


@needs_chromium
@needs_time
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
    seen = visit(page, project, fragment="#step-a")
    panel = re.search(r"<aside.*?</aside>", seen.html, re.DOTALL)

    assert panel is not None
    assert "a person is asked when it is ready" in panel[0]
    assert "asked when ready, for 1 step" in wavewright("dry-run", "plan.yaml").out


@needs_chromium
@needs_time
def test_a_step_is_chosen_by_a_click_and_by_keys(page: Path) -> None:
    seen = driven(
        page,
        """
        say(chosen());
        click(box("prices")); say(chosen()); say(location.hash);
        say(document.querySelectorAll("#chosen path").length > 0);
        press(box("prices"), "ArrowRight"); say(chosen()); say(document.activeElement === box("summary"));
        press(box("summary"), "ArrowLeft"); say(chosen() !== "summary");
        press(box("summary"), "Home"); say(chosen()); press(box("prices"), "Escape"); say(chosen());
        say([...document.querySelectorAll(".node")].filter((node) => node.tabIndex === 0).length);
        box("summary").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true})); say(chosen());
        const links = [...document.querySelectorAll("aside button")];
        links.find((each) => each.textContent === "prices").click(); say(chosen());
        """,
    )
    *answers, last = said(seen)

    assert seen.console == ""
    assert answers[:7] == ["none", "prices", "#step-prices", True, "summary", True, True]
    assert answers[8:] == ["none", 1, "summary"]
    assert last == "prices"


@needs_chromium
@needs_time
def test_the_graph_is_zoomed_and_moved(page: Path) -> None:
    seen = driven(
        page,
        """
        const view = () => $("graph").getAttribute("viewBox").split(" ").map(Number);
        const [x, , wide] = view();
        $("in").click(); say(view()[2] < wide);
        $("out").click(); say(Math.abs(view()[2] - wide) < 1);
        $("graph").dispatchEvent(new WheelEvent("wheel", {deltaY: -300, ctrlKey: true, clientX: 200, clientY: 400}));
        say(view()[2] < wide); $("fit").click(); say(Math.abs(view()[2] - wide) < 1);
        $("graph").dispatchEvent(new WheelEvent("wheel", {deltaY: -300})); say(Math.abs(view()[2] - wide) < 1);
        point($("graph"), "pointerdown", 300, 400);
        for (const kind of ["pointermove", "pointerup"]) point(window, kind, 200, 400);
        say(view()[0] > x); say(chosen());
        $("full").click(); say(Math.round($("graph").getScreenCTM().a * 100) / 100);
        """,
    )

    assert seen.console == ""
    assert said(seen) == [True, True, True, True, True, True, "none", 1]


@needs_chromium
@needs_time
def test_steps_are_found_by_name_and_by_tool(page: Path) -> None:
    seen = driven(
        page,
        """
        const search = $("search");
        search.value = "FETCH_"; search.dispatchEvent(new Event("input"));
        say(document.querySelectorAll(".found").length);
        search.value = "summ"; search.dispatchEvent(new Event("input")); press(search, "Enter"); say(chosen());
        search.value = ""; search.dispatchEvent(new Event("input")); say(document.querySelectorAll(".found").length);
        """,
    )

    assert said(seen) == [3, "summary", 0]


@needs_chromium
@needs_time
def test_a_script_that_was_changed_is_not_run(page: Path) -> None:
    page.write_text(
        page.read_text().replace('"use strict";', '"use strict"; document.title = "changed";')
    )
    seen = visit(page, page.parent)

    assert "Content Security Policy" in seen.console
    assert "changed</title>" not in seen.html


@needs_chromium
@needs_time
def test_hostile_text_does_nothing(tmp_path: Path) -> None:
    step = {"id": "a", "tool": "add", "why": HOSTILE, "params": {"x": 1, HOSTILE: HOSTILE}}
    record = record_of(Plan.model_validate({"steps": [{**step, "params": {"x": 1}}]}))
    path = tmp_path / "page.html"
    hostile = TOOLS["add"].model_copy(update={"description": HOSTILE})
    path.write_text(dry_run_page(record, {"add": hostile}), encoding="utf-8")
    seen = visit(path, tmp_path, fragment="#step-a")

    assert (seen.console, seen.requests) == ("", ())
    assert "img" not in {name for name, _ in seen.page.elements}
    assert HOSTILE.replace("\u2028", "") in seen.page.text.replace("\u2028", "")


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
    seen = driven(
        page,
        'click(box("prices")); say(window.innerWidth); say(document.documentElement.scrollWidth <= window.innerWidth);',
        f"--window-size={wide},900",
    )

    assert said(seen) == [wide, True]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_page_of_a_thousand_steps_is_small(shape: str) -> None:
    assert len(large(shape).encode()) < 2_000_000


@pytest.mark.parametrize("shape", SHAPES)
def test_the_picture_of_a_thousand_steps_has_the_form_of_a_screen_and_no_box_on_another(
    shape: str,
) -> None:
    picture = layout_plan(step_reports(record_of(plan_of(SHAPES[shape](1_000)))))
    columns: dict[float, list[float]] = {}
    for box in picture.nodes:
        columns.setdefault(box.x, []).append(box.y)

    assert 0.8 < picture.width / picture.height < 3
    assert len(picture.nodes) == 1_000
    assert all(
        below - above >= BOX_HEIGHT
        for ys in columns.values()
        for above, below in pairwise(sorted(ys))
    )
    assert all(right - left >= picture.nodes[0].width for left, right in pairwise(sorted(columns)))


@needs_chromium
@needs_time
def test_a_thousand_steps_open_and_one_is_found_among_them(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(large("layered"), encoding="utf-8")
    seen = driven(
        path,
        """
        say($("graph").classList.contains("far"));
        $("search").value = "s777"; $("search").dispatchEvent(new Event("input")); press($("search"), "Enter");
        say(chosen()); say($("graph").classList.contains("far")); say(document.querySelectorAll("#chosen path").length);
        const at = box("s777").getBoundingClientRect(), all = $("graph").getBoundingClientRect();
        say(at.left > all.left && at.right < all.right && at.top > all.top && at.bottom < all.bottom);
        """,
    )

    assert (seen.console, seen.requests) == ("", ())
    assert said(seen) == [True, "s777", False, 4, True]
