"""The page of jobs in a real browser: the queue, a job that failed and is sent again, and what is
left of the day.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from playwright.sync_api import expect

from tests.engine.interfaces.view.served_page import ServedPage, served_page, write_project
from tests.support.browser import CHROMIUM, Visit, visit
from wavewright.config.settings import load_settings
from wavewright.engine.service.job_store.records import (
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor.stores import journal_of
from wavewright.planner.types import JsonObject, as_object

FAILED, QUEUED = (
    JobId("00000000-0000-4000-8000-000000000001"),
    JobId("00000000-0000-4000-8000-000000000002"),
)
DOCUMENT: JsonObject = {"name": "the failed one", "plan": {"steps": [{"id": "a", "tool": "post"}]}}


async def _fill(project: Path) -> None:
    async with journal_of(load_settings(project)) as journal:
        jobs = JobStore(journal)
        for number, job in enumerate((FAILED, QUEUED)):
            document = DOCUMENT if job == FAILED else {**DOCUMENT, "name": "the queued one"}
            request = JobRequested(job, {"job": document, "source_agent": "tester"})
            await jobs.receive(
                ReceivedMessage(MessageId(f"{number}"), "job_request", "tester", 0.0, request)
            )
            if job == FAILED:
                await jobs.claim()
                await jobs.change(JobChange(job, "failed", "its disk was full"))


TEMPLATE = """\
name: wait
goal: Wait for ${inputs.file}
available_tools: [{name: wait_for}]
inputs_schema:
  type: object
  properties:
    file: {type: string, description: What is waited for}
    times: {type: integer, minimum: 1, default: 1}
    how: {enum: [long, short]}
    marks: {type: array, items: {type: string}}
  required: [file]
plan: {steps: [{id: waited, tool: wait_for, params: {file: "${inputs.file}"}}]}
"""
JOB = """\
name: own
plan:
  inputs: {file: any, year: "2020"}
  steps: [{id: waited, tool: wait_for, params: {file: "${inputs.file}"}}]
inputs: {file: two.txt}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = write_project(tmp_path)
    (found / "config" / "goals").mkdir(parents=True)
    (found / "config" / "goals" / "wait.yaml").write_text(TEMPLATE)
    (found / "own.job.yaml").write_text(JOB)
    anyio.run(_fill, found)
    return found


def stored_jobs(project: Path) -> list[JobRow]:
    """Return the jobs in the store of a project, in their order."""

    async def read() -> list[JobRow]:
        async with journal_of(load_settings(project)) as journal:
            return await JobStore(journal).list_jobs()

    return anyio.run(read)


def send_again(served: ServedPage) -> None:
    with visit(served.url) as seen:
        page = seen.page
        page.get_by_role("link", name="Jobs").click()
        expect(page.locator("main")).to_contain_text("its disk was full")
        expect(page.locator(".about")).to_contain_text("4 for each daemon, 0 taken")
        expect(page.locator(".about")).to_contain_text("1 failed")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert seen.serious_faults() == []
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.get_by_label("Your name").first.fill("eve")
        page.get_by_role("button", name="Cancel the queued one").click()
        expect(page.get_by_role("button", name="Cancel the queued one")).to_have_count(
            0, timeout=20_000
        )
        page.get_by_label("Your name").last.fill("ada")
        page.get_by_role("button", name="Send the failed one again").click()
        expect(page.locator("main")).to_contain_text("sent by ada")
        assert seen.console == []
        submit(seen)
        [said] = seen.console
        assert "422" in said


def submit(seen: Visit) -> None:
    """Make a job of a goal template: a fault is told, the dry run shown, and what it was made of is
    sent.
    """
    page = seen.page
    page.get_by_role("link", name="New job").click()
    page.get_by_role("link", name="wait", exact=True).click()
    page.get_by_label("file").fill("one.txt")
    page.get_by_label("marks").fill("[1]")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("alert")).to_contain_text("marks")
    page.get_by_label("marks").fill('["a"]')
    page.get_by_label("how").select_option("short")
    page.get_by_role("button", name="Dry run").click()
    expect(page.locator("pre.code")).to_contain_text("wait_for")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert seen.serious_faults() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_label("Your name").fill("bob")
    page.get_by_role("button", name="Send this job").click()
    expect(page.locator("main")).to_contain_text("sent by bob")


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here; `make test` installs one where it can"
)
def test_a_failed_job_is_sent_again_with_the_name_of_who_did_it(project: Path) -> None:
    with served_page(project) as served:
        send_again(served)

    _, cancelled, sent, new = stored_jobs(project)
    assert (cancelled.state, cancelled.reason) == ("cancelled", "cancelled by eve")
    inputs = {"file": "one.txt", "times": 1, "how": "short", "marks": ["a"]}
    document = {"name": "wait", "goal_template": "wait", "inputs": inputs}
    assert new.request == {"job": document, "source_agent": "view", "submitted_by": "bob"}
    assert sent.state == "queued"
    assert sent.request == {"job": DOCUMENT, "source_agent": "tester", "submitted_by": "ada"}


async def _begin_again(project: Path) -> None:
    async with journal_of(load_settings(project)) as journal:
        jobs = JobStore(journal)
        await jobs.claim()
        await jobs.change(JobChange(QUEUED, "queued", "its machine was restarted"))
        await jobs.claim()


def test_what_ended_an_attempt_before_is_not_said_of_the_one_that_runs(project: Path) -> None:
    anyio.run(_begin_again, project)
    with served_page(project) as served, served.client() as client:
        assert "before: its machine was restarted" in client.get("/jobs").text
        [running] = client.get("/api/v1/jobs").json()["open"]

    assert running["state"] == "running"


def test_programs_see_the_queue_and_are_told_what_is_not_sent_again(project: Path) -> None:
    with served_page(project) as served, served.client() as client:
        jobs = client.get("/api/v1/jobs").json()
        answers = [
            client.post(f"/api/v1/jobs/{job}/again", json=body)
            for job, body in (
                (FAILED, {}),
                (QUEUED, {"by": "ada"}),
                ("none", {"by": "ada"}),
                (FAILED, {"by": "ada"}),
            )
        ]

        assert jobs["counts"] | {"queued": 1, "failed": 1} == jobs["counts"]
        assert [one["name"] for one in jobs["open"]] == ["the queued one"]
        assert [one["reason"] for one in jobs["given_up"]] == ["its disk was full"]
        assert jobs["lag"] >= 0
        assert jobs["ended_last_hour"] == {"failed": 1}
        assert jobs["day"]["spent"]["tokens"] == 0
        assert [answer.status_code for answer in answers] == [422, 409, 404, 200]
        assert "is queued" in answers[1].json()["error"]
        assert client.get("/api/v1/jobs").json()["open"][1]["job"] == answers[3].json()["job"]
        assert client.get("/submit/..%2Fother.job.yaml").status_code == 404
        form = client.get("/submit/own.job.yaml").text
        assert 'value="two.txt"' in form
        assert 'value="2020"' in form
        own = {"input.file": "three.txt", "input.year": "2021", "do": "send", "by": "eve"}
        assert client.post("/submit/own.job.yaml", data=own).status_code == 303
        assert client.post(f"/jobs/{QUEUED}/again", data={"by": "ada"}).status_code == 409

    assert as_object(stored_jobs(project)[-1].request["job"])["inputs"] == {
        "file": "three.txt",
        "year": "2021",
    }
