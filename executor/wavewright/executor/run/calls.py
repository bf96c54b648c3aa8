"""One call of a tool: prepared, decided, attempted under its deadline, tried again, ended.

`CallRunner.advance` takes a ready call as far as it goes now and returns what has changed, a
`CallOutcome`, for the scheduler to apply. Failures of expressions, parameters and tools are
returned as `StepError` or `AttemptFailure`, never raised. Every output that is returned is valid by
the tool's output schema.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from traceback import clear_frames
from typing import cast

from wavewright.config.redaction import Redactor
from wavewright.config.sources import path_of_keys, pointer_keys
from wavewright.executor.events.json_values import NotJsonError, clean_json, copy_json, is_empty
from wavewright.executor.events.state import SUCCESSES
from wavewright.executor.events.types import (
    GateRecord,
    ItemFinished,
    StepError,
    StepFinished,
    StepStarted,
    StepStatus,
)
from wavewright.executor.run.deadlines import (
    CallCancelledItself,
    DeadlineExceeded,
    Deadlines,
    is_process_exception,
)
from wavewright.executor.run.emissions import CURRENT_CAPTURE, Emissions
from wavewright.executor.run.failures import (
    REFUSED,
    UNCLEAR_KINDS,
    AttemptFailure,
    blocked_failure,
    may_retry,
    seconds_before_retry,
    timeout_failure,
)
from wavewright.executor.run.ports import (
    Clock,
    GateRecords,
    GateView,
    PersonReply,
    ReadyCalls,
    Verify,
)
from wavewright.executor.run.program import CompiledPlan, CompiledStep, CompiledTool
from wavewright.executor.run.recording import (
    EventRecorder,
    ItemStatus,
    fan_out_items,
    fan_out_key,
    fan_out_result,
    item_ending,
    reuse_reason,
    step_ending,
)
from wavewright.executor.run.redacted_events import WHOLE_OUTPUT
from wavewright.executor.run.rules import (
    AskGatesAgain,
    AskPerson,
    CallRules,
    FinalDecision,
    FinishedCall,
    FollowEqualCall,
    FromEqualCall,
    FromRetriedRun,
    Inquiry,
    KeepEnding,
    MakeCall,
    NeedsStoredOutput,
    NeedsToKnowWhetherItRuns,
    OutputSource,
    RefuseCall,
    ReuseOutput,
    ReuseSource,
)
from wavewright.executor.run.scheduled_calls import (
    CallOutcome,
    FanOut,
    PendingGates,
    PendingQuestion,
    ScheduledCall,
)
from wavewright.executor.store.journal import Journal, StoredOutput
from wavewright.planner import ExpressionError, Json, JsonObject, Plan, RunId, StepId, ToolSignature
from wavewright.planner.cel.evaluator import Evaluator
from wavewright.planner.cel.paths import kind_name
from wavewright.planner.language.hashing import cache_key, call_content, content_of, placed_key
from wavewright.planner.plans.uses import asks_each_item
from wavewright.planner.schemas.validation import Validator
from wavewright.planner.types import CallContent
from wavewright.tools import MemoryRunData, ToolCall

_MAX_MISMATCHES = 3


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What all calls of one execution have in common."""

    run: RunId
    job: str | None
    """The job whose budget applies."""
    now: dt.datetime
    """The value of `now()`."""
    journal: Journal | None
    announces: bool
    """Whether the start of every call is journaled, and not only of those that write."""
    retried: ReuseSource | None
    """The run that this one retries."""


