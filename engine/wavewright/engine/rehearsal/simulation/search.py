"""Find scenarios that take a run down each of its branches.

The search starts from the happy path and changes what a branch depends on. Whatever a try shows
beside that is kept as well, so that a branch that was met on the way is not looked for again. The
same seed makes the same tries, as long as the time allowed is enough for them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from wavewright.engine.rehearsal.simulation.plan_reads import (
    Sources,
    plan_expressions,
    sources_of,
    sources_of_gates,
    step_expressions,
)
from wavewright.engine.rehearsal.simulation.scenarios import (
    Branch,
    FailureKey,
    Scenario,
    SimulatedPlan,
    branches_taken,
    failures_of,
    run_steps,
    sources_of_branch,
)
from wavewright.engine.rehearsal.simulation.stub_outputs import StubOutputSource
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import GateRecord, StepFinished
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import GateId, Json, StepId

_OTHER_INPUTS_PENALTY = 100_000
"""What the job's own inputs reach is not looked for with others."""
_FAILED_STEP_PENALTY = 1000
_FAILED_GATE_PENALTY = 50
_TRIES_FOR_HAPPY_STEP = 80
_MAX_SHRINKS = 250


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """How long a simulation goes on searching."""

    tries: int = 60
    """For one branch."""
    seconds: float = 60.0


class Trial(NamedTuple):
    """What one try of a scenario showed."""

    branches: frozenset[Branch] = frozenset()
    failures: Mapping[FailureKey, str] = {}
    penalties: Mapping[StepId, int] = {}
    """How far each step is from success with all its gates passed."""
    failed_gates: frozenset[GateId] = frozenset()

    @property
    def penalty(self) -> int:
        """How much fails in it."""
        return sum(self.penalties.values())


