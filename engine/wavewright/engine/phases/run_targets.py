"""A job with several targets: a run for each, in waves."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import anyio

from wavewright.config.documents import DocumentError, Source
from wavewright.engine.context import Ports, RunContext, RunRequest
from wavewright.engine.jobs import TARGET, Order
from wavewright.engine.model_phases import only_failure
from wavewright.engine.pipeline import Pipeline, StepResult, halt
from wavewright.engine.recording import STOPPED, draft_note, end_interrupted, note, noted_draft, record
from wavewright.engine.sealed_plan import SealError
from wavewright.engine.target_expansion import found_targets
from wavewright.engine.target_waves import (
    COMPLETED,
    FAILED,
    STARTED,
    WANTED,
    Target,
    Waves,
    as_json,
    waves_of,
)
from wavewright.engine.version import __version__
from wavewright.executor.events import Event, Noted, RunFinished, RunStarted
from wavewright.executor.journal_runs import new_run_id
from wavewright.executor.state import RunState, fold
from wavewright.planner.diagnostics import PlanError
from wavewright.planner.goals import Goal
from wavewright.planner.model_port import ModelError
from wavewright.planner.models import Plan
from wavewright.planner.resolving import goal_with_input
from wavewright.planner.types import JsonObject, RunId
from wavewright.prompts import PromptError
from wavewright.reviewer.packaging import build_package
from wavewright.reviewer.records import Package, ReviewResult
from wavewright.tools.functions import ToolDefinitionError
from wavewright.tools.packs import PackError

_LONGEST_JOB = 200


class BudgetSpent(Exception):
    """A target that cannot be begun, because the others have used what the job may spend."""


_FAULTS = (
    BudgetSpent,
    DocumentError,
    PlanError,
    SealError,
    ToolDefinitionError,
    PackError,
    PromptError,
    ModelError,
)
"""What fails one target and is no reason to give the others up."""


def has_targets(context: RunContext) -> bool:
    """Whether the job has several targets, each a run of its own."""
    return context.order is not None or waves_of(context.state) is not None


@dataclass(slots=True)
class _Root:
    """The root run while its targets run: its context after each note."""

    ports: Ports
    context: RunContext
    parked: set[str] = field(default_factory=set[str])
    """Targets that wait for a person."""
    spent: dict[RunId, int] = field(default_factory=dict[RunId, int])
    """Tokens of models, by the run of a target: what it has used, or may use as long as it runs."""

    @property
    def tokens(self) -> int | None:
        """Tokens that one more target may use: its share of what the others have left; none where nothing bounds it."""
        budget = self.context.goal.limits.budget if self.context.goal is not None else None
        if budget is None or budget.tokens is None:
            return None
        waves = self.waves
        waiting = sum(waves.runs.get(target.name) not in self.spent for target in waves.current())
        return (budget.tokens - sum(self.spent.values())) // max(1, min(waves.wanted.at_once, waiting))

    @property
    def waves(self) -> Waves:
        """How far it is."""
        waves = waves_of(self.context.state)
        assert waves is not None
        return waves

    async def note(self, topic: str, body: JsonObject) -> None:
        """Journal one step of it."""
        noted = Noted(self.ports.clock().timestamp(), topic, body)
        await self.ports.journal.append(self.context.run, [noted])
        self.ports.on_event(noted)
        # Others may have noted something since this began to be written: it is added to what there is now.
        self.context = replace(self.context, state=fold([noted], self.context.state))


@dataclass(frozen=True, slots=True)
class RunTargets:
    """Run the job for each of its targets, wave by wave; what a wave finds is the next one's."""

    ports: Ports
    pipeline: Callable[[Ports], Pipeline[RunContext]]
    """Makes the way of one target's run."""
    name: str = "run_targets"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Journal in the root run how each target begins and ends; one that fails is recorded, and the rest goes on."""
        context = await self._open(context)
        root = _Root(self.ports, context)
        for run in root.waves.runs.values():
            root.spent[run] = _tokens(fold(await self.ports.journal.load(run)))
        while (wave := _left(root)) and not self.ports.stopper.is_stopped:
            await self._run_wave(root, wave)
        context = root.context
        if self.ports.stopper.is_stopped:
            return halt(await end_interrupted(self.ports, context, STOPPED), "interrupted")
        if root.parked:
            # The rest of the wave is done by now; the next one waits for all of it.
            reason = f"a person must answer for {', '.join(sorted(root.parked))}"
            return halt(await end_interrupted(self.ports, context, reason), reason)
        waves = root.waves
        ended = RunFinished(self.ports.clock().timestamp(), _status(waves), waves.summary())
        return halt(await record(self.ports, context, ended), waves.summary())

    async def _open(self, context: RunContext) -> RunContext:
        if context.state.started is not None:
            return await note(self.ports, context, "resumed", {})
        order, now = context.order, self.ports.clock()
        assert order is not None
        assert order.targets is not None
        assert context.goal is not None
        run = context.request.run or new_run_id(now.timestamp())
        if context.request.run is None:
            await self.ports.journal.open_run(run)
        started = RunStarted(
            run=run,
            at=now.timestamp(),
            job=context.goal.job,
            goal=context.goal.model_dump(mode="json", by_alias=True),
            now=(context.goal.as_of or now).timestamp(),
            versions={"wavewright": __version__, "python": platform.python_version()},
        )
        given = () if order.draft is None else (draft_note(order.draft, now.timestamp()),)
        body: JsonObject = {"targets": order.targets.model_dump(mode="json"), "text": order.text}
        # One append: a root run that says nothing of its targets would be taken for a run like any other.
        events = (started, *given, Noted(now.timestamp(), WANTED, body))
        return await record(self.ports, context, *events, run=run)

    async def _run_wave(self, root: _Root, wave: list[Target]) -> None:
        slots = anyio.Semaphore(root.waves.wanted.at_once)
        try:
            async with anyio.create_task_group() as group:
                for target in wave:
                    await slots.acquire()
                    if self.ports.stopper.is_stopped:
                        break
                    group.start_soon(self._run_target, root, target, slots)
        except BaseExceptionGroup as failures:
            raise only_failure(failures) from None

    async def _run_target(self, root: _Root, target: Target, slots: anyio.Semaphore) -> None:
        try:
            run = root.waves.runs.get(target.name)
            if run is None:
                run = self._new_run(root)
                await root.note(STARTED, {"target": target.name, "wave": target.wave, "run": run})
            await self._bring_to_its_end(root, target, run)
        finally:
            slots.release()

    def _new_run(self, root: _Root) -> RunId:
        taken = {*root.waves.runs.values(), root.context.run}
        while (run := new_run_id(self.ports.clock().timestamp())) in taken:
            pass
        return run

    async def _bring_to_its_end(self, root: _Root, target: Target, run: RunId) -> None:
        body: JsonObject = {"target": target.name, "wave": target.wave, "run": run}
        state = fold(await self.ports.journal.load(run))
        try:
            if state.finished is None or state.is_interrupted:
                state, package = await self._run_one(root, target, run)
                if state.is_interrupted:
                    if not self.ports.stopper.is_stopped:
                        root.parked.add(target.name)
                    return
            else:
                package = self._package(state, run)
        except _FAULTS as fault:
            await root.note(FAILED, {**body, "reason": _told(fault)})
            return
        if package is None:
            reason = state.finished.reason if state.finished is not None else "it has no end"
            await root.note(FAILED, {**body, "reason": reason})
            return
        found: list[Target] = []
        if target.wave < root.waves.wanted.depth:
            found = found_targets(root.waves.wanted.expand, state)
        await root.note(COMPLETED, {**body, "status": package.status, "found": as_json(found)})

    async def _run_one(self, root: _Root, target: Target, run: RunId) -> tuple[RunState, Package | None]:
        before = root.spent.pop(run, 0)
        tokens = root.tokens
        if tokens is not None and tokens <= before:
            root.spent[run] = before
            raise BudgetSpent("the tokens of the job are spent")
        order = _order_for(root, target, tokens)
        root.spent[run] = before if tokens is None else tokens
        await self.ports.services.memory.learn(run)
        asked = root.context.request
        request = RunRequest(
            order=order,
            run=run,
            schedule=asked.schedule,
            concurrency=asked.concurrency,
            as_of=asked.as_of,
            output_dir=asked.output_dir,
        )
        # Who watches the root is told of targets, not of what goes on within them.
        ports = replace(self.ports, on_event=_nobody)
        if self.ports.people_of is not None:
            approver, asker = self.ports.people_of(run)
            ports = replace(ports, approver=approver, asker=asker)
        try:
            done = await self.pipeline(ports).run(RunContext(request))
        finally:
            self.ports.services.memory.forget(run)
            if self.ports.purse is not None:
                self.ports.purse.limit_run(run, None)
            with anyio.CancelScope(shield=True):
                root.spent[run] = _tokens(fold(await self.ports.journal.load(run)))
                await self.ports.journal.close_run(run)
        return done.context.state, done.context.package

    def _package(self, state: RunState, run: RunId) -> Package | None:
        """Return the package of a run that had ended before this was noted, let out once more."""
        if state.started is None or state.plan is None or state.finished is None:
            return None
        if state.finished.status == "failed":
            return None
        reviews = [
            ReviewResult.model_validate(noted.body) for noted in state.notes if noted.topic == "review"
        ]
        goal, plan = Goal.model_validate(state.started.goal), Plan.model_validate(state.plan)
        package = build_package(plan, goal, state, reviews[-1] if reviews else None, {})
        self.ports.publish(package, self.ports.settings.output_dir / run)
        return package


def _left(root: _Root) -> list[Target]:
    """Return the targets of the wave in hand that wait for nobody."""
    return [target for target in root.waves.current() if target.name not in root.parked]


def _tokens(state: RunState) -> int:
    return sum(use.tokens for use in state.uses.values())


def _order_for(root: _Root, target: Target, tokens: int | None) -> Order:
    state = root.context.state
    assert state.started is not None
    base = root.context.goal or Goal.model_validate(state.started.goal)
    goal = goal_with_input(base, root.waves.text, TARGET, target.name)
    job = f"{base.job}: {target.name}"
    changes: dict[str, object] = {"job": job[:_LONGEST_JOB]}
    if tokens is not None and goal.limits.budget is not None:
        budget = goal.limits.budget.model_copy(update={"tokens": tokens})
        changes["limits"] = goal.limits.model_copy(update={"budget": budget})
    return Order(goal.model_copy(update=changes), noted_draft(state), Source(f"job {job}", ""))


def _status(waves: Waves) -> Literal["achieved", "not_achieved", "failed"]:
    if waves.completed == 0:
        return "failed"
    is_whole = all(end.status == "achieved" for end in waves.ends.values())
    return "achieved" if is_whole else "not_achieved"


def _told(fault: Exception) -> str:
    if isinstance(fault, DocumentError):
        return "; ".join(one.message for one in fault.faults)
    if isinstance(fault, PlanError):
        return "; ".join(one.message for one in fault.diagnostics if one.severity == "error")
    return str(fault)


def _nobody(event: Event) -> None:
    del event
