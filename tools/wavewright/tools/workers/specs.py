"""The declaration of a worker: in a file of the project, or in the code of a pack.

A *worker* is a tool whose answer a language model writes: a prompt, an input schema and an output
schema. One implementation serves all workers, so the declaration holds everything that makes two of
them differ.

A JSON or YAML file declares one worker. Faults name file and line, all files are read before any
tool is made, and names are unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias, TypeVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from wavewright.config import DocumentError, Seconds, read_document_file
from wavewright.config.model_validation import read_as_model
from wavewright.config.value_types import NonEmpty, NonNegative, Texts
from wavewright.planner import (
    ID_PATTERN,
    DocumentModel,
    FallbackFailure,
    InvalidSchemaError,
    Json,
    JsonObject,
    JsonSchema,
    ModelAnswer,
    as_list,
    validator_of,
)
from wavewright.planner.language.goals import ThinkingLevel
from wavewright.planner.language.signatures import CallPolicy
from wavewright.planner.ports.asking import AnswerRefused as AnswerRefused  # noqa: PLC0414 - for `finish`
from wavewright.planner.types import properties_of
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.functions.tool import Tool

LongerInputs: TypeAlias = Literal["shorten", "summarize", "parts", "refuse"]
"""What happens to inputs longer than a worker reads at once."""

WorkerRung: TypeAlias = Literal["agent", "suggested", "generated", "forced"]

PROMPT_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
_METHOD = "method"

SpecT = TypeVar("SpecT", bound=DocumentModel)


class _NamedSpec(Protocol):
    @property
    def name(self) -> str: ...


NamedSpecT = TypeVar("NamedSpecT", bound=_NamedSpec)


def checked_schema(schema: JsonSchema) -> JsonSchema:
    """Return a schema, which is then known to be one.

    Raises:
        ValueError: it is no JSON Schema.
    """
    try:
        validator_of(schema)
    except InvalidSchemaError as error:
        raise ValueError(f"is no JSON Schema: {error}") from error
    return schema


_CheckedSchema: TypeAlias = Annotated[JsonSchema, AfterValidator(checked_schema)]


class PromptedSpec(DocumentModel):
    """What a worker and an agent have in common: a model that answers by a prompt of its own."""

    version: Literal[1] = 1
    """Version of this format."""
    name: Annotated[str, Field(pattern=ID_PATTERN)]
    """Name that it is called by."""
    description: NonEmpty
    """What it does, for planners and agents: one or two sentences."""
    prompt: Annotated[str, Field(pattern=PROMPT_PATTERN)]
    """Name of its prompt: `workers/sort_letters` for `prompts/workers/sort_letters.md.j2`."""
    model_preference: str = "auto"
    """Which model is asked; the goal's preference where it is `auto`."""
    thinking_level: ThinkingLevel | None = None
    """How much thought the model should spend; the goal's level where absent."""