class ScenarioSearch:
    """Tries scenarios, and keeps what they showed."""

    def __init__(
        self, simulated: SimulatedPlan, outputs: StubOutputSource, seed: int, bounds: SearchBounds
    ) -> None:
        self.simulated = simulated
        self.outputs = outputs
        self.tries = 0
        self.was_cut = False
        """Whether something was left untried because the time was up."""
        self.best: dict[Branch, tuple[int, Scenario]] = {}
        """By branch, the scenario that took it with the least penalty."""
        self.failures: dict[FailureKey, Scenario] = {}
        """What failed over valid outputs, with the first scenario that showed it."""
        self._random = random.Random(f"search {seed}")  # noqa: S311 - repeatable, not secret
        self._bounds = bounds
        self._deadline = time.monotonic() + bounds.seconds
        self._steps = {step.id: step for step in simulated.plan.steps}

    def is_over(self) -> bool:
        """Return whether the time is up; a caller has more to try, and leaves it then."""
        self.was_cut = self.was_cut or time.monotonic() > self._deadline
        return self.was_cut

    async def attempt(self, scenario: Scenario) -> Trial:
        """Return what a scenario shows; nothing where the plan is not valid for its inputs."""
        simulated = self.simulated.with_inputs(scenario.inputs)
        if simulated is None:
            return Trial()
        self.tries += 1
        state = await run_steps(simulated, scenario)
        plan, now, own_inputs = simulated.plan, simulated.now, scenario.inputs is None
        trial = Trial(
            frozenset(branches_taken(state, plan, simulated.goal, now)),
            # What other inputs than the job's would break is no fault of its plan.
            failures_of(state, scenario.failing, plan, now) if own_inputs else {},
            {step: _penalty(step, state) for step in self._steps},
            frozenset(
                record.gate for ended in state.steps.values() for record in _failed_gates(ended)
            ),
        )
        penalty = trial.penalty + (0 if own_inputs else _OTHER_INPUTS_PENALTY)
        for branch in trial.branches:
            if branch not in self.best or penalty < self.best[branch][0]:
                self.best[branch] = penalty, scenario
        for key in trial.failures:
            self.failures.setdefault(key, scenario)
        return trial

    async def find_happy_path(self) -> Scenario:
        """Return a scenario in which as many steps succeed, and gates pass, as the tries get."""
        plan, tools = self.simulated.plan, self.simulated.tools
        outputs = {step.id: self.outputs.plausible(step) for step in plan.steps}
        added = {
            step.tool for recipe in self.simulated.goal.recipes for step in recipe.add
        } & tools.keys()
        by_tool = {
            tool: self.outputs.plausible(Step.model_construct(id=StepId("added"), tool=tool))
            for tool in sorted(added)
        }
        by_tool |= {step.tool: outputs[step.id] for step in plan.steps}
        happy = Scenario(outputs, outputs, by_tool)
        trial = await self.attempt(happy)
        for step in PlanGraph.of(plan).order():
            gates = [gate for gate in plan.gates if gate.on == step]
            read = sources_of(step_expressions(self._steps[step]))
            for _ in range(_TRIES_FOR_HAPPY_STEP):
                if not trial.penalties[step] or self.is_over():
                    break
                # A step that succeeds has failed gates: its own output is to change, else what it
                # reads.
                is_called = trial.penalties[step] < _FAILED_STEP_PENALTY
                # Of many gates the one that fails says what to change.
                failing = [gate for gate in gates if gate.id in trial.failed_gates] or gates
                sources = sources_of_gates(failing) if is_called or not read.steps else read
                changed = self._changed(sources._replace(reads_inputs=False), happy)
                tried = await self.attempt(changed)
                if tried.penalty < trial.penalty:
                    happy, trial = changed, tried
        return replace(happy, recovery_outputs=happy.outputs)

    async def find(self, branch: Branch, happy: Scenario) -> Scenario | None:
        """Return a scenario that takes a branch, as near as may be to the happy path; none where no
        try took it.
        """
        clean = min(penalty for penalty, _ in self.best.values()) + _FAILED_GATE_PENALTY
        for candidate in self._candidates(branch, self._start_for(branch, happy)):
            # A scenario in which less fails beside the branch shows more of it.
            if (branch in self.best and self.best[branch][0] <= clean) or self.is_over():
                break
            await self.attempt(candidate)
        if branch not in self.best:
            return None

        async def takes_branch(scenario: Scenario) -> bool:
            return branch in (await self.attempt(scenario)).branches

        return await self.simplify(self.best[branch][1], happy, takes_branch)

    async def simplify(
        self, scenario: Scenario, happy: Scenario, shows: Callable[[Scenario], Awaitable[bool]]
    ) -> Scenario:
        """Return a scenario with as many inputs and outputs of the happy path as `shows` allows."""
        own = self.simulated.plan.inputs
        for name in scenario.inputs or ():
            inputs = {key: value for key, value in (scenario.inputs or {}).items() if key != name}
            inputs |= {name: own[name]} if name in own else {}
            candidate = replace(scenario, inputs=None if inputs == own else inputs)
            if candidate != scenario and await shows(candidate):
                scenario = candidate
        for step, outputs in happy.outputs.items():
            candidate = scenario.with_outputs(step, outputs)
            if candidate != scenario and await shows(candidate):
                scenario = candidate
        return scenario

    def _start_for(self, branch: Branch, happy: Scenario) -> Scenario:
        """Return a scenario in which what the branch depends on runs at all: the happy path may
        skip it.
        """
        sources = sources_of_branch(branch, self.simulated.plan).steps
        names = sources if branch.kind in ("gate", "when") else (branch.name,)
        found = [
            self.best[key] for name in names if (key := Branch("step", name, "ok")) in self.best
        ]
        # The step that is hardest to reach decides; what the happy path reaches was met with it.
        return max(found, key=lambda candidate: candidate[0])[1] if found else happy

    async def explore(self, happy: Scenario) -> None:
        """Try outputs that the steps, gates and the result which read them may not handle."""
        focus = sources_of(plan_expressions(self.simulated.plan)).names
        read = [step for step in self.simulated.plan.steps if step.id in self.outputs.shapes]
        outputs = [(step, self.outputs.minimal(step)) for step in read]
        outputs += [
            (step, self.outputs.varied(step, happy.outputs[step.id], focus))
            for step in (self._random.choices(read, k=self._bounds.tries) if read else ())
        ]
        for step, tried in outputs:
            if self.is_over():
                return
            await self.attempt(happy.with_outputs(step.id, tried))

    def _candidates(self, branch: Branch, start: Scenario) -> Iterator[Scenario]:
        if branch.kind == "failure":
            # Where it makes the same call as another step, it fails only with other parameters.
            start = replace(start, failing=frozenset({StepId(branch.name)}))
            yield start
        sources = sources_of_branch(branch, self.simulated.plan)
        steps = [self._steps[name] for name in sources.steps]
        if branch.kind == "gate":
            sources = sources._replace(
                names=sources.names.union(*map(self.outputs.time_names, steps))
            )
        for size in (0, 1, 3):
            resized = {step.id: self.outputs.plausible(step, size) for step in steps}
            yield from (start.with_outputs(step, outputs) for step, outputs in resized.items())
            yield replace(start, outputs={**start.outputs, **resized})
        minimal = {step.id: self.outputs.minimal(step) for step in steps}
        yield replace(start, outputs={**start.outputs, **minimal})
        for _ in range(self._bounds.tries):
            yield self._changed(sources, start)

    def _changed(self, sources: Sources, start: Scenario) -> Scenario:
        """Return a scenario with something changed that the sources name."""
        changed = start
        for name in sources.steps:
            step = self._steps[name]
            if step.optional and self._random.random() < 0.2:
                changed = replace(changed, failing=changed.failing | {name})
            elif len(sources.steps) == 1 or self._random.random() < 0.6:
                outputs = self.outputs.varied(step, changed.outputs[name], sources.names)
                # An `all(…)` over a fan-out changes when every call does.
                outputs = outputs if self._random.random() < 0.5 else (outputs[0],) * len(outputs)
                changed = changed.with_outputs(name, outputs)
        if sources.reads_inputs and (not sources.steps or self._random.random() < 0.5):
            inputs = changed.inputs or self.simulated.plan.inputs
            changed = replace(changed, inputs=self.outputs.varied_inputs(inputs, sources.names))
        return changed