class CallRunner:
    """Runs the calls of one execution."""

    def __init__(
        self,
        program: CompiledPlan,
        facts: RunFacts,
        rules: CallRules,
        gates: StepGates,
        recorder: EventRecorder,
        *,
        deadlines: Deadlines,
        emissions: Emissions,
        clock: Clock,
        redactor: Redactor,
    ) -> None:
        self._program = program
        self._facts = facts
        self._rules = rules
        self._equal_calls = rules.equal_calls
        self._gates = gates
        self._recorder = recorder
        self._deadlines = deadlines
        self._emissions = emissions
        self._clock = clock
        self._redactor = redactor

    async def advance(self, call: ScheduledCall) -> CallOutcome:
        """Take a ready call as far as it goes now; it is counted as running meanwhile."""
        outcome = CallOutcome()
        if call.compiled is None:
            self._begin(call, outcome)
        if call.compiled is None:
            return outcome
        if not call.is_decided:
            prepared = None if call.fan_out is None else call.fan_out.prepared
            error = self._prepare(call, call.compiled, prepared)
            if error is not None:
                self._fail(call, error, outcome)
                return outcome
            decision = await self._decide(call)
            self._apply(decision, call, outcome)
            if not isinstance(decision, MakeCall):
                return outcome
            await self._announce(call, call.compiled.tool)
        await self._recorder.check_lease()
        call.attempt += 1
        output = await self._attempt(call, call.compiled)
        self._conclude(call, call.compiled, output, outcome)
        return outcome

    # -- the step: its condition and its items

    def _begin(self, call: ScheduledCall, outcome: CallOutcome) -> None:
        """Compile a step and evaluate its condition; the call is compiled where it is to be made."""
        call.started, call.clock_start = self._clock.wall(), self._clock.monotonic()
        begun = self._begun(call)
        if isinstance(begun, StepError):
            self._fail(call, begun, outcome)
        elif isinstance(begun, StepFinished):
            outcome.endings.append(begun)
        elif isinstance(begun, FanOut):
            self._begin_fan_out(begun, outcome)
        else:
            call.compiled = begun

    def _begun(self, call: ScheduledCall) -> CompiledStep | FanOut | StepFinished | StepError:
        """Return a step that makes one call, the fan-out of one that has items, the ending of one
        whose condition is false, or the fault.
        """
        step = call.step
        if step.tool not in self._program.tools:
            return StepError("tool", f"no tool named {step.tool!r} is installed", attempts=0)
        try:
            compiled = self._program.compile(step)
            is_by_item = asks_each_item(step)
            if compiled.when is not None and not is_by_item:
                holds = compiled.when(self._variables(call), self._facts.now)
                if holds is False:
                    return StepFinished(
                        at=self._clock.wall(),
                        step=step.id,
                        status="skipped",
                        reason=self._program.in_words(f"its condition is false: {step.when}"),
                    )
                if holds is not True:
                    return _condition_error(holds)
            if compiled.for_each is None:
                return compiled
            items = compiled.for_each(self._variables(call), self._facts.now)
        except ExpressionError as fault:
            return _expression_error(fault)
        if not isinstance(items, list):
            return StepError("items", f"for_each gave {kind_name(items)}, not a list", attempts=0)
        if len(items) > compiled.max_items:
            return StepError(
                "items",
                f"for_each gave {len(items)} items, more than the {compiled.max_items} allowed",
                attempts=0,
                hint=f"narrow the list, or raise {compiled.setting_of_max_items}",
            )
        if compiled.when is None or not is_by_item:
            return FanOut(call, compiled, items, range(len(items)))
        return self._chosen_items(call, compiled, compiled.when, items)

    def _chosen_items(
        self, call: ScheduledCall, compiled: CompiledStep, when: Evaluator, items: list[Json]
    ) -> FanOut | StepError:
        """Return the fan-out over the items of which the step's condition holds."""
        variables = self._variables(call)
        chosen = list[int]()
        for index, item in enumerate(items):
            try:
                holds = when({**variables, "item": item, "index": index}, self._facts.now)
            except ExpressionError as fault:
                return _expression_error(fault)
            if holds is True:
                chosen.append(index)
            elif holds is not False:
                return _condition_error(holds)
        return FanOut(call, compiled, items, chosen)

    def _variables(self, call: ScheduledCall) -> JsonObject:
        variables = self._program.plan.scope(call.visible)
        if call.fan_out is not None and call.item is not None:
            variables["item"] = call.fan_out.items[call.item]
            variables["index"] = call.item
        return variables

    # -- what is asked of the tool, and whether it is asked

    def _prepare(
        self,
        call: ScheduledCall,
        compiled: CompiledStep,
        prepared: Counter[CallContent] | None,
    ) -> StepError | None:
        """Set the parameters and the keys of a call; return the fault, if any.

        `prepared` counts the calls of the same `for_each` step by content.
        """
        if call.key is not None:
            return None
        tool = compiled.tool
        try:
            params = compiled.params(self._variables(call), self._facts.now)
        except ExpressionError as fault:
            return _expression_error(fault)
        if not isinstance(params, dict):
            message = f"the parameters are {kind_name(params)}, not an object"
            return StepError("params", message, attempts=0)
        call.params = params
        try:
            content = call_content(
                call.step.tool, params, config=tool.config, data=call.data_digest
            )
        except ValueError as error:
            return StepError("params", f"the parameters are not JSON: {error}", attempts=0)
        if prepared is not None:
            call.nth = prepared[content]
            prepared[content] += 1
        self._set_keys(call, tool.signature, content)
        accepts = tool.accepts
        if accepts is None or accepts.accepts(params) or self._rules.has_ended(call):
            # What ended is not called again, so it is no matter what the tool takes by now.
            return None
        call.key = None
        return StepError(
            "params", _mismatch_text(accepts, params, partial(_argument_name, params)), attempts=0
        )

    def _set_keys(
        self, call: ScheduledCall, signature: ToolSignature, content: CallContent
    ) -> None:
        # In a retry a call has the key of the original run, so that a writing tool recognises the
        # repeat; only what is called anew is another call.
        run = self._facts.run
        retried = self._facts.retried
        if retried is not None and not retried.is_named(call.step.id):
            run = retried.origin
        call.key = placed_key(content, run, call.step.id, call.nth)
        if signature.cache_for is not None and not signature.writes:
            now = self._facts.now.timestamp()
            call.cache_key = cache_key(signature, content, now=now, cache_for=signature.cache_for)

    async def _decide(self, call: ScheduledCall) -> FinalDecision:
        """Return what the rules say, after finding out for them what they need to know."""
        decision = self._rules.decide(call)
        if isinstance(decision, NeedsToKnowWhetherItRuns):
            is_running = await self._is_running(call)
            decision = self._rules.decide(call, Inquiry(is_running=is_running))
        if isinstance(decision, NeedsStoredOutput):
            self._let_equals_follow(call)
            stored = await self._stored_output(call)
            decision = self._rules.decide(call, Inquiry(has_asked_journal=True, stored=stored))
        assert not isinstance(decision, (NeedsToKnowWhetherItRuns, NeedsStoredOutput))
        return decision

    async def _is_running(self, call: ScheduledCall) -> bool:
        """Return whether a call that an earlier part of the run began has outlived it."""
        assert call.compiled is not None
        is_under_way = call.compiled.tool.is_under_way
        if is_under_way is None or call.key is None:
            return False
        return await is_under_way(self._facts.run, call.step.id, call.item, call.key)

    async def _stored_output(self, call: ScheduledCall) -> StoredOutput | None:
        """Return what another run's equal call gave, where that is young enough and fits."""
        assert call.compiled is not None
        tool = call.compiled.tool
        journal = self._facts.journal
        if journal is None or call.cache_key is None or not tool.takes_stored:
            return None
        stored = await journal.find_output(call.cache_key)
        # `cache_for` is about other runs: what this one was answered is no answer to another call.
        if stored is None or stored.run == self._facts.run or not tool.fits(stored.output):
            return None
        # The key has the run's `now()`, which a job may pin, so the age is checked by the clock.
        age = self._clock.wall() - stored.at
        return stored if age <= (tool.signature.cache_for or 0.0) else None

    def _let_equals_follow(self, call: ScheduledCall) -> None:
        if call.key is not None and self._rules.may_share(call):
            self._equal_calls.start(call, content_of(call.key))

    def _apply(self, decision: FinalDecision, call: ScheduledCall, outcome: CallOutcome) -> None:
        """Carry out a decision: the one place where a call ends that is not made."""
        assert call.key is not None
        match decision:
            case MakeCall():
                call.is_decided = True
                self._let_equals_follow(call)
            case KeepEnding(ending):
                self._keep(call, ending, outcome)
            case AskGatesAgain(ending):
                call.started = ending.started or call.started
                call.attempt = ending.attempts
                call.withheld, call.written = ending.withheld, ending.data
                self._finish_step(call, ending.status, ending.output, outcome, reason=ending.reason)
            case ReuseOutput(source):
                self._reuse(call, source, outcome)
            case FollowEqualCall():
                self._equal_calls.follow(call, content_of(call.key))
            case AskPerson(asks):
                ready = ReadyCalls(call.step, asks, (call.params,))
                outcome.questions.append(PendingQuestion(call, ready))
            case RefuseCall(error):
                self._fail(call, error, outcome)

    def _keep(self, call: ScheduledCall, ending: FinishedCall, outcome: CallOutcome) -> None:
        if isinstance(ending, StepFinished) and self._rules.is_recorded(ending):
            outcome.kept = ending
        elif isinstance(ending, StepFinished):
            # It was blocked since, and is not any more.
            outcome.endings.append(replace(ending, at=self._clock.wall()))
        elif call.fan_out is not None and call.item is not None:
            if ending.index != call.item or not self._rules.is_recorded(ending):
                # The same call at another place of the list, or before another one there.
                ending = replace(ending, at=self._clock.wall(), index=call.item)
                outcome.endings.append(ending)
            self._finish_item(call.fan_out, ending, outcome)

    def _reuse(self, call: ScheduledCall, source: OutputSource, outcome: CallOutcome) -> None:
        """End a call with the output of another."""
        reason = reuse_reason(source)
        if isinstance(source, FromEqualCall):
            call.written = source.ending.data
            self._finish_call(call, "reused", source.ending.output, outcome, reason)
        elif isinstance(source, FromRetriedRun):
            ending = source.ending
            call.withheld, call.written = ending.withheld, ending.data
            reused = self._finish_call(call, "reused", ending.output, outcome, reason)
            # An output that lacks a secret is good for the step that does not read it, and not for
            # others.
            if not ending.withheld:
                self._serve_followers(call, reused, outcome)
        else:
            reused = self._finish_call(call, "reused", source.output.output, outcome, reason)
            self._serve_followers(call, reused, outcome, reason)

    async def _announce(self, call: ScheduledCall, tool: CompiledTool) -> None:
        """Record that a call is about to be made.

        A write is announced: that is in the journal before it is made, so that one whose process
        dies is known to be unclear. Of others only those are told who watch, once for all items.
        """
        if not self._facts.announces and not tool.signature.writes:
            if call.fan_out is None or not call.fan_out.has_started:
                self._recorder.record_start(call.step.id)
            if call.fan_out is not None:
                call.fan_out.has_started = True
            return
        assert call.key is not None
        self._recorder.record(StepStarted(self._clock.wall(), call.step.id, call.key))
        self._recorder.commit_now()
        await self._recorder.committed()

    # -- the attempt

    async def _attempt(self, call: ScheduledCall, compiled: CompiledStep) -> Json | AttemptFailure:
        """Make one attempt; return the clean and valid output, or why there is none."""
        tool = compiled.tool
        call.written = None
        data = MemoryRunData(
            values=call.data, reads=tool.signature.reads_data, writes=tool.signature.writes_data
        )
        request = self._request(call, compiled, data)
        output: object = None
        failure: AttemptFailure | None = None
        capture = self._emissions.capture(call, self._redactor)
        token = CURRENT_CAPTURE.set(capture)
        timed = self._deadlines.limit(compiled.timeout, of=call.step.id)
        call.is_under_way = True
        try:
            with timed:
                output = await timed.drive(tool.call(request))
            if timed.longest_block > compiled.timeout:
                # No timer could end it: it is too late all the same.
                failure = blocked_failure(compiled.timeout, timed.longest_block)
        except DeadlineExceeded as passed:
            failure = timeout_failure(compiled.timeout, was_abandoned=passed.was_abandoned)
        except CallCancelledItself:
            failure = AttemptFailure("tool", "the tool cancelled itself", is_unclear=True)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # A tool may raise anything, and each exception is a failure of its step.
            if is_process_exception(error, asyncio.current_task()):
                raise
            failure = _describer_after(error)(error, self._clock.wall(), self._redactor)
        finally:
            CURRENT_CAPTURE.reset(token)
            texts = capture.close(self._redactor)
            traceback = "" if failure is None else failure.traceback
            self._emissions.finish(call, texts, traceback)
        if failure is not None:
            return failure if tool.is_repeatable else failure.of_write()
        if data.written:
            failure = self._keep_written(call, data)
        return checked_output(output, tool) if failure is None else failure

    def _request(
        self, call: ScheduledCall, compiled: CompiledStep, data: MemoryRunData
    ) -> ToolCall:
        assert call.key is not None
        tool = compiled.tool
        return ToolCall(
            run=self._facts.run,
            step=call.step.id,
            tool=call.step.tool,
            # A copy, so that the tool cannot change what is journaled.
            params=cast("JsonObject", copy_json(call.params)),
            key=call.key,
            now=self._facts.now,
            index=call.item,
            attempt=call.attempt,
            worker_type=tool.worker_type,
            config=tool.config,
            job=self._facts.job,
            timeout=compiled.timeout,
            budget=call.step.budget,
            emit=partial(self._emissions.emit, call, call.attempt),
            answer=call.answer,
            data=data,
        )

    def _keep_written(self, call: ScheduledCall, data: MemoryRunData) -> AttemptFailure | None:
        """Keep the run data that an attempt has written; return the fault, if any."""
        try:
            written = clean_json(data.written)
        except NotJsonError as error:
            return AttemptFailure("output", f"run data: {error}", hint="write plain JSON values")
        # What later steps read is what the journal has, so that they read the same in a resumed run.
        clean = self._redactor.redact_json(written, keep_numbers=True)
        call.written = cast("dict[str, JsonObject]", clean)
        return None

    def _conclude(
        self,
        call: ScheduledCall,
        compiled: CompiledStep,
        output: Json | AttemptFailure,
        outcome: CallOutcome,
    ) -> None:
        """Set what comes of an attempt: the call's ending, or when it is attempted again."""
        if not isinstance(output, AttemptFailure):
            status: ItemStatus = "empty" if is_empty(output) else "ok"
            ending = self._finish_call(call, status, output, outcome)
            self._serve_followers(call, ending, outcome)
        elif self._may_retry(call, compiled, output):
            jitter = self._clock.jitter(compiled.retry.wait_jitter)
            seconds = seconds_before_retry(call.attempt, compiled.retry, jitter, output)
            outcome.calls.append((call, seconds))
        else:
            self._fail(call, output.as_error(call.attempt), outcome)

    def _may_retry(
        self, call: ScheduledCall, compiled: CompiledStep, failure: AttemptFailure
    ) -> bool:
        # What may have taken effect would do so twice: no policy of retries repeats it.
        if failure.kind in UNCLEAR_KINDS and not compiled.tool.is_repeatable:
            return False
        return may_retry(failure, compiled.retry, call.attempt)

    def apply_reply(self, question: PendingQuestion, reply: PersonReply) -> CallOutcome:
        """Return what comes of a person's reply: the calls to be made, or the ending of what was
        refused.
        """
        outcome = CallOutcome()
        call, fan = question.call, question.fan_out
        call.answer = reply.answer
        if reply.is_refused:
            refused = replace(REFUSED, message=reply.refusal or REFUSED.message)
            if fan is None:
                self._fail(call, refused, outcome)
            else:
                self._finish_step(call, "failed", None, outcome, error=refused)
        elif fan is not None:
            self._push_items(fan, outcome)
        else:
            outcome.calls.append((call, 0.0))
        return outcome

    async def await_gates(self, pending: PendingGates) -> StepFinished:
        """Wait for the gates of a step; return the step's ending with their records."""
        records = await self._gates.await_records(pending.ending.step, pending.gates)
        seconds = self._clock.monotonic() - pending.clock_start
        return replace(pending.ending, at=self._clock.wall(), gates=records, seconds=seconds)

    # -- how a call ends

    def _fail(self, call: ScheduledCall, error: StepError, outcome: CallOutcome) -> None:
        if call.fan_out is None:
            self._finish_step(call, "failed", None, outcome, error=error)
        else:
            item = item_ending(call, "failed", None, self._clock, error)
            outcome.endings.append(item)
            self._finish_item(call.fan_out, item, outcome)
        if call.key is not None:
            for follower in self._equal_calls.take_followers(call, content_of(call.key)):
                outcome.calls.append((follower, 0.0))

    def _serve_followers(
        self,
        call: ScheduledCall,
        ending: FinishedCall,
        outcome: CallOutcome,
        reason: str | None = None,
    ) -> None:
        """End the calls that wait for an equal one with its output."""
        if call.key is None or call.compiled is None or not self._rules.may_share(call):
            return
        for follower in self._equal_calls.succeed(call, content_of(call.key), ending):
            follower.written = ending.data
            why = reason or reuse_reason(FromEqualCall(ending))
            self._finish_call(follower, "reused", ending.output, outcome, why)

    def _finish_call(
        self,
        call: ScheduledCall,
        status: ItemStatus,
        output: Json,
        outcome: CallOutcome,
        reason: str | None = None,
    ) -> FinishedCall:
        """End the step of a plain call, or the item of a fan-out."""
        if call.fan_out is None:
            return self._finish_step(call, status, output, outcome, reason=reason)
        item = item_ending(call, status, output, self._clock)
        outcome.endings.append(item)
        self._finish_item(call.fan_out, item, outcome)
        return item

    def _finish_step(
        self,
        call: ScheduledCall,
        status: StepStatus,
        output: Json,
        outcome: CallOutcome,
        *,
        error: StepError | None = None,
        reason: str | None = None,
        fan_out: FanOut | None = None,
    ) -> StepFinished:
        """End a step, now or when its gates are evaluated."""
        ending = step_ending(
            call, status, output, self._clock, error=error, reason=reason, fan_out=fan_out
        )
        if status not in SUCCESSES:
            outcome.endings.append(ending)
            return ending
        items = None if fan_out is None else fan_out_items(fan_out)
        gates = self._gates.ask(call, output, items)
        if isinstance(gates, tuple):
            if gates:
                ending = replace(ending, gates=gates)
            outcome.endings.append(ending)
        else:
            outcome.pending_gates.append(PendingGates(ending, gates, call.clock_start))
        return ending

    # -- the calls of a `for_each` step

    def _begin_fan_out(self, fan: FanOut, outcome: CallOutcome) -> None:
        kept = self._kept_fan_out(fan)
        if kept is not None:
            outcome.kept = kept
        elif not fan.unfinished:
            self._finish_fan_out(fan, outcome)
        elif fan.compiled.asks == "approval" and fan.head.answer is None:
            self._ask_about_items(fan, outcome)
        else:
            self._push_items(fan, outcome)

    def _kept_fan_out(self, fan: FanOut) -> StepFinished | None:
        """Return the ending of the whole step in an earlier part of this run, where it stands and
        its calls are the same.
        """
        if not self._rules.may_keep_fan_out(fan):
            return None
        key = fan_out_key([call.key for call, _ in self._prepared_items(fan)])
        return self._rules.fan_out_ending(fan, key)

    def _ask_about_items(self, fan: FanOut, outcome: CallOutcome) -> None:
        """Ask once about the calls that items make: those with valid parameters, and not made by a
        retried run.
        """
        prepared = self._prepared_items(fan)
        # Those that an earlier part of the run has made are asked about, too: so the same answer
        # holds for the same step however far it came.
        asked = [
            call.params
            for call, error in prepared
            if error is None and not self._rules.is_taken_over(call)
        ]
        calls = [call for call, _ in prepared]
        has_ended = all(call.key is None or self._rules.has_ended(call) for call in calls)
        if not asked or has_ended:
            self._push_items(fan, outcome)
            return
        fan.head.key = fan_out_key([call.key for call in calls])
        ready = ReadyCalls(fan.step, "approval", tuple(asked))
        outcome.questions.append(PendingQuestion(fan.head, ready, fan))

    def _prepared_items(self, fan: FanOut) -> list[tuple[ScheduledCall, StepError | None]]:
        """Return the calls of all items as they would be made, each with its fault, if any."""
        prepared = Counter[CallContent]()
        calls = map(fan.call, fan.chosen)
        return [(call, self._prepare(call, fan.compiled, prepared)) for call in calls]

    def _push_items(self, fan: FanOut, outcome: CallOutcome) -> None:
        """Push the next items, up to the step's concurrency."""
        count = len(fan.chosen)
        started_at_most = count - fan.unfinished + (fan.step.concurrency or count)
        while fan.next_place < min(count, started_at_most):
            call = fan.call(fan.chosen[fan.next_place])
            call.started, call.clock_start = self._clock.wall(), self._clock.monotonic()
            fan.next_place += 1
            outcome.calls.append((call, 0.0))

    def _finish_item(self, fan: FanOut, item: ItemFinished, outcome: CallOutcome) -> None:
        fan.endings[item.index] = item
        fan.unfinished -= 1
        if fan.unfinished:
            self._push_items(fan, outcome)
        else:
            self._finish_fan_out(fan, outcome)

    def _finish_fan_out(self, fan: FanOut, outcome: CallOutcome) -> None:
        head, ended = fan.head, fan.ended
        status, output, error = fan_out_result(fan)
        head.key = fan_out_key([ending.key for ending in ended])
        head.attempt = sum(ending.attempts for ending in ended)
        if any(ending.withheld for ending in ended):
            head.withheld = (WHOLE_OUTPUT,)
        reason = "all of its calls were made before" if status == "reused" else None
        self._finish_step(head, status, output, outcome, error=error, reason=reason, fan_out=fan)


