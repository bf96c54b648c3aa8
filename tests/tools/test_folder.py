"""Files inside one folder: what is refused by its text, by its links, and while somebody swaps
folders.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from wavewright.tools.folder import Folder, PathRefused, path_parts

SHARED_CASES = Path(__file__).parents[3] / "shared" / "cases" / "path_cases.jsonl"

OWN_CASES = [
    ("absolute", "/var/log/syslog"),
    ("double slash", "//server/share/x"),
    ("parent at the end", "a/.."),
    ("parent in the middle", "a/../../b"),
    ("a dot alone", "."),
    ("dots alone", "./."),
    ("parent behind this folder", "./../a"),
    ("dot file in this folder", "./.bashrc"),
    ("empty component", "a//b"),
    ("trailing slash", "a/"),
    ("backslash parent", "..\\x"),
    ("backslash inside", "a\\b"),
    ("UNC", "\\\\server\\share"),
    ("drive", "C:/windows/win.ini"),
    ("data stream", "notes.txt:hidden"),
    ("address", "https://example.org/x"),
    ("variable", "$PWD/x"),
    ("variable in braces", "a/${HOME}"),
    ("home", "~/x"),
    ("another's home", "~root/x"),
    ("NUL", "a\0b"),
    ("newline", "a\nb"),
    ("escape", "a\x1bb"),
    ("delete", "a\x7fb"),
    ("C1 control", "a\x85b"),
    ("half a character", "a\ud800b"),
    ("two dot leader", "\u2025/x"),
    ("full-width dots", "\uff0e\uff0e/x"),
    ("full-width slash", "a\uff0fb"),
    ("division slash", "a\u2215b"),
    ("fraction slash", "a\u2044b"),
    ("encoded slash", "a%2fb"),
    ("encoded dots, upper case", "%2E%2E/x"),
    ("encoded twice", "%252e%252e/x"),
    ("too deep", "/".join(["d"] * 17)),
    ("long component", "a" * 256),
    ("long in bytes", "東" * 86),
    ("long path", "/".join(["a" * 200] * 8)),
    ("dot file", ".bashrc"),
    ("dot folder", "a/.ssh/id"),
    ("right-to-left mark", "a\u200fb"),
    ("isolate", "a\u2066b"),
    ("zero width space", "a\u200bb"),
    ("byte order mark", "\ufeffa"),
    ("line separator", "a\u2028b"),
    ("device", "NUL"),
    ("device with extension", "a/Com1.txt"),
    ("superscript device", "com¹.log"),
    ("console", "CONIN$"),
    ("trailing dot", "a./b"),
    ("trailing space", "a /b"),
    ("short name", "GIT~1/hooks"),
]


@pytest.mark.parametrize("path", [pytest.param(path, id=name) for name, path in OWN_CASES])
def test_a_path_that_is_no_plain_name_is_refused(path: str, tmp_path: Path) -> None:
    with Folder(tmp_path) as folder:
        with pytest.raises(PathRefused):
            folder.open(path)
        with pytest.raises(PathRefused):
            folder.write(path, b"x")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b/c.txt",
        "a.b.c",
        "東/京.txt",
        "naïve.md",
        "with space.txt",
        "a-b_c+d@e",
        "x..y",
        "console.log",
        "a~b",
        "./a.txt",
        "a/./b.txt",
        "././a/b",
    ],
)
def test_a_plain_path_is_written_and_read_back(path: str, tmp_path: Path) -> None:
    with Folder(tmp_path) as folder:
        folder.write(path, b"first")
        folder.write(path, b"second")
        content = folder.read(path, max_bytes=100)

    assert content == b"second"
    assert (tmp_path / path).read_bytes() == b"second"


def _shared_cases() -> list[Any]:
    if not SHARED_CASES.is_file():
        return []
    rows = [json.loads(line) for line in SHARED_CASES.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows if not row.get("race")]


@pytest.mark.skipif(not SHARED_CASES.is_file(), reason="the shared cases are not here")
@pytest.mark.parametrize("case", _shared_cases())
def test_shared_path_cases_are_decided_as_they_say(case: dict[str, Any], tmp_path: Path) -> None:
    for name, target in case.get("fs", {}).items():
        (tmp_path / name).symlink_to(target.removeprefix("->"))

    with Folder(tmp_path) as folder:
        if case["verdict"] == "allow":
            folder.write(case["path"], b"x")
            assert folder.read(case["path"], max_bytes=1) == b"x"
        else:
            with pytest.raises(PathRefused):
                folder.open(case["path"])
            with pytest.raises(PathRefused):
                folder.write(case["path"], b"x")


def test_made_files_and_folders_are_the_owners_alone(tmp_path: Path) -> None:
    with Folder(tmp_path) as folder:
        folder.write("a/b.txt", b"x")

    assert stat.S_IMODE((tmp_path / "a" / "b.txt").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_links_are_refused_wherever_they_lead(tmp_path: Path) -> None:
    inside = tmp_path / "root"
    inside.mkdir()
    (inside / "real.txt").write_text("real")
    (inside / "near").symlink_to("real.txt")
    (inside / "far").symlink_to("/etc/hostname")
    (inside / "up").symlink_to("..")

    with Folder(inside) as folder:
        for path in ("near", "far", "up/root/real.txt"):
            with pytest.raises(PathRefused, match="symbolic link"):
                folder.open(path)
            with pytest.raises(PathRefused, match="symbolic link"):
                folder.write(path, b"x")

        assert [entry.name for entry in folder.entries()] == ["real.txt"]


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()

    with Folder(tmp_path) as folder:
        with pytest.raises(PathRefused, match="no regular file"):
            folder.open("pipe")
        with pytest.raises(PathRefused, match="it is a folder"):
            folder.open("folder")
        with pytest.raises(PathRefused, match="something else than a regular file"):
            folder.write("folder", b"x")


def test_a_missing_file_says_that_it_is_missing(tmp_path: Path) -> None:
    with Folder(tmp_path) as folder, pytest.raises(PathRefused, match="no such file") as refused:
        folder.open("nothing.txt")

    assert refused.value.missing


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)

    with Folder(tmp_path) as folder, pytest.raises(PathRefused, match="larger than 10 bytes"):
        folder.read("big", max_bytes=10)


def test_a_hard_link_to_a_file_outside_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    inside = tmp_path / "root"
    inside.mkdir()
    (inside / "x").hardlink_to(outside)

    with Folder(inside) as folder:
        folder.write("x", b"theirs")

    assert outside.read_text() == "mine"


@pytest.mark.parametrize("writes", [False, True])
def test_a_folder_swapped_for_a_link_never_leads_outside(writes: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """One thread swaps `swap` between a folder and a link to the outside, as fast as it can."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "real").mkdir(parents=True)
    outside.mkdir()
    (root / "real" / "x.txt").write_text("inside")
    (outside / "x.txt").write_text("outside")
    (root / "link").symlink_to(outside)
    stop = threading.Event()
    swaps = 0
    aside = iter(range(10**9))

    def swap_folders() -> None:
        nonlocal swaps
        while not stop.is_set():
            for name in ("real", "link"):
                try:
                    (root / name).rename(root / "swap")
                    (root / "swap").rename(root / name)
                except OSError:  # a writer has made a folder of that name meanwhile
                    (root / "swap").rename(root / f"made-{next(aside)}")
                swaps += 1

    swapper = threading.Thread(target=swap_folders)
    swapper.start()
    opened = refused = 0
    try:
        with Folder(root) as folder:
            while swaps < 10_000 and swapper.is_alive():
                try:
                    if writes:
                        folder.write("swap/x.txt", b"inside")
                    else:
                        assert folder.read("swap/x.txt", max_bytes=10) == b"inside"
                    opened += 1
                except PathRefused:
                    refused += 1
    finally:
        stop.set()
        swapper.join()

    assert swaps >= 10_000
    assert (outside / "x.txt").read_text() == "outside"
    assert sorted(path.name for path in outside.iterdir()) == ["x.txt"]
    assert opened
    assert refused


@given(st.text(max_size=40))
def test_every_text_is_either_refused_or_stays_below_the_folder(path: str) -> None:
    try:
        parts = path_parts(path)
    except PathRefused:
        return

    assert "/".join(parts) == path
    assert os.path.normpath(path) == path
    assert not set(parts) & {"", ".", ".."}
