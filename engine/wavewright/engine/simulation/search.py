"""Look for scripts that take a run down each of its branches.

The search is *directed*: it starts from a script in which all is well and changes what a branch depends on. Whatever
a trial shows beside that is kept as well, so that a branch that was met on the way is not looked for again. The
same seed makes the same trials, as long as the time allowed is enough for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from wavewright.engine.simulation.failures import FailureKey, failures_of
from wavewright.engine.simulation.plan_analysis import (
    Branch,
    BranchInputs,
    branches_taken,
    inputs_of_branch,
    inputs_of_step,
)
from wavewright.engine.simulation.scenario_runs import Scenario, SimulatedPlan, StubOutputs, run_steps
from wavewright.engine.simulation.stub_outputs import StubOutputSource
from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import gate_reads, value_reads
from wavewright.planner.types import JsonObject, StepId

DEFAULT_TRIES = 60
"""For one branch."""
_OTHER_INPUTS_PENALTY = 100_000
"""How ill it is to reach by other inputs than the job's what can be reached with its own."""
_FAILED_GATE_PENALTY = 50
_TRIES_FOR_BETTER = 25
"""For one branch, once a script takes it: with luck another takes it with less beside it."""
_TRIES_FOR_PASSED_GATES = 80
"""For one step whose gates are red, or that fails."""


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """How long a simulation goes on looking."""

    tries: int = DEFAULT_TRIES
    seconds: float = 60.0


