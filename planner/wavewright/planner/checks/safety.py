"""Family E6 and W811: what a plan's data could do: untrusted text, misled agents, secrets,
unanswerable approvals.

*Untrusted text* comes from tools with untrusted output. It does harm in a parameter that writes,
that chooses an address, a recipient, a path or a command, or that tells an agent what to do. A
*secret* is an input that its schema declares as one (`format: password` or `writeOnly`), or a text
that looks like a key; it does harm in any parameter of a tool that sends data out.

Both are followed from where they come in through expressions, `for_each` and the outputs of the
steps between. A value that can hold no free text (a number, a choice, a short pattern) carries
nothing on, nor does order without data (`depends_on`). What a step's approval covers is no fault:
the person who approves is shown the values.

The calls of an agent are chosen by a model, and no plan shows them. What its tools may do is known:
an agent that reads untrusted text, that holds private data and that may call a tool with an address
of its choice could be told by a page
to put the data into an address. Data is *private* where no tool has brought it in from outside: the
output of a tool that sends nothing out, such as one that reads files, or of a service whose output
is trusted. A search and the pages that it finds hold none. A model's answer and the output of a
tool that reads run data hold only what they were made of. A tool that only computes looks like one
that reads a private file, so this is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.data_flow import MAX_DEPTH, DataFlow, holds_free_text
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
from wavewright.planner.plans.uses import ExpressionText
from wavewright.planner.schemas.views import (
    ScopedSchema,
    element_schema,
    field_schemas,
    scoped_schema,
    subschema,
    view_schema,
)
from wavewright.planner.types import StepId, as_object

_ADDRESS_WORDS: Final = frozenset(
    {
        "url",
        "urls",
        "uri",
        "href",
        "link",
        "host",
        "hosts",
        "hostname",
        "domain",
        "endpoint",
        "server",
    }
)
_ADDRESS_FORMATS: Final = frozenset(
    {"uri", "uri-reference", "iri", "iri-reference", "hostname", "idn-hostname"}
)
_RECIPIENT_WORDS: Final = frozenset(
    {"to", "cc", "bcc", "recipient", "recipients", "email", "emails", "queue"}
)
_PATH_WORDS: Final = frozenset({
    "path", "paths", "file", "files", "filename", "filepath", "folder", "directory", "dir", "repo", "repository",
})  # fmt: skip
_COMMAND_WORDS: Final = frozenset({"command", "commands", "cmd", "shell", "script", "argv", "sql"})
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def check_safety(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what a plan's data could do."""
    if _reads_from_outside(subject):
        yield from _untrusted_parameters(subject)
    if any("egress" in signature.effects for signature in _signatures(subject)):
        yield from _sent_secrets(subject)


