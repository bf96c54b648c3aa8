"""A language model's raw answers: what may be repaired is, on record; what may not is refused."""

from __future__ import annotations

import json
import re

import pytest

from wavewright.config.sources import ReadLimits
from wavewright.planner.language.plan import Plan
from wavewright.planner.reading.reader import PlanText, read_model_answer, read_plan
from wavewright.planner.types import Json, JsonObject

PLAN = {
    "steps": [
        {"id": "sky", "tool": "read_sensor", "params": {"station": "Säntis", "hours": 6}},
        {
            "id": "note",
            "tool": "write_note",
            "params": {"text": "wind: ${steps.sky.wind}"},
            "depends_on": ["sky"],
        },
    ]
}
TEXT = json.dumps(PLAN, ensure_ascii=False)
OTHER = TEXT.replace("Säntis", "Pilatus")
STEPS = json.dumps(PLAN["steps"], ensure_ascii=False)


def expected() -> Plan:
    return Plan.model_validate(PLAN)


def kinds(text: PlanText) -> list[str]:
    return [found.kind for found in text.diagnostics]


def repairs(text: PlanText) -> set[str]:
    return {repair.kind for repair in text.repairs}


def step(fields: str) -> str:
    return '{"steps": [{"id": "sky", "tool": "read_sensor", ' + fields + "}]}"


def test_a_plan_in_strict_json_needs_no_repair() -> None:
    text = read_model_answer(TEXT)

    assert (text.plan, text.repairs, text.diagnostics) == (expected(), (), ())


