"""What a person says to runs and jobs: answers to questions, verdicts on packages, and that one is
to end.
"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import anyio

from wavewright.config import Settings, exit_codes
from wavewright.engine.interfaces.cli.common.arguments import (
    has_journal,
    project_settings,
    require_journal,
)
from wavewright.engine.interfaces.cli.common.output import CommandError, instant_text, print_json
from wavewright.engine.interfaces.cli.common.terminal import chosen_option, local_user
from wavewright.engine.run.decisions.questions import OpenQuestion
from wavewright.engine.run.decisions.shown_calls import folded_line
from wavewright.engine.service import answering
from wavewright.engine.service.cancelling import cancel_run
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import FieldFeedback
from wavewright.engine.service.questions import (
    find_question_to_answer,
    find_questions,
    list_questions,
)
from wavewright.executor.store.journal import CancelRequest
from wavewright.planner import UserQuestion
from wavewright.planner.diagnostics.rendering import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


_SHORT_ID = 8
"""Characters of a decision's id that people type."""
_MAX_LISTED_LINES = 12
"""Lines of a question's context in the list of all."""


def list_decisions(wanted: str | None, *, output_format: str) -> int:
    """Print the questions that wait for an answer, or one of them with its whole context.

    Raises:
        CommandError: there is no journal.
        AnswerRejected: the wanted question is not open.
    """
    settings = project_settings()
    found, packages = list[OpenQuestion](), list[answering.UnjudgedPackage]()
    if wanted is not None or has_journal(settings):
        found, packages = anyio.run(_find_waiting, require_journal(settings), wanted)
    if output_format == "json":
        unjudged = [{"subject": "package", **asdict(package)} for package in packages]
        print_json([*map(_as_json, found), *unjudged])
    elif not found and not packages:
        sys.stdout.write("nothing waits for an answer\n")
    else:
        texts = ["\n".join(_lines(question, is_whole=wanted is not None)) for question in found]
        texts += ["\n".join(_package_lines(package)) for package in packages]
        sys.stdout.write("\n\n".join(texts) + "\n")
    return exit_codes.OK


def give_answer(wanted: str, choice: str) -> int:
    """Answer a question and print how its job or run continues.

    Raises:
        CommandError: there is no journal, or the question does not take this answer.
        AnswerRejected: the question is not open.
    """
    settings = require_journal(project_settings())
    question, taken = anyio.run(_answer, settings, wanted, choice)
    then = (
        f"job {question.job} continues as soon as a daemon has a slot for it"
        if question.is_of_job
        else f"continue with: wavewright resume {question.resume or question.run}"
        if question.is_interrupted
        else f"run {question.run} goes on with it"
    )
    sys.stdout.write(f"answered {printable(taken)!r}; {then}\n")
    return exit_codes.OK


async def _find_waiting(
    settings: Settings, wanted: str | None
) -> tuple[list[OpenQuestion], list[answering.UnjudgedPackage]]:
    async with open_stores(settings) as stores:
        if wanted is None:
            questions = await list_questions(stores.journal, stores.jobs, time.time())
            return questions, await answering.list_unjudged(stores.journal, stores.jobs)
        return await find_questions(stores.journal, stores.jobs, wanted, time.time()), []


async def _answer(settings: Settings, wanted: str, choice: str) -> tuple[OpenQuestion, str]:
    async with open_stores(settings) as stores:
        found = await find_question_to_answer(stores.journal, stores.jobs, wanted, time.time())
        taken = chosen_option(UserQuestion(found.question, found.options), choice)
        await answering.answer_question(
            stores.journal, stores.jobs, found, taken, by=local_user(), now=time.time()
        )
    return found, taken


