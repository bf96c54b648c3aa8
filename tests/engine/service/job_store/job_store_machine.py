"""Whatever may happen to a job store under two daemons, compared with a plain model after every
step.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine.service.job_store.job_examples import (
    FEW_ATTEMPTS,
    decision_of,
    job_id,
    outgoing,
    package_id,
    received,
    request_of,
    verdict,
)
from tests.engine.service.job_store.job_store_model import (
    ENDS,
    ExpectedDecision,
    ExpectedJob,
    ExpectedMessage,
    SyncJobStore,
)
from tests.executor.event_examples import step_finished
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    DecisionId,
    DecisionMade,
    JobChange,
    JobRow,
    JobState,
    MessageId,
)
from wavewright.engine.service.job_store.rules import MAX_FAILURES, queue_rank
from wavewright.executor.store.errors import RunLost

OUTBOX_LEASE = 5.0
JOBS = 3
numbers = st.integers(0, JOBS - 1)
daemons = st.integers(0, 1)


class JobStoreMachine(RuleBasedStateMachine):
    """Compare a job store under two daemons with lists of what should be there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.begin_anew()
        self.daemons = [self.open_store(), self.open_store()]
        self.buried = list[SyncJobStore]()
        self.jobs = dict[int, ExpectedJob]()
        self.kept = list[tuple[int, int, bool]]()
        """Verdicts whose turn has not come: job, iteration, accepted."""
        self.seen = set[str]()
        self.outbox = dict[str, ExpectedMessage]()
        self.questions = dict[DecisionId, ExpectedDecision]()
        self.steps = 0

    # What a subclass brings

    def begin_anew(self) -> None:
        """Make an empty store."""
        raise NotImplementedError

    def open_store(self) -> SyncJobStore:
        raise NotImplementedError

    def expire_lease(self, daemon: SyncJobStore) -> None:
        """Let the others find that daemon dead, though it can still try to write."""
        raise NotImplementedError

    def set_clock(self) -> None:
        """Let the store's clock show `now`."""

    def messages(self) -> list[tuple[object, ...]]:
        """Return the messages of the outbox in their order, and whether each was sent."""
        raise NotImplementedError

    def teardown(self) -> None:
        for daemon in (*self.daemons, *self.buried):
            daemon.close()

    # What comes in

    @initialize()
    def begin_with_two(self) -> None:
        self.send_job(0, 1.0, 0, 0)
        self.send_job(1, 30.0, 1, 0)

    @rule(
        number=numbers,
        weight=st.sampled_from([0.0, 1.0, 30.0]),
        daemon=daemons,
        copy=st.integers(0, 1),
    )
    def send_job(self, number: int, weight: float, daemon: int, copy: int) -> None:
        message = request_of(number, weight=weight, message=100 + 10 * number + copy)
        receipt = self.daemons[daemon].receive(message)

        known = self.jobs.get(number)
        is_new = known is None or known.state == "dead"
        is_taken = is_new and message.message not in self.seen
        assert receipt.action == ("accept" if is_taken else "ack_duplicate")
        if not is_taken:
            return
        self.seen.add(message.message)
        if known is None:
            known = self.jobs[number] = ExpectedJob(number, weight, queue_rank(self.now, weight))
        else:
            self.enqueue(known, attempts=0)
        self.tell(known)

    @precondition(lambda self: any(job.iteration for job in self.jobs.values()))
    @rule(data=st.data(), accepted=st.booleans(), daemon=daemons)
    def send_verdict_on_a_package_in_hand(
        self, *, data: st.DataObject, accepted: bool, daemon: int
    ) -> None:
        job = data.draw(st.sampled_from([job for job in self.jobs.values() if job.iteration]))
        self.send_verdict(
            number=job.number, iteration=job.iteration, accepted=accepted, daemon=daemon
        )

    @rule(number=numbers, iteration=st.integers(1, 3), accepted=st.booleans(), daemon=daemons)
    def send_verdict(self, *, number: int, iteration: int, accepted: bool, daemon: int) -> None:
        given = verdict(number, iteration, accepted=accepted)
        message = received(given, message=1000 + 100 * number + 10 * iteration + accepted)
        receipt = self.daemons[daemon].receive(message)

        expected = self.expect_verdict(number, iteration, message.message)
        assert receipt.action == expected
        if expected in ("accept", "defer"):
            self.seen.add(message.message)
            if expected == "accept" and self.jobs[number].state == "validating":
                self.take_verdict(self.jobs[number], iteration, accepted)
            else:
                self.kept.append((number, iteration, accepted))

    def expect_verdict(self, number: int, iteration: int, message: str) -> str:
        job = self.jobs.get(number)
        earlier = [(number, which) for which, _ in job.heard] if job is not None else []
        earlier += [(kept, which) for kept, which, _ in self.kept]
        if message in self.seen or (number, iteration) in earlier:
            return "ack_duplicate"
        if job is None or (job.state not in ENDS and iteration > job.iteration):
            return "defer"
        return "ignore_stale" if job.state in ENDS or iteration < job.iteration else "accept"

    @precondition(lambda self: bool(self.questions))
    @rule(daemon=daemons, choice=st.sampled_from(["yes", "no", "perhaps"]), data=st.data())
    def answer(self, daemon: int, choice: str, data: st.DataObject) -> None:
        decision = data.draw(st.sampled_from(sorted(self.questions)))
        made = DecisionMade(decision, choice, "ada")
        receipt = self.daemons[daemon].decide(made)

        question = self.questions[decision]
        job = self.jobs[question.job]
        is_good = question.choice is None and job.state not in ENDS and choice != "perhaps"
        assert (receipt.action == "accept") == is_good
        if is_good:
            question.choice = choice
            if job.state == "waiting":
                self.enqueue(job, attempts=0)
                self.tell(job)

    # Work

    @precondition(lambda self: bool(self.jobs))
    @rule(daemon=daemons, most=st.sampled_from([None, 10.0]))
    def claim(self, daemon: int, most: float | None) -> None:
        at = self.daemons[daemon]
        row = at.claim(most)

        self.take_kept()
        expected = self.next_job(at, math.inf if most is None else most)
        assert (row and row.job) == (expected and job_id(expected.number))
        if expected is not None and row is not None:
            expected.state, expected.holder, expected.run = "running", at, row.run
            expected.attempts += 1

    def next_job(self, daemon: SyncJobStore, most: float) -> ExpectedJob | None:
        """Return the job that is next, after those that are dead."""
        free = [
            job
            for job in self.jobs.values()
            if job.weight <= most and job.state in ("queued", "running")
        ]
        order = {number: place for place, number in enumerate(self.jobs)}
        for job in sorted(free, key=lambda job: (job.turn, order[job.number])):
            if job.holder in self.daemons:
                continue
            if job.attempts < FEW_ATTEMPTS and job.failures < MAX_FAILURES:
                return job
            job.state, job.holder = "dead", None
            self.tell(job)
        return None

    def held(self, data: st.DataObject) -> tuple[ExpectedJob, SyncJobStore] | None:
        """Return a job that some daemon works on, claimed just now where there was none."""
        if not self.held_jobs():
            self.claim(data.draw(daemons), None)
        found = self.held_jobs()
        return data.draw(st.sampled_from(found)) if found else None

    def held_jobs(self) -> list[tuple[ExpectedJob, SyncJobStore]]:
        return [
            (job, daemon)
            for job in self.jobs.values()
            for daemon in self.daemons
            if job.holder is daemon
        ]

    @precondition(lambda self: bool(self.jobs))
    @rule(
        data=st.data(), how=st.sampled_from(["put off", "failed", "failed", "completed", "gave up"])
    )
    def let_go(self, data: st.DataObject, how: str) -> None:
        if (found := self.held(data)) is None:
            return
        job, at = found
        states: dict[str, JobState] = {"completed": "completed", "gave up": "failed"}
        state = states.get(how, "queued")
        change = JobChange(job_id(job.number), state, is_failed_attempt=how == "failed")
        at.change(change)

        job.holder = None
        if state == "queued":
            failures = job.failures + (how == "failed")
            self.enqueue(job, attempts=job.attempts - 1, failures=failures)
        else:
            job.state, job.attempts, job.failures = state, 0, 0
        self.tell(job)

    @precondition(lambda self: bool(self.jobs))
    @rule(data=st.data(), is_together=st.booleans())
    def send_package(self, *, data: st.DataObject, is_together: bool) -> None:
        if (found := self.held(data)) is None:
            return
        job, at = found
        number, iteration = job.number, job.iteration + 1
        state: JobState = "validating" if is_together else "running"
        change = JobChange(
            job_id(number), state, iteration=iteration, package=package_id(number, iteration)
        )
        self.steps += 1
        message = outgoing(self.steps, job=number)
        at.append(job.run, f"s{self.steps}", OutboxWrites(messages=(message,), change=change))
        if not is_together:
            at.change(JobChange(job_id(number), "validating"))

        job.steps.append(f"s{self.steps}")
        self.outbox[message.message] = ExpectedMessage(message.message, number)
        job.state, job.iteration, job.attempts, job.holder = "validating", iteration, 0, None
        job.failures = 0
        if not is_together:
            self.tell(job)
            self.take_kept()

    @precondition(lambda self: bool(self.jobs))
    @rule(data=st.data(), is_waiting=st.booleans())
    def ask(self, *, data: st.DataObject, is_waiting: bool) -> None:
        if (found := self.held(data)) is None:
            return
        job, at = found
        number = job.number
        asked = decision_of(number, job.run, id_=len(self.questions))
        self.steps += 1
        change = JobChange(job_id(number), "waiting") if is_waiting else None
        at.append(job.run, f"s{self.steps}", OutboxWrites(decisions=(asked,), change=change))

        job.steps.append(f"s{self.steps}")
        is_answered = any(
            question.job == number and question.choice is not None and not question.is_taken
            for question in self.questions.values()
        )
        self.questions[asked.id] = ExpectedDecision(number)
        if is_waiting:
            job.state, job.attempts, job.failures, job.holder = "waiting", 0, 0, None
            if is_answered:
                self.enqueue(job, attempts=0)

    @precondition(lambda self: bool(self.questions))
    @rule(daemon=daemons, data=st.data())
    def take_answer(self, daemon: int, data: st.DataObject) -> None:
        decision = data.draw(st.sampled_from(sorted(self.questions)))
        taken = self.daemons[daemon].take_answer(decision)

        question = self.questions[decision]
        is_there = question.choice is not None and not question.is_taken
        assert (taken and taken.choice) == (question.choice if is_there else None)
        question.is_taken = question.is_taken or is_there

    # Faults

    @precondition(lambda self: bool(self.held_jobs()))
    @rule(daemon=daemons, times=st.sampled_from([1, 1, FEW_ATTEMPTS]))
    def die(self, daemon: int, times: int) -> None:
        """Let a daemon die, and each that takes its place and its work."""
        for _ in range(times):
            self.dead_letter(daemon)
            self.claim(daemon, None)

    def dead_letter(self, daemon: int) -> None:
        """Let a daemon be found dead, though it can still try to write, and another one take its
        place.
        """
        gone = self.daemons[daemon]
        self.expire_lease(gone)
        self.buried.append(gone)
        self.daemons[daemon] = self.open_store()

    @precondition(lambda self: bool(self.buried))
    @rule(data=st.data())
    def write_late(self, data: st.DataObject) -> None:
        """Let every daemon that lost a job try to write."""
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        if job.holder in self.buried:
            return
        number = job.number
        late = OutboxWrites(
            messages=(outgoing(7777, job=number),), change=JobChange(job_id(number), "running")
        )
        for daemon in self.buried:
            with pytest.raises(RunLost):
                daemon.change(JobChange(job_id(number), "completed"))
            if daemon.holds(job.run):
                with pytest.raises(RunLost):
                    daemon.append(job.run, "late", late)

    @rule(seconds=st.sampled_from([0.5, OUTBOX_LEASE, 40.0, -100.0]))
    def move_clock(self, seconds: float) -> None:
        self.now += seconds
        self.set_clock()

    # The outbox

    @precondition(lambda self: bool(self.outbox))
    @rule(daemon=daemons, most=st.integers(1, 5), confirmed=st.integers(0, 5))
    def publish(self, daemon: int, most: int, confirmed: int) -> None:
        at = self.daemons[daemon]
        messages = at.pending(most)

        expected = self.next_messages(at)[:most]
        assert [message.message for message in messages] == [
            sending.message for sending in expected
        ]
        for sending in expected:
            sending.leased_by, sending.leased = at, self.now
        sent = [MessageId(sending.message) for sending in expected[:confirmed]]
        at.mark_sent(sent)
        for sending in expected[:confirmed]:
            sending.is_sent = True

    def next_messages(self, daemon: SyncJobStore) -> list[ExpectedMessage]:
        blocked, found = set[int](), list[ExpectedMessage]()
        for sending in self.outbox.values():
            is_leased = 0 <= self.now - sending.leased < OUTBOX_LEASE
            if sending.is_sent:
                continue
            if sending.leased_by not in (None, daemon) and is_leased:
                blocked.add(sending.job)
            elif sending.job not in blocked:
                found.append(sending)
        return found

    # The model's own

    def tell(self, job: ExpectedJob) -> None:
        self.outbox.setdefault(job.tell(), ExpectedMessage(job.tell(), job.number))

    def enqueue(self, job: ExpectedJob, *, attempts: int, failures: int = 0) -> None:
        job.failures = failures
        job.state, job.attempts, job.turn, job.holder = (
            "queued",
            attempts,
            queue_rank(self.now, job.weight),
            None,
        )

    def take_kept(self) -> None:
        """Let verdicts have their effect whose turn has come."""
        for kept in list(self.kept):
            number, iteration, accepted = kept
            job = self.jobs.get(number)
            if job is None or (
                job.state not in ENDS and (job.state != "validating" or iteration > job.iteration)
            ):
                continue
            self.kept.remove(kept)
            if job.state not in ENDS and iteration == job.iteration:
                self.take_verdict(job, iteration, accepted)

    def take_verdict(self, job: ExpectedJob, iteration: int, accepted: bool) -> None:  # noqa: FBT001 - as it is drawn
        job.heard.append((iteration, accepted))
        if accepted:
            job.state, job.attempts, job.failures = "completed", 0, 0
        else:
            self.enqueue(job, attempts=0)
        self.tell(job)

    @invariant()
    def jobs_stand_as_they_should(self) -> None:
        rows = self.daemons[0].list_jobs()
        assert [shown(row) for row in rows] == [
            (
                job_id(job.number),
                job.state,
                job.attempts,
                job.iteration,
                job.heard,
                job.holder in self.daemons,
            )
            for job in self.jobs.values()
        ]

    @invariant()
    def every_message_of_the_outbox_is_there_once(self) -> None:
        assert self.messages() == [
            (sending.message, sending.is_sent) for sending in self.outbox.values()
        ]

    @invariant()
    def runs_hold_what_their_owners_wrote(self) -> None:
        for job in self.jobs.values():
            if job.run:
                events = self.daemons[1].load(job.run)
                assert events == [step_finished(step) for step in job.steps]


def shown(row: JobRow) -> tuple[object, ...]:
    heard = [(given.iteration, given.accepted) for given in row.feedback]
    return row.job, row.state, row.attempts, row.iteration, heard, row.owner is not None
