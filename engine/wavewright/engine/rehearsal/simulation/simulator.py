"""Simulate a plan: run it over stubs, down every branch that can be reached."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

from wavewright.config.settings import Settings
from wavewright.engine.rehearsal.simulation.plan_reads import embedded_expressions, sources_of
from wavewright.engine.rehearsal.simulation.report import (
    FailureReport,
    ScenarioReport,
    SimulationReport,
    StepEffects,
    UnreachedBranch,
)
from wavewright.engine.rehearsal.simulation.scenarios import (
    Branch,
    FailureKey,
    Scenario,
    SimulatedPlan,
    VirtualTimeLoop,
    branches_of,
    branches_taken,
    failures_of,
    run_pipeline,
    sources_of_branch,
)
from wavewright.engine.rehearsal.simulation.search import ScenarioSearch, SearchBounds, shrink
from wavewright.engine.rehearsal.simulation.stub_outputs import StubOutputSource, read_fixtures
from wavewright.engine.run.jobs.documents import no_plan_error
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.project.tools import find_obstacles, tools_of_goal
from wavewright.planner.checks.checker import check
from wavewright.planner.checks.feasibility import check_readiness
from wavewright.planner.diagnostics.diagnostic import PlanError, error_diagnostics
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.types import Json, StepId, as_list

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
    """Return what a job's plan does over stubs; no tool is called, no model asked, no file written.

    Args:
        order: The job with its plan.
        settings: The project's.
        seed: The same seed gives the same outputs.
        fixtures: File of outputs that take the place of generated ones.
        now: The instant of the runs, where the job has none; the start of this day where absent.
        bounds: How long it goes on searching.

    Raises:
        PlanError: there is no plan, or it is not valid.
        DocumentError: the fixtures are faulty.
        NoStubOutput: no output can be made for a tool.
    """
    simulated = _simulated_plan(order, settings, now)
    stubs = {} if fixtures is None else read_fixtures(fixtures, simulated)
    outputs = StubOutputSource(simulated, seed, stubs)
    search = ScenarioSearch(simulated, outputs, seed, bounds or SearchBounds())
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_Simulation(search, seed).run())


def _simulated_plan(
    order: ResolvedJob, settings: Settings, now: dt.datetime | None
) -> SimulatedPlan:
    goal, draft = order.goal, order.draft
    if draft is None:
        raise no_plan_error(goal, order.source)
    # No model is asked; the schedule is the job's.
    unmodelled = replace(settings, model=None, schedule=None)
    tools = tools_of_goal(goal, unmodelled)
    signatures = {name: tool.signature for name, tool in tools.items()}
    plan = bind_plan(draft.plan, goal, signatures)
    unready = check_readiness(
        plan, find_obstacles(plan, tools_of_goal(goal, settings).signatures, settings)
    )
    diagnostics = draft.origin.place([*check(plan, goal, signatures), *unready])
    if error_diagnostics(diagnostics):
        raise PlanError(diagnostics, draft.origin.document.source)
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return SimulatedPlan(goal, draft, plan, tools, unmodelled, goal.as_of or now or today)


class _Simulation:
    """One simulation, from the first try to the report."""

    def __init__(self, search: ScenarioSearch, seed: int) -> None:
        self._search = search
        self._simulated = search.simulated
        self._plan = search.simulated.plan
        self._outputs = search.outputs
        self._seed = seed
        self._taken: set[Branch] = set()
        self._scenarios: list[ScenarioReport] = []
        self._approvals: dict[str, None] = {}
        self._reasons: dict[StepId, str] = {}
        """Why a step did not succeed, when it last did not."""

    async def run(self) -> SimulationReport:
        """Return the report."""
        happy = await self._search.find_happy_path()
        await self._run_scenario("happy path", happy)
        branches = tuple(dict.fromkeys(branches_of(self._plan, self._simulated.goal)))
        for branch in branches:
            has_recipe = self._has_recipe(branch)
            if branch.kind == "recipe" or (branch in self._taken and not has_recipe):
                continue
            if self._search.is_over():
                break
            scenario = await self._search.find(branch, happy)
            if scenario is not None:
                await self._run_scenario(str(branch), scenario)
                if has_recipe and scenario.inputs is None:
                    unhelped = replace(scenario, recovery_outputs=scenario.outputs)
                    await self._run_scenario(f"{branch} and recovery does not help", unhelped)
        await self._search.explore(happy)
        failures = [
            await self._failure(key, scenario, happy) for key, scenario in self._found_failures()
        ]
        return self._report(branches, tuple(failures))

    def _has_recipe(self, branch: Branch) -> bool:
        names = (branch.name, branch.name.partition("__")[0])
        recipes = self._simulated.goal.recipes
        return branch[::2] == ("gate", "failed") and any(recipe.gate in names for recipe in recipes)

    async def _run_scenario(self, name: str, scenario: Scenario) -> None:
        """Run the whole pipeline over a scenario and note what came of it."""
        inputs, own = scenario.inputs, self._plan.inputs
        given = own if inputs is None else inputs
        changed = tuple(key for key in {**own, **given} if own.get(key) != given.get(key))
        simulated = self._simulated.with_inputs(inputs)
        done = None if simulated is None else await run_pipeline(simulated, scenario)
        if simulated is None or done is None:
            self._scenarios.append(ScenarioReport(name, "refused", inputs=inputs, changed=changed))
            return
        context, approvals = done
        state, review = context.state, context.review
        self._taken.update(branches_taken(state, simulated.plan, simulated.goal, simulated.now))
        if inputs is None:
            for key in failures_of(state, scenario.failing, simulated.plan, simulated.now):
                self._search.failures.setdefault(key, scenario)
        self._approvals |= dict.fromkeys(need for asked in approvals for need in asked.needs)
        for step, ended in state.steps.items():
            if ended.error is not None:
                self._reasons[step] = ended.error.message
            elif ended.status in ("failed", "blocked", "cancelled", "skipped"):
                self._reasons.setdefault(step, ended.reason or ended.status)
        failed = [
            record.gate for record in state.gates if record.has_failed and record.kind != "judge"
        ]
        self._scenarios.append(
            ScenarioReport(
                name=name,
                verdict="failed" if context.package is None else context.package.status,
                confidence=None if review is None else round(review.confidence, 2),
                rounds=state.round,
                steps={step: ended.status for step, ended in sorted(state.steps.items())},
                failed_gates=tuple(dict.fromkeys(failed)),
                inputs=inputs,
                changed=changed,
                reason="" if review is None else review.summary,
            )
        )

    # -- failures over valid outputs

    def _found_failures(self) -> Iterator[tuple[FailureKey, Scenario]]:
        """Yield the failures to report, by the plan's order; the result, which has no step, comes
        last.
        """
        places = {step.id: place for place, step in enumerate(self._plan.steps)} | {
            StepId(""): len(self._plan.steps)
        }
        # Steps that a recovery adds are not the plan's.
        keys = [key for key in self._search.failures if key.step in places]
        reported: Counter[StepId] = Counter()
        for key in sorted(keys, key=lambda key_: (places[key_.step], key_))[:_MAX_FAILURES]:
            reported[key.step] += 1
            is_declared = self._outputs.undeclared.isdisjoint(self._sources(key))
            if reported[key.step] <= (_MAX_FAILURES_PER_STEP if is_declared else 1):
                yield key, self._search.failures[key]

    async def _failure(self, key: FailureKey, scenario: Scenario, happy: Scenario) -> FailureReport:
        async def shows(candidate: Scenario) -> bool:
            return key in (await self._search.attempt(candidate)).failures

        scenario = await self._search.simplify(scenario, happy, shows)
        sources = self._sources(key)
        # An output of the happy path that is left does not help: it is not to blame.
        changed = [name for name in sources if scenario.outputs[name] != happy.outputs[name]]
        shown: dict[StepId, Json] = {}
        for name in changed or sources:
            scenario = await self._with_smallest_output(name, scenario, shows)
            calls: list[Json] = [*scenario.outputs[name]]
            shown[name] = calls[0] if self._plan.step(name).for_each is None else calls
        message = (await self._search.attempt(scenario)).failures[key]
        what = f"step {key.step} fails" if key.step else "the result cannot be made"
        title = f"gate {key.gate} cannot be evaluated" if key.gate else f"{what} over valid outputs"
        await self._run_scenario(title, scenario)
        undeclared = [
            self._plan.step(name).tool for name in shown if name in self._outputs.undeclared
        ]
        why_not = "a gate that cannot be evaluated fails" if key.gate else ""
        if undeclared:
            why_not = f"the schema of {', '.join(dict.fromkeys(undeclared))} does not say what is read here"
        return FailureReport(
            key.step or None, key.kind, key.gate or None, message, shown, not why_not, why_not
        )

    def _sources(self, key: FailureKey) -> tuple[StepId, ...]:
        """Return the steps whose outputs can cause a failure."""
        if key.kind == "result":
            return sources_of(embedded_expressions(self._plan.result)).steps
        branch = Branch("gate", key.gate, "failed") if key.gate else Branch("step", key.step, "ok")
        return sources_of_branch(branch, self._plan).steps

    async def _with_smallest_output(
        self, name: StepId, scenario: Scenario, shows: Callable[[Scenario], Awaitable[bool]]
    ) -> Scenario:
        """Return the scenario with the fewest and smallest outputs of a step that still cause the
        failure.
        """
        step = self._plan.step(name)

        async def still_fails(smaller: Json) -> bool:
            outputs = tuple(as_list(smaller))
            fits = bool(outputs) and all(self._outputs.fits(step, output) for output in outputs)
            return fits and await shows(scenario.with_outputs(name, outputs))

        if name in self._outputs.fixtures:
            return scenario
        smallest = await shrink([*scenario.outputs[name]], still_fails)
        return scenario.with_outputs(name, tuple(as_list(smallest)))

    # -- the report

    def _report(
        self, branches: tuple[Branch, ...], failures: tuple[FailureReport, ...]
    ) -> SimulationReport:
        plan = self._plan
        missed = [branch for branch in branches if branch not in self._taken]
        return SimulationReport(
            job=self._simulated.goal.job,
            plan_hash=plan_hash(plan),
            seed=self._seed,
            now=self._simulated.now,
            tries=self._search.tries,
            stopped=self._search.was_cut,
            scenarios=tuple(self._scenarios),
            branches=len(branches),
            reached=len(branches) - len(missed),
            unreached=tuple(self._unreached(branch) for branch in missed if branch.kind != "gate"),
            always_passed=tuple(
                branch.name for branch in missed if branch[::2] == ("gate", "failed")
            ),
            always_failed=tuple(
                branch.name for branch in missed if branch[::2] == ("gate", "passed")
            ),
            unevaluated=tuple(gate.id for gate in plan.gates if gate.judge is not None),
            failures=failures,
            approvals=tuple(self._approvals),
            effects=tuple(
                StepEffects(step.id, step.tool, ", ".join(effects))
                for step in plan.steps
                if (
                    effects := sorted(self._simulated.tools[step.tool].signature.effects - {"read"})
                )
            ),
            fixtures=tuple(step.id for step in plan.steps if step.id in self._outputs.fixtures),
            undeclared=tuple(step.id for step in plan.steps if step.id in self._outputs.undeclared),
        )

    def _unreached(self, branch: Branch) -> UnreachedBranch:
        is_fault, why = False, ""
        if branch.kind == "step":
            step = self._plan.step(branch.name)
            is_fault, why = not step.optional, self._reasons.get(step.id, "")
        elif (
            branch.kind == "failure"
            and self._scenarios[0].steps.get(StepId(branch.name)) == "reused"
        ):
            why = "an equal call is made before"
        elif branch.kind == "recipe":
            gates = {
                name for gate in self._plan.gates for name in (gate.id, gate.id.partition("__")[0])
            }
            why = "" if branch.name in gates else "the plan has no such gate"
        return UnreachedBranch(branch.kind, branch.name, branch.side, str(branch), is_fault, why)
