"""The events of a run.

The state of a run is the fold of its events; progress, log, report and `resume` read the same
stream. An event is immutable and can be written as JSON. Times are seconds since the epoch (UTC).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from wavewright.planner import Json, JsonObject, RunId, StepId, StepKey
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelQuestion, ModelUse
from wavewright.planner.types import GateId, GateKind, GateSeverity, PlanHash
from wavewright.tools.functions.tool import AgentToolCall

StepStatus: TypeAlias = Literal[
    "ok", "empty", "failed", "skipped", "blocked", "cancelled", "reused"
]
"""How a step ends. `reused`: its output comes from the journal of this run's earlier plan or of
another run.
"""

ErrorKind: TypeAlias = Literal[
    "tool",
    "transient",
    "timeout",
    "params",
    "output",
    "expression",
    "items",
    "cancelled",
    "interrupted",
    "refused",
]
"""Kind of a failure, from a fixed list: the only part of an error that a recovery planner sees."""
PersonAsk: TypeAlias = Literal["approval", "question"]
"""What a person is asked about a step: whether its calls may be made, or the question that it
passes.
"""


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    """One line of a traceback."""

    file: str
    """Relative to the working directory where it is inside."""
    line: int
    function: str
    code: str = ""
    """The line's text, without secrets; empty where the file cannot be read."""


@dataclass(frozen=True, slots=True)
class StepError:
    """Why a step or an item failed.

    >>> from wavewright.executor import StepError
    >>> StepError("timeout", "it took longer than 5 s", attempts=3).attempts
    3
    """

    kind: ErrorKind
    message: str
    attempts: int = 1
    hint: str | None = None
    frames: tuple[TracebackFrame, ...] = ()
    """Where the exception was raised: the last frames of the tool's own code, the innermost last.
    """


@dataclass(frozen=True, slots=True)
class GateRecord:
    """The result of one gate.

    >>> from wavewright.executor import GateRecord
    >>> record = GateRecord("some", "prices", "check", "block", "fail", "output", "it is empty")
    >>> record.has_failed
    True
    """

    gate: GateId
    step: StepId
    kind: GateKind
    severity: GateSeverity
    verdict: Literal["pass", "fail", "error", "not_evaluated"]
    """`error`: the gate could not be evaluated; `not_evaluated`: there were no items. Both count as
    failed.
    """
    inspected: str
    """The expression or fields, with the values found, short enough for one line of a report."""
    message: str = ""
    hint: str | None = None
    index: int | None = None
    """The item, where the gate is evaluated for each call of a `for_each` step."""
    template_gate: GateId | None = None
    """The goal template's gate that this one implements."""

    @property
    def has_failed(self) -> bool:
        """Whether the gate did not pass."""
        return self.verdict != "pass"


@dataclass(frozen=True, slots=True)
class RetryOf:
    """The run that a run retries, and the steps that are called again."""

    run: RunId
    origin: RunId
    """The first of a chain of retries: its id is part of the keys of calls that may be reused."""
    anew: tuple[StepId, ...] = ()
    """Steps that are called again although they succeeded."""
    again: tuple[StepId, ...] = ()
    """Steps that are called again although it is not known whether their writes took effect."""
    by: str | None = None
    """Who repeats it."""
    only_failed: bool = False
    """Whether what succeeded is kept also where the code of its tool has changed."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run was created for a job and a goal.

    >>> from wavewright.executor import RunStarted, fold
    >>> fold([RunStarted("r1", 1.0, "digest", {}, now=1.0)]).run
    'r1'
    """

    run: RunId
    at: float
    job: str
    goal: JsonObject
    """The resolved goal, as JSON."""
    now: float
    """The value of `now()` throughout the run."""
    versions: dict[str, str] = field(default_factory=dict[str, str])
    tool_code: dict[str, str] = field(default_factory=dict[str, str])
    """By tool, a hash of its function's code, for tools that are Python functions."""
    retry: RetryOf | None = None
    program: str = ""
    """The Python program that has made the run, where it has functions of its own."""
    program_tools: tuple[str, ...] = ()
    """Names of the tools that are its functions."""


