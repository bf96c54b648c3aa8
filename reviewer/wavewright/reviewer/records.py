"""The records of a review and a package.

Confidence is computed by code: a *raw* value, then lowered by every cap whose condition holds; both
values and the reasons are recorded. A model's *opinion* is recorded beside the verdict. Nothing
here can lift a gate or a cap.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from pydantic import JsonValue

from wavewright.executor import ErrorKind, GateRecord, StepError, StepStatus
from wavewright.executor.store.journal import RunHead
from wavewright.planner import JsonObject, StepId
from wavewright.planner.types import GateId
from wavewright.reviewer.cost_records import LoopCallReport, ModelUses, Record, RungReport

RunStatus = Literal["achieved", "not_achieved", "failed", "interrupted", "cancelled"]
GoingStatus = Literal["running", "waiting_for_answer", "waiting_for_approval"]
"""Of a run that has not ended."""
GOING: Final[frozenset[str]] = frozenset(get_args(GoingStatus))
StepStanding = StepStatus | Literal["not_run", "waiting", "ready", "running", "asking"]
"""How a step has ended, or where it stands in a run that may go on: it *waits* for others, is
*ready* for its turn, *runs*, or *asks* a person. `not_run`: the run has ended without it.
"""


EVERY_FIELD = "*"
"""The field of a cap that bounds every confidence of a run, `overall` and all others."""


class CapRecord(Record):
    """One cap that was evaluated, and whether it applied."""

    field: str
    max: float
    because: str
    applied: bool
    origin: Literal["plan", "goal", "engine"] = "plan"
    when: str = "true"
    fault: str | None = None
    """Why the condition could not be evaluated; such a cap applies."""
    ways: dict[str, tuple[StepId, ...]] = {}
    """Of a cap on all fields that is about one step: field → the steps by which it feeds the field.
    """
    spares: tuple[str, ...] = ()
    """Of such a cap: fields that its step does not feed, which it leaves alone."""


class Confidence(Record):
    """Confidence in one field of the result; `overall` stands for the whole."""

    field: str
    raw: float
    capped: float
    why: tuple[str, ...] = ()
    """How the raw value was computed."""
    lowered_by: tuple[str, ...] = ()
    """The caps that lowered it, from the highest down, or that hold in doubt."""


class StepConfidence(Record):
    """The confidence in the output of a step that is below 1."""

    step: StepId
    confidence: float
    """The least of the ceilings of the step and of the confidences of what it was made of."""
    because: str
    way: tuple[StepId, ...]
    """The steps from the one that the reason is about to this one."""


DemandKind = Literal[
    "stale", "incomplete", "wrong_source", "wrong_target", "failed", "contradictory"
]
"""What is wrong with the output of a step."""
Action = Literal["refetch", "add_step", "replace_step", "provide_input", "configure"]


class RecoveryAction(Record):
    """A fix of a failed gate or a missing output, in a fixed vocabulary."""

    action: Action
    step: StepId | None = None
    gate: GateId | None = None
    hint: str
    recipe: str | None = None
    """Gate id of the template's recipe that does it without a model."""
    tool: str | None = None
    """Tool of the goal that would do it, where a model named one."""
    kind: DemandKind | None = None
    """What is wrong with the step's output, where a model said so."""
    fields: tuple[str, ...] = ()
    """Fields of the output that it is about."""
    origin: Literal["code", "model"] = "code"
    """Who proposes it."""


class RefusedAction(Record):
    """A recovery action that a model asked for and that may not be taken."""

    action: str
    step: str | None = None
    tool: str | None = None
    why: str


