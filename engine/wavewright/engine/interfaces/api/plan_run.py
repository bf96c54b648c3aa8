"""A run, as a program reads it and as a notebook shows it, the table of its calls, and the stream of
its events.

People who are asked by a run are functions here: a program's own answers to approvals and
questions.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

import anyio
import anyio.abc
import anyio.to_thread
from markupsafe import escape
from pydantic import TypeAdapter, ValidationError

from wavewright.config import WavewrightError, exit_codes
from wavewright.engine.run.decisions.questions import run_now
from wavewright.engine.run.ports import Approval, ApprovalRequest
from wavewright.executor import Event, ItemFinished, RunState, StepFinished
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import Json, Plan, Step, StepId, UserQuestion, suggest_name
from wavewright.reviewer import Package
from wavewright.reviewer.package.builder import result_as_given, stored_package
from wavewright.reviewer.package.call_reports import params_renderer
from wavewright.reviewer.package.failures import FailedCall, failed_calls
from wavewright.reviewer.review.results import run_instant
from wavewright.tools.functions.schemas import reader_of

if TYPE_CHECKING:
    import pandas as pd


R = TypeVar("R")


class NoResult(WavewrightError):
    """A run has no result, or one that is not of the wanted type."""

    is_shown_whole = True


class InlineReport(str):
    """The report of a run, as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, so that its style is not that of the notebook."""
        return (
            f'<iframe srcdoc="{escape(str(self))}" sandbox="" title="Report of a run" '
            'style="width: 100%; height: 640px; border: 0"></iframe>'
        )


@dataclass(frozen=True, slots=True, repr=False)
class PlanRun(Generic[R]):
    """A run that has ended, or that waits for a person.

    The example goes on from that of `Wavewright`.

    >>> run = ww.run_sync(ww.new_plan().step("four", double, {"number": 2}).returns("${steps.four}"))
    >>> run.status, run.result, run.steps["four"].output
    ('achieved', 4, 4)
    """

    state: RunState
    """The fold of its events."""
    halted: str | None = None
    """Why it ended before a package could be built."""
    final_package: Package | None = None
    """None if it has not come to its end."""
    result_type: type[R] | None = None

    @property
    def id(self) -> str:
        """The run's id, for `wavewright show` and `resume`."""
        return str(self.state.run)

    @property
    def status(self) -> str:
        """`achieved`, `not_achieved`, `failed`, `cancelled` or `interrupted`; an interrupted run
        can be resumed.
        """
        return self.state.finished.status if self.state.finished is not None else "interrupted"

    @property
    def steps(self) -> Mapping[str, StepFinished]:
        """How each step ended, with its output."""
        return {str(step): ended for step, ended in self.state.steps.items()}

    @property
    def package(self) -> Package:
        """Result, documents, gates, confidence, plan, and how they came about.

        Raises:
            NoResult: the run ended before it had a plan.
        """
        package = self.final_package or self._package_so_far
        if package is None:
            raise NoResult(f"run {self.id} has no package: {self._reason}")
        return package

    @property
    def result(self) -> R:
        """What the run was for, as `result_type` where one was given; the package and the report
        have what looks like a secret in it redacted.

        Raises:
            NoResult: the run has not come to its end, or its result is not of that type.
        """
        if self.final_package is None:
            hint = (
                f"continue with: await ww.resume({self.id!r})"
                if self.status == "interrupted"
                else None
            )
            raise NoResult(f"run {self.id} has no result: {self._reason}", hint)
        result = result_as_given(self.state, self.final_package)
        if self.result_type is None:
            return cast("R", result)
        try:
            adapter = TypeAdapter(self.result_type)
            return cast("R", reader_of(adapter.core_schema).validate_json(json.dumps(result)))
        except ValidationError as error:
            first = error.errors()[0]
            where = "".join(f".{part}" for part in first["loc"])
            wanted = cast("object", self.result_type)
            # `list[int]` and `int | None` are no classes, and written out they are told best.
            kind = wanted.__name__ if isinstance(wanted, type) else str(wanted)
            raise NoResult(
                f"the result of run {self.id} ({self.status}) is no {kind}: "
                f"result{where}: {first['msg']}{self._why_not_achieved()}",
                "change the plan's 'result', or the type"
                if self.status == "achieved"
                else "`run.steps` says how each step ended, and `run.failures` which calls failed",
            ) from error

    @property
    def failures(self) -> tuple[FailedCall, ...]:
        """The calls that have failed, in the plan's order and that of the items, each with what it
        was handed and the traceback; those that a recovery has replaced come last.
        """
        return failed_calls(self.state)

    def to_frame(self, step: str | None = None) -> pd.DataFrame:
        """Return the calls as a table of pandas: a row for each, with step, item, status, input,
        output, error, attempts and seconds.

        Args:
            step: Only this step's calls.

        Raises:
            NoResult: the run ended before it had a plan.
            NoFrame: pandas is not installed, or there is no such step.
        """
        if self.state.plan is None:
            raise NoResult(f"run {self.id} has no steps: {self._reason}")
        return frame_of_run(self.state, step)

    def report(self) -> InlineReport:
        """Return the report as one self-contained HTML page: a text, which a notebook shows.

        Raises:
            NoResult: the run ended before it had a plan.
        """
        # Few programs ask for the page.
        from wavewright.reviewer.report.page import render_report

        return InlineReport(render_report(self.package))

    @property
    def _package_so_far(self) -> Package | None:
        if self.status != "interrupted":
            return stored_package(self.state)
        return stored_package(self.state, run_now(self.state, "interrupted", time.time()))

    @property
    def _reason(self) -> str:
        finished = self.state.finished
        # A task whose run another one cancels is interrupted itself: the run's own end counts.
        ended = finished.reason if finished is not None else None
        return ended or self.halted or "it has not ended"

    def _why_not_achieved(self) -> str:
        """Return why the run has no better result, as the end of a sentence; empty if it has
        achieved its goal.
        """
        if self.status == "achieved":
            return ""
        failed = [
            f"step {name!r} failed: {ended.error.message}"
            for name, ended in self.steps.items()
            if ended.error is not None
        ]
        return "; " + "; ".join(failed or [self._reason])

    def __repr__(self) -> str:
        return f"<run {self.id}: {self.status}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the run for a notebook: as text, and as HTML with its drawing, a table of its
        steps and its result.

        A run that ended before it had a plan is text alone.
        """
        package = self.final_package or self._package_so_far
        if package is None:
            return {"text/plain": repr(self)}
        # Imported here: a program without a notebook draws nothing.
        from wavewright.engine.interfaces.api.notebook_page import page_of_run, shown_result

        page = page_of_run(self.id, self.status, package)
        return {"text/plain": f"{self!r}\n{shown_result(package)}", "text/html": page}


@dataclass(slots=True)
class RunStream:
    """The events of a run while it is made. Each reader gets all of them; when the last one leaves
    its loop early, the run is cancelled, and can be resumed.

    The example goes on from that of `Wavewright`.

    >>> import anyio
    >>> async def kinds() -> set[str]:
    ...     plan = ww.new_plan().step("four", double, {"number": 2}).returns("${steps.four}")
    ...     async with ww:
    ...         return {type(event).__name__ async for event in ww.stream(plan)}
    >>> {"StepFinished", "RunFinished"} <= anyio.run(kinds)
    True
    """

    start: Callable[[Callable[[Event], None]], Awaitable[PlanRun[Json]]]
    open_group: Callable[[], anyio.abc.TaskGroup]
    """Returns what the run is made in; raises `NotOpen` where that is over."""
    run: PlanRun[Json] | None = None
    """The run, once the loop is over."""
    _events: list[Event] = field(default_factory=list[Event])
    _news: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced, at each event and at the end."""
    _readers: int = 0
    _is_begun: bool = False
    _is_over: bool = False
    _failure: Exception | None = None
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def __aiter__(self) -> AsyncGenerator[Event]:
        """Yield each event once it is journaled, then raise what the run has raised."""
        if not self._is_begun:
            self.open_group().start_soon(self._follow)
            self._is_begun = True
        self._readers += 1
        position = 0
        try:
            while position < len(self._events) or not self._is_over:
                if position == len(self._events):
                    await self._news.wait()
                else:
                    position += 1
                    yield self._events[position - 1]
        finally:
            self._readers -= 1
            if self._readers == 0:
                self._scope.cancel()
        if self._failure is not None:
            raise self._failure

    async def _follow(self) -> None:
        try:
            with self._scope:
                self.run = await self.start(self._add)
        except Exception as failure:  # noqa: BLE001 - raised where the events are read
            self._failure = failure
        finally:
            self._is_over = True
            self._news.set()

    def _add(self, event: Event) -> None:
        self._events.append(event)
        self._news.set()
        self._news = anyio.Event()


