"""A pack with messages of its own, served by the real daemon: its request comes in, its package
goes out.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite
from wavewright.engine.main import main
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

PACK = """
from typing import ClassVar

from wavewright.tools.message_contract import (
    MessageContract, PackageForm, PackagePayload, RequestedGoal, RequestForm, RequestPayload,
)
from wavewright.tools.packs import Pack


class BrewRequest(RequestPayload):
    message_type: ClassVar = "brew_request"

    tea: str


class Cup(PackagePayload):
    message_type: ClassVar = "cup"

    tea: str
    grams: int


def goal(request):
    return RequestedGoal(goal="Brew tea", target=request["tea"], depth=0, budget_tokens=100)


def cup(package, target, request):
    result = package["result"]
    return {"tea": target, **result} if isinstance(result, dict) else None


def pack(settings, root):
    return Pack(
        name="teahouse",
        messages=MessageContract(
            requests=(RequestForm(BrewRequest, goal),),
            packages=(PackageForm(Cup, cup),),
            statuses={"TARGET_STARTED": "KETTLE_ON", "TARGET_COMPLETED": "POURED", "TARGET_FAILED": "SPILT"},
            fields={"target": "tea", "targets_completed": "cups"},
            log_events={"run_started": "kettle_filled"},
            daemon={"agent": "samovar", "goal_template": "brew"},
        ),
    )
"""
TEMPLATE = """\
name: brew
goal: Brew tea
available_tools: [{name: weigh}]
inputs_schema:
  type: object
  properties: {variables: {type: array, items: {type: string}}, depth: {type: integer}}
plan:
  steps: [{id: weighed, tool: weigh, params: {tea: "${inputs.variables[0]}"}}]
  result: ${steps.weighed}
