"""`wavewright daemon`, `submit` and `tail`, as people call them."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import anyio.to_thread
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite
from tests.support.prepared_command import PipedCommand, run_prepared
from tests.support.rabbitmq import DUMB, Broker, RunningBroker
from wavewright.engine.interfaces.cli.common import broker

JOB = "name: one thing\nplan: parts/plan.yaml\n"
PLAN = "steps: [{id: it, tool: say, params: {text: it}}]\nresult: ${steps.it}\n"

Call = Callable[..., CompletedProcess[str]]


@pytest.fixture
def call(site: DaemonSite) -> Call:
    """Call the command line as a process, in the project."""
    (site.folder / "jobs" / "parts").mkdir(parents=True)
    (site.folder / "jobs" / "one.yaml").write_text(JOB)
    (site.folder / "jobs" / "parts" / "plan.yaml").write_text(PLAN)

    def run(*arguments: str) -> CompletedProcess[str]:
        return run_prepared(*arguments, folder=site.folder, environment=site.whole_environment())

    return run


@pytest.mark.anyio
async def test_a_job_is_submitted_with_its_plan_and_waited_for(
    site: DaemonSite, call: Call, in_process: InProcess
) -> None:
    async with in_process():
        waited = await anyio.to_thread.run_sync(call, "submit", "jobs/one.yaml", "--wait")
        # Typed in capitals, it is the same id.
        named = ("--id", "0A5D2F1C-3B74-4C11-8D4E-9F6A7B8C9D0E")
        as_json = await anyio.to_thread.run_sync(
            call, "submit", "jobs/one.yaml", "--wait", "--json", *named
        )

    assert waited.returncode == 0, waited.stderr
    told, summary = waited.stdout.split("\n\n", 1)
    first, *lines = told.splitlines()
    assert len(first) == 36
    assert summary.startswith("GOAL ACHIEVED  one thing\n")
    assert re.search(r"^run \d{8}-\d{6}-\w+ ", summary, re.MULTILINE)
    assert "\n  it\n" in summary
    assert re.search(r"^report    wavewright show \S+ --format html$", summary, re.MULTILINE)
    assert [line.split()[3] for line in lines][-1] == "JOB_COMPLETED"
    assert all(line.split()[2] == first[:8] for line in lines)
    envelopes = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert envelopes[0].keys() == {"job_id"}
    assert envelopes[-1]["payload"]["status"] == "JOB_COMPLETED"
    [package] = [one["payload"]["package"] for one in envelopes[1:] if "package" in one["payload"]]
    assert package["result"] == "it"
    assert site.calls() == {"say it": 2}


@pytest.mark.anyio
async def test_a_job_that_fails_is_exit_code_1_and_says_why(
    site: DaemonSite, call: Call, in_process: InProcess
) -> None:
    gate = "gates: [{id: no_words, on: it, check: output == ''}]\n"
    (site.folder / "jobs" / "parts" / "plan.yaml").write_text(PLAN + gate)
    async with in_process():
        failed = await anyio.to_thread.run_sync(call, "submit", "jobs/one.yaml", "--wait")

    assert failed.returncode == 1
    assert "JOB_PARTIALLY_COMPLETED" in failed.stdout
    assert "GOAL NOT ACHIEVED" in failed.stdout
    assert "no_words" in failed.stdout


@pytest.mark.anyio
async def test_a_faulty_job_is_not_sent_and_every_fault_is_named(
    site: DaemonSite, call: Call
) -> None:
    plan = "{steps: [{id: a, tool: nobody}, {id: b, tool: say, params: {txt: '${steps.c}'}}]}"
    (site.folder / "jobs" / "one.yaml").write_text(f"name: x\ninputs: {{n: .nan}}\nplan: {plan}\n")

    refused = await anyio.to_thread.run_sync(call, "submit", "jobs/one.yaml", "--wait")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "step 'a' calls 'nobody', and there is no such tool" in refused.stderr
    assert "'c'" in refused.stderr
    assert "'txt'" in refused.stderr
    assert ".nan is no finite number" in refused.stderr
    assert re.search(
        r"^error: 'jobs/one.yaml' was not sent: \d faults$", refused.stderr, re.MULTILINE
    )


@pytest.mark.anyio
async def test_a_job_that_the_daemon_refuses_is_told_at_once_with_the_reason(
    site: DaemonSite, call: Call, in_process: InProcess
) -> None:
    site.environment["WAVEWRIGHT_HMAC_KEY"] = "the-key-of-the-daemon-and-of-nobody-else"
    async with in_process():
        del site.environment["WAVEWRIGHT_HMAC_KEY"]  # so the sender signs nothing
        refused = await anyio.to_thread.run_sync(call, "submit", "jobs/one.yaml", "--wait")

    assert refused.returncode == 1
    assert re.search(r"error: job \S+ was refused: \w*signature", refused.stderr), refused.stderr
    assert site.calls() == {}


@pytest.mark.anyio
async def test_inputs_are_sent_with_the_job(
    site: DaemonSite, call: Call, in_process: InProcess
) -> None:
    (site.folder / "jobs" / "parts" / "plan.yaml").write_text(
        "inputs: {word: one}\nsteps: [{id: it, tool: say, params: {text: '${inputs.word}'}}]\n"
    )
    async with in_process():
        sent = await anyio.to_thread.run_sync(
            call, "submit", "jobs/one.yaml", "--wait", "--set", "word=two"
        )

    assert sent.returncode == 0, sent.stderr
    assert site.calls() == {"say two": 1}


@pytest.mark.anyio
async def test_a_job_that_nobody_works_on_is_waited_for_no_longer_than_was_said(call: Call) -> None:
    arguments = ("submit", "jobs/one.yaml", "--wait", "--timeout", "0.5")
    waited = await anyio.to_thread.run_sync(call, *arguments)

    assert waited.returncode == 130
    assert f"job {waited.stdout.strip()} did not end within 0.5 s" in waited.stderr
    assert f"wavewright daemon --tail {waited.stdout.strip()}" in waited.stderr


@pytest.mark.anyio
async def test_a_job_sent_twice_under_one_id_is_done_once(
    site: DaemonSite, client: BrokerClient, call: Call, start: StartDaemon
) -> None:
    one = "C2D90E14-63B5-4F7A-8A1E-51F09B7D2E3A"
    for _ in range(2):
        sent = await anyio.to_thread.run_sync(call, "submit", "jobs/one.yaml", "--id", one)
        assert (sent.returncode, sent.stdout) == (0, f"{one.lower()}\n")
    await start().started()
    await client.until_told(one.lower(), "JOB_COMPLETED")
    marker = await anyio.to_thread.run_sync(call, "submit", "jobs/one.yaml")
    await client.until_told(marker.stdout.strip(), "JOB_COMPLETED")

    assert site.calls() == {"say it": 2}


@pytest.mark.anyio
async def test_whoever_looks_on_sees_every_status_and_takes_none_away(
    site: DaemonSite, client: BrokerClient, call: Call, in_process: InProcess
) -> None:
    tail = PipedCommand(
        "daemon", "--tail", "--packages", folder=site.folder, environment=site.whole_environment()
    )
    await anyio.to_thread.run_sync(tail.stderr.readline)
    async with in_process():
        sent = await anyio.to_thread.run_sync(call, "submit", "jobs/one.yaml")
        await client.until_told(sent.stdout.strip(), "JOB_COMPLETED")
    tail.send_signal(signal.SIGINT)
    shown, _ = await anyio.to_thread.run_sync(tail.communicate)

    assert tail.returncode == 0
    assert [line.split()[3] for line in shown.splitlines()] == [
        "ACCEPTED",
        "JOB_STARTED",
        "STEP_PROGRESS",
        "package",
        "PACKAGE_SENT",
        "JOB_COMPLETED",
    ]
    assert client.statuses(sent.stdout.strip())[0] == "ACCEPTED"


def test_everything_that_is_wrong_with_a_daemons_settings_is_told_at_once(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "wavewright.yaml").write_text(
        "model: openai\ndaemon: {goal_template: nowhere, validation: {iterations: 1}}\n"
    )

    answer = wavewright("daemon")

    assert answer.code == 2
    for said in (
        "the address of the broker is missing",
        "WAVEWRIGHT_AMQP_URL",
        "nowhere",
        "openai",
    ):
        assert said in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    "command", [["daemon"], ["submit", "job.yaml"], ["daemon", "--tail"]], ids=" ".join
)
def test_a_broker_that_refuses_guests_from_afar_is_never_asked(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nplan: {steps: [{id: a, tool: say}]}\n")
    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", "amqp://guest:only-for-me@queue.example/")

    answer = wavewright(*command)

    assert answer.code == 2
    assert "'guest' is refused" in answer.err
    assert "only-for-me" not in answer.err


def test_a_job_that_leads_out_of_the_project_is_not_sent(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", "amqp://localhost:1/")
    (tmp_path / "said.py").write_text('def say() -> str:\n    """Say it."""\n    return "it"\n')
    (tmp_path / "wavewright.yaml").write_text("tools: [said.py]\n")
    (tmp_path / "job.yaml").write_text(
        "name: x\ntools: {equities: {prices: /etc}}\nplan: {steps: [{id: a, tool: say}]}\n"
    )

    answer = wavewright("submit", "job.yaml")

    assert answer.code == 2
    assert "'/etc' leads out of the project's folder" in answer.err


def test_an_id_that_is_no_uuid_and_a_time_for_nothing_are_refused(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", "amqp://localhost:1/")
    (tmp_path / "job.yaml").write_text("name: x\nplan: {steps: [{id: a, tool: say}]}\n")

    answer = wavewright("submit", "job.yaml", "--id", "mine")
    in_vain = wavewright("submit", "job.yaml", "--timeout", "3")

    assert (answer.code, "'mine' is no UUID" in answer.err) == (2, True)
    assert (in_vain.code, "--timeout needs --wait" in in_vain.err) == (2, True)


def test_the_jobs_that_ship_can_be_submitted_where_their_files_are(tmp_path: Path) -> None:
    from wavewright.config.documents import read_document_file
    from wavewright.config.settings import load_settings
    from wavewright.engine.run.jobs.inline import portable_job, resolve_inline_job

    plans = Path(__file__).parents[4] / "plans"
    settings = load_settings(plans.parent, {})
    for file in sorted(plans.glob("*.job.yaml")):
        order = resolve_inline_job(portable_job(read_document_file(file), file, settings), settings)

        assert order.goal.job, file


@pytest.mark.parametrize("command", [["submit", "job.yaml"], ["daemon", "--tail"]], ids=" ".join)
def test_a_broker_that_is_away_is_not_waited_for_in_silence(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "said.py").write_text('def say() -> str:\n    """Say it."""\n    return "it"\n')
    (tmp_path / "wavewright.yaml").write_text("tools: [said.py]\n")
    (tmp_path / "job.yaml").write_text("name: x\nplan: {steps: [{id: a, tool: say}]}\n")
    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", "amqp://someone:only-for-me@127.0.0.1:1/")
    monkeypatch.setattr(broker, "CONNECT_SECONDS", 0.5)

    answer = wavewright(*command)

    waiting, error, *_ = answer.err.splitlines()
    assert answer.code == 3
    assert waiting.startswith("amqp://someone@127.0.0.1:1/: no broker answers")
    assert error.startswith("error: no broker answers")
    assert "only-for-me" not in answer.err


def doctor_of(wavewright: CommandLine) -> tuple[int, dict[str, dict[str, str]]]:
    answer = wavewright("doctor", "--format", "json")
    return answer.code, {finding["subject"]: finding for finding in json.loads(answer.out)}


@pytest.mark.anyio
async def test_the_doctor_says_whether_the_broker_lets_the_daemon_in(
    site: DaemonSite, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site.folder)
    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", site.url)
    well, found = await anyio.to_thread.run_sync(doctor_of, wavewright)
    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", site.url.replace("tester:", "tester:another-"))
    ill, refused = await anyio.to_thread.run_sync(doctor_of, wavewright)

    assert (well, found["broker"]["state"]) == (0, "ok")
    assert found["broker"]["detail"].endswith("lets the daemon connect and write")
    assert (ill, refused["broker"]["state"]) == (1, "fault")
    assert "refuses the user 'tester'" in refused["broker"]["detail"]
    assert "another-" not in str(refused)
    assert "authenticate_user" in refused["broker"]["hint"]


@pytest.mark.anyio
async def test_the_doctor_names_the_right_to_write_that_is_missing(
    site: DaemonSite,
    broker: Broker | RunningBroker,
    wavewright: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not isinstance(broker, Broker):
        pytest.skip("the broker of WAVEWRIGHT_TEST_AMQP_URL has no user without rights")
    monkeypatch.chdir(site.folder)
    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", broker.url_of(DUMB))
    declared = await anyio.to_thread.run_sync(doctor_of, wavewright)
    (site.folder / "wavewright.yaml").write_text("daemon: {exchange: not-there-yet}\n")
    undeclared = await anyio.to_thread.run_sync(doctor_of, wavewright)

    for (code, found), exchange in (
        (declared, site.topology.exchange),
        (undeclared, "not-there-yet"),
    ):
        assert (code, found["broker"]["state"]) == (1, "fault")
        assert (
            f"the user {DUMB!r} may not write to the exchange {exchange!r}"
            in found["broker"]["detail"]
        )
        assert "rabbitmqctl set_permissions" in found["broker"]["hint"]


def test_the_doctor_asks_no_broker_where_it_is_offline_or_there_is_none(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "broker" not in doctor_of(wavewright)[1]

    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", "amqp://someone:word@127.0.0.1:1/")
    answer = wavewright("doctor", "--offline")

    assert answer.code == 0
    assert "amqp://someone@127.0.0.1:1/ (not contacted)" in answer.out


def test_what_a_daemon_is_given_on_the_command_line_is_judged_like_its_settings(
    wavewright: CommandLine,
) -> None:
    answer = wavewright("daemon", "--health", "nowhere")

    assert answer.code == 2
    assert "--health 'nowhere': a place is HOST:PORT" in answer.err
    assert "the address of the broker is missing" in answer.err


@pytest.mark.parametrize(
    ("sender", "says"),
    [
        ([], "--as: ui"),
        (["--as", "judge"], "do not let 'judge' send jobs"),
        (
            ["--as", "ui"],
            "'ui' is the broker's user 'svc_ui', and WAVEWRIGHT_AMQP_URL names 'someone'",
        ),
    ],
)
def test_a_job_that_the_daemon_would_not_believe_is_not_sent(
    wavewright: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sender: list[str],
    says: str,
) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nplan: {steps: [{id: a, tool: say}]}\n")
    (tmp_path / "wavewright.yaml").write_text(
        "daemon: {identities: {ui: {user_id: svc_ui, may_send: [job_request]},"
        " judge: {may_send: [validation_result]}}}\n"
    )
    monkeypatch.setenv("WAVEWRIGHT_AMQP_URL", "amqp://someone:word@127.0.0.1:1/")

    answer = wavewright("submit", "job.yaml", *sender)

    assert (answer.code, says in answer.err) == (2, True), answer.err
