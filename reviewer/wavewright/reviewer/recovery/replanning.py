"""Replanning: the goal's recipes first, then a model that sees typed status only.

A replan ends with a patch that has passed every check, or with the reasons why there is none. The
model's prompt is made from the goal, the approved plan and the recovery view alone. A patch can add
no tool to the goal's, is checked like any other patch, and is refused if it was tried against the
same failed gates before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from wavewright.config import Source
from wavewright.executor import RunState
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import (
    Asking,
    Diagnostic,
    FallbackFailure,
    Goal,
    Json,
    JsonObject,
    PatchCheck,
    Plan,
    PlanError,
    PlanPatch,
    StepId,
    ToolSignatures,
    check_patch,
    render_text,
)
from wavewright.planner.checks.checker import errors_in
from wavewright.planner.diagnostics.diagnostic import for_model
from wavewright.planner.language.plan import ASK_MODEL, AddStep, ReplaceStep
from wavewright.planner.language.signatures import is_feedback_input
from wavewright.planner.planning.goal_schema import goal_patch_schema, without_absent_arguments
from wavewright.planner.planning.prompt import patch_schema
from wavewright.planner.planning.tool_descriptions import tool_entries
from wavewright.planner.plans.let_and_stop import in_written_form
from wavewright.planner.plans.patch_evidence import idle_step_faults
from wavewright.planner.ports.asking import AnswerRefused
from wavewright.planner.ports.conversation import Conversation, NoFittingAnswer, rung_seconds
from wavewright.planner.ports.fallback_ladder import FallbackStrategy, Rung, RungRecord, run_ladder
from wavewright.planner.ports.model_port import (
    ModelCall,
    ModelError,
)
from wavewright.planner.ports.truncation import prompt_size, truncate
from wavewright.prompts import PromptError, Prompts
from wavewright.reviewer.asking_models import (
    find_object,
    notes_on_dress,
    read_whole,
    repair_reply,
)
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.recovery.boundary import (
    FeedbackView,
    RecoveryView,
    StepEndView,
    view_for_recovery,
)
from wavewright.reviewer.recovery.feedback import feedback_input
from wavewright.reviewer.recovery.patch_reading import bind_patch, patch_in
from wavewright.reviewer.recovery.recipes import patch_from_feedback, propose_patch
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import shorten

_MAX_INPUT_CHARS = 8_000
_MAX_PLAN_CHARS = 60_000
_MAX_DIAGNOSTICS = 30
_FEEDBACK_REASON: Final = "the package was rejected: steps that take feedback run again with it"
_NO_FEEDBACK_TAKEN: Final = (
    "no recipe is for what it says, and no step of the plan takes feedback: none of its tools has a "
    "parameter 'feedback'"
)
_KEYS: Final = ("ops", "cannot_plan")


@dataclass(frozen=True, slots=True)
class CheckedPatch:
    """A patch that has passed every check."""

    patch: PlanPatch
    checked: PatchCheck
    notes: tuple[str, ...] = ()
    """How a model's answer was read, where it was not as it should be."""


@dataclass(frozen=True, slots=True)
class ReplanResult:
    """The outcome of a replan.

    >>> from wavewright.reviewer import ReplanResult
    >>> ReplanResult(None, None, ("rounds used up: 2 of 2",), (), ()).reasons
    ('rounds used up: 2 of 2',)
    """

    patch: PlanPatch | None
    checked: PatchCheck | None
    """The check of the patch: the plan that it makes, and the steps that need an approval."""
    reasons: tuple[str, ...]
    """Why each failed rung gave no patch."""
    diagnostics: tuple[Diagnostic, ...]
    """The faults of the last refused patch; empty if a patch was accepted."""
    rungs: tuple[RungRecord, ...]
    notes: tuple[str, ...] = ()
    """How the answer with the patch was read, where it was not as it should be."""

    @property
    def rung(self) -> str | None:
        """The rung that made the patch: `recipe` or `model`."""
        return self.rungs[-1].rung if self.patch is not None else None


