"""The JSON API of the live page, below `/api/v1`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import JsonSchemaMode
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wavewright.config import WavewrightError
from wavewright.config.value_types import PersonName
from wavewright.engine.interfaces.view.people import Viewer, viewer_of
from wavewright.engine.interfaces.view.served_pages import reason_of
from wavewright.engine.interfaces.view.stored_runs import RunList, RunQuery, page_of_runs
from wavewright.engine.interfaces.view.viewed_jobs import JobOverview, SentJob, ViewedJobs
from wavewright.engine.interfaces.view.viewed_project import DecisionAnswer, ViewedProject
from wavewright.engine.run.decisions.questions import OpenQuestion
from wavewright.engine.run.version import __version__
from wavewright.engine.service.job_store.records import JobId
from wavewright.executor import RunNotFound
from wavewright.planner import JsonObject, RunId
from wavewright.reviewer import Package

QUERY: Final = "asked"
"""Name of the parameter that takes the query, as a model."""
BODY: Final = "given"
"""Name of the parameter that takes the body, as a model."""
REFUSALS: Final = {
    404: "There is no such thing.",
    401: "The token is missing or wrong.",
    403: "The role of who asks does not allow it.",
    409: "It cannot be done now; the error says why.",
    422: "A field is missing or wrong; the error names it.",
}


class Signed(BaseModel):
    """What somebody does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: PersonName | None = None
    """Who does it, for the journal; needed with the token of the page, which names nobody, and left
    out with a token of one's own.
    """

    @property
    def identity(self) -> str:
        """Who does it, as it is journaled."""
        assert self.by is not None
        return self.by


class SignedAnswer(Signed, DecisionAnswer):
    """An answer to a decision, and who gives it."""


class Problem(BaseModel):
    """Why a request was refused."""

    error: str
    hint: str | None = None


@dataclass(frozen=True)
class Operation:
    """One operation: a path, a method, and the function that answers.

    Of the function, `asked` is the query, `given` the body, other parameters are parts of the path;
    its docstring's first line is the summary.
    """

    method: str
    path: str
    function: Callable[..., Awaitable[object]]

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """The types of the function's parameters and answer."""
        return get_type_hints(self.function, include_extras=True)

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.function.__name__

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return " ".join((self.function.__doc__ or "").partition("\n\n")[0].split())

    @property
    def path_names(self) -> list[str]:
        """The names of the parts of the path."""
        return re.findall(r"{(\w+)}", self.path)

    def route(self) -> Route:
        """Return where it is served."""
        answer = TypeAdapter[object](self.types["return"])

        async def endpoint(request: Request) -> Response:
            try:
                values: dict[str, object] = dict(request.path_params)
                if QUERY in self.types:
                    values[QUERY] = self.types[QUERY].model_validate(dict(request.query_params))
                if BODY in self.types:
                    body, viewer = await request.body(), viewer_of(request)
                    values[BODY] = _read_signed(self.types[BODY], body, viewer)
                found = await self.function(**values)
            except ValidationError as error:
                return _refusal(422, reason_of(error))
            except NotSigned as error:
                return _refusal(422, error.message, error.hint)
            except WavewrightError as error:
                code = 404 if isinstance(error, RunNotFound) else 409
                return _refusal(code, error.message, error.hint)
            return Response(answer.dump_json(found, by_alias=True), media_type="application/json")

        return Route(self.path, endpoint, methods=[self.method])


class NotSigned(WavewrightError):
    """Somebody else is named than the token or the proxy shows."""


def _read_signed(model: type[Signed], body: bytes, viewer: Viewer) -> Signed:
    """Return what was sent with the identity of who sends it.

    Raises:
        ValidationError: a field is missing or wrong; `by` is needed where nothing shows who it is.
        NotSigned: `by` names somebody else.
    """
    if viewer.name is None:
        model = create_model(model.__name__, __base__=model, by=(PersonName, ...))
    sent = model.model_validate_json(body)
    if viewer.name is not None and sent.by not in {None, viewer.name}:
        raise NotSigned(f"`by`: you are {viewer.name!r}", hint="leave `by` out")
    return sent.model_copy(update={"by": viewer.identity(sent.by or "")})


def _refusal(code: int, error: str, hint: str | None = None) -> Response:
    problem = Problem(error=error, hint=hint)
    return Response(problem.model_dump_json(exclude_none=True), code, media_type="application/json")


_COMPONENTS: Final = "#/components/schemas/"


