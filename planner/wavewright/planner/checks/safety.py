"""Family E6 and W811: what a plan's data could do: untrusted text, misled agents, secrets.

Untrusted text is followed by `untrusted_text`. A *secret* is an input that its schema declares as
one (`format: password` or `writeOnly`), or a text that looks like a key; it does harm in any
parameter of a tool that sends data out. Both are followed alike (`data_flow`). What a step's
approval covers is no fault: the person who approves is shown the values.

The calls of an agent are chosen by a model, and no plan shows them. What its tools may do is known:
an agent that reads untrusted text, that holds private data and that may call a tool with an address
of its choice could be told by a page to put the data into an address. Data is *private* where no
tool has brought it in from outside: the output of a tool that sends nothing out, such as one that
reads files, or of a service whose output is trusted. A search and the pages that it finds hold
none. A model's answer and the output of a tool that reads run data hold only what they were made
of. A tool that only computes looks like one that reads a private file, so this is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from wavewright.config.redaction import Redactor
from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    iterate_strings,
    split_references,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import Binary, Conditional, all_nodes
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.data_flow import DataFlow, flow_of
from wavewright.planner.checks.influence import Level, capacity
from wavewright.planner.checks.untrusted_text import (
    brings_untrusted_text,
    free_addresses,
    untrusted_decisions,
    untrusted_flow,
    untrusted_parameters,
)
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Step
from wavewright.planner.language.signatures import (
    AGENT,
    ASK_PERSON,
    RUN_INPUTS,
    ToolSignature,
    asks_approval,
    is_open_to_agents,
)
from wavewright.planner.schemas.views import (
    ScopedSchema,
    element_schema,
    field_schemas,
    scoped_schema,
    subschema,
    view_schema,
)
from wavewright.planner.types import JsonSchema, StepId, properties_of

_MAX_DEPTH: Final = 4
"""How deep in a schema a secret is looked for."""


def check_safety(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what a plan's data could do."""
    if brings_untrusted_text(subject):
        flow = subject.derive(untrusted_flow)
        yield from untrusted_parameters(subject, flow)
        if subject.goal is not None and subject.goal.untrusted_writes == "approve":
            yield from untrusted_decisions(subject, flow)
    if any("egress" in signature.effects for signature in _signatures(subject)):
        yield from _sent_secrets(subject)


def safety_warnings(subject: CheckContext, *, has_effects: bool) -> Iterator[Diagnostic]:
    """Yield where untrusted text decides whether, how often or with which values something is
    written or sent, and agents that a page could mislead.
    """
    if has_effects and brings_untrusted_text(subject):
        yield from untrusted_decisions(subject, subject.derive(untrusted_flow))
    yield from misled_agents(subject)


def untrusted_names(subject: CheckContext, expansion: str) -> bool:
    """Whether the names of further targets, as an expression gives them over the plan's steps, are
    untrusted text.
    """
    names = subject.derive(untrusted_flow).influence_on(expansion)
    return names.level is Level.TEXT


def _signatures(subject: CheckContext) -> Iterator[ToolSignature]:
    for step in subject.plan.steps:
        if (signature := subject.signature(step)) is not None:
            yield signature


# -- secrets


def _sent_secrets(subject: CheckContext) -> Iterator[Diagnostic]:
    secret_inputs = _secret_inputs(subject)
    flow = flow_of(subject, {}, secret_inputs)
    for reading in flow.readings if secret_inputs else ():
        if reading.reads_text and "egress" in reading.signature.effects:
            yield _sent_secret(reading.step, reading.pointer, f"`{flow.way(reading.origin)[0]}`")
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        if signature is not None and "egress" in signature.effects:
            for pointer, text in iterate_strings(step.params, f"/steps/{number}/params"):
                if _looks_secret(_without_operators(text)):
                    yield _sent_secret(step, pointer, "a text that looks like a key")


def _secret_inputs(subject: CheckContext) -> frozenset[str]:
    """Return the inputs that are declared as secrets, or whose values look like one."""
    looking: set[str] = set()
    for name, value in subject.plan.inputs.items():
        if any(_looks_secret(text) for _, text in iterate_strings(value, "")):
            looking.add(name)
    return declared_secrets(subject.goal) | looking


def declared_secrets(goal: Goal | None) -> frozenset[str]:
    """Return the inputs of a goal that its schema declares as secrets, or to hold one."""
    root = {} if goal is None else goal.inputs_schema
    schemas = properties_of(root)
    return frozenset(
        name for name, schema in schemas.items() if _declares_secret(subschema(schema, root))
    )


def _declares_secret(place: ScopedSchema, depth: int = 0) -> bool:
    """Whether a schema, or a part of it, declares a secret."""
    # Of a schema that names no type, a view keeps nothing.
    if _is_marked_secret(place.schema):
        return True
    view = view_schema(place)
    for branch in view.alternatives:
        if _is_marked_secret(branch.schema):
            return True
        parts = [subschema(part, branch.root) for part in field_schemas(branch).values()]
        elements = element_schema(branch) if branch.kind == "array" else None
        if elements is not None:
            parts.append(elements)
        if depth < _MAX_DEPTH and any(_declares_secret(part, depth + 1) for part in parts):
            return True
    return False


