"""Permits: the least that a plan needs, inferred from it, and whether a call or a patch keeps to it.

A permit names a tool with its effects, a host, a path, a recipient, a model, a secret, or the most
calls and money. Each has the references that force it, such as `steps.letter.params.to`. What a
parameter is comes from its name and its schema, as for untrusted text.

The inference is *sound*: a value that is not known before the run is `*`, whatever it may be. It is
*tight*: a value that follows from literals, inputs and items is itself, one that begins with a
known host or folder is that, and what no step uses is not there. See
`docs/explanation/trust.md`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field

from wavewright.config.value_types import Texts
from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    iterate_strings,
    reads,
    split_references,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.checks.safety import declared_secrets
from wavewright.planner.checks.types import PlanTypes
from wavewright.planner.checks.untrusted_text import (
    ADDRESS_FORMATS,
    ADDRESS_NAMES,
    PATH_FORMATS,
    mentions,
)
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import (
    SUB_PLAN,
    DocumentModel,
    Plan,
    Step,
    dispatched_tools,
)
from wavewright.planner.language.signatures import (
    AGENT,
    SUB_PLAN_SIGNATURE,
    ToolSignature,
    ToolSignatures,
    is_open_to_agents,
)
from wavewright.planner.plans.beginnings import Beginning, known_beginnings
from wavewright.planner.plans.dispatch import with_dispatched
from wavewright.planner.plans.estimates import (
    calls_nothing,
    known_items,
    known_values,
    most_calls,
    scopes_of_calls,
)
from wavewright.planner.plans.let_and_stop import with_let
from wavewright.planner.plans.uses import holds_expression
from wavewright.planner.schemas.views import (
    OPEN,
    SchemaView,
    ScopedSchema,
    element_schema,
    field_schema,
    field_schemas,
    scoped_schema,
    subschema,
    view_of,
    view_schema,
)
from wavewright.planner.types import Effect, Json, as_object, properties_of

ANY: Final = "*"
"""Permits every host, path, recipient or model."""

_PATH_NAMES: Final = frozenset(
    {"path", "paths", "file", "files", "filename", "filepath", "folder", "folders", "directory"}
    | {"dir"}
)
_RECIPIENT_NAMES: Final = frozenset(
    {"to", "cc", "bcc", "recipient", "recipients", "addressee", "email", "mail", "phone", "account"}
    | {"iban", "channel", "receiver", "destination"}
)
_RECIPIENT_FORMATS: Final = frozenset({"email", "idn-email"})
_MAX_DEPTH: Final = 6
_MAX_ITEMS_KNOWN: Final = 1000
"""Items of a list whose values are looked at; of a longer one any value is taken."""

ReachKind: TypeAlias = Literal["hosts", "paths", "recipients"]
Because: TypeAlias = Texts
"""The references that force an entry, such as `steps.letter.params.to`."""


class ToolPermit(DocumentModel):
    """One tool that may be called."""

    effects: Annotated[tuple[Effect, ...], Field(strict=False)] = ()
    because: Because = ()


class Permits(DocumentModel):
    """What a run may do: the content of a permits file."""

    version: Literal[1] = 1
    tools: dict[str, ToolPermit] = {}
    hosts: dict[str, Because] = {}
    """Each host, `*.example.org` for those below one, or `*`."""
    paths: dict[str, Because] = {}
    """Each path; one that ends in `/` also permits all below it."""
    recipients: dict[str, Because] = {}
    models: dict[str, Because] = {}
    secrets: dict[str, Because] = {}
    """By name: inputs that are secret (`inputs.NAME`), and variables of the environment."""
    calls: int | None = None
    """The most calls of tools, repeated attempts included; None for any number."""
    usd: float | None = None
    """The most that models may cost, in US dollars; None for no bound beside the budgets."""

    def reach(self, kind: ReachKind) -> dict[str, Because]:
        """Return the entries of one kind that parameters reach."""
        return {"hosts": self.hosts, "paths": self.paths, "recipients": self.recipients}[kind]


class PermitEntry(NamedTuple):
    """One entry of permits, as a difference shows it."""

    kind: str
    name: str
    because: tuple[str, ...] = ()

    def __str__(self) -> str:
        why = f" ({', '.join(self.because)})" if self.because else ""
        return f"{self.kind} {self.name}{why}"


class PermitSources(NamedTuple):
    """What permits depend on beside the plan and the signatures of its tools."""

    models: Mapping[str, Sequence[str]] = {}
    """The models that each tool may ask, those that stand in included, and under `judge` those of
    gates.
    """
    secrets: Mapping[str, Collection[str]] = {}
    """By tool, the variables of the environment that its calls need."""


def infer_permits(
    plan: Plan,
    goal: Goal | None,
    tools: ToolSignatures,
    sources: PermitSources = PermitSources(),  # noqa: B008 - it is not changed
) -> Permits:
    """Return the least that a bound plan needs.

    Args:
        plan: The bound plan, with its inputs and with its sub-plans put in.
        goal: Its goal, with secret inputs and the budget; None for a plan alone.
        tools: Signatures by name; a tool that is not among them permits nothing of its own.
        sources: Models and variables.
    """
    plan, _ = with_let(plan)
    unions = with_dispatched((step.tool for step in plan.steps), tools)
    needs = _Needs(plan, goal, {**unions, SUB_PLAN: SUB_PLAN_SIGNATURE}, sources)
    for step in plan.steps:
        needs.add_step(step)
    for gate in plan.gates:
        if gate.judge is not None:
            needs.add_models("judge", f"gates.{gate.id}")
    budget = goal.limits.budget if goal is not None else None
    return Permits(
        tools={
            name: ToolPermit(effects=tuple(sorted(needs.effects[name])), because=because)
            for name, because in needs.entries("tools").items()
        },
        hosts=needs.entries("hosts"),
        paths=needs.entries("paths"),
        recipients=needs.entries("recipients"),
        models=needs.entries("models"),
        secrets=needs.entries("secrets"),
        calls=needs.calls,
        usd=None if budget is None else budget.usd,
    )


def excess(needed: Permits, given: Permits, *, calls_are_held: bool = False) -> list[PermitEntry]:
    """Return what is needed and not given.

    Args:
        needed: By a plan.
        given: By a permits file, or to another plan.
        calls_are_held: Whether each call is compared with its values: a value that is not known
            before the run then needs only some entry of its kind, and not all that it might be.
    """
    missing = list[PermitEntry]()
    for name, tool in needed.tools.items():
        permitted = given.tools.get(name)
        if permitted is None:
            missing.append(PermitEntry("tool", name, tool.because))
            continue
        more = sorted(set(tool.effects) - set(permitted.effects))
        missing += (PermitEntry("effect", f"{effect} of {name}", tool.because) for effect in more)
    for kind in _REACHES:
        known = given.reach(kind)
        for name, because in needed.reach(kind).items():
            is_left_to_calls = calls_are_held and bool(known) and _is_open(name)
            if not is_left_to_calls and not any(_covers(kind, entry, name) for entry in known):
                missing.append(PermitEntry(kind.removesuffix("s"), name, because))
    for label, wanted, known in (
        ("model", needed.models, given.models),
        ("secret", needed.secrets, given.secrets),
    ):
        for name, because in wanted.items():
            if name not in known and ANY not in known:
                missing.append(PermitEntry(label, name, because))
    if _is_more(needed.calls, given.calls):
        missing.append(PermitEntry("calls", _most(needed.calls)))
    if _is_more(needed.usd, given.usd):
        missing.append(PermitEntry("usd", _most(needed.usd)))
    return missing


def _is_open(name: str) -> bool:
    """Whether an entry stands for values that are known when a call is made."""
    return name == ANY or name.startswith("*.") or name.endswith("/")


def extended_permits(given: Permits, needed: Permits) -> Permits:
    """Return permits that cover both."""
    tools = dict(given.tools)
    for name, tool in needed.tools.items():
        known = tools.get(name, ToolPermit())
        tools[name] = ToolPermit(
            effects=tuple(sorted({*known.effects, *tool.effects})),
            because=known.because or tool.because,
        )
    return Permits(
        tools=tools,
        hosts={**needed.hosts, **given.hosts},
        paths={**needed.paths, **given.paths},
        recipients={**needed.recipients, **given.recipients},
        models={**needed.models, **given.models},
        secrets={**needed.secrets, **given.secrets},
        calls=None
        if None in (given.calls, needed.calls)
        else max(given.calls or 0, needed.calls or 0),
        usd=None if None in (given.usd, needed.usd) else max(given.usd or 0.0, needed.usd or 0.0),
    )


def refused_value(permits: Permits, signature: ToolSignature, params: Mapping[str, Json]) -> str:
    """Return why a call is not permitted; nothing where it is.

    A value of which a host or a path cannot be told is refused, unless any is permitted.
    """
    if signature.name not in permits.tools and signature.name != SUB_PLAN:
        return f"the tool {signature.name!r} is not among the permits"
    for name, value in params.items():
        for kind, text in _reaching(signature, name, value, _place_of(signature, name)):
            reached = _reached(kind, text)
            if not any(_covers(kind, entry, reached) for entry in permits.reach(kind)):
                what = kind.removesuffix("s")
                return f"{name} {text!r}: the {what} {reached!r} is not among the permits"
    return ""


def _reaching(
    signature: ToolSignature, name: str, value: Json, place: ScopedSchema
) -> Iterator[tuple[ReachKind, str]]:
    """Yield the texts of a value that reach something, and what; those of an object by the names of
    its fields.
    """
    if isinstance(value, str):
        for kind in _kinds(signature, name, place):
            yield kind, value
        return
    for inner_name, part, inner in _parts(signature, name, value, place):
        yield from _reaching(signature, inner_name, part, inner)


def _parts(
    signature: ToolSignature, name: str, value: Json, place: ScopedSchema
) -> Iterator[tuple[str, Json, ScopedSchema]]:
    """Yield the parts of a list or an object, each with the name and the schema that say what it
    is.
    """
    view = view_schema(place)
    if isinstance(value, list):
        element = element_schema(view) or OPEN
        yield from ((name, part, element) for part in value)
    elif isinstance(value, dict):
        for key, part in value.items():
            inner_name = _name_of_field(signature, name, key, view)
            if inner_name is not None:
                yield inner_name, part, field_schema(view, key) or OPEN


def _name_of_field(signature: ToolSignature, name: str, key: str, view: SchemaView) -> str | None:
    """Return the name that says what a field of a parameter reaches; None where it reaches nothing.

    To a tool that only reads, a field that its schema does not name is data, such as the `url` of a
    page that it counts.
    """
    if _is_named(name):
        return name
    return key if _acts(signature) or key in field_schemas(view) else None


def _is_named(name: str) -> bool:
    """Whether the name of a parameter says what it reaches, whatever its parts are called."""
    return any(mentions(name, OPEN, words, ()) for words in _WORDS)


def _acts(signature: ToolSignature) -> bool:
    return bool(signature.effects - {"read"}) and not signature.only_asks_model


def _kinds_of_unknown(
    signature: ToolSignature, name: str, place: ScopedSchema, typed: ScopedSchema, depth: int = 0
) -> Iterator[ReachKind]:
    """Yield what a value may reach of which only a type is known: its own, or that of its place."""
    view = view_schema(typed)
    if view.kind == "open":
        view = view_schema(place)
    own = view_schema(place)
    if view.kind == "open" or depth > _MAX_DEPTH:
        yield from _kinds(signature, name, place)
        if _acts(signature) and not _is_named(name):
            yield from _REACHES
    for branch in view.branches:
        yield from _kinds_of_unknown(signature, name, place, branch.scoped, depth + 1)
    if view.kind == "string":
        yield from _kinds(signature, name, place)
    elif view.kind == "array":
        part = element_schema(view) or OPEN
        yield from _kinds_of_unknown(signature, name, element_schema(own) or OPEN, part, depth + 1)
    elif view.kind == "object":
        for key, schema in field_schemas(view).items():
            inner_name = _name_of_field(signature, name, key, own)
            if inner_name is not None:
                part, inner = subschema(schema, view.root), field_schema(own, key) or OPEN
                yield from _kinds_of_unknown(signature, inner_name, inner, part, depth + 1)
        if field_schema(view, "") is not None:  # it may have fields that its type does not name
            yield from _kinds_of_unknown(signature, name, OPEN, OPEN, depth + 1)


def _place_of(signature: ToolSignature, name: str) -> ScopedSchema:
    return field_schema(view_of(signature.input_schema), name) or OPEN


def _kinds(signature: ToolSignature, name: str, place: ScopedSchema) -> Iterator[ReachKind]:
    """Yield what a parameter of a tool, or a part of one, reaches by its name and its schema."""
    if name in signature.allowed_hosts or mentions(name, place, ADDRESS_NAMES, ADDRESS_FORMATS):
        yield "hosts"
    elif mentions(name, place, _PATH_NAMES, PATH_FORMATS):
        yield "paths"
    elif name in signature.destination or (
        _acts(signature) and mentions(name, place, _RECIPIENT_NAMES, _RECIPIENT_FORMATS)
    ):
        yield "recipients"


_WORDS: Final = (ADDRESS_NAMES, _PATH_NAMES, _RECIPIENT_NAMES)
_REACHES: Final[tuple[ReachKind, ...]] = ("hosts", "paths", "recipients")


class _Needs:
    """What the steps of one plan need, as it is collected."""

    def __init__(
        self,
        plan: Plan,
        goal: Goal | None,
        tools: ToolSignatures,
        sources: PermitSources,
    ) -> None:
        self.plan = plan
        self.types = PlanTypes(plan, goal, tools)
        self.goal = goal
        self.tools = tools
        self.sources = sources
        self.effects = dict[str, frozenset[Effect]]()
        self.calls = 0
        self._entries = dict[str, dict[str, list[str]]]()
        self._secret_inputs = declared_secrets(goal)

    def add(self, kind: str, name: str, because: str) -> None:
        """Add a reference to an entry."""
        references = self._entries.setdefault(kind, {}).setdefault(name, [])
        if because not in references:
            references.append(because)

    def add_models(self, asker: str, because: str) -> None:
        """Add the models that a tool, or `judge`, may ask."""
        for model in self.sources.models.get(asker, (ANY,)):
            self.add("models", model, because)

    def entries(self, kind: str) -> dict[str, Because]:
        """Return the entries of a kind in their order, those beside `*` as well."""
        because_of = self._entries.get(kind, {})
        return {name: tuple(because_of[name]) for name in sorted(because_of)}

    def add_step(self, step: Step) -> None:
        """Add what a step needs, unless it is known that it calls nothing."""
        signature = self.tools.get(step.tool)
        if step.tool == SUB_PLAN or signature is None or calls_nothing(self.plan, step):
            return
        at = f"steps.{step.id}"
        if parts := dispatched_tools(step.tool):
            self.calls += self._most_calls(step, signature)
            self._add_dispatched(step, parts, at)
            self._add_secrets(step)
            return
        self._add_tool(signature, f"{at}.tool")
        self.calls += self._most_calls(step, signature)
        for name, value in step.params.items():
            place = _place_of(signature, name)
            hosts = signature.allowed_hosts.get(name)
            for kind, reached in self._reached_by(step, signature, name, value, place, hosts):
                self.add(kind, reached, f"{at}.params.{name}")
        self._add_secrets(step)
        if step.tool == AGENT or signature.calls_agents:
            self._add_agent(step, f"{at}.params.tools" if "tools" in step.params else f"{at}.tool")

    def _add_dispatched(self, step: Step, parts: Sequence[str], at: str) -> None:
        """Add the calls of a list; where it is not known, its tools with whatever values."""
        calls = known_items(self.plan, step)
        if calls is None or len(calls) > _MAX_ITEMS_KNOWN:
            self._add_chosen([self.tools[part] for part in parts], f"{at}.tool")
            return
        for scope in scopes_of_calls(self.plan, step, calls):
            call = as_object(scope["item"])
            signature = self.tools.get(str(call.get("tool")))
            if signature is None or signature.name not in parts:
                continue  # it is never made
            self._add_tool(signature, f"{at}.tool")
            for name, value in as_object(call.get("params")).items():
                for kind, text in _reaching(signature, name, value, _place_of(signature, name)):
                    self.add(kind, _reached(kind, text), f"{at}.for_each")

    def _add_tool(self, signature: ToolSignature, because: str) -> None:
        self.effects[signature.name] = signature.effects
        self.add("tools", signature.name, because)
        if signature.expected_tokens > 0:
            self.add_models(signature.name, because)
        for variable in self.sources.secrets.get(signature.name, ()):
            self.add("secrets", variable, because)

    def _add_agent(self, step: Step, because: str) -> None:
        """Add the tools that an agent may call, with whatever values: a model chooses them."""
        own, named = self.tools[step.tool], step.params.get("tools")
        within = {tool.name: tool for tool in own.within}
        agents = [tool for tool in own.within if tool.name in own.calls_agents]
        if step.tool != AGENT:
            chosen = within
        elif (agent := step.params.get("agent")) is not None:
            asked = [tool for tool in agents if tool.name == agent] or agents
            chosen = {tool.name: tool for each in asked for tool in each.within}
        else:
            goal = self.tools if self.goal is None else self.goal.tool_names
            chosen = {name: tool for name, tool in self.tools.items() if name in goal}
        if isinstance(named, list) and not holds_expression(named):
            every = {**self.tools, **chosen}
            chosen = {name: every[name] for name in map(str, named) if name in every}
        self._add_chosen(
            [tool for _, tool in sorted(chosen.items()) if is_open_to_agents(tool)], because
        )

    def _add_chosen(self, signatures: Iterable[ToolSignature], because: str) -> None:
        """Add tools that a model or data chooses, with whatever values, and what is called within
        them.
        """
        for signature in signatures:
            self._add_tool(signature, because)
            self._add_chosen(signature.within, because)
            for parameter in properties_of(signature.input_schema):
                place = _place_of(signature, parameter)
                hosts = signature.allowed_hosts.get(parameter)
                for kind in _kinds_of_unknown(signature, parameter, place, place):
                    for reached in _bounded(kind, hosts):
                        self.add(kind, reached, because)

    def _most_calls(self, step: Step, signature: ToolSignature) -> int:
        attempts = (step.retry or signature.retry).attempts
        calls = most_calls(self.plan, step)
        if calls is None:
            calls = step.max_items or signature.max_items
        return calls * attempts

    def _reached_by(
        self,
        step: Step,
        signature: ToolSignature,
        name: str,
        value: Json,
        place: ScopedSchema,
        hosts: Sequence[str] | None = None,
    ) -> Iterator[tuple[ReachKind, str]]:
        """Yield what a parameter of a step reaches, with the hosts that are allowed of it; or what a
        part of one does, which may have the name of such a parameter.
        """
        items = known_items(self.plan, step) if step.for_each is not None else []
        known = list(known_values(self.plan, step, value))
        if known and len(items or ()) <= _MAX_ITEMS_KNOWN:
            for one in known:
                for kind, text in _reaching(signature, name, one, place):
                    yield kind, _reached(kind, text)
            return
        if not isinstance(value, str):
            for inner_name, part, inner in _parts(signature, name, value, place):
                yield from self._reached_by(step, signature, inner_name, part, inner)
            return
        beginnings = known_beginnings(self.plan, step, value)
        typed = scoped_schema(self.types.value(value, step))
        is_text = all(way.is_whole for way in beginnings) or view_schema(typed).kind == "string"
        if not is_text:
            for kind in _kinds_of_unknown(signature, name, place, typed):
                for reached in _bounded(kind, hosts):
                    yield kind, reached
            return
        for kind in _kinds(signature, name, place):
            for way in beginnings:
                start = _known_start(kind, way)
                bounded = _bounded(kind, hosts) if start is None else [start]
                for reached in bounded:
                    yield kind, reached

    def _add_secrets(self, step: Step) -> None:
        for where, text in _places(step):
            for name in _inputs_read(text, self._secret_inputs):
                self.add("secrets", f"inputs.{name}", f"steps.{step.id}.{where}")


def _places(step: Step) -> Iterator[tuple[str, str]]:
    for name, value in step.params.items():
        yield from ((f"params.{name}", text) for _, text in iterate_strings(value))
    yield from (("for_each", text) for _, text in iterate_strings(step.for_each))
    if step.when is not None:
        yield "when", step.when if "${" in step.when else f"${{{step.when}}}"


def _inputs_read(text: str, inputs: frozenset[str]) -> frozenset[str]:
    """Return those of some inputs that a text reads; all of them, where it reads the inputs as a
    whole.
    """
    names = set[str | None]()
    try:
        for part in split_references(text) if "${" in text else ():
            if isinstance(part, EmbeddedExpression):
                names |= {read.name for read in reads(part.expression) if read.root == "inputs"}
    except ExpressionError:
        return frozenset()
    return inputs if None in names else inputs & names


def _bounded(kind: ReachKind, hosts: Sequence[str] | None) -> Iterator[str]:
    """Yield what a parameter may reach whatever its value is, given its allowed hosts."""
    if kind != "hosts" or hosts is None:
        yield ANY
        return
    for host in hosts:
        yield host.lower()
        yield f"*.{host.lower()}"


def _known_start(kind: ReachKind, beginning: Beginning) -> str | None:
    """Return what a text reaches of which the beginning is known: its host or folder, or all of it;
    None where that is not known.
    """
    start = beginning.text
    if beginning.is_whole:
        return _reached(kind, start)
    if kind == "hosts":
        _, separator, rest = start.partition("://")
        # Only where the host has ended: `https://example.org${x}` may go on as another name.
        has_ended = separator and any(end in rest for end in "/?#")
        return _host(start) if has_ended else None
    if kind == "paths" and "/" in start:
        return _folder(start[: start.rindex("/")] + "/")
    return None


def _reached(kind: ReachKind, text: str) -> str:
    """Return the host, path or recipient that a value names."""
    match kind:
        case "hosts":
            return _host(text) or text
        case "paths":
            return _folder(text) if text.endswith("/") else _path(text)
        case "recipients":
            return text


def _path(text: str) -> str:
    """Return a path without `.`, inner `..` and doubled slashes."""
    path = posixpath.normpath(text)
    return path[1:] if path.startswith("//") else path


def _folder(text: str) -> str:
    """Return a path as an entry that covers all below it, which ends in a slash."""
    path = _path(text)
    return path if path.endswith("/") else f"{path}/"


def _host(text: str) -> str | None:
    """Return the host of an address, or of a bare host; None where it cannot be told."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        # A user or a backslash before the path leads readers of addresses to different hosts.
        is_clear = "@" not in parts.netloc and "\\" not in parts.netloc
        return parts.hostname if is_clear else None
    except ValueError:
        return None


