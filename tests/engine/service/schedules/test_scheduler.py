"""Jobs that begin by schedules, in stores of both kinds."""

from __future__ import annotations

import anyio
import pytest

from tests.engine.service.schedules.conftest import JOB, START, Site
from wavewright.engine.service.job_store.records import JobChange
from wavewright.engine.service.schedules.schedule_store import ScheduleStore
from wavewright.engine.service.schedules.shown_schedules import shown_schedules
from wavewright.executor.stores import journal_of
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio

NAME = "jobs/news/digest.yaml"


async def test_a_job_in_a_sub_folder_begins_when_it_is_due(site: Site) -> None:
    site.write('{every: 1h, inputs: {day: "${now()}"}}')
    daemon = site.daemon()
    await daemon.tick()
    site.now = START + 3600
    await daemon.tick()

    [job] = await site.jobs.list_jobs()
    assert job.request["job_file"] == NAME
    assert job.request["inputs"] == {"day": "2027-01-15T09:00:00Z"}


async def test_of_two_daemons_one_begins_a_job(site: Site) -> None:
    site.write("{every: 1h}")
    async with journal_of(site.settings) as other:
        first, second = site.daemon(), site.daemon()
        second.store = ScheduleStore(other)
        await first.tick()
        await second.tick()
        for hour in range(1, 4):
            site.now = START + hour * 3600
            async with anyio.create_task_group() as group:
                group.start_soon(first.tick)
                group.start_soon(second.tick)
            [job, *_] = await site.jobs.list_jobs(newest=1)
            await site.jobs.cancel_waiting(job.job, "it is done")

    assert len(await site.jobs.list_jobs()) == 3
    assert site.outcomes() == ["begun"] * 3


async def test_a_daemon_that_was_down_makes_up_for_the_last_instant(site: Site) -> None:
    site.write("{every: 1h}")
    await site.daemon().tick()
    site.now = START + 4.5 * 3600
    await site.daemon().tick()

    assert len(await site.jobs.list_jobs()) == 1
    assert sorted(map(str, site.outcomes())) == ["begun", "missed", "missed", "missed"]


async def test_an_instant_is_not_begun_again_after_the_clock_went_back(site: Site) -> None:
    site.write("{every: 1h, overlap: queue}")
    daemon = site.daemon()
    await daemon.tick()
    for hours in (1.0, 0.5, 1.0, 1.01):
        site.now = START + hours * 3600
        await daemon.tick()

    assert len(await site.jobs.list_jobs()) == 1


async def test_a_run_goes_on_whose_instant_comes_again_since_the_clock_went_back(
    site: Site,
) -> None:
    site.write("{every: 1h, overlap: cancel_other}")
    daemon = site.daemon()
    await daemon.tick()
    site.now = START + 3600
    await daemon.tick()
    await site.jobs.claim()
    for hours in (0.5, 1.0, 1.01):
        site.now = START + hours * 3600
        await site.daemon().tick()

    [job] = await site.jobs.list_jobs()
    assert job.state == "running"
    assert site.outcomes() == ["begun"]
    assert await site.journal.find_cancel_request(RunId(job.run)) is None


async def test_nothing_begins_of_a_pause_in_the_file_that_is_over(site: Site) -> None:
    site.write("{every: 1h, paused: true}")
    site.now = START + 3590
    await site.daemon().tick()
    site.now = START + 3601
    await site.daemon().tick()
    site.write("{every: 1h}")
    site.now = START + 3603
    await site.daemon().tick()

    assert await site.jobs.list_jobs() == []


async def test_a_paused_schedule_stays_paused_over_a_restart(site: Site) -> None:
    site.write("{every: 1h, missed: all}")
    await site.daemon().tick()
    await ScheduleStore(site.journal).pause(NAME, "ada", site.now)
    site.now = START + 3 * 3600
    await site.daemon().tick()
    assert await site.jobs.list_jobs() == []

    await ScheduleStore(site.journal).resume(NAME, site.now)
    site.now += 3600
    await site.daemon().tick()
    assert len(await site.jobs.list_jobs()) == 1


