"""What each role may do at a broker that has loaded the definitions."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import aio_pika
import aio_pika.exceptions
import pytest
from aiormq.exceptions import ChannelAccessRefused

from tests.engine.conftest import CommandLine
from tests.support.rabbitmq import Broker
from wavewright.config.sections import DaemonSection
from wavewright.engine.service.bus.bus import BusSettings, open_bus
from wavewright.engine.service.bus.faults import BusMisconfigured
from wavewright.engine.service.bus.topology import (
    broker_users,
    hash_password,
    password_variable,
    topology_of,
)
from wavewright.planner.types import JsonObject

ROLES = """\
daemon:
  amqp_url: amqp://svc_daemon@127.0.0.1/
  identities:
    ui_backend: {user_id: svc_ui, may_send: [job_request, user_decision_response]}
    validator: {user_id: svc_validator, may_send: [validation_result]}
"""
PASSWORDS = {user: f"{user}-password" for user in ("svc_daemon", "svc_ui", "svc_validator")}


def test_without_a_password_for_every_user_all_that_are_missing_are_named(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wavewright.yaml").write_text(ROLES)
    monkeypatch.setenv(password_variable("svc_ui"), "known")

    answer = wavewright("daemon", "--topology")

    assert answer.code == 2
    assert (
        "WAVEWRIGHT_BROKER_PASSWORD_SVC_DAEMON, WAVEWRIGHT_BROKER_PASSWORD_SVC_VALIDATOR"
        in answer.err
    )
    assert "openssl rand" in answer.err


def test_no_password_is_in_what_is_written(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = definitions_in(tmp_path, wavewright, monkeypatch)

    assert all(password not in text for password in PASSWORDS.values())


def test_a_file_that_cannot_be_written_is_told(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions_in(tmp_path, wavewright, monkeypatch)

    answer = wavewright("daemon", "--topology", "--out", "nowhere/definitions.json")

    assert answer.code == 3
    assert "nowhere/definitions.json" in answer.err


def test_a_password_is_hashed_as_the_broker_does_it() -> None:
    # The example of RabbitMQ's own documentation of passwords.
    assert (
        hash_password("test12", bytes.fromhex("908DC60A"))
        == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    )


def test_users_of_the_same_name_are_one_and_senders_without_a_user_are_none() -> None:
    section = DaemonSection.model_validate(
        {
            "identities": {
                "a": {"user_id": "svc", "may_send": ["validation_result"]},
                "b": {"user_id": "svc", "may_send": ["user_decision_response"]},
                "c": {"may_send": ["job_request"]},
            }
        }
    )

    users = broker_users(section, "daemon")
    assert [user.name for user in users] == ["daemon", "svc"]
    assert "job[.]status" in users[1].read.replace("\\.", "[.]"), "it has the rights of both"


def definitions_in(
    folder: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch, vhost: str = "/"
) -> str:
    (folder / "wavewright.yaml").write_text(ROLES)
    for user, password in PASSWORDS.items():
        monkeypatch.setenv(password_variable(user), password)
    answer = wavewright("daemon", "--topology", "--vhost", vhost)
    assert answer.code == 0, answer.err
    return answer.out


@pytest.fixture
def roles(
    broker: Broker, tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The address of a virtual host with the definitions, by user."""
    if not broker.is_own:
        pytest.skip("users are made at a broker of the tests' own only")
    host = broker.vhost().rpartition("/")[2]
    file = tmp_path / "definitions.json"
    file.write_text(definitions_in(tmp_path, wavewright, monkeypatch, host))
    assert json.loads(file.read_text())["vhosts"] == [{"name": host}]
    broker.ctl("import_definitions", str(file))
    return {
        user: f"amqp://{user}:{password}@127.0.0.1:{broker.port}/{quote(host, safe='')}"
        for user, password in PASSWORDS.items()
    }


@pytest.mark.anyio
async def test_each_role_may_do_what_it_is_for_and_nothing_else(roles: dict[str, str]) -> None:
    section = DaemonSection()
    topology = topology_of(section)

    # The daemon finds everything in the form that it declares, and may look on.
    async with (
        open_bus(BusSettings(roles["svc_daemon"], topology)) as bus,
        bus.subscribe(section.queues.status) as watcher,
    ):
        await publish(roles["svc_daemon"], section.exchange, section.queues.status)
        assert (await anext(watcher)).routing_key == section.queues.status
    await publish(roles["svc_ui"], section.exchange, section.queues.intake)
    await publish(roles["svc_validator"], section.exchange, section.queues.intake)
    await publish(roles["svc_daemon"], section.exchange, section.queues.decisions)
    assert await read(roles["svc_ui"], section.queues.decisions) == {"n": 1}
    # Who sends jobs looks on at what becomes of them, and at nothing else.
    async with (
        open_bus(BusSettings(roles["svc_ui"], topology)) as bus,
        bus.subscribe(section.queues.status, section.queues.decisions) as watcher,
    ):
        await publish(roles["svc_daemon"], section.exchange, section.queues.status)
        assert (await anext(watcher)).routing_key == section.queues.status
    for user, key in (
        ("svc_ui", section.queues.packages),
        ("svc_validator", section.queues.status),
    ):
        async with open_bus(BusSettings(roles[user], topology)) as bus:
            with pytest.raises(BusMisconfigured, match="cannot subscribe"):
                async with bus.subscribe(key):
                    pass
    for user in ("svc_ui", "svc_validator"):
        with pytest.raises(aio_pika.exceptions.AMQPError):
            await publish(roles[user], section.exchange, section.queues.decisions)
        with pytest.raises(ChannelAccessRefused):
            await read(roles[user], section.queues.intake)
        with pytest.raises(ChannelAccessRefused):
            await declare(roles[user])


async def publish(url: str, exchange: str, key: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(on_return_raises=True)
        target = await channel.get_exchange(exchange, ensure=False)
        await target.publish(aio_pika.Message(b'{"n": 1}'), key, timeout=5)


async def read(url: str, queue: str) -> JsonObject:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        source = await channel.get_queue(queue, ensure=False)
        message = await source.get(no_ack=True, timeout=5)
        assert message is not None
        found: JsonObject = json.loads(message.body)
        return found


async def declare(url: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("mine", durable=True)
