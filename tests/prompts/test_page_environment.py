"""The templates of pages, and where their compiled code is kept."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import jinja2
import pytest

from wavewright.prompts.environments import page_environment

PACKAGE = "some_pages"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "wavewright"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    folder = tmp_path / "site" / PACKAGE
    (folder / "templates").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "templates" / "page.html.j2").write_text("<b>{{ name }}</b>", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    return PACKAGE


def render(package: str) -> str:
    return page_environment(package, "templates").get_template("page.html.j2").render(name="<i>")


def refuse_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise AssertionError("a template was compiled")

    monkeypatch.setattr(jinja2.Environment, "compile", refuse)


def test_a_template_is_compiled_once_for_all_processes_of_a_user(
    package: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = render(package)
    refuse_to_compile(monkeypatch)

    assert first == render(package) == "<b>&lt;i&gt;</b>"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_a_template_that_has_changed_is_compiled_again(
    package: str, cache: Path, tmp_path: Path
) -> None:
    render(package)
    (tmp_path / "site" / PACKAGE / "templates" / "page.html.j2").write_text(
        "{{ name }}!", encoding="utf-8"
    )

    assert render(package) == "&lt;i&gt;!"


def test_code_that_others_could_have_written_is_not_run(
    package: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render(package)
    cache.chmod(0o777)
    refuse_to_compile(monkeypatch)

    with pytest.raises(AssertionError, match="compiled"):
        render(package)


def test_pages_are_rendered_where_there_is_no_place_for_compiled_code(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert render(package) == "<b>&lt;i&gt;</b>"
