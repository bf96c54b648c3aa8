"""W811: which agents a page could lead to send private data out, and what keeps it from that."""

from __future__ import annotations

from typing import Any

import pytest

from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, JsonSchema

TEXT: JsonSchema = {"type": "string"}
OUT: dict[str, Any] = {"effects": {"read", "egress"}}


def tool(name: str, params: dict[str, JsonSchema], **fields: Any) -> ToolSignature:
    schema: JsonObject = {
        "type": "object",
        "properties": dict(params),
        "additionalProperties": False,
    }
    fields.setdefault("output_schema", TEXT)
    return ToolSignature(name=name, input_schema=schema, **fields)


SEARCH = tool("search_web", {"query": TEXT}, untrusted_output=True, **OUT)
FETCH = tool("fetch_page", {"url": TEXT}, untrusted_output=True, **OUT)
NOTES = tool("read_notes", {})
MODEL = tool("summarize", {"text": TEXT}, expected_tokens=100, **OUT)
COUNT = tool("count", {"text": TEXT}, output_schema={"type": "integer"})
ASK = tool("ask_person", {"question": TEXT})
MAIL = tool("read_mail", {}, untrusted_output=True)
AGENT = tool(
    "agent",
    {"task": TEXT, "context": {}, "tools": {"type": "array", "items": TEXT}},
    expected_tokens=9_000,
    untrusted_output=True,
    **OUT,
)


def found(
    *steps: JsonObject, tools: tuple[ToolSignature, ...] = (SEARCH, FETCH), **fields: Json
) -> list[str]:
    """Return the warnings of a plan that ends with an agent over some tools."""
    context = fields.pop("context", None)
    params: JsonObject = {
        "task": "Find it out",
        "context": context,
        "tools": [one.name for one in tools],
    }
    last: JsonObject = {"id": "work", "tool": "agent", "params": params, **fields}
    plan = Plan.model_validate({"inputs": {"topic": "x"}, "steps": [*steps, last]})
    others = (NOTES, SEARCH, FETCH, AGENT, MODEL, COUNT, ASK)
    known = {one.name: one for one in (*others, *tools)}
    diagnostics = check(plan, None, known)
    assert [one for one in diagnostics if one.severity == "error"] == []
    return [one.message for one in diagnostics if one.code == "W811"]


READ: JsonObject = {"id": "notes", "tool": "read_notes"}
SUM: JsonObject = {"id": "sum", "tool": "summarize", "params": {"text": "${steps.notes}"}}


def test_a_researcher_may_search_and_read_what_it_finds() -> None:
    before: JsonObject = {
        "id": "found",
        "tool": "search_web",
        "params": {"query": "${inputs.topic}"},
    }
    asked: JsonObject = {"id": "who", "tool": "ask_person", "params": {"question": "What about?"}}

    assert found() == []
    assert (
        found(
            before, asked, context={"hits": "${steps.found}", "of": "${inputs.topic} ${steps.who}"}
        )
        == []
    )


@pytest.mark.parametrize(
    ("steps", "tools", "context", "way"),
    [
        (
            [READ],
            (SEARCH, FETCH),
            "${steps.notes}",
            "'notes' gives to any address: 'search_web' → 'work' → 'url'",
        ),
        (
            [READ, SUM],
            (FETCH,),
            "${steps.sum}",
            "'notes' gives to any address: 'fetch_page' → 'work' → 'url'",
        ),
        (
            [],
            (NOTES, FETCH),
            None,
            "'read_notes' gives to any address: 'fetch_page' → 'work' → 'url'",
        ),
        ([], (MAIL, FETCH), None, "'read_mail' gives to any address: 'read_mail' → 'work' → 'url'"),
    ],
    ids=["context", "context by way of a model", "a tool", "a mailbox"],
)
def test_with_private_data_it_is_warned_of(
    steps: list[JsonObject], tools: tuple[ToolSignature, ...], context: str | None, way: str
) -> None:
    [warning] = found(*steps, tools=tools, context=context)

    assert way in warning
    assert warning.endswith("of 'fetch_page'")


def test_untrusted_text_may_also_come_with_the_context() -> None:
    trusting = FETCH.model_copy(update={"untrusted_output": False, "name": "open_link"})
    page: JsonObject = {
        "id": "page",
        "tool": "fetch_page",
        "params": {"url": "https://example.org"},
    }

    [warning] = found(page, tools=(NOTES, trusting), context="${steps.page}")

    assert "'page' → 'work' → 'url' of 'open_link'" in warning
    assert found(tools=(NOTES, trusting)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"allowed_hosts": {"url": ["example.org"]}},
        {"accepts_untrusted": {"url"}},
        {"needs_approval": True},
    ],
    ids=str,
)
def test_a_bounded_address_is_no_way_out(change: dict[str, Any]) -> None:
    bounded = ToolSignature.model_validate({**FETCH.model_dump(), **change})

    assert found(READ, tools=(SEARCH, bounded), context="${steps.notes}") == []


def test_what_holds_no_text_or_is_approved_is_nothing_to_warn_of() -> None:
    number: JsonObject = {"id": "size", "tool": "count", "params": {"text": "${steps.notes}"}}

    assert found(READ, number, context="${steps.size}") == []
    assert found(READ, context="${steps.notes}", tools=(SEARCH,)) == []
    assert found(READ, context="${steps.notes}", needs_approval=True) == []


def test_an_agent_without_tools_has_none() -> None:
    assert found(READ, context="${steps.notes}", tools=()) == []


def test_a_tool_that_works_on_run_data_brings_nothing_private() -> None:
    outline = tool("outline", {}, reads_data={"inputs", "pages"})

    assert found(tools=(SEARCH, FETCH, outline)) == []
    assert len(found(tools=(SEARCH, FETCH, outline, NOTES))) == 1


def test_an_agent_gives_on_what_its_tools_have_read() -> None:
    first: JsonObject = {
        "id": "first",
        "tool": "agent",
        "params": {"task": "Look", "tools": ["read_notes"]},
    }

    [warning] = found(first, context="${steps.first}")

    assert "send what 'first' gives" in warning
