"""Runs a drawn case on the engine, part by part, and holds each part against the model."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import anyio

from tests.executor.execution_harness import VirtualClock
from tests.model.engine_plans import bound_plan
from tests.model.facts import (
    CACHE_SECONDS,
    Asked,
    Call,
    Ending,
    KeptResult,
    MadeCall,
    NotAllowedError,
    Outcome,
    Part,
    Past,
    Question,
    Shown,
)
from tests.model.fleet import GOAL, SteppedClock, on_fleet
from tests.model.interpreter import Interpreter
from tests.model.plans import (
    GATHER,
    TOOLS,
    BoundPlan,
    Chosen,
    ModelPlan,
    ModelStep,
    bound,
    descendants,
)
from wavewright.config.redaction import known_secrets_redactor
from wavewright.config.sources import Source
from wavewright.engine.interfaces.api.wavewright import RunExists, require_same_job
from wavewright.engine.run.context import PlannedContext, RunRequest
from wavewright.engine.run.decisions.approvals import (
    APPROVAL_GIVEN,
    APPROVAL_USED,
    APPROVAL_WANTED,
    approval_answer_note,
)
from wavewright.engine.run.decisions.step_questions import StepQuestions, take_answer
from wavewright.engine.run.execute_plan import changed_tools
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.ports import ApprovalRequest, Attempt, People
from wavewright.engine.run.read_job import steps_to_repeat
from wavewright.engine.run.recording import draft_note
from wavewright.executor.events.state import SUCCESSES, RunState, blocking_gate, fold
from wavewright.executor.events.types import (
    Event,
    ItemFinished,
    Noted,
    PlanAccepted,
    RunStarted,
    StepFinished,
)
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.rules import ReuseSource, RunSoFar, kept_items
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.journal import Journal, MemoryJournal
from wavewright.executor.store.transaction import Alongside
from wavewright.planner.language.hashing import plan_hash, step_key
from wavewright.planner.language.plan import (
    DISPATCHED_CALL,
    LIMITS_OF_OWN_PLANS,
    SUB_PLAN,
    Plan,
    PlanPatch,
)
from wavewright.planner.language.signatures import SUB_PLAN_SIGNATURE, ToolSignature
from wavewright.planner.plans.patches import check_patch
from wavewright.planner.types import Json, JsonObject, RunId, Schedule, StepId, StepKey, as_object
from wavewright.reviewer.gates.verifier import make_verifier
from wavewright.reviewer.review.results import ReviewedRun, read_result
from wavewright.tools.functions.dispatch import dispatch_tools
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool, ToolCall

_TIMEOUT = 5
_LIMITS = LIMITS_OF_OWN_PLANS
_ONE_AT_A_TIME = _LIMITS.model_copy(update={"concurrency": 1})
PartKind: TypeAlias = Literal["resume", "recover", "retry", "new"]
Answer: TypeAlias = Literal["approve", "refuse", "wait"]


@dataclass(frozen=True)
class DrawnPart:
    """One execution that is drawn: what it is, and what befalls it."""

    kind: PartKind = "resume"
    """Whether it resumes the last run, after a patch too, or begins one that retries it or that has
    nothing to do with it; the first part is always a new run.
    """
    stop_after: int | None = None
    """Events after which it is stopped; None where it comes to its end."""
    is_killed: bool = False
    """Whether its process dies then, or else it is cancelled."""
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    """What people say to the steps that need an approval; they approve where nothing is said."""
    left: Literal["nothing", "open", "stale"] = "nothing"
    """The question that a person has answered before it begins: that of the run, or another one."""
    is_approved: bool = True
    pause: int = 0
    """Seconds before it."""
    version: int = 1
    """Of the code of all tools."""
    unreadable: frozenset[str] = frozenset()
    named: str | None = None
    """The step that a retry begins at, or that a patch supersedes."""
    again: frozenset[str] = frozenset()
    only_failed: bool = False
    """Of a retry, and of a patch: only what failed is called."""
    takes_stored: bool = True
    """Whether it reuses results of other runs, as without `--no-cache`."""
    items: Mapping[str, tuple[int | Chosen, ...]] = field(
        default_factory=dict[str, tuple[int | Chosen, ...]]
    )
    """Other lists of items: of a retry, and of a plan that a program gives under a run's id."""