class WorkerSpec(CallPolicy, PromptedSpec):
    """A worker as data: the file format of `config/workers/*.yaml`.

    >>> from wavewright.tools import WorkerSpec
    >>> WorkerSpec(name="severity", description="Judge.", input_schema={"type": "object"}, prompt="severity").name
    'severity'
    """

    input_schema: _CheckedSchema = {"type": "object"}
    """JSON Schema of what it takes: an object."""
    output_schema: _CheckedSchema = {}
    """JSON Schema of what it gives; the model is asked for this, but for the field `method`."""
    token_share: Annotated[float, Field(gt=0, le=1, strict=False)] = 0.25
    """Share of `models.worker_tokens` that one answer may take; `models.max_output_tokens` is a
    ceiling too.
    """
    max_input_chars: Annotated[int, Field(ge=500)] = 120_000
    """Characters of all inputs together that the model reads at once."""
    longer_inputs: LongerInputs = "shorten"
    """What happens to longer ones: shorten them and say so, summarise them, read them in parts, or
    refuse them.
    """
    parts_of: str | None = None
    """The input that is read in parts, where longer inputs are."""
    text_field: str | None = None
    """Field of the output that holds the model's words: it is asked for plain text then, not for
    JSON.
    """
    writes: Texts = ()
    """Fields that the model writes over what code computed; nothing else of that can it change."""
    repairs: Annotated[int, Field(ge=0, le=5)] | None = None
    """How often the model is told what is wrong with its answer and asked again; as the ladder says
    where absent.
    """
    forced: JsonObject | None = None
    """The smallest result that is still valid, for when nothing else is to be had; none where
    absent.
    """
    methods: dict[WorkerRung, str] = {}
    """What the output's field `method` says, by the rung that made it; the rung's name where
    absent.
    """
    typed_by: dict[str, str] = {}
    """Parameter that holds a JSON Schema → path of what that schema types in the output, such as
    `records[*].record`.
    """
    stream: bool = False
    """Whether the answer is shown while it is being written."""
    expected_seconds: Seconds = 20.0
    """Prior of one call's duration."""
    expected_tokens: NonNegative | None = None
    """Prior of the tokens of one call, read and written; the ceiling of its answer where absent."""

    @field_validator("input_schema")
    @classmethod
    def _takes_an_object(cls, schema: JsonSchema) -> JsonSchema:
        if schema.get("type") != "object":
            msg = "must say `type: object`, because parameters have names"
            raise ValueError(msg)
        return schema

    @model_validator(mode="after")
    def _hangs_together(self) -> WorkerSpec:
        fault = self._contradiction()
        if fault is not None:
            raise ValueError(fault)
        return self

    def _contradiction(self) -> str | None:
        if self.longer_inputs == "parts" and (
            self.parts_of is None or self.parts_of not in self.inputs
        ):
            return "'longer_inputs: parts' needs 'parts_of', the name of an input"
        if self.text_field is not None and self.outputs and self.text_field not in self.outputs:
            return f"'text_field' is {self.text_field!r}, which is no field of 'output_schema'"
        if self.text_field is not None and self.writes:
            return "'text_field' and 'writes' exclude each other: the model answers with text, or with fields"
        unknown = [name for name in self.writes if name not in self.outputs] if self.outputs else []
        if unknown:
            return f"'writes' names {unknown[0]!r}, which is no field of 'output_schema'"
        word = self._unfit_method()
        if word is not None:
            return (
                f"the field {_METHOD!r} of 'output_schema' does not allow {word!r}, which says how an output was "
                "made: allow it, or name another word under 'methods'"
            )
        if self.forced is not None and not validator_of(self.output_schema).accepts(
            {**self.forced, **self.method_of("forced")}
        ):
            return "'forced' does not fit 'output_schema'"
        return None

    def _unfit_method(self) -> str | None:
        """Return a word for how an output was made that its field does not allow."""
        rungs: list[WorkerRung] = ["agent"]
        if self.text_field is None:
            rungs.append("suggested")
        if self.forced is not None:
            rungs.append("forced")
        validator = validator_of(self.output_schema)
        for word in (word for rung in rungs for word in self.method_of(rung).values()):
            misfits = validator.violations({_METHOD: word})
            if any(
                misfit.pointer == f"/{_METHOD}" for misfit in misfits
            ):  # others are of what is missing
                return word
        return None

    @property
    def inputs(self) -> JsonObject:
        """Schemas of the inputs, by name."""
        return properties_of(self.input_schema)

    @property
    def outputs(self) -> JsonObject:
        """Schemas of the output's fields, by name; nothing where the output is open."""
        return properties_of(self.output_schema)

    def method_of(self, rung: WorkerRung) -> dict[str, str]:
        """Return the field that says how an output was made; none where the output has no such
        field.
        """
        return {_METHOD: self.methods.get(rung, rung)} if _METHOD in self.outputs else {}


@dataclass(frozen=True, slots=True)
class AnswerToFinish:
    """An answer of a model, on its way to becoming the output.

    >>> from wavewright.tools import AnswerToFinish
    >>> AnswerToFinish({"text": "…"}, {"severity": "high"}, {}, is_last=False).rung
    'agent'
    """

    params: JsonObject
    answer: Json
    """It fits the schema that was asked for."""
    draft: JsonObject
    """What code computed; empty where it computes nothing."""
    is_last: bool
    """Whether this is the last answer there will be: what can be saved of it, should be."""
    rung: Literal["agent", "suggested"] = "agent"
    """Whether it was accepted as it is, or found among the model's words."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A declaration, and the code that belongs to it; a worker from a file has none.

    Code that is given the parameters of a call must not change them.

    >>> from wavewright.tools import Worker, WorkerSpec
    >>> spec = WorkerSpec(
    ...     name="severity", description="Judge.", input_schema={"type": "object"}, prompt="severity"
    ... )
    >>> Worker(spec, generate=lambda params: {"severity": "unknown"}).spec.name
    'severity'
    """

    spec: WorkerSpec
    draft: Tool | None = None
    """A tool of code alone: the whole worker where no model is configured, and the rung `generated`
    where one failed.

    Its schemas stand for those that the declaration leaves open.
    """
    generate: Callable[[JsonObject], Json | FallbackFailure] | None = None
    """What code can honestly make of the parameters without a model."""
    show: Callable[[JsonObject, JsonObject], JsonObject] | None = None
    """(parameters, draft) → what the model is shown; the parameters where absent."""
    asks_for: Callable[[JsonObject], JsonSchema] | None = None
    """Parameters → schema of the model's answer, where that is not the output's own."""
    suggest: Callable[[JsonObject, ModelAnswer], Json] | None = None
    """(parameters, answer that was not accepted) → what it holds in another form than was asked
    for.
    """
    force: Callable[[JsonObject], Json] | None = None
    """Parameters → the smallest result that is still valid, where it depends on them; else
    `spec.forced`.
    """
    finish: Callable[[AnswerToFinish], Json] | None = None
    """Turns an answer into the output; raises `AnswerRefused` where the answer is wrong."""
    join: Callable[[Sequence[Json]], Json] | None = None
    """Joins the answers to the parts of a long input; texts are joined by blank lines where absent.
    """
    code: str = ""
    """What its code depends on beside the parameters, such as another program's version: results of
    another are none for later runs.
    """
    file: Path | None = None
    """What declares it, where that is a file of the project."""

    @property
    def needs_model(self) -> bool:
        """Whether there is no result without a model, whatever the parameters."""
        return self.draft is None and self.force is None

    def missing_code(self) -> str | None:
        """Return what of the declaration could never work without code that this worker has not."""
        spec = self.spec
        if spec.longer_inputs == "parts" and spec.text_field is None and self.join is None:
            return "'longer_inputs: parts' needs 'text_field': other answers cannot be joined"
        if self.draft is None and spec.writes:
            return "'writes' needs a draft of code, which only workers of packs have"
        required = spec.output_schema.get("required")
        asked = {spec.text_field, _METHOD}
        others = (
            [name for name in required if name not in asked] if isinstance(required, list) else []
        )
        if spec.text_field is not None and self.finish is None and others:
            return f"'text_field' asks for {spec.text_field!r} alone, and 'output_schema' requires {others[0]!r} too"
        return None


