"""A small goal to plan for, and a model that says what a test tells it to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wavewright.planner.language.goals import Goal, GoalTemplate, Job
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.planner import make_plan
from wavewright.planner.planning.records import PlanningRequest, PlanningResult
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.planner.ports.asking import Asking
from wavewright.planner.ports.fallback_ladder import Ladder, read_ladders
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    ModelAnswer,
    ModelCall,
    ModelChoice,
    ModelError,
    ModelUse,
    NamedCall,
    OnText,
    OnUse,
    Role,
)
from wavewright.planner.types import JsonObject, JsonSchema
from wavewright.prompts.templates import Prompts

READING: JsonSchema = {
    "type": "object",
    "properties": {
        "station": {"type": "string"},
        "wind": {"type": "number"},
        "as_of": {"type": "string", "format": "date-time"},
        "gusts": {"type": "array", "items": {"type": "number"}},
        "note": {"type": "string"},
    },
    "required": ["station", "wind", "as_of", "gusts"],
    "additionalProperties": False,
}
REPORT: JsonSchema = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "text": {"type": "string"}},
    "required": ["title", "text"],
    "additionalProperties": False,
}


def params(*required: str, **parts: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": {**parts},
        "required": [*required],
        "additionalProperties": False,
    }


STATION: JsonSchema = {
    "type": "string",
    "minLength": 2,
    "description": "Code of the station, such as ZRH",
}
TOOLS = {
    one.name: one
    for one in (
        ToolSignature(
            name="read_sensor",
            description="Read what a station measures.",
            input_schema=params(
                "station", station=STATION, hours={"type": "integer", "minimum": 1}
            ),
            output_schema=READING,
            tags=frozenset({"data"}),
            freshness_field="as_of",
        ),
        ToolSignature(
            name="read_reference",
            description="Read a reference series, for comparison only.",
            input_schema=params("code", code={"type": "string"}),
            output_schema=READING,
            tags=frozenset({"data"}),
        ),
        ToolSignature(
            name="write_report",
            description="Write a report of readings.",
            input_schema=params(
                "readings",
                "title",
                readings={"type": "array", "items": {**READING}},
                title={"type": "string", "minLength": 1, "maxLength": 40},
                tags={"type": "array", "items": {"type": "string"}},
            ),
            output_schema=REPORT,
        ),
        ToolSignature(
            name="send_alarm",
            description="Wake somebody up.",
            input_schema=params("text", text={"type": "string"}),
            effects=frozenset({"write", "egress"}),
            needs_approval=True,
        ),
    )
}
TEMPLATE: dict[str, Any] = {
    "name": "weather",
    "goal": "Say how windy it is at the stations, compared with the reference",
    "targets": {"variables": "stations", "benchmarks": "references", "key": "code"},
    "available_tools": [{"name": name} for name in TOOLS],
    "output_tags": ["weather"],
    "rules": {
        "analysis_tools": ["write_report"],
        "primary_params": {"read_sensor": "station"},
        "required_tools": ["read_sensor", "write_report"],
        "terminal": [{"tool": "write_report", "params": {"tags": "${goal.output_tags}"}}],
    },
    "gates": [{"id": "fresh", "on_tool": "read_sensor", "fresh_within": "24h"}],
}
JOB = Job(name="wind today", variables=[{"code": "ZRH"}, {"code": "SMA"}], benchmarks=["ALPS"])

GOOD: JsonObject = {
    "reasoning": "each station is read once",
    "steps": [
        {
            "why": "the report is about them",
            "id": "wind",
            "tool": "read_sensor",
            "for_each": "${inputs.stations}",
            "params": {"station": "${item.code}"},
        },
        {
            "why": "this was asked for",
            "id": "report",
            "tool": "write_report",
            "params": {"readings": "${steps.wind}", "title": "Wind today"},
        },
    ],
    "result": "${steps.report}",
}
GOOD_TEXT = json.dumps(GOOD)


def faulty(**changes: object) -> str:
    """Return the good plan's text with a fault, or more, in its second step."""
    plan = json.loads(GOOD_TEXT)
    plan["steps"][1] |= {"params": {"readings": "${steps.winds}", "title": "Wind today"}, **changes}
    return json.dumps(plan)


def goal_of(template: dict[str, Any] | None = None, job: Job = JOB) -> Goal:
    return resolve_goal(
        job, GoalTemplate.model_validate_json(json.dumps({**TEMPLATE, **(template or {})}))
    )


def template_plan() -> Plan:
    return Plan.model_validate_json(GOOD_TEXT)


Line = str | ModelAnswer | ModelError


def said(text: str, *, calls: Sequence[NamedCall] = (), is_truncated: bool = False) -> ModelAnswer:
    use = ModelUse(
        "planner", "planner", "scripted:one", "answered", input_tokens=10, output_tokens=5
    )
    return ModelAnswer(text, use, is_truncated=is_truncated, calls=tuple(calls))


@dataclass
class ScriptedModels:
    """Says its lines one after the other, then the last one again and again."""

    lines: Sequence[Line]
    asked: list[ModelCall] = field(default_factory=list[ModelCall])
    fallbacks: tuple[str, ...] = ()

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        line = self.lines[min(len(self.asked), len(self.lines) - 1)]
        self.asked.append(call)
        if isinstance(line, ModelError):
            raise line
        answer = said(line) if isinstance(line, str) else line
        if on_use is not None:
            on_use(answer.use)
        return answer

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
    ) -> ModelAnswer:
        raise ModelError("denied", "a planner calls no tools")

    def choose(self, preference: str, role: Role) -> ModelChoice:
        return ModelChoice("scripted:one", "the test says so", self.fallbacks)


def ladder(*rungs: str) -> Ladder:
    """Return the shipped ladder, or only some of its rungs."""
    shipped = read_ladders({})["planner"]
    return (
        shipped
        if not rungs
        else Ladder(name="planner", rungs=tuple(r for r in shipped.rungs if r.name in rungs))
    )


async def planned(
    models: ScriptedModels | None, *rungs: str, goal: Goal | None = None, **more: Any
) -> PlanningResult:
    """Plan with a scripted model, without a template's plan unless one is given."""
    asking = Asking(models=models, prompts=Prompts(), ladder=ladder(*rungs))
    given = {name: more.pop(name) for name in [*more] if name in Asking.__dataclass_fields__}
    fields: dict[str, Any] = {"tools": TOOLS, **more}
    request = PlanningRequest(goal or goal_of(), **fields)
    return await make_plan(request, replace(asking, **given))
