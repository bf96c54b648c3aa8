from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import jsonschema_rs
import pytest

from tests.reviewer.example_package import example_package
from tests.reviewer.scripted_runs import Fails, note_review, plan_of, run_plan
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Noted, RunFinished
from wavewright.planner.language.plan import Plan
from wavewright.reviewer import (
    FileNotWrittenError,
    Package,
    PackageError,
    build_package,
    package_bytes,
    package_schema,
    read_package,
    review_by_code,
    write_package,
)


def test_a_package_that_is_written_and_read_back_is_equal(tmp_path: Path) -> None:
    package = example_package()
    path = write_package(package, tmp_path / "out")

    assert read_package(path.read_bytes()) == package


def test_a_package_fits_the_schema_that_is_published_for_it() -> None:
    validator = jsonschema_rs.validator_for(package_schema())

    assert list(validator.iter_errors(json.loads(package_bytes(example_package())))) == []
    assert not validator.is_valid({"format": "wavewright/package/1"})


def test_equal_packages_have_equal_bytes() -> None:
    assert package_bytes(example_package()) == package_bytes(example_package())


def test_a_package_says_how_the_run_came_about() -> None:
    package = example_package()

    assert (package.status, package.rung) == ("achieved", "template")
    assert [entry.id for entry in package.execution_log] == [
        "prices",
        "index",
        "news",
        "notes",
        "summary",
    ]
    prices = package.execution_log[0]
    assert (prices.status, prices.wave, prices.items, prices.labels) == (
        "ok",
        1,
        (3, 3),
        ("GNP", "SKS", "XRO"),
    )
    assert package.execution_log[-1].depends_on == ("prices", "index", "notes")
    assert (
        Plan.model_validate_json(json.dumps(package.plan)).step("prices").tool == "fetch_stock_data"
    )
    assert package.timings.waves == 3
    assert package.timings.seconds <= package.timings.step_seconds


def test_documents_stand_apart_from_the_execution_log() -> None:
    package = example_package()

    assert [(document.id, document.is_result) for document in package.documents] == [
        ("outlook", True),
        ("notes_GNP", False),
        ("notes_SKS", False),
        ("notes_XRO", False),
    ]
    assert package.documents[0].tags == ("equities", "outlook")
    log = json.dumps([entry.model_dump(mode="json") for entry in package.execution_log])
    assert "Outlook" not in log


def test_what_did_not_go_well_is_among_the_warnings() -> None:
    assert example_package().warnings == (
        "gate 'long' on step 'prices': output.rows > 70 is false (output.rows = 68)",
        "step 'news' went on with 2 of 3 items",
        "summary: XRO has fewer prices than the others",
    )


def test_a_run_that_stopped_early_has_a_package_too() -> None:
    run = run_plan(
        plan_of({"id": "a"}, {"id": "b", "depends_on": ["a"]}),
        {"a": Fails("broken pipe", "transient")},
    )
    events = [event for event in run.events if getattr(event, "step", "") != "b"]
    events.append(RunFinished(events[-1].at, "interrupted", "stopped from outside"))
    package = build_package(run.plan, run.goal, fold(events), None, run.tools)

    assert (package.status, package.reason, package.result) == (
        "interrupted",
        "stopped from outside",
        None,
    )
    assert [(entry.id, entry.status) for entry in package.execution_log] == [
        ("a", "failed"),
        ("b", "not_run"),
    ]


def test_a_review_after_a_resumed_end_decides_the_status() -> None:
    run = run_plan(plan_of({"id": "a"}), {"a": 1})
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    interrupted = [*run.events, RunFinished(run.events[-1].at, "interrupted", "stopped")]
    reviewed = list(interrupted)
    note_review(reviewed, review.model_dump(mode="json"), at=run.events[-1].at + 1)

    assert (
        build_package(run.plan, run.goal, fold(interrupted), review, run.tools).status
        == "interrupted"
    )
    assert build_package(run.plan, run.goal, fold(reviewed), review, run.tools).status == "achieved"


