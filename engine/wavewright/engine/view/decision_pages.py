"""The page of what waits for a person."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.engine.view.page_templates import page, reason_of
from wavewright.engine.view.viewed_project import DecisionAnswer, ViewedProject


@dataclass(frozen=True, slots=True)
class DecisionPages:
    """The answers about decisions as pages."""

    project: ViewedProject

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/decisions", self._decisions),
            Route("/decisions/{decision}", self._decide, methods=["POST"]),
        ]

    async def _decisions(self, request: Request) -> Response:
        """Answer with what waits for a person."""
        return await self._page(request.query_params.get("error", ""))

    async def _decide(self, request: Request) -> Response:
        """Take an answer of a form, and lead back to the decisions."""
        form = await request.form()
        try:
            given = DecisionAnswer(choice=str(form.get("choice", "")), by=str(form.get("by") or "view"))
            await self.project.answer(request.path_params["decision"], given)
        except WavewrightError as error:
            return await self._page(reason_of(error), 409)
        except ValidationError as error:
            return await self._page(reason_of(error), 422)
        return RedirectResponse("/decisions", 303)

    async def _page(self, error: str, code: int = 200) -> Response:
        questions = await self.project.list_questions()
        return page("decisions.html.j2", code, title="Decisions", questions=questions, error=error)
