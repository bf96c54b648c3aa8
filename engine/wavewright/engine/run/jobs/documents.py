"""The documents of a job: of which kind each is, and the faults of all of them.

The *kind* of a document is a job, a saved plan, a goal template, settings, a worker, or else a
plan. It is recognized by the schema that the file names for editors, by the file's name, or by
fields that only one kind has, before the document is validated.

The faults of a job, its goal template and its plan are collected. The valid part of a faulty
document is used only to find further faults; any fault raises an error in the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import PurePath
from typing import Literal, TypeAlias, TypeVar

from pydantic import BaseModel

from wavewright.config import Document, DocumentError, DocumentFault, Settings, Source
from wavewright.config.model_validation import read_as_model, valid_subset
from wavewright.config.settings import FILE_NAMES
from wavewright.config.sources import combine_errors, pointer_keys, pointer_token
from wavewright.planner import (
    Diagnostic,
    Goal,
    GoalTemplate,
    Job,
    Json,
    Plan,
    PlanError,
    as_object,
    suggest_name,
)
from wavewright.planner.checks.partial_plans import PartialPlan, read_partial_plan
from wavewright.planner.diagnostics.diagnostic import diagnostics_of, locate_diagnostics
from wavewright.tools import pack_names

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class JobErrors:
    """Collects the faults of several documents."""

    def __init__(self) -> None:
        self._errors: list[PlanError | DocumentError] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._errors)

    def collect(self, read: Callable[[], T]) -> T | None:
        """Return what a function returns; None if it raises faults, which are collected."""
        try:
            return read()
        except (PlanError, DocumentError) as error:
            self._errors.append(error)
            return None

    def add(self, diagnostics: Sequence[Diagnostic], document: Document) -> None:
        """Collect the diagnostics of a document."""
        if diagnostics:
            self._errors.append(
                PlanError(locate_diagnostics(diagnostics, document), document.source)
            )

    def read(self, document: Document, model: type[M]) -> tuple[M | None, frozenset[str]]:
        """Return a document as a model, or its valid part if it has faults.

        Also returned are the names of fields that may be given although the model lacks them:
        faulty fields, and those that an unknown field may be a misspelling of.
        """
        try:
            return read_as_model(document, model), frozenset()
        except DocumentError as error:
            self.add(diagnostics_of(error), document)
            fields = as_object(document.value)
            absent = model.model_fields.keys() - fields.keys()
            unread: set[str] = set()
            for fault in error.faults:
                if not fault.pointer:
                    continue
                path = pointer_keys(fault.pointer)
                if fault.kind != "unknown_field" or len(path) > 1:
                    unread.add(path[0])
                elif isinstance(fields.get(path[0]), (dict, list)):
                    # A whole part under an unknown name may be any of those that are absent.
                    unread |= absent
                else:
                    unread.update(get_close_matches(path[0], absent))
            return valid_subset(document, error, model), frozenset(unread)

    def raise_all(self) -> None:
        """Raise the collected faults, document by document.

        Raises:
            PlanError: documents that could be read have faults; `others` holds those of further
                documents.
            DocumentError: all faults are of documents that could not be read.
        """
        if not self._errors:
            return
        unreadable = [error for error in self._errors if isinstance(error, DocumentError)]
        if len(unreadable) == len(self._errors):
            raise combine_errors(unreadable)
        by_source: dict[str, tuple[Source, list[Diagnostic]]] = {}
        for error in self._errors:
            for source, diagnostics in _by_source(error):
                by_source.setdefault(source.name, (source, []))[1].extend(diagnostics)
        first, *others = [
            PlanError(_in_order(diagnostics), source) for source, diagnostics in by_source.values()
        ]
        raise PlanError(first.diagnostics, first.source, tuple(others))


def _by_source(error: PlanError | DocumentError) -> Iterator[tuple[Source, tuple[Diagnostic, ...]]]:
    for part in (error, *error.others):
        if isinstance(part, PlanError):
            yield part.source, part.diagnostics
        else:
            yield part.source, diagnostics_of(part)


def _in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics of one text in its order, each once."""
    return sorted(
        dict.fromkeys(diagnostics),
        key=lambda diagnostic: diagnostic.span.start if diagnostic.span is not None else -1,
    )


