"""What the editor offers while a plan is being written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lsprotocol import types

from tests.engine.interfaces.cli.lsp.editor import Editor

pytestmark = pytest.mark.anyio

HEAD = """\
steps:
  - id: news
    tool: headline
    params:
      title: Rain
  - id: total
    tool: add
    for_each: ${steps.news}
    params:
      a: 1
      b: 2
"""


async def offered(editor: Editor, project: Path, text: str) -> list[types.CompletionItem]:
    """Return what is offered at the bar in a text, in the order in which editors show it."""
    return await offered_in(editor, project / "new.plan.yaml", text)


async def offered_in(editor: Editor, file: Path, text: str) -> list[types.CompletionItem]:
    written = text.replace("|", "", 1)
    editor.open(file, written)
    before = text.partition("|")[0]
    params = types.CompletionParams(
        editor.identifier(file), editor.place(file, before) if before else types.Position(0, 0)
    )
    found = await editor.client.text_document_completion_async(params)
    assert isinstance(found, types.CompletionList)
    return sorted(found.items, key=lambda item: item.sort_text or "")


def labels(items: list[types.CompletionItem]) -> list[str]:
    return [item.label for item in items]


def detail(items: list[types.CompletionItem], label: str) -> str | None:
    return next(item.detail for item in items if item.label == label)


async def test_keys_of_a_step_are_offered_with_their_descriptions(
    editor: Editor, project: Path
) -> None:
    items = await offered(editor, project, HEAD + "  - id: more\n    |\n")

    assert {"tool", "when", "for_each", "depends_on"} <= {*labels(items)}
    assert "id" not in labels(items)
    when = next(item for item in items if item.label == "when")
    assert isinstance(when.documentation, types.MarkupContent)
    assert "A condition" in when.documentation.value


async def test_keys_of_the_plan_are_those_of_its_model(editor: Editor, project: Path) -> None:
    from wavewright.planner.language.plan import Plan

    items = await offered(editor, project, HEAD + "|\n")

    assert {*labels(items)} == {*Plan.model_fields} - {"steps"}


async def test_keys_of_a_gate_are_offered(editor: Editor, project: Path) -> None:
    items = await offered(editor, project, HEAD + "gates:\n  - id: some\n    |\n")

    assert {"check", "on", "required", "severity"} <= {*labels(items)}


async def test_fields_are_offered_in_a_gate_that_is_being_written(
    editor: Editor, project: Path
) -> None:
    items = await offered(
        editor, project, HEAD + "gates:\n  - on: news\n    check: ${output[0].|}\n"
    )

    assert labels(items)[:2] == ["text", "words"]


@pytest.mark.parametrize("written", ["inputs['|", "inputs['|']}", "size('[' + inputs['a b|"])
async def test_fields_are_offered_in_quotes_and_brackets(
    editor: Editor, project: Path, written: str
) -> None:
    head = "inputs: {a b c: 1, a b d: x}\n" + HEAD
    items = await offered(editor, project, f"{head}result: {json.dumps('${' + written)}\n")

    assert labels(items) == ["a b c", "a b d"]


async def test_steps_that_are_being_written_are_offered_by_their_names_alone(
    editor: Editor, project: Path
) -> None:
    faulty = "  - id: asked\n    ask: what\n  - tool: add\n"
    items = await offered(editor, project, HEAD + faulty + "result: ${steps.|}\n")

    assert {*labels(items)} == {"news", "total", "asked"}


async def test_a_name_of_let_is_not_offered_in_what_it_stands_for(
    editor: Editor, project: Path
) -> None:
    names = "let:\n  one: ${steps.news}\n  two: ${|}\n"
    items = await offered(editor, project, names + HEAD)

    assert "one" in labels(items)
    assert "two" not in labels(items)


async def test_a_step_that_runs_again_may_read_itself_in_its_condition(
    editor: Editor, project: Path
) -> None:
    again = "  - id: again\n    plan: sum.plan.yaml\n    repeat: {max: 3, until: 'steps.|'}\n"
    items = await offered(editor, project, HEAD + again)

    assert "again" in labels(items)


async def test_the_first_key_of_a_new_item_is_offered(editor: Editor, project: Path) -> None:
    assert "id" in labels(await offered(editor, project, HEAD + "  - |\n"))


async def test_tools_are_offered_with_their_signatures(editor: Editor, project: Path) -> None:
    items = await offered(editor, project, HEAD + "  - id: more\n    tool: |\n")

    assert {"add", "fetch", "headline"} <= {*labels(items)}
    assert detail(items, "add") == "add(a: number, b: number) -> number"


async def test_missing_arguments_are_offered_and_required_ones_first(
    editor: Editor, project: Path
) -> None:
    text = HEAD + "  - id: more\n    tool: fetch\n    params:\n      |\n"
    items = await offered(editor, project, text)

    assert labels(items) == ["code", "days"]
    assert detail(items, "code") == "string, required"


async def test_values_of_a_closed_set_are_offered(editor: Editor, project: Path) -> None:
    items = await offered(editor, project, HEAD + "gates:\n  - id: some\n    severity: |\n")

    assert labels(items) == ["block", "warn"]
    assert detail(items, "block") == "default"


async def test_steps_before_are_offered_in_an_expression(editor: Editor, project: Path) -> None:
    text = HEAD.replace("${steps.news}", "${steps.|}")

    assert labels(await offered(editor, project, text)) == ["news"]


async def test_no_step_that_waits_for_this_one_is_offered(editor: Editor, project: Path) -> None:
    text = HEAD.replace("title: Rain", 'title: "${steps.|"')

    assert labels(await offered(editor, project, text)) == []


async def test_ids_are_offered_where_steps_are_named(editor: Editor, project: Path) -> None:
    text = HEAD + "  - id: more\n    tool: add\n    depends_on: [|]\n"

    assert labels(await offered(editor, project, text)) == ["news", "total"]


async def test_fields_of_an_item_that_fit_the_parameter_come_first(
    editor: Editor, project: Path
) -> None:
    items = await offered(editor, project, HEAD.replace("a: 1", "a: ${item.|}"))

    assert labels(items)[:2] == ["words", "text"]
    assert detail(items, "words") == "integer"


async def test_what_a_macro_names_has_its_fields(editor: Editor, project: Path) -> None:
    text = HEAD.replace("${steps.news}", "${steps.news.filter(line, line.|)}")

    assert {"text", "words"} <= {*labels(await offered(editor, project, text))}


async def test_an_expression_that_is_not_finished_is_completed(
    editor: Editor, project: Path
) -> None:
    text = HEAD + "result:\n  all: ${steps.news.map(line, line.t|\n"
    items = await offered(editor, project, text)

    assert "text" in labels(items)


async def test_methods_are_those_of_the_type(editor: Editor, project: Path) -> None:
    items = await offered(editor, project, HEAD + "result: ${steps.news[0].text.|}\n")

    assert {"startsWith", "trim", "size"} <= {*labels(items)}
    assert "map" not in labels(items)


async def test_roots_and_functions_are_offered_at_the_beginning(
    editor: Editor, project: Path
) -> None:
    items = await offered(editor, project, HEAD.replace("a: 1", "a: ${|}"))

    assert {"steps", "inputs", "item", "index", "size", "now"} <= {*labels(items)}


async def test_a_condition_is_completed_without_braces(editor: Editor, project: Path) -> None:
    items = await offered(
        editor, project, HEAD + "  - id: more\n    tool: add\n    when: steps.news.|\n"
    )

    assert "size" in labels(items)


async def test_a_plan_in_json_is_completed(editor: Editor, project: Path) -> None:
    text = '{"steps": [{"id": "a", "tool": "|"}]}'
    items = await offered_in(editor, project / "new.plan.json", text)

    assert "headline" in labels(items)


async def test_a_goal_template_is_offered_to_a_job(editor: Editor, project: Path) -> None:
    goals = project / "config" / "goals"
    goals.mkdir(parents=True)
    (goals / "daily.yaml").write_text("available_tools: [add]\ngoal: Add.\n")
    text = "name: job\ngoal_template: |\n"
    items = await offered_in(editor, project / "new.job.yaml", text)

    assert "daily" in labels(items)


async def test_packs_are_offered_in_the_settings(editor: Editor, project: Path) -> None:
    text = "tools: [tools/mine.py]\npacks:\n  |\n"
    items = await offered_in(editor, project / "wavewright.yaml", text)

    assert {"equities", "text", "web"} <= {*labels(items)}


@pytest.mark.parametrize(
    ("file", "written", "name"),
    [
        ("wavewright.yaml", "packs:\n  web:\n    |\n", "user_agent"),
        ("wavewright.yaml", "schedules:\n  morning:\n    |\n", "timezone"),
        ("wavewright.yaml", "notify:\n  team:\n    mail:\n      |\n", "sender"),
        ("new.job.yaml", "|\n", "goal_template"),
        ("new.plan.json", '{"steps": [{"id": "a \\" {", "tool": "|', "headline"),
        ("new.plan.json", '{"steps": [{"id": "a", "tool": "add", "params": {"|', "a"),
        ("new.plan.json", '{"steps": [], "inputs": {"days": 1}, "result": ["${inputs.|', "days"),
        ("wavewright.yaml", "packs: {web: {search: {|}}}\n", "provider"),
        ("day.job.yaml", "goal_template: x\ntools:\n  equities:\n    |\n", "exchange"),
    ],
)
async def test_what_fits_is_offered_where_a_file_is_being_written(
    editor: Editor, project: Path, file: str, written: str, name: str
) -> None:
    assert name in labels(await offered_in(editor, project / file, written))


@pytest.mark.parametrize("settings", ["packs:\n  text:\n    |\n", "packs:\n  none_such:\n    |\n"])
async def test_nothing_is_offered_of_a_pack_without_settings(
    editor: Editor, project: Path, settings: str
) -> None:
    assert await offered_in(editor, project / "wavewright.yaml", settings) == []


LINES = """\
goal: Lines of one title
inputs: {title: a title}
steps:
  - {id: news, tool: headline, params: {title: "${inputs.title}"}}