@dataclass(frozen=True)
class DrawnCase:
    """A plan, what its tools do in turn, and the parts in which it is executed."""

    plan: ModelPlan
    outcomes: tuple[Outcome, ...]
    """Of all calls, in the order in which they are made; then all are well."""
    parts: tuple[DrawnPart, ...]
    schedule: Schedule = "waves"


@dataclass
class World:
    """The tools and the people, and the log of what they were asked."""

    clock: VirtualClock | SteppedClock
    outcomes: list[Outcome]
    made: list[MadeCall] = field(default_factory=list[MadeCall])
    replies: list[tuple[Shown, bool | None]] = field(
        default_factory=list[tuple[Shown, bool | None]]
    )
    counts: Counter[tuple[str, int | None]] = field(default_factory=Counter[tuple[str, int | None]])

    async def call(self, request: ToolCall, *, part: DrawnPart) -> Json:
        """Do what is drawn for the next call."""
        x = request.params["x"]
        assert x is None or isinstance(x, int)
        outcome = self.outcomes.pop(0) if self.outcomes else "ok"
        rules = TOOLS[request.tool]
        if outcome == "null" and (rules.deterministic or rules.is_cached):
            outcome = "ok"
        made = MadeCall(request.step, request.index, request.tool, x, "cut", request.attempt)
        self.made.append(made)
        await self.clock.sleep(1)
        if outcome == "late":
            try:
                await self.clock.sleep(10 * _TIMEOUT)
            finally:
                made.outcome = "late"
        made.outcome = outcome
        if outcome == "misfit":
            return {}
        if outcome == "broken":
            raise TimeoutError
        if outcome not in ("ok", "null"):
            raise ToolError("as drawn", transient=outcome == "transient")
        self.counts[request.tool, x] += 1
        number = (x or 0) * 10
        if rules.is_cached:
            number += part.version
        elif not rules.deterministic:
            number += self.counts[request.tool, x]
        made.output = {"v": None if outcome == "null" else number}
        if request.tool in part.unreadable:
            made.output["w"] = 0
        return made.output

    def tools(self, part: DrawnPart, salt: str) -> dict[str, Tool]:
        """Return the tools with the code of a part."""
        tools = {SUB_PLAN: Tool(SUB_PLAN_SIGNATURE, _result_of_sub_plan)}
        for name, rules in TOOLS.items():
            signature = ToolSignature(
                name=name,
                description=f"version {part.version}",
                effects=frozenset({"write"} if rules.writes else {"read"}),
                idempotent=rules.idempotent,
                deterministic=rules.deterministic,
                cache_for=CACHE_SECONDS if rules.is_cached else None,
                version=f"{salt}{part.version}",
                output_schema={
                    "type": "object",
                    "required": ["v", "w"] if name in part.unreadable else ["v"],
                },
                timeout=_TIMEOUT,
            )
            call = partial(self.call, part=part)
            tools[name] = Tool(signature, call, takes_stored=part.takes_stored)
        return tools


@dataclass(frozen=True)
class _Person:
    """Says what is drawn for a part."""

    world: World
    part: DrawnPart

    async def approve(self, request: ApprovalRequest) -> bool | None:
        step = str(request.binding["step"])
        answer = self.part.answers.get(step.split(".", maxsplit=1)[0], "approve")
        reply = None if answer == "wait" else answer == "approve"
        shown = _shown(step, [call.params for call in request.calls])
        self.world.replies.append((shown, reply))
        return reply


def _draft(plan: Plan) -> PlanDraft:
    return PlanDraft(plan, PlanOrigin.with_plan_value(plan, None), "given")


def _accepted(plan: Plan, at: float, rung: str) -> PlanAccepted:
    document = plan.model_dump(mode="json", by_alias=True)
    return PlanAccepted(at, document, plan_hash(plan), rung)


async def _result_of_sub_plan(call: ToolCall) -> Json:
    return call.params["result"]


def _shown(step: str, calls: Sequence[JsonObject]) -> Shown:
    return Shown(step, tuple(map(_asked, calls)))


def _asked(params: JsonObject) -> Asked:
    """Return what parameters ask: of a tool, or of one that data chose."""
    if DISPATCHED_CALL in params:
        call = as_object(params[DISPATCHED_CALL])
        chosen = _asked(as_object(call["params"]))
        assert isinstance(chosen, int)
        return Chosen(str(call["tool"]), chosen)
    x = params["x"]
    return x if isinstance(x, int) else None


