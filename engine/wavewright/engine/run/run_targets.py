"""A job with several targets: a run for each of them, in waves."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

import anyio

from wavewright.config import WavewrightError
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
from wavewright.engine.run.found_targets import (
    found_targets,
    job_of_target,
    require_valid_expansion,
)
from wavewright.engine.run.package import run_folder
from wavewright.engine.run.permanent_errors import PERMANENT_ERRORS, permanent_error_text
from wavewright.engine.run.permits import permits_notes
from wavewright.engine.run.pipeline.phase import PhaseEvent, PipelineRun
from wavewright.engine.run.ports import Attempt, PackageVerdict, Ports, ask_asker
from wavewright.engine.run.project.tools import signatures_to_check
from wavewright.engine.run.recording import draft_note, record, record_attempt
from wavewright.engine.run.target_waves import (
    CYCLE_ENDED,
    CYCLE_STARTED,
    TARGET_COMPLETED,
    TARGET_FAILED,
    TARGET_INTERRUPTED,
    TARGET_PACKAGE_JUDGED,
    TARGET_PACKAGE_SENT,
    TARGET_STARTED,
    TARGETS_WANTED,
    Target,
    TargetCycle,
    TargetWaves,
    some_names,
    targets_json,
    waves_after,
)
from wavewright.engine.run.task_groups import open_task_group
from wavewright.engine.run.version import __version__
from wavewright.executor import (
    Event,
    JournalError,
    Noted,
    RunFinished,
    RunStarted,
    RunState,
    fold,
    new_run_id,
)
from wavewright.executor.store.errors import EventDamaged, EventUnwritable
from wavewright.planner import JsonObject, Plan, RunId, UserQuestion, as_list
from wavewright.reviewer import Package, build_package
from wavewright.reviewer.package.builder import last_review


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
    root = _RootRun(ports, run_job, await _open_root(context, ports), context.waves)
    if root.has_budget:
        for run in root.waves.runs.values():
            root.tokens_used[run] = await root.tokens_of(run)
    await root.run_waves()
    return await root.way_out()


async def _open_root(context: TargetsContext, ports: Ports) -> RunContext:
    """Journal that the root run begins, or goes on."""
    attempt, settings = ports.attempt, ports.means.settings
    order, waves, now = context.new_job, context.waves, attempt.clock()
    if order is None:
        body: JsonObject = {
            "step": len(waves.ends),
            "queue_size": len(waves.known()) - len(waves.ends),
        }
        return await record_attempt(attempt, context, body)
    if order.draft is not None:
        require_valid_expansion(order, signatures_to_check(order.draft.plan, order.goal, settings))
    run = context.request.run or new_run_id(now.timestamp())
    if context.request.run is None:
        await attempt.journal.open_run(run)
    started = RunStarted(
        run=run,
        at=now.timestamp(),
        job=context.goal.job,
        goal=context.goal.model_dump(mode="json", by_alias=True),
        now=(context.goal.as_of or now).timestamp(),
        versions={"wavewright": __version__, "python": platform.python_version()},
    )
    notes = () if order.draft is None else (draft_note(order.draft, now.timestamp()),)
    noted: JsonObject = {"targets": waves.targets.model_dump(mode="json"), "text": waves.text}
    # One append: a root run without this note would be resumed as a run without targets.
    permitted = permits_notes(context, now.timestamp())
    events = (started, *notes, *permitted, Noted(now.timestamp(), TARGETS_WANTED, noted))
    return await record(attempt, context, *events, run=run)


@dataclass(slots=True)
class _RootRun:
    """The root run while its targets run: its context after each note."""

    ports: Ports
    run_job: RunJob
    context: RunContext
    waves: TargetWaves
    """How far it is."""
    waiting_targets: set[str] = field(default_factory=set[str])
    """Targets that wait for a person."""
    tokens_used: dict[RunId, int] = field(default_factory=dict[RunId, int])
    """Tokens of models, by the run of a target: what it has used, or may use as long as it runs."""

    @property
    def attempt(self) -> Attempt:
        """The attempt at the root run, which those at the runs of its targets are parts of."""
        return self.ports.attempt

    async def tokens_of(self, run: RunId) -> int:
        """Return the tokens that the models of a target's run have used."""
        uses = fold(await self.attempt.journal.load(run)).uses
        return sum(use.tokens for use in uses.values())

    async def run_waves(self) -> None:
        """Run targets until all have ended, an answer must be waited for, or the job is stopped."""
        while not self.attempt.cancellation.is_cancelled:
            if not await self._choose_next():
                return
            wave = self.runnable_targets()
            if not wave or not await self.begin_cycle(wave[0]):
                return
            await self._run_wave(wave)
            await self.end_cycle(wave[0])

    async def way_out(self) -> RunHalted:
        """Journal how the root run ends, or what it waits for."""
        waves = self.waves
        if self.attempt.cancellation.is_cancelled:
            return await run_stopped(self.attempt, self.context)
        pause = self._pause_reason()
        if pause is not None:
            return await run_waits(self.attempt, self.context, pause)
        if self.waiting_targets or waves.awaiting:
            # The rest of the wave has ended; the next wave waits for all of it.
            reason = self._waiting_reason()
            return await run_ended(self.attempt, self.context, "interrupted", reason)
        return await run_ended(self.attempt, self.context, _overall_status(waves), waves.summary())

    def _pause_reason(self) -> str | None:
        """Return why a job does not continue now although no target waits for an answer."""
        if (question := open_question(self.context.state)) is not None:
            return f"a person must choose: {question.body['question']}"
        cycles = self.ports.targets.cycles
        if cycles is not None and cycles.resumes_at is not None and self.waves.current():
            return "the next cycle starts after a pause"
        return None

    def _waiting_reason(self) -> str:
        reasons = list[str]()
        if self.waiting_targets:
            names = some_names(sorted(self.waiting_targets))
            reasons.append(f"a person must answer for {names}")
        if self.waves.awaiting:
            reasons.append(f"a verdict must come for {some_names(self.waves.awaiting)}")
        return "; ".join(reasons)

    async def _choose_next(self) -> bool:
        """Ask a person which target is next where one has found several; return whether the job may
        continue.
        """
        while (fork := self.waves.fork()) is not None:
            question = open_question(self.context.state)
            if question is None:
                about, options = fork
                text = f"{about} leads to {len(options)} others. Which of them is next?"
                body: JsonObject = {"target": about, "question": text, "options": [*options]}
                question = await self.note(QUESTION, body)
            answer: str | None = None
            with self.attempt.cancellation.scope():
                answer = await ask_asker(self.ports.people.asker, _question_of(question))
            if answer is None:
                return False
            await self.note(ANSWER, {**question.body, "answer": answer})
        return True

    async def _run_wave(self, wave: list[Target]) -> None:
        slots = anyio.Semaphore(self.waves.targets.at_once)
        async with open_task_group() as group:
            for target in wave:
                await slots.acquire()
                if self.attempt.cancellation.is_cancelled:
                    break
                group.start_soon(self._run_target, target, slots)

    async def _run_target(self, target: Target, slots: anyio.Semaphore) -> None:
        try:
            run = self.waves.runs.get(target.name)
            if run is None:
                run = self._new_run()
                await self.note(
                    TARGET_STARTED, {"target": target.name, "wave": target.wave, "run": run}
                )
            try:
                await self._run_to_end(target, run)
            except (EventDamaged, EventUnwritable) as fault:
                # An error in the events of this run alone fails only its target.
                await self.note(TARGET_FAILED, {**self._body(target), "reason": fault.message})
        finally:
            slots.release()

    def _new_run(self) -> RunId:
        taken = {*self.waves.runs.values(), self.context.run}
        while (run := new_run_id(self.attempt.now())) in taken:
            pass
        return run

    async def _run_to_end(self, target: Target, run: RunId) -> None:
        """Run a target, or go on with its run, and journal what comes of it."""
        events = await self.attempt.journal.load(run)
        state = fold(events)
        sent = self.waves.packages.get(target.name)
        # Targets whose package still waits for its verdict are not run.
        verdict = None if sent is None else self.verdict_on(target.name)
        if sent is not None and verdict is not None and not sent.is_judged:
            judged: JsonObject = {
                "iteration": sent.iteration,
                "accepted": verdict.accepted,
                "feedback": [*verdict.texts],
            }
            await self.note(TARGET_PACKAGE_JUDGED, {**self._body(target), **judged})
        if verdict is not None and verdict.accepted and state.finished is not None:
            await self._complete(target, state, state.finished)
            return
        try:
            if _needs_run(state, events, verdict):
                state, package = await self._run_pipeline(target, run, verdict)
            else:
                package = self._package(state, run)
        except Exception as fault:  # noqa: BLE001 - an error of a target must not stop the others
            _raise_journal_error(fault)
            await self._note_failure(target, fault)
            return
        if not state.is_interrupted:
            await self._conclude(target, state, package)
        elif not self.attempt.cancellation.is_cancelled:
            self.waiting_targets.add(target.name)

    async def _note_failure(self, target: Target, fault: Exception) -> None:
        """Journal that a target has failed; a cancelled one may fail with any error, and is resumed
        with the job.
        """
        topic = TARGET_FAILED
        if self.attempt.cancellation.is_cancelled and not isinstance(fault, _TARGET_ERRORS):
            topic = TARGET_INTERRUPTED
        await self.note(topic, {**self._body(target), "reason": _failure_reason(fault)})

    async def _conclude(self, target: Target, state: RunState, package: Package | None) -> None:
        """Journal how a run that has ended leaves its target: failed, with a package that waits for
        its verdict, or completed.
        """
        body = self._body(target)
        review = None if package is None else package.review
        if review is not None and review.invalid_because:
            targets, _ = self._found_targets(target, state)
            reason = "; ".join(review.invalid_because)
            await self.note(
                TARGET_FAILED, {**body, "reason": reason, "found": targets_json(targets)}
            )
        elif state.finished is None:
            await self.note(TARGET_FAILED, {**body, "reason": "it has no end"})
        elif package is None:
            await self.note(TARGET_FAILED, {**body, "reason": state.finished.reason})
        elif self.max_packages > 0:
            sent = self.waves.packages.get(target.name)
            iteration = 1 if sent is None else sent.iteration + 1
            await self.note(TARGET_PACKAGE_SENT, {**body, "iteration": iteration})
        else:
            await self._complete(target, state, state.finished)

    async def _complete(self, target: Target, state: RunState, finished: RunFinished) -> None:
        targets, reason = self._found_targets(target, state)
        await self.note(
            TARGET_COMPLETED,
            {
                **self._body(target),
                "reason": reason,
                "status": finished.status,
                "found": targets_json(targets),
            },
        )

    def _found_targets(self, target: Target, state: RunState) -> tuple[list[Target], str]:
        """Return the targets that the run of a target has found for the next wave, and a remark on
        them.
        """
        if target.wave >= self.waves.targets.depth:
            return [], ""
        return found_targets(self.waves.targets.expand, state, self.ports.means.settings)

    async def _run_pipeline(
        self, target: Target, run: RunId, verdict: PackageVerdict | None
    ) -> tuple[RunState, Package | None]:
        before = self.tokens_used.pop(run, 0)
        tokens = self.token_share
        if tokens is not None and tokens <= before:
            self.tokens_used[run] = before
            raise TargetBudgetSpent("the tokens of the job are spent")
        self.tokens_used[run] = before if tokens is None else tokens
        root = self.context.request
        request = RunRequest(
            resolved_job=job_of_target(self.context, self.waves, target, tokens),
            run=run,
            schedule=root.schedule,
            concurrency=root.concurrency,
            as_of=root.as_of,
            output_dir=root.output_dir,
            feedback=self._feedback(verdict),
            permits=self.context.permits,
        )
        try:
            # Observers of the root run receive events of targets, not those within their runs.
            with self.ports.targets.observe(target.name) as on_event:
                done = await self.run_job(request, self._ports_of_target(run, on_event))
        finally:
            if self.ports.means.services.budget_store is not None:
                self.ports.means.services.budget_store.limit_run(run, None)
            with anyio.CancelScope(shield=True):
                try:
                    self.tokens_used[run] = await self.tokens_of(run)
                finally:
                    # Closed also if it cannot be read: otherwise it could not be opened again.
                    await self.attempt.journal.close_run(run)
        return done.context.state, done.context.package

    def _feedback(self, verdict: PackageVerdict | None) -> Feedback | None:
        if verdict is None:
            return None
        return Feedback(verdict.package, verdict.iteration, verdict.texts, self.max_packages)

    def _ports_of_target(self, run: RunId, on_event: Callable[[Event | PhaseEvent], None]) -> Ports:
        """Return the ports of the root run for the run of a target, with people of its own."""
        people = self.ports.people
        if self.ports.targets.people_for_run is not None:
            approver, asker = self.ports.targets.people_for_run(run)
            people = replace(people, approver=approver, asker=asker)
        return replace(
            self.ports,
            attempt=replace(self.attempt, on_event=on_event),
            people=people,
            on_phase=on_event,
            # A request to cancel is made for the root run, which stops its targets.
            find_cancel_request=None,
        )

    def _package(self, state: RunState, run: RunId) -> Package | None:
        """Return the package of a run that had ended before this was journaled, and publish it
        again.
        """
        if state.started is None or state.plan is None or state.finished is None:
            return None
        if state.finished.status == "failed":
            return None
        goal = goal_with_feedback(state)
        plan = Plan.model_validate(state.plan)
        package = build_package(plan, goal, state, last_review(state), {})
        folder = run_folder(self.ports.means.settings.output_dir, run)
        self.ports.publish(package, folder)
        return package

    def _body(self, target: Target) -> JsonObject:
        """Return what each note on a target holds that has a run."""
        return {"target": target.name, "wave": target.wave, "run": self.waves.runs[target.name]}

    @property
    def has_budget(self) -> bool:
        """Whether the tokens of the job are bounded."""
        budget = self.context.goal.limits.budget
        return budget is not None and budget.tokens is not None

    @property
    def token_share(self) -> int | None:
        """Tokens that one more target may use: its share of what the others have left; none where
        nothing bounds it.
        """
        budget = self.context.goal.limits.budget
        if budget is None or budget.tokens is None:
            return None
        left = budget.tokens - sum(self.tokens_used.values())
        # Targets that run at once share what is left; those of later waves get what these leave.
        waiting = 0
        for target in self.waves.current():
            if self.waves.runs.get(target.name) not in self.tokens_used:
                waiting += 1
        sharing = min(self.waves.targets.at_once, waiting)
        return left // max(1, sharing)

    @property
    def max_packages(self) -> int:
        """Packages of one target that are validated."""
        validation = self.ports.targets.validation
        if validation is None:
            return 0
        iterations = self.context.goal.limits.iterations
        return validation.max_packages if iterations is None else iterations

    def verdict_on(self, target: str) -> PackageVerdict | None:
        """Return the verdict on the package that a target has sent last; accepted where it is
        validated no more.
        """
        sent = self.waves.packages[target]
        if self.ports.targets.validation is None or self.max_packages == 0:
            return PackageVerdict(accepted=True, package="", iteration=sent.iteration)
        return self.ports.targets.validation.verdict_on(target, sent.iteration)

    def runnable_targets(self) -> list[Target]:
        """Return the targets of the current wave that wait for no verdict; at most one where each
        follows the other.
        """
        current = self.waves.current()
        if self.waves.targets.forks == "ask" or self.ports.targets.cycles is not None:
            current = current[:1]
        return [target for target in current if not self._waits(target.name)]

    def _waits(self, target: str) -> bool:
        sent = self.waves.packages.get(target)
        awaits = sent is not None and not sent.is_judged and self.verdict_on(target) is None
        return awaits or target in self.waiting_targets

    async def begin_cycle(self, target: Target) -> bool:
        """Begin a cycle of a standing job, or continue the current one; return whether its time has
        come.
        """
        cycles = self.ports.targets.cycles
        if cycles is None:
            return True
        last = self.waves.cycle
        pause = None if last is None else last.resumes_at
        if pause is not None and cycles.is_paused_until(pause):
            return False
        run = self.waves.runs.get(target.name)
        used = 0 if run is None else await self.tokens_of(run)
        if last is None or pause is not None or last.target != target.name:
            await self.note(CYCLE_STARTED, {"target": target.name, "used": used})
            last = TargetCycle(target.name, used)
        cycles.begin(used - last.used)
        return True

    async def end_cycle(self, target: Target) -> None:
        """End the cycle of a standing job where its target has ended or its budget is spent."""
        cycles = self.ports.targets.cycles
        if cycles is not None and (cycles.is_spent or target.name in self.waves.ends):
            await self.note(CYCLE_ENDED, {"target": target.name, "resumes_at": cycles.end()})

    async def note(self, topic: str, body: JsonObject) -> Noted:
        """Journal one step of it, and return its note."""
        noted = Noted(self.attempt.now(), topic, body)
        await self.attempt.journal.append(self.context.run, [noted])
        self.attempt.on_event(noted)
        # Others may have noted something since this began to be written: it is added to what there
        # is now.
        self.context = replace(self.context, state=fold([noted], self.context.state))
        self.waves = waves_after(self.waves, noted)
        return noted


def _question_of(asked: Noted) -> UserQuestion:
    options = tuple(map(str, as_list(asked.body["options"])))
    return UserQuestion(str(asked.body["question"]), options, asked_by="the job")


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
    if isinstance(fault, _TARGET_ERRORS):
        return permanent_error_text(fault)
    return f"{type(fault).__name__}: {fault}"


def _overall_status(waves: TargetWaves) -> Literal["achieved", "not_achieved", "failed"]:
    if waves.completed == 0:
        return "failed"
    # One target of which nothing came leaves the job's goal open, however many others succeeded.
    is_whole = all(end.status == "achieved" for end in waves.ends.values())
    return "achieved" if is_whole else "not_achieved"
