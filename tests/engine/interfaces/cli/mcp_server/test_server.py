"""`wavewright mcp`: the tools, resources and prompt of the server, as an MCP client sees them."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from tests.engine.conftest import CommandLine
from tests.repository.tree import ROOT
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.mcp_server.plan_tools import Project
from wavewright.engine.interfaces.cli.mcp_server.server import build_server

pytestmark = pytest.mark.anyio

JOB = "plans/words.job.yaml"
UNKNOWN_TOOL = "version: 1\nsteps: [{id: a, tool: read_not, params: {}}]"
NEEDS_APPROVAL = """
version: 1
steps: [{id: notes, tool: list_notes, params: {folder: notes}, needs_approval: true}]
"""
FOUND_TARGETS = """
name: notes
goal: Count words
targets: {first: [start], depth: 1, expand: "${steps.page.lines}"}
plan:
  version: 1
  steps:
    - {id: page, tool: read_page, params: {name: "${inputs.target}"}}
    - {id: kept, tool: keep, params: {text: "Now ${inputs.target}"}}
"""
PAGE_TOOLS = '''
def read_page(name: str) -> dict:
    """Read a page."""
    return {"lines": [name]}


def keep(text: str) -> str:
    """Keep a text."""
    return text
'''
WAITING_TOOL = '''
from pathlib import Path

import anyio


async def pass_gate(path: str, after: list[str]) -> str:
    """Return once the file exists; a file that is absent never comes."""
    if not Path(path).exists():
        await anyio.sleep_forever()
    return "passed"
'''
LOUD_TOOL = '''
import os


def shout(word: str) -> str:
    """Print a word, also from a child process."""
    print(word, flush=True)
    os.system(f"echo {word}")
    return word
'''
WAITING_PLAN = """
version: 1
steps:
  - {id: notes, tool: list_notes, params: {folder: notes}}
  - {id: gate, tool: pass_gate, params: {path: gate, after: "${steps.notes}"}}
