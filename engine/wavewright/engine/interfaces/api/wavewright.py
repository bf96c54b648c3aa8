"""One object for programs: plans from files, models or code, and their runs, in a journal.

It runs plans as the command line does, with the same checks, journal, review and package.
An id that a program gives may be that of a run which the journal has, of the same job.
"""

from __future__ import annotations

import asyncio
import getpass
import shlex
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self, TypeAlias, TypeVar, get_args, overload

import anyio

from wavewright.config import (
    Settings,
    WavewrightError,
    exit_codes,
    load_settings,
    read_document_file,
    user_state_dir,
)
from wavewright.config.settings import settings_without_file
from wavewright.config.value_types import Place, is_url
from wavewright.engine.interfaces.api.loaded_plan import (
    LoadedPlan,
    ToolSource,
    json_inputs,
    json_plan,
    listed_names,
    make_loaded_plan,
    plan_document,
    unplanned_job,
)
from wavewright.engine.interfaces.api.mapped_tool import plan_over_items
from wavewright.engine.interfaces.api.opening import Opened, Opening, open_program
from wavewright.engine.interfaces.api.plan_run import (
    Approve,
    Ask,
    CallbackApprover,
    CallbackAsker,
    PlanRun,
    RunStream,
)
from wavewright.engine.interfaces.api.shown_progress import shown_progress
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.ports import (
    Attempt,
    Means,
    People,
    Ports,
    ignore_event,
    withhold_package,
    write_package_files,
)
from wavewright.engine.run.project.tools import functions_elsewhere
from wavewright.engine.run.retry import retry_of_run
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.session import run_to_end
from wavewright.engine.service.operations.trace_export import traced
from wavewright.executor import (
    Event,
    RunBusy,
    RunNotFound,
    RunState,
    StepFinished,
    fold,
    new_run_id,
)
from wavewright.executor.store.journal import CancelRequest
from wavewright.planner import Goal, Json, JsonObject, Plan, RunId, Step, canonical_json, plan_hash
from wavewright.planner.cel.errors import join_names
from wavewright.planner.types import read_run_id
from wavewright.reviewer import Package
from wavewright.reviewer.package.builder import stored_package
from wavewright.tools import Tool, UserFunction
from wavewright.tools.functions.registry import name_of
from wavewright.tools.functions.tool import OpenRuntime

C = TypeVar("C")
R = TypeVar("R")
PlanSource: TypeAlias = LoadedPlan | Place | Mapping[str, object]
"""A plan, the file of one, or what such a file holds."""


