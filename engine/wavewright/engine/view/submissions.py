"""Jobs that are made in the live page: of a goal template and its inputs, dry-run, and put into the queue."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

from wavewright.config.documents import read_document
from wavewright.config.errors import WavewrightError
from wavewright.engine.dry_run.outlook import forecast_job
from wavewright.engine.jobs.inline import resolve_inline_job
from wavewright.engine.jobs.input_overrides import InputOverrides
from wavewright.engine.jobs.resolving import ResolvedJob
from wavewright.engine.messages.contract import message_contract
from wavewright.engine.messages.decoding import SOURCE_KEY, document_refusal, document_request
from wavewright.engine.messages.rules import document_rule
from wavewright.engine.project.templates import read_template, template_names
from wavewright.engine.view.viewed_jobs import ViewedJobs
from wavewright.executor.store.job_records import JobId
from wavewright.planner.language.goals import GoalTemplate
from wavewright.planner.types import Json, JsonObject


@dataclass(frozen=True, slots=True)
class InputField:
    """An input of a goal template, as a form asks for it."""

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
class JobDraft:
    """A job that can be put into the queue."""

    document: JsonObject
    resolved: ResolvedJob


@dataclass(frozen=True, slots=True)
class Submissions:
    """What can be submitted to the daemons of a project; its methods read files and import tools."""

    jobs: ViewedJobs

    def template_names(self) -> list[str]:
        """Return the names of the goal templates."""
        return template_names(self.jobs.project.settings)

    def template(self, name: str) -> GoalTemplate:
        """Return a goal template.

        Raises:
            WavewrightError: there is none of that name, or it is faulty.
        """
        settings = self.jobs.project.settings
        if name not in template_names(settings):
            raise WavewrightError(f"there is no goal template {name!r}")
        return read_template(name, settings.root, read_document("{}", "the page"), settings)

    def draft(self, name: str, template: GoalTemplate, typed: Mapping[str, str]) -> JobDraft:
        """Return the job of a goal template and inputs as they were typed.

        Raises:
            WavewrightError: an input does not fit its schema, or the job is one that no daemon takes.
        """
        settings = self.jobs.project.settings
        given = InputOverrides(assignments=tuple(f"{name}={value}" for name, value in typed.items() if value))
        inputs = given.applied({}, template.inputs_schema, typed)
        document: JsonObject = {"name": name, "goal_template": name, "inputs": inputs}
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


def input_fields(template: GoalTemplate, typed: Mapping[str, str]) -> list[InputField]:
    """Return what a form asks for, with what was typed before or else the defaults."""
    return list(_fields(template.inputs_schema, typed))


def _fields(schema: JsonObject, typed: Mapping[str, str]) -> Iterator[InputField]:
    properties, required = schema.get("properties"), schema.get("required")
    for name, found in properties.items() if isinstance(properties, dict) else ():
        declared: JsonObject = found if isinstance(found, dict) else {}
        kind, choices, default = declared.get("type"), declared.get("enum"), declared.get("default")
        options = ["true", "false"] if kind == "boolean" else choices if isinstance(choices, list) else []
        yield InputField(
            name=name,
            about=str(declared.get("description") or declared.get("title") or ""),
            value=typed.get(name, "" if default is None else _as_typed(default)),
            options=tuple(map(_as_typed, options)),
            is_number=kind in {"integer", "number"},
            is_long=kind not in {"string", "integer", "number", "boolean"},
            is_required=isinstance(required, list) and name in required,
        )


def _as_typed(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
