"""One step: its condition, items, parameters, calls, output and gates.

The scheduler decides when a step runs. Failures of expressions, parameters and tools are returned
as `StepError` or `AttemptFailure`, never raised. Every output that is returned is valid by the
tool's output schema.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from wavewright.config.redaction import Redactor
from wavewright.executor.events.json_values import NotJsonError, clean_json, copy_json
from wavewright.executor.events.state import SUCCESSES
from wavewright.executor.events.types import (
    GateRecord,
    ItemFinished,
    StepError,
    StepFinished,
    StepStatus,
)
from wavewright.executor.run.deadlines import (
    CallCancelledItself,
    DeadlineExceeded,
    Deadlines,
    is_process_exception,
)
from wavewright.executor.run.emissions import CURRENT_CAPTURE, Emissions, OutputCapture
from wavewright.executor.run.failures import AttemptFailure, describe_failure, timeout_failure
from wavewright.executor.run.ports import Clock, GateRecords, GateView, Verify
from wavewright.executor.run.program import CompiledPlan, CompiledStep, CompiledTool
from wavewright.executor.run.reuse import ReuseSource, StepKeyBuilder
from wavewright.executor.run.scheduled_calls import FanOut, ScheduledCall
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.evaluator import Evaluator
from wavewright.planner.cel.paths import kind_name
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.uses import asks_each_item
from wavewright.planner.schemas.validation import Validator
from wavewright.planner.types import GateId, Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools.functions.injected import MemoryRunData
from wavewright.tools.functions.tool import ToolCall

_MAX_MISMATCHES = 3
_JUDGE_SECONDS = 86_400.0
"""Far longer than any judge: its own timeout and the run's apply first."""
_SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """The step's condition is false."""

    reason: str


