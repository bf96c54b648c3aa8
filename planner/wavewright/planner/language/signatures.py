"""What the planner knows of a tool: its signature, never its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from wavewright.config.value_types import AtLeastOne, NonNegative, Seconds, Texts
from wavewright.planner.language.plan import (
    ASK_MODEL,
    SORTED,
    SUB_PLAN,
    DocumentModel,
    Names,
    Retry,
    Step,
)
from wavewright.planner.types import TOOL_NAME_PATTERN, ConfidenceSource, Effect, JsonSchema

RUN_INPUTS: Final = "inputs"
"""Among the names of run data: the plan's inputs, which no tool writes."""
FEEDBACK_PARAM: Final = "feedback"
"""Name of the parameter that takes the feedback on a rejected package, and prefix of the inputs
that hold it.
"""
AGENT: Final = "agent"
"""Name of the tool in which a model chooses its own calls."""
ASK_PERSON: Final = "ask_person"
"""Name of the tool that asks a person."""


class CallPolicy(DocumentModel):
    """How calls of a tool are made, whoever answers them: code or a model."""

    tags: Names = frozenset()
    """What goal rules speak of: `data`, `analysis`, or a pack's own words."""
    expected_seconds: Seconds = 1.0
    """Prior of one call's duration; orders ready steps and draws the critical path."""
    timeout: Seconds = 600.0
    """Of one attempt."""
    retry: Retry = Retry(attempts=1)
    """How failed calls are tried again, where a step says nothing else."""
    concurrency: AtLeastOne | None = None
    """How many calls of this tool run at once in one process."""
    max_items: AtLeastOne = 1000
    """Greatest number of items of one `for_each` over it."""
    freshness_field: str | None = None
    """Dotted path, in an output, of the time that its data is of (ISO 8601 date or date-time)."""
    deterministic: bool = False
    """Whether equal calls of one run give the same output, so that one call serves all of them; has
    no meaning for a tool that writes.
    """
    cache_for: Seconds | None = None
    """How long another run may reuse a result; never where absent, nor for a tool that writes."""
    needs_approval: bool = False
    """Whether a person must allow each call."""


