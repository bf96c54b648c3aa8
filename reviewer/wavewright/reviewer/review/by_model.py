"""The review by a model, which can only lower the verdict of code.

A model reads the goal, the plan with its reasons, the gates and as much of the outputs as its token
budget allows, and states whether the goal is achieved. The goal counts as achieved if code and
model both find so, a confidence that the model states can only lower the computed one, and no gate
and no cap is lifted. If no model can be reached the review by code stands, and the record says so;
if the answer holds no valid review, the goal is not achieved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import anyio

from wavewright.planner import Asking, FallbackFailure, Json
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.cel.plain_paths import is_plain_path
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.ports.conversation import (
    Conversation,
    FittingAnswer,
    NoFittingAnswer,
    rung_seconds,
)
from wavewright.planner.ports.fallback_ladder import Ladder, Rung, RungRecord, run_ladder
from wavewright.planner.ports.model_port import ModelCall, ModelError, ModelErrorKind
from wavewright.planner.ports.truncation import truncate
from wavewright.prompts import PromptError
from wavewright.reviewer.asking_models import (
    read_whole,
    repair_reply,
)
from wavewright.reviewer.records import Opinion, RecoveryAction, ReviewResult
from wavewright.reviewer.review.by_code import (
    Assessment,
    SettledConfidences,
    assess,
    confidence_sentence,
    failure_sentences,
    fix_sentences,
    remark_sentences,
    sentences_of_code,
    settle_confidences,
    with_full_stop,
)
from wavewright.reviewer.review.caps import CODE_REVIEW_CEILING, Ceiling, ceiling_of
from wavewright.reviewer.review.dialogue import (
    KINDS,
    Digest,
    ReviewAnswer,
    ReviewReader,
    accept_actions,
    digest_run,
    result_names,
    review_schema,
    to_opinion,
)
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.review.rounds import provenance_text, round_lines, was_rejected
from wavewright.reviewer.values import iso, shorten

MAX_REVIEWED_TOKENS: Final = 24_000
"""Default maximum tokens of outputs in a review's prompt."""
_MIN_OUTPUT_TOKENS = 1_500
_ANSWER_TOKENS = 8_000
_TOO_LARGE: Final[frozenset[ModelErrorKind]] = frozenset({"over_context", "over_budget"})
_MAX_INPUT_CHARS = 8_000
_MAX_STEPS_CHARS = 24_000
_MAX_GATES_CHARS = 24_000
_MAX_FAULTS = 5
_MAX_FORMULAS = 40
_MAX_FORMULA_CHARS = 600
_OTHER_MODEL = (
    "let another model review: set models.roles.reviewer (WAVEWRIGHT_MODEL goes before it), "
    "and run it again"
)
_LARGER_BUDGET = "raise the budget, and run it again: nothing was left for the review"