class StepRunner:
    """Runs single steps of one compiled plan, in one run."""

    def __init__(
        self,
        program: CompiledPlan,
        *,
        run: RunId,
        job: str | None,
        now: dt.datetime,
        verify: Verify,
        emissions: Emissions,
        clock: Clock,
        donor: ReuseSource | None,
        redactor: Redactor,
    ) -> None:
        self.deadlines = Deadlines(clock)
        self._program = program
        self._run = run
        self._job = job
        self._now = now
        self._keys: dict[tuple[str, RunId], StepKeyBuilder] = {}
        """By tool and by the run in the keys; made when first used, so that plans of many tools
        start at once.
        """
        self._inputs = program.plan.inputs
        self._gates_on: dict[StepId | None, frozenset[GateId]] = {}
        for gate in program.plan.gates:
            self._gates_on[gate.on] = self._gates_on.get(gate.on, frozenset()) | {gate.id}
        self._verify = verify
        self._emissions = emissions
        self._clock = clock
        self._donor = donor
        self._redactor = redactor

    def begin(self, call: ScheduledCall) -> CompiledStep | FanOut | SkippedStep | StepError:
        """Compile a step and evaluate its condition; return a fan-out where it has items."""
        if call.step.tool not in self._program.tools:
            return StepError("tool", f"no tool named {call.step.tool!r} is installed", attempts=0)
        try:
            compiled = self._program.compile(call.step)
            by_item = asks_each_item(call.step)
            if compiled.when is not None and not by_item:
                holds = compiled.when(self._variables(call), self._now)
                if holds is False:
                    return SkippedStep(f"its condition is false: {call.step.when}")
                if holds is not True:
                    return _condition_error(holds)
            if compiled.for_each is None:
                return compiled
            items = compiled.for_each(self._variables(call), self._now)
        except ExpressionError as fault:
            return _expression_error(fault)
        if not isinstance(items, list):
            return StepError("items", f"for_each gave {kind_name(items)}, not a list", attempts=0)
        if len(items) > compiled.max_items:
            return StepError(
                "items",
                f"for_each gave {len(items)} items, more than the {compiled.max_items} allowed",
                attempts=0,
                hint="narrow the list, or raise max_items",
            )
        if compiled.when is None or not by_item:
            return FanOut(call, compiled, items, range(len(items)))
        return self._chosen_items(call, compiled, compiled.when, items)

    def _chosen_items(
        self, call: ScheduledCall, compiled: CompiledStep, when: Evaluator, items: list[Json]
    ) -> FanOut | StepError:
        """Return the calls for the items of which the step's condition holds."""
        variables, chosen = self._variables(call), list[int]()
        for index, item in enumerate(items):
            try:
                holds = when({**variables, "item": item, "index": index}, self._now)
            except ExpressionError as fault:
                return _expression_error(fault)
            if holds is True:
                chosen.append(index)
            elif holds is not False:
                return _condition_error(holds)
        return FanOut(call, compiled, items, chosen)

    def prepare(self, call: ScheduledCall, compiled: CompiledStep) -> StepError | None:
        """Render and validate the parameters of a call and set its key; return the error, if any."""
        tool = compiled.tool
        try:
            params = compiled.params(self._variables(call), self._now)
        except ExpressionError as fault:
            return _expression_error(fault)
        if not isinstance(params, dict):
            return StepError(
                "params", f"the parameters are {kind_name(params)}, not an object", attempts=0
            )
        if tool.accepts is not None and not tool.accepts.accepts(params):
            return StepError(
                "params", f"the parameters {_mismatch_text(tool.accepts, params)}", attempts=0
            )
        call.params = params
        try:
            keys = self._key_builder(call.step, tool)
            call.key = keys.key(
                params, call.step.id, None if call.index < 0 else call.index, call.data_digest
            )
        except ValueError as error:
            return StepError("params", f"the parameters are not JSON: {error}", attempts=0)
        return None

    async def attempt(self, call: ScheduledCall, compiled: CompiledStep) -> Json | AttemptFailure:
        """Make one attempt; return the clean and valid output, or why there is none."""
        assert call.key is not None
        tool = compiled.tool
        call.written = None
        data = MemoryRunData(
            values=call.data, reads=tool.signature.reads_data, writes=tool.signature.writes_data
        )
        request = ToolCall(
            run=self._run,
            step=call.step.id,
            tool=call.step.tool,
            params=_own_copy(call.params),
            key=call.key,
            now=self._now,
            index=None if call.index < 0 else call.index,
            attempt=call.attempt,
            worker_type=tool.worker_type,
            config=tool.config,
            job=self._job,
            timeout=compiled.timeout,
            budget=call.step.budget,
            emit=partial(self._emissions.emit, call, call.attempt),
            answer=call.answer,
            data=data,
        )
        call.is_under_way = True
        output: object = None
        failure: AttemptFailure | None = None
        capture = OutputCapture()
        token = CURRENT_CAPTURE.set(capture)
        try:
            with self.deadlines.limit(compiled.timeout, of=call.step.id) as timed:
                output = await timed.drive(tool.call(request))
        except DeadlineExceeded as passed:
            failure = timeout_failure(compiled.timeout, was_abandoned=passed.was_abandoned)
        except CallCancelledItself:
            failure = AttemptFailure("tool", "the tool cancelled itself")
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # A tool may raise anything, and each exception is a failure of its step.
            if is_process_exception(error, asyncio.current_task()):
                raise
            failure = describe_failure(error, self._clock.wall(), self._redactor)
        finally:
            CURRENT_CAPTURE.reset(token)
            texts = capture.close(self._redactor)
            self._emissions.finish(call, texts, failure.traceback if failure is not None else "")
        if failure is not None:
            return failure
        if data.written:
            try:
                written = clean_json(data.written)
            except NotJsonError as error:
                return AttemptFailure(
                    "output", f"run data: {error}", hint="write plain JSON values"
                )
            # What later steps read is what the journal has, so that they read the same in a resumed
            # run.
            call.written = cast(
                "dict[str, JsonObject]", self._redactor.redact_json(written, keep_numbers=True)
            )
        return checked_output(output, tool)

    async def is_under_way(self, call: ScheduledCall, compiled: CompiledStep) -> bool:
        """Return whether a call that an earlier part of the run began has outlived it."""
        find = compiled.tool.is_under_way
        index = None if call.index < 0 else call.index
        return (
            find is not None
            and call.key is not None
            and await find(self._run, call.step.id, index, call.key)
        )

    def lacks_gates(self, ending: StepFinished) -> bool:
        """Whether the plan has gates on a step that were not evaluated when it ended: it started
        before they came.
        """
        evaluated = {record.gate for record in ending.gates}
        return (
            ending.status in SUCCESSES
            and not self._gates_on.get(ending.step, frozenset()) <= evaluated
        )

    def ask_gates(
        self, call: ScheduledCall, output: Json, items: Sequence[tuple[int, Json]] | None
    ) -> GateRecords | Awaitable[GateRecords]:
        """Return the records of a step's gates for its output, or an awaitable of them."""
        step_id = call.step.id
        view = GateView(self._inputs, {**call.visible, step_id: output}, items)
        try:
            return self._verify(step_id, output, view)
        except Exception as error:  # noqa: BLE001 - a port's implementation; gates that raise have failed
            return self._not_evaluated(step_id, error)

    async def await_gates(self, step_id: StepId, asked: Awaitable[GateRecords]) -> GateRecords:
        """Wait for the records of a step's gates; where that raises, the gates have failed."""
        try:
            with self.deadlines.limit(_JUDGE_SECONDS) as timed:
                return await timed.drive(asked)
        except CallCancelledItself:
            return self._not_evaluated(step_id, "it was cancelled")
        except Exception as error:  # noqa: BLE001 - as above
            return self._not_evaluated(step_id, error)

    def _not_evaluated(self, step_id: StepId, reason: object) -> GateRecords:
        """Return records with the verdict `error` for all gates of a step."""
        text = (
            f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
        )
        return tuple(
            GateRecord(
                gate=gate.id,
                step=step_id,
                kind=gate.kind,
                severity=gate.severity,
                verdict="error",
                inspected=gate.check or gate.kind,
                message=f"the gate could not be evaluated: {text}",
                hint=gate.hint,
            )
            for gate in self._program.plan.gates
            if gate.on == step_id
        )

    def _key_builder(self, step: Step, tool: CompiledTool) -> StepKeyBuilder:
        # In a retried run a call has the key of the original run, so a writing tool can recognise
        # the repeat.
        run = self._run
        if self._donor is not None and step.id not in self._donor.anew:
            run = self._donor.origin
        builder = self._keys.get((step.tool, run))
        if builder is None:
            builder = StepKeyBuilder(
                tool.signature, config=tool.config, now=self._now.timestamp(), run=run
            )
            self._keys[step.tool, run] = builder
        return builder

    def _variables(self, call: ScheduledCall) -> JsonObject:
        variables: JsonObject = {"inputs": self._inputs, "steps": call.visible}
        if call.fan_out is not None:
            variables["item"] = call.fan_out.items[call.index]
            variables["index"] = call.index
        return variables