class ToolSignature(CallPolicy):
    """The contract of one tool, as the checker, the planner's prompt and the executor read it.

    `input_schema` is a JSON Schema of an object; `output_schema` of any value, `{}` where nothing
    is promised.

    >>> from wavewright.planner import ToolSignature
    >>> signature = ToolSignature(name="pay", description="Pay.", input_schema={}, effects={"write"})
    >>> signature.writes
    True
    """

    name: Annotated[str, Field(pattern=TOOL_NAME_PATTERN)]
    """Name that plans call it by."""
    description: str = ""
    """What it does, for the planner: one or two sentences."""
    input_schema: JsonSchema = {"type": "object"}
    """JSON Schema of the arguments: an object."""
    output_schema: JsonSchema = {}
    """JSON Schema of what a call gives; what it promises is checked before anyone reads it."""
    effects: Annotated[frozenset[Effect], Field(strict=False), SORTED] = frozenset({"read"})
    """`read` looks, `write` changes something outside the run, `egress` sends data out of it."""
    idempotent: bool = True
    """Whether a call with the same idempotency key may be repeated after a crash."""
    version: str = "1"
    """A new version makes results of the old one unusable for other runs and for retries."""
    expected_tokens: NonNegative = 0
    """Prior of the model tokens of one call, read and written; what the budget is checked against
    beforehand.
    """
    model_preferences: Annotated[tuple[str, ...], Field(exclude=True)] = ("auto",)
    """Which models a call asks, where it asks one; the goal's preference where it is `auto`."""
    untrusted_output: bool = False
    """Whether the output holds text from outside, which is not trusted."""
    untrusted: Names = frozenset()
    """Fields of the output, at any depth, that hold such text, where the others do not: ids and
    dates that the service makes are not the sender's text.
    """
    accepts_untrusted: Names = frozenset()
    """Parameters that may hold untrusted text: the tool treats it as data, whatever it says."""
    destination: Names = frozenset()
    """Parameters that choose what is reached, such as an account, a path or code: not even a number
    of somebody else's is safe there, also where the tool only reads.
    """
    allowed_hosts: dict[str, Texts] = {}
    """Parameter → hosts that an address in it may name, with their subdomains; a call with another
    is refused.
    """

    reads_data: Names = frozenset()
    """Names of run data that a call may read; what is there under them is part of the step key."""
    writes_data: Names = frozenset()
    """Names of run data that a call may write."""
    output_data: dict[str, Names] = {}
    """Field of the output → names of the run data that alone it is made of; what another step has
    written lowers no confidence in it.
    """
    confidence: ConfidenceSource = "inputs"
    """Whether the confidence in an output is at most the least of what it was made of, or is its
    own.
    """
    typed_by: dict[str, str] = {}
    """Parameter that holds a JSON Schema → path of what that schema types in the output, such as
    `records[*].record`; a schema that a step writes out types the steps that read the output.
    """
    calls_agents: Names = frozenset()
    """Named agents that a call may run, where a model is configured."""
    needs: Names = frozenset()
    """Labels that a worker of the fleet must have to make a call, such as `gpu`."""
    within: Annotated[tuple[ToolSignature, ...], Field(exclude=True, repr=False)] = ()
    """Tools that a model may call within a call; of the tool `agent`, named agents as well."""
    code: Annotated[str, Field(exclude=True)] = ""
    """Hash of the code behind it, which is no part of the contract: other runs reuse only what the
    same code made.
    """

    @property
    def brings_untrusted(self) -> bool:
        """Whether an output, or a field of it, holds untrusted text."""
        return self.untrusted_output or bool(self.untrusted)

    @property
    def writes(self) -> bool:
        """Whether a call changes something outside the run."""
        return "write" in self.effects

    @property
    def is_made_once(self) -> bool:
        """Whether equal calls of one run are made once."""
        return self.deterministic and self.only_reads

    @property
    def only_reads(self) -> bool:
        """Whether a call changes nothing that a repeated one would change again."""
        return not self.effects or ("read" in self.effects and not self.writes)

    @property
    def only_asks_model(self) -> bool:
        """Whether a call asks a model, and changes nothing."""
        return self.expected_tokens > 0 and self.only_reads


SUB_PLAN_SIGNATURE: Final = ToolSignature(
    name=SUB_PLAN,
    description="Give the result of a sub-plan.",
    input_schema={
        "type": "object",
        "properties": {"result": {}},
        "required": ["result"],
        "additionalProperties": False,
    },
    effects=frozenset(),
    expected_seconds=0.001,
)
"""What the checker knows of the steps that give results of sub-plans."""
INSTRUCTIONS: Final = {AGENT: "task", ASK_MODEL: "question"}
"""Tools that ask a model, with the parameter that it obeys; it reads all others as data."""
NOT_DISPATCHED: Final = frozenset({AGENT, ASK_PERSON, SUB_PLAN})
"""Tools that neither an agent nor data may choose."""


def asks_approval(step: Step, signature: ToolSignature) -> bool:
    """Whether a person must allow each call of a step."""
    return step.needs_approval or signature.needs_approval


def may_share_call(step: Step, signature: ToolSignature, *, asks_person: bool) -> bool:
    """Whether one call may serve a step and others that make an equal call."""
    # What a person has answered to one step is no answer to another, and a step that supersedes
    # another was added because the earlier output was not good enough.
    return signature.is_made_once and not asks_person and step.supersedes is None


def is_open_to_agents(signature: ToolSignature) -> bool:
    """Whether an agent may call a tool: it only reads, asks no person, and is no agent itself."""
    return (
        signature.only_reads
        and not signature.needs_approval
        and signature.name not in NOT_DISPATCHED
    )


ToolSignatures: TypeAlias = Mapping[str, ToolSignature]
"""Signatures by tool name."""


def is_feedback_input(name: str) -> bool:
    """Whether an input holds the feedback on a package."""
    head, _, number = name.rpartition("_")
    return head == FEEDBACK_PARAM and number.isdecimal()