"""

Connect = Callable[..., AbstractAsyncContextManager[Client]]


class Person:
    """Answers the server's questions, and keeps them."""

    def __init__(self, *, approves: bool = True) -> None:
        self.approves = approves
        self.questions: list[str] = []

    async def answer(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        self.questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": self.approves})


@pytest.fixture
def connect(project: Path) -> Connect:
    """Connect a client to a server of the starter project, in this process."""
    assert project.is_dir()

    @asynccontextmanager
    async def connected(
        *, allows_runs: bool = False, person: Person | None = None, mode: Any = "auto"
    ) -> AsyncGenerator[Client]:
        server = build_server(Project(project_settings(), allows_runs))
        async with Client(
            server, elicitation_callback=person.answer if person else None, mode=mode
        ) as client:
            yield client

    return connected


def add_tool(project: Path, name: str, code: str, functions: str = "") -> None:
    """Add a module to the tools of the starter project."""
    (project / "tools" / f"{name}.py").write_text(code, encoding="utf-8")
    settings = project / "wavewright.yaml"
    text = settings.read_text(encoding="utf-8")
    entry = f"  - path: tools/{name}.py\n" + (f"    functions: {functions}\n" if functions else "")
    settings.write_text(text.replace("tools:\n", f"tools:\n{entry}", 1), encoding="utf-8")


def structured(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    return cast("dict[str, Any]", result.structured_content)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured answer of a tool."""
    return structured(await client.call_tool(tool, arguments))


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of a tool's error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def read(client: Client, uri: str) -> str:
    """Return the text of a resource."""
    (content,) = (await client.read_resource(uri)).contents
    return str(getattr(content, "text", ""))


async def test_every_tool_has_a_description_and_an_output_schema(connect: Connect) -> None:
    async with connect() as client:
        tools = (await client.list_tools()).tools
        names = {tool.name for tool in tools}
        assert names == {
            "check_plan",
            "dry_run",
            "run_plan",
            "show_run",
            "list_tools",
            "explain_diagnostic",
        }
        assert all(tool.description and tool.output_schema for tool in tools)
        reading = {
            tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint
        }
        assert reading == names - {"run_plan"}


async def test_check_plan_returns_faults_with_their_place_and_fix(connect: Connect) -> None:
    async with connect() as client:
        assert (await called(client, "check_plan", file=JOB))["valid"]
        answer = await called(client, "check_plan", plan=UNKNOWN_TOOL)
        (found,) = answer["diagnostics"]
        assert not answer["valid"]
        assert (found["code"], found["pointer"], found["line"]) == ("E201", "/steps/0/tool", 2)
        assert found["hint"] == "did you mean 'read_note'?"


async def test_a_plan_may_be_sent_as_an_object(connect: Connect) -> None:
    plan = {
        "version": 1,
        "steps": [{"id": "a", "tool": "list_notes", "params": {"folder": "notes"}}],
    }
    async with connect() as client:
        assert (await called(client, "check_plan", plan=plan))["valid"]


async def test_a_plan_is_checked_against_a_goal_template(connect: Connect) -> None:
    async with connect() as client:
        plan = "version: 1\nsteps: [{id: a, tool: list_notes, params: {folder: notes}}]"
        assert (await called(client, "check_plan", plan=plan))["valid"]
        answer = await called(client, "check_plan", plan=plan, goal="word_ranking")
        assert not answer["valid"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("check_plan", {"file": "../secret.yaml"}),
        ("check_plan", {"plan": "name: a\nplan: ../secret.yaml"}),
        ("check_plan", {"plan": UNKNOWN_TOOL, "goal": "../secret.yaml"}),
        ("dry_run", {"file": "link.yaml"}),
        ("dry_run", {"plan": "name: a\ngoal_template: /etc/goal.yaml"}),
        ("run_plan", {"file": "/etc/passwd"}),
    ],
)
async def test_no_call_reads_a_file_outside_the_project(
    connect: Connect, project: Path, tool: str, arguments: dict[str, str]
) -> None:
    (project.parent / "secret.yaml").write_text("version: 1\nsteps: []\n", encoding="utf-8")
    (project / "link.yaml").symlink_to(project.parent / "secret.yaml")
    async with connect(allows_runs=True) as client:
        assert "leads out of the project's folder" in await refused(client, tool, **arguments)


async def test_a_call_with_neither_a_plan_nor_a_file_names_the_two(connect: Connect) -> None:
    async with connect() as client:
        assert await refused(client, "dry_run") == (
            "error: a call has either 'plan' or 'file'\n  = help: give one of the two"
        )


async def test_dry_run_returns_waves_effects_and_estimates(connect: Connect) -> None:
    async with connect() as client:
        answer = await called(client, "dry_run", file=JOB, inputs={"top": 2})
        assert answer["waves"] == [["files"], ["notes"], ["ranking"]]
        assert [step["tool"] for step in answer["steps"]] == [
            "list_notes",
            "read_note",
            "rank_words",
        ]
        assert answer["estimate"]["seconds"]["p90"] > 0
        assert "E201" in await refused(client, "dry_run", plan=UNKNOWN_TOOL)


async def test_dry_run_refuses_found_names_that_would_be_written(
    connect: Connect, project: Path
) -> None:
    options = "{read_page: {untrusted_output: true}, keep: {effects: [write]}}"
    add_tool(project, "pages", PAGE_TOOLS, options)
    (project / "found.job.yaml").write_text(FOUND_TARGETS)
    async with connect() as client:
        told = await refused(client, "dry_run", file="found.job.yaml")

    assert "E601" in told
    assert "'targets.expand' → 'inputs.target' → 'text' of 'kept'" in told


@pytest.mark.parametrize(
    ("code", "fault"),
    [("", None), ("def untyped(n): return n\n", "'untyped'"), ("import nowhere\n", "'nowhere'")],
)
async def test_list_tools_returns_the_schemas_and_effects_of_the_project_and_its_faults(
    code: str, fault: str | None, connect: Connect, project: Path
) -> None:
    if code:
        add_tool(project, "faulty", code)
    async with connect() as client:
        answer = await called(client, "list_tools")
    tools = {tool["name"]: tool for tool in answer["tools"]}
    assert tools["read_note"]["input_schema"]["required"] == ["path"]
    assert tools["read_note"]["effects"] == ["read"]
    if fault is None:
        assert answer["faults"] == []
    else:
        [told] = answer["faults"]
        assert fault in told


@pytest.mark.parametrize("name", ["E201", "e201", "unknown_tool"])
async def test_a_diagnostic_is_explained_by_its_code_or_kind(connect: Connect, name: str) -> None:
    async with connect() as client:
        answer = await called(client, "explain_diagnostic", code=name)
        assert (answer["code"], answer["severity"]) == ("E201", "error")
        assert answer["fix"]
        assert "there is no diagnostic 'E999'" in await refused(
            client, "explain_diagnostic", code="E999"
        )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_run_begins_once_a_person_has_agreed_to_what_it_calls(
    connect: Connect, mode: str
) -> None:
    person, seen = Person(), list[tuple[float, float | None, str | None]]()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message and message.split()[0]))

    async with connect(person=person, mode=mode) as client:
        result = await client.call_tool(
            "run_plan", {"file": JOB, "inputs": {"top": 1}}, progress_callback=on_progress
        )
        answer = structured(result)
        assert (answer["status"], len(answer["result"]["words"])) == ("achieved", 1)
        assert [step["status"] for step in answer["steps"]] == ["ok", "ok", "ok"]
        (question,) = person.questions
        assert 'inputs: {"folder": "notes", "top": 1}' in question
        assert 'files: list_notes (read) {"folder": "${inputs.folder}"}' in question
        assert seen == [(1, 3, "files"), (2, 3, "notes"), (3, 3, "ranking")]
        assert await called(client, "show_run") == answer
        assert json.loads(await read(client, answer["package"]))["run"] == answer["run"]
        assert [row["run"] for row in json.loads(await read(client, "wavewright://runs"))] == [
            answer["run"]
        ]


@pytest.fixture
def job_with_kept_plan(project: Path, wavewright: CommandLine) -> str:
    """A job without a plan, whose plan was kept from a run of the same goal."""
    assert wavewright("run", JOB, "--quiet").code == 0
    assert wavewright("keep", "--as", "kept_words", "--yes").code == 0
    text = "name: words\ngoal_template: word_ranking\ninputs: {folder: notes, top: 5}\n"
    (project / "again.job.yaml").write_text(text, encoding="utf-8")
    return "again.job.yaml"


async def test_a_person_is_asked_about_the_plan_that_was_kept_for_a_job(
    connect: Connect, job_with_kept_plan: str
) -> None:
    person = Person()
    async with connect(person=person) as client:
        answer = await called(client, "run_plan", file=job_with_kept_plan)
    assert answer["status"] == "achieved"
    (question,) = person.questions
    assert "files: list_notes (read)" in question


@pytest.mark.parametrize(
    ("goal", "told"),
    [
        pytest.param("", "files: list_notes (read)", id="one that was kept"),
        pytest.param("goal: Count the notes\n", "a model makes the plan", id="one of a model"),
    ],
)
async def test_a_person_is_asked_about_the_plan_that_comes_before_a_fallback(
    connect: Connect,
    job_with_kept_plan: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    goal: str,
    told: str,
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "openai:gpt-5-mini")
    with (project / "config/goals/word_ranking.yaml").open("a") as template:
        template.write(
            "fallback_plan: {steps: [{id: last, tool: list_notes, params: {folder: notes}}]}\n"
        )
    with (project / job_with_kept_plan).open("a") as job:
        job.write(goal)
    person = Person(approves=False)
    async with connect(person=person) as client:
        await refused(client, "run_plan", file=job_with_kept_plan)
    (question,) = person.questions
    assert told in question
    assert "last: list_notes" not in question


async def test_no_run_begins_without_consent(connect: Connect, project: Path) -> None:
    async with connect() as client:
        assert "--allow-runs" in await refused(client, "run_plan", file=JOB)
    async with connect(person=Person(approves=False)) as client:
        assert "the run was not approved" in await refused(client, "run_plan", file=JOB)
    assert not (project / ".wavewright" / "journal.sqlite").exists()


async def test_a_person_is_not_asked_about_a_plan_that_is_not_valid(connect: Connect) -> None:
    person = Person()
    async with connect(person=person) as client:
        assert "E201" in await refused(client, "run_plan", plan=UNKNOWN_TOOL)
    assert person.questions == []


async def test_allowing_runs_gives_no_approval_that_a_step_needs(connect: Connect) -> None:
    async with connect(allows_runs=True) as client:
        answer = await called(client, "run_plan", plan=NEEDS_APPROVAL)
        assert answer["status"] == "waiting_for_approval"
        assert f"wavewright decisions {answer['run']}" in answer["hint"]
        package = json.loads(await read(client, answer["package"]))
        assert [step["status"] for step in answer["steps"]] == ["asking"]
        assert package["status"] == "waiting_for_approval"


async def test_a_run_whose_plan_was_refused_is_shown_with_its_faults(
    connect: Connect, project: Path
) -> None:
    (project / "ask.plan.yaml").write_text(NEEDS_APPROVAL)
    program = "from wavewright.engine.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "run", "ask.plan.yaml", "--approve", "never"]
    ran = await anyio.run_process(command, cwd=project, check=False)
    async with connect() as client:
        answer = await called(client, "show_run")

    (fault,) = answer["diagnostics"]
    assert (ran.returncode, answer["status"], answer["reason"]) == (
        1,
        "failed",
        "the plan is not valid",
    )
    assert (fault["code"], fault["pointer"]) == ("E602", "/steps/0")
    assert fault["kind"]
    assert "--approve wait" in fault["hint"]


async def test_a_run_with_targets_is_shown_with_the_run_of_each(
    connect: Connect, project: Path
) -> None:
    add_tool(project, "pages", PAGE_TOOLS)
    (project / "found.job.yaml").write_text(FOUND_TARGETS)
    async with connect(allows_runs=True) as client:
        answer = await called(client, "run_plan", file="found.job.yaml")
        (target,) = answer["targets"]
        shown = await called(client, "show_run", run=target["run"])

    assert answer["status"] == shown["status"] == "achieved"
    assert (target["target"], target["wave"], target["status"]) == ("start", 0, "achieved")


async def test_a_cancelled_run_is_interrupted_and_can_be_resumed(
    connect: Connect, project: Path
) -> None:
    add_tool(project, "gate", WAITING_TOOL)
    async with connect(allows_runs=True) as client:
        with anyio.CancelScope() as scope:

            async def on_progress(
                progress: float, total: float | None, message: str | None
            ) -> None:
                scope.cancel()

            await client.call_tool(
                "run_plan", {"plan": WAITING_PLAN}, progress_callback=on_progress
            )
        while (shown := await called(client, "show_run"))["status"] == "running":
            await anyio.lowlevel.checkpoint()
        assert shown["status"] == "interrupted"
        assert shown["hint"] == f"call run_plan with resume: {shown['run']}"
        (project / "gate").touch()
        resumed = await called(client, "run_plan", resume=shown["run"])
        assert (resumed["run"], resumed["status"]) == (shown["run"], "achieved")
        assert "there is nothing to resume" in await refused(
            client, "run_plan", resume=shown["run"]
        )


async def test_schemas_and_the_language_page_are_resources(connect: Connect) -> None:
    async with connect() as client:
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        schemas = [uri for uri in uris if uri.startswith("wavewright://schemas/")]
        assert len(schemas) == 7
        for uri in schemas:
            assert json.loads(await read(client, uri))["type"] == "object"
        language = await read(client, "wavewright://language")
        for name in ("plan-language", "plan-values", "ask-and-dispatch", "sub-plans", "gates"):
            page = ROOT / "docs" / "reference" / f"{name}.md"
            assert page.read_text(encoding="utf-8") in language
        with pytest.raises(MCPError, match="there are no runs yet"):
            await read(client, "wavewright://runs/none/package")


async def test_the_prompt_teaches_the_plan_language_with_the_tools_of_the_project(
    connect: Connect,
) -> None:
    async with connect() as client:
        prompt = await client.get_prompt("write_plan", {"goal": "Count ${the} words"})
        text = str(getattr(prompt.messages[0].content, "text", ""))
        assert "Count ${the} words" in text
        assert "read_note(path: string)" in text
        assert "check_plan" in text


async def test_what_a_tool_prints_stays_off_the_protocol(project: Path) -> None:
    add_tool(project, "shout", LOUD_TOOL)
    program = ["-m", "wavewright.engine.main", "mcp", "--allow-runs"]
    plan = "version: 1\nsteps: [{id: a, tool: shout, params: {word: hello}}]"
    async with Client(
        StdioServerParameters(command=sys.executable, args=program, cwd=project)
    ) as client:
        answer = await called(client, "run_plan", plan=plan)
        assert (answer["status"], answer["result"]) == ("achieved", "hello")
