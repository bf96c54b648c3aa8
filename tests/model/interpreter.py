"""The reference model: what a run of a plan may do, by the rules of `docs/explanation/semantics.md`.

It interprets a plan step by step, without journal, scheduler or keys. What tools answered is taken
from the log of the calls that were really made; the model says which calls are allowed, which are
missing, and how each step ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from wavewright.planner.types import Json

Answer: TypeAlias = Literal["approve", "refuse", "wait"]
Outcome: TypeAlias = Literal["ok", "fail", "transient", "late", "cut"]
Kind: TypeAlias = Literal["success", "failed", "unclear", "skipped", "blocked"]


class ToolRules(NamedTuple):
    """What a tool says of itself."""

    writes: bool = False
    idempotent: bool = True
    deterministic: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether a call may be made again without another effect."""
        return not self.writes or self.idempotent


TOOLS: Final[Mapping[str, ToolRules]] = {
    "look": ToolRules(),
    "compute": ToolRules(deterministic=True),
    "post": ToolRules(writes=True, idempotent=False),
    "put": ToolRules(writes=True, idempotent=True),
}


@dataclass(frozen=True)
class ModelStep:
    """A step: one call with `x`, or one for each of `items`."""

    id: str
    tool: str
    x: int | str
    """A number, or the step whose number it is."""
    when: str | None = None
    """A step whose number must be even."""
    items: tuple[int, ...] | None = None
    optional: bool = False
    attempts: int = 1
    retries_late: bool = False
    min_ok: int | None = None
    approval: bool = False

    @property
    def reads(self) -> set[str]:
        """The steps that it depends on."""
        named = {self.x} if isinstance(self.x, str) and self.items is None else set[str]()
        return named | ({self.when} if self.when is not None else set())


@dataclass
class MadeCall:
    """A call that was really made."""

    step: str
    item: int | None
    tool: str
    x: int
    outcome: Outcome
    output: Json = None


class Ending(NamedTuple):
    """How a call or a step ended."""

    kind: Kind
    output: Json = None


class Call(NamedTuple):
    """What is asked: the step, the number, and which of the equal items of the step it is."""

    step: str
    x: int
    nth: int


@dataclass
class Past:
    """What is known of a run: endings that are in the journal, and writes that were begun."""

    calls: dict[Call, Ending] = field(default_factory=dict[Call, Ending])
    lists: dict[str, Ending] = field(default_factory=dict[str, Ending])
    """How steps over a list of items ended as a whole."""
    begun: set[Call] = field(default_factory=set[Call])
    """Calls that were made and whose end is not in the journal."""


@dataclass(frozen=True)
class Part:
    """One execution of a run, from a start or a resumption to an end or a stop."""

    made: Sequence[MadeCall]
    is_complete: bool
    """Whether it came to its end, so that nothing may be missing."""
    answers: Mapping[str, Answer]
    """What people say to the steps that need an approval."""
    unreadable: frozenset[str] = frozenset()
    """Tools whose present code cannot read what they gave before."""
    chain: tuple[tuple[Past, bool], ...] = ()
    """The runs that this one retries, the newest first, and whether the code was another one."""
    anew: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()


class NotAllowedError(AssertionError):
    """The engine did what no rule allows."""


