"""The rung `guided`: a model makes a plan one step at a time, each chosen from what is legal next.

After each step the schema of the next answer is made anew, from the tools, the values and the
references that the checker accepts there. So a plan cannot be ill-typed, however small the model;
a model that cannot be held to a schema is told what was wrong, and asked again as often as the
rung says. Each question begins as the one before, so that servers reuse what they have read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import (
    ASK_MODEL,
    DISPATCH,
    Plan,
    dispatched_tools,
    written_step,
)
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.planning.goal_schema import closed_object
from wavewright.planner.planning.guided_choices import Choice, GuidedPlan
from wavewright.planner.planning.prompt import dispatchable_tools
from wavewright.planner.ports.asking import AnswerRefused, Asking
from wavewright.planner.ports.conversation import Conversation, FittingAnswer
from wavewright.planner.ports.fallback_ladder import FallbackFailure
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError
from wavewright.planner.reading.json_extraction import find_json, wrapped_values
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_object

END: Final = "done"
"""The call of an answer that ends the plan."""
MAX_FAULTS_SHOWN: Final = 5


async def plan_by_choices(
    goal: Goal,
    tools: ToolSignatures,
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
        question: What every question has in common: what is asked for, role, preference, timeout.
        tries: How often one step is asked for.

    Raises:
        ModelError: there is no answer to one of the questions.
        PromptError: a template is faulty.
    """
    on_text = asking.on_text
    question = replace(
        question,
        instructions=asking.prompts.render(
            "planner/guided",
            asks_models=ASK_MODEL in goal.tool_names,
            dispatched=dispatchable_tools(goal, tools),
        ),
        turns=(),
        schema_name="next_step",
        goal_schema=None,
    )
    choosing = _StepByStep(GuidedPlan(goal, tools), asking, question)
    if on_text is not None:
        on_text("")
        on_text('{"steps": [')
    while True:
        partial = choosing.partial
        if not partial.choices and not partial.may_end:
            return FallbackFailure(
                f"after {len(partial.steps)} step(s) nothing legal can follow, and the plan may not end"
            )
        following = _only_way(partial) or await choosing.ask(tries)
        if isinstance(following, FallbackFailure):
            return following
        if on_text is not None:
            on_text(_added_text(partial, following))
        if isinstance(following, Plan):
            return following
        choosing.partial = following


def _added_text(partial: GuidedPlan, following: GuidedPlan | Plan) -> str:
    """Return what the text of the plan has beyond that of the steps before."""
    if isinstance(following, Plan):
        return "]}"
    written = written_step(following.steps[-1])
    return f"{', ' if partial.steps else ''}{json.dumps(written, ensure_ascii=False)}"


class _RepeatedCall(AnswerRefused):
    """A choice would make a call which the plan has already."""

    def __init__(self, choice: Choice) -> None:
        super().__init__([f"the plan has this call of {choice.tool!r} already"])
        self.label = choice.label


