"""`wavewright tools`: the tools that plans of this project can call, and the lock of what MCP
servers offer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio

from wavewright.config import Settings, exit_codes, install_hint, is_installed
from wavewright.config.atomic_files import write_atomically
from wavewright.engine.interfaces.cli.common.arguments import has_journal, project_settings
from wavewright.engine.interfaces.cli.common.output import (
    print_aside,
    print_json,
    print_line,
    report_error,
)
from wavewright.engine.run.project.sound_part import ToolFault, sound_part
from wavewright.engine.run.project.tools import all_tools, tools_of_goal
from wavewright.engine.run.project.used_packs import pack_use
from wavewright.planner import Json, ToolSignature
from wavewright.planner.diagnostics.diagnostic import counted, type_name
from wavewright.planner.diagnostics.rendering import display_width, printable, wrap_line
from wavewright.planner.types import properties_of
from wavewright.reviewer.values import duration_text
from wavewright.tools import ToolDefinitionError, ToolError, server_settings
from wavewright.tools.mcp.lock import (
    LOCK_NAME,
    McpServerError,
    ServerListing,
    ToolsLock,
    lock_server,
    read_lock,
    tool_changes,
)
from wavewright.tools.mcp.tools import McpServerSettings

WIDTH = 80
"""Columns of the text."""


def list_tools(job: Path | None, *, output_format: str, lists_all: bool = False) -> int:
    """Print each tool as `name(params) -> result`, or all signatures as JSON (which `check --tools`
    reads). Text leaves out tools of packs that the project does not use, unless all are wanted.

    Raises:
        ExceptionGroup: functions or files of the project are no tools; the others are printed.
    """
    settings, faults = project_settings(job), tuple[ToolFault, ...]()
    hidden, unused = frozenset[str](), tuple[str, ...]()
    if job is None:
        settings, faults = sound_part(settings)
        registry = all_tools(settings)
        if output_format == "text" and not lists_all:
            packs = pack_use(settings)
            hidden, unused = packs.tools_of_unused(), packs.unused
    else:
        # The list of all tools resolves no job.
        from wavewright.engine.run.jobs.resolving import resolve_job_file

        registry = tools_of_goal(resolve_job_file(job, None, settings).goal, settings)
    signatures = [registry[name].signature for name in sorted(registry) if name not in hidden]
    if output_format == "json":
        print_json([tool_json(signature) for signature in signatures])
    else:
        sys.stdout.write("\n".join(tool_text(signature) for signature in signatures))
        if hidden.intersection(registry):
            told = (
                f"Not listed, as this project does not use them: the packs {', '.join(unused)}. "
                "`--all` lists their tools, too."
            )
            print_line("\n" + "\n".join(wrap_line(told)))
    if faults:
        return report_error(ExceptionGroup("these are no tools", faults))
    return exit_codes.OK


def _params(signature: ToolSignature) -> list[str]:
    schema = signature.input_schema
    properties, required = schema.get("properties"), schema.get("required")
    names = set(required) if isinstance(required, list) else set[object]()
    return [
        f"{name}{'' if name in names else '?'}: {type_name(value)}"
        for name, value in (properties.items() if isinstance(properties, dict) else ())
    ]


def _result(schema: Json) -> str:
    """Return the type of a result: the fields of an object, or of the objects in a list, one level
    deep.
    """
    if not isinstance(schema, dict):
        return "any"
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, dict) and properties_of(items):
        return f"list of {_result(items)}"
    fields = properties_of(schema)
    if not fields:
        return type_name(schema)
    return f"{{{', '.join(f'{name}: {type_name(value)}' for name, value in fields.items())}}}"


def tool_text(signature: ToolSignature) -> str:
    """Return `name(params) -> result` and a line on what the tool does."""
    marks: list[str] = sorted(signature.effects - {"read"})
    marks += ["untrusted output"] if signature.untrusted_output else []
    marks += ["needs approval"] if signature.needs_approval else []
    about = signature.description.partition("\n")[0] + (f"  [{', '.join(marks)}]" if marks else "")
    lines = _wrapped_call(signature)
    if about:
        lines += wrap_line(about, indent="    ", rest="    ", width=WIDTH, breaks_words=True)
    return "\n".join(lines) + "\n"


def _wrapped_call(signature: ToolSignature) -> list[str]:
    """Return `name(param: type, optional?: type) -> {field: type}`, wrapped if it is longer than a
    line.
    """
    call = f"{signature.name}({', '.join(_params(signature))})"
    result = f"-> {_result(signature.output_schema)}"
    if display_width(f"{call} {result}") <= WIDTH:
        return [printable(f"{call} {result}")]
    return [
        *wrap_line(call, rest=" " * 8, width=WIDTH),
        *wrap_line(result, indent="    ", rest=" " * 8, width=WIDTH),
    ]


def tool_facts(signature: ToolSignature, settings: Settings) -> Iterator[str]:
    """Yield what a call of a tool may do, how far its output is trusted, and how long the latest
    calls took and what they cost, as the journal has them.
    """
    yield f"effects: {', '.join(sorted(signature.effects)) or 'none'}"
    if signature.untrusted_output:
        yield "its output is untrusted"
    elif signature.untrusted:
        yield f"untrusted: {', '.join(sorted(signature.untrusted))}"
    if signature.needs_approval:
        yield "needs an approval"
    if signature.cache_for is not None:
        yield f"results are kept for {duration_text(signature.cache_for)}"
    if not has_journal(settings):
        return
    # Loads the journal, which the list of tools does not need.
    from wavewright.engine.rehearsal.dry_run.history import read_history

    journal = settings.journal_url or settings.journal
    past = read_history(journal, {signature.name}).get(signature.name)
    if past is None or not past.seconds:
        return
    seconds = sorted(past.seconds)
    median = duration_text(seconds[len(seconds) // 2])
    yield f"the last {counted(len(seconds), 'call')} took {median} (median)"
    costs = [spend.usd for spend in past.spends if spend.usd is not None]
    if costs:
        yield f"and cost {sum(costs) / len(costs):.4f} USD each"


def tool_json(signature: ToolSignature) -> Mapping[str, object]:
    """Return a signature as JSON, without the fields that have their default."""
    return signature.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {
        "name": signature.name,
        "description": signature.description,
        "input_schema": signature.input_schema,
        "output_schema": signature.output_schema,
        "effects": sorted(signature.effects),
    }


def write_lock() -> int:
    """Ask every server for its tools, write the lock, and print the changes.

    Raises:
        ToolDefinitionError: no server is configured, or some need a variable that is not set, fail
            or do not answer in time; each of them is named, and nothing is written.
    """
    settings = project_settings()
    if not settings.mcp.servers:
        raise ToolDefinitionError(
            "no MCP server is configured", "add one to mcp.servers in wavewright.yaml"
        )
    if not is_installed("mcp"):
        raise ToolDefinitionError("the extra 'mcp' is not installed", install_hint("mcp"))
    old = read_lock(settings.root)
    listings = anyio.run(_ask_servers, settings)
    sections = settings.mcp.servers
    new = ToolsLock(
        servers={
            name: lock_server(listing, sections[name].tools) for name, listing in listings.items()
        }
    )
    # First the lock: whoever reads what is printed may stop reading (`| head`), which ends this.
    write_atomically(settings.root / LOCK_NAME, new.text.encode())
    for name, server in new.servers.items():
        changes = tool_changes(old.servers.get(name), server)
        about = f"{name} ({server.name} {server.version})".replace(" )", ")")
        sys.stdout.write(
            f"{printable(about)}: {counted(len(server.tools), 'tool')}, {'changed' if changes else 'unchanged'}\n"
        )
        sys.stdout.writelines(f"  {printable(line)}\n" for line in changes)
        for tool, left_out in server.left_out.items():
            print_aside(printable(f"warning: {name}.{tool} is left out: {left_out.reason}"))
        if unread := listings[name].unread:
            print_aside(
                printable(f"warning: only a part of the tools of {name} was read: {unread}")
            )
    return exit_codes.OK


async def _ask_servers(settings: Settings) -> Mapping[str, ServerListing]:
    """Return what each server lists, in the order of the settings.

    Raises:
        ToolDefinitionError: some cannot be asked; each of them is named.
    """
    # Only the lock starts servers; their library is an extra.
    from wavewright.tools import McpSessions

    sections = settings.mcp.servers
    servers = list[McpServerSettings]()
    listings = dict[str, ServerListing]()
    failed = dict[str, ToolError | McpServerError]()
    for name, section in sections.items():
        try:
            servers.append(server_settings(name, section, settings.root))
        except McpServerError as error:
            failed[name] = error
    async with McpSessions(servers) as sessions, anyio.create_task_group() as group:

        async def ask(name: str) -> None:
            try:
                listings[name] = await sessions.listing(name)
            except ToolError as error:
                failed[name] = error

        for server in servers:
            group.start_soon(ask, server.name)
    if failed:
        raise _lock_refused([failed[name] for name in sections if name in failed], len(sections))
    return {name: listings[name] for name in sections}


def _lock_refused(
    errors: Sequence[ToolError | McpServerError], servers: int
) -> ToolDefinitionError:
    """Return the error that has a line for each server that cannot be asked, with what mends it."""
    if servers == 1:
        return ToolDefinitionError(str(errors[0]), errors[0].hint)
    lines = [f"  {error}" + (f" ({error.hint})" if error.hint else "") for error in errors]
    return ToolDefinitionError(
        "\n".join(
            [f"{len(errors)} of {servers} MCP servers cannot be asked for their tools", *lines]
        ),
        f"mend what is named, or remove it from mcp.servers; {LOCK_NAME} stays as it was",
    )
