"""Goals: what a run is asked to do, and the rules no planner can remove.

A *job* is one request; it names a *goal template*, which carries the text, the tools, the mandatory
gates and caps, the rules and a plan of its own. `resolve_goal` folds the two (the job wins) into a
`Goal`, the only thing that the checker, the executor and the reviewer see.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from wavewright.config.schedules import ScheduleTerms
from wavewright.config.value_types import NonEmpty, NonNegative, Texts
from wavewright.planner.language.plan import (
    Cap,
    DocumentModel,
    Gate,
    Limits,
    Names,
    Plan,
    Step,
    dispatched_tools,
)
from wavewright.planner.types import (
    ID_PATTERN,
    TOOL_NAME_PATTERN,
    GateId,
    Json,
    JsonObject,
    JsonSchema,
    Schedule,
    StepId,
)

ThinkingLevel = Literal["minimal", "low", "medium", "high"]


def _in_utc(value: dt.datetime) -> dt.datetime:
    aware = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
    try:
        dt.datetime.fromtimestamp(aware.timestamp(), dt.UTC)
    except (ValueError, OverflowError):
        msg = "write an instant that in UTC lies in the years 1 to 9999"
        raise ValueError(msg) from None
    return aware


def _refuse_number(value: object) -> object:
    """Refuse what would be read as seconds since 1970: `2010` is no year there."""
    if isinstance(value, dt.datetime) or (isinstance(value, str) and _DATE.match(value)):
        return value
    msg = "write a date (2010-03-01) or a date-time (2010-03-01T09:30:00Z)"
    raise ValueError(msg)


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_InstantInput = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}")]
Instant = Annotated[
    dt.datetime,
    Field(strict=False),
    AfterValidator(_in_utc),
    BeforeValidator(_refuse_number, json_schema_input_type=_InstantInput),
]
"""A date or date-time in ISO 8601; UTC where it names no zone, the start of the day where it has no
time.
"""


class AvailableTool(DocumentModel, defer_build=False):
    """A tool that this goal allows, with what this goal says of it."""

    name: Annotated[str, Field(pattern=TOOL_NAME_PATTERN)]
    """Name of an installed tool."""
    worker_type: str | None = None
    """Kind of worker that runs the tool, handed on with every call."""
    description: str | None = None
    """Replaces the tool's own description in what the planner sees."""
    config: JsonObject = {}
    """Handed to the tool with every call."""


def config_of(name: str, tools: Iterable[AvailableTool]) -> JsonObject | None:
    """Return what a goal says of a tool; of one that stands for several, by their names what it says
    of them. None where it says nothing of any.
    """
    said = {tool.name: tool.config for tool in tools}
    parts: JsonObject = {part: said[part] for part in dispatched_tools(name) if part in said}
    return said.get(name) or parts or said.get(name)


_InputName = Annotated[str, Field(pattern=ID_PATTERN)]


_USUAL_IDENTIFIERS = ("code", "id", "name", "key", "title")


class Targets(DocumentModel, defer_build=False):
    """Names of the inputs that hold a job's `variables` (primary targets) and `benchmarks` (for
    comparison only).
    """

    variables: _InputName = "variables"
    """Name of the input that holds the primary targets."""
    benchmarks: _InputName = "benchmarks"
    """Name of the input that holds what is for comparison only."""
    key: str | None = None
    """Field that identifies a target where targets are objects, such as `code`."""
    expand: str | None = None
    """Expression that gives further targets, for jobs with waves of `targets`."""
    wave: _InputName | None = None
    """Name of the input that the engine sets to the number of a target's wave, from 0; only jobs
    with `targets` have it, as the next three.
    """
    is_last_wave: _InputName | None = None
    """Name of the input that tells whether nothing is looked for that would be a target of a
    further wave.
    """
    visited: _InputName | None = None
    """Name of the input that lists the targets of earlier waves of which something came."""
    failed: _InputName | None = None
    """Name of the input that lists the targets of earlier waves of which nothing came."""

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Fields that name what an object is about: that of the targets, and the usual ones."""
        return (*([] if self.key is None else [self.key]), *_USUAL_IDENTIFIERS)

    @property
    def set_by_engine(self) -> dict[str, str]:
        """The inputs that the engine sets, by the field of this section that names each."""
        named = {
            field: getattr(self, field) for field in ("wave", "is_last_wave", "visited", "failed")
        }
        return {field: name for field, name in named.items() if name is not None}


def _shown_name(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        msg = "a target's name is one line of characters that can be seen, without blanks around it"
        raise ValueError(msg)
    return name


TargetName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_shown_name)]
"""What a target of a job with targets is called; two with one name are the same target."""


class JobTarget(DocumentModel):
    """One target of a job that has several."""

    name: TargetName
    """What it is called; its run has it as the input `target`."""
    priority: int = 0
    """Of a wave, targets of higher priority come first."""


class JobTargets(DocumentModel):
    """What a job is about, where each target is a run of its own."""

    first: Annotated[
        tuple[TargetName | JobTarget, ...], Field(strict=False, min_length=1, max_length=1000)
    ]
    """Targets of the first wave: names, or `name` and `priority`."""
    depth: Annotated[int, Field(ge=0, le=1000)] = 0
    """Waves after the first; in the last one nothing is looked for that would be a target."""
    expand: str | None = None
    """Expression over a target's `steps` and `inputs` that gives targets of the next wave, such as
    `${steps.neighbours.names}`; the goal template's where absent."""
    at_once: Annotated[int, Field(ge=1, le=100)] = 1
    """Targets of one wave that run at once."""
    most: Annotated[int, Field(ge=1, le=10_000)] = 1000
    """Targets of the job, over all waves; further ones are left out."""
    forks: Literal["all", "ask"] = "all"
    """`ask`: targets run one after the other, those of higher priority first; where one has found
    several others, a person says which of them is next.
    """


