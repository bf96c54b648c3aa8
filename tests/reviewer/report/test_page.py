from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.reviewer.example_package import example_package, example_package_with_models, example_run
from tests.reviewer.report.page_reader import FoundPage, read_page
from tests.reviewer.scripted_runs import Fails, plan_of, run_plan
from wavewright.planner.types import Json
from wavewright.reviewer import (
    Package,
    build_package,
    package_bytes,
    read_package,
    render_report,
    review_by_code,
    write_report,
)
from wavewright.reviewer.cost_records import Cost, NamedCost
from wavewright.reviewer.records import AttemptReport


def page_of(package: Package) -> FoundPage:
    return read_page(render_report(package))


def test_a_report_is_made_from_the_package_alone(tmp_path: Path) -> None:
    package = example_package()
    path = write_report(read_package(package_bytes(package)), tmp_path)

    assert path.read_text(encoding="utf-8") == render_report(package)


def test_a_report_tells_the_verdict_the_confidence_and_why_it_was_lowered() -> None:
    text = page_of(example_package()).text

    assert "Goal achieved" in text
    assert "0.80 confidence raw 0.91, lowered by 2 caps" in text
    assert "the plan is the goal template's own; no planner fitted it to this job" in text
    assert "Computed by code;" in text


def test_a_report_tells_where_each_field_of_the_result_comes_from() -> None:
    plan = plan_of({"id": "a"}, result={"price": "${steps.a}", "rate": 1.5})
    run = run_plan(plan, {"a": 3})
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    package = build_package(run.plan, run.goal, run.state, review, run.tools)
    text = page_of(package).text

    assert "price data of a" in text
    assert "rate written, not read written by the plan's author: 1.5" in text


def test_a_report_tells_what_stopped_a_run_and_what_would_mend_it() -> None:
    plan = plan_of(
        {"id": "a"}, gates=[{"id": "g", "on": "a", "check": "output > 1", "hint": "bring two"}]
    )
    run = run_plan(plan, {"a": 1})
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    text = page_of(build_package(run.plan, run.goal, run.state, review, run.tools)).text

    assert "Goal not achieved" in text
    assert "a: output > 1 is false (output = 1) (gate 'g')" in text
    assert "bring two" in text
    assert "stopped by a gate" in text


def test_every_link_on_a_report_leads_to_something_on_it_or_to_the_web_page_a_document_names() -> (
    None
):
    page = page_of(example_package())
    inside = [link.removeprefix("#") for link in page.links if link.startswith("#")]

    assert [link for link in page.links if not link.startswith("#")] == [
        "https://example.org/prices"
    ]
    assert len(inside) > 20
    assert set(inside) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_a_report_holds_no_script_no_frame_no_form_and_fetches_nothing() -> None:
    html = render_report(example_package())
    page = read_page(html)
    names = {name for name, _attributes in page.elements}

    assert not names & {
        "script",
        "iframe",
        "object",
        "embed",
        "form",
        "img",
        "link",
        "base",
        "audio",
        "video",
    }
    assert not any(
        attribute.startswith("on") or attribute in {"style", "srcset"}
        for _name, attribute in page.kinds
    )
    assert "url(" not in html
    assert "@import" not in html


def test_the_policy_allows_the_style_sheet_of_the_page_and_nothing_else() -> None:
    html = render_report(example_package())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode()

    assert policy.group(1).replace("&#39;", "'") == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )


PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><svg onload=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<svg><animate onbegin=alert(1) attributeName=x>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "javascript:alert(1)",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png) <https://evil.example/auto>",
    "![x][y]\n\n[y]: data:text/html,<script>alert(1)</script>",
    "{{ 7 * 7 }} {% raw %} ${steps.x}",
    "<!-- --!> <b>",
    "<math><mtext></mtext><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "\u202eevil\u202c \u2066x\u2069 \x1b[31mred\x1b[0m \x00 \x9b31m",
    "\ud800 lone",
]


def poisoned(value: Json, payload: str) -> Json:
    """Return a JSON value in which every free text is the payload."""
    kept = {
        "format", "status", "verdict", "severity", "kind", "action", "origin", "reviewer", "now", "tool_error",
        "error_kind", "rung", "outcome",
    }  # fmt: skip
    if isinstance(value, dict):
        return {
            key: entry if key in kept else poisoned(entry, payload) for key, entry in value.items()
        }
    if isinstance(value, list):
        dated = len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], float)
        return value if dated else [poisoned(entry, payload) for entry in value]
    return payload if isinstance(value, str) else value


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_text_from_tools_plans_and_models_is_words_and_never_markup(payload: str) -> None:
    package = example_package_with_models()
    body = package.model_dump(mode="json")
    hostile = Package.model_validate(poisoned(body, payload))
    harmless = page_of(package)
    page = page_of(hostile)
    new_kinds = page.kinds - harmless.kinds

    # A document's own Markdown may make a paragraph of it, and a link to the web where it names
    # one.
    assert {name for name, _attribute in new_kinds} <= {"p", "code", "pre", "em", "strong"}
    assert all(link.startswith(("#", "https://evil.example/")) for link in page.links)
    assert ("img", "src") not in page.kinds


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u200bb", "a\\u200bb"),
        ("\ud800", "\\ud800"),
        ("العربية", "العربية"),
    ],
)
def test_characters_that_disguise_a_text_are_shown_as_their_code_points(
    text: str, shown: str
) -> None:
    html = render_report(example_package().model_copy(update={"job": text}))

    assert f"<h1>{shown}</h1>" in html
    html.encode("utf-8")


def test_a_plan_of_85_steps_is_drawn_with_a_row_and_a_bar_for_each() -> None:
    steps = [{"id": f"s{n}", "depends_on": [f"s{n - 17}"] if n >= 17 else []} for n in range(85)]
    run = run_plan(plan_of(*json.loads(json.dumps(steps))), {f"s{n}": n + 1 for n in range(85)})
    package = build_package(run.plan, run.goal, run.state, None, run.tools)
    page = page_of(package)

    assert sum(1 for name in page.ids if name.startswith("step-")) == 85
    assert sum(1 for link in page.links if link == "#step-84") == 2


def test_a_plan_of_more_than_1000_steps_is_folded_by_wave() -> None:
    steps = [
        {"id": f"s{n}", "depends_on": [f"s{n - 510}"] if n >= 510 else []} for n in range(1020)
    ]
    run = run_plan(plan_of(*json.loads(json.dumps(steps))), {f"s{n}": n for n in range(1020)})
    html = render_report(build_package(run.plan, run.goal, run.state, None, run.tools))

    assert "1,020 steps, folded by wave" in html
    assert html.count('data-label="How they ended"><span class="pill s-ok">') == 2
    assert 'class="dag"' not in html


def test_a_result_that_is_a_text_is_shown_as_markdown_in_which_html_stays_a_text() -> None:
    package = example_package().model_copy(
        update={"documents": (), "result": "# Done\n\n**well** <b>x</b>"}
    )
    html = render_report(package)

    assert "<h3>Done</h3>" in html
    assert "<strong>well</strong> &lt;b&gt;x&lt;/b&gt;" in html


def test_a_run_that_has_no_end_yet_has_a_report_and_has_not_failed() -> None:
    run = run_plan(plan_of({"id": "a"}), {})
    events = run.events[:2]
    from wavewright.executor.events.state import fold

    package = build_package(run.plan, run.goal, fold(events), None, run.tools)

    assert package.status == "interrupted"
    assert package.warnings == ()
    assert "The run has no end yet" in page_of(package).text


def test_each_gate_is_shown_with_its_items_by_name() -> None:
    html = render_report(example_package())

    assert "fresh__prices" in html
    for code in ("GNP", "SKS", "XRO"):
        assert f'data-label="Item">{code}</th>' in html