Q = TypeVar("Q")

Approve: TypeAlias = Callable[
    [ApprovalRequest], Approval | bool | Awaitable[Approval | bool | None] | None
]
"""Returns whether a request is approved; None leaves it open, and the run waits for `wavewright
answer`. Only `True` and `Approval(True)` approve: everything else refuses.
"""
Ask: TypeAlias = Callable[[UserQuestion], str | Awaitable[str | None] | None]
"""Returns the answer to a question; None if there is none, and the run waits."""


@dataclass(frozen=True, slots=True)
class CallbackApprover:
    """Asks a function; without one every request stays open."""

    function: Approve | None

    async def approve(self, request: ApprovalRequest) -> Approval | bool | None:
        """Return the function's answer."""
        return None if self.function is None else await _answer(self.function, request)


@dataclass(frozen=True, slots=True)
class CallbackAsker:
    """Asks a function."""

    function: Ask

    async def ask(self, question: UserQuestion) -> str | None:
        """Return the function's answer."""
        return await _answer(self.function, question)


async def _answer(function: Callable[[Q], R | Awaitable[R]], asked: Q) -> R | None:
    """Return what a function answers; a plain one runs in a thread, since it may wait for a person."""
    try:
        if inspect.iscoroutinefunction(function):
            answer: object = function(asked)
        else:
            answer = await anyio.to_thread.run_sync(function, asked, abandon_on_cancel=True)
        return cast("R", await answer if inspect.isawaitable(answer) else answer)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # What the function waited for was cancelled, and not the run: there is no answer, the run
        # waits and can be resumed.
        return None