async def replan(
    run: ReviewedRun,
    review: ReviewResult,
    asking: Asking,
    *,
    seen: Collection[str] = frozenset(),
    feedback: FeedbackView | None = None,
) -> ReplanResult:
    """Return a patch that would fix what the review found, or why there is none.

    Args:
        run: The run, with the bound plan in force; its goal carries recipes, tools and the number
            of rounds.
        review: The last verdict; of a model's opinion, only actions of the vocabulary are used.
        asking: Who is asked: the templates `recovery/…`, the ladder `recovery`; without models
            only recipes are tried.
        seen: Fingerprints of earlier patches.
        feedback: The rejection of a package; None for a recovery after a review.

    The example goes on from that of `review_by_code`.

    >>> import anyio
    >>> from wavewright.planner import Asking, shipped_ladders
    >>> from wavewright.prompts import Prompts
    >>> from wavewright.reviewer import ReviewedRun, replan, review_by_code
    >>> asking = Asking(models=None, prompts=Prompts(), ladder=shipped_ladders()["recovery"])
    >>> review = review_by_code(plan, goal, run.state, tools)
    >>> reviewed = ReviewedRun(plan, goal, run.state, tools)
    >>> anyio.run(replan, reviewed, review, asking).patch is None
    True
    """
    plan, goal, state, tools = run.plan, run.goal, run.state, run.tools
    prompts = asking.prompts
    view = replace(view_for_recovery(plan, goal, state, review), feedback=feedback)
    why_not = _no_patch_reason(goal, view, review)
    if why_not is not None:
        return ReplanResult(None, None, (why_not,), (), ())
    # Steps that are called again with other feedback are no repetition of an earlier patch.
    checker = _PatchChecker(run, view, seen if feedback is None else ())
    refused = checker.refused

    async def by_recipe(_rung: Rung) -> CheckedPatch | FallbackFailure:
        if feedback is not None:
            recipes = [goal.recipes[number] for number in feedback.recipes]
            patch = patch_from_feedback(plan, state, tools, feedback, _FEEDBACK_REASON, recipes)
            why_none = _NO_FEEDBACK_TAKEN
        else:
            patch = propose_patch(plan, goal, state, review, seen)
            why_none = "no recipe fixes what the review found"
        if patch is None:
            return FallbackFailure(why_none)
        checked, faults = checker.check(patch, written_by_model=False)
        if faults:
            refused[:] = faults
            return FallbackFailure(
                shorten(f"the recipe's patch is refused: {faults[0].message}", 300)
            )
        return CheckedPatch(patch, checked)

    async def by_model(rung: Rung) -> CheckedPatch | FallbackFailure:
        def question(*, is_brief: bool = False) -> ModelCall:
            call = recovery_call(
                plan, goal, view, tools, prompts, rung=rung.name, is_brief=is_brief
            )
            return replace(call, run=state.run)

        try:
            call = question()
            call = replace(call, timeout=await rung_seconds(asking, rung, call))
            conversation = Conversation(
                asking,
                call,
                read_whole(checker.read),
                repair_reply(prompts, "recovery/repair"),
                lambda: question(is_brief=True),
            )
            answer = await conversation.ask_all(rung.tries)
        except (ModelError, PromptError) as error:
            reason = shorten(f"the model could not be asked: {error}", 300)
            model_error = error if isinstance(error, ModelError) else None
            return FallbackFailure(reason, error=model_error)
        if isinstance(answer, NoFittingAnswer):
            first = answer.faults[0].partition("\n")[0]
            return FallbackFailure(
                shorten(f"{answer.model} gave no patch that can be applied: {first}", 300)
            )
        return answer.value

    ways: dict[str, FallbackStrategy[CheckedPatch]] = {"recipe": by_recipe}
    if asking.models is not None:
        ways["model"] = by_model
    assert asking.ladder is not None
    result = await run_ladder(asking.ladder, ways, on_rung=asking.on_rung)
    reasons = tuple(record.reason for record in result.records if record.outcome == "fallen")
    made = result.value
    if made is None:
        return ReplanResult(None, None, reasons, tuple(refused), result.records)
    return ReplanResult(made.patch, made.checked, reasons, (), result.records, made.notes)