# -- the gates of a step, asked through the port `Verify`, which may fail or be slow

_JUDGE_SECONDS = 86_400.0
"""Far longer than any judge: its own timeout and the run's apply first."""


class StepGates:
    """The gates of one plan. Gates that cannot be evaluated have failed, with the verdict `error`."""

    def __init__(self, plan: Plan, verify: Verify, deadlines: Deadlines) -> None:
        self._plan = plan
        self._verify = verify
        self._deadlines = deadlines

    def ask(
        self, call: ScheduledCall, output: Json, items: Sequence[tuple[int, Json]] | None
    ) -> GateRecords | Awaitable[GateRecords]:
        """Return the records of a step's gates for its output, or an awaitable of them."""
        step = call.step.id
        view = GateView(
            self._plan.inputs, {**call.visible, step: output}, items, self._plan.previous
        )
        try:
            return self._verify(step, output, view)
        except Exception as error:  # noqa: BLE001 - a port's implementation
            return self._not_evaluated(step, f"{type(error).__name__}: {error}")

    async def await_records(self, step: StepId, asked: Awaitable[GateRecords]) -> GateRecords:
        """Wait for the records of a step's gates."""
        try:
            with self._deadlines.limit(_JUDGE_SECONDS) as timed:
                return await timed.drive(asked)
        except CallCancelledItself:
            return self._not_evaluated(step, "it was cancelled")
        except Exception as error:  # noqa: BLE001 - a port's implementation
            return self._not_evaluated(step, f"{type(error).__name__}: {error}")

    def _not_evaluated(self, step: StepId, reason: str) -> GateRecords:
        """Return records with the verdict `error` for all gates of a step."""
        return tuple(
            GateRecord(
                gate=gate.id,
                step=step,
                kind=gate.kind,
                severity=gate.severity,
                verdict="error",
                inspected=gate.check or gate.kind,
                message=f"the gate could not be evaluated: {reason}",
                hint=gate.hint,
            )
            for gate in self._plan.gates
            if gate.on == step
        )


