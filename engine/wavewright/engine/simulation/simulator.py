"""Simulate a plan: run it for real, over stubs, down every branch that can be reached."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from wavewright.config.settings import Settings
from wavewright.engine.dry_run.outlook import find_obstacles
from wavewright.engine.jobs.errors import no_plan_error
from wavewright.engine.jobs.resolving import ResolvedJob
from wavewright.engine.project.tools import tools_of_goal
from wavewright.engine.simulation.failures import FailureKey, failures_of, shrink
from wavewright.engine.simulation.plan_analysis import Branch, branches_of, branches_taken, inputs_of_step
from wavewright.engine.simulation.report import (
    FailureReport,
    ScenarioReport,
    SimulationReport,
    UnreachedBranch,
)
from wavewright.engine.simulation.scenario_runs import (
    Scenario,
    SimulatedPlan,
    SimulatedRun,
    StubOutputs,
    VirtualTimeLoop,
    run_scenario,
)
from wavewright.engine.simulation.search import ScenarioSearch, SearchBounds
from wavewright.engine.simulation.stub_outputs import GivenOutputs, StubOutputSource, read_fixtures
from wavewright.planner.checks.checker import check
from wavewright.planner.checks.feasibility import check_readiness
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.uses import value_reads
from wavewright.planner.types import Json, StepId

__all__ = ["SearchBounds", "simulate"]

_HAPPY_PATH = "everything is well"
_MAX_FAILURES = 12
_MAX_FAILURES_PER_STEP = 3


def simulate(
    order: ResolvedJob,
    settings: Settings,
    *,
    seed: int = 0,
    fixtures: Path | None = None,
    now: dt.datetime | None = None,
    bounds: SearchBounds | None = None,
) -> SimulationReport:
    """Return what comes of running the order over stubs; no tool is called, no model asked, no file written.

    Args:
        order: The job with its plan.
        settings: The project's.
        seed: The same seed gives the same outputs.
        fixtures: File of outputs that take the place of generated ones.
        now: The instant that runs take for now, where the job does not say; the start of this day where absent.
        bounds: How long it goes on looking.

    Raises:
        PlanError: there is no plan, or it is not sound.
        DocumentError: the fixtures are faulty.
        NoAnswer: no output can be made for a tool.
    """
    stage = _simulated_plan(order, settings, now)
    given = GivenOutputs()
    if fixtures is not None:
        given = GivenOutputs(*read_fixtures(fixtures, stage.plan, stage.signatures))
    answers = StubOutputSource(stage, seed, given)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_Simulation(stage, answers, seed, bounds or SearchBounds()).run())


def _simulated_plan(order: ResolvedJob, settings: Settings, now: dt.datetime | None) -> SimulatedPlan:
    goal, draft = order.goal, order.draft
    if draft is None:
        raise no_plan_error(goal, order.source)
    # Without a model, for a simulation asks nobody; the schedule is the order's.
    unmodelled = replace(settings, model=None, schedule=None)
    tools = tools_of_goal(goal, unmodelled)
    plan = bind_plan(draft.plan, goal, tools.signatures)
    unready = check_readiness(plan, find_obstacles(plan, tools_of_goal(goal, settings).signatures, settings))
    found = draft.origin.place([*check(plan, goal, tools.signatures), *unready])
    if any(diagnostic.severity == "error" for diagnostic in found):
        raise PlanError(found, draft.origin.document.source)
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return SimulatedPlan(goal, draft, plan, tools, unmodelled, goal.as_of or now or today)


class _Simulation:
    """One simulation, from the first trial to the report."""

    def __init__(
        self, stage: SimulatedPlan, answers: StubOutputSource, seed: int, bounds: SearchBounds
    ) -> None:
        self._stage = stage
        self._answers = answers
        self._seed = seed
        self._search = ScenarioSearch(stage, answers, bounds)
        self._taken: set[Branch] = set()
        self._scenarios: list[ScenarioReport] = []
        self._approvals: dict[str, None] = {}
        self._last: dict[StepId, str] = {}
        """Why a step did not end well, when it last did not."""

    async def run(self) -> SimulationReport:
        """Return the report."""
        start = await self._search.find_happy_path()
        await self._run_scenario(_HAPPY_PATH, start)
        every = branches_of(self._stage.plan, self._stage.goal)
        for branch in every:
            if branch.kind == "recipe" or (branch in self._taken and not self._has_recipe(branch)):
                continue
            if self._search.is_over():
                break
            # A recipe that sets what another red gate's recipe sets as well is not seen to help.
            script = await self._search.find_scenario(branch, start, thorough=self._has_recipe(branch))
            if script is not None:
                await self._run_scenario(str(branch), script)
                if self._has_recipe(branch) and script.inputs is None:
                    await self._run_scenario(
                        f"{branch} and stays red", replace(script, recovery_outputs=script.outputs)
                    )
        await self._search.explore(start)
        mishaps = [await self._report_failure(key, script, start) for key, script in self._sorted_failures()]
        return self._report(every, tuple(mishaps))

    # -- scenarios

    def _has_recipe(self, branch: Branch) -> bool:
        if branch.kind != "gate" or branch.side != "red":
            return False
        return any(
            recipe.gate in (branch.name, branch.name.partition("__")[0])
            for recipe in self._stage.goal.recipes
        )

    async def _run_scenario(self, name: str, script: Scenario) -> None:
        stage = self._search.plan_for(script)
        done = None if stage is None else await run_scenario(stage, script)
        if stage is None or done is None:
            changed = _changed(self._stage.plan, script)
            self._scenarios.append(ScenarioReport(name, "refused", inputs=script.inputs, changed=changed))
            return
        state = done.context.state
        self._taken |= branches_taken(state, stage.plan, stage.goal, stage.now)
        if script.inputs is None:
            for mishap in failures_of(state, script.failing, stage.plan, stage.now):
                self._search.mishaps.setdefault(mishap, script)
        self._approvals |= dict.fromkeys(need for asked in done.approvals for need in asked.needs)
        self._note_reasons(done)
        self._scenarios.append(_scenario(name, done, script, self._stage.plan))

    def _note_reasons(self, done: SimulatedRun) -> None:
        for step, ending in done.context.state.steps.items():
            if ending.error is not None:
                self._last[step] = ending.error.message
            elif ending.status in ("failed", "blocked", "cancelled", "skipped"):
                # That its condition was false in a scenario is no news where it fails in another.
                self._last.setdefault(step, ending.reason or ending.status)

    # -- mishaps

    def _sorted_failures(self) -> list[tuple[FailureKey, Scenario]]:
        # Steps that a recovery adds are not the plan's; the result, which has no step, comes last.
        place = {step.id: number for number, step in enumerate(self._stage.plan.steps)}
        place[StepId("")] = len(place)
        found = [(key, script) for key, script in self._search.mishaps.items() if key.step in place]
        ordered = sorted(found, key=lambda one: (place[one[0].step], one[0]))
        counted: Counter[StepId] = Counter()
        kept: list[tuple[FailureKey, Scenario]] = []
        for key, script in ordered:
            counted[key.step] += 1
            sources = [self._stage.plan.step(name) for name in self._sources(key, self._stage.plan)]
            most = _MAX_FAILURES_PER_STEP if all(map(self._answers.declares_reads, sources)) else 1
            if counted[key.step] <= most:
                kept.append((key, script))
        return kept[:_MAX_FAILURES]

    async def _report_failure(self, key: FailureKey, script: Scenario, start: Scenario) -> FailureReport:
        plan = self._stage.plan
        sources = self._sources(key, plan)
        guilty: list[StepId] = []
        for source in sources:
            # What the start has there is well: where that does not help, the output is not to blame.
            innocent = script.with_outputs(source, start.outputs[source])
            if await self._happens(key, innocent):
                script = innocent
            else:
                guilty.append(source)
        shown: dict[StepId, Json] = {}
        for source in guilty or sources:
            script = await self._with_smallest_outputs(key, script, plan.step(source))
            shown[source] = _shown(plan.step(source), script.outputs[source])
        state = await self._search.try_scenario(script)
        assert state is not None
        message = failures_of(state, script.failing, plan, self._stage.now)[key]
        await self._run_scenario(_failure_name(key), script)
        open_ended = [
            plan.step(name).tool for name in shown if not self._answers.declares_reads(plan.step(name))
        ]
        why_not = ""
        if open_ended:
            why_not = f"{', '.join(dict.fromkeys(open_ended))} does not promise what is read here"
        elif key.gate:
            why_not = "a gate that cannot be asked is red"
        return FailureReport(key.step, key.kind, key.gate, message, shown, not why_not, why_not)

    def _sources(self, key: FailureKey, plan: Plan) -> tuple[StepId, ...]:
        """Return the steps whose outputs can bring a mishap about."""
        if key.kind == "result":
            return tuple(value_reads(plan.result))
        read = inputs_of_step(plan.step(key.step), plan).steps
        return tuple(dict.fromkeys((key.step, *read))) if key.gate else read

    async def _happens(self, key: FailureKey, script: Scenario) -> bool:
        state = await self._search.try_scenario(script)
        plan, now = self._stage.plan, self._stage.now
        return state is not None and key in failures_of(state, script.failing, plan, now)

    async def _with_smallest_outputs(self, key: FailureKey, script: Scenario, step: Step) -> Scenario:
        """Return the script with the smallest outputs of one step that still cause the mishap."""
        if self._answers.is_given(step):
            return script

        async def causes(outputs: StubOutputs) -> bool:
            return await self._happens(key, script.with_outputs(step.id, outputs))

        outputs = script.outputs[step.id]
        for alone in dict.fromkeys(range(len(outputs))) if len(outputs) > 1 else ():
            if await causes((outputs[alone],)):
                outputs = (outputs[alone],)
                break
        if len(outputs) == 1:

            async def still_happens(smaller: Json) -> bool:
                return self._answers.fits(step, smaller) and await causes((smaller,))

            outputs = (await shrink(outputs[0], still_happens),)
        return script.with_outputs(step.id, outputs)

    # -- the report

    def _report(self, every: Collection[Branch], mishaps: tuple[FailureReport, ...]) -> SimulationReport:
        stage = self._stage
        plan = stage.plan
        missed = [branch for branch in every if branch not in self._taken]
        return SimulationReport(
            job=stage.goal.job,
            plan_hash=plan_hash(plan),
            seed=self._seed,
            now=stage.now,
            tries=self._search.trials,
            stopped=self._search.was_cut,
            scenarios=tuple(self._scenarios),
            branches=len(every),
            reached=len(every) - len(missed),
            unreached=tuple(self._unreached(branch) for branch in missed if branch.kind != "gate"),
            always_passed=tuple(_missed_gates(missed, "red")),
            always_failed=tuple(_missed_gates(missed, "green")),
            unevaluated=tuple(gate.id for gate in plan.gates if gate.judge is not None),
            failures=mishaps,
            approvals=tuple(self._approvals),
            effects=tuple(self._effects()),
            fixtures=tuple(step.id for step in plan.steps if self._answers.is_given(step)),
            without_schema=tuple(step.id for step in plan.steps if not self._answers.declares_reads(step)),
        )

    def _unreached(self, branch: Branch) -> UnreachedBranch:
        why, is_fault = "", False
        if branch.kind == "step":
            step = self._stage.plan.step(branch.name)
            is_fault = not step.optional
            why = self._last.get(step.id, "")
        elif branch.kind == "failure":
            is_equal = self._scenarios[0].steps.get(StepId(branch.name)) == "reused"
            why = "an equal call is made before" if is_equal else ""
        elif branch.kind == "recipe" and not any(
            branch.name in (gate.id, gate.id.partition("__")[0]) for gate in self._stage.plan.gates
        ):
            why = "the plan has no such gate"
        return UnreachedBranch(branch.kind, branch.name, branch.side, str(branch), is_fault, why)

    def _effects(self) -> Iterator[tuple[StepId, str, str]]:
        for step in self._stage.plan.steps:
            effects = sorted(self._stage.tools[step.tool].signature.effects - {"read"})
            if effects:
                yield step.id, step.tool, ", ".join(effects)


def _failure_name(key: FailureKey) -> str:
    if key.gate:
        return f"gate {key.gate} cannot be asked"
    return f"{f'step {key.step} fails' if key.step else 'the result cannot be made'} over valid outputs"


def _missed_gates(missed: Collection[Branch], side: str) -> Iterator[str]:
    """Yield the gates that were seen on the other side only, or never; those that nobody asked are red nowhere."""
    yield from (branch.name for branch in missed if branch.kind == "gate" and branch.side == side)


def _shown(step: Step, outputs: StubOutputs) -> Json:
    return outputs[0] if step.for_each is None or len(outputs) == 1 else [*outputs]


def _changed(plan: Plan, script: Scenario) -> tuple[str, ...]:
    """Return the names of the inputs that a script has and the plan has not."""
    if script.inputs is None:
        return ()
    names = dict.fromkeys((*plan.inputs, *script.inputs))
    return tuple(
        name
        for name in names
        if name not in script.inputs or name not in plan.inputs or script.inputs[name] != plan.inputs[name]
    )


def _scenario(name: str, done: SimulatedRun, script: Scenario, plan: Plan) -> ScenarioReport:
    context = done.context
    state, review, package = context.state, context.review, context.package
    steps = {step: ending.status for step, ending in sorted(state.steps.items())}
    red = {record.gate: None for record in state.gates if record.has_failed and record.kind != "judge"}
    return ScenarioReport(
        name=name,
        verdict=package.status if package is not None else "failed",
        confidence=None if review is None else round(review.confidence, 2),
        rounds=state.round,
        steps={**steps},
        failed_gates=tuple(red),
        inputs=script.inputs,
        changed=_changed(plan, script),
        reason="" if review is None else review.summary,
    )
