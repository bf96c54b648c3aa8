"""A private RabbitMQ for the tests: started from the system's packages, on free ports, in a
temporary folder.

`Broker` is one server; `start`, `stop` and `kill` leave its port and its data as they are. A test
never meets the queues of another: `topology` gives it names of its own, `vhost` a virtual host.
`WAVEWRIGHT_TEST_AMQP_URL` names a server that runs already, which is then neither stopped nor
killed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from aio_pika.abc import AbstractIncomingMessage

from tests.support.certificates import make_authority, make_certificate
from tests.support.session_server import (
    end_group,
    free_port,
    locked,
    reap,
    session_folder,
    unavailable,
    watch_over,
)
from wavewright.engine.service.bus.topology import Topology

BOOT_SECONDS = 90
STOP_SECONDS = 30
LARGEST_MESSAGE = 16 * 2**20
"""Bytes; newer brokers take no more unless told otherwise."""
USER, PASSWORD = "tester", "tester-of-loopback"
POSTMAN = "postman"
"""A user who may send messages in the name of others."""
DRIVEN_OUT = "driven-out"
"""A user whose connections a test may have closed."""
DEAF, DUMB = "deaf", "dumb"
"""A user who may send and not read, and one who may read and not send; neither may make anything.
"""


@dataclass(frozen=True)
class Ports:
    amqp: int
    distribution: int
    names: int
    """Of the name server (epmd) that every Erlang node registers with."""
    encrypted: int
    """For TLS; 0 where no `openssl` is here to make certificates."""


class Broker:
    """One RabbitMQ server with a folder of its own."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        self._folder = folder
        self._ports = ports
        self._program = find_server()

    @classmethod
    def create(cls, folder: Path) -> Broker:
        """Make a server's folder; nothing runs yet."""
        (folder / "mnesia").mkdir(parents=True)
        (folder / "log").mkdir()
        ports = Ports(
            free_port(), free_port(), free_port(), free_port() if shutil.which("openssl") else 0
        )
        cookie = folder / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)
        (folder / "enabled_plugins").write_text("[].")
        (folder / "users.json").write_text(json.dumps(_definitions()))
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{ports.amqp}\n"
            "vm_memory_high_watermark.absolute = 1GB\n"
            "disk_free_limit.absolute = 50MB\n"
            f"max_message_size = {LARGEST_MESSAGE}\n"
            f"load_definitions = {folder / 'users.json'}\n"
            + (_encryption(folder, ports) if ports.encrypted else "")
        )
        (folder / "ports.json").write_text(json.dumps(asdict(ports)))
        return cls(folder, ports)

    @classmethod
    def found(cls, folder: Path) -> Broker:
        """Return the server of a folder that another process made."""
        return cls(folder, Ports(**json.loads((folder / "ports.json").read_text())))

    @property
    def url(self) -> str:
        return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}/"

    @property
    def postman(self) -> str:
        """The address for somebody who sends messages in the name of other users."""
        return self.url_of(POSTMAN)

    def url_of(self, user: str) -> str:
        """Return the address for another of the users that every server has."""
        return f"amqp://{user}:{PASSWORD}@127.0.0.1:{self.port}/"

    @property
    def port(self) -> int:
        return self._ports.amqp

    @property
    def encrypted_url(self) -> str:
        """The address of the encrypted line, without the authority that vouches for it."""
        if not self._ports.encrypted:
            unavailable("there is no openssl to make certificates")
        return f"amqps://{USER}:{PASSWORD}@127.0.0.1:{self._ports.encrypted}/"

    @property
    def authority(self) -> Path:
        """The certificate of whoever signed the server's."""
        return self._folder / "ca.pem"

    @property
    def is_own(self) -> bool:
        """Whether it may be stopped and killed."""
        return True

    @property
    def is_up(self) -> bool:
        """Whether it takes connections."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def start(self) -> None:
        """Start it where it stopped, and wait until it takes connections."""
        if self.is_up:
            return
        output = (self._folder / "out.log").open("ab")
        with output:
            server = subprocess.Popen(
                [self._program],
                env=self._environment(),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        # Whoever kills it may be another process than the one that started it: it is reaped here,
        # whenever it ends.
        reap(server)
        (self._folder / "server.pid").write_text(str(server.pid))
        watch_over(server.pid, self._end_of_names())
        _wait_for(
            lambda: self.is_up or server.poll() is not None, BOOT_SECONDS, "RabbitMQ to start"
        )
        assert self.is_up, (self._folder / "out.log").read_text()[-3000:]

    def stop(self) -> None:
        """Have it end in good order."""
        self._signal(signal.SIGTERM)
        _wait_for(lambda: not self._lives(), STOP_SECONDS, "RabbitMQ to stop")

    def kill(self) -> None:
        """End it at once, as a power cut does, and wait until nobody takes connections any more."""
        self._signal(signal.SIGKILL)
        _wait_for(lambda: not self._lives() and not self.is_up, STOP_SECONDS, "RabbitMQ to be gone")

    def restart(self) -> None:
        """Stop it in good order, and start it."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End it with everything that belongs to it."""
        end_group(self._pid())
        _wait_for(lambda: not self._lives(), STOP_SECONDS, "RabbitMQ to be gone")
        _wait_for(self._is_without_names, STOP_SECONDS, "the name server to be gone")
        shutil.rmtree(self._folder, ignore_errors=True)

    def ctl(self, *arguments: str, name: str = "rabbitmqctl") -> str:
        """Run `rabbitmqctl` or another of the server's programs; it takes a second or two."""
        program = Path(self._program).with_name(name)
        ran = subprocess.run(
            [str(program), *arguments],
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def vhost(self) -> str:
        """Make a virtual host of its own and return the address of it."""
        name = f"host-{uuid.uuid4().hex[:12]}"
        self.ctl("add_vhost", name)
        self.ctl("set_permissions", "-p", name, USER, ".*", ".*", ".*")
        return f"{self.url}{quote(name, safe='')}"

    def topology(self, **changes: str | tuple[str, ...] | int) -> Topology:
        """Return names that no other test has."""
        return own_topology(**changes)

    def _environment(self) -> dict[str, str]:
        folder, ports = self._folder, self._ports
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"test{ports.amqp}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(ports.amqp),
            "RABBITMQ_DIST_PORT": str(ports.distribution),
            "ERL_EPMD_PORT": str(ports.names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            # The script becomes the server instead of waiting for it: its process id is the
            # server's.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def _end_of_names(self) -> list[str]:
        return ["epmd", "-port", str(self._ports.names), "-kill"]

    def _is_without_names(self) -> bool:
        """End the name server; it stays for as long as it takes the dead server for a living one."""
        subprocess.run(self._end_of_names(), capture_output=True, check=False)
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self._ports.names), timeout=1),
        ):
            return False
        return True

    def _pid(self) -> int:
        return int((self._folder / "server.pid").read_text())

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid(), number)

    def _lives(self) -> bool:
        try:
            state = Path(f"/proc/{self._pid()}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # also while it is being read
            return False
        return state != "Z"


class RunningBroker:
    """A server that somebody else runs; it is used, and left alone."""

    is_own = False
    is_up = True

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = urlsplit(url).port or 5672

    def topology(self, **changes: str | tuple[str, ...] | int) -> Topology:
        """Return names that no other test has."""
        return own_topology(**changes)


def own_topology(**changes: str | tuple[str, ...] | int) -> Topology:
    """Return a topology whose names begin with something that nobody else has."""
    own = uuid.uuid4().hex[:10]
    names: dict[str, str | tuple[str, ...] | int] = {
        "exchange": f"{own}.topic",
        "intake": f"{own}.intake",
        "outlets": (f"{own}.validator", f"{own}.status"),
        "dead_exchange": f"{own}.dlx",
        "dead_queue": f"{own}.dead",
    }
    return Topology(**(names | changes))  # type: ignore[arg-type]


def find_server() -> str:
    """Return the program that runs in the foreground as whoever calls it, not the one that changes
    its user.
    """
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    if not found:
        unavailable(
            "RabbitMQ is not installed (Debian: rabbitmq-server), and WAVEWRIGHT_TEST_AMQP_URL names none"
        )
    return str(found[-1])


@contextmanager
def shared_broker(factory: pytest.TempPathFactory) -> Generator[Broker | RunningBroker]:
    """Return the broker that runs already, or start one of the session's own."""
    if url := os.environ.get("WAVEWRIGHT_TEST_AMQP_URL"):
        yield RunningBroker(url)
        return
    with own_broker(factory, "rabbitmq") as own:
        yield own


@contextmanager
def own_broker(factory: pytest.TempPathFactory, name: str) -> Generator[Broker]:
    """Start a broker of the session's own, or join those who use it; the last one ends it."""
    find_server()
    folder = session_folder(factory) / name
    folder.mkdir(exist_ok=True)
    lock, users, home = folder / "lock", folder / "users", folder / "home"
    with locked(lock):
        count = int(users.read_text()) if users.exists() else 0
        broker = Broker.found(home) if count else Broker.create(home)
        broker.start()
        users.write_text(str(count + 1))
    try:
        yield broker
    finally:
        with locked(lock):
            left = int(users.read_text()) - 1
            users.write_text(str(left))
            if not left:
                broker.close()


@contextmanager
def lent(broker: Broker, factory: pytest.TempPathFactory) -> Generator[Broker]:
    """Lend a broker to one test of the session at a time, which may stop and kill it; it runs when
    it is given out.
    """
    with locked(session_folder(factory) / "rabbitmq-lent"):
        broker.start()
        yield broker


def _wait_for(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if is_so():
            return
        pause.wait(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")


def _encryption(folder: Path, ports: Ports) -> str:
    """Make an authority and a certificate for this machine that it has signed; return the settings
    for them.
    """
    make_authority(folder)
    make_certificate(folder)
    return (
        f"listeners.ssl.1 = 127.0.0.1:{ports.encrypted}\n"
        f"ssl_options.cacertfile = {folder / 'ca.pem'}\n"
        f"ssl_options.certfile = {folder / 'server.pem'}\n"
        f"ssl_options.keyfile = {folder / 'server.key'}\n"
    )


def _definitions() -> dict[str, object]:
    salt = secrets.token_bytes(4)
    password = base64.b64encode(salt + hashlib.sha256(salt + PASSWORD.encode()).digest()).decode()

    def user(name: str, *tags: str) -> dict[str, object]:
        hashed = {"password_hash": password, "hashing_algorithm": "rabbit_password_hashing_sha256"}
        return {"name": name, "tags": [*tags], **hashed}

    return {
        "users": [
            user(USER, "administrator"),
            user(POSTMAN, "impersonator"),
            user(DRIVEN_OUT),
            user(DEAF),
            user(DUMB),
        ],
        "vhosts": [{"name": "/"}],
        "permissions": [
            {"user": name, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
            for name in (USER, POSTMAN, DRIVEN_OUT)
        ]
        + [
            {"user": DEAF, "vhost": "/", "configure": "^$", "write": ".*", "read": "^$"},
            {"user": DUMB, "vhost": "/", "configure": "^$", "write": "^$", "read": ".*"},
        ],
    }


async def clear(url: str, topology: Topology) -> None:
    """Delete what a test has declared."""
    import aio_pika

    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        for queue in topology.queues():
            await channel.queue_delete(queue.name)
        for exchange in topology.exchanges():
            await channel.exchange_delete(exchange)


async def contents(url: str, queue: str) -> list[AbstractIncomingMessage]:
    """Return all messages of a queue, the oldest first; they are gone from it afterwards."""
    import aio_pika

    found = list[AbstractIncomingMessage]()
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        source = await channel.get_queue(queue, ensure=False)
        while message := await source.get(fail=False, no_ack=True):
            found.append(message)
    return found
