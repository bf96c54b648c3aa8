"""The output of `wavewright plan`: the plan as YAML or JSON, and how it was made.

Fields at their default are left out, and both forms are read back as the same plan. A plan may come
from a language model, so characters that could control a terminal are written as escapes. The text
is a YAML document in which all but the plan are comments, so `wavewright plan JOB > FILE` writes a
plan file. Without a plan the text says why, with the faults of the model's last answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from wavewright.config import Document, DocumentError, Source, read_document_file
from wavewright.engine.interfaces.cli.common.output import CommandError
from wavewright.engine.interfaces.cli.common.run_text import (
    cost_words,
    models_of,
    one_line,
    rung_line,
)
from wavewright.engine.interfaces.cli.common.terminal import ANSWER_HINT, question_lines
from wavewright.engine.run.jobs.documents import no_plan_error
from wavewright.planner import (
    Diagnostic,
    Json,
    JsonObject,
    Plan,
    PlanGraph,
    plan_hash,
    render_json,
    render_text,
)
from wavewright.planner.diagnostics.diagnostic import counted, error_diagnostics
from wavewright.planner.diagnostics.rendering import printable_json
from wavewright.planner.planning.records import PlanningResult
from wavewright.planner.plans.let_and_stop import in_written_form
from wavewright.reviewer.package.call_reports import sum_costs

if TYPE_CHECKING:
    from yaml import Node, SafeDumper

    from wavewright.engine.rehearsal.planning_session import PlanReport


_PLAIN_SCALAR = re.compile(r"[A-Za-z_](?:[\w .,/()'+-]*[\w.,/()'+-])?", re.ASCII)
"""Texts that need no quotes, except the keywords below; every other text is quoted."""
_YAML_KEYWORDS = frozenset(
    {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"}
)


def plan_json(plan: Plan) -> JsonObject:
    """Return a plan as JSON, with its version first and without fields at their default."""
    written: JsonObject = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"version": plan.version, **written}


def plan_as_json(plan: Plan) -> str:
    """Return a plan as the text of a JSON file."""
    return printable_json(plan_json(plan), indent=2) + "\n"


def plan_as_yaml(plan: Plan) -> str:
    """Return a plan as the text of a YAML file in which every character is printable."""
    return as_yaml(plan_json(plan))


def as_yaml(value: JsonObject) -> str:
    """Return an object as the text of a YAML file in which every character is printable."""
    text = yaml.dump(
        value,
        Dumper=_dumper(),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=math.inf,
    )
    # Only quoted texts hold such characters, and quoted texts may hold escapes.
    return "".join(char if char == "\n" or char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _dumper() -> type[SafeDumper]:
    class PlanDumper(yaml.SafeDumper):
        """Writes no aliases, which plans may not hold, and quotes every text that is not a plain
        scalar.
        """

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - as the base class has it
            return True

    def text_node(_dumper: yaml.SafeDumper, text: str) -> Node:
        is_plain = _PLAIN_SCALAR.fullmatch(text) is not None and text.lower() not in _YAML_KEYWORDS
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=None if is_plain else '"')

    PlanDumper.add_representer(str, text_node)
    return PlanDumper


def refuse_to_replace(file: Path, is_same: Callable[[Document], bool], what: str) -> None:
    """Raise an error where a file holds anything else than what is to be written there; an empty one
    holds nothing.

    Args:
        file: The file, which need not exist.
        is_same: Whether a document is such as will be written.
        what: What that is called.

    Raises:
        CommandError: it holds something else.
    """
    if not file.exists() or (file.is_file() and file.stat().st_size == 0):
        return
    with suppress(DocumentError):
        if is_same(read_document_file(file)):
            return
    hint = f"only a {what} is replaced by a {what}; name another file with --out"
    raise CommandError(f"{str(file)!r} exists and is no {what}", hint=hint)


_RUNGS_OF_ANSWERS = ("llm", "repaired")
"""Rungs whose plan is the model's last answer."""
_NO_SOURCE = Source("<the plan>", "")


def valid_plan(report: PlanReport) -> Plan | None:
    """Return the plan as a person goes on with it, or None if there is none or it has errors, as a
    job's own plan may have.
    """
    plan = report.planned.plan
    if plan is None or error_diagnostics(report.planned.diagnostics):
        return None
    return in_written_form(plan)