def test_a_patch_is_shown_as_a_diff() -> None:
    run = example_run()
    package = build_package(run.plan, run.goal, run.state, None, run.tools)
    from wavewright.reviewer.records import PatchReport

    patch = PatchReport(
        round=1, reason="again", patch={}, diff="+ prices_2: fetch\n- old\nsteps 5 -> 6"
    )
    html = render_report(package.model_copy(update={"patches": (patch,)}))

    assert '<span class="added">+ prices_2: fetch</span>' in html
    assert '<span class="removed">- old</span>' in html


def test_failures_show_their_kind_message_and_hint() -> None:
    run = run_plan(
        plan_of({"id": "a"}), {"a": Fails("no such file", "tool", hint="name one that is there")}
    )
    text = page_of(build_package(run.plan, run.goal, run.state, None, run.tools)).text

    assert "tool no such file name one that is there" in text


def test_items_that_failed_are_shown_however_far_down_the_list_they_are() -> None:
    package = example_package()
    [call, *_] = package.calls
    calls = [
        call.model_copy(update={"index": index, "status": "failed" if index == 700 else "ok"})
        for index in range(1_000)
    ]
    attempt = AttemptReport(step=call.step, index=700, attempt=1, traceback="KeyError: 'price'")
    page = render_report(
        package.model_copy(update={"calls": tuple(calls), "failed_attempts": (attempt,)})
    )

    assert f"{call.step}/700" in page
    assert "some of its items failed" in page
    assert "KeyError: &#39;price&#39;" in page
    assert "1000 calls" in page
    assert "and 600 more; the package has all of them" in page


def test_a_result_that_no_document_tells_stands_open() -> None:
    package = example_package()
    bare = package.model_copy(update={"documents": ()})

    assert '<details class="card json" open>' in render_report(bare)
    assert '<details class="card json" open>' not in render_report(package)


def test_the_calls_of_a_run_are_listed_with_their_parameters() -> None:
    page = render_report(example_package())

    assert "<code>fetch_stock_data</code>" in page
    assert '<ul class="params"><li><code>code</code>' in page


def test_models_and_their_cost_are_shown_where_one_was_asked() -> None:
    page = page_of(example_package_with_models())

    assert "#models" in page.links
    assert (
        "5 calls (1 without an answer) of openai:gpt-5, openai-chat:local, 19.3 s added up"
        in page.text
    )
    assert "orchestrator 26,040, workers 9,700" in page.text
    assert "at least 0.0541 USD" in page.text
    assert "price unknown" in page.text
    assert "By rung planner llm 1" in page.text
    assert "planner repaired reached 0.95 the plan was repaired" in page.text
    assert "1 call by agents" in page.text
    assert "refetch on prices by run_shell : the goal does not allow this tool" in page.text


def test_calls_that_a_budget_refused_are_told_apart_from_those_without_an_answer() -> None:
    package = example_package_with_models()
    roles = (NamedCost(name="judge", cost=Cost(calls=5, unanswered=4, over_budget=3)),)
    uses = package.model_uses.model_copy(update={"roles": roles})

    page = page_of(package.model_copy(update={"model_uses": uses}))

    assert "judge 2 1 without an answer 3 over budget, never made" in page.text


def test_without_a_model_there_is_no_word_of_models() -> None:
    assert "#models" not in page_of(example_package()).links


def test_what_made_a_patch_is_shown() -> None:
    from wavewright.reviewer.records import PatchReport

    patches = [
        PatchReport(round=n, reason="again", patch={}, rung=rung)
        for n, rung in enumerate(("recipe", "model", None))
    ]
    text = page_of(example_package().model_copy(update={"patches": tuple(patches)})).text

    assert "Patch of round 0 from a recipe of the goal" in text
    assert "Patch of round 1 from a model" in text
