"""The registry: typed Python functions as tools that steps can call.

A *tool* is a signature and its code. Schemas come from the function's signature and docstring; a
plain function runs in a thread, an async one is awaited, and what they return is converted to JSON.
A function that cannot be a tool is refused when it is registered.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Unpack

from pydantic import ValidationError

from wavewright.planner import (
    Json,
    JsonObject,
    JsonSchema,
    ToolSignature,
    as_list,
    as_object,
    suggest_name,
)
from wavewright.planner.language.signatures import RUN_INPUTS
from wavewright.planner.schemas.views import (
    ScopedSchema,
    entry_view,
    field_schema,
    field_schemas,
    scoped_schema,
    view_schema,
)
from wavewright.planner.types import Effect, properties_of
from wavewright.tools.functions.code import code_hash, own_code_hash
from wavewright.tools.functions.contracts import (
    Contract,
    UserFunction,
    read_contract,
    unwrap_partial,
)
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.functions.injected import MemoryRunData
from wavewright.tools.functions.options import ToolOptions
from wavewright.tools.functions.tool import NoAgents, Tool, ToolCall, ToolFunction

_HOST: Final = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")


class Registry(Mapping[str, Tool]):
    """Tools by name. A mapping, so it is what the executor takes.

    >>> from wavewright.tools import Registry
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> tools = Registry()
    >>> _ = tools.add(double, deterministic=True)
    >>> list(tools)
    ['double']
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add_tool(tool)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def signatures(self) -> dict[str, ToolSignature]:
        """What the planner and the checker know of these tools."""
        return {name: tool.signature for name, tool in self._tools.items()}

    def add_tool(self, tool: Tool) -> Tool:
        """Add a finished tool.

        Raises:
            ToolDefinitionError: the name is taken.
        """
        name = tool.signature.name
        if name in self._tools:
            raise ToolDefinitionError(
                f"tool {name!r} is defined twice", hint="give one of the two another name"
            )
        self._tools[name] = tool
        return tool

    def add(self, function: UserFunction, **options: Unpack[ToolOptions]) -> Tool:
        """Make a tool of a function and add it; the options are those of `make_tool`."""
        return self.add_tool(make_tool(function, **options))


def make_tool(function: UserFunction, **options: Unpack[ToolOptions]) -> Tool:
    """Return a function as a tool.

    Raises:
        ToolDefinitionError: the function or an option cannot be used; the message names which, the
            hint the fix.

    >>> from wavewright.tools import make_tool
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> make_tool(double, effects={"read"}).signature.output_schema
    {'type': 'integer'}
    """
    name = options.get("name") or name_of(function)
    if not name or name == "<lambda>":
        raise ToolDefinitionError(
            f"{function!r} has no name of its own",
            hint="give one: `make_tool(function, name='…')`",
        )
    contract = read_contract(function, name)
    signature = _signature(name, contract, options)
    code = code_hash(function)
    return Tool(
        signature.model_copy(update={"code": code}),
        _bind_function(function, contract),
        code,
        function=function,
        own_code=own_code_hash(function),
    )


def name_of(given: object) -> str:
    """Return the name that a tool has, or a function of its own; that of a partial is what it wraps
    has.
    """
    if isinstance(given, Tool):
        return given.signature.name
    return str(getattr(unwrap_partial(given), "__name__", ""))


def _signature(name: str, contract: Contract, options: ToolOptions) -> ToolSignature:
    """Return the signature that the contract of a function and what is said of it make together.

    Raises:
        ToolDefinitionError: an option cannot be used.
    """
    said = {option: value for option, value in options.items() if value is not None}
    said.pop("settings", None)
    declared = _validated(
        name,
        {
            "description": contract.description,
            "input_schema": contract.input_schema,
            "output_schema": contract.output_schema,
            **said,
            "name": name,
        },
    )
    if declared.freshness_field is not None:
        check_freshness_field(name, declared.freshness_field, contract.output_schema)
    check_parameters(name, contract.input_schema, declared.accepts_untrusted, declared.destination)
    known_fields(name, contract.output_schema, declared.untrusted)
    _check_output_data(name, contract, declared)
    if declared.calls_agents and "agents" not in contract.reserved:
        raise ToolDefinitionError(
            f"tool {name!r} declares agents that it cannot call",
            hint="the function has no keyword-only parameter 'agents': add `agents: Agents` after a `*`",
        )
    completed: dict[str, object] = {
        **dict(declared),
        **_declared_data(name, contract, declared),
        "untrusted_output": declared.brings_untrusted,
        "input_schema": with_allowed_hosts(name, contract.input_schema, declared.allowed_hosts),
    }
    if "idempotent" not in said:
        completed["idempotent"] = not declared.writes
    if "version" not in said:
        set_up_with = options.get("settings")
        completed["version"] = contract_version(contract, declared.effects, set_up_with)
    return _validated(name, completed)