REPAIRED = [
    pytest.param(f"```json\n{TEXT}\n```", {"code_fence", "prose"}, id="fence"),
    pytest.param(f"```\n{TEXT}\n```\n", {"code_fence"}, id="fence without a language"),
    pytest.param(f"Here {{goes}} the [plan]:\n{TEXT}\nGood luck {{}} :-]", None, id="prose with brackets"),
    pytest.param(f"A plan looks like {{steps: [...]}}. Mine:\n{TEXT}", {"prose"}, id="prose with an outline"),
    pytest.param(f"<think>{OTHER} or not?\n</think>{TEXT}", {"think", "prose"}, id="reasoning with a decoy"),
    pytest.param(f"<thinking>{OTHER} or not?</thinking>{TEXT}", {"think", "prose"}, id="reasoning as <thinking>"),
    pytest.param(f"<thought>{OTHER} or not?</thought>{TEXT}", {"think", "prose"}, id="reasoning as <thought>"),
    pytest.param(f"<reasoning>{OTHER} or not?</reasoning>{TEXT}", {"think", "prose"}, id="reasoning as <reasoning>"),
    pytest.param(f"<seed:think>{OTHER} or not?</seed:think>{TEXT}", {"think", "prose"}, id="reasoning as <seed:think>"),
    pytest.param(f"[THINK]{OTHER} or not?[/THINK]{TEXT}", {"think", "prose"}, id="reasoning as [THINK]"),
    pytest.param(f"◁think▷{OTHER} or not?◁/think▷{TEXT}", {"think", "prose"}, id="reasoning as ◁think▷"),
    pytest.param(
        f"<|channel|>analysis<|message|>{OTHER} or not?<|end|><|start|>assistant"
        f"<|channel|>final <|constrain|>json<|message|>{TEXT}<|return|>",
        {"think", "prose"},
        id="reasoning in a channel",
    ),
    pytest.param(f"First {OTHER} or not? </think> {TEXT}", {"think", "prose"}, id="reasoning ends beside the plan"),
    pytest.param(f"First {OTHER} or not?\n</think>\n\n{TEXT}", {"think", "prose"}, id="reasoning ends on a line"),
    pytest.param(f"<THINK>{{{{</THINK >\n{TEXT}", {"think", "prose"}, id="reasoning with brackets"),
    pytest.param(f'{{"confidence": 0.9}}\n{TEXT}', {"ignored_value", "prose"}, id="another object first"),
    pytest.param(f"~~~json\n{TEXT}\n~~~", {"prose"}, id="fence of tildes"),
    pytest.param(f"````JSON5\n{TEXT}\n````", None, id="fence of four"),
    pytest.param(f"```bash\nls {{a,b}}\n```\n```json\n{TEXT}\n```", {"code_fence", "prose"}, id="two fences"),
    pytest.param(f"Gerne! Der „Plan“ {{Entwurf}}:\n{TEXT}\nViel Erfolg!", {"prose"}, id="German prose"),
    pytest.param(f"承知しました。「計画」:\n{TEXT}\n以上です。", {"prose"}, id="Japanese prose"),
    pytest.param(f"계획 {{초안}}:\n{TEXT}\n끝.", {"prose"}, id="Korean prose"),
    pytest.param(f"<answer>{TEXT}</answer>", {"prose"}, id="a tag around it"),
    pytest.param(f"plan = {PLAN!r}", {"prose", "quotes"}, id="Python with a name"),
    pytest.param(f'{{"execution_plan": {STEPS}}}', {"wrapper", "bare_list"}, id="a wrapped list"),
    pytest.param(
        f"<tool_call>{json.dumps({'name': 'plan', 'arguments': TEXT[:-1] + ',}'})}</tool_call>",
        {"prose", "tool_call", "double_encoding", "trailing_comma"},
        id="a tool call whose arguments end in a comma",
    ),
    pytest.param(
        f"<think>```json {OTHER}```</think>\n```json\n[ // the steps\n{STEPS[1:-1]},]\n```",
        None,
        id="reasoning, fence, comment, comma and bare list",
    ),
    pytest.param(f"{TEXT}\n\nOnce more:\n{TEXT}", {"repeated_plan", "prose"}, id="the same plan twice"),
    pytest.param(
        TEXT.replace("6}", "6,}").replace('"sky"]}]}', '"sky" , ],},],}'), {"trailing_comma"}, id="trailing commas"
    ),
    pytest.param(TEXT.replace(":", ': /* "x": [ */ // {"\n # it\'s\n', 1), {"comment"}, id="comments"),
    pytest.param(TEXT.replace('"', "'"), {"quotes"}, id="single quotes"),
    pytest.param(re.sub(r'"([^"]*)"', "“\\1”", TEXT), {"quotes"}, id="double curly quotes"),
    pytest.param(re.sub(r'"([^"]*)"', "\u2018\\1\u2019", TEXT), {"quotes"}, id="single curly quotes"),
    pytest.param(re.sub(r'"([a-z_]+)":', "\\1:", TEXT), {"unquoted_key"}, id="keys without quotes"),
    pytest.param(f"\ufeff\u200b{TEXT}".replace(", ", ",\u00a0"), None, id="invisible characters"),
    pytest.param(TEXT.replace("}, {", "}\n{"), {"missing_comma"}, id="missing comma"),
    pytest.param(f"{TEXT}}}]}}", {"surplus_closer"}, id="surplus closers"),
    pytest.param(TEXT[:-1], {"missing_closer"}, id="missing closer"),
    pytest.param(f"```\n{TEXT[:-1]}\n```", {"missing_closer", "code_fence"}, id="missing closer in a fence"),
    pytest.param(f'{{"plan": {TEXT[:-1]}', {"missing_closer", "wrapper"}, id="missing closers of a wrapper"),
    pytest.param(STEPS, {"bare_list"}, id="bare list"),
    pytest.param(f"The steps are:\n{STEPS}", {"bare_list", "prose"}, id="bare list in prose"),
    pytest.param(f'{{"execution_plan": {TEXT}}}', {"wrapper"}, id="wrapper"),
    pytest.param(f'{{"answer": {TEXT}}}', {"wrapper"}, id="an answer"),
    pytest.param(f'{{"thoughts": "first", "final_answer": {TEXT}}}', {"wrapper"}, id="an answer beside thoughts"),
    pytest.param(
        TEXT.replace('"steps"', '"thinking": "first", "steps"').replace('"tool"', '"thought": "then", "tool"', 1),
        {"thought"},
        id="thoughts in a plan and a step",
    ),
    pytest.param(f"[{TEXT}]", {"wrapper"}, id="a list of one plan"),
    pytest.param(json.dumps({"answer": TEXT}), {"wrapper", "double_encoding"}, id="an answer in a string"),
    pytest.param(f'{{"response": {{"plan": {STEPS}}}}}', {"wrapper", "bare_list"}, id="two wrappers"),
    pytest.param(json.dumps({"name": "plan", "arguments": PLAN}), {"tool_call"}, id="tool call"),
    pytest.param(
        f"<|python_tag|>{json.dumps({'type': 'function', 'name': 'plan', 'parameters': PLAN})}",
        {"prose", "tool_call"},
        id="tool call as Llama writes it",
    ),
    pytest.param(
        json.dumps({"id": "c1", "type": "function", "function": {"name": "plan", "arguments": TEXT}}),
        {"tool_call", "double_encoding"},
        id="tool call with text",
    ),
    pytest.param(json.dumps(TEXT), {"double_encoding"}, id="JSON in a string"),
    pytest.param(f"```\n{json.dumps(TEXT)}\n```", {"double_encoding", "code_fence"}, id="JSON in a string in a fence"),
    pytest.param(json.dumps({"plan": TEXT}), {"wrapper", "double_encoding"}, id="JSON in a string in a wrapper"),
    pytest.param(
        TEXT.replace('"params"', '"args"', 1).replace('"params"', '"input"').replace("depends_on", "dependsOn"),
        {"key_alias"},
        id="other names of fields",
    ),
    pytest.param(
        TEXT.replace('"tool"', '"tool_name"').replace('"id"', '"step_id"').replace("depends_on", "deps"),
        {"key_alias"},
        id="other names of ids",
    ),
    pytest.param(
        TEXT.replace('"tool"', '"uses"').replace('"params"', '"with"').replace("depends_on", "needs"),
        {"key_alias"},
        id="names of other systems",
    ),
    pytest.param(TEXT.replace('["sky"]', '"sky"'), {"depends_on"}, id="one dependency"),
    pytest.param(TEXT.replace('["sky"]', '["sky", "sky"]'), {"depends_on"}, id="a dependency twice"),
    pytest.param(TEXT.replace('"steps"', '"error": null, "goal": null, "steps"'), {"null_field"}, id="empty fields"),
    pytest.param(TEXT.replace('"id"', '"retry": null, "id"'), {"null_field"}, id="an unknown field that is empty"),
    pytest.param(
        TEXT.replace('"id"', '"stepId"').replace('"tool"', '"toolName"').replace("depends_on", "depends-on"),
        {"key_alias"},
        id="names in another case",
    ),
    pytest.param(
        json.dumps({"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "plan", "arguments": TEXT}}]}),
        {"wrapper", "tool_call", "double_encoding"},
        id="a message with a tool call",
    ),
    pytest.param(TEXT.replace('"steps"', '"error": false, "steps"'), {"null_field"}, id="no error"),
    pytest.param(
        TEXT.replace('"params": {', '"depends_on": null, "when": null, "why": null, "params": {', 1),
        {"null_field"},
        id="empty fields of a step",
    ),
    pytest.param(
        TEXT.replace('"params": {', '"when": "", "for_each": "", "plan": "", "dispatch": "", "params": {', 1),
        {"null_field"},
        id="empty texts of a step",
    ),
    pytest.param(
        TEXT.replace('"params": {', '"repeat": {"until": "", "max": null, "params": null}, "params": {', 1).replace(
            '"steps"', '"stop": {"when": "", "result": null}, "steps"'
        ),
        {"null_field"},
        id="objects of empty fields",
    ),
    pytest.param(TEXT.replace('"steps"', '"version": "1.0", "steps"'), {"version"}, id="version in words"),
    pytest.param(
        TEXT.replace(
            json.dumps(PLAN["steps"][0]["params"], ensure_ascii=False),
            json.dumps(json.dumps(PLAN["steps"][0]["params"])),
        ),
        {"params_string"},
        id="params in a string",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "wanted"), REPAIRED)
def test_what_is_certain_is_repaired_and_goes_on_record(
    answer: str, wanted: set[str] | None
) -> None:
    text = read_model_answer(answer)

    assert (text.plan, kinds(text)) == (expected(), [])
    assert repairs(text) == wanted if wanted else repairs(text)


CALL: JsonObject = {"id": "a", "why": "it is asked"}
ASKED: JsonObject = {"of": "${steps.mail}", "for": {"day": "date"}}


@pytest.mark.parametrize(
    ("fields", "tool"),
    [
        ({"ask": ASKED}, "ask_model"),
        ({"ask": ASKED, "for_each": ["a"], "tool": None, "params": {}}, "ask_model"),
        ({"dispatch": "${steps.todo}", "tools": ["pay", "book"]}, "dispatch.book.pay"),
        ({"dispatch": "${[]}", "tools": ["pay"], "tool": "", "for_each": None}, "dispatch.pay"),
        ({"plan": "clean", "tool": None, "ask": None, "params": {"a": 1}}, "sub_plan"),
        ({"tool": "pay", "params": {}, "ask": None, "dispatch": None, "tools": None}, "pay"),
    ],
)
def test_a_step_asks_calls_a_plan_or_dispatches_in_place_of_a_tool(
    fields: JsonObject, tool: str
) -> None:
    text = read_model_answer(json.dumps({"steps": [{**CALL, **fields}]}))

    assert text.plan is not None, text.diagnostics
    assert text.plan.steps[0].tool == tool


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param('"two\nlines\tand\r\nmore"', "two\nlines\tand\r\nmore", id="raw line breaks"),
        pytest.param(r'"\d+\.\s"', r"\d+\.\s", id="escapes of a pattern"),
        pytest.param(r'"C:\Wind"', r"C:\Wind", id="unknown escape"),
        pytest.param(r'"C:\Users\name\temp"', r"C:\Users\name\temp", id="folders like escapes"),
        pytest.param(r'"\bword\d"', r"\bword\d", id="boundary of a pattern"),
        pytest.param(r'"one\ncosts \$5"', "one\ncosts \\$5", id="line break beside a dollar"),
        pytest.param(
            r'"Plan A:\nmatch \d+"', "Plan A:\nmatch \\d+", id="line break after a letter"
        ),
        pytest.param(
            r'"Form A:\n\n\d{3}"',
            "Form A:\n\n\\d{3}",
            id="line breaks between a letter and a pattern",
        ),
        pytest.param(
            r'"one\nmatch \d+\tb"', "one\nmatch \\d+\tb", id="line break beside a pattern"
        ),
        pytest.param(r'"it\'s"', "it's", id="escaped apostrophe"),
        pytest.param("'say \"hi\"'", 'say "hi"', id="double quotes in single ones"),
        pytest.param('“it\'s "so"”', 'it\'s "so"', id="straight quotes in curly ones"),
        pytest.param(
            '"// no /* comment */ # here ,} ,]"',
            "// no /* comment */ # here ,} ,]",
            id="syntax in a string",
        ),
        pytest.param(
            '"<think>no</think> ```json"', "<think>no</think> ```json", id="reasoning in a string"
        ),
        pytest.param('"a\u00a0b\u200bc"', "a\u00a0b\u200bc", id="invisible characters in a string"),
        pytest.param("True", True, id="Python's True"),
        pytest.param("None", None, id="Python's None"),
    ],
)
def test_texts_come_through_as_they_are_meant(written: str, meant: object) -> None:
    text = read_model_answer(step('"params": {"text": ' + written + ",}"))

    assert text.plan is not None
    assert text.plan.steps[0].params == {"text": meant}