class NotOpen(WavewrightError):
    """Something was called outside of `async with`, or inside where it is for plain programs."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


IfExists: TypeAlias = Literal["resume", "return", "fail"]
"""What is wanted where the journal has a run of an id that a program gives."""
RunIdLike: TypeAlias = str | uuid.UUID | int
RunName: TypeAlias = RunIdLike | None


class Wavewright:
    """Plans and runs of a program, with tools of its own or those of a project.

    >>> from wavewright.engine import Wavewright
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> ww = Wavewright(tools=[double], journal="runs.db")
    >>> plan = ww.new_plan().step("four", double, {"number": 2}).returns("${steps.four}")
    >>> ww.run_sync(plan).result
    4
    """

    def __init__(
        self,
        *,
        tools: Iterable[UserFunction | Tool] = (),
        journal: Place | None = None,
        model: str | None = None,
        runtime: str | OpenRuntime | None = None,
        approve: Approve | None = None,
        ask: Ask | None = None,
    ) -> None:
        """Use no project: no settings file is read, and no package is written to a folder.

        Args:
            tools: Functions that plans may call, or tools made by `make_tool`.
            journal: The SQLite file, or the address of the PostgreSQL database, of the runs; by
                default that of the user's state folder, where `wavewright runs` finds them.
            model: The language model for planning, reviewing and agents, as `provider:name`; by
                default that of `WAVEWRIGHT_MODEL`, and none without it.
            runtime: Makes the calls elsewhere: a function that opens it, or its name as
                `module:function`.
            approve: Answers requests for approval; a plan that needs one is refused without it.
            ask: Answers questions; a plan with one that has no default is refused without it.

        Raises:
            DocumentError: a variable of the environment is wrong.
            TypeError: `approve` or `ask` is no function.
        """
        answers: dict[str, object] = {"approve": approve, "ask": ask}
        for name, function in answers.items():
            if function is not None and not callable(function):
                msg = f"`{name}` is a function of the request, and not {type(function).__name__!r}"
                raise TypeError(msg)
        settings = settings_without_file(Path.cwd(), user_state_dir())
        if model is not None:
            settings = replace(settings, model=model)
        if journal is not None and is_url(str(journal)):
            settings = replace(settings, journal_url=str(journal))
        elif journal is not None:
            settings = replace(settings, journal=Path(journal).absolute(), journal_url=None)
        self._settings = replace(settings, functions=tuple(tools), runtime=runtime)
        self._approve = approve
        self._ask = ask
        self._openings: dict[asyncio.AbstractEventLoop, Opening] = {}
        """By event loop: threads that run plans have one each."""

    @classmethod
    def from_project(
        cls,
        folder: Place = ".",
        *,
        tools: Iterable[UserFunction | Tool] = (),
        approve: Approve | None = None,
        ask: Ask | None = None,
    ) -> Self:
        """Use the project that a folder lies in: its settings, tools, journal and folder of
        packages.

        Args:
            folder: The folder, or one inside the project.
            tools: Further functions that plans may call.
            approve: As for `Wavewright`.
            ask: As for `Wavewright`.

        Raises:
            DocumentError: the settings file or the environment is wrong.
        """
        settings = replace(load_settings(Path(folder)), functions=tuple(tools))
        return cls.with_settings(settings, approve=approve, ask=ask)

    @classmethod
    def with_settings(
        cls, settings: Settings, *, approve: Approve | None = None, ask: Ask | None = None
    ) -> Self:
        """Use settings that the program has put together.

        Args:
            settings: Among them the `functions` that plans may call.
            approve: As for `Wavewright`.
            ask: As for `Wavewright`.
        """
        opened = cls(approve=approve, ask=ask)
        opened._settings = settings
        return opened

    @property
    def settings(self) -> Settings:
        """The settings that its runs have."""
        return self._settings

    async def __aenter__(self) -> Self:
        """Open journal and models; whoever enters while they are open shares them.

        Raises:
            JournalError: the journal cannot be used.
            ModelConfigError: the model's name, its key or an address is wrong or missing.
        """
        loop = asyncio.get_running_loop()
        opening = self._openings.get(loop)
        if opening is None or opening.is_left:
            opening = self._openings[loop] = Opening(lambda: open_program(self._settings))
        try:
            await opening.enter()
        finally:
            self._forget(loop, opening)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close journal and models, and cancel the streams that are open, where nobody else is
        inside.
        """
        loop = asyncio.get_running_loop()
        opening = self._openings.get(loop)
        if opening is None:
            raise NotOpen(
                "what is left was not entered in this event loop",
                "write `async with Wavewright(…) as ww:`",
            )
        try:
            await opening.leave()
        finally:
            self._forget(loop, opening)

    def _forget(self, loop: asyncio.AbstractEventLoop, opening: Opening) -> None:
        # While the last one waits for the end, another may have come, who opens anew.
        if opening.is_left and self._openings.get(loop) is opening:
            del self._openings[loop]

    def load(
        self, plan: Place | Mapping[str, object], inputs: Mapping[str, object] | None = None
    ) -> LoadedPlan:
        """Return a plan, a job or a goal template with a plan, from a file in YAML, JSON or TOML,
        or from what such a file holds.

        Raises:
            DocumentError: the file cannot be read.
            ToolError: a value has no JSON form.
            TypeError: it is neither the path of a file nor a dict.
        """
        if isinstance(plan, Mapping):
            path = self._settings.root / "plan"
            value = json_plan(plan)
            document = plan_document(value, "the plan")
        else:
            try:
                path = self._settings.root / plan
            except TypeError:
                msg = f"a plan is the path of a file or a dict, and not {type(plan).__name__!r}"
                raise TypeError(msg) from None
            document = read_document_file(path)
        return replace(self._plan_from(path), document=document, inputs=json_inputs(inputs))

    def new_plan(
        self, goal: str | None = None, inputs: Mapping[str, object] | None = None
    ) -> LoadedPlan:
        """Return a plan without steps, for `step`, `gate` and `returns`."""
        value: JsonObject = {"version": 1, "inputs": json_inputs(inputs), "steps": []}
        if goal is not None:
            value["goal"] = goal
        document = plan_document(value, "the plan")
        return replace(self._plan_from(self._settings.root / "plan"), document=document)

    async def plan(
        self, goal: str | Path, inputs: Mapping[str, object] | None = None
    ) -> LoadedPlan:
        """Return the plan that the model makes; nothing of it is run.

        Args:
            goal: The goal in words, for which the project's tools may be used; or the path of a job
                or a goal template.
            inputs: Values that the plan may read.

        Raises:
            PlanError: the job is faulty, or no answer of the model was a valid plan.
            WavewrightError: no model is configured, or the model has a question or says that there
                is no plan.
        """
        if isinstance(goal, Path):
            asked = self.load(goal, inputs)
        else:
            asked = replace(
                self._plan_from(self._settings.root / "plan"), inputs=json_inputs(inputs)
            )
        return await make_loaded_plan(
            asked, goal, None if self._ask is None else CallbackAsker(self._ask)
        )

    @overload
    async def run(
        self,
        plan: PlanSource,
        *,
        result_type: type[R],
        run: RunName = None,
        if_exists: IfExists = "resume",
        progress: bool = False,
    ) -> PlanRun[R]: ...
    @overload
    async def run(
        self,
        plan: PlanSource,
        *,
        run: RunName = None,
        if_exists: IfExists = "resume",
        progress: bool = False,
    ) -> PlanRun[Json]: ...
    async def run(
        self,
        plan: PlanSource,
        *,
        result_type: type[R] | None = None,
        run: RunName = None,
        if_exists: IfExists = "resume",
        progress: bool = False,
    ) -> PlanRun[R] | PlanRun[Json]:
        """Run a plan to its end.

        Args:
            plan: The plan, the file of one, or what such a file holds.
            result_type: What `result` of the run is read as: a model of pydantic, a dataclass or
                another type.
            run: The run's id. If the journal has a run of this id, it is continued, and one that
                has ended is returned as it is; so a program that died goes on where it was.
            if_exists: What is wanted where the journal has a run of this id: `resume` as above,
                `return` it as it stands without continuing it, or `fail`.
            progress: Whether it is shown how far the run is: as a bar in a terminal, as a line that
                changes in a notebook, else as lines on standard error.

        Raises:
            DocumentError, PlanError: the plan is not valid.
            RunIdRefused: the id can be none.
            RunExists: a run of this id is of another plan or has other inputs, or `if_exists` is
                `fail`.
            JournalError: the run cannot be journaled.
        """
        loaded, request = self._request(plan, run)
        with shown_progress() if progress else nullcontext(ignore_event) as listen:
            ended = await self._execute(
                request,
                listen,
                # What an earlier attempt has done counts, too.
                after=0 if progress else None,
                settings=loaded.settings,
                if_exists=if_exists,
            )
        return ended if result_type is None else _typed(ended, result_type)

    async def map(
        self,
        tool: ToolSource,
        items: Iterable[object],
        params: Mapping[str, object] | None = None,
        *,
        min_ok: int | None = 1,
        concurrency: int | None = None,
        run: RunName = None,
        if_exists: IfExists = "resume",
        progress: bool = False,
    ) -> PlanRun[list[Json]]:
        """Call one tool once for each item, and return the run, whose result is the list of outputs.

        Args:
            tool: A tool by its name, or a function.
            items: A list, a table, or what else yields items; each becomes JSON.
            params: Parameters that all calls have. The item is the first parameter that is not
                among them, unless they read it, as in `{"code": "${item.code}"}`.
            min_ok: How many calls must succeed for the run to have a result, which leaves out those
                that failed (`failures` of the run has them); None for all of them.
            concurrency: How many calls are made at once; by default as many as the run allows.
            run: As for `run`.
            if_exists: As for `run`.
            progress: As for `run`.

        Raises:
            ItemsRefused: the items are no list, or the tool has no parameter for them.
            PlanError: there is no such tool.
            ToolError: an item or a parameter has no JSON form.
            JournalError: the run cannot be journaled.
        """
        name = tool if isinstance(tool, str) else getattr(tool, "__name__", "a tool")
        plan = plan_over_items(
            lambda inputs: self.new_plan(f"Call {name} for each item", inputs),
            tool,
            items,
            params or {},
            min_ok=min_ok,
            concurrency=concurrency,
        )
        ended = await self.run(plan, run=run, if_exists=if_exists, progress=progress)
        return _typed(ended, list[Json])

    def map_sync(
        self,
        tool: ToolSource,
        items: Iterable[object],
        params: Mapping[str, object] | None = None,
        *,
        min_ok: int | None = 1,
        concurrency: int | None = None,
        progress: bool = False,
    ) -> PlanRun[list[Json]]:
        """Call one tool once for each item, outside `async with`; otherwise as `map`."""

        async def work() -> PlanRun[list[Json]]:
            async with self:
                return await self.map(
                    tool, items, params, min_ok=min_ok, concurrency=concurrency, progress=progress
                )

        self._refuse_inside("map_sync", "map")
        return run_to_end(work)

    async def do(
        self, goal: str, inputs: Mapping[str, object] | None = None, *, tools: Iterable[str] = ()
    ) -> PlanRun[Json]:
        """Run the plan that the model makes for a goal in words.

        Args:
            goal: The goal in words.
            inputs: Values that the plan may read.
            tools: Names of the tools and packs that the plan may use; all tools where there are
                none.

        Raises:
            WavewrightError: no model is configured, or there is no tool or pack of a name.
        """
        return await self._execute(
            RunRequest(
                resolved_job=unplanned_job(
                    self._settings, goal, inputs, listed_names(tools, "`tools`")
                )
            )
        )

    async def resume(
        self,
        run: RunIdLike,
        *,
        plan: LoadedPlan | None = None,
        tools: Iterable[UserFunction | Tool] = (),
    ) -> PlanRun[Json]:
        """Continue an interrupted run, or return one that has ended as it is.

        Args:
            run: The run's id.
            plan: As for `retry`.
            tools: As for `retry`.

        Raises:
            RunNotFound: the journal has no such run.
            RunIdRefused: the id can be none.
            FunctionsMissing: it calls functions that are not given.
        """
        known, events = await self._events_of(run)
        settings, state = self._settings_with(plan, tools), fold(events)
        if not state.has_ended:
            # What has ended stands, a failure too: see `Finished is finished` and `A failure stands`
            # of `docs/explanation/semantics.md`.
            _require_functions(state, settings, lambda step: _is_open(state.steps.get(step.id)))
        return await self._execute(RunRequest(run=known), settings=settings)

    async def retry(
        self,
        run: RunIdLike,
        *,
        from_: str | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002 - as the option `--set`
        again: Iterable[str] = (),
        failed: bool = False,
        plan: LoadedPlan | None = None,
        tools: Iterable[UserFunction | Tool] = (),
    ) -> PlanRun[Json]:
        """Repeat a run that has ended, as a new run: what succeeded and is unchanged is not called
        again; tools run with their present code.

        Args:
            run: The run's id.
            from_: This step and all that depend on it are called again.
            set: Inputs that replace those of the run.
            again: Steps that are called again although it is not known whether their writes took
                effect.
            failed: Whether only what failed is called, with what depends on it: what succeeded is
                kept also where the code of its tool has changed.
            plan: The plan that the run was made of, where `step` was given functions that this
                object does not have.
            tools: These functions, where there is no plan, as after `map`.

        Raises:
            FunctionsMissing: the run calls functions that are not given.
            RunNotFound: the journal has no such run.
            RetryRefused: the run has not ended, it has several targets, or it has no step of a
                name.
            DocumentError: an input has another type, or there is no place for it.
        """
        known, events = await self._events_of(run)
        settings = self._settings_with(plan, tools)
        # The plan of a retry is checked as a whole, also where all of it is reused.
        _require_functions(fold(events), settings, lambda _step: True)
        repeated = retry_of_run(
            known,
            events,
            start=from_,
            again=listed_names(again, "`again`"),
            only_failed=failed,
            inputs=InputOverrides(from_file=json_inputs(set)),
        )
        return await self._execute(RunRequest(retry=repeated), settings=settings)

    def _settings_with(
        self, plan: LoadedPlan | None, tools: Iterable[UserFunction | Tool]
    ) -> Settings:
        settings = self._settings if plan is None else plan.settings
        own = {name_of(tool): tool for tool in tools}
        others = (tool for tool in settings.functions if name_of(tool) not in own)
        return replace(settings, functions=(*others, *own.values()))

    async def cancel(self, run: RunIdLike, *, by: str | None = None) -> PlanRun[Json]:
        """End a run for good, also one that another task or process executes, and return it; one
        that is cancelled already stays as it is.

        Args:
            run: The run's id.
            by: Who wants it; by default the user of the process.

        Raises:
            RunNotFound: the journal has no such run.
            CancelRefused: it has come to another end, it is the run of a target, or its owner does
                not end it.
        """
        # Imported here: runs that are not cancelled need no job store.
        from wavewright.engine.service.cancelling import cancel_run

        known, _ = await self._events_of(run)
        request = CancelRequest(by or getpass.getuser(), time.time())
        await cancel_run(self._settings, known, request)
        state = fold(await self._open.journal.load(known))
        return PlanRun(state)

    async def _events_of(self, run: RunIdLike) -> tuple[RunId, list[Event]]:
        known = read_run_id(run)
        events = await self._open.journal.load(known)
        if not events:
            raise RunNotFound(f"there is no run {known!r}", hint=f"`{self._list_runs}` lists them")
        return known, events

    @property
    def _list_runs(self) -> str:
        """The command that lists the runs of this journal, wherever it is typed."""
        if self._settings.journal_url is not None:
            return "wavewright runs"  # an address may hold a password
        return f"WAVEWRIGHT_JOURNAL={shlex.quote(str(self._settings.journal))} wavewright runs"

    def stream(
        self,
        plan: PlanSource,
        *,
        run: RunName = None,
        after: int | None = None,
        if_exists: IfExists = "resume",
    ) -> RunStream:
        """Run a plan while its events are read: `async for event in ww.stream(plan)`.

        Args:
            plan: The plan, the file of one, or what such a file holds.
            run: The run's id, as for `run`.
            if_exists: As for `run`.
            after: How many of the run's events the reader has. Those that the journal has beyond
                are yielded first, of a run that has ended all of them; without it only new events
                are.
        """
        _ = self._open  # refused here, and not at the first event
        loaded, request = self._request(plan, run)
        return RunStream(
            lambda listen: self._execute(
                request, listen, after, settings=loaded.settings, if_exists=if_exists
            ),
            lambda: self._open.group,
        )

    @overload
    def run_sync(
        self,
        plan: PlanSource,
        *,
        result_type: type[R],
        run: RunName = None,
        if_exists: IfExists = "resume",
        progress: bool = False,
    ) -> PlanRun[R]: ...
    @overload
    def run_sync(
        self,
        plan: PlanSource,
        *,
        run: RunName = None,
        if_exists: IfExists = "resume",
        progress: bool = False,
    ) -> PlanRun[Json]: ...
    def run_sync(
        self,
        plan: PlanSource,
        *,
        result_type: type[R] | None = None,
        run: RunName = None,
        if_exists: IfExists = "resume",
        progress: bool = False,
    ) -> PlanRun[R] | PlanRun[Json]:
        """Run a plan to its end, outside `async with`; otherwise as `run`."""

        async def work() -> PlanRun[Json]:
            async with self:
                return await self.run(plan, run=run, if_exists=if_exists, progress=progress)

        self._refuse_inside("run_sync", "run")
        ended = run_to_end(work)
        return ended if result_type is None else _typed(ended, result_type)

    def plan_sync(self, goal: str | Path, inputs: Mapping[str, object] | None = None) -> LoadedPlan:
        """Return the plan that the model makes, outside `async with`; otherwise as `plan`."""
        self._refuse_inside("plan_sync", "plan")
        return run_to_end(lambda: self.plan(goal, inputs))

    def _refuse_inside(self, called: str, instead: str) -> None:
        """Refuse a call for plain programs where the journal is open: it would wait for the loop
        that waits for it.

        Raises:
            NotOpen: the caller is inside `async with`.
        """
        if self._opening_here() is not None:
            raise NotOpen(
                f"`{called}` is for plain programs, and this one is inside `async with`",
                f"write `await ww.{instead}(…)`",
            )

    @property
    def _open(self) -> Opened:
        opening = self._opening_here()
        if opening is None:
            raise NotOpen(
                "the journal is not open",
                "write `async with Wavewright(…) as ww:`, or call `run_sync`",
            )
        return opening.opened

    def _opening_here(self) -> Opening | None:
        """Return what is open in the event loop of the caller; None where nothing is."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        return self._openings.get(loop)

    def _request(self, plan: PlanSource, run: RunName) -> tuple[LoadedPlan, RunRequest]:
        loaded = plan if isinstance(plan, LoadedPlan) else self.load(plan)
        known = None if run is None else read_run_id(run)
        return loaded, RunRequest(resolved_job=loaded.job, run=known)

    def _plan_from(self, file: Path) -> LoadedPlan:
        return LoadedPlan(
            self._settings,
            file,
            can_ask=self._approve is not None,
            can_answer=self._ask is not None,
        )

    async def _execute(
        self,
        request: RunRequest,
        on_event: Callable[[Event], None] = ignore_event,
        after: int | None = None,
        *,
        settings: Settings | None = None,
        if_exists: IfExists = "resume",
    ) -> PlanRun[Json]:
        opened = self._open
        if if_exists not in get_args(IfExists):
            known = ", ".join(map(repr, get_args(IfExists)))
            raise RunExists(f"`if_exists` is {if_exists!r}", f"it is one of {known}")
        if request.run is not None:
            events = await opened.journal.load(request.run)
            state = fold(events)
            if state.started is not None:
                if if_exists == "fail":
                    raise RunExists(
                        f"the journal has a run {request.run!r}",
                        "another id begins another run; `if_exists` says what is wanted else",
                    )
                if request.resolved_job is not None:
                    require_same_job(state, request.resolved_job)
            for event in () if after is None else events[after:]:
                on_event(event)
            if state.has_ended or (state.started is not None and if_exists == "return"):
                return PlanRun(state, None, _published_package(state))
        ports = Ports(
            attempt=Attempt(journal=opened.journal, on_event=on_event),
            means=Means(settings=settings or self._settings, services=opened.services),
            people=People(
                approver=CallbackApprover(self._approve),
                asker=None if self._ask is None else CallbackAsker(self._ask),
                can_ask=self._approve is not None,
                can_answer=self._ask is not None,
                find_answer=opened.journal.find_left_answer,
            ),
            find_cancel_request=opened.journal.find_cancel_request,
            publish=withhold_package if self._settings.file is None else write_package_files,
        )
        run = request.run or new_run_id(ports.attempt.now())
        is_held = True
        try:
            with traced(ports) as ports:
                ended = await run_job(replace(request, run=run), ports)
        except RunBusy:
            is_held = False
            raise
        finally:
            # Also a run that was cancelled or refused before its first event can be opened again.
            if is_held:
                with anyio.CancelScope(shield=True):
                    await opened.journal.close_run(run)
        return PlanRun(ended.context.state, ended.halted, ended.context.package)


class FunctionsMissing(WavewrightError):
    """A run calls functions of a program, and whoever goes on with it has not given them."""

    exit_code = exit_codes.MISUSE


def _require_functions(
    state: RunState, settings: Settings, is_needed: Callable[[Step], bool]
) -> None:
    """Raise an error where steps that are needed call functions that nobody has given."""
    if state.started is None or state.plan is None:
        return
    missing = functions_elsewhere(state, settings, is_needed)
    if missing:
        raise FunctionsMissing(
            f"run {state.started.run!r} calls {join_names(missing)}, which its program gave to it",
            f"give the functions, `tools=[{', '.join(missing)}]`, or the plan that has them, `plan=`",
        )


def _is_open(end: StepFinished | None) -> bool:
    return end is None or end.status == "cancelled"


def _published_package(state: RunState) -> Package | None:
    """Return the package of a run that came to the end of its plan; None of one that was cancelled,
    or failed before: what there is of it is no result.
    """
    end = None if state.finished is None else state.finished.status
    return stored_package(state) if end in ("achieved", "not_achieved") else None


def _typed(run: PlanRun[Json], result_type: type[R]) -> PlanRun[R]:
    return PlanRun(run.state, run.halted, run.final_package, result_type)


class RunExists(WavewrightError):
    """The journal has a run of this id, and it is not the one that is meant."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