"""
TOOLS = '''

def weigh(tea: str) -> dict:
    """Weigh the leaves for a cup."""
    return {"grams": len(tea)} if tea != "Gravel" else {"grams": "many"}
'''


@pytest.fixture
def teahouse(site: DaemonSite, monkeypatch: pytest.MonkeyPatch) -> DaemonSite:
    """A project whose daemon speaks the messages of the installed pack `teahouse`."""
    installed = site.folder / "site"
    (installed / "teahouse-1.0.dist-info").mkdir(parents=True)
    (installed / "teahouse-1.0.dist-info" / "METADATA").write_text("Name: teahouse\nVersion: 1.0\n")
    (installed / "teahouse-1.0.dist-info" / "entry_points.txt").write_text(
        "[wavewright.packs]\nteahouse = teahouse:pack\n"
    )
    (installed / "teahouse.py").write_text(PACK)
    (installed / "goals").mkdir()
    (installed / "goals" / "brew.yaml").write_text(TEMPLATE)
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOLS)
    site.write(functions="weigh: {}", daemon="pack: teahouse")
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    site.environment["PYTHONPATH"] = str(installed)
    monkeypatch.delitem(sys.modules, "teahouse", raising=False)
    return site


def request(kind: str, target_agent: str, payload: JsonObject) -> bytes:
    return json.dumps(
        {
            "message_id": str(uuid4()),
            "source_agent": "guest",
            "target_agent": target_agent,
            "message_type": kind,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "correlation_id": str(uuid4()),
            "payload": payload,
        }
    ).encode()


async def test_a_request_of_the_packs_type_is_answered_by_its_statuses_and_its_package(
    teahouse: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    daemon = start()
    await daemon.started()
    await client.send_raw(request("brew_request", "samovar", {"job_id": wanted, "tea": "Assam"}))
    done = await client.until_told(wanted, "JOB_COMPLETED")
    await client.read()
    daemon.signal(signal.SIGTERM)
    assert await daemon.ended() == 0

    [cup] = [json.loads(message.body) for message in client.packages]
    assert teahouse.folder.is_dir()
    assert (cup["message_type"], cup["source_agent"]) == ("cup", "samovar")
    assert (cup["payload"]["tea"], cup["payload"]["grams"]) == ("Assam", 5)
    assert done["tea"] == "Assam"
    own = [one for one in client.seen if one["status"] in {"KETTLE_ON", "POURED"}]
    assert [(one["status"], one["tea"], one["cups"]) for one in own] == [
        ("KETTLE_ON", "Assam", 0),
        ("POURED", "Assam", 1),
    ]
    assert daemon.has_said("kettle_filled")
    assert not daemon.has_said("run_started")


async def test_a_result_that_does_not_fit_the_packs_package_fails_the_job(
    teahouse: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    await start().started()
    await client.send_raw(request("brew_request", "samovar", {"job_id": wanted, "tea": "Gravel"}))
    done = await client.until_told(wanted, "JOB_FAILED")

    assert teahouse.folder.is_dir()
    assert "does not fit the message `cup`: grams" in str(done["reason"])
    assert "SPILT" in client.statuses(wanted)


async def test_a_job_document_is_answered_in_the_packs_form_or_refused(
    teahouse: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted, wordy, several = str(uuid4()), str(uuid4()), str(uuid4())
    job: JsonObject = {"name": "one", "goal_template": "brew", "variables": ["Assam"]}
    plan: JsonObject = {
        "steps": [{"id": "weighed", "tool": "weigh", "params": {"tea": "Mate"}}],
        "result": "Mate",
    }
    words: JsonObject = {
        "name": "two",
        "goal_template": "brew",
        "variables": ["Mate"],
        "plan": plan,
    }
    both: JsonObject = {**job, "variables": ["Assam", "Mate"]}
    await start().started()
    for own, document in ((wanted, job), (wordy, words), (several, both)):
        await client.send_raw(request("job_request", "samovar", {"job_id": own, "job": document}))
    await client.until_told(wanted, "JOB_COMPLETED")
    failed = await client.until_told(wordy, "JOB_FAILED")
    [letter] = await client.dead_letters(1)
    await client.read()

    [cup] = [json.loads(message.body) for message in client.packages]
    assert teahouse.folder.is_dir()
    assert cup["message_type"] == "cup"
    assert (cup["payload"]["tea"], cup["payload"]["grams"]) == ("Assam", 5)
    assert {"KETTLE_ON", "POURED"} <= {*client.statuses(wanted)}
    assert "its result is no cup, which is what this daemon sends" in str(failed["reason"])
    assert "the job names none" in str(letter.headers["x-wavewright-reason"])
    assert json.loads(letter.body)["payload"]["job_id"] == several


async def test_the_form_is_refused_by_a_daemon_without_the_pack(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    await start().started()
    await client.send_raw(
        request("brew_request", "wavewright", {"job_id": str(uuid4()), "tea": "Assam"})
    )
    [letter] = await client.dead_letters(1)

    assert str(letter.headers["x-wavewright-reason"]).startswith("unknown_type: ")


async def test_the_schema_of_messages_holds_those_of_the_pack(
    teahouse: DaemonSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(teahouse.folder)

    code = main(["schema", "message"])

    schema = json.loads(capsys.readouterr().out)
    assert code == 0
    assert {"brew_request", "cup"} <= set(schema["properties"]["message_type"]["enum"])
    assert "KETTLE_ON" in schema["$defs"]["JobStatusUpdate"]["properties"]["status"]["enum"]


@pytest.mark.parametrize(
    ("daemon", "said"),
    [
        pytest.param("pack: text", "pack 'text' defines no messages", id="a pack without messages"),
        pytest.param("pack: nowhere", "no pack is called 'nowhere'", id="no such pack"),
        pytest.param(
            "identities: {ui: {may_send: [jobs]}}",
            "'jobs' is not a message type",
            id="no such message type",
        ),
    ],
)
async def test_a_daemon_does_not_start_by_a_contract_that_is_not_there(
    site: DaemonSite, start: StartDaemon, daemon: str, said: str
) -> None:
    site.write(daemon=daemon)
    process = start()

    assert await process.ended() == 2
    assert said in process.text