def recovery_call(
    plan: Plan,
    goal: Goal,
    view: RecoveryView,
    tools: ToolSignatures,
    prompts: Prompts,
    *,
    rung: str = "model",
    is_brief: bool = False,
) -> ModelCall:
    """Return the question to a recovery planner: goal, approved plan, typed status and tools, no
    text from tools.

    A brief question shows half of the inputs, the plan and the statuses, and shorter descriptions
    of tools.

    Raises:
        PromptError: a template is faulty.
    """
    entries = tool_entries(goal, tools, is_brief=is_brief)
    steps: list[Json] = [_step_as_json(step) for step in view.steps]

    def shown(value: Json, most: int) -> Json:
        if is_brief:
            most = min(most, prompt_size(value)) // 2
        return truncate(value, most)

    values = {
        "goal": goal.text,
        # Feedback is read by steps, never by the planner.
        "inputs": shown(
            {name: value for name, value in goal.inputs.items() if not is_feedback_input(name)},
            _MAX_INPUT_CHARS,
        ),
        "plan": shown(_plan_as_json(plan), _MAX_PLAN_CHARS),
        "steps": shown(steps, prompt_size(steps)),
        "failed_gates": [_as_json(asdict(gate)) for gate in view.failed_gates],
        "wanted": [_as_json(asdict(demand)) for demand in view.wanted],
        "missing": view.missing,
        "earlier": [_as_json(asdict(patch)) for patch in view.earlier],
        "gated": sorted({gate.step for gate in view.failed_gates}),
        "round": view.round + 1,
        "rounds": goal.limits.rounds,
        "feedback": _feedback_as_json(view),
        "tools": entries,
        "asks_models": ASK_MODEL in goal.tool_names,
        "has_previous": bool(goal.previous),
        "max_steps": goal.limits.max_steps,
    }
    names = [entry.name for entry in entries]
    answer = patch_schema(names, [step.id for step in plan.steps])
    return ModelCall(
        role="recovery",
        name="recovery",
        instructions=prompts.render("recovery/instructions"),
        prompt=prompts.render("recovery/request", **values),
        schema=answer,
        goal_schema=goal_patch_schema(answer, goal, tools, names),
        schema_name="patch",
        preference=goal.model_preference,
        thinking=goal.thinking_level,
        rung=rung,
        job=goal.job,
    )


def _partly_failed(state: RunState) -> frozenset[StepId]:
    """Return the steps with items that failed, or failed a gate."""
    failed: set[StepId] = set()
    for step, items in state.items.items():
        if any(item.status not in SUCCESSES for item in items.values()):
            failed.add(step)
    for step, end in state.steps.items():
        if any(record.has_failed for record in end.gates):
            failed.add(step)
    return frozenset(failed)


def _no_patch_reason(goal: Goal, view: RecoveryView, review: ReviewResult) -> str | None:
    # A rejected package is worked on again, whatever the review says of it.
    if review.goal_achieved and view.feedback is None:
        return "the goal is achieved"
    if view.round >= goal.limits.rounds:
        return f"rounds used up: {view.round} of {goal.limits.rounds}"
    if not view.has_anything_to_recover:
        return "no action was requested, and no gate and no step failed"
    return None


def _step_as_json(step: StepEndView) -> JsonObject:
    """Return how a step ended; counts of items are worded, for those of a gate are positions."""
    fields = _as_json(asdict(step))
    if step.items is not None:
        succeeded, total = step.items
        fields["items"] = f"{succeeded} of {total}"
    return fields


