"""A job with several targets: a run for each of them, in waves."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

import anyio

from wavewright.config.errors import WavewrightError
from wavewright.engine.run.context import (
    Feedback,
    RunContext,
    RunRequest,
    TargetsContext,
    feedback_notes,
    goal_with_feedback,
)
from wavewright.engine.run.decisions.approvals import ANSWER, QUESTION, open_question
from wavewright.engine.run.endings import RunHalted, run_ended, run_stopped, run_waits
from wavewright.engine.run.package import run_folder
from wavewright.engine.run.permanent_errors import PERMANENT_ERRORS, permanent_error_text
from wavewright.engine.run.permits import permits_notes
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import PackageVerdict, Ports, ask_asker
from wavewright.engine.run.project.tools import signatures_to_check
from wavewright.engine.run.recording import draft_note, record, record_attempt
from wavewright.engine.run.target_root import (
    TargetRoot,
    found_targets,
    job_of_target,
    require_valid_expansion,
    tokens_used_by,
)
from wavewright.engine.run.target_waves import (
    TARGET_COMPLETED,
    TARGET_FAILED,
    TARGET_INTERRUPTED,
    TARGET_PACKAGE_JUDGED,
    TARGET_PACKAGE_SENT,
    TARGET_STARTED,
    TARGETS_WANTED,
    Target,
    TargetWaves,
    some_names,
    targets_json,
)
from wavewright.engine.run.task_groups import open_task_group
from wavewright.engine.run.version import __version__
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event, Noted, RunFinished, RunStarted
from wavewright.executor.store.errors import EventDamaged, EventUnwritable, JournalError
from wavewright.executor.store.journal import new_run_id
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.planning.records import UserQuestion
from wavewright.planner.types import Json, JsonObject, RunId
from wavewright.reviewer.package.builder import build_package, last_review
from wavewright.reviewer.records import Package


class TargetBudgetSpent(WavewrightError):
    """A target cannot begin because the others have used the job's budget."""


_TARGET_ERRORS = (TargetBudgetSpent, *PERMANENT_ERRORS)
"""Errors of one target whose message is enough for a user."""


RunJob: TypeAlias = Callable[[RunRequest, Ports], Awaitable[PipelineRun[RunContext]]]
"""Runs a job from a request to its end: the run of one target."""


async def run_targets(context: TargetsContext, ports: Ports, run_job: RunJob) -> RunHalted:
    """Run the job for each of its targets, wave by wave; a wave finds the targets of the next one.

    The root run journals how each target begins and ends; a failed target does not stop the others.
    Returned is the way out: a root run has no plan of its own.
    """
    targets = _TargetRuns(ports, run_job)
    attempt = ports.attempt
    root = TargetRoot(ports, await targets.open_root(context), context.waves)
    if root.has_budget:
        for run in root.waves.runs.values():
            root.tokens_used[run] = tokens_used_by(fold(await attempt.journal.load(run)))
    await targets.run_waves(root)
    context_after = root.context
    if attempt.cancellation.is_cancelled:
        return await run_stopped(attempt, context_after)
    pause = _pause_reason(root)
    if pause is not None:
        return await run_waits(attempt, context_after, pause)
    waves = root.waves
    if root.waiting_targets or waves.awaiting:
        # The rest of the wave has ended; the next wave waits for all of it.
        return await run_ended(attempt, context_after, "interrupted", _waiting_reason(root))
    return await run_ended(attempt, context_after, _overall_status(waves), waves.summary())


