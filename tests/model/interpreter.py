"""The reference model: what a run of a plan may do, by the rules of `docs/explanation/semantics.md`.

It interprets the steps of a plan one by one, without journal, scheduler or keys. What tools and
people answered is taken from the log of what they were really asked; the model says which calls and
questions are allowed, which are missing, how each step ends, and what the result is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.model.facts import (
    Asked,
    Call,
    CallLog,
    Ending,
    MadeCall,
    NotAllowedError,
    Number,
    Part,
    Past,
    Shown,
    asked_by,
    is_even,
    known_replies,
    last_of,
    number_of,
    output_of,
)
from tests.model.plans import GATHER, ITEM, BoundPlan, Chosen, Condition, ModelStep
from wavewright.planner.types import Json


class _NotThere(Exception):
    """What is read is not there."""


class Interpreter:
    """Interprets one part of one run."""

    def __init__(self, plan: BoundPlan, past: Past, part: Part) -> None:
        self._plan = plan
        self.steps = {step.id: step for step in plan.steps}
        self._past = past
        self._part = part
        self._made = [self._as_read(made) for made in part.made]
        self._log = CallLog(self._made, past.begun)
        self._replies = known_replies(past, part)
        self._anew = plan.resting_on(part.named)
        self._ended: dict[str, Ending] = {}
        self.calls: dict[Call, Ending] = {}
        """How the calls of this part ended, or were kept or reused."""
        self.refused: set[Call] = set()
        self.places: dict[Call, int | None] = {}
        """The calls of steps that came so far, with their places in lists."""

    def run(self) -> dict[str, Ending]:
        """Return how each step ends that ends in this part.

        Raises:
            NotAllowedError: a call was made that should not be, or one is missing.
        """
        for step in self.steps.values():
            ending = self._step(step)
            if ending is not None:
                self._ended[step.id] = ending._replace(is_stopped=self._is_stopped(step, ending))
            elif self._part.is_complete and not self._may_wait(step):
                raise NotAllowedError(f"{step.id} has not ended")
        self._log.is_explained()
        self._deterministic_calls_are_made_once()
        return self._ended

    def result(self) -> Json:
        """Return the result of a run whose steps have all ended."""
        if self._plan.stop is not None and self._holds(Condition("even", self._plan.stop)):
            return {"stopped": self._number(self._plan.stop)}
        if self._plan.result is not None:
            return self._number(self._plan.result) if self._is_there(self._plan.result) else None
        steps = self.steps.values()
        read = {step.supersedes for step in steps}.union(*(step.reads for step in steps))
        outputs: dict[str, Json] = {
            name: self._ended[name].output if self._is_there(name) else None
            for name in self.steps.keys() - read
        }
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))

    # -- how a step ends

    def _step(self, step: ModelStep) -> Ending | None:
        if not step.reads <= self._ended.keys():
            return None
        if any(self._blocks(name, step) for name in step.reads):
            return Ending("blocked")
        answers = {self._holds(condition, step) for condition in step.conditions}
        if answers - {True}:
            return Ending("skipped" if False in answers else "failed")
        try:
            items = [None] if step.items is None else [*step.items]
            asked = [self._value(step, index, item) for index, item in enumerate(items)]
        except _NotThere:
            return Ending("failed")
        if step.tool == GATHER:
            numbers = [x for x in asked if not isinstance(x, Chosen)]
            return Ending("success", numbers[0] if step.items is None else [*numbers])
        return self._called(step, asked)

    def _called(self, step: ModelStep, asked: Sequence[Asked]) -> Ending | None:
        """Return how a step ends that makes calls: one, or one an item."""
        ended = self._past.lists.get(step.id)
        if ended is not None and self._can_read(step, ended):
            return ended
        calls = [Call(step.id, x, [*asked[:place]].count(x)) for place, x in enumerate(asked)]
        reply = self._reply(step, calls)
        if reply is False:
            self.refused.update(calls)
            return Ending("failed")
        if reply is None:
            return None
        endings = [
            self._call(step, call, None if step.items is None else index)
            for index, call in enumerate(calls)
        ]
        if step.items is None:
            return endings[0]
        if None in endings:
            return None
        outputs = [ending.output for ending in endings if ending and ending.kind == "success"]
        needed = len(calls) if step.min_ok is None else min(step.min_ok, len(calls))
        return Ending("success", outputs) if len(outputs) >= needed else Ending("failed")

    def _is_stopped(self, step: ModelStep, ending: Ending) -> bool:
        """Whether a gate blocks the readers of a step; a gate that cannot be computed fails."""
        if step.gate is None or ending.kind != "success":
            return False
        if step.id in self._past.successors:
            # Its gates went to the step in its place: no other ending of its own is asked for.
            return self._past.stopped.get(step.id) == ending._replace(is_stopped=True)
        if step.items is not None and not ending.output:
            return step.gate.on_empty == "block"
        outputs = ending.output if isinstance(ending.output, list) else [ending.output]
        is_passed = all(is_even(number_of(output)) is True for output in outputs)
        return step.gate.severity == "block" and not is_passed

    def _blocks(self, name: str, reader: ModelStep) -> bool:
        """Whether a step that depends on another cannot run."""
        was_skipped = self._ended[name].kind == "skipped"
        return not (self._is_there(name, reader) or was_skipped or self.steps[name].optional)

    def _is_there(self, name: str, reader: ModelStep | None = None) -> bool:
        """Whether an output can be read; new steps of a patch read what a gate has stopped, too."""
        ended = self._ended[name]
        corrects = reader is not None and name in self._past.corrects.get(reader.id, ())
        return ended.kind == "success" and (corrects or not ended.is_stopped)

    def _may_wait(self, step: ModelStep) -> bool:
        """Whether a step, or one that it depends on, may wait for a person, who is asked one
        question at a time.
        """
        if all(reply is not None for _, reply in self._part.replies):
            return False
        reads = [self.steps[name] for name in step.reads - self._ended.keys()]
        return step.approval or any(self._may_wait(read) for read in reads)

    # -- what is read

    def _value(self, step: ModelStep, index: int, item: Asked) -> Asked:
        """Return what a call of a step asks."""
        if step.x == ITEM:
            return item
        if isinstance(step.x, int):
            return step.x
        names = step.x if isinstance(step.x, tuple) else (step.x,)
        there = [name for name in names if self._is_there(name, step)]
        if not there:
            raise _NotThere
        output = self._ended[there[-1]].output
        if step.items is not None and isinstance(output, list):
            return number_of(output[index])
        return number_of(output)

    def _number(self, name: str) -> Number:
        return number_of(self._ended[name].output)

    def _holds(self, condition: Condition, reader: ModelStep | None = None) -> bool | None:
        """Return what a condition gives; None where it cannot be computed."""
        answer: bool | None = self._is_there(condition.step, reader)
        if answer and condition.asks == "even":
            answer = is_even(self._number(condition.step))
        elif answer and condition.asks == "null":
            answer = self._number(condition.step) is None
        return None if answer is None else answer != condition.is_negated

    # -- whether a call is made

    def _as_read(self, made: MadeCall) -> MadeCall:
        """Return a call as the present code reads it: an answer that is taken may be another code's."""
        step = self.steps.get(made.step)
        if step is None or not made.is_taken or made.outcome not in ("ok", "null"):
            return made
        can_read = self._can_read(step, Ending("success", output_of(step, made)))
        return made if can_read else replace(made, outcome="misfit")

    def _call(self, step: ModelStep, call: Call, item: int | None) -> Ending | None:
        """Return how one call ends: by the first rule that holds of it, or as its last attempt."""
        self.places[call] = item
        if not step.may_call(call.x):
            return self.calls.setdefault(call, Ending("failed"))
        made = self._log.take(step, call, item)
        ending = self._settled(step, call)
        if ending is None and not any(attempt.is_taken for attempt in made):
            # An answer that is taken is that of a call which went on while the run did not.
            ending = self._unclear(step, call) or self._of_another_run(step, call)
        if ending is not None and made:
            raise NotAllowedError(f"{call} was made, but it {ending.kind} without a call")
        if not made:
            ending = ending or self._of_an_equal_call(step, call)
        ending = ending or self._attempts(step, call, made)
        if ending is not None:
            self.calls[call] = ending
        return ending

    def _settled(self, step: ModelStep, call: Call) -> Ending | None:
        """Return how a call ended before in this run, or else in one that it retries."""
        if call in self._past.refused:
            return Ending("failed")
        before = self._past.calls.get(call) or self.kept(step, call)
        if before is None:
            return self._taken_over(step, call)
        return before if self._can_read(step, before) else Ending("failed")

    def kept(self, step: ModelStep, call: Call) -> Ending | None:
        """Return the ending of an item that a patch does not call again: it failed no gate, and other
        code could read it.
        """
        if not step.only_failed or step.supersedes is None:
            return None
        old = call._replace(step=step.supersedes)
        ending = self._past.calls.get(old) or self.kept(self.steps[step.supersedes], old)
        if ending is None or ending.kind != "success":
            return None
        is_gated = step.gate is not None and self._past.lists[step.supersedes].kind == "success"
        return None if is_gated and not is_even(number_of(ending.output)) else ending

    def _taken_over(self, step: ModelStep, call: Call) -> Ending | None:
        """Return the ending of the call where it succeeded: in a write that the step supersedes, or
        in a run that is retried.
        """
        before = last_of(self._of_superseded(step, call), writes=True)
        is_repeated = step.id in self._part.again and step.rules.is_repeatable
        if before is None and step.id not in self._anew and not is_repeated:
            before = self._before(step, call)
        if before is None or before.kind != "success":
            return None
        if self._can_read(step, before):
            return before
        return None if step.rules.is_repeatable else Ending("failed")

    def _can_read(self, step: ModelStep, ending: Ending) -> bool:
        """Whether the present code of the step's tools can read what they gave before."""
        outputs = ending.output if isinstance(ending.output, list) else [ending.output]
        for output in outputs if ending.kind == "success" else []:
            assert isinstance(output, dict)
            tool, own = (output["tool"], output["output"]) if step.tools else (step.tool, output)
            if tool in self._part.unreadable and not (isinstance(own, dict) and "w" in own):
                return False
        return True

    def _of_superseded(self, step: ModelStep, call: Call) -> Iterator[Ending]:
        """Yield what became of a write that is not idempotent in the steps before its own: in this
        run, and in those that are retried.
        """
        older = None if step.rules.is_repeatable else step.supersedes
        while older is not None:
            old = call._replace(step=older)
            yield from self._past.became(old)
            before = None if older in self._anew else self._before(self.steps[older], old)
            if before is not None and not (older in self._part.again and before.kind == "unclear"):
                yield before
            older = self.steps[older].supersedes

    def _in_chain(self, step: ModelStep, call: Call) -> Iterator[Ending]:
        """Yield what became of the call in the runs that are retried, the newest first."""
        for past, is_changed in self._part.chain:
            if is_changed and not step.rules.writes:
                return
            for name in past.line_of(step.id):
                yield from past.became(call._replace(step=name), begins=step.rules.writes)

    def _before(self, step: ModelStep, call: Call) -> Ending | None:
        """Return what counts of the call in the runs that are retried: the newest where that is
        unclear and the retry names it to be made again.
        """
        known = [*self._in_chain(step, call)]
        if step.id in self._part.again and known[:1] == [Ending("unclear")]:
            return known[0]
        return last_of(known, writes=step.rules.writes)

    def _unclear(self, step: ModelStep, call: Call) -> Ending | None:
        """Refuse a call that may have taken effect already, and would take effect again."""
        if step.rules.is_repeatable:
            return None
        known = [last_of(self._of_superseded(step, call), writes=True)]
        if step.id not in self._part.again:
            known.append(self._before(step, call))
        if call in self._past.begun or Ending("unclear") in known:
            return Ending("unclear")
        return None

    def _of_another_run(self, step: ModelStep, call: Call) -> Ending | None:
        """Return the newest result of another run, for as long as the tool says, in the same stretch
        of the clock and of the same code.
        """
        part = self._part
        is_new = step.id in self._anew | part.again or step.supersedes is not None
        if not step.rules.is_cached or is_new or part.is_changed:
            return None
        newest = part.newest_kept(step.tool, call.x)
        if newest is None:
            return None
        ending = Ending("success", newest.output)
        return ending if self._can_read(step, ending) else None

    def _attempts(self, step: ModelStep, call: Call, made: list[MadeCall]) -> Ending | None:
        """Return how a call ended that was made, as its last attempt."""
        repeats = {"transient"}
        if step.rules.is_repeatable:
            repeats |= {"broken", "late", "misfit"} if step.retries_unclear else {"broken"}
        outcomes = [attempt.outcome for attempt in made]
        if "cut" in outcomes:
            return None
        if not {*outcomes[:-1]} <= repeats or len(made) > step.attempts:
            raise NotAllowedError(f"{call} was made again after one of {outcomes}")
        if not made or (outcomes[-1] in repeats and len(made) < step.attempts):
            if self._part.is_complete:
                raise NotAllowedError(f"{call} was made {len(made)} times, and not again")
            return None
        if outcomes[-1] in ("ok", "null"):
            return Ending("success", output_of(step, made[-1]))
        # What returned something else than it promises has been made, too.
        may_be_made = not step.rules.is_repeatable and outcomes[-1] in ("broken", "late", "misfit")
        return Ending("unclear" if may_be_made else "failed")

    # -- equal calls of deterministic tools

    def _of_an_equal_call(self, step: ModelStep, call: Call) -> Ending | None:
        """Return the ending of an equal call of this run: the latest that was made, or else that was
        taken over.
        """
        question = self._question(step, call.x)
        if question is None:
            return None
        for one in self._made:
            its = self.steps[one.step]
            if one.outcome == "ok" and self._question(its, asked_by(its, one)) == question:
                return Ending("success", output_of(its, one))
        ended = [*self._later(), *self._past.calls.items(), *self.calls.items()]
        # Of those that were not made here the last one that was taken over.
        equal = [known for known in reversed(ended) if self._answered(*known) == question]
        newest = max(equal, key=lambda known: self._past.made_at.get(known[0], 0), default=None)
        return None if newest is None else newest[1]

    def _later(self) -> Iterator[tuple[Call, Ending]]:
        """Yield the calls that are taken over, of steps that are not interpreted yet, too."""
        for call in {call for past, _ in self._part.chain for call in past.calls}:
            step = self.steps.get(call.step)
            if step is not None and (ending := self._taken_over(step, call)) is not None:
                yield call, ending

    def _deterministic_calls_are_made_once(self) -> None:
        done = {self._answered(*known) for known in self._past.calls.items()}
        for one in self._made:
            step = self.steps[one.step]
            question = self._question(step, asked_by(step, one))
            if question is not None and question in done:
                raise NotAllowedError(f"{one} was made although an equal call had succeeded")
            if one.outcome == "ok":
                done.add(question)

    def _answered(self, call: Call, ending: Ending) -> tuple[str, Asked] | None:
        """Return the question that an ended call answers for others, if it does."""
        step = self.steps[call.step]
        is_read = ending.kind == "success" and self._can_read(step, ending)
        return self._question(step, call.x) if is_read else None

    def _question(self, step: ModelStep, asked: Asked) -> tuple[str, Asked] | None:
        """Return what equal calls ask a deterministic tool; None where a call has no equal: what asks
        a person serves nobody else, and what a patch adds is asked anew.
        """
        is_own = step.tool == GATHER or step.approval or step.supersedes is not None
        return None if is_own or not step.rules.deterministic else (step.tool, asked)

    # -- people

    def _reply(self, step: ModelStep, calls: Sequence[Call]) -> bool | None:
        """Return what people said to calls; None where they have not answered.

        They are asked about all calls that can be made and are not taken over; where there is none,
        or all have ended, nobody is asked.
        """
        calls = [call for call in calls if step.may_call(call.x)]
        asked = [
            call.x
            for call in calls
            if self.kept(step, call) is None and self._taken_over(step, call) is None
        ]
        has_ended = all(self._settled(step, call) is not None for call in calls)
        if not step.approval or not asked or has_ended:
            return True
        return self._replies.get(Shown(step.id, tuple(asked)))