def _validated(name: str, fields: Mapping[str, object]) -> ToolSignature:
    try:
        return ToolSignature.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        option = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            raise ToolDefinitionError(
                f"tool {name!r}: there is no option {option!r}",
                hint=suggest_name(option, ToolOptions.__annotations__, what="options"),
            ) from error
        # A pattern in the message keeps its capitals.
        why = fault["msg"][:1].lower() + fault["msg"][1:]
        if fault["type"] in ("frozen_set_type", "tuple_type"):
            why = "it should be a list"
        raise ToolDefinitionError(
            f"tool {name!r}: {option} is {fault['input']!r}: {why}",
            hint=f"fix {option!r} where the tool is registered",
        ) from error


def _declared_data(
    tool: str, contract: Contract, declared: ToolSignature
) -> dict[str, frozenset[str]]:
    """Return the names of run data of a tool, with the plan's inputs where it can read them.

    Raises:
        ToolDefinitionError: the names cannot be used.
    """
    reads, writes = declared.reads_data, declared.writes_data
    fault = None
    if "data" not in contract.reserved:
        if not reads | writes:
            return {}
        fault = "the function has no keyword-only parameter 'data': add `data: RunData` after a `*`"
    elif RUN_INPUTS in writes:
        fault = f"no tool writes {RUN_INPUTS!r}, the plan's inputs: choose another name"
    elif writes and declared.cache_for is not None:
        fault = "a result for other runs brings no run data with it: leave 'cache_for' or 'writes_data' out"
    if fault is not None:
        raise ToolDefinitionError(f"tool {tool!r} declares run data that it cannot use", hint=fault)
    return {"reads_data": reads | {RUN_INPUTS}, "writes_data": writes}


def _check_output_data(tool: str, contract: Contract, declared: ToolSignature) -> None:
    """Hold the fields of an output that are made of run data against the output and that data.

    A name of data that the tool does not read is written by no step that feeds the field, so that
    nothing would lower the confidence in it.

    Raises:
        ToolDefinitionError: the output has no such field, or the tool does not read such data.
    """
    known_fields(tool, contract.output_schema, declared.output_data.keys() - {"confidence"})
    for field, names in declared.output_data.items():
        for name in sorted(names - declared.reads_data):
            raise ToolDefinitionError(
                f"tool {tool!r}: output_data makes {field!r} of {name!r}, which it does not read",
                hint=suggest_name(name, declared.reads_data, what="its reads_data")
                if declared.reads_data
                else f"add {name!r} to 'reads_data'",
            )


def check_parameters(
    tool: str, schema: JsonSchema, accepts_untrusted: Iterable[str], destination: Iterable[str]
) -> None:
    """Hold what is said of a tool's parameters against its schema.

    Raises:
        ToolDefinitionError: the tool has no parameter of such a name, or one that takes any text is
            a destination, where not even a number is safe.
    """
    taken, chosen = frozenset(accepts_untrusted), frozenset(destination)
    _known_parameters(tool, schema, taken | chosen)
    for name in sorted(taken & chosen):
        raise ToolDefinitionError(
            f"tool {tool!r}: {name!r} is a destination, and takes untrusted text",
            hint="leave it out of 'destination' or of 'accepts_untrusted'",
        )


def _known_parameters(tool: str, schema: JsonSchema, names: Iterable[str]) -> Mapping[str, Json]:
    """Return the parameters of a tool, which has those of these names.

    Raises:
        ToolDefinitionError: the tool has no parameter of such a name.
    """
    known = properties_of(schema)
    for name in sorted(frozenset(names) - known.keys()):
        raise ToolDefinitionError(
            f"tool {tool!r} has no parameter {name!r}",
            hint=suggest_name(name, known, what="its parameters"),
        )
    return known


def known_fields(tool: str, schema: JsonSchema, names: Iterable[str]) -> frozenset[str]:
    """Return names of fields that a tool's output may have at some depth.

    A name that no field has is refused: what it was meant for would count as trusted.

    Raises:
        ToolDefinitionError: no part of the output has a field of such a name.
    """
    untrusted, parts = frozenset(names), [*_parts(schema)]
    if any(_has_open_fields(part) for part in parts):
        return untrusted
    known = {field for part in parts for field in properties_of(part)}
    for name in sorted(untrusted - known):
        raise ToolDefinitionError(
            f"tool {tool!r} has no field {name!r} in its output",
            hint=suggest_name(name, known, what="its fields")
            if known
            else "of an output without fields say `untrusted_output`",
        )
    return untrusted


def _parts(schema: Json) -> Iterator[JsonSchema]:
    """Yield a schema and those within it; one that takes anything is `{}`."""
    if not isinstance(schema, dict):
        if schema is True:
            yield {}
        return
    yield schema
    for keyword in ("properties", "$defs", "definitions"):
        for inner in as_object(schema.get(keyword)).values():
            yield from _parts(inner)
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in as_list(schema.get(keyword)):
            yield from _parts(inner)
    for keyword in ("items", "additionalProperties"):
        yield from _parts(schema.get(keyword))