def untrusted_conditions(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield the conditions in which untrusted text decides whether something is written or sent."""
    if not (any(step.when for step in subject.plan.steps) and _reads_from_outside(subject)):
        return
    flow = outside_flow(subject)
    for found in flow.arrivals():
        if (
            found.use.role == "when"
            and found.signature.effects - {"read"}
            and not asks_approval(found.step, found.signature)
        ):
            source = flow.way(found.origin)[0]
            what = f"the output of step {source!r}" if source in subject.steps else f"`{source}`"
            yield make_diagnostic(
                "W809",
                found.use.pointer,
                f"untrusted text, {what}, decides whether step {found.step.id!r} calls {found.step.tool!r}",
                "decide on an input, or have a person approve the step: `needs_approval: true`",
            )


def _signatures(subject: CheckContext) -> Iterator[ToolSignature]:
    for step in subject.plan.steps:
        if (signature := subject.signature(step)) is not None:
            yield signature


def _reads_from_outside(subject: CheckContext) -> bool:
    return bool(_untrusted_inputs(subject)) or any(
        signature.untrusted_output for signature in _signatures(subject)
    )


def untrusted_names(subject: CheckContext, expansion: str) -> bool:
    """Whether the names of further targets, as an expression gives them over the plan's steps, are
    untrusted text.
    """
    flow = outside_flow(subject)
    for _ in flow.arrivals():
        pass
    return flow.origin_of(ExpressionText("", expansion, "for_each")) is not None


# -- untrusted text


class _Harm(NamedTuple):
    """What untrusted text could do in a parameter."""

    what: str
    """Names the parameter by what it decides."""
    fix: str


def outside_flow(subject: CheckContext) -> DataFlow:
    """Return the flow of untrusted text."""
    sources = {
        step_id
        for step_id, step in subject.steps.items()
        if (signature := subject.signature(step)) is not None and signature.untrusted_output
    }
    return DataFlow(subject, sources=sources, inputs=_untrusted_inputs(subject))


def _untrusted_inputs(subject: CheckContext) -> frozenset[str]:
    return frozenset() if subject.goal is None else subject.goal.untrusted_inputs


def _untrusted_parameters(subject: CheckContext) -> Iterator[Diagnostic]:
    flow, reported = outside_flow(subject), set[tuple[StepId, str]]()
    for found in flow.arrivals():
        step, signature = found.step, found.signature
        if found.use.role != "params" or asks_approval(step, signature):
            continue
        harm = _harm(signature, found.names, found.place)
        if harm is None or (step.id, found.names[0]) in reported:
            continue
        reported.add((step.id, found.names[0]))
        way = flow.way(found.origin)
        source = subject.steps.get(StepId(way[0]))
        # The name of a found target is an input; how it is found stands beside the plan.
        origin = "targets.expand" if source is None else source.tool
        shown = " → ".join(map(repr, [origin, *way]))
        yield make_diagnostic(
            "E601",
            found.use.pointer,
            f"untrusted text reaches {harm.what} of {step.tool!r}: {shown} → {found.names[0]!r} of {step.id!r}",
            f"have a person approve the values (`needs_approval: true` on step {step.id!r}), or {harm.fix}",
        )


def _harm(signature: ToolSignature, names: Sequence[str], place: ScopedSchema) -> _Harm | None:
    """Return what untrusted text could do in a parameter; nothing where the tool takes it, or where
    it is data.
    """
    name = names[0]
    if name in signature.accepts_untrusted:
        return None
    words, formats = _words(names, place)
    acts = bool(signature.effects - {"read"})
    accepting = f"declare that {signature.name!r} takes it as data: `accepts_untrusted: [{name}]`"
    if acts and _names_address(words, formats):
        if name in signature.allowed_hosts:
            return None
        hosts = f"declare which hosts {signature.name!r} may reach: `allowed_hosts: {{{name}: [example.org]}}`"
        return _Harm(f"the address {name!r}", hosts)
    if acts and words & _RECIPIENT_WORDS:
        return _Harm(f"the recipient {name!r}", accepting)
    if words & _PATH_WORDS:
        return _Harm(f"the path {name!r}", accepting)
    if words & _COMMAND_WORDS:
        return _Harm(f"the command {name!r}", accepting)
    if signature.name == AGENT and name == "task":
        return _Harm(
            "the instructions 'task'", "pass it as `context`, which the model reads as data"
        )
    return _Harm(f"{name!r}, which is written,", accepting) if signature.writes else None


def free_addresses(signature: ToolSignature) -> Iterator[str]:
    """Yield the parameters of a tool by which a call chooses any address."""
    root = scoped_schema(signature.input_schema)
    for name, schema in field_schemas(view_schema(root)).items():
        place = subschema(schema, root.root)
        is_bounded = name in signature.allowed_hosts or name in signature.accepts_untrusted
        if not is_bounded and holds_free_text(place) and _names_address(*_words([name], place)):
            yield name


def _names_address(words: Collection[str], formats: Collection[str]) -> bool:
    return not _ADDRESS_WORDS.isdisjoint(words) or not _ADDRESS_FORMATS.isdisjoint(formats)


def _words(names: Sequence[str], place: ScopedSchema) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words in the names of a parameter and of its parts, and the formats of its texts."""
    inner, formats = _parts(place)
    return frozenset(
        word.lower() for part in (*names, *inner) for word in _WORDS.findall(part)
    ), formats


def _parts(place: ScopedSchema, depth: int = 0) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the fields inside a parameter that can hold free text, and the formats of
    its texts.
    """
    view = view_schema(place)
    names, formats = set[str](), set[str]()
    for branch in view.branches or (view,):
        if isinstance(said := branch.schema.get("format"), str):
            formats.add(said)
        fields = field_schemas(branch) if branch.kind == "object" else {}
        inside = {name: subschema(part, branch.root) for name, part in fields.items()}
        inside = {name: part for name, part in inside.items() if holds_free_text(part)}
        names |= inside.keys()
        elements = element_schema(branch) if branch.kind == "array" else None
        for part in (*inside.values(), *(() if elements is None else (elements,))):
            if depth < MAX_DEPTH // 4:
                found = _parts(part, depth + 1)
                names |= found[0]
                formats |= found[1]
    return frozenset(names), frozenset(formats)


# -- secrets


def _sent_secrets(subject: CheckContext) -> Iterator[Diagnostic]:
    secret_inputs = _secret_inputs(subject)
    flow = DataFlow(subject, inputs=secret_inputs, is_secret=True)
    for found in flow.arrivals() if secret_inputs else ():
        if found.use.role == "params" and "egress" in found.signature.effects:
            yield _sent_secret(found.step, found.use.pointer, f"`{flow.way(found.origin)[0]}`")
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        if signature is not None and "egress" in signature.effects:
            for pointer, text in iterate_strings(step.params, f"/steps/{number}/params"):
                if _looks_secret(text):
                    yield _sent_secret(step, pointer, "a text that looks like a key")


def _secret_inputs(subject: CheckContext) -> frozenset[str]:
    """Return the inputs that are declared as secrets, or whose values look like one."""
    declared = subject.goal.inputs_schema.get("properties") if subject.goal is not None else None
    root = subject.goal.inputs_schema if subject.goal is not None else {}
    schemas = as_object(declared)
    named = {name for name, schema in schemas.items() if _declares_secret(subschema(schema, root))}
    looking = {
        name
        for name, value in subject.plan.inputs.items()
        if any(_looks_secret(text) for _, text in iterate_strings(value, ""))
    }
    return frozenset(named | looking)


def _declares_secret(place: ScopedSchema, depth: int = 0) -> bool:
    """Whether a schema, or a part of it, declares a secret."""
    if place.schema.get("writeOnly") is True:
        return True
    view = view_schema(place)
    for branch in view.branches or (view,):
        if branch.schema.get("format") == "password" or branch.schema.get("writeOnly") is True:
            return True
        parts = [subschema(part, branch.root) for part in field_schemas(branch).values()]
        if branch.kind == "array" and (elements := element_schema(branch)) is not None:
            parts.append(elements)
        if depth < MAX_DEPTH // 4 and any(_declares_secret(part, depth + 1) for part in parts):
            return True
    return False


def _looks_secret(text: str) -> bool:
    from wavewright.config.redaction import (
        Redactor,
    )  # its patterns are compiled for plans that send data only

    return Redactor().redact(text) != text


def _sent_secret(step: Step, pointer: str, what: str) -> Diagnostic:
    return make_diagnostic(
        "E603",
        pointer,
        f"a secret, {what}, reaches {step.tool!r}, which sends it out",
        "let the tool read its key from the environment; a plan and its journal hold no secrets",
    )


# -- questions to people

_WHERE: Final = "at a terminal, with `--approve wait`, or by a daemon whose decisions people answer"


def unanswerable_steps(
    subject: CheckContext, finished: Collection[StepId], *, can_ask: bool, can_answer: bool
) -> Iterator[Diagnostic]:
    """Yield the steps that would wait for an approval or an answer that no person can give."""
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        if signature is None or step.id in finished:
            continue
        if not can_ask and asks_approval(step, signature):
            yield make_diagnostic(
                "E602",
                f"/steps/{number}",
                f"step {step.id!r} calls {step.tool!r}, which needs approval, and nobody can be asked here",
                f"run it where somebody can answer ({_WHERE}), or approve every step beforehand with "
                "`--approve always`",
            )
        if not can_answer and step.tool == ASK_PERSON and "default" not in step.params:
            yield make_diagnostic(
                "E602",
                f"/steps/{number}",
                f"step {step.id!r} asks a person, and nobody can be asked here",
                f"run it where somebody can answer ({_WHERE}), or give step {step.id!r} a `default`",
            )


# -- agents


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
