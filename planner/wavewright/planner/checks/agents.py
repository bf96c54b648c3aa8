"""Agents that untrusted text could lead to send private data out.

The calls of an agent are chosen by a model, and no plan shows them. What its tools may do is known: an agent that reads
untrusted text, that holds private data and that may call a tool with an address of its choice could be told by a page
to put the data into an address.

Data is *private* where no tool has brought it in from outside: the output of a tool that sends nothing out, such as one
that reads files, or of a service whose output is trusted. A search and the pages that it finds hold none. A model's
answer and the output of a tool that reads run data hold only what they were made of. A tool that only computes looks
like one that reads a private file, so this is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.data_flow import DataFlow, holds_free_text
from wavewright.planner.checks.safety import free_addresses, outside_flow
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic
from wavewright.planner.language.plan import Step
from wavewright.planner.language.signatures import (
    AGENT,
    ASK_PERSON,
    RUN_INPUTS,
    ToolSignature,
    asks_approval,
    is_open_to_agents,
)
from wavewright.planner.schemas.views import scoped_schema
from wavewright.planner.types import StepId


def misled_agents(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield the agents that could be led to send private data to any address."""
    agents = [
        step
        for step in subject.plan.steps
        if (signature := subject.signature(step)) is not None
        and step.tool == AGENT
        and not asks_approval(step, signature)
    ]
    if not agents:
        return
    private = {step.id for step in subject.steps.values() if _brings_private_data(subject, step)}
    pages = _origins(outside_flow(subject), agents)
    secrets = _origins(DataFlow(subject, sources=private), agents)
    for step in agents:
        tools = agent_tools(subject, step)
        page = _named(tool for tool in tools if tool.untrusted_output) or pages.get(step.id)
        secret = secrets.get(step.id) or _named(tool for tool in tools if _is_private(tool))
        senders = (
            (tool.name, name) for tool in tools if "egress" in tool.effects for name in free_addresses(tool)
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
    """Return the tools that an agent may call: those that its step names, or all that are open to it."""
    named = step.params.get("tools")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else None
    wanted = names or sorted(subject.allowed_tools)
    found = (subject.tools[name] for name in wanted if name in subject.tools)
    return [signature for signature in found if is_open_to_agents(signature)]


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
    return not (is_public or is_derived) and holds_free_text(scoped_schema(signature.output_schema))


def _origins(flow: DataFlow, agents: Sequence[Step]) -> dict[StepId, str]:
    """Return where each agent has what is followed from, in its `task` or `context`."""
    wanted = {step.id for step in agents}
    found: dict[StepId, str] = {}
    for arrival in flow.arrivals():
        if arrival.step.id in wanted and arrival.use.role == "params":
            found.setdefault(arrival.step.id, flow.way(arrival.origin)[0])
    return found


def _named(tools: Iterator[ToolSignature]) -> str | None:
    return next((tool.name for tool in tools), None)