class TagRules(DocumentModel):
    """Where a plan's document filters stand, and which of their values exclude each other."""

    param: str
    """The tool parameter that holds a list of tags, such as `filter_tags`."""
    exclusive: Annotated[tuple[Names, ...], Field(strict=False)] = ()
    """Sets of tags of which one call may name at most one."""
    required: Names = frozenset()
    """Tags that the plan's calls, taken together, must cover."""


class TerminalRule(DocumentModel):
    """What only the engine adds to the parameters of terminal steps of one tool."""

    tool: str
    """The tool whose terminal steps get the parameters."""
    params: JsonObject = {}
    """Parameters; strings may hold `${…}` over `inputs` and `goal` (`output_tags`,
    `output_schema`).
    """


class Rules(DocumentModel, defer_build=False):
    """Family `E5xx` as data."""

    data_tools: Names = frozenset()
    """Tools that fetch data; those tagged `data` where none is named."""
    analysis_tools: Names = frozenset()
    """Each call of one depends, directly or not, on a call of a data tool (forced tool use)."""
    primary_params: dict[str, str] = {}
    """Tool name → parameter that takes primary targets only: a benchmark there is an error."""
    tags: TagRules | None = None
    """Which document filters exclude each other, and which are required."""
    terminal: Annotated[tuple[TerminalRule, ...], Field(strict=False)] = ()
    """What the engine adds to the parameters of terminal steps."""
    required_tools: Names = frozenset()
    """Tools that every plan calls."""
    may_fail: Names = frozenset()
    """Tools of whose calls over a list some may fail: `min_ok` is 1 where a plan does not say it."""


class Recipe(DocumentModel):
    """A recovery without a model: what to add when a gate has failed, or a package was rejected."""

    gate: GateId | None = None
    """The gate's id in the template (`fresh` stands for every `on_tool` expansion of it)."""
    on: Literal["feedback"] | None = None
    """In place of `gate`: the recipe is for remarks of a rejection."""
    field: NonEmpty | None = None
    """With `on`: the field that a remark is about, where `*` stands for one name or number:
    `items.*.name`.
    """
    says: NonEmpty | None = None
    """With `on`: words that a remark holds, in any case."""
    step: StepId | None = None
    """With `on`: the step that `set_params` is for; its readers are called again, too."""
    set_params: JsonObject = {}
    """The failed step is called again as `<id>_2` (then `_3`, …) with these parameters on top of
    its own.
    """
    add: Annotated[tuple[Step, ...], Field(strict=False)] = ()
    """Further steps to add."""
    reason: NonEmpty
    """Why this fixes it, for the report."""

    @model_validator(mode="after")
    def _for_a_gate_or_for_feedback(self) -> Recipe:
        if (self.gate is None) == (self.on is None):
            msg = "a recipe has exactly one of 'gate' and 'on: feedback'"
            raise ValueError(msg)
        if self.on is None and (self.field, self.says, self.step) != (None, None, None):
            msg = "'field', 'says' and 'step' are for recipes with 'on: feedback'"
            raise ValueError(msg)
        if self.on is not None and (self.step is None) != (not self.set_params):
            msg = "a recipe with 'on: feedback' has 'step' and 'set_params' together"
            raise ValueError(msg)
        return self


