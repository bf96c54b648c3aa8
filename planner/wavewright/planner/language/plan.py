"""The plan as typed, immutable data, and the limits of its size.

A *plan* is a flat list of *steps*; references in a step's parameters make it a dependency graph.
*Gates* stop bad data, *caps* bound the confidence, `result` is the output of the run. The models
describe the shape only; the checker decides whether a plan is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Final, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from wavewright.config.errors import did_you_mean
from wavewright.config.value_types import AtLeastOne, NonEmpty, NonNegative, Seconds, Share, Texts
from wavewright.planner.types import (
    FIELD_PATH_PATTERN,
    GATE_ID_PATTERN,
    GATE_KINDS,
    ID_PATTERN,
    STEP_ID_PATTERN,
    GateId,
    GateKind,
    GateSeverity,
    Json,
    JsonObject,
    JsonSchema,
    PlanHash,
    StepId,
)

SUB_PLAN: Final = "sub_plan"
"""Name of the tool whose output is the result of a sub-plan; the engine alone writes steps that
call it.
"""
ASK_MODEL: Final = "ask_model"
"""Name of the tool that a step with `ask` calls: a typed question to a model without tools."""
DISPATCH: Final = "dispatch"
"""First part of the names of tools that stand for several, of which data chooses one a call."""
DISPATCHED_CALL: Final = "call"
"""Name of the one parameter of such a tool: `{tool, params}`."""


def dispatch_tool_name(tools: Iterable[str]) -> str:
    """Return the name of what makes calls of any of these tools: `dispatch.send_money.set_limit`."""
    return ".".join([DISPATCH, *(name.replace(".", "--") for name in sorted({*tools}))])


def dispatched_tools(name: str) -> tuple[str, ...]:
    """Return the tools behind a name that `dispatch_tool_name` made; none for any other name."""
    head, *parts = name.split(".")
    return tuple(part.replace("--", ".") for part in parts) if head == DISPATCH else ()


class DocumentModel(BaseModel):
    """Base of everything that is read from a document: immutable, strict, and closed to unknown
    fields.

    >>> from wavewright.planner import DocumentModel
    >>> class Alarm(DocumentModel):
    ...     at: str
    >>> Alarm.model_validate({"at": "07:00"}).at
    '07:00'
    """

    # Built at first use: a command that reads a plan does not pay for jobs, goals and patches. What
    # several of them hold is built at once, and so once for all.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, populate_by_name=True, defer_build=True
    )
    other_names: ClassVar[Mapping[str, str]] = {}
    """Names that other systems, and models, give to the fields, in small letters with underscores.
    """


PREVIOUS_FIELDS: Final = frozenset({"result", "started"})
"""What is known of the last achieved run of a job."""
_FieldPath = Annotated[str, Field(pattern=FIELD_PATH_PATTERN)]
Expression = NonEmpty
SORTED: Final = PlainSerializer(sorted, return_type=list[str], when_used="json")
"""Writes a set in alphabetical order, so that equal documents are equal as JSON."""
Names = Annotated[frozenset[str], Field(strict=False), SORTED]
"""Names without an order."""


RETRIED_KINDS: Final = ("transient", "timeout", "output", "any")
"""Kinds of errors that `retry.on` names; other names in it are those of exception classes."""


class Retry(DocumentModel, defer_build=False):
    """How often and how patiently a failed call is tried again; see `docs/reference/retries.md`.

    >>> from wavewright.planner import Retry
    >>> Retry(attempts=5, wait_initial="2s").wait_initial
    2.0
    """

    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """Calls in all, the first included."""
    wait_initial: Seconds = 0.1
    """Before the second attempt; each further wait is longer by `wait_exp_base`."""
    wait_max: Seconds = 5.0
    """No wait is longer, its random part included."""
    wait_jitter: Annotated[float, Field(ge=0)] = 1.0
    """Upper bound, in seconds, of the random part added to each wait."""
    wait_exp_base: Annotated[float, Field(ge=1)] = 2.0
    """Factor from one wait to the next."""
    on: Texts = ("transient",)
    """Error kinds that are tried again: `transient`, `timeout`, `output`, `any`, or names of
    exception classes.
    """

    @field_validator("on")
    @classmethod
    def _refuse_misspelt_kinds(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse what is nearly one of the kinds: as the name of a class it would match nothing."""
        for name in names:
            near = None if name in RETRIED_KINDS else did_you_mean(name, RETRIED_KINDS)
            # A class that is near a kind, as `Timeout` of requests, is not written in one case alone.
            if near is not None and (name.islower() or name.isupper()):
                msg = f"{name!r} is no kind of error; {near}"
                raise ValueError(msg)
        return names

    @model_serializer(mode="wrap")
    def _state_attempts(self, others: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Keep the number of attempts where defaults are left out: an empty object would say
        nothing.
        """
        return {"attempts": self.attempts, **others(self)}


class Budget(DocumentModel, defer_build=False):
    """Upper bounds of what one step may spend; each call is reserved against them before it is
    made.
    """

    seconds: Seconds | None = None
    """Time of all calls together."""
    calls: AtLeastOne | None = None
    """Calls, repeated ones included."""
    tokens: AtLeastOne | None = None
    """Tokens of models, read and written."""
    usd: Annotated[float, Field(gt=0)] | None = None
    """Cost in US dollars."""


class Repeat(DocumentModel, defer_build=False):
    """Further runs of a sub-plan, each after the one before, until a condition holds."""

    until: Expression
    """A condition over the step's own result, asked after each run; where it is true no other run
    follows.
    """
    max: Annotated[int, Field(ge=2, le=10)]
    """Runs in all, the first included."""
    params: dict[str, JsonValue] = {}
    """What further runs get in place of the same names in the step's `params`; may read the step's
    own result.
    """


class Step(DocumentModel, defer_build=False):
    """One call of one tool, or one call an item where `for_each` is given.

    >>> from wavewright.planner import Step
    >>> Step(id="ranked", tool="rank", for_each="${steps.pages}", params={"page": "${item}"}).id
    'ranked'
    """

    other_names: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("after", "dependencies", "deps", "needs", "requires"), "depends_on"),
        **dict.fromkeys(("args", "arguments", "input", "inputs", "parameters", "with"), "params"),
        **dict.fromkeys(("foreach", "loop", "with_items"), "for_each"),
        **dict.fromkeys(("condition", "if"), "when"),
        **dict.fromkeys(("action", "tool_name", "uses"), "tool"),
        **dict.fromkeys(("allow_failure", "continue_on_error"), "optional"),
        **dict.fromkeys(("max_retries", "retries"), "retry"),
        "description": "why",
        "step_id": "id",
    }
    why: str | None = None
    """One line for the reader and the reviewer; first in what a model emits, so that it reasons
    first.
    """
    id: Annotated[StepId, Field(pattern=STEP_ID_PATTERN)]
    """Name of the step in expressions: a word, unique without regard to case."""
    tool: NonEmpty
    """Name of a tool that the goal allows."""
    plan: NonEmpty | None = None
    """In place of `tool`: the path of a plan's file, from this file, or the name of a goal template
    with a plan.
    """
    params: dict[str, JsonValue] = {}
    """Arguments of the tool, or inputs of the sub-plan; strings may hold `${…}`."""
    for_each: NonEmpty | list[JsonValue] | None = None
    """A list, or `${…}` that gives one; the step runs once an item, as `item` and `index`."""
    when: Expression | None = None
    """A condition; where it is false the step ends *skipped*."""
    depends_on: Annotated[tuple[StepId, ...], Field(strict=False)] = ()
    """Steps to wait for although nothing here reads them: order that no reference shows."""
    repeat: Repeat | None = None
    """How often a sub-plan runs again."""
    optional: bool = False
    """Its failure does not fail the run; its readers must guard with `has()`."""
    supersedes: StepId | None = None
    """The finished step that this one, added by a patch, replaces for its readers."""
    only: Literal["failed"] | None = None
    """With `supersedes`: only the items that failed, or failed a gate, are called again; the outputs
    of the others are kept in their places.
    """
    retry: Retry | None = None
    """How failed calls are tried again; the tool's own rule where it is absent."""
    timeout: Seconds | None = None
    """Of one attempt, in seconds."""
    max_items: AtLeastOne | None = None
    """Greatest number of items of `for_each`; the tool's own where it is absent."""
    concurrency: AtLeastOne | None = None
    """How many items of `for_each` run at once."""
    min_ok: NonNegative | None = None
    """How many items must succeed for the step to be *ok*; all of them where it is absent or there are fewer."""
    budget: Budget | None = None
    """Upper bounds of what the step may spend."""
    needs_approval: bool = False
    """Whether a person must allow the step, besides what its tool says."""

    @model_validator(mode="before")
    @classmethod
    def _as_tool_call(cls, given: object) -> object:
        """Return a step with `plan`, `ask` or `dispatch` as the call of the tool it stands for."""
        if not isinstance(given, dict):
            return given
        fields = cast("dict[str, object]", given)
        if "tool" in fields:
            return fields
        if "plan" in fields:
            return {**fields, "tool": SUB_PLAN}
        if "ask" in fields:
            return _question(fields)
        return _dispatched(fields) if "dispatch" in fields else fields

    def model_post_init(self, _context: object, /) -> None:
        """Share the names of the fields, and the set of those that are given, with all other steps.

        Both are tables of their own in each model otherwise, and take more memory than all the
        values of a step.
        """
        if len(self.__dict__) == len(_STEP_FIELDS):  # `model_construct` takes fewer
            object.__setattr__(self, "__dict__", _STEP_FIELDS | self.__dict__)
        fields = self.__pydantic_fields_set__
        fields = _GIVEN_FIELDS.setdefault(frozenset(fields), fields)
        object.__setattr__(self, "__pydantic_fields_set__", fields)


def _question(fields: dict[str, object]) -> dict[str, object]:
    """Return the call of a step with `ask`.

    Raises:
        ValueError: it is no object, or stands beside `params`.
    """
    others = {name: value for name, value in fields.items() if name != "ask"}
    if not isinstance(fields["ask"], dict) or "params" in fields:
        msg = "'ask' is an object, {of: ${…}, for: {FIELD: TYPE}}, and takes the place of 'params'"
        raise ValueError(msg)
    return {**others, "tool": ASK_MODEL, "params": fields["ask"]}


def _dispatched(fields: dict[str, object]) -> dict[str, object]:
    """Return the call of a step with `dispatch`, one item a call, in the order of the list.

    Raises:
        ValueError: `tools` is no list of names, or a field stands beside that this one replaces.
    """
    named = fields.get("tools")
    names = cast("list[object]", named) if isinstance(named, list | tuple) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        msg = "'dispatch' needs 'tools', the list of the tools that may be called"
        raise ValueError(msg)
    if "params" in fields or "for_each" in fields:
        msg = "'dispatch' is the list of calls, and takes the place of 'params' and 'for_each'"
        raise ValueError(msg)
    others = {name: value for name, value in fields.items() if name not in ("dispatch", "tools")}
    return {
        "concurrency": 1,
        **others,
        "tool": dispatch_tool_name(map(str, names)),
        "for_each": fields["dispatch"],
        "params": {DISPATCHED_CALL: "${item}"},
    }


def step_tools(step: Step) -> tuple[str, ...]:
    """Return the tool that a step calls, or those among which a `dispatch` chooses."""
    return dispatched_tools(step.tool) or (step.tool,)


def written_step(step: Step) -> JsonObject:
    """Return a step as its author writes it: calls that data chooses with `dispatch`."""
    fields: JsonObject = step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    tools: list[Json] = [*dispatched_tools(step.tool)]
    if not tools:
        return fields
    replaced = ("tool", "params", "for_each", "concurrency")
    others = {name: part for name, part in fields.items() if name not in replaced}
    return {**others, DISPATCH: step.for_each, "tools": tools}


class _SharedKeyObject:
    """Whatever fields; Python keeps the names of attributes once for all instances of a class."""


def _shared_key_dict(names: Iterable[str]) -> dict[str, object]:
    """Return a dictionary whose copies share the table of its keys, as those of instances do."""
    fields = _SharedKeyObject()
    for _ in range(_INSTANCES_TO_SHARE_KEYS):
        fields = _SharedKeyObject()
        for name in names:
            setattr(fields, name, None)
    return vars(fields)


_INSTANCES_TO_SHARE_KEYS: Final = 32
"""Python leaves room for more attributes, and less of it in each further instance."""
_STEP_FIELDS: Final = _shared_key_dict(Step.model_fields)
_GIVEN_FIELDS: Final = dict[frozenset[str], set[str]]()
"""The sets of fields that steps were given, one for all that were given the same; none is changed
in place.
"""


class JudgeCheck(DocumentModel):
    """A question that code cannot answer, put to a model with a rubric."""

    rubric: NonEmpty
    """What the model is to judge, and what passes."""


class Gate(DocumentModel, defer_build=False):
    """A stop for bad data: exactly one of `check`, `schema`, `fresh_within`, `required`, `judge`.

    `on` names a step; in a goal template `on_tool` names a tool instead and stands for every step
    that calls it. An expression that reads `output` is asked once a call (once an item for a
    `for_each` step), any other once.

    >>> from wavewright.planner import Gate
    >>> Gate(id="some", on="prices", check="output.size() > 0").severity
    'block'
    """

    id: Annotated[GateId, Field(pattern=GATE_ID_PATTERN)]
    """Name of the gate in reports and patches, unique without regard to case."""
    on: StepId | None = None
    """The step whose output it checks."""
    on_tool: str | None = None
    """In goal templates: the tool each of whose calls it checks."""
    check: Expression | None = None
    """A condition (bare CEL) over `inputs`, `previous`, `steps`, `output`, `item`, `index`,
    `now()` and `has()`.
    """
    schema_: JsonSchema | None = Field(default=None, alias="schema")
    """JSON Schema that each output must fit."""
    fresh_within: Seconds | None = None
    """Greatest age, at `now()`, of the time in the tool's freshness field."""
    required: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = None
    """Fields of each output (dotted paths) that must be there and be neither null nor empty."""
    judge: JudgeCheck | None = None
    """A question for a model, where no code can decide."""
    severity: GateSeverity = "block"
    """`block` stops what depends on the step; `warn` is reported only."""
    on_empty: Literal["warn", "block", "pass"] = "warn"
    """What comes of the gate where a `for_each` step has no items, so that nothing is evaluated: a
    warning and a cap on the confidence, a stop of what depends on the step, or nothing.
    """
    blocks_from: Share = 0.0
    """The share of a step's calls that must fail for the gate to block; fewer failures warn."""
    hint: str | None = None
    """What would fix it; shown with a failure and offered as a recovery action."""

    @model_validator(mode="after")
    def _one_target_and_one_kind(self) -> Gate:
        if (self.on is None) == (self.on_tool is None):
            msg = "a gate names exactly one of 'on' (a step) and 'on_tool' (a tool, in goal templates)"
            raise ValueError(msg)
        kinds = self._given_kinds()
        if len(kinds) != 1:
            given = ", ".join(kinds) or "none"
            msg = f"a gate has exactly one of {', '.join(GATE_KINDS)}; this one has {given}"
            raise ValueError(msg)
        return self

    @property
    def kind(self) -> GateKind:
        """The kind of this gate: the one field of `GATE_KINDS` that it has."""
        return self._given_kinds()[0]

    def _given_kinds(self) -> list[GateKind]:
        questions: dict[GateKind, object] = {
            "check": self.check,
            "schema": self.schema_,
            "fresh_within": self.fresh_within,
            "required": self.required,
            "judge": self.judge,
        }
        return [kind for kind, question in questions.items() if question is not None]


class Cap(DocumentModel, defer_build=False):
    """A ceiling that code puts on a confidence: `field` is at most `max` while `when` holds.

    >>> from wavewright.planner import Cap
    >>> Cap(field="volatility", when="inputs.days < 30", max=0.5, because="few prices").max
    0.5
    """

    field: _FieldPath
    """The field of the result whose confidence is bounded, or a path to it, such as
    `returns[*].volatility`; `overall` is always there.
    """
    when: Expression = "true"
    """A condition (bare CEL); the cap holds where it is true."""
    max: Share
    """The ceiling, from 0 to 1."""
    because: NonEmpty
    """The reason, shown beside the confidence."""


class PlanStop(DocumentModel, defer_build=False):
    """When a run ends early and well, such as where there is nothing new since yesterday."""

    when: Expression
    """A condition (bare CEL) over steps and inputs; where it holds, all steps that depend on what it
    reads, directly or not, end *skipped*.
    """
    result: JsonValue
    """The result of the run in that case, as `${…}` or a structure that holds such."""


class Plan(DocumentModel):
    """A goal turned into steps. The plan hash covers every field but the prose (`goal`,
    `reasoning`, `why`).

    >>> from wavewright.planner import Plan, Step
    >>> plan = Plan(steps=(Step(id="a", tool="fetch"), Step(id="b", tool="rank")))
    >>> plan.step("b").tool
    'rank'
    """

    other_names: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("jobs", "nodes", "stages", "tasks"), "steps"),
        **dict.fromkeys(("output", "outputs", "returns"), "result"),
        **dict.fromkeys(("variables", "vars"), "let"),
        **dict.fromkeys(("parameters", "params"), "inputs"),
    }
    version: Literal[1] = 1
    """Version of the plan language."""
    goal: str | None = None
    """What the plan is for, in words."""
    reasoning: str | None = None
    """Why it is made as it is, in words."""
    inputs: dict[str, JsonValue] = {}
    """Values that expressions read as `inputs`; a job's take their place."""
    let: dict[Annotated[str, Field(pattern=ID_PATTERN)], JsonValue] = {}
    """Names that expressions read for what stands here, as `${…}` or a structure that holds such;
    computed only where they are read.
    """
    previous: Annotated[JsonObject, Field(exclude_if=lambda value: not value)] = {}
    """What expressions read as `previous` until a run of the job is achieved: `result`, and `started`
    as a date-time; what the last achieved run gave takes its place.
    """
    steps: Annotated[tuple[Step, ...], Field(strict=False)]
    """Tool calls in any order: references and `depends_on` say what waits for what."""
    gates: Annotated[tuple[Gate, ...], Field(strict=False)] = ()
    """Checks that stop bad data."""
    caps: Annotated[tuple[Cap, ...], Field(strict=False)] = ()
    """Ceilings of the confidence."""
    stop: PlanStop | None = None
    """When the run ends early, and its result then."""
    result: JsonValue = None
    """What the run is for, as `${…}` or a structure that holds such; the terminal steps' outputs
    where absent.
    """

    @field_validator("previous")
    @classmethod
    def _of_a_run(cls, previous: JsonObject) -> JsonObject:
        for name in previous.keys() - PREVIOUS_FIELDS:
            msg = f"a previous run has 'result' and 'started', and no {name!r}"
            raise ValueError(msg)
        return previous

    def scope(self, steps: JsonObject) -> JsonObject:
        """Return the variables of the plan's expressions, for the outputs of steps that are there."""
        return {"inputs": self.inputs, "previous": self.previous, "steps": steps}

    def step(self, step_id: str) -> Step:
        """Return the step of that id.

        Raises:
            KeyError: no step has it.
        """
        for step in self.steps:
            if step.id == step_id:
                return step
        raise KeyError(step_id)


