"""`wavewright doctor --model`: what the planner's model is good for, by three small questions.

It is asked for one word, for a typed object, and for a plan of two steps: as a whole, and one step
at a time. Nothing of a plan is carried out.
"""

from __future__ import annotations

import json
import time
from typing import Final, NamedTuple

from wavewright.config import Settings
from wavewright.engine.interfaces.cli.project.project_checks import DoctorFinding
from wavewright.executor import MemoryBudgetStore
from wavewright.planner import (
    Asking,
    Goal,
    Json,
    JsonObject,
    JsonSchema,
    ToolSignature,
    find_json,
    validator_of,
)
from wavewright.planner.planning.planner import make_plan
from wavewright.planner.planning.records import PlanningRequest
from wavewright.planner.ports.fallback_ladder import Ladder, Rung
from wavewright.planner.ports.model_port import ModelCall, ModelClient, ModelError
from wavewright.prompts import Prompts, one_line
from wavewright.tools.models import open_models

_INSTRUCTIONS: Final = "You are asked what you can do."
_MAX_TOKENS: Final = 1_000
_WORD: Final = "ready"
_TOWN: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "town": {"type": "string", "maxLength": 40},
        "inhabitants": {"type": "integer"},
        "is_capital": {"type": "boolean"},
    },
    "required": ["town", "inhabitants", "is_capital"],
    "additionalProperties": False,
}
_RIGHT_TOWN: Final[Json] = {"town": "Bern", "inhabitants": 134_000, "is_capital": True}


class _Examined(NamedTuple):
    """Whether the model did what it was asked for, with what is said of it."""

    is_good: bool
    finding: DoctorFinding


async def examine_model(settings: Settings) -> list[DoctorFinding]:
    """Ask the planner's model three questions and return how it did, and what it is good for.

    Raises:
        ModelConfigError: the models are not configured correctly.
    """
    async with (
        MemoryBudgetStore(settings.budgets) as budgets,
        open_models(settings, budgets) as models,
    ):
        outcomes = {
            "word": await _word(models),
            "object": await _object(models),
            "plan": await _plan(models, "llm"),
            "guided": await _plan(models, "guided"),
        }
    good = {name for name, outcome in outcomes.items() if outcome.is_good}
    return [*(outcome.finding for outcome in outcomes.values()), _verdict(good)]


def _verdict(good: set[str]) -> DoctorFinding:
    """Return what a model is good for that did well in these questions."""
    uses = {
        "plan": "plans as a whole",
        "guided": "plans one step at a time",
        "object": "typed answers of workers",
        "word": "texts",
    }
    said = ", ".join(words for name, words in uses.items() if name in good)
    if not said:
        return DoctorFinding("good for", "fault", "none of this", "name another model")
    hint = ""
    if "guided" in good and "plan" not in good:
        hint = "put `guided` first under ladders.planner in wavewright.yaml: it needs no other rung"
    return DoctorFinding("good for", "ok", said, hint)


async def _word(models: ModelClient) -> _Examined:
    started = time.monotonic()
    try:
        answer = await models.ask(_question(f"Answer with the one word: {_WORD}"))
    except ModelError as error:
        return _no_answer("word", error)
    is_right = _WORD in answer.text.lower()
    return _outcome("word", one_line(answer.text, 60), started, is_good=is_right)


async def _object(models: ModelClient) -> _Examined:
    started = time.monotonic()
    text = "Bern is the capital of Switzerland and has 134000 inhabitants. Which town is this?"
    try:
        answer = await models.ask(_question(text, _TOWN))
    except ModelError as error:
        return _no_answer("object", error)
    values = [match.value for match in find_json(answer.text).values]
    fitting = [value for value in values if validator_of(_TOWN).accepts(value)]
    if not fitting:
        return _outcome("object", "what it said does not fit the schema", started, is_good=False)
    said = json.dumps(fitting[-1], ensure_ascii=False)
    if fitting[-1] != _RIGHT_TOWN:
        said += ", which fits the schema and is wrong"
    return _outcome("object", said, started, is_good=True)


def _question(prompt: str, schema: JsonSchema | None = None) -> ModelCall:
    return ModelCall(
        role="planner",
        name="doctor",
        instructions=_INSTRUCTIONS,
        prompt=prompt,
        schema=schema,
        thinking="minimal",
        max_tokens=_MAX_TOKENS,
    )


async def _plan(models: ModelClient, rung: str) -> _Examined:
    started = time.monotonic()
    ladder = Ladder(name="planner", rungs=(Rung(name=rung, tries=2),))
    asking = Asking(models=models, prompts=Prompts(), ladder=ladder)
    planned = await make_plan(PlanningRequest(_goal(), _tools(), may_ask=False), asking)
    name = "plan" if rung == "llm" else rung
    if planned.plan is None:
        reason = one_line("; ".join(record.reason for record in planned.rungs), 200)
        return _outcome(name, f"no valid plan: {reason}", started, is_good=False)
    calls = ", ".join(step.tool for step in planned.plan.steps)
    return _outcome(name, f"a valid plan that calls {calls}", started, is_good=True)


def _goal() -> Goal:
    return Goal.model_validate(
        {
            "name": "measure",
            "job": "measure",
            "text": "Say what the highest temperature at the station is.",
            "inputs": {"station": "harbour"},
            "tools": [{"name": name} for name in _tools()],
            "rules": {"required_tools": [*_tools()]},
            "limits": {"max_steps": 4},
        }
    )


def _tools() -> dict[str, ToolSignature]:
    celsius: JsonSchema = {"type": "array", "items": {"type": "number"}}
    return {
        "read_temperatures": ToolSignature(
            name="read_temperatures",
            description="Read the temperatures of a station.",
            input_schema=_closed({"station": {"type": "string"}}),
            output_schema=celsius,
        ),
        "highest": ToolSignature(
            name="highest",
            description="Return the highest of some numbers.",
            input_schema=_closed({"numbers": celsius}),
            output_schema={"type": "number"},
        ),
    }


def _closed(properties: JsonObject) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _outcome(subject: str, detail: str, started: float, *, is_good: bool) -> _Examined:
    seconds = time.monotonic() - started
    said = f"{detail} ({seconds:.1f} s)"
    return _Examined(is_good, DoctorFinding(subject, "ok" if is_good else "note", said))


def _no_answer(subject: str, error: ModelError) -> _Examined:
    detail = f"no answer: {one_line(str(error))}"
    return _Examined(False, DoctorFinding(subject, "fault", detail, error.hint or ""))