class FieldProvenance(Record):
    """Where one field of the result comes from."""

    field: str
    data: tuple[StepId, ...] = ()
    """Steps that fetched what it is made of."""
    inputs: tuple[str, ...] = ()
    """Inputs of the job."""
    models: tuple[StepId, ...] = ()
    """Steps in which a model answered."""
    literals: tuple[str, ...] = ()
    """What the author of the plan wrote."""
    factors: tuple[str, ...] = ()
    """What the author wrote that makes of data another value: a unit, a sign, an option, the name of
    another field, a figure that a model was told.
    """
    choices: tuple[str, ...] = ()
    """What the author wrote that chooses a part of the data or stands around it: bounds, places,
    keys and words.
    """
    computed: tuple[str, ...] = ()
    """How the plan computes with data and with what the job names: it counts as nothing, and is there
    to be judged.
    """
    is_by_planner: bool = False
    """Whether that author is a model."""


class Opinion(Record):
    """A model's opinion of a run: it can lower a verdict or a confidence, and raise none."""

    model: str
    """The model that answered."""
    goal_achieved: bool
    confidence: float
    summary: str
    missing_data: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """How its answer was read, where it was not as it should be, or contradicted itself."""


class ReviewResult(Record):
    """The verdict on a run.

    The example goes on from that of `review_by_code`.

    >>> from wavewright.reviewer import review_by_code
    >>> review_by_code(plan, goal, run.state, tools).goal_achieved
    True
    """

    goal_achieved: bool
    """Whether every mandatory gate passed and every terminal output is there; with a model, what
    code and model find.
    """
    confidence: float
    """The capped confidence in the whole; with a model, at most what the model states."""
    summary: str
    """The verdict in a sentence or two."""
    missing_data: tuple[str, ...] = ()
    """What is not there."""
    recovery_actions: tuple[RecoveryAction, ...] = ()
    """How to fix it, with the step, the gate and the hint."""
    reviewer: Literal["code", "model"] = "code"
    """Who reviewed: code, or a model beside it."""
    confidences: tuple[Confidence, ...] = ()
    """For each field: the raw figure and why, the capped one and what it was `lowered_by`."""
    caps: tuple[CapRecord, ...] = ()
    """Every cap that was asked, whether it applied, and where it came from."""
    steps: tuple[StepConfidence, ...] = ()
    """The steps whose outputs have a confidence below 1, in the plan's order."""
    round: int = 0
    """The round that was reviewed."""
    opinion: Opinion | None = None
    """The model's opinion, if a model reviewed."""
    refused_actions: tuple[RefusedAction, ...] = ()
    """Actions of the model outside the goal, the plan or the vocabulary."""
    invalid_because: tuple[str, ...] = ()
    """Why the result is not valid: failed mandatory steps, missing parts, or violations of the
    goal's output schema.
    """
    mandatory_gates: tuple[int, int] = (0, 0)
    """How many gates that block passed on data, and how many there are."""
    coverage: float = 0.0
    """How much of what the plan set out to produce is there, from 0 to 1."""
    has_result: bool = True
    """Whether there is a result."""
    data: Confidence | None = None
    """The confidence in the data alone: what the steps produced, whatever the goal is."""
    provenance: tuple[FieldProvenance, ...] = ()
    """Where each field of the result comes from."""
    unread_because: tuple[str, ...] = ()
    """Why a model's answer was no review; the goal is then not achieved."""

    @property
    def applied_caps(self) -> list[CapRecord]:
        """The caps whose condition held, or could not be evaluated."""
        return [cap for cap in self.caps if cap.applied]


class RoundSummary(Record):
    """What came of one round: the first execution, or that of a recovery patch."""

    round: int
    goal_achieved: bool
    confidence: float
    mandatory_gates: tuple[int, int]
    coverage: float
    result: str
    """The shape of its result, in a few words."""
    is_packaged: bool
    """Whether the package has its result."""


class OutputDocument(Record):
    """An output document with its tags."""

    id: str
    step: StepId
    title: str
    tags: tuple[str, ...] = ()
    markdown: str | None = None
    content: JsonValue = None
    """Its content if that is no text."""
    is_result: bool = False
    """Whether it comes from a terminal step, whose output no other step reads."""


class SourceReference(Record):
    """The source of data."""

    name: str
    location: str | None = None
    step: StepId | None = None
    as_of: str | None = None
    accessed: str | None = None
    tier: str | None = None


