"""Replay a run of the journal under another planner, other prompts or another reviewer.

A *replay* gives the recorded outputs of the run's tools to the real pipeline once more. It begins
after the plan was accepted, or before, where another model is to plan; it is no run of the journal,
writes nothing and leaves the recorded run as it is. Only models that are called anew cost anything,
and that counts in the budgets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final

from wavewright.config import Settings
from wavewright.engine.rehearsal.recordings.recorded_calls import recorded_calls
from wavewright.engine.rehearsal.recordings.recorded_tools import (
    CallMiss,
    RecordedTools,
    ReusingJournal,
    UnrecordedCall,
)
from wavewright.engine.rehearsal.recordings.replay_models import (
    RecordedAnswers,
    ReplayedModels,
    ReplayOptions,
    ReplayRejected,
    live_roles,
    replay_settings,
)
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import (
    ApprovalRequest,
    Attempt,
    Means,
    People,
    Ports,
    ignore_event,
    withhold_package,
)
from wavewright.engine.run.project.tools import tools_of_goal
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.engine.run.target_waves import no_plan_reason
from wavewright.executor import Event, Noted, PlanAccepted, RunStarted, fold, new_run_id
from wavewright.executor.events.types import ModelCalled
from wavewright.planner import Goal, PlanError, RunId, UserQuestion, suggest_name
from wavewright.planner.ports.fallback_ladder import Ladder
from wavewright.planner.ports.model_port import ModelOutcome, ModelUse, OnUse, Role
from wavewright.reviewer.package.builder import stored_package
from wavewright.reviewer.package.comparison import ComparedRun, RunComparison, compare
from wavewright.tools import Services, Tool, make_services


@dataclass(slots=True)
class RecordedRespondents:
    """Approves and answers as in the recorded run.

    Equal questions are told apart by the step that asks, and of one step by their order: what a
    person has answered to one is no answer to another. What was not asked then is approved, since a
    replay has no effects; a question that was not asked has no answer.
    """

    _approvals: dict[tuple[str, ...], deque[bool]] = field(
        default_factory=dict[tuple[str, ...], deque[bool]]
    )
    """By what was approved, in order."""
    _answers: dict[tuple[str, str], deque[str]] = field(
        default_factory=dict[tuple[str, str], deque[str]]
    )
    """By step and question, in order."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> RecordedRespondents:
        """Return the respondents of a run."""
        respondents = cls()
        for event in events:
            if not isinstance(event, Noted):
                continue
            needs = event.body.get("needs")
            if event.topic == "approval" and isinstance(needs, list):
                reasons = tuple(str(need) for need in needs)
                approved = bool(event.body.get("approved"))
                respondents._approvals.setdefault(reasons, deque()).append(approved)
            elif event.topic == "answer":
                binding = event.body.get("binding")
                step = binding.get("step") if isinstance(binding, dict) else None
                asker = "" if step is None else f"step {step!r}"
                question = asker, str(event.body.get("question"))
                answer = str(event.body.get("answer"))
                respondents._answers.setdefault(question, deque()).append(answer)
        return respondents

    async def approve(self, request: ApprovalRequest) -> bool:
        """Return whether it was approved; whatever was not asked is approved."""
        answer = self._approvals.get(request.needs)
        return answer.popleft() if answer else True

    async def ask(self, question: UserQuestion) -> str | None:
        """Return what was answered to the same question of the same step."""
        answer = self._answers.get((question.asked_by, question.question))
        if answer is None:
            # A planner's question is asked by no step.
            answer = self._answers.get(("", question.question))
        return answer.popleft() if answer else None


