"""Checks of prompt templates: each is read in all of its branches, and rendered with sample values,
before a model is asked.

A *context* holds all values of one prompt. Records of a fixed form have exactly their fields;
values that a job, a plan or a tool decides are `UnknownValue`, which has every field. So only
values that no run could provide are reported as missing. A value of the wrong type is no fault,
because the sample may be wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast

from jinja2 import Environment, TemplateError, TemplateSyntaxError

from wavewright.planner import Gate, Goal, ToolSignature
from wavewright.planner.language.goals import AvailableTool, Targets
from wavewright.planner.planning.prompt import request_values
from wavewright.planner.planning.records import AnsweredQuestion
from wavewright.planner.planning.tool_descriptions import tool_entries
from wavewright.planner.types import GateId
from wavewright.prompts import PromptError, Prompts, data_block
from wavewright.prompts.names import find_name_faults
from wavewright.reviewer.recovery.boundary import (
    EarlierPatchView,
    FailedGateView,
    RequestedActionView,
    StepEndView,
)
from wavewright.reviewer.review.dialogue import KINDS, ShownOutput

if TYPE_CHECKING:
    from pathlib import Path

    from wavewright.tools import AgentSpec, Worker
    from wavewright.tools.workers.specs import PromptedSpec


Context: TypeAlias = Mapping[str, object]


class UnknownValue(dict[object, object]):
    """A value that has every field, because only a run knows its fields."""

    def __contains__(self, name: object) -> bool:
        return not hasattr(dict, str(name))

    def __missing__(self, name: object) -> UnknownValue:
        return UnknownValue()

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[object]:
        yield UnknownValue()

    def __reversed__(self) -> Iterator[object]:
        yield UnknownValue()


def sample_contexts(name: str, workers: Iterable[Worker]) -> tuple[Context, ...]:
    """Return sample contexts of a prompt, one for each of its forms; empty for an agent's and an
    unknown prompt.
    """
    fixed = _CONTEXTS.get(name)
    if fixed is not None:
        return fixed
    if name == "planner/request":
        return (_planner_request(),)
    return tuple(_worker_contexts(worker) for worker in workers if worker.spec.prompt == name)


def _worker_contexts(worker: Worker) -> Context:
    spec = worker.spec
    is_known = spec.input_schema.get("additionalProperties") is False
    if worker.draft is not None or worker.show is not None or not is_known:
        return {"inputs": UnknownValue(), "draft": UnknownValue()}
    return {"inputs": {name: UnknownValue() for name in spec.inputs}, "draft": None}


def _planner_request() -> Context:
    """Return the planner's context for a goal with inputs, rules, gates and an answered question."""
    goal, tools = (
        _goal(),
        {"fetch": ToolSignature(name="fetch"), "write": ToolSignature(name="write")},
    )
    values = request_values(
        goal, tools, tool_entries(goal, tools), [AnsweredQuestion("Which hours?", "the night")]
    )
    shown = {
        name: {**_record_members(values[name]), "shown": UnknownValue()}
        for name in ("primary", "benchmarks")
    }
    return {**values, **shown, "other_values": UnknownValue(), "today": "2010-03-01"}


def _record_members(record: object) -> dict[str, object]:
    assert isinstance(record, dict)
    return cast("dict[str, object]", record)


def _goal() -> Goal:
    return Goal.model_validate(
        {
            "name": "typical",
            "job": "typical",
            "text": "Write down what was fetched.",
            "inputs": {"variables": ["GNP"], "benchmarks": ["SKS"], "top": 5},
            "tools": [AvailableTool(name="fetch"), AvailableTool(name="write")],
            "rules": {
                "required_tools": ["fetch"],
                "data_tools": ["fetch"],
                "analysis_tools": ["write"],
                "primary_params": {"fetch": "code"},
                "tags": {"param": "tags", "exclusive": [["new", "old"]], "required": ["new"]},
                "terminal": [{"tool": "write", "params": {"tags": "${goal.output_tags}"}}],
            },
            "gates": [Gate(id=GateId("fresh"), on_tool="fetch", fresh_within=86400.0)],
        }
    )


