"""`wavewright runs`, `show` and `runs prune`: list, show, explain and remove runs of the
journal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

import anyio

from wavewright.config import Settings, exit_codes
from wavewright.config.errors import cut_end
from wavewright.engine.interfaces.cli.common.arguments import (
    has_journal,
    open_journal,
    parse_past_instant,
    parse_seconds,
    project_settings,
    require_journal,
)
from wavewright.engine.interfaces.cli.common.named_runs import find_named_run, load_run, not_begun
from wavewright.engine.interfaces.cli.common.output import (
    CommandError,
    instant_text,
    print_json,
    print_line,
    print_lines,
)
from wavewright.engine.interfaces.cli.common.run_text import (
    model_summary_lines,
    summary_text,
)
from wavewright.engine.run.decisions.questions import mark_waiting_runs, run_now
from wavewright.engine.run.model_phases import refused_answers
from wavewright.engine.run.package import remove_run_files
from wavewright.engine.run.recording import faults_of_plan
from wavewright.engine.run.target_waves import TargetWaves, target_waves
from wavewright.engine.service.job_store.message_retention import RUN_OF_OPEN_JOB
from wavewright.executor import Event, RunState, fold
from wavewright.executor.events.codec import encode
from wavewright.executor.run.redacted_events import redacted_events
from wavewright.executor.store import run_queries
from wavewright.executor.store.journal import RunRow
from wavewright.executor.store.retention import RunRemoval, find_groups, remove_groups
from wavewright.planner import JsonObject, as_list, suggest_name
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import printable, printable_json
from wavewright.reviewer import Package, package_bytes
from wavewright.reviewer.package.builder import stored_package
from wavewright.reviewer.package.confidence_proof import (
    proof_of,
    reviewed_field,
    reviewed_fields,
)
from wavewright.reviewer.report.page import render_report

_MAX_JOB_LENGTH = 40
"""Columns of a job's name in the table."""
_RUN_WIDTH = 24
_STATUS_WIDTH = 14
"""Columns of a status in the table, at least."""


_STATUSES = {"waiting": ("waiting_for_answer", "waiting_for_approval")}
"""Statuses selected by a value of `--status` that is no status itself."""


def list_runs(
    *, limit: int, output_format: str, statuses: Sequence[str] = (), since: str | None = None
) -> int:
    """Print the newest runs, filtered by status and by their start if these are given.

    Raises:
        CommandError: `since` is neither a date nor a duration.
    """
    begun = 0.0 if since is None else parse_past_instant(since, "--since", time.time())
    wanted = frozenset(name for status in statuses for name in _STATUSES.get(status, (status,)))
    rows = anyio.run(_rows, limit, wanted, begun)
    if output_format == "json":
        print_json([row_json(row) for row in rows])
    elif rows:
        print_lines(runs_table(rows))
    elif statuses or since is not None:
        sys.stdout.write("no such runs\n")
    else:
        sys.stdout.write("no runs yet; `wavewright run JOB` starts one\n")
    return exit_codes.OK


def show_run(run: str | None, *, output_format: str) -> int:
    """Print one run: its package as text, JSON or HTML, or its events as lines of JSON.

    Raises:
        CommandError: the run has no plan yet, so only its events can be shown.
    """
    row, events = anyio.run(load_listed_run, project_settings(), run)
    if output_format == "events":
        for event in redacted_events(events):
            kind, body = encode(event)
            sys.stdout.write(printable_json({"kind": kind, **json.loads(body)}) + "\n")
        return exit_codes.OK
    state = fold(events)
    if (waves := target_waves(state)) is not None:
        return _show_targets(state, waves, output_format)
    package = package_of(row, state)
    if output_format == "json":
        sys.stdout.write(package_bytes(package).decode() + "\n")
    elif output_format == "html":
        sys.stdout.write(render_report(package))
    else:
        lines = "".join(f"{line}\n" for line in model_summary_lines(package))
        sys.stdout.write(f"{summary_text(package)}{lines}\n")
    return exit_codes.OK


async def _rows(limit: int, statuses: frozenset[str], begun: float) -> list[RunRow]:
    settings = project_settings()
    if not has_journal(settings):
        return []
    async with open_journal(settings) as journal:
        rows = [row for row in await journal.list_runs() if row.started >= begun]
        if not statuses:
            return await mark_waiting_runs(journal, rows[:limit], time.time())
        # The store lists waiting runs as interrupted; their events show that they wait.
        rows = [row for row in rows if row.status in {*statuses, "interrupted"}]
        if not statuses.isdisjoint({"interrupted", *_STATUSES["waiting"]}):
            rows = await mark_waiting_runs(journal, rows, time.time())
        return [row for row in rows if row.status in statuses][:limit]


