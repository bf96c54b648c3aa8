"""What goes out of a result: no figure above its cap, and nothing that failed or does not fit its
message.
"""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite
from wavewright.engine.service.messages.models import JobRequest
from wavewright.packs.lore.messages import ZoneRequest
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

TOOLS = '''

def study(place: str) -> dict:
    """Find out about a place."""
    if place == "Nowhere":
        raise LookupError("no map shows Nowhere")
    found = {"zone_data": {"name": place}, "npcs": [{"name": "Gryan"}], "confidence": {"npcs": 0.9}}
    if place == "Dalaran":
        found["npcs"] = [{"name": "Khadgar \\ud83d"}]
    return {**found, "weather": "dry"} if place == "Durotar" else found
'''
TEMPLATE = """\
name: study
goal: Study a place
available_tools: [{name: study}]
inputs_schema:
  type: object
  properties: {place: {type: array, items: {type: string}}, target: {type: string}, depth: {type: integer}}
targets: {variables: place}
plan:
  steps: [{id: seen, tool: study, params: {place: "PLACE"}}]
  caps: [{field: npcs, max: 0.2, because: one source}]
  result: ${steps.seen}
"""


@pytest.fixture
def studied(site: DaemonSite) -> DaemonSite:
    """A daemon whose goal is to find out about one zone."""
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOLS)
    for name, given in (("zone", "${inputs.place[0]}"), ("place", "${inputs.target}")):
        (site.folder / f"{name}.yaml").write_text(TEMPLATE.replace("PLACE", given))
    site.write(functions="study: {}", daemon="goal_template: zone.yaml\n  pack: lore")
    return site


def goal(zone: str) -> ZoneRequest:
    return ZoneRequest(
        job_id=str(uuid4()), goal="Look at it", depth=0, budget_tokens=500, zone_name=zone
    )


def packages(client: BrokerClient) -> list[JsonObject]:
    """Return what packages that have come say, whatever their type."""
    return [json.loads(message.body)["payload"] for message in client.packages]


async def test_a_message_states_no_more_than_the_cap_on_its_field(
    studied: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    zone = goal("Westfall")
    job: JsonObject = {"name": "one", "goal_template": "zone.yaml", "variables": ["Westfall"]}
    whole = JobRequest(job_id=str(uuid4()), job=job)
    async with in_process():
        for request in (zone, whole):
            await client.send(request)
            await client.until_told(request.job_id, "JOB_COMPLETED")
        await client.read()

    assert studied.folder.is_dir()
    assert [one["zone_name"] for one in packages(client)] == ["Westfall", "Westfall"]
    assert [one["confidence"] for one in packages(client)] == [{"npcs": 0.2}] * 2


@pytest.mark.parametrize(
    ("zone", "why"),
    [
        pytest.param("Nowhere", "step 'seen': failed (tool)", id="its tool raised"),
        pytest.param("Dalaran", "step 'seen': failed (", id="its output holds half a character"),
        pytest.param("Durotar", "weather: Extra inputs are not permitted", id="a field too many"),
    ],
)
async def test_a_zone_of_which_nothing_valid_came_has_failed_and_sends_no_package(
    studied: DaemonSite, client: BrokerClient, in_process: InProcess, zone: str, why: str
) -> None:
    request = goal(zone)
    async with in_process():
        await client.send(request)
        done = await client.until_told(request.job_id, "JOB_FAILED")
        await client.read()

    failures = done["zones_failed"]
    assert studied.folder.is_dir()
    assert packages(client) == []
    assert isinstance(failures, list)
    assert [why in json.dumps(failure) for failure in failures] == [True]
    assert "ZONE_FAILED" in client.statuses(request.job_id)
    assert "PACKAGE_SENT" not in client.statuses(request.job_id)


async def test_a_target_whose_tool_raised_has_failed_and_the_others_go_out(
    studied: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    document: JsonObject = {"name": "two", "goal_template": "place.yaml"}
    document["targets"] = {"first": ["Nowhere", "Westfall"]}
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=document))
        done = await client.until_told(wanted, "JOB_PARTIALLY_COMPLETED")
        await client.read()

    assert studied.folder.is_dir()
    assert [one["zone_name"] for one in packages(client)] == ["Westfall"]
    assert done["zones_failed"] == [{"zone_name": "Nowhere", "error": "step 'seen': failed (tool)"}]


async def test_of_several_zones_only_those_with_a_valid_result_go_out(
    studied: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    known = 'targets: {variables: place, expand: \'${inputs.target == "Westfall" ? ["Nowhere", "Durotar"] : []}\'}'
    several = TEMPLATE.replace("PLACE", "${inputs.target}").replace(
        "targets: {variables: place}", known
    )
    (studied.folder / "zone.yaml").write_text(several)
    request = goal("Westfall").model_copy(update={"depth": 1})
    async with in_process():
        await client.send(request)
        done = await client.until_told(request.job_id, "JOB_PARTIALLY_COMPLETED")
        await client.read()

    failures = done["zones_failed"]
    assert [one["zone_name"] for one in packages(client)] == ["Westfall"]
    assert isinstance(failures, list)
    assert [one["zone_name"] for one in failures if isinstance(one, dict)] == ["Nowhere", "Durotar"]
    assert "step 'seen': failed (tool)" in json.dumps(failures[0])
    assert "weather: Extra inputs are not permitted" in json.dumps(failures[1])
    sent = [one for one in client.seen if one["status"] == "PACKAGE_SENT"]
    assert sent == []