def report_json(report: PlanReport) -> JsonObject:
    """Return the report as one JSON object."""
    planned, plan = report.planned, valid_plan(report)
    diagnostics, source = _shown_diagnostics(report)
    cost = sum_costs(report.uses)
    models: list[Json] = [*models_of(report.uses)]
    return {
        "plan": plan_json(plan) if plan is not None else None,
        "rung": planned.rung,
        "diagnostics": [*render_json(diagnostics, source)],
        "rungs": [
            {
                "ladder": record.ladder,
                "rung": record.rung,
                "outcome": record.outcome,
                "reason": record.reason,
                "seconds": round(record.seconds, 3),
                "ceiling": record.ceiling,
                "because": record.because,
            }
            for record in planned.rungs
        ],
        "attempts": len(planned.attempts),
        "answers": [
            {
                "rung": attempt.rung,
                "text": attempt.answer,
                "repairs": [repair.message for repair in attempt.repairs],
                "diagnostics": [*render_json(attempt.diagnostics, attempt.source)],
            }
            for attempt in planned.attempts
        ],
        "model": models[0] if models else None,
        "models": models,
        "calls": cost.calls,
        "tokens": {
            "input": cost.input_tokens,
            "output": cost.output_tokens,
            "total": cost.tokens,
            "estimated": cost.estimated > 0,
        },
        "usd": None if cost.unpriced else cost.usd or 0.0,
        "seconds": round(cost.seconds, 3),
        "question": _question_json(planned),
        "cannot_plan": planned.cannot_plan,
        "plan_hash": plan_hash(report.bound)
        if plan is not None and report.bound is not None
        else None,
        "estimate_tokens": report.estimate_tokens,
    }


def report_text(report: PlanReport) -> str:
    """Return the report as text: the plan as YAML with comments below it, or why there is none."""
    plan = valid_plan(report)
    if plan is None:
        return "".join(f"{line}\n" for line in _no_plan_text(report))
    comments = [line for part in _plan_comments(report, plan) for line in part.split("\n")]
    return plan_as_yaml(plan) + "".join(f"# {line}".rstrip() + "\n" for line in comments)


def _plan_comments(report: PlanReport, plan: Plan) -> Iterator[str]:
    """Yield how the plan was made, its shape and its diagnostics."""
    planned = report.planned
    yield f"rung    {planned.rung or 'unknown'}{_rung_reason(planned)}"
    for record in planned.rungs:
        yield f"        {rung_line(record)}"
    yield from _cost_comments(report)
    bound = report.bound or plan
    graph = PlanGraph.of(bound)
    steps, waves = counted(len(bound.steps), "step"), counted(graph.depth, "wave")
    expected = (
        f", about {report.estimate_tokens:,} tokens of models" if report.estimate_tokens else ""
    )
    yield f"plan    {steps} in {waves}, max parallelism {graph.width}{expected}"
    yield f"hash    {plan_hash(bound)}"
    diagnostics, source = _shown_diagnostics(report)
    if diagnostics:
        yield ""
        yield render_text(diagnostics, source)
    last = planned.attempts[-1] if planned.attempts else None
    if last is not None and planned.rung not in _RUNGS_OF_ANSWERS and last.diagnostics:
        yield ""
        yield "what was wrong with the model's last answer:"
        yield render_text(last.diagnostics, last.source)


def _rung_reason(planned: PlanningResult) -> str:
    match planned.rung:
        case "given":
            return ": the job's own plan; no planner is asked"
        case "template" if not planned.rungs:
            return ": the goal template's plan; no planner model is configured"
        case _:
            return ""


def _no_plan_text(report: PlanReport) -> Iterator[str]:
    planned = report.planned
    diagnostics, source = _shown_diagnostics(report)
    if planned.question is None and planned.cannot_plan is None and diagnostics:
        yield render_text(diagnostics, source)
        yield ""
    adjective = "" if planned.question is not None else "valid "
    yield f"no {adjective}plan for job {report.goal.job!r}"
    if planned.question is not None:
        yield from question_lines(planned.question)
        yield f"  = help: {ANSWER_HINT}"
    elif planned.cannot_plan is not None:
        yield f"the planner says that it cannot be planned: {one_line(planned.cannot_plan)}"
    for record in planned.rungs:
        yield f"  {rung_line(record)}"
    if report.uses and not any(use.outcome == "answered" for use in report.uses):
        yield "  = help: `wavewright doctor` asks the model and says why it does not answer"
    yield from _cost_comments(report)


def _cost_comments(report: PlanReport) -> Iterator[str]:
    if report.uses:
        yield f"model   {', '.join(models_of(report.uses))}"
        yield f"cost    {cost_words(sum_costs(report.uses))}"


def _shown_diagnostics(report: PlanReport) -> tuple[Sequence[Diagnostic], Source]:
    """Return the diagnostics to show, and the text that they refer to."""
    planned = report.planned
    if planned.plan is None and planned.attempts:
        last = planned.attempts[-1]
        return last.diagnostics, last.source
    diagnostics = planned.diagnostics
    if planned.plan is None and not planned.rungs and not diagnostics:
        return no_plan_error(report.goal, _NO_SOURCE).diagnostics, Source(
            f"job {report.goal.job!r}", ""
        )
    return diagnostics, planned.document.source if planned.document is not None else _NO_SOURCE


def _question_json(planned: PlanningResult) -> JsonObject | None:
    if planned.question is None:
        return None
    return {"question": planned.question.question, "options": [*planned.question.options]}