def _record(
    kind: type[StepEndView | FailedGateView | RequestedActionView | EarlierPatchView],
) -> dict[str, object]:
    return {field.name: UnknownValue() for field in fields(kind)}


def _flag_contexts(name: str, **others: object) -> tuple[Context, ...]:
    return tuple({name: is_so, **others} for is_so in (True, False))


_FAULTS: Final[Context] = {"faults": ("it lacks a field",)}
_TOOLS: Final = tool_entries(_goal(), {"fetch": ToolSignature(name="fetch")})

_CONTEXTS: Final[Mapping[str, tuple[Context, ...]]] = {
    "notices/notice": (
        {
            "project": "prices",
            "rule": "oncall",
            "count": 2,
            "events": (
                {
                    "kind": "run_failed",
                    "text": "run 1 of 'digest' has failed",
                    "at": "2026-11-29T07:00:00Z",
                    "run": "1",
                    "link": "",
                },
            ),
        },
    ),
    "planner/instructions": _flag_contexts(
        "may_ask",
        calls_plans=True,
        asks_models=True,
        dispatched=("fetch", "write"),
        functions={"now()": "the instant of the run"},
    ),
    "planner/guided": _flag_contexts("asks_models", dispatched=("fetch", "write")),
    "planner/guided_next": (
        {
            "fault": "",
            "step": {"id": "fetch", "tool": "fetch"},
            "calls": ["write"],
            "results": ["${steps.fetch}"],
            "result_fields": {"price": ["${steps.fetch.price}", None]},
        },
    ),
    "planner/repair": _flag_contexts("is_truncated", diagnostics="error[E301]: a fault", more=1),
    "recovery/instructions": ({},),
    "recovery/request": tuple(
        {
            "goal": "Write down what was fetched.",
            "inputs": UnknownValue(),
            "plan": UnknownValue(),
            "steps": [_record(StepEndView)],
            "failed_gates": [_record(FailedGateView)],
            "wanted": actions,
            "missing": 2,
            "earlier": [_record(EarlierPatchView)],
            "gated": ["fetch"],
            "round": 1,
            "rounds": 2,
            "feedback": feedback,
            "tools": _TOOLS,
            "asks_models": True,
            "has_previous": True,
            "max_steps": 50,
        }
        for feedback, actions in (
            (None, [_record(RequestedActionView)]),
            ({"remarks": 2, "input": "feedback"}, []),
        )
    ),
    "recovery/repair": (_FAULTS,),
    "reviewer/instructions": ({"kinds": KINDS, "has_gates": True},),
    "reviewer/request": (
        {
            "goal": "Write down what was fetched.",
            "reasoning": "It is fetched, then written down.",
            "inputs": UnknownValue(),
            "targets": Targets(),
            "now": "2010-03-01T00:00:00Z",
            "round": 1,
            "steps": [UnknownValue()],
            "gates": [UnknownValue()],
            "missing": ["a quote"],
            "result_of": ("sheet",),
            "provenance": ["sheet: data of fetch"],
            "formulas": ["sheet = ${steps.fetch.size()}"],
            "rounds": ["round 0: 0 of 1 mandatory gates passed"],
            "outputs": [
                {
                    **{field.name: UnknownValue() for field in fields(ShownOutput)},
                    "characters": 1000,
                }
            ],
            "left_out": (("sheet", "a text"),),
            "tools": ["fetch", "write"],
        },
    ),
    "reviewer/repair": (_FAULTS,),
    "judge/instructions": ({},),
    "judge/request": _flag_contexts(
        "is_whole",
        goal="Write down what was fetched.",
        rubric="It names its source.",
        step="sheet",
        item=UnknownValue(),
        output=UnknownValue(),
        characters=1000,
    ),
    "judge/repair": (_FAULTS,),
    "workers/instructions": _flag_contexts("answers_in_json", notes=("a part of a longer text",)),
    "workers/repair": _flag_contexts("answers_in_json", **_FAULTS),
    "workers/ask_model": tuple(
        {"inputs": {"question": question, "for": {"day": "date"}, "of": UnknownValue()}}
        for question in ("When is it?", None)
    ),
    "workers/agent_instructions": _flag_contexts("has_tools"),
    "workers/agent": _flag_contexts(
        "has_schema",
        task="Find the newest quote.",
        context=data_block("of today", "context"),
        collected=data_block("a quote", "collected"),
        said=data_block("It is there.", "said"),
    ),
}


