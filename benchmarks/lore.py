"""Research of many zones in one job without a model: seconds a zone, memory on the way, and fetches
of each page.

The site is served on the loopback by a process of its own, which counts what is asked for; the job
runs in another one, whose memory is sampled whenever so many zones have ended.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from typing_extensions import override

from benchmarks.measure import show_table

ZONES: Final = 300
SAMPLES: Final = (100, 200, 300)
"""Zones that have ended when the memory is sampled."""


@dataclass(frozen=True, slots=True)
class Research:
    """What became of the research of a generated world."""

    zones: int
    """Zones that have a package."""
    seconds: float
    memory: dict[int, float]
    """MiB that the process holds, by zones that have ended."""
    fetches: Counter[str]
    """How often each path was asked for."""


def world_pages(zones: int) -> dict[str, str]:
    """Return the pages of a world by path; zone k leads to the zones 2k and 2k + 1, so that all
    follow from the first.

    Each zone has a page of its own, one of a character and one of an item; four factions are
    shared.
    """
    pages = {
        "/index.html": _page(
            "Archive of the Isles",
            _links([(f"/zones/{k}.html", _zone(k)) for k in range(1, zones + 1)]),
        )
    }
    for faction in range(4):
        pages[f"/factions/{faction}.html"] = _page(
            f"League {faction}",
            f"<p>The League {faction} is a faction of merchants that keeps the harbours.</p>",
        )
    for k in range(1, zones + 1):
        exits = [
            (f"{one}.html", _zone(one)) for one in (k // 2, 2 * k, 2 * k + 1) if 1 <= one <= zones
        ]
        pages[f"/zones/{k}.html"] = _page(
            _zone(k),
            f"<table class=infobox><tr><th>Levels</th><td>{k}–{k + 4}</td></tr>"
            f"<tr><th>Exits</th><td>{', '.join(_link(*one) for one in exits)}</td></tr></table>"
            f"<p>{_zone(k)} is an island of the northern sea. {_story(k)}</p>"
            f"<h2>Who is here</h2>{_links([(f'../people/{k}.html', _keeper(k))])}"
            f"<h2>Items</h2>{_links([(f'../items/{k}.html', _bell(k))])}"
            f"<h2>Factions</h2>{_links([(f'../factions/{k % 4}.html', f'League {k % 4}')])}",
        )
        pages[f"/people/{k}.html"] = _page(
            _keeper(k),
            "<dl class=infobox><dt>Role</dt><dd>keeper</dd><dt>Location</dt>"
            f"<dd>{_link(f'../zones/{k}.html', _zone(k))}</dd></dl>"
            f"<p>{_keeper(k)} is a keeper of the light on {_zone(k)}, patient and proud. {_story(k + 1)}</p>",
        )
        pages[f"/items/{k}.html"] = _page(
            _bell(k),
            f"<p>{_bell(k)} is a bell that hangs in {_link(f'../zones/{k}.html', _zone(k))}. {_story(k + 2)}</p>",
        )
    return pages


def _zone(k: int) -> str:
    return f"Isle {_word(k)}"


def _keeper(k: int) -> str:
    return f"{_word(k)} Orrin"


def _bell(k: int) -> str:
    return f"Bell of {_word(k)}"


def _word(k: int) -> str:
    """Return a name of its own for each number."""
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    syllables = list[str]()
    for _ in range(3):
        k, c = divmod(k, len(consonants))
        k, v = divmod(k, len(vowels))
        syllables.append(consonants[c] + vowels[v])
    return "".join(syllables).capitalize()


def _story(k: int) -> str:
    return " ".join(
        f"In the winter of year {k + n} the sea took {n + 2} of its boats and gave none back."
        for n in range(8)
    )


def _page(title: str, body: str) -> str:
    head = f"<!doctype html><html lang=en><head><title>{title}</title></head>"
    return f"{head}<body><main><h1>{title}</h1>{body}</main></body></html>"


def _link(path: str, name: str) -> str:
    return f'<a href="{path}">{name}</a>'


def _links(named: Sequence[tuple[str, str]]) -> str:
    return f"<ul>{''.join(f'<li>{_link(*one)}</li>' for one in named)}</ul>"


@contextlib.contextmanager
def served(pages: dict[str, str], fetches: Counter[str]) -> Generator[str]:
    """Serve pages on the loopback and count what is asked for; yield host and port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            fetches[self.path] += 1
            page = pages.get(self.path)
            body = (page or "").encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def research_world(folder: Path, zones: int, samples: Sequence[int]) -> Research:
    """Research every zone of a generated world from its first one, in a process of its own."""
    fetches = Counter[str]()
    with served(world_pages(zones), fetches) as place:
        search = {"provider": "local", "site": f"http://{place}/index.html", "max_pages": 5_000}
        rates = {"requests_per_minute": 10_000, "requests_per_host_per_minute": 10_000}
        job = {
            "name": "isles",
            "goal_template": "zone_research",
            "inputs": {"game": "Isles"},
            "targets": {"first": [_zone(1)], "depth": zones.bit_length(), "most": zones},
            "tools": {"lore": {"web": {"allow_private": [place], "search": search, **rates}}},
        }
        (folder / "isles.job.yaml").write_text(json.dumps(job))
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        printed = subprocess.run(  # noqa: S603 - this very module
            [sys.executable, "-m", "benchmarks.lore", str(folder), *map(str, samples)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ).stdout
    found = json.loads(printed.splitlines()[-1])
    memory = {int(at): float(held) for at, held in found["memory"].items()}
    return Research(found["zones"], found["seconds"], memory, fetches)


class _Watched(io.StringIO):
    """Standard output of a run: its events are counted and forgotten."""

    def __init__(self, samples: Sequence[int]) -> None:
        super().__init__()
        self.ended = self.achieved = 0
        self.memory: dict[int, float] = {}
        self._samples = frozenset(samples)

    @override
    def write(self, text: str) -> int:
        for line in text.splitlines():
            if '"target_completed"' in line or '"target_failed"' in line:
                self.ended += 1
                self.achieved += '"achieved"' in line
                if self.ended in self._samples:
                    self.memory[self.ended] = _held()
        return len(text)


def _held() -> float:
    """Return the MiB that this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _run(folder: Path, samples: Sequence[int]) -> dict[str, object]:
    from wavewright.engine.main import main

    os.chdir(folder)
    watched, started = _Watched(samples), time.perf_counter()
    with contextlib.redirect_stdout(watched), contextlib.redirect_stderr(io.StringIO()):
        code = main(["run", "isles.job.yaml", "--json", "--output", "out"])
    assert code == 0, code
    return {
        "zones": watched.achieved,
        "seconds": time.perf_counter() - started,
        "memory": watched.memory,
    }


def measure_lore() -> None:
    """Print seconds a zone, the memory after 100, 200 and 300 zones, and the most fetches of one
    page.
    """
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as name:
        done = research_world(Path(name), ZONES, SAMPLES)
    memory = [f"{done.memory[at]:.0f}" for at in SAMPLES]
    show_table(
        "Research of a world without a model",
        [
            "zones",
            "seconds a zone",
            *(f"MiB at {at}" for at in SAMPLES),
            "pages",
            "most fetches of a page",
        ],
        [
            [
                done.zones,
                f"{done.seconds / done.zones:.2f}",
                *memory,
                len(done.fetches),
                max(done.fetches.values()),
            ]
        ],
    )


if __name__ == "__main__":
    print(json.dumps(_run(Path(sys.argv[1]), [int(one) for one in sys.argv[2:]])))