class AddStep(DocumentModel):
    """Add a step; with `supersedes` the readers of a finished step are pointed at it."""

    op: Literal["add"] = "add"
    """Name of the operation."""
    step: Step
    """The new step."""


class ReplaceStep(DocumentModel):
    """Put another step in the place of an unfinished one of the same id."""

    op: Literal["replace"] = "replace"
    """Name of the operation."""
    step: Step
    """The step that takes the place; its `id` says of which."""


class RemoveStep(DocumentModel):
    """Remove an unfinished step that nothing reads."""

    op: Literal["remove"] = "remove"
    """Name of the operation."""
    id: StepId
    """The step that goes."""


class RewireStep(DocumentModel):
    """Give an unfinished step another list of `depends_on`."""

    op: Literal["rewire"] = "rewire"
    """Name of the operation."""
    id: StepId
    """The step that waits for others from now on."""
    depends_on: Annotated[tuple[StepId, ...], Field(strict=False)]
    """Its whole new list."""


PatchOp = Annotated[AddStep | ReplaceStep | RemoveStep | RewireStep, Field(discriminator="op")]


class PlanPatch(DocumentModel):
    """A recovery as reviewable data, bound to the plan that it was made for.

    >>> from wavewright.planner import Plan, PlanPatch, Step, plan_hash
    >>> plan = Plan(steps=(Step(id="a", tool="fetch"),))
    >>> add = {"op": "add", "step": {"id": "a2", "tool": "fetch", "supersedes": "a"}}
    >>> patch = PlanPatch(base=plan_hash(plan), reason="It was stale.", ops=[add])
    >>> patch.ops[0].step.supersedes
    'a'
    """

    base: PlanHash
    """Hash of the plan that the patch was made for; it applies to no other."""
    reason: NonEmpty
    """Why the plan should change, for the person who approves it."""
    ops: Annotated[tuple[PatchOp, ...], Field(strict=False)]
    """Operations, applied in this order."""
    expect: Annotated[tuple[GateId, ...], Field(strict=False)] = ()
    """Gates that should pass."""