class ScenarioSearch:
    """The trials of one simulation, and what they showed."""

    def __init__(self, stage: SimulatedPlan, answers: StubOutputSource, bounds: SearchBounds) -> None:
        self._stage = stage
        self._answers = answers
        self._bounds = bounds
        self._ends = time.monotonic() + bounds.seconds
        self._stages: dict[str, SimulatedPlan | None] = {}
        self._steps = {step.id: step for step in stage.plan.steps}
        self.trials = 0
        self.was_cut = False
        """Whether something was left untried because the time was up."""
        self.met: dict[Branch, tuple[int, Scenario]] = {}
        """By branch, the script that took it with the least beside it being ill, and how much that was."""
        self.mishaps: dict[FailureKey, Scenario] = {}
        """What went wrong although every output is valid, with the first script that showed it."""

    def is_over(self) -> bool:
        """Return whether the time is up; whoever asks has more to try, and leaves it then."""
        self.was_cut = self.was_cut or time.monotonic() > self._ends
        return self.was_cut

    def plan_for(self, script: Scenario) -> SimulatedPlan | None:
        """Return the stage for a script's inputs; none where the plan is not sound for them."""
        if script.inputs is None:
            return self._stage
        key = json.dumps(script.inputs, sort_keys=True)
        if key not in self._stages:
            self._stages[key] = self._stage.with_inputs(script.inputs)
        return self._stages[key]

    async def try_scenario(self, script: Scenario) -> RunState | None:
        """Return how the plan's steps end with a script; none where the plan is not sound for its inputs."""
        stage = self.plan_for(script)
        if stage is None:
            return None
        self.trials += 1
        state = await run_steps(stage, script)
        ill = self._total_penalty(state) + (_OTHER_INPUTS_PENALTY if script.inputs is not None else 0)
        for branch in branches_taken(state, stage.plan, stage.goal, stage.now):
            if branch not in self.met or ill < self.met[branch][0]:
                self.met[branch] = ill, script
        if script.inputs is None:
            # The job has the inputs that it has: what others would break is none of its faults.
            for mishap in failures_of(state, script.failing, stage.plan, stage.now):
                self.mishaps.setdefault(mishap, script)
        return state

    async def find_happy_path(self) -> Scenario:
        """Return a script in which as much as possible is well: steps end well, gates are green."""
        plausible = {step.id: self._answers.plausible(step) for step in self._stage.plan.steps}
        by_tool = {step.tool: plausible[step.id] for step in self._stage.plan.steps}
        by_tool |= {
            tool: self._answers.plausible(Step.model_construct(id=StepId("added"), tool=tool))
            for tool in sorted({step.tool for recipe in self._stage.goal.recipes for step in recipe.add})
            if tool in self._stage.tools
        }
        script = Scenario(plausible, plausible, by_tool)
        state = await self.try_scenario(script)
        assert state is not None
        for step_id in PlanGraph.of(self._stage.plan).order():
            script, state = await self._improve(self._steps[step_id], script, state)
        return replace(script, recovery_outputs=script.outputs)

    async def _improve(self, step: Step, script: Scenario, state: RunState) -> tuple[Scenario, RunState]:
        """Change what a step brings or reads until it is well, or as well as the tries get it."""
        concern = inputs_of_step(step, self._stage.plan)
        focus = concern.names | self._names_in_gates(step)
        own, others = [step], [self._steps[name] for name in concern.steps]
        for _ in range(_TRIES_FOR_PASSED_GATES):
            if not self._penalty(step, state) or self.is_over():
                break
            is_red = state.status(step.id) in SUCCESSES
            changed = self._answers.pick(own if is_red or not others else others)
            outputs = self._answers.varied(changed, script.outputs[changed.id], focus)
            if len(outputs) > 1 and is_red:
                outputs = (outputs[0],) * len(outputs)
            tried = script.with_outputs(changed.id, outputs)
            ended = await self.try_scenario(tried)
            if ended is not None and self._total_penalty(ended) < self._total_penalty(state):
                script, state = tried, ended
        return script, state

    def _names_in_gates(self, step: Step) -> frozenset[str]:
        gates = [gate for gate in self._stage.plan.gates if gate.on == step.id]
        concerns = [inputs_of_branch(Branch("gate", gate.id, "red"), self._stage.plan) for gate in gates]
        return frozenset(name for concern in concerns for name in concern.names)

    def _total_penalty(self, state: RunState) -> int:
        return sum(self._penalty(step, state) for step in self._steps.values())

    def _penalty(self, step: Step, state: RunState) -> int:
        """Return how far a step is from being well."""
        ending = state.steps.get(step.id)
        if ending is None or ending.status in ("failed", "blocked", "cancelled"):
            return 1000
        red = [record for record in ending.gates if record.has_failed and record.kind != "judge"]
        return sum(_FAILED_GATE_PENALTY if record.severity == "block" else 1 for record in red)

    async def find_scenario(
        self, branch: Branch, start: Scenario, *, thorough: bool = False
    ) -> Scenario | None:
        """Return a script that takes the branch; none where the tries did not meet one.

        A `thorough` search goes on longer for a script with nothing ill beside the branch.
        """
        more = 2 * self._bounds.tries if thorough else _TRIES_FOR_BETTER
        well = min(ill for ill, _ in self.met.values())
        for script in self._candidates(branch, self._start_for(branch, start)):
            if branch in self.met:
                more = more - 1 if self.met[branch][0] > well + _FAILED_GATE_PENALTY else 0
            if more <= 0 or self.is_over():
                break
            await self.try_scenario(script)
        found = self.met.get(branch)
        return None if found is None else await self._simplified(branch, found[1], start)

    async def _simplified(self, branch: Branch, script: Scenario, start: Scenario) -> Scenario:
        """Return the script with as much as possible as it is in the start."""
        for name in script.inputs or ():
            candidate = replace(script, inputs=self._with_job_input(script.inputs or {}, name))
            if candidate != script and await self._takes_branch(branch, candidate):
                script = candidate
        for name, outputs in start.outputs.items():
            candidate = script.with_outputs(name, outputs)
            if script.outputs[name] != outputs and await self._takes_branch(branch, candidate):
                script = candidate
        return script

    def _with_job_input(self, inputs: JsonObject, name: str) -> JsonObject | None:
        """Return inputs with one of them as the job has it; none where all are then."""
        own = self._stage.plan.inputs
        simpler = {key: value for key, value in inputs.items() if key != name}
        if name in own:
            simpler = {**simpler, name: own[name]}
        return None if simpler == own else simpler

    async def _takes_branch(self, branch: Branch, script: Scenario) -> bool:
        state = await self.try_scenario(script)
        stage = self.plan_for(script)
        return (
            state is not None
            and stage is not None
            and branch in branches_taken(state, stage.plan, stage.goal, stage.now)
        )

    def _start_for(self, branch: Branch, start: Scenario) -> Scenario:
        """Return a script in which what the branch depends on runs at all: the start may skip it."""
        names: tuple[str, ...] = (branch.name,)
        if branch.kind in ("gate", "when"):
            names = inputs_of_branch(branch, self._stage.plan).steps
        found = [self.met[key] for name in names if (key := Branch("step", name, "ok")) in self.met]
        # The step that is hardest to reach decides; what the start reaches was met with it.
        return max(found, key=lambda one: one[0])[1] if found else start

    async def explore(self, start: Scenario) -> None:
        """Give the readers of outputs what they may not be prepared for."""
        plan = self._stage.plan
        read = {name for step in plan.steps for name in inputs_of_step(step, plan).steps}
        read |= value_reads(plan.result) | {name for gate in plan.gates for name in gate_reads(gate)}
        read |= {gate.on for gate in plan.gates if gate.on is not None}
        sources = [step for step in plan.steps if step.id in read]
        focus = frozenset(name for step in plan.steps for name in inputs_of_step(step, plan).names)
        for step in sources:
            if self.is_over():
                return
            await self.try_scenario(start.with_outputs(step.id, self._answers.minimal(step)))
        for _ in range(self._bounds.tries if sources else 0):
            if self.is_over():
                return
            step = self._answers.pick(sources)
            outputs = self._answers.varied(step, start.outputs[step.id], focus)
            await self.try_scenario(start.with_outputs(step.id, outputs))

    def _candidates(self, branch: Branch, start: Scenario) -> Iterator[Scenario]:
        plan = self._stage.plan
        if branch.kind == "failure":
            # Where it makes the same call as another step, it fails only with other parameters.
            start = replace(start, failing=frozenset({StepId(branch.name)}))
            yield start
        concern = inputs_of_branch(branch, plan)
        for name in concern.steps if branch.kind == "gate" else ():
            for outputs in self._answers.with_every_age(self._steps[name], start.outputs[name]):
                yield start.with_outputs(name, outputs)
        yield from self._sized(concern, start)
        for _ in range(self._bounds.tries):
            yield self._changed(concern, start)

    def _sized(self, concern: BranchInputs, start: Scenario) -> Iterator[Scenario]:
        """Yield the start with lists of none, one and several entries where the branch looks."""
        inputs = start.inputs or self._stage.plan.inputs
        for size in (0, 1, 3):
            resized = _resized(inputs, concern.names, size)
            if concern.reads_inputs and self._answers.takes_inputs(resized):
                yield replace(start, inputs=resized)
            outputs = dict(start.outputs)
            for name in concern.steps:
                outputs[name] = self._answers.plausible(self._steps[name], size=size)
                yield start.with_outputs(name, outputs[name])
            if len(concern.steps) > 1:
                yield replace(start, outputs=outputs)
        if concern.steps:
            bare = {name: self._answers.minimal(self._steps[name]) for name in concern.steps}
            yield replace(start, outputs={**start.outputs, **bare})

    def _changed(self, concern: BranchInputs, start: Scenario) -> Scenario:
        """Return the start with something changed that the concern names."""
        script = start
        answers = self._answers
        for name in concern.steps:
            step = self._steps[name]
            if step.optional and answers.random() < 0.2:
                script = replace(script, failing=script.failing | {name})
            elif len(concern.steps) == 1 or answers.random() < 0.6:
                outputs = answers.varied(step, script.outputs[name], concern.names)
                # An `all(…)` over a fan-out turns when every call does.
                outputs = outputs if answers.random() < 0.5 else _all_same(outputs)
                script = script.with_outputs(name, outputs)
        if concern.reads_inputs and (not concern.steps or answers.random() < 0.5):
            inputs = script.inputs or self._stage.plan.inputs
            script = replace(script, inputs=answers.varied_inputs(inputs, concern.names))
        return script


def _all_same(outputs: StubOutputs) -> StubOutputs:
    return (outputs[0],) * len(outputs)


def _resized(inputs: JsonObject, names: frozenset[str], size: int) -> JsonObject:
    """Return inputs whose named lists have so many entries, as far as there are that many."""
    return {
        name: value[:size] if isinstance(value, list) and name in names else value
        for name, value in inputs.items()
    }
