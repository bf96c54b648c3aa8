"""The rung `guided`: a model makes a plan one step at a time, each chosen from what is legal next.

After each step the schema of the next answer is made anew, from the tools, the values and the
references that the checker accepts there. So a plan cannot be ill-typed, however small the model;
a model that cannot be held to a schema is told what was wrong, and asked again as often as the
rung says. Each question begins as the one before, so that servers reuse what they have read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import (
    ASK_MODEL,
    DISPATCH,
    Plan,
    dispatched_tools,
    written_step,
)
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.goal_schema import closed_object
from wavewright.planner.planning.guided_choices import Choice, GuidedPlan
from wavewright.planner.planning.prompt import dispatchable_tools, request_values
from wavewright.planner.planning.tool_descriptions import tool_entries
from wavewright.planner.ports.asking import Asking
from wavewright.planner.ports.fallback_ladder import FallbackFailure
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, Turn
from wavewright.planner.reading.json_extraction import find_json, wrapped_values
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.prompts.templates import Prompts

END: Final = "done"
"""The call of an answer that ends the plan."""
MAX_FAULTS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class _NoChoice:
    """An answer that is none of the choices."""

    reason: str
    repeats: str | None = None
    """The choice that would make a call which the plan has already."""


async def plan_by_choices(
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    asking: Asking,
    question: ModelCall,
    *,
    tries: int,
) -> Plan | FallbackFailure:
    """Return a plan made step by step, unbound, or why there is none.

    Args:
        goal: What is asked for; its limit of steps ends the plan.
        tools: Signatures of the tools that are installed.
        asking: Who is asked; its `on_text` receives the plan as it grows, as if one answer held it.
        question: What every question has in common: role, preference, timeout.
        tries: How often one step is asked for.

    Raises:
        ModelError: there is no answer to one of the questions.
        PromptError: a template is faulty.
    """
    prompts, on_text = asking.prompts, asking.on_text
    entries = tool_entries(goal, tools)
    question = replace(
        question,
        instructions=prompts.render(
            "planner/guided",
            asks_models=ASK_MODEL in goal.tool_names,
            dispatched=dispatchable_tools(goal, tools),
        ),
        prompt=prompts.render(
            "planner/request", today="", **request_values(goal, tools, entries, ())
        ),
        schema_name="next_step",
        goal_schema=None,
    )
    partial, turns = GuidedPlan(goal, tools), list[Turn]()
    if on_text is not None:
        on_text("")
        on_text('{"steps": [')
    while True:
        if not partial.choices and not partial.may_end:
            return FallbackFailure(
                f"after {len(partial.steps)} step(s) nothing legal can follow, and the plan may not end"
            )
        following = _only_way(partial) or await _ask_for_step(
            partial, question, turns, asking, tries
        )
        if isinstance(following, FallbackFailure):
            return following
        if on_text is not None:
            on_text(_added_text(partial, following))
        if isinstance(following, Plan):
            return following
        partial = following


def _added_text(partial: GuidedPlan, following: GuidedPlan | Plan) -> str:
    """Return what the text of the plan has beyond that of the steps before."""
    if isinstance(following, Plan):
        return "]}"
    written = written_step(following.steps[-1])
    return f"{', ' if partial.steps else ''}{json.dumps(written, ensure_ascii=False)}"


async def _ask_for_step(
    partial: GuidedPlan,
    question: ModelCall,
    turns: list[Turn],
    asking: Asking,
    tries: int,
) -> GuidedPlan | Plan | FallbackFailure:
    """Return what a model chooses; `turns` grows by each answer that chooses nothing.

    A call that the plan has already is no further step, and no schema can exclude it among free
    values: its choice is taken out, and the step asked for again. That is not one of the tries, and
    each question has another schema than the last: so this is no `Conversation`.
    """
    models = asking.models
    assert models is not None
    repeated = set[str]()
    refused = _NoChoice("nothing was asked")
    while tries > 0:
        choices = [choice for choice in partial.choices if choice.label not in repeated]
        if not choices and not partial.may_end:
            break
        schema = answer_schema(choices, partial)
        call = replace(question, schema=schema, turns=tuple(turns))
        # What is said is a choice and no plan: readers of plans get the steps instead.
        answer = await models.ask(call, on_use=asking.on_use)
        following = _read_choice(partial, answer)
        turns.append(Turn(answer.text, _reply(asking.prompts, partial, following)))
        if not isinstance(following, _NoChoice):
            return following
        refused = following
        if refused.repeats is not None and refused.repeats not in repeated:
            repeated.add(refused.repeats)
        else:
            tries -= 1
    return FallbackFailure(f"step {len(partial.steps) + 1}: {refused.reason}")


def answer_schema(choices: Iterable[Choice], partial: GuidedPlan) -> JsonSchema:
    """Return the schema of the next answer: one branch for each choice, and one that ends."""
    branches = [choice.schema() for choice in choices]
    if partial.may_end:
        ending: JsonObject = {"result": partial.result_schema()}
        branches.append(closed_object({"call": {"const": END}, "arguments": closed_object(ending)}))
    return closed_object({"next": {"anyOf": [*branches]}})


def _only_way(partial: GuidedPlan) -> GuidedPlan | Plan | None:
    """Return what follows where there is one way alone, which is worth no question."""
    if not partial.choices and len(partial.results) == 1:
        return partial.plan(partial.results[0])
    if partial.may_end or len(partial.choices) != 1:
        return None
    [choice] = partial.choices
    arguments = choice.only_arguments()
    if arguments is None:
        return None
    following = partial.with_step(choice, arguments)
    return following if isinstance(following, GuidedPlan) else None


def _read_choice(partial: GuidedPlan, answer: ModelAnswer) -> GuidedPlan | Plan | _NoChoice:
    if answer.is_truncated:
        return _NoChoice("the answer was cut off before its end")
    chosen = _chosen_object(answer.text)
    if chosen is None:
        return _NoChoice("the answer holds no choice")
    arguments = chosen.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    if chosen.get("call") == END:
        return _ended(partial, arguments.get("result"))
    choice = next(
        (choice for choice in partial.choices if choice.label == chosen.get("call")), None
    )
    if choice is None:
        return _NoChoice(f"{chosen.get('call')!r} is none of the calls that may come next")
    return _with_step(partial, choice, arguments)


def _chosen_object(text: str) -> JsonObject | None:
    """Return the choice in an answer: the last object that names a call, bare or wrapped."""
    for match in reversed(find_json(text).values):
        for candidate in wrapped_values(match.value):
            if isinstance(candidate, dict) and isinstance(candidate.get("call"), str):
                return candidate
    return None


def _ended(partial: GuidedPlan, result: Json) -> Plan | _NoChoice:
    plan = partial.ending(result)
    if plan is not None:
        return plan
    if not partial.may_end:
        return _NoChoice("the plan may not end here: the goal demands more")
    return _NoChoice(f"{result!r} is no result that the plan may end with")


def _with_step(
    partial: GuidedPlan, choice: Choice, arguments: JsonObject
) -> GuidedPlan | _NoChoice:
    arguments = {**dict.fromkeys(choice.params), **arguments}
    violations = validator_of(choice.arguments_schema()).violations(arguments)
    if violations:
        said = "; ".join(
            f"{violation.pointer or 'arguments'}: {violation.message}"
            for violation in violations[:MAX_FAULTS_SHOWN]
        )
        return _NoChoice(f"arguments of {choice.label!r} do not fit: {said}")
    unoffered = choice.unoffered_references(arguments)
    if unoffered:
        return _NoChoice(
            f"{', '.join(unoffered)} of {choice.label!r} read what is not offered there"
        )
    following = partial.with_step(choice, arguments)
    if isinstance(following, tuple):
        return _NoChoice(_faults_text(following))
    if following is partial:
        return _NoChoice(f"the plan has this call of {choice.tool!r} already", choice.label)
    return following


def _faults_text(faults: tuple[Diagnostic, ...]) -> str:
    shown = (f"{fault.code} {fault.message}" for fault in faults[:MAX_FAULTS_SHOWN])
    return "the checker refuses the step: " + "; ".join(shown)


def _reply(prompts: Prompts, partial: GuidedPlan, following: GuidedPlan | Plan | _NoChoice) -> str:
    if isinstance(following, Plan):
        return ""
    fault = following.reason if isinstance(following, _NoChoice) else ""
    after = partial if isinstance(following, _NoChoice) else following
    last = after.steps[-1] if after.steps else None
    return prompts.render(
        "planner/guided_next",
        fault=fault,
        step=None
        if last is None
        else {"id": last.id, "tool": DISPATCH if dispatched_tools(last.tool) else last.tool},
        calls=[choice.label for choice in after.choices],
        results=list(after.results),
        result_fields={name: part["enum"] for name, part in after.result_fields.items()},
    )
