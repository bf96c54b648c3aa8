"""Jobs that are made in the live page: of a goal template or a job with its inputs, dry-run, and put into the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from wavewright.config.documents import read_document, read_document_file
from wavewright.config.errors import WavewrightError
from wavewright.engine.dry_run.outlook import forecast_job
from wavewright.engine.jobs.inline import portable_job, resolve_inline_job
from wavewright.engine.jobs.input_overrides import InputOverrides
from wavewright.engine.jobs.resolving import ResolvedJob
from wavewright.engine.messages.contract import message_contract
from wavewright.engine.messages.decoding import SOURCE_KEY, document_refusal, document_request
from wavewright.engine.messages.rules import document_rule
from wavewright.engine.project.templates import read_template, template_names
from wavewright.engine.view.viewed_jobs import ViewedJobs
from wavewright.executor.store.job_records import JobId
from wavewright.planner.types import Json, JsonObject, as_list, as_object

_TYPES: Final[Mapping[type, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class InputField:
    """An input of a job, as a form asks for it."""

    name: str
    about: str
    value: str
    """As it is typed."""
    options: tuple[str, ...]
    """What may be chosen; anything may be typed where there are none."""
    is_number: bool
    is_long: bool
    """Whether it is typed as JSON."""
    is_required: bool


@dataclass(frozen=True, slots=True)
class JobOffer:
    """What a form is made for."""

    name: str
    goal: str
    document: JsonObject
    """The job as it is sent, but for the inputs that are typed."""
    schema: JsonObject
    """Of its inputs."""


@dataclass(frozen=True, slots=True)
class JobDraft:
    """A job that can be put into the queue."""

    document: JsonObject
    resolved: ResolvedJob


@dataclass(frozen=True, slots=True)
class Submissions:
    """What can be submitted to the daemons of a project; its methods read files and import tools."""

    jobs: ViewedJobs

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of the goal templates, and the paths of the jobs in the project and its folder `plans`."""
        settings = self.jobs.project.settings
        files = [*settings.root.glob("*.job.yaml"), *settings.root.glob("plans/**/*.job.yaml")]
        return template_names(settings), sorted(file.relative_to(settings.root).as_posix() for file in files)

    def offer(self, name: str) -> JobOffer:
        """Return what a form is made for: a goal template, or a job of the project.

        Raises:
            WavewrightError: there is none of that name, or it is faulty.
        """
        settings, (templates, jobs) = self.jobs.project.settings, self.names()
        if name in templates:
            template = read_template(name, settings.root, read_document("{}", "the page"), settings)
            return JobOffer(
                name, template.goal, {"name": name, "goal_template": name}, template.inputs_schema
            )
        if name not in jobs:
            raise WavewrightError(f"there is no goal template and no job {name!r}")
        file = settings.root / name
        document = portable_job(read_document_file(file), file, settings)
        goal = resolve_inline_job(document, settings).goal
        return JobOffer(name, goal.text, as_object(document.value), goal.inputs_schema)

    def draft(self, offer: JobOffer, typed: Mapping[str, str]) -> JobDraft:
        """Return a job with inputs as they were typed; what is empty is left as it is.

        Raises:
            WavewrightError: an input does not fit its schema, or the job is one that no daemon takes.
        """
        settings = self.jobs.project.settings
        given = InputOverrides(assignments=tuple(f"{name}={value}" for name, value in typed.items() if value))
        inputs = given.applied(as_object(offer.document.get("inputs")), offer.schema, typed)
        document: JsonObject = {**offer.document, "inputs": inputs}
        if (reason := document_refusal(document, document_rule(message_contract(settings)))) is not None:
            raise WavewrightError(reason)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        return JobDraft(document, resolve_inline_job(read_document(text, "the job"), settings))

    def dry_run(self, draft: JobDraft) -> str | None:
        """Return what a run of the job would do, as text; None where a planner makes the plan once it runs.

        Raises:
            WavewrightError: the plan is not valid with these inputs.
        """
        if draft.resolved.draft is None:
            return None
        return str(forecast_job(draft.resolved, self.jobs.project.settings)[1])

    async def send(self, draft: JobDraft, by: str) -> JobId:
        """Put the job into the queue and return its id.

        Raises:
            JournalError: nothing was written.
        """
        job, settings = JobId(str(uuid4())), self.jobs.project.settings
        rule = document_rule(message_contract(settings))
        await self.jobs.enqueue(document_request(job, draft.document, rule, {SOURCE_KEY: "view"}), by)
        return job


def input_fields(offer: JobOffer, typed: Mapping[str, str]) -> list[InputField]:
    """Return what a form asks for, with what was typed before, or else the job's own inputs or the defaults."""
    own, required = as_object(offer.document.get("inputs")), as_list(offer.schema.get("required"))
    declared = as_object(offer.schema.get("properties"))
    # Inputs without a schema are typed like the job's own.
    like_own: JsonObject = {name: {"type": _TYPES.get(type(value))} for name, value in own.items()}
    return [
        _field(name, as_object(found), own.get(name), typed.get(name), is_required=name in required)
        for name, found in {**like_own, **declared}.items()
    ]


def _field(name: str, declared: JsonObject, own: Json, typed: str | None, *, is_required: bool) -> InputField:
    kind = declared.get("type")
    options = ["true", "false"] if kind == "boolean" else as_list(declared.get("enum"))
    preset = declared.get("default") if own is None else own
    return InputField(
        name=name,
        about=str(declared.get("description") or declared.get("title") or ""),
        value=("" if preset is None else _as_typed(preset)) if typed is None else typed,
        options=tuple(map(_as_typed, options)),
        is_number=kind in {"integer", "number"},
        is_long=kind not in {"string", "integer", "number", "boolean"},
        is_required=is_required,
    )


def _as_typed(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
