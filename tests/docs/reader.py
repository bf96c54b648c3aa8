"""A reader who types what the pages say, in a folder of their own, and compares what is shown with
what comes.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO

from tests.docs.blocks import Command
from tests.support.prepared_command import PreparedCommand, RunningCommand, run_python
from wavewright.executor.postgres.driver import display_url

# What differs from run to run and says nothing.
_VARYING = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-z]+\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b"), "<run>"),
    (re.compile(r"sha256:[0-9a-f]+"), "sha256:<hash>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"(?<=<time> )[0-9a-f]{8}\b"), "<job>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s)\b"), "<seconds>"),
    (re.compile(r"\b\d+\.\d+\.\d+(?:\.\d+)?\b"), "<version>"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:days|years) old\b"), "<age> old"),
    (re.compile(r"\bpid \d+ on \S+"), "<owner>"),
    (re.compile(r"\b\d[\d,]* tokens?\b"), "<tokens>"),
    (re.compile(r"\b(?:under )?\d+\.\d{4} USD\b"), "<money>"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
    (re.compile(r" {2,}"), "  "),
)


_PLAIN = re.compile(
    r"(?P<words>(?:wavewright|python|pytest) (?:'[^'\n]*'|[^'|&;<>$`*?(){}\[\]\\#~!\n])+?)(?: > (?P<file>[\w.]+))?"
)
"""A command that a shell would only split into words; its output may go to a file."""
_SET = re.compile(r"export (?P<name>\w+)=(?P<value>\S+)")
_UNSET = re.compile(r"unset (?P<names>[\w ]+)")
_SERVER = re.compile(r"(wavewright fake-model) --port (\d+) (--script \S+) &")
_APP = re.compile(r"(uvicorn \S+) --port (\d+) &")
_STOP = re.compile(r"kill (?P<jobs>%\d(?: %\d)*)")
_INSTALL = re.compile(r"pip install (?P<folder>\./\S+)")
_DAEMON = re.compile(r"wavewright daemon 2> (?P<log>\S+) &")


def normal(text: str) -> str:
    """Return text without what differs from run to run."""
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text.strip("\n")


def agrees(shown: str, printed: str) -> bool:
    """Tell whether printed text is what a page shows, line by line; a line `...` stands for any
    others.

    Steps of one wave end in any order, so the order of the lines says nothing.
    """
    wanted, found = Counter(normal(shown).splitlines()), Counter(normal(printed).splitlines())
    if "..." in wanted:
        del wanted["..."]
        return wanted <= found
    return wanted == found


def brought_up_to_date(shown: str, printed: str) -> str:
    """Return what a page should show: all that was printed, or the same extract of it as before."""
    lines = printed.strip("\n").splitlines()
    if "..." not in shown.splitlines():
        return "\n".join([*lines, ""])
    extract = [line if line == "..." else _nearest(line, lines) for line in shown.splitlines()]
    return "\n".join([*(line for line in extract if line is not None), ""])


def _nearest(line: str, lines: list[str]) -> str | None:
    same = next((other for other in lines if normal(other) == normal(line)), None)
    return same if same is not None else next(iter(get_close_matches(line, lines, n=1)), None)


@dataclass
class Server:
    """A server that a page starts; it listens on a free port in place of the one that the page
    names.
    """

    named: str
    port: str
    running: RunningCommand
    output: TextIO


@dataclass
class Reader:
    """Where the reader is, and how the last command ended."""

    home: Path
    folder: Path
    code: int = 0
    environment: dict[str, str] = field(default_factory=dict[str, str])
    servers: list[Server] = field(default_factory=list["Server"])
    """Servers that the reader has started."""
    database: str | None = None
    """An empty database, for the one that a page names."""
    _named_database: str | None = None
    broker: str | None = None
    """The address of a broker, for the one that a page names."""
    daemons: list[RunningCommand] = field(default_factory=list["RunningCommand"])
    """Daemons that the reader has started and not stopped."""

    @classmethod
    def in_folder(cls, home: Path) -> Reader:
        """Return a reader in a fresh folder."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in {"LANG", "SYSTEMROOT", "TZ"}
        }
        reader = cls(home, home)
        reader.environment = kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
            # Readers do not have it: it comes with the client of the language server's tests.
            "PYTEST_ADDOPTS": "-p no:asyncio",
        }
        return reader

    def type(self, command: str) -> str:
        """Run a command and return all that it prints."""
        if command == "echo $?":
            return f"{self.code}\n"
        self.code = 0  # what is not a program of its own cannot fail here
        if command.startswith("cd "):
            self.folder = (self.folder / command.removeprefix("cd ")).resolve(strict=True)
            return ""
        if (printed := self._keep_running(command)) is not None:
            return printed
        if setting := _SET.fullmatch(command):
            if setting["name"] == "WAVEWRIGHT_PG_URL":
                self._named_database = setting["value"]
            if setting["name"] == "WAVEWRIGHT_AMQP_URL" and self.broker is not None:
                self.environment[setting["name"]] = self.broker
                return ""
            self.environment[setting["name"]] = self._there(setting["value"])
            return ""
        if unset := _UNSET.fullmatch(command):
            for name in unset["names"].split():
                del self.environment[name]
            return ""
        typed = self._there(command)
        if plain := _PLAIN.fullmatch(typed):
            return self._run_prepared(shlex.split(plain["words"]), plain["file"])
        return self._run(["sh", "-c", typed])

    def _keep_running(self, command: str) -> str | None:
        """Start or stop what runs beside the reader, or install what runs; None for others."""
        if server := _SERVER.fullmatch(command) or _APP.fullmatch(command):
            self._serve(*server.groups())
            return ""
        if daemon := _DAEMON.fullmatch(command):
            self._begin_daemon(daemon["log"])
            return ""
        if stop := _STOP.fullmatch(command):
            for _ in stop["jobs"].split():
                self._stop_daemon()
            return ""
        if install := _INSTALL.fullmatch(command):
            return self._install(install["folder"])
        return None

    def run_python(self, program: str) -> str:
        """Run a program and return all that it prints."""
        return self._run_prepared(["python", "-c", program])

    def save(self, name: str, text: str) -> None:
        """Save a file as a page says."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._there(text), encoding="utf-8")

    def leave(self) -> None:
        """Stop what was started."""
        for running in (*(server.running for server in self.servers), *self.daemons):
            running.send_signal(signal.SIGKILL)
            running.wait()
        for server in self.servers:
            server.output.close()

    def _install(self, folder: str) -> str:
        """Install a package of the reader's own beside the others, which it leaves as they are."""
        site = self.home / "site-packages"
        self.environment["PYTHONPATH"] = str(site)
        quiet = "--quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check"
        return self._run(
            [sys.executable, "-m", "pip", "install", *quiet.split(), "--target", str(site), folder]
        )

    def _begin_daemon(self, name: str) -> None:
        """Start a daemon and wait until it takes jobs, as a reader does who looks into its log."""
        log = self.folder / name
        daemon = PreparedCommand(["daemon"], self.folder, self.environment, log)
        self.daemons.append(daemon)
        for _ in range(600):
            if '"daemon_started"' in log.read_text() or daemon.poll() is not None:
                break
            threading.Event().wait(0.1)
        assert '"daemon_started"' in log.read_text(), log.read_text()

    def _stop_daemon(self) -> None:
        daemon = self.daemons.pop(0)
        daemon.send_signal(signal.SIGTERM)
        self.code = daemon.wait()

    def _serve(self, served: str, port: str, script: str = "") -> None:
        """Start a server, and wait until it says where it listens."""
        read, written = os.pipe()
        running = self._start([*served.split(), "--port", "0", *script.split()], written, written)
        os.close(written)
        output = os.fdopen(read, encoding="utf-8")
        told = ""
        listening = None
        while listening is None and (line := output.readline()):
            told += line
            listening = re.search(r"http://[\d.]+:(\d+)", line)
        self.servers.append(Server(port, listening[1] if listening else port, running, output))
        assert listening, told

    def _there(self, text: str) -> str:
        """Return a text with the ports that the reader's servers have in place of those that the
        page names.
        """
        for server in self.servers:
            text = text.replace(f"127.0.0.1:{server.named}", f"127.0.0.1:{server.port}")
        if self._named_database is not None and self.database is not None:
            text = text.replace(self._named_database, self.database)
        return text

    def _here(self, text: str) -> str:
        for server in self.servers:
            text = text.replace(f"127.0.0.1:{server.port}", f"127.0.0.1:{server.named}")
        if self._named_database is not None and self.database is not None:
            # Shown without a password, wherever it is shown.
            text = text.replace(display_url(self.database), display_url(self._named_database))
        return text

    def follow(self, command: Command, *, is_code_shown: bool) -> tuple[str, str | None]:
        """Type a command; return what it printed, and what is wrong with that, if anything."""
        printed = self.type(command.text)
        if self.code and command.text != "echo $?" and not is_code_shown:
            return (
                printed,
                f"line {command.line}: {command.text!r} ended with {self.code}:\n{printed}",
            )
        if command.shown.strip() and not agrees(command.shown, printed):
            return (
                printed,
                f"line {command.line}: {command.text!r} printed:\n{printed}\nbut the page shows:\n{command.shown}",
            )
        return printed, None

    def _start(self, words: list[str], output: int, errors: int) -> PreparedCommand:
        match words:
            case ["wavewright", *arguments]:
                target = None
            case ["python", *arguments]:
                target = run_python
            case _:  # a module that is a program, too
                arguments, target = ["-m", *words], run_python
        return PreparedCommand(
            arguments, self.folder, self.environment, output, errors, target=target
        )

    def _run_prepared(self, words: list[str], file: str | None = None) -> str:
        printed = self.home.with_suffix(".printed")
        with (
            printed.open("wb") as shown,
            (self.folder / file).open("wb") if file else nullcontext(shown) as output,
        ):
            self.code = self._start(words, output.fileno(), shown.fileno()).wait()
        return self._here(
            printed.read_text(encoding="utf-8").replace(str(self.home.resolve()), "~")
        )

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.code = done.returncode
        return self._here(done.stdout.replace(str(self.home.resolve()), "~"))
