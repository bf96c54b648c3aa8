"""Steps of a plan that is still arriving: read from the beginning of an answer, and checked as a
plan prefix.

A *plan prefix* is the plan of the whole steps that have arrived. A step may start early where the
checker finds no fault in the prefix, and nothing that arrives later can change the call: its tool
only reads, no person is asked, no engine parameter depends on its place, and everything that it
waits for may start early, too.
"""

from __future__ import annotations

import re
from typing import Final

from wavewright.config.errors import WavewrightError
from wavewright.planner.checks.checker import errors_in
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import (
    AGENT,
    ASK_PERSON,
    ToolSignature,
    ToolSignatures,
    asks_approval,
)
from wavewright.planner.planning.goal_schema import without_absent_arguments
from wavewright.planner.planning.step_building import is_same_call
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.let_and_stop import with_let, with_stop
from wavewright.planner.plans.uses import step_texts
from wavewright.planner.ports.budgets import Allowance
from wavewright.planner.reading.reader import read_model_answer
from wavewright.planner.reading.thinking import ThinkingFilter
from wavewright.planner.types import StepId

_FENCE: Final = re.compile(r"\s*(?:```(?:json)?[ \t]*\n\s*)?(?=\{)")
_MAY_BEGIN: Final = re.compile(r"\s*(?:`{0,3}|```[a-z]*[ \t]*\n?\s*)\Z")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:,"\s]+|\s+', re.DOTALL)
_STEPS: Final = '"steps"'
_ROOT: Final = ["{"]
_IN_STEPS: Final = ["{", "["]
_ROOTS: Final = frozenset({"inputs", "steps", "previous", "item", "index"})
"""What a step may read beside names of `let`."""
_LATER: Final = frozenset({"E301", "E403", "E407", "E408", "E503", "E505", "E506"})
"""Codes of faults that further steps may resolve."""


class PrefixFault(WavewrightError):
    """What has arrived of an answer is not the beginning of a valid plan."""


class PlanStream:
    """Reads one answer as it arrives."""

    def __init__(self) -> None:
        self._thinking = ThinkingFilter()
        self._text = ""
        self._start: int | None = None
        self._position = 0
        self._open: list[str] = []
        self._last = ""
        """The last string, while it may be a key."""
        self._is_in_steps = False
        self._steps_end: int | None = None
        """Where the last whole step ends, if it has not been read."""

    def add(self, text: str) -> Plan | None:
        """Take the next part of the answer; return the plan prefix where it has more whole steps
        than before.

        Raises:
            PrefixFault: the answer is no plan in strict JSON so far, or its steps are not well
                formed.
        """
        self._text += self._thinking.add(text)
        if self._start is None:
            begun = _FENCE.match(self._text)
            if begun is None:
                if _MAY_BEGIN.match(self._text):
                    return None
                raise PrefixFault("it does not begin with an object")
            self._start = self._position = begun.end()
        self._scan()
        if self._steps_end is None:
            return None
        prefix = self._text[self._start : self._steps_end] + "]}"
        self._steps_end = None
        read = read_model_answer(prefix)
        repairs = [repair for repair in read.repairs if repair.kind != "null_field"]
        if read.plan is None or repairs or error_diagnostics(read.diagnostics):
            raise PrefixFault("its steps cannot be read as they are written")
        return read.plan

    def _scan(self) -> None:
        """Pass over the whole tokens that have arrived; the last one may go on."""
        while (token := _TOKEN.match(self._text, self._position)) is not None:
            if token.end() == len(self._text) and token[0][0] not in '"[]{}:,':
                return
            self._position = token.end()
            self._take(token[0])

    def _take(self, part: str) -> None:
        if part in ("{", "["):
            if part == "[" and self._open == _ROOT and self._last == f"{_STEPS}:":
                self._is_in_steps = True
            self._open.append(part)
        elif part in ("}", "]"):
            if self._open:
                self._open.pop()
            if self._is_in_steps and part == "}" and self._open == _IN_STEPS:
                self._steps_end = self._position
            elif self._is_in_steps and self._open == _ROOT:
                self._is_in_steps = False
        if part == ":" and self._last == _STEPS:
            self._last = f"{_STEPS}:"
        elif not part.isspace():
            self._last = part