@dataclass(frozen=True, slots=True)
class _TargetRuns:
    """Runs the targets of a root run."""

    ports: Ports
    run_job: RunJob

    async def run_waves(self, root: TargetRoot) -> None:
        """Run targets until all have ended, an answer must be waited for, or the job is stopped."""
        while not self.ports.attempt.cancellation.is_cancelled:
            if not await self._choose_next(root):
                return
            wave = root.runnable_targets()
            if not wave or not await root.begin_cycle(wave[0]):
                return
            await self._run_wave(root, wave)
            await root.end_cycle(wave[0])

    async def _choose_next(self, root: TargetRoot) -> bool:
        """Ask a person which target is next where one has found several; return whether the job may
        continue.
        """
        while (fork := root.waves.fork()) is not None:
            about, options = fork
            if open_question(root.context.state) is None:
                question = f"{about} leads to {len(options)} others. Which of them is next?"
                await root.note(
                    QUESTION, {"target": about, "question": question, "options": [*options]}
                )
            asked = open_question(root.context.state)
            answer = None
            if self.ports.people.asker is not None and asked is not None:
                options = tuple(map(str, cast("list[Json]", asked.body["options"])))
                with self.ports.attempt.cancellation.scope():
                    answer = await ask_asker(
                        self.ports.people.asker,
                        UserQuestion(str(asked.body["question"]), options, asked_by="the job"),
                    )
            if answer is None or asked is None:
                return False
            await root.note(ANSWER, {**asked.body, "answer": answer})
        return True

    async def open_root(self, context: TargetsContext) -> RunContext:
        order, waves, now = context.new_job, context.waves, self.ports.attempt.clock()
        if order is None:
            body: JsonObject = {
                "step": len(waves.ends),
                "queue_size": len(waves.known()) - len(waves.ends),
            }
            return await record_attempt(self.ports.attempt, context, body)
        if order.draft is not None:
            require_valid_expansion(
                order, signatures_to_check(order.draft.plan, order.goal, self.ports.means.settings)
            )
        run = context.request.run or new_run_id(now.timestamp())
        if context.request.run is None:
            await self.ports.attempt.journal.open_run(run)
        started = RunStarted(
            run=run,
            at=now.timestamp(),
            job=context.goal.job,
            goal=context.goal.model_dump(mode="json", by_alias=True),
            now=(context.goal.as_of or now).timestamp(),
            versions={"wavewright": __version__, "python": platform.python_version()},
        )
        notes = () if order.draft is None else (draft_note(order.draft, now.timestamp()),)
        wanted: JsonObject = {"targets": waves.targets.model_dump(mode="json"), "text": order.text}
        # One append: a root run without this note would be resumed as a run without targets.
        permitted = permits_notes(context, now.timestamp())
        events = (started, *notes, *permitted, Noted(now.timestamp(), TARGETS_WANTED, wanted))
        return await record(self.ports.attempt, context, *events, run=run)

    async def _run_wave(self, root: TargetRoot, wave: list[Target]) -> None:
        slots = anyio.Semaphore(root.waves.targets.at_once)
        async with open_task_group() as group:
            for target in wave:
                await slots.acquire()
                if self.ports.attempt.cancellation.is_cancelled:
                    break
                group.start_soon(self._run_target, root, target, slots)

    async def _run_target(self, root: TargetRoot, target: Target, slots: anyio.Semaphore) -> None:
        try:
            run = root.waves.runs.get(target.name)
            if run is None:
                run = self._new_run(root)
                await root.note(
                    TARGET_STARTED, {"target": target.name, "wave": target.wave, "run": run}
                )
            try:
                await self._run_to_end(root, target, run)
            except (EventDamaged, EventUnwritable) as fault:
                # An error in the events of this run alone fails only its target.
                await root.note(TARGET_FAILED, {**_body(root, target), "reason": fault.message})
        finally:
            slots.release()

    def _new_run(self, root: TargetRoot) -> RunId:
        taken = {*root.waves.runs.values(), root.context.run}
        while (run := new_run_id(self.ports.attempt.now())) in taken:
            pass
        return run

    async def _run_to_end(self, root: TargetRoot, target: Target, run: RunId) -> None:
        """Run a target, or go on with its run, and journal what comes of it."""
        events = await self.ports.attempt.journal.load(run)
        state = fold(events)
        sent = root.waves.packages.get(target.name)
        # Targets whose package still waits for its verdict are not run.
        verdict = None if sent is None else root.verdict_on(target.name)
        if sent is not None and verdict is not None and not sent.is_judged:
            judged: JsonObject = {
                "iteration": sent.iteration,
                "accepted": verdict.accepted,
                "feedback": [*verdict.texts],
            }
            await root.note(TARGET_PACKAGE_JUDGED, {**_body(root, target), **judged})
        if verdict is not None and verdict.accepted and state.finished is not None:
            await self._complete(root, target, state, state.finished)
            return
        try:
            if _needs_run(state, events, verdict):
                state, package = await self._run_pipeline(root, target, run, verdict)
            else:
                package = self._package(state, run)
        except Exception as fault:  # noqa: BLE001 - an error of a target must not stop the others
            _raise_journal_error(fault)
            await self._note_failure(root, target, fault)
            return
        if not state.is_interrupted:
            await self._conclude(root, target, state, package)
        elif not self.ports.attempt.cancellation.is_cancelled:
            root.waiting_targets.add(target.name)

    async def _note_failure(self, root: TargetRoot, target: Target, fault: Exception) -> None:
        """Journal that a target has failed; a cancelled one may fail with any error, and is resumed
        with the job.
        """
        is_cancelled = self.ports.attempt.cancellation.is_cancelled
        is_cut_short = is_cancelled and not isinstance(fault, _TARGET_ERRORS)
        await root.note(
            TARGET_INTERRUPTED if is_cut_short else TARGET_FAILED,
            {**_body(root, target), "reason": _failure_reason(fault)},
        )

    async def _conclude(
        self, root: TargetRoot, target: Target, state: RunState, package: Package | None
    ) -> None:
        """Journal how a run that has ended leaves its target: failed, with a package that waits for
        its verdict, or completed.
        """
        body = _body(root, target)
        review = None if package is None else package.review
        if review is not None and review.invalid_because:
            found_targets, _ = self._found_targets(root, target, state)
            reason = "; ".join(review.invalid_because)
            await root.note(
                TARGET_FAILED, {**body, "reason": reason, "found": targets_json(found_targets)}
            )
        elif state.finished is None:
            await root.note(TARGET_FAILED, {**body, "reason": "it has no end"})
        elif package is None:
            await root.note(TARGET_FAILED, {**body, "reason": state.finished.reason})
        elif root.max_packages > 0:
            sent = root.waves.packages.get(target.name)
            iteration = 1 if sent is None else sent.iteration + 1
            await root.note(TARGET_PACKAGE_SENT, {**body, "iteration": iteration})
        else:
            await self._complete(root, target, state, state.finished)

    async def _complete(
        self, root: TargetRoot, target: Target, state: RunState, finished: RunFinished
    ) -> None:
        found_targets, reason = self._found_targets(root, target, state)
        await root.note(
            TARGET_COMPLETED,
            {
                **_body(root, target),
                "reason": reason,
                "status": finished.status,
                "found": targets_json(found_targets),
            },
        )

    def _found_targets(
        self, root: TargetRoot, target: Target, state: RunState
    ) -> tuple[list[Target], str]:
        """Return the targets that the run of a target has found for the next wave, and a remark on
        them.
        """
        if target.wave >= root.waves.targets.depth:
            return [], ""
        return found_targets(root.waves.targets.expand, state, self.ports.means.settings)

    async def _run_pipeline(
        self, root: TargetRoot, target: Target, run: RunId, verdict: PackageVerdict | None
    ) -> tuple[RunState, Package | None]:
        before = root.tokens_used.pop(run, 0)
        tokens = root.token_share
        if tokens is not None and tokens <= before:
            root.tokens_used[run] = before
            raise TargetBudgetSpent("the tokens of the job are spent")
        order = job_of_target(root, target, tokens)
        root.tokens_used[run] = before if tokens is None else tokens
        asked = root.context.request
        feedback: Feedback | None = None
        if verdict is not None:
            feedback = Feedback(
                verdict.package, verdict.iteration, verdict.texts, root.max_packages
            )
        request = RunRequest(
            resolved_job=order,
            run=run,
            schedule=asked.schedule,
            concurrency=asked.concurrency,
            as_of=asked.as_of,
            output_dir=asked.output_dir,
            feedback=feedback,
            permits=root.context.permits,
        )
        people = self.ports.people
        if self.ports.targets.people_for_run is not None:
            approver, asker = self.ports.targets.people_for_run(run)
            people = replace(people, approver=approver, asker=asker)
        try:
            # Observers of the root run receive events of targets, not those within their runs.
            with self.ports.targets.observe(target.name) as on_event:
                ports = replace(
                    self.ports,
                    attempt=replace(self.ports.attempt, on_event=on_event),
                    people=people,
                    on_phase=on_event,
                    # A request to cancel is made for the root run, which stops its targets.
                    find_cancel_request=None,
                )
                done = await self.run_job(request, ports)
        finally:
            if self.ports.means.services.budget_store is not None:
                self.ports.means.services.budget_store.limit_run(run, None)
            with anyio.CancelScope(shield=True):
                try:
                    root.tokens_used[run] = tokens_used_by(
                        fold(await self.ports.attempt.journal.load(run))
                    )
                finally:
                    # Closed also if it cannot be read: otherwise it could not be opened again.
                    await self.ports.attempt.journal.close_run(run)
        return done.context.state, done.context.package

    def _package(self, state: RunState, run: RunId) -> Package | None:
        """Return the package of a run that had ended before this was journaled, and publish it
        again.
        """
        if state.started is None or state.plan is None or state.finished is None:
            return None
        if state.finished.status == "failed":
            return None
        goal = goal_with_feedback(Goal.model_validate(state.started.goal), state)
        plan = Plan.model_validate(state.plan)
        package = build_package(plan, goal, state, last_review(state), {})
        folder = run_folder(self.ports.means.settings.output_dir, run)
        self.ports.publish(package, folder)
        return package


