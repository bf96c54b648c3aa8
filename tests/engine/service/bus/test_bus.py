"""The bus opens, or says before anything else what keeps it from working, with the mend."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import aio_pika
import anyio
import pytest
from pydantic import JsonValue

from tests.engine.service.bus.bus_doubles import Notices, message, until
from tests.support.certificates import make_authority, make_certificate
from tests.support.rabbitmq import Broker, RunningBroker
from tests.support.session_server import free_port
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.service.bus.bus import BusSettings, open_bus
from wavewright.engine.service.bus.connection import read_address
from wavewright.engine.service.bus.faults import BrokerEvent, BusDown, BusError, BusMisconfigured
from wavewright.engine.service.bus.topology import Topology


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("amqp://guest:guest@rabbit.example/", "the user 'guest' is refused"),
        ("amqp://rabbit.example/", "no user is named"),
        ("amqps://guest@192.0.2.7/", "the user 'guest' is refused"),
        ("http://ada:lovelace@rabbit.example/", "not an AMQP URL"),
        ("rabbit.example", "not an AMQP URL"),
        ("amqp://", "not an AMQP URL"),
        ("amqp://ada:lovelace@rabbit.example:port/", "cannot be read"),
        ("amqp://ada:lovelace@rabbit.example:0/", "not an AMQP URL"),
        ("amqps://ada:lovelace@rabbit.example/?cafil=x", "the unknown option 'cafil'"),
        (
            "amqps://ada:lovelace@rabbit.example/?no_verify_ssl=1",
            "the unknown option 'no_verify_ssl'",
        ),
        ("amqps://ada:lovelace@rabbit.example/?cafile=not-there.pem", "which does not exist"),
        ("amqp://ada:lovelace@rabbit.example/?heartbeat=0", "heartbeat is '0'"),
        ("amqp://ada:lovelace@rabbit.example/?heartbeat=soon", "heartbeat is 'soon'"),
    ],
)
def test_an_address_that_cannot_work_is_refused_and_its_password_not_repeated(
    url: str, says: str
) -> None:
    with pytest.raises(BusMisconfigured, match=says) as caught:
        read_address(url)

    assert "lovelace" not in str(caught.value)


def test_the_guest_is_welcome_on_this_machine_only() -> None:
    assert read_address("amqp://guest:guest@localhost/").user == "guest"
    assert read_address("amqp://127.0.0.1/").user == "guest"
    assert read_address("amqp://guest:guest@[::1]:5673/").is_loopback


def test_a_ca_file_without_encryption_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")

    with pytest.raises(BusMisconfigured, match="not encrypted"):
        read_address(f"amqp://ada:lovelace@rabbit.example/?cafile={tmp_path / 'ca.pem'}")


def test_a_misspelt_option_is_met_with_the_right_one() -> None:
    with pytest.raises(BusMisconfigured) as caught:
        read_address("amqps://ada:x@rabbit.example/?ca_file=x")

    assert "did you mean 'cafile'?" in str(caught.value)


def test_an_address_is_shown_without_its_password() -> None:
    address = read_address("amqps://ada:lovelace@rabbit.example/lore")

    assert address.shown == "amqps://ada@rabbit.example:5671/lore"
    assert "lovelace" not in repr(address)
    assert "lovelace" not in repr(BusSettings("amqps://ada:lovelace@rabbit.example/lore"))


async def why_not(settings: BusSettings, notices: Notices | None = None) -> BusError:
    with pytest.raises(BusError) as caught:
        async with open_bus(settings, notices or Notices()):
            pass
    return caught.value


@pytest.mark.anyio
async def test_a_broker_that_is_not_there_is_waited_for_and_then_told_of() -> None:
    port = free_port()

    error = await why_not(
        BusSettings(f"amqp://ada:lovelace@127.0.0.1:{port}/", connect_seconds=0.3)
    )

    assert isinstance(error, BusDown)
    assert str(error).splitlines() == [
        f"no broker answers: [Errno 111] Connect call failed ('127.0.0.1', {port})",
        f"  --> amqp://ada@127.0.0.1:{port}/",
        "  = help: is the broker running, and is this its address? it is set by WAVEWRIGHT_AMQP_URL",
    ]


@pytest.mark.anyio
async def test_a_password_that_the_broker_refuses_is_told_at_once(
    broker: Broker | RunningBroker,
) -> None:
    error = await why_not(BusSettings(f"amqp://ada:lovelace@127.0.0.1:{broker.port}/"))

    assert isinstance(error, BusMisconfigured)
    assert "refuses the user 'ada' or its password" in str(error)
    assert "lovelace" not in str(error)


@pytest.mark.anyio
async def test_a_virtual_host_that_is_not_there_is_told_at_once(
    broker: Broker | RunningBroker,
) -> None:
    error = await why_not(BusSettings(f"{broker.url}nowhere"))

    assert isinstance(error, BusMisconfigured)
    assert "virtual host" in error.message
    assert "rabbitmqctl add_vhost" in str(error.hint)


@pytest.mark.anyio
async def test_an_encrypted_line_to_a_port_without_encryption_is_told_at_once(
    broker: Broker | RunningBroker,
) -> None:
    error = await why_not(BusSettings(f"amqps://ada:lovelace@127.0.0.1:{broker.port}/"))

    assert isinstance(error, BusMisconfigured)
    assert "5671" in str(error.hint)


@pytest.mark.anyio
async def test_a_queue_that_is_there_in_another_form_is_named_with_its_difference(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    async with open_bus(BusSettings(broker.url, topology)):
        pass
    other = Topology(
        exchange=topology.exchange,
        intake=topology.intake,
        outlets=topology.outlets,
        dead_exchange=topology.dead_exchange,
        dead_queue=topology.dead_queue,
        delivery_limit=3,
    )

    error = await why_not(BusSettings(broker.url, other))

    assert isinstance(error, BusMisconfigured)
    assert f"queue '{topology.intake}' exists with other arguments" in error.message
    assert "x-delivery-limit" in error.message
    assert "received '3' but current is '5'" in error.message
    assert "delete it" in str(error.hint)


@pytest.mark.anyio
async def test_what_a_queue_holds_survives_another_opening(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    async with open_bus(BusSettings(broker.url, topology)) as bus:
        await bus.publish(message(topology, 1))

    async with open_bus(BusSettings(broker.url, topology)) as bus:
        assert (await bus.intake.take()).body == b"1"


@pytest.mark.anyio
async def test_every_queue_keeps_its_messages_over_a_restart_and_gives_up_what_is_never_settled(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    async with open_bus(BusSettings(broker.url, topology)):
        pass
    expected: Sequence[tuple[str, dict[str, str | int]]] = [
        (queue.name, dict(queue.arguments)) for queue in topology.queues()
    ]

    assert {arguments["x-queue-type"] for _, arguments in expected} == {"quorum"}
    assert all("x-delivery-limit" in arguments for _, arguments in expected)
    connection = await aio_pika.connect(broker.url)
    async with connection, connection.channel() as channel:
        for name, arguments in expected:
            # Declaring it again in the same form is the broker's own word that it has this form.
            await channel.declare_queue(name, durable=True, arguments={**arguments})


@pytest.mark.anyio
async def test_what_fails_inside_the_bus_comes_out_as_it_is(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    with pytest.raises(KeyError, match="ours"):
        async with open_bus(BusSettings(broker.url, topology)):
            raise KeyError("ours")


@pytest.mark.anyio
async def test_connections_are_told_of_without_a_password(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    notices = Notices()
    async with open_bus(BusSettings(broker.url, topology), notices) as bus:
        assert bus.is_up

    assert notices.names() == ["broker_connected", "broker_connected"]
    assert "tester-of-loopback" not in repr(notices.told)


@pytest.mark.anyio
async def test_a_broker_that_ends_its_first_connections_is_connected_to_again(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    connected = list[BrokerEvent]()
    with TcpProxy.before(broker.url) as proxy:

        def end_the_first(name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
            del fields
            if name == "broker_connected":
                connected.append(name)
                if len(connected) <= 2:
                    proxy.reset()

        settings = BusSettings(proxy.url(broker.url), topology, connect_seconds=20)
        async with open_bus(settings, end_the_first) as bus:
            await bus.publish(message(topology, 1))

    assert len(connected) > 2


def with_encryption(broker: Broker | RunningBroker) -> Broker:
    if not isinstance(broker, Broker):
        pytest.skip("the broker of WAVEWRIGHT_TEST_AMQP_URL may have no encrypted line")
    return broker


@pytest.mark.anyio
async def test_messages_go_over_an_encrypted_line(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    own = with_encryption(broker)
    url = f"{own.encrypted_url}?cafile={own.authority}"

    async with open_bus(BusSettings(url, topology)) as bus:
        await bus.publish(message(topology, 1))
        assert (await bus.intake.take()).body == b"1"


@pytest.mark.anyio
async def test_a_broker_that_calls_itself_otherwise_than_its_address_is_refused(
    broker: Broker | RunningBroker,
) -> None:
    own = with_encryption(broker)
    # The same address in other words, which the certificate does not name.
    url = own.encrypted_url.replace("127.0.0.1", "127.1")
    error = await why_not(BusSettings(f"{url}?cafile={own.authority}"))

    assert isinstance(error, BusMisconfigured)
    assert "certificate is not valid for" in error.message
    assert error.hint == "use the host name of the certificate in the address"


@pytest.mark.anyio
async def test_a_broker_that_nobody_vouches_for_is_refused(broker: Broker | RunningBroker) -> None:
    error = await why_not(BusSettings(with_encryption(broker).encrypted_url))

    assert isinstance(error, BusMisconfigured)
    assert "the broker's certificate is not trusted" in error.message
    assert "cafile" in str(error.hint)


@pytest.mark.anyio
@pytest.mark.skipif(not shutil.which("openssl"), reason="there is no openssl to make certificates")
async def test_a_certificate_that_is_not_made_by_the_rules_is_refused(tmp_path: Path) -> None:
    make_authority(tmp_path, "CA:FALSE")
    make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    async with await asyncio.start_server(
        lambda _reader, _writer: None, "127.0.0.1", 0, ssl=context
    ) as server:
        port: int = server.sockets[0].getsockname()[1]
        url = f"amqps://ada:lovelace@127.0.0.1:{port}/?cafile={tmp_path / 'ca.pem'}"
        error = await why_not(BusSettings(url))

    assert isinstance(error, BusMisconfigured)
    assert "the broker's certificate is not trusted: invalid CA certificate" in error.message
    assert "issue certificates that follow RFC 5280" in str(error.hint)


@pytest.mark.anyio
async def test_a_broker_that_stays_away_is_told_once_and_not_at_every_attempt(
    broker: Broker | RunningBroker, topology: Topology, notices: Notices
) -> None:
    with TcpProxy.before(broker.url) as proxy:
        async with open_bus(BusSettings(proxy.url(broker.url), topology), notices):
            proxy.refuse()
            proxy.reset()
            await until(lambda: len(notices.of("broker_away")) >= 2)
            # Meanwhile each line tries again four times.
            await anyio.sleep(1)
            assert len({str(told["connection"]) for told in notices.of("broker_away")}) == 2
            assert len(notices.of("broker_away")) == 2
            proxy.pass_on()
            await until(lambda: len(notices.of("broker_connected")) == 4)