result: {lines: "${steps.news}", first: "${steps.news[0].words}"}
"""
CALLS = """\
let: {words: "${steps.all.lines.map(line, line.words)}", top: "${steps.all.lines[0]}"}
steps:
  - {id: all, plan: lines.plan.yaml, params: {|title: Rain}}
  - id: total
    tool: add
    params:
      a: 1
"""


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ("      b: ${steps.all.|\n", "first"),
        ("      b: ${steps.all.lines[0].|\n", "words"),
        ("      b: ${top.|\n", "words"),
        ("      b: ${words.map(count, |\n", "count"),
    ],
)
async def test_fields_of_a_sub_plan_and_of_names_are_offered_those_that_fit_first(
    editor: Editor, project: Path, written: str, first: str
) -> None:
    (project / "lines.plan.yaml").write_text(LINES)
    items = await offered(editor, project, CALLS.replace("|", "") + written)

    assert labels(items)[0] == first


async def test_the_inputs_of_a_sub_plan_are_offered_where_it_is_called(
    editor: Editor, project: Path
) -> None:
    (project / "lines.plan.yaml").write_text(LINES)
    items = await offered(editor, project, CALLS.replace("title: Rain", ""))

    assert labels(items) == ["title"]


async def test_a_sub_plan_that_is_faulty_offers_nothing_and_hides_nothing(
    editor: Editor, project: Path
) -> None:
    (project / "lines.plan.yaml").write_text(LINES.replace("headline", "no_such_tool") + "more: 1")
    items = await offered(editor, project, CALLS.replace("|", "") + "      b: ${steps.|\n")

    assert "all" in labels(items)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("gates: [{id: some, on_tool: headline, check: output.|}]\n", "size"),
        ("gates: [{id: some, on_tool: add, check: 'true'}]\nrecipes:\n  - gate: |\n", "some"),
        ("gates: [{id: some, on_tool: |}]\n", "add"),
        ("gat|\n", "gates"),
    ],
)
async def test_a_goal_template_is_completed(
    editor: Editor, project: Path, written: str, name: str
) -> None:
    (project / "goals").mkdir()
    (project / "wavewright.yaml").write_text("tools: [tools/mine.py]\ntemplates: [goals]\n")
    head = "version: 1\nname: lines\ngoal: g\navailable_tools: [{name: headline}]\n"
    items = await offered_in(editor, project / "goals" / "new.yaml", head + written)

    assert name in labels(items)


async def test_the_keys_of_a_new_goal_template_are_those_of_its_folder(
    editor: Editor, project: Path
) -> None:
    (project / "goals").mkdir()
    (project / "wavewright.yaml").write_text("tools: [tools/mine.py]\ntemplates: [goals]\n")
    items = await offered_in(editor, project / "goals" / "new.yaml", "name: lines\n|\n")

    assert "available_tools" in labels(items)


async def test_plans_of_the_project_are_offered_to_a_job(editor: Editor, project: Path) -> None:
    (project / "jobs").mkdir()
    items = await offered_in(editor, project / "jobs" / "a.job.yaml", "name: a\nplan: |\n")

    assert "../sum.plan.yaml" in labels(items)


async def test_a_file_of_another_programme_is_not_completed(editor: Editor, project: Path) -> None:
    items = await offered_in(editor, project / "compose.yaml", "services:\n  web:\n    |\n")

    assert items == []


async def test_the_inputs_of_its_plan_are_offered_to_a_job(editor: Editor, project: Path) -> None:
    (project / "sum.plan.yaml").write_text("inputs: {topic: rain, days: 3}\n" + HEAD)
    file = project / "sum.job.yaml"
    text = "name: sum\nplan: sum.plan.yaml\ninputs:\n  topic: sun\n"
    editor.open(file, text)
    await editor.diagnostics(file)
    editor.splice(file, len(text), len(text), "  ")
    params = types.CompletionParams(editor.identifier(file), editor.place(file, "sun\n  "))
    found = await editor.client.text_document_completion_async(params)

    assert isinstance(found, types.CompletionList)
    assert [(item.label, item.detail) for item in found.items] == [("days", "integer")]
