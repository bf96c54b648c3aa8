"""Named agents: who calls them, what they may call, and what holds for their tokens, caps and run
data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
import yaml

from tests.tools.calling import request
from tests.tools.scripted_models import ScriptedModels, Step, answer_of, project
from wavewright.config.settings import Settings
from wavewright.engine.run.project.tools import tools_of_goal
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    ModelAnswer,
    ModelCall,
    ModelUse,
    OnText,
    OnUse,
)
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import MemoryRunData, Registry, ToolDefinitionError, ToolError
from wavewright.tools.functions.tool import Emission, ToolCall
from wavewright.tools.workers import make_services

MODULE = '''
from wavewright.tools import Agents, RunData, ToolError


def read_page(url: str, *, data: RunData) -> str:
    """Read a page."""
    data.write("pages", f"{data.scope}:{url}", f"text of {url}")
    return f"read {url}"


def burn(url: str) -> str:
    """Burn a page."""
    return url


async def research(topic: str, *, agents: Agents, data: RunData) -> str:
    """Research a topic."""
    if not agents.is_available:
        return f"nothing about {topic} without a model"
    try:
        found = await agents.run("researcher", {"topic": topic}, scope=topic)
    except ToolError as error:
        return f"{error}; pages: {', '.join(data.read('pages'))}"
    return f"{found}; pages: {', '.join(data.read('pages'))}"


async def stray(*, agents: Agents) -> str:
    """Call an agent that is not declared."""
    return str(await agents.run("lead", {}))
'''
RESEARCHER: JsonObject = {
    "name": "researcher",
    "description": "Finds out about a topic.",
    "prompt": "agents/researcher",
    "tools": ["read_page"],
    "token_share": 0.5,
}
LEAD: JsonObject = {
    "name": "lead",
    "description": "Leads the research.",
    "prompt": "agents/lead",
    "tools": ["research", "researcher"],
    "output_schema": {
        "type": "object",
        "required": ["done"],
        "properties": {"done": {"type": "boolean"}},
    },
    "max_output_tokens": 700,
    "limits": {"requests": 5, "seconds": "2m"},
}
FUNCTIONS: JsonObject = {
    "read_page": {"writes_data": ["pages"], "untrusted_output": True},
    "burn": {"effects": ["write"]},
    "research": {"reads_data": ["pages"], "calls_agents": ["researcher"]},
    "stray": {"calls_agents": ["researcher"]},
}


class ModelsByAgent(ScriptedModels):
    """Answers in the loop with what is scripted for the agent that asks."""

    def __init__(self, steps: dict[str, list[Step]], answers: dict[str, str | ModelAnswer]) -> None:
        super().__init__([""])
        self.steps_of = steps
        self.answers = answers
        self.offered_to: dict[str, list[str]] = {}

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
    ) -> ModelAnswer:
        self.offered_to[call.name] = [tool.name for tool in tools]
        self.limits = limits
        by_name = {tool.name: tool for tool in tools}
        for step in self.steps_of.get(call.name, []):
            for name, params in step.calls:
                self.shown.append(await by_name[name].call(params))
        self.script = [self.answers[call.name]]
        return self._next(call, on_use)


class AgentProject:
    """A project with two agents, and a goal that lists its tools."""

    def __init__(self, home: Path, *, model: bool = True) -> None:
        self.home = home
        self.emitted: list[Emission] = []
        (home / "tools").mkdir()
        (home / "tools" / "pages.py").write_text(MODULE)
        prompts = home / "prompts" / "agents"
        prompts.mkdir(parents=True)
        topic = "{{ (inputs.topic if inputs.topic is defined else inputs.task) | data('topic') }}"
        context = "{% if inputs.context %}{{ inputs.context | data('context') }}{% endif %}"
        (prompts / "researcher.md.j2").write_text(f"Find out about {topic}.\n")
        (prompts / "lead.md.j2").write_text(
            f"Lead: {{{{ inputs.task | data('task') }}}}\n{context}\n"
        )
        self.add_agent(RESEARCHER)
        self.add_agent(LEAD)
        self.models = ModelsByAgent({}, {"researcher": "known", "lead": '{"done": true}'})
        given = project(home) if model else project(home, model=None)
        self.settings: Settings = replace(
            given,
            agents=(home / "config" / "agents",),
            tools=({"path": "tools/pages.py", "functions": FUNCTIONS},),
        )

    def add_agent(self, spec: JsonObject) -> None:
        file = self.home / "config" / "agents" / f"{spec['name']}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(spec))

    def tools(self, *names: str) -> Registry:
        goal = Goal(
            name="g",
            job="j",
            text="t",
            inputs={},
            tools=tuple(
                AvailableTool(name=name) for name in names or ("research", "read_page", "agent")
            ),
        )
        models = self.models if self.settings.model else None
        return tools_of_goal(goal, self.settings, make_services(self.settings, models))

    def call(self, name: str, **params: Json) -> Json:
        tool = self.tools()[name] if name != "stray" else self.tools("stray")[name]
        self.data = MemoryRunData(
            reads=tool.signature.reads_data, writes=tool.signature.writes_data
        )
        asked: ToolCall = replace(
            request(params), emit=self.emitted.append, data=self.data, tool=name
        )
        return anyio.run(tool.call, asked)

    @property
    def roles(self) -> list[tuple[str, str]]:
        return [(one.name, one.role) for one in self.emitted if isinstance(one, ModelUse)]


def test_a_tool_calls_an_agent_whose_tools_write_run_data_under_the_scope_of_the_call(
    tmp_path: Path,
) -> None:
    home = AgentProject(tmp_path)
    home.models.steps_of["researcher"] = [Step((("read_page", {"url": "a"}),))]

    assert home.call("research", topic="rivers") == "known; pages: rivers:a"
    assert home.models.asked[0].prompt.startswith("# Task\n\nFind out about")
    assert '"rivers"' in home.models.asked[0].prompt
    assert home.data.written == {"pages": {"rivers:a": "text of a"}}
    assert home.roles == [("researcher", "worker")]


def test_without_a_model_a_tool_is_told_so_and_is_the_plain_tool(tmp_path: Path) -> None:
    home = AgentProject(tmp_path, model=False)

    assert home.call("research", topic="rivers") == "nothing about rivers without a model"
    assert home.tools()["research"].signature.effects == {"read"}


def test_what_an_agent_has_collected_stays_where_it_comes_to_no_answer(tmp_path: Path) -> None:
    home = AgentProject(tmp_path)
    home.models.steps_of["researcher"] = [Step((("read_page", {"url": "a"}),))]
    home.models.answers["researcher"] = "  "

    answer = home.call("research", topic="rivers")

    assert isinstance(answer, str)
    assert answer.startswith("'researcher' has no usable answer")
    assert answer.endswith("pages: rivers:a")


def test_a_step_runs_a_named_agent_which_calls_tools_and_other_agents(tmp_path: Path) -> None:
    home = AgentProject(tmp_path)
    home.models.steps_of["lead"] = [
        Step((("research", {"topic": "rivers"}),)),
        Step((("researcher", {"task": "the lakes"}),)),
    ]
    home.models.steps_of["researcher"] = [Step((("read_page", {"url": "a"}),))]

    output = home.call("agent", agent="lead", task="Know the land.", context={"wave": 2})

    assert isinstance(output, dict)
    assert output["answer"] == {"done": True}
    assert output["collected"] == {"call_1": "known; pages: rivers:a", "call_2": "known"}
    assert home.models.offered_to == {
        "lead": ["research", "researcher"],
        "researcher": ["read_page"],
    }
    assert home.data.written == {"pages": {"rivers:a": "text of a", ":a": "text of a"}}
    assert sorted(home.roles) == [
        ("lead", "agent"),
        ("researcher", "worker"),
        ("researcher", "worker"),
    ]
    assert '"wave": 2' in home.models.asked[-1].prompt


def test_a_step_may_name_fewer_tools_for_a_named_agent_and_no_others(tmp_path: Path) -> None:
    home = AgentProject(tmp_path)

    home.call("agent", agent="lead", task="x", tools=["researcher"])
    with pytest.raises(ToolError, match="an agent may not call 'read_page'"):
        home.call("agent", agent="lead", task="x", tools=["read_page"])

    assert home.models.offered_to["lead"] == ["researcher"]


def test_each_agent_has_its_own_ceiling_of_tokens_and_its_own_limits(tmp_path: Path) -> None:
    home = AgentProject(tmp_path)

    home.call("agent", agent="lead", task="x")
    lead_limits = home.models.limits
    home.call("research", topic="rivers")

    assert [(one.name, one.max_tokens) for one in home.models.asked] == [
        ("lead", 700),
        ("researcher", 25_000),
    ]
    assert lead_limits == LoopLimits(5, 30)


def test_an_answer_that_does_not_fit_goes_back_twice_and_then_fails_the_call(
    tmp_path: Path,
) -> None:
    home = AgentProject(tmp_path)
    home.add_agent({**LEAD, "tools": []})
    home.models.script = ["none", '{"done": 3}', '{"done": "yes"}']

    with pytest.raises(ToolError, match="'lead' has no usable answer"):
        home.call("agent", agent="lead", task="x")

    assert len(home.models.asked) == 3


def test_a_good_answer_after_two_bad_ones_is_taken(tmp_path: Path) -> None:
    home = AgentProject(tmp_path)
    home.add_agent({**LEAD, "tools": []})
    home.models.script = ["none", answer_of('{"done": tr', is_truncated=True), '{"done": false}']

    output = home.call("agent", agent="lead", task="x")

    assert isinstance(output, dict)
    assert (output["answer"], output["method"]) == ({"done": False}, "agent")


def test_a_tool_that_calls_agents_carries_what_their_tools_read_write_and_bring_in(
    tmp_path: Path,
) -> None:
    home = AgentProject(tmp_path)
    signature = home.tools()["research"].signature
    before = signature.version
    home.add_agent({**RESEARCHER, "token_share": 0.25, "model_preference": "pro"})

    assert signature.writes_data == {"pages"}
    assert signature.untrusted_output
    assert signature.effects == {"read", "egress"}
    assert signature.expected_tokens > 0
    changed = home.tools()["research"].signature
    assert changed.version != before
    assert (signature.model_preferences, changed.model_preferences) == (("auto",), ("pro",))


def test_only_declared_agents_can_be_called(tmp_path: Path) -> None:
    home = AgentProject(tmp_path)

    with pytest.raises(ToolError) as refused:
        home.call("stray")

    assert str(refused.value) == "the tool 'stray' calls the agent 'lead' and does not declare it"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tools": ["no_such"]}, "agent 'researcher' has the tool 'no_such', which does not exist"),
        ({"tools": ["burn"]}, "agent 'researcher' may not call 'burn'"),
        (
            {"tools": ["lead"]},
            "agent 'researcher' would call itself: researcher → lead → researcher",
        ),
        ({"prompt": "agents/none"}, "agent 'researcher': there is no prompt 'agents/none'"),
    ],
)
def test_an_agent_that_could_never_work_is_refused_when_tools_are_loaded(
    tmp_path: Path, change: JsonObject, message: str
) -> None:
    home = AgentProject(tmp_path)
    home.add_agent({**RESEARCHER, **change})
    if change.get("tools") == ["lead"]:
        home.add_agent({**LEAD, "tools": ["researcher"]})

    with pytest.raises(ToolDefinitionError) as refused:
        home.tools()

    assert str(refused.value) == message


def test_a_name_that_an_agent_and_a_tool_share_is_refused_with_the_places_of_both(
    tmp_path: Path,
) -> None:
    home = AgentProject(tmp_path)
    home.add_agent({**RESEARCHER, "name": "burn"})
    with pytest.raises(ToolDefinitionError) as of_project:
        home.tools()
    (tmp_path / "config" / "agents" / "burn.yaml").unlink()
    home.add_agent({**RESEARCHER, "name": "summarize_content"})
    home.add_agent({**LEAD, "tools": ["summarize_content"]})
    with pytest.raises(ToolDefinitionError) as of_pack:
        home.tools()

    file = tmp_path / "config" / "agents" / "burn.yaml"
    place = f"tools[0] of {home.settings.file}"
    assert str(of_project.value) == f"'burn' is an agent, in {file}, and a function, in {place}"
    assert "summarize_content.yaml, and a tool of pack 'text'" in str(of_pack.value)
    assert of_pack.value.hint == "give one of the two another name"


def test_a_faulty_file_is_told_with_its_line(tmp_path: Path) -> None:
    home = AgentProject(tmp_path)
    (tmp_path / "config" / "agents" / "lead.yaml").write_text("name: lead\nprompt: a/b\nretry: 3\n")

    with pytest.raises(ToolDefinitionError) as refused:
        home.tools()

    assert "lead.yaml:1: the agent spec has no 'description'" in str(refused.value)
    assert "line 3: 'retry' is no field of the agent spec" in str(refused.value)