def checked_output(output: object, tool: CompiledTool) -> Json | AttemptFailure:
    """Return an output as clean JSON that is valid by the tool's output schema, or the failure."""
    try:
        clean = clean_json(output)
    except NotJsonError as error:
        return AttemptFailure("output", str(error), hint="return plain JSON values")
    if tool.returns is not None and not tool.returns.accepts(clean):
        return AttemptFailure("output", f"the output {_mismatch_text(tool.returns, clean)}")
    return clean


def fan_out_result(fan: FanOut) -> tuple[StepStatus, Json, StepError | None]:
    """Return status, output and error of a `for_each` step all of whose items have ended."""
    endings = [ending for ending in fan.endings if ending is not None]
    succeeded = [ending for ending in endings if ending.status != "failed"]
    wanted = fan.head.step.min_ok
    if len(succeeded) < (len(endings) if wanted is None else min(wanted, len(endings))):
        return "failed", None, _fan_out_error(endings, len(succeeded))
    output: Json = [ending.output for ending in succeeded]
    if not output:
        return "empty", output, None
    return (
        ("reused" if all(ending.status == "reused" for ending in endings) else "ok"),
        output,
        None,
    )


def fan_out_items(fan: FanOut) -> list[tuple[int, Json]]:
    """Return index and item of each entry of a fan-out's output."""
    return [
        (ending.index, fan.items[ending.index])
        for ending in fan.endings
        if ending is not None and ending.status != "failed"
    ]


def fan_out_key(keys: Sequence[StepKey | None]) -> StepKey | None:
    """Return the key of a `for_each` step from those of its items; None where an item has none."""
    digest = hashlib.sha256(b"for_each")
    for key in keys:
        if key is None:
            return None
        digest.update(key.encode())
    return StepKey(digest.hexdigest())


def _fan_out_error(endings: list[ItemFinished], succeeded: int) -> StepError:
    failed = [ending for ending in endings if ending.error is not None]
    first = failed[0]
    assert first.error is not None
    kinds = {ending.error.kind for ending in failed if ending.error is not None}
    return StepError(
        kind=first.error.kind if len(kinds) == 1 else "items",
        message=f"{succeeded} of {len(endings)} items succeeded; item {first.index}: {first.error.message}",
        attempts=sum(ending.attempts for ending in endings),
        hint=first.error.hint,
        frames=first.error.frames,
    )


def _own_copy(params: JsonObject) -> JsonObject:
    """Return a copy of parameters, so that a tool cannot change what is journaled."""
    return {
        name: value if isinstance(value, _SCALARS) else copy_json(value)
        for name, value in params.items()
    }


def _condition_error(value: Json) -> StepError:
    return StepError(
        "expression", f"its condition gave {kind_name(value)}, not true or false", attempts=0
    )


def _expression_error(fault: ExpressionError) -> StepError:
    return StepError("expression", fault.message, attempts=0, hint=fault.hint)


def _mismatch_text(validator: Validator, value: Json) -> str:
    return "; ".join(_mismatch_lines(validator, value))


def _mismatch_lines(validator: Validator, value: Json) -> Iterator[str]:
    found = validator.violations(value)
    for one in found[:_MAX_MISMATCHES]:
        yield f"at {one.pointer} {one.message}" if one.pointer else one.message
    if len(found) > _MAX_MISMATCHES:
        yield f"and {len(found) - _MAX_MISMATCHES} more"
