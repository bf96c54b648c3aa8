"""The models of a replay: the answers that a run's journal holds, and which roles are asked anew
with which settings.

The journal keeps each answer, so a replay calls no model and needs no cassette. Of a question
without an answer, it keeps the cost and the reason. A role is *live* if another model is to answer
it, or if its question may differ from the recorded one; every other role gets its recorded answers.

Options of a replay name another planner, another reviewer or a folder of prompts. A model that is
named is used in its role alone; every other role keeps the model of the project's settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast, get_args

from wavewright.config import Settings, WavewrightError, exit_codes
from wavewright.config.sections import RoleName
from wavewright.engine.rehearsal.recordings.recorded_tools import CallMiss
from wavewright.engine.run.ports import ignore_event
from wavewright.executor import Event, StepFinished
from wavewright.executor.events.types import AnswerKept, ModelCalled, RungTaken
from wavewright.planner import ModelAnswer, StepId
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    ModelCall,
    ModelChoice,
    ModelClient,
    ModelError,
    ModelErrorKind,
    ModelQuestion,
    ModelUse,
    OnText,
    OnUse,
    Role,
)
from wavewright.prompts.templates import SUFFIX
from wavewright.tools import project_prompts
from wavewright.tools.models.endpoints import ModelConfigError, preference_words, split_model
from wavewright.tools.models.messages import answer_from_json

_KINDS: frozenset[str] = frozenset(get_args(ModelErrorKind))
_REPLAYED_ROLES: frozenset[str] = frozenset({"reviewer", "recovery", "judge"})
_ANSWERED: frozenset[str] = frozenset({"answered", "truncated"})
_ROLES: Final[tuple[RoleName, ...]] = get_args(RoleName)
_WORKER_ROLES: Final[frozenset[Role]] = frozenset({"worker", "agent"})
_REVIEW_ROLES: Final[frozenset[Role]] = frozenset({"reviewer", "recovery"})
_ALL_ROLES: Final[frozenset[Role]] = frozenset(get_args(Role))


class ReplayRejected(WavewrightError):
    """A run cannot be replayed as asked."""

    exit_code = exit_codes.MISUSE


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What is to be different; nothing where all is absent."""

    planner: str | None = None
    """The model that plans and recovers."""
    reviewer: str | None = None
    """The model that reviews."""
    prompt_dir: Path | None = None
    """Prompts that go before the project's."""
    live: bool = False
    """Whether a call that was never recorded is made for real."""

    @property
    def asks_models(self) -> bool:
        """Whether any model is to be asked anew."""
        return self.planner is not None or self.reviewer is not None or self.prompt_dir is not None

    def description(self) -> Iterator[str]:
        """Yield what is different, for people."""
        if self.planner is not None:
            yield f"planner {self.planner}"
        if self.reviewer is not None:
            yield f"reviewer {self.reviewer}"
        if self.prompt_dir is not None:
            yield f"prompts of {self.prompt_dir}"
        if self.live:
            yield "live where nothing is recorded"


def live_roles(request: ReplayOptions) -> frozenset[Role]:
    """Return the roles that are asked anew.

    Another plan has other results, and other prompts are other questions: then no earlier answer
    counts.
    """
    if request.planner is not None or request.prompt_dir is not None:
        return _ALL_ROLES
    if request.reviewer is not None:
        return _WORKER_ROLES | _REVIEW_ROLES
    return _WORKER_ROLES if request.live else frozenset()


def replay_settings(request: ReplayOptions, settings: Settings) -> Settings:
    """Return the settings of a project with the options applied.

    Raises:
        ReplayRejected: no model is configured, or a name or a folder is invalid.
    """
    if request.prompt_dir is not None:
        folder = _checked_folder(request.prompt_dir, settings)
        settings = replace(settings, prompts=(folder, *settings.prompts))
    own_roles: dict[RoleName, str] = {}
    if request.planner is not None:
        own_roles |= {"planner": request.planner, "recovery": request.planner}
    if request.reviewer is not None:
        own_roles["reviewer"] = request.reviewer
    for option, model in (("--planner", request.planner), ("--reviewer", request.reviewer)):
        _check_model_name(option, model, settings)
    default = settings.model or next((model for model in own_roles.values() if ":" in model), None)
    if default is None and request.asks_models:
        raise ReplayRejected(
            "no model is configured",
            "name one as PROVIDER:NAME with --planner or --reviewer, or set WAVEWRIGHT_MODEL",
        )
    # A model that the environment names is asked for every role; here the one named by an option
    # takes precedence.
    roles = dict(settings.models.roles)
    if settings.model_is_forced and settings.model is not None:
        roles = dict.fromkeys(_ROLES, settings.model)
    models = settings.models.model_copy(update={"roles": {**roles, **own_roles}})
    return replace(
        settings,
        model=default,
        model_is_forced=settings.model_is_forced and not own_roles,
        models=models,
    )