class PromptDefect(NamedTuple):
    """A fault of a prompt template."""

    file: Path
    line: int | None
    """Counted from 1; None where it is not known."""
    message: str
    hint: str

    @property
    def place(self) -> str:
        """Its file, with the line if it is known."""
        return f"{self.file}" if self.line is None else f"{self.file}:{self.line}"


def find_prompt_defects(
    name: str, prompts: Prompts, workers: Sequence[Worker], agents: Iterable[AgentSpec] = ()
) -> tuple[PromptDefect, ...]:
    """Return the faults of a prompt; `workers` and `agents` are those that may use it."""
    syntax = _syntax_defect(prompts.file_of(name))
    if syntax is not None:
        return (syntax,)
    contexts = sample_contexts(name, workers)
    if not contexts and any(agent.prompt == name for agent in agents):
        contexts = ({"inputs": UnknownValue()},)
    defects = _name_defects(name, prompts, contexts)
    if defects:
        return defects
    rendered = _rendering_defect(name, prompts, contexts)
    return () if rendered is None else (rendered,)


def find_prompt_defect(
    name: str, prompts: Prompts, workers: Sequence[Worker]
) -> PromptDefect | None:
    """Return the first fault of a prompt; `workers` are those that may use it."""
    return next(iter(find_prompt_defects(name, prompts, workers)), None)


def _syntax_defect(file: Path | None) -> PromptDefect | None:
    assert file is not None
    try:
        Environment(autoescape=False).parse(file.read_text(encoding="utf-8"))  # noqa: S701 - only read, never rendered
    except TemplateSyntaxError as error:
        return PromptDefect(
            file, error.lineno, str(error.message), "fix the template's syntax (Jinja2)"
        )
    except (OSError, UnicodeDecodeError) as error:
        return PromptDefect(file, None, str(error), "write the template as UTF-8 text")
    return None


def _name_defects(
    name: str, prompts: Prompts, contexts: Iterable[Context]
) -> tuple[PromptDefect, ...]:
    """Return the names of a prompt that none of its branches can read."""
    try:
        defects = [
            PromptDefect(*fault)
            for context in contexts
            for fault in find_name_faults(prompts, name, context)
        ]
    except TemplateSyntaxError:
        # Of a template that it includes: rendering names its place.
        return ()
    return tuple(dict.fromkeys(defects))


def _rendering_defect(
    name: str, prompts: Prompts, contexts: Iterable[Context]
) -> PromptDefect | None:
    """Return a fault that appears with every value of the prompt."""
    for context in contexts:
        try:
            prompts.render(name, **context)
        except PromptError as error:
            if not isinstance(error.__cause__, TemplateError):
                continue
            file = error.file or prompts.file_of(name)
            assert file is not None
            return PromptDefect(file, error.line, error.message, error.hint or "")
    return None


_ROLE_PROMPTS: Final = ("reviewer/", "recovery/", "judge/")
"""Prompts of every run with a model."""
_WORKERS_PROMPTS: Final = "workers/"


def used_prompts(
    names: Iterable[str],
    specs: Iterable[PromptedSpec],
    called: Collection[str],
    *,
    is_planned: bool,
) -> Iterator[str]:
    """Yield those of some prompts that a run may render, besides those of the tools in its plan.

    Args:
        names: Names of prompts.
        specs: Workers and agents among all tools.
        called: The tools that it may call, where a model has yet to plan it.
        is_planned: Whether it has a plan already.
    """
    roles = _ROLE_PROMPTS if is_planned else ("planner/", _WORKERS_PROMPTS, *_ROLE_PROMPTS)
    own = {spec.prompt for spec in specs if spec.name in called}
    for name in names:
        if name.startswith(roles) or name in own:
            yield name