def _is_marked_secret(schema: JsonSchema) -> bool:
    return schema.get("format") == "password" or schema.get("writeOnly") is True


def _looks_secret(text: str) -> bool:
    return Redactor().redact(text) != text


def _without_operators(text: str) -> str:
    """Return a text without the colons of its conditions and the signs of its comparisons, which
    name nothing: in `steps.a.more ? steps.a.token : "first"` the constant is no token, and in
    `steps.a.token=="first"` neither.
    """
    characters = [*text]
    try:
        for part in split_references(text):
            if isinstance(part, EmbeddedExpression):
                for node in all_nodes(parse_expression(part.expression)):
                    if isinstance(node, Conditional):
                        left, right = node.yes, node.no
                    elif isinstance(node, Binary):
                        left, right = node.left, node.right
                    else:
                        continue
                    between = slice(part.offset + left.end, part.offset + right.start)
                    characters[between] = text[between].replace(":", "?").replace("=", "?")
    except ExpressionError:
        return text  # it is reported as what it is
    return "".join(characters)


def _sent_secret(step: Step, pointer: str, what: str) -> Diagnostic:
    return make_diagnostic(
        "E603",
        pointer,
        f"a secret, {what}, reaches {step.tool!r}, which sends it out",
        "let the tool read its key from the environment; a plan and its journal hold no secrets",
    )


# -- agents


def misled_agents(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield the agents that could be led to send private data to any address."""
    agents: list[Step] = []
    for step in subject.plan.steps:
        signature = subject.signature(step)
        if step.tool != AGENT or signature is None:
            continue
        # Of an agent that asks for approval, a person sees where it sends to.
        if not asks_approval(step, signature):
            agents.append(step)
    if not agents:
        return
    private = [step.id for step in subject.steps.values() if _brings_private_data(subject, step)]
    pages = _origins(subject.derive(untrusted_flow), agents)
    secrets = _origins(DataFlow(subject, dict.fromkeys(private, ())), agents)
    for step in agents:
        tools = agent_tools(subject, step)
        page = _named(tool for tool in tools if tool.untrusted_output) or pages.get(step.id)
        secret = secrets.get(step.id) or _named(tool for tool in tools if _is_private(tool))
        senders = (
            (tool.name, name)
            for tool in tools
            if "egress" in tool.effects
            for name in free_addresses(tool)
        )
        sender = next(senders, None)
        if page is not None and secret is not None and sender is not None:
            tool, name = sender
            yield make_diagnostic(
                "W811",
                f"/steps/{subject.numbers[step.id]}",
                f"untrusted text could lead agent {step.id!r} to send what {secret!r} gives to any address: "
                f"{page!r} → {step.id!r} → {name!r} of {tool!r}",
                f"declare which hosts {tool!r} may reach: `allowed_hosts: {{{name}: [example.org]}}`, or leave "
                f"{secret!r} or {tool!r} out of what step {step.id!r} is given",
            )


def agent_tools(subject: CheckContext, step: Step) -> Sequence[ToolSignature]:
    """Return the tools that an agent may call: those that its step names, or all that are open to
    it.
    """
    named = step.params.get("tools")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else None
    allowed = sorted(subject.allowed_tools) if names is None else names
    signatures = (subject.tools[name] for name in allowed if name in subject.tools)
    return [signature for signature in signatures if is_open_to_agents(signature)]


def _brings_private_data(subject: CheckContext, step: Step) -> bool:
    if step.tool == AGENT:
        return any(_is_private(tool) for tool in agent_tools(subject, step))
    signature = subject.signature(step)
    # What a person answers is as good as an input of the job.
    return signature is not None and step.tool != ASK_PERSON and _is_private(signature)


def _is_private(signature: ToolSignature) -> bool:
    """Whether the output may hold text that is not public."""
    # A model has only what it was given, a tool that reads run data what others have written there.
    is_derived = signature.expected_tokens > 0 or bool(signature.reads_data - {RUN_INPUTS})
    is_public = signature.untrusted_output and "egress" in signature.effects
    holds_text = capacity(scoped_schema(signature.output_schema)).level is Level.TEXT
    return holds_text and not (is_public or is_derived)


def _origins(flow: DataFlow, agents: Sequence[Step]) -> dict[StepId, str]:
    """Return where each agent has text from of what is followed, in its `task` or `context`."""
    agent_ids = {step.id for step in agents}
    origins: dict[StepId, str] = {}
    for reading in flow.readings:
        if reading.reads_text and reading.step.id in agent_ids:
            origins.setdefault(reading.step.id, flow.way(reading.origin)[0])
    return origins


def _named(tools: Iterator[ToolSignature]) -> str | None:
    return next((tool.name for tool in tools), None)