class Interpreter:
    """Interprets one part of one run."""

    def __init__(self, steps: Sequence[ModelStep], past: Past, part: Part) -> None:
        self._steps = steps
        self._past = past
        self._part = part
        self._ended: dict[str, Ending] = {}
        self.calls: dict[Call, Ending] = {}
        """How the calls of this part ended, or were kept or reused."""
        self.places: dict[Call, int | None] = {}

    def run(self) -> dict[str, Ending]:
        """Return how each step ends that ends in this part.

        Raises:
            NotAllowedError: a call was made that should not be, or one is missing.
        """
        for step in self._steps:
            ending = self._step(step)
            if ending is not None:
                self._ended[step.id] = ending
            elif self._part.is_complete and not self._waits(step):
                raise NotAllowedError(f"{step.id} has not ended")
        self._deterministic_calls_are_made_once()
        return self._ended

    def _waits(self, step: ModelStep) -> bool:
        """Whether the step, or one that it depends on, waits for a person."""
        if step.approval and self._part.answers.get(step.id) == "wait":
            return True
        by_id = {other.id: other for other in self._steps}
        return any(name not in self._ended and self._waits(by_id[name]) for name in step.reads)

    def _step(self, step: ModelStep) -> Ending | None:
        by_id = {other.id: other for other in self._steps}
        for name in sorted(step.reads):
            if name not in self._ended:
                self._forbid(step, "a step that it depends on has not ended")
                return None
            kind = self._ended[name].kind
            if kind not in ("success", "skipped") and not by_id[name].optional:
                self._forbid(step, "it is blocked")
                return Ending("blocked")
        if step.when is not None and not self._is_even(step.when):
            self._forbid(step, "its condition is false")
            return Ending("skipped")
        if step.items is not None:
            return self._items(step, step.items)
        if isinstance(step.x, int):
            return self._call(step, Call(step.id, step.x, 0), None)
        number = self._number(step.x)
        if number is None:
            self._forbid(step, "it reads what is not there")
            return Ending("failed")
        return self._call(step, Call(step.id, number, 0), None)

    def _items(self, step: ModelStep, items: tuple[int, ...]) -> Ending | None:
        """Return how a step over a list ends: `min_ok` of its calls must succeed, or all."""
        if step.id in self._past.lists:
            self._forbid(step, "it has ended")
            return self._past.lists[step.id]
        seen = Counter[int]()
        endings = list[Ending | None]()
        for index, x in enumerate(items):
            endings.append(self._call(step, Call(step.id, x, seen[x]), index))
            seen[x] += 1
        outputs: list[Json] = [
            ended.output for ended in endings if ended and ended.kind == "success"
        ]
        if None in endings:
            return None
        needed = len(items) if step.min_ok is None else min(step.min_ok, len(items))
        return Ending("success", outputs) if len(outputs) >= needed else Ending("failed")

    def _call(self, step: ModelStep, call: Call, item: int | None) -> Ending | None:
        """Return how one call ends, and check that it is made exactly where it should be."""
        made = [one for one in self._part.made if (one.step, one.item) == (step.id, item)]
        if any(one.x != call.x for one in made):
            raise NotAllowedError(f"{call} was made with other parameters")
        ending = self._without_a_call(step, call)
        if ending is not None:
            if made:
                raise NotAllowedError(f"{call} was made, but it {ending.kind} without a call")
        elif step.approval and self._part.answers.get(step.id) == "wait":
            if made:
                raise NotAllowedError(f"{call} was made without an approval")
        elif not made and self._has_equal(step, call):
            ending = Ending("success", {"v": call.x * 10})
        else:
            ending = self._attempts(step, call, made)
        if ending is not None:
            self.calls[call] = ending
        self.places[call] = item
        return ending

    def _without_a_call(self, step: ModelStep, call: Call) -> Ending | None:
        """Return the ending of a call that the rules forbid to make; None where it may be made."""
        tool = TOOLS[step.tool]
        before = self._past.calls.get(call)
        if before is not None:
            return before if self._can_read(step, before) else Ending("failed")
        retried = None if step.id in self._part.anew else self._in_chain(step, call)
        is_taken = retried is not None and retried.kind == "success"
        if retried is not None and is_taken and self._can_read(step, retried):
            return retried
        if is_taken and not tool.is_repeatable:
            return retried
        if step.approval and self._part.answers.get(step.id) == "refuse":
            return Ending("failed")
        if step.approval and self._part.answers.get(step.id) == "wait":
            return None
        if tool.is_repeatable:
            return None
        was_unclear = self._in_chain(step, call)
        is_unclear = was_unclear is not None and was_unclear.kind == "unclear"
        if call in self._past.begun or (is_unclear and step.id not in self._part.again):
            return Ending("unclear")
        return None

    def _can_read(self, step: ModelStep, ending: Ending) -> bool:
        """Whether the present code of the step's tool can read what it gave before."""
        if ending.kind != "success" or step.tool not in self._part.unreadable:
            return True
        return isinstance(ending.output, dict) and "w" in ending.output

    def _in_chain(self, step: ModelStep, call: Call) -> Ending | None:
        """Return what became of the call in the runs that are retried."""
        writes = TOOLS[step.tool].writes
        newest: Ending | None = None
        for past, is_changed in self._part.chain:
            if not writes and is_changed:
                return newest
            ending = past.calls.get(call)
            if call in past.begun and writes:
                ending = Ending("unclear")
            if ending is None:
                continue
            if ending.kind == "success":
                return ending
            newest = newest or ending
            if not writes:
                return newest
        return newest

    def _attempts(self, step: ModelStep, call: Call, made: list[MadeCall]) -> Ending | None:
        if not made and self._part.is_complete:
            raise NotAllowedError(f"{call} was not made")
        for number, one in enumerate(made, 1):
            is_last = number == len(made)
            if one.outcome == "cut":
                return None
            again = number < step.attempts and (
                one.outcome == "transient"
                or (one.outcome == "late" and step.retries_late and TOOLS[step.tool].is_repeatable)
            )
            if not is_last and not again:
                raise NotAllowedError(f"{call} was made again after {one.outcome}")
            if not is_last:
                continue
            if one.outcome == "ok":
                return Ending("success", one.output)
            if again and self._part.is_complete:
                raise NotAllowedError(f"{call} was not made again after {one.outcome}")
            if again:
                return None
            is_unclear = one.outcome == "late" and not TOOLS[step.tool].is_repeatable
            return Ending("unclear" if is_unclear else "failed")
        return None

    def _has_equal(self, step: ModelStep, call: Call) -> bool:
        """Whether an equal call of a deterministic tool has succeeded in this run."""
        if not TOOLS[step.tool].deterministic or step.approval:
            return False
        return call.x in self._deterministic_successes() or any(
            one.tool == step.tool and one.x == call.x and one.outcome == "ok"
            for one in self._part.made
            if not self._asks(one.step)
        )

    def _deterministic_successes(self) -> Iterator[int]:
        """Yield the numbers that need not be asked again; what asks a person serves nobody else."""
        shared = {
            step.id for step in self._steps if TOOLS[step.tool].deterministic and not step.approval
        }
        for known in (self._past.calls, self.calls):
            for call, ending in known.items():
                if call.step in shared and ending.kind == "success":
                    yield call.x

    def _deterministic_calls_are_made_once(self) -> None:
        done = {
            call.x
            for call, ending in self._past.calls.items()
            if ending.kind == "success"
            and self._tool(call.step).deterministic
            and not self._asks(call.step)
        }
        for one in self._part.made:
            if not TOOLS[one.tool].deterministic or self._asks(one.step):
                continue
            if one.x in done:
                raise NotAllowedError(f"{one} was made although an equal call had succeeded")
            if one.outcome == "ok":
                done.add(one.x)

    def _asks(self, step_id: str) -> bool:
        return any(step.id == step_id and step.approval for step in self._steps)

    def _tool(self, step_id: str) -> ToolRules:
        return next(TOOLS[step.tool] for step in self._steps if step.id == step_id)

    def _forbid(self, step: ModelStep, why: str) -> None:
        if any(one.step == step.id for one in self._part.made):
            raise NotAllowedError(f"{step.id} was called, but {why}")

    def _number(self, name: str) -> int | None:
        output = self._ended[name].output
        value = output.get("v") if isinstance(output, dict) else None
        return value if isinstance(value, int) else None

    def _is_even(self, name: str) -> bool:
        number = self._number(name)
        return number is not None and number % 2 == 0
