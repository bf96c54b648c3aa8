"""The permits of a plan: the least that it needs, no less and no more, and what a call may reach."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from wavewright.planner.checks.permits import (
    Permits,
    PermitSources,
    ReachKind,
    ToolPermit,
    excess,
    extended_permits,
    infer_permits,
    refused_value,
)
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Effect, Json, JsonObject


def tool(
    name: str, *effects: Effect, params: JsonObject | None = None, **fields: object
) -> ToolSignature:
    properties: JsonObject = params or {}
    return ToolSignature.model_validate(
        {
            "name": name,
            "effects": effects or ("read",),
            "input_schema": {"type": "object", "properties": properties},
            **fields,
        }
    )


TEXT: JsonObject = {"type": "string"}
TOOLS = {
    one.name: one
    for one in (
        tool("count", params={"items": {}}),
        tool("fetch", "read", "egress", params={"url": TEXT}),
        tool(
            "post",
            "egress",
            params={"url": TEXT, "payload": {}},
            allowed_hosts={"url": ["example.org"]},
        ),
        tool("load", params={"path": TEXT}),
        tool("mail", "egress", params={"to": TEXT, "text": TEXT}),
        tool("pay", "write", params={"iban": TEXT, "amount": {"type": "number"}}),
        tool("sort", params={"note": TEXT}, expected_tokens=100),
        tool("agent", params={"task": TEXT, "tools": {}}, expected_tokens=100),
    )
}


def step(name: str, tool: str, /, for_each: Json = None, **params: Json) -> JsonObject:
    found: JsonObject = {"id": name, "tool": tool, "params": params}
    return found if for_each is None else {**found, "for_each": for_each}


def permits(*steps: JsonObject, **fields: object) -> Permits:
    plan = Plan.model_validate({"version": 1, "steps": [*steps], **fields})
    sources = PermitSources({"sort": ["test:small", "test:other"]}, {"fetch": ["FETCH_TOKEN"]})
    return infer_permits(plan, None, TOOLS, sources)


def test_a_plan_without_steps_that_reach_anything_needs_its_tools_only() -> None:
    assert permits(step("n", "count", items=[1])) == Permits(
        tools={"count": ToolPermit(effects=("read",), because=("steps.n.tool",))}, calls=1
    )


@pytest.mark.parametrize(
    ("used", "kind", "name", "because"),
    [
        (
            step("a", "fetch", url="https://Example.org/x"),
            "hosts",
            "example.org",
            "steps.a.params.url",
        ),
        (step("a", "fetch", url="${inputs.u}"), "hosts", "docs.example", "steps.a.params.url"),
        (
            step("a", "fetch", url="https://example.org/${steps.b}"),
            "hosts",
            "example.org",
            "steps.a.params.url",
        ),
        (
            step("a", "fetch", url="https://example.org${steps.b}"),
            "hosts",
            "*",
            "steps.a.params.url",
        ),
        (step("a", "fetch", url="${steps.b}"), "hosts", "*", "steps.a.params.url"),
        (
            step("a", "fetch", ["https://x.example/"], url="${item}"),
            "hosts",
            "x.example",
            "steps.a.params.url",
        ),
        (step("a", "post", url="${steps.b}"), "hosts", "*.example.org", "steps.a.params.url"),
        (step("a", "load", path="notes/a.md"), "paths", "notes/a.md", "steps.a.params.path"),
        (step("a", "load", path="notes/${steps.b}"), "paths", "notes/", "steps.a.params.path"),
        (step("a", "load", path="${steps.b}"), "paths", "*", "steps.a.params.path"),
        (
            step("a", "mail", to="press@example.org", text=""),
            "recipients",
            "press@example.org",
            "steps.a.params.to",
        ),
        (step("a", "pay", iban="DE1", amount=1), "recipients", "DE1", "steps.a.params.iban"),
        (step("a", "sort", note=""), "models", "test:small", "steps.a.tool"),
        (step("a", "sort", note=""), "models", "test:other", "steps.a.tool"),
        (step("a", "fetch", url="https://example.org/"), "secrets", "FETCH_TOKEN", "steps.a.tool"),
        (step("a", "agent", task="", tools=["fetch"]), "hosts", "*", "steps.a.params.tools"),
    ],
)
def test_what_a_step_reaches_is_permitted_with_the_reference_that_forces_it(
    used: JsonObject, kind: str, name: str, because: str
) -> None:
    needed = permits(step("b", "count", items=[]), used, inputs={"u": "https://docs.example/"})
    entries: dict[str, tuple[str, ...]] = getattr(needed, kind)

    assert because in entries[name]


def test_a_name_of_let_is_what_it_stands_for() -> None:
    needed = permits(
        step("a", "fetch", url="${page}"),
        let={"page": "https://example.org/${inputs.x}"},
        inputs={"x": "y"},
    )

    assert set(needed.hosts) == {"example.org"}


def test_a_secret_input_is_named_where_it_is_read() -> None:
    plan = Plan.model_validate(
        {
            "version": 1,
            "inputs": {"pin": "1234", "free": "x"},
            "let": {"code": "${inputs.pin}"},
            "steps": [
                step("a", "count", items="${code}"),
                step("b", "count", items="${inputs.free}"),
            ],
        }
    )
    schema: JsonObject = {
        "type": "object",
        "properties": {"pin": {"type": "string", "format": "password"}, "free": TEXT},
    }
    goal = Goal(name="g", job="j", text="t", inputs=plan.inputs, inputs_schema=schema, tools=())

    assert infer_permits(plan, goal, TOOLS).secrets == {"inputs.pin": ("steps.a.params.items",)}


def test_the_fields_of_an_object_are_what_their_names_say() -> None:
    needed = permits(
        step(
            "a", "post", url="https://example.org/", payload={"to": "x@example.org", "body": "text"}
        )
    )

    assert (set(needed.hosts), set(needed.recipients)) == ({"example.org"}, {"x@example.org"})


@pytest.mark.parametrize(
    ("used", "most"),
    [
        (step("a", "count", items=1), 1),
        (step("a", "count", [1, 2, 3], items=1), 3),
        ({**step("a", "count", items=1), "retry": {"attempts": 4}}, 4),
        ({**step("a", "count", "${steps.b}", items=1), "max_items": 7}, 7),
        ({**step("a", "count", [1, 2, 3], items=1), "when": "item != 2"}, 2),
        ({**step("a", "count", [1, 2, 3], items=1), "when": "item in steps.b"}, 3),
    ],
)
def test_the_most_calls_are_those_of_all_items_and_attempts(used: JsonObject, most: int) -> None:
    assert permits(step("b", "count", items=[]), used).calls == 1 + most


@pytest.mark.parametrize(
    "never",
    [
        {"when": "false"},
        {"when": "inputs.go"},
        {"for_each": []},
        {"for_each": [1], "when": "item > 1"},
    ],
)
def test_a_step_that_is_known_to_call_nothing_needs_nothing(never: JsonObject) -> None:
    idle = step("idle", "count", items=[])
    used = {**step("a", "fetch", url="https://x.example"), **never}

    assert permits(idle, used, inputs={"go": False}) == permits(idle)


def test_an_item_that_is_left_out_is_no_beginning_of_a_text() -> None:
    used = step("a", "fetch", ["https://a.example", "https://b.example"], url="${item}/${steps.b}")

    needed = permits(step("b", "count", items=[]), {**used, "when": "index == 0"})

    assert set(needed.hosts) == {"a.example"}


USES: dict[str, Callable[[str], JsonObject]] = {
    "hosts": lambda value: step("used", "fetch", url=f"https://{value}.example/page"),
    "paths": lambda value: step("used", "load", path=f"notes/{value}"),
    "recipients": lambda value: step("used", "mail", to=value, text="x"),
    "models": lambda value: step("used", "sort", note=value),
    "secrets": lambda value: step("used", "fetch", url=f"https://{value}.example/page"),
}


@given(st.sampled_from(sorted(USES)), st.text("abcdef", min_size=1, max_size=6))
def test_a_plan_that_uses_a_permit_needs_it_and_one_that_does_not_has_none(
    kind: str, value: str
) -> None:
    idle = permits(step("idle", "count", items=[value]))
    used = permits(step("idle", "count", items=[value]), USES[kind](value))

    assert getattr(idle, kind) == {}
    assert getattr(used, kind) != {}
    assert excess(idle, used) == []
    assert kind.removesuffix("s") in {entry.kind for entry in excess(used, idle)}
    assert excess(used, extended_permits(idle, used)) == []


@given(
    kind=st.sampled_from(["hosts", "paths", "recipients"]),
    literal=st.text("ab/.:", max_size=8),
    later=st.text("ab/.@:\\", max_size=12),
)
def test_a_call_with_whatever_value_comes_is_permitted_by_what_was_inferred(
    kind: ReachKind, literal: str, later: str
) -> None:
    name, parameter = {
        "hosts": ("fetch", "url"),
        "paths": ("load", "path"),
        "recipients": ("mail", "to"),
    }[kind]
    start = f"https://{literal}" if kind == "hosts" else literal
    needed = permits(
        step("b", "count", items=[]), step("a", name, **{parameter: start + "${steps.b}"})
    )

    reason = refused_value(needed, TOOLS[name], {parameter: start + later})

    # A path may lead out of a known folder again: it is refused.
    leads_out = ".." in later or f"{literal[-1:]}{later[:1]}" == ".."
    assert not reason or (kind == "paths" and leads_out)


@pytest.mark.parametrize(
    ("name", "parameter", "value", "call", "is_permitted"),
    [
        ("load", "path", "./${steps.b}", "./a.md", True),
        ("load", "path", "../${steps.b}", "../a.md", True),
        ("load", "path", "../${steps.b}", "../../a.md", False),
        ("load", "path", "../shared/${steps.b}", "../shared/a.md", True),
        ("load", "path", "../shared/${steps.b}", "../shared/../a.md", False),
        ("load", "path", "notes/${steps.b}", "notes/.", True),
        ("load", "path", "//${steps.b}", "//a.md", True),
        ("fetch", "url", "https://me@x.example/${steps.b}", "https://me@x.example/a", True),
        ("fetch", "url", "https://x.example/${steps.b}", "https://x.example/a\\b", True),
        ("fetch", "url", "https:///${steps.b}", "https:///a", True),
        ("fetch", "url", "https://x.example:${1 + 1}/${steps.b}", "https://y.example:2/", False),
        ("fetch", "url", "${inputs.u + steps.b}", "https://docs.example/a", True),
        ("fetch", "url", "${inputs.u}${steps.b}", "https://other.example/", False),
        ("fetch", "url", "${steps.b ? 'https://x.example' : inputs.u}", "https://x.example", True),
        ("fetch", "url", "${steps.b ? 'https://x.example' : inputs.u}", "https://y.example", False),
        ("fetch", "url", "${['https://x.example'][steps.b]}", "https://y.example", False),
        (
            "fetch",
            "url",
            "${{'a': 'https://x.example/' + steps.b}['a']}",
            "https://x.example/",
            True,
        ),
        (
            "fetch",
            "url",
            "${{'a': 'https://x.example/' + steps.b}['a']}",
            "https://y.example",
            False,
        ),
        ("fetch", "url", "${{'a': 'https://x.example/' + steps.b}.a}", "https://y.example", False),
        ("load", "path", "${['notes', steps.b].join('/')}", "notes/a.md", True),
        ("load", "path", "${['notes', steps.b].join('/')}", "other/a.md", False),
        ("load", "path", "${['a', 'b'].join(steps.b)}", "a/b", True),
        ("load", "path", "${'%s/%s'.format(['notes', steps.b])}", "notes/a.md", True),
        ("load", "path", "${'%s/%s'.format(['notes', steps.b])}", "other/a.md", False),
        ("load", "path", "${'%5d/a.md'.format([steps.b])}", "    7/a.md", True),
        ("fetch", "url", "${[inputs.u, steps.b].join()}", "https://other.example/", False),
        (
            "fetch",
            "url",
            "${{'a': inputs.u, 'b': 'https://x.example'}[steps.b]}",
            "https://x.example",
            True,
        ),
        (
            "fetch",
            "url",
            "${{'a': inputs.u, 'b': 'https://x.example'}[steps.b]}",
            "https://y.example",
            False,
        ),
        ("fetch", "url", "${inputs.all[steps.b]}", "https://two.example", True),
        ("fetch", "url", "${inputs.all[steps.b]}", "https://three.example", False),
        ("fetch", "url", "${inputs.named[steps.b]}", "https://two.example", True),
        ("fetch", "url", "${inputs.named[steps.b]}", "https://three.example", False),
        ("count", "items", "${steps.b}", [{"url": "https://x.example/"}], True),
        ("post", "payload", "${steps.b}", {"to": "x@x.example", "url": "https://x.example"}, True),
        ("post", "payload", "${[{'to': steps.b}]}", [{"to": "x@x.example"}], True),
        ("post", "payload", "${[{'to': steps.b}]}", [{"path": "notes"}], False),
    ],
)
def test_what_is_known_of_a_value_is_permitted_and_no_more(
    name: str, parameter: str, value: Json, call: Json, *, is_permitted: bool
) -> None:
    used = step("a", name, **{parameter: value})
    inputs: JsonObject = {
        "u": "https://docs.example/",
        "all": ["https://one.example", "https://two.example"],
        "named": {"a": "https://one.example", "b": "https://two.example"},
    }
    needed = permits(step("b", "count", items=[]), used, inputs=inputs)

    assert (refused_value(needed, TOOLS[name], {parameter: call}) == "") is is_permitted


def test_what_bounds_the_hosts_of_a_parameter_bounds_no_field_of_its_name() -> None:
    used = step("a", "post", payload={"url": "${steps.b}"})
    needed = permits(step("b", "count", items=[]), used)

    assert [*needed.hosts] == ["*"]
    assert not refused_value(needed, TOOLS["post"], {"payload": {"url": "https://x.example/"}})


@pytest.mark.parametrize("others", [[], [{"tool": "mail", "params": {"to": "x@x.example"}}]])
def test_calls_of_a_known_list_need_what_they_reach(others: list[Json]) -> None:
    call: JsonObject = {"tool": "fetch", "params": {"url": "https://x.example/"}}
    used = step("a", "dispatch.fetch.mail", [call, *others], call="${item}")

    needed = permits({**used, "when": "item.tool == 'fetch'"})

    assert (set(needed.tools), set(needed.hosts)) == ({"fetch"}, {"x.example"})
    assert needed.recipients == {}


def test_a_secret_in_a_field_of_an_input_is_named() -> None:
    login: JsonObject = {"type": "object", "properties": {"pin": {"format": "password"}}}
    goal = Goal(
        name="g",
        job="j",
        text="t",
        inputs={"login": {"pin": "1234"}},
        inputs_schema={"type": "object", "properties": {"login": login}},
        tools=(),
    )
    plan = Plan.model_validate(
        {"inputs": goal.inputs, "steps": [step("a", "count", items="${inputs.login.pin}")]}
    )

    assert set(infer_permits(plan, goal, TOOLS).secrets) == {"inputs.login"}


@pytest.mark.parametrize("entry", ["./notes/", "notes/deep/../", "notes/a.md", "./notes/a.md"])
def test_entries_of_a_file_are_read_as_values_are(entry: str) -> None:
    known = Permits(tools={"load": ToolPermit()}, paths={entry: ()}, hosts={"Example.org": ()})

    assert refused_value(known, TOOLS["load"], {"path": "notes/a.md"}) == ""


def test_a_value_that_is_not_known_needs_some_entry_where_calls_are_held() -> None:
    needed = permits(step("b", "count", items=[]), step("a", "fetch", url="${steps.b}"))
    some = needed.model_copy(update={"hosts": {"example.org": ()}})
    none = needed.model_copy(update={"hosts": {}})

    assert excess(needed, some, calls_are_held=True) == []
    assert [entry.kind for entry in excess(needed, some)] == ["host"]
    assert [entry.kind for entry in excess(needed, none, calls_are_held=True)] == ["host"]


def test_what_the_tools_of_an_agent_reach_may_be_narrowed() -> None:
    needed = permits(step("a", "agent", task="", tools=["fetch"]))
    some = needed.model_copy(update={"hosts": {"example.org": ()}})

    assert excess(needed, some, calls_are_held=True) == []
    assert [entry.kind for entry in excess(needed, some)] == ["host"]


@pytest.mark.parametrize(
    ("tool_name", "params", "tools"),
    [
        ("agent", {"agent": "scout"}, {"agent", "load", "reader", "count"}),
        ("agent", {"agent": "reader"}, {"agent", "count"}),
        ("agent", {"agent": "scout", "tools": ["load"]}, {"agent", "load"}),
        ("agent", {"tools": ["fetch"]}, {"agent", "fetch"}),
        ("survey", {}, {"survey", "load", "reader", "count"}),
    ],
)
def test_what_named_agents_may_call_is_permitted_at_any_depth(
    tool_name: str, params: JsonObject, tools: set[str]
) -> None:
    reader = tool("reader", calls_agents=["reader"], within=(TOOLS["count"],))
    scout = tool("scout", calls_agents=["scout"], within=(TOOLS["load"], reader))
    known = {
        **TOOLS,
        "agent": tool(
            "agent",
            params={"task": TEXT, "tools": {}, "agent": TEXT},
            calls_agents=["scout", "reader"],
            within=(TOOLS["fetch"], scout, reader),
        ),
        "survey": tool("survey", calls_agents=["scout"], within=scout.within),
    }
    plan = Plan.model_validate({"version": 1, "steps": [step("a", tool_name, **params)]})

    assert set(infer_permits(plan, None, known).tools) == tools


@pytest.mark.parametrize(
    ("given_hosts", "url", "is_permitted"),
    [
        (["example.org"], "https://example.org/x", True),
        (["example.org"], "https://www.example.org/x", False),
        (["*.example.org"], "https://www.example.org/x", True),
        (["*.example.org"], "https://example.org.evil.example/", False),
        (["*.example.org"], "www.example.org:8080", True),
        (["*.example.org"], "https://evil.example\\.example.org", False),
        (["*.example.org"], "https://example.org@evil.example/.example.org", False),
        (["*.example.org"], "https:///evil.example/.example.org", False),
        (["*.example.org"], "https://[evil.example/.example.org", False),
        (["*.example.org"], "https://evil.example\uff0f.example.org", False),
        (["example.org"], "https://example.org@evil.example/", False),
        (["example.org"], "https://evil.example/?https://example.org/", False),
        (["example.org"], "https://evil.example\\@example.org/", False),
        (["*"], "https://anywhere.example/", True),
        ([], "https://example.org/", False),
    ],
)
def test_a_call_reaches_the_hosts_that_are_permitted(
    given_hosts: list[str], url: str, *, is_permitted: bool
) -> None:
    known = Permits(tools={"fetch": ToolPermit()}, hosts=dict.fromkeys(given_hosts, ()))

    assert (refused_value(known, TOOLS["fetch"], {"url": url}) == "") is is_permitted


@pytest.mark.parametrize(
    ("path", "is_permitted"),
    [
        ("notes/a.md", True),
        ("notes/deep/a.md", True),
        ("notes/../secret", False),
        ("./notes/a.md", True),
        ("notesx/a.md", False),
        ("/etc/passwd", False),
        ("../notes/a.md", False),
    ],
)
def test_a_call_reaches_the_paths_that_are_permitted(path: str, *, is_permitted: bool) -> None:
    known = Permits(tools={"load": ToolPermit()}, paths={"notes/": ()})

    assert (refused_value(known, TOOLS["load"], {"path": path}) == "") is is_permitted