def _params(x: Asked) -> JsonObject:
    """Return the parameters that ask it."""
    if isinstance(x, Chosen):
        return {DISPATCHED_CALL: {"tool": x.tool, "params": {"x": x.x}}}
    return {"x": x}


# -- journals whose process dies


class Killed(Exception):
    """The process of a run has died."""


class _MortalJournal(Protocol):
    left: int | None
    """Events after which the process dies; None where it lives."""


def _count_down(journal: _MortalJournal, events: Sequence[Event]) -> None:
    if journal.left is not None:
        journal.left -= len(events)
        if journal.left < 0:
            raise Killed


class MortalMemory(MemoryJournal):
    """A journal in memory."""

    left: int | None = None

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        _count_down(self, events)
        return super().append(run, events, alongside)


class _MortalFile(SqliteJournal):
    left: int | None = None

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        _count_down(self, events)
        return super().append(run, events, alongside)


class _MortalDatabase(PostgresJournal):
    left: int | None = None

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        _count_down(self, events)
        return super().append(run, events, alongside)


AnyJournal: TypeAlias = MortalMemory | _MortalFile | _MortalDatabase


@asynccontextmanager
async def opened(place: MortalMemory | Path | str) -> AsyncGenerator[AnyJournal]:
    """Open the journal that is in memory, in a folder, or in the database of a URL."""
    if isinstance(place, MortalMemory):
        place.left = None
        yield place
        return
    # What was appended is on the disk; the next part opens it anew.
    if isinstance(place, Path):
        async with _MortalFile(place / "journal.db") as file:
            yield file
    else:
        async with _MortalDatabase(place) as database:
            yield database


# -- the runs of a case


@dataclass
class _Run:
    """A run, as the engine and as the model know it."""

    id: RunId
    part: DrawnPart
    """The part that began it."""
    written: ModelPlan
    """The plan that it was begun with."""
    plan: BoundPlan
    engine_plan: Plan
    now: float
    retried: _Run | None
    past: Past = field(default_factory=Past)
    state: RunState = field(default_factory=RunState)
    asked: list[Noted] = field(default_factory=list[Noted])
    endings: dict[str, Ending] = field(default_factory=dict[str, Ending])
    has_ended: bool = False
    """Whether its last part came to its end, and nobody is waited for."""

    @property
    def chain(self) -> list[_Run]:
        """The runs that it retries, the newest first."""
        return [] if self.retried is None else [self.retried, *self.retried.chain]


async def hold_against_model(
    case: DrawnCase,
    place: MortalMemory | Path | str | None = None,
    salt: str = "",
    fleet: str | None = None,
) -> None:
    """Execute a case and hold it against the model; in memory where no other place is given.

    Args:
        case: What is drawn.
        place: Where the journal is, as for `opened`.
        salt: Tells the runs of this case from those of others in the same database.
        fleet: The database in which a fleet takes the calls; they are made in turn then.

    Raises:
        NotAllowedError: the engine did what the model does not allow.
    """
    place = MortalMemory() if place is None else place
    world = World(VirtualClock() if fleet is None else SteppedClock(), list(case.outcomes))
    runs = list[_Run]()
    plan = case.plan
    for drawn in case.parts:
        world.clock.now += drawn.pause
        if not runs or drawn.kind in ("retry", "new"):
            last = runs[-1] if runs and drawn.kind == "retry" else None
            if last is not None:
                plan = _with_lists(plan, drawn)
            run_id = RunId(f"run-{salt}{len(runs)}")
            bound_model, engine_plan = bound(plan), bound_plan(plan)
            runs.append(_Run(run_id, drawn, plan, bound_model, engine_plan, world.clock.now, last))
        await _Session(case, drawn, world, runs, salt, fleet).execute_part(place)


