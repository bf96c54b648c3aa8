"""E601, E604 and W809: where untrusted text does harm in one plan.

*Untrusted text* comes from tools with untrusted output, from fields of an output that a tool names
(`untrusted`), and from inputs that hold it. `data_flow` follows it.

Every text parameter of a tool that writes or sends is a *sink*, unless the tool says that it takes
such text (`accepts_untrusted`, `allowed_hosts`) or a person approves the values. The rule and its
limits are in `docs/explanation/trust.md`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.data_flow import PREVIOUS_RESULT, DataFlow, Reading, flow_of
from wavewright.planner.checks.influence import Level, capacity, together
from wavewright.planner.diagnostics.diagnostic import Addition, Diagnostic, make_diagnostic
from wavewright.planner.language.plan import Step, dispatched_tools
from wavewright.planner.language.signatures import (
    AGENT,
    INSTRUCTIONS,
    ToolSignature,
    asks_approval,
)
from wavewright.planner.schemas.views import (
    ScopedSchema,
    element_schema,
    field_schema,
    field_schemas,
    view_of,
    view_schema,
)
from wavewright.planner.types import StepId

ADDRESS_FORMATS: Final = frozenset(
    {"uri", "uri-reference", "iri", "iri-reference", "hostname", "idn-hostname"}
)
PATH_FORMATS: Final = frozenset({"path", "file-path", "directory-path"})
ADDRESS_NAMES: Final = frozenset(
    {"url", "urls", "uri", "href", "link", "host", "hosts", "hostname", "domain", "endpoint"}
    | {"server"}
)
_READ_NAMES: Final = frozenset(
    {"path", "paths", "file", "files", "filename", "filepath", "folder", "directory", "dir"}
    | {"repo", "repository", "command", "cmd", "shell", "script", "argv", "sql", "code"}
)
"""Words in the names of parameters by which a tool that only reads is told what to read or to run,
where it says nothing of them (`destination`). For tools that write or send no name counts.
"""
_MAX_DEPTH: Final = 4
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_APPROVAL = Addition("needs_approval", value=True)


def untrusted_flow(subject: CheckContext) -> DataFlow:
    """Return where untrusted text goes in a plan."""
    return flow_of(subject, _sources(subject), untrusted_inputs(subject), equals_count=True)


def _sources(subject: CheckContext) -> dict[StepId, frozenset[str]]:
    sources = dict[StepId, frozenset[str]]()
    for step_id, step in subject.steps.items():
        signature = subject.signature(step)
        if signature is not None and signature.brings_untrusted:
            sources[step_id] = signature.untrusted
    return sources


def untrusted_inputs(subject: CheckContext) -> frozenset[str]:
    """Return the inputs that hold untrusted text."""
    return frozenset() if subject.goal is None else subject.goal.untrusted_inputs


def brings_untrusted_text(subject: CheckContext) -> bool:
    """Whether anything in a plan brings untrusted text in."""
    return bool(untrusted_inputs(subject)) or bool(_sources(subject))


# -- E601


def untrusted_parameters(subject: CheckContext, flow: DataFlow) -> Iterator[Diagnostic]:
    """Yield the parameters in which untrusted text could do harm."""
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        if (
            signature is None
            or asks_approval(step, signature)
            or step is not subject.steps[step.id]
        ):
            continue
        readings = [
            reading for reading in flow.by_step.get(step.id, ()) if reading.role == "params"
        ]
        yield from _refused(subject, flow, step, signature, readings)
        yield from _too_much(flow, f"/steps/{number}", step, signature, readings)


def _refused(
    subject: CheckContext,
    flow: DataFlow,
    step: Step,
    signature: ToolSignature,
    readings: Sequence[Reading],
) -> Iterator[Diagnostic]:
    reported = set[str]()
    for reading in readings:
        name = reading.names[0]
        least = Level.RANGE if name in signature.destination else Level.TEXT
        if name in reported or reading.influence.level < least or not is_sink(signature, name):
            continue
        reported.add(name)
        way = flow.way(reading.origin)
        source = subject.steps.get(StepId(way[0]))
        # The name of a found target is an input; how it is found stands beside the plan.
        origin = "targets.expand" if source is None else source.tool
        if way[0] == PREVIOUS_RESULT:
            origin = "an earlier run"
        shown = " → ".join(map(repr, [origin, *way]))
        yield make_diagnostic(
            "E601",
            reading.pointer,
            f"untrusted text reaches {_what(signature, name)} of {step.tool!r}: {shown} → {name!r} of {step.id!r}",
            f"{_approving(step)}, or {_declaring(signature, name)}",
            mend=_APPROVAL,
            hint_for_model=f"{_approving(step)}, or {_passing(signature, name)}",
        )


def _too_much(
    flow: DataFlow,
    pointer: str,
    step: Step,
    signature: ToolSignature,
    readings: Sequence[Reading],
) -> Iterator[Diagnostic]:
    """Yield the call whose numbers, dates or choices, taken together, could spell a text."""
    small = [
        reading
        for reading in readings
        if reading.influence.level < Level.TEXT and is_sink(signature, reading.names[0])
    ]
    whole = together(reading.influence for reading in small)
    if whole.level is Level.TEXT:
        names = list(dict.fromkeys(repr(reading.names[0]) for reading in small))
        way = " → ".join(map(repr, flow.way(whole.origin)))
        yield make_diagnostic(
            "E601",
            f"{pointer}/params",
            f"untrusted text reaches {step.tool!r} as several numbers or choices, which can spell anything: {way} → "
            f"{' and '.join(names)} of {step.id!r}",
            f"{_approving(step)}, or pass one number, or fewer choices",
            mend=_APPROVAL,
        )


def is_sink(signature: ToolSignature, name: str) -> bool:
    """Whether untrusted text may not reach a parameter of a tool without an approval.

    A parameter of which nothing is known, of a tool that only asks another system, is what the tool
    is asked about, such as the `context` of an agent.
    """
    if name in signature.destination:
        return True
    if name in signature.accepts_untrusted or name in signature.allowed_hosts:
        return False
    if signature.only_asks_model and not dispatched_tools(signature.name):
        # It reads all but its instructions as data.
        return INSTRUCTIONS.get(signature.name) == name
    place = field_schema(view_of(signature.input_schema), name)
    if signature.effects and not signature.only_reads:
        return True
    if place is None or mentions(name, place, _READ_NAMES, PATH_FORMATS):
        return True
    return "egress" in signature.effects and view_schema(place).kind != "open"


def free_addresses(signature: ToolSignature) -> Iterator[str]:
    """Yield the parameters of a tool by which a call chooses any address."""
    for name, place in text_parameters(signature).items():
        is_bounded = name in signature.allowed_hosts or name in signature.accepts_untrusted
        chooses = name in signature.destination or mentions(
            name, place, ADDRESS_NAMES, ADDRESS_FORMATS
        )
        if chooses and not is_bounded:
            yield name


def mentions(
    name: str, place: ScopedSchema, words: Collection[str], formats: Collection[str], depth: int = 0
) -> bool:
    """Whether the name of a parameter, or of a text in it, has one of some words, or its schema one
    of some formats.
    """
    if not {word.lower() for word in _WORDS.findall(name)}.isdisjoint(words):
        return True
    view = view_schema(place)
    for branch in view.alternatives:
        if branch.schema.get("format") in formats:
            return True
        fields = field_schemas(branch) if branch.kind == "object" else ()
        parts = {inner: field_schema(branch, inner) for inner in fields}
        if branch.kind == "array":
            parts["-"] = element_schema(branch)
        for inner, part in parts.items():
            if part is None or depth > _MAX_DEPTH or capacity(part).level is not Level.TEXT:
                continue
            if mentions(inner, part, words, formats, depth + 1):
                return True
    return False


def _what(signature: ToolSignature, name: str) -> str:
    if INSTRUCTIONS.get(signature.name) == name:
        return f"the instructions {name!r}"
    if name in signature.destination:
        return f"the destination {name!r}"
    if signature.writes:
        return f"{name!r}, which is written,"
    return f"{name!r}, which is sent," if "egress" in signature.effects else repr(name)


def _approving(step: Step) -> str:
    return f"have a person approve the values (`needs_approval: true` on step {step.id!r})"


def _passing(signature: ToolSignature, name: str) -> str:
    """Return what the author of a plan can pass instead, who declares nothing of a tool."""
    if dispatched_tools(signature.name):
        return "leave tools that write or send out of its `tools`"
    if signature.name in INSTRUCTIONS:
        data = "context" if signature.name == AGENT else "of"
        return f"pass it as `{data}`, which the model reads as data"
    return f"pass a constant, an input of the job or one of several trusted values as {name!r}"


def _declaring(signature: ToolSignature, name: str) -> str:
    """Return what can be declared, so that a parameter takes untrusted text, or passed instead."""
    if dispatched_tools(signature.name) or signature.name in INSTRUCTIONS:
        return _passing(signature, name)
    if name in signature.destination:
        return (
            f"declare that {signature.name!r} takes it as data, in place of `destination` "
            f"(`accepts_untrusted: [{name}]`)"
        )
    return (
        f"declare that {signature.name!r} takes it as data (`accepts_untrusted: [{name}]`) or, for an address, "
        f"which hosts it may reach (`allowed_hosts: {{{name}: [example.org]}}`)"
    )


# -- W809 and E604


def untrusted_decisions(subject: CheckContext, flow: DataFlow) -> Iterator[Diagnostic]:
    """Yield the steps that write or send, and of which untrusted text decides something: whether
    and how often they are called, which of several values they get, or a number.
    """
    is_error = subject.goal is not None and subject.goal.untrusted_writes == "approve"
    for step in subject.steps.values():
        signature = subject.signature(step)
        if signature is None or signature.only_reads or asks_approval(step, signature):
            continue
        deciding = [reading for reading in flow.by_step.get(step.id, ()) if _decides(reading)]
        if not deciding:
            continue
        first = deciding[0]
        source = flow.way(first.origin)[0]
        shown = f"the output of step {source!r}" if source in subject.steps else f"`{source}`"
        yield make_diagnostic(
            "E604" if is_error else "W809",
            first.pointer,
            f"untrusted text, {shown}, decides {_decided(deciding)}",
            "decide on an input, or have a person approve the step: `needs_approval: true`",
            mend=_APPROVAL,
        )


def _decides(reading: Reading) -> bool:
    if reading.role != "params":
        return True
    return reading.influence.level < Level.TEXT and is_sink(reading.signature, reading.names[0])


def _decided(readings: Sequence[Reading]) -> str:
    """Return in words what is decided of a step."""
    step = readings[0].step
    when = [role for role in ("when", "for_each") if any(read.role == role for read in readings)]
    called = _listed([{"when": "whether", "for_each": "how often"}[role] for role in when])
    names = _listed(list(dict.fromkeys(repr(read.names[0]) for read in readings if read.names)))
    if not called:
        return f"{names} of {step.tool!r}, which step {step.id!r} calls"
    return f"{called} step {step.id!r} calls {step.tool!r}" + (f", and {names}" if names else "")


def _listed(what: Sequence[str]) -> str:
    return "".join(what) if len(what) < 2 else f"{', '.join(what[:-1])} and {what[-1]}"


def text_parameters(signature: ToolSignature) -> Mapping[str, ScopedSchema]:
    """Return the parameters of a tool that can hold text, with their schemas."""
    view = view_of(signature.input_schema)
    properties = view.schema.get("properties")
    names = properties if isinstance(properties, dict) else {}
    places = {name: field_schema(view, name) for name in names}
    return {
        name: place
        for name, place in places.items()
        if place is not None and capacity(place).level is Level.TEXT
    }