def _has_open_fields(schema: JsonSchema) -> bool:
    """Whether a schema takes objects and does not say which fields they have."""
    if schema.get("additionalProperties", False) is not False or "patternProperties" in schema:
        return True
    if schema.keys() & {"properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}:
        return False
    kinds = schema.get("type")
    if isinstance(kinds, str):
        kinds = [kinds]
    if not isinstance(kinds, list) or "object" in kinds:
        return True
    return "array" in kinds and not schema.keys() & {"items", "prefixItems"}


def with_allowed_hosts(
    tool: str, schema: JsonSchema, hosts: Mapping[str, Iterable[str]]
) -> JsonSchema:
    """Return an input schema whose addresses name one of these hosts, or a subdomain of one, and no
    user or password.

    Raises:
        ToolDefinitionError: the tool has no such parameter, it takes no text, or a host is none.
    """
    limited = dict(_known_parameters(tool, schema, hosts))
    for name, allowed in hosts.items():
        kind = view_schema(ScopedSchema(as_object(limited[name]), schema)).kind
        if kind not in ("string", "union", "open"):
            raise ToolDefinitionError(
                f"tool {tool!r}: allowed_hosts names {name!r}, which is no text but {kind}",
                hint="name a parameter that takes one address",
            )
        names = [*allowed]
        if not names or not all(_HOST.fullmatch(host) for host in names):
            raise ToolDefinitionError(
                f"tool {tool!r}: allowed_hosts of {name!r} are {names!r}",
                hint="write names such as example.org",
            )
        hosts_pattern = "|".join(re.escape(host) for host in names)
        pattern = (
            rf"^(https?://)?([A-Za-z0-9-]+\.)*({hosts_pattern})(:[0-9]{{1,5}})?([/?#][^\s\\]*)?$"
        )
        own = limited[name]
        described = own.get("description") if isinstance(own, dict) else None
        said = f"{described} " if isinstance(described, str) else ""
        limited[name] = {
            "type": "string",
            "description": f"{said}Allowed hosts, with their subdomains: {', '.join(names)}.",
            "allOf": [own, {"pattern": pattern}],
        }
    return {**schema, "properties": limited} if hosts else schema


def contract_version(contract: Contract, effects: frozenset[Effect], settings: Json = None) -> str:
    """Return a short hash of what a tool takes, gives and does, and of what it was set up with."""
    spoken: JsonObject = {
        "input": contract.input_schema,
        "output": contract.output_schema,
        "effects": [*sorted(effects)],
    }
    if settings is not None:
        spoken["settings"] = settings
    text = json.dumps(spoken, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _bind_function(function: UserFunction, contract: Contract) -> ToolFunction:
    """Return the code behind a tool: bind the parameters, call, and turn the result into JSON."""
    reserved = contract.reserved
    called = unwrap_partial(function)
    if not inspect.isroutine(called):
        called = getattr(called, "__call__", called)  # noqa: B004 - whether it is awaited is asked
    runs_here = inspect.iscoroutinefunction(called)

    async def call(request: ToolCall) -> Json:
        arguments = contract.bind(request.params)
        if reserved:
            arguments |= _reserved_arguments(request, reserved)
        if runs_here:
            result = await function(**arguments)
        else:
            from wavewright.tools.functions.threads import call_in_thread

            result = await call_in_thread(function, arguments, request.run)
            if inspect.isawaitable(result):  # a plain function that hands back a coroutine
                result = await result
        return contract.to_json(result)

    return call


def _reserved_arguments(request: ToolCall, reserved: frozenset[str]) -> dict[str, object]:
    arguments: dict[str, object] = {
        "config": dict(request.config or {}),
        "now": request.now,
        "idempotency_key": request.key,
        "emit": request.emit,
    }
    if "data" in reserved:
        arguments["data"] = MemoryRunData() if request.data is None else request.data
    if "agents" in reserved:
        arguments["agents"] = NoAgents() if request.agents is None else request.agents
    return {name: value for name, value in arguments.items() if name in reserved}


def check_freshness_field(name: str, path: str, schema: JsonSchema) -> None:
    """Hold a freshness field against the output schema of its tool, through lists and optional parts
    as the gate `fresh_within` follows it.

    Raises:
        ToolDefinitionError: the dotted path leads to a field that the schema does not have, or to
            one that holds no time.
    """
    place = scoped_schema(schema)
    for part in path.split("."):
        owner = entry_view(place)
        field = field_schema(owner, part)
        if field is None:
            known = ", ".join(repr(field) for field in sorted(field_schemas(owner)))
            raise ToolDefinitionError(
                f"tool {name!r}: freshness_field {path!r} is no field of its output",
                hint=f"the output has {known}" if known else f"no value there has {part!r}",
            )
        place = field
    view = entry_view(place)
    kinds = {branch.kind for branch in view.branches or (view,)}
    if kinds.isdisjoint(_KINDS_OF_TIMES):
        raise ToolDefinitionError(
            f"tool {name!r}: freshness_field {path!r} holds no time, but {' or '.join(sorted(kinds))}",
            hint="name a field with a date or a time",
        )


_KINDS_OF_TIMES: Final = frozenset({"string", "integer", "number", "open"})