# -- what a tool returns and takes


def checked_output(output: object, tool: CompiledTool) -> Json | AttemptFailure:
    """Return an output as clean JSON that is valid by the tool's output schema, or the failure."""
    try:
        clean = clean_json(output)
    except NotJsonError as error:
        return AttemptFailure("output", str(error), hint="return plain JSON values")
    if tool.returns is not None and not tool.returns.accepts(clean):
        return AttemptFailure("output", _mismatch_text(tool.returns, clean, _output_name))
    return clean


def _condition_error(value: Json) -> StepError:
    message = f"its condition gave {kind_name(value)}, not true or false"
    return StepError("expression", message, attempts=0)


def _expression_error(fault: ExpressionError) -> StepError:
    return StepError("expression", fault.message, attempts=0, hint=fault.hint)


def _mismatch_text(validator: Validator, value: Json, name: Callable[[str], str]) -> str:
    """Return why a value does not fit, each part of it as `name` calls it by its pointer."""
    violations = validator.violations(value)
    lines = [
        f"{name(violation.pointer)} {violation.message}"
        for violation in violations[:_MAX_MISMATCHES]
    ]
    if len(violations) > _MAX_MISMATCHES:
        lines.append(f"and {len(violations) - _MAX_MISMATCHES} more")
    return "; ".join(lines)


def _argument_name(params: JsonObject, pointer: str) -> str:
    return f"argument {path_of_keys(pointer_keys(pointer), params)!r}" if pointer else "the call"


def _output_name(pointer: str) -> str:
    return f"the output at {pointer}" if pointer else "the output"


def _describer_after(error: BaseException) -> Callable[..., AttemptFailure]:
    """Return what describes the exception of a tool; loaded where one has raised, since most runs
    read no traceback.
    """
    try:
        from wavewright.executor.run.exceptions import describe_failure
    except (OSError, MemoryError):
        # The tool's variables may hold the file descriptors and the memory that loading needs.
        clear_frames(error.__traceback__)
        from wavewright.executor.run.exceptions import describe_failure
    return describe_failure