def _as_json(value: Mapping[str, object]) -> JsonObject:
    """Return a part of the view without null and empty fields."""
    fields: JsonObject = json.loads(json.dumps(value))
    return {name: entry for name, entry in fields.items() if entry not in (None, [], "")}


def _feedback_as_json(view: RecoveryView) -> JsonObject | None:
    if view.feedback is None:
        return None
    return {"remarks": view.feedback.remarks, "input": feedback_input(view.feedback.package)}


def _plan_as_json(plan: Plan) -> JsonObject:
    fields: JsonObject = in_written_form(plan).model_dump(
        mode="json",
        by_alias=True,
        exclude_defaults=True,
        exclude={"inputs", "goal", "reasoning", "caps"},
    )
    return fields


@dataclass(frozen=True, slots=True)
class _PatchChecker:
    """Reads patches from answers and checks them against the plan, the goal and the earlier
    patches.
    """

    run: ReviewedRun
    view: RecoveryView
    seen: Collection[str]
    refused: list[Diagnostic] = field(default_factory=list[Diagnostic])
    """The faults of the last patch."""

    def check(
        self, patch: PlanPatch, *, written_by_model: bool
    ) -> tuple[PatchCheck, tuple[Diagnostic, ...]]:
        """Return the check of a patch, with every error in it and in the plan that it makes."""
        run = self.run
        checked = check_patch(
            run.plan,
            patch,
            finished=run.state.finished_steps(),
            goal=run.goal,
            tools=run.tools,
            round_number=self.view.round + 1,
            failed_gates=[gate.gate for gate in self.view.failed_gates],
            tried=self.seen,
            written_by_model=written_by_model,
        )
        if checked.plan is None:
            return checked, checked.diagnostics
        if idle := tuple(idle_step_faults(patch, _partly_failed(run.state))):
            return replace(checked, plan=None, diagnostics=idle), idle
        return checked, tuple(errors_in(checked.plan, run.goal, run.tools))

    def _without_absent_arguments(self, patch: PlanPatch) -> PlanPatch:
        ops = tuple(
            op.model_copy(update={"step": without_absent_arguments(op.step, self.run.tools)})
            if isinstance(op, AddStep | ReplaceStep)
            else op
            for op in patch.ops
        )
        return patch.model_copy(update={"ops": ops})

    def read(self, text: str) -> CheckedPatch:
        """Return the patch of an answer.

        Raises:
            AnswerRefused: there is none that can be applied; it lists every fault.
        """
        self.refused.clear()
        document = find_object(text, _KEYS, patch_in)
        value = document.value
        if isinstance(value, dict) and not value.get("ops") and value.get("cannot_plan"):
            reason = shorten(str(value["cannot_plan"]), 300)
            raise AnswerRefused([f"it says: {reason}"], then="end")
        try:
            ended = self.run.state.finished_steps()
            bound, on_form = bind_patch(document, self.run.plan, ended)
        except PlanError as error:
            raise self._misfit(error.diagnostics, "the patch") from error
        patch = self._without_absent_arguments(bound)
        checked, faults = self.check(patch, written_by_model=True)
        if faults:
            # Without a plan the faults are places in the patch, else in what it has made.
            name = "the patch" if checked.plan is None else "the plan with the patch"
            raise self._misfit(faults, name)
        assert checked.plan is not None
        known = {gate.id for gate in checked.plan.gates}
        kept = tuple(gate for gate in patch.expect if gate in known)
        notes = (*notes_on_dress(text, value), *on_form)
        return CheckedPatch(patch.model_copy(update={"expect": kept}), checked, notes)

    def _misfit(self, diagnostics: Collection[Diagnostic], name: str) -> AnswerRefused:
        self.refused[:] = diagnostics
        source = Source(name, "")
        shown = [replace(diagnostic, span=None) for diagnostic in for_model(diagnostics)]
        return AnswerRefused(
            [render_text([diagnostic], source) for diagnostic in shown[:_MAX_DIAGNOSTICS]]
        )