@dataclass
class _Session:
    """One part of a case: it executes the last of the runs."""

    case: DrawnCase
    drawn: DrawnPart
    world: World
    runs: list[_Run]
    salt: str
    fleet: str | None

    @property
    def run(self) -> _Run:
        return self.runs[-1]

    async def execute_part(self, place: MortalMemory | Path | str) -> None:
        """Execute the part on the engine, and hold it against the model."""
        run, world = self.run, self.world
        made, replies, begins = len(world.made), len(world.replies), world.clock.now
        tools = world.tools(self.drawn, self.salt)
        async with opened(place) as journal:
            await journal.open_run(run.id)
            if run.state.run is None:
                await journal.append(run.id, self._beginning(tools))
            elif self.drawn.kind == "recover" and run.has_ended:
                await journal.append(run.id, self._patched())
            await self._leave_answer(journal)
            run.state = fold(await journal.load(run.id))
            self._give_another_plan()
            async with self._routed(tools) as routed:
                unions = dispatch_tools(_unions(run), routed)
                is_stopped = await self._executed(journal, run.engine_plan, {**routed, **unions})
            run.state = fold(await journal.load(run.id))
            await journal.close_run(run.id)
        said = world.replies[replies:]
        is_waiting = any(reply is None for _, reply in said)
        part = Part(
            made=world.made[made:],
            # A wave that waits for a person holds up the waves after it.
            is_complete=not is_stopped and not (is_waiting and self.case.schedule == "waves"),
            replies=said,
            begins=begins,
            now=run.now,
            version=self.drawn.version,
            unreadable=self.drawn.unreadable,
            kept=[kept for other in self.runs[:-1] for kept in _kept_results(other)]
            if self.drawn.takes_stored
            else (),
            chain=tuple((of.past, self._is_changed(of)) for of in run.chain),
            named=None if run.retried is None else run.part.named,
            again=frozenset() if run.retried is None else run.part.again,
        )
        run.has_ended = not is_stopped and not is_waiting
        result = self._result(run.engine_plan, tools) if run.has_ended else _NOT_ENDED
        _compare(run, part, result)

    @asynccontextmanager
    async def _routed(self, tools: Mapping[str, Tool]) -> AsyncGenerator[Mapping[str, Tool]]:
        if self.fleet is None:
            yield tools
        else:
            async with on_fleet(self.fleet, tools, self.world) as routed:
                yield routed

    def _is_changed(self, retried: _Run) -> bool:
        return not self.run.part.only_failed and retried.part.version != self.drawn.version

    def _beginning(self, tools: Mapping[str, Tool]) -> list[Event]:
        run, at = self.run, self.world.clock.now
        versions = {
            f"tool {name}": tool.signature.version
            for name, tool in {**tools, **dispatch_tools(_unions(run), tools)}.items()
        }
        goal = GOAL.model_dump(mode="json")
        started = RunStarted(run.id, at, "model", goal, run.now, versions)
        draft = draft_note(_draft(run.engine_plan), at)
        return [started, draft, _accepted(run.engine_plan, at, "given")]

    def _give_another_plan(self) -> None:
        """Hold that a program which gives a plan under the run's id is refused where it is another one,
        or has other inputs, whatever patches have made of the run's own.

        Raises:
            NotAllowedError: it is refused its own plan, or another one is taken for that.
        """
        own = bound_plan(self.run.written)
        other = bound_plan(_with_lists(self.run.written, self.drawn))
        inputs = GOAL.model_copy(update={"inputs": {"x": 1}})
        for goal, plan in ((GOAL, own), (GOAL, other), (inputs, own)):
            job = ResolvedJob(goal, _draft(plan), Source("", ""))
            is_own = goal == GOAL and plan_hash(plan) == plan_hash(own)
            try:
                require_same_job(self.run.state, job)
            except RunExists:
                is_taken = False
            else:
                is_taken = True
            if is_taken != is_own:
                raise NotAllowedError(
                    f"{self.run.id} takes or refuses {plan.steps} of {goal.inputs}"
                )

    def _patched(self) -> list[Event]:
        """Return the events of a patch that has the named step called again, and all that rests on
        it; none where a sub-plan would have to be.
        """
        run, at, state = self.run, self.world.clock.now, self.run.state
        finished = state.finished_steps()
        steps = {step.id: step for step in run.plan.steps}
        past = {step.supersedes for step in steps.values()}
        rest = descendants(run.plan.steps, {self.drawn.named or ""})
        stale = [name for name in steps if name in {self.drawn.named, *rest}]
        names = [name for name in stale if name in finished and name not in past]
        if self.drawn.named not in names or any(steps[name].tool == GATHER for name in names):
            return []
        target = names.index(self.drawn.named)
        names.insert(0, names.pop(target))
        is_only = self.drawn.only_failed and steps[names[0]].items is not None
        ops: list[Json] = []
        for name in names:
            only = "failed" if is_only and name == names[0] else None
            fields = {"id": f"{name}_2", "supersedes": name, "only": only}
            step = run.engine_plan.step(name).model_copy(update=fields)
            ops.append({"op": "add", "step": step.model_dump(mode="json", exclude_defaults=True)})
        base = plan_hash(run.engine_plan)
        patch = PlanPatch.model_validate({"base": base, "reason": "as drawn", "ops": ops})
        checked = check_patch(run.engine_plan, patch, finished=finished)
        assert checked.plan is not None, checked.diagnostics
        run.plan = run.plan.patched(names, finished, only_failed=is_only)
        run.engine_plan = checked.plan
        run.past.successors.update({name: f"{name}_2" for name in names})
        stopped = frozenset(name for name, ending in run.endings.items() if ending.is_stopped)
        run.past.corrects.update({f"{name}_2": stopped for name in names})
        run.past.stopped.update({name: run.endings[name] for name in stopped.intersection(names)})
        replies = run.past.replies.items()
        run.past.replies = {shown: reply for shown, reply in replies if shown.step in finished}
        return [_accepted(checked.plan, at, "patch"), *kept_items(checked.plan, state, at)]

    async def _leave_answer(self, journal: Journal) -> None:
        """Journal what a person has answered meanwhile, to the question of the run or to another."""
        run = self.run
        asked = [*run.past.questions]
        if self.drawn.left == "open" and asked:
            asked[-1].answer = self.drawn.is_approved
            await self._journal_answer(journal, run.asked[-1])
        elif self.drawn.left == "stale":
            others = [noted for other in self.runs[:-1] for noted in other.asked]
            for noted in [*others, *run.asked[:-1]][-1:]:
                await self._journal_answer(journal, noted)

    async def _journal_answer(self, journal: Journal, asked: Noted) -> None:
        choice = "approve" if self.drawn.is_approved else "refuse"
        body = approval_answer_note(asked, choice, "")
        await journal.append(self.run.id, [Noted(self.world.clock.now, APPROVAL_GIVEN, body)])

    async def _executed(self, journal: AnyJournal, plan: Plan, tools: Mapping[str, Tool]) -> bool:
        """Execute the plan; return whether it was stopped before its end."""
        drawn = self.drawn
        if drawn.stop_after is None:
            await self._execute(journal, plan, tools, None)
            return False
        if drawn.is_killed:
            journal.left = drawn.stop_after
            try:
                await self._execute(journal, plan, tools, None)
            except Killed:
                return True
            return False
        events = itertools.count(1)
        with anyio.CancelScope() as scope:

            def listen(_event: Event) -> None:
                if next(events) == drawn.stop_after:
                    scope.cancel()

            await self._execute(journal, plan, tools, listen)
        return scope.cancelled_caught

    async def _execute(
        self,
        journal: Journal,
        plan: Plan,
        tools: Mapping[str, Tool],
        listen: Callable[[Event], None] | None,
    ) -> None:
        """Do what the phase of a run does that executes its plan."""
        run, clock = self.run, self.world.clock
        attempt = Attempt(
            journal=journal, clock=lambda: dt.datetime.fromtimestamp(clock.wall(), dt.UTC)
        )
        people = People(approver=_Person(self.world, self.drawn))
        context = PlannedContext(RunRequest(), GOAL, state=run.state, plan=plan)
        state = (await take_answer(attempt, people, context)).state
        questions = StepQuestions(attempt, people, state, known_secrets_redactor(None))
        now = dt.datetime.fromtimestamp(run.now, dt.UTC)
        signatures = {name: tool.signature for name, tool in tools.items()}
        execution = Execution(
            plan,
            tools,
            run.id,
            now,
            journal=journal,
            ask=questions.ask,
            verify=make_verifier(plan, signatures, None, now),
            schedule=self.case.schedule,
            limits=_LIMITS if self.fleet is None else _ONE_AT_A_TIME,
            prior=state,
            donor=self._donor(tools),
            clock=clock,
            on_event=listen,
        )
        await execute(execution)

    def _donor(self, tools: Mapping[str, Tool]) -> ReuseSource | None:
        run, began = self.run, self.run.part
        if run.retried is None:
            return None
        named = None if began.named is None else StepId(began.named)
        anew = frozenset(steps_to_repeat(run.retried.state, named))
        again = frozenset(map(StepId, began.again))
        chain = tuple(
            RunSoFar(
                of.id,
                of.state,
                frozenset() if began.only_failed else changed_tools(of.state, tools),
            )
            for of in run.chain
        )
        return ReuseSource(chain, anew, again)

    def _result(self, plan: Plan, tools: Mapping[str, Tool]) -> Json:
        signatures = {name: tool.signature for name, tool in tools.items()}
        reviewed = ReviewedRun(plan, GOAL, self.run.state, signatures)
        return read_result(reviewed).value