_COLUMNS = ("step", "item", "status", "input", "output", "error", "attempts", "seconds")


class NoFrame(WavewrightError):
    """There is no table of a run: pandas is not installed, or the run has no step of that name."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


def frame_of_run(state: RunState, only: str | None) -> pd.DataFrame:
    """Return a row for each call that has ended, or for each of one step.

    Raises:
        NoFrame: pandas is not installed, or there is no step of that name.
    """
    try:
        # It ships no types.
        library: Any = importlib.import_module("pandas")
    except ImportError as error:
        raise NoFrame(
            "a table of a run needs pandas, which is not installed",
            "install it: pip install pandas",
        ) from error
    plan = Plan.model_validate(state.plan)
    steps = [step for step in plan.steps if only in (None, step.id)]
    if not steps and only is not None:
        names = [step.id for step in plan.steps]
        raise NoFrame(f"the run has no step {only!r}", suggest_name(only, names, what="its steps"))
    rows = [row for step in steps for row in _rows_of(plan, step, state)]
    frame = library.DataFrame(rows, columns=[*_COLUMNS])
    # Positions of items stay whole numbers beside steps that have none.
    frame["item"] = frame["item"].astype("Int64")
    outputs = [row["output"] for row in rows]
    if {type(output) for output in outputs} == {int, type(None)}:
        # Pandas has made floats of them, which are not exact.
        frame["output"] = library.Series(outputs, dtype=_type_of_integers(outputs))
    return cast("pd.DataFrame", frame)


def _type_of_integers(outputs: list[object]) -> str:
    """Return the type of a column of integers, some of which are missing."""
    fit = all(abs(output) < _LIMIT_OF_INT64 for output in outputs if isinstance(output, int))
    return "Int64" if fit else "object"


_LIMIT_OF_INT64: Final = 2**63


def _rows_of(plan: Plan, step: Step, state: RunState) -> Iterator[dict[str, object]]:
    items, ending = state.items.get(step.id), state.steps.get(step.id)
    calls: list[ItemFinished | StepFinished] = []
    if items:
        calls = [items[index] for index in sorted(items)]
    elif ending is not None:
        calls = [ending]
    renderer = params_renderer(plan, state, step, run_instant(state)) if calls else None
    for call in calls:
        index = call.index if isinstance(call, ItemFinished) else None
        was_called = index is not None or step.for_each is None
        yield {
            "step": StepId(step.id),
            "item": index,
            "status": call.status,
            "input": renderer.params_of(index) if renderer is not None and was_called else None,
            "output": call.output if call.status in SUCCESSES else None,
            "error": None if call.error is None else call.error.message,
            "attempts": call.attempts,
            "seconds": call.seconds,
        }