def plan_or_valid_part(value: Json, source: Source) -> Plan | PartialPlan | None:
    """Return the plan that a value of a document is, or the valid part of one; None where it has no
    steps.
    """
    try:
        return read_as_model(Document(value, source, keeps_places=False), Plan)
    except DocumentError as error:
        return read_partial_plan(value, error.faults)


def without_unknown_packs(job: Job, document: Document, faults: JobErrors) -> Job:
    """Return the job without settings of packs that are not installed, each of which is a fault."""
    if not job.tools:
        return job
    known = pack_names()
    unknown = [
        Diagnostic(
            code="E107",
            message=f"there is no pack {name!r}",
            pointer="/tools" + pointer_token(name),
            hint=suggest_name(name, known, what="installed packs"),
        )
        for name in job.tools
        if name not in known
    ]
    faults.add(unknown, document)
    return job.model_copy(
        update={"tools": {name: job.tools[name] for name in job.tools if name in known}}
    )


def refuse_unknown_preference(
    job: Job,
    document: Document,
    template: GoalTemplate,
    template_document: Document,
    settings: Settings,
) -> None:
    """Raise an error if a model preference is neither a known word nor a model's name."""
    preference = job.overrides.get("model_preference")
    place_in, pointer, word = (
        (document, "/overrides/model_preference", preference)
        if isinstance(preference, str)
        else (template_document, "/model_preference", template.model_preference)
    )
    if word == "auto" or ":" in word:
        return
    # Imported here: most jobs leave the choice of the model to the project.
    from wavewright.tools.models.endpoints import preference_words

    words = preference_words(settings)
    if word not in words:
        hint = suggest_name(word, words, what="preferences") or "there are none"
        unknown = Diagnostic(
            code="E107",
            message=f"{word!r} is no model preference",
            pointer=pointer,
            hint=f"{hint}; a model's name as PROVIDER:NAME will do as well",
        )
        raise PlanError(tuple(locate_diagnostics([unknown], place_in)), place_in.source)


def misuse_error(error: PlanError) -> DocumentError:
    """Return the faults of a document that a plan is checked against, as an error of that document."""
    faults = (
        DocumentFault(
            diagnostic.kind,
            diagnostic.message,
            diagnostic.span,
            diagnostic.pointer,
            diagnostic.hint,
        )
        for diagnostic in error.diagnostics
    )
    return DocumentError(error.source, tuple(faults))


def no_plan_error(goal: Goal, source: Source) -> PlanError:
    """Return the error of a job without a plan, to be raised."""
    missing = Diagnostic(
        code="E114",
        message=f"there is no plan for job {goal.job!r}: neither it nor its goal template has one",
        hint="add 'plan: FILE' to the job, or 'plan:' to the goal template; a language model can make one: "
        "set WAVEWRIGHT_MODEL and call `wavewright plan JOB --out FILE`",
    )
    return PlanError((missing,), source)


_JOB_FIELDS = frozenset(Job.model_fields) - frozenset(Plan.model_fields)
"""Fields that a job may have and a plan may not."""
_GOAL_IN_WORDS = frozenset({"version", "goal", "inputs"})
"""Fields of a job that a planner makes a plan for; a plan has steps beside them."""
_SAVED_PLAN_SCHEMA = "wavewright/saved-plan/"
"""How the format of every saved plan begins."""