def test_what_a_recovery_took_that_gave_no_patch_is_in_the_time_of_the_run() -> None:
    run = run_plan(plan_of({"id": "a"}), {"a": 1})
    last = run.events[-1].at
    noted = Noted(last + 40.0, "no_recovery", {"reason": "the model could not be asked"})
    before = build_package(run.plan, run.goal, run.state, None, run.tools).timings
    after = build_package(run.plan, run.goal, fold([*run.events, noted]), None, run.tools).timings

    assert after.seconds - before.seconds == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("stopped", "gap"),
    [({"worked_until": 0.0}, 30.0), ({"worked_until": 20.0}, 10.0), ({}, 0.0)],
    ids=["at once", "after a while", "unknown"],
)
def test_the_time_before_a_resume_is_not_in_the_time_of_the_run(
    stopped: dict[str, float], gap: float
) -> None:
    run = run_plan(plan_of({"id": "a"}), {"a": 1})
    last = run.events[-1].at
    until = {name: last + since for name, since in stopped.items()}
    resumed = Noted(last + 30.0, "resumed", {**until})
    noted = Noted(last + 40.0, "no_recovery", {"reason": "the model could not be asked"})
    state = fold([*run.events, resumed, noted])

    took = build_package(run.plan, run.goal, state, None, run.tools).timings.seconds
    assert state.started is not None
    assert took == pytest.approx(noted.at - state.started.at - gap)


def test_the_reviews_of_earlier_rounds_are_kept() -> None:
    run = run_plan(plan_of({"id": "a"}), {"a": 1})
    last = review_by_code(run.plan, run.goal, run.state, run.tools).model_copy(update={"round": 1})
    events = list(run.events)
    note_review(
        events, last.model_copy(update={"round": 0, "goal_achieved": False}).model_dump(mode="json")
    )
    note_review(events, {"of": "another version"})
    note_review(events, last.model_dump(mode="json"))
    package = build_package(run.plan, run.goal, fold(events), last, run.tools)

    assert [review.round for review in package.earlier_reviews] == [0]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"format": "wavewright/package/9"}', b"\xff\xfe"]
)
def test_what_is_no_package_is_refused_with_the_mend(content: bytes) -> None:
    with pytest.raises(
        PackageError,
        match=r"'old\.json' is no package of this version .*make it again from the run",
    ):
        read_package(content, "old.json")


def test_a_written_file_is_its_owners_alone_and_whole(tmp_path: Path) -> None:
    path = write_package(example_package(), tmp_path / "runs" / "one")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["package.json"]


def test_writing_replaces_a_link_and_never_follows_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "package.json").symlink_to(outside)
    path = write_package(example_package(), tmp_path / "out")

    assert outside.read_text() == "mine"
    assert not path.is_symlink()


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")

    with pytest.raises(
        FileNotWrittenError, match=r"cannot write '.*package\.json': .* give a folder"
    ):
        write_package(example_package(), tmp_path / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_a_folder_that_may_not_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o500)

    with pytest.raises(FileNotWrittenError, match="may not be written to"):
        write_package(example_package(), tmp_path / "out")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param(
            errno.ENOSPC, "the disk is full: free some space, or give another folder", id="full"
        ),
        pytest.param(
            errno.EROFS,
            "the disk is read-only: give a folder that can be written to",
            id="read_only",
        ),
    ],
)
def test_a_disk_that_takes_no_more_leaves_the_earlier_package_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    package = example_package()
    path = write_package(package, tmp_path)

    def refuse(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(FileNotWrittenError, match=message):
        write_package(package.model_copy(update={"job": "another"}), tmp_path)
    assert Package.model_validate_json(path.read_bytes()) == package
    assert [entry.name for entry in tmp_path.iterdir()] == ["package.json"]