class Conflict(Record):
    """Statements about one subject that contradict each other."""

    subject: str
    message: str
    values: tuple[JsonValue, ...] = ()
    steps: tuple[StepId, ...] = ()
    origin: Literal["tool", "code"] = "tool"
    """Who found it: a tool, or code that compared the outputs."""


class ChartSeries(Record):
    """One line of a chart: dates (ISO 8601) in ascending order, with a figure each."""

    name: str
    points: tuple[tuple[str, float], ...]


class Chart(Record):
    """A chart that an output asked for, as figures; the report draws it."""

    step: StepId
    title: str
    series: tuple[ChartSeries, ...]
    normalise: bool = False
    """Whether each line starts at 100, so that their shapes can be compared."""


class StepReport(Record):
    """One line of the execution log."""

    id: StepId
    tool: str
    why: str | None = None
    status: StepStanding
    wave: int
    """Counted from 1."""
    round: int = 0
    """The recovery round in which it ended; 0 is the first execution."""
    depends_on: tuple[StepId, ...] = ()
    optional: bool = False
    supersedes: StepId | None = None
    started: float | None = None
    """Seconds since the epoch (UTC)."""
    seconds: float = 0.0
    attempts: int = 0
    items: tuple[int, int] | None = None
    """Succeeded and all, for a `for_each` step; of one that runs, so far."""
    labels: tuple[str, ...] = ()
    """Labels of its items."""
    output: str | None = None
    """The shape of the output in a few words, never its text."""
    error: StepError | None = None
    reason: str | None = None


class CallReport(Record):
    """One call of a tool: a child job of the run, with its parameters."""

    id: str
    """`RUN/STEP`, and `/INDEX` for an item of a `for_each` step; the run is the parent."""
    step: StepId
    index: int | None = None
    tool: str
    worker_type: str | None = None
    config: JsonObject = {}
    """The goal's configuration of the tool."""
    params: JsonObject | None = None
    """Large values as their shape; null if they can no longer be computed."""
    key: str | None = None
    """Equal for equal calls."""
    timeout: float | None = None
    """Timeout in seconds; null if the tool is not known."""
    status: StepStatus
    attempts: int = 0
    seconds: float = 0.0
    error_kind: ErrorKind | None = None


class AttemptReport(Record):
    """Output of the last attempt of a failed call: the end of what it raised, printed and logged,
    without secrets.
    """

    step: StepId
    index: int | None = None
    attempt: int
    traceback: str = ""
    stdout: str = ""
    stderr: str = ""
    log: str = ""


class PatchReport(Record):
    """One recovery patch and its changes of the plan."""

    round: int
    reason: str
    patch: JsonObject
    diff: str = ""
    plan_hash: str | None = None
    """Of the plan that it made."""
    rung: str | None = None
    """The rung of the ladder `recovery` that made it: `recipe` or `model`; null if it was not
    recorded.
    """
    notes: tuple[str, ...] = ()
    """How a model's answer was read, where it was not as it should be."""


class Timings(Record):
    """Times of a run, in ISO 8601 and UTC."""

    started: str | None = None
    finished: str | None = None
    seconds: float = 0.0
    """Wall-clock time from the run's beginning to the end of its last step, review or recovery,
    also of one that gave no patch; without set-up and report, and without the time in which a run
    that was resumed had stopped.
    """
    step_seconds: float = 0.0
    """Sum of the steps' times: their sequential time."""
    waves: int = 0
    """Waves of the current plan, including patches; a wave that a patch repeated counts once."""
    rounds: int = 0
    """Recovery rounds after the first execution."""


class KeptPlanUse(Record):
    """What became of a plan that was kept from another run."""

    template: str
    """Goal template that holds the plan."""
    use: Literal["hit", "suggested", "adapted", "proposed"]
    """`hit`: run without a planner; `suggested`: taken when the planner had none; `adapted`: the
    planner's plan has a step of it; `proposed`: the planner's plan has none.
    """
    tokens_saved: int = 0
    """Tokens that the planner took for the plan once, where no planner was asked."""


