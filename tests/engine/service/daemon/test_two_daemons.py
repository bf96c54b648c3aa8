"""Two daemons of one pack at one broker: a package of the first starts a job of the second, which
gives its verdict.
"""

from __future__ import annotations

import json
import sys
import time
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonProcess, DaemonSite
from wavewright.engine.service.bus.bus import BusSettings, open_bus
from wavewright.engine.service.bus.topology import Topology
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

PACK = """
from typing import ClassVar

from wavewright.tools.message_contract import (
    MessageContract, PackageForm, PackagePayload, Payload, RequestedGoal, RequestForm, RequestPayload,
)
from wavewright.tools.packs import Pack


class SurveyRequest(RequestPayload):
    message_type: ClassVar = "survey_request"

    meadow: str


class Survey(PackagePayload):
    message_type: ClassVar = "survey"

    meadow: str
    text: str


class Verdict(Payload):
    message_type: ClassVar = "validation_result"

    meadow: str
    accepted: bool
    iteration: int
    feedback: list[dict[str, str]]


def survey_goal(request):
    return RequestedGoal(goal="Survey a meadow", target=request["meadow"])


def survey(package, target, request):
    return {"meadow": target, "text": package["result"]}


def verdict_goal(survey):
    inputs = {"text": survey["text"], "iteration": survey["iteration"]}
    return RequestedGoal(goal="Judge a survey", target=survey["meadow"], inputs=inputs, template="judge")


def verdict(package, target, request):
    return {"meadow": target, "iteration": request["iteration"], **package["result"]}


def pack(settings, root):
    judge = MessageContract(
        requests=(RequestForm(Survey, verdict_goal),),
        packages=(PackageForm(Verdict, verdict),),
        daemon={"agent": "judge", "validation": {"target_agent": "surveyor"}},
    )
    return Pack(
        name="herbarium",
        messages=MessageContract(
            requests=(RequestForm(SurveyRequest, survey_goal),),
            packages=(PackageForm(Survey, survey),),
            fields={"target": "meadow"},
            daemon={
                "agent": "surveyor",
                "goal_template": "survey",
                "validation": {"target_agent": "judge", "iterations": 3},
            },
            roles={"judge": judge},
        ),
    )
"""
SURVEY = """\
name: survey
goal: Survey a meadow
available_tools: [{name: look}]
plan:
  steps: [{id: seen, tool: look, params: {meadow: "${inputs.variables[0]}"}}]
  result: ${steps.seen}
"""
JUDGE = """\
name: judge
goal: Judge a survey
available_tools: [{name: judge}]
inputs_schema:
  type: object
  properties: {variables: {}, text: {type: string}, iteration: {type: integer}}
plan:
  steps:
    - {id: judged, tool: judge, params: {text: "${inputs.text}", iteration: "${inputs.iteration}"}}
  result: ${steps.judged}
"""
TOOLS = '''

def look(meadow: str, feedback: list[str] = []) -> str:
    """Look at a meadow."""
    _note(f"look {meadow} {feedback}")
    return " ".join([meadow, *feedback])


def judge(text: str, iteration: int) -> dict:
    """Accept a survey that tells of two things that were asked for."""
    _note(f"judge {text}")
    wanted = "grasses" if "grasses" not in text else "herbs"
    if "herbs" in text:
        return {"accepted": True, "feedback": []}
    return {"accepted": False, "feedback": [{"field": "text", "reason": f"lacks {wanted}"}]}
'''


@pytest.fixture
async def judge(site: DaemonSite, monkeypatch: pytest.MonkeyPatch) -> DaemonSite:
    """The judge's project beside that of the surveyor, whose packages it takes in."""
    installed = site.folder / "site"
    (installed / "herbarium-1.0.dist-info").mkdir(parents=True)
    (installed / "herbarium-1.0.dist-info" / "METADATA").write_text(
        "Name: herbarium\nVersion: 1.0\n"
    )
    (installed / "herbarium-1.0.dist-info" / "entry_points.txt").write_text(
        "[wavewright.packs]\nherbarium = herbarium:pack\n"
    )
    (installed / "herbarium.py").write_text(PACK)
    (installed / "goals").mkdir()
    (installed / "goals" / "survey.yaml").write_text(SURVEY)
    (installed / "goals" / "judge.yaml").write_text(JUDGE)
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    monkeypatch.delitem(sys.modules, "herbarium", raising=False)
    (site.folder / "judge").mkdir()
    other = DaemonSite(site.folder / "judge", site.url)
    ours = site.topology
    other.topology = Topology(
        exchange=ours.exchange,
        intake=site.packages,
        outlets=(ours.intake, other.decisions, other.status),
        dead_exchange=ours.dead_exchange,
        dead_queue=ours.dead_queue,
    )
    other.packages = ours.intake
    for one, role in ((site, ""), (other, ", role: judge")):
        with (one.folder / "yard.py").open("a") as file:
            file.write(TOOLS)
        one.write(
            functions="look: {}, judge: {}", daemon=f"pack: herbarium{role}".replace(", ", "\n  ")
        )
        one.environment["PYTHONPATH"] = str(installed)
    async with open_bus(BusSettings(other.url, other.topology)):
        pass
    return other


def request(meadow: str, job: str) -> bytes:
    envelope: JsonObject = {
        "message_id": str(uuid4()),
        "source_agent": "guest",
        "target_agent": "surveyor",
        "message_type": "survey_request",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "correlation_id": str(uuid4()),
        "payload": {"job_id": job, "meadow": meadow},
    }
    return json.dumps(envelope).encode()


async def test_the_second_daemon_rejects_what_the_first_sends_twice_and_accepts(
    site: DaemonSite, judge: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    surveyor, other = start(), DaemonProcess(judge)
    try:
        await surveyor.started()
        await other.started()
        await client.send_raw(request("Westfall", wanted))
        # The client reads the packages that the second daemon takes in, so it reads nothing before
        # the last one.
        await judge.until(lambda: judge.calls().total() == 3)
        done = await client.until_told(wanted, "JOB_COMPLETED")
    finally:
        other.close()

    assert done["iteration"] == 3
    assert list(judge.calls()) == [
        "judge Westfall",
        "judge Westfall text: lacks grasses",
        "judge Westfall text: lacks herbs",
    ]
    assert surveyor.has_said("validation_rejected")
    verdicts = [line for line in surveyor.lines if line["event"] == "validation_received"]
    assert [(line["accepted"], line["iteration"]) for line in verdicts] == [
        (False, 1),
        (False, 2),
        (True, 3),
    ]
    assert len([line for line in other.lines if line["event"] == "job_received"]) == 3


async def test_a_role_that_the_pack_does_not_have_is_refused_with_those_that_it_has(
    judge: DaemonSite, start: StartDaemon, site: DaemonSite
) -> None:
    site.write(daemon="pack: herbarium\n  role: gardener")
    process = start()

    assert await process.ended() == 2
    assert "pack 'herbarium' has no daemon with the role 'gardener'" in process.text
    assert "roles: judge" in process.text
    assert judge.folder.is_dir()