def without_method(schema: JsonSchema) -> JsonSchema:
    """Return what a model is asked for: code says how an output was made, not the model."""
    fields = properties_of(schema)
    if _METHOD not in fields:
        return schema
    return only_fields(schema, [name for name in fields if name != _METHOD])


def only_fields(
    schema: JsonSchema, names: Sequence[str], *, all_required: bool = False
) -> JsonSchema:
    """Return the schema of an object that has some of the fields only."""
    fields = properties_of(schema)
    wanted = list(names) if all_required else as_list(schema.get("required"))
    return {
        **{key: value for key, value in schema.items() if key != "description"},
        "properties": {name: fields[name] for name in names if name in fields},
        "required": [name for name in wanted if name in names],
    }


_FILE_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_FAULTS = 3


def load_workers(places: Sequence[Path]) -> tuple[Worker, ...]:
    """Return the workers of files, and of the files in folders; a folder that is not there holds
    none.

    Raises:
        ToolDefinitionError: a file is missing or faulty, or two have one name; names the file and
            the line.
    """
    specs = load_specs(places, "worker", read_worker_file)
    return tuple(Worker(spec, file=file) for file, spec in specs.items())


def load_specs(
    places: Sequence[Path], kind: str, read: Callable[[Path], NamedSpecT]
) -> dict[Path, NamedSpecT]:
    """Return the declarations of files, and of the files in folders, by file.

    Raises:
        ToolDefinitionError: a file is missing or faulty, or two have one name; names the file and
            the line.
    """
    files: dict[str, Path] = {}
    specs: dict[Path, NamedSpecT] = {}
    for file in spec_files(places):
        spec = read(file)
        if spec.name in files:
            raise ToolDefinitionError(
                f"{file}: {kind} {spec.name!r} is declared twice",
                hint=f"the other one is in {files[spec.name]}",
            )
        files[spec.name] = file
        specs[file] = spec
    return specs


def read_worker_file(file: Path) -> WorkerSpec:
    """Return the worker that a file declares.

    Raises:
        ToolDefinitionError: it cannot be read, or declares no valid worker; names the line.
    """
    return read_spec_file(file, WorkerSpec, "worker")


def read_spec_file(file: Path, model: type[SpecT], kind: str) -> SpecT:
    """Return the declaration that a file holds; `kind` is the name of its schema.

    Raises:
        ToolDefinitionError: it cannot be read, or is not valid; names the line.
    """
    try:
        return read_as_model(read_document_file(file), model)
    except DocumentError as error:
        raise ToolDefinitionError(_fault_text(error), hint=_fault_hint(error, kind)) from error


def _fault_text(error: DocumentError) -> str:
    """Return the first faults, the first with file and line, the others with their lines."""
    shown = error.faults[:_MAX_FAULTS]
    lines = [
        0 if fault.span is None else error.source.position(fault.span.start)[0] for fault in shown
    ]
    place = f"{error.source.name}:{lines[0]}" if lines[0] else error.source.name
    others = [
        f"line {line}: {fault.message}" for line, fault in zip(lines[1:], shown[1:], strict=True)
    ]
    more = len(error.faults) - len(shown)
    tail = [f"and {more} more"] if more else []
    return "; ".join([f"{place}: {shown[0].message}", *others, *tail])


def _fault_hint(error: DocumentError, kind: str) -> str:
    """Return the hint on a misspelt word, which causes most faults, or else the first hint."""
    misspelt = [
        fault.hint for fault in error.faults if fault.kind == "unknown_field" and fault.hint
    ]
    hints = [fault.hint for fault in error.faults if fault.hint]
    otherwise = f"fix the file; `wavewright schema {kind}` says what it may hold"
    return next(iter([*misspelt, *hints]), otherwise)


def spec_files(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of declarations: those that are named, and those in folders by name."""
    for place in places:
        if place.suffix.lower() in _FILE_SUFFIXES:
            yield place
        elif place.is_dir():
            yield from sorted(
                file for file in place.iterdir() if file.suffix.lower() in _FILE_SUFFIXES
            )