class Package(Record):
    """The results of a run, their confidence, and how they were made.

    >>> from wavewright.engine import Wavewright
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> ww = Wavewright(tools=[double], journal="runs.db")
    >>> run = ww.run_sync(ww.new_plan().step("four", double, {"number": 2}).returns("${steps.four}"))
    >>> run.package.status, run.package.result
    ('achieved', 4)
    """

    format: Literal["wavewright/package/1"] = "wavewright/package/1"
    """Name and version of this format."""
    run: str
    """The run's id."""
    retry_of: str | None = None
    """The run that this one repeats."""
    job: str
    """The job's name."""
    goal_name: str = ""
    """Of the goal template that the job names."""
    goal: str
    """To which end it was run, in words."""
    status: RunStatus | GoingStatus
    """How the run ended."""
    reason: str = ""
    """Why it ended, if the status does not say it."""
    result: JsonValue = None
    """What the plan names as its result."""
    documents: tuple[OutputDocument, ...] = ()
    """Output documents, each with its step, title, tags and content."""
    sources: tuple[SourceReference, ...] = ()
    """Where data came from: name, location, the time it is of, the time it was read."""
    charts: tuple[Chart, ...] = ()
    """Charts that outputs asked for, as figures."""
    conflicts: tuple[Conflict, ...] = ()
    """Statements about one thing that cannot both be right, with who found it."""
    warnings: tuple[str, ...] = ()
    """What a reader should know."""
    review: ReviewResult | None = None
    """The verdict."""
    earlier_reviews: tuple[ReviewResult, ...] = ()
    """Reviews of the other rounds."""
    round: int = 0
    """The round that the result is from: the best, which need not be the last."""
    rounds: tuple[RoundSummary, ...] = ()
    """Every round that was reviewed, where there are several."""
    gates: tuple[GateRecord, ...] = ()
    """Every gate's record."""
    plan: JsonObject
    """The plan as it was run, with the template's gates and caps."""
    plan_hash: str
    """Its hash."""
    rung: str
    """Where the plan came from."""
    kept_plan: KeptPlanUse | None = None
    """The kept plan that was run or shown to the planner."""
    patches: tuple[PatchReport, ...] = ()
    """Recovery patches: their difference, what became of them, and the rung that made each."""
    recovery_ended: str = ""
    """Why no further patch was tried for a goal that is not achieved."""
    execution_log: tuple[StepReport, ...] = ()
    """Every step: status, wave, times, attempts, items, error."""
    calls: tuple[CallReport, ...] = ()
    """Every call of a tool: what it was handed, its key, status, time and attempts."""
    failed_attempts: tuple[AttemptReport, ...] = ()
    """Of the first calls that failed; the journal has the others."""
    timings: Timings = Timings()
    """When the run was at work."""
    model_uses: ModelUses = ModelUses()
    """Cost of language models; all zero if none was asked."""
    orchestrator_tokens: int = 0
    """Tokens of planning, recovery, review, judging and agents."""
    worker_tokens: int = 0
    """Tokens of model workers."""
    rungs: tuple[RungReport, ...] = ()
    """Every rung of a fallback ladder that was tried."""
    loop_calls: tuple[LoopCallReport, ...] = ()
    """Tools that agents called inside their steps."""
    versions: dict[str, str] = {}
    """Of wavewright, Python and the tools."""
    now: str
    """The instant that `now()` returned in the run."""
    journal_head: RunHead | None = None
    """Stands for all events of the run up to the publishing; None in what is not published."""

    @property
    def ending(self) -> str:
        """Why it ended as its status says, empty where nothing does: what its review says, unless it
        failed or was cancelled after that, as where its package was rejected.
        """
        if self.review is None or (self.reason and self.status in ("failed", "cancelled")):
            return self.reason
        return self.review.summary
