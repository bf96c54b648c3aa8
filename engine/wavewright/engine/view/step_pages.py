"""Pages of what happened inside a run: one step with its calls, a confidence, and what models were asked."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wavewright.config.redaction import known_secrets_redactor
from wavewright.engine.view.page_templates import page
from wavewright.engine.view.viewed_project import ViewedProject
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event
from wavewright.executor.run.recording import redacted_events
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import RunId
from wavewright.reviewer.package.builder import stored_package
from wavewright.reviewer.package.step_records import model_messages, step_record
from wavewright.reviewer.review.proof import proof_of, reviewed_fields


@dataclass(frozen=True, slots=True)
class StepPages:
    """The answers about steps and models of a run as pages."""

    project: ViewedProject

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/runs/{run}/steps/{step}", self._step),
            Route("/runs/{run}/why/{field:path}", self._why),
            Route("/runs/{run}/messages", self._messages),
        ]

    async def _step(self, request: Request) -> Response:
        """Answer with one step: parameters, outputs, attempts with what they printed and raised, models, gates."""
        run, name = RunId(request.path_params["run"]), request.path_params["step"]
        events = await self._events(run)
        state = fold(events)
        plan = Plan.model_construct(steps=()) if state.plan is None else Plan.model_validate(state.plan)
        found = next((step for step in plan.steps if step.id == name), None)
        if found is None:
            raise HTTPException(404, f"run {run!r} has no step {name!r}")
        record = step_record(plan, found, state, events)
        values = {
            "run": run,
            "record": record,
            "gates": [gate for gate in state.gates if gate.step == found.id],
            "redact": known_secrets_redactor(self.project.settings).redact_json,
        }
        return page("step.html.j2", title=f"{name} of {run}", **values)

    async def _why(self, request: Request) -> Response:
        """Answer with how the confidence in a field of the result came about."""
        run, field = RunId(request.path_params["run"]), request.path_params["field"]
        package = stored_package(fold(await self._events(run)))
        if package is None or package.review is None or field not in reviewed_fields(package, package.review):
            raise HTTPException(404, f"run {run!r} has no confidence in a field {field!r}")
        proof = proof_of(package, package.review, field)
        return page("why.html.j2", title=f"Why {field} of {run}", run=run, proof=proof)

    async def _messages(self, request: Request) -> Response:
        """Answer with what planner, workers and reviewer were asked, and what they answered."""
        run = RunId(request.path_params["run"])
        messages = model_messages(await self._events(run))
        return page("messages.html.j2", title=f"Messages of {run}", run=run, messages=messages)

    async def _events(self, run: RunId) -> list[Event]:
        events = await self.project.journal.load(run)
        if not events:
            raise HTTPException(404, f"there is no run {run!r}")
        return [*redacted_events(events)]
