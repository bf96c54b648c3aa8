"""A job that comes otherwise than as a file: under a run id given beforehand, and among the
project's files only.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.run_in_process import run_request
from tests.engine.stale_quotes_project import take_calls, write_quotes_project
from wavewright.config.documents import Document, read_document
from wavewright.config.settings import Settings, load_settings
from wavewright.config.sources import DocumentError
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.decisions.approvals import matches_binding
from wavewright.engine.run.jobs.inline import (
    absent_paths,
    leaves_folder,
    portable_job,
    resolve_inline_job,
)
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import ApprovalRequest, withhold_package
from wavewright.executor.events.types import Noted, RunFinished
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import JsonObject, RunId

RUN = RunId("20261122-060000-abc123")
PLAN: JsonObject = {"steps": [{"id": "rate", "tool": "rate"}], "result": "${steps.rate}"}


class Person:
    """Says what a list of answers says, one after another."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> bool | None:
        self.asked.append(request)
        return self.answers.pop(0)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    write_quotes_project(tmp_path)
    return load_settings(tmp_path, {})


def job(**fields: object) -> Document:
    return read_document(json.dumps({"name": "one rate", "plan": PLAN, **fields}), "job one")


async def run(
    settings: Settings,
    journal: MemoryJournal,
    person: Person | None = None,
    given: Document | None = None,
) -> PipelineRun[RunContext]:
    request = RunRequest(job=given or job(), run=RUN)
    done = await run_request(
        request,
        settings=settings,
        journal=journal,
        approver=person or Person(),
        publish=withhold_package,
    )
    await journal.close_run(RUN)
    return done


@pytest.mark.anyio
async def test_a_run_begins_under_the_id_that_it_is_given(settings: Settings) -> None:
    journal = MemoryJournal()

    done = await run(settings, journal)

    assert done.context.run == RUN
    assert [row.run for row in await journal.list_runs()] == [RUN]
    assert done.context.package is not None
    assert done.context.package.result == 1.25
    assert not settings.output_dir.exists()


@pytest.mark.anyio
async def test_a_run_that_has_begun_goes_on_and_the_job_is_not_read_again(
    settings: Settings,
) -> None:
    journal = MemoryJournal()
    await run(settings, journal)
    take_calls(settings.root)

    done = await run(settings, journal, given=job(name=""))

    assert done.context.package is not None
    assert done.context.package.status == "achieved"
    assert take_calls(settings.root) == {}


@pytest.mark.anyio
async def test_a_run_whose_approval_is_yet_to_come_waits_and_goes_on_with_the_word(
    settings: Settings,
) -> None:
    text = (settings.root / "wavewright.yaml").read_text()
    (settings.root / "wavewright.yaml").write_text(
        text.replace("rate: {}", "rate: {needs_approval: true}")
    )
    settings, journal = load_settings(settings.root, {}), MemoryJournal()
    person = Person(None, None, True)

    first = await run(settings, journal, person)
    second = await run(settings, journal, person)
    nothing_yet = take_calls(settings.root)
    third = await run(settings, journal, person)
    events = await journal.load(RUN)

    assert first.context.state.is_interrupted
    assert second.context.state.is_interrupted
    assert nothing_yet == {}
    assert third.context.package is not None
    assert take_calls(settings.root) == {"rate": 1}
    ends = [event.status for event in events if isinstance(event, RunFinished)]
    assert (ends[0], ends[-1]) == ("interrupted", "achieved")
    # The word is for this plan and these parameters, whenever it is asked for.
    assert person.asked[0] == person.asked[1] == person.asked[2]
    # It is asked once, however often the run looks for the answer.
    [wanted] = [
        event.body
        for event in events
        if isinstance(event, Noted) and event.topic == "approval_wanted"
    ]
    assert matches_binding(wanted["binding"], person.asked[0].binding)
    assert {"run", "plan_hash", "step", "params"} == set(person.asked[0].binding)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        pytest.param({"plan": "../plan.yaml"}, "/plan", id="a plan above"),
        pytest.param({"plan": "/etc/passwd"}, "/plan", id="a plan anywhere"),
        pytest.param({"goal_template": "~/goal.yaml"}, "/goal_template", id="a template at home"),
        pytest.param(
            {"plan": {"steps": [{"id": "a", "plan": "../plan.yaml"}]}},
            "/plan/steps/0/plan",
            id="a sub-plan above",
        ),
        pytest.param(
            {"tools": {"equities": {"prices": "x", "indices": {"M": "a/../../b"}}}},
            "/tools/equities/indices/M",
            id="a file of a pack",
        ),
    ],
)
def test_a_job_that_was_sent_names_nothing_outside_the_project(
    settings: Settings, fields: JsonObject, pointer: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        resolve_inline_job(job(**fields), settings)

    assert [fault.pointer for fault in caught.value.faults] == [pointer]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"plan": "link.yaml"}, id="a plan"),
        pytest.param({"plan": "folder/secret.yaml"}, id="a plan in a linked folder"),
        pytest.param({"goal_template": "link.yaml"}, id="a template"),
    ],
)
def test_a_job_that_was_sent_follows_no_link_out_of_the_project_and_quotes_nothing(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory, fields: JsonObject
) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "secret.yaml"
    outside.write_text("root: x0x0\n", encoding="utf-8")
    (settings.root / "link.yaml").symlink_to(outside)
    (settings.root / "folder").symlink_to(outside.parent)

    with pytest.raises(DocumentError, match="leads out of the project's folder") as caught:
        resolve_inline_job(job(**fields), settings)

    assert "x0x0" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        pytest.param(
            {
                "overrides": {
                    "limits": {"max_items": 2_000_000, "concurrency": 100_000, "max_steps": 5}
                }
            },
            ["/overrides/limits/max_items", "/overrides/limits/concurrency"],
            id="of a job",
        ),
        pytest.param(
            {"limits": {"max_waves": 101}}, ["/limits/max_waves"], id="of a goal template"
        ),
        pytest.param(
            {"targets": {"first": ["A"], "at_once": 17}}, ["/targets/at_once"], id="of targets"
        ),
    ],
)
def test_a_job_that_was_sent_raises_no_limit_above_what_the_settings_allow(
    settings: Settings, fields: JsonObject, pointers: list[str]
) -> None:
    with pytest.raises(DocumentError) as caught:
        resolve_inline_job(job(**fields), settings)

    assert sorted(fault.pointer or "" for fault in caught.value.faults) == sorted(pointers)