class RecoveryPolicy(DocumentModel, defer_build=False):
    """Which recovery patches with side effects apply without a person's approval."""

    allow: Literal["same-effects"] | None = None
    """`same-effects`: those whose steps with side effects call only tools that the plan calls
    without approval, agents only with the tools that the plan gives them. Where absent, each such
    patch needs an approval.
    """


class KeptRun(DocumentModel):
    """Of a plan that was kept: the run that it comes from."""

    run: str
    """Id of the run."""
    goal_template: str
    """Name of the goal template of the run; `plan` for a goal in words."""
    tools: dict[str, str] = {}
    """Tool that the plan calls → hash of its signature then; the plan is run without a planner
    while they are equal.
    """
    planning_tokens: NonNegative = 0
    """Tokens that the planner took for the plan."""


class GoalTerms(DocumentModel):
    """What a goal template decides for the goals of its jobs."""

    thinking_level: ThinkingLevel = "medium"
    """How much thought a model should spend."""
    model_preference: str = "auto"
    """Which model to ask, or `auto`."""
    targets: Targets = Field(default_factory=Targets)
    """Which inputs hold what the run is about."""
    inputs_schema: JsonSchema = {}
    """JSON Schema of the inputs that plans may refer to."""
    output_tags: Texts = ()
    """Tags of what the run makes."""
    output_schema: JsonSchema | None = None
    """JSON Schema of the result; a plan whose result can never be that is refused."""
    rules: Rules = Field(default_factory=Rules)
    """What every plan must keep."""
    gates: Annotated[tuple[Gate, ...], Field(strict=False)] = ()
    """Mandatory gates: no plan removes or changes them."""
    caps: Annotated[tuple[Cap, ...], Field(strict=False)] = ()
    """Mandatory ceilings of the confidence."""
    recipes: Annotated[tuple[Recipe, ...], Field(strict=False)] = ()
    """Recoveries without a model."""
    schedule: Schedule = "waves"
    """`waves` verifies all data before anything is built on it; `dataflow` starts each step as soon
    as it can.
    """
    limits: Limits = Field(default_factory=Limits)
    """Upper bounds of a run."""
    auto_approve: bool = True
    """Whether recovery patches without a new side effect apply without approval."""
    recovery: RecoveryPolicy = Field(default_factory=RecoveryPolicy)
    """Which recovery patches with side effects apply without approval."""
    untrusted_writes: Annotated[
        Literal["warn", "approve"], Field(exclude_if=lambda value: value == "warn")
    ] = "warn"
    """`approve`: where untrusted text decides whether something is written, how often, which value
    or how much, a person must approve the step; else that is a warning.
    """
    allow_literals: Annotated[Names, Field(exclude_if=lambda value: not value)] = frozenset()
    """Fields of the result that a planner may write itself, such as `title`; their confidence is 0.3
    at most. Every other field is read from a step or an input.
    """
    may_drop: Annotated[Names, Field(exclude_if=lambda value: not value)] = frozenset()
    """Gates, or tools, of whose items a recovery may leave some out; the confidence falls with them.
    """


class GoalTemplate(GoalTerms):
    """A kind of work: shipped under `config/`, or the user's own.

    >>> from wavewright.planner import GoalTemplate
    >>> words = {"name": "digest", "goal": "Rank the words.", "available_tools": [{"name": "rank"}]}
    >>> GoalTemplate.model_validate(words).version
    1
    """

    version: Literal[1] = 1
    """Version of this format."""
    name: Annotated[str, Field(pattern=ID_PATTERN)]
    """Name that jobs call it by."""
    goal: NonEmpty
    """What a run is to achieve, in words; may hold `${inputs.…}`."""
    available_tools: Annotated[tuple[AvailableTool, ...], Field(strict=False, min_length=1)]
    """The allow-list: no plan calls any other tool."""
    plan: Plan | None = None
    """The plan of every job that brings none; no planner is asked, unless the job says `plan:
    auto`.
    """
    fallback_plan: Plan | None = None
    """The plan where no planner gives one: the rung `template` of the planner's ladder."""
    sub_plans: dict[Annotated[str, Field(pattern=ID_PATTERN)], str] = {}
    """Plans that steps of a planner's plan may call, by the names that it knows them by: files,
    relative to this one, or goal templates.
    """
    kept: KeptRun | None = None
    """Where the plan comes from, if `wavewright keep` wrote the template."""

    @property
    def own_plan(self) -> Plan | None:
        """The plan that the template has, in whichever of its two fields."""
        return self.fallback_plan if self.plan is None else self.plan

    @model_validator(mode="after")
    def _has_one_plan(self) -> Self:
        if self.plan is not None and self.fallback_plan is not None:
            msg = "a template has 'plan', which every job follows, or 'fallback_plan', and not both"
            raise ValueError(msg)
        return self