def target_rows(waves: TargetWaves) -> list[dict[str, object]]:
    """Return each target with its wave, its status and its own run, as JSON."""
    rows: list[dict[str, object]] = []
    for target in waves.known():
        end = waves.ends.get(target.name)
        rows.append(
            {
                "target": target.name,
                "wave": target.wave,
                "status": _target_status(waves, target.name),
                "run": waves.runs.get(target.name),
                "reason": end.reason if end is not None else "",
            }
        )
    return rows


def _target_status(waves: TargetWaves, name: str) -> str:
    if name in waves.ends:
        return waves.ends[name].status
    if name in waves.awaiting:
        return "validating"
    return "running" if name in waves.runs else "waiting"


def _show_targets(state: RunState, waves: TargetWaves, output_format: str) -> int:
    """Print a run of several targets."""
    rows = target_rows(waves)
    if output_format == "json":
        print_json({"run": state.run, "targets": rows})
        return exit_codes.OK
    if output_format == "html":
        raise CommandError(
            f"run {state.run!r} has several targets and no report of its own",
            hint="`wavewright show RUN --format html` makes one of a target's run",
        )
    sys.stdout.write(f"{waves.summary()}\n")
    width = max(_RUN_WIDTH, *(len(str(row["run"] or "")) + 2 for row in rows), 0)
    for row in rows:
        status = str(row["status"]).replace("_", " ")
        line = f"  wave {row['wave']}  {status:<13}{row['run'] or '':<{width}}{row['target']}"
        sys.stdout.write(printable(f"{line}  {row['reason']}".rstrip()) + "\n")
    return exit_codes.OK


async def load_listed_run(settings: Settings, prefix: str | None) -> tuple[RunRow, list[Event]]:
    """Return a run, found as by `find_named_run`, as the list of runs has it, and its events.

    Raises:
        CommandError: there are no runs yet.
        RunNotFound: there is no such run.
    """
    async with open_journal(require_journal(settings)) as journal:
        run = await find_named_run(journal, prefix)
        found = await journal.read(partial(run_queries.find_row, run=run))
        if found is None:
            raise not_begun(run)
        [row] = await mark_waiting_runs(journal, [found[0]], time.time())
        return row, await journal.load(run)


def package_of(row: RunRow, state: RunState) -> Package:
    """Return the package of a run, as far as it has come.

    Raises:
        CommandError: the run has no plan yet.
    """
    # A run that could not begin has no id in its events.
    now = run_now(state, row.status, time.time(), row.given_up)
    run, package = row.run, stored_package(state, now)
    if package is None:
        reason = "" if state.finished is None else state.finished.reason
        when = "ended before it had a plan" if state.has_ended else "has no plan yet"
        message = f"run {run!r} {when}" + (f": {reason}" if reason else "")
        raise CommandError(
            "\n".join([message, *_lines_of_refused_plan(state)]),
            hint=f"`wavewright show {run} --format events` prints what there is",
            exit_code=exit_codes.NEGATIVE,
        )
    return package


def _lines_of_refused_plan(state: RunState) -> Iterator[str]:
    """Yield what is wrong with the plan that a run could not begin with."""
    for fault in faults_of_plan(state):
        if fault["severity"] == "error":
            hint = f" ({fault['hint']})" if fault["hint"] else ""
            yield f"  {fault['code']}: {fault['message']}{hint}"


def row_json(row: RunRow) -> dict[str, object]:
    """Return a row of the list of runs as JSON."""
    return {
        "run": row.run,
        "job": row.job,
        "status": row.status,
        "started": instant_text(row.started),
        "finished": instant_text(row.finished) if row.finished is not None else None,
        "steps": row.steps,
        "ok": row.ok,
        "failed": row.failed,
        "owner": row.owner,
        "tokens": row.tokens,
    }


def runs_table(rows: Sequence[RunRow]) -> list[str]:
    """Return the lines of a table of runs, with its header."""
    job_width = min(_MAX_JOB_LENGTH, max(len("job"), *(len(row.job) for row in rows)))
    costs = any(row.tokens for row in rows)
    status_width = max(_STATUS_WIDTH, *(len(row.status) + 2 for row in rows))
    run_width = max(_RUN_WIDTH, *(len(row.run) + 2 for row in rows))
    head = f"{'run':<{run_width}}{'job':<{job_width + 2}}{'status':<{status_width}}{'started':<21}{'steps':>7}"
    lines = [f"{head}{'tokens':>12}" if costs else head]
    for row in rows:
        status = row.status.replace("_", " ")
        started = instant_text(row.started)[:19].replace("T", " ")
        steps = f"{row.ok:>3}/{row.steps}"
        job = f"{cut_end(row.job, job_width):<{job_width + 2}}"
        line = f"{row.run:<{run_width}}{job}{status:<{status_width}}{started:<21}{steps}"
        lines.append(f"{line:<{len(head)}}{row.tokens:>12,}" if costs else line)
    return lines


