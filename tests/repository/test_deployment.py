"""The image, the compose file and the systemd unit: judged by the tools of their trades, and held
against the code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import kubernetes_validate
import pytest
import yaml

from tests.repository.tree import PACKAGES, ROOT
from tests.support.prepared_command import run_prepared
from tests.support.session_server import unavailable
from wavewright.config.environment import VARIABLES
from wavewright.config.settings import load_settings
from wavewright.tools.mcp.lock import LOCK_NAME

COMPOSE = cast(
    "dict[str, Any]", yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
)
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
UNIT = ROOT / "docs" / "deploy" / "wavewright.service"
WORKER_UNIT = UNIT.with_name("wavewright-worker@.service")
KUBERNETES = {
    document["kind"]: document
    for document in yaml.safe_load_all(
        (UNIT.parent / "kubernetes" / "workers.yaml").read_text(encoding="utf-8")
    )
}
EXAMPLE = (ROOT / "docs" / "deploy" / "example.env").read_text(encoding="utf-8")


def tool(name: str) -> str:
    """Return a tool of the environment by its path; tests without it are skipped by name, with
    CI=true they fail.
    """
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        unavailable(f"{name} is not there")
    return found


def judged(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    assert judged(tool("hadolint"), "Dockerfile") == ""


def test_the_compose_file_keeps_the_schema_of_compose() -> None:
    assert "ok" in judged(
        tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "compose.yaml"
    )


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_the_files_of_github_keep_their_schemas(schema: str, files: str) -> None:
    names = [str(path.relative_to(ROOT)) for path in ROOT.glob(files)]
    assert names
    judged(tool("check-jsonschema"), "--builtin-schema", schema, *names)


def test_every_action_of_a_workflow_is_pinned_by_its_commit() -> None:
    used = [
        action
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for action in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
    ]

    assert used
    assert [action for action in used if not re.search(r"@[0-9a-f]{40}$", action)] == []


# Not a tool of the environment: a machine, or an image, without systemd has none.
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not there")
@pytest.mark.parametrize("unit", [UNIT, WORKER_UNIT], ids=lambda unit: str(unit.name))
def test_systemd_finds_nothing_in_a_unit_but_that_nothing_is_installed(
    unit: Path, tmp_path: Path
) -> None:
    instance = tmp_path / unit.name.replace("@", "@gpu")
    instance.write_bytes(unit.read_bytes())
    ended = subprocess.run(
        [tool("systemd-analyze"), "verify", str(instance)],
        capture_output=True,
        text=True,
        check=False,
    )

    said = [line for line in ended.stderr.splitlines() if instance.name in line]
    assert all("is not executable" in line for line in said), said


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-zA-Z0-9._-]+)==([^ \\;]+)", text, re.MULTILINE))


def test_the_image_installs_what_the_tests_ran_with() -> None:
    everything, image = pins("requirements.lock"), pins("requirements-daemon.lock")

    assert image.items() <= everything.items()
    assert "pytest" not in image
    assert {"aio-pika", "asyncpg", "hatchling", "opentelemetry-sdk"} <= image.keys()


def test_an_example_run_installs_what_the_tests_ran_with_and_no_more() -> None:
    everything, run = pins("requirements.lock"), pins("requirements-run.lock")

    assert run.items() <= everything.items()
    assert not {"aio-pika", "anthropic", "asyncpg", "pandas", "pyarrow", "pytest"} & run.keys()


def test_every_line_of_the_locks_is_hashed() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        blocks = re.split(r"\n(?=[a-z])", lock.read_text(encoding="utf-8"))
        assert all("--hash=sha256:" in block for block in blocks if "==" in block), lock


def test_nothing_in_the_image_runs_as_root() -> None:
    last_stage = DOCKERFILE.rpartition("\nFROM ")[2]

    assert re.search(r"^USER 10001:10001$", last_stage, re.MULTILINE)


def test_every_room_and_every_file_that_is_built_from_is_in_the_image() -> None:
    copied = set(re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE))

    sent = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
    assert set(PACKAGES) <= copied
    assert {f"!{name}" for names in copied for name in names.split()} <= sent


def test_health_is_asked_where_it_is_served() -> None:
    served = re.search(r"WAVEWRIGHT_HEALTH=0\.0\.0\.0:(\d+)", DOCKERFILE)

    assert served is not None
    assert f"EXPOSE {served[1]}" in DOCKERFILE
    assert f"http://127.0.0.1:{served[1]}/ready" in DOCKERFILE
    assert COMPOSE["services"]["daemon"]["ports"] == [f"127.0.0.1:{served[1]}:{served[1]}"]


def test_the_daemon_waits_for_a_healthy_broker_and_a_healthy_database() -> None:
    services = COMPOSE["services"]

    assert services["daemon"]["depends_on"] == {
        "rabbitmq": {"condition": "service_healthy"},
        "postgres": {"condition": "service_healthy"},
        "lore-store": {"condition": "service_healthy", "required": False},
    }
    assert all("healthcheck" in services[name] for name in ("rabbitmq", "postgres"))


def test_every_variable_of_the_compose_file_is_one_that_the_daemon_knows() -> None:
    given = {
        name
        for service in ("definitions", "daemon", "lore-store", "lore-validator", "worker")
        for name in COMPOSE["services"][service]["environment"]
        if not name.startswith("WAVEWRIGHT_BROKER_PASSWORD_")
    }

    known = {variable.name for variable in VARIABLES.values()} | {"WAVEWRIGHT_STATE"}
    tokens = {f"WAVEWRIGHT_MCP_TOKEN_{role}" for role in ("RESEARCHER", "VALIDATOR")}
    assert given <= known | tokens


def test_the_example_names_every_value_that_the_compose_file_asks_for_and_holds_no_password() -> (
    None
):
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\{(\w+)", text))
    named = dict(re.findall(r"^#? ?([A-Z_]+)=(.*)$", EXAMPLE, re.MULTILINE))

    assert asked <= named.keys()
    assert all(not value for name, value in named.items() if "PASSWORD" in name or "KEY" in name)


def test_the_project_that_the_compose_file_starts_with_has_sound_settings() -> None:
    settings = load_settings(ROOT / "docs" / "deploy" / "project", {})

    assert {identity.user_id for identity in settings.daemon.identities.values()} == {
        "svc_ui",
        "svc_validator",
    }


LORE = ROOT / "docs" / "deploy" / "lore"


def test_the_profile_lore_starts_its_validator_after_a_healthy_broker_and_a_healthy_store() -> None:
    services = COMPOSE["services"]
    profile = {name for name, service in services.items() if service.get("profiles") == ["lore"]}

    assert profile == {"lore-store", "lore-validator"}
    assert services["lore-validator"]["depends_on"] == {
        "rabbitmq": {"condition": "service_healthy"},
        "lore-store": {"condition": "service_healthy"},
    }
    for name in ("lore-store", "lore-validator"):
        mounted = ROOT / services[name]["volumes"][0].partition(":")[0]
        assert (mounted / "wavewright.yaml").is_file()
    [_, _, _, place] = services["lore-store"]["command"]
    assert f"http://{place}/health" in services["lore-store"]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("role", ["researcher", "validator"])
def test_the_projects_of_the_profile_lore_are_locked_to_the_store_as_it_is(
    role: str, tmp_path: Path
) -> None:
    settings = load_settings(LORE / role, {})
    served = f"{{command: '{sys.executable}', args: [-m, wavewright.engine.main, mcp, lore-store, --role, {role}]}}"
    (tmp_path / "wavewright.yaml").write_text(
        f"version: 1\nmcp: {{servers: {{lore-store: {served}}}}}\n"
    )
    locked = run_prepared("tools", "--lock", folder=tmp_path)

    assert locked.returncode == 0, locked.stderr
    assert settings.daemon.pack == "lore"
    assert (tmp_path / LOCK_NAME).read_bytes() == (LORE / role / LOCK_NAME).read_bytes()
    assert (
        settings.mcp.servers["lore-store"].url
        == f"http://{COMPOSE['services']['lore-store']['command'][3]}/mcp"
    )


def test_wrong_configuration_does_not_start_a_unit_again_and_again() -> None:
    for unit in (UNIT, WORKER_UNIT):
        assert "RestartPreventExitStatus=2" in unit.read_text(encoding="utf-8")


def test_kubernetes_takes_the_deployment_of_workers() -> None:
    deployment = KUBERNETES["Deployment"]
    kubernetes_validate.validate(deployment, kubernetes_validate.latest_version(), strict=True)

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {**deployment, "spec": {}}, kubernetes_validate.latest_version(), strict=True
        )


def test_workers_are_scaled_by_the_queue_of_their_database() -> None:
    [trigger] = KUBERNETES["ScaledObject"]["spec"]["triggers"]
    [container] = KUBERNETES["Deployment"]["spec"]["template"]["spec"]["containers"]
    # With the command line of compose.yaml, which a test starts.
    assert container["args"] == COMPOSE["services"]["worker"]["command"]
    slots = container["args"][container["args"].index("--slots") + 1]
    [secret] = KUBERNETES["TriggerAuthentication"]["spec"]["secretTargetRef"]

    assert (
        KUBERNETES["ScaledObject"]["spec"]["scaleTargetRef"]["name"]
        == KUBERNETES["Deployment"]["metadata"]["name"]
    )
    assert (
        trigger["authenticationRef"]["name"]
        == KUBERNETES["TriggerAuthentication"]["metadata"]["name"]
    )
    assert trigger["metadata"]["targetQueryValue"] == slots
    assert {"secretRef": {"name": secret["name"]}} in container["envFrom"]
    assert secret["key"] in {variable.name for variable in VARIABLES.values()}
