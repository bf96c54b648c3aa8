"""Operations of a JSON API from typed functions: each parameter and answer is checked and described by its type."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.engine.view.page_templates import reason_of
from wavewright.executor.store.errors import RunNotFound

QUERY: Final = "asked"
"""Name of the parameter that takes the query, as a model."""
BODY: Final = "given"
"""Name of the parameter that takes the body, as a model."""
REFUSALS: Final = {
    404: "There is no such thing.",
    409: "It cannot be done now; the error says why.",
    422: "A field is missing or wrong; the error names it.",
}


class Problem(BaseModel):
    """Why a request was refused."""

    error: str
    hint: str | None = None


@dataclass(frozen=True)
class Operation:
    """One operation: a path, a method, and the function that answers.

    Of the function, `asked` is the query, `given` the body, other parameters are parts of the path; its docstring's
    first line is the summary.
    """

    method: str
    path: str
    function: Callable[..., Awaitable[object]]
    types: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Read the types of the function."""
        object.__setattr__(self, "types", get_type_hints(self.function, include_extras=True))

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.function.__name__

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (self.function.__doc__ or "").partition("\n")[0]

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
                    values[BODY] = self.types[BODY].model_validate_json(await request.body())
                found = await self.function(**values)
            except ValidationError as error:
                return _refusal(422, Problem(error=reason_of(error)))
            except WavewrightError as error:
                code = 404 if isinstance(error, RunNotFound) else 409
                return _refusal(code, Problem(error=reason_of(error), hint=error.hint))
            return Response(answer.dump_json(found, by_alias=True), media_type="application/json")

        return Route(self.path, endpoint, methods=[self.method])


def _refusal(code: int, problem: Problem) -> Response:
    return Response(problem.model_dump_json(exclude_none=True), code, media_type="application/json")