@dataclass(frozen=True, slots=True)
class _NoReview:
    """Why no review by a model counts, although one has to."""

    faults: tuple[str, ...]
    """What is wrong with the answers; nothing where none could be asked about what a model had
    rejected before.
    """
    mend: str
    """What would bring a review, for a person."""

    @property
    def summary(self) -> str:
        """What happened, in a clause."""
        if self.faults:
            return "the reviewing model gave no valid review"
        return "a model rejected the round before, and none could be asked about this one"

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of the record."""
        return self.faults or (self.summary,)


async def review_by_model(
    run: ReviewedRun,
    by_code: ReviewResult,
    asking: Asking,
    *,
    tokens: int = MAX_REVIEWED_TOKENS,
) -> ReviewResult:
    """Return the verdict of code and a model on a run; without models that of code.

    Args:
        run: The run, with the bound plan in force, patches included.
        by_code: The review by code.
        asking: Who is asked: the templates `reviewer/…`, the ladder `reviewer`.
        tokens: Maximum tokens of outputs in the prompt; fewer are shown if the model has no room
            for them.

    The example goes on from that of `review_by_code`.

    >>> import anyio
    >>> from wavewright.planner import Asking, shipped_ladders
    >>> from wavewright.prompts import Prompts
    >>> from wavewright.reviewer import ReviewedRun, review_by_code, review_by_model
    >>> asking = Asking(models=None, prompts=Prompts(), ladder=shipped_ladders()["reviewer"])
    >>> by_code = review_by_code(plan, goal, run.state, tools)
    >>> reviewed = ReviewedRun(plan, goal, run.state, tools)
    >>> anyio.run(review_by_model, reviewed, by_code, asking) == by_code
    True
    """
    if asking.models is None:
        return by_code
    ladder = asking.ladder
    assert ladder is not None
    assessed = _AssessedRun(run, assess(run))
    question = _ReviewQuestion(assessed, by_code, asking, tokens)
    faults: list[str] = []
    mend = _OTHER_MODEL

    async def by_model(rung: Rung) -> ReviewResult | FallbackFailure:
        nonlocal mend
        try:
            answer = await question.ask(rung)
        except ModelError as error:
            if error.kind == "over_budget":
                mend = _LARGER_BUDGET
            return FallbackFailure(shorten(f"{error.kind}: {error}", 300), error=error)
        except PromptError as error:
            return FallbackFailure(shorten(str(error), 300))
        if isinstance(answer, NoFittingAnswer):
            faults.extend(answer.faults[:_MAX_FAULTS])
            reason = f"no review in the answer of {answer.model}: {'; '.join(answer.faults)}"
            return FallbackFailure(shorten(reason, 300))
        return assessed.merged(by_code, answer, _rung_ceiling(ladder, rung))

    def by_code_alone(ceiling: Ceiling | None) -> ReviewResult:
        # Code cannot tell whether what a model found wrong is right now.
        is_demanded = bool(faults) or was_rejected(run.state)
        missing = _NoReview(tuple(faults), mend) if is_demanded else None
        return assessed.without_model(by_code, ceiling, missing)

    async def without_model(rung: Rung) -> ReviewResult:
        return by_code_alone(_rung_ceiling(ladder, rung))

    ways = {"model": by_model, "code": without_model}
    result = await run_ladder(ladder, ways, on_rung=asking.on_rung)
    return result.value or by_code_alone(CODE_REVIEW_CEILING)


@dataclass(frozen=True, slots=True)
class _AssessedRun:
    """A run under review, with what code finds of it."""

    run: ReviewedRun
    assessment: Assessment

    def merged(
        self, by_code: ReviewResult, answer: FittingAnswer[ReviewAnswer], ceiling: Ceiling | None
    ) -> ReviewResult:
        """Return the common verdict of code and model: achieved if both say so, with the lower
        confidence.
        """
        opinion = to_opinion(answer.value, answer.model)
        actions, refused = accept_actions(answer.value, self.run.plan, self.run.goal)
        is_achieved = by_code.goal_achieved and opinion.goal_achieved
        settled = settle_confidences(
            self.run,
            self.assessment,
            ceiling=ceiling,
            is_achieved=is_achieved,
            claims={f"the reviewing model ({opinion.model})": opinion.confidence},
        )
        sentences = [*self._verdict(by_code, opinion), confidence_sentence(settled.overall)]
        return _changed(
            by_code,
            settled,
            goal_achieved=is_achieved,
            summary=" ".join(sentences),
            missing_data=tuple(dict.fromkeys((*by_code.missing_data, *opinion.missing_data))),
            recovery_actions=tuple(dict.fromkeys((*by_code.recovery_actions, *actions))),
            reviewer="model",
            opinion=opinion,
            refused_actions=refused,
        )

    def without_model(
        self, by_code: ReviewResult, ceiling: Ceiling | None, missing: _NoReview | None
    ) -> ReviewResult:
        """Return the review by code under the ceiling of its rung; not achieved if a model's answer
        was invalid, or none could be asked about what a model had rejected.
        """
        # Nothing raises a figure: of two ceilings the lower one counts.
        is_lower = ceiling is not None and ceiling.max < CODE_REVIEW_CEILING.max
        if not is_lower and missing is None:
            return by_code
        settled = settle_confidences(
            self.run,
            self.assessment,
            ceiling=ceiling if is_lower else CODE_REVIEW_CEILING,
            is_achieved=by_code.goal_achieved and missing is None,
        )
        if missing is None:
            return _changed(by_code, settled)
        return _changed(
            by_code,
            settled,
            goal_achieved=False,
            summary=" ".join(self._unread_sentences(settled, missing)),
            missing_data=(*by_code.missing_data, f"review: {missing.reasons[0]}"),
            recovery_actions=(
                *by_code.recovery_actions,
                RecoveryAction(action="configure", hint=missing.mend),
            ),
            unread_because=missing.reasons,
        )

    def _unread_sentences(self, settled: SettledConfidences, missing: _NoReview) -> Iterator[str]:
        yield "Goal not achieved."
        why = missing.summary
        yield f"{why[0].upper()}{why[1:]}, so the goal does not count as achieved."
        yield from sentences_of_code(self.assessment, settled, self.run.goal, "By the gates alone")

    def _verdict(self, by_code: ReviewResult, opinion: Opinion) -> Iterator[str]:
        if by_code.goal_achieved and opinion.goal_achieved:
            yield "Goal achieved: the gates passed, and the model that read the result agrees."
        elif by_code.goal_achieved:
            yield "Goal not achieved."
            yield "The gates passed, but the model that read the result does not find the goal achieved."
        else:
            yield "Goal not achieved."
            yield from failure_sentences(self.assessment)
            if opinion.goal_achieved:
                yield "The model that read the result finds the goal achieved, which lifts no gate."
        yield from remark_sentences(self.assessment)
        if not by_code.goal_achieved:
            yield from fix_sentences(self.assessment, self.run.goal)
        yield with_full_stop(f"{opinion.model} says: {opinion.summary}")


def _changed(review: ReviewResult, settled: SettledConfidences, **changes: object) -> ReviewResult:
    """Return a review with settled confidences and other changes, validated like any other."""
    return ReviewResult.model_validate(
        {
            **dict(review),
            "confidence": settled.overall.capped,
            "confidences": settled.confidences,
            "caps": settled.caps,
            **changes,
        }
    )


@dataclass(frozen=True, slots=True)
class _ReviewQuestion:
    """The question to a reviewing model."""

    assessed: _AssessedRun
    by_code: ReviewResult
    asking: Asking
    tokens: int

    async def ask(self, rung: Rung) -> FittingAnswer[ReviewAnswer] | NoFittingAnswer:
        """Return the answer; a question that is too large or over budget is asked again with fewer
        outputs.

        Raises:
            ModelError: no model answers.
        """
        tokens = self.tokens
        # In a thread: truncating an output of megabytes takes a while.
        call = await anyio.to_thread.run_sync(self._call, rung, tokens)

        def smaller() -> ModelCall | None:
            nonlocal tokens
            tokens //= 2
            while tokens >= _MIN_OUTPUT_TOKENS:
                fewer = self._call(rung, tokens)
                if len(fewer.prompt) < len(conversation.call.prompt):
                    return fewer
                tokens //= 2
            return None

        reader = ReviewReader(self._leads_somewhere)
        conversation = Conversation(
            self.asking,
            replace(call, timeout=await rung_seconds(self.asking, rung, call)),
            read_whole(reader.read),
            repair_reply(self.asking.prompts, "reviewer/repair"),
            smaller,
            _TOO_LARGE,
        )
        try:
            answer = await conversation.ask_all(rung.tries)
        except ModelError:
            if reader.best_so_far is None:
                raise
            # What it has said counts, although it could not be asked once more.
            return FittingAnswer(reader.best_so_far, conversation.answers[-1].use.model)
        if isinstance(answer, NoFittingAnswer) and reader.best_so_far is not None:
            return FittingAnswer(reader.best_so_far, answer.model)
        return answer

    def _leads_somewhere(self, answer: ReviewAnswer) -> bool:
        """Whether something follows from a review: nothing has to where no patch can be made, or
        where code has found what is wrong.
        """
        run = self.assessed.run
        is_over = run.state.round >= run.goal.limits.rounds
        if answer.goal_achieved or is_over or self.by_code.recovery_actions:
            return True
        return bool(answer.missing_data or accept_actions(answer, run.plan, run.goal)[0])

    def _call(self, rung: Rung, tokens: int) -> ModelCall:
        run = self.assessed.run
        goal = run.goal
        digest = digest_run(run, self.assessed.assessment.result, tokens=tokens)
        instructions = self.asking.prompts.render(
            "reviewer/instructions", kinds=KINDS, has_gates=bool(digest.gates)
        )
        return ModelCall(
            role="reviewer",
            name="reviewer",
            instructions=instructions,
            prompt=self.asking.prompts.render("reviewer/request", **self._values(digest)),
            schema=review_schema([step.id for step in run.plan.steps], goal.tool_names),
            schema_name="review",
            preference=goal.model_preference,
            thinking=goal.thinking_level,
            max_tokens=_ANSWER_TOKENS,
            rung=rung.name,
            run=run.state.run,
            job=goal.job,
        )

    def _values(self, digest: Digest) -> Mapping[str, object]:
        run, goal = self.assessed.run, self.assessed.run.goal
        steps: list[Json] = [*digest.steps]
        gates: list[Json] = [*digest.gates]
        return {
            "goal": goal.text,
            "reasoning": run.plan.reasoning or "",
            "inputs": truncate(goal.inputs, _MAX_INPUT_CHARS),
            "targets": goal.targets,
            "now": iso(run.now),
            "round": run.state.round,
            "steps": truncate(steps, _MAX_STEPS_CHARS),
            "gates": truncate(gates, _MAX_GATES_CHARS),
            "missing": [*self.by_code.missing_data[:40]],
            "result_of": result_names(run, digest),
            # How fields are computed is in their formulas, and in the parameters of the steps.
            "provenance": [
                provenance_text(provenance.model_copy(update={"computed": ()}))
                for provenance in self.by_code.provenance
            ],
            "formulas": list(_formulas(run)),
            "rounds": list(round_lines(run)),
            "outputs": digest.outputs,
            "left_out": digest.left_out,
            "tools": sorted(goal.tool_names),
        }


def _formulas(run: ReviewedRun) -> Iterator[str]:
    """Yield the fields of the result that are more than read, each with what computes it.

    Whether a formula of data alone is the right one, no code can tell: the model has to see it.
    """
    plan = run.plan
    declared = plan.stop.result if plan.stop is not None and run.has_stopped else plan.result
    in_words = in_authors_words(plan, with_names=False)
    for pointer, text in islice(iterate_strings(declared), _MAX_FORMULAS):
        if "${" in text and not is_plain_path(text.removeprefix("${").removesuffix("}")):
            field = pointer.lstrip("/").replace("/", ".") or "result"
            yield f"{field} = {shorten(in_words(text), _MAX_FORMULA_CHARS)}"


def _rung_ceiling(ladder: Ladder, rung: Rung) -> Ceiling | None:
    return ceiling_of(
        RungRecord(ladder.name, rung.name, "reached", ceiling=rung.ceiling, because=rung.because)
    )