@dataclass(frozen=True, slots=True)
class PlanAccepted:
    """A plan passed the checker and became the run's: the first one, or one that a patch made.

    >>> from wavewright.executor import PlanAccepted, fold
    >>> fold([PlanAccepted(1.0, {"steps": []}, "sha256:0", "template")]).plan
    {'steps': []}
    """

    at: float
    plan: JsonObject
    plan_hash: PlanHash
    rung: str
    """Which rung of the ladder made it: `given`, `template`, `llm`, `repaired`, `suggested`,
    `minimal`, `patch`.
    """
    round: int = 0
    warnings: tuple[JsonObject, ...] = ()
    patch: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class WaveStarted:
    """The steps of one wave may start.

    >>> from wavewright.executor import WaveStarted
    >>> WaveStarted(1.0, 0, ("a", "b")).steps
    ('a', 'b')
    """

    at: float
    wave: int
    steps: tuple[StepId, ...]
    round: int = 0


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step's call is about to be made.

    A call is *announced* where its tool writes, and every one is after the process of an earlier
    attempt died: the event is in the journal before the call. Of another call it says what runs:
    one event a step, for which nothing waits.

    >>> from wavewright.executor import StepStarted
    >>> StepStarted(1.0, "pay").step
    'pay'
    """

    at: float
    step: StepId
    key: StepKey | None = None
    """Of the call that is announced; None where it is not."""


@dataclass(frozen=True, slots=True)
class ItemFinished:
    """One item of a `for_each` step has ended, so a resumed run skips it.

    >>> from wavewright.executor import ItemFinished, fold
    >>> state = fold([ItemFinished(1.0, "prices", 0, None, "ok", output=9.5)])
    >>> state.items["prices"][0].output
    9.5
    """

    at: float
    step: StepId
    index: int
    key: StepKey | None
    """None where the item's parameters could not be rendered."""
    status: Literal["ok", "empty", "failed", "reused"]
    output: Json = None
    error: StepError | None = None
    seconds: float = 0.0
    attempts: int = 1
    withheld: tuple[str, ...] = ()
    """As of a step."""
    data: dict[str, JsonObject] | None = None
    """As of a step."""
    cache_key: StepKey | None = None
    """As of a step."""


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A step has ended, with its output and the results of its gates.

    >>> from wavewright.executor import StepError, StepFinished
    >>> StepFinished(1.0, "a", "failed", error=StepError("tool", "no such host")).error.message
    'no such host'
    """

    at: float
    step: StepId
    status: StepStatus
    key: StepKey | None = None
    output: Json = None
    error: StepError | None = None
    gates: tuple[GateRecord, ...] = ()
    started: float | None = None
    seconds: float = 0.0
    attempts: int = 0
    items: tuple[int, int] | None = None
    """Succeeded and all, for a `for_each` step."""
    reason: str | None = None
    """Why it was skipped, blocked, cancelled or reused."""
    withheld: tuple[str, ...] = ()
    """Fields of the output in which the journal has `[redacted]` in place of a secret; `""` is the
    whole output.
    """
    data: dict[str, JsonObject] | None = None
    """The run data that the call has written, by name and key; None for a `for_each` step, whose
    items have it.
    """
    cache_key: StepKey | None = None
    """Under which other runs find the output, where the tool allows it (`cache_for`)."""


@dataclass(frozen=True, slots=True)
class WaveFinished:
    """Every step of one wave has ended.

    >>> from wavewright.executor import WaveFinished
    >>> WaveFinished(2.0, wave=0).wave
    0
    """

    at: float
    wave: int
    round: int = 0


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A language model was called, with its cost, whether it answered or not."""

    at: float
    use: ModelUse


@dataclass(frozen=True, slots=True)
class RungTaken:
    """A rung of a fallback ladder was tried."""

    at: float
    rung: RungRecord
    step: StepId | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class OutputStreamed:
    """A part of an output that is being streamed; the whole output is in the step's end."""

    at: float
    step: StepId
    text: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class LoopToolCalled:
    """An agent called a tool inside its step."""

    at: float
    step: StepId
    call: AgentToolCall
    index: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptLogged:
    """What one attempt of a call raised, printed and logged; not recorded where all texts are
    empty.

    Every text is redacted and of bounded size: its end, where it was longer.
    """

    at: float
    step: StepId
    attempt: int
    index: int | None = None
    traceback: str = ""
    """As Python prints it, from the tool's own code on; empty where nothing was raised."""
    stdout: str = ""
    stderr: str = ""
    log: str = ""
    """Log records, a line each: time (UTC), level, logger and message."""


@dataclass(frozen=True, slots=True)
class OutputLogged:
    """Whole lines that a call has printed or logged since the last such event, while it is at work.

    What follows, and all of it again, is in the `AttemptLogged` at the end of the attempt. The text
    is redacted, and not recorded any more once there is much of it.
    """

    at: float
    step: StepId
    attempt: int
    stream: Literal["stdout", "stderr", "log"]
    text: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerKept:
    """A model's answer, or a tool's output in an agent's loop, kept for a resumed run.

    Event listeners do not get it; the effects of the answer are other events.
    """

    at: float
    key: str
    """Hash of the question."""
    answer: JsonObject
    """Without secrets."""
    question: ModelQuestion | None = None
    """The question to the model; None for a tool's output."""


REFUSED_ANSWER: Final = "refused_answer"
"""Topic of the note of a model's answer that could not be used."""
TOOL_EVENT: Final = "tool_event"
"""Topic of a note that a tool made by a log event of its own."""
EMISSIONS_TAKEN: Final = "emissions_taken"
"""Topic of a note after emissions of a call that another process makes; the body has `call` and
`no`, the last one.
"""


@dataclass(frozen=True, slots=True)
class Noted:
    """A decision or result of a phase of the pipeline, or a log event of a tool.

    Topics are `approval`, `review`, `package`, `warning` and others. Of the topic `tool_event`, the
    body has `event` (its name), `step`, `index` and `fields`.

    >>> from wavewright.executor import Noted, fold
    >>> [noted.topic for noted in fold([Noted(1.0, "warning", {"text": "late"})]).notes]
    ['warning']
    """

    at: float
    topic: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run has ended; `interrupted` can be resumed, and `cancelled` was ended for good by a
    person.

    >>> from wavewright.executor import RunFinished
    >>> RunFinished(2.0, "interrupted", "it waits for a person").status
    'interrupted'
    """

    at: float
    status: Literal["achieved", "not_achieved", "failed", "interrupted", "cancelled"]
    reason: str = ""


Event: TypeAlias = (
    RunStarted
    | PlanAccepted
    | WaveStarted
    | StepStarted
    | ItemFinished
    | StepFinished
    | WaveFinished
    | ModelCalled
    | RungTaken
    | OutputStreamed
    | LoopToolCalled
    | AttemptLogged
    | OutputLogged
    | AnswerKept
    | Noted
    | RunFinished
)