def _unions(run: _Run) -> set[str]:
    """Return the tools that stand for those that data chooses from."""
    return {step.tool for step in run.plan.steps if step.tools}


def _kept_results(run: _Run) -> list[KeptResult]:
    """Return the results in a run's journal that its tools let other runs use."""
    steps = {step.id: step for step in run.plan.steps}
    kept = list[KeptResult]()
    items = [item for ended in run.state.items.values() for item in ended.values()]
    for record in (*run.state.steps.values(), *items, *run.state.undone.values()):
        step = steps[record.step]
        is_list = isinstance(record, StepFinished) and step.items is not None
        if step.tool == GATHER or is_list or not step.rules.is_cached:
            continue
        is_blocked = isinstance(record, StepFinished) and blocking_gate(record.gates) is not None
        if record.status == "ok" and isinstance(record.output, dict) and not is_blocked:
            own = as_object(record.output["output"]) if step.tools else record.output
            number = own["v"]
            assert isinstance(number, int)
            x, version = divmod(number, 10)
            asked = Chosen(str(record.output["tool"]), x) if step.tools else x
            kept.append(KeptResult(step.tool, asked, record.output, version, run.now, record.at))
    return kept


def _with_lists(plan: ModelPlan, drawn: DrawnPart) -> ModelPlan:
    def with_list(step: ModelStep) -> ModelStep:
        items = drawn.items.get(step.id)
        return step if items is None or step.items is None else replace(step, items=items)

    return replace(plan, steps=tuple(map(with_list, plan.steps)))


