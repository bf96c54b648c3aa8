"""What is served over HTTP behind a real nginx with TLS, by the recipe of the documentation."""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.engine.interfaces.cli.mcp_server.test_http import INITIALIZE
from tests.engine.interfaces.view.served_page import command, write_project
from tests.support.certificates import make_authority, make_certificate
from tests.support.nginx import PROGRAM, free_port, nginx

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        PROGRAM is None, reason="no nginx here; `make test` installs one where it can"
    ),
]

PAGE = Path(__file__).parents[5] / "docs" / "how-to" / "behind-a-proxy.md"


def recipe(path: str, port: int) -> str:
    """Return the documentation's recipe for a path and the port that is served."""
    found = re.search(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1].replace("/ww/", path).replace("8080", str(port))


@dataclass(frozen=True)
class Site:
    """A host with a proxy that offers what is served at ports of this machine."""

    folder: Path
    origin: str
    page_port: int
    mcp_port: int

    def client(self) -> httpx.Client:
        """Return a client that trusts the proxy's certificate."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        return httpx.Client(base_url=self.origin, verify=context, trust_env=False)


@contextmanager
def proxied(folder: Path) -> Generator[Site]:
    """Run the proxy."""
    make_authority(folder)
    make_certificate(folder)
    site = Site(folder, f"https://localhost:{(port := free_port())}", free_port(), free_port())
    locations = recipe("/ww/", site.page_port) + recipe("/agents/", site.mcp_port)
    with nginx(folder, port, folder / "server.pem", folder / "server.key", locations):
        yield site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (home := tmp_path / "proxy").mkdir()
    with proxied(home) as found:
        yield found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (folder := tmp_path / "project").mkdir()
    return write_project(folder)


def test_the_live_page_is_used_below_a_path_of_a_host_with_tls(site: Site, project: Path) -> None:
    with command(project, "run", "posting.plan.yaml", "--approve", "wait") as run:
        run.wait()
    with ExitStack() as stack:
        public = f"{site.origin}/ww/"
        place = f"127.0.0.1:{site.page_port}"
        served = stack.enter_context(
            command(project, "view", "--listen", place, "--public-url", public)
        )
        found = re.search(r"https://\S+", served.stdout.readline())
        assert found is not None
        client = stack.enter_context(site.client())

        first = client.get(found[0])
        home = client.get(first.headers["location"])
        decisions = client.get("/ww/decisions")
        [question] = client.get("/ww/api/v1/decisions").json()
        answer = {"choice": "refuse", "by": "ada"}
        address = f"/ww/decisions/{question['id']}"
        foreign = client.post(address, data=answer, headers={"Origin": "https://evil.example"})
        own = client.post(address, data=answer, headers={"Origin": site.origin})

        assert found[0].startswith(f"{public}?token=")
        assert first.headers["set-cookie"].startswith("__Host-wavewright")
        assert home.status_code == 200
        shown = home.text + decisions.text
        assert not re.findall(r'(?:href|src|action)="/(?!ww/)', shown)
        links = set(re.findall(r'(?:href|src)="(/[^"]*)"', shown))
        assert {link: client.get(link).status_code for link in links} == dict.fromkeys(links, 200)
        assert len(links) > 5
        assert foreign.status_code == 403
        assert own.status_code == 303
        assert own.headers["location"].startswith("/ww/decisions?run=")
        assert client.get(own.headers["location"]).status_code == 200
        assert client.get("/ww").headers["location"] in {"/ww/", public}


def test_a_stream_arrives_through_the_proxy_while_the_run_goes_on(
    site: Site, project: Path
) -> None:
    with (
        command(
            project,
            *("view", "--listen", f"127.0.0.1:{site.page_port}"),
            *("--public-url", f"{site.origin}/ww/"),
        ) as served,
        command(project, "run", "waiting.plan.yaml") as run,
        site.client() as client,
    ):
        found = re.search(r"https://\S+", served.stdout.readline())
        assert found is not None
        client.get(found[0])
        runs: list[dict[str, str]] = []
        while not runs:
            runs = client.get("/ww/api/v1/runs").json()["runs"]
        kinds: list[str] = []
        with client.stream("GET", f"/ww/runs/{runs[0]['run']}/stream") as stream:
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    # The run goes on once its first event has arrived, and not before.
                    (project / "one.txt").touch()
                    (project / "two.txt").touch()
                    kinds.append(line.removeprefix("event: "))

        assert (kinds[0], kinds[-1]) == ("changed", "ended")
        assert run.wait() == 0


def test_an_mcp_server_is_used_below_another_path(site: Site, project: Path) -> None:
    with (
        command(
            project,
            *("mcp", "--http", f"127.0.0.1:{site.mcp_port}"),
            *("--public-url", f"{site.origin}/agents/"),
        ) as served,
        site.client() as client,
    ):
        place = served.stdout.readline().split()[-1]
        token = served.stdout.readline().removeprefix("token: ").strip()
        headers = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}",
            "Origin": site.origin,
        }
        answer = client.post(place, json=INITIALIZE, headers=headers)
        refused = client.post(
            place, json=INITIALIZE, headers={**headers, "Origin": "https://evil.example"}
        )

        assert place == f"{site.origin}/agents/mcp"
        assert '"name":"wavewright"' in answer.text
        assert refused.status_code == 403