def test_integer_ids_become_words_wherever_they_stand() -> None:
    second, third = (
        '{"id": 2, "tool": "b", "depends_on": 1}',
        '{"id": "x", "tool": "c", "depends_on": [2, 1]}',
    )
    plan = read_model_answer(f'{{"steps": [{{"id": 1, "tool": "a"}}, {second}, {third}]}}').plan

    assert plan is not None
    assert [(one.id, one.depends_on) for one in plan.steps] == [
        ("s1", ()),
        ("s2", ("s1",)),
        ("x", ("s2", "s1")),
    ]


NUMBERS = """{"steps": [
  {"id": 1, "tool": "list", "params": {"n": 1}},
  {"id": "2", "tool": "read", "for_each": "${steps.1.rows}", "when": "steps.1.rows.size()-1 > 0",
   "params": {"at": 1, "of": "${steps[1].n}, ${steps['1'].n - 1}, steps.1, ${'steps.1'}"}}],
 "gates": [{"id": "full", "on": 2, "check": "steps.1.n > output.size()"}],
 "result": "${steps.2}"}"""


def test_a_number_becomes_a_word_wherever_a_step_is_named() -> None:
    text = read_model_answer(NUMBERS)
    plan = text.plan

    assert plan is not None, text.diagnostics
    assert repairs(text) == {"integer_id"}
    first, second = plan.steps
    assert (first.id, first.params) == ("s1", {"n": 1})
    assert (second.id, second.for_each) == ("s2", "${steps.s1.rows}")
    assert second.when == "steps.s1.rows.size()-1 > 0"
    assert second.params == {
        "at": 1,
        "of": "${steps.s1.n}, ${steps.s1.n - 1}, steps.1, ${'steps.1'}",
    }
    [gate] = plan.gates
    assert (gate.on, gate.check, plan.result) == ("s2", "steps.s1.n > output.size()", "${steps.s2}")