class Limits(DocumentModel, defer_build=False):
    """Upper bounds of a run; what reaches one is reported, never silent.

    >>> from wavewright.planner import Limits
    >>> Limits(max_steps=8, concurrency=2).max_items
    1000
    """

    max_steps: AtLeastOne = 50
    """Steps of a plan."""
    max_waves: AtLeastOne = 10
    """Waves of a plan, one after the other."""
    max_items: AtLeastOne = 1000
    """Items of one `for_each`."""
    concurrency: AtLeastOne = 16
    """Calls that run at once."""
    tool_concurrency: dict[str, AtLeastOne] = {}
    """Calls of one tool that run at once, by tool name."""
    rounds: Annotated[int, Field(ge=0, le=10)] = 2
    """Recovery patches after the first execution."""
    iterations: Annotated[int, Field(ge=0, le=10)] | None = None
    """Packages of one job that a validator may judge; the daemon's own setting where absent."""
    run_timeout: Seconds | None = None
    """Time of the whole run, recovery included."""
    budget: Budget | None = None
    """What models may spend in the run, beside the configured budgets."""


LIMITS_OF_OWN_PLANS: Final = Limits(max_steps=10_000, max_waves=10_000, max_items=1_000_000)
"""Of a plan that a person wrote and that has no goal template: what the engine carries, as many
waves as steps, and as many items as the step or its tool allows (`max_items`). A model's plan is
held to its template's limits, or their defaults.
"""