def prefix_as_it_runs(plan: Plan, tools: ToolSignatures) -> Plan:
    """Return a plan prefix with the names of its `let` and its `stop` put in, and without arguments
    that are null for absent: as the whole plan has these steps.

    Raises:
        PrefixFault: it has a step that calls a plan, or a name of `let` that is at fault.
    """
    if any(step.plan is not None for step in plan.steps):
        raise PrefixFault("a step calls a plan, whose steps are known once the whole plan is")
    steps = tuple(without_absent_arguments(step, tools) for step in plan.steps)
    named, faults = with_let(plan.model_copy(update={"steps": steps}))
    if faults:
        raise PrefixFault("a name of `let` is at fault")
    return with_stop(named)


def startable_steps(
    plan: Plan,
    goal: Goal,
    tools: ToolSignatures,
    *,
    allowance: Allowance | None = None,
    passes_effects: bool = False,
) -> tuple[Plan, list[StepId]]:
    """Return a plan prefix bound to its goal, and its steps that may start before the rest arrives,
    in their order.

    Args:
        plan: The prefix as it runs, unbound.
        goal: The goal, with its rules and gates.
        tools: Signatures by name.
        allowance: What is left to spend.
        passes_effects: Whether steps that stand behind one with another effect than reading may
            start, too.

    Raises:
        PrefixFault: the prefix has a fault that no further step can resolve.
    """
    bound = bind_plan(plan, goal)
    errors = errors_in(bound, goal, tools, allowance=allowance)
    # `let` may follow the steps: what a name stands for is known once it has arrived.
    unnamed = tuple(
        f"/steps/{number}/"
        for number, step in enumerate(bound.steps)
        if not plan.let and _reads_names(step, number)
    )
    if any(error.code not in _LATER and not error.pointer.startswith(unnamed) for error in errors):
        codes = ", ".join(sorted({error.code for error in errors}))
        raise PrefixFault(f"the checker finds {codes}")
    open_places = [error.pointer for error in errors]
    # Which steps are terminal shows when the plan is whole; only then the goal sets parameters there.
    set_by_engine = {rule.tool for rule in goal.rules.terminal}
    # A judge is a model, and is asked about plans that have been accepted.
    judged = {gate.on for gate in bound.gates if gate.judge is not None}
    dependencies = PlanGraph.of(bound).dependencies
    startable: dict[StepId, Step] = {}
    for number, step in enumerate(bound.steps):
        signature = tools.get(step.tool)
        if signature is None or not _only_looks(step, signature):
            if not passes_effects:
                break
            continue
        is_open = any(f"{place}/".startswith(f"/steps/{number}/") for place in open_places)
        if is_open or step.tool in set_by_engine or step.id in judged:
            continue
        is_repeated = any(is_same_call(step, other) for other in startable.values())
        if not is_repeated and startable.keys() >= {*dependencies[step.id]}:
            startable[step.id] = step
    return bound, [*startable]


def _reads_names(step: Step, number: int) -> bool:
    """Whether a step reads what only a name of `let` can be."""
    texts = step_texts(step, number)
    return any(read.root not in _ROOTS for text in texts for read in text.all_reads)


def _only_looks(step: Step, signature: ToolSignature) -> bool:
    """Whether a step only reads and asks no person."""
    return (
        signature.effects <= {"read"}
        and not asks_approval(step, signature)
        and not signature.calls_agents
        and not signature.reads_data
        and not signature.writes_data
        and step.tool not in {AGENT, ASK_PERSON}
    )