HYPHENS = """{"steps": [
  {"id": "fetch-page", "tool": "web.fetch-page", "params": {"url": "${inputs.url}"}},
  {"id": "step-2", "tool": "read", "for_each": "${steps.fetch-page.links}", "when": "steps.fetch-page.size - 1 > 0",
   "params": {"id": "fetch-page", "of": ["${steps['fetch-page'].text} or steps.fetch-page", "${'steps.fetch-page'}"]}},
  {"id": "last", "tool": "write", "depends_on": ["step-2"], "repeat": {"until": "size(steps.step-2) > 1", "max": 2}}],
 "gates": [{"id": "is-full", "on": "step-2", "check": "steps[\\"fetch-page\\"] != output"}],
 "stop": {"when": "${!has(steps.fetch-page)}", "result": "${steps . fetch-page}"},
 "let": {"pages": "${joined(steps.step-2)}"}, "result": "${steps.step-2.size()-1}"}"""


def test_ids_with_hyphens_become_words_wherever_a_step_is_named() -> None:
    text = read_model_answer(HYPHENS)
    plan = text.plan

    assert plan is not None, text.diagnostics
    assert repairs(text) == {"hyphen_id"}
    assert [step.id for step in plan.steps] == ["fetch_page", "step_2", "last"]
    assert [step.tool for step in plan.steps] == ["web.fetch-page", "read", "write"]
    second, last = plan.steps[1:]
    assert second.for_each == "${steps.fetch_page.links}"
    assert second.when == "steps.fetch_page.size - 1 > 0"
    assert second.params == {
        "id": "fetch-page",
        "of": ["${steps.fetch_page.text} or steps.fetch-page", "${'steps.fetch-page'}"],
    }
    assert (last.depends_on, last.repeat and last.repeat.until) == (
        ("step_2",),
        "size(steps.step_2) > 1",
    )
    [gate] = plan.gates
    assert (gate.id, gate.on, gate.check) == ("is_full", "step_2", "steps.fetch_page != output")
    assert plan.stop is not None
    assert (plan.stop.when, plan.stop.result) == (
        "${!has(steps.fetch_page)}",
        "${steps.fetch_page}",
    )
    assert (plan.let, plan.result) == (
        {"pages": "${joined(steps.step_2)}"},
        "${steps.step_2.size()-1}",
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param(
            '{"n": "${steps.a}", "m": [1]}', {"n": "${steps.a}", "m": [1]}, id="an object"
        ),
        pytest.param("{}", {}, id="an empty object"),
        pytest.param("${{'n': steps.a}}", "${{'n': steps.a}}", id="an expression"),
        pytest.param("{n: ${steps.a}}", "{n: ${steps.a}}", id="no JSON"),
        pytest.param('{"n": ${steps.a}}', '{"n": ${steps.a}}', id="JSON once it is filled in"),
        pytest.param("[1] ${steps.a}", "[1] ${steps.a}", id="words"),
        pytest.param("[1]", "[1]", id="a list"),
    ],
)
def test_a_result_that_is_an_object_in_a_text_is_that_object(written: str, meant: Json) -> None:
    stop = {"when": "steps.a == 0", "result": written}
    answer = {"steps": [{"id": "a", "tool": "b"}], "result": written, "stop": stop}
    text = read_model_answer(json.dumps(answer))

    assert text.plan is not None, text.diagnostics
    assert text.plan.stop is not None
    assert (text.plan.result, text.plan.stop.result) == (meant, meant)
    assert repairs(text) == (set() if written == meant else {"json_text"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param('["Oslo", "Rome"]', ["Oslo", "Rome"], id="texts"),
        pytest.param('[{"n": "${inputs.n}"}]', [{"n": "${inputs.n}"}], id="objects"),
        pytest.param('{"a": 1}', '{"a": 1}', id="an object"),
        pytest.param("[${inputs.n}]", "[${inputs.n}]", id="no JSON"),
    ],
)
def test_a_list_in_a_text_is_what_a_step_runs_for(written: str, meant: Json) -> None:
    text = read_model_answer(step(f'"for_each": {json.dumps(written)}'))

    assert text.plan is not None, text.diagnostics
    assert text.plan.steps[0].for_each == meant