def require_same_job(state: RunState, job: ResolvedJob) -> None:
    """Raise an error where a run follows another plan than a program gives, or has other inputs.

    Else the old result would be taken for the new one, and a run that waits would go on with what
    nobody has asked for.

    Raises:
        RunExists: what is different.
    """
    assert state.started is not None
    goal = Goal.model_validate(state.started.goal)
    hint = "give this one an id of its own, or continue that one with: await ww.resume(id)"
    own_inputs = job.goal.model_dump(mode="json")["inputs"]
    their_inputs = goal.model_dump(mode="json")["inputs"]
    # In JSON `true` is not 1, which Python takes for equal.
    own, theirs = (
        {name: canonical_json(value) for name, value in inputs.items()}
        for inputs in (own_inputs, their_inputs)
    )
    if own != theirs:
        names = sorted(name for name in {*own, *theirs} if own.get(name) != theirs.get(name))
        listed = ", ".join(map(repr, names))
        differ = "differs" if len(names) == 1 else "differ"
        raise RunExists(f"run {state.started.run!r} has other inputs: {listed} {differ}", hint)
    given = None if job.draft is None else plan_hash(job.draft.plan)
    if given != _first_hash(state) or goal.text != job.goal.text:
        raise RunExists(f"run {state.started.run!r} is of another plan", hint)


def _first_hash(state: RunState) -> str | None:
    """Return the hash of the plan that a run was begun with; None where it had none."""
    assert state.started is not None
    for noted in state.notes:
        # The plan that is given is journaled with the start; what a planner makes comes later.
        if noted.topic == "draft" and noted.at == state.started.at:
            return plan_hash(Plan.model_validate(noted.body["plan"]))
    return None