def _body(root: TargetRoot, target: Target) -> JsonObject:
    """Return what each note on a target holds that has a run."""
    return {"target": target.name, "wave": target.wave, "run": root.waves.runs[target.name]}


def _needs_run(state: RunState, events: Sequence[Event], verdict: PackageVerdict | None) -> bool:
    """Whether a target's run has not ended, or its package was rejected since."""
    if state.finished is None or state.is_interrupted:
        return True
    if verdict is None or state.finished.status == "failed":
        return False
    after_end = itertools.takewhile(
        lambda event: not isinstance(event, RunFinished), reversed(events)
    )
    taken = feedback_notes(state)
    # Feedback taken after the end was interrupted before it was applied.
    is_done = bool(taken) and taken[-1].body.get("iteration") == verdict.iteration
    return not is_done or taken[-1] in after_end


def _raise_journal_error(fault: Exception) -> None:
    """Raise an error of the journal that is the fault or one of its group: it is not the target's."""
    if isinstance(fault, JournalError):
        raise fault
    if isinstance(fault, ExceptionGroup):
        for inner in cast("ExceptionGroup[Exception]", fault).exceptions:
            _raise_journal_error(inner)


def _failure_reason(fault: Exception) -> str:
    return (
        permanent_error_text(fault)
        if isinstance(fault, _TARGET_ERRORS)
        else f"{type(fault).__name__}: {fault}"
    )


def _pause_reason(root: TargetRoot) -> str | None:
    """Return why a job does not continue now although no target waits for an answer."""
    if (asked := open_question(root.context.state)) is not None:
        return f"a person must choose: {asked.body['question']}"
    cycles = root.ports.targets.cycles
    if cycles is not None and cycles.resumes_at is not None and root.waves.current():
        return "the next cycle starts after a pause"
    return None


def _waiting_reason(root: TargetRoot) -> str:
    reasons = [
        f"{what} for {some_names(names)}"
        for what, names in (
            ("a person must answer", sorted(root.waiting_targets)),
            ("a verdict must come", root.waves.awaiting),
        )
        if names
    ]
    return "; ".join(reasons)


def _overall_status(waves: TargetWaves) -> Literal["achieved", "not_achieved", "failed"]:
    if waves.completed == 0:
        return "failed"
    is_whole = all(end.status == "achieved" for end in waves.ends.values())
    return "achieved" if is_whole else "not_achieved"
