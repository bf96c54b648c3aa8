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
from types import CodeType
from typing import Any, Final, cast

from pydantic import ValidationError

from wavewright.planner.diagnostics.diagnostic import suggest_name
from wavewright.planner.language.plan import Retry
from wavewright.planner.language.signatures import RUN_INPUTS, ToolSignature
from wavewright.planner.types import ConfidenceSource, Effect, Json, JsonObject, JsonSchema
from wavewright.tools.functions.contracts import Contract, UserFunction, read_contract
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.functions.schemas import properties
from wavewright.tools.functions.tool import NoAgents, Tool, ToolCall, ToolFunction

_HOST: Final = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")


class Registry(Mapping[str, Tool]):
    """Tools by name. A mapping, so it is what the executor takes."""

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

    def add(self, function: UserFunction, **options: Any) -> Tool:
        """Make a tool of a function and add it; the options are those of `make_tool`."""
        return self.add_tool(make_tool(function, **options))


def make_tool(  # noqa: PLR0913 - each is an option of its own
    function: UserFunction,
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Iterable[Effect] = ("read",),
    idempotent: bool | None = None,
    version: str | None = None,
    tags: Iterable[str] = (),
    expected_seconds: float | str = 1.0,
    timeout: float | str = 600.0,
    retry: Retry | None = None,
    concurrency: int | None = None,
    max_items: int = 1000,
    freshness_field: str | None = None,
    cache_for: float | str | None = None,
    untrusted_output: bool = False,
    needs_approval: bool = False,
    accepts_untrusted: Iterable[str] = (),
    allowed_hosts: Mapping[str, Iterable[str]] | None = None,
    reads_data: Iterable[str] = (),
    writes_data: Iterable[str] = (),
    output_data: Mapping[str, Iterable[str]] | None = None,
    confidence: ConfidenceSource = "inputs",
    calls_agents: Iterable[str] = (),
    needs: Iterable[str] = (),
    settings: Json = None,
) -> Tool:
    """Return a function as a tool.

    `idempotent` is true where it is not said and the tool writes nothing. `version` is, where it is
    not given, a hash of the contract and of `settings` (what the function was set up with, where
    that decides what it returns), so that a changed signature or another source never meets results
    of the old one.

    Raises:
        ToolDefinitionError: the function or an option cannot be used; the message names which, the
            hint the fix.
    """
    shown = name or getattr(function, "__name__", "")
    if not shown or shown == "<lambda>":
        raise ToolDefinitionError(
            f"{function!r} has no name of its own",
            hint="give one: registry.add(function, name='…')",
        )
    contract = read_contract(function, shown)
    declared = frozenset(effects)
    hosts = {parameter: tuple(allowed) for parameter, allowed in (allowed_hosts or {}).items()}
    if freshness_field is not None:
        check_freshness_field(shown, freshness_field, contract.output_schema)
    fields: dict[str, object] = {
        "name": shown,
        "description": contract.description if description is None else description,
        "input_schema": with_allowed_hosts(shown, contract.input_schema, hosts),
        "output_schema": contract.output_schema,
        "effects": declared,
        "idempotent": "write" not in declared if idempotent is None else idempotent,
        "version": contract_version(contract, declared, settings) if version is None else version,
        "tags": frozenset(tags),
        "expected_seconds": expected_seconds,
        "timeout": timeout,
        "retry": Retry(attempts=1) if retry is None else retry,
        "concurrency": concurrency,
        "max_items": max_items,
        "freshness_field": freshness_field,
        "cache_for": cache_for,
        "untrusted_output": untrusted_output,
        "needs_approval": needs_approval,
        "accepts_untrusted": known_parameters(shown, contract.input_schema, accepts_untrusted),
        "allowed_hosts": hosts,
        "calls_agents": frozenset(calls_agents),
        "needs": frozenset(needs),
        "confidence": confidence,
        "output_data": {field: frozenset(names) for field, names in (output_data or {}).items()},
        **_declared_data(shown, contract, frozenset(reads_data), frozenset(writes_data), cache_for),
    }
    return Tool(_signature(shown, fields), _bind_function(function, contract), code_hash(function))