# -- the engine's journal against the model's endings

_NOT_ENDED: Json = ["the run has not ended"]


def _compare(run: _Run, part: Part, result: Json) -> None:
    """Hold a run's journal against the model; keep what is known now.

    Raises:
        NotAllowedError: they differ.
    """
    model = Interpreter(run.plan, run.past, part)
    expected = model.run()
    past = run.past
    known = replace(
        past,
        calls=dict(past.calls),
        made_at=dict(past.made_at),
        undone=dict(past.undone),
        lists=dict(past.lists),
        refused=past.refused | {call for call in model.refused if _is_refused(run, call)},
        begun=set(past.begun),
        replies={},
        questions=[],
    )
    for step in model.steps.values():
        real = _ending(run.state.steps.get(StepId(step.id)), step)
        if step.items is not None and real == Ending("unclear"):
            real = Ending("failed")
        _hold(step.id, real, expected.get(step.id), part, run.endings.get(step.id))
        if real is not None:
            run.endings[step.id] = real
        if step.items is not None and real is not None and _has_items(run, step):
            known.lists[step.id] = real._replace(is_stopped=False)
    for call, index in model.places.items():
        step = model.steps[call.step]
        record = _record_of(run, model, call, index)
        real = _ending(record, step)
        real = None if real is None else real._replace(is_stopped=False)
        before = past.calls.get(call) or model.kept(step, call)
        _hold(str(call), real, model.calls.get(call), part, before)
        if real is not None:
            if before is not None and before.kind == "success" != real.kind:
                known.undone[call] = before
            # An item that a patch kept is a call of the step before, and none of its own.
            if record is None or record.key in (None, *_keys(run, step, call)):
                known.calls[call] = real
            known.begun.discard(call)
            known.made_at[call] = _made_at(record)
            continue
        was_made = any((one.step, one.item) == (call.step, index) for one in part.made)
        if was_made or _is_announced(run, step, call):
            known.begun.add(call)
    if result is not _NOT_ENDED and result != model.result():
        raise NotAllowedError(f"the result is {result}, but should be {model.result()}")
    _keep_questions(run, known)
    run.past = known