def _penalty(step: StepId, state: RunState) -> int:
    ended = state.steps.get(step)
    if ended is None or ended.status in ("failed", "blocked", "cancelled"):
        return _FAILED_STEP_PENALTY
    failed = _failed_gates(ended)
    return sum(_FAILED_GATE_PENALTY if record.severity == "block" else 1 for record in failed)


def _failed_gates(ended: StepFinished) -> list[GateRecord]:
    """Return the gates that failed, without those that a model judges."""
    return [record for record in ended.gates if record.has_failed and record.kind != "judge"]


async def shrink(value: Json, still_fails: Callable[[Json], Awaitable[bool]]) -> Json:
    """Return the smallest value, as far as some tries find it, for which `still_fails` is true.

    Lists lose entries, objects lose members, numbers become 0 or 1. Whether a value is valid is for
    `still_fails` to say; texts stay, since no schema would refuse half an address.
    """
    tries = 0
    while True:
        for smaller in _smaller(value):
            if tries >= _MAX_SHRINKS:
                return value
            tries += 1
            if await still_fails(smaller):
                value = smaller
                break
        else:
            return value


def _smaller(value: Json) -> Iterator[Json]:
    """Yield simpler values, the simplest first."""
    if isinstance(value, dict):
        for name in value:
            yield {key: member for key, member in value.items() if key != name}
        for name, member in value.items():
            yield from ({**value, name: smaller} for smaller in _smaller(member))
    elif isinstance(value, list) and value:
        half = len(value) // 2
        yield from ([], value[: half or 1], value[half:]) if len(value) > 1 else ([],)
        for place, entry in enumerate(value):
            yield from (
                [*value[:place], smaller, *value[place + 1 :]] for smaller in _smaller(entry)
            )
    elif isinstance(value, bool):
        yield from (False,) if value else ()
    elif isinstance(value, int | float):
        yield from (plain for plain in (0, 1) if abs(plain) < abs(value))