async def test_who_resumes_what_is_not_paused_loses_nothing_that_was_missed(site: Site) -> None:
    site.write("{every: 1h, missed: all}")
    await site.daemon().tick()
    site.now = START + 3 * 3600
    await ScheduleStore(site.journal).resume(NAME, site.now)

    await site.daemon().tick()

    assert site.outcomes() == ["begun", "waiting", "waiting"]


@pytest.mark.parametrize(
    ("overlap", "states", "then"),
    [
        ("skip", ["waiting"], ["completed"]),
        ("queue", ["waiting"], ["completed", "queued"]),
        ("cancel_other", ["cancelled"], ["cancelled", "queued"]),
    ],
)
async def test_a_run_that_waits_for_a_person_has_not_ended(
    site: Site, overlap: str, states: list[str], then: list[str]
) -> None:
    site.write(f"{{every: 1h, overlap: {overlap}}}")
    daemon = site.daemon()
    await daemon.tick()
    site.now += 3600
    await daemon.tick()
    held = await site.jobs.claim()
    assert held is not None
    await site.jobs.change(JobChange(held.job, "waiting", reason="is it good?"))
    site.now += 3600
    await daemon.tick()
    assert [job.state for job in await site.jobs.list_jobs()] == states

    if overlap != "cancel_other":
        # It ends as one that a daemon has taken up again.
        await site.jobs.cancel_waiting(held.job, "nobody answers")
        then = ["cancelled", *then[1:]]
    site.now += 10
    await daemon.tick()
    assert [job.state for job in await site.jobs.list_jobs()] == then


async def test_a_schedule_whose_job_is_faulty_is_logged_once_and_stops_no_other(
    site: Site,
) -> None:
    site.write('{cron: "0 99 * * *"}', "bad.yaml")
    site.write("{every: 1h}", "unreadable.yaml", "schedule: {schedule}\nplan: [\n")
    site.write("{every: 1h}")
    daemon = site.daemon()
    for _ in range(3):
        await daemon.tick()
        site.now += 3600

    assert [line["schedule"] for line in site.said("schedule_faulty")] == [
        "bad.yaml",
        "unreadable.yaml",
    ]
    assert len(await site.jobs.list_jobs()) == 1


async def test_inputs_that_cannot_be_computed_are_logged_and_begin_nothing(site: Site) -> None:
    site.write('{every: 1h, inputs: {day: "${nowhere}"}}')
    daemon = site.daemon()
    await daemon.tick()
    site.now += 3600
    await daemon.tick()

    assert await site.jobs.list_jobs() == []
    assert "nothing is called 'nowhere'" in str(site.said("schedule_faulty")[0]["error"])


async def test_a_schedule_is_shown_with_its_last_and_its_next_instants(site: Site) -> None:
    site.write('{cron: "0 9 * * *", timezone: Asia/Kolkata}')
    daemon = site.daemon()
    await daemon.tick()
    site.now += 24 * 3600
    await daemon.tick()

    [shown] = await shown_schedules(site.settings, ScheduleStore(site.journal), site.now)
    assert (shown.last, shown.outcome) == ("2027-01-16 09:00:00+05:30", "begun")
    assert shown.next[0] == "2027-01-17 09:00:00+05:30"
    assert len(shown.next) == 3


@pytest.mark.parametrize(
    ("written", "paused_by", "told"),
    [
        ("{every: 1h}", "", [START + 3600]),
        ("{every: 1h}", "ada", []),
        ("{every: 1h, paused: true}", "", []),
    ],
)
async def test_a_schedule_whose_plan_is_refused_begins_nothing_and_its_instants_are_told(
    site: Site, written: str, paused_by: str, told: list[float]
) -> None:
    site.write(written, text=JOB.replace("{{content:", "{{contents:"))
    store, missed = ScheduleStore(site.journal), list[float]()
    if paused_by:
        await store.pause("jobs/news/digest.yaml", paused_by, site.now)
    daemon = site.daemon()
    daemon.on_missed = lambda _schedule, instant: missed.append(instant)
    await daemon.tick()
    site.now += 3600
    await daemon.tick()

    [shown] = await shown_schedules(site.settings, store, site.now)

    assert await site.jobs.list_jobs() == []
    assert missed == told
    assert shown.state.startswith("faulty: its plan is refused: step 'say'")
    assert [line["schedule"] for line in site.said("schedule_faulty")] == [shown.name]