def _lines(question: OpenQuestion, *, is_whole: bool) -> list[str]:
    name = question.id[:_SHORT_ID] if question.is_of_job else question.id
    what = "question" if question.subject == "question" else f"approval of a {question.subject}"
    until = "" if question.expires is None else f", until {_minute_text(question.expires)}"
    whose = (
        f"job {question.about} {question.job}" if question.is_of_job else f"run of {question.job}"
    )
    lines = [f"{name}  {what}, {printable(whose)}, asked {_minute_text(question.asked)}{until}"]
    lines.append(f"  {printable(question.question)}")
    lines += [
        f"  {number}. {printable(option)}"
        for number, option in enumerate(question.options, start=1)
    ]
    if question.context:
        context = [f"  {printable(line)}" for line in question.context.splitlines()]
        # What an approval would let a step do is in the list, too, so that it is seen before it is
        # answered.
        listed = context if is_whole else list(map(folded_line, context[:_MAX_LISTED_LINES]))
        lines += ["", *listed]
        if listed != context:
            more = len(context) - len(listed)
            counted = f"{more:,} lines more and all" if more else "all"
            lines.append(f"  {counted} of each line: wavewright decisions {name}")
    option = question.options[0] if question.options else "TEXT"
    return [*lines, f"  answer with: wavewright answer {name} {_argument(option)}"]


def _argument(option: str) -> str:
    """Return an option of a question as a shell takes it for one argument."""
    quoted = shlex.quote(printable(option))
    return f"-- {quoted}" if option.startswith("-") else quoted


def _package_lines(package: answering.UnjudgedPackage) -> list[str]:
    name = package.id[:_SHORT_ID]
    return [
        f"{name}  package {package.iteration} about {printable(package.about)}, job {package.job}",
        f"  shown by: wavewright show {package.run}",
        f"  judge with: wavewright verdict {name} --accept, or --reject FIELD=REASON",
    ]


def _as_json(question: OpenQuestion) -> dict[str, object]:
    expires = None if question.expires is None else instant_text(question.expires)
    return {**asdict(question), "asked": instant_text(question.asked), "expires": expires}


def _minute_text(seconds: float) -> str:
    return instant_text(seconds)[:16].replace("T", " ")


def give_verdict(wanted: str, *, accept: bool, remarks: Sequence[str]) -> int:
    """Accept or reject a package, and print how its job continues.

    Raises:
        CommandError: it is said neither or both, or there is no journal.
        WavewrightError: there is no such package, or it has its verdict.
    """
    if accept == bool(remarks):
        raise CommandError(
            "say either --accept or --reject", hint="such as --reject total='it is too low'"
        )
    settings = require_journal(project_settings())
    feedback = None if accept else [_remark(remark) for remark in remarks]
    package = anyio.run(_give, settings, wanted, feedback)
    said = "accepted" if accept else "rejected"
    sys.stdout.write(
        f"{said} package {package.iteration} about {printable(package.about)}; "
        f"job {package.job} continues as soon as a daemon has a slot for it\n"
    )
    return exit_codes.OK


async def _give(
    settings: Settings, wanted: str, feedback: Sequence[str] | None
) -> answering.UnjudgedPackage:
    reporter = Reporter.of(settings)
    async with open_stores(settings) as stores:
        package = await answering.find_unjudged(stores.journal, stores.jobs, wanted)
        await answering.give_verdict(
            stores.jobs, package, feedback, by=local_user(), project=reporter.state_reports
        )
    return package


def _remark(text: str) -> str:
    field, separator, reason = text.partition("=")
    return str(FieldFeedback(field=field, reason=reason)) if separator and reason else text


def cancel(wanted: str, *, by: str | None) -> int:
    """End a run or a job for good, and say so; one that is cancelled already stays as it is.

    Raises:
        CancelRefused: it has come to another end, it is the run of a target, or its owner does not
            end it.
        RunNotFound: there is no such run.
    """
    settings = require_journal(project_settings())
    run = anyio.run(cancel_run, settings, wanted, CancelRequest(by or local_user(), time.time()))
    sys.stdout.write(f"run {run} is cancelled\n")
    return exit_codes.OK
