"""Decides what becomes of a call, from ready to ended.

A call is not made where it ended in an earlier part of the run, where the output of an equal call
of a reading tool can be reused, or where it is a write that may have taken effect already. The
scheduler's workers attempt the others. Each operation returns a `CallOutcome` for the scheduler to
apply.
"""

from __future__ import annotations

from dataclasses import replace

from wavewright.executor.events.json_values import is_empty
from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import (
    ItemFinished,
    StepError,
    StepFinished,
    StepStarted,
    StepStatus,
)
from wavewright.executor.run.failures import (
    REFUSED,
    UNCLEAR,
    WITHHELD,
    AttemptFailure,
    may_retry,
    seconds_before_retry,
)
from wavewright.executor.run.ports import Clock, PersonReply, ReadyCalls
from wavewright.executor.run.program import CompiledStep
from wavewright.executor.run.recording import WHOLE_OUTPUT, EventRecorder, WithheldCheck
from wavewright.executor.run.reuse import FinishedCall, ReuseIndex, ReuseSource, recorded_ending
from wavewright.executor.run.scheduled_calls import (
    CallOutcome,
    FanOut,
    ItemStatus,
    PendingGates,
    PendingQuestion,
    ScheduledCall,
    finished_item,
    is_still_valid,
    item_call,
)
from wavewright.executor.run.step_runner import (
    SkippedStep,
    StepRunner,
    checked_output,
    fan_out_items,
    fan_out_key,
    fan_out_result,
)
from wavewright.executor.store.journal import Journal
from wavewright.planner.types import Json, StepId, StepKey