def test_settings_may_allow_a_job_that_was_sent_more_or_less(tmp_path: Path) -> None:
    write_quotes_project(tmp_path)
    with (tmp_path / "wavewright.yaml").open("a") as file:
        file.write("daemon: {max_limits: {max_items: 2000000, concurrency: 4}}\n")
    settings = load_settings(tmp_path, {})
    limits: JsonObject = {"max_items": 2_000_000, "concurrency": 4}
    document = job(overrides={"limits": limits})

    goal = resolve_inline_job(document, settings).goal

    assert (goal.limits.max_items, goal.limits.concurrency) == (2_000_000, 4)
    with pytest.raises(
        DocumentError, match=r"limits\.concurrency is 5, and a job that is sent may have 4"
    ):
        resolve_inline_job(job(overrides={"limits": {"concurrency": 5}}), settings)


def test_a_saved_plan_is_no_job_to_send(settings: Settings) -> None:
    document = read_document('{"format": "wavewright/saved-plan/1"}', "job one")

    with pytest.raises(DocumentError, match="a saved plan is run from its file"):
        resolve_inline_job(document, settings)


def test_a_job_that_was_sent_may_name_files_of_the_project_from_its_folder(
    settings: Settings,
) -> None:
    (settings.root / "plans").mkdir()
    (settings.root / "plans" / "rate.yaml").write_text("steps: [{id: rate, tool: rate}]")

    order = resolve_inline_job(job(plan="plans/rate.yaml"), settings)

    assert order.draft is not None
    assert [step.id for step in order.draft.plan.steps] == ["rate"]


@pytest.mark.parametrize("path", ["a/b", "a.yaml", "us", "https://prices.example/a..b", "a..b"])
def test_a_path_within_does_not_lead_out(path: str) -> None:
    assert not leaves_folder(path)


@pytest.mark.parametrize("path", ["/a", "~/a", "..", "a/../b", "..\\a", "C:\\a", "\\\\host\\a"])
def test_a_path_to_elsewhere_leads_out(path: str) -> None:
    assert leaves_folder(path)


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("pages", True),
        ("/nowhere", False),
        ("bing", False),
        ("", False),
        (300 * "x", False),
    ],
)
def test_what_stands_beside_a_job_and_not_in_the_project_is_named_before_it_is_sent(
    settings: Settings, tmp_path: Path, text: str, *, is_refused: bool
) -> None:
    beside = tmp_path.parent / f"{tmp_path.name}-beside"
    (beside / "pages").mkdir(parents=True)
    given = job(tools={"web": {"search": {"folder": text}}})

    if is_refused:
        with pytest.raises(DocumentError, match="stands beside the job"):
            portable_job(given, beside / "one.job.yaml", settings)
    else:
        assert portable_job(given, beside / "one.job.yaml", settings).value == given.value


@pytest.mark.parametrize(
    ("tools", "absent"),
    [
        pytest.param({"web": {"search": {"folder": "nowhere/ä"}}}, ["nowhere/ä"], id="a folder"),
        pytest.param({"knowledge": {"documents": "~/no notes"}}, ["~/no notes"], id="at home"),
        pytest.param({"lore": {"sources": "~no_one/a"}}, ["~no_one/a"], id="at nobody's home"),
        pytest.param({"knowledge": {"documents": 300 * "ä"}}, [300 * "ä"], id="a long name"),
        pytest.param(
            {
                "equities": {
                    "prices": "/gone",
                    "indices": {"MKT": "i.csv", "X": {"codes": ["i.csv"]}},
                }
            },
            ["/gone", "i.csv"],
            id="two, one of them in a table",
        ),
        pytest.param({"equities": {"prices": "vega_datasets"}}, [], id="no path"),
        pytest.param({"lore": {"sources": "in.yml", "topics": "beside.yml"}}, [], id="there"),
        pytest.param({"web": {"search": {"site": "https://a.example/"}}}, [], id="an address"),
        pytest.param({"no_such_pack": {"folder": "nowhere"}}, [], id="no pack"),
        pytest.param({}, [], id="no tools"),
    ],
)
def test_what_a_job_reads_and_nobody_has_is_told(
    settings: Settings, tmp_path: Path, tools: JsonObject, absent: list[str]
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "in.yml").touch()
    (tmp_path / "jobs" / "beside.yml").touch()

    found = absent_paths(job(tools=tools), tmp_path / "jobs" / "one.job.yaml", settings)

    assert [*found] == absent