def _declared_data(
    tool: str, contract: Contract, reads: frozenset[str], writes: frozenset[str], cache_for: object
) -> dict[str, object]:
    """Return the names of run data of a tool, with the plan's inputs where it can read them.

    Raises:
        ToolDefinitionError: the names cannot be used.
    """
    fault = None
    if "data" not in contract.reserved:
        if not reads | writes:
            return {}
        fault = "the function has no keyword-only parameter 'data': add `data: RunData` after a `*`"
    elif RUN_INPUTS in writes:
        fault = f"no tool writes {RUN_INPUTS!r}, the plan's inputs: choose another name"
    elif writes and cache_for is not None:
        fault = "a result for other runs brings no run data with it: leave 'cache_for' or 'writes_data' out"
    if fault is not None:
        raise ToolDefinitionError(f"tool {tool!r} declares run data that it cannot use", hint=fault)
    return {"reads_data": reads | {RUN_INPUTS}, "writes_data": writes}


def known_parameters(tool: str, schema: JsonSchema, names: Iterable[str]) -> frozenset[str]:
    """Return names of a tool's parameters.

    Raises:
        ToolDefinitionError: the tool has no parameter of such a name.
    """
    wanted, known = frozenset(names), properties(schema)
    for name in sorted(wanted - known.keys()):
        raise ToolDefinitionError(
            f"tool {tool!r} has no parameter {name!r}",
            hint=suggest_name(name, known, what="its parameters"),
        )
    return wanted


def with_allowed_hosts(
    tool: str, schema: JsonSchema, hosts: Mapping[str, Iterable[str]]
) -> JsonSchema:
    """Return an input schema whose addresses name one of these hosts, or a subdomain of one, and no
    user or password.

    Raises:
        ToolDefinitionError: the tool has no such parameter, or a host is none.
    """
    known_parameters(tool, schema, hosts)
    limited = dict(properties(schema))
    for name, allowed in hosts.items():
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


def code_hash(function: UserFunction) -> str:
    """Return a short hash of a function's compiled code, without the functions that it calls; empty
    where it has none.

    Comments, blank lines and the place in the file do not count. Another version of Python gives
    another hash.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    return hashlib.sha256(
        "\n".join(_code_parts(code)).encode("utf-8", "surrogatepass")
    ).hexdigest()[:12]


def _code_parts(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        elif isinstance(constant, frozenset):
            # Its order changes from process to process.
            yield repr(sorted(map(repr, cast("frozenset[object]", constant))))
        else:
            yield repr(constant)


def _signature(name: str, fields: dict[str, object]) -> ToolSignature:
    try:
        return ToolSignature.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        option = ".".join(str(part) for part in fault["loc"])
        raise ToolDefinitionError(
            f"tool {name!r}: {option} is {fault['input']!r}: {fault['msg'].lower()}",
            hint=f"fix {option!r} where the tool is registered",
        ) from error


def _bind_function(function: UserFunction, contract: Contract) -> ToolFunction:
    """Return the code behind a tool: bind the parameters, call, and turn the result into JSON."""
    reserved = contract.reserved
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
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
    given: dict[str, object] = {
        "config": dict(request.config or {}),
        "now": request.now,
        "idempotency_key": request.key,
        "emit": request.emit,
    }
    if "data" in reserved:
        from wavewright.tools.functions.injected import MemoryRunData

        given["data"] = MemoryRunData() if request.data is None else request.data
    if "agents" in reserved:
        given["agents"] = NoAgents() if request.agents is None else request.agents
    return {name: value for name, value in given.items() if name in reserved}


def check_freshness_field(name: str, path: str, schema: JsonSchema) -> None:
    """Hold a freshness field against the output schema of its tool.

    Raises:
        ToolDefinitionError: the dotted path leads to a field that the schema does not have.
    """
    node: Json = schema
    for part in path.split("."):
        properties = node.get("properties") if isinstance(node, dict) else None
        if not isinstance(properties, dict):
            return  # an open part of the schema: nothing to hold against it
        if part not in properties:
            known = ", ".join(repr(field) for field in sorted(properties))
            raise ToolDefinitionError(
                f"tool {name!r}: freshness_field {path!r} is no field of its output",
                hint=f"the output has {known}",
            )
        node = properties[part]
