"""The wheel as users get it: built from the sdist, installed where neither the checkout nor its
tools are in sight.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.tree import PACKAGES, ROOT, module_name, project_files, shipped_modules
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

JOB = "plans/words.job.yaml"
"""In the project that `init` writes."""

IMPORT_EVERYTHING = """
import importlib, pkgutil, wavewright
for module in pkgutil.walk_packages(wavewright.__path__, "wavewright."):
    importlib.import_module(module.name)
    print(module.name)
"""


@dataclass(frozen=True)
class Installation:
    """A virtual environment that holds the wheel and what the wheel says it needs, nothing else."""

    bin: Path
    site: Path
    empty: Path

    def run(
        self, *command: str, folder: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment = {**kept, **variables}
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=folder or self.empty,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )


def build(target: str, source: Path, destination: Path) -> Path:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            target,
            "--directory",
            str(destination),
        ],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = destination.iterdir()
    return built


def pip() -> list[str]:
    """Return a pip that can install into another environment: ours, or the system's where ours has
    none.
    """
    if (
        subprocess.run(
            [sys.executable, "-c", "import pip"], check=False, capture_output=True
        ).returncode
        == 0
    ):
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if found is None:
        pytest.skip("no pip to install the wheel with")
    return [found]


def runtime_distributions(*, with_extras: bool) -> list[Distribution]:
    """Return what pyproject.toml says the wheel needs at run time, with what that needs in turn."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [
        project["dependencies"],
        *(project["optional-dependencies"].values() if with_extras else ()),
    ]
    waiting = [Requirement(entry) for entries in lists for entry in entries]
    found: dict[str, Distribution] = {}
    seen = set[tuple[str, ...]]()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = {"", *wanted.extras}
        asked = (name, *sorted(wanted.extras))
        is_other = wanted.marker is not None and not wanted.marker.evaluate({"extra": ""})
        if (
            name == project["name"] or asked in seen or is_other
        ):  # the extra `all` names the project itself
            continue
        seen.add(asked)
        found[name] = distribution(wanted.name)
        needs = [Requirement(entry) for entry in found[name].requires or ()]
        waiting += [
            Requirement(str(need).partition(";")[0])
            for need in needs
            if not need.marker or any(need.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return list(found.values())


def link_distributions(site: Path, *, with_extras: bool) -> None:
    """Put the run-time requirements, and only them, into an environment, without a network."""
    for installed in runtime_distributions(with_extras=with_extras):
        for root in {
            root_of(installed, Path(file))
            for file in installed.files or ()
            if file.parts[0] not in {"..", "__pycache__"}
        }:
            link = site / root
            if not link.exists():
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(Path(str(installed.locate_file(root))))


def root_of(installed: Distribution, file: Path) -> Path:
    """Return the part of a distribution that a file lies in; a namespace such as `google` is shared
    with others.
    """
    top = Path(str(installed.locate_file(file.parts[0])))
    is_namespace = (
        top.is_dir() and top.suffix != ".dist-info" and not (top / "__init__.py").exists()
    )
    return Path(*file.parts[:2]) if is_namespace else Path(file.parts[0])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    sdist = build("sdist", ROOT, folder / "sdist")
    with tarfile.open(sdist) as archive:
        # Python 3.11 has the filter from 3.11.4 on; the archive is our own.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder / "source")  # noqa: S202
    (source,) = (folder / "source").iterdir()
    return build("wheel", source, folder / "wheel")


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    installed = new_environment(tmp_path_factory.mktemp("installed"), with_extras=True)
    python = str(installed.bin / "python")
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run(
        [*pip(), "--python", python, "install", *options, str(wheel)],
        check=True,
        capture_output=True,
    )
    return installed


@pytest.fixture(scope="module")
def core(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The same files of the wheel, compiled once, without any extra."""
    core = new_environment(tmp_path_factory.mktemp("core"), with_extras=False)
    for installed in installation.site.glob("wavewright*"):
        (core.site / installed.name).symlink_to(installed)
    for command in installation.bin.glob("wavewright*"):
        text = command.read_text(encoding="utf-8").replace(str(installation.bin), str(core.bin))
        (core.bin / command.name).write_text(text, encoding="utf-8")
        (core.bin / command.name).chmod(0o755)
    return core


@pytest.fixture
def mine(starter_project: Path, tmp_path: Path) -> Path:
    """A project as `init` writes it."""
    return shutil.copytree(starter_project, tmp_path / "mine")


def new_environment(home: Path, *, with_extras: bool) -> Installation:
    """Return an environment with the run-time requirements and without the wheel."""
    venv.create(home / "venv", with_pip=False, symlinks=True)
    (site,) = (home / "venv" / "lib").glob("python*/site-packages")
    link_distributions(site, with_extras=with_extras)
    (home / "empty").mkdir()
    return Installation(home / "venv" / "bin", site, home / "empty")


def test_the_command_answers_with_its_version(installation: Installation) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]

    shown = installation.run("wavewright", "--version")

    assert (shown.stdout, shown.returncode) == (f"wavewright {version}\n", 0)


def test_every_module_of_the_checkout_can_be_imported_with_only_what_the_wheel_asks_for(
    installation: Installation,
) -> None:
    shown = installation.run("python", "-c", IMPORT_EVERYTHING)
    packages = {name for name in map(module_name, shipped_modules()) if is_importable(name)}

    assert shown.stderr == ""
    assert set(shown.stdout.split()) == packages


def is_importable(name: str) -> bool:
    """Tell whether a file is a module, not a part of the project that `init` writes: no package
    leads to those.
    """
    parts = name.split(".")
    return all(
        (ROOT / parts[1] / Path(*parts[:depth]) / "__init__.py").is_file()
        for depth in range(2, len(parts))
    )


def test_the_wheel_ships_every_file_of_the_packages_and_no_other(
    installation: Installation,
) -> None:
    packages = {
        path.relative_to(ROOT / path.relative_to(ROOT).parts[0]).as_posix()
        for path in project_files()
        if path.relative_to(ROOT).parts[0] in PACKAGES
    }
    shipped = {
        path.relative_to(installation.site).as_posix()
        for path in (installation.site / "wavewright").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }

    assert shipped == packages


def test_the_wheel_adds_one_name_to_what_users_can_import(installation: Installation) -> None:
    record = (next(installation.site.glob("wavewright-*.dist-info")) / "RECORD").read_text(
        encoding="utf-8"
    )
    roots = {re.split(r"[/,]", line)[0] for line in record.splitlines()} - {".."}

    assert {root for root in roots if not root.endswith(".dist-info")} == {"wavewright"}


def test_the_stocks_job_runs_from_the_wheel_alone(
    installation: Installation, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "plans", tmp_path / "plans")

    shown = installation.run("wavewright", "run", "plans/stocks.job.yaml", folder=tmp_path)

    assert shown.returncode == 0, shown.stdout + shown.stderr


def test_the_core_needs_no_more_than_45_packages() -> None:
    assert len(runtime_distributions(with_extras=False)) <= 45


def test_the_core_makes_checks_simulates_and_runs_a_project(
    core: Installation, tmp_path: Path
) -> None:
    core.run("wavewright", "init", "mine", folder=tmp_path)
    commands = (
        ["check", JOB],
        ["dry-run", JOB],
        ["dry-run", JOB, "--simulate"],
        ["run", JOB],
        ["runs"],
        ["doctor"],
    )

    ended = [core.run("wavewright", *command, folder=tmp_path / "mine") for command in commands]

    assert [one.returncode for one in ended] == [0] * len(commands), [one.stderr for one in ended]
    assert "GOAL ACHIEVED" in ended[3].stdout


def test_the_core_lists_no_tools_of_packs_whose_extra_is_missing(
    core: Installation, mine: Path
) -> None:
    settings = mine / "wavewright.yaml"

    listed = core.run("wavewright", "tools", folder=mine).stdout
    every = core.run("wavewright", "tools", "--all", folder=mine).stdout
    settings.write_text(
        f"{settings.read_text()}\npacks: {{equities: {{prices: prices}}}}\n", encoding="utf-8"
    )
    configured = core.run("wavewright", "tools", folder=mine).stdout

    assert "list_notes(" in listed
    assert "fetch_stock_data(" not in listed
    assert "fetch_stock_data(" in configured
    assert "summarize_content(" in every
    assert "fetch_stock_data(" not in every


def test_the_core_asks_an_openai_compatible_model(
    core: Installation, mine: Path, model_server: FakeModelServer
) -> None:
    model_server.answer("ready")

    asked = core.run("wavewright", "doctor", folder=mine, **model_server.environment())

    assert "answered in" in asked.stdout
    assert asked.returncode == 0, asked.stdout


@pytest.mark.parametrize(
    ("command", "variables", "extra"),
    [
        pytest.param(["daemon"], {}, "daemon", id="daemon"),
        pytest.param(["submit", JOB], {}, "daemon", id="submit"),
        pytest.param(["daemon", "--tail"], {}, "daemon", id="tail"),
        pytest.param(["mcp"], {}, "mcp", id="mcp"),
        pytest.param(["view"], {}, "view", id="view"),
        pytest.param(["play"], {}, "view", id="play"),
        pytest.param(["worker"], {}, "fleet", id="worker"),
        pytest.param(["fake-model", "--script", "x.yaml"], {}, "testing", id="fake-model"),
        pytest.param(
            ["runs"],
            {"WAVEWRIGHT_JOURNAL": "postgresql://127.0.0.1/none"},
            "postgres",
            id="postgres",
        ),
        pytest.param(
            ["run", JOB],
            {"WAVEWRIGHT_MODEL": "anthropic:claude-opus-5", "ANTHROPIC_API_KEY": "sk-ant-test"},
            "anthropic",
            id="anthropic",
        ),
        pytest.param(
            ["run", JOB],
            {"WAVEWRIGHT_MODEL": "google:gemini-3-pro", "GOOGLE_API_KEY": "test"},
            "google",
            id="google",
        ),
    ],
)
def test_a_feature_whose_extra_is_missing_says_which_command_adds_it(
    core: Installation, mine: Path, command: list[str], variables: dict[str, str], extra: str
) -> None:
    refused = core.run("wavewright", *command, folder=mine, **variables)

    assert f"pip install 'wavewright[{extra}]'" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.returncode == 2