class Job(DocumentModel):
    """One request for work.

    >>> from wavewright.planner import Job
    >>> Job.model_validate({"name": "morning", "goal_template": "digest"}).goal_template
    'digest'
    """

    version: Literal[1] = 1
    """Version of this format."""
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Name of the request, in words; that of its file where absent, or of its goal template where
    it was sent.
    """
    goal_template: str | None = None
    """Name of a template, or path of its file beside the job's."""
    goal: str | None = None
    """The text of the goal, in place of the template's; the name of a template alone is refused.
    Without a template and a plan a model plans it, with the tools of the project.
    """
    variables: list[JsonValue] = []
    """Primary targets, such as stocks."""
    benchmarks: list[JsonValue] = []
    """For comparison only."""
    inputs: JsonObject = {}
    """Whatever else the plan may refer to."""
    targets: JobTargets | None = None
    """Makes of each target a run of this job, in waves."""
    as_of: Instant | None = None
    """The instant that the run takes for now; the clock's where absent."""
    overrides: JsonObject = {}
    """Fields of the template that this job replaces; the job wins."""
    plan: Plan | str | None = None
    """A plan for this job: inline, or the path of its file, and the planner is not asked; or
    `auto`: the planner makes one, and the template's is what is left where it cannot.
    """
    schedule: ScheduleTerms | None = None
    """When the daemon, or `wavewright serve`, begins the job by itself."""
    tools: JsonObject = {}
    """Settings of packs for this job, by pack name, such as `{equities: {prices: prices/}}`."""


_MAX_TITLE_LENGTH: Final = 200


class Goal(GoalTerms):
    """A job and its template, folded: what one run is asked to do and may do.

    >>> from wavewright.planner import Goal
    >>> goal = Goal(name="digest", job="morning", text="Rank the words.", inputs={}, tools=())
    >>> goal.limits.max_steps
    50
    """

    name: str
    """Of the template."""
    job: str
    """Name of the job."""
    text: str
    """What the run is to achieve, in words."""
    inputs: JsonObject
    tools: Annotated[tuple[AvailableTool, ...], Field(strict=False)]
    """The allow-list."""
    written: Annotated[str, Field(exclude_if=lambda value: not value)] = ""
    """The text as it was written, where it reads inputs: a retry with others puts them in."""
    sub_plans: Annotated[dict[str, Plan], Field(exclude_if=lambda value: not value)] = {}
    """Plans that a planner may call, without sub-plans of their own."""
    sub_plan_inputs: Annotated[
        dict[str, JsonSchema], Field(exclude_if=lambda value: not value)
    ] = {}
    """What those of them that are goal templates declare as their inputs, by the names of the plans."""
    as_of: Instant | None = None
    packs: JsonObject = {}
    """Settings of packs by pack name, as the project and the job give them."""
    previous: Annotated[JsonObject, Field(exclude_if=lambda value: not value)] = {}
    """The last achieved run of the same job, as expressions read it; set when the run opens."""
    origin: Annotated[str, Field(exclude_if=lambda value: not value)] = ""
    """File of the job, as a path from the project's folder; jobs of one name in two files are two.
    Empty for a job that came in no file.
    """
    target: str | None = None
    """The target that the run is about, where the job has several; budgets of the job are for all
    of them.
    """
    untrusted_inputs: Names = frozenset()
    """Inputs that hold untrusted text: the name of a target that a run has found."""
    answers: Annotated[
        tuple[str, ...], Field(strict=False, exclude_if=lambda value: not value)
    ] = ()
    """What a person answered to questions of the planner."""

    @property
    def title(self) -> str:
        """What the run is called where several are shown: its job, and its target."""
        return self.job if self.target is None else f"{self.job}: {self.target}"[:_MAX_TITLE_LENGTH]

    @property
    def said(self) -> list[Json]:
        """All that the job says: its text, a person's answers to the planner, and its inputs."""
        return [self.text, *self.answers, dict(self.inputs)]

    @property
    def tool_names(self) -> frozenset[str]:
        """The allow-list."""
        return frozenset(tool.name for tool in self.tools)