_FAILED_OUTCOMES: Final[frozenset[ModelOutcome]] = frozenset({"failed", "timeout", "over_budget"})
_DECIDING_ROLES: Final[frozenset[Role]] = frozenset({"planner", "reviewer", "recovery", "judge"})


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A recorded run, and what it comes to in the replay."""

    replay_options: ReplayOptions
    before: ComparedRun
    after: ComparedRun
    tools: dict[str, Tool]
    misses: tuple[CallMiss, ...] = ()
    unanswered: tuple[str, ...] = ()
    """Questions to models that have no recorded answer, and that no model could be asked."""
    live_calls: tuple[UnrecordedCall, ...] = ()
    live_uses: tuple[ModelUse, ...] = ()
    """What models were asked anew."""
    changed_tools: tuple[str, ...] = ()
    """Tools whose contract is another one since the run, a sentence each."""

    def compare(self) -> RunComparison:
        """Return what is different in the replay."""
        signatures = {name: tool.signature for name, tool in self.tools.items()}
        return compare(self.before, self.after, signatures)

    @property
    def is_same_verdict(self) -> bool:
        """Whether the replay comes to the verdict of the run."""
        return self.before.status == self.after.status

    @property
    def is_whole(self) -> bool:
        """Whether every call and question of the replay was recorded, or could be made."""
        return not self.misses and not self.unanswered

    @property
    def silent_models(self) -> tuple[ModelUse, ...]:
        """The last question to each role that decides something and got no answer at all to what it
        was asked anew.

        A refusal or a cut-off answer counts as an answer; an unreachable model or a used-up budget
        does not.
        """
        heard = {use.role for use in self.live_uses if use.outcome not in _FAILED_OUTCOMES}
        last = {
            use.role: use
            for use in self.live_uses
            if use.role in _DECIDING_ROLES and use.role not in heard
        }
        return tuple(last.values())


async def replay_run(
    run: RunId,
    events: Sequence[Event],
    settings: Settings,
    request: ReplayOptions,
    *,
    on_use: OnUse = ignore_event,
) -> ReplayResult:
    """Replay a run.

    Args:
        run: The run.
        events: What the journal holds of it.
        settings: The project's.
        request: What is to be different.
        on_use: Called with each use of a model that is called anew.

    Raises:
        ReplayRejected: the run cannot be replayed, or an option does not apply to it.
        PlanError: the recorded plan is not valid with the tools as they are now.
        ModelConfigError, PromptError: a model cannot be asked at all; a template is faulty.
    """
    before = _recorded_run(run, events)
    changed_settings = replay_settings(request, settings)
    answers = RecordedAnswers.of(events)
    had_models = answers.has_review or "planner" in answers.models
    plans_anew = _makes_new_plan(request, events, had_models=had_models)
    goal = Goal.model_validate(_started(events).goal)
    changed = tuple(_changed_tools(_started(events), goal, settings, before))
    tools = RecordedTools(recorded_calls(events), calls_live=request.live)
    journal = ReusingJournal(tools.calls, run)
    replay = new_run_id(time.time())
    await journal.append(replay, list(_initial_events(events, replay, plans_anew=plans_anew)))
    await journal.close_run(replay)
    models = ReplayedModels(
        answers, live_roles=live_roles(request), misses=tools.misses, on_use=on_use
    )
    has_model = settings.model is not None
    async with _services(
        changed_settings, request, models, had_models=had_models, has_model=has_model
    ) as services:
        respondents = RecordedRespondents.of(events)
        ports = Ports(
            attempt=Attempt(journal=journal),
            means=Means(settings=changed_settings, services=services, runtime=tools),
            people=People(approver=respondents, asker=respondents),
            publish=withhold_package,
        )
        after, brought = await _replay(ports, replay, plans_anew=plans_anew)
    return ReplayResult(
        request,
        before,
        after,
        brought,
        tuple(tools.misses),
        tuple(models.unanswered),
        tuple(tools.unrecorded_calls),
        tuple(models.live_uses),
        changed,
    )


async def _replay(
    ports: Ports, replay: RunId, *, plans_anew: bool
) -> tuple[ComparedRun, dict[str, Tool]]:
    try:
        ended = await run_job(RunRequest(run=replay), ports)
    except PlanError as error:
        if not plans_anew:
            raise
        # That there is no valid plan is the outcome of the replay.
        state = fold(await ports.attempt.journal.load(replay))
        first = next(
            (diagnostic for diagnostic in error.diagnostics if diagnostic.severity == "error"), None
        )
        because = f": {first.code}: {first.message}" if first is not None else ""
        return ComparedRun(state, None, f"there is no valid plan{because}"), {}
    context = ended.context
    return ComparedRun(context.state, context.package, ended.halted or ""), dict(context.tools)


def _recorded_run(run: RunId, events: Sequence[Event]) -> ComparedRun:
    """Return the run as it was.

    Raises:
        ReplayRejected: it had no plan, or has not ended.
    """
    state = fold(events)
    package = stored_package(state)
    if package is None:
        otherwise = f"run {run!r} ended before a plan was accepted: it called no tool, so there is nothing to replay"
        raise ReplayRejected(
            no_plan_reason(state, otherwise),
            f"`wavewright show {run} --format events` prints what there is",
        )
    if state.finished is None or state.is_interrupted:
        raise ReplayRejected(
            f"run {run!r} has not come to its end: it has no verdict to compare with",
            f"let it come to its end first: `wavewright resume {run}`",
        )
    return ComparedRun(state, package)


def _makes_new_plan(request: ReplayOptions, events: Sequence[Event], *, had_models: bool) -> bool:
    """Return whether the replay makes a new plan.

    Raises:
        ReplayRejected: other prompts are wanted for a run that asked no model.
    """
    if request.planner is not None:
        return True
    if request.prompt_dir is None:
        return False
    if not had_models and request.reviewer is None:
        raise ReplayRejected(
            "the run neither planned nor reviewed with a model, so no prompt can make a difference",
            "name a model as well, with --planner or --reviewer",
        )
    opening = takewhile(lambda event: not isinstance(event, PlanAccepted), events)
    return any(isinstance(event, ModelCalled) and event.use.role == "planner" for event in opening)


def _initial_events(events: Sequence[Event], replay: RunId, *, plans_anew: bool) -> Iterator[Event]:
    """Yield what the replay begins with: all up to the plan, or what there was before the planning."""
    is_first = True
    for event in events:
        if isinstance(event, RunStarted):
            yield replace(event, run=replay)
        elif not plans_anew:
            yield event
            if isinstance(event, PlanAccepted):
                return
        elif isinstance(event, Noted) and event.topic == "draft" and is_first:
            # A template's plan stands at the foot of the planner's ladder; a given one is what is
            # replaced.
            is_first = False
            if event.body.get("rung") == "template":
                yield event


def _started(events: Sequence[Event]) -> RunStarted:
    return next(event for event in events if isinstance(event, RunStarted))


def _changed_tools(
    started: RunStarted, goal: Goal, settings: Settings, before: ComparedRun
) -> Iterator[str]:
    """Yield what is another one since the run, of the tools that its plan names.

    Raises:
        ReplayRejected: one of them is gone.
    """
    assert before.plan is not None
    here = tools_of_goal(goal, settings, make_services(settings))
    for name in dict.fromkeys(step.tool for step in before.plan.steps):
        if name not in here:
            raise ReplayRejected(
                f"the run called the tool {name!r}, which neither this project nor a pack brings any more",
                suggest_name(name, list(here), what="tools")
                or "bring the tool back: a replay needs its signature",
            )
        version = started.versions.get(f"tool {name}")
        if version is not None and version != here[name].signature.version:
            yield f"tool {name!r} has changed since the run; its recorded outputs are used"


@asynccontextmanager
async def _services(
    changed_settings: Settings,
    request: ReplayOptions,
    models: ReplayedModels,
    *,
    had_models: bool,
    has_model: bool,
) -> AsyncGenerator[Services]:
    """Open the models that the replay calls: none, where all answers are recorded."""
    asks = models if had_models or request.asks_models else None
    if not models.live_roles or changed_settings.model is None:
        yield make_services(changed_settings, asks)
        return
    async with open_services(changed_settings) as opened:
        models.real = opened.models
        # A worker's signature depends on the project's settings, not on the models of the replay.
        services = replace(opened, models=asks, has_model=has_model)
        if not had_models:
            services = replace(services, ladder=_recorded_ladders(opened.ladder, request))
        yield services


def _recorded_ladders(
    ladder: Callable[[str], Ladder], request: ReplayOptions
) -> Callable[[str], Ladder]:
    """Return the ladders without models where the run had none and no option names one."""
    models = {"reviewer": request.reviewer, "recovery": request.planner}

    def recorded(name: str) -> Ladder:
        opened = ladder(name)
        if name not in models or models[name] is not None:
            return opened
        rungs = tuple(rung for rung in opened.rungs if rung.name != "model")
        return opened.model_copy(update={"rungs": rungs})

    return recorded
