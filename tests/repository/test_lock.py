"""requirements.lock pins all that pyproject.toml asks for, by hash, and names no place to fetch it
from.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.tree import ROOT
from wavewright.config.installation import EXTRAS, is_installed

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def pins() -> dict[str, list[Requirement]]:
    """Return the pins of each package; a package may have one for each range of Python versions."""
    found: dict[str, list[Requirement]] = {}
    for line in LOCK.splitlines():
        if match := re.match(r"([A-Za-z0-9][^\\]*?)\s*\\?$", line):
            requirement = Requirement(match.group(1))
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def asked_for() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists: list[list[object]] = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        # What judges a release has a lock of its own, and the benchmarks none.
        *(
            group
            for name, group in project["dependency-groups"].items()
            if name not in ("release", "bench")
        ),
        project["build-system"]["requires"],
    ]
    found = [Requirement(entry) for entries in lists for entry in entries if isinstance(entry, str)]
    return [
        one for one in found if one.name != project["project"]["name"]
    ]  # the extra `all` names the others


def test_every_requirement_is_pinned_to_a_version_that_it_allows() -> None:
    pinned = pins()
    unmet = [
        str(wanted)
        for wanted in asked_for()
        if not pinned.get(canonicalize_name(wanted.name))
        or not all(
            wanted.specifier.contains(next(iter(pin.specifier)).version)
            for pin in pinned[canonicalize_name(wanted.name)]
        )
    ]

    assert unmet == []


def test_each_extra_adds_the_modules_that_its_feature_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = packages_distributions()
    strangers: list[str] = []
    for name, extra in EXTRAS.items():
        wanted = [Requirement(entry) for entry in project["optional-dependencies"][name]]
        added = {canonicalize_name(one.name) for one in wanted} | {
            part for one in wanted for part in one.extras
        }
        for module in extra.modules:
            top = module.partition(".")[0]
            by = {canonicalize_name(distribution) for distribution in brought.get(top, ())} | {top}
            strangers += [module] if not (by & added or module in BROUGHT_ALONG) else []

    assert strangers == []
    assert all(is_installed(name) for name in EXTRAS)
    assert {*EXTRAS, "all"} == set(project["optional-dependencies"])


BROUGHT_ALONG = {"aiormq", "lsprotocol"}
"""Modules that come with a package that an extra names."""


def test_every_pin_is_exact_and_has_a_hash() -> None:
    entries = [entry for entry in re.split(r"\n(?=\S)", LOCK.strip()) if not entry.startswith("#")]
    loose = [
        entry.splitlines()[0]
        for entry in entries
        if "==" not in entry or "--hash=sha256:" not in entry
    ]

    assert entries
    assert loose == []


def test_the_lock_names_no_index_host_or_folder() -> None:
    options = [line for line in LOCK.splitlines() if re.search(r"://|^-|^\s*-(?!-hash)|@ ", line)]

    assert options == []