def _record_of(
    run: _Run, model: Interpreter, call: Call, index: int | None
) -> StepFinished | ItemFinished | None:
    """Return the ending that the journal has of a call.

    None where its step or item came to no call, which is held with its step, or to one with other
    parameters: that is an ending of a part before.
    """
    record: StepFinished | ItemFinished | None = run.state.steps.get(StepId(call.step))
    if index is not None:
        items = run.state.items.get(StepId(call.step))
        record = None if items is None else items.get(index)
    if record is None or record.status in ("skipped", "blocked") or _is_uncomputed(record):
        return None
    older: ModelStep | None = model.steps[call.step]
    while older is not None:
        if record.key in (None, *_keys(run, older, call)):
            return record
        # Or an item of the step before that a patch kept.
        older = None if older.supersedes is None else model.steps[older.supersedes]
    return None


def _made_at(record: StepFinished | ItemFinished | None) -> float:
    """Return when a call ended that was made and succeeded; 0 for another."""
    return record.at if record is not None and record.status == "ok" else 0


def _is_refused(run: _Run, call: Call) -> bool:
    """Whether the journal has it that the step of a call was refused."""
    ended = run.state.steps.get(StepId(call.step))
    return ended is not None and ended.error is not None and ended.error.kind == "refused"


def _has_items(run: _Run, step: ModelStep) -> bool:
    """Whether a list came to its items: one of which nothing can be computed is tried again, as what
    it reads may have another outcome then.
    """
    ended = run.state.steps[StepId(step.id)]
    if ended.status == "failed":
        return ended.error is None or ended.error.kind != "expression"
    return ended.status in SUCCESSES


def _is_uncomputed(record: StepFinished | ItemFinished) -> bool:
    """Whether a step failed before its call: what it reads was not there."""
    return record.error is not None and record.error.kind == "expression"


def _is_announced(run: _Run, step: ModelStep, call: Call) -> bool:
    """Whether the journal has the start of a call, and not its end."""
    return any((StepId(step.id), key) in run.state.begun for key in _keys(run, step, call))


def _keys(run: _Run, step: ModelStep, call: Call) -> Iterator[StepKey]:
    """Yield the keys that the journal may have of a call as one of a step: those in the run, and in
    the runs that it retries.
    """
    params, name = _params(call.x), StepId(step.id)
    for of in (run, *run.chain):
        yield step_key(step.tool, params, config=None, run=of.id, step=name, nth=call.nth)


def _keep_questions(run: _Run, known: Past) -> None:
    """Keep what the journal has of questions and answers."""
    answers = [question.answer for question in run.past.questions]
    run.asked = [noted for noted in run.state.notes if noted.topic == APPROVAL_WANTED]
    for noted in run.state.notes:
        if noted.topic not in (APPROVAL_WANTED, APPROVAL_USED):
            continue
        binding, calls = noted.body["binding"], noted.body["calls"]
        assert isinstance(binding, dict)
        assert isinstance(calls, list)
        shown = _shown(str(binding["step"]), list(map(as_object, calls)))
        if noted.topic == APPROVAL_USED:
            known.replies[shown] = noted.body["approved"] is True
        else:
            known.questions.append(Question(shown, noted.at, answers.pop(0) if answers else None))


def _hold(
    what: str, real: Ending | None, expected: Ending | None, part: Part, before: Ending | None
) -> None:
    """Raise where an ending is not what it should be; one of `before` stands until it is reached."""
    # A step that waits for a person has not been reached, also where the rest has ended.
    is_reached = part.is_complete and expected is not None
    if real is not None and real != expected and (is_reached or real != before):
        raise NotAllowedError(f"{what} is {real}, but should be {expected}")
    if real is None and expected is not None and part.is_complete:
        raise NotAllowedError(f"{what} has not ended, but should be {expected}")


def _ending(record: StepFinished | ItemFinished | None, step: ModelStep) -> Ending | None:
    """Return an ending in the journal as one of the model."""
    if record is None:
        return None
    if record.status in SUCCESSES:
        gates = record.gates if isinstance(record, StepFinished) else ()
        return Ending("success", record.output, blocking_gate(gates) is not None)
    if record.status == "failed":
        error = record.error
        is_unclear = error is not None and (
            error.kind in ("interrupted", "timeout")
            or (error.kind == "output" and error.attempts > 0)
        )
        return Ending("unclear" if is_unclear and not step.rules.is_repeatable else "failed")
    if record.status == "skipped":
        return Ending("skipped")
    return Ending("blocked") if record.status == "blocked" else None