def _check_model_name(option: str, model: str | None, settings: Settings) -> None:
    """Raise an error where a name is not that of a model."""
    if model is None:
        return
    if model in preference_words(settings):
        return
    try:
        split_model(model)
    except ModelConfigError as error:
        raise ReplayRejected(f"{option}: {error}", error.hint or "") from None


def _checked_folder(folder: Path, settings: Settings) -> Path:
    """Return the whole path of a folder of prompts; one without any would have no effect, without
    notice.
    """
    if not folder.is_dir():
        raise ReplayRejected(
            f"--prompt-dir {str(folder)!r} is no folder",
            "name a folder with prompt templates in it",
        )
    known = set(project_prompts(settings.prompts).names())
    if known.isdisjoint(_names_in(folder)):
        raise ReplayRejected(
            f"--prompt-dir {str(folder)!r} holds none of the prompts that a run asks with",
            f"put a template there, such as planner/request{SUFFIX}; there are {', '.join(sorted(known))}",
        )
    return folder.absolute()


def _names_in(folder: Path) -> set[str]:
    return {
        file.relative_to(folder).as_posix().removesuffix(SUFFIX)
        for file in folder.rglob(f"*{SUFFIX}")
    }


@dataclass(frozen=True, slots=True)
class _AnswerKey:
    """Where a question came from; its answers are taken in their order."""

    role: str
    name: str = ""
    """The gate's id, for a judge."""
    step: StepId | None = None
    index: int | None = None

    @classmethod
    def of(cls, asked: ModelUse | ModelCall | ModelQuestion) -> _AnswerKey:
        return (
            cls(asked.role, asked.name, asked.step, asked.index)
            if asked.role == "judge"
            else cls(asked.role)
        )


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer to a question, or the reason why there was none."""

    uses: tuple[ModelUse, ...]
    """What the question cost, repeated requests included."""
    answer: ModelAnswer | ModelError


@dataclass(slots=True)
class RecordedAnswers:
    """The answers of a run by asker, each to be taken once."""

    models: dict[Role, str] = field(default_factory=dict[Role, str])
    """The model that a role asked, as far as it did."""
    _answers: dict[_AnswerKey, list[RecordedAnswer]] = field(
        default_factory=dict[_AnswerKey, list[RecordedAnswer]]
    )

    @classmethod
    def of(cls, events: Iterable[Event]) -> RecordedAnswers:
        """Return what the models of a run answered."""
        return _AnswerReader().read(events)

    @property
    def has_review(self) -> bool:
        """Whether a model was to review the run."""
        return _AnswerKey("reviewer") in self._answers

    def next_to(self, call: ModelCall) -> RecordedAnswer | None:
        """Return the next answer to the asker of a call; None if it did not ask again."""
        known = self._answers.get(_AnswerKey.of(call))
        return known.pop(0) if known else None

    def add(self, asker: _AnswerKey, answers: Iterable[RecordedAnswer]) -> None:
        """Add answers at the end."""
        self._answers.setdefault(asker, []).extend(answers)


class _AnswerReader:
    """Assigns costs to answers: an answer is journaled when it came, its cost soon after."""

    def __init__(self) -> None:
        self._found = RecordedAnswers()
        self._uses = dict[_AnswerKey, list[ModelUse]]()
        self._answers = dict[_AnswerKey, list[ModelAnswer]]()

    def read(self, events: Iterable[Event]) -> RecordedAnswers:
        failed_verdicts = dict[_AnswerKey, str]()
        for event in events:
            match event:
                case ModelCalled(use=use):
                    self._found.models.setdefault(use.role, use.model)
                    if use.role in _REPLAYED_ROLES:
                        self._uses.setdefault(_AnswerKey.of(use), []).append(use)
                case AnswerKept(question=ModelQuestion() as question) if (
                    question.role in _REPLAYED_ROLES
                ):
                    answer = answer_from_json(event.answer)
                    self._answers.setdefault(_AnswerKey.of(question), []).append(answer)
                case RungTaken(rung=rung, step=None) if rung.rung == "model":
                    self._finish(_AnswerKey(rung.ladder), rung.reason, rung.error_kind)
                case StepFinished():
                    for record in event.gates:
                        if record.kind == "judge" and record.verdict == "error":
                            failed_verdicts[
                                _AnswerKey("judge", record.gate, record.step, record.index)
                            ] = record.message
                case _:
                    pass
        # A judge's costs may come after the end of the step, which holds its verdict.
        for asker in [*self._uses, *self._answers, *failed_verdicts]:
            self._finish(asker, failed_verdicts.get(asker, ""))
        return self._found

    def _finish(self, asker: _AnswerKey, failure: str, kind: ModelErrorKind | None = None) -> None:
        """Add the answers of a rung or a judge since its last one; `failure` says why it has no
        result.
        """
        uses, answers = self._uses.pop(asker, []), self._answers.pop(asker, [])
        said: list[ModelAnswer | ModelError] = [*answers]
        if failure and not (answers and uses and uses[-1].outcome in _ANSWERED):
            said.append(_model_error(uses, failure, kind))
        # The last one has the costs of requests that were repeated.
        costs = [
            uses[place : None if place == len(said) - 1 else place + 1]
            for place in range(len(said))
        ]
        if said:
            self._found.add(
                asker,
                [
                    RecordedAnswer(tuple(cost), answer)
                    for cost, answer in zip(costs, said, strict=True)
                ],
            )


def _model_error(uses: Sequence[ModelUse], reason: str, kind: ModelErrorKind | None) -> ModelError:
    """Return the error that stood in the place of an answer: that of the last request, where one
    was made.
    """
    if not uses:
        kind = kind or "unreachable"
        return ModelError(kind, reason.removeprefix(f"{kind}: "))
    last = uses[-1]
    known = last.outcome if last.outcome in _KINDS else kind or "unreachable"
    return ModelError(cast("ModelErrorKind", known), last.message)


@dataclass(slots=True)
class ReplayedModels:
    """Answers of the record, and of real models for the roles that are live."""

    answers: RecordedAnswers
    real: ModelClient | None = None
    live_roles: frozenset[Role] = frozenset()
    on_use: OnUse = ignore_event
    """Called with each use of a model in the replay."""
    live_uses: list[ModelUse] = field(default_factory=list[ModelUse])
    """What was asked now, and what that cost."""
    misses: Sequence[CallMiss] = ()
    """Calls of the replay that were never recorded, as they come to light."""
    unanswered: list[str] = field(default_factory=list[str])
    """Questions that were not asked when the run was recorded, and that cannot be asked now."""

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        """Return the recorded answer, or a real model's where the role is live.

        Raises:
            ModelError: there is none.
        """
        if call.role == "recovery" and self.misses:
            # Not paid for: what a patch could bring would be another miss.
            raise ModelError("unreachable", "calls were never recorded, and no patch fixes that")
        recorded = None if call.role in self.live_roles else self.answers.next_to(call)
        if recorded is not None:
            return _replay_answer(recorded, on_use)
        if self.real is None:
            raise self._unasked(call)
        return await self.real.ask(call, on_use=self._counted(on_use), on_text=on_text)

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
    ) -> ModelAnswer:
        """Let a real model work: what an agent did before is its tool's recorded answer, not a
        model's.

        Raises:
            ModelError: there is no model.
        """
        if self.real is None:
            raise self._unasked(call)
        return await self.real.work(
            call, tools, limits, on_use=self._counted(on_use), on_text=on_text
        )

    def choose(self, preference: str, role: Role) -> ModelChoice:
        """Return the model that was asked, or that would be asked now."""
        before = self.answers.models.get(role)
        if self.real is not None and (role in self.live_roles or before is None):
            return self.real.choose(preference, role)
        return ModelChoice(before or "recorded", "the recorded run asked it")

    def _counted(self, on_use: OnUse | None) -> OnUse:
        def count(use: ModelUse) -> None:
            self.live_uses.append(use)
            self.on_use(use)
            if on_use is not None:
                on_use(use)

        return count

    def _unasked(self, call: ModelCall) -> ModelError:
        what = call.name if call.name == call.role else f"{call.role} {call.name!r}"
        message = f"the recorded run never asked a model this ({what}), and no model is asked now"
        if message not in self.unanswered:
            self.unanswered.append(message)
        return ModelError("unreachable", message, hint="name a model, with --planner or --reviewer")


def _replay_answer(recorded: RecordedAnswer, on_use: OnUse | None) -> ModelAnswer:
    for use in recorded.uses:
        if on_use is not None:
            on_use(use)
    if isinstance(recorded.answer, ModelError):
        raise recorded.answer
    return recorded.answer
