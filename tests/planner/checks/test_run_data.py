"""Run data in the checker: untrusted text goes through it, and who reads it comes after who writes
it.
"""

from __future__ import annotations

from tests.planner.checks.test_safety import TEXT, TOOLS, tool
from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import JsonObject

DATA_TOOLS = {
    **TOOLS,
    **{
        one.name: one
        for one in (
            tool("crawl", {}, output_schema=TEXT, untrusted_output=True, writes_data={"pages"}),
            tool(
                "outline",
                {},
                output_schema=TEXT,
                reads_data={"inputs", "pages"},
                writes_data={"outlines"},
            ),
            tool("extend", {}, output_schema=TEXT, reads_data={"pages"}, writes_data={"pages"}),
            tool("conclude", {}, output_schema=TEXT, reads_data={"outlines"}),
        )
    },
}
CRAWL: JsonObject = {"id": "crawled", "tool": "crawl"}
OUTLINE: JsonObject = {"id": "outlined", "tool": "outline", "depends_on": ["crawled"]}
CONCLUDE: JsonObject = {"id": "concluded", "tool": "conclude", "depends_on": ["outlined"]}


def found(*steps: JsonObject) -> list[Diagnostic]:
    return list(check(Plan.model_validate({"steps": [*steps]}), None, DATA_TOOLS))


def test_untrusted_text_that_tools_pass_on_as_run_data_is_followed_over_several_steps() -> None:
    post: JsonObject = {
        "id": "posted",
        "tool": "post",
        "params": {"title": "x", "body": "${steps.concluded}"},
    }

    (fault,) = found(CRAWL, OUTLINE, CONCLUDE, post)

    assert (fault.code, fault.pointer) == ("E601", "/steps/3/params/body")
    assert "'crawl' → 'crawled' → 'outlined' → 'concluded' → 'body' of 'posted'" in fault.message


def test_data_of_steps_beside_a_step_does_not_reach_it() -> None:
    trusted: JsonObject = {"id": "outlined", "tool": "outline"}
    post: JsonObject = {
        "id": "posted",
        "tool": "post",
        "params": {"title": "x", "body": "${steps.outlined}"},
    }

    assert [one.code for one in found(CRAWL, trusted, post)] == ["W810"]


def test_a_reader_without_a_writer_before_it_is_a_warning_that_names_the_data() -> None:
    (warning,) = found(CRAWL, OUTLINE, {**CONCLUDE, "depends_on": ["crawled"]})

    assert (warning.code, warning.severity, warning.pointer) == ("W810", "warning", "/steps/2")
    assert "reads the run data 'outlines', which no step before it writes" in warning.message


def test_a_tool_that_also_writes_what_it_reads_needs_no_writer_before_it() -> None:
    assert found({"id": "extended", "tool": "extend"}) == []
