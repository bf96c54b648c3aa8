"""A job with several targets: a run for each, in waves."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import anyio

from wavewright.engine.context import Ports, RunContext, RunRequest
from wavewright.engine.feedback import Feedback, Verdict, goal_after, noted_feedback
from wavewright.engine.lasting_faults import LASTING_FAULTS, told
from wavewright.engine.model_phases import only_failure
from wavewright.engine.pipeline import Pipeline, StepResult, halt
from wavewright.engine.recording import STOPPED, draft_note, end_interrupted, note_resumed, record
from wavewright.engine.target_expansion import found_targets, refuse_unsound
from wavewright.engine.target_root import TargetRoot, order_for, tokens_of
from wavewright.engine.target_waves import (
    COMPLETED,
    FAILED,
    INTERRUPTED,
    JUDGED,
    SENT,
    STARTED,
    WANTED,
    Target,
    Waves,
    as_json,
    some,
    waves_of,
)
from wavewright.engine.toolbox import signatures_to_check
from wavewright.engine.version import __version__
from wavewright.executor.events import Event, Noted, RunFinished, RunStarted
from wavewright.executor.journal_errors import EventDamaged, EventUnwritable, JournalError
from wavewright.executor.journal_runs import new_run_id
from wavewright.executor.state import RunState, fold
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.types import JsonObject, RunId
from wavewright.reviewer.packaging import build_package
from wavewright.reviewer.records import Package, ReviewResult


class BudgetSpent(Exception):
    """A target that cannot be begun, because the others have used what the job may spend."""


_FORESEEN = (BudgetSpent, *LASTING_FAULTS)
"""Faults of one target that say themselves what is wrong."""


def has_targets(context: RunContext) -> bool:
    """Whether the job has several targets, each a run of its own."""
    return context.order is not None or waves_of(context.state) is not None


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
        root = TargetRoot.of(self.ports, context)
        for run in root.waves.runs.values() if root.has_budget else ():
            root.spent[run] = tokens_of(fold(await self.ports.journal.load(run)))
        while (wave := root.left()) and not self.ports.stopper.is_stopped:
            await self._run_wave(root, wave)
        context = root.context
        if self.ports.stopper.is_stopped:
            return halt(await end_interrupted(self.ports, context, STOPPED), "interrupted")
        if root.parked or root.waves.awaiting:
            # The rest of the wave is done by now; the next one waits for all of it.
            reason = _waits_for(root)
            ended = RunFinished(self.ports.clock().timestamp(), "interrupted", reason)
            return halt(await record(self.ports, context, ended), reason)
        waves = root.waves
        ended = RunFinished(self.ports.clock().timestamp(), _status(waves), waves.summary())
        return halt(await record(self.ports, context, ended), waves.summary())

    async def _open(self, context: RunContext) -> RunContext:
        if context.state.started is not None:
            return await note_resumed(self.ports, context)
        order, now = context.order, self.ports.clock()
        assert order is not None
        assert order.targets is not None
        assert context.goal is not None
        if order.draft is not None:
            refuse_unsound(order, signatures_to_check(order.draft.plan, order.goal, self.ports.settings))
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

    async def _run_wave(self, root: TargetRoot, wave: list[Target]) -> None:
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

    async def _run_target(self, root: TargetRoot, target: Target, slots: anyio.Semaphore) -> None:
        try:
            run = root.waves.runs.get(target.name)
            if run is None:
                run = self._new_run(root)
                await root.note(STARTED, {"target": target.name, "wave": target.wave, "run": run})
            try:
                await self._bring_to_its_end(root, target, run)
            except (EventDamaged, EventUnwritable) as fault:
                # What is wrong with the journal of this run alone is a fault of its target's.
                body: JsonObject = {"target": target.name, "wave": target.wave, "run": run}
                await root.note(FAILED, {**body, "reason": fault.message})
        finally:
            slots.release()

    def _new_run(self, root: TargetRoot) -> RunId:
        taken = {*root.waves.runs.values(), root.context.run}
        while (run := new_run_id(self.ports.clock().timestamp())) in taken:
            pass
        return run

    async def _bring_to_its_end(self, root: TargetRoot, target: Target, run: RunId) -> None:
        body: JsonObject = {"target": target.name, "wave": target.wave, "run": run}
        events = await self.ports.journal.load(run)
        state = fold(events)
        sent = root.waves.packages.get(target.name)
        verdict: Verdict | None = None
        if sent is not None:
            verdict = root.verdict_on(target.name)
            assert verdict is not None, "a target without one is left alone"
            if not sent.is_judged:
                judged: JsonObject = {"iteration": sent.iteration, "accepted": verdict.accepted}
                await root.note(JUDGED, {**body, **judged})
            if verdict.accepted:
                await self._complete(root, target, state)
                return
        try:
            if _is_to_run(state, events, verdict):
                state, package = await self._run_one(root, target, run, verdict)
                if state.is_interrupted:
                    if not self.ports.stopper.is_stopped:
                        root.parked.add(target.name)
                    return
            else:
                package = self._package(state, run)
        except Exception as fault:  # noqa: BLE001 - the edge of a target: its fault is its own
            _raise_of_journal(fault)
            # A stop may break off what it cuts short in any way; the target goes on when the job does.
            is_cut_short = self.ports.stopper.is_stopped and not isinstance(fault, _FORESEEN)
            await root.note(INTERRUPTED if is_cut_short else FAILED, {**body, "reason": _reason(fault)})
            return
        if package is not None and (faults := _invalid_because(package)):
            found = self._found(root, target, state)[0]
            await root.note(FAILED, {**body, "reason": "; ".join(faults), "found": as_json(found)})
        elif package is None:
            reason = state.finished.reason if state.finished is not None else "it has no end"
            await root.note(FAILED, {**body, "reason": reason})
        elif root.most_packages > 0:
            await root.note(SENT, {**body, "iteration": 1 if sent is None else sent.iteration + 1})
        else:
            await self._complete(root, target, state)

    async def _complete(self, root: TargetRoot, target: Target, state: RunState) -> None:
        assert state.finished is not None
        found, said = self._found(root, target, state)
        run = root.waves.runs[target.name]
        body: JsonObject = {"target": target.name, "wave": target.wave, "run": run, "reason": said}
        await root.note(COMPLETED, {**body, "status": state.finished.status, "found": as_json(found)})

    def _found(self, root: TargetRoot, target: Target, state: RunState) -> tuple[list[Target], str]:
        """Return what the run of a target has found for the next wave, and what is to be said of it."""
        if target.wave >= root.waves.wanted.depth:
            return [], ""
        return found_targets(root.waves.wanted.expand, state)

    async def _run_one(
        self, root: TargetRoot, target: Target, run: RunId, verdict: Verdict | None
    ) -> tuple[RunState, Package | None]:
        before = root.spent.pop(run, 0)
        tokens = root.tokens
        if tokens is not None and tokens <= before:
            root.spent[run] = before
            raise BudgetSpent("the tokens of the job are spent")
        order = order_for(root, target, tokens)
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
            feedback=None if verdict is None else _feedback(verdict, root.most_packages),
        )
        ports = self.ports
        if self.ports.people_of is not None:
            approver, asker = self.ports.people_of(run)
            ports = replace(ports, approver=approver, asker=asker)
        try:
            # Who watches the root is told of targets, not of what goes on within them.
            with self.ports.watch_target(target.name) as on_event:
                ports = replace(ports, on_event=on_event)
                done = await self.pipeline(ports).run(RunContext(request))
        finally:
            self.ports.services.memory.forget(run)
            if self.ports.purse is not None:
                self.ports.purse.limit_run(run, None)
            with anyio.CancelScope(shield=True):
                try:
                    root.spent[run] = tokens_of(fold(await self.ports.journal.load(run)))
                finally:
                    # Where it cannot be read it is given up all the same: nobody could open it again.
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
        goal = goal_after(Goal.model_validate(state.started.goal), state)
        plan = Plan.model_validate(state.plan)
        package = build_package(plan, goal, state, reviews[-1] if reviews else None, {})
        self.ports.publish(package, self.ports.settings.output_dir / run)
        return package


def _invalid_because(package: Package) -> tuple[str, ...]:
    """Return why a package holds no valid result, and must not go out as if it did."""
    return () if package.review is None else package.review.invalid_because


def _is_to_run(state: RunState, events: Sequence[Event], verdict: Verdict | None) -> bool:
    """Whether a target's run has something to do: it has not ended, or its package was rejected since."""
    if state.finished is None or state.is_interrupted:
        return True
    if verdict is None or state.finished.status == "failed":
        return False
    after_end = itertools.takewhile(lambda event: not isinstance(event, RunFinished), reversed(events))
    taken = noted_feedback(state)
    # One that was taken after the end was cut off before anything was done with it.
    is_done = bool(taken) and taken[-1].body.get("iteration") == verdict.iteration
    return not is_done or taken[-1] in after_end


def _raise_of_journal(fault: Exception) -> None:
    """Raise what is wrong with the journal, where that is among what has happened: it is no fault of a target's."""
    if isinstance(fault, JournalError):
        raise fault
    if isinstance(fault, ExceptionGroup):
        for one in cast("ExceptionGroup[Exception]", fault).exceptions:
            _raise_of_journal(one)


def _reason(fault: Exception) -> str:
    return told(fault) if isinstance(fault, _FORESEEN) else f"{type(fault).__name__}: {fault}"


def _feedback(verdict: Verdict, most: int) -> Feedback:
    return Feedback(verdict.package, verdict.iteration, verdict.texts, most)


def _waits_for(root: TargetRoot) -> str:
    reasons = [
        f"{what} for {some(names)}"
        for what, names in (
            ("a person must answer", sorted(root.parked)),
            ("a verdict must come", root.waves.awaiting),
        )
        if names
    ]
    return "; ".join(reasons)


def _status(waves: Waves) -> Literal["achieved", "not_achieved", "failed"]:
    if waves.completed == 0:
        return "failed"
    is_whole = all(end.status == "achieved" for end in waves.ends.values())
    return "achieved" if is_whole else "not_achieved"