def openapi_document(title: str, operations: Sequence[Operation]) -> JsonObject:
    """Return the document, in OpenAPI 3.1; each operation needs a bearer token."""
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        ("problem", "serialization", TypeAdapter(Problem))
    ]
    for operation in operations:
        for part, shape in operation.types.items():
            mode: JsonSchemaMode = "serialization" if part == "return" else "validation"
            inputs.append((f"{operation.name} {part}", mode, TypeAdapter(shape)))
    # The answer has a schema for each input, under its name and mode, and the shared ones in
    # `$defs`.
    found, shared = TypeAdapter.json_schemas(inputs, ref_template=_COMPONENTS + "{model}")
    schemas = cast("dict[str, JsonObject]", {name: schema for (name, _), schema in found.items()})
    components = cast("dict[str, JsonObject]", shared.get("$defs", {}))
    paths: dict[str, JsonObject] = {}
    for operation in operations:
        described = _described(operation, schemas, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    for operation in operations:
        # The fields of a query are parameters, and its model is referred to by nothing.
        if QUERY in operation.types:
            components.pop(operation.types[QUERY].__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "paths": {**paths},
        "components": {
            "schemas": {**components},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(
    operation: Operation, schemas: dict[str, JsonObject], components: dict[str, JsonObject]
) -> JsonObject:
    def schema(part: str) -> JsonObject:
        return schemas[f"{operation.name} {part}"]

    parameters = [
        _parameter(name, "path", schema(name), required=True) for name in operation.path_names
    ]
    if QUERY in operation.types:
        model = components[str(schema(QUERY)["$ref"]).removeprefix(_COMPONENTS)]
        fields = cast("dict[str, JsonObject]", model["properties"])
        required = cast("list[str]", model.get("required", []))
        parameters += [
            _parameter(name, "query", field, required=name in required)
            for name, field in fields.items()
        ]
    refusals: JsonObject = {
        str(code): {"description": why, "content": _json(schemas["problem"])}
        for code, why in REFUSALS.items()
    }
    body: JsonObject = (
        {"requestBody": {"required": True, "content": _json(schema(BODY))}}
        if BODY in operation.types
        else {}
    )
    answer: JsonObject = {"description": operation.summary, "content": _json(schema("return"))}
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*parameters],
        **body,
        "responses": {"200": answer, **refusals},
    }


def _parameter(name: str, place: str, schema: JsonObject, *, required: bool) -> JsonObject:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _json(schema: JsonObject) -> JsonObject:
    return {"application/json": {"schema": schema}}


PREFIX: Final = "/api/v1"


class SteeredRun(BaseModel):
    """The run that was resumed or cancelled, or the new one that repeats another."""

    run: RunId


class DecisionTaken(BaseModel):
    """An answer counts."""

    answered: bool = True


@dataclass(frozen=True, slots=True)
class Api:
    """The operations of the API."""

    project: ViewedProject
    jobs: ViewedJobs

    def operations(self) -> list[Operation]:
        """Return what can be asked."""
        return [
            Operation("GET", f"{PREFIX}/runs", self.list_runs),
            Operation("GET", f"{PREFIX}/runs/{{run}}", self.get_run),
            Operation("POST", f"{PREFIX}/runs/{{run}}/resume", self.resume_run),
            Operation("POST", f"{PREFIX}/runs/{{run}}/cancel", self.cancel_run),
            Operation("POST", f"{PREFIX}/runs/{{run}}/retry", self.retry_run),
            Operation("GET", f"{PREFIX}/decisions", self.list_decisions),
            Operation("POST", f"{PREFIX}/decisions/{{decision}}", self.answer_decision),
            Operation("GET", f"{PREFIX}/jobs", self.list_jobs),
            Operation("POST", f"{PREFIX}/jobs/{{job}}/again", self.send_job_again),
        ]

    def routes(self) -> list[Route]:
        """Return what is served where."""
        operations = self.operations()
        document = openapi_document("wavewright", operations)

        async def describe(request: Request) -> Response:
            del request
            return JSONResponse(document)

        return [
            Route(f"{PREFIX}/openapi.json", describe),
            *(operation.route() for operation in operations),
        ]

    async def list_runs(self, asked: RunQuery) -> RunList:
        """List the newest runs, fifty at a time."""
        return await page_of_runs(self.project.journal, asked)

    async def get_run(self, run: RunId) -> Package:
        """Return the package of a run as far as it has come."""
        package = (await self.project.find_run(run)).package
        if package is None:
            raise WavewrightError("the run has no plan yet", hint="ask again once it has planned")
        return package

    async def resume_run(self, run: RunId, given: Signed) -> SteeredRun:
        """Continue a run that was interrupted."""
        return SteeredRun(run=await self.project.resume(run, given.identity))

    async def cancel_run(self, run: RunId, given: Signed) -> SteeredRun:
        """End a run for good."""
        return SteeredRun(run=await self.project.cancel(run, given.identity))

    async def retry_run(self, run: RunId, given: Signed) -> SteeredRun:
        """Repeat a run that has ended, as a new run."""
        return SteeredRun(run=await self.project.retry(run, given.identity))

    async def list_decisions(self) -> list[OpenQuestion]:
        """List what waits for a person."""
        return await self.project.list_questions()

    async def answer_decision(self, decision: str, given: SignedAnswer) -> DecisionTaken:
        """Answer a decision; the first answer counts."""
        await self.project.answer(decision, given.choice, given.identity)
        return DecisionTaken()

    async def list_jobs(self) -> JobOverview:
        """Show the jobs of daemons: the queue, those that failed, the budget of the day."""
        return await self.jobs.overview()

    async def send_job_again(self, job: JobId, given: Signed) -> SentJob:
        """Queue the request of a failed job as a new job, or continue the run of a dead one."""
        return SentJob(job=await self.jobs.send_again(job, given.identity))
