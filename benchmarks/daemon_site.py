"""Real daemons on a broker of their own, and what the machine says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import anyio

from tests.support.rabbitmq import Broker

SLOTS: Final = 8
START_SECONDS: Final = 90.0
MIB: Final = 1024

TOOLS: Final = 'async def bump(x: int) -> int:\n    """Add one."""\n    return x + 1\n'


@contextmanager
def broker() -> Generator[str]:
    """Provide a broker of our own and its address."""
    with tempfile.TemporaryDirectory(
        prefix="wavewright-bench-", ignore_cleanup_errors=True
    ) as folder:
        own = Broker.create(Path(folder) / "rabbitmq")
        own.start()
        try:
            yield own.url
        finally:
            own.close()


@dataclass
class Site:
    """A project with names of its own at the broker."""

    url: str
    journal: str | None
    """The address of a database; none where the journal is a file."""
    slots: int = SLOTS
    own: str = field(default_factory=lambda: uuid4().hex[:8])

    @property
    def store(self) -> str:
        """What the tables call its store."""
        return "SQLite, FULL" if self.journal is None else "PostgreSQL"

    def write(self, folder: Path) -> None:
        """Write the project."""
        own = self.own
        (folder / "mine.py").write_text(TOOLS)
        (folder / "wavewright.yaml").write_text(
            "tools: [{path: mine.py, functions: {bump: {}}}]\n"
            f"daemon:\n  exchange: {own}.topic\n  dead_letter_exchange: {own}.dlx\n  slots: {self.slots}\n"
            "  health: 127.0.0.1:0\n"
            f"  queues: {{intake: {own}.in, packages: {own}.packages, decisions: {own}.decisions,"
            f" status: {own}.status, dead: {own}.dead}}\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        """What the daemons are started with."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("WAVEWRIGHT_")
        }
        store = {} if self.journal is None else {"WAVEWRIGHT_PG_URL": self.journal}
        return kept | store | {"WAVEWRIGHT_AMQP_URL": self.url}


class Daemon:
    """One real daemon."""

    def __init__(self, folder: Path, site: Site) -> None:
        self._log = folder / f"log-{uuid4().hex[:6]}"
        self._place = ""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wavewright.engine.main", "daemon"],
                cwd=folder,
                env=site.environment,
                stderr=log,
            )

    async def started(self) -> None:
        """Wait until it takes jobs."""
        with anyio.fail_after(START_SECONDS):
            while '"daemon_started"' not in self._log.read_text():
                if self.process.poll() is not None:
                    raise RuntimeError(self._log.read_text())
                await anyio.sleep(0.02)
        line = next(
            line for line in self._log.read_text().splitlines() if '"health_served"' in line
        )
        self._place = json.loads(line)["place"]

    @property
    def rss(self) -> float:
        """MiB of memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        if "VmRSS:" not in status:
            raise RuntimeError(f"the daemon has ended: {self._log.read_text()[-2000:]}")
        return int(status.partition("VmRSS:")[2].split()[0]) / MIB

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, the system's on its behalf included."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def lag(self) -> float:
        """Seconds that its event loop was late when it was looked at last."""
        with urllib.request.urlopen(f"http://{self._place}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return float(
            next(line for line in lines if line.startswith("wavewright_loop_lag")).split()[1]
        )

    def close(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()


@dataclass(frozen=True)
class Machine:
    """How busy the processors have been: those who measure share them with whatever else runs."""

    busy: int
    idle: int

    @classmethod
    def now(cls) -> Machine:
        """Look at the counters."""
        fields = [
            int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        ]
        idle = fields[3] + fields[4]
        return cls(sum(fields) - idle, idle)

    def since(self) -> str:
        """Return the part of the processors' time that was used since, and the machine's load."""
        later = Machine.now()
        busy, idle = later.busy - self.busy, later.idle - self.idle
        return f"{busy / max(1, busy + idle):.0%}, load {os.getloadavg()[0]:.1f}"