@pytest.mark.parametrize(
    ("ids", "written", "read"),
    [
        pytest.param(["fetch-page"], "steps.fetch-page-1", "steps.fetch_page-1", id="less one"),
        pytest.param(
            ["a-b", "c-d"], "steps.a-b-steps.c-d", "steps.a_b-steps.c_d", id="less another"
        ),
        pytest.param(["page-1"], "steps.page-1.text", "steps.page_1.text", id="a number"),
        pytest.param(["fetch_page"], "steps.fetch-page.text", "steps.fetch_page.text", id="a word"),
        pytest.param(["fetch", "fetch_page"], "steps.fetch-page", "steps.fetch-page", id="less"),
    ],
)
def test_a_reference_names_a_step_with_hyphens_or_without(
    ids: list[str], written: str, read: str
) -> None:
    steps = [{"id": written, "tool": "read"} for written in ids]
    plan = read_model_answer(json.dumps({"steps": steps, "result": f"${{{written}}}"})).plan

    assert plan is not None
    assert plan.result == f"${{{read}}}"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param("steps.a.rows", "${steps.a.rows}", id="a step"),
        pytest.param(" inputs.towns ", "${inputs.towns}", id="an input"),
        pytest.param("previous.result", "${previous.result}", id="the run before"),
        pytest.param("towns", "${towns}", id="a name of let"),
        pytest.param(
            "steps.b-c.filter(x, x.n > 2)", "${steps.b_c.filter(x, x.n > 2)}", id="a computation"
        ),
        pytest.param("Oslo", "Oslo", id="a text"),
        pytest.param("steps", "steps", id="no step"),
        pytest.param("all of steps.a", "all of steps.a", id="no expression"),
    ],
)
def test_an_expression_in_place_of_a_list_is_a_reference_to_it(written: str, read: str) -> None:
    steps: list[Json] = [
        {"id": "a", "tool": "b"},
        {"id": "b-c", "tool": "b"},
        {"id": "d", "tool": "b", "for_each": written},
    ]
    text = read_model_answer(json.dumps({"let": {"towns": "${inputs.all}"}, "steps": steps}))

    assert text.plan is not None
    assert text.plan.steps[2].for_each == read
    assert ("bare_reference" in repairs(text)) is (written != read)


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(["fetch-page", "fetch_page"], id="another step has the word"),
        pytest.param(["fetch-page", "FETCH-PAGE"], id="two of one word"),
        pytest.param(["fetch-page", "fetch"], id="a difference"),
        pytest.param(["2-pages", "a"], id="no word"),
        pytest.param(["-", "a"], id="a hyphen alone"),
    ],
)
def test_an_id_with_hyphens_that_may_be_something_else_is_told(ids: list[str]) -> None:
    steps = [{"id": written, "tool": "read"} for written in ids]

    assert "bad_step_id" in kinds(read_model_answer(json.dumps({"steps": steps})))