def is_job(document: Document) -> bool:
    """Whether a document is meant as a job: it has no steps, and a job's fields, the name or the
    folder of a job's file, or a goal in words and nothing else; or it is a saved plan.
    """
    if not isinstance(document.value, dict) or "steps" in document.value:
        return False
    fields = document.value.keys()
    return (
        bool(_JOB_FIELDS & fields)
        or _is_called(document, "job")
        or ("goal" in fields and fields <= _GOAL_IN_WORDS and not _is_called(document, "plan"))
        or is_saved_plan(document)
    )


def _is_called(document: Document, kind: str) -> bool:
    """Whether a document's file, its folder or the schema that it names says what it is."""
    path = PurePath(document.source.name)
    return (
        f".{kind}" in path.suffixes
        or path.parent.name == f"{kind}s"
        or _named_schema(document) == kind
    )


def is_saved_plan(document: Document) -> bool:
    """Whether a document is meant as a saved plan, of this format or another."""
    stated = document.value.get("format") if isinstance(document.value, dict) else None
    return isinstance(stated, str) and stated.startswith(_SAVED_PLAN_SCHEMA)


def is_template(document: Document) -> bool:
    """Whether a document is meant as a goal template."""
    return isinstance(document.value, dict) and "available_tools" in document.value


_SCHEMA = re.compile(r"\A#[^\n]*\$schema=\S*?(\w+)\.json\b")
"""The comment that names a YAML file's schema for editors."""
_WORKER_FIELDS = frozenset({"prompt", "input_schema"})
"""Fields that no other document has; one of them may be misspelled."""


def is_settings(document: Document) -> bool:
    """Whether a document is meant as the settings of a project."""
    return (
        PurePath(document.source.name).name in FILE_NAMES or _named_schema(document) == "settings"
    )


def is_agent(document: Document) -> bool:
    """Whether a document is meant as a named agent: its schema or its folder says so."""
    return (
        _named_schema(document) == "agent" or PurePath(document.source.name).parent.name == "agents"
    )


def is_worker(document: Document) -> bool:
    """Whether a document is meant as a model worker."""
    if _named_schema(document) == "worker":
        return True
    return (
        isinstance(document.value, dict)
        and bool(_WORKER_FIELDS & document.value.keys())
        and "steps" not in document.value
    )


DocumentKind: TypeAlias = Literal["plan", "job", "goal", "settings", "worker", "agent"]


def kind_of(document: Document) -> DocumentKind:
    """Return what a document is meant as."""
    if is_settings(document):
        return "settings"
    if is_agent(document):
        return "agent"
    if is_worker(document):
        return "worker"
    if is_template(document):
        return "goal"
    return "job" if is_job(document) else "plan"


_OWN_FIELDS = "steps|gates|caps|goal|goal_template|available_tools|plan|prompt|input_schema|ops"
"""Fields at the top of a document that hardly anything but wavewright has there."""
_OWN_FIELD = re.compile(rf"""^["']?(?:{_OWN_FIELDS})["']?\s*:""", re.MULTILINE)
_OWN_FIELD_OF_JSON = re.compile(rf"""["'](?:{_OWN_FIELDS})["']\s*:""")
_OWN_FILE = re.compile(r"(?:^|[._-])(?:plan|job|goal|worker|agent|wavewright)s?(?:[._-]|$)")
_OWN_FOLDERS = frozenset({"plans", "jobs", "goals", "workers", "agents"})


def is_foreign(text: str, name: str) -> bool:
    """Whether nothing says that a text is meant for wavewright: neither the schema that it names,
    nor its file's name or folder, nor a field at its top.
    """
    path = PurePath(name)
    if path.suffix == ".toml":
        return True
    if _OWN_FILE.search(path.stem) or path.parent.name in _OWN_FOLDERS or _SCHEMA.match(text):
        return False
    field = _OWN_FIELD_OF_JSON if text.lstrip().startswith("{") else _OWN_FIELD
    return field.search(text) is None


def _named_schema(document: Document) -> str | None:
    comment = _SCHEMA.match(document.source.text)
    return comment[1] if comment is not None else None