def _covers(kind: ReachKind, entry: str, wanted: str) -> bool:
    """Whether an entry of permits covers what is wanted, which may be an entry itself."""
    if entry in (ANY, wanted):
        return True
    if wanted == ANY:
        return False
    # Whoever writes an entry by hand writes `./notes/` or `Example.org`.
    entry = _reached(kind, entry)
    if kind == "hosts" and entry.startswith("*."):
        # An address whose host cannot be told may end as a host does: `https://evil\\.example.org`.
        return _host(wanted) == wanted and wanted.endswith(entry[1:])
    if kind == "paths" and entry.endswith("/"):
        return _is_within(_path(wanted), _path(entry))
    return entry == wanted


def _is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies below it, both without `.` and inner `..`."""
    if folder == ".":
        rest = path
    elif path == folder:
        return True
    else:
        above = folder if folder.endswith("/") else f"{folder}/"
        if not path.startswith(above):
            return False
        rest = path.removeprefix(above)
    # A folder above, such as `..`, is left again by what goes on with `..`.
    return not rest.startswith("/") and rest.split("/")[0] != ".."


def _is_more(needed: float | None, given: float | None) -> bool:
    return given is not None and (needed is None or needed > given)


def _most(number: float | None) -> str:
    return "any number" if number is None else f"up to {number:g}"


def permit_changes(old: Permits, new: Permits) -> tuple[list[PermitEntry], list[PermitEntry]]:
    """Return what new permits have more than old ones, and what less."""
    return excess(new, old), excess(old, new)


def difference_lines(old: Permits, new: Permits) -> Iterable[str]:
    """Return a line for each permit that is more (`+`) or less (`-`)."""
    more, less = permit_changes(old, new)
    return [*(f"+ permit {entry}" for entry in more), *(f"- permit {entry}" for entry in less)]


def permits_text(permits: Permits) -> Sequence[str]:
    """Return permits for people, a line an entry with the references that force it."""
    nothing = Permits(calls=0, usd=permits.usd)
    lines = [str(entry) for entry in excess(permits, nothing)]
    return [*lines, f"usd {_most(permits.usd)}"] if permits.usd is not None else lines