def prune(keep: str, *, is_dry: bool) -> int:
    """Remove the runs that `keep` does not keep, or only list them, and print their number.

    Raises:
        CommandError: `keep` is neither a duration nor a number.
    """
    number = int(keep) if keep.isascii() and keep.isdecimal() else None
    seconds = 0.0 if number is not None else _max_age(keep)
    settings = project_settings()
    if not has_journal(settings):
        sys.stdout.write("no runs yet\n")
        return exit_codes.OK
    anyio.run(_prune_runs, settings, time.time() - seconds, number or 0, is_dry)
    return exit_codes.OK


def _max_age(keep: str) -> float:
    try:
        return parse_seconds(keep, "--keep")
    except CommandError as error:
        message = f"--keep {keep!r} is neither a time nor a number of runs"
        raise CommandError(message, hint="write it as 30d, 12h or 100") from error


async def _prune_runs(settings: Settings, before: float, newest: int, is_dry: bool) -> None:  # noqa: FBT001 - anyio.run passes no names
    async with open_journal(settings) as journal:
        removal, rows = RunRemoval(journal, RUN_OF_OPEN_JOB), await journal.list_runs()
        kept = {row.run for row in rows[:newest]}
        if is_dry:
            groups, _ = await find_groups(removal, before, kept)
            removable = {run for group in groups for run in group}
            if removable:
                print_lines(runs_table([row for row in rows if row.run in removable]))
            sys.stdout.write(f"would remove {counted(len(removable), 'run')}\n")
            return
        runs, size = 0, 0
        try:
            async for removed in remove_groups(removal, before, kept):
                runs += len(removed.runs)
                size += removed.bytes + await anyio.to_thread.run_sync(
                    remove_run_files, settings, removed.runs
                )
        finally:
            sys.stdout.write(f"removed {counted(runs, 'run')}, {size:,} bytes\n")


def show_answers(run: str | None, *, output_format: str) -> int:
    """Print the answers of models that could not be used, each with all its faults.

    Raises:
        CommandError: there is no such run.
    """
    _, events = anyio.run(load_run, project_settings(), run)
    refused = refused_answers(fold([*redacted_events(events)]))
    if output_format == "json":
        print_json([dict(answer) for answer in refused])
    elif refused:
        for number, answer in enumerate(refused, 1):
            print_lines(_answer_lines(number, answer))
    else:
        print_line("every answer could be used")
    return exit_codes.OK


def _answer_lines(number: int, answer: JsonObject) -> Iterator[str]:
    yield f"{number}  {answer['role']}, rung {answer['rung']}: {answer['model']}"
    for fault in as_list(answer["faults"]):
        first, *further = str(fault).splitlines()
        yield f"   - {first}"
        yield from (f"     {line}" for line in further)
    text = str(answer["text"]) or "(an empty answer)"
    yield from (f"   | {line}" for line in text.splitlines())
    if "characters" in answer:
        yield f"   | … ({answer['characters']} characters in all)"


def show_reasons(run: str | None, field: str, *, output_format: str) -> int:
    """Print where the figure of a field came from, and each cap with the steps by which it reaches
    the field.

    Raises:
        CommandError: the run was not reviewed, or its result has no such field.
    """
    row, events = anyio.run(load_listed_run, project_settings(), run)
    package = package_of(row, fold(events))
    if package.review is None:
        raise CommandError(
            f"run {package.run!r} was not reviewed",
            hint=f"finish it: `wavewright resume {package.run}`",
            exit_code=exit_codes.NEGATIVE,
        )
    reviewed = reviewed_field(package, package.review, field)
    if reviewed is None:
        known = reviewed_fields(package, package.review)
        hint = suggest_name(field, known, what="its fields")
        raise CommandError(f"the result of run {package.run!r} has no field {field!r}", hint=hint)
    proof = proof_of(package, package.review, reviewed)
    if output_format == "json":
        print_json(proof.as_json())
    else:
        print_lines(proof.lines())
    return exit_codes.OK
