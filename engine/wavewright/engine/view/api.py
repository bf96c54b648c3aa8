"""The JSON API of the live page, below `/api/v1`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.engine.decisions.questions import OpenQuestion
from wavewright.engine.view.api_operations import Operation
from wavewright.engine.view.openapi import openapi_document
from wavewright.engine.view.stored_runs import RunQuery, page_of_runs
from wavewright.engine.view.viewed_jobs import JobOverview, SentJob, ViewedJobs
from wavewright.engine.view.viewed_project import DecisionAnswer, Person, ViewedProject
from wavewright.executor.store.job_records import JobId
from wavewright.executor.store.journal import RunRow
from wavewright.planner.types import RunId
from wavewright.reviewer.package.builder import stored_package
from wavewright.reviewer.records import Package

PREFIX: Final = "/api/v1"


class RunList(BaseModel):
    """A page of the list of runs, the newest first."""

    runs: list[RunRow]
    next: RunId | None
    """The value of `before` for the runs that follow; null after the last one."""


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

        return [Route(f"{PREFIX}/openapi.json", describe), *(operation.route() for operation in operations)]

    async def list_runs(self, asked: RunQuery) -> RunList:
        """List the newest runs, fifty at a time."""
        page = await page_of_runs(self.project.journal, asked)
        return RunList(runs=[*page.rows], next=page.following)

    async def get_run(self, run: RunId) -> Package:
        """Return the package of a run as far as it has come."""
        package = stored_package((await self.project.find_run(run)).state)
        if package is None:
            raise WavewrightError("the run has no plan yet", hint="ask again once it has planned")
        return package

    async def resume_run(self, run: RunId, given: Person) -> SteeredRun:
        """Continue a run that was interrupted."""
        return SteeredRun(run=await self.project.resume(run, given.by))

    async def cancel_run(self, run: RunId, given: Person) -> SteeredRun:
        """End a run for good."""
        return SteeredRun(run=await self.project.cancel(run, given.by))

    async def retry_run(self, run: RunId, given: Person) -> SteeredRun:
        """Repeat a run that has ended, as a new run."""
        return SteeredRun(run=await self.project.retry(run, given.by))

    async def list_decisions(self) -> list[OpenQuestion]:
        """List what waits for a person."""
        return await self.project.list_questions()

    async def answer_decision(self, decision: str, given: DecisionAnswer) -> DecisionTaken:
        """Answer a decision; the first answer counts."""
        await self.project.answer(decision, given)
        return DecisionTaken()

    async def list_jobs(self) -> JobOverview:
        """Show the jobs of daemons: the queue, those that failed, the budget of the day."""
        return await self.jobs.overview()

    async def send_job_again(self, job: JobId, given: Person) -> SentJob:
        """Queue the request of a job that failed or is dead again, as a new job."""
        return SentJob(job=await self.jobs.send_again(job, given.by))