def test_two_plans_that_say_the_same_are_one() -> None:
    terse = '{"steps": [{"tool": "a", "id": "x"}]}'
    wordy = '{"steps": [{"id": "x", "tool": "a", "params": {}, "depends_on": [], "why": null}]}'

    assert repairs(read_model_answer(f"{terse} or rather {wordy}")) == {"repeated_plan", "prose"}


def test_an_integer_that_is_no_id_is_not_guessed_to_be_one() -> None:
    assert kinds(read_model_answer(step('"depends_on": [1]'))) == ["wrong_type"]


def test_a_repair_names_what_was_done_and_where() -> None:
    text = read_model_answer("{'steps': [{\"id\": 'a', 'tool': 'b',}]}")

    assert [(one.kind, one.message, one.offset) for one in text.repairs] == [
        ("quotes", "4 string(s) in single or curly quotes were read", 1),
        ("trailing_comma", "1 trailing comma(s) left out", 34),
    ]


REFUSED = [
    pytest.param("", "no_plan", id="nothing"),
    pytest.param("I cannot help with that.", "no_plan", id="a refusal"),
    pytest.param("null", "no_plan", id="null"),
    pytest.param("[]", "no_plan", id="an empty list"),
    pytest.param('{"answer": 42}', "no_plan", id="another object"),
    pytest.param('{"unknown": {"steps": 1}}', "no_plan", id="an unknown wrapper"),
    pytest.param(f'{{"wrapped": {TEXT}}}', "no_plan", id="a plan in an unknown wrapper"),
    pytest.param("steps:\n  - {id: a, tool: b}\n", "no_plan", id="YAML"),
    pytest.param(f"steps: {STEPS}", "not_json", id="YAML that looks like JSON"),
    pytest.param("<plan><step id='a'/></plan>", "no_plan", id="XML"),
    pytest.param(TEXT[: TEXT.index("hours")], "truncated", id="cut in a key"),
    pytest.param(TEXT[: TEXT.index("ntis")], "truncated", id="cut in a string"),
    pytest.param(TEXT[: TEXT.index("6")], "truncated", id="cut before a number"),
    pytest.param(TEXT[: TEXT.index("6") + 1], "truncated", id="cut in a number"),
    pytest.param(TEXT[: TEXT.index(', {"id"')], "truncated", id="cut between steps"),
    pytest.param(TEXT[:-2], "truncated", id="cut before the steps are closed"),
    pytest.param(f"```json\n{TEXT[:-20]}\n```\nThat is all.", "truncated", id="cut in a fence"),
    pytest.param(f"{TEXT[:-1]}\nThat is all.", "not_json", id="not closed, and going on"),
    pytest.param('{"steps": [], "gates": [{"id": "g"', "truncated", id="cut in the gates"),
    pytest.param(TEXT[:-1] + ', "version": 1', "truncated", id="cut behind a number"),
    pytest.param('{"goal": "x", "rea', "truncated", id="cut before the steps"),
    pytest.param("<think>hm, " + TEXT, "truncated", id="cut in the reasoning"),
    pytest.param(f"{TEXT}\n{OTHER}", "ambiguous", id="two plans"),
    pytest.param(f'{TEXT}\n{{"steps": []}}', "ambiguous", id="a plan and an empty one"),
    pytest.param(f"[{TEXT}, {OTHER}]", "ambiguous", id="a list of plans"),
    pytest.param(f'{{"draft": {OTHER}}} {TEXT}', "ambiguous", id="a plan in an object beside it"),
    pytest.param(f'{TEXT} {{"id": "late", "tool": "send"}}', "ambiguous", id="a step outside of the plan"),
    pytest.param(TEXT.replace("}}, {", "}}]}, {"), "not_json", id="closed too early"),
    pytest.param(TEXT[:-1] + '}, "gates": []}', "not_json", id="gates outside of the plan"),
    pytest.param(f'"goal": "x", "plan": {TEXT}}}', "not_json", id="the beginning is missing"),
    pytest.param('{"steps": [{"id": "a", "tool": "b"}, ...]}', "not_json", id="steps left out"),
    pytest.param(f'{{"steps": [{{"id": oops\nAgain: {TEXT}', "not_json", id="a broken plan before a whole one"),
    pytest.param(f'{{"steps": 1, {TEXT[1:]}', "duplicate_key", id="a key twice"),
    pytest.param(step('"params": {"a": 1, "a": 1}'), "duplicate_key", id="an argument twice"),
    pytest.param(step("\"tool\": 'x', 'tool': 'y'"), "duplicate_key", id="a key twice in other quotes"),
    pytest.param(step('"params": {}, "args": {}'), "duplicate_key", id="two names of one field"),
    pytest.param(step('"params": "{\\"a\\": 1, \\"a\\": 2}"'), "duplicate_key", id="a key twice in a string"),
    pytest.param(step('"params": {"x": NaN}'), "nonfinite_number", id="NaN"),
    pytest.param(step('"params": {"x": -Infinity,}'), "nonfinite_number", id="infinity"),
    pytest.param(step('"params": {"x": 1e400}'), "nonfinite_number", id="overflow"),
    pytest.param(step('"params": {"x": -9007199254740993}'), "number_out_of_range", id="a large integer"),
    pytest.param(step('"params": {"x": 0x1F}'), "not_json", id="a number of another language"),
    pytest.param(step('"params": {"x": "\\ud83d"}'), "bad_unicode", id="half a surrogate pair"),
    pytest.param(step('"params": {"x": "\\u0000"}'), "bad_unicode", id="NUL"),
    pytest.param(step('"params": {"x": "\0"}'), "bad_unicode", id="raw NUL"),
    pytest.param(step('"params": {"x": "\x1b[2J"}'), "not_json", id="raw control character"),
    pytest.param("[" * 50 + "]" * 50, "too_deep", id="deep"),
    pytest.param('{"steps": ' + "[" * 90_000, "too_deep", id="deep and cut"),
    pytest.param("{" * 90_000, "truncated", id="open braces"),
    pytest.param("x" * 300_000, "too_large", id="large"),
    pytest.param(TEXT.encode("utf-16"), "bad_encoding", id="UTF-16"),
    pytest.param('{"error": "no such data"}', "planner_error", id="an error"),
    pytest.param(TEXT.replace('"steps"', '"error": true, "steps"'), "planner_error", id="an error beside steps"),
    pytest.param('{"cannot_plan": "nothing fits"}', "planner_error", id="cannot plan"),
    pytest.param('{"ask": {"question": "which?", "options": []}}', "planner_error", id="a question"),
    pytest.param('{"error": "x"} ' + TEXT, "planner_error", id="an error and a plan"),
    pytest.param('{"steps": {"a": {"tool": "b"}}}', "wrong_type", id="steps as an object"),
    pytest.param('{"steps": null}', "wrong_type", id="steps as null"),
    pytest.param('{"steps": ["a", null]}', "wrong_type", id="steps that are none"),
    pytest.param('{"steps": [{"id": {}, "tool": "b"}]}', "wrong_type", id="an id of another type"),
    pytest.param(step('"depends_on": {"sky": 1}'), "wrong_type", id="depends_on as an object"),
    pytest.param(step('"depends_on": true'), "wrong_type", id="depends_on as a truth value"),
    pytest.param(step('"params": "wind"'), "wrong_type", id="params as a word"),
    pytest.param(step('"for_each": {"in": null}'), "wrong_type", id="a list as an object of nothing"),
    pytest.param(step('"optional": "yes"'), "wrong_type", id="a word for a truth value"),
    pytest.param('{"steps": [{"tool": "b"}]}', "missing_field", id="a step without an id"),
    pytest.param('{"steps": [{"id": "b"}]}', "missing_field", id="a step without a tool"),
    pytest.param('[{"id": "b", "params": {}, "tool": null}]', "wrong_type", id="null for a tool"),
    pytest.param(step('"budget": {"usd": 9}'), "unknown_field", id="a budget"),
    pytest.param(step('"retry": {"attempts": 9}'), "unknown_field", id="retries"),
    pytest.param(step('"__class__": "os.system"'), "unknown_field", id="an unknown field"),
    pytest.param(TEXT.replace('"steps"', '"caps": [], "steps"'), "unknown_field", id="caps"),
    pytest.param(TEXT.replace('"steps"', '"inputs": {}, "steps"'), "unknown_field", id="inputs"),
    pytest.param(TEXT.replace('"steps"', '"approved": true, "steps"'), "unknown_field", id="an approval"),
    pytest.param(TEXT.replace('"sky"', '"sk\u0443"'), "bad_step_id", id="an id in another alphabet"),
    pytest.param(TEXT.replace('"sky"', '"../sky"'), "bad_step_id", id="an id as a path"),
    pytest.param(TEXT.replace('"sky"', '"a\nb"'), "bad_step_id", id="an id with a line break"),
    pytest.param(TEXT.replace('"sky"', "-1"), "bad_step_id", id="a negative id"),
    pytest.param(TEXT.replace('"steps"', '"version": 2, "steps"'), "bad_value", id="another version"),
    pytest.param(step('"args": null, "params": {}'), "duplicate_key", id="an empty field beside its other name"),
    pytest.param(step('"params": {}, "args": null'), "duplicate_key", id="an empty other name"),
    pytest.param(step('"\\u0069d": "b"'), "duplicate_key", id="a key twice, once escaped"),
    pytest.param(f'{{"steps": [], "st\\u0065ps": {STEPS}}}', "duplicate_key", id="steps twice, once escaped"),
    pytest.param(json.dumps(step('"id": "b"')), "duplicate_key", id="a key twice in a plan in a string"),
    pytest.param(step('"params": {"x": 1E400}'), "nonfinite_number", id="overflow with a capital E"),
    *(
        pytest.param(step(f'"params": {{"x": {number}}}'), "not_json", id=f"the number {number}")
        for number in ("01", "+1", ".5", "1.", "--1", "1_000", "0b1", "undefined", '"a" + "b"')
    ),
    pytest.param(step('"params": {"x": 1%s}' % ("0" * 400)), "number_out_of_range", id="a very long integer"),
    pytest.param(TEXT.replace(", ", ",\0", 1), "not_json", id="NUL between two fields"),
    pytest.param(step('"params": {"x": "\\udc09\\ud83d"}'), "bad_unicode", id="a surrogate pair turned round"),
    pytest.param(TEXT.encode("latin-1"), "bad_encoding", id="Latin-1"),
    pytest.param(step('"params": "{\\"a\\": [' + "[" * 40 + '"'), "too_deep", id="deep in params in a string"),
    pytest.param(f"```json\n{TEXT}\n```\nor\n```json\n{OTHER}\n```", "ambiguous", id="two plans in two fences"),
    pytest.param(f"{TEXT}\n{json.dumps(OTHER)}", "ambiguous", id="a plan, and another in a string"),
    pytest.param(f'{TEXT} {{"plan": {OTHER}}}', "ambiguous", id="a plan, and another in a wrapper"),
    pytest.param(f"{TEXT.replace('6', '1')} {TEXT.replace('6', 'true')}", "ambiguous", id="1 and true"),
    pytest.param("\n".join(json.dumps(one) for one in PLAN["steps"]), "ambiguous", id="a step on each line"),
    pytest.param(f'{{"plan": {TEXT}, "approved": true}}', "no_plan", id="a wrapper with something beside the plan"),
    pytest.param(f'{{"plan": {{"result": {{"output": {TEXT}}}}}}}', "no_plan", id="three wrappers"),
    pytest.param(step('"params": "{\\"a\\": 1} and more"'), "wrong_type", id="words behind params in a string"),
    pytest.param('{"error": {"code": 1}}', "planner_error", id="an error with a code"),
    pytest.param(json.dumps({"Steps": PLAN["steps"]}), "no_plan", id="steps with a capital"),
    pytest.param("steps:\n  - {id: a, tool: b}\n# {}", "no_plan", id="YAML with braces"),
    pytest.param('{"steps": ({"id": "a", "tool": "b"},)}', "not_json", id="a Python tuple"),
    pytest.param('{"steps": [{"id": "a" "tool": "b"}]}', "not_json", id="a comma missing between fields"),
    pytest.param('{"steps": [{"id": "a", "tool": """b"""}]}', "not_json", id="triple quotes"),
    pytest.param(step('"params": {"x": "the "best" one"}'), "not_json", id="quotes inside quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "kind"), REFUSED)
def test_what_is_not_certain_is_refused(answer: str | bytes, kind: str) -> None:
    text = read_model_answer(answer)

    assert text.plan is None
    assert kind in kinds(text)


@pytest.mark.parametrize("field", ["tool", "id"])
def test_names_are_never_corrected(field: str) -> None:
    text = read_model_answer(
        '{"steps": [{"id": "a", "tool": "b"}]}'.replace(f'"{field}": "', f'"{field}": "Search')
    )

    assert text.plan is not None
    assert getattr(text.plan.steps[0], field).startswith("Search")


def test_a_null_among_the_arguments_is_an_argument() -> None:
    plan = read_model_answer(step('"params": {"limit": null}')).plan

    assert plan is not None
    assert plan.steps[0].params == {"limit": None}


def test_faults_of_a_repaired_answer_stand_where_the_model_wrote_them() -> None:
    answer = "Sure!\n{'steps': [{'id': 'a b', 'tool': 'x', 'approved': True}]}"
    text = read_model_answer(answer)

    assert [
        (one.code, one.pointer, answer[one.span.start : one.span.end])
        for one in text.diagnostics
        if one.span
    ] == [("E118", "/steps/0/id", "'a b'"), ("E104", "", "'approved'")]


def test_a_model_s_id_with_a_dot_is_refused_where_it_stands_and_a_file_may_have_it() -> None:
    # The steps of a called plan have such ids, and stored plans hold them.
    plan = (
        '{"steps": [{"id": "a.b", "tool": "x"}, {"id": "c", "tool": "x", "depends_on": ["a.b"]}]}'
    )
    text = read_model_answer(plan)

    assert [(one.code, one.pointer) for one in text.diagnostics] == [("E118", "/steps/0/id")]
    assert text.diagnostics[0].hint == "write 'a_b', there and where the step is read"
    assert read_plan(plan, "expanded.plan.json").plan is not None


def test_the_limits_are_the_callers_to_set() -> None:
    assert kinds(read_model_answer(TEXT, limits=ReadLimits(max_bytes=50))) == ["too_large"]
    assert kinds(read_model_answer(TEXT, limits=ReadLimits(max_depth=3))) == ["too_deep"]


def test_an_answer_of_very_many_steps_is_not_looked_at_one_by_one() -> None:
    answer = '{"steps": [' + '{"id": "a"},' * 5000 + "]}"

    assert kinds(read_model_answer(answer)) == ["too_many_steps"]