class CallExecutor:
    """Decides what becomes of the calls of one execution."""

    def __init__(
        self,
        runner: StepRunner,
        recorder: EventRecorder,
        journal: Journal | None,
        *,
        is_withheld: WithheldCheck,
        prior: RunState,
        retry_failed: bool,
        announces: bool,
        donor: ReuseSource | None,
        clock: Clock,
    ) -> None:
        self._runner = runner
        self._recorder = recorder
        self._journal = journal
        self._is_withheld = is_withheld
        self._prior = prior
        self._retry_failed = retry_failed
        self._announces = announces
        self._reuse_source = donor
        self._clock = clock
        self._reuse = ReuseIndex(prior)
        self._outcome = CallOutcome()
        """Of the current operation, which returns it before any other begins."""

    async def prepare(self, call: ScheduledCall) -> CompiledStep | CallOutcome:
        """Return the compiled step where the call must be attempted, else its outcome without an
        attempt.
        """
        compiled = call.compiled or self._begin(call)
        if compiled is None or not (call.is_prepared or await self._prepare(call, compiled)):
            return self._take_outcome()
        await self._recorder.check_lease()
        call.attempt += 1
        return compiled

    def conclude(
        self, call: ScheduledCall, compiled: CompiledStep, output: Json | AttemptFailure
    ) -> CallOutcome:
        """Return the outcome of an attempt: the call's ending, or when to attempt it again."""
        if not isinstance(output, AttemptFailure):
            ending = self._finish_call(call, "empty" if is_empty(output) else "ok", output)
            if compiled.tool.only_reads and call.key is not None:
                self._serve_followers(call.key, ending)
        elif may_retry(output, compiled.retry, call.attempt):
            jitter = self._clock.jitter(compiled.retry.wait_jitter)
            seconds = seconds_before_retry(call.attempt, compiled.retry, jitter, output)
            self._outcome.calls.append((call, seconds))
        else:
            self._fail(call, output.as_error(call.attempt))
        return self._take_outcome()

    async def await_gates(self, pending: PendingGates) -> StepFinished:
        """Wait for the gates of a step; return the step's ending with their records."""
        records = await self._runner.await_gates(pending.ending.step, pending.gates)
        seconds = self._clock.monotonic() - pending.clock_start
        return replace(pending.ending, at=self._clock.wall(), gates=records, seconds=seconds)

    def apply_reply(self, question: PendingQuestion, reply: PersonReply) -> CallOutcome:
        """Return the outcome of a person's reply: the calls to be made, or the ending of what was
        refused.
        """
        call, fan = question.call, question.fan_out
        call.answer = reply.answer
        if reply.is_refused and fan is not None:
            self._finish_step(call, "failed", None, error=REFUSED)
        elif reply.is_refused:
            self._fail(call, REFUSED)
        elif fan is not None:
            self._push_items(fan)
        else:
            self._outcome.calls.append((call, 0.0))
        return self._take_outcome()

    def _take_outcome(self) -> CallOutcome:
        outcome, self._outcome = self._outcome, CallOutcome()
        return outcome

    def _begin(self, call: ScheduledCall) -> CompiledStep | None:
        """Compile a step; return it where it is a single call that can be prepared, else set the
        outcome.
        """
        call.started, call.clock_start = self._clock.wall(), self._clock.monotonic()
        begun = self._runner.begin(call)
        if isinstance(begun, CompiledStep):
            call.compiled = begun
            return begun
        if isinstance(begun, FanOut):
            self._begin_fan_out(begun)
        elif isinstance(begun, SkippedStep):
            self._outcome.endings.append(
                StepFinished(
                    at=self._clock.wall(), step=call.step.id, status="skipped", reason=begun.reason
                )
            )
        else:
            self._fail(call, begun)
        return None

    # -- must the call be made?

    async def _prepare(self, call: ScheduledCall, compiled: CompiledStep) -> bool:
        """Set the parameters and the key of a call; return whether it must be made."""
        if call.key is None and (error := self._runner.prepare(call, compiled)) is not None:
            self._fail(call, error)
            return False
        key = call.key
        assert key is not None
        if self._is_replayed(call, compiled, key) or self._is_reused_from_retried_run(
            call, compiled, key
        ):
            return False
        if compiled.asks is not None and call.answer is None:
            ready = ReadyCalls(call.step, compiled.asks, (call.params,))
            self._outcome.questions.append(PendingQuestion(call, ready))
            return False
        if compiled.tool.only_reads:
            # What a person has answered to one step is no answer to another.
            call.is_prepared = (
                compiled.asks == "question"
                or call.step.supersedes is not None
                or not (
                    self._is_deduplicated(call, key)
                    or (
                        compiled.tool.signature.cache_for is not None
                        and (
                            self._reuse_source is None
                            or call.step.id not in self._reuse_source.anew
                        )
                        and await self._is_cached(call, compiled, key)
                    )
                )
            )
        else:
            call.is_prepared = await self._may_change(call, compiled, key)
        if call.is_prepared and (self._announces or compiled.tool.signature.writes):
            self._recorder.record(StepStarted(self._clock.wall(), call.step.id, key))
            self._recorder.commit_now()
            await self._recorder.committed()
        return call.is_prepared

    def _is_replayed(self, call: ScheduledCall, compiled: CompiledStep, key: StepKey) -> bool:
        """Whether the same call ended in an earlier part of the run; then its ending is used."""
        record = recorded_ending(self._prior, call)
        if (
            record is None
            or record.key != key
            or not is_still_valid(record, retry_failed=self._retry_failed)
        ):
            return False
        lacks_gates = isinstance(record, StepFinished) and self._runner.lacks_gates(record)
        if (
            self._is_withheld(record, lacks_gates or call.fan_out is not None)
            and compiled.tool.is_repeatable
        ):
            return False
        if self._is_withheld(record, False):
            self._fail(call, WITHHELD)
        elif isinstance(record, StepFinished) and lacks_gates:
            call.take_over(record)
            self._finish_step(call, record.status, record.output, reason=record.reason)
        elif isinstance(record, StepFinished):
            self._outcome.replayed = record
        elif call.fan_out is not None:
            self._finish_item(call.fan_out, record)
        return True

    def is_finished_earlier(self, step_id: StepId) -> bool:
        """Whether a step has a valid ending from an earlier part of the run, provided its call is
        the same.
        """
        record = self._prior.steps.get(step_id)
        return record is not None and is_still_valid(record, retry_failed=self._retry_failed)

    def _is_reused_from_retried_run(
        self, call: ScheduledCall, compiled: CompiledStep, key: StepKey
    ) -> bool:
        """Whether the same call succeeded in the run that this one retries; then its output is
        reused.
        """
        ending = self._found_in_retried_run(call, compiled)
        if ending is None or (self._is_withheld(ending, True) and compiled.tool.is_repeatable):
            return False
        if self._is_withheld(ending, False):
            self._fail(call, WITHHELD)
            return True
        assert self._reuse_source is not None
        call.withheld, call.written = ending.withheld, ending.data
        reused = self._finish_call(
            call, "reused", ending.output, f"taken over from run {self._reuse_source.state.run!r}"
        )
        if compiled.tool.only_reads and not ending.withheld:
            self._serve_followers(key, reused)
        return True

    def _found_in_retried_run(
        self, call: ScheduledCall, compiled: CompiledStep
    ) -> FinishedCall | None:
        """Return the ending of the same call in the run that this one retries, where its output
        still fits.
        """
        source = self._reuse_source
        found = None if source is None or call.key is None else source.find(call, call.key)
        if found is None or isinstance(checked_output(found.output, compiled.tool), AttemptFailure):
            return None
        return found

    def _is_deduplicated(self, call: ScheduledCall, key: StepKey) -> bool:
        """Whether the output of an equal call of this run is reused, now or once that call ends."""
        equal = self._reuse.find(key)
        if equal is not None:
            call.written = equal.data
            self._finish_call(
                call, "reused", equal.output, f"an equal call was made by {equal.step!r}"
            )
            return True
        return self._reuse.follows(call, key)

    async def _is_cached(self, call: ScheduledCall, compiled: CompiledStep, key: StepKey) -> bool:
        """Whether the output of an equal call of another run is reused."""
        stored = None if self._journal is None else await self._journal.find_output(key)
        # The key has the run's `now()`, which a job may pin, so the age is checked against the
        # clock.
        kept_for = compiled.tool.signature.cache_for or 0.0
        if stored is None or self._clock.wall() - stored.at > kept_for:
            return False
        if isinstance(checked_output(stored.output, compiled.tool), AttemptFailure):
            return False
        reason = f"run {stored.run!r} made the same call"
        self._serve_followers(key, self._finish_call(call, "reused", stored.output, reason), reason)
        return True

    async def _may_change(self, call: ScheduledCall, compiled: CompiledStep, key: StepKey) -> bool:
        """Whether a call of a writing tool can be made; one that may have taken effect already
        fails.
        """
        tool = compiled.tool.signature
        has_begun = tool.writes and not tool.idempotent and (call.step.id, key) in self._prior.begun
        if has_begun and not await self._runner.is_under_way(call, compiled):
            self._fail(call, UNCLEAR)
            return False
        return True

    # -- how a call ends

    def _fail(self, call: ScheduledCall, error: StepError) -> None:
        if call.fan_out is None:
            self._finish_step(call, "failed", None, error=error)
        else:
            item = finished_item(call, "failed", None, error, self._clock)
            self._outcome.endings.append(item)
            self._finish_item(call.fan_out, item)
        if call.key is not None:
            for follower in self._reuse.fail(call.key):
                self._outcome.calls.append((follower, 0.0))

    def _serve_followers(
        self, key: StepKey, ending: FinishedCall, reason: str | None = None
    ) -> None:
        for follower in self._reuse.succeed(key, ending):
            follower.written = ending.data
            own_reason = reason or f"an equal call was made by {ending.step!r}"
            self._finish_call(follower, "reused", ending.output, own_reason)

    def _finish_call(
        self, call: ScheduledCall, status: ItemStatus, output: Json, reason: str | None = None
    ) -> FinishedCall:
        if call.fan_out is None:
            return self._finish_step(call, status, output, reason=reason)
        item = finished_item(call, status, output, None, self._clock)
        self._outcome.endings.append(item)
        self._finish_item(call.fan_out, item)
        return item

    def _finish_step(
        self,
        call: ScheduledCall,
        status: StepStatus,
        output: Json,
        *,
        error: StepError | None = None,
        reason: str | None = None,
        fan_out: FanOut | None = None,
    ) -> StepFinished:
        """End a step, now or when its gates are evaluated."""
        items = None if fan_out is None else fan_out_items(fan_out)
        gates = self._runner.ask_gates(call, output, items) if status in SUCCESSES else ()
        ending = StepFinished(
            at=self._clock.wall(),
            step=call.step.id,
            status=status,
            key=call.key,
            output=output,
            error=error,
            gates=gates if isinstance(gates, tuple) else (),
            started=call.started,
            seconds=self._clock.monotonic() - call.clock_start,
            attempts=call.attempt,
            items=None if items is None or fan_out is None else (len(items), len(fan_out.chosen)),
            reason=reason,
            withheld=call.withheld,
            data=call.written,
        )
        if isinstance(gates, tuple):
            self._outcome.endings.append(ending)
        else:
            self._outcome.pending_gates.append(PendingGates(ending, gates, call.clock_start))
        return ending

    # -- the calls of a `for_each` step

    def _begin_fan_out(self, fan: FanOut) -> None:
        if self._is_fan_out_replayed(fan):
            return
        if fan.unfinished and fan.compiled.asks == "approval" and fan.head.answer is None:
            self._ask_about_items(fan)
        elif fan.unfinished:
            self._push_items(fan)
        else:
            self._finish_fan_out(fan)

    def _ask_about_items(self, fan: FanOut) -> None:
        """Ask once about the calls that items make: those with valid parameters, and not made by a
        retried run.
        """
        calls = [item_call(fan, index) for index in fan.chosen]
        valid = [
            call
            for call in calls
            if self._runner.prepare(call, fan.compiled) is None
            and (
                (found := self._found_in_retried_run(call, fan.compiled)) is None or found.withheld
            )
        ]
        if not valid:
            self._push_items(fan)
            return
        fan.head.key = fan_out_key([call.key for call in calls])
        ready = ReadyCalls(fan.head.step, "approval", tuple(call.params for call in valid))
        self._outcome.questions.append(PendingQuestion(fan.head, ready, fan))

    def _is_fan_out_replayed(self, fan: FanOut) -> bool:
        """Whether the whole step ended before, with the same calls; then its ending is used."""
        record = self._prior.steps.get(fan.step_id)
        if (
            record is None
            or record.key is None
            or not is_still_valid(record, retry_failed=self._retry_failed)
        ):
            return False
        if self._is_withheld(record, False) or self._runner.lacks_gates(record):
            return False
        calls = [item_call(fan, index) for index in fan.chosen]
        if any(self._runner.prepare(call, fan.compiled) is not None for call in calls):
            return False
        if fan_out_key([call.key for call in calls]) != record.key:
            return False
        self._outcome.replayed = record
        return True

    def _push_items(self, fan: FanOut) -> None:
        """Push the next items, up to the step's concurrency."""
        count = len(fan.chosen)
        started_at_most = count - fan.unfinished + (fan.head.step.concurrency or count)
        while fan.next_place < min(count, started_at_most):
            call = item_call(fan, fan.chosen[fan.next_place])
            call.started, call.clock_start = self._clock.wall(), self._clock.monotonic()
            fan.next_place += 1
            self._outcome.calls.append((call, 0.0))

    def _finish_item(self, fan: FanOut, item: ItemFinished) -> None:
        fan.endings[item.index] = item
        fan.unfinished -= 1
        if fan.unfinished:
            self._push_items(fan)
        else:
            self._finish_fan_out(fan)

    def _finish_fan_out(self, fan: FanOut) -> None:
        head = fan.head
        endings = [ending for ending in fan.endings if ending is not None]
        status, output, error = fan_out_result(fan)
        head.key = fan_out_key([ending.key for ending in endings])
        head.attempt = sum(ending.attempts for ending in endings)
        head.withheld = (WHOLE_OUTPUT,) if any(ending.withheld for ending in endings) else ()
        reason = "equal calls were made before" if status == "reused" else None
        self._finish_step(head, status, output, error=error, reason=reason, fan_out=fan)