class _StepByStep:
    """The conversation in which a model chooses one step after another."""

    def __init__(self, partial: GuidedPlan, asking: Asking, question: ModelCall) -> None:
        self.partial = partial
        """The plan so far."""
        self._prompts = asking.prompts
        # What is said is a choice and no plan: readers of plans get the steps instead.
        unheard = replace(asking, on_text=None)
        self._talk = Conversation(
            unheard, question, self._read, lambda _, refused: self._reply(refused.faults[0])
        )

    async def ask(self, tries: int) -> GuidedPlan | Plan | FallbackFailure:
        """Return the plan with what a model chooses next.

        A call that the plan has already is no further step, and no schema can exclude it among free
        values: its choice is taken out, and the step asked for again. That is not one of the tries.

        Raises:
            ModelError: there is no answer.
        """
        partial, talk = self.partial, self._talk
        repeated = set[str]()
        reason = "nothing was asked"
        while tries > 0:
            choices = [choice for choice in partial.choices if choice.label not in repeated]
            if not choices and not partial.may_end:
                break
            talk.call = replace(talk.call, schema=answer_schema(choices, partial))
            answer = await talk.ask()
            if isinstance(answer, FittingAnswer):
                if isinstance(answer.value, GuidedPlan):
                    self.partial = answer.value
                    talk.go_on(self._reply())
                return answer.value
            if isinstance(answer.cause, ModelError):
                raise answer.cause
            reason = answer.faults[-1]
            if isinstance(answer.cause, _RepeatedCall) and answer.cause.label not in repeated:
                repeated.add(answer.cause.label)
            else:
                tries -= 1
        return FallbackFailure(f"step {len(partial.steps) + 1}: {reason}")

    def _read(self, answer: ModelAnswer, _tries_left: int) -> GuidedPlan | Plan:
        """Return the plan with what an answer chooses.

        Raises:
            AnswerRefused: it is none of the choices.
        """
        partial = self.partial
        if answer.is_truncated:
            raise AnswerRefused(["the answer was cut off before its end"])
        chosen = _chosen_object(answer.text)
        if chosen is None:
            raise AnswerRefused([f"the answer holds no choice; {_form(partial)}"])
        arguments = as_object(chosen.get("arguments"))
        label = chosen.get("call")
        if label == END:
            return _ended(partial, arguments.get("result"))
        choice = next((choice for choice in partial.choices if choice.label == label), None)
        if choice is None:
            raise AnswerRefused([f"{label!r} is none of the calls that may come next"])
        return _with_step(partial, choice, arguments)

    def _reply(self, fault: str = "") -> str:
        partial = self.partial
        last = partial.steps[-1] if partial.steps else None
        step = None
        if last is not None:
            step = {"id": last.id, "tool": DISPATCH if dispatched_tools(last.tool) else last.tool}
        return self._prompts.render(
            "planner/guided_next",
            fault=fault,
            step=step,
            calls=[choice.label for choice in partial.choices],
            results=list(partial.results),
            result_fields={name: part["enum"] for name, part in partial.result_fields.items()},
        )


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


def _form(partial: GuidedPlan) -> str:
    """Return the form of a choice, with a call that may come next."""
    label = partial.choices[0].label if partial.choices else END
    call = json.dumps(label, ensure_ascii=False)
    return f'its form is {{"next": {{"call": {call}, "arguments": {{…}}}}}}'


def _chosen_object(text: str) -> JsonObject | None:
    """Return the choice in an answer: the last object that names a call, bare or wrapped."""
    for match in reversed(find_json(text).values):
        for candidate in wrapped_values(match.value):
            if isinstance(candidate, dict) and isinstance(candidate.get("call"), str):
                return candidate
    return None


def _ended(partial: GuidedPlan, result: Json) -> Plan:
    """Return the plan with a result.

    Raises:
        AnswerRefused: it may not end, or not with this.
    """
    plan = partial.ending(result)
    if plan is not None:
        return plan
    if not partial.may_end:
        raise AnswerRefused(["the plan may not end here: the goal demands more"])
    raise AnswerRefused([f"{result!r} is no result that the plan may end with"])


def _with_step(partial: GuidedPlan, choice: Choice, arguments: JsonObject) -> GuidedPlan:
    """Return the plan with one more step.

    Raises:
        AnswerRefused: the arguments are not among those that were offered, or the checker finds a
            fault in the step.
    """
    arguments = {**dict.fromkeys(choice.params), **arguments}
    violations = validator_of(choice.arguments_schema()).violations(arguments)
    if violations:
        said = "; ".join(
            f"{violation.pointer or 'arguments'}: {violation.message}"
            for violation in violations[:MAX_FAULTS_SHOWN]
        )
        raise AnswerRefused([f"arguments of {choice.label!r} do not fit: {said}"])
    unoffered = choice.unoffered_references(arguments)
    if unoffered:
        names = ", ".join(unoffered)
        raise AnswerRefused([f"{names} of {choice.label!r} read what is not offered there"])
    following = partial.with_step(choice, arguments)
    if isinstance(following, tuple):
        shown = (f"{fault.code} {fault.message}" for fault in following[:MAX_FAULTS_SHOWN])
        raise AnswerRefused(["the checker refuses the step: " + "; ".join(shown)])
    if following is partial:
        raise _RepeatedCall(choice)
    return following
