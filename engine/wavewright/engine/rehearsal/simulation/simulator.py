"""Simulate a plan: run it over stubs, down every branch that can be reached.

Nothing is searched for. Every try starts from a scenario that is known, the happy path or one that
reaches the place in question, and changes one place of it: of an output that decides the branch, of
an input, or whether an optional step fails. So a scenario that is reported differs from the happy
path in little, and the same plan and seed give the same report.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from wavewright.config import Settings
from wavewright.engine.rehearsal.simulation.plan_reads import (
    Sources,
    embedded_expressions,
    plan_expressions,
    sources_of,
    sources_of_gates,
    step_expressions,
)
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
    run_steps,
    sources_of_branch,
)
from wavewright.engine.rehearsal.simulation.stub_outputs import StubOutputSource, read_fixtures
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.project.tools import (
    find_obstacles,
    signatures_to_check,
    tools_of_goal,
)
from wavewright.executor import RunState, StepFinished
from wavewright.planner import Json, PlanError, PlanGraph, Step, StepId, as_object, check, plan_hash
from wavewright.planner.checks.feasibility import check_readiness
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.language.plan import dispatched_tools
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.types import GateId

_MAX_FAILURES = 12
_MAX_FAILURES_PER_STEP = 3
_MAX_TRIES_OF_A_STEP = 60
"""Outputs of one step that are tried for what reads them."""
_MAX_TRIES_OF_A_BRANCH = 400


def simulate(
    order: ResolvedJob,
    settings: Settings,
    *,
    seed: int = 0,
    fixtures: Path | None = None,
    now: dt.datetime | None = None,
) -> SimulationReport:
    """Return what a job's plan does over stubs; no tool is called, no model asked, no file written.

    Args:
        order: The job with its plan.
        settings: The project's.
        seed: The same seed gives the same outputs.
        fixtures: File of outputs that take the place of generated ones.
        now: The instant of the runs, where the job has none; the start of this day where absent.

    Raises:
        PlanError: there is no plan, or it is not valid.
        DocumentError: the fixtures are faulty.
        NoStubOutput: no output can be made for a tool.
    """
    simulated = _simulated_plan(order, settings, now)
    stubs = {} if fixtures is None else read_fixtures(fixtures, simulated)
    outputs = StubOutputSource(simulated, seed, stubs)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_Simulation(simulated, outputs, seed).run())


def _simulated_plan(
    order: ResolvedJob, settings: Settings, now: dt.datetime | None
) -> SimulatedPlan:
    goal, draft = order.goal, order.require_draft()
    # No model is asked; the schedule is the job's.
    unmodelled = replace(settings, model=None, schedule=None)
    tools = tools_of_goal(goal, unmodelled)
    signatures = signatures_to_check(draft.plan, goal, settings)
    plan = bind_plan(draft.plan, goal)
    unready = check_readiness(plan, find_obstacles(plan, signatures, settings))
    diagnostics = draft.origin.place([*check(plan, goal, signatures), *unready])
    if error_diagnostics(diagnostics):
        raise PlanError(diagnostics, draft.origin.document.source)
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return SimulatedPlan(goal, draft, plan, tools, unmodelled, goal.as_of or now or today)


class _Trial(NamedTuple):
    """What one try of a scenario shows."""

    branches: frozenset[Branch] = frozenset()
    unsuccessful: frozenset[StepId] = frozenset()
    """Steps that failed, were held back or never began."""
    failed_gates: frozenset[GateId] = frozenset()

    @property
    def problems(self) -> tuple[int, int]:
        """How much of it does not go well: first of all steps without success count."""
        return len(self.unsuccessful), len(self.failed_gates)


class _Simulation:
    """One simulation, from the first try to the report."""

    def __init__(self, simulated: SimulatedPlan, outputs: StubOutputSource, seed: int) -> None:
        self._simulated = simulated
        self._plan = simulated.plan
        self._steps = {step.id: step for step in simulated.plan.steps}
        self._outputs = outputs
        self._seed = seed
        self._tries = 0
        self._met: dict[Branch, Scenario] = {}
        """By branch, the first scenario that took it, whatever it was tried for."""
        self._failures: dict[FailureKey, tuple[str, Scenario]] = {}
        """What failed over valid outputs, with the first scenario that showed it."""
        self._taken: set[Branch] = set()
        """By scenarios that are reported."""
        self._scenarios: list[ScenarioReport] = []
        self._approvals: dict[str, None] = {}
        self._reasons: dict[StepId, str] = {}
        """Why a step did not succeed, when it last did not."""

    async def run(self) -> SimulationReport:
        """Return the report."""
        happy = await self._happy_path()
        await self._run_scenario("happy path", happy)
        await self._try_small_outputs(happy)
        branches = tuple(dict.fromkeys(branches_of(self._plan, self._simulated.goal)))
        for branch in branches:
            has_recipe = self._has_recipe(branch)
            if branch.kind == "recipe" or (branch in self._taken and not has_recipe):
                continue
            scenario = await self._scenario_of(branch, happy)
            if scenario is not None:
                await self._run_scenario(str(branch), scenario)
                if has_recipe and scenario.inputs is None:
                    unhelped = replace(scenario, recovery_outputs=scenario.outputs)
                    await self._run_scenario(f"{branch} and recovery does not help", unhelped)
        failures = [await self._failure(key, happy) for key in self._reported_failures()]
        return self._report(branches, tuple(failures))

    # -- scenarios

    async def _try(self, scenario: Scenario) -> _Trial:
        """Return what a scenario shows; nothing where the plan is not valid for its inputs."""
        simulated = self._simulated.with_inputs(scenario.inputs)
        if simulated is None:
            return _Trial()
        self._tries += 1
        state = await run_steps(simulated, scenario)
        trial = _Trial(
            frozenset(branches_taken(state, simulated.plan, simulated.goal, simulated.now)),
            frozenset(name for name in self._steps if _is_unsuccessful(state.steps.get(name))),
            frozenset(
                record.gate
                for ended in state.steps.values()
                for record in ended.gates
                if record.has_failed and record.kind != "judge"
            ),
        )
        for branch in trial.branches:
            self._met.setdefault(branch, scenario)
        self._note_failures(state, scenario)
        return trial

    def _note_failures(self, state: RunState, scenario: Scenario) -> None:
        # What other inputs than the job's would break is no fault of its plan.
        if scenario.inputs is not None:
            return
        failures = failures_of(state, scenario.failing, self._plan, self._simulated.now)
        for key, message in failures.items():
            self._failures.setdefault(key, (message, scenario))

    async def _happy_path(self) -> Scenario:
        """Return the scenario in which every step succeeds and every gate passes, as far as one
        change at a time leads there.
        """
        plan, outputs = self._plan, self._outputs
        plausible = {step.id: outputs.plausible(step) for step in plan.steps}
        recipes = self._simulated.goal.recipes
        added = {step.tool for recipe in recipes for step in recipe.add}
        by_tool = {
            tool: outputs.plausible(Step.model_construct(id=StepId("added"), tool=tool))
            for tool in sorted(added & self._simulated.tools.keys())
        }
        for dispatch in plan.steps:
            for name in dispatched_tools(dispatch.tool):
                of_dispatch = map(as_object, plausible[dispatch.id])
                of_part = tuple(out["output"] for out in of_dispatch if out["tool"] == name)
                part = self._simulated.tools[dispatch.tool].parts[name]
                by_tool[name] = of_part or outputs.of_tool(part.signature)
        by_tool |= {step.tool: plausible[step.id] for step in plan.steps}
        happy = Scenario(plausible, plausible, by_tool)
        trial = await self._try(happy)
        for step in PlanGraph.of(plan).order():
            while (better := await self._better(step, happy, trial)) is not None:
                happy, trial = better
        happy = replace(happy, recovery_outputs=happy.outputs)
        # What the way there took by worse scenarios is taken by the happy path.
        self._met |= dict.fromkeys(trial.branches, happy)
        return happy

    async def _better(
        self, name: StepId, scenario: Scenario, trial: _Trial
    ) -> tuple[Scenario, _Trial] | None:
        """Return a scenario in which less goes wrong with a step and its gates; none where they
        succeed, or nothing helps.
        """
        failed = [
            gate for gate in self._plan.gates if gate.on == name and gate.id in trial.failed_gates
        ]
        if failed:
            sources = sources_of_gates(failed)
        elif name in trial.unsuccessful:
            sources = sources_of(step_expressions(self._steps[name]))
        else:
            return None
        for candidate in self._changes(sources._replace(reads_inputs=False), scenario):
            tried = await self._try(candidate)
            if tried.branches and tried.problems < trial.problems:
                return candidate, tried
        return None

    async def _try_small_outputs(self, happy: Scenario) -> None:
        """Try outputs that the steps, gates and the result which read them may not handle."""
        names = sources_of(plan_expressions(self._plan)).names
        for step in self._plan.steps:
            if step.id in self._outputs.shapes:
                await self._try(happy.with_outputs(step.id, self._outputs.minimal(step)))
                varied = self._outputs.variants(step, happy.outputs[step.id], names)
                for outputs in islice(varied, _MAX_TRIES_OF_A_STEP):
                    await self._try(happy.with_outputs(step.id, outputs))

    async def _scenario_of(self, branch: Branch, happy: Scenario) -> Scenario | None:
        """Return a scenario that takes a branch; none where no try took it."""
        sources = sources_of_branch(branch, self._plan)
        # The happy path may skip what the branch depends on.
        names = sources.steps if branch.kind in ("gate", "when") else (StepId(branch.name),)
        reached = (self._met.get(Branch("step", name, "ok"), happy) for name in names)
        start = max((happy, *reached), key=happy.distance)
        if branch.kind == "failure":
            start = replace(start, failing=frozenset({StepId(branch.name)}))
        # The start is a candidate, too: another step's scenario, or the failure itself.
        candidates = chain([start], self._changes(sources, start))
        for candidate in islice(candidates, _MAX_TRIES_OF_A_BRANCH):
            if branch in (await self._try(candidate)).branches:
                return candidate
        return self._met.get(branch)

    def _changes(self, sources: Sources, start: Scenario) -> Iterator[Scenario]:
        """Yield scenarios with one thing changed that the sources name."""
        steps = [self._steps[name] for name in sources.steps]
        for step in steps:
            names = sources.names | self._outputs.time_names(step)
            for outputs in self._outputs.variants(step, start.outputs[step.id], names):
                yield start.with_outputs(step.id, outputs)
            if step.optional:
                yield replace(start, failing=start.failing | {step.id})
        if len(steps) > 1:
            # What compares two outputs may ask for a change of both.
            minimal = {step.id: self._outputs.minimal(step) for step in steps}
            yield replace(start, outputs={**start.outputs, **minimal})
        if sources.reads_inputs:
            own = self._plan.inputs if start.inputs is None else start.inputs
            for inputs in self._outputs.input_variants(own, sources.names):
                yield replace(start, inputs=inputs)

    def _has_recipe(self, branch: Branch) -> bool:
        names = (branch.name, branch.name.partition("__")[0])
        recipes = self._simulated.goal.recipes
        return branch[::2] == ("gate", "failed") and any(recipe.gate in names for recipe in recipes)

    async def _run_scenario(self, name: str, scenario: Scenario) -> None:
        """Run the whole pipeline over a scenario and note what came of it."""
        inputs, own = scenario.inputs, self._plan.inputs
        used = own if inputs is None else inputs
        changed = tuple(key for key in {**own, **used} if own.get(key) != used.get(key))
        simulated = self._simulated.with_inputs(inputs)
        done = None if simulated is None else await run_pipeline(simulated, scenario)
        if simulated is None or done is None:
            self._scenarios.append(ScenarioReport(name, "refused", inputs=inputs, changed=changed))
            return
        context, approvals = done
        state, review = context.state, context.review
        self._taken.update(branches_taken(state, simulated.plan, simulated.goal, simulated.now))
        self._note_failures(state, scenario)
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

    def _reported_failures(self) -> Iterator[FailureKey]:
        """Yield the failures to report, by the plan's order; the result, which has no step, comes
        last.
        """
        places = {step.id: place for place, step in enumerate(self._plan.steps)} | {
            StepId(""): len(self._plan.steps)
        }
        # Steps that a recovery adds are not the plan's.
        keys = [key for key in self._failures if key.step in places]
        reported: Counter[StepId] = Counter()
        for key in sorted(keys, key=lambda key_: (places[key_.step], key_))[:_MAX_FAILURES]:
            reported[key.step] += 1
            is_declared = self._outputs.undeclared.isdisjoint(self._sources(key))
            if reported[key.step] <= (_MAX_FAILURES_PER_STEP if is_declared else 1):
                yield key

    async def _failure(self, key: FailureKey, happy: Scenario) -> FailureReport:
        message, scenario = self._failures[key]
        sources = self._sources(key)
        # An output of the happy path does not help: it is not to blame.
        changed = [name for name in sources if scenario.outputs[name] != happy.outputs[name]]
        shown: dict[StepId, Json] = {}
        for name in changed or sources:
            calls: list[Json] = [*scenario.outputs[name]]
            shown[name] = calls[0] if self._plan.step(name).for_each is None else calls
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
            tries=self._tries,
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
            if unsaid := self._open_inputs_before(step.id):
                is_fault = False
                why = f"nothing says what input {unsaid[0]} may be: give the goal an inputs_schema"
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

    def _open_inputs_before(self, step: StepId) -> list[str]:
        """Return the open inputs that a step, or one that it waits for, reads."""
        waited_for = PlanGraph.of(self._plan).ancestors(step)
        texts = [
            text for name in (step, *waited_for) for text in step_expressions(self._steps[name])
        ]
        sources = sources_of(texts)
        return sorted(self._outputs.open_inputs & sources.names) if sources.reads_inputs else []


def _is_unsuccessful(ended: StepFinished | None) -> bool:
    return ended is None or ended.status in ("failed", "blocked", "cancelled")
